package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"stoa/internal/agents/remote"
	"stoa/internal/base/outbound"
	"stoa/internal/testkit/fakemcp"
)

// to returns a client of a fake.
func to(f *fakemcp.Server) Server {
	return Server{Endpoint: remote.Endpoint{Network: f.Network(), URL: f.URL, Headers: map[string]string{"Idempotency-Key": "k"}}, Version: "test"}
}

// try calls a tool once and returns the class of a failed call.
func try(ctx context.Context, t *testing.T, s Server, id, tool, order string) (*remote.Result, *remote.Error) {
	t.Helper()
	result, err := s.Call(ctx, remote.Call{ID: id, Tool: tool, Arguments: json.RawMessage(fmt.Sprintf(`{"order":%q}`, order))})
	failed, ok := errors.AsType[*remote.Error](err)
	if err != nil && (!ok || failed.Message == "") || err == nil && result == nil {
		t.Fatalf("%s: %+v, %v", order, result, err)
	}
	return result, failed
}

// outcomes maps each fault to the class of the call.
var outcomes = map[string]remote.Class{
	"reset": remote.Unknown, "short": remote.Unknown, "restart": remote.Unknown, "hang": remote.Unknown, "drip": remote.Unknown,
	"truncated": remote.Unknown, "no reply": remote.Unknown, "wrong id": remote.Unknown, "null": remote.Unknown, "html": remote.Unknown,
	"large": remote.Unknown, "gzip": remote.Unknown,
	"302": remote.Unknown, "307": remote.Unknown, "308": remote.Unknown, "408": remote.Unknown, "500": remote.Unknown, "502": remote.Unknown, "503": remote.Unknown,
	"400": remote.Refused, "401": remote.Refused, "403": remote.Refused, "404": remote.Refused, "409": remote.Refused, "422": remote.Refused, "429": remote.Refused,
	"-32600": remote.Refused, "-32601": remote.Refused, "-32602": remote.Refused, "-32020": remote.Refused, "-32022": remote.Refused,
	"-32603": remote.Unknown, "-32000": remote.Unknown, "0": remote.Unknown, "7": remote.Unknown,
}

// TestOutcomesOfCalls covers every fault that leaves open, or not, whether a call was carried
// out. No call is repeated, and a refused call had no effect.
func TestOutcomesOfCalls(t *testing.T) {
	t.Parallel()
	for _, name := range fakemcp.Orders() {
		if outcomes[name] == "" {
			t.Errorf("there is no test of the order %s", name)
		}
	}
	for era, o := range map[string]fakemcp.Options{"modern": {}, "legacy": {Legacy: true}, "streams": {Stream: true, CloseIdle: true}} {
		t.Run(era, func(t *testing.T) {
			f := fakemcp.Start(t, o)
			s := to(f)
			s.Protocol = fakemcp.Modern
			if o.Legacy {
				s.Protocol = fakemcp.Legacy
			}
			for order, want := range outcomes {
				id, before := "cal_"+order, len(f.Calls())
				ctx, cancel := context.WithCancel(t.Context())
				if order == "hang" || order == "drip" { // until the caller gives up
					go func() {
						f.Await(func(all []fakemcp.Call) bool { return len(all) > before })
						cancel()
					}()
				}
				result, failed := try(ctx, t, s, id, fakemcp.Act, order)
				cancel()
				calls := f.Calls()[before:]
				times := 1
				if order == "404" && o.Legacy {
					times = 2 // because a server that has dropped the session is called again
				}
				switch {
				case order == "large" && failed == nil && strings.HasPrefix(result.Text, remote.CutNote(remote.MaxResult)): // its beginning is a result
				case failed == nil || failed.Class != want || failed.Unauthorized != (order == "401" || order == "403"):
					t.Errorf("%s: %+v, %+v", order, result, failed)
				case len(calls) != times:
					t.Errorf("%s: the server saw %d calls", order, len(calls))
				case want != remote.Unknown && f.Effects(id) != 0:
					t.Errorf("%s: the call was carried out", order)
				}
				for _, c := range calls {
					if c.Connection != 1 || c.ID != id {
						t.Errorf("%s: call %s is number %d of its connection", order, c.ID, c.Connection)
					}
				}
			}
			// None of that affects the next call.
			if result, failed := try(t.Context(), t, s, "cal_last", fakemcp.Act, ""); failed != nil || result.Text != "done act" || f.Effects("cal_last") != 1 {
				t.Errorf("%+v, %v", result, failed)
			}
			if visits := f.Visits(); len(visits) > 0 {
				t.Errorf("a redirect was followed to %v", visits)
			}
			if _, open := f.Sessions(); open != 0 {
				t.Errorf("%d sessions are open", open)
			}
		})
	}
}

func TestACallThatIsNotSent(t *testing.T) {
	t.Parallel()
	f := fakemcp.Start(t)
	at := func(change func(s *Server)) Server { s := to(f); change(&s); return s }
	for name, c := range map[string]struct {
		server Server
		reason outbound.Reason
	}{
		"not allowed": {at(func(s *Server) { s.Network = outbound.New(outbound.Settings{}) }), outbound.NotAllowed},
		"no TLS":      {at(func(s *Server) { s.URL = strings.Replace(s.URL, "http:", "https:", 1) }), outbound.TLS},
		"no name": {at(func(s *Server) {
			s.URL = "https://mcp.example.com/"
			s.Network = outbound.New(outbound.Settings{Resolve: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }})
		}), outbound.Unreachable},
	} {
		if _, failed := try(t.Context(), t, c.server, "cal_1", fakemcp.Act, ""); failed == nil || failed.Class != remote.NotSent || failed.Reason != c.reason {
			t.Errorf("%s: %+v", name, failed)
		}
	}
	for _, fault := range []string{"500", "html", "reset", "truncated", "large", "401", "-32603", "null"} {
		f.Always("server/discover", fault)
		f.Always("initialize", fault)
		if _, failed := try(t.Context(), t, to(f), "cal_1", fakemcp.Act, ""); failed == nil || failed.Class != remote.NotSent || failed.Unauthorized != (fault == "401") {
			t.Errorf("a handshake with %s: %+v", fault, failed)
		}
	}
	f.Stop()
	if _, failed := try(t.Context(), t, to(f), "cal_1", fakemcp.Act, ""); failed == nil || failed.Class != remote.NotSent || failed.Reason != outbound.Unreachable {
		t.Errorf("no server: %+v", failed)
	}
	if calls := f.Calls(); len(calls) > 0 {
		t.Errorf("the server saw %d calls", len(calls))
	}
}

func TestAForgottenSessionIsBegunAgain(t *testing.T) {
	t.Parallel()
	f := fakemcp.Start(t, fakemcp.Options{Legacy: true})
	s := to(f)
	s.Protocol = fakemcp.Legacy
	f.Next("tools/call", "404")
	if result, failed := try(t.Context(), t, s, "cal_1", fakemcp.Act, ""); failed != nil || result.Text != "done act" {
		t.Errorf("%+v, %v", result, failed)
	}
	calls := f.Calls()
	if len(calls) != 2 || calls[0].Session == calls[1].Session || f.Effects("cal_1") != 1 {
		t.Errorf("%d effects of %+v", f.Effects("cal_1"), calls)
	}
}

// TestAServerChangesItsEra checks that the era is determined again: at a refresh, and when
// the server no longer accepts the handshake that it accepted.
func TestAServerChangesItsEra(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		f := fakemcp.Start(t, fakemcp.Options{Legacy: legacy})
		s := to(f)
		for round := range 3 {
			got, err := s.Catalog(t.Context())
			if err != nil || (got.Protocol == fakemcp.Legacy) != legacy {
				t.Fatalf("legacy %v: %+v, %v", legacy, got, err)
			}
			s.Protocol = got.Protocol
			legacy = !legacy
			f.SetLegacy(legacy)
			for i, tool := range []string{fakemcp.Read, fakemcp.Act} {
				id, before := fmt.Sprint("cal_", round, i), len(f.Calls())
				if _, failed := try(t.Context(), t, s, id, tool, ""); failed != nil || len(f.Calls()) != before+1 || f.Effects(id) != i {
					t.Errorf("a call, legacy %v: %v, %d effects of %d calls", legacy, failed, f.Effects(id), len(f.Calls())-before)
				}
			}
		}
	}
}

// TestAModernCallIsOneRequest checks that nothing is requested before or after calls of a
// server without sessions, until one is refused as a server of the other era does: then the
// version is requested once, and the refused call is not repeated.
func TestAModernCallIsOneRequest(t *testing.T) {
	t.Parallel()
	f := fakemcp.Start(t)
	s := to(f)
	s.Protocol = fakemcp.Modern
	kept, end := s.Keep()
	var want []string
	check := func(of string, more ...string) {
		t.Helper()
		if want = append(want, more...); !slices.Equal(f.Requests(), want) {
			t.Errorf("%s: asked %q, want %q", of, f.Requests(), want)
		}
	}
	for i, order := range []string{"", "-32602", "", "400", "400", ""} {
		result, err := kept.Call(t.Context(), remote.Call{ID: fmt.Sprint("cal_", i), Tool: fakemcp.Act, Arguments: json.RawMessage(fmt.Sprintf(`{"order":%q}`, order))})
		if failed, _ := errors.AsType[*remote.Error](err); order == "" && (err != nil || result.Text != "done act") || order != "" && (failed == nil || failed.Class != remote.Refused) {
			t.Errorf("%s: %+v, %v", order, result, err)
		}
		more := []string{"POST tools/call"}
		if i == 3 {
			more = append(more, "POST server/discover")
		}
		check(order, more...)
	}
	end()
	check("the end")
	// The SDK's own server no longer supports the version.
	theirs := serve(t, Demo(true))
	theirs.Protocol = fakemcp.Modern
	other, end := theirs.Keep()
	defer end()
	for range 2 {
		if result, err := other.Call(t.Context(), remote.Call{ID: "cal_1", Tool: "append_note", Arguments: json.RawMessage(`{"name":"a","text":"b"}`)}); err != nil || result.IsError {
			t.Errorf("%+v, %v", result, err)
		}
	}
	asked := []string{"POST tools/call", "POST server/discover", "POST initialize", "POST notifications/initialized", "POST tools/call", "POST tools/call"}
	if got := theirs.requests(); !slices.Equal(got, asked) {
		t.Errorf("asked %q, want %q", got, asked)
	}
	if spoken := other.(interface{ Protocol() string }).Protocol(); spoken >= Modern {
		t.Errorf("spoken is %s", spoken)
	}
}

// TestAHandshakeIsRefusedForItsSecret refuses a single request of a handshake: the SDK's
// following requests do not hide that.
func TestAHandshakeIsRefusedForItsSecret(t *testing.T) {
	t.Parallel()
	for method, legacy := range map[string]bool{"server/discover": false, "initialize": true, "notifications/initialized": true, "tools/list": false} {
		f := fakemcp.Start(t, fakemcp.Options{Legacy: legacy})
		for _, status := range []int{401, 403} {
			f.Next(method, fmt.Sprint(status))
			_, err := to(f).Catalog(t.Context())
			if failed, ok := errors.AsType[*remote.Error](err); !ok || !failed.Unauthorized || failed.Status != status {
				t.Errorf("%s with %d: %+v", method, status, failed)
			}
		}
		if _, err := to(f).Catalog(t.Context()); err != nil {
			t.Errorf("%s: then %v", method, err)
		}
	}
}

// TestResultsAreReadInPart has results with an unreadable part, or that do not match the
// tool's definition: the call was carried out.
func TestResultsAreReadInPart(t *testing.T) {
	t.Parallel()
	for _, o := range []fakemcp.Options{{}, {Stream: true}, {Legacy: true}, {Legacy: true, Stream: true}} {
		f := fakemcp.Start(t, o)
		for order, want := range map[string]string{
			"error":  "it failed",
			"int64":  `{"id":1915883588174806058,"x":1.0}`,
			"block":  "before\n(A part of the kind \"hologram\", which this service does not know, was left out.)\n(A part of the result cannot be read.)\nafter",
			"schema": "done\n{\"n\":\"seven\"}",
			"link":   "a link\n(A link, which was not followed: secrets " + f.URL + "linked)",
			// The text of the recorded server is the structured content once more.
			"structured": `{"temperature":33,"conditions":"Cloudy","humidity":82}`,
			"photo":      "before\n(image 1: image/png, 2 × 3 pixels)\nafter",
			"image":      "(image/png, 1 kB, left out: this service passes text only.)",
		} {
			result, failed := try(t.Context(), t, to(f), "cal_"+order, fakemcp.Act, order)
			if failed != nil || result.Text != want || result.IsError != (order == "error") || f.Effects("cal_"+order) != 1 {
				t.Errorf("%s: %+v, %v", order, result, failed)
			}
		}
		if visits := f.Visits(); len(visits) > 0 {
			t.Errorf("%v was fetched", visits)
		}
	}
}

// TestAServerAsksTheClient has a server that requires a reply of the model, and one that
// pings its client.
func TestAServerAsksTheClient(t *testing.T) {
	t.Parallel()
	f := fakemcp.Start(t, fakemcp.Options{Legacy: true, Stream: true})
	result, failed := try(t.Context(), t, to(f), "cal_1", fakemcp.Act, "sampling")
	if failed != nil || result.Text != "done after two questions" {
		t.Errorf("%+v, %v", result, failed)
	}
	answers := f.Answers()
	slices.SortFunc(answers, func(a, b fakemcp.Answer) int { return strings.Compare(a.ID, b.ID) })
	if len(answers) != 2 || answers[0].ID != "ping" || answers[0].Code != 0 || answers[1].Code == 0 {
		t.Errorf("%+v", answers)
	}
	// In the modern era the question is the result.
	f.SetLegacy(false)
	if result, failed := try(t.Context(), t, to(f), "cal_2", fakemcp.Act, "input"); failed == nil || failed.Class != remote.Refused || !strings.Contains(failed.Message, "question") || f.Effects("cal_2") != 0 {
		t.Errorf("%+v, %v", result, failed)
	}
}

func TestHostileCatalogs(t *testing.T) {
	t.Parallel()
	f := fakemcp.Start(t)
	for order, of := range map[string]string{"endless": "list of tools does not end", "501": "more than 500 tools"} {
		f.Always("tools/list", order)
		before := len(f.Requests())
		if _, err := to(f).Catalog(t.Context()); err == nil || !strings.Contains(err.Error(), of) {
			t.Errorf("%s: %v", order, err)
		}
		if n := len(f.Requests()) - before; n > maxPages+1 {
			t.Errorf("%s: %d requests", order, n)
		}
	}
	f.Always("tools/list", "same")
	if got, err := to(f).Catalog(t.Context()); err != nil || len(got.Tools) != len(fakemcp.Tools()) || !strings.Contains(got.Note, "does not end") {
		t.Errorf("%+v, %v", got, err)
	}
	for order, class := range outcomes {
		if order == "hang" || order == "drip" {
			continue
		}
		f.Always("tools/list", order)
		got, err := to(f).Catalog(t.Context())
		if failed, ok := errors.AsType[*remote.Error](err); !ok || failed.Class != class {
			t.Errorf("%s: %+v, %v", order, got, err)
		}
	}
}

// TestACallerWhoLeavesKnowsNothing has callers that disconnect while a server works: the
// missing reply never looks as if nothing was sent.
func TestACallerWhoLeavesKnowsNothing(t *testing.T) {
	t.Parallel()
	for _, o := range []fakemcp.Options{{}, {Legacy: true}} {
		f := fakemcp.Start(t, o)
		for i := range 60 {
			order := []string{"hang", "drip"}[i%2]
			ctx, cancel := context.WithCancel(t.Context())
			f.OnCall(func(fakemcp.Call) { cancel() })
			if _, failed := try(ctx, t, to(f), fmt.Sprint("cal_", i), fakemcp.Act, order); failed == nil || failed.Class != remote.Unknown {
				t.Errorf("%s: %+v", order, failed)
			}
		}
	}
}

// A call belongs to the trace of its turn, if there is one.
func TestACallNamesItsTrace(t *testing.T) {
	t.Parallel()
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled})
	for want, ctx := range map[string]context.Context{
		"00-01020000000000000000000000000000-0300000000000000-01": trace.ContextWithSpanContext(t.Context(), span),
		"": t.Context(),
	} {
		var meta struct {
			Meta map[string]any `json:"_meta"`
		}
		f := serve(t, modern(func(w http.ResponseWriter, _ *http.Request, id, _ string, params json.RawMessage) {
			_ = json.Unmarshal(params, &meta)
			result(w, id, `{"resultType":"complete","content":[]}`)
		}))
		if _, err := f.Call(ctx, remote.Call{ID: "cal_1", Tool: "look"}); err != nil {
			t.Fatal(err)
		}
		if got, _ := meta.Meta["traceparent"].(string); got != want || meta.Meta["stoa/toolCallId"] != "cal_1" {
			t.Errorf("sent %v, want %q", meta.Meta, want)
		}
	}
}
