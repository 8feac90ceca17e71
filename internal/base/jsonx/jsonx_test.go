package jsonx

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestUnmarshalRejectsAmbiguousJSON(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"a duplicate name":      `{"a":1,"a":2}`,
		"invalid UTF-8":         "{\"a\":\"\xff\"}",
		"an unpaired surrogate": `{"a":"\ud83d"}`,
		"a second value":        `{"a":1} {"a":2}`,
		"nothing":               ``,
	} {
		var v any
		if err := Unmarshal([]byte(in), &v); err == nil {
			t.Errorf("%s was taken: %s", name, in)
		}
	}
	type known struct{ A int }
	if err := UnmarshalKnown([]byte(`{"A":1,"B":2}`), new(known)); err == nil {
		t.Error("an unknown member was taken")
	}
	if err := Unmarshal([]byte(`{"A":1,"B":2}`), new(known)); err != nil {
		t.Errorf("an unknown member was refused: %v", err)
	}
}

func TestLenientAcceptsMistakes(t *testing.T) {
	t.Parallel()
	var v struct {
		A string `json:"a"`
	}
	if err := Lenient([]byte("{\"a\":1,\"b\":[],\"a\":\"x\xffy\\ud83dz\"}"), &v); err == nil {
		t.Error("a member of the wrong type was taken")
	}
	if err := Lenient([]byte("{\"a\":\"no\",\"b\":[],\"a\":\"x\xffy\\ud83dz\"}"), &v); err != nil {
		t.Fatal(err)
	}
	if want := "x\ufffdy\ufffdz"; v.A != want {
		t.Errorf("got %q, want %q", v.A, want)
	}
}

func TestAppendStringCanBeReadBack(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                 `""`,
		"plain":            `"plain"`,
		"a\"b\\c":          `"a\"b\\c"`,
		"\x00\x1f\r\n\t":   `"\u0000\u001f\r\n\t"`,
		"é 😀 <&>":          `"é 😀 <&>"`,
		"a\u2028b\u2029c":  `"a\u2028b\u2029c"`,
		"x\xffy\xf0\x9f\n": `"x` + "\ufffdy\ufffd\ufffd" + `\n"`,
	} {
		if got := string(AppendString(nil, in)); got != want {
			t.Errorf("%q became %s, want %s", in, got, want)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\u2028\xff\"\\\n")
	f.Fuzz(func(t *testing.T, in string) {
		out := AppendString(nil, in)
		if !utf8.Valid(out) || strings.ContainsAny(string(out), "\n\r\u2028\u2029") {
			t.Fatalf("not one line of UTF-8: %q", out)
		}
		if diff := cmp.Diff(out, AppendString(nil, []byte(in))); diff != "" {
			t.Fatal(diff)
		}
		var back string
		if err := Unmarshal(out, &back); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(in) && back != in {
			t.Fatalf("%q came back as %q", in, back)
		}
	})
}

func BenchmarkAppendString(b *testing.B) {
	dst, s := make([]byte, 0, 1024), strings.Repeat("plain words, a \"quote\" and é; ", 8)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		dst = AppendString(dst[:0], s)
	}
}
