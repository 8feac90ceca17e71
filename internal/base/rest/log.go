package rest

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"stoa/internal/base/stoa"
)

// Fields contains the data of a running request for its only log line and for [Base.Ended]. It
// belongs to the request's goroutine. It never contains texts of callers or models, because logs outlive
// them.
type Fields struct {
	stoa.Request

	Caller stoa.Caller
	reason string // reason why another model served
	Unread int    // number of unusable sealed states in the input
	adjust stoa.Adjustments
	cause  error
	stack  []byte
}

// Charged records the charge of the call.
func (f *Fields) Charged(c stoa.Charge) {
	f.Request.Charged, f.ResponseID, f.reason = true, c.ID, c.Reason
	f.Served, f.Provider, f.adjust = c.Served, c.Provider, c.Adjustments
	f.Usage, f.Amount, f.Estimated, f.Clamped = c.Usage, c.Amount, c.Estimated, c.Clamped
}

// Failed records an error of the request, whether or not the caller received it.
func (f *Fields) Failed(err error) {
	e := stoa.AsError(err)
	f.Code, f.Param, f.cause = e.Code, e.Param, err
}

func (f *Fields) end(status int) {
	f.Duration, f.Status = time.Since(f.StartedAt), status
	if f.Disconnected && status == 0 {
		f.Status = stoa.StatusDisconnected
	}
	if !f.Request.Charged && status != http.StatusOK {
		f.ResponseID = "" // cleared because the client did not receive it
	}
	f.AccountID, f.KeyID = f.Caller.Account.ID, f.Caller.Key.ID
}

const maxLogged = 1 << 10

// ofToolServer reports whether the server of a connection failed. Such failures are not logged as errors,
// because the account chose the server and receives the error.
func (f *Fields) ofToolServer() bool {
	return f.Code == stoa.CodeToolServer || f.Code == stoa.CodeToolServerTimeout
}

// attrLists pools lists of attributes for [Fields.line]. This is safe because handlers do not retain them.
var attrLists = sync.Pool{New: func() any {
	list := make([]slog.Attr, 0, 24)
	return &list
}}

func (f *Fields) line(ctx context.Context, log *slog.Logger, method, path string, bytes int64) {
	level := slog.LevelInfo
	if (f.Status >= 500 || f.Code != "" && f.Status < 400) && !f.ofToolServer() || f.stack != nil {
		level = slog.LevelError
	}
	if !log.Enabled(ctx, level) {
		return
	}
	if len(path) > 200 {
		path = path[:200]
	}
	list := attrLists.Get().(*[]slog.Attr)
	attrs := (*list)[:0]
	add := func(a ...slog.Attr) { attrs = append(attrs, a...) }
	add(slog.String("request", f.ID), slog.String("method", method), slog.String("path", path),
		slog.Int("status", f.Status), slog.Duration("duration", f.Duration), slog.Int64("bytes", bytes))
	if f.AccountID != "" {
		add(slog.String("account", f.AccountID), slog.String("key", f.KeyID))
	}
	if f.Asked != "" {
		add(slog.String("model", f.Asked))
	}
	if f.Request.Charged {
		add(slog.String("response", f.ResponseID), slog.String("served", f.Served), slog.String("provider", f.Provider),
			slog.Int64("inputTokens", f.Usage.InputTokens), slog.Int64("outputTokens", f.Usage.OutputTokens),
			slog.Int64("creditsMicro", int64(f.Amount)))
		if f.reason != "" {
			add(slog.String("reason", f.reason))
		}
		if f.adjust != 0 {
			add(slog.String("adjustments", strings.Join(f.adjust.Names(), ",")))
		}
	}
	if f.FirstToken > 0 {
		add(slog.Duration("firstText", f.FirstToken))
	}
	if f.Replayed {
		add(slog.Bool("replayed", true))
	}
	if f.Unread > 0 {
		add(slog.Int("statesUnread", f.Unread))
	}
	if f.Disconnected {
		add(slog.Bool("clientDisconnected", true))
	}
	if f.Code != "" {
		add(slog.String("code", string(f.Code)))
	}
	if f.cause != nil {
		add(slog.String("error", cut(f.cause.Error(), maxLogged)))
	}
	if f.stack != nil {
		add(slog.String("stack", string(f.stack)))
	}
	record := slog.NewRecord(time.Now(), level, "request", 0)    // without the source position, because log.LogAttrs would compute it for nothing
	record.AddAttrs(slog.Attr{Value: slog.GroupValue(attrs...)}) // a group without a name, because handlers write it as attributes and a record would copy them
	_ = log.Handler().Handle(ctx, record)
	clear(attrs) // so that the pool does not retain texts of the request
	*list = attrs
	attrLists.Put(list)
}
