package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/audit"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// auditExport returns the export of a chain.
func auditExport(t *testing.T, st *store.Store, account string) string {
	t.Helper()
	var out strings.Builder
	read(t, st, func(tx *store.Tx) error {
		from, rows, err := tx.People().AuditRows(ctx, account, 0, 10_000)
		lines := json.NewEncoder(&out)
		if from.Seq > 0 {
			_ = lines.Encode(map[string]any{"checkpoint": from})
		}
		for _, e := range rows {
			_ = lines.Encode(e)
		}
		return err
	})
	return out.String()
}

func verified(t *testing.T, st *store.Store, account string) audit.Verified {
	t.Helper()
	v, err := audit.Verify(strings.NewReader(auditExport(t, st, account)), "")
	if err != nil {
		t.Error(err)
	}
	return v
}

// TestAChainHasNoFork appends rows to two chains with eight writers, on PostgreSQL of two nodes,
// among transactions that are rolled back.
func TestAChainHasNoFork(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		nodes := []*store.Store{database.Open()}
		if nodes[0].Postgres() {
			nodes = append(nodes, database.Open())
		}
		failure := errors.New("rolled back")
		const writers, rows = 8, 25
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				st := nodes[w%len(nodes)]
				for range rows {
					err := st.Write(ctx, func(tx *store.Tx) error {
						for _, account := range []string{"acc_2", "acc_1"} { // the order of the locks is that of the accounts
							tx.Audit(audit.Entry{AccountID: account, Actor: fmt.Sprint("key_", w), Action: "a", Object: "o", After: "{}"})
						}
						err := tx.Savepoint(ctx, func() error {
							tx.Audit(audit.Entry{AccountID: "acc_1", Actor: "none"})
							return failure
						})
						if !errors.Is(err, failure) {
							return err
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					if err := st.Write(ctx, func(tx *store.Tx) error {
						tx.Audit(audit.Entry{AccountID: "acc_1", Actor: "none"})
						return failure
					}); !errors.Is(err, failure) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for _, account := range []string{"acc_1", "acc_2"} {
			if v := verified(t, nodes[0], account); v.First != 1 || v.Last != writers*rows {
				t.Errorf("%s has the entries %d to %d, want 1 to %d", account, v.First, v.Last, writers*rows)
			}
		}
	})
}

// TestAPurgedChainIsVerified purges the older half of a chain, and then all of it.
func TestAPurgedChainIsVerified(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	now := time.Now()
	add := func(at time.Time) {
		write(t, st, func(tx *store.Tx) error {
			tx.Now = at
			tx.Audit(audit.Entry{AccountID: "acc_1", Actor: "key_1", Action: "a", Object: "o", After: `{"a":"é<>"}`})
			return nil
		})
	}
	for i := range 10 {
		add(now.Add(time.Duration(i-200) * 24 * time.Hour))
	}
	for range 5 {
		add(now)
	}
	add(now.Add(-time.Hour)) // of a node whose clock is behind
	before := now.Add(-100 * 24 * time.Hour)
	purge := func(before time.Time) (n int64) {
		write(t, st, func(tx *store.Tx) (err error) {
			chains, err := tx.People().AccountsWithAudit(ctx, before, "", 10)
			if err == nil && len(chains) > 0 {
				n, err = tx.People().PurgeAudit(ctx, chains[0], before, 7)
			}
			return err
		})
		return n
	}
	for _, want := range []int64{7, 3, 0} {
		if n := purge(before); n != want {
			t.Errorf("%d rows were purged, want %d", n, want)
		}
		if v := verified(t, st, "acc_1"); v.Last != 16 || !v.Purged {
			t.Errorf("then the chain is %+v", v)
		}
	}
	err := st.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.People().PurgeAudit(ctx, "acc_1", now.Add(-80*24*time.Hour), 7)
		return err
	})
	if stoa.CodeOf(err) != stoa.CodeInvalidValue {
		t.Errorf("a short retention: %v", err)
	}
	add(now)
	if v := verified(t, st, "acc_1"); v.First != 11 || v.Last != 17 {
		t.Errorf("at the end the chain is %+v", v)
	}
}

// TestAChainIsAnchoredDaily anchors a chain only if it has changed, and once a day.
func TestAChainIsAnchoredDaily(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	now := time.Now()
	anchor := func(at time.Time) (c audit.Checkpoint, isNew bool) {
		write(t, st, func(tx *store.Tx) (err error) {
			due, err := tx.People().AuditsToAnchor(ctx, at, "", 10)
			if err != nil {
				return err
			}
			if c, isNew, err = tx.People().AnchorAudit(ctx, "acc_1", at); isNew != (len(due) == 1) {
				t.Errorf("%v are due, and it is %v", due, isNew)
			}
			return err
		})
		return c, isNew
	}
	for _, step := range []struct {
		after  time.Duration
		change bool
		want   int64
	}{{0, true, 0}, {25 * time.Hour, false, 1}, {26 * time.Hour, true, 0}, {50 * time.Hour, false, 2}, {100 * time.Hour, false, 0}, {101 * time.Hour, true, 3}} {
		if step.change {
			write(t, st, func(tx *store.Tx) error {
				tx.Audit(audit.Entry{AccountID: "acc_1"})
				return nil
			})
		}
		c, isNew := anchor(now.Add(step.after))
		if c.Seq != step.want || isNew != (step.want > 0) || isNew && c.Hash != verified(t, st, "acc_1").Hash {
			t.Errorf("after %v the anchor is %+v, want %d", step.after, c, step.want)
		}
	}
}
