package auth_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"stoa/internal/base/auth"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

func plans(id string) stoa.Plan { return stoa.Plan{ID: id, GatedModels: id == "pro"} }

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Both(m)) }

// service is a store with an owner, and a second account with its own key.
type service struct {
	t      *testing.T
	st     *store.Store
	keys   *auth.Keys
	owner  stoa.Account
	first  stoa.Key
	secret string
}

func newService(t *testing.T, home storetest.Database) *service {
	t.Helper()
	h := &service{t: t, st: home.Open()}
	h.keys = auth.New(h.st, plans)
	var created bool
	var err error
	h.owner, h.first, h.secret, created, err = h.keys.Bootstrap(context.Background(), "", 100*stoa.Credit, "pro")
	if err != nil || !created {
		t.Fatalf("bootstrap: created %v, %v", created, err)
	}
	return h
}

func (h *service) write(fn func(tx *store.Tx) error) {
	h.t.Helper()
	if err := h.st.Write(context.Background(), fn); err != nil {
		h.t.Fatal(err)
	}
}

func (h *service) create(k stoa.Key) (stoa.Key, string) {
	h.t.Helper()
	secret := auth.Mint()
	if k.AccountID == "" {
		k.AccountID = h.owner.ID
	}
	if k.Scopes == nil {
		k.Scopes = []string{stoa.ScopeAll}
	}
	h.write(func(tx *store.Tx) (err error) {
		k, err = h.keys.Create(context.Background(), tx, k, secret)
		return err
	})
	return k, secret
}

func (h *service) want(secret string, code stoa.Code) stoa.Caller {
	h.t.Helper()
	c, err := h.keys.Verify(context.Background(), "Bearer "+secret)
	if got := stoa.CodeOf(err); got != code {
		h.t.Errorf("verify: got %q (%v), want %q", got, err, code)
	}
	return c
}

func TestBootstrapCreatesAnOwnerOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		c := h.want(h.secret, "")
		if c.Account.ID != h.owner.ID || !c.Plan.GatedModels || !c.Key.Has("operator") || !c.Key.Has("responses") {
			t.Errorf("the owner is %+v", c)
		}
		if !auth.CheckDigits(h.secret) {
			t.Error("the printed key has wrong check characters")
		}
		ctx := context.Background()
		_, _, printed, created, err := h.keys.Bootstrap(ctx, "sk_"+strings.Repeat("x", 40), stoa.Credit, "pro")
		if err != nil || created || printed != "" {
			t.Errorf("second start: created %v, printed %q, %v", created, printed, err)
		}
		h.want("sk_"+strings.Repeat("x", 40), stoa.CodeUnauthorized)
		if err := h.st.Read(ctx, func(tx *store.Tx) error {
			f, err := tx.Books().Funds(ctx, h.owner.ID)
			if f.Granted != 100*stoa.Credit {
				t.Errorf("the owner was granted %s", f.Granted)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// Of nodes that start together on an empty database one creates the owner, with a
// chosen key and without.
func TestOneOfManyNodesBootstraps(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"", "sk_" + strings.Repeat("x", 40)} {
		home := storetest.Postgres(t)
		var nodes []*auth.Keys
		for range 6 {
			nodes = append(nodes, auth.New(home.Open(), plans))
		}
		var created atomic.Int64
		var all errgroup.Group
		for _, k := range nodes {
			all.Go(func() error {
				_, _, _, first, err := k.Bootstrap(t.Context(), secret, stoa.Credit, "pro")
				if first {
					created.Add(1)
				}
				return err
			})
		}
		if err := all.Wait(); err != nil || created.Load() != 1 {
			t.Errorf("%d nodes created the owner: %v", created.Load(), err)
		}
	}
}

func TestBootstrapUsesAChosenKey(t *testing.T) {
	t.Parallel()
	for secret, ok := range map[string]bool{
		"sk_" + strings.Repeat("a", 29):       true,
		"sk_" + strings.Repeat("a", 28):       false,
		"pk_" + strings.Repeat("a", 40):       false,
		"sk_" + strings.Repeat("a", 40) + " ": false,
		"sk_" + strings.Repeat("ä", 40):       false,
		"sk_" + strings.Repeat("a", 600):      false,
	} {
		st := storetest.New(t).Open()
		k := auth.New(st, plans)
		_, _, printed, created, err := k.Bootstrap(context.Background(), secret, 0, "pro")
		if created != ok || (err == nil) != ok {
			t.Errorf("%q: created %v, %v", secret, created, err)
		}
		if ok && printed != secret {
			t.Errorf("printed %q, want the chosen one", printed)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
}

func TestAFaultOfAHeaderSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	h := newService(t, storetest.New(t))
	_, expired := h.create(stoa.Key{ExpiresAt: time.Now().Add(time.Minute)})
	revokedKey, revoked := h.create(stoa.Key{})
	h.write(func(tx *store.Tx) error {
		_, err := h.keys.Revoke(context.Background(), tx, h.first, h.owner.ID, revokedKey.ID)
		return err
	})
	h.keys.SetNow(func() time.Time { return time.Now().Add(time.Minute) })
	const missing, malformed, unknown = "is missing", "does not contain an API key", "no such API key"
	for name, test := range map[string]struct{ header, message string }{
		"nothing":           {"", missing},
		"a scheme alone":    {"Bearer", malformed},
		"an empty key":      {"Bearer ", malformed},
		"no scheme":         {h.secret, malformed},
		"another scheme":    {"Basic " + h.secret, malformed},
		"a foreign key":     {"Bearer xyz", malformed},
		"an unknown key":    {"Bearer " + auth.Mint(), unknown},
		"a key with more":   {"Bearer " + h.secret + "x", unknown},
		"two keys":          {"Bearer " + h.secret + " " + h.secret, unknown},
		"a very long key":   {"Bearer sk_" + strings.Repeat("a", 10_000), malformed},
		"an expired key":    {"Bearer " + expired, "has expired"},
		"a revoked key":     {"Bearer " + revoked, "was revoked"},
		"bytes of all kind": {"Bearer sk_\x00\xff", unknown},
	} {
		_, err := h.keys.Verify(context.Background(), test.header)
		if stoa.CodeOf(err) != stoa.CodeUnauthorized || !strings.Contains(err.Error(), test.message) || strings.Contains(err.Error(), h.secret) {
			t.Errorf("%s: %v, want %q", name, err, test.message)
		}
	}
	for _, header := range []string{"bearer " + h.secret, "BEARER   " + h.secret, " Bearer " + h.secret + " "} {
		if _, err := h.keys.Verify(context.Background(), header); err != nil {
			t.Errorf("%.8q…: %v", header, err)
		}
	}
}

func TestChangesTakeEffectAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		ctx := context.Background()
		key, secret := h.create(stoa.Key{})
		h.want(secret, "")

		suspend := func(s bool, plan string) {
			h.write(func(tx *store.Tx) error {
				a := h.owner
				a.Suspended, a.Plan = s, plan
				h.keys.ForgetAfter(tx)
				return tx.Books().UpdateAccount(ctx, a)
			})
		}
		suspend(true, "pro")
		h.want(secret, stoa.CodeSuspended)
		suspend(false, "free")
		if c := h.want(secret, ""); c.Plan.GatedModels {
			t.Error("the plan is still the old one")
		}
		limit := stoa.Credits(7)
		h.write(func(tx *store.Tx) error {
			_, err := h.keys.Patch(ctx, tx, h.first, h.owner.ID, key.ID, auth.Patch{MaxCreditsPerDay: &limit, Scopes: []string{"responses"}})
			return err
		})
		if c := h.want(secret, ""); c.Key.MaxCreditsPerDay != 7 || c.Key.Has("keys:write") {
			t.Errorf("the key is still %+v", c.Key)
		}
		h.write(func(tx *store.Tx) error { _, err := h.keys.Revoke(ctx, tx, h.first, h.owner.ID, key.ID); return err })
		h.want(secret, stoa.CodeUnauthorized)
	})
}

func TestChangesByOthersTakeEffectWithinASecond(t *testing.T) {
	t.Parallel()
	h := newService(t, storetest.New(t))
	ctx := context.Background()
	other := auth.New(h.st, plans) // as another process
	if _, err := other.Verify(ctx, "Bearer "+h.secret); err != nil {
		t.Fatal(err)
	}
	h.write(func(tx *store.Tx) error {
		_, err := h.keys.Revoke(ctx, tx, h.first, h.owner.ID, h.first.ID)
		return err
	})
	other.SetNow(func() time.Time { return time.Now().Add(time.Second) })
	if _, err := other.Verify(ctx, "Bearer "+h.secret); stoa.CodeOf(err) != stoa.CodeUnauthorized {
		t.Errorf("a revoked key after a second: %v", err)
	}
}

func TestARotatedKeyIsValidForTheOverlap(t *testing.T) {
	t.Parallel()
	h := newService(t, storetest.New(t))
	ctx := context.Background()
	key, secret := h.create(stoa.Key{Name: "ci", MaxCreditsPerDay: 5, Scopes: []string{"responses"}})
	rotate := func(overlap time.Duration) (k stoa.Key, s string, err error) {
		err = h.st.Write(ctx, func(tx *store.Tx) (err error) {
			k, s, err = h.keys.Rotate(ctx, tx, h.first, h.owner.ID, key.ID, overlap)
			return err
		})
		return k, s, err
	}
	next, second, err := rotate(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if next.ID == key.ID || next.Name != "ci" || next.MaxCreditsPerDay != 5 || !next.RevokedAt.IsZero() || second == secret {
		t.Errorf("the new key is %+v", next)
	}
	h.want(secret, "")
	h.want(second, "")
	if _, _, err := rotate(0); stoa.CodeOf(err) != stoa.CodeConflict {
		t.Errorf("rotating twice: %v", err)
	}
	h.keys.SetNow(func() time.Time { return time.Now().Add(time.Minute) })
	h.want(secret, stoa.CodeUnauthorized)
	h.want(second, "")
}

func TestAKeyNeverGrantsMoreThanItHas(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(time.Hour)
	narrow := stoa.Key{Scopes: []string{"responses", "keys:write"}, RequestsPerMinute: 10, MaxCreditsPerDay: 100, ExpiresAt: soon}
	fits := stoa.Key{Scopes: []string{"responses"}, RequestsPerMinute: 10, MaxCreditsPerDay: 100, ExpiresAt: soon}
	lists := stoa.Key{Scopes: []string{"*"}, Models: []string{"alpha-*", "beta"}, Networks: []string{"10.1.0.0/16"}, RequireEndUser: true}
	operator := stoa.Key{Scopes: []string{"*", "operator"}, RequestsPerMinute: 10, MaxCreditsPerDay: 100, ExpiresAt: soon}
	with := func(change func(*stoa.Key)) stoa.Key { k := fits; change(&k); return k }
	for name, c := range map[string]struct {
		by, key stoa.Key
		param   string
	}{
		"what fits":         {narrow, fits, ""},
		"another scope":     {narrow, with(func(k *stoa.Key) { k.Scopes = []string{"usage:read"} }), "scopes"},
		"all scopes":        {narrow, with(func(k *stoa.Key) { k.Scopes = []string{"*"} }), "scopes"},
		"operator from all": {stoa.Key{Scopes: []string{"*"}}, stoa.Key{Scopes: []string{"operator"}}, "scopes"},
		"no request limit":  {narrow, with(func(k *stoa.Key) { k.RequestsPerMinute = 0 }), "requestsPerMinute"},
		"more credits":      {narrow, with(func(k *stoa.Key) { k.MaxCreditsPerDay = 101 }), "maxCreditsMicroPerDay"},
		"no end":            {narrow, with(func(k *stoa.Key) { k.ExpiresAt = time.Time{} }), "expiresAt"},
		"all models":        {lists, with(func(k *stoa.Key) { k.Networks, k.RequireEndUser = lists.Networks, true }), "models"},
		"another model":     {lists, with(func(k *stoa.Key) { k.Models, k.Networks, k.RequireEndUser = []string{"beta-x"}, lists.Networks, true }), "models"},
		"a wider pattern":   {lists, with(func(k *stoa.Key) { k.Models, k.Networks, k.RequireEndUser = []string{"alp*"}, lists.Networks, true }), "models"},
		"all networks":      {lists, with(func(k *stoa.Key) { k.Models, k.RequireEndUser = lists.Models, true }), "networks"},
		"a wider network":   {lists, with(func(k *stoa.Key) { k.Models, k.Networks, k.RequireEndUser = lists.Models, []string{"10.0.0.0/8"}, true }), "networks"},
		"no end user":       {lists, with(func(k *stoa.Key) { k.Models, k.Networks = lists.Models, lists.Networks }), "requireEndUser"},
		"narrower lists": {lists, with(func(k *stoa.Key) {
			k.Models, k.Networks, k.RequireEndUser = []string{"alpha-opus*", "beta"}, []string{"10.1.2.0/24"}, true
		}), ""},
		"all from all":                {stoa.Key{Scopes: []string{"*"}}, stoa.Key{Scopes: []string{"*"}}, ""},
		"operator, within its limits": {operator, with(func(k *stoa.Key) { k.Scopes = []string{"*", "operator"} }), ""},
		"operator, more credits":      {operator, with(func(k *stoa.Key) { k.Scopes, k.MaxCreditsPerDay = []string{"operator"}, 101 }), "maxCreditsMicroPerDay"},
		"operator, no end":            {operator, with(func(k *stoa.Key) { k.Scopes, k.ExpiresAt = []string{"operator"}, time.Time{} }), "expiresAt"},
		"own account, no end":         {operator, with(func(k *stoa.Key) { k.ExpiresAt = time.Time{} }), "expiresAt"},
		"own account, a scope it lacks": {
			stoa.Key{Scopes: []string{"operator", "keys:write"}}, stoa.Key{Scopes: []string{"operator", "*"}}, "scopes",
		},
		"operator, of another account":           {operator, stoa.Key{AccountID: "acc_2", Scopes: []string{"*"}}, ""},
		"operator, an operator's of another one": {operator, stoa.Key{AccountID: "acc_2", Scopes: []string{"operator"}, RequestsPerMinute: 10, MaxCreditsPerDay: 100}, "expiresAt"},
	} {
		err := auth.Within(c.by, c.key)
		if c.param == "" && err != nil || c.param != "" && (stoa.CodeOf(err) != stoa.CodeScope || stoa.AsError(err).Param != c.param) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestANarrowKeyCannotEndAWiderOne: a leaked key with only keys:write must not lock the
// owner out.
func TestANarrowKeyCannotEndAWiderOne(t *testing.T) {
	t.Parallel()
	h := newService(t, storetest.New(t))
	ctx := context.Background()
	narrow, narrowSecret := h.create(stoa.Key{Scopes: []string{"keys:write"}})
	wide, wideSecret := h.create(stoa.Key{})
	do := func(fn func(tx *store.Tx) error) stoa.Code { return stoa.CodeOf(h.st.Write(ctx, fn)) }
	for name, change := range map[string]func(tx *store.Tx) error{
		"revoke": func(tx *store.Tx) error {
			_, err := h.keys.Revoke(ctx, tx, narrow, h.owner.ID, wide.ID)
			return err
		},
		"narrow": func(tx *store.Tx) error {
			_, err := h.keys.Patch(ctx, tx, narrow, h.owner.ID, wide.ID, auth.Patch{Scopes: []string{"keys:write"}})
			return err
		},
		"rotate": func(tx *store.Tx) error {
			_, _, err := h.keys.Rotate(ctx, tx, narrow, h.owner.ID, wide.ID, 0)
			return err
		},
	} {
		if got := do(change); got != stoa.CodeScope {
			t.Errorf("%s a wider key: %q, want %q", name, got, stoa.CodeScope)
		}
	}
	h.want(wideSecret, "")
	if got := do(func(tx *store.Tx) error { _, err := h.keys.Revoke(ctx, tx, narrow, h.owner.ID, narrow.ID); return err }); got != "" {
		t.Errorf("a key revokes itself: %q", got)
	}
	h.want(narrowSecret, stoa.CodeUnauthorized)
}

// TestKeysShareTheBookOfTheirRoot: limits neither multiply with the keys that a limited key
// creates, nor restart when it is rotated.
func TestKeysShareTheBookOfTheirRoot(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		ctx := context.Background()
		limited, secret := h.create(stoa.Key{MaxCreditsPerDay: 200})
		child := func(by stoa.Key) (k stoa.Key, secret string) {
			secret = auth.Mint()
			h.write(func(tx *store.Tx) (err error) {
				k, err = h.keys.CreateWith(ctx, tx, by, stoa.Key{AccountID: h.owner.ID, Scopes: []string{"keys:write"}, MaxCreditsPerDay: by.MaxCreditsPerDay}, secret)
				return err
			})
			return k, secret
		}
		first, firstSecret := child(limited)
		_, secondSecret := child(first)
		var rotated stoa.Key
		var rotatedSecret string
		h.write(func(tx *store.Tx) (err error) {
			rotated, rotatedSecret, err = h.keys.Rotate(ctx, tx, limited, h.owner.ID, limited.ID, 0)
			return err
		})
		_, thirdSecret := child(rotated)
		for name, s := range map[string]string{"a child": firstSecret, "its child": secondSecret, "the rotated key": rotatedSecret, "its child then": thirdSecret} {
			if got := h.want(s, "").Key.Root(); got != limited.ID {
				t.Errorf("%s counts in the book of %s, want %s", name, got, limited.ID)
			}
		}
		h.want(secret, stoa.CodeUnauthorized)
		// Keys of a key without limits have separate budgets.
		budget, _ := child(h.first)
		if budget.Root() != budget.ID {
			t.Errorf("a key of an unlimited one counts in the book of %s", budget.Root())
		}
	})
}

func TestTheLastUseIsKeptToTheMinute(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := newService(t, home)
		ctx := context.Background()
		begin := time.Now()
		h.want(h.secret, "")
		get := func(k *auth.Keys) (key stoa.Key) {
			if err := h.st.Read(ctx, func(tx *store.Tx) (err error) {
				key, err = k.Get(ctx, tx, h.owner.ID, h.first.ID)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return key
		}
		seen, now := get(h.keys).LastUsedAt, time.Now()
		if seen.Before(begin.Add(-time.Minute)) || seen.After(now) || seen.Second() != 0 {
			t.Errorf("last used at %v", seen)
		}
		if err := h.keys.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if got := get(auth.New(h.st, plans)).LastUsedAt; !got.Equal(seen) {
			t.Errorf("stored %v, want %v", got, seen)
		}
	})
}

func TestCheckDigitsFindAWrongCharacter(t *testing.T) {
	t.Parallel()
	secret := auth.Mint()
	if !auth.CheckDigits(secret) || len(secret) != 41 {
		t.Fatalf("%q does not pass its own check", secret)
	}
	for i := 3; i < len(secret); i++ {
		wrong := []byte(secret)
		if wrong[i]++; auth.CheckDigits(string(wrong)) {
			t.Errorf("a wrong character at %d passes", i)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		s := auth.Mint()
		if seen[s] {
			t.Fatal("minted twice")
		}
		seen[s] = true
	}
}

func BenchmarkVerifyKey(b *testing.B) {
	st := storetest.New(b).Open()
	k := auth.New(st, plans)
	_, _, secret, _, err := k.Bootstrap(context.Background(), "", 0, "pro")
	if err != nil {
		b.Fatal(err)
	}
	header := fmt.Sprintf("Bearer %s", secret)
	ctx := context.Background()
	for b.Loop() {
		if _, err := k.Verify(ctx, header); err != nil {
			b.Fatal(err)
		}
	}
}

func TestABusyKeyIsReadByOneAtATime(t *testing.T) {
	t.Parallel()
	h := newService(t, storetest.New(t))
	ctx := context.Background()
	var wg sync.WaitGroup
	begin, millis := time.Now(), atomic.Int64{}
	h.keys.SetNow(func() time.Time { return begin.Add(time.Duration(millis.Add(1)) * time.Millisecond) })
	for range 16 {
		wg.Go(func() {
			for millis.Load() < 1500 { // past two renewals
				if _, err := h.keys.Verify(ctx, "Bearer "+h.secret); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	h.keys.Forget()
	if _, err := h.keys.Verify(gone, "Bearer "+h.secret); err != nil {
		t.Errorf("a caller who disconnected: %v", err)
	}
}

func TestTheCacheOfKeysIsBounded(t *testing.T) {
	t.Parallel()
	h := newService(t, storetest.New(t))
	h.keys.Fill(auth.CacheSize + 100)
	if n := h.keys.Cached(); n != auth.CacheSize {
		t.Errorf("%d keys are cached, want %d", n, auth.CacheSize)
	}
	h.want(h.secret, "")
	if n := h.keys.Cached(); n != auth.CacheSize {
		t.Errorf("%d keys are cached after one more, want %d", n, auth.CacheSize)
	}
	h.keys.Forget()
	if n := h.keys.Cached(); n != 0 {
		t.Errorf("%d keys are cached after Forget", n)
	}
}

func BenchmarkVerifyParallel(b *testing.B) {
	st := storetest.New(b).Open()
	k := auth.New(st, plans)
	_, _, secret, _, err := k.Bootstrap(context.Background(), "", 0, "pro")
	if err != nil {
		b.Fatal(err)
	}
	header, ctx := "Bearer "+secret, context.Background()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := k.Verify(ctx, header); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func TestOtherNodesForgetAChangedKeyAtOnce(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	h := newService(t, database)
	peer := database.Open()
	other := auth.New(peer, plans)
	now := time.Now() // the other node's clock is fixed: only a hint makes it read again
	other.SetNow(func() time.Time { return now })
	for _, st := range []*store.Store{h.st, peer} {
		begun := make(chan struct{}, 1)
		st.OnListening(func() { begun <- struct{}{} })
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := st.Listen(ctx, ""); err != nil {
				t.Error(err)
			}
		}()
		t.Cleanup(func() { stop(); <-ended })
		<-begun
	}
	ctx := context.Background()
	for _, change := range []struct {
		name string
		do   func(tx *store.Tx, id string) error
		code stoa.Code
	}{
		{"revoked", func(tx *store.Tx, id string) error {
			_, err := h.keys.Revoke(ctx, tx, h.first, h.owner.ID, id)
			return err
		}, stoa.CodeUnauthorized},
		{"rotated", func(tx *store.Tx, id string) error {
			_, _, err := h.keys.Rotate(ctx, tx, h.first, h.owner.ID, id, 0)
			return err
		}, stoa.CodeUnauthorized},
		{"of a suspended account", func(tx *store.Tx, _ string) error {
			a := h.owner
			a.Suspended = true
			h.keys.ForgetAfter(tx)
			return tx.Books().UpdateAccount(ctx, a)
		}, stoa.CodeSuspended},
	} {
		key, secret := h.create(stoa.Key{})
		now = time.Now() // the key was created after the last change
		if _, err := other.Verify(ctx, "Bearer "+secret); err != nil {
			t.Fatalf("before it is %s: %v", change.name, err)
		}
		h.write(func(tx *store.Tx) error { return change.do(tx, key.ID) })
		now = time.Now()
		for stood := now; ; {
			_, err := other.Verify(ctx, "Bearer "+secret)
			if stoa.CodeOf(err) == change.code {
				break
			}
			if err != nil || now != stood {
				t.Fatalf("a key that is %s: %v", change.name, err)
			}
		}
	}
}
