package media

import (
	"bytes"
	"regexp"

	"stoa/internal/stoa"
)

// bytesPerPage is the assumed maximum size of a page, in bytes, for estimating the pages of a
// PDF that has them in compressed objects.
const bytesPerPage = 100_000

// maxPages is the number at which counting stops; no model accepts as many pages.
const maxPages = 10_000

var (
	encrypted = regexp.MustCompile(`/Encrypt\s*(<<|\d{1,10}\s+\d{1,10}\s+R)`)
	pageType  = regexp.MustCompile(`/Type\s*/Page[^A-Za-z]`)
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
	pages, rest := 0, data
	for at := pageType.FindIndex(rest); at != nil && pages < maxPages; at = pageType.FindIndex(rest) {
		pages++
		rest = rest[at[1]:]
	}
	pages = max(pages, (len(data)+bytesPerPage-1)/bytesPerPage)
	return &stoa.Media{Type: PDF, Pages: int64(pages)}, nil
}
