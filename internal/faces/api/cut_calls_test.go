package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// A seenCall is a call as clients of a format read it.
type seenCall struct {
	name, arguments string
	ended           bool // a client that reads only the call may take it for whole
}

// seenCalls returns the calls of a reply in one of the formats, and the reason of its end.
func seenCalls(t *testing.T, path string, r *apitest.Reply) (list []seenCall, end string) {
	t.Helper()
	isWhole := func(s string) bool { return json.Valid([]byte(s)) }
	switch path {
	case responses:
		var got contract.Response
		if len(r.Events) > 0 {
			got = *r.Events[len(r.Events)-1].Response
		} else {
			r.JSON(&got)
		}
		for _, it := range calls(&got) {
			list = append(list, seenCall{it.Name, it.Arguments, it.Status == "completed" || isWhole(it.Arguments)})
		}
		return list, got.IncompleteDetails.Reason
	case "/api/v1/messages":
		type block struct {
			Type, Name string
			Input      json.RawMessage
		}
		if !strings.HasPrefix(string(r.Body), "event:") {
			var got struct {
				Content []block
				Reason  string `json:"stop_reason"`
			}
			r.JSON(&got)
			for _, b := range got.Content {
				if b.Type == "tool_use" {
					list = append(list, seenCall{b.Name, string(b.Input), true})
				}
			}
			return list, got.Reason
		}
		for line := range strings.Lines(string(r.Body)) {
			var ev struct {
				Block block `json:"content_block"`
				Delta struct {
					Piece  string `json:"partial_json"`
					Reason string `json:"stop_reason"`
				}
			}
			if data, ok := strings.CutPrefix(line, "data: "); !ok || json.Unmarshal([]byte(data), &ev) != nil {
				continue
			}
			if ev.Block.Type == "tool_use" {
				list = append(list, seenCall{name: ev.Block.Name})
			}
			if ev.Delta.Piece != "" {
				list[len(list)-1].arguments += ev.Delta.Piece
			}
			if ev.Delta.Reason != "" {
				end = ev.Delta.Reason
			}
		}
	default:
		type called struct {
			Index    int
			Function struct{ Name, Arguments string }
		}
		type choice struct {
			Message, Delta struct {
				Calls []called `json:"tool_calls"`
			}
			Reason string `json:"finish_reason"`
		}
		read := func(text string) {
			var got struct{ Choices []choice }
			if json.Unmarshal([]byte(text), &got) != nil || len(got.Choices) == 0 {
				return
			}
			c := got.Choices[0]
			for _, one := range append(c.Message.Calls, c.Delta.Calls...) {
				if one.Function.Name != "" {
					list = append(list, seenCall{name: one.Function.Name})
				}
				list[len(list)-1].arguments += one.Function.Arguments
			}
			if c.Reason != "" {
				end = c.Reason
			}
		}
		if !strings.HasPrefix(string(r.Body), "data:") {
			read(string(r.Body))
		}
		for line := range strings.Lines(string(r.Body)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				read(data)
			}
		}
	}
	for i, c := range list {
		list[i].ended = isWhole(c.arguments)
	}
	return list, end
}

// checkCut checks a reply whose first call is whole and whose second one a limit cut: no client may
// take the second for a whole one. open means that its arguments may be there, as open JSON.
func checkCut(t *testing.T, name, path string, r *apitest.Reply, whole int, open bool) (has bool) {
	t.Helper()
	list, end := seenCalls(t, path, r)
	if want := map[string]string{responses: "max_output_tokens", "/api/v1/messages": "max_tokens"}[path]; end != want && (want != "" || end != "length") {
		t.Errorf("%s ends with %q", name, end)
	}
	if len(list) < whole || len(list) > whole+1 || len(list) > whole && !open {
		t.Fatalf("%s has the calls %+v: %s", name, list, r.Body)
	}
	if whole > 0 && (!list[0].ended || list[0].name != "f") {
		t.Errorf("%s: the whole call is %+v", name, list[0])
	}
	if len(list) > whole && list[whole].ended {
		t.Errorf("%s: the cut call is %+v", name, list[whole])
	}
	return len(list) > whole
}

// TestACutCallHasNoEffect goes through vendors, formats, replies and limits: a whole reply leaves a
// cut call out, a stream leaves it open, and a stream whose limit this service has lowered
// leaves it out too, because its caller cannot foresee the cut.
func TestACutCallHasNoEffect(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"the vendor's", "ours"} {
		for _, asks := range []string{"always", "never"} { // whole replies of vendors
			t.Run(limit+" "+asks, func(t *testing.T) {
				t.Parallel()
				cfg, most := apitest.Config{}, body{}
				if limit == "ours" {
					cfg.Grant, most = 14_000, body{"max_tokens": 60_000}
				}
				h, _ := vendorsAsking(t, cfg, asks)
				for _, model := range allWires {
					for _, path := range allFormats {
						for _, stream := range []bool{false, true} {
							more := with(body{"stream": stream}, most)
							if n, ok := more["max_tokens"]; ok && path == responses {
								delete(more, "max_tokens")
								more["max_output_tokens"] = n
							}
							name := fmt.Sprintf("%s at %s, stream %v", model, path, stream)
							prompt := "call: f {\"a\":1}\ncall: g {\"text\":\"Deliver on Monday\"}\ncut-call: 20"
							secret, _ := h.NewKey(h.Account.ID, stoa.ScopeAll) // after a cut a key gets no less
							r := h.ClientWith(t, secret).Want(200, "POST", path, callTools(path, model, prompt, more))
							has := checkCut(t, name, path, r, 1, stream && limit == "the vendor's")
							got := receipts(t, h)[0]
							comes := model != "beta-3.8-flash" // its calls come whole, or not at all
							if dropped := got.Adjustments&stoa.CallsDropped != 0; dropped != (comes && !has) || comes && stream && limit == "the vendor's" && !has || got.State != "incomplete" {
								t.Errorf("%s: has the cut call %v, %v %s", name, has, got.Adjustments.Names(), got.State)
							}
						}
					}
				}
				quiet(t, h)
			})
		}
	}
}

// TestACutCallOfAWholeReplyHasNoEffect has vendors that ignore stream and close the JSON of a cut
// call: Anthropic, and proxies in front of it that speak the other formats.
func TestACutCallOfAWholeReplyHasNoEffect(t *testing.T) {
	t.Parallel()
	replies := map[string]string{
		"/v1/messages": `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}},{"type":"tool_use","id":"toolu_2","name":"g","input":{"text":"Deliver on Mon"}}],
			"stop_reason":"max_tokens","usage":{"input_tokens":10,"output_tokens":20}}`,
		"/chat/completions": `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[
			{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"call_2","type":"function","function":{"name":"g","arguments":"{\"text\":\"Deliver on Mon\"}"}}]},
			"finish_reason":"length"}],"usage":{"prompt_tokens":10,"completion_tokens":20}}`,
		"/responses": `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[
			{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{\"a\":1}","status":"completed"},
			{"type":"function_call","id":"fc_2","call_id":"call_2","name":"g","arguments":"{\"text\":\"Deliver on Mon\"}","status":"incomplete"}],
			"usage":{"input_tokens":10,"output_tokens":20,"total_tokens":30}}`,
	}
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, replies[r.URL.Path])
	}))
	t.Cleanup(vendor.Close)
	cfg := apitest.Config{Families: map[string][]stoa.Route{}}
	for family, wire := range map[string]string{"alpha": "messages", "gamma": "responses", "delta": "chat"} {
		cfg.Providers = append(cfg.Providers, stoa.Provider{Name: wire, Wire: wire, BaseURL: vendor.URL, APIKey: "x"})
		cfg.Families[family] = []stoa.Route{{Provider: wire}}
	}
	h := start(t, cfg)
	for _, model := range []string{"alpha-haiku-4-5", "gamma-6-luna", "delta-v4-flash"} {
		for _, path := range allFormats {
			for _, stream := range []bool{false, true} {
				r := h.Client(t).Want(200, "POST", path, callTools(path, model, "Go.", body{"stream": stream}))
				checkCut(t, fmt.Sprintf("%s at %s, stream %v", model, path, stream), path, r, 1, stream)
			}
		}
	}
	quiet(t, h)
}

// TestAReplayedCutCallStaysOpen sends a stream with a cut call again, under its Idempotency-Key.
func TestAReplayedCutCallStaysOpen(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t).With("Idempotency-Key", "k")
	for _, path := range allFormats {
		call := callTools(path, "alpha-haiku-4-5", "call: f {\"a\":1}\ncall: g {\"text\":\"Deliver on Monday\"}\ncut-call: 20", nil)
		first, again := c.Want(200, "POST", path, call), c.Want(200, "POST", path, call)
		if again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: it was not replayed", path)
		}
		for name, r := range map[string]*apitest.Reply{"first": first, "again": again} {
			checkCut(t, path+" "+name, path, r, 1, true)
		}
	}
}
