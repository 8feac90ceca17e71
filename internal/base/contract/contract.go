// Package contract contains the service's HTTP contract: the OpenAPI document
// (openapi.yaml, the source of truth), the Go types that oapi-codegen generates from
// it, the hand-written objects of POST /api/v1/responses, and the single table of error
// codes.
//
// It never serves or calls anything, and decides nothing. A change of the interface
// begins in openapi.yaml; `go generate` in this directory follows, which also writes
// openapi.json.gz, the form that the service reads and serves. Start reading at
// openapi.yaml, then [Codes] and [Response].
//
// Paths in the document are full (/api/v1/health under the server "/"), so that a path
// in the document is the path in a log line, in the routes table and in an error. Tools
// differ in how they join a server of /api/v1 with a path. A second version would be a
// second document.
package contract

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

//go:generate go run ./tojson
//go:generate go tool oapi-codegen -config models.cfg.yaml openapi.yaml
//go:generate go generate ../../faces/web

//go:embed openapi.json.gz
var packed []byte

// asJSON unpacks the document. It takes some 3 ms and is not cached, so that a process does not keep half a
// megabyte that only its editions need.
func asJSON() []byte {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		var text []byte
		if text, err = io.ReadAll(z); err == nil {
			return text
		}
	}
	panic(err) // cannot happen, because the embedded document is tested
}

// JSON returns the document with all extensions, in the order of the YAML text and with a line for each
// operation and schema. Callers must not change it. A service serves an edition of it; see [For].
func JSON() []byte { return whole() }

// whole is the document without the members that only editions use.
var whole = sync.OnceValue(func() []byte {
	text, err := without(asJSON(), func(string) bool { return false })
	if err != nil {
		panic(err) // cannot happen, because the embedded document is tested
	}
	return text
})

// Load parses the document again, with its references resolved. Callers should keep the result, because it takes tens
// of milliseconds and 18 MB of memory, most of it garbage.
func Load() (*openapi3.T, error) { return load(JSON()) }

func load(text []byte) (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("load the contract: %w", err)
	}
	return doc, nil
}
