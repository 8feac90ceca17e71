// Package api serves the contract over HTTP: one file per resource reads requests,
// calls the packages below and renders their results.
//
// It contains no SQL, providers or prices, and never decides the cost of a call. A
// route is a line of the table in routes.go; package rest creates handlers from the
// functions in the table. A [Server] consists of servers by area, such as [Books] and [Sessions]. Package responses parses and answers POST /api/v1/responses.
// Start at [Server.Handler].
package api

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/agents/agent"
	"stoa/internal/agents/drive"
	"stoa/internal/agents/embed"
	"stoa/internal/agents/hook"
	"stoa/internal/agents/scheduler"
	"stoa/internal/agents/session"
	"stoa/internal/agents/testset"
	"stoa/internal/agents/tool"
	"stoa/internal/agents/webhook"
	"stoa/internal/base/config"
	"stoa/internal/base/extract"
	"stoa/internal/base/media"
	"stoa/internal/base/outbound"
	"stoa/internal/base/requestlog"
	"stoa/internal/base/rest"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/models/catalog"
	"stoa/internal/models/gateway"
	"stoa/internal/models/responses"
	"stoa/internal/models/upstream"
	"stoa/internal/operate/erasure"
	"stoa/internal/operate/managed"
	"stoa/internal/operate/member"
	"stoa/internal/operate/payment"
)

// A Server answers requests: each area of the API is a server of its own, with the services that it needs. The fields are
// set before [Server.Handler] is called and not changed afterwards; those without a comment are required.
type Server struct {
	rest.Base
	Calls     Calls
	Books     Books
	People    People
	Providers Providers
	Status    Status
	Doctor    Doctor
	Agents    Agents
	Drive     Drive
	Sessions  Sessions
	Webhooks  Webhooks
	Embeds    Embeds

	limits limits
	once   sync.Once
}

// core is the part that all areas share.
type core struct {
	*rest.Base
	limits     *limits
	reportTime time.Duration
}

// Calls serves calls of models, and the list of models.
type Calls struct {
	core
	Gateway          *gateway.Gateway
	Catalog          *atomic.Pointer[catalog.Catalog] // replaced when the configuration is reloaded
	ExtensionOptions config.ExtensionOptions
	States           *seal.Box // required by the extension tools
	Outbound         *outbound.Network
	Extract          extract.Reader // nil disables reading documents
	// HeaderWait is the maximum wait of a stream for its first event before its headers
	// are sent. KeepAlive is the interval of keep-alive comments after that. 0 means 10
	// s and 15 s.
	HeaderWait, KeepAlive time.Duration

	responses *responses.Service
	sessions  *Sessions // of agents that are called as models
}

// Books serves an account's credits, receipts, usage, requests, budgets, payments and audit log.
type Books struct {
	core
	Ledger   *billing.Ledger
	Requests *requestlog.Log
	Sales    *payment.Sales // nil if no credits are sold
	// ReportTime is the timeout of a query over many receipts, here and in the other areas. 0 means 30 s.
	ReportTime time.Duration
}

// People serves accounts, their members and their keys.
type People struct {
	core
	Ledger *billing.Ledger
	// Scheduler starts sessions at the instants of tasks.
	Scheduler *scheduler.Scheduler
	Plans     func() []stoa.Plan // as published; nil means none
	Catalog   *atomic.Pointer[catalog.Catalog]
	Mailer    *member.Mailer  // sends links
	Erasures  *erasure.Eraser // carries out erasures

	members member.Members
}

// Providers serves the operators' view of providers, and the managed settings.
type Providers struct {
	core
	Catalog *atomic.Pointer[catalog.Catalog]
	Pool    func() upstream.Stats // of the calls to providers; nil if there are none
	// Try sends a small call to a provider; nil if providers cannot be tested.
	Try func(ctx context.Context, account, model string, r stoa.Route) (upstream.Tried, error)
	// Managed changes the managed settings. Prepare returns providers for a test of the draft,
	// and Applied makes the nodes take the newest version.
	Managed *managed.Manager
	Prepare func([]stoa.Provider) *upstream.Set
	Applied func()
	// ListModels reads the models that the server of a provider lists; local reports whether it is
	// at a private address. It is nil if providers cannot be tested.
	ListModels func(ctx context.Context, p stoa.Provider) (models []stoa.ListedModel, local bool, err error)
	// Listings returns the providers whose models are not all offered; nil means none.
	Listings func() []store.Finding
}

// Status serves what the service says about itself and about the caller.
type Status struct {
	core
	Catalog  *atomic.Pointer[catalog.Catalog]
	Drives   *drive.Drives
	Ledger   *billing.Ledger
	Sessions *session.Sessions
	Plans    func() []stoa.Plan // as published; nil means none
	Payments bool               // credits are sold
	Version  string             // of the program; empty means "dev"
	Commit   string             // empty means "unknown"
	Contact  config.Contact     // as published
}

// Doctor serves the state of the service, for operators.
type Doctor struct {
	core
	Gateway *gateway.Gateway
	Catalog *atomic.Pointer[catalog.Catalog]
	Drives  *drive.Drives
	Hooks   *webhook.Hooks
	Tools   *tool.Tools
	Pool    func() upstream.Stats // as in [Providers]
	// Listings returns the providers whose models are not all offered; nil means none.
	Listings func() []store.Finding // as in [Providers]
	// Machine returns data about the machine; nil if there is none.
	Machine func() Machine
	// Documents waits until documents can be read, and returns the reason why some kinds of
	// them cannot; nil if all can. The function may be nil.
	Documents func(context.Context) error
}

// Agents serves what owners set up: spaces, agents, secrets and connections.
type Agents struct {
	core
	Catalog  *atomic.Pointer[catalog.Catalog]
	Sessions *session.Sessions
	Tools    *tool.Tools // manages connections
}

// Drive serves the files of agents and the attachments of messages.
type Drive struct {
	core
	Drives   *drive.Drives
	Sessions *session.Sessions

	embeds *embed.Embeds
}

// Sessions serves sessions, their tool calls and questions, and scheduled tasks.
type Sessions struct {
	core
	Sessions *session.Sessions
	// Worker checks whether the credits cover a session.
	Worker *agent.Worker
	// Scheduler starts sessions at the instants of tasks.
	Scheduler *scheduler.Scheduler
	// Tests runs test sets.
	Tests *testset.Runner
	// Heartbeat is the maximum silence of an event stream before a comment is sent. 0
	// means 10 s.
	Heartbeat time.Duration
	// ToolWait is the longest time that a call of an agent as a tool waits for its answer, because many clients give up after
	// a minute. 0 means 50 s.
	ToolWait time.Duration

	agents  *Agents
	drive   *Drive
	hooks   *hook.Hooks
	version string // of the program
}

// Webhooks serves webhooks and their deliveries.
type Webhooks struct {
	core
	Hooks *webhook.Hooks
	// Outbound sends requests to addresses of callers.
	Outbound *outbound.Network
}

// Embeds serves embeds to their owners and to visitors.
type Embeds struct {
	core
	embeds   *embed.Embeds
	sessions *Sessions // their events are those of chats
}

func (s *Calls) newResponses() *responses.Service {
	o := s.ExtensionOptions
	return &responses.Service{
		Gateway: s.Gateway, HeaderWait: s.HeaderWait, KeepAlive: s.KeepAlive, WriteTimeout: writeTimeout, States: s.States,
		Options: responses.Options{
			Tools: s.Extensions.Tools, Compact: s.Extensions.Compact, Formats: s.Extensions.Formats, ForeignTools: o.Tools.Foreign == "ignore",
			Images: s.Extensions.Images, Files: s.Extensions.Files, ImageURL: media.Policy(o.Images.URL), FileURL: media.Policy(o.Files.URL), Documents: s.Extract != nil,
		},
		Policy:  responses.Policy{AnyChoice: o.Tools.Forced == "auto", BestEffort: o.Formats.BestEffort},
		Fetcher: media.NewFetcher(s.Outbound), Extract: s.Extract,
	}
}

// prepare fills zero settings with the defaults of package config, once.
func (s *Server) prepare() {
	s.Base.Prepare()
	s.once.Do(func() {
		c := core{&s.Base, &s.limits, cmp.Or(s.Books.ReportTime, reportTime)}
		s.Calls.core, s.Books.core, s.People.core, s.Providers.core, s.Status.core, s.Doctor.core = c, c, c, c, c, c
		s.Agents.core, s.Drive.core, s.Sessions.core, s.Webhooks.core, s.Embeds.core = c, c, c, c, c
		defaults := config.Defaults()
		s.Calls.HeaderWait = cmp.Or(s.Calls.HeaderWait, defaults.HeaderWait)
		s.Calls.KeepAlive = cmp.Or(s.Calls.KeepAlive, defaults.KeepAlive)
		s.Calls.responses = s.Calls.newResponses()
		s.Audited = s.audited()
		s.People.members.Keys = s.Keys
		s.Sessions.agents, s.Sessions.drive = &s.Agents, &s.Drive
		s.Calls.sessions = &s.Sessions
		s.Sessions.version = cmp.Or(s.Status.Version, "dev")
		s.Embeds.embeds = embed.New(embed.Config{
			Store: s.Store, Sessions: s.Sessions.Sessions, Plans: s.Keys.Plan, Logger: s.Logger, PublicURL: s.PublicURL,
			TicketLife: s.Limits.EmbedURL, TokenLife: s.Limits.EmbedToken, RateLimited: s.RateLimited,
		})
		s.Embeds.sessions, s.Drive.embeds = &s.Sessions, s.Embeds.embeds
		s.Sessions.hooks = &hook.Hooks{Store: s.Store, Sessions: s.Sessions.Sessions, Vault: s.Webhooks.Hooks.Vault, Rates: s.Embeds.embeds.Rates(), RateLimited: s.RateLimited}
	})
}
