package billing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"stoa/internal/base/cluster"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// inDoubt is a charge whose COMMIT was cut, on a node that has not renewed its lease on life
// in time since.
type inDoubt struct {
	link     *storetest.Link
	st       *store.Store // of the node, behind the link
	other    *store.Store // of another node
	account  stoa.Account
	settled  chan error
	receipts func() int
}

func newDoubt(t *testing.T, how storetest.Cut, giveUp time.Duration) *inDoubt {
	t.Helper()
	ctx := context.Background()
	database := storetest.Postgres(t)
	database.Config.Life = storetest.Still
	d := &inDoubt{other: database.Open(), settled: make(chan error, 1)}
	d.account = storetest.Account(t, d.other, 1000)
	d.link = storetest.NewLink(t, database.Config.PostgresURL)
	t.Cleanup(d.link.Return)
	database.Config.PostgresURL = d.link.URL
	database.Config.Life = cluster.Times{Every: 10 * time.Millisecond, Expiry: 2 * time.Second, Death: time.Hour, GiveUp: giveUp}
	d.st = database.Open()
	expired := make(chan struct{}, 1)
	d.st.OnExpiry(func() { expired <- struct{}{} })
	l, _ := start(t, d.st, billing.Config{Shared: true})
	h, err := l.Hold(ctx, caller(d.account), 100, 100)
	if err != nil {
		t.Fatal(err)
	}
	d.link.CutNext(how, d.link.Leave)
	go func() {
		charge, err := h.Settle(ctx, charge("resp_1", 100))
		if err == nil && (charge.ID != "resp_1" || charge.Amount != 100) {
			t.Errorf("charged: %+v", charge)
		}
		d.settled <- err
	}()
	<-expired
	d.receipts = func() (n int) {
		if err := d.other.Read(ctx, func(tx *store.Tx) error {
			_, found, err := tx.Books().ChargeByID(ctx, "resp_1")
			if n = 0; found {
				n = 1
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		return n
	}
	return d
}

// A charge whose COMMIT was cut is resolved by its id when the node has renewed its life,
// regardless of the delay: its caller learns exactly the outcome.
func TestAChargeInDoubtIsResolved(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]storetest.Cut{"before": storetest.CutBefore, "after": storetest.CutAfter} {
		t.Run(name, func(t *testing.T) {
			d := newDoubt(t, how, time.Hour)
			d.link.Return()
			if err := <-d.settled; err != nil {
				t.Error(err)
			}
			if n := d.receipts(); n != 1 {
				t.Errorf("%d charges", n)
			}
		})
	}
}

// A dead node charges nothing more, but reports what it has charged.
func TestADeadNodeTellsWhatItCharged(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]storetest.Cut{"before": storetest.CutBefore, "after": storetest.CutAfter} {
		t.Run(name, func(t *testing.T) {
			d := newDoubt(t, how, time.Hour)
			ctx := context.Background()
			if err := d.other.Write(ctx, func(tx *store.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE nodes SET alive = 0 WHERE id = $1", d.st.Node())
				return err
			}); err != nil {
				t.Fatal(err)
			}
			d.link.Return()
			err := <-d.settled
			charged := how == storetest.CutAfter
			if charged != (err == nil) || errors.Is(err, billing.ErrUnknown) {
				t.Errorf("charged: %v, told: %v", charged, err)
			}
			if n := d.receipts(); charged != (n == 1) {
				t.Errorf("%d charges", n)
			}
		})
	}
}

// A node that ends without having reached the database reports an unknown outcome.
func TestAnEndInDoubtIsNotAFailure(t *testing.T) {
	t.Parallel()
	d := newDoubt(t, storetest.CutAfter, 2*time.Second)
	if err := <-d.settled; !errors.Is(err, billing.ErrUnknown) {
		t.Errorf("told: %v", err)
	}
	if n := d.receipts(); n != 1 {
		t.Errorf("%d charges", n)
	}
}
