// Package apitest is a started house for tests, and a client that holds every
// request and reply against the contract.
//
// It is for tests alone. The house is real: SQLite in a directory of the test's
// own, HTTP over a socket, the sandbox for a vendor. Start with [Start], then
// [House.Client]; [Recorder] knows what of the contract was exercised, and
// [Fuzzer] sends requests made from the contract.
package apitest

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"stoa/internal/agent"
	"stoa/internal/api"
	"stoa/internal/auth"
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

// Config changes the house that [Start] builds. The zero value is a house on
// SQLite that is served by the sandbox.
type Config struct {
	Providers []stoa.Provider         // none: the sandbox serves everything
	Families  map[string][]stoa.Route // needed with Providers
	Sandbox   string                  // see catalog.Options
	Grant     stoa.Credits            // of the owner; 0: 100 credits
	Drive     drive.Limits            // zero: the defaults
	Plans     []stoa.Plan             // nil: free (no gated models) and pro (all), without limits
	Logger    *slog.Logger            // nil: none
	Home      *storetest.Database     // nil: SQLite in a directory of its own
	Server    func(*api.Server)       // changes settings before the start; nil: none
	Sessions  func(*session.Config)   // changes settings before the start; nil: none
	Worker    func(*agent.Config)     // changes settings before the start; nil: none
	Schedules scheduler.Config        // see there; Sessions is set
	Idle      bool                    // sessions are taken and not run
	Recorder  *Recorder               // nil: nothing is recorded
}

// A House is a running service.
type House struct {
	URL       string // without a path
	Key       string // the owner's secret
	Account   stoa.Account
	Server    *api.Server
	Store     *store.Store
	Ledger    *billing.Ledger
	Keys      *auth.Keys
	Drives    *drive.Drives
	Sessions  *session.Sessions
	Worker    *agent.Worker
	Scheduler *scheduler.Scheduler
	HTTP      *httptest.Server

	t        testing.TB
	recorder *Recorder
}

// Start builds and starts a house; it stops when the test ends.
func Start(t testing.TB, cfg Config) *House {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Grant == 0 {
		cfg.Grant = 100 * stoa.Credit
	}
	if cfg.Plans == nil {
		cfg.Plans = []stoa.Plan{{ID: "free", Name: "Free"}, {ID: "pro", Name: "Pro", GatedModels: true}}
	}
	home := storetest.New(t)
	if cfg.Home != nil {
		home = *cfg.Home
	}
	st := home.Open()
	ledger := billing.New(st, billing.Config{Logger: cfg.Logger})
	settling, settled := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = ledger.Run(settling) // ends with its context
	}()
	t.Cleanup(func() { settled(); <-done })

	cat, err := catalog.New(catalog.Options{Providers: cfg.Providers, Families: cfg.Families, Sandbox: cfg.Sandbox})
	if err != nil {
		t.Fatalf("make the catalog: %v", err)
	}
	var current atomic.Pointer[catalog.Catalog]
	current.Store(cat)
	plan := func(id string) stoa.Plan {
		if i := slices.IndexFunc(cfg.Plans, func(p stoa.Plan) bool { return p.ID == id }); i >= 0 {
			return cfg.Plans[i]
		}
		return stoa.Plan{ID: id, Name: id}
	}
	drives, err := drive.Open(context.Background(), db.Config{Dir: home.Config.Dir, PostgresURL: home.Config.PostgresURL}, cfg.Drive)
	if err != nil {
		t.Fatalf("open the drives: %v", err)
	}
	t.Cleanup(func() { drives.Close() })
	keys := auth.New(st, plan)
	pool := upstream.New(upstream.Config{Providers: cfg.Providers, Logger: cfg.Logger})
	calls := &gateway.Gateway{Catalog: &current, Ledger: ledger, Pool: pool, Logger: cfg.Logger}
	keeping := session.Config{Store: st, Logger: cfg.Logger}
	if cfg.Sessions != nil {
		cfg.Sessions(&keeping)
	}
	sessions := session.New(keeping)
	running := agent.Config{Sessions: sessions, Gateway: calls, Drives: drives, Plans: plan, Logger: cfg.Logger, Grace: -1}
	if cfg.Worker != nil {
		cfg.Worker(&running)
	}
	worker := agent.New(running)
	cfg.Schedules.Sessions = sessions
	tasks := scheduler.New(cfg.Schedules)
	server := &api.Server{
		Keys: keys, Ledger: ledger, Store: st, Drives: drives, Catalog: &current, Logger: cfg.Logger,
		Gateway: calls, Sessions: sessions, Worker: worker, Scheduler: tasks, Pool: pool.Stats,
		Plans:   func() []stoa.Plan { return cfg.Plans },
		Version: "test",
	}
	if cfg.Server != nil {
		cfg.Server(server)
	}
	h := &House{Server: server, Store: st, Ledger: ledger, Keys: keys, Drives: drives, Sessions: sessions, Worker: worker, Scheduler: tasks, t: t, recorder: cfg.Recorder}
	h.Account = storetest.Account(t, st, cfg.Grant)
	h.Key, _ = h.NewKey(h.Account.ID, stoa.ScopeAll, stoa.ScopeOperator)
	if !cfg.Idle {
		h.work()
	}
	h.HTTP = httptest.NewUnstartedServer(nil)
	if server.PublicURL == "" {
		server.PublicURL = "http://" + h.HTTP.Listener.Addr().String()
	}
	h.HTTP.Config.Handler = server.Handler()
	h.HTTP.Start()
	t.Cleanup(func() { server.Drain(); h.HTTP.Close() }) // streams that are open end
	h.URL = h.HTTP.URL
	return h
}

// work runs sessions, and starts those of schedules, until the test ends.
func (h *House) work() {
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := h.Worker.Run(ctx); err != nil {
			h.t.Errorf("run sessions: %v", err)
		}
	})
	ended.Go(func() {
		if err := h.Scheduler.Run(ctx); err != nil {
			h.t.Errorf("start sessions by the clock: %v", err)
		}
	})
	h.t.Cleanup(func() { stop(); ended.Wait() })
}

// NewKey makes a key with those scopes and returns its secret.
func (h *House) NewKey(accountID string, scopes ...string) (string, stoa.Key) {
	return h.NewKeyLike(stoa.Key{AccountID: accountID, Name: "test", Scopes: scopes})
}

// NewKeyLike makes the described key and returns its secret.
func (h *House) NewKeyLike(k stoa.Key) (string, stoa.Key) {
	h.t.Helper()
	secret := auth.Mint()
	var made stoa.Key
	err := h.Store.Write(context.Background(), func(tx *store.Tx) (err error) {
		made, err = h.Keys.Create(context.Background(), tx, k, secret)
		return err
	})
	if err != nil {
		h.t.Fatalf("make a key: %v", err)
	}
	return secret, made
}

// Client is a checking client with the owner's key.
func (h *House) Client(t testing.TB) *Client { return h.ClientWith(t, h.Key) }

// ClientWith is a checking client with that key; an empty one sends none.
func (h *House) ClientWith(t testing.TB, key string) *Client {
	t.Helper()
	return NewClient(t, h.URL, key, h.recorder)
}
