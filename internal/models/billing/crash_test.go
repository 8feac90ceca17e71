package billing_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/apitest/plans"
	"stoa/internal/testkit/storetest"
)

// crashEnv is the variable that turns the test binary into the process to be killed. Its
// value contains the data directory, the PostgreSQL address (one of them empty), the account
// and the number of the process, separated by |.
const crashEnv = "STOA_TEST_CRASH"

func TestMain(m *testing.M) {
	if v := os.Getenv(crashEnv); v != "" {
		chargeUntilKilled(strings.Split(v, "|"))
		return
	}
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.checks" })
	if !chosen { // each check makes many commits; -rapid.checks=1000 for a long run
		flag.Set("rapid.checks", "40")
	}
	goleak.VerifyTestMain(plans.Checked(storetest.Both(m)))
}

// chargeUntilKilled charges calls as fast as it can and prints each acknowledged charge.
func chargeUntilKilled(args []string) {
	ctx := context.Background()
	st, err := store.Open(ctx, store.Config{Dir: args[0], PostgresURL: args[1]})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	l := billing.New(st, billing.Config{})
	go l.Run(ctx)
	c := caller(stoa.Account{ID: args[2]})
	var process int
	fmt.Sscan(args[3], &process)
	for worker := range 8 {
		go func() {
			for n := 0; ; n++ {
				// Every third call repeats one of the previous process, which may or may not
				// have charged it.
				id := fmt.Sprintf("resp_%d_%d_%d", process, worker, n)
				if n%3 == 0 && process > 0 {
					id = fmt.Sprintf("resp_%d_%d_%d", process-1, worker, n+1)
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

// TestKilledAtAnyMoment kills a process that charges calls after a random number
// of them and checks the rows: each acknowledged charge is stored, none twice,
// what commits with a charge is stored exactly when the charge is, and the books
// are in order.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		ctx := context.Background()
		st := database.Open()
		a := storetest.Account(t, st, 1_000_000*stoa.Credit)
		st.Close()
		acked := map[string]stoa.Credits{}
		const kills = 20
		for process := range kills {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%s|%d", crashEnv, database.Config.Dir, database.Config.PostgresURL, a.ID, process))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			ready := make(chan struct{}) // closed after the wanted number of charges, or an error
			left := 1 + rand.IntN(200)
			wg.Go(func() {
				defer func() {
					if left > 0 {
						close(ready)
					}
				}()
				lines := bufio.NewScanner(out)
				for lines.Scan() {
					var id string
					var amount stoa.Credits
					switch line := lines.Text(); {
					case strings.HasPrefix(line, "error"):
						t.Errorf("process %d: %s", process, line)
						return
					default:
						if left--; left == 0 {
							close(ready)
						}
						// A line that the kill has truncated does not count.
						if n, _ := fmt.Sscanf(line+"\n", "charged %s %d\n", &id, &amount); n == 2 && lines.Err() == nil {
							if first, ok := acked[id]; ok && first != amount {
								t.Errorf("%s was charged %d, later %d", id, first, amount)
							}
							acked[id] = amount
						}
					}
				}
			})
			<-ready
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			cmd.Wait()
			database.Expire()
			if t.Failed() {
				return
			}
		}
		if len(acked) < kills {
			t.Fatalf("only %d charges in %d processes", len(acked), kills)
		}
		st = reopen(t, database)
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
			for id, amount := range acked {
				r, err := tx.Books().Receipt(ctx, a.ID, id)
				if err != nil {
					return fmt.Errorf("%s was acknowledged: %w", id, err)
				}
				if r.Amount != amount {
					t.Errorf("%s was acknowledged as %d and is %d", id, amount, r.Amount)
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
		t.Logf("%d charges were acknowledged, %d are stored, after %d kills", len(acked), charged, kills)
	})
}

// reopen opens the store after a kill, and declares the killed node dead.
func reopen(t *testing.T, database storetest.Database) *store.Store {
	t.Helper()
	database.Expire()
	return database.Open()
}

// TestBrokenConnectionsLoseNoCharge terminates the connections to PostgreSQL
// again and again, during commits too; no charge is lost or stored twice.
func TestBrokenConnectionsLoseNoCharge(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	database.Config.Connections = 4
	st := database.Open()
	l, _ := start(t, st, billing.Config{})
	const granted = 1_000_000
	a := storetest.Account(t, st, granted)
	ctx := context.Background()
	done := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[string]bool{}
	failed := 0
	settled := make(chan struct{}, 1) // a call has ended since the last receive
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
					acked[id] = true
				} else {
					failed++
				}
				mu.Unlock()
				select {
				case settled <- struct{}{}:
				default:
				}
			}
		})
	}
	// The connection of the node is left alone.
	const cut = `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity a WHERE application_name = 'stoa' AND datname = current_database() AND pid <> pg_backend_pid()
		AND EXISTS (SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid = a.pid AND c.relnamespace = current_schema()::regnamespace)`
	cuts := 0
	for range 150 {
		if err := st.Write(ctx, func(tx *store.Tx) error {
			n := 0
			_, err := tx.Get(ctx, cut, nil, &n)
			cuts += n
			return err
		}); err != nil {
			t.Logf("cut: %v", err)
		}
		<-settled
	}
	close(done)
	wg.Wait()
	t.Logf("%d connections were cut; %d charges were acknowledged, %d failed", cuts, len(acked), failed)
	if cuts == 0 || len(acked) == 0 {
		t.Fatal("nothing was tried")
	}
	wantBooksInOrder(t, l)
	b, err := l.Balance(ctx, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if b.Held != 0 || b.Spent < stoa.Credits(3*len(acked)) || b.Spent > stoa.Credits(3*(len(acked)+failed)) {
		t.Errorf("balance %+v after %d charges", b, len(acked))
	}
	if err := st.Read(ctx, func(tx *store.Tx) error {
		for id := range acked {
			if _, err := tx.Books().Receipt(ctx, a.ID, id); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	// Memory and rows agree: exactly the rest of the balance can be held. After the last cut
	// the store refuses holds until one of its probes, at most four a second, has committed;
	// the caller gets an error that says to repeat the call.
	h, err := l.Hold(ctx, caller(a), b.Available, granted)
	for stoa.CodeOf(err) == stoa.CodeOverloaded {
		runtime.Gosched()
		h, err = l.Hold(ctx, caller(a), b.Available, granted)
	}
	if err != nil || h.Amount() != b.Available {
		t.Errorf("held %v of %d: %v", h, b.Available, err)
	}
}
