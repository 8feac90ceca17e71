package api_test

import (
	"strings"
	"testing"
	"time"

	"stoa/internal/apitest"
	"stoa/internal/contract"
)

// TestNothingUnheardOfIsAnsweredByAgents sends random requests to the operations of agents,
// spaces and sessions that exist, and of one account alone.
func TestNothingUnheardOfIsAnsweredByAgents(t *testing.T) {
	h := start(t, apitest.Config{})
	customer := newCustomer(t, h)
	a := newAuthor(t, h, customer, nil)
	var skip []string
	for _, op := range apitest.Operations() {
		switch tag := op.Tags[0]; {
		case tag != "spaces" && tag != "agents" && tag != "sessions":
			skip = append(skip, op.OperationID)
		case op.OperationID == "deleteAgent" || op.OperationID == "deleteSpace": // or all would be over soon
			skip = append(skip, op.OperationID)
		}
	}
	ids := []string{strings.TrimPrefix(a.agent, "/api/v1/api-agents/"), newSpace(t, a.Client, object{"name": "s"}).ID, "1", "2"}
	for _, message := range []string{"say: x", "ask: Which?", "ask: Which? | a | b", "fail: 400", "tokens: 50\nslow: 5ms"} {
		s, _ := a.begin(t, message, nil)
		ids = append(ids, s.ID)
	}
	for range 2 { // what is asked by chance seldom has both ids right
		ids = append(ids, ids[0])
	}
	span := 4 * time.Second
	if testing.Short() {
		span = 500 * time.Millisecond
	}
	f := apitest.Fuzzer{Client: customer, Seed: 7, IDs: ids, Skip: skip}
	t.Logf("%d requests", f.Run(t, span))
	var list contract.SessionList
	a.Want(200, "GET", a.agent+"/sessions?limit=100", nil).JSON(&list)
	for _, s := range list.Data {
		a.Want(200, "POST", a.agent+"/sessions/"+s.ID+"/cancel", nil)
	}
	var books contract.Reconciliation
	customer.Want(200, "GET", "/api/v1/usage/reconcile", nil).JSON(&books)
	if !books.Balanced || books.HeldMicro != 0 {
		t.Errorf("after all that the books are %+v", books)
	}
}
