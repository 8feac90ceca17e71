package agent_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stoa/internal/agent"
	"stoa/internal/billing"
	"stoa/internal/catalog"
	"stoa/internal/db"
	"stoa/internal/drive"
	"stoa/internal/gateway"
	"stoa/internal/scheduler"
	"stoa/internal/session"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/store/storetest"
	"stoa/internal/upstream"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		os.Exit(crashChild(dir))
	}
	if dir := os.Getenv(clockDir); dir != "" {
		os.Exit(clockChild(dir))
	}
	goleak.VerifyTestMain(m)
}

// A house is all that a runner stands on, with an account in it.
type house struct {
	t       testing.TB
	st      *store.Store
	drives  *drive.Drives
	ledger  *billing.Ledger
	gateway *gateway.Gateway
	account stoa.Account
	stop    context.CancelFunc
	ended   chan struct{}
	closing sync.Once
}

// script is a model that does what a function says.
type script func(ctx context.Context, m stoa.Model, call stoa.Call, yield func(stoa.Event, error) bool)

func (script) Healthy(string, stoa.Model) bool { return true }

func (s script) Stream(ctx context.Context, m stoa.Model, call stoa.Call) iter.Seq2[stoa.Event, error] {
	return func(yield func(stoa.Event, error) bool) { s(ctx, m, call, yield) }
}

// say is a whole reply in one piece.
func say(yield func(stoa.Event, error) bool, text string, calls ...stoa.ToolCall) {
	stop := stoa.StopEnd
	if !yield(stoa.Event{Kind: stoa.Started, Provider: "test"}, nil) || text != "" && !yield(stoa.Event{Kind: stoa.Delta, Text: text}, nil) {
		return
	}
	for _, c := range calls {
		stop = stoa.StopToolCalls
		if !yield(stoa.Event{Kind: stoa.Called, Call: c}, nil) {
			return
		}
	}
	yield(stoa.Event{Kind: stoa.Finished, Stop: stop, HasUsage: true, Usage: stoa.Usage{InputTokens: 10, OutputTokens: int64(1 + len(text)/4)}}, nil)
}

// sandboxPool serves every model from the built-in one.
func sandboxPool() gateway.Pool { return upstream.New(upstream.Config{}) }

// build opens a house; pool nil is the sandbox.
func build(t testing.TB, home storetest.Database, pool gateway.Pool) *house {
	t.Helper()
	if pool == nil {
		pool = sandboxPool()
	}
	if home.Config.Durability == "" {
		home.Config.Durability = db.Process // no power is lost here
	}
	h, err := open(home.Config, pool)
	if err != nil {
		t.Fatal(err)
	}
	h.t = t
	t.Cleanup(h.close)
	h.account = storetest.Account(t, h.st, 100*stoa.Credit)
	return h
}

func open(cfg store.Config, pool gateway.Pool) (*house, error) {
	h := &house{ended: make(chan struct{})}
	ctx := context.Background()
	var err error
	if h.st, err = store.Open(ctx, cfg); err != nil {
		return nil, err
	}
	if h.drives, err = drive.Open(ctx, db.Config{Dir: cfg.Dir, PostgresURL: cfg.PostgresURL, Durability: cfg.Durability}, drive.Limits{}); err != nil {
		return nil, err
	}
	cat, err := catalog.New(catalog.Options{Sandbox: "always"})
	if err != nil {
		return nil, err
	}
	h.ledger = billing.New(h.st, billing.Config{})
	h.gateway = &gateway.Gateway{Catalog: new(atomic.Pointer[catalog.Catalog]), Ledger: h.ledger, Pool: pool, Logger: slog.New(slog.DiscardHandler)}
	h.gateway.Catalog.Store(cat)
	run, stop := context.WithCancel(ctx)
	h.stop = stop
	go func() {
		defer close(h.ended)
		h.ledger.Run(run)
	}()
	return h, nil
}

func (h *house) close() {
	h.closing.Do(func() {
		h.stop()
		<-h.ended
		h.drives.Close()
		h.st.Close()
	})
}

func plans(id string) stoa.Plan {
	return stoa.Plan{ID: id, GatedModels: id == "pro", ActiveSessions: 20}
}

// A config is what a test may change of a service.
type config struct {
	agent.Config
	store  *store.Store
	Limits session.Limits
}

// A service keeps sessions and runs them. Its verbs are those of package session,
// each in a transaction of its own, as a handler calls them.
type service struct {
	*session.Sessions
	*agent.Worker
	cfg config
}

func newService(cfg config) *service {
	sessions := session.New(session.Config{Store: cfg.store, Limits: cfg.Limits, Logger: cfg.Logger})
	cfg.Sessions = sessions
	return &service{Sessions: sessions, Worker: agent.New(cfg.Config), cfg: cfg}
}

// newScheduler returns a scheduler of the service's sessions.
func newScheduler(r *service, cfg scheduler.Config) *scheduler.Scheduler {
	cfg.Sessions, cfg.Shared, cfg.Logger = r.Sessions, r.cfg.Shared, r.cfg.Logger
	return scheduler.New(cfg)
}

func (r *service) write(ctx context.Context, verb func(tx *store.Tx) (stoa.Session, error)) (s stoa.Session, err error) {
	err = r.Store().Write(ctx, func(tx *store.Tx) (err error) {
		s, err = verb(tx)
		return err
	})
	if err != nil {
		return stoa.Session{}, err
	}
	return s, nil
}

func (r *service) Start(ctx context.Context, c stoa.Caller, req session.StartRequest) (stoa.Session, error) {
	if err := r.CheckCredits(ctx, c, req); err != nil {
		return stoa.Session{}, err
	}
	return r.write(ctx, func(tx *store.Tx) (stoa.Session, error) { return r.Sessions.Start(ctx, tx, c, req) })
}

func (r *service) Send(ctx context.Context, c stoa.Caller, agentID, id string, req session.SendRequest) (stoa.Session, error) {
	return r.write(ctx, func(tx *store.Tx) (stoa.Session, error) { return r.Sessions.Send(ctx, tx, c, agentID, id, req) })
}

func (r *service) Answer(ctx context.Context, c stoa.Caller, agentID, id string, req session.AnswerRequest) (stoa.Session, error) {
	return r.write(ctx, func(tx *store.Tx) (stoa.Session, error) { return r.Sessions.Answer(ctx, tx, c, agentID, id, req) })
}

func (r *service) Retry(ctx context.Context, c stoa.Caller, agentID, id string) (stoa.Session, error) {
	return r.write(ctx, func(tx *store.Tx) (stoa.Session, error) { return r.Sessions.Retry(ctx, tx, c, agentID, id) })
}

func (r *service) DeleteAgent(ctx context.Context, accountID, agentID string) error {
	return r.Store().Write(ctx, func(tx *store.Tx) error { return r.Sessions.DeleteAgent(ctx, tx, accountID, agentID) })
}

func (r *service) DeleteSpace(ctx context.Context, accountID, spaceID string, force bool) error {
	return r.Store().Write(ctx, func(tx *store.Tx) error { return r.Sessions.DeleteSpace(ctx, tx, accountID, spaceID, force) })
}

func (h *house) config() config {
	return config{store: h.st, Config: agent.Config{Gateway: h.gateway, Drives: h.drives, Plans: plans}}
}

// runner makes a runner; nothing runs yet.
func (h *house) runner(change ...func(*config)) *service {
	cfg := h.config()
	for _, fn := range change {
		fn(&cfg)
	}
	return newService(cfg)
}

// start runs a runner until the test ends or stop is called.
func start(t testing.TB, r *service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the runner ended: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func (h *house) caller() stoa.Caller {
	return stoa.Caller{Account: h.account, Plan: plans(h.account.Plan)}
}

// agent adds an agent of the account.
func (h *house) agent(change ...func(*stoa.Agent)) stoa.Agent {
	h.t.Helper()
	a := stoa.Agent{AccountID: h.account.ID, Name: "test", Instructions: "Be brief.", Model: "alpha-haiku-4-5", DriveAccess: stoa.DriveReadOnly}
	for _, fn := range change {
		fn(&a)
	}
	h.write(func(ctx context.Context, tx *store.Tx) error {
		space, err := tx.DefaultSpace(ctx, h.account.ID)
		if err != nil {
			return err
		}
		if a.SpaceID == "" {
			a.SpaceID = space.ID
		}
		a, err = tx.InsertAgent(ctx, a)
		return err
	})
	return a
}

func (h *house) write(fn func(ctx context.Context, tx *store.Tx) error) {
	h.t.Helper()
	ctx := context.Background()
	if err := h.st.Write(ctx, func(tx *store.Tx) error { return fn(ctx, tx) }); err != nil {
		h.t.Fatal(err)
	}
}

// file puts a file on an agent's drive.
func (h *house) file(a stoa.Agent, path, text string) {
	h.t.Helper()
	p, err := drive.ParsePath(path)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.drives.PutText(context.Background(), drive.Owner{AccountID: a.AccountID, AgentID: a.ID}, drive.Claim{}, p, text, ""); err != nil {
		h.t.Fatal(err)
	}
}

// begin starts a session.
func (h *house) begin(r *service, a stoa.Agent, message string, change ...func(*session.StartRequest)) stoa.Session {
	h.t.Helper()
	req := session.StartRequest{AgentID: a.ID, Message: message}
	for _, fn := range change {
		fn(&req)
	}
	s, err := r.Start(context.Background(), h.caller(), req)
	if err != nil {
		h.t.Fatalf("start a session: %v", err)
	}
	return s
}

// until waits for a session to stop, with the given status.
func (h *house) until(r *service, s stoa.Session, want stoa.SessionStatus) stoa.Session {
	h.t.Helper()
	got, err := r.Wait(context.Background(), h.account.ID, s.AgentID, s.ID, 20*time.Second)
	if err != nil {
		h.t.Fatalf("wait for %s: %v", s.ID, err)
	}
	if got.Status != want {
		h.t.Fatalf("the session is %s (%s, %+v), want %s\n%s", got.Status, got.Turn.Reason, got.Turn.Failure, want, h.log(r, s))
	}
	return got
}

func (h *house) events(r *service, s stoa.Session) []stoa.SessionEvent {
	h.t.Helper()
	var all []stoa.SessionEvent
	for {
		events, more, err := r.Log(context.Background(), h.account.ID, "", s.ID, int64(len(all)), 100)
		if err != nil {
			h.t.Fatal(err)
		}
		all = append(all, events...)
		if !more {
			return all
		}
	}
}

func (h *house) log(r *service, s stoa.Session) string {
	text := ""
	for _, e := range h.events(r, s) {
		text += fmt.Sprintf("%d %s %s\n", e.Seq, e.Type, e.Data)
	}
	return text
}

func storetestPostgres() bool { return os.Getenv(storetest.Env) != "" }
