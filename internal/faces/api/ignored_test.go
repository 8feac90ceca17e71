package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
)

// TestReceiptsNameIgnoredMembers sends members without an effect in all three formats, whole and
// streamed.
func TestReceiptsNameIgnoredMembers(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	for _, call := range []struct {
		path string
		body body
		want []string
	}{
		{responses, body{"model": "auto", "input": []body{{"role": "user", "content": "say: x", "name": "Ann"}, {"role": "user", "content": "say: y", "name": "Bob"}}}, nil},
		{responses, body{"model": "auto", "input": []body{{"role": "user", "content": "say: x", "tone": "dry"}, {"role": "user", "content": "say: y", "tone": "dry"}}, "client_metadata": body{}, "store": true}, []string{"client_metadata", "input[0].tone", "store"}},
		{"/api/v1/chat/completions", body{"model": "auto", "messages": []body{{"role": "user", "content": "say: x"}}, "seed": 7}, []string{"seed"}},
		{"/api/v1/messages", body{"model": "auto", "max_tokens": 99, "messages": []body{{"role": "user", "content": "say: x"}}, "context_management": body{}}, []string{"context_management"}},
	} {
		for _, stream := range []bool{false, true} {
			c.Want(200, "POST", call.path, with(body{"stream": stream}, call.body))
			var list struct{ Data []contract.Receipt }
			raw := c.Want(200, "GET", "/api/v1/receipts?limit=1", nil)
			raw.JSON(&list)
			got := list.Data[0].Ignored
			slices.Sort(got)
			if !slices.Equal(got, call.want) || strings.Contains(string(raw.Body), `"ignored"`) != (call.want != nil) {
				t.Errorf("%s: %q, want %q", call.path, got, call.want)
			}
			var one contract.Receipt
			c.Want(200, "GET", "/api/v1/receipts/"+list.Data[0].ID, nil).JSON(&one)
			if slices.Sort(one.Ignored); !slices.Equal(one.Ignored, call.want) {
				t.Errorf("%s: the receipt has %q, want %q", call.path, one.Ignored, call.want)
			}
		}
	}
	v1 := start(t, apitest.Config{Version1: true})
	if status, text := plainly(t, v1, "POST", responses, `{"model":"auto","input":"say: a","odd":1}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if r := receipts(t, v1); len(r) != 1 || r[0].Ignored != "" {
		t.Errorf("without extensions the receipts are %+v", r)
	}
	if edition, _ := json.Marshal(json.RawMessage(contract.For().JSON())); strings.Contains(string(edition), `"ignored"`) {
		t.Error("the contract of version 1 has the member")
	}
}
