package api_test

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakestripe"
)

// fuzzRounds returns how many requests each operation gets, and the first seed:
// few here, as many as STOA_FUZZ_ROUNDS says in make fuzz-api.
func fuzzRounds(t *testing.T) (rounds int, seed uint64) {
	t.Helper()
	number := func(name string, otherwise int) int {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	rounds = 16
	if testing.Short() {
		rounds = 4
	}
	return number("STOA_FUZZ_ROUNDS", rounds), uint64(number("STOA_FUZZ_SEED", 1))
}

func unlimited(s *api.Server) { s.RateLimited = func() bool { return false } }

// balanced fails unless the books of an account are in order at rest.
func balanced(t *testing.T, c *apitest.Client) {
	t.Helper()
	var books contract.Reconciliation
	c.Want(200, "GET", "/api/v1/usage/reconcile", nil).JSON(&books)
	if !books.Balanced || books.HeldMicro != 0 {
		t.Errorf("after all that the books are %+v", books)
	}
}

// ofToolServer reports whether a code says that the server of a connection, which do
// not run here, is at fault.
func ofToolServer(code string) bool {
	return code == string(stoa.CodeToolServer) || code == string(stoa.CodeToolServerTimeout)
}

// TestFuzzedRequestsOfAnOperator sends requests at random to every operation with
// an operator's key. Neither the account of that key nor the key is among the
// ids: a request at random may suspend the one and revoke the other.
func TestFuzzedRequestsOfAnOperator(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Grant: 1_000_000 * stoa.Credit, Server: unlimited})
	var acme contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": "Acme"}).JSON(&acme)
	_, key := h.NewKey(h.Account.ID, "usage:read")
	rounds, seed := fuzzRounds(t)
	operator := h.Client(t) // one, because each has its own connections
	f := apitest.Fuzzer{
		Client: func(apitest.Operation) *apitest.Client { return operator },
		Seed:   seed, Objects: map[string]string{"accounts": acme.ID, "keys": key.ID}, Allow5xx: ofToolServer,
	}
	t.Logf("%d requests", f.Run(t, rounds))
	balanced(t, h.Client(t))
}

// TestFuzzedRequestsOfATenant sends requests at random to every operation, about
// objects of every kind that exist. After some rounds a new account takes the
// place of the one whose objects may be deleted by then.
func TestFuzzedRequestsOfATenant(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited, Payments: fakestripe.New(t).Payments()})
	rounds, seed := fuzzRounds(t)
	destructive := []string{"deleteAgent", "deleteSpace"} // nothing is left to ask about after them
	var others []string
	for _, op := range apitest.Operations() {
		if !slices.Contains(destructive, op.OperationID) {
			others = append(others, op.OperationID)
		}
	}
	const each = 4
	for n := 0; rounds > 0; rounds -= each {
		tenant := newTenant(t, h, "tenant"+strconv.Itoa(n))
		n++
		f := apitest.Fuzzer{Client: tenant.client, Seed: seed, Objects: tenant.ids, Skip: destructive, Allow5xx: ofToolServer}
		f.Run(t, min(each, rounds))
		tenant.settle()
		balanced(t, tenant.Client)
		f.Skip = others
		f.Run(t, each)
		seed++
	}
}

// settle cancels the sessions of the tenant's agents and waits for their ends.
func (a tenant) settle() {
	var agents contract.AgentList
	a.Want(200, "GET", "/api/v1/api-agents?limit=100", nil).JSON(&agents)
	for _, agent := range agents.Data {
		path := "/api/v1/api-agents/" + agent.ID + "/sessions"
		var list contract.SessionList
		a.Want(200, "GET", path+"?limit=100", nil).JSON(&list)
		for _, s := range list.Data {
			if !stoa.SessionStatus(s.Status).Stopped() {
				a.Do("POST", path+"/"+s.ID+"/cancel", nil)
				a.Want(200, "GET", path+"/"+s.ID+"?waitSeconds=60", nil)
			}
		}
	}
}
