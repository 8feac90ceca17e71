// Package app wires the service, runs it, and stops it in order: no more
// requests, running replies finish, the charges are settled.
//
// It decides nothing about a call. Start at [New] for the wiring, which tests
// use too, and at [Run] for what the program does with it.
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

	"stoa/internal/cluster"
	"stoa/internal/config"
	"stoa/internal/db"
	"stoa/internal/listen"
	"stoa/internal/rest"
	"stoa/internal/store"
)

// Options are what a run needs beside its configuration.
type Options struct {
	Config  config.Config
	Version string
	Commit  string
	Out     io.Writer    // what an operator reads at start-up
	Logger  *slog.Logger // nil: nothing is logged
	// LinesDropped returns how many lines of the log were dropped. Nil: none ever is.
	LinesDropped func() uint64

	// Reload reads the configuration again each time that a value is received from
	// Hangup. Nil: it is never read again.
	Reload func() (config.Config, error)
	Hangup <-chan os.Signal

	// Ready is told the address when everything is ready for requests; the first is
	// taken once it returns. Nil: nobody is.
	Ready func(baseURL string)
	// AdminReady is told the address of the admin listener, where there is one. Nil:
	// nobody is.
	AdminReady func(baseURL string)
}

// Run serves until ctx ends, then drains for the configured time. It returns
// nil after an orderly stop.
func Run(ctx context.Context, opts Options) (err error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	cfg := opts.Config
	cat, err := newCatalog(cfg)
	if err != nil {
		return err
	}
	if cfg.Database == "" {
		if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
			return fmt.Errorf("make the data directory: %w", err)
		}
	}
	for _, w := range warnings(cfg, openFileLimit()) {
		opts.Logger.Warn("the machine may not be set up as it should be", "warning", w)
	}
	// Listening comes before the store: a port that is taken changes nothing.
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	defer listener.Close()
	address := listener.Addr()
	again := func() (net.Listener, error) { return listener, nil }
	if _, port, _ := net.SplitHostPort(cfg.Listen); cfg.Database != "" && port != "0" {
		// While a start waits for PostgreSQL, connections are refused: whoever is before
		// several nodes asks another one at once.
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
		Node:       cluster.NodeInfo{Version: opts.Version, Address: address.String(), ConfigHash: cfg.Hash()},
		Quota:      quota(cfg.Limits),
		Durability: db.Durability(cfg.Durability), Logger: opts.Logger,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	drives, err := openDrives(ctx, cfg, st, opts.Logger)
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
		Config: cfg, Catalog: cat, Store: st, Drives: drives, Providers: cfg.Upstreams(), States: states,
		Address: address.String(), Admin: adm.at(), Version: opts.Version, Commit: opts.Commit, Logger: opts.Logger,
		Metrics: adm.counts(), Tracer: tracer, LinesDropped: opts.LinesDropped,
	})
	if err != nil {
		return err
	}
	s.admin = adm
	return s.serve(ctx, opts, address.String(), again)
}

// serve runs all parts until ctx ends or one of them fails, and stops them in
// order: requests, the scheduler, the worker, and last what settles charges. listening
// is called when requests are about to be taken, at that address.
func (s *Service) serve(ctx context.Context, opts Options, address string, listening func() (net.Listener, error)) error {
	server := &http.Server{
		Handler:           s.API.Handler(),
		ReadHeaderTimeout: 15 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	// The settler outlives every request, so it has a context of its own.
	settling, settled := context.WithCancel(context.WithoutCancel(ctx))
	defer settled()
	group, working := errgroup.WithContext(settling)
	for _, run := range []func(context.Context) error{s.Ledger.Run, s.Keys.Run, s.sweepDrives, s.Retention.Run, s.Requests.Run, s.runPeers, s.Tools.KeepTokens} {
		group.Go(func() error { return run(settling) })
	}
	err := s.Worker.Recover(ctx) // what was running is in order before requests are taken
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
	stopHooks := running(settling, group, s.Hooks.Run)
	stopTools := running(settling, group, s.API.Tools.Run)
	limits := s.config.Limits
	bounded := listen.New(listener, listen.Config{
		Connections: limits.Connections, PerAddress: limits.ConnectionsPerAddress, Refusal: rest.RefuseConnection,
	})
	s.listener.Store(bounded)
	s.admin.ready(s)
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
	case <-s.Store.Lost(): // what runs can neither be charged nor recorded
		s.API.Stop()
		s.Worker.Interrupt()
	default:
	}
	s.stop(server)
	stopScheduler()
	stopWorker() // its last writes go through the store and the settler
	stopHooks()
	stopTools()
	settled()
	if waited := group.Wait(); err == nil && !errors.Is(waited, context.Canceled) {
		err = waited
	}
	return err
}

// running runs a part of the service as part of the group. The function it
// returns stops it, and waits for that: the scheduler before the worker, so that
// nothing new is queued for a worker that stops.
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

// wait blocks until the service has to stop, reading the configuration again
// when told to. It fails when the service cannot go on.
func (s *Service) wait(ctx, working context.Context, opts Options) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-working.Done():
			return nil // the group knows why
		case <-s.Store.Lost():
			return store.ErrLost
		case <-opts.Hangup:
			s.reload(opts.Reload)
		}
	}
}

// stop ends the service for its callers: requests that run have the drain time
// to finish, then their streams end as failed and free. While they run, the port
// stays open: new requests get 503, and health says that it drains.
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
		s.log.Warn("some connections had to be cut", "error", err)
		server.Close()
	}
}
