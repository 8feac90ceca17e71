package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/agents/remote"
)

// legacy answers the handshake of the era with sessions, and calls answer for the rest. The
// first session is s1.
func legacy(answer func(w http.ResponseWriter, r *http.Request, id, method string)) http.Handler {
	sessions := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		switch m.Method {
		case "server/discover":
			http.Error(w, "no session", http.StatusBadRequest)
		case "initialize":
			sessions++
			w.Header().Set(sessionIDKey, fmt.Sprint("s", sessions))
			result(w, string(m.ID), `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}`)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			answer(w, r, string(m.ID), m.Method)
		}
	})
}

// look calls the only tool of a server.
func look(t *testing.T, f *fake) (*remote.Result, *remote.Error) {
	t.Helper()
	got, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Tool: "look"})
	failed, _ := errors.AsType[*remote.Error](err)
	return got, failed
}

func events(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", eventStream)
	_, _ = io.WriteString(w, text)
}

// TestAReplyIsResumed has a server that closes its streams early and continues the reply at a
// GET with the id of the last event. The call is sent once.
func TestAReplyIsResumed(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"": "resumed", "no reply": ""} {
		var asked []string
		var own string
		f := serve(t, legacy(func(w http.ResponseWriter, r *http.Request, id, method string) {
			after := r.Header.Get("Last-Event-ID")
			switch {
			case method == methodCall:
				own = id
				events(w, "id: e1\nretry: 1\ndata:\n\n")
			case r.Method == http.MethodGet && after == "":
				w.WriteHeader(http.StatusMethodNotAllowed)
			case r.Method == http.MethodGet:
				asked = append(asked, after+" "+r.Header.Get(sessionIDKey)+" "+r.Header.Get("Accept")+" "+r.Header.Get("Authorization"))
				if name == "no reply" {
					events(w, ": nothing\n\n")
				} else if after == "e1" {
					events(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\nid: cut\ndata: {")
				} else {
					events(w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+own+",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"resumed\"}]}}\n\n")
				}
			}
		}))
		f.Credential = remote.Credential{Header: "Authorization", Value: "Bearer secret-token"}
		got, failed := look(t, f)
		switch {
		case end != "" && (failed != nil || got.Text != end || strings.Join(asked, ", ") != "e1 s1 text/event-stream Bearer secret-token, e2 s1 text/event-stream Bearer secret-token"):
			t.Errorf("%+v, %v, %q", got, failed, asked)
		case end == "" && (failed == nil || failed.Class != remote.Unknown || len(asked) != maxResumes):
			t.Errorf("%s: %+v, %v, %q", name, got, failed, asked)
		}
		if calls := strings.Count(strings.Join(f.requests(), ","), methodCall); calls != 1 {
			t.Errorf("%d calls", calls)
		}
	}
}

// A server that has lost its sessions says so with the status 400 too, as the examples of the
// official SDK do. The call is made again in a new session.
func TestALostSessionMayBe400(t *testing.T) {
	t.Parallel()
	const lost = `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`
	for body, again := range map[string]bool{
		lost: true, "Session not found": true,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such session"}}`: false, "Wrong arguments": false,
	} {
		var sessions []string
		f := serve(t, legacy(func(w http.ResponseWriter, r *http.Request, id, method string) {
			if method != methodCall {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			if sessions = append(sessions, r.Header.Get(sessionIDKey)); len(sessions) == 1 {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, body)
				return
			}
			result(w, id, `{"content":[{"type":"text","text":"seen"}]}`)
		}))
		f.Protocol = "2025-11-25"
		got, failed := look(t, f)
		if again && (failed != nil || got.Text != "seen" || strings.Join(sessions, " ") != "s1 s2") || !again && (failed == nil || failed.Class != remote.Refused || len(sessions) != 1) {
			t.Errorf("%s: %+v, %v, %v", body, got, failed, sessions)
		}
	}
}

// TestAModelReadsWhyACallWasRefused covers the bodies of refusals, which contain the secret
// and invisible characters.
func TestAModelReadsWhyACallWasRefused(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"The field a is missing"}}`: "The server rejects the call with the error -32000: The field a is missing",
		"Access is only\nallowed\u200b at localhost:24014, secret-token":                         "The server answered with the status 422: Access is only allowed\\u{200b} at localhost:24014, [secret].",
		`{"detail":"n must be at most 5."}`:                                                      `The server answered with the status 422: {"detail":"n must be at most 5."}.`,
		strings.Repeat("x", 600):                                                                 "The server answered with the status 422: " + strings.Repeat("x", 500) + "….",
		"<!doctype html><p>Not allowed":                                                          "The server answered with the status 422.",
		"":                                                                                       "The server answered with the status 422.",
	} {
		for _, handler := range []func(func(w http.ResponseWriter, r *http.Request, id, method string)) http.Handler{legacy, func(answer func(w http.ResponseWriter, r *http.Request, id, method string)) http.Handler {
			return modern(func(w http.ResponseWriter, r *http.Request, id, method string, _ json.RawMessage) {
				answer(w, r, id, method)
			})
		}} {
			f := serve(t, handler(func(w http.ResponseWriter, _ *http.Request, _, _ string) {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = io.WriteString(w, body)
			}))
			f.Credential = remote.Credential{Header: "Authorization", Value: "Bearer secret-token"}
			if _, failed := look(t, f); failed == nil || failed.Class != remote.Refused || failed.Message != want {
				t.Errorf("%q: %+v", body, failed)
			}
		}
	}
	// An error without an id may also arrive with the status 200, and in a stream.
	const said = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`
	for _, kind := range []string{"application/json", eventStream} {
		f := serve(t, modern(func(w http.ResponseWriter, _ *http.Request, _, _ string, _ json.RawMessage) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, map[string]string{eventStream: "data: "}[kind]+said+"\n\n")
		}))
		if _, failed := look(t, f); failed == nil || failed.Class != remote.Refused || !strings.HasSuffix(failed.Message, ": no") {
			t.Errorf("%s: %+v", kind, failed)
		}
	}
}

// TestALargeResultIsCut has results beyond the limit, in the orders of members and the kinds
// of replies that servers use.
func TestALargeResultIsCut(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789", 1000)
	for _, kind := range []string{"application/json", eventStream} {
		for _, form := range []string{`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"TEXT"}]}}`, `{"result":{"content":[{"type":"text","text":"TEXT"}]},"jsonrpc":"2.0","id":ID}`} {
			f := serve(t, modern(func(w http.ResponseWriter, _ *http.Request, id, _ string, _ json.RawMessage) {
				w.Header().Set("Content-Type", kind)
				_, _ = io.WriteString(w, map[string]string{eventStream: "data: "}[kind]+strings.NewReplacer("ID", id, "TEXT", text).Replace(form)+"\n\n")
			}))
			got, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Tool: "look", MaxResult: 2000})
			note, rest, _ := strings.Cut(got.Text, "\n")
			if err != nil || got.IsError || !strings.Contains(note, "only its beginning") || len(rest) < 1900 || !strings.HasPrefix(text, rest) {
				t.Errorf("%s: %.200s, %v", form, got.Text, err)
			}
		}
	}
}

// TestAServerAsksOutsideOfTheCall has a server that asks its client in the stream of the
// session, and waits for the answer before it answers the call.
func TestAServerAsksOutsideOfTheCall(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "asks", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "look", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		err := req.Session.Ping(t.Context(), nil)    // not the context of the call, so that it goes to the stream of the session
		for err != nil && t.Context().Err() == nil { // until the client has opened that stream
			err = req.Session.Ping(t.Context(), nil)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("answered %v", err)}}}, nil
	})
	f := serve(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	f.Protocol = "2025-11-25"
	if got, failed := look(t, f); failed != nil || got.Text != "answered <nil>" {
		t.Errorf("%+v, %v", got, failed)
	}
}

// TestAQuestionIsCancelled has a server that first asks a person: the question is cancelled,
// with the state that the server expects back. If it asks again, the call is refused.
func TestAQuestionIsCancelled(t *testing.T) {
	t.Parallel()
	const elicits, samples = `{"method":"elicitation/create","params":{"message":"Sure?"}}`, `{"method":"sampling/createMessage"}`
	for _, c := range []struct {
		questions, state, end string
		calls                 int
	}{
		{`{"a":` + elicits + `,"b":` + elicits + `}`, `,"requestState":"s1"`, "done", 2},
		{`{"a":` + elicits + `}`, "", "done", 2},
		{`{"a":` + elicits + `}`, "", "", 2},
		{`{"a":` + elicits + `,"b":` + samples + `}`, "", "", 1},
		{`{}`, "", "", 1},
	} {
		var ids, sent []string
		f := serve(t, modern(func(w http.ResponseWriter, _ *http.Request, id, _ string, params json.RawMessage) {
			var p struct {
				InputResponses map[string]struct{ Action string }
				RequestState   *string
			}
			_ = json.Unmarshal(params, &p)
			state := "none"
			if p.RequestState != nil {
				state = *p.RequestState
			}
			ids, sent = append(ids, id), append(sent, fmt.Sprint(p.InputResponses, state))
			if len(ids) == 1 || c.end == "" {
				result(w, id, `{"resultType":"input_required","inputRequests":`+c.questions+c.state+`}`)
				return
			}
			result(w, id, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
		}))
		got, failed := look(t, f)
		if len(ids) != c.calls || c.calls == 2 && (ids[0] == ids[1] || !strings.Contains(sent[1], "a:{cancel}") || strings.HasSuffix(sent[1], "s1") != (c.state != "") || sent[0] != "map[]none") {
			t.Errorf("%+v: calls %q with %q", c, ids, sent)
		}
		if c.end != "" && (failed != nil || !strings.HasSuffix(got.Text, "cancelled: this service does not ask people.)\ndone")) || c.end == "" && (failed == nil || failed.Class != remote.Refused || !strings.Contains(failed.Message, "question")) {
			t.Errorf("%+v: %+v, %v", c, got, failed)
		}
	}
}

func TestAnOldTransportIsNamed(t *testing.T) {
	t.Parallel()
	for path, named := range map[string]bool{"/sse": true, "/none": false} {
		f := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/sse":
				w.WriteHeader(http.StatusNotFound)
			case r.Method != http.MethodGet || r.Header.Get("X-Key") != "k":
				w.WriteHeader(http.StatusMethodNotAllowed)
			default:
				events(w, "event: endpoint\ndata: /messages?s=1\n\n")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		}))
		f.URL += path
		f.Headers = map[string]string{"X-Key": "k"}
		if _, err := f.Catalog(t.Context()); err == nil || strings.Contains(err.Error(), "2024-11-05") != named {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestATaskToolIsNotOffered(t *testing.T) {
	t.Parallel()
	f := serve(t, modern(func(w http.ResponseWriter, _ *http.Request, id, _ string, _ json.RawMessage) {
		result(w, id, `{"resultType":"complete","tools":[{"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"b","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`)
	}))
	got, err := f.Catalog(t.Context())
	if err != nil || len(got.Tools) != 2 || !strings.Contains(got.Tools[0].Problem, "task") || got.Tools[1].Problem != "" {
		t.Errorf("%+v, %v", got, err)
	}
}
