package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/listen"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
	"stoa/internal/faces/api"
)

func newMetrics(cfg config.Config, version, commit string) *telemetry.Metrics {
	var codes []stoa.Code
	for _, c := range contract.Codes() {
		codes = append(codes, c.Code)
	}
	return telemetry.NewMetrics(telemetry.MetricsConfig{
		Version: version, Commit: commit, Codes: codes, Routes: api.Routes(), Accounts: cfg.Telemetry.AccountMetrics,
	})
}

// An admin is the open listener for operators. The methods of a nil admin do nothing.
type admin struct {
	metrics *telemetry.Metrics
	address string
	server  *http.Server
	ended   chan struct{}
	service atomic.Pointer[Service] // nil while the service starts
}

// openAdmin opens the listener for operators, if one is configured. A configured address must be free. The
// default one need not be, because several services may run on a machine without configuring it.
func openAdmin(opts Options) (*admin, error) {
	address, explicit := opts.Config.Admin()
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		if explicit {
			return nil, fmt.Errorf("listen for operators: %w; choose another address with --admin-listen, or off", err)
		}
		opts.Logger.Warn("the admin listener is disabled, because its default address cannot be used; choose another with adminListen, or switch it off", "error", err)
		return nil, nil
	}
	a := &admin{address: l.Addr().String(), metrics: newMetrics(opts.Config, opts.Version, opts.Commit), ended: make(chan struct{})}
	a.server = telemetry.Admin(a.metrics, a.readiness, opts.Config.Telemetry.Profiles)
	next, known := a.server.Handler, knownHost(opts.Config)
	a.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !known(r.Host) {
			http.Error(w, "This service is not known under that name. Use its address, or set publicUrl.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	a.server.ErrorLog = slog.NewLogLogger(opts.Logger.Handler(), slog.LevelWarn)
	if opts.AdminReady != nil {
		opts.AdminReady("http://" + l.Addr().String())
	}
	go func() {
		defer close(a.ended)
		err := a.server.Serve(listen.New(l, listen.Config{Connections: telemetry.AdminConnections}))
		if !errors.Is(err, http.ErrServerClosed) {
			opts.Logger.Error("the admin listener has ended", "error", err)
		}
	}()
	return a, nil
}

// at returns the address of the listener; empty if there is none.
func (a *admin) at() string {
	if a == nil {
		return ""
	}
	return a.address
}

// counts returns the metrics; nil without a listener, because nobody could read them.
func (a *admin) counts() *telemetry.Metrics {
	if a == nil {
		return nil
	}
	return a.metrics
}

func (a *admin) close() {
	if a != nil {
		_ = a.server.Close() // replies are cut, because they can be requested again
		<-a.ended
	}
}

// readiness answers /readyz.
func (a *admin) readiness(ctx context.Context) telemetry.Readiness {
	s := a.service.Load()
	if s == nil {
		return telemetry.Readiness{Status: "starting", Reason: "The service does not accept requests yet."}
	}
	return s.Readiness(ctx)
}

// Readiness returns whether the service accepts requests, and why not.
func (s *Service) Readiness(ctx context.Context) telemetry.Readiness {
	select {
	case <-s.API.Draining():
		return telemetry.Readiness{Status: "draining", Reason: "The service is about to stop."}
	case <-s.Store.Lost():
		return telemetry.Readiness{Status: "unavailable", Reason: "This node is considered dead, and its process is stopping."}
	default:
	}
	for _, part := range []struct {
		name   string
		health func(context.Context) error
	}{{"core", s.Store.Health}, {"drives", s.Drives.DB().Health}} {
		if err := part.health(ctx); err != nil {
			reason := stoa.AsError(err).Message
			if ctx.Err() != nil || reason == "" {
				reason = "It does not answer."
			}
			return telemetry.Readiness{Status: "unavailable", Reason: fmt.Sprintf("The database %s: %s", part.name, reason)}
		}
	}
	if problem := s.state.Load().Problem; problem != "" {
		return telemetry.Readiness{Status: "unavailable", Reason: problem}
	}
	return telemetry.Readiness{Status: "ok"}
}

// traceTime is the timeout for sending the last spans, because a stop must not wait for a receiver.
const traceTime = 5 * time.Second

// newTracer returns the tracer, nil if traces are disabled, and the function that shuts it down.
func newTracer(opts Options, node string) (*telemetry.Tracer, func(), error) {
	t := opts.Config.Telemetry
	if t.Traces == "" {
		return nil, func() {}, nil
	}
	tracer, err := telemetry.NewTracer(telemetry.TraceConfig{
		Endpoint: t.Traces, Headers: string(t.TraceHeaders), Version: opts.Version, Instance: node, Logger: opts.Logger,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("begin traces: %w", err)
	}
	return tracer, func() {
		ctx, cancel := context.WithTimeout(context.Background(), traceTime)
		defer cancel()
		_ = tracer.Shutdown(ctx) // the exporter has logged lost spans
	}, nil
}

// ended returns the function that receives each finished request: for the request log, the alerts,
// and the metrics if there are any.
func (s *Service) ended(m *telemetry.Metrics) func(*stoa.Request) {
	return func(r *stoa.Request) {
		m.Request(r)
		s.Requests.Add(r)
		s.Alerts.Request(r)
	}
}

func (s *Service) watch(m *telemetry.Metrics, tracer *telemetry.Tracer, linesDropped func() uint64) {
	counted := func(count func(*listen.Listener) int) func() int64 {
		return func() int64 {
			if l := s.listener.Load(); l != nil {
				return int64(count(l))
			}
			return 0
		}
	}
	sources := telemetry.Sources{
		Requests:     func() int64 { n, _ := s.API.InFlight(); return n },
		BodyBytes:    func() int64 { _, n := s.API.InFlight(); return n },
		Calls:        func() int64 { return s.pool.Stats().Active },
		Followers:    s.Sessions.Followers,
		TurnsRunning: s.Worker.Running,
		Broken:       s.Tools.Broken,
		Connections:  counted((*listen.Listener).Open),
		Refused: func() (ofAddress, inAll uint64) {
			if l := s.listener.Load(); l != nil {
				return l.Refused()
			}
			return 0, 0
		},
		Latched: func() map[string]bool {
			return map[string]bool{"core": s.Store.Latched(), "drives": s.Drives.DB().Latched()}
		},
		Providers: s.providerCounts,
		Sessions: func(ctx context.Context) (counts map[string]int64, err error) {
			err = s.Store.Report(ctx, func(tx *store.Tx) error {
				counts, err = tx.CountActive(ctx)
				return err
			})
			return counts, err
		},
	}
	sources.Waiting = s.waiting
	sources.Outbox = s.Hooks.Backlog
	sources.LinesDropped = linesDropped
	if tracer != nil {
		sources.Exports = tracer.Exports
	}
	m.Watch(sources)
}

// waitingMost is the maximum number of inputs that are counted.
const waitingMost = 100_000

// waiting counts the inputs that sessions wait for, by kind.
func (s *Service) waiting(ctx context.Context) (map[string]telemetry.Waiting, error) {
	all := map[string]telemetry.Waiting{}
	for _, kind := range stoa.InputKinds() {
		all[kind] = telemetry.Waiting{}
	}
	err := s.Store.Report(ctx, func(tx *store.Tx) error {
		kinds, err := tx.Operations().Waiting(ctx, waitingMost)
		for _, k := range kinds {
			all[k.Kind] = telemetry.Waiting{Count: k.Count, Age: max(0, time.Since(k.Oldest))}
		}
		return err
	})
	return all, err
}

// providerCounts returns the counters of the pool of providers.
func (s *Service) providerCounts() []telemetry.Provider {
	circuit := map[string]float64{"closed": 0, "half-open": 1, "open": 2}
	var list []telemetry.Provider
	for _, p := range s.pool.Stats().Providers {
		of := telemetry.Provider{Name: p.Name, InFlight: p.InFlight, Refused: p.Refused}
		for _, r := range p.Routes {
			of.Models = append(of.Models, telemetry.ProviderModel{
				Name: r.Model, Requests: r.Requests, Retries: r.Retries, Failures: r.Failures, TimedOut: r.Timeouts, Circuit: circuit[r.Breaker],
			})
		}
		list = append(list, of)
	}
	return list
}
