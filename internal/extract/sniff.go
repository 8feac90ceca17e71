package extract

import (
	"bytes"
	"net/http"
	"path"
	"strings"
)

// HeadBytes is the number of bytes that [Sniff] looks at.
const HeadBytes = 512

// Sniff returns the kind of a file by its first bytes, then by its type and its ending. utf8
// reports whether the whole content is valid UTF-8 without NUL.
func Sniff(name, mediaType string, head []byte, utf8 bool) Kind {
	declared, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	declared = strings.TrimSpace(declared)
	switch ending := strings.ToLower(path.Ext(name)); {
	case bytes.HasPrefix(head, []byte("%PDF-")), bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return Readable
	case declared == "text/html", declared == "application/xhtml+xml", declared == "message/rfc822",
		ending == ".html", ending == ".htm", ending == ".xhtml", ending == ".eml":
		return Readable
	case utf8:
		return Plain
	}
	found := http.DetectContentType(head)
	for _, kind := range []string{"image/", "audio/", "video/", "font/"} {
		if strings.HasPrefix(found, kind) {
			return Unreadable
		}
	}
	return Readable
}
