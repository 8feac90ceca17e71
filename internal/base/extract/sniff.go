package extract

import (
	"bytes"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// HeadBytes is the number of bytes that [Sniff] needs, because net/http's detection considers no more.
const HeadBytes = 512

// Sniff returns the kind of a file by its first bytes, then by its type and its ending. text
// reports whether the whole content is valid UTF-8 without NUL.
func Sniff(name, mediaType string, head []byte, text bool) Kind {
	switch kind := kindOf(Document{Name: name, MediaType: mediaType}); {
	case len(head) == 0:
		return Plain
	case isPDF(head), bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte(`{\rtf`)):
		return Readable
	case binary(head):
		return Unreadable
	case kind != kindText, text && isHTML(name, head), bytes.Contains(head, []byte("\x1b$B")): // ISO-2022-JP is of ASCII characters
		return Readable
	case text:
		return Plain
	}
	return Readable
}

// KindOf is [Sniff] for a whole content. JSON without escaped letters is [Plain], so that no
// child is started for it.
func KindOf(name, mediaType string, content []byte) Kind {
	text := utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
	if text && kindOf(Document{Name: name, MediaType: mediaType}) == kindJSON && !bytes.Contains(content, []byte(`\u`)) {
		return Plain
	}
	return Sniff(name, mediaType, content[:min(len(content), HeadBytes)], text)
}

// isHTML reports whether a file without an ending of its own kind begins as HTML does.
func isHTML(name string, head []byte) bool {
	if !slices.Contains([]string{"", ".txt", ".doc", ".xls", ".asp", ".aspx"}, strings.ToLower(path.Ext(name))) {
		return false
	}
	head = bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	return bytes.HasPrefix(head, []byte("<!doctype html")) || bytes.HasPrefix(head, []byte("<html"))
}

// binaries are the beginnings of files without text that net/http does not recognize.
var binaries = []string{
	"\x1f\x8b", "\x7fELF", "\xfd7zXZ\x00", "7z\xbc\xaf\x27\x1c", "Rar!\x1a\x07", "\x28\xb5\x2f\xfd", "BZh91AY&SY",
	"SQLite format 3\x00", "\x00asm", "\xca\xfe\xba\xbe", "\xcf\xfa\xed\xfe", "II*\x00", "MM\x00*", "\xffOqc",
}

// binary reports whether a content begins as one of the common kinds without text: images,
// sounds, videos, fonts, programs, archives.
func binary(head []byte) bool {
	head = head[:min(len(head), HeadBytes)]
	if slices.ContainsFunc(binaries, func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }) {
		return true
	}
	found := http.DetectContentType(head)
	if found == "image/bmp" || found == "audio/basic" || found == "application/postscript" { // because their marks are letters
		return found == "image/bmp" && len(head) > 10 && bytes.Equal(head[6:10], []byte{0, 0, 0, 0})
	}
	kind, _, _ := strings.Cut(found, "/")
	return slices.Contains([]string{"image", "audio", "video", "font"}, kind) || found == "application/x-gzip" || found == "application/vnd.ms-fontobject"
}

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
