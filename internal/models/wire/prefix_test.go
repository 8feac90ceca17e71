package wire

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// aConversation returns random messages in parts, with reasoning of the route, and the
// lengths at which a model was called: the next message is the assistant's.
func aConversation(random *rand.Rand, route stoa.Route) (messages []stoa.Message, asked []int) {
	one := func(n int) bool { return random.IntN(n) == 0 }
	text := func(s string) stoa.Part { return stoa.Part{Kind: stoa.PartText, Text: s} }
	add := func(role stoa.Role, parts ...stoa.Part) {
		messages = append(messages, stoa.Message{Role: role, Parts: parts})
	}
	mark := ""
	for turn := range 2 + random.IntN(6) {
		if one(4) {
			add(stoa.RoleSystem, text(fmt.Sprint("rule ", turn)))
		}
		if turn == 0 || one(2) {
			add(stoa.RoleUser, text(fmt.Sprint("question ", turn)))
		}
		if one(4) {
			add(stoa.RoleSystem, text(fmt.Sprint("late rule ", turn)))
		}
		asked = append(asked, len(messages))
		if one(3) { // a turn without calls
			add(stoa.RoleAssistant, text(fmt.Sprint("all ", turn)))
			add(stoa.RoleUser, text("go on"))
			continue
		}
		var parts, results []stoa.Part
		for n := range 1 + random.IntN(3) {
			if one(2) {
				data := map[string]string{
					"gemini": newGeminiState("call", []byte("c2ln")), "responses": `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"}`, "chat": "hm",
				}[route.Wire]
				if route.Wire == "messages" {
					data = newMessagesState(mark, fmt.Sprintf(`{"type":"thinking","thinking":"","signature":"s%d%d"}`, turn, n))
					mark = markOf(data)
				}
				parts = append(parts, stoa.Part{Kind: stoa.PartReasoning, State: stoa.State{Wire: route.Wire, Model: route.Model, Data: data}})
			}
			if one(3) {
				parts = append(parts, text(fmt.Sprint("answer ", turn, n)))
			}
			id := []string{"call_1", fmt.Sprint("call_", turn, n), fmt.Sprintf("functions.f:%d", n)}[random.IntN(3)]
			parts = append(parts, stoa.Part{Kind: stoa.PartCall, Call: &stoa.ToolCall{ID: id + fmt.Sprint(n), Name: "f", Arguments: []string{"{}", `{"b":1,"a":2}`, "[1]", ""}[random.IntN(4)]}})
			results = append(results, stoa.Part{Kind: stoa.PartResult, Result: &stoa.ToolResult{CallID: id + fmt.Sprint(n), Name: "f", Content: []string{"", "done"}[random.IntN(2)], IsError: one(4)}})
		}
		add(stoa.RoleAssistant, parts...)
		if one(3) {
			results = append(results, text("and this"))
		}
		add(stoa.RoleUser, results...)
	}
	return messages, append(asked, len(messages))
}

// TestWhatWasSentIsSentAgain checks that the same conversation always has the same bytes, and
// that a continued conversation begins with the bytes sent before: vendors bind reasoning to
// them, and their caches compare them.
func TestWhatWasSentIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{"messages", "messages mid", "gemini", "responses", "responses paid", "chat openai", "chat deepseek", "chat compatible"} {
		name, dialect, _ := strings.Cut(wire, " ")
		route := stoa.Route{Wire: name, Model: "m", Dialect: dialect, Traits: stoa.Traits{MidSystem: dialect == "mid", NoPrefill: dialect == "mid", PaidCache: dialect == "paid"}}
		for seed := range uint64(200) {
			messages, asked := aConversation(rand.New(rand.NewPCG(seed, 7)), route)
			before := ""
			for _, n := range asked {
				call := stoa.Call{Instructions: "Be brief.", Messages: messages[:n], Tools: []stoa.Tool{{Name: "f"}}, Stateful: true}
				got := conversationOf(t, call, route)
				if again := conversationOf(t, call, route); again != got {
					t.Fatalf("%s, seed %d: it is sent as\n%s and as\n%s", wire, seed, got, again)
				}
				if !strings.HasPrefix(got, before) {
					t.Fatalf("%s, seed %d: with %d messages it is sent as\n%s and it was\n%s", wire, seed, n, got, before)
				}
				before = got
			}
		}
	}
}

// conversationOf returns the messages of a request without the end of their array.
func conversationOf(t *testing.T, call stoa.Call, route stoa.Route) string {
	t.Helper()
	req, err := codecs[route.Wire].Encode(call, route, "k")
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(req.Body, &members); err != nil {
		t.Fatalf("%v in %s", err, req.Body)
	}
	for _, name := range []string{"messages", "contents", "input"} {
		if list := members[name]; list != nil {
			return strings.TrimSuffix(string(list), "]")
		}
	}
	t.Fatalf("no messages in %s", req.Body)
	return ""
}

// TestAMovingMarkKeepsThePrefix continues conversations whose caller marks the end of the latest
// message only: without marks, each request begins with the one before.
func TestAMovingMarkKeepsThePrefix(t *testing.T) {
	t.Parallel()
	marks := strings.NewReplacer(`,"cache_control":{"type":"ephemeral"}`, "", `,"prompt_cache_breakpoint":{"mode":"explicit"}`, "")
	for _, wire := range []string{"messages", "responses"} {
		var call stoa.Call
		before := ""
		for turn := range 4 {
			call.Messages = append(call.Messages, stoa.Message{Role: stoa.RoleUser, Parts: []stoa.Part{
				{Kind: stoa.PartText, Text: fmt.Sprint("note ", turn)}, {Kind: stoa.PartText, Text: fmt.Sprint("question ", turn), Mark: stoa.MarkShort},
			}})
			sent := conversationOf(t, call, stoa.Route{Wire: wire, Model: "m", Traits: stoa.Traits{PaidCache: true}})
			got := marks.Replace(sent)
			if got == sent || !strings.HasPrefix(got, before) {
				t.Errorf("%s: turn %d is sent as\n%s and before as\n%s", wire, turn, sent, before)
			}
			before = got
			call.Messages[len(call.Messages)-1].Parts[1].Mark = stoa.MarkNone
			call.Messages = append(call.Messages, stoa.TextMessage(stoa.RoleAssistant, "yes"))
		}
	}
}
