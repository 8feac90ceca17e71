package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/agents/embed"
	"stoa/internal/agents/httptool"
	"stoa/internal/agents/remote"
	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
	"stoa/internal/models/schema"
)

const storeTimeout = 2 * time.Second

// getHealth serves GET /api/v1/health. Its 503 does not use the error envelope.
func (s *Status) getHealth(ctx context.Context, in rest.PublicRequest[rest.None, rest.None]) (rest.Reply[contract.Health], error) {
	unhealthy := func(status string) rest.Reply[contract.Health] {
		return rest.Reply[contract.Health]{Status: http.StatusServiceUnavailable, Body: contract.Health{Status: status, Timestamp: contract.Time(time.Now())}}
	}
	if s.IsDraining() {
		return unhealthy("draining"), nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout) // not the caller's context, because a disconnect says nothing about the service
	defer cancel()
	err := errors.Join(s.Store.Health(ctx), s.Drives.DB().Health(ctx))
	if err != nil {
		in.Log.Failed(err)
		return unhealthy("unavailable"), nil
	}
	return rest.Reply[contract.Health]{Body: contract.Health{Status: "ok", Timestamp: contract.Time(time.Now())}}, nil
}

const maxPageSize = 100

func (s *Status) getMeta(context.Context, rest.PublicRequest[rest.None, rest.None]) (rest.Reply[contract.Meta], error) {
	cat := s.Catalog.Load()
	meta := contract.Meta{
		Name: "stoa", Version: orElse(s.Version, "dev"), APIVersion: "v1", Commit: orElse(s.Commit, "unknown"),
		DefaultModel: cat.DefaultModel(stoa.Plan{}),
		Models:       []contract.Model{},
		Plans:        []contract.PlanDetails{},
		Limits:       s.publishedLimits(),
		Docs: contract.DocsLinks{
			Openapi: s.link("/api/v1/openapi.json"), Explorer: s.link("/api/v1/doc"), Reference: s.link("/docs/api-openapi"),
		},
		Contact:    contract.Contact{URL: nullIfZero(s.Contact.URL), Email: nullIfZero(s.Contact.Email)},
		Extensions: s.Extensions.Names(), Payments: s.Payments,
	}
	for _, m := range cat.Models() {
		meta.Models = append(meta.Models, contract.Model{
			ID: m.ID, Family: m.Family, Gated: m.Gated, Available: len(m.Routes) > 0,
			Sandbox: len(m.Routes) > 0 && !slices.ContainsFunc(m.Routes, func(r stoa.Route) bool { return r.Wire != catalog.SandboxWire }),
			Aliases: append(m.Aliases, m.DeprecatedAliases...), DeprecatedAliases: m.DeprecatedAliases,
			ContextTokens: nullIfZero(m.ContextTokens), MaxOutputTokens: nullIfZero(m.MaxOutput),
			Price: contractTariff(&m.Price),
		})
	}
	if s.Plans != nil {
		for _, p := range s.Plans() {
			meta.Plans = append(meta.Plans, contract.PlanDetails{
				ID: p.ID, Name: p.Name, GatedModels: p.GatedModels,
				RequestsPerMinute: nullIfZero(p.RequestsPerMinute), RequestsPerMinutePerAccount: nullIfZero(p.RequestsPerMinutePerAccount), ConcurrentPerKey: nullIfZero(p.ConcurrentPerKey),
				ConcurrentPerAccount: nullIfZero(p.ConcurrentPerAccount), ActiveSessions: nullIfZero(p.ActiveSessions),
				IncludedMicro: int64(p.Included),
			})
		}
	}
	return rest.Reply[contract.Meta]{Body: meta}, nil
}

// publishedLimits returns the current limits, from the components that enforce them.
func (s *Status) publishedLimits() contract.Limits {
	run, drives, most := s.Sessions.Limits(), s.Drives.Limits(), store.MaxConnectionLimits
	seconds := func(d time.Duration) int64 { return int64(d / time.Second) }
	return contract.Limits{
		MaxBodiesInFlightBytes: s.MaxBodiesInFlight(), MaxConnections: int64(s.Limits.Connections), MaxConnectionsPerAddress: int64(s.Limits.ConnectionsPerAddress),
		MaxBodyBytes: s.MaxBody, MaxPageSize: maxPageSize, MaxSecrets: store.MaxSecrets, MaxConnectionsPerSpace: store.MaxConnections, IdempotencySeconds: seconds(store.RepliesKept),
		MaxNameCharacters: int64(s.Limits.NameCharacters), MaxDescriptionCharacters: int64(s.Limits.DescriptionCharacters),
		MaxInstructionsCharacters: int64(s.Limits.InstructionsCharacters), MaxMessageCharacters: int64(run.MessageChars),
		MaxDrivePathBytes: int64(drives.MaxPath), MaxDriveSegmentBytes: int64(drives.MaxSegment),
		MaxFileBytes: drives.MaxFileBytes, MaxDriveBytes: drives.MaxBytes, MaxDriveFiles: drives.MaxFiles,
		MaxQueuedSessions: int64(run.Queued), QueueSeconds: seconds(run.QueueTime), MaxQueuedMessages: int64(run.QueuedMessages),
		MaxTurnSteps: int64(run.Steps), MaxTurnSeconds: seconds(run.TurnTime), InputSeconds: seconds(run.InputTime),
		MaxScheduledTasks: int64(s.Limits.SchedulesPerAgent), MinScheduleSeconds: int64(s.Limits.ScheduleInterval / time.Second),
		MaxEventStreamsPerKey: int64(s.Limits.EventStreamsPerKey), MaxEventStreamsPerAccount: int64(s.Limits.EventStreamsPerAccount),
		MaxVisitorStreamsPerAccount: int64(s.Limits.VisitorStreamsPerAccount),
		MaxKeys:                     int64(s.Limits.KeysPerAccount), MaxEndedKeys: int64(s.Limits.EndedKeysPerAccount), MaxSpaces: int64(s.Limits.SpacesPerAccount), MaxAgents: int64(s.Limits.AgentsPerAccount),
		MaxAgentVersions: int64(s.Limits.AgentVersions), MaxScheduledTasksPerAccount: int64(s.Limits.SchedulesPerAccount),
		MaxEmbedsPerDay: int64(s.Limits.EmbedsPerDay), MaxEmbedTags: store.MaxEmbedTags, MaxHooks: store.MaxHooks, MaxTestSets: store.MaxTestSets, MaxTestQuestions: maxTestQuestions, MaxTestSetBytes: maxTestSetBytes, MaxEmbedLogos: store.MaxEmbedLogos, MaxEmbedLogoBytes: embed.MaxLogoBytes, MaxWebhooks: store.MaxWebhooks, MaxMembers: store.MaxMembers, MaxInvitations: store.MaxInvitations, MaxPendingPayments: store.MaxPendingPayments, MaxDriveBytesPerAccount: drives.MaxAccountBytes,
		SearchMilliseconds: drives.SearchTime.Milliseconds(),
		EmbedURLSeconds:    seconds(s.Limits.EmbedURL), EmbedTokenSeconds: seconds(s.Limits.EmbedToken),
		DefaultTurnCreditsMicro: int64(run.TurnCredits), DefaultEmbedCreditsMicro: int64(embed.DefaultMaxCredits),
		RequestsKeptPerAccount: int64(s.Limits.RequestsKeptPerAccount), RequestsKeptSeconds: seconds(s.RequestLog().Keep),
		MaxTools: tool.MaxOffered, MaxSearchedTools: tool.MaxSearched, MaxToolDefinitionTokens: tool.MaxTokens, MaxToolParametersBytes: schema.MaxParameters, MaxToolOutputBytes: session.MaxOutput,
		MaxToolCallsPerStep: session.CallsPerStep, MaxToolCallsPerTurn: session.CallsPerTurn, MaxToolWaitsPerTurn: session.WaitsPerTurn,
		MaxServerCallsPerMinute: tool.CallsPerMinute, MaxServerCallsAtOnce: tool.CallsAccount, MaxShownResultBytes: session.ShownOutput,
		MaxToolCallsPerChat: session.CallsPerChat, MaxConfirmationSeconds: seconds(min(session.ConfirmationTime, run.InputTime)), MaxPublicFields: tool.MaxPublic,
		MaxApprovalSeconds: seconds(min(session.ApprovalTime, run.InputTime)), MaxApprovalCommentCharacters: session.MaxComment, MaxShownArgumentsBytes: maxShownArguments,
		MaxInputWaitsPerAccount: inputWaits,
		MaxConnectionOperations: httptool.MaxOperations, MaxConnectionDocumentBytes: httptool.MaxDocument, MaxConnectionTools: remote.MaxTools,
		MaxConnectionTimeoutSeconds: most.TimeoutSeconds, MaxConnectionResultBytes: most.MaxResultBytes, MaxConnectionConcurrent: most.MaxConcurrent,
		MaxConnectionCallsPerMinute: most.CallsPerMinute, ServerSessionIdleSeconds: seconds(tool.KeptIdle), MaxServerSessions: tool.MaxKept,
	}
}

// link returns a path as an absolute address if the service has a public URL.
func (s *core) link(path string) string { return strings.TrimSuffix(s.PublicURL, "/") + path }

func (s *Status) contract() *contract.Edition { return contract.For(s.Extensions.Names()...) }

type getOpenAPIParams struct {
	IfNoneMatch string `json:"If-None-Match"`
}

func (s *Status) getOpenAPI(w http.ResponseWriter, in rest.PublicRequest[getOpenAPIParams, rest.None]) error {
	h, r := w.Header(), in.HTTP
	edition := s.contract()
	body, etag := edition.JSON(), edition.ETag()
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "public, max-age=300")
	if acceptsGzip(r.Header.Values("Accept-Encoding")) {
		body, etag = edition.Packed(), strings.TrimSuffix(etag, `"`)+`-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", etag)
	if matches(in.Params.IfNoneMatch, etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // ignored, because the caller may have disconnected
	return nil
}

func acceptsGzip(values []string) bool {
	for item := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, param, _ := strings.Cut(item, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		quality, ok := strings.CutPrefix(strings.ReplaceAll(param, " ", ""), "q=")
		if !ok {
			return true
		}
		q, err := strconv.ParseFloat(quality, 64)
		return err == nil && q > 0
	}
	return false
}

// matches reports whether If-None-Match matches the tag. The comparison is weak, because RFC 9110, 13.1.2 requires it.
func matches(header, etag string) bool {
	for item := range strings.SplitSeq(header, ",") {
		item = strings.TrimPrefix(strings.TrimSpace(item), "W/")
		if item == "*" || item == etag {
			return true
		}
	}
	return false
}
