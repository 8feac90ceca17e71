package wire

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

var update = flag.Bool("update", false, "rewrite the want.* sections of the fixtures")

// A fixture is one file of testdata/<wire>: the input (call.json, route.json,
// reply.*, error.raw) and the expected results (want.*).
type fixture struct {
	wire, name string
	path       string
	archive    *txtar.Archive
	route      stoa.Route
}

func (f fixture) section(name string) ([]byte, bool) {
	for _, s := range f.archive.Files {
		if s.Name == name {
			return s.Data, true
		}
	}
	return nil, false
}

// reply returns the body: reply.raw as it is, reply.crlf and reply.cr with those
// line ends, reply.quoted as lines of Go string literals.
func (f fixture) reply() ([]byte, bool) {
	for name, turn := range map[string]func([]byte) []byte{
		"reply.raw":  func(b []byte) []byte { return b },
		"reply.crlf": func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) },
		"reply.cr":   func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r")) },
		"reply.quoted": func(b []byte) (out []byte) {
			for line := range strings.Lines(string(b)) {
				s, err := strconv.Unquote(strings.TrimSpace(line))
				if err != nil {
					panic(err)
				}
				out = append(out, s...)
			}
			return out
		},
	} {
		if b, ok := f.section(name); ok {
			return turn(b), true
		}
	}
	return nil, false
}

func fixtures(t testing.TB) (out []fixture) {
	for _, wire := range slices.Sorted(maps.Keys(codecs)) {
		paths, err := filepath.Glob("testdata/" + wire + "/*.txtar")
		if err != nil || len(paths) == 0 {
			t.Fatalf("wire %s has no fixtures (%v)", wire, err)
		}
		for _, path := range paths {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f := fixture{wire: wire, name: strings.TrimSuffix(filepath.Base(path), ".txtar"), path: path, archive: a}
			f.route = stoa.Route{Provider: "p", Model: "upstream-model", Wire: wire}
			if b, ok := f.section("route.json"); ok {
				if err := jsonx.UnmarshalKnown(b, &f.route); err != nil {
					t.Fatalf("%s: route.json: %v", path, err)
				}
			}
			out = append(out, f)
		}
	}
	return out
}

func eachFixture(t *testing.T, do func(t *testing.T, f fixture)) {
	for _, f := range fixtures(t) {
		t.Run(f.wire+"/"+f.name, func(t *testing.T) { do(t, f) })
	}
}

// want compares a section with got, or rewrites it with -update.
func (f fixture) want(t *testing.T, name, got string) {
	t.Helper()
	if !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	if !*update {
		want, ok := f.section(name)
		if !ok {
			t.Errorf("no section %s; run with -update", name)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		return
	}
	at := slices.IndexFunc(f.archive.Files, func(s txtar.File) bool { return s.Name == name })
	if at < 0 {
		at = len(f.archive.Files)
		f.archive.Files = append(f.archive.Files, txtar.File{Name: name})
	}
	f.archive.Files[at].Data = []byte(got)
	if err := os.WriteFile(f.path, txtar.Format(f.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// An outcome is the combined result of the events of a reply.
type outcome struct {
	lines    []string // one per event, except that neighbouring deltas stay apart
	text     string
	calls    []stoa.ToolCall
	states   []stoa.State
	refusal  string
	thinking int
	last     stoa.Event // Finished, or the zero event
	err      error
}

func (o outcome) complete() bool { return o.err == nil && o.last.Kind == stoa.Finished }

func (o outcome) String() string { return strings.Join(o.lines, "\n") }

// collect reads all events and checks the invariants of every reply.
func collect(t testing.TB, events iter.Seq2[*stoa.Event, error]) (o outcome) {
	over := false
	var open stoa.ToolCall // with the arguments so far
	for ev, err := range events {
		if over {
			t.Fatalf("an event after the end: %v, %v, after %v", ev, err, o.lines)
		}
		if open.ID != "" && err == nil {
			switch ev.Kind {
			case stoa.Delta, stoa.Summary, stoa.Reasoned, stoa.Refusal, stoa.CallStarted, stoa.Phased:
				t.Fatalf("an event of kind %d inside a call, after %v", ev.Kind, o.lines)
			}
		}
		if err != nil {
			over = true
			f, ok := errors.AsType[*Failure](err)
			if !ok {
				t.Fatalf("not a Failure: %v", err)
			}
			o.err = err
			o.lines = append(o.lines, showFailure(f))
			continue
		}
		switch ev.Kind {
		case stoa.UsageSoFar:
			o.lines = append(o.lines, "usage "+showUsage(ev.Usage))
		case stoa.Thinking:
			if ev.Thinking <= 0 {
				t.Fatalf("empty thinking")
			}
			o.thinking += ev.Thinking
			o.lines = append(o.lines, fmt.Sprint("thinking ", ev.Thinking))
		case stoa.Delta:
			if ev.Text == "" || !utf8.ValidString(ev.Text) {
				t.Fatalf("a delta of %q", ev.Text)
			}
			o.text += ev.Text
			o.lines = append(o.lines, fmt.Sprintf("delta %q", ev.Text))
			if ev.HasUsage {
				o.lines = append(o.lines, "usage "+showUsage(ev.Usage))
			}
		case stoa.Refusal:
			if ev.Text == "" || !utf8.ValidString(ev.Text) {
				t.Fatalf("a refusal of %q", ev.Text)
			}
			o.refusal += ev.Text
			o.lines = append(o.lines, fmt.Sprintf("refusal %q", ev.Text))
		case stoa.Summary:
			if ev.Text == "" || !utf8.ValidString(ev.Text) {
				t.Fatalf("a summary of %q", ev.Text)
			}
			o.lines = append(o.lines, fmt.Sprintf("summary %q", ev.Text))
		case stoa.Reasoned:
			o.states = append(o.states, ev.State)
			o.lines = append(o.lines, fmt.Sprintf("reasoned %s %s %s", ev.State.Wire, ev.State.Model, ev.State.Data))
		case stoa.Phased:
			if ev.Text != "" && !stoa.IsName(ev.Text) || ev.State.Data != "" {
				t.Fatalf("a phase of %q, with %+v", ev.Text, ev.State)
			}
			o.lines = append(o.lines, fmt.Sprintf("phase %q", ev.Text))
		case stoa.CallStarted:
			open = ev.Call
			if !stoa.IsName(open.ID) || open.Name == "" || open.Arguments != "" {
				t.Fatalf("a call begins as %+v", open)
			}
			o.lines = append(o.lines, fmt.Sprintf("call %s %s", showID(open.ID), open.Name))
		case stoa.CallDelta:
			if ev.Text == "" || !utf8.ValidString(ev.Text) || open.ID == "" {
				t.Fatalf("arguments of %q for %+v", ev.Text, open)
			}
			open.Arguments += ev.Text
			o.lines = append(o.lines, fmt.Sprintf("arguments %q", ev.Text))
		case stoa.Called:
			if open.ID != "" && ev.Call != open || open.ID != "" && open.Arguments == "" {
				t.Fatalf("%+v was called, and %+v begun", ev.Call, open)
			}
			open = stoa.ToolCall{}
			o.calls = append(o.calls, ev.Call)
			line := fmt.Sprintf("called %s %s %s", showID(ev.Call.ID), ev.Call.Name, ev.Call.Arguments)
			if ev.Call == (stoa.ToolCall{}) {
				line = "called, not readable"
			}
			o.lines = append(o.lines, line)
		case stoa.Finished:
			if open.ID != "" && ev.Stop != stoa.StopLength && ev.Stop != stoa.StopContentFilter {
				t.Fatalf("the reply ends as %s inside a call, after %v", ev.Stop, o.lines)
			}
			over = true
			o.last = *ev
			line := "finished " + string(ev.Stop) + " " + showUsage(ev.Usage)
			if ev.Other != "" {
				line += " only " + ev.Other
			}
			if !ev.HasUsage {
				line += " (usage unknown)"
			}
			if ev.State != (stoa.State{}) {
				t.Fatalf("the end of the reply has a state: %v", ev.State)
			}
			o.lines = append(o.lines, line)
		default:
			t.Fatalf("an event of kind %d from a codec", ev.Kind)
		}
	}
	if !over {
		t.Fatalf("neither finished nor failed: %v", o.lines)
	}
	return o
}

var madeID = regexp.MustCompile(`^call_[A-Z2-7]{24}$`)

// showID returns the id of a call, without the letters of one that was made here.
func showID(id string) string { return madeID.ReplaceAllString(id, "call_made") }

func showUsage(u stoa.Usage) string {
	s := fmt.Sprintf("in=%d out=%d", u.InputTokens, u.OutputTokens)
	for _, n := range []struct {
		name  string
		count int64
	}{{"cached", u.CachedTokens}, {"written", u.CacheWriteTokens}, {"long", u.CacheWriteLongTokens}, {"reasoning", u.ReasoningTokens}} {
		if n.count != 0 {
			s += fmt.Sprintf(" %s=%d", n.name, n.count)
		}
	}
	return s
}

func showFailure(f *Failure) string {
	s := "failed " + string(f.Err.Code)
	if f.Err.Param != "" {
		s += " param=" + f.Err.Param
	}
	for _, b := range []struct {
		name string
		is   bool
	}{{"retry", f.Retry}, {"caller", f.Caller}, {"ours", f.Ours}, {"neutral", f.Neutral}} {
		if b.is {
			s += " " + b.name
		}
	}
	if f.RetryAfter != 0 {
		s += fmt.Sprint(" after=", f.RetryAfter)
	}
	if f.Err.RetryAfter != 0 {
		s += fmt.Sprint(" told=", f.Err.RetryAfter)
	}
	if f.Status != 0 {
		s += fmt.Sprint(" status=", f.Status)
	}
	if f.RequestID != "" {
		s += " id=" + f.RequestID
	}
	return s + "\n  " + f.Err.Message + "\n  " + f.Detail
}

func TestFixturesEncode(t *testing.T) {
	t.Parallel()
	eachFixture(t, func(t *testing.T, f fixture) {
		given, ok := f.section("call.json")
		if !ok {
			return
		}
		var call stoa.Call
		if err := jsonx.UnmarshalKnown(given, &call); err != nil {
			t.Fatal(err)
		}
		req, err := codecs[f.wire].Encode(call, f.route, "sk-secret")
		if err != nil {
			f.want(t, "want.request", err.Error())
			return
		}
		if !jsonx.Valid(req.Body) {
			t.Errorf("the request is no JSON: %s", req.Body)
		}
		if bytes.Contains(req.Body, []byte("sk-secret")) || strings.Contains(req.Path, "sk-secret") {
			t.Error("the key is outside the header")
		}
		if n := bytes.Count(req.Body, []byte("\n")); n != 0 {
			t.Errorf("the body has %d line ends", n)
		}
		head := "POST " + req.Path
		if beta := req.Header.Get("Anthropic-Beta"); beta != "" {
			head += "\nAnthropic-Beta: " + beta
		}
		f.want(t, "want.request", head+"\n"+string(req.Body))
	})
}

// TestFixturesDecode decodes every reply. A fixture may have want.json, the [Want] of its
// reply.
func TestFixturesDecode(t *testing.T) {
	t.Parallel()
	eachFixture(t, func(t *testing.T, f fixture) {
		body, ok := f.reply()
		if !ok {
			return
		}
		want := Want{Tools: true}
		if text, ok := f.section("want.json"); ok {
			want = Want{}
			if err := jsonx.UnmarshalKnown(text, &want); err != nil {
				t.Fatal(err)
			}
		}
		f.want(t, "want.events", checkReply(t, f, body, want).String())
	})
}

// checkReply decodes the reply of a fixture and checks that it is the same however its
// bytes arrive.
func checkReply(t *testing.T, f fixture, body []byte, want Want) outcome {
	t.Helper()
	codec := codecs[f.wire]
	whole := collect(t, codec.Decode(bytes.NewReader(body), f.route, want))
	for how, r := range map[string]io.Reader{
		"one byte at a time": iotest.OneByteReader(bytes.NewReader(body)),
		"half reads":         iotest.HalfReader(bytes.NewReader(body)),
		"EOF with the data":  iotest.DataErrReader(bytes.NewReader(body)),
	} {
		if diff := cmp.Diff(whole.lines, collect(t, codec.Decode(r, f.route, want)).lines); diff != "" {
			t.Errorf("%s: %s", how, diff)
		}
	}
	for n := range whole.lines { // a reader that stops is not called again
		for range codec.Decode(bytes.NewReader(body), f.route, want) {
			if n--; n < 0 {
				break
			}
		}
	}
	if whole.complete() {
		checkCuts(t, f.wire, f.route, want, body, whole, 1)
	}
	return whole
}

// checkCuts cuts a reply after every step-th byte, once with a clean end and once with a
// broken connection, and checks that no cut is accepted as complete.
func checkCuts(t *testing.T, wire string, route stoa.Route, want Want, body []byte, whole outcome, step int) {
	t.Helper()
	broken := errors.New("connection reset")
	// These formats have no terminator: the body ends after the stop reason, which only
	// counts can follow.
	open := wire == "gemini" || wire == "chat" && route.Dialect != "openai" && route.Dialect != "deepseek"
	for n := 0; n < len(body); n += step {
		cut := collect(t, codecs[wire].Decode(bytes.NewReader(body[:n]), route, want))
		if cut.complete() {
			same := cmp.Diff(whole.lines, cut.lines) == ""
			if open {
				if !betweenEvents(body[:n]) {
					t.Fatalf("cut after %d of %d bytes, inside an event, it looks complete: %v", n, len(body), cut.lines)
				}
				same = cut.text == whole.text && cut.last.Stop == whole.last.Stop && cut.last.State == whole.last.State && slices.EqualFunc(cut.calls, whole.calls, alikeCalls) && slices.Equal(cut.states, whole.states)
			}
			if !same {
				t.Fatalf("cut after %d of %d bytes it looks complete: %v", n, len(body), cut.lines)
			}
		}
		if !strings.HasPrefix(whole.text, cut.text) {
			t.Fatalf("cut after %d bytes it has another text: %q", n, cut.text)
		}
		reset := collect(t, codecs[wire].Decode(io.MultiReader(bytes.NewReader(body[:n]), iotest.ErrReader(broken)), route, want))
		if reset.complete() {
			if open || cmp.Diff(whole.lines, reset.lines) != "" {
				t.Fatalf("broken after %d of %d bytes it looks complete: %v", n, len(body), reset.lines)
			}
		}
	}
}

// alikeCalls reports whether two calls are the same except for an id that was generated here.
func alikeCalls(a, b stoa.ToolCall) bool {
	a.ID, b.ID = showID(a.ID), showID(b.ID)
	return a == b
}

// betweenEvents reports whether a cut leaves no partial event, except one without its blank
// line, or the reply is one JSON text.
func betweenEvents(body []byte) bool {
	s := strings.ReplaceAll(strings.ReplaceAll(string(body), "\r\n", "\n"), "\r", "\n")
	trimmed := strings.TrimSpace(s)
	return strings.HasSuffix(s, "\n\n") || strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") || strings.HasSuffix(trimmed, "}") || strings.HasSuffix(trimmed, "[DONE]")
}

func TestFixturesDecodeError(t *testing.T) {
	t.Parallel()
	eachFixture(t, func(t *testing.T, f fixture) {
		raw, ok := f.section("error.raw")
		if !ok {
			return
		}
		head, body, _ := strings.Cut(string(raw), "\n\n")
		lines := strings.Split(head, "\n")
		status, err := strconv.Atoi(lines[0])
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		for _, line := range lines[1:] {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		failure := codecs[f.wire].DecodeError(status, h, []byte(body))
		checkFailure(t, failure, body)
		f.want(t, "want.failure", showFailure(failure))
	})
}

// checkFailure checks the invariants of every failure.
func checkFailure(t testing.TB, f *Failure, body string) {
	t.Helper()
	switch {
	case f.Err == nil || f.Err.Code == "" || f.Err.Message == "":
		t.Errorf("no error for the caller: %+v", f)
	case f.Retry && (f.Caller || f.Ours):
		t.Errorf("a retry that cannot help: %+v", f)
	case len(f.Detail) > maxDetail || !utf8.ValidString(f.Detail) || strings.ContainsAny(f.Detail, "\n\r"):
		t.Errorf("the detail is not fit for a log: %q", f.Detail)
	case f.RetryAfter < 0 || f.RetryAfter > maxWait:
		t.Errorf("a wait of %v", f.RetryAfter)
	}
	if code := f.Err.Code; code == stoa.CodeQuota || code == stoa.CodeUnauthorized || code == stoa.CodeRateLimit {
		t.Errorf("a vendor's dispute with the operator became the caller's: %s", code)
	}
}
