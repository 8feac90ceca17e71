package billing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// ledgers runs a test on a ledger that is alone, on both databases, and on two ledgers that share
// a database. second is the same as first in a ledger that is alone.
func ledgers(t *testing.T, test func(t *testing.T, st *store.Store, first, second *billing.Ledger)) {
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := start(t, st, billing.Config{})
		test(t, st, l, l)
		wantBooksInOrder(t, l)
	})
	t.Run("nodes", func(t *testing.T) {
		list, stores := nodes(t, 2, false)
		now := time.Now().Add(2 * billing.PollBudgets) // every new budget is in effect, and polled for
		for _, l := range list {
			l.SetClock(func() time.Time { return now })
		}
		test(t, stores[0], list[0], list[1])
		wantBooksInOrder(t, list[0])
	})
}

// budget adds a budget that is in effect.
func budget(t *testing.T, st *store.Store, b stoa.Budget) stoa.Budget {
	t.Helper()
	if b.Period == "" {
		b.Period = stoa.BudgetTotal
	}
	if b.AtCap == "" {
		b.AtCap = stoa.CapShortens
	}
	write(t, st, func(tx *store.Tx) (err error) {
		b, err = tx.Books().InsertBudget(context.Background(), b)
		return err
	})
	return b
}

// spend makes a call of a source.
func spend(l *billing.Ledger, a stoa.Account, of billing.Source, id string, least, most, amount stoa.Credits) (stoa.Charge, error) {
	h, err := l.HoldFor(context.Background(), caller(a), of, least, most, 0)
	if err != nil {
		return stoa.Charge{}, err
	}
	c := charge(id, amount)
	c.AgentID, c.EmbedID, c.EndUser = of.AgentID, of.EmbedID, of.EndUser
	return h.Settle(context.Background(), c)
}

// use returns the use of a budget.
func use(t *testing.T, l *billing.Ledger, st *store.Store, b stoa.Budget, subject string) (u billing.BudgetUse) {
	t.Helper()
	if err := st.Read(context.Background(), func(tx *store.Tx) (err error) {
		u, err = l.BudgetUse(context.Background(), tx, b, subject)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestManyCallersCannotExceedABudget(t *testing.T) {
	t.Parallel()
	ledgers(t, func(t *testing.T, st *store.Store, first, second *billing.Ledger) {
		a := storetest.Account(t, st, stoa.Credit)
		whole := budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfAccount, Limit: 307})
		each := budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfEndUser, Subject: "*", Period: stoa.BudgetDay, Limit: 105})
		forget(first, second)
		var served atomic.Int64
		var wg sync.WaitGroup
		for i := range 120 {
			wg.Go(func() {
				l := first
				if i%2 == 0 {
					l = second
				}
				user := fmt.Sprint("user ", i%4)
				_, err := spend(l, a, billing.Source{EndUser: user}, fmt.Sprint("resp_", i), 10, 10, 10)
				switch stoa.CodeOf(err) {
				case "":
					served.Add(1)
				case stoa.CodeBudget:
				default:
					t.Errorf("call %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if served.Load() != 30 {
			t.Errorf("%d calls were served, want the 30 that the account's budget covers", served.Load())
		}
		if u := use(t, first, st, whole, ""); u.Spent != 300 || u.Held != 0 {
			t.Errorf("the account's budget is %+v", u)
		}
		for i := range 4 {
			if u := use(t, second, st, each, fmt.Sprint("user ", i)); u.Spent > 100 {
				t.Errorf("user %d: %+v", i, u)
			}
		}
		// The rest goes to calls that need at most that.
		_, err := spend(first, a, billing.Source{EndUser: "user 5"}, "resp_rest", 1, 50, 7)
		if err != nil {
			t.Errorf("the last 7: %v", err)
		}
		_, err = spend(second, a, billing.Source{EndUser: "user 5"}, "resp_more", 1, 1, 1)
		if e, ok := errors.AsType[*stoa.Error](err); !ok || e.Code != stoa.CodeBudget || e.RetryAfter != 0 || !strings.Contains(e.Message, whole.ID) {
			t.Errorf("beyond it: %v", err)
		}
	})
}

// forget makes ledgers read the budgets of their accounts again.
func forget(list ...*billing.Ledger) {
	for _, l := range list {
		l.ForgetBudgets()
	}
}

// TestAHoldTakesFromAllOrNone: a call that one of its budgets refuses leaves nothing held in the
// others, and a call of an account without credits leaves nothing held in its budgets.
func TestAHoldTakesFromAllOrNone(t *testing.T) {
	t.Parallel()
	ledgers(t, func(t *testing.T, st *store.Store, first, second *billing.Ledger) {
		a := storetest.Account(t, st, 100)
		agent := budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfAgent, Subject: "agt_1", Limit: 1000})
		user := budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfEndUser, Subject: "ann", Limit: 20})
		embed := budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfEmbed, Subject: "tag_1", Limit: 350, AtCap: stoa.CapRefuses})
		forget(first, second)
		of := billing.Source{AgentID: "agt_1", EndUser: "ann", EmbedID: "tag_1"}
		clean := func(what string, spent stoa.Credits) {
			t.Helper()
			for _, b := range []stoa.Budget{agent, user, embed} {
				if u := use(t, second, st, b, b.Subject); u.Held != 0 || u.Spent != spent {
					t.Errorf("after %s the budget of the %s has %+v", what, b.Scope, u)
				}
			}
		}
		if _, err := spend(first, a, of, "resp_1", 30, 30, 30); stoa.CodeOf(err) != stoa.CodeBudget || !strings.Contains(err.Error(), user.ID) {
			t.Errorf("more than the end user has: %v", err)
		}
		clean("a refusal", 0)
		h, err := first.HoldFor(context.Background(), caller(a), of, 5, 50, 0)
		if err != nil || h.Amount() != 20 {
			t.Fatalf("held %v, want the 20 of the end user", err)
		}
		if u := use(t, second, st, embed, "tag_1"); u.Held != 20 {
			t.Errorf("of the embed %d are held", u.Held)
		}
		h.Release()
		clean("the release", 0)
		if _, err := spend(second, a, of, "resp_2", 5, 15, 9); err != nil {
			t.Fatal(err)
		}
		clean("a charge", 9)
		if _, err := spend(first, a, billing.Source{EmbedID: "tag_1"}, "resp_3", 1, 600, 1); stoa.CodeOf(err) != stoa.CodeBudget || !strings.Contains(err.Error(), embed.ID) {
			t.Errorf("a budget that refuses: %v", err)
		}
		if _, err := spend(first, a, billing.Source{EmbedID: "tag_1"}, "resp_4", 200, 300, 1); stoa.CodeOf(err) != stoa.CodeQuota {
			t.Errorf("more than the account has: %v", err)
		}
		// On several nodes what was reserved for it is released before the next reservation.
		if _, err := spend(first, a, billing.Source{EmbedID: "tag_1"}, "resp_5", 50, 50, 50); err != nil {
			t.Error(err)
		}
	})
}

// TestUsageBeyondABudgetIsWrittenOff: a charge above its hold pays what its budgets have left.
func TestUsageBeyondABudgetIsWrittenOff(t *testing.T) {
	t.Parallel()
	ledgers(t, func(t *testing.T, st *store.Store, first, second *billing.Ledger) {
		a := storetest.Account(t, st, 1000)
		b := budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfKey, Subject: "key_1", Limit: 100, AtCap: stoa.CapRefuses})
		forget(first, second)
		c, err := spend(first, a, billing.Source{}, "resp_1", 10, 20, 60)
		if err != nil || c.Amount != 60 || c.Clamped {
			t.Errorf("with enough left it paid %d, clamped %v (%v)", c.Amount, c.Clamped, err)
		}
		c, err = spend(second, a, billing.Source{}, "resp_2", 10, 20, 60)
		if err != nil || c.Amount != 40 || !c.Clamped || c.WrittenOff != 20 {
			t.Errorf("with 40 left it paid %d and wrote off %d (%v)", c.Amount, c.WrittenOff, err)
		}
		if u := use(t, first, st, b, "key_1"); u.Spent != 100 || u.Held != 0 {
			t.Errorf("the budget is %+v", u)
		}
	})
}

func TestALoweredLimitBindsAtOnce(t *testing.T) {
	t.Parallel()
	ledgers(t, func(t *testing.T, st *store.Store, first, second *billing.Ledger) {
		a := storetest.Account(t, st, 1000)
		b := budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfAccount, Limit: 500})
		forget(first, second)
		h, err := first.Hold(context.Background(), caller(a), 100, 100)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := spend(second, a, billing.Source{}, "resp_1", 50, 50, 50); err != nil {
			t.Fatal(err)
		}
		lower := func(to stoa.Credits) {
			t.Helper()
			write(t, st, func(tx *store.Tx) error {
				_, err := tx.Books().EditBudget(context.Background(), a.ID, b.ID, func(b *stoa.Budget) error { b.Limit = to; return nil })
				return err
			})
		}
		lower(150)
		if _, err := spend(second, a, billing.Source{}, "resp_2", 1, 1, 1); stoa.CodeOf(err) != stoa.CodeBudget {
			t.Errorf("beyond the lowered limit: %v", err)
		}
		if _, err := h.Settle(context.Background(), charge("resp_3", 100)); err != nil {
			t.Errorf("what was held: %v", err)
		}
		lower(151)
		if c, err := spend(first, a, billing.Source{}, "resp_4", 1, 10, 1); err != nil || c.Amount != 1 {
			t.Errorf("after it was raised: %v", err)
		}
		write(t, st, func(tx *store.Tx) error { return tx.Books().DeleteBudget(context.Background(), a.ID, b.ID) })
		if _, err := spend(second, a, billing.Source{}, "resp_5", 50, 50, 50); err != nil {
			t.Errorf("after the budget was deleted: %v", err)
		}
	})
}

// TestANamedBudgetReplacesTheOneOfEach also checks that a new budget begins with what its subject
// has spent in the period.
func TestANamedBudgetReplacesTheOneOfEach(t *testing.T) {
	t.Parallel()
	ledgers(t, func(t *testing.T, st *store.Store, first, second *billing.Ledger) {
		a := storetest.Account(t, st, 1000)
		of := func(user string) billing.Source { return billing.Source{EndUser: user} }
		if _, err := spend(first, a, of("ann"), "resp_0", 15, 15, 15); err != nil {
			t.Fatal(err)
		}
		each := budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfEndUser, Subject: "*", Period: stoa.BudgetMonth, Limit: 50})
		forget(first, second)
		if u := use(t, first, st, each, "ann"); u.Opening != 15 || u.Spent != 15 {
			t.Errorf("before the first call that counts: %+v", u)
		}
		for i, user := range []string{"ann", "bob"} {
			want := stoa.Credits(35 + 15*i)
			h, err := second.HoldFor(context.Background(), caller(a), of(user), 1, 100, 0)
			if err != nil || h.Amount() != want {
				t.Fatalf("%s may spend %v, want %d", user, h.Amount(), want)
			}
			h.Release()
		}
		if _, err := spend(first, a, billing.Source{}, "resp_none", 100, 100, 100); err != nil {
			t.Errorf("a call without an end user: %v", err)
		}
		named := budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfEndUser, Subject: "bob", Period: stoa.BudgetMonth, Limit: 300})
		forget(first, second)
		if _, err := spend(first, a, of("bob"), "resp_bob", 200, 200, 200); err != nil {
			t.Errorf("with a budget of his own: %v", err)
		}
		if _, err := spend(second, a, of("ann"), "resp_ann", 36, 36, 36); stoa.CodeOf(err) != stoa.CodeBudget {
			t.Errorf("ann beyond the budget of each: %v", err)
		}
		if u := use(t, second, st, named, "bob"); u.Spent != 200 {
			t.Errorf("the named budget: %+v", u)
		}
		if u := use(t, second, st, each, "bob"); u.Spent != 0 {
			t.Errorf("the one that it replaced: %+v", u)
		}
	})
}

// TestMarksAreReportedOncePerWindow also checks that the report commits with the charge.
func TestMarksAreReportedOncePerWindow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		var reached []string
		l, _ := start(t, st, billing.Config{Reached: func(_ context.Context, tx *store.Tx, m billing.Mark) error {
			tx.AfterCommit(func() { reached = append(reached, fmt.Sprintf("%s %d%% at %d", m.Subject, m.Percent, m.Used)) })
			return nil
		}})
		now := time.Now()
		l.SetClock(func() time.Time { return now })
		a := storetest.Account(t, st, 1000)
		budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfAgent, Subject: "*", Period: stoa.BudgetDay, TimeZone: "UTC", Limit: 100, NotifyAt: []int{50, 80, 100}})
		call := func(id, agent string, amount stoa.Credits) {
			t.Helper()
			if _, err := spend(l, a, billing.Source{AgentID: agent}, id, amount, amount, amount); err != nil {
				t.Fatal(err)
			}
		}
		call("resp_1", "agt_1", 49)
		call("resp_2", "agt_1", 1)
		call("resp_3", "agt_1", 10)
		call("resp_4", "agt_1", 40)
		call("resp_5", "agt_2", 50)
		now = now.Add(24 * time.Hour)
		call("resp_6", "agt_1", 60)
		want := "agt_1 50% at 50, agt_1 80% at 100, agt_1 100% at 100, agt_2 50% at 50, agt_1 50% at 60"
		if got := strings.Join(reached, ", "); got != want {
			t.Errorf("reached %s, want %s", got, want)
		}
		wantBooksInOrder(t, l)
	})
}

// TestTooManySubjectsAreRefused: callers choose end users, so that their number is bounded; other
// subjects and accounts are not affected.
func TestTooManySubjectsAreRefused(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, _ := start(t, st, billing.Config{})
	a, other := storetest.Account(t, st, 1000), storetest.Account(t, st, 1000)
	for _, account := range []string{a.ID, other.ID} {
		budget(t, st, stoa.Budget{AccountID: account, Scope: stoa.BudgetOfEndUser, Subject: "*", Limit: 100})
	}
	if _, err := spend(l, a, billing.Source{EndUser: "known"}, "resp_1", 1, 1, 1); err != nil {
		t.Fatal(err)
	}
	l.SetLiveWindows(a.ID, stoa.MaxBudgetWindows-1)
	for user, code := range map[string]stoa.Code{"last": "", "known": ""} {
		if _, err := spend(l, a, billing.Source{EndUser: user}, "resp_"+user, 1, 1, 1); stoa.CodeOf(err) != code {
			t.Errorf("%s: %v", user, err)
		}
	}
	if _, err := spend(l, a, billing.Source{EndUser: "new"}, "resp_new", 1, 1, 1); stoa.CodeOf(err) != stoa.CodeBudget {
		t.Errorf("a new subject: %v", err)
	}
	if _, err := spend(l, a, billing.Source{EndUser: "known"}, "resp_3", 1, 1, 1); err != nil {
		t.Errorf("a known one: %v", err)
	}
	if _, err := spend(l, other, billing.Source{EndUser: "new"}, "resp_other", 1, 1, 1); err != nil {
		t.Errorf("another account: %v", err)
	}
}

// TestACallCountsInThePeriodInWhichItBegan holds before midnight and settles after it.
func TestACallCountsInThePeriodInWhichItBegan(t *testing.T) {
	t.Parallel()
	ledgers(t, func(t *testing.T, st *store.Store, first, second *billing.Ledger) {
		midnight := time.Date(2031, 3, 30, 0, 0, 0, 0, time.UTC)
		now := midnight.Add(-time.Second)
		for _, l := range []*billing.Ledger{first, second} {
			l.SetClock(func() time.Time { return now })
		}
		a := storetest.Account(t, st, 1000)
		b := budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfAccount, Period: stoa.BudgetDay, TimeZone: "UTC", Limit: 100})
		forget(first, second)
		h, err := first.Hold(context.Background(), caller(a), 60, 60)
		if err != nil {
			t.Fatal(err)
		}
		now = midnight
		if _, err := spend(second, a, billing.Source{}, "resp_1", 100, 100, 90); err != nil {
			t.Errorf("the new day: %v", err)
		}
		if _, err := h.Settle(context.Background(), charge("resp_0", 60)); err != nil {
			t.Fatal(err)
		}
		if u := use(t, first, st, b, ""); u.Spent != 90 || !u.Starts.Equal(midnight) || !u.Ends.Equal(midnight.AddDate(0, 0, 1)) {
			t.Errorf("the new day has %+v", u)
		}
		now = midnight.Add(-time.Second)
		if u := use(t, first, st, b, ""); u.Spent != 60 {
			t.Errorf("the day before has %+v", u)
		}
	})
}

// TestADeadNodeFreesItsHolds: its holds are rows that go with it.
func TestADeadNodeFreesItsHolds(t *testing.T) {
	t.Parallel()
	list, stores := nodes(t, 2, false)
	a := storetest.Account(t, stores[0], 1000)
	budget(t, stores[0], stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfAccount, Limit: 100})
	forget(list...)
	if _, err := list[0].Hold(context.Background(), caller(a), 80, 80); err != nil {
		t.Fatal(err)
	}
	if _, err := spend(list[1], a, billing.Source{}, "resp_1", 30, 30, 30); stoa.CodeOf(err) != stoa.CodeBudget {
		t.Errorf("while the other node holds 80: %v", err)
	}
	if err := stores[0].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := spend(list[1], a, billing.Source{}, "resp_1", 100, 100, 100); err != nil {
		t.Errorf("after it ended: %v", err)
	}
	wantBooksInOrder(t, list[1])
}

func TestVerifyFindsAWrongWindow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := start(t, st, billing.Config{})
		a := storetest.Account(t, st, 1000)
		budget(t, st, stoa.Budget{AccountID: a.ID, Scope: stoa.BudgetOfAccount, Limit: 100})
		if _, err := spend(l, a, billing.Source{}, "resp_1", 30, 30, 30); err != nil {
			t.Fatal(err)
		}
		write(t, st, func(tx *store.Tx) error {
			_, err := tx.Exec(context.Background(), `UPDATE budget_windows SET spent = spent - 1 WHERE account_id = $1`, a.ID)
			return err
		})
		diffs, err := l.Verify(context.Background())
		if err != nil || len(diffs) != 1 || diffs[0].Have != 29 || diffs[0].Want != 30 {
			t.Errorf("found %v (%v)", diffs, err)
		}
	})
}
