package telemetry

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"stoa/internal/base/stoa"
)

// TestExportsAreTriedAgain checks three attempts if that may help, otherwise one; a failure
// is counted and logged, but not returned to the library.
func TestExportsAreTriedAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers      []int
		tries        int
		sent, failed uint64
	}{
		"at once":      {[]int{200}, 1, 1, 0},
		"after others": {[]int{503, 429, 200}, 3, 1, 0},
		"never":        {[]int{503, 502, 504, 200}, 3, 0, 1},
		"refused":      {[]int{400, 200}, 1, 0, 1},
		"redirected":   {[]int{307, 200}, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			var header http.Header
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				header = r.Header
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.answers[tries])
				tries++
			}))
			defer server.Close()
			var log bytes.Buffer
			tracer, err := NewTracer(TraceConfig{
				Endpoint: server.URL + "/base/", Headers: "x-tenant=a%20b, authorization=Basic%20c2VjcmV0", Version: "v",
				Logger: slog.New(slog.NewTextHandler(&log, nil)), Sampler: sdk.AlwaysSample(),
			})
			if err != nil {
				t.Fatal(err)
			}
			tracer.exporter.pause = time.Nanosecond
			if tracer.exporter.url != server.URL+"/base/v1/traces" {
				t.Errorf("the address is %s", tracer.exporter.url)
			}
			_, s := tracer.Step(t.Context(), 1)
			s.End("")
			if err := tracer.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			sent, failed := tracer.Exports()
			if tries != tt.tries || sent != tt.sent || failed != tt.failed {
				t.Errorf("%d tries, %d spans sent, %d lost; want %d, %d, %d", tries, sent, failed, tt.tries, tt.sent, tt.failed)
			}
			if header.Get("X-Tenant") != "a b" || header.Get("Authorization") != "Basic c2VjcmV0" || header.Get("Content-Type") != "application/x-protobuf" {
				t.Errorf("the headers are %v", header)
			}
			if warned := strings.Contains(log.String(), "spans could not be sent"); warned != (tt.failed > 0) || strings.Contains(log.String(), "c2VjcmV0") {
				t.Errorf("the log has %q", log.String())
			}
		})
	}
}

// A receiver answers requests without a network, for a bubble.
type receiver func(try int) (status int, header http.Header, body []byte)

func (r *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	r.at = append(r.at, time.Since(r.began))
	status, header, body := r.answer(len(r.at))
	return &http.Response{Status: http.StatusText(status), StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Request: req}, nil
}

type scripted struct {
	answer receiver
	began  time.Time
	at     []time.Duration
}

// TestRetryAfterIsObeyed has receivers that refuse for a while: the asked time is waited for,
// within 30 s.
func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	always := func(status int, retryAfter string) receiver {
		return func(int) (int, http.Header, []byte) { return status, http.Header{"Retry-After": {retryAfter}}, nil }
	}
	once := func(status int, retryAfter func() string) receiver {
		return func(try int) (int, http.Header, []byte) {
			if try > 1 {
				return http.StatusOK, http.Header{}, nil
			}
			return status, http.Header{"Retry-After": {retryAfter()}}, nil
		}
	}
	for name, tt := range map[string]struct {
		answer receiver
		at     []time.Duration
		sent   uint64
	}{
		"seconds":      {once(429, func() string { return "20" }), []time.Duration{0, 20 * time.Second}, 1},
		"a date":       {once(503, func() string { return time.Now().UTC().Add(7 * time.Second).Format(http.TimeFormat) }), []time.Duration{0, 7 * time.Second}, 1},
		"no more time": {always(429, "20"), []time.Duration{0, 20 * time.Second}, 0},
		"too late":     {always(503, "31"), []time.Duration{0}, 0},
		"not said":     {always(503, ""), []time.Duration{0, 5 * time.Second, 15 * time.Second}, 0},
		"short ones":   {always(503, "1"), []time.Duration{0, 1e9, 2e9, 3e9, 4e9, 5e9, 6e9, 7e9, 8e9, 9e9, 10e9}, 0},
		"zero":         {always(503, "0"), []time.Duration{0, 5 * time.Second, 15 * time.Second}, 0},
		"not repeated": {always(500, "1"), []time.Duration{0}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := newExporter(TraceConfig{Endpoint: "http://receiver"})
				if err != nil {
					t.Fatal(err)
				}
				s := &scripted{answer: tt.answer, began: time.Now()}
				e.client.Transport = s
				if err := e.ExportSpans(t.Context(), tracetest.SpanStubs{{}}.Snapshots()); err != nil {
					t.Error(err)
				}
				if sent, failed := e.sent.Load(), e.failed.Load(); !slices.Equal(s.at, tt.at) || sent != tt.sent || failed != 1-tt.sent {
					t.Errorf("requests after %v, %d spans sent, %d lost", s.at, sent, failed)
				}
			})
		})
	}
}

// TestPartialSuccessIsLost has a receiver that accepts a part of a batch.
func TestPartialSuccessIsLost(t *testing.T) {
	t.Parallel()
	const all = -1
	for name, tt := range map[string]struct {
		rejected     int64 // all without a partial success
		sent, failed uint64
	}{
		"all": {all, 3, 0}, "a part": {2, 1, 2}, "none": {3, 0, 3}, "beyond reach": {300, 0, 3}, "a warning": {0, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var body []byte
			if tt.rejected != all { // ExportTraceServiceResponse, whose generated package needs gRPC
				partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(tt.rejected))
				partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), "too many spans")
				body = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
			}
			var log bytes.Buffer
			e, err := newExporter(TraceConfig{Endpoint: "http://receiver", Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			e.client.Transport = &scripted{answer: func(int) (int, http.Header, []byte) {
				return http.StatusOK, http.Header{"Content-Type": {"application/x-protobuf"}}, body
			}}
			if err := e.ExportSpans(t.Context(), tracetest.SpanStubs{{}, {}, {}}.Snapshots()); err != nil {
				t.Error(err)
			}
			if sent, failed := e.sent.Load(), e.failed.Load(); sent != tt.sent || failed != tt.failed || strings.Contains(log.String(), "too many spans") != (failed > 0) {
				t.Errorf("%d spans sent, %d lost; the log has %q", sent, failed, log.String())
			}
		})
	}
}

func TestHealthChecksAreNotTraced(t *testing.T) {
	t.Parallel()
	exported := tracetest.NewInMemoryExporter()
	tracer := &Tracer{provider: sdk.NewTracerProvider(sdk.WithSyncer(exported), sdk.WithSampler(sdk.AlwaysSample()))}
	tracer.tracer = tracer.provider.Tracer("stoa")
	h := tracer.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		tracer.Request(r.Context(), &stoa.Request{Route: r.Method + " " + r.URL.Path})
	}))
	for _, path := range []string{"/api/v1/health", "/console", "/api/v1/models", "/api/v1/health"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	if all := exported.GetSpans(); len(all) != 1 || all[0].Name != "GET /api/v1/models" {
		t.Errorf("%d spans: %+v", len(all), all)
	}
}

func TestBadTraceSettingsAreErrors(t *testing.T) {
	t.Parallel()
	for _, cfg := range []TraceConfig{
		{Endpoint: "localhost:4317"},
		{Endpoint: "grpc://h:1"},
		{Endpoint: ""},
		{Endpoint: "http://"},
		{Endpoint: "http://h", Headers: "novalue-s3cret"},
		{Endpoint: "http://h", Headers: "=s3cret"},
		{Endpoint: "http://h", Headers: "a=%zzs3cret"},
	} {
		if _, err := NewTracer(cfg); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestSpansAreEncodedWhole compares the encoding with the types generated from the definition
// of OTLP.
func TestSpansAreEncodedWhole(t *testing.T) {
	t.Parallel()
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) }))
	defer server.Close()
	tracer, err := NewTracer(TraceConfig{Endpoint: server.URL, Version: "v7", Sampler: sdk.ParentBased(sdk.AlwaysSample())})
	if err != nil {
		t.Fatal(err)
	}
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled, Remote: true})
	_, tool := tracer.Tool(t.Context(), "name of the model's")
	if name := tool.of.(sdk.ReadOnlySpan).Name(); name != "execute_tool other" {
		t.Errorf("the span of a tool that does not exist is called %q", name)
	}
	_, s := tracer.tracer.Start(trace.ContextWithSpanContext(t.Context(), parent), "näme", trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(time.Unix(5, 6)))
	s.SetAttributes(attribute.Bool("bool", true), attribute.Int64("int", -7), attribute.Float64("float", 1.5), attribute.StringSlice("list", []string{"a", ""}), attribute.Int64Slice("numbers", []int64{1, 2}), attribute.String("", ""))
	Span{s}.fail(stoa.CodeUpstream)
	s.End(trace.WithTimestamp(time.Unix(7, 8)))
	if err := tracer.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	var data tracepb.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		t.Fatal(err)
	}
	scope := data.ResourceSpans[0].ScopeSpans[0]
	got := scope.Spans[0]
	if scope.Scope.Name != "stoa" || scope.Scope.Version != "v7" || len(data.ResourceSpans[0].Resource.Attributes) < 4 {
		t.Errorf("the scope is %v of %v", scope.Scope, data.ResourceSpans[0].Resource)
	}
	id := s.SpanContext().SpanID()
	if hex.EncodeToString(got.TraceId) != "01020000000000000000000000000000" || hex.EncodeToString(got.ParentSpanId) != "0300000000000000" || !bytes.Equal(got.SpanId, id[:]) ||
		got.Name != "näme" || got.Kind != tracepb.Span_SPAN_KIND_CLIENT || got.StartTimeUnixNano != 5_000_000_006 || got.EndTimeUnixNano != 7_000_000_008 ||
		got.Status.Code != tracepb.Status_STATUS_CODE_ERROR || got.Flags != 0x301 {
		t.Errorf("the span is %v", got)
	}
	var values []string
	for _, kv := range got.Attributes {
		values = append(values, strings.Join(strings.Fields(kv.Key+" "+kv.Value.String()), " "))
	}
	want := []string{
		"bool bool_value:true", "int int_value:-7", "float double_value:1.5", `list array_value:{values:{string_value:"a"} values:{string_value:""}}`,
		`numbers string_value:"[1,2]"`, `error.type string_value:"upstream_error"`,
	}
	for _, w := range want {
		if !slices.Contains(values, w) {
			t.Errorf("the attributes are %q; %q is not among them", values, w)
		}
	}
}

// TestSamplersDecideBySession checks that either all turns of a session are traced or none,
// and that a caller whose trace is not sampled creates no spans.
func TestSamplersDecideBySession(t *testing.T) {
	t.Parallel()
	tracer, err := NewTracer(TraceConfig{Endpoint: "http://127.0.0.1:1", Sampler: sdk.ParentBased(sdk.TraceIDRatioBased(0.5))})
	if err != nil {
		t.Fatal(err)
	}
	sampled := map[bool]int{}
	for n := range 64 {
		turn := Turn{Session: "ses_" + string(rune('A'+n)), Number: 1}
		ctx, _ := tracer.Turn(t.Context(), turn)
		first := trace.SpanContextFromContext(ctx)
		turn.Number = 2
		ctx, _ = tracer.Turn(t.Context(), turn)
		second := trace.SpanContextFromContext(ctx)
		if first.TraceID() != second.TraceID() || first.SpanID() == second.SpanID() || first.IsSampled() != second.IsSampled() {
			t.Errorf("turn 1 is %v, turn 2 %v", first, second)
		}
		sampled[first.IsSampled()]++
	}
	if sampled[true] == 0 || sampled[false] == 0 {
		t.Errorf("half of the sessions should be sampled: %v", sampled)
	}
	recording := true
	h := tracer.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		recording = trace.SpanFromContext(r.Context()).IsRecording()
	}))
	r := httptest.NewRequest("GET", "/api/v1/meta", nil)
	r.Header.Set("traceparent", "00-0123456789abcdef0123456789abcdef-00f067aa0ba902b7-00")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if recording {
		t.Error("a request is recorded though its caller's trace is not sampled")
	}
}
