package retention

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"stoa/internal/base/audit"
	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

const day = 24 * time.Hour

func TestSettingsAndStoreAgreeOnTheShortest(t *testing.T) {
	t.Parallel()
	if config.MinReceipts != store.OldestPurge {
		t.Errorf("the settings allow %v, the store %v", config.MinReceipts, store.OldestPurge)
	}
	if config.MinAudit != store.OldestAudit {
		t.Errorf("the settings allow %v, the store %v", config.MinAudit, store.OldestAudit)
	}
}

// TestWindowsOfDeletedBudgetsGo: also those that never end, if the process dies before the deletion
// removes them.
func TestWindowsOfDeletedBudgetsGo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		ctx := context.Background()
		st := db.Open()
		var kept, gone stoa.Budget
		const subjects = purgeBatch + 3
		windows := func() (n [2]int) {
			if err := st.Read(ctx, func(tx *store.Tx) error {
				for i, b := range []stoa.Budget{kept, gone} {
					list, _, err := tx.Books().BudgetWindows(ctx, b.AccountID, b.ID, tx.Now, store.Page{Limit: 2 * subjects})
					if n[i] = len(list); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if err := st.Write(ctx, func(tx *store.Tx) error {
			a, err := tx.Books().InsertAccount(ctx, stoa.Account{Name: "a", Plan: "p"})
			for scope, b := range map[stoa.BudgetScope]*stoa.Budget{stoa.BudgetOfAgent: &kept, stoa.BudgetOfEndUser: &gone} {
				if err == nil {
					*b, err = tx.Books().InsertBudget(ctx, stoa.Budget{AccountID: a.ID, Scope: scope, Subject: "*", Period: stoa.BudgetTotal, Limit: 1})
				}
				for i := 0; i < subjects && err == nil; i++ {
					_, err = tx.Books().AddBudgetWindow(ctx, store.BudgetWindow{AccountID: a.ID, BudgetID: b.ID, Subject: fmt.Sprint(i)}, b.Scope)
				}
			}
			if err == nil {
				err = tx.Books().DeleteBudget(ctx, a.ID, gone.ID)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if got := windows(); got != [2]int{subjects, subjects} {
			t.Fatalf("%v windows before", got)
		}
		p := New(st, func() config.Retention { return config.Retention{} }, func() (time.Duration, int) { return 0, 0 }, nil, slog.New(slog.DiscardHandler))
		p.pause = 0
		if err := p.sweep(ctx); err != nil {
			t.Fatal(err)
		}
		if got := windows(); got != [2]int{subjects, 0} {
			t.Errorf("%v windows of the kept and the deleted budget", got)
		}
	})
}

// TestOldAuditEntriesGo: only if a retention is set, and the rest of the chain is still valid.
func TestOldAuditEntriesGo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		ctx := context.Background()
		st := db.Open()
		const old, fresh = purgeBatch + 3, 4
		for _, account := range []string{"acc_1", audit.Service} {
			if err := st.Write(ctx, func(tx *store.Tx) error {
				tx.Now = tx.Now.Add(-200 * day)
				for range old {
					tx.Audit(audit.Entry{AccountID: account})
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := st.Write(ctx, func(tx *store.Tx) error {
				for range fresh {
					tx.Audit(audit.Entry{AccountID: account})
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		var keep config.Retention
		p := New(st, func() config.Retention { return keep }, func() (time.Duration, int) { return 0, 0 },
			func(context.Context, time.Time) (int64, error) { return 0, nil }, slog.New(slog.DiscardHandler))
		p.pause = 0
		for _, c := range []struct {
			keep  time.Duration
			first int64
		}{{0, 1}, {300 * day, 1}, {100 * day, old + 1}, {100 * day, old + 1}} {
			keep.Audit = c.keep
			if err := p.sweep(ctx); err != nil {
				t.Fatal(err)
			}
			for _, account := range []string{"acc_1", audit.Service} {
				if err := st.Read(ctx, func(tx *store.Tx) error {
					from, rows, err := tx.People().AuditRows(ctx, account, 0, 1000)
					if err == nil && (from.Seq != c.first-1 || rows[0].Seq != c.first || rows[0].Prev != from.Hash || rows[len(rows)-1].Seq != old+fresh) {
						t.Errorf("kept for %v, %s begins at %+v with %d rows", c.keep, account, from, len(rows))
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestExpiredRowsGoAndTheBooksBalance(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		ctx := context.Background()
		st := db.Open()
		ledger := billing.New(st, billing.Config{})
		const old, fresh, price = 3*purgeBatch + 7, 5, 10
		var accounts []stoa.Account
		for range 2 {
			accounts = append(accounts, storetest.Account(t, st, 1_000_000))
		}
		write := func(fn func(tx *store.Tx) error) {
			t.Helper()
			if err := st.Write(ctx, fn); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now()
		write(func(tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE accounts SET created_at = $1`, now.Add(-100*day).UnixMicro())
			return err
		})
		for i, a := range accounts {
			write(func(tx *store.Tx) error {
				lease, _, err := tx.Books().Lease(ctx, a.ID, st.Node())
				if err != nil {
					return err
				}
				for n := range old + fresh {
					tx.Now = now.Add(-90 * day).Add(time.Duration(n) * time.Second)
					if n >= old {
						tx.Now = now.Add(-time.Hour)
					}
					c := stoa.Charge{
						ID: fmt.Sprintf("resp_%d_%d", i, n), AccountID: a.ID, KeyID: "key_1", Served: "beta-3.8-flash", State: "completed",
						Usage: stoa.Usage{OutputTokens: price}, Price: stoa.Price{Output: stoa.Credit}, Amount: price, StartedAt: tx.Now,
					}
					if _, err := tx.Books().InsertCharges(ctx, []store.Receipt{{Charge: c, LeaseID: lease.ID, NodeID: st.Node()}}); err != nil {
						return err
					}
					if _, err := tx.Books().SpendLease(ctx, lease.ID, price); err != nil {
						return err
					}
				}
				return nil
			})
		}
		// Sessions: one that stopped long ago, one that stopped now, one that runs.
		for id, s := range map[string]struct {
			status string
			at     time.Time
		}{"ses_old": {"completed", now.Add(-90 * day)}, "ses_new": {"completed", now}, "ses_runs": {"running", now.Add(-90 * day)}} {
			write(func(tx *store.Tx) error {
				if err := insertSession(ctx, tx, accounts[0].ID, id, s.status, s.at); err != nil {
					return err
				}
				var events []stoa.SessionEvent
				for n := range purgeBatch + 50 {
					events = append(events, stoa.SessionEvent{Seq: int64(n + 1), Type: "message.delta", At: s.at, Data: "{}"})
				}
				return tx.Work().InsertEvents(ctx, id, events)
			})
		}
		write(func(tx *store.Tx) error { // a reply whose 24 hours are over, and one whose are not
			for key, at := range map[string]time.Time{"over": now.Add(-2 * day), "fresh": now} {
				tx.Now = at
				c, _, _, err := tx.ClaimKey(ctx, store.IdempotencyKey{AccountID: accounts[0].ID, Method: "POST", Path: "/x", Key: key}, "hash")
				if err == nil {
					err = tx.FinishClaim(ctx, c, store.Reply{Status: 200})
				}
				if err != nil {
					return err
				}
			}
			return nil
		})

		keep := config.Retention{}
		p := &Purger{store: st, keep: func() config.Retention { return keep }, logs: func() (time.Duration, int) { return day, 0 }, log: slog.New(slog.DiscardHandler), every: time.Hour, pause: time.Microsecond}
		sweep := func() {
			t.Helper()
			if err := p.sweep(ctx); err != nil {
				t.Fatal(err)
			}
			diffs, err := ledger.Verify(ctx)
			if err != nil || len(diffs) > 0 {
				t.Errorf("the books: %v, %v", diffs, err)
			}
			for _, a := range accounts {
				if b, err := ledger.Balance(ctx, a.ID); err != nil || b.Spent != (old+fresh)*price || b.Available+b.Spent != b.Granted {
					t.Errorf("balance %+v, %v", b, err)
				}
			}
		}
		want := func(what string, receipts, oldEvents, otherEvents, replies int) {
			t.Helper()
			var got [4]int
			if err := st.Read(ctx, func(tx *store.Tx) error {
				for i, q := range []string{
					`SELECT COUNT(*) FROM charges`, `SELECT COUNT(*) FROM session_events WHERE session_id = 'ses_old'`,
					`SELECT COUNT(*) FROM session_events WHERE session_id <> 'ses_old'`, `SELECT COUNT(*) FROM idempotency`,
				} {
					if _, err := tx.Get(ctx, q, nil, &got[i]); err != nil {
						return err
					}
				}
				for _, a := range accounts { // the remaining sums still show the charges
					_, sums, err := tx.Books().Differences(ctx, a.ID)
					if err != nil {
						return err
					}
					if sums != (store.ChargeTotals{Calls: old + fresh, Charged: (old + fresh) * price, Receipts: (old + fresh) * price}) {
						t.Errorf("%s: totals %+v", what, sums)
					}
					entries, _, err := tx.Books().Entries(ctx, a.ID, store.Page{Limit: 10_000})
					if err != nil {
						return err
					}
					var effect stoa.Credits
					for _, e := range entries {
						effect += e.Effect
					}
					if effect != 1_000_000-(old+fresh)*price {
						t.Errorf("%s: the entries of the ledger come to %d", what, effect)
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if got != [4]int{receipts, oldEvents, otherEvents, replies} {
				t.Errorf("%s: %v are left (receipts, events, other events, replies); want %v", what, got, [4]int{receipts, oldEvents, otherEvents, replies})
			}
		}
		const events = purgeBatch + 50
		want("before", 2*(old+fresh), events, 2*events, 2)
		sweep()
		want("with nothing set but replies", 2*(old+fresh), events, 2*events, 1)
		keep = config.Retention{Receipts: 60 * day, Events: 60 * day}
		sweep()
		want("after two months", 2*fresh, 0, 2*events, 1)
		sweep()
		want("and once more", 2*fresh, 0, 2*events, 1)
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	swept := make(chan struct{}, 16)
	p := &Purger{
		store: st, log: slog.New(slog.DiscardHandler), every: time.Millisecond,
		keep: func() config.Retention { swept <- struct{}{}; return config.Retention{} },
		logs: func() (time.Duration, int) { return day, 0 },
	}
	go func() { ended <- p.Run(ctx) }()
	<-swept
	<-swept // again, after a while
	stop()
	for {
		select {
		case <-swept:
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
}

func insertSession(ctx context.Context, tx *store.Tx, account, id, status string, at time.Time) error {
	tx.Now = at
	var r store.SessionRow
	r.ID, r.AccountID, r.AgentID, r.SpaceID = id, account, "agt_1", "spc_1"
	r.Status, r.Mode, r.LastSeq = stoa.SessionStatus(status), "chat", 1000
	r.Turn.ID, r.Turn.SessionID, r.Turn.Number, r.Turn.Status = "trn_"+id, id, 1, r.Status
	return tx.Work().InsertSession(ctx, &r)
}

// TestOldAndSurplusRequestsGo purges the request log by age, by count and as a whole.
func TestOldAndSurplusRequestsGo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		ctx := context.Background()
		st := db.Open()
		now := time.Now()
		var scratch []any
		write := func(account string, at time.Time, n int) {
			t.Helper()
			var rows []stoa.Request
			for range n {
				rows = append(rows, stoa.Request{ID: stoa.NewID("req"), AccountID: account})
			}
			if err := st.Write(ctx, func(tx *store.Tx) error {
				tx.Now = at
				if err := tx.Operations().AddDropped(ctx, account, store.Dropped{Count: 1, First: at, Last: at}); err != nil {
					return err
				}
				return tx.Operations().InsertRequests(ctx, rows, 0, &scratch)
			}); err != nil {
				t.Fatal(err)
			}
		}
		write("acc_old", now.Add(-3*day), 2*purgeBatch+7)
		write("acc_a", now.Add(-3*day), 5)
		write("acc_a", now, 40)
		write("acc_b", now, 2*purgeBatch+50)
		kept, most := 2*day, 0
		p := New(st, func() config.Retention { return config.Retention{} }, func() (time.Duration, int) { return kept, most }, nil, slog.New(slog.DiscardHandler))
		p.pause = time.Microsecond
		want := func(what string, old, a, b int, drops int64) {
			t.Helper()
			if err := p.sweep(ctx); err != nil {
				t.Fatal(err)
			}
			if err := st.Read(ctx, func(tx *store.Tx) error {
				for account, want := range map[string]int{"acc_old": old, "acc_a": a, "acc_b": b} {
					rows, _, err := tx.Operations().Requests(ctx, account, store.RequestFilter{}, store.Page{Limit: 10_000})
					if err != nil {
						return err
					}
					var counted int
					if _, err := tx.Get(ctx, `SELECT kept FROM request_counts WHERE account_id = $1`, []any{account}, &counted); err != nil {
						return err
					}
					if len(rows) != want || counted != want {
						t.Errorf("%s: %s has %d rows and counts %d, want %d", what, account, len(rows), counted, want)
					}
				}
				d, err := tx.Operations().Dropped(ctx, "")
				if d.Count != drops {
					t.Errorf("%s: %d are noted as dropped, want %d", what, d.Count, drops)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		want("by age", 0, 40, 2*purgeBatch+50, 3)
		most = 30
		want("by count", 0, 30, 30, 3)
		kept, most = 0, 0
		want("switched off", 0, 0, 0, 0)
	})
}

// Calls of tools are removed with the events; those with an unknown outcome stay for 90 days,
// and unfinished ones for ever.
func TestOldToolCallsGoUnlessTheyAreUnsure(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		ctx := context.Background()
		st := db.Open()
		account := storetest.Account(t, st, stoa.Credit)
		now := time.Now()
		write := func(fn func(tx *store.Tx) error) {
			t.Helper()
			if err := st.Write(ctx, fn); err != nil {
				t.Fatal(err)
			}
		}
		for i, c := range []struct {
			id      string
			age     time.Duration
			status  stoa.CallStatus
			outcome stoa.CallOutcome
		}{
			{"cal_new", day, stoa.CallDone, stoa.OutcomeOK},
			{"cal_old", 40 * day, stoa.CallDone, stoa.OutcomeOK},
			{"cal_unsure", 40 * day, stoa.CallDone, stoa.OutcomeExpired},
			{"cal_unsure_long_ago", 100 * day, stoa.CallDone, stoa.OutcomeExpired},
			{"cal_open", 100 * day, stoa.CallWaiting, ""},
		} {
			write(func(tx *store.Tx) error {
				row := stoa.ExternalCall{ID: c.id, AccountID: account.ID, SessionID: "ses_1", Turn: 1, Step: 1, Place: i, Type: stoa.ToolClient, Status: c.status, CreatedAt: now.Add(-c.age), SecretID: "sec_" + c.id}
				secret := store.Secret{ID: row.SecretID, AccountID: account.ID, Name: c.id, Kind: store.SecretBearer, Version: 1, Sealed: "x"}
				if _, err := tx.Setup().InsertSecret(ctx, secret); err != nil {
					return err
				}
				if err := tx.Work().InsertToolCall(ctx, row); err != nil {
					return err
				}
				row.Outcome = c.outcome
				return tx.Work().UpdateToolCall(ctx, row)
			})
			write(func(tx *store.Tx) error { return tx.Setup().DeleteSecret(ctx, account.ID, "sec_"+c.id) })
		}
		p := &Purger{
			store: st, keep: func() config.Retention { return config.Retention{Events: 30 * day} }, logs: func() (time.Duration, int) { return day, 0 },
			log: slog.New(slog.DiscardHandler), every: time.Hour, pause: time.Microsecond,
		}
		if err := p.sweep(ctx); err != nil {
			t.Fatal(err)
		}
		var left []string
		write(func(tx *store.Tx) error {
			calls, _, err := tx.Work().ToolCalls(ctx, account.ID, store.CallFilter{}, store.Page{Limit: 10})
			left = nil
			for _, c := range calls {
				left = append(left, c.ID)
			}
			return err
		})
		if want := "[cal_new cal_unsure cal_open]"; fmt.Sprint(left) != want {
			t.Errorf("left are %v, want %v", left, want)
		}

		// Of the deleted secrets, those remain that calls still reference.
		for _, call := range []string{"cal_new", "cal_old", "cal_unsure", "cal_unsure_long_ago", "cal_open"} {
			write(func(tx *store.Tx) error {
				s, err := tx.Setup().AnySecret(ctx, account.ID, "sec_"+call)
				if stoa.CodeOf(err) == stoa.CodeSecretNotFound {
					err = nil
				}
				if found := s.ID != ""; found != slices.Contains(left, call) || s.Sealed != "" {
					t.Errorf("the secret of %s: found %t, %q", call, found, s.Sealed)
				}
				return err
			})
		}
	})
}
