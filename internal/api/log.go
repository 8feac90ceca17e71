package api

import (
	"context"
	"log/slog"
	"time"

	"stoa/internal/stoa"
)

// Fields are what is known of a request while it is served; they become its one
// log line. They belong to the request's goroutine. Texts of callers and models
// are never among them.
type Fields struct {
	RequestID string
	Model     string    // as asked
	FirstText time.Time // when the first text of a reply was sent; zero: never

	route              string
	caller             stoa.Caller
	charge             stoa.Charge
	charged            bool
	code               stoa.Code
	cause              error
	replay             bool // answered from the store of an Idempotency-Key
	clientDisconnected bool
	stack              []byte
}

// Charged notes what the call came to.
func (f *Fields) Charged(c stoa.Charge) { f.charge, f.charged = c, true }

// Failed notes an error that the caller was told of, or could not be told of.
func (f *Fields) Failed(err error) { f.code, f.cause = stoa.CodeOf(err), err }

// maxLogged bounds the error of a log line, in bytes.
const maxLogged = 1 << 10

// line writes the request's log line.
func (f *Fields) line(ctx context.Context, log *slog.Logger, method, path string, t *responseRecorder, started time.Time) {
	level := slog.LevelInfo
	if t.status >= 500 || f.stack != nil || f.code != "" && t.status < 400 {
		level = slog.LevelError
	}
	if !log.Enabled(ctx, level) {
		return
	}
	if len(path) > 200 {
		path = path[:200]
	}
	attrs := make([]slog.Attr, 0, 24)
	add := func(a ...slog.Attr) { attrs = append(attrs, a...) }
	status := t.status
	if f.clientDisconnected && status == 0 {
		status = 499 // as others log a caller who left before the reply
	}
	add(slog.String("request", f.RequestID), slog.String("method", method), slog.String("path", path),
		slog.Int("status", status), slog.Duration("duration", time.Since(started)), slog.Int64("bytes", t.bytes))
	if f.caller.Account.ID != "" {
		add(slog.String("account", f.caller.Account.ID), slog.String("key", f.caller.Key.ID))
	}
	if f.Model != "" {
		add(slog.String("model", f.Model))
	}
	if f.charged {
		c := f.charge
		add(slog.String("response", c.ID), slog.String("served", c.Served), slog.String("provider", c.Provider),
			slog.Int64("inputTokens", c.Usage.InputTokens), slog.Int64("outputTokens", c.Usage.OutputTokens),
			slog.Int64("creditsMicro", int64(c.Amount)))
		if c.Reason != "" {
			add(slog.String("reason", c.Reason))
		}
	}
	if !f.FirstText.IsZero() {
		add(slog.Duration("firstText", f.FirstText.Sub(started)))
	}
	if f.replay {
		add(slog.Bool("replayed", true))
	}
	if f.clientDisconnected {
		add(slog.Bool("clientDisconnected", true))
	}
	if f.code != "" {
		add(slog.String("code", string(f.code)))
	}
	if f.cause != nil {
		add(slog.String("error", cut(f.cause.Error(), maxLogged)))
	}
	if f.stack != nil {
		add(slog.String("stack", string(f.stack)))
	}
	log.LogAttrs(ctx, level, "request", attrs...)
}
