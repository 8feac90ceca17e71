package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

// TestStatementsArePrintedAndChecked reads the statement of the running month in each format.
func TestStatementsArePrintedAndChecked(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Idle: true})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	p.runs(0, "", "accounts", "create", "--name", "<b>Acme", "--grant", "5")
	p.runs(0, "", "respond", "--model", "beta-3.8-flash", "hi")
	month := string(stoa.MonthOf(time.Now()))
	var list []map[string]any
	if err := json.Unmarshal([]byte(p.runs(0, "", "statement", month, "--format", "json")), &list); err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, test := range []struct{ format, want string }{{"table", "<b>Acme\t"}, {"csv", "charge,,"}, {"html", "&lt;b&gt;Acme"}} {
		if said := p.runs(0, "", "statement", month, "--account", "*", "--format", test.format); !strings.Contains(strings.ToLower(said), strings.ToLower(test.want)) {
			t.Errorf("%s: %s", test.format, said)
		}
	}
	p.runs(0, "", "statement", month, "--account", "<b>Acme", "--format", "html")
	for _, of := range [][]string{nil, {"--account", "*"}} {
		p.runs(0, "", append([]string{"statement", month, "--check"}, of...)...)
	}
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE accounts SET granted = granted + 1, balance = balance + 1`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p.runs(1, "", "statement", month, "--check", "--account", "*") // the balances have changed, the ledger has not
	p.runs(2, "", "statement", "november")
	p.runs(2, "", "statement", month, "--format", "pdf")
	p.runs(1, "", "statement", "2999-01")
}
