package billing_test

import (
	"context"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/storetest"
)

// The balance includes the holds of all nodes once these have exchanged them.
func TestABalanceHasTheHoldsOfAllNodes(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 3, false)
	a, other := storetest.Account(t, stores[0], 1000), storetest.Account(t, stores[0], 1000)
	ctx := context.Background()
	exchange := func() {
		for i, l := range list {
			byNode := map[string]map[string]int64{}
			for j, peer := range list {
				if i == j {
					continue
				}
				counts := map[string]int64{}
				for _, n := range peer.Holds().Counts(time.Now(), 10) {
					counts[n.Name] = n.Count
				}
				byNode[stores[j].Node()] = counts
			}
			l.Holds().SetPeers(byNode)
		}
	}
	first, err := list[0].Hold(ctx, caller(a), 30, 30)
	if err != nil {
		t.Fatal(err)
	}
	second, err := list[1].Hold(ctx, caller(a), 50, 50)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list[1].Hold(ctx, caller(other), 7, 7); err != nil {
		t.Fatal(err)
	}
	exchange()
	for _, l := range list {
		wantBalance(t, l, a.ID, stoa.Balance{Available: 920, Held: 80, Granted: 1000})
		wantBalance(t, l, other.ID, stoa.Balance{Available: 993, Held: 7, Granted: 1000})
	}
	first.Release()
	if _, err := second.Settle(ctx, charge("resp_1", 40)); err != nil {
		t.Fatal(err)
	}
	exchange()
	for _, l := range list {
		wantBalance(t, l, a.ID, stoa.Balance{Available: 960, Granted: 1000, Spent: 40})
	}
	list[0].Holds().SetPeers(map[string]map[string]int64{"node_x": {a.ID: 5000}})
	wantBalance(t, list[0], a.ID, stoa.Balance{Held: 960, Granted: 1000, Spent: 40}) // never more than the total
}
