package store_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// newAgents adds agents with these names to a new space of an account.
func newAgents(t *testing.T, st *store.Store, accountID string, names ...string) (ids []string) {
	t.Helper()
	write(t, st, func(tx *store.Tx) error {
		ids = nil
		space, err := tx.Setup().InsertSpace(ctx, stoa.Space{AccountID: accountID, Name: "s"})
		for _, name := range names {
			var a stoa.Agent
			if err == nil {
				a, err = tx.Setup().InsertAgent(ctx, stoa.Agent{AccountID: accountID, SpaceID: space.ID, Name: name, AgentSettings: stoa.AgentSettings{Instructions: "i", DriveAccess: stoa.DriveReadOnly}})
			}
			ids = append(ids, a.ID)
		}
		return err
	})
	return ids
}

// agentsWith returns the names of all agents of an account with a text.
func agentsWith(t *testing.T, st *store.Store, accountID, text string) (names []string) {
	t.Helper()
	p := store.Page{Limit: 100}
	for {
		var list []stoa.Agent
		var next store.Cursor
		read(t, st, func(tx *store.Tx) (err error) {
			list, next, err = tx.Setup().Agents(ctx, accountID, store.AgentFilter{Text: text}, p)
			return err
		})
		for _, a := range list {
			names = append(names, a.Name)
		}
		if p.After = next; next == (store.Cursor{}) {
			slices.Sort(names)
			return names
		}
	}
}

func TestASearchIgnoresCaseInEveryScript(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a, other := storetest.Account(t, st, 0), storetest.Account(t, st, 0)
		ids := newAgents(t, st, a.ID, "Museum guide", "Гид по МУЗЕЮ", "Maßband", "ΟΔΟΣ", "100% cotton_shirt", "ｆｕｌｌ width")
		newAgents(t, st, other.ID, "Museum of the other account")
		for text, want := range map[string]string{
			"museum": "Museum guide", "GUIDE": "Museum guide", "музею": "Гид по МУЗЕЮ", "MASSBAND": "Maßband", "οδός": "", "οδος": "ΟΔΟΣ",
			"0% c": "100% cotton_shirt", "n_s": "100% cotton_shirt", "nxs": "", "FULL": "ｆｕｌｌ width", strings.ToUpper(ids[1]): "Гид по МУЗЕЮ", "nothing": "",
		} {
			if got := strings.Join(agentsWith(t, st, a.ID, text), ", "); got != want {
				t.Errorf("%q finds %q, want %q", text, got, want)
			}
		}
	})
}

// TestASearchFindsAnyRow searches the oldest, the newest and all rows of lists that are longer
// than a page, and one that is longer than the rows that a page may read.
func TestASearchFindsAnyRow(t *testing.T) {
	t.Parallel()
	const agents, accounts, keys = 311, 1022, 2100
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a := storetest.Account(t, st, 0)
		var names []string
		for i := range agents {
			names = append(names, fmt.Sprintf("Agent %04d", i))
		}
		newAgents(t, st, a.ID, names...)
		write(t, st, func(tx *store.Tx) error {
			for i := range accounts {
				if _, err := tx.Books().InsertAccount(ctx, stoa.Account{Name: fmt.Sprintf("Customer %04d", i), Email: fmt.Sprintf("c%d@example.com", i), Plan: "free"}); err != nil {
					return err
				}
			}
			for i := range keys {
				tx.Now = tx.Now.Add(time.Millisecond)
				if _, err := tx.People().InsertKey(ctx, stoa.Key{AccountID: a.ID, Name: fmt.Sprintf("Key %04d", i), Hint: "h", Scopes: []string{"*"}}, fmt.Sprint("hash", i)); err != nil {
					return err
				}
			}
			return nil
		})
		for _, i := range []int{0, 100, agents - 1} {
			if got := agentsWith(t, st, a.ID, "AGENT "+names[i][6:]); len(got) != 1 || got[0] != names[i] {
				t.Errorf("agent %d: %v", i, got)
			}
		}
		if got := agentsWith(t, st, a.ID, "agent"); !slices.Equal(got, names) {
			t.Errorf("%d agents, want %d", len(got), agents)
		}
		for _, i := range []int{0, 500, accounts - 1} {
			read(t, st, func(tx *store.Tx) error {
				list, next, err := tx.Books().Accounts(ctx, store.AccountFilter{Text: fmt.Sprintf("customer %04d", i)}, store.Page{Limit: 1})
				if len(list) != 1 || list[0].Email != fmt.Sprintf("c%d@example.com", i) || next != (store.Cursor{}) {
					t.Errorf("account %d: %+v, then %v", i, list, next)
				}
				return err
			})
		}
		found, pages := 0, 0
		for p := (store.Page{Limit: 2, Asc: true}); ; pages++ {
			var list []stoa.Key
			var next store.Cursor
			read(t, st, func(tx *store.Tx) (err error) {
				list, next, err = tx.People().Keys(ctx, a.ID, store.KeyFilter{Text: "key 2"}, p)
				return err
			})
			for _, k := range list {
				if !strings.HasPrefix(k.Name, "Key 2") {
					t.Errorf("found %q", k.Name)
				}
			}
			found += len(list)
			if p.After = next; next == (store.Cursor{}) {
				break
			}
		}
		if found != 100 || pages != 50 {
			t.Errorf("%d keys on %d pages", found, pages+1)
		}
	})
}

// TestSumsAreThoseOfTheFilteredRows compares the sums with the rows of the lists, and with the
// books.
func TestSumsAreThoseOfTheFilteredRows(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a, other := storetest.Account(t, st, 1_000_000_000), storetest.Account(t, st, 1_000_000_000)
		random := rand.New(rand.NewPCG(1, 2))
		var all []store.Receipt
		for i := range 300 {
			r := receipt([]string{a.ID, a.ID, other.ID}[i%3], fmt.Sprintf("resp_%03d", i), stoa.Credits(1+random.IntN(1_000_000)))
			r.KeyID, r.AgentID, r.EndUser = fmt.Sprint("key_", random.IntN(3)), []string{"", "agt_1", "agt_2"}[random.IntN(3)], []string{"", "eu"}[random.IntN(2)]
			all = append(all, r)
		}
		charge(t, st, all...)
		for _, f := range []store.ReceiptFilter{
			{},
			{KeyID: "key_1"},
			{AgentID: "agt_2", EndUser: "eu"},
			{AgentID: "agt_1", KeyID: "key_0", From: time.Unix(1, 0)},
			{EndUser: "nobody"},
			{To: time.Unix(1, 0)},
		} {
			read(t, st, func(tx *store.Tx) error {
				list, _, err := tx.Books().Receipts(ctx, a.ID, f, store.Page{Limit: 1000})
				if err != nil {
					return err
				}
				var want store.UsageRow
				for _, r := range list {
					want.Calls, want.Amount, want.Usage.InputTokens = want.Calls+1, want.Amount+r.Amount, want.Usage.InputTokens+r.Usage.InputTokens
				}
				got, err := tx.Books().SumReceipts(ctx, a.ID, f)
				if got.Calls != want.Calls || got.Amount != want.Amount || got.Usage.InputTokens != want.Usage.InputTokens {
					t.Errorf("%+v: %d calls, %d, want %d, %d", f, got.Calls, got.Amount, want.Calls, want.Amount)
				}
				if f == (store.ReceiptFilter{}) {
					_, sums, err := tx.Books().Differences(ctx, a.ID)
					if sums.Calls != got.Calls || sums.Charged != got.Amount || sums.Calls != 200 {
						t.Errorf("the books have %d calls and %d, the sums %d and %d", sums.Calls, sums.Charged, got.Calls, got.Amount)
					}
					return err
				}
				return err
			})
		}
	})
}

func TestRequestsAreSummedByGroupAndTime(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a, other := storetest.Account(t, st, 0), storetest.Account(t, st, 0)
		var scratch []any
		start := time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC)
		for i := range 200 {
			write(t, st, func(tx *store.Tx) error {
				tx.Now = start.Add(time.Duration(i) * time.Minute)
				r := stoa.Request{
					ID: fmt.Sprintf("req_%03d", i), AccountID: a.ID, KeyID: fmt.Sprint("key_", i%2), Asked: "auto", Served: []string{"m1", "m2", ""}[i%3], Provider: "p", Status: 200,
					Amount: stoa.Credits(i), Usage: stoa.Usage{InputTokens: 2, OutputTokens: 3}, Duration: time.Duration(i) * time.Millisecond, FirstToken: time.Duration(i/2) * time.Millisecond,
				}
				switch {
				case i%10 == 9:
					r.Status, r.Code = 429, stoa.CodeRateLimit
				case i%50 == 0:
					r.Code = stoa.CodeOverloaded // in the stream
				}
				if i >= 190 {
					r.AccountID = other.ID
				}
				return tx.Operations().InsertRequests(ctx, []stoa.Request{r}, 0, &scratch)
			})
		}
		hour := func(at time.Time) time.Time { return at.Truncate(time.Hour) }
		read(t, st, func(tx *store.Tx) error {
			all, groups, complete, err := tx.Operations().SumRequests(ctx, a.ID, store.RequestFilter{}, "model", hour)
			if err != nil {
				return err
			}
			// 190 rows: 19 were refused, 4 failed in their streams.
			if all.Requests != 190 || all.Errors != 23 || all.Amount != 189*190/2 || all.InputTokens != 380 || all.OutputTokens != 570 || !complete {
				t.Errorf("all: %+v", all)
			}
			// Of 171 that succeeded, 9 of each 10, the 86th and the 163rd.
			if p50, _ := all.Duration(0.5); p50 != 94*time.Millisecond {
				t.Errorf("the median is %v", p50)
			}
			if p95, there := all.Duration(0.95); !there || p95 != 180*time.Millisecond {
				t.Errorf("the 95th percentile is %v", p95)
			}
			var sums store.RequestSums
			for i, g := range groups {
				sums.Requests, sums.Errors, sums.Amount = sums.Requests+g.Requests, sums.Errors+g.Errors, sums.Amount+g.Amount
				if g.From != g.From.Truncate(time.Hour) || g.Group != "m1" && g.Group != "m2" && g.Group != "auto" || i > 0 && g.From.Before(groups[i-1].From) {
					t.Errorf("group %d: %v, %q", i, g.From, g.Group)
				}
			}
			if len(groups) != 4*3 || sums.Requests != all.Requests || sums.Errors != all.Errors || sums.Amount != all.Amount {
				t.Errorf("%d groups have %d requests, %d errors and %d credits", len(groups), sums.Requests, sums.Errors, sums.Amount)
			}
			all, groups, _, err = tx.Operations().SumRequests(ctx, a.ID, store.RequestFilter{KeyID: "key_1", MinStatus: 400, MaxStatus: 499, From: start.Add(100 * time.Minute)}, "", nil)
			if all.Requests != 9 || all.Errors != 9 || len(groups) != 0 {
				t.Errorf("of a key: %+v", all)
			}
			if _, there := all.Duration(0.5); there {
				t.Error("refused requests have a median duration")
			}
			if err != nil {
				return err
			}
			all, groups, _, err = tx.Operations().SumRequests(ctx, "", store.RequestFilter{}, store.ByAccount, nil)
			if all.Requests != 200 || len(groups) != 2 || groups[0].Requests+groups[1].Requests != 200 {
				t.Errorf("of all accounts: %+v", all)
			}
			return err
		})
	})
}

func TestNamesAreThoseOfTheAccount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a, other := storetest.Account(t, st, 0), storetest.Account(t, st, 0)
		mine, theirs := newAgents(t, st, a.ID, "mine", "deleted"), newAgents(t, st, other.ID, "theirs")
		write(t, st, func(tx *store.Tx) error { return tx.Setup().HideAgent(ctx, a.ID, mine[1]) })
		read(t, st, func(tx *store.Tx) error {
			ids := []string{mine[0], "", mine[1], theirs[0], "agt_none", mine[0]}
			names, err := tx.Work().Names(ctx, a.ID, store.NamedAgents, ids)
			if fmt.Sprint(names) != fmt.Sprint(map[string]string{mine[0]: "mine", mine[1]: "deleted"}) {
				t.Errorf("the names are %v", names)
			}
			if err != nil {
				return err
			}
			names, err = tx.Work().Names(ctx, "", store.NamedAgents, ids)
			if len(names) != 3 {
				t.Errorf("an operator sees %v", names)
			}
			if err != nil {
				return err
			}
			names, err = tx.Work().Names(ctx, a.ID, store.NamedAccounts, []string{a.ID, other.ID})
			if len(names) != 1 || names[a.ID] != a.Name {
				t.Errorf("the accounts are %v", names)
			}
			return err
		})
	})
}

func TestListsAreSortedByName(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a := storetest.Account(t, st, 0)
		names := []string{"delta", "alpha", "charlie", "alpha", "bravo", "echo"}
		newAgents(t, st, a.ID, names...)
		newAgents(t, st, storetest.Account(t, st, 0).ID, "aaa")
		slices.Sort(names)
		for _, asc := range []bool{true, false} {
			for _, f := range []store.AgentFilter{{}, {Text: "ALPHA"}} {
				var got []string
				for p := (store.Page{Limit: 2, Asc: asc, ByName: true}); len(got) < 10; {
					var list []stoa.Agent
					read(t, st, func(tx *store.Tx) (err error) {
						list, p.After, err = tx.Setup().Agents(ctx, a.ID, f, p)
						return err
					})
					for _, one := range list {
						got = append(got, one.Name)
					}
					if p.After == (store.Cursor{}) {
						break
					}
				}
				if !asc {
					slices.Reverse(got)
				}
				want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return f.Text != "" && name != "alpha" })
				if !slices.Equal(got, want) {
					t.Errorf("ascending %v, %+v: %q, want %q", asc, f, got, want)
				}
			}
		}
		read(t, st, func(tx *store.Tx) error {
			var got []string
			p := store.Page{Limit: 1, Asc: true, ByName: true}
			for range 2 {
				list, next, err := tx.Books().Accounts(ctx, store.AccountFilter{}, p)
				if err != nil {
					return err
				}
				got, p.After = append(got, list[0].ID), next
			}
			if len(got) != 2 || got[0] == got[1] || p.After != (store.Cursor{}) {
				t.Errorf("the accounts are %q, then %v", got, p.After)
			}
			return nil
		})
	})
}

// A ranked search lists each match once: equal names first, then those that begin with the text, then those with a word
// that does, then the others, and equal ones by age. Objects that are created between two pages change nothing.
func TestASearchBeginsWithTheBestMatches(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a := storetest.Account(t, st, 0)
		for _, name := range []string{
			"Contract reader", "A CONTRACT READER", "Contract reader 1", "Subcontract readers", "contract", "Contract reader", "Old contract-reader",
			"Éclair contract reader", "Contract reader 2", "xcontract readerx contract reader",
		} {
			newAgents(t, st, a.ID, name) // each at its own time
		}
		want := []string{"Contract reader", "Contract reader", "Contract reader 2", "Contract reader 1", "xcontract readerx contract reader", "Éclair contract reader", "A CONTRACT READER", "Subcontract readers"}
		for limit := 1; limit <= 9; limit++ {
			var got []string
			p := store.Page{Limit: limit, Ranked: true}
			for {
				var list []stoa.Agent
				var next store.Cursor
				read(t, st, func(tx *store.Tx) (err error) {
					list, next, err = tx.Setup().Agents(ctx, a.ID, store.AgentFilter{Text: "contract READER"}, p)
					return err
				})
				for _, one := range list {
					got = append(got, one.Name)
				}
				if p.After = next; next == (store.Cursor{}) {
					break
				}
				if limit == 3 && len(got) == 3 {
					newAgents(t, st, a.ID, "Contract reader")
				}
			}
			if limit > 3 && len(got) == len(want)+1 {
				got = got[1:] // the one that was created between pages
			}
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d: %q, want %q", limit, got, want)
			}
		}
	})
}

// More objects than one page looks at are ranked in parts; none is lost or listed twice.
func TestARankedSearchOfManyObjects(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	a := storetest.Account(t, st, 0)
	var names []string
	r := rand.New(rand.NewPCG(7, 7))
	want := 0
	for i := range 4100 {
		name := fmt.Sprintf("other %d", i)
		if r.IntN(20) == 0 {
			name = []string{"needle", "needle " + name, "a needle", "aneedle"}[r.IntN(4)] + fmt.Sprintf(" %d", i)
			want++
		}
		names = append(names, name)
	}
	newAgents(t, st, a.ID, names...)
	seen := map[string]int{}
	pages := 0
	for p := (store.Page{Limit: 7, Ranked: true}); ; pages++ {
		var list []stoa.Agent
		read(t, st, func(tx *store.Tx) (err error) {
			list, p.After, err = tx.Setup().Agents(ctx, a.ID, store.AgentFilter{Text: "needle"}, p)
			return err
		})
		for _, one := range list {
			seen[one.ID]++
		}
		if p.After == (store.Cursor{}) {
			break
		}
	}
	if len(seen) != want || slices.Max(slices.Collect(maps.Values(seen))) != 1 {
		t.Errorf("%d of %d are listed in %d pages", len(seen), want, pages)
	}
}

func TestRanksOfMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, text string
		want        int
	}{
		{"reader", "reader", 0},
		{"reader 2", "reader", 1},
		{"a reader", "reader", 2},
		{"xreader (reader)", "reader", 2},
		{"xreader", "reader", 3},
		{"writer", "reader", 4},
		{"абб", "б", 3},
		{"аб б", "б", 2},
		{"aaa", "aa", 1},
		{"baaa", "aa", 3}, // a letter of several bytes before the second match
	} {
		if got := store.Rank(c.value, c.text); got != c.want {
			t.Errorf("%q in %q: %d, want %d", c.text, c.value, got, c.want)
		}
	}
}
