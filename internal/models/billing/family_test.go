package billing_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// TestAFamilyOfKeysHasOneDay checks that the credits of a day are those of the root key,
// regardless of the number of keys that spend them, and that they survive a restart.
func TestAFamilyOfKeysHasOneDay(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, stop := start(t, st, billing.Config{})
		a := storetest.Account(t, st, 1000)
		ctx := context.Background()
		var keys []stoa.Caller
		root := ""
		for i := range 6 {
			c := caller(a)
			c.Key = stoa.Key{AccountID: a.ID, Scopes: []string{stoa.ScopeAll}, MaxCreditsPerDay: 200, RootID: root}
			err := st.Write(ctx, func(tx *store.Tx) (err error) {
				c.Key, err = tx.People().InsertKey(ctx, c.Key, fmt.Sprint("hash ", i))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			root = cmp.Or(root, c.Key.ID)
			keys = append(keys, c)
		}
		spent := stoa.Credits(0)
		spend := func(l *billing.Ledger, c stoa.Caller, id string) error {
			h, err := l.Hold(ctx, c, 50, 50)
			if err != nil {
				return err
			}
			if _, err := h.Settle(ctx, charge(id, 50)); err != nil {
				t.Fatal(err)
			}
			spent += 50
			return nil
		}
		for i := range 3 {
			if err := spend(l, keys[i], fmt.Sprint("resp_", i)); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		st.Close()
		st = database.Open()
		l, _ = start(t, st, billing.Config{})
		for i, c := range keys {
			err := spend(l, c, fmt.Sprint("resp_again_", i))
			if i > 0 && stoa.CodeOf(err) != stoa.CodeKeyBudget {
				t.Errorf("key %d of the family: %v", i, err)
			}
		}
		if spent != 200 {
			t.Errorf("the family spent %d of its 200 a day", spent)
		}
	})
}
