package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// pointsOf describes the input of a request to OpenAI: the texts and kinds of its parts, with a * after
// those that have a breakpoint, and the mode of the cache.
func pointsOf(t *testing.T, body []byte) string {
	t.Helper()
	type part struct {
		Type, Text string
		Point      *struct{ Mode string } `json:"prompt_cache_breakpoint"`
	}
	var v struct {
		Instructions *string
		Input        []struct {
			Type, Role string
			Content    json.RawMessage
			part
		}
		Options struct{ Mode string } `json:"prompt_cache_options"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if v.Instructions != nil {
		return "instructions"
	}
	var out []string
	for _, item := range v.Input {
		var parts []part
		if json.Unmarshal(item.Content, &parts) != nil {
			out = append(out, item.Role+item.Type)
		}
		for _, p := range parts {
			text := p.Text
			if p.Type != "input_text" {
				text = p.Type
			}
			if p.Point != nil && p.Point.Mode == "explicit" {
				text += "*"
			}
			out = append(out, text)
		}
	}
	return strings.Join(append(out, v.Options.Mode), " ")
}

// TestBreakpointsArePlaced places the marks of callers and of the service in requests to OpenAI.
func TestBreakpointsArePlaced(t *testing.T) {
	t.Parallel()
	text := func(s string, m stoa.Mark) stoa.Part { return stoa.Part{Kind: stoa.PartText, Text: s, Mark: m} }
	message := func(role stoa.Role, parts ...stoa.Part) stoa.Message {
		return stoa.Message{Role: role, Parts: parts}
	}
	none, short, long := stoa.MarkNone, stoa.MarkShort, stoa.MarkLong
	user, assistant, system := stoa.RoleUser, stoa.RoleAssistant, stoa.RoleSystem
	use := func(m stoa.Mark) []stoa.Message {
		return []stoa.Message{
			message(user, text("q", none)),
			message(assistant, stoa.Part{Kind: stoa.PartCall, Call: &stoa.ToolCall{ID: "c", Name: "f", Arguments: "{}"}}),
			message(user, stoa.Part{Kind: stoa.PartResult, Result: &stoa.ToolResult{CallID: "c", Name: "f", Content: "r"}, Mark: m}),
		}
	}
	tools := func(m stoa.Mark) []stoa.Tool { return []stoa.Tool{{Name: "f", Mark: m}} }
	image := stoa.Part{Kind: stoa.PartImage, Media: &stoa.Media{URL: "https://a.example/b.png"}, Mark: short}
	six := message(user)
	for i := range 6 {
		six.Parts = append(six.Parts, text(fmt.Sprint(i), short))
	}
	chat := []stoa.Message{message(user, text("a", none), text("b", none)), message(assistant, text("c", none)), message(user, text("d", none))}
	for _, test := range []struct {
		name    string
		call    stoa.Call
		want    string
		by      stoa.MarkedBy
		changed bool
	}{
		{"a one-off", stoa.Call{Instructions: "i", Messages: chat[:1]}, "i a\n\nb ", stoa.MarkedByVendor, false},
		{"a frugal one-off", stoa.Call{Instructions: "i", Messages: chat[:1], Frugal: true}, "i a\n\nb explicit", stoa.MarkedByNone, false},
		{"known instructions", stoa.Call{Instructions: "i", Messages: chat[:1], Caching: stoa.CacheInstructions}, "i* a\n\nb ", stoa.MarkedByStoa, false},
		{"known instructions, frugally", stoa.Call{Instructions: "i", Messages: chat[:1], Caching: stoa.CacheInstructions, Frugal: true}, "i* a\n\nb explicit", stoa.MarkedByStoa, false},
		{"marked input only", stoa.Call{Messages: []stoa.Message{message(user, text("a", short), text("b", none))}, MarkedOnly: true}, "a* b explicit", stoa.MarkedByCaller, false},
		{"marked input only, without marks", stoa.Call{Messages: chat[:1], MarkedOnly: true}, "a\n\nb explicit", stoa.MarkedByNone, false},
		{"a conversation", stoa.Call{Instructions: "i", Messages: chat, Caching: stoa.CacheConversation, Frugal: true}, "i* a\n\nb* assistantmessage d ", stoa.MarkedByStoa, false},
		{"without instructions", stoa.Call{Messages: chat, Caching: stoa.CacheConversation}, "a\n\nb* assistantmessage d ", stoa.MarkedByStoa, false},
		{"switched off", stoa.Call{Instructions: "i", Messages: []stoa.Message{message(user, text("a", short))}, Caching: stoa.CacheOff}, "instructions", "", false},
		{"texts and images", stoa.Call{Messages: []stoa.Message{message(user, text("a", short), image, text("b", none))}, Frugal: true}, "a* input_image* b ", stoa.MarkedByCaller, false},
		{"six marks", stoa.Call{Messages: []stoa.Message{six}}, "0 1 2* 3* 4* 5* ", stoa.MarkedByCaller, true},
		{"a long mark", stoa.Call{Messages: []stoa.Message{message(user, text("a", long))}}, "a* ", stoa.MarkedByCaller, true},
		{"the end of a system message", stoa.Call{Instructions: "i", Messages: []stoa.Message{message(system, text("s", none), text("t", short)), chat[0]}}, "i s\n\nt* a b ", stoa.MarkedByCaller, false},
		{"within a system message", stoa.Call{Messages: []stoa.Message{message(system, text("s", short), text("t", none)), chat[0]}}, "s* \n\nt a b ", stoa.MarkedByCaller, false},
		{"a later system message", stoa.Call{Messages: []stoa.Message{chat[0], message(system, text("s", short))}}, "a b s* ", stoa.MarkedByCaller, false},
		{"an answer", stoa.Call{Messages: []stoa.Message{chat[0], message(assistant, text("c", short)), chat[2]}}, "a b* assistantmessage d ", stoa.MarkedByCaller, true},
		{"a result", stoa.Call{Messages: use(short), Tools: tools(none)}, "q* function_call function_call_output ", stoa.MarkedByCaller, true},
		{"a tool", stoa.Call{Instructions: "i", Messages: chat[:1], Tools: tools(short)}, "i* a b ", stoa.MarkedByCaller, true},
		{"a tool without instructions", stoa.Call{Messages: chat[:1], Tools: tools(short)}, "a b ", stoa.MarkedByVendor, true},
	} {
		req, err := codecs["responses"].Encode(test.call, stoa.Route{Wire: "responses", Model: "m", Traits: stoa.Traits{PaidCache: true}}, "k")
		if err != nil {
			t.Fatal(err)
		}
		if got := pointsOf(t, req.Body); got != test.want || req.MarkedBy != test.by || req.MarksChanged != test.changed || req.Long {
			t.Errorf("%s: %q by %q, changed %v; want %q by %q, %v: %s", test.name, got, req.MarkedBy, req.MarksChanged, test.want, test.by, test.changed, req.Body)
		}
		req, err = codecs["responses"].Encode(test.call, stoa.Route{Wire: "responses", Model: "m"}, "k")
		if err != nil || strings.Contains(string(req.Body), "prompt_cache_") || req.MarkedBy != "" {
			t.Errorf("%s: a compatible server gets %s, %v", test.name, req.Body, err)
		}
	}
}
