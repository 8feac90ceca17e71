package cli

import (
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

// Commands that erase ask first, wait if they are told to, and leave a record.
func TestErasuresAskWaitAndAreListed(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Idle: true})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	p.runs(0, "", "accounts", "create", "--name", "acme")
	p.runs(2, "", "end-users", "erase", "user-1042")
	p.runs(2, "", "accounts", "delete", "acme")
	p.runs(0, "", "budgets", "create", "--account", "acme", "--scope", "account", "--period", "month", "--limit", "5")
	if list := p.runs(0, "", "accounts", "budgets", "acme"); strings.Count(list, "bud_") != 1 {
		t.Errorf("the budgets of the account are %s", list)
	}
	if list := p.runs(0, "", "budgets", "list"); strings.Contains(list, "bud_") {
		t.Errorf("the own budgets are %s", list)
	}
	if said := p.runs(0, "", "end-users", "erase", "user/1042 ä", "--yes", "--json"); !strings.Contains(said, `"running"`) {
		t.Errorf("an erasure begins as %s", said)
	}
	if said := p.runs(0, "", "accounts", "delete", "acme", "--yes"); !strings.Contains(said, "era_") || !strings.Contains(said, "Backups") {
		t.Errorf("an account is deleted with %s", said)
	}
	p.runs(1, "", "accounts", "get", "acme")
	if err := h.Erasures.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := p.runs(0, "", "erasures", "list")
	if strings.Count(list, "completed") != 2 || !strings.Contains(list, "end_user") {
		t.Errorf("the list is %s", list)
	}
	id := list[strings.Index(list, "era_"):][:30]
	if said := p.runs(0, "", "erasures", "get", id); !strings.Contains(said, "completed") {
		t.Errorf("it is %s", said)
	}
}
