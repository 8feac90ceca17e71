package extract

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
)

// Version is the version of the readers. A new kind of document must raise it, because stored texts of an older version are
// read again.
const Version = 6

// An ending describes the files whose names end with it. endings is the only table of endings of documents:
// the drive, uploads and the chat's file dialog read it.
type ending struct {
	mediaType string   // for files without another; empty if their content decides
	text      textKind // of files that are texts
	document  bool     // visitors may attach it as a document
	zip       bool     // a package of office files, whose content must agree
}

var endings = map[string]ending{
	".docx": {mediaType: "application/vnd.openxmlformats-officedocument.wordprocessingml.document", document: true, zip: true},
	".xlsx": {mediaType: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", document: true, zip: true},
	".pptx": {mediaType: "application/vnd.openxmlformats-officedocument.presentationml.presentation", document: true, zip: true},
	".html": {mediaType: "text/html", text: kindHTML, document: true}, ".htm": {mediaType: "text/html", text: kindHTML, document: true},
	".xhtml": {text: kindHTML, document: true},
	".eml":   {mediaType: "message/rfc822", text: kindEML, document: true}, ".mht": {text: kindEML, document: true}, ".mhtml": {text: kindEML, document: true},
	".json": {mediaType: "application/json", text: kindJSON}, ".jsonl": {mediaType: "application/x-ndjson", text: kindJSON}, ".ndjson": {mediaType: "application/x-ndjson", text: kindJSON},
	".geojson": {text: kindJSON}, ".ipynb": {text: kindJSON},
}

// TypeOf returns the media type of a document by the ending of its name; empty if the ending is not
// that of a document, or its content decides.
func TypeOf(name string) string { return endings[strings.ToLower(path.Ext(name))].mediaType }

// IsDocument reports whether a file is a document with texts, such as a Word file, a page or a mail, by its
// ending and its first bytes.
func IsDocument(name string, head []byte) bool {
	e := endings[strings.ToLower(path.Ext(name))]
	return e.document && (!e.zip || bytes.HasPrefix(head, []byte("PK\x03\x04")))
}

// DocumentEndings returns the endings of documents, sorted.
func DocumentEndings() []string {
	list := slices.Sorted(maps.Keys(endings))
	return slices.DeleteFunc(list, func(e string) bool { return !endings[e].document })
}
