package media

import (
	"bytes"
	"compress/zlib"
	"io"
	"regexp"
	"strconv"

	"stoa/internal/base/stoa"
)

// whiteSpace has the characters that separate the tokens of a PDF.
const whiteSpace = "\x00\t\n\f\r "

// bytesPerPage is the assumed maximum size of a page, in bytes.
const bytesPerPage = 100_000

// maxPages is the number at which counting stops, because no model accepts as many pages.
const maxPages = 10_000

// Limits of reading the page tree of a PDF. A file beyond them has an unknown number of
// pages, except as noted.
const (
	maxInflated = 2 << 20 // bytes of all object streams
	maxStream   = 1 << 20 // bytes of one
	maxStreams  = 2_000
	maxNodes    = 100      // of the page tree; later ones are not read
	maxNode     = 16 << 10 // bytes of a dictionary on each side of its type; more are not read
)

var (
	encrypted = regexp.MustCompile(`/Encrypt\s*(<<|\d{1,10}\s+\d{1,10}\s+R)`)
	treeCount = regexp.MustCompile(`/Count\s+(\d{1,9})`)

	objectStream = []byte("/ObjStm")
	typeName     = []byte("/Type")
	pageName     = []byte("/Page") // of a page; a node of the tree is /Pages
)

// pdf checks the bytes of a PDF and estimates its pages; the result has no content.
func pdf(data []byte) (*stoa.Media, error) {
	switch {
	case len(data) == 0:
		return nil, invalid("The file is empty.")
	case len(data) > MaxFile:
		return nil, largeFile()
	case !bytes.HasPrefix(data, []byte("%PDF-")):
		return nil, invalid("The content is not a PDF.")
	case encrypted.Match(data):
		return nil, invalid("The PDF is encrypted. Send one that opens without a password.")
	}
	return &stoa.Media{Type: PDF, Pages: int64(countPages(data))}, nil
}

// countPages estimates the pages of a PDF; 0 means unknown. It counts the page objects and
// reads the counts of the page tree, also in compressed object streams. The caller controls
// all of them, so they only size the hold: the charge follows the vendor's count.
func countPages(data []byte) int {
	var pages pageCount
	pages.add(data)
	left := maxInflated
	for streams, rest := 0, data; ; streams++ {
		at := bytes.Index(rest, objectStream)
		if at < 0 {
			break
		}
		rest = rest[at+len(objectStream):]
		size, ok := pages.addStream(rest, min(left, maxStream))
		if !ok || streams == maxStreams {
			return 0
		}
		left -= size
	}
	n := min(max(pages.objects, pages.counted), maxPages)
	if n == 0 {
		return 0
	}
	return max(n, (len(data)+bytesPerPage-1)/bytesPerPage)
}

// inflating limits the object streams that are decompressed at a time, because a small file
// can have large ones.
var inflating = make(chan struct{}, 4)

// addStream counts the pages in the object stream whose dictionary text begins in, as
// [inflate] does, and returns its size.
func (p *pageCount) addStream(text []byte, limit int) (size int, ok bool) {
	inflating <- struct{}{} // for some milliseconds
	defer func() { <-inflating }()
	content, ok := inflate(text, limit)
	if ok {
		p.add(content)
	}
	return len(content), ok
}

// inflate decompresses the stream whose dictionary text begins in. ok is false if the stream
// has more than limit bytes or another compression.
func inflate(text []byte, limit int) (content []byte, ok bool) {
	at := bytes.Index(text[:min(len(text), maxNode)], []byte("stream"))
	if at < 0 {
		return nil, false
	}
	r, err := zlib.NewReader(bytes.NewReader(bytes.TrimLeft(text[at+len("stream"):], "\r\n")))
	if err != nil {
		return nil, false
	}
	content, err = io.ReadAll(io.LimitReader(r, int64(limit)+1))
	return content, (err == nil || len(content) > 0) && len(content) <= limit
}

// A pageCount counts the pages of a PDF.
type pageCount struct {
	objects int // page objects
	counted int // the largest count of a node of the page tree
	nodes   int // nodes that were read
}

func (p *pageCount) add(text []byte) {
	for at := 0; p.objects < maxPages; {
		next := bytes.Index(text[at:], typeName)
		if next < 0 {
			break
		}
		at += next + len(typeName)
		value, ok := bytes.CutPrefix(bytes.TrimLeft(text[at:], whiteSpace), pageName)
		node := ok && len(value) > 0 && value[0] == 's'
		if node {
			value = value[1:]
		}
		switch {
		case !ok || len(value) == 0 || isLetter(value[0]):
		case !node:
			p.objects++
		case p.nodes < maxNodes:
			p.nodes++
			for _, c := range treeCount.FindAllSubmatch(dictionary(text, at), maxNodes) {
				n, _ := strconv.Atoi(string(c[1])) // at most nine digits
				p.counted = max(p.counted, n)
			}
		}
	}
}

func isLetter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

// dictionary returns the innermost dictionary around a place of a text, or the part of it
// within maxNode bytes of the place.
func dictionary(text []byte, at int) []byte {
	from, depth := max(at-maxNode, 0), 0
	for i := at - 2; i >= from; i-- {
		switch {
		case text[i] == '>' && text[i+1] == '>':
			depth++
			i--
		case text[i] == '<' && text[i+1] == '<':
			if depth--; depth < 0 {
				from = i
			}
			i--
		}
	}
	to, depth := min(at+maxNode, len(text)), 0
	for i := at; i+1 < to; i++ {
		switch {
		case text[i] == '<' && text[i+1] == '<':
			depth++
			i++
		case text[i] == '>' && text[i+1] == '>':
			if depth--; depth < 0 {
				to = i
			}
			i++
		}
	}
	return text[from:to]
}
