package billing_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stoa/internal/billing"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/store/storetest"
)

// crashEnv makes the test binary a process to be killed. Its value is the data
// directory, the PostgreSQL address (one of both empty), the account and the
// number of this life, separated by |.
const crashEnv = "STOA_TEST_CRASH"

func TestMain(m *testing.M) {
	if v := os.Getenv(crashEnv); v != "" {
		liveUntilKilled(strings.Split(v, "|"))
		return
	}
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.checks" })
	if !chosen { // each check is many commits; -rapid.checks=1000 for a long run
		flag.Set("rapid.checks", "40")
	}
	goleak.VerifyTestMain(m)
}

// liveUntilKilled charges calls as fast as it can and says on its output which
// ones it was told are committed.
func liveUntilKilled(args []string) {
	ctx := context.Background()
	st, err := store.Open(ctx, store.Config{Dir: args[0], PostgresURL: args[1]})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	l := billing.New(st, billing.Config{})
	go l.Run(ctx)
	c := caller(stoa.Account{ID: args[2]})
	var life int
	fmt.Sscan(args[3], &life)
	fmt.Println("ready")
	for worker := range 8 {
		go func() {
			for n := 0; ; n++ {
				// Every third call repeats one of the life before, which may or may not
				// have been charged there.
				id := fmt.Sprintf("resp_%d_%d_%d", life, worker, n)
				if n%3 == 0 && life > 0 {
					id = fmt.Sprintf("resp_%d_%d_%d", life-1, worker, n+1)
				}
				h, err := l.Hold(ctx, c, 1, 100)
				if err != nil {
					fmt.Println("error", err)
					return
				}
				if n%5 == 0 {
					h.Release()
					continue
				}
				var also []func(context.Context, *store.Tx) error
				if n%2 == 0 {
					also = append(also, func(ctx context.Context, tx *store.Tx) error {
						k := store.IdempotencyKey{AccountID: args[2], Method: "POST", Path: "/", Key: id}
						claim, _, _, err := tx.ClaimKey(ctx, k, "h")
						if err != nil {
							return err
						}
						return tx.FinishClaim(ctx, claim, store.Reply{Ref: id, Status: 200})
					})
				}
				charged, err := h.Settle(ctx, charge(id, stoa.Credits(1+n%90)), also...)
				if err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Printf("charged %s %d\n", id, charged.Amount)
			}
		}()
	}
	select {}
}

// TestKilledAtAnyMoment kills a process that charges calls, at random moments,
// and looks at what is left: each charge that it was told of is there, none
// twice, what committed with a charge is there when the charge is, and the
// books are in order.
func TestKilledAtAnyMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	storetest.Each(t, func(t *testing.T, home storetest.Home) {
		ctx := context.Background()
		st := home.Open()
		a := storetest.Account(t, st, 1_000_000*stoa.Credit)
		st.Close()
		told := map[string]stoa.Credits{}
		const lives = 20
		for life := range lives {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%s|%d", crashEnv, home.Config.Dir, home.Config.PostgresURL, a.ID, life))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			ready := make(chan struct{})
			wg.Go(func() {
				lines := bufio.NewScanner(out)
				for lines.Scan() {
					var id string
					var amount stoa.Credits
					switch line := lines.Text(); {
					case line == "ready":
						close(ready)
					case strings.HasPrefix(line, "error"):
						t.Errorf("life %d: %s", life, line)
						select {
						case <-ready:
						default:
							close(ready)
						}
					default:
						// A line that the kill has cut off tells nothing.
						if n, _ := fmt.Sscanf(line+"\n", "charged %s %d\n", &id, &amount); n == 2 && lines.Err() == nil {
							if first, ok := told[id]; ok && first != amount {
								t.Errorf("%s was charged %d, later %d", id, first, amount)
							}
							told[id] = amount
						}
					}
				}
			})
			<-ready
			<-time.After(time.Duration(rand.Int64N(int64(120 * time.Millisecond))))
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			cmd.Wait()
			if t.Failed() {
				return
			}
		}
		if len(told) < lives {
			t.Fatalf("only %d charges in %d lives", len(told), lives)
		}
		st = reopen(t, home)
		l := billing.New(st, billing.Config{})
		wantBooksInOrder(t, l)
		b, err := l.Balance(ctx, a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if b.Held != 0 || b.Available+b.Spent != b.Granted {
			t.Errorf("balance %+v", b)
		}
		charged := 0
		if err := st.Read(ctx, func(tx *store.Tx) error {
			for id, amount := range told {
				r, err := tx.Receipt(ctx, a.ID, id)
				if err != nil {
					return fmt.Errorf("%s was told to be charged: %w", id, err)
				}
				if r.Amount != amount {
					t.Errorf("%s was told to be %d and is %d", id, amount, r.Amount)
				}
			}
			var orphans int
			if _, err := tx.Get(ctx, `SELECT COUNT(*) FROM idempotency i WHERE NOT EXISTS (SELECT 1 FROM charges c WHERE c.id = i.ref)`, nil, &orphans); err != nil {
				return err
			}
			if orphans > 0 {
				t.Errorf("%d replies without their charge", orphans)
			}
			_, err := tx.Get(ctx, `SELECT COUNT(*) FROM charges`, nil, &charged)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d charges were told of, %d are there, after %d kills", len(told), charged, lives)
	})
}

// reopen opens the store after a kill. PostgreSQL needs a moment to notice that
// the process with the lock is gone.
func reopen(t *testing.T, home storetest.Home) *store.Store {
	t.Helper()
	for begin := time.Now(); ; {
		st, err := store.Open(context.Background(), home.Config)
		if err == nil {
			t.Cleanup(func() { st.Close() })
			return st
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestBrokenConnectionsLoseAndDoubleNothing cuts the connections to PostgreSQL
// again and again, in the midst of commits too.
func TestBrokenConnectionsLoseAndDoubleNothing(t *testing.T) {
	home := storetest.Postgres(t)
	home.Config.Connections = 4
	st := home.Open()
	l, _ := start(t, st, billing.Config{})
	const granted = 1_000_000
	a := storetest.Account(t, st, granted)
	ctx := context.Background()
	done := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	told := map[string]bool{}
	failed := 0
	for worker := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				id := fmt.Sprintf("resp_%d_%d", worker, n)
				h, err := l.Hold(ctx, caller(a), 1, 20)
				if err != nil {
					continue // the lease could not be read; nothing was promised
				}
				_, err = h.Settle(ctx, charge(id, 3))
				h.Release()
				mu.Lock()
				if err == nil {
					told[id] = true
				} else {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	// The lock's connection is the one to leave alone.
	const cut = `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity a WHERE application_name = 'stoa' AND pid <> pg_backend_pid()
		AND EXISTS (SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid = a.pid AND c.relnamespace = current_schema()::regnamespace)`
	cuts := 0
	for begin := time.Now(); time.Since(begin) < 1500*time.Millisecond; {
		if err := st.Write(ctx, func(tx *store.Tx) error {
			n := 0
			_, err := tx.Get(ctx, cut, nil, &n)
			cuts += n
			return err
		}); err != nil {
			t.Logf("cut: %v", err)
		}
		<-time.After(5 * time.Millisecond)
	}
	close(done)
	wg.Wait()
	t.Logf("%d connections were cut; %d charges were told of, %d failed", cuts, len(told), failed)
	if cuts == 0 || len(told) == 0 {
		t.Fatal("nothing was tried")
	}
	wantBooksInOrder(t, l)
	b, err := l.Balance(ctx, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if b.Held != 0 || b.Spent < stoa.Credits(3*len(told)) || b.Spent > stoa.Credits(3*(len(told)+failed)) {
		t.Errorf("balance %+v after %d charges", b, len(told))
	}
	if err := st.Read(ctx, func(tx *store.Tx) error {
		for id := range told {
			if _, err := tx.Receipt(ctx, a.ID, id); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	// Memory and rows agree: all that is left can be held, and not more.
	h, err := l.Hold(ctx, caller(a), b.Available, granted)
	if err != nil || h.Amount() != b.Available {
		t.Errorf("held %v of %d: %v", h, b.Available, err)
	}
}
