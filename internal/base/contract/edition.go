package contract

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/jsonx"
)

// Extension marks an operation, a schema or a property that exists only with an extension. References to a
// removed schema are removed from lists and mappings too. Its value names one extension, or several separated by
// spaces, any of which is enough.
const Extension = "x-extension"

// Otherwise marks content that applies without an extension. In an object with an [Extension] it
// replaces that object. With its own Extension, its members replace the members of the same names in the
// enclosing object. No edition contains it.
const Otherwise = "x-otherwise"

// An Edition is the document without the parts of disabled extensions, so that a service documents only what it
// serves.
type Edition struct {
	etag         string
	json, packed func() []byte

	mu    sync.Mutex
	fresh []byte                   // text until [Edition.Requests] has read it
	doc   weak.Pointer[openapi3.T] // latest result of [Edition.Requests]; weak, so that an unused document is freed
}

var editions sync.Map // *Edition values by the names of their extensions

// For returns the edition with the named extensions.
func For(extensions ...string) *Edition {
	name := strings.Join(extensions, " ")
	if e, ok := editions.Load(name); ok {
		return e.(*Edition)
	}
	edit := func() []byte {
		text, err := without(asJSON(), func(names string) bool {
			return !slices.ContainsFunc(strings.Fields(names), func(n string) bool { return slices.Contains(extensions, n) })
		})
		if err != nil {
			panic(err) // cannot happen, because the embedded document is tested
		}
		return text
	}
	text := edit()
	sum := sha256.Sum256(text)
	e, _ := editions.LoadOrStore(name, &Edition{
		etag: `"` + hex.EncodeToString(sum[:16]) + `"`, fresh: text,
		// Edited again when they are first needed, so that a process that serves neither does not keep them.
		json: sync.OnceValue(edit), packed: sync.OnceValue(func() []byte { return pack(edit()) }),
	})
	return e.(*Edition)
}

// JSON returns the text in the order of [JSON]. Callers must not change it.
func (e *Edition) JSON() []byte { return e.json() }

// ETag returns the entity tag of the text, quotes included.
func (e *Edition) ETag() string { return e.etag }

// Packed returns the text compressed with gzip. Callers must not change it.
func (e *Edition) Packed() []byte { return e.packed() }

func pack(text []byte) []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		panic(err) // cannot happen, because the level is a constant
	}
	_, _ = z.Write(text) // writes to a buffer cannot fail
	_ = z.Close()
	return out.Bytes()
}

// Requests returns the parts of the text that describe requests, parsed. The rest would triple the time and the garbage of a
// start. Callers share one document, which they must not change; an unreferenced document is parsed again.
func (e *Edition) Requests() (*openapi3.T, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if doc := e.doc.Value(); doc != nil {
		return doc, nil
	}
	text := e.fresh
	if text == nil {
		text = e.JSON()
	}
	e.fresh = nil
	text, err := requests(text)
	if err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	doc, err := load(text)
	if err == nil {
		e.doc = weak.Make(doc)
	}
	return doc, err
}

// requests returns a document without replies, descriptions of operations, and components that no request refers to.
func requests(text []byte) ([]byte, error) {
	type object = map[string]json.RawMessage
	var doc struct {
		Version    json.RawMessage   `json:"openapi"`
		Info       json.RawMessage   `json:"info"`
		Paths      map[string]object `json:"paths"`
		Components map[string]object `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	used := map[string]object{}
	var use func(raw []byte)
	use = func(raw []byte) {
		for i, part := range bytes.Split(raw, []byte(`"#/components/`)) {
			path, _, _ := bytes.Cut(part, []byte(`"`))
			kind, name, _ := strings.Cut(string(path), "/")
			component := doc.Components[kind][name]
			if i == 0 || component == nil || used[kind][name] != nil {
				continue
			}
			if used[kind] == nil {
				used[kind] = object{}
			}
			used[kind][name] = component
			use(component)
		}
	}
	for _, item := range doc.Paths {
		for name, raw := range item {
			if raw[0] == '{' {
				var operation object
				if err := json.Unmarshal(raw, &operation); err != nil {
					return nil, err
				}
				delete(operation, "responses")
				delete(operation, "description")
				var err error
				if raw, err = json.Marshal(operation); err != nil {
					return nil, err
				}
				item[name] = raw
			}
			use(raw)
		}
	}
	doc.Components = used
	return json.Marshal(doc)
}

// without returns a JSON document without the objects whose [Extension] drop selects, and without references to such
// schemas. A member [Otherwise] replaces its object. It edits the text instead of decoding it, so that
// the order of the members stays.
func without(text []byte, drop func(names string) bool) ([]byte, error) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Names string `json:"x-extension"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	e := &editor{text: text, decoder: jsonx.NewDecoder(text), drop: drop, gone: map[string]bool{}}
	for name, schema := range doc.Components.Schemas {
		if schema.Names != "" && drop(schema.Names) {
			e.gone["#/components/schemas/"+name] = true
		}
	}
	if _, err := e.value(); err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	return e.edited(), nil
}

// An editor finds the parts of a document to cut or replace.
type editor struct {
	text    []byte
	decoder *jsonx.Decoder
	drop    func(names string) bool
	gone    map[string]bool // references to removed schemas
	edits   []edit
}

// An edit replaces a part of the text; an empty with cuts it.
type edit struct {
	from, to int
	with     []byte
}

type value struct {
	from, to  int // positions in the text
	dropped   bool
	otherwise []byte // replacement, if any
}

func (e *editor) value() (value, error) {
	token, err := e.decoder.ReadToken()
	if err != nil {
		return value{}, err
	}
	to := e.at()
	switch token.Kind() {
	case '{':
		return e.object(to - 1)
	case '[':
		return e.array(to - 1)
	case '"':
		from := to - len(lastString(e.text[:to]))
		return value{from: from, to: to, dropped: len(e.gone) > 0 && e.gone[string(e.text[from+1:to-1])]}, nil
	}
	return value{from: -1, to: to}, nil
}

func lastString(text []byte) []byte {
	i := len(text) - 2
	for ; i >= 0; i-- {
		if text[i] != '"' {
			continue
		}
		back := i
		for back > 0 && text[back-1] == '\\' {
			back--
		}
		if (i-back)%2 == 0 {
			break
		}
	}
	return text[i:]
}

type member struct {
	name   string
	before int // end of the text before it
	value  value
}

func (e *editor) object(from int) (value, error) {
	out := value{from: from}
	var members []member
	var names string
	other := -1
	for before := e.at(); e.decoder.PeekKind() != '}'; before = e.at() {
		m := member{before: before}
		key, err := e.decoder.ReadToken()
		if err != nil {
			return out, err
		}
		m.name = key.String()
		first := len(e.edits)
		if m.value, err = e.value(); err != nil {
			return out, err
		}
		switch m.name {
		case Extension:
			if err := json.Unmarshal(e.text[m.value.from:m.value.to], &names); err != nil {
				return out, err
			}
		case Otherwise:
			other = len(members)
			e.edits = e.edits[:first] // edits inside it are dropped, because it counts as a whole
		}
		members = append(members, m)
	}
	if _, err := e.decoder.ReadToken(); err != nil {
		return out, err
	}
	out.to = e.at()
	out.dropped = names != "" && e.drop(names)
	var parts map[string]json.RawMessage
	if other >= 0 {
		o := members[other]
		if err := json.Unmarshal(e.text[o.value.from:o.value.to], &parts); err != nil {
			return out, err
		}
		var of string
		if raw, ok := parts[Extension]; !ok {
			out.otherwise = e.text[o.value.from:o.value.to]
		} else if err := json.Unmarshal(raw, &of); err != nil {
			return out, err
		} else if !e.drop(of) {
			parts = nil
		}
		if out.otherwise != nil {
			parts = nil
		}
	}
	for i, m := range members {
		with, replaced := parts[m.name]
		switch {
		case i == other:
			e.cut(m.before, m.value.to)
		case replaced && m.name != Extension:
			e.edits = append(e.edits, edit{m.value.from, m.value.to, with})
		case m.name == "$ref":
			out.dropped = out.dropped || m.value.dropped // in an array
		case m.value.dropped && m.value.otherwise != nil:
			e.edits = append(e.edits, edit{m.value.from, m.value.to, m.value.otherwise})
		case m.value.dropped:
			e.cut(m.before, m.value.to)
		}
	}
	return out, nil
}

func (e *editor) array(from int) (value, error) {
	for before := e.at(); e.decoder.PeekKind() != ']'; before = e.at() {
		v, err := e.value()
		if err != nil {
			return v, err
		}
		if v.dropped {
			e.cut(before, v.to)
		}
	}
	_, err := e.decoder.ReadToken()
	return value{from: from, to: e.at()}, err
}

// at returns the end of the last token.
func (e *editor) at() int { return int(e.decoder.InputOffset()) }

// cut removes a member or an element, which begins after from. The first one is removed with the comma behind it,
// because no comma precedes it.
func (e *editor) cut(from, to int) {
	if c := bytes.TrimLeft(e.text[from:], "\n"); len(c) > 0 && c[0] != ',' && e.text[to] == ',' {
		to++
	}
	e.edits = append(e.edits, edit{from: from, to: to})
}

// edited returns the text with the outermost edits, because these contain the others.
func (e *editor) edited() []byte {
	slices.SortStableFunc(e.edits, func(a, b edit) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	out := make([]byte, 0, len(e.text))
	from := 0
	for _, c := range e.edits {
		if c.to <= from {
			continue
		}
		if c.from < from { // the cut before it removed the comma between them
			c.from = from
			if e.text[c.to] == ',' {
				c.to++
			}
		}
		out = append(append(out, e.text[from:c.from]...), c.with...)
		from = c.to
	}
	return append(out, e.text[from:]...)
}
