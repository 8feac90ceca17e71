// Package extract reads the text of documents: PDF, DOCX, PPTX, XLSX, HTML, EML, and texts in
// encodings other than UTF-8. It also answers queries over the tables in CSV and XLSX files, with SQLite in memory.
//
// The readers of documents never run in the process of the service, because a document may be
// damaged or hostile: [Service] starts the program again as a child for each document, with
// limits of time and memory.
package extract

import (
	"context"
	"io"
	"time"
)

// Limits of the text of one document. The reader leaves out what exceeds them, and the status is [Partial].
const (
	MaxText  = 4 << 20   // bytes of text
	MaxPages = 1000      // pages and slides
	MaxCells = 1_000_000 // cells of a workbook
)

// A Status is the outcome of reading a document.
type Status string

const (
	Ready           Status = "ready"            // the whole text
	Partial         Status = "partial"          // the text up to a limit
	Pending         Status = "pending"          // not read yet
	None            Status = "none"             // not a document: an image, a program, an archive
	Empty           Status = "empty"            // a document without text, such as a scan
	Encrypted       Status = "encrypted"        // needs a password
	Broken          Status = "broken"           // damaged, or not what its type says
	Timeout         Status = "timeout"          // exceeded the limits of time or memory
	Unsupported     Status = "unsupported"      // a kind of document without a reader
	Failed          Status = "failed"           // the reader crashed, which is a fault of the service
	UnknownEncoding Status = "unknown_encoding" // a text whose encoding is neither declared nor certain
)

// A Kind says how the text of a file is found.
type Kind string

const (
	Plain      Kind = "plain"      // the content itself is the text: UTF-8
	Unreadable Kind = "unreadable" // the file has no text: [None]
	Readable   Kind = "readable"   // a [Service] reads it
)

// A Document is a file to read.
type Document struct {
	Account   string // whose documents wait in turn
	Name      string // name of the file, with its ending
	MediaType string // as declared, possibly with a charset; "" if unknown
	Encoding  string // encoding that the owner states; "" if unknown
	Size      int64
	Content   io.Reader
}

// A Result is the text of a document.
type Result struct {
	Status   Status
	Text     []byte // UTF-8, at most MaxText bytes; nil without text
	Pages    int64  // pages, slides or sheets; 0 for other kinds
	Places   []Place
	Encoding string        // encoding of a text that was not UTF-8, by its WHATWG name
	Note     string        // a sentence for the owner, such as the number of replaced bytes; "" if there is nothing to say
	Spent    time.Duration // processor time of the reader; 0 if none ran
}

// A Place is the beginning of a page, slide or sheet in a text.
type Place struct {
	Line int64  `json:"line"`          // its first line, from 1
	Name string `json:"name"`          // "p. 3", "slide 4", "sheet Sales"
	Page int64  `json:"page"`          // its number, from 1
	Row  int64  `json:"row,omitempty"` // first row of a sheet at Line; the next lines are the next rows
	// Table is set if a table of a sheet begins here.
	Table bool `json:"table,omitempty"`
}

// A Reader reads documents. [Service] implements it.
type Reader interface {
	// Read returns the text of a document. Its errors are faults of the service or the end of
	// ctx; the faults of a document are statuses.
	Read(ctx context.Context, d Document) (Result, error)
	// Page returns one page of a PDF as a PNG image.
	Page(ctx context.Context, d Document, p Page) ([]byte, error)
}

// A Page selects a page of a PDF and how it is drawn.
type Page struct {
	Number int64 `json:"number"`          // from 1
	Width  int64 `json:"width,omitempty"` // of the image in pixels, as far as limits allow; 0 means 150 dpi
	// Text contains lines of the text of the page, from its beginning, the last Mark of which are marked.
	Text string `json:"text,omitempty"`
	Mark int64  `json:"mark,omitempty"`
}
