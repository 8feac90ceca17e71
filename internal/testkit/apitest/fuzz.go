package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// A Fuzzer sends requests that the contract allows and many that it does not, and fails its
// test on a 5xx, an undocumented status, a reply that does not conform, or a body that is
// accepted against the contract.
type Fuzzer struct {
	Client func(Operation) *Client // returns a client whose key may use the operation
	// Objects contains existing ids, by the segment of a path before them; see
	// [Operation.Collection]. It may be empty.
	Objects map[string]string
	Seed    uint64 // the same seed sends the same requests
	// Skip leaves operations out, by id.
	Skip []string
	// Allow5xx reports whether a 5xx with the given code is acceptable.
	Allow5xx func(code string) bool
}

// Run sends rounds requests to every operation and returns the total number.
func (f *Fuzzer) Run(t testing.TB, rounds int) int {
	t.Helper()
	rng := rand.New(rand.NewPCG(f.Seed, 1))
	ops := slices.DeleteFunc(Operations(), func(op Operation) bool { return slices.Contains(f.Skip, op.OperationID) })
	g := generator{rng: rng, objects: f.Objects, ids: slices.Sorted(maps.Values(f.Objects))}
	n, faults := 0, 0
	for range rounds {
		for _, op := range ops {
			r := g.request(op)
			n++
			if err := f.ask(t.Context(), f.Client(op), r); err != nil {
				t.Errorf("seed %d, request %d, %s:\n%s %s %v\n%.600s\n%v", f.Seed, n, op.OperationID, r.Method, r.Path, r.Header, text(r.Body), err)
				if faults++; faults == 10 {
					t.Fatalf("giving up after %d requests", n)
				}
			}
		}
	}
	return n
}

func (f *Fuzzer) ask(ctx context.Context, c *Client, r Request) error {
	for name, value := range r.Header {
		c = c.With(name, value)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	reply, err := c.Try(ctx, r.Method, r.Path, r.Body)
	if err != nil {
		return err
	}
	if reply.Status >= 500 && (f.Allow5xx == nil || !f.Allow5xx(reply.Error().Code)) {
		return fmt.Errorf("answered %d: %s", reply.Status, reply.Body)
	}
	return nil
}

func text(body any) string {
	raw, err := encode(body)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// A generator generates random requests.
type generator struct {
	rng     *rand.Rand
	objects map[string]string
	ids     []string // of all objects
}

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func pick[T any](g *generator, list ...T) T { return list[g.rng.IntN(len(list))] }

func (g *generator) request(op Operation) Request {
	r := Request{Method: op.Method, Path: op.Path, Header: map[string]string{}}
	query := url.Values{}
	for _, p := range op.parameters() {
		value := plain(g.value(p.Schema.Value, 0))
		if g.chance(20) {
			value = g.oddText()
		}
		switch p.In {
		case openapi3.ParameterInPath:
			r.Path = strings.ReplaceAll(r.Path, "{"+p.Name+"}", g.segment(op.Collection(p.Name)))
		case openapi3.ParameterInQuery:
			if list, ok := g.value(p.Schema.Value, 0).([]any); ok && g.chance(80) {
				var words []string
				for _, v := range list {
					words = append(words, plain(v))
				}
				value = strings.Join(words, ",")
			}
			if p.Required && g.chance(95) || g.chance(30) {
				query.Add(p.Name, value)
				if g.chance(5) {
					query.Add(p.Name, value)
				}
			}
			if n, err := strconv.Atoi(query.Get("waitSeconds")); err == nil && n > 1 && n <= 60 {
				query.Set("waitSeconds", "1") // there may be nothing to wait for
			}
		case openapi3.ParameterInHeader:
			if g.chance(25) {
				r.Header[p.Name] = headerText(value)
			}
		}
	}
	if len(query) > 0 {
		r.Path += "?" + query.Encode()
	}
	if op.RequestBody != nil {
		r.Body = g.body(op, &r)
	} else if g.chance(5) {
		r.Body = g.oddText()
	}
	if op.Method != "GET" && g.chance(10) { // it is ignored if it has no meaning
		r.Header["Idempotency-Key"] = headerText(g.oddText())
	}
	switch g.rng.IntN(60) {
	case 0:
		r.Header["Content-Type"] = pick(g, "text/plain", "application/json; charset=x", "multipart/form-data", ";;", "application/xml")
	case 1:
		r.Header["Content-Encoding"] = pick(g, "gzip", "identity", "br")
	case 2:
		r.Header["Authorization"] = pick(g, "", "Bearer", "Bearer sk_", "Basic eDp5", "bearer  x")
	case 3:
		r.Header["Accept"] = pick(g, "text/html", "nothing", "application/json;q=0")
	}
	return r
}

// headerText removes characters that net/http would refuse to send.
func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

// segment returns an id for a path.
func (g *generator) segment(collection string) string {
	if id := g.objects[collection]; id != "" && g.chance(70) {
		return id
	}
	if len(g.ids) > 0 && g.chance(60) {
		return pick(g, g.ids...)
	}
	return url.PathEscape(pick(g, "x", "acc_0", "key_06gvhv69r5ph5423k171tpak2o", "%00", "a/b", "ü", "' OR 1=1 --", strings.Repeat("y", 300), "null", "0"))
}

// body returns a body: most conform, some have one change, a few are not JSON.
func (g *generator) body(op Operation, r *Request) any {
	media := op.RequestBody.Value.Content["application/json"]
	if media == nil {
		r.Header["Content-Type"] = pick(g, "text/plain", "application/octet-stream", "text/markdown")
		return g.oddText()
	}
	if g.chance(5) {
		return pick(g, "", "null", "[]", "{", `"x"`, "{}{}", `{"a":1,"a":1}`, "\xff", strings.Repeat("[", 20_000), `{"model":`+strings.Repeat(" ", 1000))
	}
	v := g.value(media.Schema.Value, 0)
	if g.chance(50) {
		v = g.mutate(v)
	}
	if members, ok := v.(map[string]any); ok {
		if input, ok := members["input"].(string); ok && op.OperationID == "createResponse" {
			members["input"] = "say: " + input // so that the sandbox follows no accidental order
			delete(members, "tools")
		}
	}
	return v
}

// mutate changes one value somewhere inside.
func (g *generator) mutate(v any) any {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		if len(names) == 0 || g.chance(15) {
			v[pick(g, "extra", "ID", "__proto__", "scopes", "error")] = g.oddValue()
			return v
		}
		name := pick(g, names...)
		switch g.rng.IntN(4) {
		case 0:
			delete(v, name)
		case 1:
			v[name] = g.oddValue()
		default:
			v[name] = g.mutate(v[name])
		}
		return v
	case []any:
		if len(v) == 0 || g.chance(30) {
			return append(v, g.oddValue())
		}
		i := g.rng.IntN(len(v))
		v[i] = g.mutate(v[i])
		return v
	}
	return g.oddValue()
}

func (g *generator) oddValue() any {
	return pick[any](g, nil, true, false, 0, -1, 1.5, 1e300, int64(1)<<62, "", g.oddText(), []any{}, []any{nil}, map[string]any{}, map[string]any{"type": "x"}, json.Number("1e2"), json.Number("-0"))
}

func (g *generator) oddText() string {
	return pick(g, "", " ", "\x00", "a\x00b", "ü€🙂", "\u2028", "../../etc", "'; DROP TABLE keys; --", "<script>", "%s%n", "2026-02-30T00:00:00Z",
		"9223372036854775808", "-1", "null", "asc", strings.Repeat("z", 3000), "=1+1", "\r\nX: y", "\ufeff", "e\u0301")
}

// value returns a random value that mostly fits a schema.
func (g *generator) value(s *openapi3.Schema, depth int) any {
	if s.Nullable && g.chance(15) {
		return nil
	}
	if s.Example != nil && g.chance(20) {
		return copyOf(s.Example)
	}
	for _, list := range []openapi3.SchemaRefs{s.OneOf, s.AnyOf, s.AllOf} {
		if len(list) > 0 {
			return g.value(pick(g, list...).Value, depth+1)
		}
	}
	switch {
	case len(s.Enum) > 0:
		return pick(g, s.Enum...)
	case s.Type.Is(openapi3.TypeBoolean):
		return g.chance(50)
	case s.Type.Is(openapi3.TypeInteger), s.Type.Is(openapi3.TypeNumber):
		low, high := 0.0, 1000.0
		if s.Min != nil {
			low = *s.Min
		}
		if s.Max != nil {
			high = *s.Max
		}
		if g.chance(20) {
			return pick(g, low, high)
		}
		if s.Type.Is(openapi3.TypeInteger) {
			return int64(low) + g.rng.Int64N(max(1, int64(min(high-low, 1e6))))
		}
		return low + g.rng.Float64()*(high-low)
	case s.Type.Is(openapi3.TypeArray):
		list := []any{}
		for range int(s.MinItems) + g.rng.IntN(3) {
			if depth < 6 && (s.MaxItems == nil || len(list) < int(*s.MaxItems)) {
				list = append(list, g.value(s.Items.Value, depth+1))
			}
		}
		return list
	case s.Type.Is(openapi3.TypeObject):
		members := map[string]any{}
		for _, name := range slices.Sorted(keysOf(s.Properties)) {
			if depth < 6 && (slices.Contains(s.Required, name) || g.chance(35)) {
				members[name] = g.value(s.Properties[name].Value, depth+1)
			}
		}
		return members
	case s.Type.Is(openapi3.TypeString):
		return g.word(s)
	}
	return nil
}

func (g *generator) word(s *openapi3.Schema) string {
	switch {
	case s.Format == "date-time":
		return pick(g, "2030-01-02T03:04:05Z", "2026-11-20T00:00:00.123+02:00", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z")
	case strings.Contains(s.Pattern, "@"):
		return "someone@example.com"
	case len(g.ids) > 0 && g.chance(10):
		return pick(g, g.ids...)
	case g.chance(25):
		return g.oddText()
	case g.chance(10) && s.MaxLength != nil && *s.MaxLength < 10_000:
		return strings.Repeat("m", int(*s.MaxLength))
	}
	return pick(g, "one", "two words", "notes/plan.md", "free", "auto")
}

func keysOf(m openapi3.Schemas) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}
