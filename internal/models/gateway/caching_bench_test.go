package gateway

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// BenchmarkCaching measures what marking the input and choosing a route cost a call: the request of a
// single call and of a step of an agent, without and with them.
func BenchmarkCaching(b *testing.B) {
	text := func(role stoa.Role, n int) stoa.Message {
		return stoa.TextMessage(role, strings.Repeat("Some words of a text. ", n))
	}
	single := stoa.Call{Instructions: "Be brief.", Messages: []stoa.Message{text(stoa.RoleUser, 20)}}
	agent := stoa.Call{Instructions: strings.Repeat("An instruction of the agent. ", 500), Stateful: true}
	for i := range 30 {
		agent.Tools = append(agent.Tools, stoa.Tool{Name: fmt.Sprint("tool_", i), Description: strings.Repeat("It does things. ", 20), Parameters: `{"type":"object","properties":{"a":{"type":"string"}}}`})
	}
	agent.Messages = append(agent.Messages, text(stoa.RoleUser, 1000))
	for i := range 10 {
		id := fmt.Sprint("call_", i)
		agent.Messages = append(agent.Messages,
			stoa.Message{Role: stoa.RoleAssistant, Parts: []stoa.Part{{Kind: stoa.PartCall, Call: &stoa.ToolCall{ID: id, Name: "tool_1", Arguments: `{"a":"b"}`}}}},
			stoa.Message{Role: stoa.RoleUser, Parts: []stoa.Part{{Kind: stoa.PartResult, Result: &stoa.ToolResult{CallID: id, Name: "tool_1", Content: strings.Repeat("A line of a result.\n", 100)}}}})
	}
	for _, call := range []struct {
		name string
		call stoa.Call
	}{{"single", single}, {"agent", agent}} {
		for _, name := range []string{"messages", "responses"} {
			codec, _ := wire.For(name)
			route := stoa.Route{Provider: "p", Wire: name, Model: "m", Weight: 1, Traits: stoa.Traits{PaidCache: true}}
			for _, caching := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/%s/caching=%v", call.name, name, caching), func(b *testing.B) {
					g := &Gateway{}
					b.ReportAllocs()
					for b.Loop() {
						req := Request{Model: "m", Call: call.call}
						if !caching {
							req.Call.Caching = stoa.CacheOff
						} else {
							g.cache("acc_1", &req)
							req.Call.Thread = thread("acc_1", &req)
						}
						if _, err := codec.Encode(req.Call, route, "k"); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
