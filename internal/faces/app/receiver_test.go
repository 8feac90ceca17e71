package app_test

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"stoa/internal/base/telemetry"
)

// A receiver receives traces as a collector does.
type receiver struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	answers []int // statuses of the next requests; then 200
	header  http.Header
	path    string
	got     []*tracepb.ResourceSpans
	raw     []byte
}

func receive(t testing.TB) *receiver {
	r := &receiver{t: t}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) > 0 {
		status := r.answers[0]
		r.answers = r.answers[1:]
		w.WriteHeader(status)
		return
	}
	var data tracepb.TracesData // like ExportTraceServiceRequest, which would require gRPC
	if err := (proto.UnmarshalOptions{}).Unmarshal(body, &data); err != nil {
		r.t.Errorf("what was sent is not OTLP: %v", err)
	}
	if len(data.ProtoReflect().GetUnknown()) > 0 {
		r.t.Error("what was sent has fields that OTLP does not")
	}
	r.header, r.path = req.Header, req.URL.Path
	r.got = append(r.got, data.ResourceSpans...)
	r.raw = append(r.raw, body...)
}

// tracer returns a tracer that sends all its spans to the receiver.
func (r *receiver) tracer(change ...func(*telemetry.TraceConfig)) *telemetry.Tracer {
	cfg := telemetry.TraceConfig{Endpoint: r.URL, Version: "v1", Instance: "node-1", Sampler: sdk.ParentBased(sdk.AlwaysSample())}
	for _, c := range change {
		c(&cfg)
	}
	t, err := telemetry.NewTracer(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// A span is a received span.
type span struct {
	*tracepb.Span
	id, parent, trace string
}

func (s span) attr(name string) string { return attribute(s.Attributes, name) }

func attribute(list []*commonpb.KeyValue, name string) string {
	for _, kv := range list {
		if kv.Key != name {
			continue
		}
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_ArrayValue:
			return v.ArrayValue.Values[0].GetStringValue()
		}
		return strings.TrimSpace(strings.TrimPrefix(kv.Value.String(), "int_value:"))
	}
	return ""
}

// spans shuts the tracer down and returns the received spans, in the order of their starts.
func (r *receiver) spans(t *telemetry.Tracer) []span {
	r.t.Helper()
	if err := t.Shutdown(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []span
	for _, res := range r.got {
		for _, scope := range res.ScopeSpans {
			for _, s := range scope.Spans {
				list = append(list, span{s, hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), hex.EncodeToString(s.TraceId)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	return list
}

// named returns the spans of that name.
func named(list []span, name string) (out []span) {
	for _, s := range list {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}
