package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestQuotasHoldForManyAtOnce: concurrent creations of one account do not exceed a limit
// together, and another account is not affected.
func TestQuotasHoldForManyAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		database.Config.Quota = store.Quota{Keys: 3, Spaces: 3}
		st := database.Open()
		ctx := context.Background()
		a, other := storetest.Account(t, st, 0), storetest.Account(t, st, 0)
		for kind, insert := range map[string]func(tx *store.Tx, account string, n int) error{
			"spaces": func(tx *store.Tx, account string, n int) error {
				_, err := tx.Setup().InsertSpace(ctx, stoa.Space{AccountID: account, Name: "s"})
				return err
			},
			"keys": func(tx *store.Tx, account string, n int) error {
				_, err := tx.People().InsertKey(ctx, stoa.Key{AccountID: account, Scopes: []string{stoa.ScopeAll}}, fmt.Sprint(account, n))
				return err
			},
		} {
			var made atomic.Int64
			var all sync.WaitGroup
			for n := range 12 {
				all.Go(func() {
					err := st.Write(ctx, func(tx *store.Tx) error { return insert(tx, a.ID, n) })
					switch {
					case err == nil:
						made.Add(1)
					case stoa.CodeOf(err) != stoa.CodeLimitReached:
						t.Errorf("%s: %v", kind, err)
					}
				})
			}
			all.Wait()
			if n := made.Load(); n != 3 {
				t.Errorf("%d %s were created, want 3", n, kind)
			}
			if err := st.Write(ctx, func(tx *store.Tx) error { return insert(tx, other.ID, 0) }); err != nil {
				t.Errorf("another account: %v", err)
			}
		}
	})
}

// TestEndedKeysAreBounded: beyond the limit old keys make way, and young ones refuse
// the new one.
func TestEndedKeysAreBounded(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		database.Config.Quota = store.Quota{Keys: 3, EndedKeys: 3}
		st := database.Open()
		ctx := context.Background()
		a, other := storetest.Account(t, st, 0), storetest.Account(t, st, 0)
		n := 0
		insert := func(account string, revoked, expires time.Duration) error {
			n++
			return st.Write(ctx, func(tx *store.Tx) error {
				k := stoa.Key{AccountID: account, Name: fmt.Sprint(n), Scopes: []string{stoa.ScopeAll}}
				if revoked != 0 {
					k.RevokedAt = tx.Now.Add(revoked)
				}
				if expires != 0 {
					k.ExpiresAt = tx.Now.Add(expires)
				}
				_, err := tx.People().InsertKey(ctx, k, fmt.Sprint("hash", n))
				return err
			})
		}
		const day = 24 * time.Hour
		want := func(account, names string) {
			t.Helper()
			var got []string
			if err := st.Read(ctx, func(tx *store.Tx) error {
				got = nil
				keys, _, err := tx.People().Keys(ctx, account, store.KeyFilter{}, store.Page{Limit: 100, Asc: true})
				for _, k := range keys {
					got = append(got, k.Name)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if strings.Join(got, " ") != names {
				t.Errorf("the keys are %v, want %s", got, names)
			}
		}
		for _, k := range []struct {
			account          string
			revoked, expires time.Duration
		}{
			{a.ID, -8 * day, 0},
			{a.ID, 0, -8 * day},
			{a.ID, -6 * day, day},
			{other.ID, -8 * day, 0},
			{a.ID, 0, 0},        // 5: the first two make way
			{a.ID, day, 0},      // 6: it is being replaced, so it counts
			{a.ID, 0, -6 * day}, // 7
		} {
			if err := insert(k.account, k.revoked, k.expires); err != nil {
				t.Fatal(err)
			}
		}
		want(a.ID, "3 5 6 7")
		want(other.ID, "4")
		if err := insert(a.ID, 0, 0); stoa.CodeOf(err) != stoa.CodeLimitReached {
			t.Errorf("a key beyond the limit of ended ones: %v", err)
		}
		if err := insert(other.ID, 0, 0); err != nil {
			t.Error(err)
		}
	})
}

// TestOldVersionsAreDropped: only the newest versions of an agent are kept, and a session
// that pinned a removed one continues with the oldest that is left.
func TestOldVersionsAreDropped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		database.Config.Quota = store.Quota{AgentVersions: 2}
		st := database.Open()
		ctx := context.Background()
		a := storetest.Account(t, st, 0)
		err := st.Write(ctx, func(tx *store.Tx) error {
			space, err := tx.Setup().InsertSpace(ctx, stoa.Space{AccountID: a.ID, Name: "s"})
			if err != nil {
				return err
			}
			agent, err := tx.Setup().InsertAgent(ctx, stoa.Agent{AccountID: a.ID, SpaceID: space.ID, Name: "n", AgentSettings: stoa.AgentSettings{Instructions: "1", DriveAccess: stoa.DriveReadOnly}})
			if err != nil {
				return err
			}
			for n := 2; n <= 5; n++ {
				if _, err := tx.Setup().EditAgent(ctx, a.ID, agent.ID, func(e *stoa.Agent) error { e.Instructions = fmt.Sprint(n); return nil }); err != nil {
					return err
				}
			}
			for pinned, want := range map[int64]string{1: "4", 4: "4", 5: "5"} {
				v, err := tx.Setup().PinnedVersion(ctx, a.ID, agent.ID, pinned)
				if err != nil || v.Instructions != want {
					t.Errorf("a session with version %d goes on with %q (%v), want %q", pinned, v.Instructions, err, want)
				}
			}
			if _, err := tx.Setup().AgentVersion(ctx, a.ID, agent.ID, 3); stoa.CodeOf(err) != stoa.CodeNotFound {
				t.Errorf("version 3 is still there: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
