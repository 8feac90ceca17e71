package extract

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"iter"
	"path"
	"strings"
)

const (
	maxEntries  = 2000
	maxInflated = 64 << 20 // bytes that are read, because an archive may declare fewer
)

var errTooMuch = errors.New("the archive unpacks to too many bytes")

type archive struct {
	files map[string]*zip.File
	left  int64 // bytes that may still be inflated
}

// openZip opens a ZIP file. The Result has a status if that is not possible.
func openZip(data []byte) (*archive, Result) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, broken("document or an archive")
	}
	if len(z.File) > maxEntries {
		return nil, Result{Status: Timeout, Note: "The archive has too many entries."}
	}
	a := &archive{files: make(map[string]*zip.File, len(z.File)), left: maxInflated}
	for _, f := range z.File {
		name := strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(f.Name, `\`, "/"), "/"))
		if a.files[name] == nil {
			a.files[name] = f
		}
	}
	return a, Result{}
}

func readZip(data []byte) Result {
	a, r := openZip(data)
	if r.Status != "" {
		return r
	}
	switch kind := string(a.start("mimetype", 100)); {
	case strings.HasPrefix(kind, "application/epub"):
		return unsupported("EPUB files", "PDF or HTML")
	case strings.HasPrefix(kind, "application/vnd.oasis.opendocument"):
		return unsupported("OpenDocument files", "DOCX, XLSX, PPTX or PDF")
	case a.files["xl/workbook.bin"] != nil:
		return unsupported("XLSB files", "XLSX or CSV")
	}
	main := a.mainPart()
	switch dir, _, _ := strings.Cut(main, "/"); {
	case a.files[main] == nil:
		return none()
	case dir == "word":
		return a.readDOCX(main)
	case dir == "ppt":
		return a.readPPTX(main)
	case dir == "xl":
		return a.readXLSX(main)
	}
	return none()
}

// mainPart returns the name of the part that contains the document; "" without one.
func (a *archive) mainPart() string {
	for _, r := range a.relations("") {
		if strings.HasSuffix(r.kind, "/officeDocument") {
			return r.target
		}
	}
	for _, name := range []string{"word/document.xml", "ppt/presentation.xml", "xl/workbook.xml"} {
		if a.files[name] != nil {
			return name
		}
	}
	return ""
}

type relation struct{ id, kind, target string }

func (a *archive) relations(part string) (list []relation) {
	dir, base := path.Split(part)
	r, err := a.open(dir + "_rels/" + base + ".rels")
	if err != nil {
		return nil
	}
	for e := range elements(r, "Relationship") {
		if attr(e, "TargetMode") == "External" {
			continue
		}
		target := attr(e, "Target")
		if !strings.HasPrefix(target, "/") {
			target = dir + target
		}
		list = append(list, relation{id: attr(e, "Id"), kind: attr(e, "Type"), target: strings.ToLower(strings.TrimPrefix(path.Clean(target), "/"))})
	}
	return list
}

// elements returns the elements with a local name, up to the first error of a part.
func elements(part io.Reader, name string) iter.Seq[xml.StartElement] {
	return func(yield func(xml.StartElement) bool) {
		x := xml.NewDecoder(part)
		for {
			t, err := x.Token()
			if err != nil {
				return
			}
			if e, ok := t.(xml.StartElement); ok && e.Name.Local == name && !yield(e) {
				return
			}
		}
	}
}

func (a *archive) related(part, kind string) string {
	for _, r := range a.relations(part) {
		if strings.HasSuffix(r.kind, "/"+kind) {
			return r.target
		}
	}
	return ""
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// open returns the content of a part. All parts together are limited.
func (a *archive) open(name string) (io.Reader, error) {
	f := a.files[strings.ToLower(name)]
	if f == nil {
		return nil, errors.New("the archive has no such part")
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	return &inflated{a, r}, nil
}

func (a *archive) start(name string, n int64) []byte {
	r, err := a.open(name)
	if err != nil {
		return nil
	}
	head, _ := io.ReadAll(io.LimitReader(r, n))
	return head
}

type inflated struct {
	a *archive
	r io.Reader
}

func (r *inflated) Read(p []byte) (int, error) {
	if r.a.left <= 0 {
		return 0, errTooMuch
	}
	n, err := r.r.Read(p[:min(int64(len(p)), r.a.left)])
	r.a.left -= int64(n)
	return n, err
}

// outcome returns the result of a document whose parts were read up to an error.
func (a *archive) outcome(f *flow, pages int64, empty bool, err error, what string) Result {
	if err != nil && empty {
		if errors.Is(err, errTooMuch) {
			return Result{Status: Timeout, Note: "The document unpacks to more than 64 MB."}
		}
		if errors.Is(err, errReader) {
			return failed()
		}
		return broken(what)
	}
	r := f.result(pages, empty)
	switch {
	case err == nil || f.full:
	case errors.Is(err, errReader):
		r.Status, r.Note = Partial, "Only a part of the text was read: the service's reader failed. The document is probably intact."
	default:
		r.Status, r.Note = Partial, "The document is damaged: only a part of its text was read."
	}
	return r
}
