package fakeup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// A client talks to a fake through a codec, like a caller that sends back the received items.
type client struct {
	t     *testing.T
	s     *Server
	route stoa.Route
	codec wire.Codec
	path  string
}

func newClient(t *testing.T, s *Server, name string) client {
	t.Helper()
	p := s.Provider(name)
	model := map[string]string{"messages": "claude-opus-5-5", "gemini": "gemini-3.8-flash", "deepseek": "deepseek-v4-pro", "compatible": "llama"}[name]
	if model == "" {
		model = "gpt-6-luna"
	}
	traits := stoa.Traits{Efforts: []string{"low"}, Binding: name == "messages", ForcedTools: map[string]string{"messages": "no", "deepseek": "unless_thinking"}[name]}
	codec, _ := wire.For(p.Wire)
	return client{t, s, stoa.Route{Provider: p.Name, Wire: p.Wire, Dialect: p.Dialect, Model: model, Traits: traits, Fingerprint: "fp"}, codec, p.BaseURL}
}

// reply sends a call and returns the items of its reply, and its end.
func (c client) reply(call stoa.Call) (parts []stoa.Part, end stoa.Event) {
	c.t.Helper()
	call.Stateful, call.MaxOutputTokens = true, 1000
	req, err := c.codec.Encode(call, c.route, Key)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), "POST", c.path+req.Path, bytes.NewReader(req.Body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header = req.Header
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		var text bytes.Buffer
		text.ReadFrom(res.Body)
		c.t.Fatalf("refused: %s\n%s", text.String(), req.Body)
	}
	for ev, err := range c.codec.Decode(res.Body, c.route, wire.WantOf(&call)) {
		if err != nil {
			c.t.Fatal(err)
		}
		switch ev.Kind {
		case stoa.Delta:
			if n := len(parts); n > 0 && parts[n-1].Kind == stoa.PartText {
				parts[n-1].Text += ev.Text
			} else {
				parts = append(parts, stoa.Part{Kind: stoa.PartText, Text: ev.Text})
			}
		case stoa.Reasoned:
			parts = append(parts, stoa.Part{Kind: stoa.PartReasoning, State: ev.State})
		case stoa.Called:
			parts = append(parts, stoa.Part{Kind: stoa.PartCall, Call: new(ev.Call)})
		case stoa.Finished:
			end = *ev
		}
	}
	return parts, end
}

var loopTools = []stoa.Tool{{Name: "look", Parameters: `{"type":"object","properties":{"city":{"type":"string"}}}`}, {Name: "find"}}

func userSays(text string) stoa.Message {
	return stoa.Message{Role: stoa.RoleUser, Parts: []stoa.Part{{Kind: stoa.PartText, Text: text}}}
}

// answers returns the results of the calls among the parts.
func answers(parts []stoa.Part) (results []stoa.Part) {
	for _, p := range parts {
		if p.Kind == stoa.PartCall {
			results = append(results, stoa.Part{Kind: stoa.PartResult, Result: &stoa.ToolResult{CallID: p.Call.ID, Name: p.Call.Name, Content: "ok"}})
		}
	}
	return results
}

// loopWires are the providers with whose formats a caller can continue after calls.
var loopWires = []string{"messages", "gemini", "responses", "chat", "deepseek", "compatible"}

// TestLoopsOfCallsAreAccepted makes three rounds of two calls with reasoning, and then
// another call, on every wire: the fake refuses what a vendor would refuse.
func TestLoopsOfCallsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, name := range loopWires {
		for _, order := range []string{"", "interleave\n"} {
			t.Run(name+"/"+strings.TrimSpace(order), func(t *testing.T) {
				s := Start(t, Options{Bound: true})
				c := newClient(t, s, name)
				call := stoa.Call{Instructions: "Be brief.", Tools: loopTools, Messages: []stoa.Message{
					userSays("think: 60\n" + order + "rounds: 3\ncall: look {\"city\":\"Oslo\"}\ncall: find {}\nsay: Look."),
				}}
				for round := range 4 {
					parts, end := c.reply(call)
					results := answers(parts)
					if want := 2; round < 3 && (len(results) != want || end.Stop != stoa.StopToolCalls) || round == 3 && (len(results) > 0 || end.Stop != stoa.StopEnd) {
						t.Fatalf("round %d: %+v, %+v", round, parts, end)
					}
					call.Messages = append(call.Messages, stoa.Message{Role: stoa.RoleAssistant, Parts: parts})
					if len(results) > 0 {
						call.Messages = append(call.Messages, stoa.Message{Role: stoa.RoleUser, Parts: results})
					}
				}
				call.Messages = append(call.Messages, userSays("say: again"))
				if parts, _ := c.reply(call); len(parts) != 1 || parts[0].Text != "again" {
					t.Errorf("the next turn: %+v", parts)
				}
				for _, served := range s.WaitEnded(t, 5) {
					if served.Dropped > 0 || served.Refused != "" {
						t.Errorf("%d blocks dropped, %s", served.Dropped, served.Refused)
					}
				}
			})
		}
	}
}

// TestOddChunksAreRead reads calls in each of the odd forms.
func TestOddChunksAreRead(t *testing.T) {
	t.Parallel()
	for name, forms := range map[string][]string{
		"compatible": {"", ChunksNoIndex, ChunksIndexZero, ChunksNoIDs, ChunksOddIDs, ChunksObjects, ChunksLateName, ChunksTogether, ChunksFinishStop},
		"responses":  {ChunksOnlyDone},
	} {
		for _, form := range forms {
			t.Run(name+"/"+form, func(t *testing.T) {
				c := newClient(t, Start(t), name)
				parts, end := c.reply(stoa.Call{Tools: loopTools, Messages: []stoa.Message{
					userSays("chunks: " + form + "\ncall: look {\"city\":\"Oslo\"}\ncall: find {\"n\":1}"),
				}})
				var calls []string
				for _, p := range parts {
					if p.Kind == stoa.PartCall {
						calls = append(calls, p.Call.Name+p.Call.Arguments)
					}
				}
				if got := strings.Join(calls, " "); got != `look{"city":"Oslo"} find{"n":1}` || end.Stop != stoa.StopToolCalls {
					t.Errorf("got %s, %+v", got, end)
				}
			})
		}
	}
}

// TestCutCallsHaveNoEnd reads a reply whose second call is cut, on every wire.
func TestCutCallsHaveNoEnd(t *testing.T) {
	t.Parallel()
	for _, name := range loopWires {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, Start(t), name)
			parts, end := c.reply(stoa.Call{Tools: loopTools, Messages: []stoa.Message{
				userSays("cut-call: 5\ncall: look {\"city\":\"Oslo\"}\ncall: find {\"n\":1}"),
			}})
			if results := answers(parts); len(results) != 1 || end.Stop != stoa.StopLength {
				t.Errorf("%d calls, %+v", len(results), end)
			}
		})
	}
}

// TestThinkingIsBoundToItsPrefix replays thinking after another history.
func TestThinkingIsBoundToItsPrefix(t *testing.T) {
	t.Parallel()
	s, older := Start(t, Options{Bound: true}), Start(t)
	send := func(beta bool, change func(string) string) (int, string) { return replay(t, s, beta, change) }
	same := func(s string) string { return s }
	edited := func(s string) string { return strings.Replace(s, "say: Yes.", "say: No.", 1) }
	altered := func(s string) string { return strings.Replace(s, `"thinking":"hm, `, `"thinking":"ah, `, 1) }
	if status, text := send(false, same); status != 200 {
		t.Errorf("unchanged: %d %s", status, text)
	}
	if status, text := send(false, edited); status != 400 || !strings.Contains(text, "another conversation prefix") {
		t.Errorf("another history: %d %s", status, text)
	}
	if status, text := send(true, edited); status != 200 {
		t.Errorf("another history, to be dropped: %d %s", status, text)
	}
	if all := s.Served(); all[len(all)-1].Dropped != 1 {
		t.Errorf("%d blocks dropped", all[len(all)-1].Dropped)
	}
	if status, text := replay(t, older, false, edited); status != 200 || older.Served()[1].Dropped != 1 {
		t.Errorf("another history, an older account: %d %s", status, text)
	}
	if status, text := send(true, altered); status != 400 || !strings.Contains(text, "Invalid `signature`") {
		t.Errorf("altered: %d %s", status, text)
	}
}

// replay sends a message, and another after the reply, in a request that is changed.
func replay(t *testing.T, s *Server, beta bool, change func(string) string) (int, string) {
	t.Helper()
	body := fmt.Sprintf(simple["messages"].body, "think: 50\nsay: Yes.")
	body = strings.Replace(strings.Replace(body, "claude-haiku-4-5", "claude-opus-5-5", 1), `"stream":true,`, "", 1)
	_, text := post(t, s, "/v1/messages", "X-Api-Key", Key, body)
	var reply struct{ Content []json.RawMessage }
	if err := json.Unmarshal([]byte(text), &reply); err != nil || len(reply.Content) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	content, _ := json.Marshal(reply.Content)
	next := strings.TrimSuffix(body, "]}") + `,{"role":"assistant","content":` + string(content) + `},{"role":"user","content":"And?"}]}`
	if beta {
		next = strings.Replace(next, `{"model"`, `{"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}},"model"`, 1)
	}
	r, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/v1/messages", strings.NewReader(change(next)))
	r.Header = http.Header{"X-Api-Key": {Key}, "Anthropic-Version": {"2023-06-01"}}
	if beta {
		r.Header.Set("Anthropic-Beta", bindingBeta)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	b.ReadFrom(res.Body)
	return res.StatusCode, b.String()
}

// TestLostReasoningIsNoError leaves out the reasoning of one of three rounds, or of all; no
// vendor may refuse the resulting request.
func TestLostReasoningIsNoError(t *testing.T) {
	t.Parallel()
	for _, name := range loopWires {
		for lost := range 4 { // 3: all
			t.Run(fmt.Sprint(name, lost), func(t *testing.T) {
				c := newClient(t, Start(t, Options{Bound: true}), name)
				call := stoa.Call{Tools: loopTools, Messages: []stoa.Message{
					userSays("think: 60\nrounds: 3\ncall: look {}\ncall: find {}"),
				}}
				for round := range 4 {
					parts, end := c.reply(call)
					if round == 3 && end.Stop != stoa.StopEnd {
						t.Errorf("the end: %+v", end)
					}
					results := answers(parts)
					if lost == round || lost == 3 {
						parts = slices.DeleteFunc(parts, func(p stoa.Part) bool { return p.Kind == stoa.PartReasoning })
					}
					call.Messages = append(call.Messages, stoa.Message{Role: stoa.RoleAssistant, Parts: parts}, stoa.Message{Role: stoa.RoleUser, Parts: results})
				}
			})
		}
	}
}

func TestThinkingMayHaveNoGap(t *testing.T) {
	t.Parallel()
	const model = "claude-haiku-4-5"
	block := func(number int) string {
		return fmt.Sprintf(`{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":%q},{"type":"text","text":"y"}]},`, signature(model, "hm", number, nil))
	}
	s := Start(t)
	for _, tt := range []struct{ second, status int }{{2, 200}, {3, 400}} {
		body := `{"model":"` + model + `","max_tokens":99,"messages":[` + block(1) + block(tt.second) + `{"role":"user","content":"say: z"}]}`
		if status, text := post(t, s, "/v1/messages", "X-Api-Key", Key, body); status != tt.status || status == 400 && !strings.Contains(text, "is missing") {
			t.Errorf("block %d behind block 1: %d %s", tt.second, status, text)
		}
	}
}
