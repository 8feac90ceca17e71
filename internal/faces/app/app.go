// Package app wires the service, runs it, and stops it in order: first no more requests, then
// running replies finish, then the charges are settled.
//
// It decides nothing about a call. Start at [New] for the wiring, which tests use too, and at
// [Run] for the program.
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
	"time"

	"golang.org/x/sync/errgroup"

	"stoa/internal/base/cluster"
	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/listen"
	"stoa/internal/base/rest"
	"stoa/internal/base/store"
	"stoa/internal/operate/managed"
)

// Options are the parameters of a run in addition to its configuration.
type Options struct {
	Config  config.Config
	Version string
	Commit  string
	Out     io.Writer // start-up messages for the operator
	// Terminal reports whether Out is a terminal. The first key is printed only there, because other output is kept
	// and read by more people.
	Terminal bool
	Logger   *slog.Logger // nil disables logging
	// LinesDropped returns the number of dropped log lines; nil means that none are dropped.
	LinesDropped func() uint64
	// AdaptCollector lets the garbage collector run less often under load; see [runCollector]. It is false if the operator
	// has set GOGC.
	AdaptCollector bool

	// Reload reads the configuration again for each value from Hangup; nil disables that.
	Reload func() (config.Config, error)
	Hangup <-chan os.Signal

	// Ready is called with the address when everything is ready for requests. The first request is accepted after
	// it returns. It may be nil.
	Ready func(baseURL string)
	// AdminReady is called with the address of the admin listener, if there is one. It may be nil.
	AdminReady func(baseURL string)
}

// Run serves until ctx ends, then drains for the configured time. It returns nil after an orderly stop.
func Run(ctx context.Context, opts Options) (err error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	cfg := opts.Config
	cat, err := managed.Catalog(cfg, nil)
	if err != nil {
		return err
	}
	if cfg.Database == "" {
		if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
			return fmt.Errorf("make the data directory: %w", err)
		}
	}
	for _, w := range warnings(cfg, openFileLimit()) {
		opts.Logger.Warn("the machine may not be configured correctly", "warning", w)
	}
	// Listening precedes the store, so that a port in use changes nothing.
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	defer listener.Close()
	address := listener.Addr()
	again := func() (net.Listener, error) { return listener, nil }
	if _, port, _ := net.SplitHostPort(cfg.Listen); cfg.Database != "" && port != "0" {
		// While a start waits for PostgreSQL, connections are refused, so that a load balancer in front of several nodes
		// tries another one immediately.
		listener.Close()
		again = func() (net.Listener, error) { return net.Listen("tcp", cfg.Listen) }
	}
	adm, err := openAdmin(opts)
	if err != nil {
		return err
	}
	defer adm.close()
	st, err := store.Open(ctx, store.Config{
		Dir: cfg.Data, PostgresURL: string(cfg.Database),
		Node: cluster.NodeInfo{Version: opts.Version, Address: address.String(), ConfigHash: cfg.Hash()},
		Quota: store.Quota{
			Keys: cfg.Limits.KeysPerAccount, EndedKeys: cfg.Limits.EndedKeysPerAccount, Spaces: cfg.Limits.SpacesPerAccount, Agents: cfg.Limits.AgentsPerAccount,
			AgentVersions: cfg.Limits.AgentVersions, Tasks: cfg.Limits.SchedulesPerAccount, Embeds: cfg.Limits.EmbedsPerDay,
		},
		Durability: db.Durability(cfg.Durability), Logger: opts.Logger,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	documents := newExtract(cfg, opts.Logger)
	drives, err := openDrives(ctx, cfg, st, documents, opts.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drives.Close()) }()
	tracer, endTracer, err := newTracer(opts, st.Node())
	if err != nil {
		return err
	}
	defer endTracer()

	states, err := newStates(cfg)
	if err != nil {
		return err
	}
	s, err := New(Parts{
		Config: cfg, Catalog: cat, Store: st, Drives: drives, Extract: documents, Providers: cfg.Upstreams(), States: states,
		Address: address.String(), Admin: adm.at(), Version: opts.Version, Commit: opts.Commit, Logger: opts.Logger,
		Metrics: adm.counts(), Tracer: tracer, LinesDropped: opts.LinesDropped,
	})
	if err != nil {
		return err
	}
	s.admin = adm
	return s.serve(ctx, opts, address.String(), again)
}

// serve runs all parts until ctx ends or one of them fails. It stops requests first, then the scheduler and the
// worker, and the ledger last, because the others create charges that it settles. listening is called with the
// address when requests are about to be accepted.
func (s *Service) serve(ctx context.Context, opts Options, address string, listening func() (net.Listener, error)) error {
	server := &http.Server{
		Handler:           s.API.Handler(),
		ReadHeaderTimeout: 15 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	// The settler has a separate context, because it outlives every request.
	settling, settled := context.WithCancel(context.WithoutCancel(ctx))
	defer settled()
	group, working := errgroup.WithContext(settling)
	for _, run := range []func(context.Context) error{s.Ledger.Run, s.Keys.Run, s.sweepDrives, s.Retention.Run, s.Erasures.Run, s.Requests.Run, s.runPeers, s.Tools.KeepTokens, s.Discovery.Run, s.renewPlans, s.warmDocuments, s.SignIn.Run, s.API.People.Mailer.Run, s.API.People.RunEnds, s.FollowConfig, s.Alerts.Run} {
		group.Go(func() error { return run(settling) })
	}
	if s.Sales != nil {
		group.Go(func() error { return s.Sales.Run(settling) })
	}
	group.Go(func() error { s.tryNeighbours(settling); return nil })
	if opts.AdaptCollector {
		group.Go(func() error { return runCollector(settling) })
	}
	err := s.Worker.Recover(ctx) // recovered first, so that earlier sessions are in order before requests are accepted
	if err == nil {
		err = s.takeConfig(ctx)
	}
	var listener net.Listener
	if err == nil {
		listener, err = listening()
	}
	if err == nil {
		err = s.bootstrap(ctx, opts, address)
	}
	if err != nil {
		settled()
		return errors.Join(err, group.Wait())
	}
	stopWorker := running(settling, group, s.Worker.Run)
	stopScheduler := running(settling, group, s.Scheduler.Run)
	stopTests := running(settling, group, s.Tests.Run)
	stopHooks := running(settling, group, s.Hooks.Run)
	stopTools := running(settling, group, s.API.Agents.Tools.Run)
	limits := s.config.Limits
	bounded := listen.New(listener, listen.Config{
		Connections: limits.Connections, PerAddress: limits.ConnectionsPerAddress, Proxies: s.config.Proxies(), Refusal: rest.RefuseConnection,
	})
	s.listener.Store(bounded)
	if s.admin != nil {
		s.admin.service.Store(s)
	}
	if opts.Ready != nil {
		opts.Ready(s.API.PublicURL)
	}
	group.Go(func() error {
		if err := server.Serve(bounded); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	err = s.wait(ctx, working, opts)
	select {
	case <-s.Store.Lost(): // stopped, because running calls can neither be charged nor recorded
		s.API.Stop()
		s.Worker.Interrupt()
	default:
	}
	s.stop(server)
	stopScheduler()
	stopTests()
	stopWorker() // before the store and the settler, because its last writes use them
	stopHooks()
	stopTools()
	settled()
	if waited := group.Wait(); err == nil && !errors.Is(waited, context.Canceled) {
		err = waited
	}
	return err
}

// running runs a part of the service in the group. The returned function stops it and waits for its end, so that
// the scheduler queues nothing for a worker that stops.
func running(ctx context.Context, group *errgroup.Group, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	group.Go(func() error {
		defer close(ended)
		return run(ctx)
	})
	return func() {
		cancel()
		<-ended
	}
}

// wait blocks until the service must stop, and reloads the configuration on request. It fails if the service
// cannot continue.
func (s *Service) wait(ctx, working context.Context, opts Options) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-working.Done():
			return nil // the group returns the reason
		case <-s.Store.Lost():
			return store.ErrLost
		case <-opts.Hangup:
			s.reload(ctx, opts.Reload)
		}
	}
}

// stop ends the service for its callers. Running requests have the drain time to finish; then their streams end as
// failed and free. In the meantime the port stays open, so that new requests get 503, and health
// reports that the service is draining.
func (s *Service) stop(server *http.Server) {
	drain := s.config.Drain
	s.log.Info("stopping", "drain", drain)
	s.API.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	select {
	case <-s.API.Idle():
	case <-ctx.Done():
	}
	if server.Shutdown(ctx) == nil {
		return
	}
	s.API.Stop()
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		s.log.Warn("some connections had to be closed", "error", err)
		server.Close()
	}
}
