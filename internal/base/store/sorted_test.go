package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// A row of a list with the number by which it is sorted.
type numbered struct {
	id string
	n  int64
}

// walk reads a list in pages of three, with changes between them, and compares it with the rows in order.
func walk(t *testing.T, st *store.Store, name, by string, rows []numbered, page func(*store.Tx, store.Page) ([]string, store.Cursor, error), between func()) {
	t.Helper()
	for _, asc := range []bool{false, true} {
		want := slices.Clone(rows)
		slices.SortFunc(want, func(a, b numbered) int {
			order := cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.id, b.id))
			if asc {
				return order
			}
			return -order
		})
		var ids, got []string
		for _, r := range want {
			ids = append(ids, r.id)
		}
		for p := (store.Page{Limit: 3, Asc: asc, By: by}); ; {
			var list []string
			var next store.Cursor
			read(t, st, func(tx *store.Tx) (err error) {
				list, next, err = page(tx, p)
				return err
			})
			got = append(got, list...)
			if p.After = next; next == (store.Cursor{}) || len(got) > len(want) {
				break
			}
			if between != nil {
				between()
			}
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%s by %s, ascending %v:\n%v, want\n%v", name, by, asc, got, ids)
		}
	}
}

// TestListsAreInTheOrderOfANumber reads each list by each of its numbers: with ties, in pages, and accounts while their
// numbers change.
func TestListsAreInTheOrderOfANumber(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		var accounts []stoa.Account
		spent, balance := []numbered{}, []numbered{}
		for i := range 8 {
			a := storetest.Account(t, st, stoa.Credits(1000*(1+i%3)))
			accounts = append(accounts, a)
			amount := int64(0)
			if i > 2 {
				amount = int64(10 * (i % 2))
				if amount > 0 {
					charge(t, st, receipt(a.ID, "resp_"+a.ID, stoa.Credits(amount)))
				}
			}
			spent, balance = append(spent, numbered{a.ID, amount}), append(balance, numbered{a.ID, int64(1000*(1+i%3)) - amount})
		}
		one := accounts[0].ID
		ids := func(rows []store.AccountRow) (list []string) {
			for _, a := range rows {
				list = append(list, a.ID)
			}
			return list
		}
		month := stoa.MonthOf(time.Now())
		of := func(f store.AccountFilter) func(tx *store.Tx, p store.Page) ([]string, store.Cursor, error) {
			return func(tx *store.Tx, p store.Page) ([]string, store.Cursor, error) {
				rows, next, err := tx.Books().Accounts(ctx, f, p)
				return ids(rows), next, err
			}
		}
		walk(t, st, "accounts", store.SortBalance, balance, of(store.AccountFilter{}), nil)
		walk(t, st, "accounts", store.SortSpent, spent, of(store.AccountFilter{}), nil)
		walk(t, st, "accounts", store.SortCharged, spent, of(store.AccountFilter{Month: month}), nil)
		walk(t, st, "accounts with a text", store.SortSpent, spent, of(store.AccountFilter{Text: "acc_"}), nil)
		with := slices.DeleteFunc(slices.Clone(spent), func(n numbered) bool { return n.n == 0 })
		walk(t, st, "charged accounts", store.SortCharged, with, of(store.AccountFilter{Month: month, Charged: 1}), nil)
		without := slices.DeleteFunc(slices.Clone(spent), func(n numbered) bool { return n.n > 0 })
		walk(t, st, "accounts without charges", store.SortCharged, without, of(store.AccountFilter{Month: month, Charged: -1}), nil)
		read(t, st, func(tx *store.Tx) error {
			n, err := tx.Books().CountUncharged(ctx, month)
			if n != int64(len(without)) {
				t.Errorf("%d accounts have no charges, want %d", n, len(without))
			}
			return err
		})

		used := []numbered{}
		var keys []stoa.Key
		write(t, st, func(tx *store.Tx) error {
			for i := range 7 {
				k, err := tx.People().InsertKey(ctx, stoa.Key{AccountID: one, Name: "k"}, fmt.Sprint("hash", one, i))
				if err != nil {
					return err
				}
				at := time.UnixMicro(int64(i%3) * 1_000_000)
				if err := tx.People().TouchKey(ctx, k.ID, at); err != nil {
					return err
				}
				keys, used = append(keys, k), append(used, numbered{k.ID, at.UnixMicro()})
			}
			return nil
		})
		ofKeys := func(tx *store.Tx, p store.Page) (list []string, next store.Cursor, err error) {
			rows, next, err := tx.People().Keys(ctx, one, store.KeyFilter{Unrevoked: true}, p)
			for _, k := range rows {
				list = append(list, k.ID)
			}
			return list, next, err
		}
		walk(t, st, "keys", store.SortUsed, used, ofKeys, nil)
		r := receipt(one, "resp_of_a_key", 30)
		r.KeyID = keys[2].ID
		charge(t, st, r)
		bySpent := []numbered{}
		for i, k := range keys {
			bySpent = append(bySpent, numbered{k.ID, map[bool]int64{true: 30}[i == 2]})
		}
		walk(t, st, "keys", store.SortSpent, bySpent, ofKeys, nil)

		agents, ran := []numbered{}, []numbered{}
		var sessions, changed []numbered
		write(t, st, func(tx *store.Tx) error {
			space, err := tx.Setup().InsertSpace(ctx, stoa.Space{AccountID: one, Name: "s"})
			if err != nil {
				return err
			}
			for i := range 7 {
				a, err := tx.Setup().InsertAgent(ctx, stoa.Agent{AccountID: one, SpaceID: space.ID, Name: "n", AgentSettings: stoa.AgentSettings{DriveAccess: stoa.DriveReadOnly}})
				if err != nil {
					return err
				}
				s := store.SessionRow{Session: stoa.Session{
					ID: fmt.Sprint("ses_", one, i), AccountID: one, AgentID: a.ID, SpaceID: space.ID, Mode: stoa.ModeChat, Status: stoa.SessionCompleted,
					Trigger: stoa.Trigger{Type: "api"}, Turn: stoa.Turn{ID: fmt.Sprint("turn_", one, i), SessionID: fmt.Sprint("ses_", one, i), Number: 1, Attempt: 1},
				}}
				if err := tx.Work().InsertSession(ctx, &s); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, `UPDATE sessions SET spent = $2, updated_at = $3 WHERE id = $1`, s.ID, i%3, 1000+i%2); err != nil {
					return err
				}
				agents, ran = append(agents, numbered{a.ID, int64(i % 3)}), append(ran, numbered{a.ID, s.CreatedAt.UnixMicro()})
				sessions, changed = append(sessions, numbered{s.ID, int64(i % 3)}), append(changed, numbered{s.ID, int64(1000 + i%2)})
			}
			return nil
		})
		for i, a := range agents {
			if a.n > 0 {
				r := receipt(one, fmt.Sprint("resp_of_agent_", i), stoa.Credits(a.n))
				r.AgentID = a.id
				charge(t, st, r)
			}
		}
		ofAgents := func(tx *store.Tx, p store.Page) (list []string, next store.Cursor, err error) {
			rows, next, err := tx.Setup().Agents(ctx, one, store.AgentFilter{}, p)
			for _, a := range rows {
				list = append(list, a.ID)
			}
			return list, next, err
		}
		walk(t, st, "agents", store.SortSpent, agents, ofAgents, nil)
		walk(t, st, "agents", store.SortUsed, ran, ofAgents, nil)
		for _, account := range []string{one, ""} {
			ofSessions := func(tx *store.Tx, p store.Page) (list []string, next store.Cursor, err error) {
				rows, next, err := tx.Work().Sessions(ctx, account, store.SessionFilter{All: account == ""}, p)
				for _, s := range rows {
					list = append(list, s.ID)
				}
				return list, next, err
			}
			walk(t, st, "sessions of "+account, store.SortSpent, sessions, ofSessions, nil)
			walk(t, st, "sessions of "+account, store.SortUpdated, changed, ofSessions, nil)
		}

		var took, cost []numbered
		var log []stoa.Request
		for i := range 9 {
			r := stoa.Request{ID: fmt.Sprint("req_", one, i), AccountID: one, Status: 200, Duration: time.Duration(i%4) * time.Millisecond, Amount: stoa.Credits(i % 2), StartedAt: time.Now()}
			log, took, cost = append(log, r), append(took, numbered{r.ID, r.Duration.Microseconds()}), append(cost, numbered{r.ID, int64(r.Amount)})
		}
		write(t, st, func(tx *store.Tx) error { return tx.Operations().InsertRequests(ctx, log, 0, new([]any)) })
		ofRequests := func(tx *store.Tx, p store.Page) (list []string, next store.Cursor, err error) {
			rows, next, err := tx.Operations().Requests(ctx, one, store.RequestFilter{MaxStatus: 299}, p)
			for _, r := range rows {
				list = append(list, r.ID)
			}
			return list, next, err
		}
		walk(t, st, "requests", store.SortDuration, took, ofRequests, nil)
		walk(t, st, "requests", store.SortSpent, cost, ofRequests, nil)

		// An account that is charged between two pages is listed at its earlier place or at its new one, and moves no other.
		n := 0
		seen := map[string]int{}
		walkPage := store.Page{Limit: 3, By: store.SortSpent}
		for {
			var rows []store.AccountRow
			var next store.Cursor
			read(t, st, func(tx *store.Tx) (err error) {
				rows, next, err = tx.Books().Accounts(ctx, store.AccountFilter{}, walkPage)
				return err
			})
			for _, a := range rows {
				seen[a.ID]++
			}
			if walkPage.After = next; next == (store.Cursor{}) {
				break
			}
			n++
			last := rows[len(rows)-1].ID
			charge(t, st, receipt(last, fmt.Sprint("resp_between_", n), 500))
		}
		for _, a := range accounts {
			if seen[a.ID] != 1 {
				t.Errorf("%s is listed %d times", strings.TrimPrefix(a.ID, "acc_"), seen[a.ID])
			}
		}
	})
}
