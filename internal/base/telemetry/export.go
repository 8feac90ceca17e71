package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"stoa/internal/base/stoa"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Limits of an export. The queue in front of it is the library's: 2,048 spans, then the
// newest are dropped.
const (
	exportTime   = 10 * time.Second // of one request
	exportTries  = 3
	exportPause  = time.Second // before the second attempt, doubled for the next
	exportReply  = 64 << 10    // maximum number of bytes read of a reply
	exportSilent = time.Minute // minimum interval of log lines about failures
)

// An exporter sends spans to an OTLP receiver: protobuf over HTTP, with only the standard
// library and the encoding of otlp.go. OpenTelemetry's own exporter depends on gRPC: 7 MB for
// 200 lines.
type exporter struct {
	url    string
	header http.Header
	client *http.Client
	log    *slog.Logger
	pause  time.Duration

	sent, failed atomic.Uint64 // spans
	warned       atomic.Int64  // time of the last logged failure, in Unix ns
}

func newExporter(cfg TraceConfig) (*exporter, error) {
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the endpoint for traces is not a URL; write the address of an OTLP receiver for HTTP, such as http://127.0.0.1:4318")
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/traces"
	e := &exporter{
		url: u.String(), header: http.Header{}, log: cfg.Logger, pause: exportPause,
		client: &http.Client{Timeout: exportTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.header.Set("Content-Type", "application/x-protobuf")
	e.header.Set("User-Agent", "stoa/"+cfg.Version)
	for pair := range strings.SplitSeq(cfg.Headers, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || strings.TrimSpace(name) == "" || err != nil {
			return nil, errors.New("the headers for traces are not name=value,name=value with percent-encoded values") // the values may be secret
		}
		e.header.Set(strings.TrimSpace(name), value)
	}
	return e, nil
}

// ExportSpans sends spans, in up to three attempts. A failure is logged, at most once a
// minute, and not returned: the library would write it to standard error.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body := encode(spans)
	var err error
	for n := range exportTries {
		if n > 0 && !stoa.Sleep(ctx, e.pause<<(n-1)) {
			break
		}
		var again bool
		if again, err = e.post(ctx, body); err == nil {
			e.sent.Add(uint64(len(spans)))
			return nil
		}
		if !again {
			break
		}
	}
	e.failed.Add(uint64(len(spans)))
	now, last := time.Now().UnixNano(), e.warned.Load()
	if (last == 0 || now-last >= int64(exportSilent)) && e.warned.CompareAndSwap(last, now) {
		e.log.LogAttrs(ctx, slog.LevelWarn, "spans could not be sent and are lost", slog.Int("spans", len(spans)), slog.Any("error", err))
	}
	return nil
}

// Shutdown closes idle connections.
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// post sends one request. again reports whether it may be repeated.
func (e *exporter) post(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header = e.header
	res, err := e.client.Do(req)
	if err != nil {
		return true, err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, exportReply) // so that the connection is reused
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, fmt.Errorf("the receiver of traces answered %s", res.Status)
	}
	if res.StatusCode >= 300 {
		return false, fmt.Errorf("the receiver of traces answered %s; it must accept OTLP over HTTP (protobuf), usually on port 4318", res.Status)
	}
	return false, nil
}
