package cli

import (
	"encoding/csv"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
)

// TestAModelCallAndItsRatingAreShown shows the request of a model call, and lists the rating of its answer as a table and as CSV.
func TestAModelCallAndItsRatingAreShown(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	p.runs(0, "", "agents", "create", "--name", "Desk", "-i", "Name the paragraph.")
	id := strings.TrimSpace(p.runs(0, "", "sessions", "start", "Desk", "say: fourteen days", "--no-watch", "--jq", ".id"))
	p.runs(0, "", "sessions", "wait", id)
	said := p.runs(0, "", "sessions", "step", id+".1.1")
	for _, want := range []string{"instructions\t", "Name the paragraph.", "message\t1\tuser\ttext\t", "say: fourteen days", "Reply: fourteen days"} {
		if !strings.Contains(said, want) {
			t.Errorf("the call has no %q: %s", want, said)
		}
	}
	if got := strings.TrimSpace(p.runs(0, "", "sessions", "step", id+".1.1", "--jq", ".request.exact")); got != "true" {
		t.Errorf("exact is %q", got)
	}
	p.runs(1, "", "sessions", "step", id+".9.1")

	var s contract.Session
	c := h.Client(t)
	c.Want(200, "GET", "/api/v1/sessions/"+id, nil).JSON(&s)
	var messages contract.MessageList
	path := "/api/v1/api-agents/" + s.AgentID + "/sessions/" + id + "/messages"
	c.Want(200, "GET", path, nil).JSON(&messages)
	c.Want(200, "PUT", path+"/"+messages.Data[1].ID+"/feedback", map[string]any{"rating": "down", "comment": "=1+1, \"sure\""})
	if said := p.runs(0, "", "feedback", "list", "Desk", "--rating", "down"); !strings.Contains(said, `=1+1, "sure"`) || !strings.Contains(said, id) {
		t.Errorf("the list is %s", said)
	}
	rows, err := csv.NewReader(strings.NewReader(p.runs(0, "", "feedback", "list", "--csv"))).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][3] != id || rows[1][8] != "down" || rows[1][9] != `'=1+1, "sure"` || rows[1][10] != "fourteen days" {
		t.Errorf("the file is %q, %v", rows, err)
	}
	if got := strings.TrimSpace(p.runs(0, "", "sessions", "list", "--feedback", "up", "--jq", "length")); got != "0" {
		t.Errorf("%s sessions are rated up", got)
	}
	if got := strings.TrimSpace(p.runs(0, "", "sessions", "list", "--feedback", "down", "--jq", ".[].id")); got != id {
		t.Errorf("%s is rated down", got)
	}
	p.runs(2, "", "feedback", "list", "--csv", "--json")
}
