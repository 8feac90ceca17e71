// Package api serves the contract over HTTP: one file per resource reads requests,
// calls the packages below and renders their results.
//
// It contains no SQL, providers or prices, and never decides the cost of a call. A
// route is a line of the table in routes.go; package rest creates handlers from the
// functions in the table. Package responses parses and answers POST /api/v1/responses.
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
	"stoa/internal/agents/scheduler"
	"stoa/internal/agents/session"
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
	"stoa/internal/operate/managed"
	"stoa/internal/operate/member"
	"stoa/internal/operate/payment"
)

// A Server answers requests. Its fields are set before [Server.Handler] is called and
// not changed afterwards; those without a comment are required.
type Server struct {
	rest.Base
	Gateway  *gateway.Gateway
	Ledger   *billing.Ledger
	Drives   *drive.Drives
	Sessions *session.Sessions
	// Worker checks whether the credits cover a session.
	Worker *agent.Worker
	// Scheduler starts sessions at the instants of tasks.
	Scheduler *scheduler.Scheduler
	Catalog   *atomic.Pointer[catalog.Catalog] // replaced when the configuration is reloaded

	Pool func() upstream.Stats // of the calls to providers; nil if there are none
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

	Plans   func() []stoa.Plan // as published; nil means none
	Version string             // of the program; empty means "dev"
	Commit  string             // empty means "unknown"
	Contact config.Contact     // as published

	ExtensionOptions config.ExtensionOptions
	States           *seal.Box // required by the extension tools
	// Outbound sends requests to addresses of callers.
	Outbound *outbound.Network
	Tools    *tool.Tools // manages connections
	Hooks    *webhook.Hooks
	Sales    *payment.Sales // nil if no credits are sold

	// HeaderWait is the maximum wait of a stream for its first event before its headers
	// are sent. KeepAlive is the interval of keep-alive comments after that. 0 means 10
	// s and 15 s.
	HeaderWait, KeepAlive time.Duration
	// Heartbeat is the maximum silence of an event stream before a comment is sent. 0
	// means 10 s.
	Heartbeat time.Duration

	// ReportTime is the timeout of a query over many receipts. 0 means 30 s.
	ReportTime time.Duration

	// Machine returns data about the machine; nil if there is none.
	Machine func() Machine
	Extract extract.Reader // of documents; nil disables reading them
	// Documents waits until documents can be read, and returns the reason why some kinds of
	// them cannot; nil if all can. The function may be nil.
	Documents func(context.Context) error

	Requests *requestlog.Log
	Mailer   *member.Mailer // of links

	limits    limits
	responses *responses.Service
	embeds    *embed.Embeds
	members   member.Members
	once      sync.Once
}

func (s *Server) newResponses() *responses.Service {
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
		defaults := config.Defaults()
		s.HeaderWait = cmp.Or(s.HeaderWait, defaults.HeaderWait)
		s.KeepAlive = cmp.Or(s.KeepAlive, defaults.KeepAlive)
		s.Audited = s.audited()
		s.responses = s.newResponses()
		s.members.Keys = s.Keys
		s.embeds = embed.New(embed.Config{
			Store: s.Store, Sessions: s.Sessions, Plans: s.Keys.Plan, Logger: s.Logger, PublicURL: s.PublicURL,
			TicketLife: s.Limits.EmbedURL, TokenLife: s.Limits.EmbedToken, RateLimited: s.RateLimited,
		})
	})
}
