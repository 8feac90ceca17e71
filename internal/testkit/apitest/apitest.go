// Package apitest starts a service for tests, and provides a client that checks every request
// and reply against the contract.
//
// It is for tests only. The service is wired by [app.New]: a separate database per test
// ([storetest.New]), HTTP over a socket, the sandbox as provider. Start with [Start], then
// [Service.Client]; [Recorder] records which parts of the contract were exercised, and
// [Fuzzer] sends requests generated from the contract.
package apitest

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"stoa/internal/agents/agent"
	"stoa/internal/agents/drive"
	"stoa/internal/agents/scheduler"
	"stoa/internal/agents/session"
	"stoa/internal/agents/webhook"
	"stoa/internal/base/auth"
	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/base/extract/extracttest"
	"stoa/internal/base/listen"
	"stoa/internal/base/outbound"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
	"stoa/internal/base/vault"
	"stoa/internal/faces/api"
	"stoa/internal/faces/app"
	"stoa/internal/models/catalog"
	"stoa/internal/operate/member"
	"stoa/internal/testkit/storetest"
)

// Config changes the service that [Start] builds. The zero value means a service with the
// sandbox.
type Config struct {
	Providers []stoa.Provider         // empty means that the sandbox serves everything
	Families  map[string][]stoa.Route // required with Providers
	Sandbox   string                  // see catalog.Options
	AliasSets []string                // see catalog.Options
	Models    map[string]stoa.ModelChange
	Grant     stoa.Credits            // of the owner; 0 means 100 credits
	Drive     drive.Limits            // zero means the defaults
	Reader    extract.Reader          // of documents; nil means that they are unsupported
	Plans     []stoa.Plan             // nil means free (no gated models) and pro (all), without limits
	Logger    *slog.Logger            // may be nil
	Metrics   *telemetry.Metrics      // may be nil
	Tracer    *telemetry.Tracer       // may be nil
	Home      *storetest.Database     // nil means a new one of storetest.New
	Server    func(*api.Server)       // changes settings before the start; may be nil
	Sessions  func(*session.Config)   // changes settings before the start; may be nil
	Worker    func(*agent.Config)     // changes settings before the start; may be nil
	Schedules func(*scheduler.Config) // changes settings before the start; may be nil
	Hooks     func(*webhook.Config)   // changes settings before the start; may be nil
	Vault     *vault.Vault            // nil means one with a fixed key
	Allow     []string                // destinations that are not public; see package outbound
	Idle      bool                    // sessions are accepted but not run
	StateKey  string                  // seals state: 32 bytes; empty means a fixed one
	SignIn    []config.OIDC           // identity providers
	File      *config.Config          // the configuration file; nil means none
	Mail      config.Mail             // zero means no mail
	Payments  config.Payments         // zero means that no credits are sold
	MailRoots *x509.CertPool          // see app.Parts
	PublicURL string                  // empty means the address of the service
	Version1  bool                    // without extensions; otherwise all are enabled
	Recorder  *Recorder               // nil disables recording
}

// A Service is a running service.
type Service struct {
	*app.Service
	URL     string // without a path
	Key     string // the owner's secret
	Account stoa.Account
	Server  *api.Server // of the Service
	HTTP    *httptest.Server

	t        testing.TB
	recorder *Recorder
}

// Start builds and starts a service; it stops when the test ends.
func Start(t testing.TB, cfg Config) *Service {
	t.Helper()
	home := storetest.New(t)
	if cfg.Home != nil {
		home = *cfg.Home
	}
	cat, err := catalog.New(catalog.Options{Providers: cfg.Providers, Families: cfg.Families, Sandbox: cfg.Sandbox, AliasSets: cfg.AliasSets, Models: cfg.Models})
	if err != nil {
		t.Fatalf("make the catalog: %v", err)
	}
	st := home.Open()
	cfg.Drive.SearchTime = cmp.Or(cfg.Drive.SearchTime, time.Hour) // a busy machine cuts no search short
	drives, err := drive.Open(context.Background(), db.Config{Dir: home.Config.Dir, PostgresURL: home.Config.PostgresURL, Observe: home.Config.Observe}, cfg.Drive)
	if err != nil {
		t.Fatalf("open the drives: %v", err)
	}
	t.Cleanup(func() { drives.Close() })
	drives.UseReader(cfg.Reader)
	plans := map[string]stoa.Plan{"free": {ID: "free", Name: "Free"}, "pro": {ID: "pro", Name: "Pro", GatedModels: true}}
	if cfg.Plans != nil {
		clear(plans)
		for _, p := range cfg.Plans {
			plans[p.ID] = p
		}
	}
	settings := config.Defaults()
	if cfg.File != nil {
		settings = *cfg.File
	}
	if !cfg.Version1 {
		settings.Extensions = config.AllExtensions()
	}
	keepEdition(t, settings.Extensions)
	settings.Outbound.Allow = cfg.Allow
	settings.SignIn.OIDC, settings.PublicURL = cfg.SignIn, cfg.PublicURL
	settings.Mail, settings.Payments = cfg.Mail, cfg.Payments
	if cfg.Vault == nil {
		if cfg.Vault, err = vault.Open([]seal.MasterKey{{ID: "test", Key: []byte("0123456789abcdef0123456789abcdef")}}, ""); err != nil {
			t.Fatalf("make a vault: %v", err)
		}
	}
	states, err := seal.New([]byte(cmp.Or(cfg.StateKey, "0123456789abcdef0123456789abcdef")))
	if err != nil {
		t.Fatalf("make a box: %v", err)
	}
	server := httptest.NewUnstartedServer(nil)
	if cfg.Payments.Enabled() { // people return from a payment
		settings.PublicURL = cmp.Or(settings.PublicURL, "http://"+server.Listener.Addr().String())
	}
	wired, err := app.New(app.Parts{
		Config: settings, States: states, Catalog: cat, Store: st, Drives: drives, Extract: extracttest.Direct{}, Providers: cfg.Providers, Plans: plans,
		Address: server.Listener.Addr().String(), Version: "test", Logger: cfg.Logger, Metrics: cfg.Metrics, Tracer: cfg.Tracer,
		Sessions: cfg.Sessions, Scheduler: cfg.Schedules, API: cfg.Server, Vault: cfg.Vault, Hooks: cfg.Hooks, MailRoots: cfg.MailRoots, Network: isolated,
		Worker: func(c *agent.Config) {
			c.Grace = -1
			if cfg.Worker != nil {
				cfg.Worker(c)
			}
		},
	})
	if err != nil {
		t.Fatalf("wire the service: %v", err)
	}
	s := &Service{Service: wired, Server: wired.API, HTTP: server, t: t, recorder: cfg.Recorder}
	s.run("settle charges", s.Ledger.Run)
	s.run("keep the request log", s.Requests.Run)
	s.run("follow the managed settings", s.FollowConfig)
	s.Account = storetest.Account(t, st, cmp.Or(cfg.Grant, 100*stoa.Credit))
	s.Key, _ = s.NewKey(s.Account.ID, stoa.ScopeAll, stoa.ScopeOperator)
	if !cfg.Idle {
		s.run("run sessions", s.Worker.Run)
		s.run("start scheduled sessions", s.Scheduler.Run)
		s.run("run test sets", s.Tests.Run)
		s.run("send to webhooks", s.Service.Hooks.Run)
		s.run("send links", s.Server.People.Mailer.Run)
	}
	server.Config.Handler = s.Server.Handler()
	server.Listener = listen.New(server.Listener, listen.Config{})
	server.Start()
	t.Cleanup(func() { s.Server.Drain(); server.Close() }) // open streams end
	s.URL = server.URL
	return s
}

// isolated restricts requests to addresses of callers to this machine, and resolves names
// without DNS.
func isolated(s *outbound.Settings) {
	s.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		if a, err := netip.ParseAddr(host); err == nil {
			return []netip.Addr{a}, nil
		}
		if host == "localhost" {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
	}
	s.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().IsLoopback() {
			return nil, errors.New("not on this machine")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
}

// run runs a part in the background until the test ends.
func (s *Service) run(what string, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := run(ctx)
		select {
		case <-s.Store.Lost(): // a dead node ends with an error
		default:
			if err != nil && ctx.Err() == nil {
				s.t.Errorf("%s: %v", what, err)
			}
		}
	}()
	s.t.Cleanup(func() { stop(); <-ended })
}

// NewKey creates a key with the given scopes and returns its secret.
func (s *Service) NewKey(accountID string, scopes ...string) (string, stoa.Key) {
	return s.NewKeyLike(stoa.Key{AccountID: accountID, Name: "test", Scopes: scopes})
}

// NewKeyLike creates the described key and returns its secret.
func (s *Service) NewKeyLike(k stoa.Key) (string, stoa.Key) {
	s.t.Helper()
	secret := auth.Mint()
	var made stoa.Key
	err := s.Store.Write(context.Background(), func(tx *store.Tx) (err error) {
		made, err = s.Keys.Create(context.Background(), tx, k, secret)
		return err
	})
	if err != nil {
		s.t.Fatalf("make a key: %v", err)
	}
	return secret, made
}

// NewMember creates a member of an account, who signs in with links.
func (s *Service) NewMember(accountID, role, operatorRole string) store.MemberRow {
	s.t.Helper()
	ctx := context.Background()
	members := member.Members{Keys: s.Keys}
	var made store.MemberRow
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		_, token, err := members.Invite(ctx, tx, stoa.Invitation{AccountID: accountID, Role: role, OperatorRole: operatorRole})
		if err != nil {
			return err
		}
		p, err := tx.People().PersonOf(ctx, stoa.Person{Name: "ada." + role})
		if err != nil {
			return err
		}
		made, err = members.Accept(ctx, tx, auth.Hash(token), p)
		return err
	})
	if err != nil {
		s.t.Fatalf("make a member: %v", err)
	}
	return made
}

// Client returns a checking client with the owner's key.
func (s *Service) Client(t testing.TB) *Client { return s.ClientWith(t, s.Key) }

// ClientWith returns a checking client with the given key; an empty one sends none.
func (s *Service) ClientWith(t testing.TB, key string) *Client {
	t.Helper()
	return NewClient(t, s.URL, key, s.recorder)
}
