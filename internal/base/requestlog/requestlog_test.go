package requestlog

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// newLog returns a log over a new store, with the text of its log lines.
func newLog(t *testing.T, st *store.Store, most int) (*Log, *strings.Builder) {
	t.Helper()
	var lines strings.Builder
	return New(st, func() (bool, int) { return true, most }, slog.New(slog.NewTextHandler(&lines, nil))), &lines
}

// row returns the outcome of a request of an account.
func row(account string) *stoa.Request {
	return &stoa.Request{ID: stoa.NewID("req"), Route: "POST /api/v1/responses", AccountID: account, KeyID: "key_a", Status: 200, StartedAt: time.Now()}
}

// kept returns the rows of an account, oldest first.
func kept(t *testing.T, st *store.Store, account string) (rows []store.RequestRow) {
	t.Helper()
	err := st.Read(t.Context(), func(tx *store.Tx) (err error) {
		rows, _, err = tx.Operations().Requests(t.Context(), account, store.RequestFilter{}, store.Page{Limit: 10_000, Asc: true})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func flush(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAFloodLeavesPlaceForOthers fills the queue with the rows of one account and
// adds rows of others.
func TestAFloodLeavesPlaceForOthers(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, lines := newLog(t, st, 0)
	for range 2 * queued {
		l.Add(row("acc_flood"))
	}
	for i := range 20 {
		for range 20 {
			l.Add(row(fmt.Sprint("acc_", i)))
		}
	}
	if d := l.unnoted("acc_flood"); d.Count != 2*queued-queued/2 || d.First.IsZero() || d.Last.Before(d.First) {
		t.Errorf("dropped of the flood: %+v", d)
	}
	if d := l.unnoted("acc_1"); d.Count != 0 {
		t.Errorf("dropped of another account: %+v", d)
	}
	flush(t, l)
	if n := len(kept(t, st, "acc_flood")); n != queued/2 {
		t.Errorf("%d rows of the flood are kept", n)
	}
	for i := range 20 {
		if n := len(kept(t, st, fmt.Sprint("acc_", i))); n != 20 {
			t.Errorf("%d rows of acc_%d are kept", n, i)
		}
	}
	if text := lines.String(); strings.Count(text, "dropped") != 1 || !strings.Contains(text, fmt.Sprintf("requests=%d", 2*queued-queued/2)) || !strings.Contains(text, "since=") {
		t.Errorf("the log says: %s", text)
	}
	if len(l.by) != 0 || l.waiting != 0 {
		t.Errorf("%d accounts wait with %d rows", len(l.by), l.waiting)
	}
}

// TestTheOldestRowsMakePlace adds more rows of an account than are stored.
func TestTheOldestRowsMakePlace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := newLog(t, st, 200)
		var ids []string
		for i := range 700 {
			r := row("acc_a")
			ids = append(ids, r.ID)
			l.Add(r)
			if i%300 == 0 {
				l.Add(row("acc_b"))
				flush(t, l)
			}
		}
		flush(t, l)
		rows := kept(t, st, "acc_a")
		if len(rows) != 200 || rows[0].ID != ids[500] || rows[199].ID != ids[699] || len(kept(t, st, "acc_b")) != 3 {
			t.Errorf("%d rows are kept, from %s", len(rows), rows[0].ID)
		}
	})
}

// TestRefusalsDisplaceNoOtherRows adds many more refused calls of an account than are stored:
// anyone with a key without permissions can send them for free.
func TestRefusalsDisplaceNoOtherRows(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		l, _ := newLog(t, st, 200)
		good := map[string]bool{}
		add := func(n int) {
			for range n {
				r := row("acc_a")
				good[r.ID] = true
				l.Add(r)
			}
		}
		add(5)
		last := ""
		for i := range 1500 {
			r := row("acc_a")
			r.Status, r.Code = 403, stoa.CodeScope
			if i%3 == 0 {
				r.Status, r.Code, r.Replayed = 200, "", true
			}
			last = r.ID
			l.Add(r)
			if i%400 == 0 {
				add(1)
				flush(t, l)
			}
		}
		flush(t, l)
		rows, refused := kept(t, st, "acc_a"), 0
		for _, r := range rows {
			if !good[r.ID] {
				refused++
			}
			delete(good, r.ID)
		}
		if len(good) > 0 || refused != 20 || rows[len(rows)-1].ID != last {
			t.Errorf("%d other rows are gone, %d refused ones are kept", len(good), refused)
		}
		add(300) // others displace them
		flush(t, l)
		if rows := kept(t, st, "acc_a"); len(rows) != 200 || !good[rows[0].ID] {
			t.Errorf("%d rows are kept", len(rows))
		}
	})
}

// TestRefusalsLeaveSlotsOfTheQueue fills the slots of an account with refused calls before
// they can be written.
func TestRefusalsLeaveSlotsOfTheQueue(t *testing.T) {
	t.Parallel()
	l, _ := newLog(t, storetest.New(t).Open(), 0)
	for range queued {
		r := row("acc_a")
		r.Status = 429
		l.Add(r)
	}
	before := l.unnoted("acc_a").Count
	for range queued / 6 {
		l.Add(row("acc_a"))
	}
	if n := l.unnoted("acc_a").Count - before; n != 0 {
		t.Errorf("%d other rows are dropped", n)
	}
}

// TestRowsWaitForTheStore lets a transaction fail: a transient failure loses nothing.
func TestRowsWaitForTheStore(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, _ := newLog(t, st, 0)
	for range 300 {
		l.Add(row("acc_a"))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Flush(gone); err == nil {
		t.Fatal("a flush without time succeeded")
	}
	flush(t, l)
	if n := len(kept(t, st, "acc_a")); n != 300 || l.unnoted("").Count != 0 {
		t.Errorf("%d rows are kept, %+v are dropped", n, l.unnoted(""))
	}
}

// TestACommittedBatchIsNotWrittenAgain repeats a batch whose commit was not answered.
func TestACommittedBatchIsNotWrittenAgain(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, _ := newLog(t, st, 0)
	r := row("acc_a")
	l.Add(r)
	flush(t, l)
	l.rows[0], l.n, l.doubt = *r, 1, true
	l.noting = map[string]store.Dropped{"acc_a": {Count: 7, First: r.StartedAt, Last: r.StartedAt}}
	l.Add(row("acc_a"))
	flush(t, l)
	if n := len(kept(t, st, "acc_a")); n != 2 {
		t.Errorf("%d rows", n)
	}
	if err := st.Read(t.Context(), func(tx *store.Tx) error {
		if d, err := tx.Operations().Dropped(t.Context(), "acc_a"); err != nil || d.Count != 0 {
			t.Errorf("dropped rows are noted twice: %+v, %v", d, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestADroppedRowIsCountedOnce reads the counts of dropped rows while they move from memory
// into the store.
func TestADroppedRowIsCountedOnce(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, _ := newLog(t, st, 0)
	for range 50 {
		for range queued/2 + 7 {
			l.Add(row("acc_flood"))
		}
		flushed := make(chan error, 1)
		before := int64(0)
		for done := false; !done; {
			err := l.Dropped("acc_flood", func(d store.Dropped) error {
				if before == 0 {
					go func() { flushed <- l.Flush(t.Context()) }()
				}
				return st.Read(t.Context(), func(tx *store.Tx) error {
					noted, err := tx.Operations().Dropped(t.Context(), "acc_flood")
					noted.Add(d)
					if before == 0 {
						before = noted.Count
					} else if noted.Count != before {
						t.Fatalf("%d rows are dropped, then %d", before, noted.Count)
					}
					return err
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-flushed:
				if done = true; err != nil {
					t.Fatal(err)
				}
			default:
			}
		}
	}
}

// TestABatchThatIsRefusedIsDropped writes a row that the store refuses.
func TestABatchThatIsRefusedIsDropped(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, lines := newLog(t, st, 0)
	r := row("acc_a")
	l.Add(r)
	l.Add(r) // the id exists already
	if err := l.Flush(t.Context()); err == nil {
		t.Fatal("the store took a row twice")
	}
	l.Add(row("acc_a"))
	flush(t, l)
	if n := len(kept(t, st, "acc_a")); n != 1 || !strings.Contains(lines.String(), "requests=2") {
		t.Errorf("%d rows are kept; %s", n, lines)
	}
	if err := st.Read(t.Context(), func(tx *store.Tx) error {
		if d, err := tx.Operations().Dropped(t.Context(), ""); err != nil || d.Count != 2 {
			t.Errorf("%+v, %v", d, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestTheRestIsWrittenAtTheEnd adds rows and ends.
func TestTheRestIsWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	l, _ := newLog(t, st, 0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	for range 3*batch + 5 {
		l.Add(row("acc_a"))
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := len(kept(t, st, "acc_a")); n != 3*batch+5 {
		t.Errorf("%d rows are kept", n)
	}
}

// TestOnlyModelCallsOfAccountsAreKept adds other requests.
func TestOnlyModelCallsOfAccountsAreKept(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	on := true
	l := New(st, func() (bool, int) { return on, 0 }, slog.New(slog.DiscardHandler))
	other, nobody := row("acc_a"), row("")
	other.Route = "GET /api/v1/credits"
	l.Add(other)
	l.Add(nobody)
	on = false
	l.Add(row("acc_a"))
	if l.ring != nil || l.waiting != 0 {
		t.Errorf("%d rows wait", l.waiting)
	}
}

// TestNamesAreNoTexts checks which parts of a caller's name fields are stored.
func TestNamesAreNoTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"auto": "auto", "vendor/model-1.5:free@x": "vendor/model-1.5:free@x", "input[3].content": "input[3].content", "": "",
		"a word": "", "naïve": "", "x\n": "", strings.Repeat("x", 129): "",
	} {
		if got := name(text); got != want {
			t.Errorf("%q is kept as %q, want %q", text, got, want)
		}
	}
}

// TestAddingARowAllocatesNothing measures the part of the log in the path of a call.
func TestAddingARowAllocatesNothing(t *testing.T) {
	l, _ := newLog(t, nil, 0)
	r := row("acc_a")
	l.Add(r)
	if n := testing.AllocsPerRun(queued, func() {
		l.Add(r)
		l.mu.Lock()
		l.waiting, l.first = 0, (l.first+1)%len(l.ring)
		delete(l.by, "acc_a")
		l.mu.Unlock()
	}); n != 0 {
		t.Errorf("a row takes %v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	l := New(nil, func() (bool, int) { return true, 0 }, slog.New(slog.DiscardHandler))
	r := row("acc_a")
	b.ReportAllocs()
	for b.Loop() {
		l.Add(r)
		l.waiting, l.first = 0, (l.first+1)%len(l.ring)
		delete(l.by, "acc_a")
	}
}

// BenchmarkWrite writes batches; an operation is a row.
func BenchmarkWrite(b *testing.B) {
	st := storetest.New(b).Open()
	l := New(st, func() (bool, int) { return true, 100_000 }, slog.New(slog.DiscardHandler))
	r := row("acc_a")
	r.Asked, r.Served, r.Provider, r.ResponseID, r.Attempts = "auto", "beta-3.8-flash", "sandbox", stoa.NewID("resp"), 1
	r.Usage = stoa.Usage{InputTokens: 1200, OutputTokens: 300}
	r.Amount, r.Duration, r.FirstToken, r.Charged, r.Stream = 4321, 900*time.Millisecond, 300*time.Millisecond, true, true
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		one := *r
		one.ID = stoa.NewID("req")
		l.Add(&one)
		if i%batch == batch-1 {
			if err := l.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
}
