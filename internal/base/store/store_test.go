package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

var ctx = context.Background()

func write(t testing.TB, st *store.Store, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := st.Write(ctx, fn); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, st *store.Store, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := st.Read(ctx, fn); err != nil {
		t.Fatal(err)
	}
}

// receipt is a charge of the given amount, leased and spent like those of the ledger.
func receipt(account, id string, amount stoa.Credits) store.Receipt {
	return store.Receipt{Charge: stoa.Charge{
		ID: id, AccountID: account, KeyID: "key_1", Asked: "auto", Served: "beta-3.8-flash", Reason: "auto", Provider: "sandbox",
		Usage: stoa.Usage{InputTokens: 3, CachedTokens: 1, CacheWriteTokens: 1, OutputTokens: int64(amount), ReasoningTokens: 1},
		Price: stoa.Price{Output: stoa.Credit, Version: "v1"}, Amount: amount, Adjustments: stoa.StrictDropped | stoa.InvalidJSON, State: "completed", EndUser: "u", SpaceID: "spc_1",
		AgentID: "agt_1", SessionID: "ses_1", StartedAt: time.Now().UTC().Truncate(time.Microsecond), FirstToken: time.Millisecond, Duration: time.Second,
	}}
}

func charge(t testing.TB, st *store.Store, receipts ...store.Receipt) (inserted map[string]bool) {
	t.Helper()
	return chargeAt(t, st, time.Time{}, receipts...)
}

// chargeAt inserts charges as if it were that time, unless it is zero.
func chargeAt(t testing.TB, st *store.Store, at time.Time, receipts ...store.Receipt) (inserted map[string]bool) {
	t.Helper()
	write(t, st, func(tx *store.Tx) error {
		if !at.IsZero() {
			tx.Now = at
		}
		lease, ok, err := tx.Books().Lease(ctx, receipts[0].AccountID, st.Node())
		if err != nil || !ok {
			return fmt.Errorf("lease: %v, %w", ok, err)
		}
		var sum stoa.Credits
		for i := range receipts {
			receipts[i].LeaseID, receipts[i].NodeID = lease.ID, st.Node()
		}
		if inserted, err = tx.Books().InsertCharges(ctx, receipts); err != nil {
			return err
		}
		for _, r := range receipts {
			if inserted[r.ID] {
				sum += r.Amount
			}
		}
		if ok, err = tx.Books().SpendLease(ctx, lease.ID, sum); err == nil && !ok {
			err = errors.New("the lease is too small")
		}
		return err
	})
	return inserted
}

func wantInOrder(t testing.TB, st *store.Store) {
	t.Helper()
	read(t, st, func(tx *store.Tx) error {
		diffs, _, err := tx.Books().Differences(ctx, "")
		for _, d := range diffs {
			t.Errorf("the books are wrong: %v", d)
		}
		return err
	})
}

func TestChargesAreStoredOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a, b := storetest.Account(t, st, 1_000_000), storetest.Account(t, st, 10)
		var all []store.Receipt
		for i := range 87 { // 64 + 16 + 4 + 1 + 1 + 1
			all = append(all, receipt(a.ID, fmt.Sprintf("resp_%03d", i), stoa.Credits(i)))
		}
		if got := charge(t, st, all...); len(got) != 87 {
			t.Errorf("inserted %d of 87", len(got))
		}
		if got := charge(t, st, all[5], receipt(a.ID, "resp_new", 1)); len(got) != 1 || !got["resp_new"] {
			t.Errorf("a repeat inserted %v", got)
		}
		if got := charge(t, st, receipt(a.ID, "resp_a", 1), all[7], receipt(a.ID, "resp_b", 1), all[86]); len(got) != 2 || !got["resp_a"] || !got["resp_b"] {
			t.Errorf("a group of which some are repeats inserted %v", got)
		}
		read(t, st, func(tx *store.Tx) error {
			r, err := tx.Books().Receipt(ctx, a.ID, "resp_005")
			if err != nil {
				return err
			}
			if d := cmp.Diff(all[5].Charge, r.Charge); d != "" {
				t.Errorf("receipt (-want +got):\n%s", d)
			}
			for _, id := range []string{"resp_005", "resp_none"} {
				if _, err := tx.Books().Receipt(ctx, b.ID, id); stoa.CodeOf(err) != stoa.CodeNotFound {
					t.Errorf("%s of another account: %v", id, err)
				}
			}
			return nil
		})
		wantInOrder(t, st)
	})
}

func TestListsPageWithoutGapsOrRepeats(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a, other := storetest.Account(t, st, 1_000_000), storetest.Account(t, st, 1_000_000)
		var all []store.Receipt
		for i := range 25 { // one moment for all: the id decides
			all = append(all, receipt(a.ID, fmt.Sprintf("resp_%03d", i), 1))
		}
		charge(t, st, all...)
		charge(t, st, receipt(a.ID, "resp_last", 2))
		charge(t, st, receipt(other.ID, "resp_other", 2))
		for _, asc := range []bool{false, true} {
			var receipts, entries []string
			read(t, st, func(tx *store.Tx) error {
				for p := (store.Page{Limit: 7, Asc: asc}); ; {
					list, next, err := tx.Books().Receipts(ctx, a.ID, store.ReceiptFilter{}, p)
					if err != nil {
						return err
					}
					for _, r := range list {
						receipts = append(receipts, r.ID)
					}
					if p.After = next; next == (store.Cursor{}) {
						break
					}
				}
				for p := (store.Page{Limit: 7, Asc: asc}); ; {
					list, more, err := tx.Books().Entries(ctx, a.ID, p)
					if err != nil {
						return err
					}
					for _, e := range list {
						if e.Kind == store.EntryCharge {
							entries = append(entries, e.ID)
						} else if e.Effect != 1_000_000 {
							t.Errorf("grant: %+v", e)
						}
						p.After = store.Cursor{At: e.CreatedAt, ID: e.ID}
					}
					if !more {
						break
					}
				}
				return nil
			})
			want := []string{}
			for _, r := range all {
				want = append(want, r.ID)
			}
			want = append(want, "resp_last")
			if !asc {
				slices.Reverse(want)
			}
			if d := cmp.Diff(want, receipts); d != "" {
				t.Errorf("receipts, asc %v (-want +got):\n%s", asc, d)
			}
			if d := cmp.Diff(want, entries); d != "" {
				t.Errorf("entries, asc %v (-want +got):\n%s", asc, d)
			}
		}
		read(t, st, func(tx *store.Tx) error {
			list, _, err := tx.Books().Receipts(ctx, a.ID, store.ReceiptFilter{KeyID: "key_1", Served: "beta-3.8-flash", AgentID: "agt_1", From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}, store.Page{Limit: 100})
			if len(list) != 26 {
				t.Errorf("filter found %d", len(list))
			}
			if none, _, _ := tx.Books().Receipts(ctx, a.ID, store.ReceiptFilter{EndUser: "nobody"}, store.Page{}); len(none) != 0 {
				t.Errorf("nobody has %d receipts", len(none))
			}
			return err
		})
	})
}

func TestUsageSumsByAnyDimension(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a := storetest.Account(t, st, 1_000_000)
		one, two := receipt(a.ID, "resp_1", 10), receipt(a.ID, "resp_2", 20)
		two.KeyID = "key_2"
		charge(t, st, one, two, receipt(a.ID, "resp_3", 30))
		today := time.Now().UTC().Format(time.DateOnly)
		from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		usage := func(by ...string) (rows []store.UsageRow, err error) {
			err = st.Read(ctx, func(tx *store.Tx) (err error) {
				rows, err = tx.Books().Usage(ctx, a.ID, from, to, time.UTC, by)
				return err
			})
			return rows, err
		}
		got, err := usage("day", "key")
		if err != nil {
			t.Fatal(err)
		}
		want := []store.UsageRow{
			{Group: []string{today, "key_1"}, Calls: 2, Usage: stoa.Usage{InputTokens: 6, CachedTokens: 2, CacheWriteTokens: 2, OutputTokens: 40, ReasoningTokens: 2}, Amount: 40},
			{Group: []string{today, "key_2"}, Calls: 1, Usage: stoa.Usage{InputTokens: 3, CachedTokens: 1, CacheWriteTokens: 1, OutputTokens: 20, ReasoningTokens: 1}, Amount: 20},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("usage (-want +got):\n%s", d)
		}
		if got, err := usage(); err != nil || len(got) != 1 || got[0].Calls != 3 || got[0].Amount != 60 {
			t.Errorf("in all: %+v, %v", got, err)
		}
		if got, err := usage("day", "model", "agent", "space", "key", "session", "endUser"); err != nil || len(got) != 2 {
			t.Errorf("by everything: %+v, %v", got, err)
		}
		for _, by := range [][]string{{"amount"}, {"day", "day"}, {"key_id; DROP TABLE charges"}} {
			if _, err := usage(by...); stoa.CodeOf(err) != stoa.CodeInvalidValue {
				t.Errorf("by %q: %v", by, err)
			}
		}
	})
}

// TestUsageOfAllAccounts sums the charges of three accounts, by account and without.
func TestUsageOfAllAccounts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		sums := map[string]stoa.Credits{}
		for i := range 3 {
			a := storetest.Account(t, st, 1_000_000)
			for j := range i + 1 {
				r := receipt(a.ID, fmt.Sprintf("resp_%d_%d", i, j), 10)
				r.Served = []string{"alpha", "beta"}[j%2]
				charge(t, st, r)
				sums[a.ID] += 10
			}
		}
		from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		usage := func(by ...string) (rows []store.UsageRow, err error) {
			err = st.Read(ctx, func(tx *store.Tx) (err error) {
				rows, err = tx.Books().UsageOfAll(ctx, from, to, time.UTC, by)
				return err
			})
			return rows, err
		}
		rows, err := usage("account")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]stoa.Credits{}
		for _, r := range rows {
			if got[r.Group[0]] += r.Amount; r.Name == "" {
				t.Errorf("a row without a name: %+v", r)
			}
		}
		if d := cmp.Diff(sums, got); d != "" {
			t.Errorf("by account (-want +got):\n%s", d)
		}
		for _, tt := range []struct {
			by    []string
			rows  int
			calls int64
		}{{nil, 1, 6}, {[]string{"model"}, 2, 4}, {[]string{"model", "account"}, 5, 1}, {[]string{"account", "model"}, 5, 1}} {
			rows, err := usage(tt.by...)
			total := stoa.Credits(0)
			for _, r := range rows {
				total += r.Amount
			}
			if err != nil || len(rows) != tt.rows || rows[0].Calls != tt.calls || total != 60 || !slices.IsSortedFunc(rows, func(a, b store.UsageRow) int { return slices.Compare(a.Group, b.Group) }) {
				t.Errorf("by %q: %+v, %v", tt.by, rows, err)
			}
		}
		if _, err := usage("account", "account"); stoa.CodeOf(err) != stoa.CodeInvalidValue {
			t.Errorf("twice: %v", err)
		}
	})
}

// TestUsageHasTheDaysOfAZone sums charges around midnights and changes of the clock in several
// zones: each is on the day that the zone's clock showed.
func TestUsageHasTheDaysOfAZone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a := storetest.Account(t, st, 1_000_000)
		var at []time.Time
		for _, instant := range []string{
			"2026-03-28T23:30:00Z", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T21:59:59Z", "2026-03-29T22:00:00Z", "2026-03-30T00:00:00Z",
			"2026-10-24T21:59:59Z", "2026-10-24T22:00:00Z", "2026-10-25T00:59:59Z", "2026-10-25T01:00:00Z", "2026-10-25T22:59:59Z", "2026-10-25T23:00:00Z",
			"2026-11-01T05:59:59Z", "2026-11-01T06:00:00Z", "2026-04-04T15:29:00Z", "2026-04-04T15:30:00Z", "2026-06-01T18:29:59Z", "2026-06-01T18:30:00Z",
		} {
			when, err := time.Parse(time.RFC3339, instant)
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, when)
		}
		for i, when := range at {
			id := fmt.Sprintf("resp_%d", i)
			chargeAt(t, st, when, receipt(a.ID, id, 10))
		}
		for _, name := range []string{"UTC", "Europe/Vienna", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Auckland"} {
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			want, got := map[string]int64{}, map[string]int64{}
			for _, when := range at {
				want[when.In(zone).Format(time.DateOnly)]++
			}
			if err := st.Read(ctx, func(tx *store.Tx) error {
				rows, err := tx.Books().Usage(ctx, a.ID, at[0].Add(-time.Hour), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), zone, []string{"day"})
				for _, r := range rows {
					got[r.Group[0]] += r.Calls
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	})
}

func TestGrantWithReferenceIsStoredOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a := storetest.Account(t, st, 0)
		var wg sync.WaitGroup
		var mu sync.Mutex
		made := 0
		for range 8 {
			wg.Go(func() {
				if err := st.Write(ctx, func(tx *store.Tx) error {
					_, created, err := tx.Books().InsertGrant(ctx, stoa.Grant{AccountID: a.ID, Amount: 5, ExternalRef: "invoice 7"})
					if created {
						tx.AfterCommit(func() { mu.Lock(); made++; mu.Unlock() })
					}
					return err
				}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if made != 1 {
			t.Errorf("made %d times", made)
		}
		if err := st.Write(ctx, func(tx *store.Tx) error {
			_, _, err := tx.Books().InsertGrant(ctx, stoa.Grant{AccountID: "acc_none", Amount: 5})
			return err
		}); stoa.CodeOf(err) != stoa.CodeNotFound {
			t.Errorf("a grant for nobody: %v", err)
		}
		read(t, st, func(tx *store.Tx) error {
			f, err := tx.Books().Funds(ctx, a.ID)
			if f.Granted != 5 || f.Balance != 5 {
				t.Errorf("funds %+v", f)
			}
			return err
		})
		wantInOrder(t, st)
	})
}

func TestNewNodeClosesOldLeases(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		database.Config.Life = storetest.Still
		st := database.Open()
		a := storetest.Account(t, st, 100)
		charge(t, st, receipt(a.ID, "resp_1", 30))
		key := store.IdempotencyKey{AccountID: a.ID, Method: "POST", Path: "/x", Key: "k"}
		write(t, st, func(tx *store.Tx) error {
			_, _, ok, err := tx.ClaimKey(ctx, key, "h")
			if !ok {
				t.Error("the key was not claimed")
			}
			return err
		})
		if st.Postgres() { // its process was killed
			database.Expire()
		} else {
			if _, err := store.Open(ctx, database.Config); !errors.Is(err, db.ErrLocked) {
				t.Errorf("a second process: %v", err)
			}
			st.Close()
		}
		dead := st.Node()
		st = database.Open()
		read(t, st, func(tx *store.Tx) error {
			f, err := tx.Books().Funds(ctx, a.ID)
			if d := cmp.Diff(store.Funds{Granted: 100, Balance: 70}, f); d != "" {
				t.Errorf("funds (-want +got):\n%s", d)
			}
			return err
		})
		write(t, st, func(tx *store.Tx) error {
			if _, ok, err := tx.Books().Lease(ctx, a.ID, dead); ok || err != nil {
				t.Errorf("a dead node got a lease: %v, %v", ok, err)
			}
			_, _, ok, err := tx.ClaimKey(ctx, key, "other")
			if !ok {
				t.Error("the dead node's key was not freed")
			}
			return err
		})
		wantInOrder(t, st)
	})
}

func TestIdempotencyKeyIsOneRequest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		key := store.IdempotencyKey{AccountID: "acc_1", Method: "POST", Path: "/api/v1/responses", Key: "k"}
		type result struct {
			claim   store.Claim
			reply   store.Reply
			claimed bool
			err     error
		}
		claim := func(k store.IdempotencyKey, hash string) (r result) {
			r.err = st.Write(ctx, func(tx *store.Tx) (err error) {
				r.claim, r.reply, r.claimed, err = tx.ClaimKey(ctx, k, hash)
				return err
			})
			return r
		}
		first := claim(key, "h1")
		if !first.claimed || first.err != nil {
			t.Fatalf("first: %+v", first)
		}
		if r := claim(key, "h1"); stoa.CodeOf(r.err) != stoa.CodeIdempotencyRunning || stoa.AsError(r.err).RetryAfter != time.Second {
			t.Errorf("while it runs: %v", r.err)
		}
		if r := claim(key, "h2"); stoa.CodeOf(r.err) != stoa.CodeIdempotencyReused {
			t.Errorf("another body: %v", r.err)
		}
		for _, other := range []store.IdempotencyKey{
			{AccountID: "acc_2", Method: "POST", Path: key.Path, Key: "k"},
			{AccountID: "acc_1", Method: "PUT", Path: key.Path, Key: "k"},
			{AccountID: "acc_1", Method: "POST", Path: "/x", Key: "k"},
		} {
			if r := claim(other, "h9"); !r.claimed {
				t.Errorf("%+v is taken: %v", other, r.err)
			}
		}
		// Freed, claimed again; the first claim is worth nothing now.
		write(t, st, func(tx *store.Tx) error { return tx.FreeClaim(ctx, first.claim) })
		second := claim(key, "h2")
		if !second.claimed {
			t.Fatalf("after it was freed: %v", second.err)
		}
		write(t, st, func(tx *store.Tx) error { return tx.FreeClaim(ctx, first.claim) })
		err := st.Write(ctx, func(tx *store.Tx) error { return tx.FinishClaim(ctx, first.claim, store.Reply{}) })
		if stoa.CodeOf(err) != stoa.CodeConflict {
			t.Errorf("finishing a claim that has passed on: %v", err)
		}
		want := store.Reply{Ref: "resp_1", Status: 200, Headers: `{"a":"b"}`, Body: `{"x":"ä\u0000"}`}
		write(t, st, func(tx *store.Tx) error { return tx.FinishClaim(ctx, second.claim, want) })
		write(t, st, func(tx *store.Tx) error { return tx.FreeClaim(ctx, second.claim) })
		r := claim(key, "h2")
		if r.claimed || r.err != nil {
			t.Fatalf("when done: %+v", r)
		}
		if d := cmp.Diff(want, r.reply); d != "" {
			t.Errorf("reply (-want +got):\n%s", d)
		}
		if r := claim(key, "h1"); stoa.CodeOf(r.err) != stoa.CodeIdempotencyReused {
			t.Errorf("another body when done: %v", r.err)
		}
		// A day later.
		write(t, st, func(tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE idempotency SET expires_at = $1 WHERE state = 'done'`, db.Micros(tx.Now))
			return err
		})
		write(t, st, func(tx *store.Tx) error {
			n, err := tx.PurgeReplies(ctx, 10)
			if n != 1 {
				t.Errorf("purged %d", n)
			}
			return err
		})
		if r := claim(key, "h3"); !r.claimed {
			t.Errorf("a day later: %v", r.err)
		}
	})
}

func TestOneOfManyClaimsSucceeds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		var wg sync.WaitGroup
		var mu sync.Mutex
		won, running := 0, 0
		for range 16 {
			wg.Go(func() {
				claimed := false
				err := st.Write(ctx, func(tx *store.Tx) (err error) {
					_, _, claimed, err = tx.ClaimKey(ctx, store.IdempotencyKey{AccountID: "a", Method: "POST", Path: "/", Key: "k"}, "h")
					return err
				})
				mu.Lock()
				defer mu.Unlock()
				if claimed && err == nil {
					won++
				}
				if stoa.CodeOf(err) == stoa.CodeIdempotencyRunning {
					running++
				}
			})
		}
		wg.Wait()
		if won != 1 || running != 15 {
			t.Errorf("%d claimed it and %d got \"in progress\"; want 1 and 15", won, running)
		}
	})
}

func TestReadOnlyStoreBesideItsServer(t *testing.T) {
	t.Parallel()
	database := storetest.New(t)
	st := database.Open()
	a := storetest.Account(t, st, 100)
	charge(t, st, receipt(a.ID, "resp_1", 30))
	cfg := database.Config
	cfg.ReadOnly = true
	ro, err := store.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	wantInOrder(t, ro)
	if err := ro.Write(ctx, func(*store.Tx) error { return nil }); !errors.Is(err, db.ErrReadOnly) {
		t.Errorf("write: %v", err)
	}
	if _, err := store.Open(ctx, store.Config{Dir: t.TempDir(), ReadOnly: true}); err == nil || !strings.Contains(err.Error(), "core.db") { // nothing is there
		t.Errorf("an empty directory: %v", err)
	}
}

func TestPurgedReceiptsKeepBooksInOrder(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a := storetest.Account(t, st, 1000)
		var all []store.Receipt
		for i := range 10 {
			all = append(all, receipt(a.ID, fmt.Sprint("resp_", i), 10))
		}
		chargeAt(t, st, time.Now().Add(-60*24*time.Hour), all[:9]...)
		charge(t, st, all[9])
		purge := func(before time.Time, limit int) (n int64, err error) {
			err = st.Write(ctx, func(tx *store.Tx) (err error) {
				n, err = tx.PurgeReceipts(ctx, a.ID, before, limit)
				return err
			})
			return n, err
		}
		if _, err := purge(time.Now().Add(-time.Hour), 10); stoa.CodeOf(err) != stoa.CodeInvalidValue {
			t.Errorf("an hour ago: %v", err)
		}
		for _, want := range []int64{4, 4, 1, 0} {
			if n, err := purge(time.Now().Add(-store.OldestPurge), 4); n != want || err != nil {
				t.Errorf("purged %d, %v; want %d", n, err, want)
			}
			wantInOrder(t, st)
		}
		read(t, st, func(tx *store.Tx) error {
			list, _, err := tx.Books().Receipts(ctx, a.ID, store.ReceiptFilter{}, store.Page{})
			if len(list) != 1 || list[0].ID != "resp_9" || list[0].Adjustments != all[9].Adjustments {
				t.Errorf("left: %+v", list)
			}
			var left int
			if _, err := tx.Get(ctx, `SELECT COUNT(*) FROM charge_adjustments`, nil, &left); err != nil || left != 1 {
				t.Errorf("%d rows say what was done to calls, %v", left, err)
			}
			f, _ := tx.Books().Funds(ctx, a.ID)
			if f.Balance+f.Leased != 900 {
				t.Errorf("funds %+v", f)
			}
			return err
		})
	})
}

func TestListsOfAccountsKeysAndGrants(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a, b := storetest.Account(t, st, 5), storetest.Account(t, st, 6)
		write(t, st, func(tx *store.Tx) error {
			for i := range 3 {
				if _, err := tx.People().InsertKey(ctx, stoa.Key{AccountID: a.ID, Name: fmt.Sprint("k", i), Hint: "h", Scopes: []string{"responses", "usage:read"}}, fmt.Sprint("hash", i)); err != nil {
					return err
				}
			}
			_, err := tx.People().InsertKey(ctx, stoa.Key{AccountID: b.ID, Hint: "h", Scopes: []string{"*"}}, "hash0")
			if stoa.CodeOf(err) != stoa.CodeConflict {
				t.Errorf("a hash twice: %v", err)
			}
			return nil
		})
		read(t, st, func(tx *store.Tx) error {
			accounts, next, err := tx.Books().Accounts(ctx, store.AccountFilter{}, store.Page{Limit: 1})
			if err != nil || next != (store.Cursor{At: b.CreatedAt, ID: b.ID}) || len(accounts) != 1 || accounts[0].ID != b.ID {
				t.Errorf("newest account: %+v, then %v, %v", accounts, next, err)
			}
			accounts, next, err = tx.Books().Accounts(ctx, store.AccountFilter{}, store.Page{Limit: 1, After: next})
			if err != nil || next != (store.Cursor{}) || len(accounts) != 1 || accounts[0].Account != a {
				t.Errorf("next account: %+v, then %v, %v", accounts, next, err)
			}
			keys, next, err := tx.People().Keys(ctx, a.ID, store.KeyFilter{}, store.Page{Limit: 2, Asc: true})
			if err != nil || next == (store.Cursor{}) || len(keys) != 2 || !slices.Equal(keys[0].Scopes, []string{"responses", "usage:read"}) {
				t.Errorf("keys: %+v, then %v, %v", keys, next, err)
			}
			if _, err := tx.People().Key(ctx, b.ID, keys[0].ID); stoa.CodeOf(err) != stoa.CodeNotFound {
				t.Errorf("a key of another account: %v", err)
			}
			grants, more, err := tx.Books().Grants(ctx, b.ID, store.Page{})
			if err != nil || more || len(grants) != 1 || grants[0].Amount != 6 {
				t.Errorf("grants: %+v, more %v, %v", grants, more, err)
			}
			list, _, err := tx.Books().Receipts(ctx, a.ID, store.ReceiptFilter{SessionID: "ses_1"}, store.Page{})
			if len(list) != 0 {
				t.Errorf("receipts of a session: %+v", list)
			}
			return err
		})
		if err := st.Write(ctx, func(tx *store.Tx) error { return tx.Books().UpdateAccount(ctx, stoa.Account{ID: "acc_none"}) }); stoa.CodeOf(err) != stoa.CodeNotFound {
			t.Errorf("changing nobody: %v", err)
		}
		if err := st.Write(ctx, func(tx *store.Tx) error { return tx.People().UpdateKey(ctx, stoa.Key{ID: "key_none", AccountID: a.ID}) }); stoa.CodeOf(err) != stoa.CodeNotFound {
			t.Errorf("changing no key: %v", err)
		}
	})
}

// TestListsUseTheirIndexes keeps a list's cost from growing with the table.
func TestListsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	const down, up = ` AND (created_at, id) < ($8, $9) ORDER BY created_at DESC, id DESC LIMIT 20`, ` AND (created_at, id) > ($8, $9) ORDER BY created_at, id LIMIT 20`
	queries := map[string]string{
		`SELECT id FROM charges WHERE account_id = $1` + down:                                                                                                            "charges_by_account",
		`SELECT id FROM charges WHERE account_id = $1 AND session_id = $2 AND session_id <> ''` + down:                                                                   "charges_by_session",
		`SELECT id FROM keys WHERE account_id = $1` + up:                                                                                                                 "keys_by_account",
		`SELECT id FROM grants WHERE account_id = $1` + up:                                                                                                               "grants_by_account",
		`SELECT id FROM spaces WHERE account_id = $1` + down:                                                                                                             "spaces_by_account",
		`SELECT id FROM agents WHERE account_id = $1 AND deleted_at = 0` + down:                                                                                          "agents_by_account",
		`SELECT id FROM agents WHERE account_id = $1 AND deleted_at = 0 AND space_id = $2` + down:                                                                        "agents_by_space",
		`SELECT id FROM sessions s WHERE s.account_id = $1 AND s.agent_id = $2` + down:                                                                                   "sessions_by_agent",
		`SELECT id FROM sessions s WHERE s.account_id = $1 AND s.agent_id = $2 AND s.status = 'failed'` + down:                                                           "sessions_by_status",
		`SELECT id FROM sessions s WHERE s.account_id = $1 AND s.agent_id = $2 AND s.status = 'running'` + down:                                                          "sessions_by_status",
		`SELECT id FROM sessions s WHERE s.account_id = $1 AND s.agent_id = $2 AND s.external_user_id = $3 AND s.external_user_id <> ''` + up:                            "sessions_by_user",
		`SELECT line FROM sessions WHERE status = 'running' AND account_id = $1 AND owner >= ''`:                                                                         "sessions_running",
		`SELECT 1 FROM sessions WHERE status = 'queued' AND account_id = $1 ORDER BY wake_at, id LIMIT 10`:                                                               "sessions_queued",
		`SELECT 1 FROM sessions WHERE status = 'queued' AND account_id = $1 AND line <> '' ORDER BY wake_at, id LIMIT 10`:                                                "sessions_queued",
		`SELECT id FROM tasks WHERE account_id = $1 AND deleted_at = 0 AND agent_id = $2` + down:                                                                         "tasks_by_agent",
		`SELECT id FROM task_runs r WHERE r.account_id = $1 AND r.task_id = $2 AND (r.scheduled_for, r.id) < ($3, $4) ORDER BY r.scheduled_for DESC, r.id DESC LIMIT 20`: "task_runs_by_task",
		`SELECT id FROM leases WHERE account_id = $1 AND node_id = $2 AND is_open = 1`:                                                                                   "leases_one_per_node",
		`DELETE FROM idempotency WHERE (state = 'done' OR ref <> '') AND expires_at <= $1`:                                                                               "idempotency_by_expiry",
		`SELECT 1 FROM leases WHERE node_id = $1`:                                                                                                                        "leases_by_node",
	}
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		placeholder := regexp.MustCompile(`\$\d`)
		for query, index := range queries {
			plan := ""
			read(t, st, func(tx *store.Tx) error {
				plan = ""
				explain := "EXPLAIN QUERY PLAN "
				if st.Postgres() { // with empty tables it would scan or sort, whatever the indexes
					explain = "EXPLAIN "
					for _, setting := range []string{"enable_seqscan", "enable_sort", "enable_bitmapscan"} {
						if _, err := tx.Exec(ctx, "SET LOCAL "+setting+" = off"); err != nil {
							return err
						}
					}
				}
				return tx.Query(ctx, func(rows *sql.Rows) error {
					var detail string
					dest := []any{new(int), new(int), new(int), &detail}
					if st.Postgres() {
						dest = dest[3:]
					}
					err := rows.Scan(dest...)
					plan += detail + "; "
					return err
				}, explain+placeholder.ReplaceAllString(query, "'1'"))
			})
			if !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "Sort") {
				t.Errorf("%s\n\tplan: %s\n\twant %s", query, plan, index)
			}
		}
	})
}
