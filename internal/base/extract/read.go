package extract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime/debug"
	"strings"
)

// Parse reads a document in the calling process. Only a child and tests may call it, because a document
// can use up the memory of the process. dir is the directory of the compiled PDF reader.
func Parse(ctx context.Context, d Document, data []byte, dir string) Result {
	return parser{ctx, dir, 0}.parse(d, data)
}

type parser struct {
	ctx   context.Context
	dir   string // directory of the compiled PDF reader
	depth int    // nesting level of an attachment: 1 for those of the document
}

func (p parser) parse(d Document, data []byte) (r Result) {
	defer func() {
		if fault := recover(); fault != nil {
			_ = reportPanic(fault)
			r = failed()
		}
	}()
	k := kindOf(d)
	switch {
	case len(data) == 0:
		return Result{Status: Empty, Note: "The file has no content."}
	case isPDF(data):
		return readPDF(p.ctx, data, p.dir)
	case bytes.HasPrefix(data, []byte("PK\x03\x04")), bytes.HasPrefix(data, []byte("PK\x05\x06")):
		return readZip(data)
	case bytes.HasPrefix(data, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")):
		return readOLE(data)
	case bytes.HasPrefix(data, []byte(`{\rtf`)):
		return unsupported("RTF files", "PDF or DOCX")
	case binary(data):
		return none()
	case k == kindEML:
		return p.readEML(data)
	}
	return readText(d, k, data)
}

var errReader = errors.New("the reader panicked")

// reportPanic writes a panic to standard error, because the parent logs it from there.
func reportPanic(fault any) error {
	fmt.Fprintf(os.Stderr, "%v: %v\n%s", errReader, fault, debug.Stack())
	return errReader
}

func failed() Result {
	return Result{Status: Failed, Note: "The service's reader failed on this document, which is probably intact. The operator finds the cause in the log of the service."}
}

// A textKind is a kind of document that only its type or its ending identifies.
type textKind int

const (
	kindText textKind = iota
	kindHTML
	kindEML
	kindJSON
)

var kindByType = map[string]textKind{
	"text/html": kindHTML, "application/xhtml+xml": kindHTML, "message/rfc822": kindEML, "multipart/related": kindEML,
	"application/json": kindJSON, "application/x-ndjson": kindJSON, "application/jsonl": kindJSON, "text/json": kindJSON,
}

// kindOf returns the kind of a text by its ending, then by its type, because browsers derive the type
// from the ending, and often wrongly.
func kindOf(d Document) textKind {
	if k := endings[strings.ToLower(path.Ext(d.Name))].text; k != kindText {
		return k
	}
	declared := mediaType(d.MediaType)
	if strings.HasSuffix(declared, "+json") {
		return kindJSON
	}
	return kindByType[declared]
}

func mediaType(s string) string {
	s, _, _ = strings.Cut(strings.ToLower(s), ";")
	return strings.TrimSpace(s)
}

// readOLE recognizes the files of old office programs.
func readOLE(data []byte) Result {
	has := func(name string) bool {
		var wide []byte
		for _, c := range []byte(name) {
			wide = append(wide, c, 0)
		}
		return bytes.Contains(data, wide)
	}
	switch {
	case has("EncryptedPackage"):
		return encrypted()
	case has("WordDocument"):
		return unsupported("DOC files", "DOCX or PDF")
	case has("Workbook"), has("Book"):
		return unsupported("XLS files", "XLSX or CSV")
	case has("PowerPoint Document"):
		return unsupported("PPT files", "PPTX or PDF")
	case has("__properties_version1.0"):
		return unsupported("MSG files", "EML")
	}
	return unsupported("files of this kind", "PDF")
}

func unsupported(what, instead string) Result {
	return Result{Status: Unsupported, Note: fmt.Sprintf("Texts of %s cannot be read. Store the document as %s.", what, instead)}
}

func none() Result { return Result{Status: None} }
