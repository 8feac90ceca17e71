package api_test

import (
	"testing"
	"time"

	"stoa/internal/apitest"
	"stoa/internal/contract"
	"stoa/internal/stoa"
)

// TestNothingUnheardOfIsAnswered sends random requests for a few
// seconds. Its owner's own account is not among the ids, and neither is the key
// in use: what is asked at random may well suspend and revoke.
func TestNothingUnheardOfIsAnswered(t *testing.T) {
	h := start(t, apitest.Config{Grant: 1_000_000 * stoa.Credit})
	var acme contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": "Acme"}).JSON(&acme)
	_, key := h.NewKey(h.Account.ID, "usage:read")
	for seed, span := uint64(1), 3*time.Second; seed <= 1; seed++ {
		if testing.Short() {
			span = 500 * time.Millisecond
		}
		f := apitest.Fuzzer{Client: h.Client(t), Seed: seed, IDs: []string{acme.ID, key.ID, acme.Key.ID}}
		t.Logf("%d requests", f.Run(t, span))
	}
	var books contract.Reconciliation
	h.Client(t).Want(200, "GET", "/api/v1/usage/reconcile", nil).JSON(&books)
	if !books.Balanced || books.HeldMicro != 0 {
		t.Errorf("after all that the books are %+v", books)
	}
}
