package sse

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// events returns the events of src as "type|data" and what [Reader.Leftover] reports.
func events(src io.Reader) (got []string, left bool, err error) {
	r := NewReader(src, 0)
	for {
		ev, err := r.Next()
		if err == io.EOF {
			return got, r.Leftover(), nil
		}
		if err != nil {
			return got, false, err
		}
		got = append(got, string(ev.Type)+"|"+string(ev.Data))
	}
}

var streams = map[string]struct {
	in   string
	want []string
	left bool
}{
	"nothing":                               {"", nil, false},
	"one event":                             {"data: a\n\n", []string{"|a"}, false},
	"a type":                                {"event: x\ndata: a\n\n", []string{"x|a"}, false},
	"no space after the colon":              {"event:x\ndata:a\n\n", []string{"x|a"}, false},
	"only the first space is dropped":       {"data:  a \n\n", []string{"| a "}, false},
	"CRLF":                                  {"event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{"x|a", "|b"}, false},
	"CR":                                    {"event: x\rdata: a\r\rdata: b\r\r", []string{"x|a", "|b"}, false},
	"mixed line ends":                       {"data: a\r\n\rdata: b\n\r\ndata: c\r\n\n", []string{"|a", "|b", "|c"}, false},
	"several lines of data":                 {"data: a\ndata\ndata:\ndata: b\n\n", []string{"|a\n\n\nb"}, false},
	"data without a colon is empty data":    {"data\n\n", []string{"|"}, false},
	"an event without data is none":         {"event: x\n\ndata: a\n\n", []string{"|a"}, false},
	"comments":                              {": hi\n\n:\ndata: a\n: mid\n\n", []string{"|a"}, false},
	"a byte order mark":                     {"\ufeffdata: a\n\n", []string{"|a"}, false},
	"a second byte order mark is a field":   {"\ufeff\ufeffdata: a\n\ndata: b\n\n", []string{"|b"}, false},
	"id and retry are passed over":          {"id: 1\nretry: 5\ndata: a\n\n", []string{"|a"}, false},
	"unknown fields are passed over":        {"dataset: x\ndata: a\n DATA: b\n\n", []string{"|a"}, false},
	"the last of two types counts":          {"event: x\nevent: y\ndata: a\n\n", []string{"y|a"}, false},
	"no blank line at the end is no event":  {"data: a\n\ndata: b\n", []string{"|a"}, true},
	"half a line at the end is no event":    {"data: a\n\nda", []string{"|a"}, true},
	"a comment at the end cuts nothing":     {"data: a\n\n: bye", []string{"|a"}, false},
	"blank lines at the end cut nothing":    {"data: a\n\n\n\r\n", []string{"|a"}, false},
	"an LF after an event's CR is its part": {"data: a\r\n\r\n", []string{"|a"}, false},
}

func TestReader(t *testing.T) {
	t.Parallel()
	for name, tc := range streams {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"whole":             func(r io.Reader) io.Reader { return r },
			"byte by byte":      iotest.OneByteReader,
			"EOF with the data": iotest.DataErrReader,
		} {
			got, left, err := events(wrap(strings.NewReader(tc.in)))
			if err != nil {
				t.Errorf("%s, %s: %v", name, how, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s, %s: %s", name, how, diff)
			}
			if left != tc.left {
				t.Errorf("%s, %s: left over is %v", name, how, left)
			}
		}
	}
}

func TestReaderLimitsAnEvent(t *testing.T) {
	t.Parallel()
	long := "data: " + strings.Repeat("x", 100_000) + "\n\n"
	r := NewReader(strings.NewReader("data: a\n\n"+long), 50_000)
	if ev, err := r.Next(); err != nil || string(ev.Data) != "a" {
		t.Fatalf("first event: %q, %v", ev.Data, err)
	}
	_, err := r.Next()
	if tooLarge, ok := errors.AsType[*TooLargeError](err); !ok || tooLarge.Limit != 50_000 {
		t.Errorf("got %v", err)
	}
	endless := io.MultiReader(strings.NewReader(strings.Repeat(": keep-alive\n", 100_000)), strings.NewReader("\ndata: a\n\n"))
	if ev, err := NewReader(endless, 50_000).Next(); err != nil || string(ev.Data) != "a" {
		t.Errorf("comments count as an event: %q, %v", ev.Data, err)
	}
	if ev, err := NewReader(strings.NewReader(long), 0).Next(); err != nil || len(ev.Data) != 100_000 {
		t.Errorf("an event within the limit: %v", err)
	}
}

func TestReaderReturnsTheSourcesError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 0)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(); err != broken {
			t.Errorf("got %v", err)
		}
	}
	if _, err := NewReader(idle{}, 0).Next(); err != io.ErrNoProgress {
		t.Errorf("a source that returns nothing: %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// parts returns each of its strings in one Read.
type parts []string

func (p *parts) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	*p = (*p)[1:]
	return n, nil
}

func TestMoreMeansNextDoesNotRead(t *testing.T) {
	t.Parallel()
	r := NewReader(&parts{"data: a\n\ndata: b\n\n", "data: c\r\n\r", "\n: comment\n\n", "data: d\n\n: comment\n\nevent: x\n\n", "data: e\n\ndata", ": f\n\n"}, 0)
	if r.More() {
		t.Error("more before anything was read")
	}
	var got []string
	for {
		ev, err := r.Next()
		if err != nil {
			break
		}
		got = append(got, fmt.Sprintf("%s %v", ev.Data, r.More()))
	}
	if diff := cmp.Diff([]string{"a true", "b false", "c false", "d false", "e false", "f false"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFirstAndRest(t *testing.T) {
	t.Parallel()
	r := NewReader(iotest.OneByteReader(strings.NewReader("\ufeff\r\n \t{\"a\": 1}")), 0)
	if k, err := r.First(); k != '{' || err != nil {
		t.Errorf("first is %q, %v", k, err)
	}
	if rest, err := r.Rest(100); string(rest) != "\r\n \t{\"a\": 1}" || err != nil {
		t.Errorf("rest is %q, %v", rest, err)
	}
	r = NewReader(iotest.OneByteReader(strings.NewReader("\n\ndata: a\n\n")), 0)
	if k, err := r.First(); k != 'd' || err != nil {
		t.Errorf("first is %q, %v", k, err)
	}
	if ev, err := r.Next(); string(ev.Data) != "a" || err != nil {
		t.Errorf("next is %q, %v", ev.Data, err)
	}
	if _, err := NewReader(strings.NewReader(" \n"), 0).First(); err != io.EOF {
		t.Errorf("first of nothing: %v", err)
	}
	if _, err := NewReader(strings.NewReader(strings.Repeat("x", 9000)), 0).Rest(5000); err == nil {
		t.Error("the rest has no limit")
	}
}

func TestAppendedEventsCanBeReadBack(t *testing.T) {
	t.Parallel()
	var b []byte
	b = AppendEvent(b, "x", `{"a":1}`)
	b = AppendComment(b, "keepalive\nevent: no")
	b = AppendEvent(b, "", []byte("a\nb\r\n\nc"))
	b = AppendEvent(b, "y\ndata: no", " ")
	b = AppendEnd(append(AppendHead(AppendID(b, -7), "z"), "[]"...))
	want := "event: x\ndata: {\"a\":1}\n\n: keepaliveevent: no\n\ndata: a\ndata: b\ndata: \ndata: c\n\nevent: ydata: no\ndata:  \n\nid: -7\nevent: z\ndata: []\n\n"
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Error(diff)
	}
	got, left, err := events(strings.NewReader(string(b)))
	if diff := cmp.Diff([]string{`x|{"a":1}`, "|a\nb\n\nc", "ydata: no| ", "z|[]"}, got); diff != "" || left || err != nil {
		t.Error(diff, left, err)
	}
}

// FuzzReader checks that the result does not depend on how the bytes arrive, and
// that after More Next does not read.
func FuzzReader(f *testing.F) {
	for _, tc := range streams {
		f.Add(tc.in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		want, left, err := events(strings.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		got, left2, err := events(iotest.OneByteReader(strings.NewReader(in)))
		if diff := cmp.Diff(want, got); diff != "" || left != left2 || err != nil {
			t.Fatal(diff, left, left2, err)
		}
		r := NewReader(strings.NewReader(in), 0)
		for n := range want {
			if n > 0 && len(in) < 4096 && !r.More() {
				t.Fatalf("event %d is buffered, and More is false", n)
			}
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		if r.More() {
			t.Fatal("More is true after the last event")
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatal(err)
		}
		ended, _, _ := events(strings.NewReader(in + "\n\n"))
		if ev, ok := r.Partial(); ok {
			want = append(want, string(ev.Type)+"|"+string(ev.Data))
		}
		if diff := cmp.Diff(ended, want); diff != "" {
			t.Fatalf("Partial is not the event that a blank line would end: %s", diff)
		}
	})
}

func TestPartial(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                        "",
		"data: a\n\n":             "",
		"data: a\n":               "|a",
		"data: a":                 "|a",
		"data: a\n\ndata: b":      "|b",
		"event: x\r\ndata: a\r\n": "x|a",
		"data: a\ndata: b\n":      "|a\nb",
		"data: a\r":               "|a",
		"event: x\n":              "",
		": comment":               "",
		"data: a\n\n: comment\n":  "",
	} {
		r := NewReader(strings.NewReader(in), 0)
		var err error
		for err == nil {
			_, err = r.Next()
		}
		got := ""
		if ev, ok := r.Partial(); ok {
			got = string(ev.Type) + "|" + string(ev.Data)
		}
		if got != want || err != io.EOF {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

func BenchmarkReader(b *testing.B) {
	one := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" some words\"}}\n\n"
	in := strings.Repeat(one, 1000)
	b.ReportAllocs()
	var n int
	for b.Loop() {
		r := NewReader(strings.NewReader(in), 0)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
			r.More()
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
}

// A watched source returns at most one part for each read, and records the size of each
// read's buffer.
type watched struct {
	parts []string
	sizes []int
}

func (w *watched) Read(b []byte) (int, error) {
	w.sizes = append(w.sizes, len(b))
	if len(w.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, w.parts[0])
	if w.parts[0] = w.parts[0][n:]; w.parts[0] == "" {
		w.parts = w.parts[1:]
	}
	return n, nil
}

func TestAWaitingReaderHoldsASmallBuffer(t *testing.T) {
	t.Parallel()
	event := func(letter string, n int) string { return "data: " + strings.Repeat(letter, n) + "\n\n" }
	small, long := event("s", 200), event("l", 200<<10)
	bursts := strings.Repeat(event("b", 192), 20000/200)
	src := &watched{parts: []string{small, small, long, small, small, small, bursts, bursts, small, small}}
	r := NewReader(src, 0)
	var got strings.Builder
	waits := map[string]int{} // by the data after the wait: the buffer size during the wait
	for {
		waiting := r.start == r.end
		reads := len(src.sizes)
		ev, err := r.Next()
		if err != nil {
			break
		}
		fmt.Fprintf(&got, "%c%d ", ev.Data[0], len(ev.Data))
		if waiting && len(src.sizes) == reads+1 {
			waits[string(ev.Data[:1])] = src.sizes[reads]
		}
	}
	want := "s200 s200 l204800 " + strings.Repeat("s200 ", 3) + strings.Repeat("b192 ", 200) + "s200 s200 "
	if got.String() != want {
		t.Errorf("read %s, want %s", &got, want)
	}
	if waits["s"] != smallBuffer || waits["b"] < bigBuffer-1 {
		t.Errorf("waited with sizes of %v; all: %v", waits, src.sizes)
	}
	if r.lent != nil {
		t.Error("the end is waited for with a buffer of the pool")
	}
}

func TestAReleasedReaderHoldsNoBuffer(t *testing.T) {
	t.Parallel()
	r := NewReader(strings.NewReader(strings.Repeat("data: a\n\n", bigBuffer)), 0)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	for r.lent == nil {
		if _, err := r.Next(); err != nil {
			t.Fatal("the reader never took a buffer of the pool: ", err)
		}
	}
	if r.Release(); r.lent != nil || r.buf != nil || r.small != nil {
		t.Error("a released reader still holds memory")
	}
	r.Release() // releasing twice equals releasing once
}

func TestReadersDoNotShareABuffer(t *testing.T) {
	t.Parallel()
	text := func(letter string) string {
		return strings.Repeat("data: "+strings.Repeat(letter, 3000)+"\n\n", 3) + "data: " + letter + "\n\n"
	}
	a, b := NewReader(strings.NewReader(text("a")), 0), NewReader(strings.NewReader(text("b")), 0)
	for i := range 4 {
		one, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		two, err := b.Next()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Trim(string(one.Data), "a") != "" || strings.Trim(string(two.Data), "b") != "" {
			t.Errorf("event %d has bytes of another reader", i)
		}
	}
}
