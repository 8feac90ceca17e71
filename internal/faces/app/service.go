package app

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stoa/internal/agents/agent"
	"stoa/internal/agents/drive"
	"stoa/internal/agents/oauth"
	"stoa/internal/agents/scheduler"
	"stoa/internal/agents/session"
	"stoa/internal/agents/testset"
	"stoa/internal/agents/tool"
	"stoa/internal/agents/webhook"
	"stoa/internal/base/auth"
	"stoa/internal/base/cluster"
	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/extract"
	"stoa/internal/base/listen"
	"stoa/internal/base/mail"
	"stoa/internal/base/outbound"
	"stoa/internal/base/peers"
	"stoa/internal/base/requestlog"
	"stoa/internal/base/rest"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
	"stoa/internal/base/vault"
	"stoa/internal/faces/api"
	"stoa/internal/faces/web"
	"stoa/internal/models/billing"
	"stoa/internal/models/catalog"
	"stoa/internal/models/gateway"
	"stoa/internal/models/upstream"
	"stoa/internal/operate/alert"
	"stoa/internal/operate/console"
	"stoa/internal/operate/erasure"
	"stoa/internal/operate/managed"
	"stoa/internal/operate/member"
	"stoa/internal/operate/payment"
	"stoa/internal/operate/retention"
	"stoa/internal/operate/signin"
)

// Parts are the inputs of [New]. Config, Catalog, Store and Drives are required.
type Parts struct {
	Config  config.Config // complete, with its defaults
	Catalog *catalog.Catalog
	Store   *store.Store
	Drives  *drive.Drives
	Extract extract.Reader // reader of documents; nil disables it

	Providers []stoa.Provider      // providers of the catalog's routes; if empty, only the sandbox
	Plans     map[string]stoa.Plan // nil means the plans of Config
	Address   string               // address of the listener, for links if Config contains no public URL
	Admin     string               // address of the admin listener; may be empty
	Version   string
	Commit    string
	States    *seal.Box          // seals the state that callers keep; required with the extension tools
	Logger    *slog.Logger       // nil disables logging
	Metrics   *telemetry.Metrics // nil disables metrics; one service only, because the sources are registered once
	Tracer    *telemetry.Tracer  // nil disables tracing
	Vault     *vault.Vault       // vault of stored secrets; nil means that of Config
	MailRoots *x509.CertPool     // authorities for the mail server's certificate; nil means the system's

	LinesDropped func() uint64 // dropped lines of the log; nil means that none are dropped

	// Tests change these before the parts are built: Pool replaces the calls to providers, and the functions change
	// settings that Config does not contain.
	Pool      gateway.Pool
	Sessions  func(*session.Config)
	Worker    func(*agent.Config)
	Scheduler func(*scheduler.Config)
	Hooks     func(*webhook.Config)
	Network   func(*outbound.Settings)
	API       func(*api.Server)
}

// A Service contains all parts of Stoa, wired. Nothing runs yet, so that tests can run only the parts that they need;
// [Run] runs all.
type Service struct {
	Store     *store.Store
	Drives    *drive.Drives
	Extract   extract.Reader
	Ledger    *billing.Ledger
	Keys      *auth.Keys
	Gateway   *gateway.Gateway
	Sessions  *session.Sessions
	Worker    *agent.Worker
	Scheduler *scheduler.Scheduler
	Tests     *testset.Runner
	Retention *retention.Purger
	Erasures  *erasure.Eraser
	Hooks     *webhook.Dispatcher
	Alerts    *alert.Watch
	Requests  *requestlog.Log
	API       *api.Server
	Peers     *peers.Peers
	Vault     *vault.Vault
	Tools     *tool.Tools
	Console   *console.Server
	SignIn    *signin.Server
	Sales     *payment.Sales // nil if no credits are sold
	Discovery *Discovery

	config   config.Config // configuration at the start
	log      *slog.Logger
	metrics  *telemetry.Metrics
	admin    *admin
	listener atomic.Pointer[listen.Listener] // nil if tests listen themselves
	pool     *upstream.Pool
	applying sync.Mutex                    // held while a configuration is applied
	state    atomic.Pointer[managed.State] // effective state, with the managed settings
	newer    chan struct{}                 // signals that a newer version may exist
	network  *outbound.Network
	mail     webhook.Mail
	catalog  atomic.Pointer[catalog.Catalog]
	plans    atomic.Pointer[map[string]stoa.Plan]
	limited  atomic.Bool // enforces the plans' limits
	keep     atomic.Pointer[config.Retention]
	logs     atomic.Pointer[config.RequestLog]
}

// New wires a service. It starts no goroutine.
func New(p Parts) (*Service, error) {
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	if p.Plans == nil {
		p.Plans = p.Config.AccountPlans()
	}
	s := &Service{Store: p.Store, Drives: p.Drives, Extract: p.Extract, config: p.Config, log: p.Logger, metrics: p.Metrics}
	s.newer = make(chan struct{}, 1)
	s.state.Store(&managed.State{Base: p.Config, Config: p.Config})
	s.Store.OnHint(cluster.HintConfig, func(string) { s.kickConfig() })
	s.plans.Store(&p.Plans)
	s.limited.Store(p.Config.RateLimited())
	s.keep.Store(&p.Config.Retention)
	s.logs.Store(&p.Config.Requests)

	s.Ledger = billing.New(s.Store, billing.Config{Shared: s.shared(), Reached: webhook.BudgetReached, Logger: s.log, Metrics: p.Metrics})
	s.Keys = auth.New(s.Store, s.plan)
	calls := upstream.Config{Providers: p.Providers, Logger: s.log, Version: p.Version, Tracer: p.Tracer}
	s.pool = upstream.New(calls)
	s.Discovery = newDiscovery(s.pool, p.Catalog, s.log, func(cat *catalog.Catalog) {
		s.catalog.Store(cat)
		var routes []telemetry.Route
		for _, model := range cat.Models() {
			for _, r := range model.Routes {
				routes = append(routes, telemetry.Route{Model: model.ID, Provider: r.Provider})
			}
		}
		p.Metrics.Learn(routes)
	})
	s.Alerts = alert.New(alert.Config{Store: s.Store, Providers: s.pool.Stats, Logger: s.log})
	s.Gateway = &gateway.Gateway{Catalog: &s.catalog, Discover: s.Discovery.Find, Ledger: s.Ledger, Pool: s.pool, Counter: s.pool, Logger: s.log, Metrics: p.Metrics}
	if p.Pool != nil {
		s.Gateway.Pool, s.Gateway.Counter = p.Pool, nil
	}
	if err := s.buildOutbound(p); err != nil {
		return nil, err
	}
	s.buildSessions(p)
	most := p.Config.Limits.RequestsKeptPerAccount
	s.Requests = requestlog.New(s.Store, func() (bool, int) { return s.logs.Load().Keep > 0, most }, s.log)
	s.Retention = retention.New(s.Store, func() config.Retention { return *s.keep.Load() },
		func() (time.Duration, int) { return s.logs.Load().Keep, most }, s.Sessions.RemoveEnded, s.log)
	s.Erasures = erasure.New(s.Store, s.Drives, s.Sessions, s.log)
	if err := s.buildAPI(p); err != nil {
		return nil, err
	}
	s.Peers = peers.New(s.Store, s.log)
	s.Peers.Share("holds", s.Ledger.Holds())
	for name, counter := range s.API.Shared() {
		s.Peers.Share(name, counter)
	}
	s.Store.CountCalls(s.Gateway.Active)
	s.Store.OnExpiry(func() {
		s.API.Interrupt()
		s.Worker.Interrupt()
	})
	s.watch(p.Metrics, p.Tracer, p.LinesDropped)
	return s, nil
}

// shared reports whether other nodes may serve the same database.
func (s *Service) shared() bool { return s.Store.Postgres() }

// runPeers receives hints of other nodes and exchanges counts with them until ctx ends.
func (s *Service) runPeers(ctx context.Context) error {
	if !s.shared() {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Store.Listen(ctx, string(s.config.DatabaseListen)) })
	group.Go(func() error { return s.Peers.Run(ctx) })
	return group.Wait()
}

func (s *Service) buildSessions(p Parts) {
	l := p.Config.Limits
	shared := s.shared()
	sessions := session.Config{Store: s.Store, Limits: session.LimitsOf(l), Logger: s.log, Metrics: p.Metrics}
	adjust(p.Sessions, &sessions)
	s.Sessions = session.New(sessions)
	worker := agent.Config{Sessions: s.Sessions, Gateway: s.Gateway, Drives: s.Drives, Tools: s.Tools, Plans: s.plan, Shared: shared, CompactAt: p.Config.Agents.CompactAt, Logger: s.log, Metrics: p.Metrics, Tracer: p.Tracer}
	worker.Tables, _ = s.Extract.(extract.TableReader)
	adjust(p.Worker, &worker)
	s.Worker = agent.New(worker)
	tasks := scheduler.Config{Sessions: s.Sessions, Shared: shared, PerAgent: l.SchedulesPerAgent, Interval: l.ScheduleInterval, Logger: s.log, Metrics: p.Metrics}
	adjust(p.Scheduler, &tasks)
	s.Scheduler = scheduler.New(tasks)
	s.Tests = testset.New(s.Sessions, shared, s.log)
}

// buildOutbound creates the parts that store secrets and send requests to callers' addresses.
func (s *Service) buildOutbound(p Parts) (err error) {
	if s.network, err = newNetwork(p, p.Config.Outbound.Allow); err != nil {
		return err
	}
	if s.Vault = p.Vault; s.Vault == nil {
		if s.Vault, err = vault.Of(p.Config); err != nil {
			return err
		}
	}
	if err := s.Vault.Err(); err != nil {
		s.log.Error("the keys of stored secrets cannot be read", "error", err)
	}
	s.Tools = &tool.Tools{Store: s.Store, Vault: s.Vault, Network: s.network, Version: p.Version, Logger: s.log, Emit: webhook.OfConnection}
	base := p.Config.BaseURL(p.Address)
	if u, err := url.Parse(base); p.Config.PublicURL != "" || err == nil && oauth.Loopback(u) {
		s.Tools.PublicURL = base
	}
	hooks := webhook.Config{
		Store: s.Store, Vault: s.Vault, Client: s.network.Client(outbound.Limits{Body: webhook.ReplyKept, ErrorBody: webhook.ReplyKept}),
		Mail:   webhook.Mail{Sender: mail.New(p.Config.Mail.SMTP, p.MailRoots), Texts: p.Config.Mail.Texts, Addresses: p.Config.Mail.Addresses, PublicURL: p.Config.PublicURL},
		Shared: s.shared(), KeysPauseAfter: p.Config.SignIn.KeysPauseAfter, Version: p.Version, Logger: s.log, Metrics: p.Metrics,
	}
	adjust(p.Hooks, &hooks)
	s.mail = hooks.Mail
	s.Hooks = webhook.New(hooks)
	return nil
}

func (s *Service) buildAPI(p Parts) error {
	site, err := web.New(web.Config{
		Version: p.Version, Origin: p.Config.BaseURL(p.Address), Contract: contract.For(p.Config.Extensions.Names()...),
		Land: func(r *http.Request) web.LandingPage { return landingPage(s.Tools.Land(r.Context(), r.URL.Query())) },
		Confirm: func(r *http.Request, token string, connect bool) web.LandingPage {
			return landingPage(s.Tools.Confirm(r.Context(), token, connect))
		},
		Client: s.Tools.ClientDocument,
		Embeds: func(r *http.Request, id string) (web.ChatPage, bool, error) {
			page, found, err := s.API.Embeds.EmbedPage(r, id)
			return web.ChatPage(page), found, err
		},
	})
	if err != nil {
		return err
	}
	hooks := &webhook.Hooks{Store: s.Store, Vault: s.Vault, Mail: s.mail}
	listings := func() []store.Finding { return *s.Discovery.findings.Load() }
	s.API = &api.Server{
		Base: rest.Base{
			Keys: s.Keys, Store: s.Store, MaxBody: int64(p.Config.Limits.Body), Limits: p.Config.Limits, Extensions: p.Config.Extensions, Logger: s.log,
			PublicURL:     p.Config.BaseURL(p.Address),
			ChatNoCredits: p.Config.ExtensionOptions.ChatCompletions.NoCredits, Proxies: p.Config.Proxies(), Hosts: serviceHosts(p.Config),
			RateLimited: s.limited.Load, RequestLog: s.logs.Load, Ended: s.ended(p.Metrics), Tracer: p.Tracer,
		},
		Calls: api.Calls{
			Gateway: s.Gateway, Catalog: &s.catalog, ExtensionOptions: p.Config.ExtensionOptions, States: p.States, Outbound: s.network,
			Extract: s.Extract, HeaderWait: p.Config.HeaderWait, KeepAlive: p.Config.KeepAlive,
		},
		Books: api.Books{Ledger: s.Ledger, Requests: s.Requests},
		People: api.People{
			Ledger: s.Ledger, Scheduler: s.Scheduler, Plans: s.planList, Catalog: &s.catalog, Erasures: s.Erasures,
			Mailer: &member.Mailer{Store: s.Store, Vault: s.Vault, Sender: s.mail.Sender, PublicURL: s.mail.PublicURL, Logger: s.log, Wake: make(chan struct{}, 1)},
		},
		Providers: api.Providers{
			Catalog: &s.catalog, Pool: s.pool.Stats, Try: s.pool.Try, ListModels: s.pool.Models, Listings: listings,
			Managed: &managed.Manager{Store: s.Store, Vault: s.Vault, InForce: s.state.Load}, Prepare: s.pool.Prepare, Applied: s.applied,
		},
		Status: api.Status{
			Catalog: &s.catalog, Drives: s.Drives, Ledger: s.Ledger, Sessions: s.Sessions, Plans: s.planList,
			Version: p.Version, Commit: p.Commit, Contact: p.Config.Contact,
		},
		Doctor: api.Doctor{
			Gateway: s.Gateway, Catalog: &s.catalog, Drives: s.Drives, Hooks: hooks, Tools: s.Tools, Pool: s.pool.Stats, Listings: listings,
			Machine: machineOf(p.Config.Data), Documents: s.documents,
		},
		Agents:   api.Agents{Catalog: &s.catalog, Sessions: s.Sessions, Tools: s.Tools},
		Drive:    api.Drive{Drives: s.Drives, Sessions: s.Sessions},
		Sessions: api.Sessions{Sessions: s.Sessions, Worker: s.Worker, Scheduler: s.Scheduler, Tests: s.Tests},
		Webhooks: api.Webhooks{Hooks: hooks, Outbound: s.network},
	}
	if s.Sales, err = newSales(p, s); err != nil {
		return err
	}
	s.API.Books.Sales, s.API.Status.Payments = s.Sales, s.Sales != nil
	if err := s.buildSignIn(p, site); err != nil {
		return err
	}
	adjust(p.API, s.API)
	return nil
}

// buildSignIn creates the sign-in to the console, and the pages with its paths.
func (s *Service) buildSignIn(p Parts, site *web.Site) error {
	network, err := identityNetwork(p)
	if err != nil {
		return err
	}
	life := p.Config.SignIn.Session
	s.Keys.SessionLife, s.Keys.SessionIdle = life, min(life, s.Keys.SessionIdle)
	s.Keys.PauseAfter = p.Config.SignIn.KeysPauseAfter
	s.Console = &console.Server{Base: &s.API.Base}
	for _, provider := range p.Config.SignIn.OIDC {
		s.Console.SignIn = append(s.Console.SignIn, console.Provider{Name: provider.Name, URL: "/signin/" + provider.Name})
	}
	s.SignIn = &signin.Server{
		Base: &s.API.Base, Members: &member.Members{Keys: s.Keys, Create: s.API.People.CreateInvited}, Vault: s.Vault, Providers: p.Config.SignIn.OIDC,
		Client: network.Client(outbound.Limits{Total: signin.RequestTime, Body: signin.MaxReply}), Page: site.Message, EndObjects: s.API.People.EndObjects,
		Begin: s.Console.SetCookie,
	}
	s.Console.Failed = s.SignIn.Failed
	pages := http.NewServeMux()
	pages.Handle("/", site.Handler())
	pages.Handle("/console/session", s.Console.Session())
	s.SignIn.Routes(pages)
	if s.Sales != nil {
		pages.Handle("POST /hooks/stripe", s.API.Books.StripeHook())
	}
	s.API.Web = pages
	return nil
}

func adjust[T any](change func(*T), settings *T) {
	if change != nil {
		change(settings)
	}
}

func (s *Service) renewPlans(ctx context.Context) error {
	return s.Ledger.RunPlans(ctx, func() map[string]stoa.Plan { return *s.plans.Load() })
}

// plan returns the plan with the given id. An account whose plan is no longer configured has no
// rights.
func (s *Service) plan(id string) stoa.Plan {
	if p, ok := (*s.plans.Load())[id]; ok {
		return p
	}
	return stoa.Plan{ID: id, Name: id}
}

func landingPage(l tool.Landing) web.LandingPage {
	page := web.LandingPage{Authorized: l.Authorized, Cancelled: l.Cancelled, Message: l.Message, Said: l.Said}
	if q := l.Question; q != nil {
		page.Question = &web.LandingQuestion{
			Token: q.Token, Connection: q.Connection, Origin: q.Origin, Space: q.SpaceName, Account: q.AccountName, AccountID: q.AccountID, Issuer: q.Issuer, Scopes: q.Scopes,
			SignIn: q.SignIn, TokenFrom: q.TokenFrom, ExpiresAt: q.ExpiresAt,
		}
	} else if l.ConnectionID != "" {
		page.Console = "/console#connections/" + l.ConnectionID
	}
	return page
}

// knownHost returns a function that reports whether a Host header may name this service. A page of another site can
// let its own name resolve to an address of this machine or its network, and would then read replies as its own (DNS
// rebinding). So a name in a public domain must be at the site of publicUrl, because nobody else can register
// other names.
func knownHost(cfg config.Config) func(host string) bool {
	own := ""
	if u, err := url.Parse(cfg.PublicURL); err == nil && u.Hostname() != "" {
		own = outbound.SiteOf(u.Hostname())
	}
	return func(host string) bool {
		name := host
		if h, _, err := net.SplitHostPort(host); err == nil {
			name = h
		}
		name = strings.Trim(name, "[]")
		return !outbound.InPublicDomain(name) || outbound.SiteOf(name) == own
	}
}

// serviceHosts returns the check of the listener for callers, or nil to accept every name. It checks only if the
// service listens on this machine only.
func serviceHosts(cfg config.Config) func(host string) bool {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil
	}
	if a, err := netip.ParseAddr(host); (err != nil || !a.IsLoopback()) && host != "localhost" {
		return nil
	}
	return knownHost(cfg)
}
