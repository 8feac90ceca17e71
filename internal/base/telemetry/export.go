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

// Limits of an export. The library's queue before it holds 2,048 spans; then the newest are dropped.
const (
	exportTime   = 10 * time.Second // for one request
	exportTotal  = 30 * time.Second // for all attempts, as in OpenTelemetry's own exporter
	exportTries  = 3                // without a Retry-After
	exportAsked  = 10               // further attempts that the receiver requests
	exportPause  = 5 * time.Second  // before the second attempt, doubled for each further one
	exportReply  = 64 << 10         // maximum number of bytes read from a reply
	exportSilent = time.Minute      // minimum interval of log lines about failures, so that an unreachable receiver does not fill the log
)

// An exporter sends spans to an OTLP receiver: protobuf over HTTP, with only the standard library and
// the encoding of otlp.go, because OpenTelemetry's own exporter depends on gRPC: 7 MB for 200 lines.
type exporter struct {
	url    string
	header http.Header
	client *http.Client
	log    *slog.Logger
	pause  time.Duration

	sent, failed atomic.Uint64 // number of spans
	warned       atomic.Int64  // time of the last logged failure in Unix ns
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
			return nil, errors.New("the headers for traces are not name=value,name=value with percent-encoded values") // without the values, because they may be secret
		}
		e.header.Set(strings.TrimSpace(name), value)
	}
	return e, nil
}

// ExportSpans sends spans in up to three attempts, and in further ones if the receiver sends Retry-After, because a
// receiver that is short of memory refuses for seconds. It logs a failure, at most once a minute, and returns nil,
// because the library would write it to standard error.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, exportTotal)
	defer cancel()
	body := encode(spans)
	for tries, asked := 1, 0; ; {
		r := e.post(ctx, body)
		if r.accepted {
			lost := min(max(r.rejected, 0), int64(len(spans)))
			e.sent.Add(uint64(int64(len(spans)) - lost))
			if lost > 0 {
				e.lose(ctx, int(lost), r.err)
			}
			return nil
		}
		wait := max(e.pause<<(tries-1), r.wait)
		if r.wait > 0 {
			wait = r.wait
			asked++
		} else {
			tries++
		}
		deadline, _ := ctx.Deadline()
		if !r.again || tries > exportTries || asked > exportAsked || time.Until(deadline) <= wait || !stoa.Sleep(ctx, wait) {
			e.lose(ctx, len(spans), r.err)
			return nil
		}
	}
}

// lose counts and logs lost spans.
func (e *exporter) lose(ctx context.Context, spans int, err error) {
	e.failed.Add(uint64(spans))
	now, last := time.Now().UnixNano(), e.warned.Load()
	if (last == 0 || now-last >= int64(exportSilent)) && e.warned.CompareAndSwap(last, now) {
		e.log.LogAttrs(ctx, slog.LevelWarn, "spans could not be sent and are lost", slog.Int("spans", spans), slog.Any("error", err))
	}
}

// Shutdown closes idle connections.
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// A receipt is a receiver's answer to one request.
type receipt struct {
	accepted bool
	rejected int64         // number of spans that the receiver rejected although it accepted the request
	again    bool          // the request may be repeated
	wait     time.Duration // pause that the receiver requests; 0 if none
	err      error
}

func (e *exporter) post(ctx context.Context, body []byte) receipt {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return receipt{err: err}
	}
	req.Header = e.header
	res, err := e.client.Do(req)
	if err != nil {
		return receipt{again: true, err: err}
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, exportReply)) // read to the end, so that the connection is reused
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return receipt{again: true, wait: stoa.RetryAfter(res.Header.Get("Retry-After"), time.Now()), err: fmt.Errorf("the receiver of traces answered %s", res.Status)}
	}
	if res.StatusCode >= 300 {
		return receipt{err: fmt.Errorf("the receiver of traces answered %s; it must accept OTLP over HTTP (protobuf), usually on port 4318", res.Status)}
	}
	r := receipt{accepted: true}
	if err == nil && strings.HasPrefix(res.Header.Get("Content-Type"), "application/x-protobuf") {
		var reason string
		if r.rejected, reason = partialSuccess(reply); r.rejected > 0 {
			r.err = fmt.Errorf("the receiver of traces rejected %d spans of a batch: %q", r.rejected, reason[:min(len(reason), 500)])
		}
	}
	return r
}
