package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"stoa/internal/base/stoa"
)

// TraceConfig configures [NewTracer].
type TraceConfig struct {
	Endpoint string // base URL of an OTLP/HTTP receiver; /v1/traces is appended
	Headers  string // receiver's headers: name=value,…, values percent-encoded
	Version  string // version of the service
	Instance string // id of this process; may be empty
	Logger   *slog.Logger
	// Sampler replaces the sampler of OTEL_TRACES_SAMPLER, for tests; may be nil.
	Sampler sdk.Sampler
}

// A Tracer creates spans. It is safe for use by many goroutines. All methods of a nil Tracer do nothing.
//
// Sampling, batching and the limits of spans follow the variables OTEL_TRACES_SAMPLER,
// OTEL_BSP_… and OTEL_SPAN_…, and the resource OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES, because the OpenTelemetry library reads them itself.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
	exporter *exporter
}

// NewTracer returns a tracer that sends its spans to the endpoint. It must be shut down, because the last spans
// are otherwise lost.
func NewTracer(cfg TraceConfig) (*Tracer, error) {
	exp, err := newExporter(cfg)
	if err != nil {
		return nil, err
	}
	attrs := []attribute.KeyValue{attribute.String("service.name", "stoa"), attribute.String("service.version", cfg.Version)}
	if cfg.Instance != "" {
		attrs = append(attrs, attribute.String("service.instance.id", cfg.Instance))
	}
	res, err := resource.New(context.Background(), resource.WithAttributes(attrs...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	opts := []sdk.TracerProviderOption{sdk.WithBatcher(exp), sdk.WithResource(res), sdk.WithIDGenerator(idGenerator{})}
	if cfg.Sampler != nil {
		opts = append(opts, sdk.WithSampler(cfg.Sampler))
	}
	t := &Tracer{provider: sdk.NewTracerProvider(opts...), exporter: exp}
	t.tracer = t.provider.Tracer("stoa", trace.WithInstrumentationVersion(cfg.Version), trace.WithSchemaURL("https://opentelemetry.io/schemas/"+conventions))
	return t, nil
}

// Shutdown sends the remaining spans until ctx ends. Spans that end later are lost.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Exports returns the numbers of spans that were sent and lost.
func (t *Tracer) Exports() (sent, failed uint64) {
	return t.exporter.sent.Load(), t.exporter.failed.Load()
}

// A Span is a span in progress. The methods of the zero Span do nothing.
type Span struct{ of trace.Span }

// End ends the span; code is the reason of a failure, or empty.
func (s Span) End(code stoa.Code) {
	if s.of == nil {
		return
	}
	s.fail(code)
	s.of.End()
}

func (s Span) fail(code stoa.Code) {
	if code != "" {
		s.of.SetAttributes(attribute.String("error.type", string(code)))
		s.of.SetStatus(codes.Error, "")
	}
}

// Wrap returns a handler that creates a span for each request of the API, except for health checks, because probes
// every few seconds would be most of the traces. Its parent is the caller's span, if the request has a
// traceparent. On a nil tracer it returns h.
func (t *Tracer) Wrap(h http.Handler) http.Handler {
	if t == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/api/v1/health" {
			h.ServeHTTP(w, r)
			return
		}
		ctx := t.context.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End() // deferred, so that it ends after a panic too
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Request completes the span of a request that has ended.
func (t *Tracer) Request(ctx context.Context, r *stoa.Request) {
	if t == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	method, path, found := strings.Cut(r.Route, " ")
	if found {
		span.SetName(r.Route)
		span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", path))
	}
	span.SetAttributes(attribute.Int("http.response.status_code", r.Status), attribute.String("stoa.request.id", r.ID))
	if r.Served != "" {
		span.SetAttributes(attribute.String("gen_ai.operation.name", operation), attribute.String("gen_ai.response.model", r.Served))
	}
	if r.ResponseID != "" {
		span.SetAttributes(attribute.String("gen_ai.response.id", r.ResponseID))
	}
	if r.Provider != "" {
		span.SetAttributes(attribute.String("gen_ai.provider.name", r.Provider))
	}
	if r.Charged {
		span.SetAttributes(usage(r.Usage)...)
		span.SetAttributes(attribute.Int64("stoa.charged_microcredits", int64(r.Amount)))
	}
	switch {
	case r.Disconnected:
		Span{span}.fail(Disconnected)
	case r.Status >= 500 || r.Code != "" && r.Status < 400: // client errors do not mark a server span as failed
		Span{span}.fail(r.Code)
	case r.Code != "":
		span.SetAttributes(attribute.String("error.type", string(r.Code)))
	}
}

// An Attempt is the span of one request to a provider. The methods of the zero Attempt do nothing.
type Attempt struct{ Span }

// Attempt begins the span of a request to a provider. model is the catalog's identifier, upstream the
// provider's name for it.
func (t *Tracer) Attempt(ctx context.Context, provider, host, model, upstream string) (context.Context, Attempt) {
	if t == nil {
		return ctx, Attempt{}
	}
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", operation), attribute.String("gen_ai.provider.name", provider),
		attribute.String("gen_ai.request.model", upstream), attribute.String("stoa.model", model),
	}
	if host != "" {
		attrs = append(attrs, attribute.String("server.address", host))
	}
	ctx, span := t.tracer.Start(ctx, operation+" "+model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	return ctx, Attempt{Span{span}}
}

// SetParent writes the attempt into the headers of its request, so that the provider's spans, if any, belong to
// it. It passes on nothing else of the caller.
func (a Attempt) SetParent(h http.Header) {
	if a.of == nil {
		return
	}
	h["Traceparent"] = []string{parent(a.of.SpanContext())}
}

// Parent returns the span of ctx in the form of the header traceparent, for a request that belongs to it;
// empty if there is none.
func Parent(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return ""
	}
	return parent(sc)
}

func parent(sc trace.SpanContext) string {
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String()
}

// Finished records a complete reply.
func (a Attempt) Finished(ev *stoa.Event) {
	if a.of == nil {
		return
	}
	a.of.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{string(ev.Stop)}))
	if ev.HasUsage && ev.Usage.Sane() {
		a.of.SetAttributes(usage(ev.Usage)...)
	}
}

// Status records the HTTP status of a refusal.
func (a Attempt) Status(status int) {
	if a.of != nil && status != 0 {
		a.of.SetAttributes(attribute.Int("http.response.status_code", status))
	}
}

// A Turn identifies the turn of a session for a span.
type Turn struct {
	Session, Agent string // ids
	Created        time.Time
	Number         int64
	Attempt        int64
	Model          string // model of the agent
	First          bool   // nothing of the session has run before
}

// Turn begins the span of a turn that runs here. All turns of a session form one trace, whatever process runs
// them, because its ids derive from the session's. The session's own span covers the time to the end of its first
// turn, because a session has no end.
func (t *Tracer) Turn(ctx context.Context, of Turn) (context.Context, func(stoa.Code)) {
	if t == nil {
		return ctx, func(stoa.Code) {}
	}
	conversation := attribute.String("gen_ai.conversation.id", of.Session)
	ctx, session := t.tracer.Start(context.WithValue(ctx, sessionKey{}, of.Session), "session", trace.WithNewRoot(),
		trace.WithTimestamp(of.Created), trace.WithAttributes(conversation))
	ctx, turn := t.tracer.Start(ctx, "invoke_agent", trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.id", of.Agent), conversation,
		attribute.Int64("stoa.turn", of.Number), attribute.Int64("stoa.turn.attempt", of.Attempt)))
	return ctx, func(code stoa.Code) {
		Span{turn}.End(code)
		if of.First {
			session.End() // ended now, because only finished spans are sent
		}
	}
}

// Step begins the span of a step of a turn.
func (t *Tracer) Step(ctx context.Context, number int64) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, "step", trace.WithAttributes(attribute.Int64("stoa.step", number)))
	return ctx, Span{span}
}

// Tool begins the span of a tool call. It does not record unknown tool names, because models invent them.
func (t *Tracer) Tool(ctx context.Context, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	if !known(name) {
		name = Other
	}
	ctx, span := t.tracer.Start(ctx, "execute_tool "+name, trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", name)))
	return ctx, Span{span}
}

func known(tool string) bool {
	for _, name := range Tools {
		if name == tool {
			return true
		}
	}
	return false
}

type sessionKey struct{}

// An idGenerator creates random ids, except for a session's trace, whose ids derive from the session's.
type idGenerator struct{}

// NewIDs returns the ids of a trace and of its first span.
func (g idGenerator) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if id, ok := ctx.Value(sessionKey{}).(string); ok {
		sum := sha256.Sum256([]byte("session " + id))
		copy(t[:], sum[:16])
		copy(s[:], sum[16:24])
		return t, s
	}
	binary.BigEndian.PutUint64(t[:8], rand.Uint64())
	binary.BigEndian.PutUint64(t[8:], rand.Uint64()|1) // never zero, because such ids are invalid
	return t, g.NewSpanID(ctx, t)
}

// NewSpanID returns the id of a span.
func (idGenerator) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	binary.BigEndian.PutUint64(s[:], rand.Uint64()|1)
	return s
}
