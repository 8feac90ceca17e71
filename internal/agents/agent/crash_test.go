package agent_test

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// crashDir marks a child process: it is the directory of its store and of the journal.
// crashPostgres is the address of its store, if that is elsewhere.
const (
	crashDir      = "STOA_RUNNER_CRASH_DIR"
	crashPostgres = "STOA_RUNNER_CRASH_POSTGRES"
)

var crashSessions = flag.Int("crash.sessions", 80, "how many sessions the crash test runs")

// journal is the file in which the children record the calls of their model, outside of the
// store: it is the test's own record of the events.
const journal = "journal"

// crashModel answers a step: two steps with a tool, then the answer. It writes each call to
// the journal and to the parent process when it begins; the store contains the recorded
// steps.
func crashModel(log io.Writer) sessiontest.Script {
	var mu sync.Mutex
	return func(ctx context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		mu.Lock()
		fmt.Fprintf(log, "%s %d\n", call.Messages[0].Text(), len(call.Messages)) // one write: it is either complete or missing
		fmt.Println("call")
		mu.Unlock()
		for range rand.IntN(20_000) { // so that a kill may come between any two lines
			if runtime.Gosched(); ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
		}
		if len(call.Messages) < 5 {
			sessiontest.Say(yield, "one moment", stoa.ToolCall{ID: fmt.Sprint(len(call.Messages)), Name: "drive_list", Arguments: "{}"},
				stoa.ToolCall{ID: "w" + fmt.Sprint(len(call.Messages)), Name: "drive_write", Arguments: fmt.Sprintf(`{"path":"%s/%d.md","content":"x"}`, strings.ReplaceAll(call.Messages[0].Text(), " ", "-"), len(call.Messages))})
			return
		}
		sessiontest.Say(yield, "the answer to "+call.Messages[0].Text())
	}
}

// crashChild is a process that runs the sessions of a store until it is killed,
// and prints "done" when there is nothing left to do.
func crashChild(dir string) int {
	flag.Parse()
	log, err := os.OpenFile(filepath.Join(dir, journal), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	model := crashModel(log)
	if os.Getenv(crashTools) != "" {
		model = crashToolModel
	}
	if os.Getenv(crashServers) != "" {
		model = crashServerModel
	}
	if os.Getenv(crashSummaries) != "" {
		model = crashSummaryModel
	}
	h, err := sessiontest.Open(store.Config{Dir: dir, PostgresURL: os.Getenv(crashPostgres)}, model)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	cfg := h.Config()
	cfg.KnowledgeSize = 1
	if os.Getenv(crashSummaries) != "" {
		cfg.CompactAt = 70
		h.Gateway.Catalog.Store(narrowCatalog())
	}
	if os.Getenv(crashServers) != "" {
		cfg.Workers = 4 // so that a process makes progress with each of its sessions
	}
	r := sessiontest.NewService(cfg)
	ctx := context.Background()
	if err := r.Recover(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	go r.Run(ctx)
	if account := os.Getenv(crashTools); account != "" {
		go crashExecutor(ctx, r, account)
	}
	var all []store.Ref
	var agents []string
	err = h.Store.Read(ctx, func(tx *store.Tx) error {
		return tx.Query(ctx, func(rows *sql.Rows) error {
			var ref store.Ref
			var agent string
			err := rows.Scan(&ref.AccountID, &agent, &ref.ID)
			all, agents = append(all, ref), append(agents, agent)
			return err
		}, `SELECT account_id, agent_id, id FROM sessions`)
	})
	for i, ref := range all {
		for _, failed := range r.Events(ctx, session.EventsRequest{AccountID: ref.AccountID, AgentID: agents[i], SessionID: ref.ID, ThroughTools: true}) {
			err = cmp.Or(err, failed)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("done")
	<-ctx.Done() // the parent kills this process
	return 0
}

// startMany starts sessions of an agent, whose messages are numbers starting with first.
func startMany(h *sessiontest.Fixture, r *sessiontest.Service, a stoa.Agent, first, n int) (all []stoa.Session) {
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		all = nil
		for i := range n {
			s, err := r.Sessions.Start(ctx, tx, h.Caller(), session.StartRequest{AgentID: a.ID, Message: fmt.Sprintf("session %d", first+i)})
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		return nil
	})
	return all
}

// Processes are killed at random moments until all sessions have stopped. In the end every
// one has stopped once, is charged once for each step, has written each of its files, and no
// recorded step was repeated.
func TestKilledAtAnyMomentEverySessionStillStopsOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	home := storetest.New(t)
	dir := cmp.Or(home.Config.Dir, t.TempDir())
	h, err := sessiontest.Open(home.Config, sessiontest.Script(nil))
	if err != nil {
		t.Fatal(err)
	}
	h.T = t
	h.Account = storetest.Account(t, h.Store, 1_000_000*stoa.Credit)
	a := h.Agent(func(a *stoa.Agent) { a.DriveAccess = stoa.DriveReadWrite })
	r := h.Service(func(c *sessiontest.Config) { c.Limits.Queued = *crashSessions + 1 })
	all := startMany(h, r, a, 0, *crashSessions)
	account := h.Account
	h.Close()

	kills := 0
	limit, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for done := false; !done; {
		if limit.Err() != nil {
			t.Fatal("the sessions do not come to an end")
		}
		done = runAndKill(limit, t, home, dir, rand.IntN(60), "", nil)
		if !done {
			kills++
		}
	}
	t.Logf("%d sessions, %d kills", len(all), kills)

	if h, err = sessiontest.Open(home.Config, sessiontest.Script(nil)); err != nil {
		t.Fatal(err)
	}
	h.T, h.Account = t, account
	defer h.Close()
	r = h.Service()
	lost := 0
	steps := 0
	for i, s := range all {
		got, err := r.Get(t.Context(), account.ID, a.ID, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case got.Status == stoa.SessionFailed && got.Turn.Reason == "worker_lost":
			lost++
		case got.Status != stoa.SessionCompleted || got.Reply != fmt.Sprintf("the answer to session %d", i) || got.Steps != 3:
			t.Errorf("session %d is %s (%s) after %d steps: %q", i, got.Status, got.Turn.Reason, got.Steps, got.Reply)
		}
		steps += got.Steps
		h.CheckBooks(r, got)
	}
	if lost > len(all)/4 {
		t.Errorf("%d of %d sessions were given up", lost, len(all))
	}
	balance, err := h.Ledger.Balance(t.Context(), account.ID)
	if err != nil || balance.Held != 0 || balance.Available+balance.Spent != balance.Granted {
		t.Errorf("the balance is %+v, %v", balance, err)
	}
	if differences, err := h.Ledger.Verify(t.Context()); err != nil || len(differences) > 0 {
		t.Errorf("the books differ: %+v, %v", differences, err)
	}
	asked := countJournal(t, dir)
	if asked < steps || asked > steps+kills*128 {
		t.Errorf("the model was asked %d times for %d steps and %d kills", asked, steps, kills)
	}
	checkNotAskedAgain(h, r, all, dir)
}

// checkNotAskedAgain checks the order of the model's calls: after a call for step n of a
// session no call for an earlier step may follow, since that one was already recorded.
func checkNotAskedAgain(h *sessiontest.Fixture, r *sessiontest.Service, all []stoa.Session, dir string) {
	h.T.Helper()
	f, err := os.Open(filepath.Join(dir, journal))
	if err != nil {
		h.T.Fatal(err)
	}
	defer f.Close()
	reached := map[int]int{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var session, messages int
		if _, err := fmt.Sscanf(lines.Text(), "session %d %d", &session, &messages); err != nil {
			continue // the process died while it wrote
		}
		if messages < reached[session] {
			h.T.Errorf("session %d was asked with %d messages after %d", session, messages, reached[session])
		}
		reached[session] = messages
	}
}

func countJournal(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, journal))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// runAndKill runs a child until it has begun the given number of calls of its model, or
// reports that nothing is left to do, and kills it. The progress of a child does not depend
// on the speed of the machine. begun, which may be nil, is called with a function that kills
// it earlier.
func runAndKill(ctx context.Context, t *testing.T, home storetest.Database, dir string, calls int, more string, begun func(kill func())) (done bool) {
	t.Helper()
	home.Expire()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir, crashPostgres+"="+home.Config.PostgresURL, more)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { cmd.Process.Signal(syscall.SIGKILL) }
	if begun != nil {
		begun(kill)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		switch text := lines.Text(); text {
		case "ready":
			if calls == 0 {
				kill()
			}
		case "call":
			if calls--; calls == 0 {
				kill()
			}
		case "done":
			done = true
			kill()
		default:
			t.Errorf("the child says %q", text)
		}
	}
	cmd.Wait()
	return done
}
