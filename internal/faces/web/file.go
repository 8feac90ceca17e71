package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed static
var staticFiles embed.FS

const fontExtension = ".woff2"

const revalidate = "no-cache" // caches keep it, but revalidate it

// A file is served plain or compressed. The results of its functions are computed on first use, because most
// files are rarely requested, and shared by all requests.
type file struct {
	kind   string        // media type
	digest func() string // short digest of the content
	plain  func() []byte
	gzip   func() []byte // nil if the content is already compressed
}

// newFile returns a file with the content that read returns. The extension of the name determines the media type.
func newFile(name string, read func() []byte) *file {
	content := sync.OnceValue(read)
	f := &file{
		kind: kindOf(name), digest: sync.OnceValue(func() string { sum := sha256.Sum256(read()); return hex.EncodeToString(sum[:6]) }),
		plain: content,
	}
	if path.Ext(name) != fontExtension {
		f.gzip = sync.OnceValue(func() []byte {
			var packed bytes.Buffer
			z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // cannot fail, because the level is valid
			z.Write(content())                                         // writes to memory cannot fail
			z.Close()
			return packed.Bytes()
		})
	}
	return f
}

// kindOf returns the media type for the extension of a name.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case fontExtension:
		return "font/woff2"
	}
	return "text/plain; charset=utf-8"
}

// serve answers a GET or a HEAD. The plain and the compressed form need different tags, because strong tags name bytes.
func (f *file) serve(w http.ResponseWriter, r *http.Request, keep string) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", keep)
	h.Add("Vary", "Accept-Encoding")
	packed := f.gzip != nil && acceptsGzip(r.Header.Get("Accept-Encoding"))
	etag := `"` + f.digest() + `"`
	if packed {
		etag = `"` + f.digest() + `-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", etag)
	if matches(r.Header.Get("If-None-Match"), etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := f.plain
	if packed {
		content = f.gzip
	}
	body := content()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		w.Write(body)
	}
}

// acceptsGzip reports whether an Accept-Encoding header allows gzip.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, rest, _ := strings.Cut(part, ";")
		if name = strings.TrimSpace(name); !strings.EqualFold(name, "gzip") && name != "*" {
			continue
		}
		if q, ok := strings.CutPrefix(strings.ReplaceAll(rest, " ", ""), "q="); ok {
			weight, err := strconv.ParseFloat(q, 64)
			return err == nil && weight > 0
		}
		return true
	}
	return false
}

// matches compares an If-None-Match header with a tag.
func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

// assets contains the files below static/, by name.
type assets map[string]*file

func loadAssets() (assets, error) {
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		return nil, err
	}
	out := assets{}
	for _, e := range entries {
		read := func() []byte {
			content, _ := staticFiles.ReadFile("static/" + e.Name()) // cannot fail, because the file is listed
			return content
		}
		out[e.Name()] = newFile(e.Name(), read)
	}
	return out, nil
}

// url returns the address of an asset. It contains the digest of the content, so that browsers can cache it for ever.
func (a assets) url(name string) (string, error) {
	f := a[name]
	if f == nil {
		return "", fmt.Errorf("there is no static file %q; go generate creates it", name)
	}
	return "/static/" + name + "?v=" + f.digest(), nil
}

// font returns the address of the Latin font, because every page needs it.
func (a assets) font() (string, error) {
	for name := range a {
		if strings.HasPrefix(name, "inter-latin-wght-") {
			return "/static/" + name, nil
		}
	}
	return "", errors.New("the font is not among the static files; go generate creates it")
}
