package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

func TestAToolLoopGoesOnAtEveryVendor(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	for _, model := range []string{"alpha-sonnet-5-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
		t.Run(model, func(t *testing.T) {
			ask, _ := json.Marshal("think: 40\ncall: now {}\ncall: get_weather {\"city\":\"Oslo\"}")
			var input []string
			states := 0
			for round := range 3 {
				input = append(input, `{"role":"user","content":`+string(ask)+`}`)
				body := json.RawMessage(strings.Replace(string(toolCall("["+strings.Join(input, ",")+"]", `,"stream":true`)), `"auto"`, `"`+model+`"`, 1))
				reply := c.Want(200, "POST", responses, body)
				calls := 0
				for _, it := range reply.Events[len(reply.Events)-1].Response.Output {
					text, _ := json.Marshal(it)
					if it.Type == "function_call" {
						calls++
						text, _ = json.Marshal(map[string]any{"type": it.Type, "call_id": it.CallID, "name": it.Name, "arguments": it.Arguments})
						input = append(input, string(text), fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"round %d"}`, it.CallID, round))
						continue
					}
					if it.Type == "reasoning" {
						states++
					}
					input = append(input, string(text))
				}
				input = append(input, `{"role":"assistant","content":"done"}`)
				if calls != 2 {
					t.Fatalf("round %d: no call in %+v", round, reply.Events[len(reply.Events)-1].Response.Output)
				}
			}
			if states < 3 {
				t.Errorf("%d items of reasoning came", states)
			}
		})
	}
}
