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

// begin begins a session of the console.
func (h *service) begin(s stoa.ConsoleSession) (secret string) {
	h.t.Helper()
	h.write(func(tx *store.Tx) (err error) {
		secret, err = h.keys.BeginSession(context.Background(), tx, s)
		return err
	})
	return secret
}

func (h *service) wantSession(secret, account string, code stoa.Code) stoa.Caller {
	h.t.Helper()
	c, _, err := h.keys.VerifySession(context.Background(), secret, account)
	if got := stoa.CodeOf(err); got != code {
		h.t.Errorf("verify a session: got %q (%v), want %q", got, err, code)
	}
	return c
}

func TestASessionOfAKeyEndsWithTheKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		ctx := context.Background()
		key, keySecret := h.create(stoa.Key{Scopes: []string{"usage:read"}})
		secret := h.begin(stoa.ConsoleSession{KeyID: key.ID})
		if c := h.wantSession(secret, h.owner.ID, ""); c.Key.ID != key.ID || c.Account.ID != h.owner.ID || !c.Plan.GatedModels {
			t.Errorf("the caller is %+v", c)
		}
		h.wantSession(secret, "acc_other", stoa.CodeUnauthorized)
		h.wantSession(secret, "", stoa.CodeUnauthorized)
		h.wantSession(secret[1:], h.owner.ID, stoa.CodeUnauthorized)
		h.wantSession(keySecret, h.owner.ID, stoa.CodeUnauthorized)
		h.want(secret, stoa.CodeUnauthorized) // it is not a key

		other := auth.New(h.st, plans) // as another node
		if _, _, err := other.VerifySession(ctx, secret, h.owner.ID); err != nil {
			t.Error(err)
		}
		h.write(func(tx *store.Tx) error {
			_, err := h.keys.Revoke(ctx, tx, h.first, h.owner.ID, key.ID)
			return err
		})
		h.wantSession(secret, h.owner.ID, stoa.CodeUnauthorized)
		other.SetNow(func() time.Time { return time.Now().Add(time.Second) })
		if _, _, err := other.VerifySession(ctx, secret, h.owner.ID); stoa.CodeOf(err) != stoa.CodeUnauthorized {
			t.Errorf("a session of a revoked key after a second on another node: %v", err)
		}
	})
}

func TestASessionEndsBySigningOut(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		ctx := context.Background()
		first, second := h.begin(stoa.ConsoleSession{KeyID: h.first.ID}), h.begin(stoa.ConsoleSession{KeyID: h.first.ID})
		h.wantSession(first, h.owner.ID, "")
		h.wantSession(second, h.owner.ID, "")
		h.write(func(tx *store.Tx) error { return h.keys.EndSession(ctx, tx, first) })
		h.wantSession(first, h.owner.ID, stoa.CodeUnauthorized)
		h.wantSession(second, h.owner.ID, "")
	})
}

func TestASessionEndsWhenIdleAndAtItsEnd(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		ctx := context.Background()
		begun := time.Now()
		at := func(d time.Duration) { h.keys.SetNow(func() time.Time { return begun.Add(d) }) }
		used, idle := h.begin(stoa.ConsoleSession{KeyID: h.first.ID}), h.begin(stoa.ConsoleSession{KeyID: h.first.ID})
		for d := 90 * time.Minute; d < 12*time.Hour; d += 90 * time.Minute {
			at(d)
			h.wantSession(used, h.owner.ID, "")
			if err := h.keys.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		h.wantSession(idle, h.owner.ID, stoa.CodeUnauthorized)
		at(12*time.Hour + time.Second)
		h.wantSession(used, h.owner.ID, stoa.CodeUnauthorized)
	})
}

func TestOfManySessionsTheOldestEnds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		other, _ := h.create(stoa.Key{})
		of := h.begin(stoa.ConsoleSession{KeyID: other.ID})
		var list []string
		for range 21 {
			list = append(list, h.begin(stoa.ConsoleSession{KeyID: h.first.ID}))
		}
		h.wantSession(list[0], h.owner.ID, stoa.CodeUnauthorized)
		for _, secret := range list[1:] {
			h.wantSession(secret, h.owner.ID, "")
		}
		h.wantSession(of, h.owner.ID, "")
	})
}

func TestExpiredSessionsAreDeleted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		ctx := context.Background()
		lasting := h.begin(stoa.ConsoleSession{KeyID: h.first.ID})
		h.keys.SessionLife = -time.Second
		h.begin(stoa.ConsoleSession{KeyID: h.first.ID})
		var deleted int64
		h.write(func(tx *store.Tx) (err error) {
			deleted, err = tx.People().PurgeConsoleSessions(ctx, 10)
			return err
		})
		if deleted != 1 {
			t.Errorf("%d sessions were deleted", deleted)
		}
		h.wantSession(lasting, h.owner.ID, "")
	})
}

func TestASessionOfAPersonActsThroughTheMembership(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		ctx := context.Background()
		var other stoa.Account
		h.write(func(tx *store.Tx) (err error) {
			other, err = tx.Books().InsertAccount(ctx, stoa.Account{Name: "other", Plan: "pro"})
			return err
		})
		of := map[string]stoa.Key{}
		for _, account := range []string{h.owner.ID, other.ID} {
			of[account], _ = h.create(stoa.Key{AccountID: account, Kind: stoa.KeyOfMember, MemberID: "per_1"})
			h.write(func(tx *store.Tx) error {
				if _, err := tx.Exec(ctx, `INSERT INTO people (id, issuer, subject, created_at) VALUES ('per_1', '', 'per_1', 0) ON CONFLICT (id) DO NOTHING`); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, `INSERT INTO members (account_id, person_id, role, source, key_id, created_at) VALUES ($1, 'per_1', 'owner', 'invited', $2, 0)`, account, of[account].ID)
				return err
			})
		}
		secret := h.begin(stoa.ConsoleSession{PersonID: "per_1"})
		for account, key := range of {
			if c := h.wantSession(secret, account, ""); c.Key.ID != key.ID || c.Account.ID != account {
				t.Errorf("in %s the caller is %+v", account, c)
			}
		}
		h.write(func(tx *store.Tx) error {
			h.keys.ForgetAfter(tx)
			_, err := tx.Exec(ctx, `DELETE FROM members WHERE account_id = $1`, other.ID)
			return err
		})
		h.wantSession(secret, other.ID, stoa.CodeUnauthorized)
		h.wantSession(secret, h.owner.ID, "")
		h.write(func(tx *store.Tx) error { return h.keys.EndSessionsOf(ctx, tx, "per_1") })
		h.wantSession(secret, h.owner.ID, stoa.CodeUnauthorized)
	})
}
