package cli

import (
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

// TestABudgetIsSetTwice creates a budget and changes it by the same command.
func TestABudgetIsSetTwice(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Idle: true})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	set := func(more ...string) string {
		t.Helper()
		return p.runs(0, "", append([]string{"budgets", "set", "--scope", "end-user", "--subject", "*", "--period", "day", "--json"}, more...)...)
	}
	first := set("--limit", "0.5", "--notify-at", "80,100")
	if !strings.Contains(first, `"limitMicro": 500000`) || !strings.Contains(first, "80") {
		t.Errorf("created %s", first)
	}
	second := set("--limit", "2", "--at-cap", "refuse")
	if !strings.Contains(second, `"limitMicro": 2000000`) || !strings.Contains(second, `"refuse"`) || !strings.Contains(second, "80") {
		t.Errorf("changed to %s", second)
	}
	p.runs(1, "", "budgets", "set", "--scope", "end-user", "--subject", "*", "--period", "day", "--limit", "2", "--time-zone", "Europe/Vienna")
	p.runs(2, "", "budgets", "set", "--scope", "account", "--limit", "2")
	list := p.runs(0, "", "budgets", "list")
	if strings.Count(list, "bud_") != 1 || !strings.Contains(list, "end_user") {
		t.Errorf("the list is %s", list)
	}
	id := list[strings.Index(list, "bud_"):][:30]
	if said := p.runs(0, "", "budgets", "subjects", id); strings.Contains(said, "user") {
		t.Errorf("before a call its subjects are %s", said)
	}
	p.runs(0, "", "budgets", "remove", id, "--yes")
	if list := p.runs(0, "", "budgets", "list"); strings.Contains(list, "bud_") {
		t.Errorf("after it was removed the list is %s", list)
	}
}
