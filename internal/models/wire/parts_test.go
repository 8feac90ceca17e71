package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// partRoutes are the routes whose requests are compared, with the member that contains the
// conversation.
var partRoutes = []struct {
	member string
	route  stoa.Route
}{
	{"messages", stoa.Route{Wire: "messages", Model: "m", Traits: stoa.Traits{Efforts: []string{"low"}, NoPrefill: true, Binding: true, MidSystem: true}}},
	{"messages", stoa.Route{Wire: "messages", Model: "m"}},
	{"contents", stoa.Route{Wire: "gemini", Model: "m", Traits: stoa.Traits{NoPrefill: true}}},
	{"contents", stoa.Route{Wire: "gemini", Model: "gemini-2.5-pro"}},
	{"input", stoa.Route{Wire: "responses", Model: "m"}},
	{"input", stoa.Route{Wire: "responses", Model: "m", Traits: stoa.Traits{PaidCache: true}}},
	{"input", stoa.Route{Wire: "responses", Model: "m", Traits: stoa.Traits{CustomTools: true}}},
	{"messages", stoa.Route{Wire: "chat", Model: "m", Dialect: "openai", Traits: stoa.Traits{MidSystem: true}}},
	{"messages", stoa.Route{Wire: "chat", Model: "m", Dialect: "deepseek"}},
	{"messages", stoa.Route{Wire: "chat", Model: "m", Dialect: "compatible"}},
}

// conversation returns a random conversation of a caller that loses nothing, and the
// positions at which the model replied.
func conversation(seed uint64, route stoa.Route) (messages []stoa.Message, replies []int) {
	r := rand.New(rand.NewPCG(seed, 0))
	texts := []string{"a", "b c", " ", "", "\n", "é\"", "d "}
	text := func() stoa.Part { return stoa.Part{Kind: stoa.PartText, Text: texts[r.IntN(len(texts))]} }
	ids := []string{"a", "b", "a_2", "functions.f:0", "", strings.Repeat("x", 64), "toolu_1"}
	segments := 0
	for range 1 + r.IntN(12) {
		if r.IntN(4) == 0 {
			messages = append(messages, stoa.Message{Role: stoa.RoleSystem, Parts: []stoa.Part{text()}})
		}
		if r.IntN(8) == 0 {
			messages = append(messages, stoa.Message{Role: stoa.RoleSystem, Tools: []stoa.Tool{{Name: "added", Form: &stoa.ToolForm{Name: "added", Added: true}}}})
		}
		user := stoa.Message{Role: stoa.RoleUser, Parts: []stoa.Part{}}
		if n := len(messages); n > 0 {
			for ; n > 0 && messages[n-1].Role == stoa.RoleSystem; n-- {
			}
			for _, p := range messages[max(0, n-1)].Parts {
				if p.Kind == stoa.PartCall {
					user.Parts = append(user.Parts, stoa.Part{Kind: stoa.PartResult, Result: &stoa.ToolResult{CallID: p.Call.ID, Name: p.Call.Name, Content: "ok", Custom: form(p.Call.Form).Custom}})
				}
			}
		}
		for range r.IntN(3) {
			if p := text(); r.IntN(4) > 0 {
				user.Parts = append(user.Parts, p)
			} else {
				user.Parts = append(user.Parts, stoa.Part{Kind: stoa.PartImage, Media: &stoa.Media{Type: "image/png", Base64: "AA=="}})
			}
		}
		messages = append(messages, user)
		if r.IntN(4) == 0 {
			messages = append(messages, stoa.Message{Role: stoa.RoleSystem, Parts: []stoa.Part{text()}})
		}
		replies = append(replies, len(messages))
		reply, used := stoa.Message{Role: stoa.RoleAssistant, Parts: []stoa.Part{}}, map[string]bool{}
		after := lastMark(&stoa.Call{Messages: messages})
		for range r.IntN(6) {
			switch r.IntN(3) {
			case 0:
				reply.Parts = append(reply.Parts, text())
			case 1:
				segments++
				data := newGeminiState([]string{"call", "text"}[r.IntN(2)], fmt.Appendf(nil, `"s%d"`, segments))
				switch route.Wire {
				case "responses":
					data = fmt.Sprintf(`{"type":"reasoning","summary":[],"encrypted_content":"s%d"}`, segments)
				case "chat":
					data = fmt.Sprintf("s%d", segments)
				case "messages":
					data = newMessagesState(after, fmt.Sprintf(`{"type":"thinking","thinking":"","signature":"s%d"}`, segments))
					after = markOf(data)
				}
				reply.Parts = append(reply.Parts, stoa.Part{Kind: stoa.PartReasoning, State: stoa.State{Wire: route.Wire, Model: route.Model, Data: data}})
			default:
				if id := ids[r.IntN(len(ids))]; !used[id] {
					used[id] = true
					call := stoa.ToolCall{ID: id, Name: "f", Arguments: texts[r.IntN(len(texts))]}
					switch r.IntN(3) {
					case 0:
						call.Name, call.Arguments, call.Form = "p", CustomArguments(call.Arguments), &stoa.ToolForm{Name: "p", Custom: true}
					case 1:
						call.Name, call.Form = "n__f", &stoa.ToolForm{Namespace: "n", Name: "f"}
					}
					reply.Parts = append(reply.Parts, stoa.Part{Kind: stoa.PartCall, Call: &call})
				}
			}
		}
		if r.IntN(2) == 0 || len(used) == 0 {
			reply.Parts = append(reply.Parts, stoa.Part{Kind: stoa.PartText, Text: "end"}) // no reply is empty
		}
		messages = append(messages, reply)
	}
	return messages, replies
}

// sentList returns the elements of a member of the request.
func sentList(t testing.TB, member string, route stoa.Route, messages []stoa.Message) (list []string, body []byte) {
	call := stoa.Call{Stateful: true, Messages: messages, Tools: []stoa.Tool{{Name: "f"}}}
	req, err := codecs[route.Wire].Encode(call, route, "")
	if err != nil {
		t.Fatal(err)
	}
	if !jsonx.Valid(req.Body) {
		t.Fatalf("the request is no JSON: %s", req.Body)
	}
	var members map[string]json.RawMessage
	var raw []json.RawMessage
	if err := json.Unmarshal(req.Body, &members); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(members[member], &raw); err != nil {
		t.Fatal(err)
	}
	for _, e := range raw {
		list = append(list, string(e))
	}
	return list, req.Body
}

// FuzzConversationsGoOn checks that a conversation is always encoded the same way, that each
// request begins with the bytes of the requests before, and that vendors accept it: turns
// alternate, ids of calls are unique, and results directly follow their calls.
func FuzzConversationsGoOn(f *testing.F) {
	for seed := range uint64(80) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, p := range partRoutes {
			messages, replies := conversation(seed, p.route)
			var before []string
			for _, n := range replies {
				list, body := sentList(t, p.member, p.route, messages[:n])
				if _, again := sentList(t, p.member, p.route, messages[:n]); !bytes.Equal(body, again) {
					t.Fatalf("%s\nand then\n%s", body, again)
				}
				if len(list) < len(before) || !slices.Equal(list[:len(before)], before) {
					t.Fatalf("%s: the request of %d messages changes what was sent:\n%s", p.route.Wire, n, cmp.Diff(before, list))
				}
				before = list
				if p.route.Wire == "messages" {
					checkMessagesTurns(t, list)
				}
			}
		}
	})
}

// checkMessagesTurns checks what the vendor requires of turns.
func checkMessagesTurns(t testing.TB, list []string) {
	used, last := map[string]bool{}, ""
	var open []string
	for i, e := range list {
		var turn struct {
			Role    string
			Content json.RawMessage
		}
		if err := json.Unmarshal([]byte(e), &turn); err != nil {
			t.Fatal(err)
		}
		var text string
		var blocks []struct{ Type, ID, Text, ToolUseID string }
		if json.Unmarshal(turn.Content, &text) != nil {
			raw := bytes.ReplaceAll(turn.Content, []byte("tool_use_id"), []byte("ToolUseID"))
			if err := json.Unmarshal(raw, &blocks); err != nil || len(blocks) == 0 {
				t.Fatal(err, string(turn.Content))
			}
		} else if strings.TrimSpace(text) == "" {
			t.Fatalf("an empty turn: %s", e)
		}
		if i == 0 && turn.Role != "user" || turn.Role == last || turn.Role == "system" && last != "user" || last == "system" && turn.Role != "assistant" {
			t.Fatalf("%s after %s in %v", turn.Role, last, list)
		}
		if last = turn.Role; turn.Role == "user" {
			for n := range open {
				if n >= len(blocks) || blocks[n].Type != "tool_result" || blocks[n].ToolUseID != open[n] {
					t.Fatalf("the results of %v are %s", open, e)
				}
			}
		}
		open = nil
		for _, b := range blocks {
			if b.Type == "tool_use" {
				if used[b.ID] || !stoa.IsName(b.ID) {
					t.Fatalf("the id %q in %v", b.ID, list)
				}
				used[b.ID] = true
				open = append(open, b.ID)
			}
		}
		if n := len(blocks); n > 0 && blocks[n-1].Type == "thinking" {
			t.Fatalf("thinking at the end of %s", e)
		}
	}
}

// TestLostReasoningLeavesNoGap removes segments from conversations, as a caller may lose
// them: the request contains one run of them, up to the last that is left.
func TestLostReasoningLeavesNoGap(t *testing.T) {
	t.Parallel()
	route := partRoutes[0].route
	lost := 0
	for seed := range uint64(500) {
		messages, _ := conversation(seed, route)
		whole, _ := sentList(t, "messages", route, messages)
		all := signatures(whole)
		r := rand.New(rand.NewPCG(seed, 1))
		gone := map[int]bool{}
		for i := range messages {
			messages[i].Parts = slices.DeleteFunc(slices.Clone(messages[i].Parts), func(p stoa.Part) bool {
				if p.Kind != stoa.PartReasoning || r.IntN(4) > 0 {
					return false
				}
				_, block := messagesState(p.State.Data)
				gone[signatures([]string{block})[0]] = true
				return true
			})
		}
		want := slices.Clone(all)
		for i := len(all) - 1; i >= 0; i-- {
			if gone[all[i]] && i == len(want)-1 {
				want = want[:i] // lost at the end: the earlier ones are sent
			} else if gone[all[i]] {
				want = want[i+1:]
				lost++
				break
			}
		}
		list, _ := sentList(t, "messages", route, messages)
		if got := signatures(list); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v of %v are sent, without %v; want %v", seed, got, all, gone, want)
		}
	}
	if lost < 50 {
		t.Errorf("only %d conversations had a gap", lost)
	}
}

// signatures returns the numbers of the segments in turns.
func signatures(list []string) (numbers []int) {
	for _, e := range list {
		for rest := e; ; {
			_, after, ok := strings.Cut(rest, `"signature":"s`)
			if !ok {
				break
			}
			digits, _, _ := strings.Cut(after, `"`)
			n, _ := strconv.Atoi(digits)
			numbers, rest = append(numbers, n), after
		}
	}
	return numbers
}
