package jsonx

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// anyOf reads the cursor's value as Lenient reads into an any.
func anyOf(c *Cursor) any {
	switch c.Kind() {
	case '{':
		m := map[string]any{}
		for ok := c.Object(); ok && c.Member(); {
			key := string(Mend(c.Key)) // copied: a nested object overwrites it
			m[key] = anyOf(c)
		}
		return m
	case '[':
		a := []any{}
		for ok := c.Array(); ok && c.Element(); {
			a = append(a, anyOf(c))
		}
		return a
	case '"':
		s, _ := c.Text()
		return s
	case 't', 'f':
		b, _ := c.Bool()
		return b
	case '0':
		var f float64
		if Lenient(c.Raw(), &f) != nil {
			return math.Inf(1)
		}
		return f
	default:
		c.Skip()
		return nil
	}
}

func FuzzCursorAgreesWithLenient(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-2.5e3,"x\u00e9\ud83d\ude00\n",{"b":null}],"c":true,"d":false}`, ` [ ] `, `{}`, `[1,]`, `{"a":1,}`, `[,1]`, `{"a" 1}`,
		`{"a\u0062":"\ud83d"}`, `"long enough for the eights \" and \\ more"`, "\"a\tb\"", `01`, `-`, `1.`, `1e`, `tru`, `[[[[`, `{"a":1}x`, `"\x"`, `"\ud83"`,
		"\"\xff\xed\"", `[1 2]`, `{"a":1 "b":2}`, `]`, `}`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var want any
		err := Lenient(in, &want)
		if err != nil && strings.Contains(err.Error(), "out of range") {
			t.Skip("a number beyond float64: a matter of taste")
		}
		skip := NewCursor(in)
		if ok := skip.Done(); ok != (err == nil) {
			t.Fatalf("%q: Done is %v, Lenient says %v", in, ok, err)
		}
		c := NewCursor(in)
		got := anyOf(&c)
		if ok := c.Done(); ok != (err == nil) {
			t.Fatalf("%q: Done after reading is %v, Lenient says %v", in, ok, err)
		}
		if err != nil || bytes.IndexByte(in, 0xed) >= 0 { // raw surrogates are joined here, not there
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q: %s", in, diff)
		}
	})
}

func FuzzJoinerNeverCutsACharacter(f *testing.F) {
	f.Add("a😀é\u2028b", []byte{1, 2, 3, 4}, true)
	f.Add("😀😀", []byte{2, 1}, false)
	f.Fuzz(func(t *testing.T, text string, cuts []byte, escape bool) {
		if !utf8.ValidString(text) || len(text) > 1000 {
			t.Skip()
		}
		// The text as pieces of escapes (cut between UTF-16 units) or of raw bytes.
		var units []string
		if escape {
			for _, r := range text {
				if r >= 0x10000 {
					r -= 0x10000
					units = append(units, u16(0xd800|r>>10), u16(0xdc00|r&0x3ff))
				} else {
					units = append(units, u16(r))
				}
			}
		} else {
			quoted := AppendString(nil, text)
			for i := 1; i < len(quoted)-1; i++ {
				n := max(1, escapeLen(quoted[i:]))
				if quoted[i] != '\\' {
					n = 1
				}
				units = append(units, string(quoted[i:i+n]))
				i += n - 1
			}
		}
		var j Joiner
		var got strings.Builder
		for i := 0; len(units) > 0; i++ {
			n := len(units)
			if i < len(cuts) {
				n = min(n, int(cuts[i]))
			}
			c := NewCursor([]byte(`"` + strings.Join(units[:n], "") + `"`))
			piece := j.Next(&c)
			if !utf8.ValidString(piece) || !c.Done() {
				t.Fatalf("piece %q", piece)
			}
			got.WriteString(piece)
			units = units[n:]
		}
		got.WriteString(j.Rest())
		if got.String() != text {
			t.Fatalf("got %q, want %q", got.String(), text)
		}
	})
}

func u16(r rune) string {
	return `\u` + string([]byte{hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15]})
}

// TestTextsOfAJoinerStayAsTheyWere keeps all texts of a reply, short ones among long ones:
// they share memory, and none may change when another arrives.
func TestTextsOfAJoinerStayAsTheyWere(t *testing.T) {
	var j Joiner
	var got, want []string
	buf := make([]byte, 0, 4*short) // reused, like the buffer of a stream
	for i := range 20 * short {
		text := strings.Repeat(string(rune('a'+i%26)), i%(2*short))
		buf = append(append(append(buf[:0], '"'), text...), '"')
		c := NewReplyCursor(buf)
		got, want = append(got, j.Next(&c)), append(want, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	piece := []byte(`" word"`)
	if n := testing.AllocsPerRun(1000, func() {
		c := NewReplyCursor(piece)
		j.Next(&c)
	}); n >= 1 {
		t.Errorf("a short text takes %v allocations", n)
	}
}

func TestJoinerReplacesAnIncompleteHalf(t *testing.T) {
	t.Parallel()
	var j Joiner
	var got []string
	for _, piece := range []string{`"a\ud83d"`, `"b"`, `"\ude00"`, `"c\ud83d"`, `"\ud83d"`, `"\ude00d"`, "\"\xf0\x9f\"", "\"\x98\"", "\"\x80e\"", `12`, "\"\xed\"", "\"\xa0\"", `"\ud83d"`} {
		c := NewCursor([]byte(piece))
		got = append(got, j.Next(&c))
	}
	got = append(got, j.Rest(), j.Rest())
	want := []string{"a", "\ufffdb", "\ufffd", "c", "\ufffd", "😀d", "", "", "😀e", "", "", "", "\ufffd\ufffd", "\ufffd", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCursorReportsWrongTypesAsAbsent(t *testing.T) {
	t.Parallel()
	c := NewCursor([]byte(`{"a":"1","b":1e30,"c":-1e30,"d":1.5,"e":12.0,"f":{},"g":99999999999999999999,"h":null,"i":["x"],"j":"y"}`))
	type read struct {
		N  int64
		OK bool
	}
	got := map[string]read{}
	for ok := c.Object(); ok && c.Member(); {
		key := string(c.Key)
		switch key {
		case "i":
			if s, ok := c.Text(); ok || s != "" {
				t.Error("an array was read as text")
			}
		case "j":
			if !c.Is("y") {
				t.Error("the member after an array is lost")
			}
		default:
			n, ok := c.Int()
			got[key] = read{n, ok}
		}
	}
	want := map[string]read{"a": {}, "b": {math.MaxInt64, true}, "c": {math.MinInt64, true}, "d": {}, "e": {12, true}, "f": {}, "g": {math.MaxInt64, true}, "h": {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !c.Done() {
		t.Error("not done")
	}
}

func TestCursorLimitsNesting(t *testing.T) {
	t.Parallel()
	for _, n := range []int{MaxDepth, MaxDepth + 1} {
		c := NewCursor([]byte(strings.Repeat("[", n) + strings.Repeat("]", n)))
		if got := c.Done(); got != (n <= MaxDepth) {
			t.Errorf("%d levels: done is %v", n, got)
		}
	}
}

func BenchmarkCursor(b *testing.B) {
	in := []byte(`{"id":"cac7192e-e619-40c6-96b0-ed4276bc03ac","object":"chat.completion.chunk","created":1764661832,"model":"deepseek-reasoner","system_fingerprint":"fp_eaab8d114b_prod0820_fp8_kvcache","choices":[{"index":0,"delta":{"content":" word","reasoning_content":null},"logprobs":null,"finish_reason":null}],"usage":null}`)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		c := NewCursor(in)
		if !c.Done() {
			b.Fatal("not done")
		}
	}
}

// BenchmarkDecoder walks the same text with the token reader of the library,
// to compare with BenchmarkCursor.
func BenchmarkDecoder(b *testing.B) {
	in := []byte(`{"id":"cac7192e-e619-40c6-96b0-ed4276bc03ac","object":"chat.completion.chunk","created":1764661832,"model":"deepseek-reasoner","system_fingerprint":"fp_eaab8d114b_prod0820_fp8_kvcache","choices":[{"index":0,"delta":{"content":" word","reasoning_content":null},"logprobs":null,"finish_reason":null}],"usage":null}`)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	r := bytes.NewReader(in)
	d := jsontext.NewDecoder(r)
	for b.Loop() {
		r.Reset(in)
		d.Reset(r, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
		for {
			if _, err := d.ReadToken(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestReplyCursorReplacesNUL(t *testing.T) {
	t.Parallel()
	in := []byte(`["a\u0000b", "\u0000", "\\u0000\ud83d", "\ude00\u0000"]`)
	read := func(c Cursor) (texts []string, joined string) {
		var j Joiner
		for ok := c.Array(); ok && c.Element(); {
			again := c
			s, _ := again.Text()
			texts = append(texts, s)
			joined += j.Next(&c)
		}
		return texts, joined + j.Rest()
	}
	texts, joined := read(NewReplyCursor(in))
	if diff := cmp.Diff([]string{"a\ufffdb", "\ufffd", "\\u0000\ufffd", "\ufffd\ufffd"}, texts); diff != "" || joined != "a\ufffdb\ufffd\\u0000😀\ufffd" {
		t.Errorf("%s%q", diff, joined)
	}
	if texts, _ := read(NewCursor(in)); texts[0] != "a\x00b" {
		t.Errorf("a cursor for callers reads %q", texts)
	}
}
