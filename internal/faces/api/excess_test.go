package api_test

import (
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

// TestLimitsOfTheContractAreEnforced sends every operation a value beyond each
// limit that the contract states for its parameters and its body. An operation
// or a member that is added is covered without a change here.
func TestLimitsOfTheContractAreEnforced(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, nil)
	agent := strings.TrimPrefix(a.agent, "/api/v1/api-agents/")
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		id, c := agent, a.Client
		if op.VisitorOnly() {
			id, c = v.embed.ChatSessionID, v.Client
		}
		for _, x := range op.Excesses(id) {
			r := c.Send(x.Request)
			if x.InPath {
				if r.Status != 404 && r.Status != 401 && op.Method != "DELETE" {
					t.Errorf("%s beyond its limit: %d %.200s", x.At, r.Status, r.Body)
				}
				continue
			}
			if e := r.Error(); r.Status != 400 || !strings.HasPrefix(x.At, deref(e.Param)) {
				t.Errorf("%s beyond its limit: %d, param %q: %.300s", x.At, r.Status, deref(e.Param), r.Body)
			}
		}
	})
}
