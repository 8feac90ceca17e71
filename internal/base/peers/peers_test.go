package peers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stoa/internal/base/peers"
	"stoa/internal/base/ratelimit"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Both(m)) }

// node is one of several processes with a database.
type node struct {
	t     *testing.T
	st    *store.Store
	peers *peers.Peers
	rates ratelimit.Rates
	calls ratelimit.Slots
}

func newNode(t *testing.T, database storetest.Database) *node {
	n := &node{t: t, st: database.Open()}
	n.peers = peers.New(n.st, nil)
	n.peers.Share("requests", &n.rates)
	n.peers.Share("calls", &n.calls)
	return n
}

func (n *node) exchange() {
	n.t.Helper()
	if err := n.peers.Exchange(context.Background()); err != nil {
		n.t.Fatal(err)
	}
}

// requests returns how many of count requests are allowed.
func (n *node) requests(name string, count, perMinute int) (through int) {
	for range count {
		if _, ok := n.rates.Allow(name, perMinute, time.Now()); ok {
			through++
		}
	}
	return through
}

func TestNodesCountTogether(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	a, b, c := newNode(t, database), newNode(t, database), newNode(t, database)
	if got := a.requests("key", 4, 10); got != 4 {
		t.Fatalf("%d requests passed", got)
	}
	if !b.calls.Enter("acc", 2) {
		t.Fatal("the first call was refused")
	}
	for range 2 {
		a.exchange()
		b.exchange()
		c.exchange()
	}
	if got := c.requests("key", 10, 10); got != 6 {
		t.Errorf("%d requests passed beside 4 elsewhere, want 6 of 10", got)
	}
	if !c.calls.Enter("acc", 2) || c.calls.Enter("acc", 2) {
		t.Error("beside one call elsewhere not one more of two was let in")
	}
	c.exchange()
	b.exchange()
	if got := b.requests("key", 10, 10); got != 0 {
		t.Errorf("%d requests passed beyond the limit", got)
	}
	if !a.st.HasPeers() {
		t.Error("a node beside others gives no hints")
	}
	// The counts of a node end with the node.
	b.calls.Leave("acc")
	b.exchange()
	if err := c.st.Close(); err != nil {
		t.Fatal(err)
	}
	b.exchange()
	if got := b.requests("key", 10, 10); got != 6 {
		t.Errorf("%d requests passed beside 4 of a node that lives", got)
	}
}

func TestTheOnlyNodeIsAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t, storetest.Postgres(t))
	n.requests("key", 4, 10)
	n.exchange()
	if n.st.HasPeers() {
		t.Error("a node without others gives hints")
	}
	if got := n.requests("key", 10, 10); got != 6 {
		t.Errorf("%d more requests passed, want 6", got)
	}
}

func TestWhatANodePublishesIsBounded(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	a, b := newNode(t, database), newNode(t, database)
	for i := range peers.MaxNames + 500 {
		a.requests(fmt.Sprintf("key_%032d", i), 1, 1000)
	}
	a.requests("near", 9, 10)
	a.exchange()
	b.exchange()
	if got := b.requests("near", 10, 10); got != 1 {
		t.Errorf("%d requests passed of the name that is nearest to its limit", got)
	}
	ctx := context.Background()
	err := b.st.Read(ctx, func(tx *store.Tx) error {
		counts, err := tx.Operations().PeerCounts(ctx, b.st.Node())
		if n := len(counts[a.st.Node()]); n == 0 || n > 50*peers.MaxNames {
			t.Errorf("%d bytes are published", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCountsThatCannotBeReadCountNothing(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	a, b := newNode(t, database), newNode(t, database)
	ctx := context.Background()
	if err := a.st.Write(ctx, func(tx *store.Tx) error { return tx.Operations().PublishCounts(ctx, a.st.Node(), "[1]") }); err != nil {
		t.Fatal(err)
	}
	b.exchange()
	if got := b.requests("key", 10, 10); got != 10 {
		t.Errorf("%d requests passed", got)
	}
}
