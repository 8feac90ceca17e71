package api_test

import (
	"database/sql"
	"strings"
	"testing"

	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestAFullDiskIsToldToExecutors fills the store and then claims inputs and resolves
// calls.
func TestAFullDiskIsToldToExecutors(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"tools": []any{orderTool(nil)}})
	var inputs, calls []string
	for range 150 {
		_, path := a.begin(t, `call: lookup_order {"orderId":"A-1"}`, nil)
		in := orNone(a.until(t, path, "waiting_for_input").PendingInput)
		inputs = append(inputs, in.ID)
		_, path = a.begin(t, `call: lookup_order {"orderId":7}`, nil) // never handed out
		a.until(t, path, "completed")
		calls = append(calls, path)
	}
	for i, path := range calls {
		var list struct{ Data []struct{ ID string } }
		a.Want(200, "GET", path+"/tool-calls", nil).JSON(&list)
		calls[i] = list.Data[0].ID
	}
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error { // no page more than there are
		return tx.Query(t.Context(), func(*sql.Rows) error { return nil }, "PRAGMA max_page_count = 1")
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 300 && a.Do("PATCH", a.agent, object{"instructions": strings.Repeat("x", 5000+i)}).Status != 507; i++ { // uses up the free pages
	}
	for name, ask := range map[string]func(i int) *apitest.Reply{
		"claimInput": func(i int) *apitest.Reply {
			return a.Do("POST", "/api/v1/inputs/"+inputs[i]+"/claim", object{"leaseSeconds": 600})
		},
		"resolveToolCall": func(i int) *apitest.Reply {
			return a.Do("POST", "/api/v1/tool-calls/"+calls[i]+"/resolve", object{"outcome": "not_done", "note": strings.Repeat("x", 2000)})
		},
	} {
		full := false
		for i := 0; i < 150 && !full; i++ {
			full = ask(i).Status == 507
		}
		if !full {
			t.Errorf("%s: the disk never became full", name)
		}
	}
}
