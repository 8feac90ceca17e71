package auth_test

import (
	"context"
	"testing"
	"time"

	"stoa/internal/base/auth"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestKeysOfAbsentMembersPause: after so long without a sign-in, on all nodes, until the next one, and not
// those of the account.
func TestKeysOfAbsentMembersPause(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		ctx := context.Background()
		member := stoa.Key{AccountID: h.owner.ID, ID: stoa.NewID("key"), Kind: stoa.KeyOfMember, MemberID: "per_1", SignedInAt: time.Now().UTC().Truncate(time.Microsecond), Scopes: []string{stoa.ScopeAll}}
		h.write(func(tx *store.Tx) (err error) {
			member, err = tx.People().InsertKey(ctx, member, auth.Hash(auth.Mint()))
			return err
		})
		ofAccount, accountSecret := h.create(stoa.Key{Scopes: []string{"usage:read"}})
		secret := auth.Mint()
		var key stoa.Key
		h.write(func(tx *store.Tx) (err error) {
			key, err = h.keys.CreateWith(ctx, tx, member, stoa.Key{AccountID: h.owner.ID, Scopes: []string{"usage:read"}}, secret)
			return err
		})
		const after = 30 * 24 * time.Hour
		h.keys.PauseAfter = after
		if at := ofAccount.PausesAt(after); !at.IsZero() {
			t.Errorf("a key of the account pauses at %v", at)
		}
		if at := member.PausesAt(after); !at.IsZero() {
			t.Errorf("the key through which a member acts pauses at %v", at)
		}
		start := key.SignedInAt
		at := func(d time.Duration, want stoa.Code) {
			t.Helper()
			h.keys.SetNow(func() time.Time { return start.Add(d) })
			h.want(secret, want)
			h.want(accountSecret, "")
		}
		at(after-time.Second, "")
		at(after, stoa.CodeKeyPaused)
		at(10*after, stoa.CodeKeyPaused)
		h.write(func(tx *store.Tx) error {
			if err := tx.People().SignedIn(ctx, "per_other"); err != nil {
				return err
			}
			h.keys.ForgetAfter(tx)
			return nil
		})
		at(after, stoa.CodeKeyPaused)
		h.write(func(tx *store.Tx) error {
			tx.Now = start.Add(after)
			h.keys.ForgetAfter(tx)
			return tx.People().SignedIn(ctx, "per_1")
		})
		at(after, "")
		at(2*after-time.Second, "")
		at(2*after, stoa.CodeKeyPaused)
		h.write(func(tx *store.Tx) error { // the account keeps it
			h.keys.ForgetAfter(tx)
			return tx.People().GiveKeys(ctx, h.owner.ID, "per_1")
		})
		at(2*after, "")
		h.keys.PauseAfter = 0
		at(20*after, "")
	})
}
