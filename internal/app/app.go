// Package app builds the service out of its rooms, runs it, and stops it in
// order: no more requests, running replies finish, the books are closed.
//
// It decides nothing about a call. Start at [Run].
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stoa/internal/agent"
	"stoa/internal/api"
	"stoa/internal/auth"
	"stoa/internal/billing"
	"stoa/internal/catalog"
	"stoa/internal/config"
	"stoa/internal/db"
	"stoa/internal/drive"
	"stoa/internal/gateway"
	"stoa/internal/scheduler"
	"stoa/internal/session"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/upstream"
	"stoa/internal/web"
)

// Options are what a run needs beside its configuration.
type Options struct {
	Config  config.Config
	Version string
	Commit  string
	Out     io.Writer    // what an operator reads at start-up
	Logger  *slog.Logger // nil: nothing is logged

	// Reload gives the configuration anew each time that a value comes out of
	// Hangup. Nil: it is never read again.
	Reload func() (config.Config, error)
	Hangup <-chan os.Signal

	// Ready is told the address once requests are taken. Nil: nobody is.
	Ready func(baseURL string)
}

// house is the built service.
type house struct {
	opts      Options
	log       *slog.Logger
	store     *store.Store
	drives    *drive.Drives
	ledger    *billing.Ledger
	keys      *auth.Keys
	catalog   atomic.Pointer[catalog.Catalog]
	plans     atomic.Pointer[map[string]stoa.Plan]
	limited   atomic.Bool // the plans' limits are enforced
	keep      atomic.Pointer[config.Retention]
	pool      *upstream.Pool
	sessions  *session.Sessions
	worker    *agent.Worker
	scheduler *scheduler.Scheduler
	server    *api.Server
}

// Run serves until ctx ends, then drains for the configured time. It returns
// nil after an orderly stop.
func Run(ctx context.Context, opts Options) (err error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	h := &house{opts: opts, log: opts.Logger}
	cat, err := newCatalog(opts.Config)
	if err != nil {
		return err
	}
	h.catalog.Store(cat)
	h.plans.Store(new(opts.Config.AccountPlans()))
	h.limited.Store(opts.Config.RateLimited())
	h.keep.Store(&opts.Config.Retention)
	if opts.Config.Database == "" {
		if err := os.MkdirAll(opts.Config.Data, 0o700); err != nil {
			return fmt.Errorf("make the data directory: %w", err)
		}
	}
	// Listening comes before the store: a port that is taken changes nothing.
	listener, err := net.Listen("tcp", opts.Config.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	defer listener.Close()
	h.store, err = store.Open(ctx, store.Config{
		Dir: opts.Config.Data, PostgresURL: string(opts.Config.Database),
		Durability: db.Durability(opts.Config.Durability), Logger: h.log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.store.Close()) }()
	if h.drives, err = h.openDrives(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.drives.Close()) }()
	return h.run(ctx, listener)
}

func (h *house) run(ctx context.Context, listener net.Listener) error {
	cfg := h.opts.Config
	h.ledger = billing.New(h.store, billing.Config{Logger: h.log})
	h.keys = auth.New(h.store, h.plan)
	h.pool = upstream.New(upstream.Config{Providers: cfg.Upstreams(), Logger: h.log, Version: h.opts.Version})
	calls := &gateway.Gateway{Catalog: &h.catalog, Ledger: h.ledger, Pool: h.pool, Logger: h.log}
	h.buildSessions(calls)
	site, err := web.New(web.Config{
		Version: h.opts.Version,
		Embeds:  func(r *http.Request, id string) ([]string, string, bool, error) { return h.server.EmbedPage(r, id) },
	})
	if err != nil {
		return err
	}
	h.server = &api.Server{
		Keys: h.keys, Gateway: calls, Sessions: h.sessions, Worker: h.worker, Scheduler: h.scheduler, Limits: cfg.Limits,
		Ledger: h.ledger, Store: h.store, Drives: h.drives, Catalog: &h.catalog,
		Plans: h.planList, Version: h.opts.Version, Commit: h.opts.Commit,
		PublicURL: cfg.BaseURL(listener.Addr().String()), MaxBody: int64(cfg.Limits.Body),
		HeaderWait: cfg.HeaderWait, KeepAlive: cfg.KeepAlive, Logger: h.log,
		RateLimited: h.limited.Load, Web: site.Handler(), Pool: h.pool.Stats,
	}
	server := &http.Server{
		Handler:           h.server.Handler(),
		ReadHeaderTimeout: 15 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelWarn),
	}

	// The settler outlives every request, so it has a context of its own.
	settling, settled := context.WithCancel(context.WithoutCancel(ctx))
	defer settled()
	group, working := errgroup.WithContext(settling)
	group.Go(func() error { return h.ledger.Run(settling) })
	group.Go(func() error { return h.keys.Run(settling) })
	group.Go(func() error { return h.sweepDrives(settling) })
	sweeper := &janitor{
		store: h.store, retention: func() config.Retention { return *h.keep.Load() }, log: h.log,
		every: purgeEvery, pause: purgePause,
	}
	group.Go(func() error { return sweeper.run(settling) })

	err = h.bootstrap(ctx, listener.Addr().String())
	if err == nil {
		err = h.worker.Recover(ctx) // what was running is in order before requests are taken
	}
	if err != nil {
		settled()
		return errors.Join(err, group.Wait())
	}
	stopWorker := running(settling, group, h.worker.Run)
	stopScheduler := running(settling, group, h.scheduler.Run)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	if h.opts.Ready != nil {
		h.opts.Ready(h.server.PublicURL)
	}
	err = h.wait(ctx, working)
	h.stop(server)
	stopScheduler()
	stopWorker() // its last writes go through the store and the settler
	settled()
	if waited := group.Wait(); err == nil && !errors.Is(waited, context.Canceled) {
		err = waited
	}
	return err
}

// wait blocks until the service has to stop, reading the configuration again
// when told to. It fails when the service cannot go on.
func (h *house) wait(ctx, working context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-working.Done():
			return nil // the group knows why
		case <-h.store.Lost():
			return store.ErrLost
		case <-h.opts.Hangup:
			h.reload()
		}
	}
}

// stop ends the service for its callers: requests that run have the drain time
// to finish, then their streams end as failed and free.
func (h *house) stop(server *http.Server) {
	drain := h.opts.Config.Drain
	h.log.Info("stopping", "drain", drain)
	h.server.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if server.Shutdown(ctx) == nil {
		return
	}
	h.server.Stop()
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		h.log.Warn("some connections had to be cut", "error", err)
		server.Close()
	}
}

// reload takes over a configuration that was read again. What is not built per
// call (address, data, database) stays as it was; a call keeps what it began
// with. A configuration with an error changes nothing.
func (h *house) reload() {
	if h.opts.Reload == nil {
		return
	}
	cfg, err := h.opts.Reload()
	if err == nil {
		var cat *catalog.Catalog
		if cat, err = newCatalog(cfg); err == nil {
			h.pool.Update(cfg.Upstreams())
			h.catalog.Store(cat)
			h.plans.Store(new(cfg.AccountPlans()))
			h.limited.Store(cfg.RateLimited())
			h.keep.Store(&cfg.Retention)
			h.keys.Forget() // callers carry their plan
			for _, w := range cfg.Warnings {
				h.log.Warn("the configuration may not be what was meant", "warning", w)
			}
			h.log.Info("configuration read again")
			return
		}
	}
	h.log.Error("the configuration was not read again; the old one goes on", "error", err)
}

// plan is the plan with that id. An account on a plan that is no longer
// configured has the rights of none.
func (h *house) plan(id string) stoa.Plan {
	if p, ok := (*h.plans.Load())[id]; ok {
		return p
	}
	return stoa.Plan{ID: id, Name: id}
}
