// Package sessiontest wires a service for the tests of sessions, of the worker and of the
// scheduler: a real store, ledger and drive, and a model that a test scripts. It is for tests
// only. Start at [Build].
package sessiontest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/agent"
	"stoa/internal/agents/drive"
	"stoa/internal/agents/scheduler"
	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/outbound"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/app"
	"stoa/internal/models/billing"
	"stoa/internal/models/catalog"
	"stoa/internal/models/gateway"
	"stoa/internal/models/upstream"
	"stoa/internal/testkit/storetest"
)

// A Fixture contains the environment of sessions, with an account. Its settler runs; workers
// are added with [Fixture.Service] and [Run].
type Fixture struct {
	T       testing.TB
	Store   *store.Store
	Drives  *drive.Drives
	Ledger  *billing.Ledger
	Gateway *gateway.Gateway
	Account stoa.Account
	Tools   *tool.Tools // can reach servers on this machine

	stop    context.CancelFunc
	ended   chan struct{}
	closing sync.Once
}

// A Script is a model implemented by a function. It is called without the notes that the
// service adds to messages; [Notes] has them.
type Script func(ctx context.Context, m stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool)

// Healthy reports that every model can be called.
func (Script) Healthy(string, stoa.Model) bool  { return true }
func (Script) Timeout(stoa.Model) time.Duration { return time.Minute }

// Stream runs the script.
func (s Script) Stream(ctx context.Context, m stoa.Model, call stoa.Call) iter.Seq2[*stoa.Event, error] {
	return func(yield func(*stoa.Event, error) bool) {
		bare, notes := call, []string(nil)
		bare.Messages = nil
		for _, message := range call.Messages {
			parts := slices.DeleteFunc(slices.Clone(message.Parts), func(p stoa.Part) bool {
				note := p.Text != "" && stoa.WithoutNotes(p.Text) == ""
				if note {
					notes = append(notes, p.Text)
				}
				return note
			})
			if len(parts) > 0 || len(message.Parts) == 0 {
				bare.Messages = append(bare.Messages, stoa.Message{Role: message.Role, Parts: parts})
			}
		}
		s(context.WithValue(ctx, noteKey{}, notes), m, bare, yield)
	}
}

type noteKey struct{}

// Notes returns the notes of the service in the call that a [Script] answers, by its context.
func Notes(ctx context.Context) []string {
	notes, _ := ctx.Value(noteKey{}).([]string)
	return notes
}

// Say yields a whole reply: a text in one piece, then tool calls.
func Say(yield func(*stoa.Event, error) bool, text string, calls ...stoa.ToolCall) {
	stop := stoa.StopEnd
	if !yield(&stoa.Event{Kind: stoa.Started, Provider: "test"}, nil) || text != "" && !yield(&stoa.Event{Kind: stoa.Delta, Text: text}, nil) {
		return
	}
	for _, c := range calls {
		stop = stoa.StopToolCalls
		if !yield(&stoa.Event{Kind: stoa.Called, Call: c}, nil) {
			return
		}
	}
	yield(&stoa.Event{Kind: stoa.Finished, Stop: stop, HasUsage: true, Usage: stoa.Usage{InputTokens: 10, OutputTokens: int64(1 + len(text)/4)}}, nil)
}

// Results returns the results of tools in a message.
func Results(m stoa.Message) (list []stoa.ToolResult) {
	for _, p := range m.Parts {
		if p.Kind == stoa.PartResult {
			list = append(list, *p.Result)
		}
	}
	return list
}

// Blocking is a model that says "begun", sends the message on begun, and continues when goOn
// yields or is closed, or ends with its context.
func Blocking(begun chan<- string, goOn <-chan struct{}) Script {
	return func(ctx context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		last := call.Messages[len(call.Messages)-1].Text()
		if !yield(&stoa.Event{Kind: stoa.Started, Provider: "test"}, nil) || !yield(&stoa.Event{Kind: stoa.Delta, Text: "begun"}, nil) {
			return
		}
		select {
		case begun <- last:
		case <-ctx.Done():
		}
		select {
		case <-goOn:
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
			return
		}
		if yield(&stoa.Event{Kind: stoa.Delta, Text: " and done: " + last}, nil) {
			yield(&stoa.Event{Kind: stoa.Finished, Stop: stoa.StopEnd, HasUsage: true, Usage: stoa.Usage{InputTokens: 5, OutputTokens: 5}}, nil)
		}
	}
}

// Build opens a fixture that is closed when the test ends. A nil pool means the sandbox.
func Build(t testing.TB, database storetest.Database, pool gateway.Pool) *Fixture {
	t.Helper()
	if pool == nil {
		pool = upstream.New(upstream.Config{})
	}
	if database.Config.Durability == "" {
		database.Config.Durability = db.Process // tests do not simulate power loss
	}
	f, err := Open(database.Config, pool)
	if err != nil {
		t.Fatal(err)
	}
	f.T = t
	t.Cleanup(f.Close)
	f.Account = storetest.Account(t, f.Store, 100*stoa.Credit)
	return f
}

// Open opens a fixture outside of a test, without an account.
func Open(cfg store.Config, pool gateway.Pool) (*Fixture, error) {
	ctx := context.Background()
	st, err := store.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	drives, err := drive.Open(ctx, db.Config{Dir: cfg.Dir, PostgresURL: cfg.PostgresURL, Durability: cfg.Durability, Observe: cfg.Observe}, drive.Limits{SearchTime: time.Hour}) // a busy machine cuts no search short
	if err != nil {
		return nil, err
	}
	cat, err := catalog.New(catalog.Options{Sandbox: "always"})
	if err != nil {
		return nil, err
	}
	wired, err := app.New(app.Parts{Config: config.Defaults(), Catalog: cat, Store: st, Drives: drives, Pool: pool, Network: onMachine})
	if err != nil {
		return nil, err
	}
	settling, stop := context.WithCancel(ctx)
	f := &Fixture{Store: st, Drives: drives, Ledger: wired.Ledger, Gateway: wired.Gateway, Tools: wired.Tools, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		_ = f.Ledger.Run(settling) // ends with its context
	}()
	return f, nil
}

// onMachine allows tool servers of tests.
func onMachine(s *outbound.Settings) {
	here, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	if err != nil {
		panic(err)
	}
	s.Allow = here
}

// Close settles open calls and closes the stores. It may be called twice.
func (f *Fixture) Close() {
	f.closing.Do(func() {
		f.stop()
		<-f.ended
		f.Drives.Close()
		f.Store.Close()
	})
}

// Plan is the plan of every account in tests: 20 concurrent sessions, and "pro" may use gated
// models.
func Plan(id string) stoa.Plan {
	return stoa.Plan{ID: id, GatedModels: id == "pro", ActiveSessions: 20}
}

// A Config contains the settings of a service that a test may change.
type Config struct {
	agent.Config
	Store  *store.Store
	Limits session.Limits
}

// A Service stores sessions and runs them. Its verbs are those of package session, each in a
// separate transaction, as a handler calls them.
type Service struct {
	*session.Sessions
	*agent.Worker
	cfg Config
}

// NewService returns a service. Nothing runs before [Run].
func NewService(cfg Config) *Service {
	sessions := session.New(session.Config{Store: cfg.Store, Limits: cfg.Limits, Logger: cfg.Logger})
	cfg.Sessions = sessions
	return &Service{Sessions: sessions, Worker: agent.New(cfg.Config), cfg: cfg}
}

// NewScheduler returns a scheduler of the service's sessions.
func NewScheduler(r *Service, cfg scheduler.Config) *scheduler.Scheduler {
	cfg.Sessions, cfg.Shared, cfg.Logger = r.Sessions, r.cfg.Shared, r.cfg.Logger
	return scheduler.New(cfg)
}

func (r *Service) write(ctx context.Context, verb func(tx *store.Tx) (stoa.Session, error)) (s stoa.Session, err error) {
	err = r.Store().Write(ctx, func(tx *store.Tx) (err error) {
		s, err = verb(tx)
		return err
	})
	if err != nil {
		return stoa.Session{}, err
	}
	return s, nil
}

// Start checks the credits and starts a session.
func (r *Service) Start(ctx context.Context, c stoa.Caller, req session.StartRequest) (stoa.Session, error) {
	if err := r.CheckCredits(ctx, c, req); err != nil {
		return stoa.Session{}, err
	}
	return r.write(ctx, func(tx *store.Tx) (stoa.Session, error) { return r.Sessions.Start(ctx, tx, c, req) })
}

// Send sends a message.
func (r *Service) Send(ctx context.Context, c stoa.Caller, agentID, id string, req session.SendRequest) (stoa.Session, error) {
	return r.write(ctx, func(tx *store.Tx) (stoa.Session, error) { return r.Sessions.Send(ctx, tx, c, agentID, id, req) })
}

// Answer answers an input.
func (r *Service) Answer(ctx context.Context, c stoa.Caller, agentID, id string, req session.AnswerRequest) (stoa.Session, error) {
	return r.write(ctx, func(tx *store.Tx) (stoa.Session, error) { return r.Sessions.Answer(ctx, tx, c, agentID, id, req) })
}

// Retry repeats the last message.
func (r *Service) Retry(ctx context.Context, c stoa.Caller, agentID, id string) (stoa.Session, error) {
	return r.write(ctx, func(tx *store.Tx) (stoa.Session, error) { return r.Sessions.Retry(ctx, tx, c, agentID, id, false) })
}

// ClaimInput claims an input for an executor.
func (r *Service) ClaimInput(ctx context.Context, c stoa.Caller, req session.ClaimRequest) (in stoa.Input, err error) {
	err = r.Store().Write(ctx, func(tx *store.Tx) (err error) {
		in, err = r.Sessions.ClaimInput(ctx, tx, c, req)
		return err
	})
	return in, err
}

// DeleteAgent deletes an agent.
func (r *Service) DeleteAgent(ctx context.Context, accountID, agentID string) error {
	return r.Store().Write(ctx, func(tx *store.Tx) error { return r.Sessions.DeleteAgent(ctx, tx, accountID, agentID) })
}

// DeleteSpace deletes a space.
func (r *Service) DeleteSpace(ctx context.Context, accountID, spaceID string, force bool) error {
	return r.Store().Write(ctx, func(tx *store.Tx) error { return r.Sessions.DeleteSpace(ctx, tx, accountID, spaceID, force) })
}

// Config returns the settings of a service on this fixture: those of app.New,
// with [Plan] for every account.
func (f *Fixture) Config() Config {
	return Config{
		Store: f.Store, Limits: session.LimitsOf(config.Defaults().Limits),
		Config: agent.Config{Gateway: f.Gateway, Drives: f.Drives, Tools: f.Tools, Plans: Plan},
	}
}

// Service returns a service on this fixture; several represent several processes. Nothing
// runs before [Run].
func (f *Fixture) Service(change ...func(*Config)) *Service {
	cfg := f.Config()
	for _, fn := range change {
		fn(&cfg)
	}
	return NewService(cfg)
}

// Run runs a service's worker until the test ends or stop is called.
func Run(t testing.TB, r *Service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the worker ended: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// Caller returns the account without a key.
func (f *Fixture) Caller() stoa.Caller {
	return stoa.Caller{Account: f.Account, Plan: Plan(f.Account.Plan)}
}

// Agent adds an agent of the account.
func (f *Fixture) Agent(change ...func(*stoa.Agent)) stoa.Agent {
	f.T.Helper()
	a := stoa.Agent{AccountID: f.Account.ID, Name: "test", AgentSettings: stoa.AgentSettings{Instructions: "Be brief.", Model: "alpha-haiku-4-5", DriveAccess: stoa.DriveReadOnly}}
	for _, fn := range change {
		fn(&a)
	}
	f.Write(func(ctx context.Context, tx *store.Tx) error {
		space, err := tx.Setup().DefaultSpace(ctx, f.Account.ID)
		if err != nil {
			return err
		}
		if a.SpaceID == "" {
			a.SpaceID = space.ID
		}
		a, err = tx.Setup().InsertAgent(ctx, a)
		return err
	})
	return a
}

// Write runs a transaction.
func (f *Fixture) Write(fn func(ctx context.Context, tx *store.Tx) error) {
	f.T.Helper()
	ctx := context.Background()
	if err := f.Store.Write(ctx, func(tx *store.Tx) error { return fn(ctx, tx) }); err != nil {
		f.T.Fatal(err)
	}
}

// File puts a file on an agent's drive.
func (f *Fixture) File(a stoa.Agent, path, text string) {
	f.T.Helper()
	p, err := drive.ParsePath(path)
	if err != nil {
		f.T.Fatal(err)
	}
	if _, err := f.Drives.PutText(context.Background(), drive.Owner{AccountID: a.AccountID, AgentID: a.ID}, drive.Claim{}, p, text, ""); err != nil {
		f.T.Fatal(err)
	}
}

// Begin starts a session.
func (f *Fixture) Begin(r *Service, a stoa.Agent, message string, change ...func(*session.StartRequest)) stoa.Session {
	f.T.Helper()
	req := session.StartRequest{AgentID: a.ID, Message: message}
	for _, fn := range change {
		fn(&req)
	}
	s, err := r.Start(context.Background(), f.Caller(), req)
	if err != nil {
		f.T.Fatalf("start a session: %v", err)
	}
	return s
}

// Until waits for a session to stop, with the given status.
func (f *Fixture) Until(r *Service, s stoa.Session, want stoa.SessionStatus) stoa.Session {
	f.T.Helper()
	got := f.Stopped(r, s)
	if got.Status != want {
		f.T.Fatalf("the session is %s (%s, %+v), want %s\n%s", got.Status, got.Turn.Reason, got.Turn.Failure, want, f.Log(r, s))
	}
	return got
}

// Stopped waits for a session to stop.
func (f *Fixture) Stopped(r *Service, s stoa.Session) stoa.Session {
	f.T.Helper()
	got, err := r.Wait(context.Background(), f.Account.ID, s.AgentID, s.ID, 10*time.Minute)
	if err != nil {
		f.T.Fatalf("wait for %s: %v", s.ID, err)
	}
	return got
}

// Events reads the whole log of a session.
func (f *Fixture) Events(r *Service, s stoa.Session) []stoa.SessionEvent {
	f.T.Helper()
	var all []stoa.SessionEvent
	for {
		events, more, err := r.Log(context.Background(), f.Account.ID, "", s.ID, int64(len(all)), 100)
		if err != nil {
			f.T.Fatal(err)
		}
		all = append(all, events...)
		if !more {
			return all
		}
	}
}

// Log returns the log of a session as text.
func (f *Fixture) Log(r *Service, s stoa.Session) string {
	text := ""
	for _, e := range f.Events(r, s) {
		text += fmt.Sprintf("%d %s %s\n", e.Seq, e.Type, e.Data)
	}
	return text
}

// Decode decodes the data of an event, strictly.
func Decode[T any](t testing.TB, e stoa.SessionEvent) T {
	t.Helper()
	var d T
	if err := jsonx.UnmarshalKnown([]byte(e.Data), &d); err != nil {
		t.Fatalf("event %d (%s) holds %s: %v", e.Seq, e.Type, e.Data, err)
	}
	return d
}

// Space returns the space in which agents are created.
func (f *Fixture) Space() string {
	f.T.Helper()
	var id string
	f.Write(func(ctx context.Context, tx *store.Tx) error {
		s, err := tx.Setup().DefaultSpace(ctx, f.Account.ID)
		id = s.ID
		return err
	})
	return id
}
