package jsonx

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// learnFrom makes text a pattern in which the members a, b and c of the outermost
// objects, one beside or in the other, are open.
func learnFrom(p *Pattern, text []byte) {
	p.Begin(text)
	c := NewReplyCursor(text)
	var walk func()
	walk = func() {
		for ok := c.Object(); ok && c.Member(); {
			switch key := string(c.Key); key {
			case "a", "b", "c":
				p.Open(key[0], &c)
			case "in":
				walk()
			case "no":
				p.Spoil()
			}
		}
	}
	walk()
	if c.Done() {
		p.Learn('a')
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	const text = `{"a":"x","in":{"b":1, "d":[2]},"e":null,"c":{"f":"g"}}`
	for _, test := range []struct {
		learned, text string
		a, b, c       string // the open values; empty: it does not match
	}{
		{text, text, `"x"`, `1`, `{"f":"g"}`},
		{text, `{"a":"","in":{"b":-2.5e3, "d":[2]},"e":null,"c":{}}`, `""`, `-2.5e3`, `{}`},
		{text, `{"a":"a \"quoted\" one","in":{"b":1, "d":[2]},"e":null,"c":{"f":[{}]}}`, `"a \"quoted\" one"`, `1`, `{"f":[{}]}`},
		{text, `{"a":"x","in":{"b":1,"d":[2]},"e":null,"c":{"f":"g"}}`, "", "", ""},
		{text, `{"a":"x","in":{"b":1, "d":[3]},"e":null,"c":{"f":"g"}}`, "", "", ""},
		{text, `{"a":"x","in":{"b":1, "d":[2]},"e":null,"c":{"f":"g"}`, "", "", ""},
		{text, `{"a":"x","in":{"b":1, "d":[2]},"e":null,"c":{"f":"g"}} `, "", "", ""},
		{text, `{"a":null,"in":{"b":1, "d":[2]},"e":null,"c":{"f":"g"}}`, "", "", ""},
		{text, `{"a":"x","in":{"b":01, "d":[2]},"e":null,"c":{"f":"g"}}`, "", "", ""},
		{text, `{"a":"x","in":{"b":1, "d":[2]},"e":null,"c":{"f":g}}`, "", "", ""},
		{text, "{\"a\":\"x\ny\",\"in\":{\"b\":1, \"d\":[2]},\"e\":null,\"c\":{\"f\":\"g\"}}", "", "", ""},
		{text, `{"a":"x`, "", "", ""},
		{text, `{"a":`, "", "", ""},
		{text, ``, "", "", ""},
		{`{"a":1,"a":2}`, `{"a":1,"a":2}`, "", "", ""},
		{`{"a":1,"no":2}`, `{"a":1,"no":2}`, "", "", ""},
		{`{"b":1}`, `{"b":1}`, "", "", ""}, // without a, nothing is learned
		{`{"a":1`, `{"a":1`, "", "", ""},
		{``, ``, "", "", ""},
	} {
		var p Pattern
		learnFrom(&p, []byte(test.learned))
		ok := p.Match([]byte(test.text))
		if ok != (test.a != "") {
			t.Errorf("%s, learned from %s: %v", test.text, test.learned, ok)
			continue
		}
		if !ok {
			continue
		}
		for name, want := range map[uint8]string{'a': test.a, 'b': test.b, 'c': test.c} {
			if c, ok := p.Value(name); !ok || string(c.Raw()) != want {
				t.Errorf("%s: the value %c is another than %s", test.text, name, want)
			}
		}
		if _, ok := p.Value('d'); ok {
			t.Errorf("%s: d is not open", test.text)
		}
	}
}

func TestAPatternIsKeptUntilTheNext(t *testing.T) {
	t.Parallel()
	var p Pattern
	learnFrom(&p, []byte(`{"a":1}`))
	learnFrom(&p, []byte(`{"a":1,"no":1}`))
	if !p.Match([]byte(`{"a":2}`)) {
		t.Error("what was spoiled took the place of a pattern")
	}
	other := NewCursor([]byte(`[3]`))
	p.Begin([]byte(`[4]`))
	other.Array()
	other.Element()
	p.Open('a', &other)
	p.Learn('a')
	if !p.Match([]byte(`{"a":2}`)) || p.Match([]byte(`[5]`)) {
		t.Error("a cursor over another text was taken for one over this")
	}
	learnFrom(&p, []byte(`{"a":[1]}`))
	if p.Match([]byte(`{"a":2}`)) || !p.Match([]byte(`{"a":[2]}`)) {
		t.Error("the next pattern does not count")
	}
	long := make([]byte, maxPattern)
	for i := range long {
		long[i] = 'x'
	}
	learnFrom(&p, []byte(`{"a":"`+string(long)+`"}`))
	if p.Match([]byte(`{"a":"y"}`)) {
		t.Error("a long text was kept")
	}
}

func FuzzPatternAgreesWithCursor(f *testing.F) {
	for _, s := range [][2]string{
		{`{"a":1,"x":[1,"é",{"b":2}],"c":"t"}`, `{"a":-1.5,"x":[1,"é",{"b":2}],"c":""}`},
		{`{"in":{"a":{"a":1}},"b":true} `, `{"in":{"a":{"a":{}}},"b":true} `},
		{`{"a":"\ud83d"}`, `{"a":"\"}"}`},
		{`{"a":0}`, `{"a":00}`},
		{`{"a":[]}`, `{"a":[[[]]]}`},
	} {
		f.Add([]byte(s[0]), []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, learned, text []byte) {
		var p Pattern
		learnFrom(&p, learned)
		if !p.Match(text) {
			if c := NewCursor(learned); p.n > 0 && c.Done() && !p.Match(learned) {
				t.Fatalf("%q does not match itself", learned)
			}
			return
		}
		was, is := NewCursor(learned), NewCursor(text)
		if diff := cmp.Diff(closed(&was), closed(&is)); diff != "" || !is.Done() {
			t.Fatalf("%q matched %q: %s", text, learned, diff)
		}
	})
}

// closed reads the cursor's value without what [learnFrom] opened.
func closed(c *Cursor) any {
	if c.Kind() != '{' {
		return anyOf(c)
	}
	m := map[string]any{}
	for ok := c.Object(); ok && c.Member(); {
		switch key := string(c.Key); key {
		case "a", "b", "c":
			m[key] = c.Kind()
		case "in":
			m[key] = closed(c)
		default:
			m[key] = anyOf(c)
		}
	}
	return m
}
