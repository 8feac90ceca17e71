// Package contract holds what the service promises over HTTP: the OpenAPI
// document (openapi.yaml, the truth), the Go types that oapi-codegen
// makes of it, the objects of POST /api/v1/responses, which are
// written by hand, and the one table of error codes.
//
// It never serves or calls anything, and decides nothing. A change of the
// interface begins in openapi.yaml; `go generate` in this directory follows.
// Start reading at openapi.yaml, then [Codes] and [Response].
//
// Paths in the document are full (/api/v1/health under the server "/"), so
// that a path in the document is the path in a log line, in the routes table
// and in an error. Tools differ in how they join a server of /api/v1 with a
// path. A second version would be a second document.
package contract

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"
)

//go:generate go tool oapi-codegen -config models.cfg.yaml openapi.yaml
//go:generate go generate ../web

//go:embed openapi.yaml
var source []byte

var asJSON = sync.OnceValue(func() []byte {
	raw, err := yaml.YAMLToJSON(source)
	if err != nil {
		panic(fmt.Sprintf("contract: openapi.yaml: %v", err)) // a test reads it, so this is never reached in a build that passed
	}
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		panic(fmt.Sprintf("contract: openapi.yaml as JSON: %v", err))
	}
	return out.Bytes()
})

// JSON is the document as JSON on one line, in the order of the YAML text. It
// is computed once; callers must not change it.
func JSON() []byte { return asJSON() }

var etag = sync.OnceValue(func() string {
	sum := sha256.Sum256(JSON())
	return `"` + hex.EncodeToString(sum[:16]) + `"`
})

// ETag names the document's present text, quotes included.
func ETag() string { return etag() }

// Load parses the document anew, with its references resolved. It takes tens of
// milliseconds; the result belongs to the caller.
func Load() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(JSON())
	if err != nil {
		return nil, fmt.Errorf("load the contract: %w", err)
	}
	return doc, nil
}
