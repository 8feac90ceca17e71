package contract

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// Extension marks a part of the document that is there only with an extension: an
// operation, a schema or a property with this member. Its value names one extension
// or several with spaces, of which any is enough.
const Extension = "x-extension"

// An Edition is the document as a service with certain extensions serves it: what
// belongs to another extension is left out.
type Edition struct {
	text   []byte
	etag   string
	packed func() []byte
}

var editions sync.Map // of *Edition by the names of their extensions

// For returns the edition with the extensions of those names.
func For(extensions ...string) *Edition {
	name := strings.Join(extensions, " ")
	if e, ok := editions.Load(name); ok {
		return e.(*Edition)
	}
	text, err := without(JSON(), func(names string) bool {
		return !slices.ContainsFunc(strings.Fields(names), func(n string) bool { return slices.Contains(extensions, n) })
	})
	if err != nil {
		panic(err) // the embedded document is tested
	}
	sum := sha256.Sum256(text)
	e, _ := editions.LoadOrStore(name, &Edition{
		text: text, etag: `"` + hex.EncodeToString(sum[:16]) + `"`,
		packed: sync.OnceValue(func() []byte { return pack(text) }),
	})
	return e.(*Edition)
}

// JSON is the text, in the order of [JSON]. Callers must not change it.
func (e *Edition) JSON() []byte { return e.text }

// ETag names the text, quotes included.
func (e *Edition) ETag() string { return e.etag }

// Packed is the text compressed with gzip. Callers must not change it.
func (e *Edition) Packed() []byte { return e.packed() }

func pack(text []byte) []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = z.Write(text) // a buffer takes everything
	_ = z.Close()
	return out.Bytes()
}

// Load parses the text anew, as [Load] does.
func (e *Edition) Load() (*openapi3.T, error) { return load(e.text) }

// without returns a JSON document without the members whose value is an object with
// an [Extension] that drop names.
func without(text []byte, drop func(names string) bool) ([]byte, error) {
	type value struct {
		object bool
		key    string // of the present member; empty: a key comes next
		from   int    // end of what stands before that key
		names  string // of its [Extension]
	}
	type span struct{ from, to int }
	var (
		open []value // from the root to the innermost
		cuts []span
		out  []byte
	)
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		before := int(d.InputOffset())
		token, err := d.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the contract: %w", err)
		}
		delim, _ := token.(json.Delim)
		if delim == '{' || delim == '[' {
			open = append(open, value{object: delim == '{'})
			continue
		}
		names := ""
		if delim != 0 {
			names = open[len(open)-1].names
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			continue
		}
		in := &open[len(open)-1]
		word, _ := token.(string)
		switch {
		case !in.object:
		case in.key == "":
			in.key, in.from = word, before
		default:
			if in.key == Extension {
				in.names = word
			}
			if names != "" && drop(names) {
				cuts = append(cuts, span{in.from, int(d.InputOffset())})
			}
			in.key = ""
		}
	}
	slices.SortFunc(cuts, func(a, b span) int { return a.from - b.from })
	from := 0
	for _, c := range cuts {
		if c.from < from {
			continue // within one that is cut already
		}
		out = append(out, text[from:c.from]...)
		from = c.to
		if text[c.from] != ',' { // the first member takes the comma behind it along
			from += bytes.IndexByte(text[from:], ',') + 1
		}
	}
	return append(out, text[from:]...), nil
}
