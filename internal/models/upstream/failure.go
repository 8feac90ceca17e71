package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// full returns the failure of a route whose provider is at its maxInFlight. Calls are not
// queued, so that the caller can decide immediately.
func full() *wire.Failure {
	return &wire.Failure{
		Err:        stoa.Errorf(stoa.CodeOverloaded, "Too many calls of this model are in progress. Try again in a moment.").After(time.Second),
		RetryAfter: time.Second,
		Detail:     "the provider's maxInFlight is reached",
	}
}

// circuitOpen returns the failure of a route whose circuit stays open for the duration wait.
func circuitOpen(wait time.Duration) *wire.Failure {
	wait = max(wait.Truncate(time.Second), time.Second)
	return &wire.Failure{
		Err:        stoa.Errorf(stoa.CodeOverloaded, "The model is not answering at present. Try again in a moment.").After(wait),
		RetryAfter: wait,
		Detail:     "the route's circuit is open",
	}
}

// absent returns the failure of a model that no configured provider serves.
func absent() *wire.Failure {
	return &wire.Failure{
		Err:    stoa.Errorf(stoa.CodeModelUnavailable, "No provider is configured for this model at present. Choose another model, or ask the operator.").At("model"),
		Detail: "no route of the model has a provider",
	}
}

// broken returns the failure of an upstream that violated HTTP or its own format.
func broken(retry bool, format string, args ...any) *wire.Failure {
	return &wire.Failure{
		Err:    stoa.Errorf(stoa.CodeUpstream, "The model's provider failed. Try again."),
		Retry:  retry,
		Detail: fmt.Sprintf(format, args...),
	}
}

// isShortage reports whether a connection failed for lack of a resource of this
// machine: file descriptors of the process or the system, ports, or memory.
func isShortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// shortage returns the failure of a request that this machine could not send. It is neutral,
// because it shows nothing about the route.
func shortage(err error) *wire.Failure {
	return &wire.Failure{
		Err:        stoa.Errorf(stoa.CodeOverloaded, "This service has too many open connections. Try again in a moment.").After(time.Second),
		Retry:      true,
		Neutral:    true,
		RetryAfter: time.Second,
		Detail:     "not sent: " + err.Error(),
	}
}

// slow returns the failure of an upstream that exceeded a timeout. It is not retried on the
// same route.
func slow(what string, limit time.Duration) *wire.Failure {
	return &wire.Failure{
		Err:    stoa.Errorf(stoa.CodeUpstreamTimeout, "The model took too long to answer. Try again, or request a shorter reply."),
		Detail: fmt.Sprintf("%s: %v", what, limit),
	}
}

// usefulness ranks the failures of several routes, so that the caller receives the one that
// helps most to decide what to do next.
func usefulness(f *wire.Failure) int {
	switch f.Err.Code {
	case stoa.CodeModelUnavailable:
		return 0
	case stoa.CodeUpstream, stoa.CodeInternal:
		if f.Ours {
			return 2
		}
		return 3
	case stoa.CodeUpstreamTimeout:
		return 4
	case stoa.CodeOverloaded:
		switch {
		case f.Status == 0 && !f.Retry:
			return 1 // not sent
		case f.Ours:
			return 2
		}
		return 5
	}
	return 6
}

// maxDetail is the maximum size of a vendor's message in the log, in bytes.
const maxDetail = 1 << 10

func hide(text, key string) string {
	if key != "" {
		text = strings.ReplaceAll(text, key, "[key]")
	}
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + "…"
	}
	return text
}

// unreached returns the reason why a provider could not be reached, for the operator, or "".
func unreached(err error) string {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, notTLS := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	lookup, isLookup := errors.AsType[*net.DNSError](err)
	switch {
	case isLookup:
		return fmt.Sprintf("The name %q of the provider could not be resolved.", lookup.Name)
	case certificate:
		return "The provider's certificate was not accepted."
	case notTLS, alert:
		return "No TLS connection to the provider could be made."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The provider's address refuses connections."
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "The provider's address cannot be reached from here."
	}
	return ""
}

func (a *attempt) failed(f *wire.Failure, again bool) {
	pr, rt, log := a.provider, a.route, a.pool.cfg.Logger
	if !f.Caller {
		rt.failures.Add(1)
		if f.Err.Code == stoa.CodeUpstreamTimeout {
			rt.timeouts.Add(1)
		}
		rt.lastBad.Store(&lastFailure{at: time.Now(), code: f.Err.Code, status: f.Status, text: unreached(f.Err.Err)})
	}
	level := slog.LevelWarn
	if f.Caller {
		level = slog.LevelInfo
	}
	ctx := context.WithoutCancel(a.ctx)
	attrs := []any{"provider", pr.Name, "model", a.spec.Model, "status", f.Status, "code", string(f.Err.Code), "requestId", f.RequestID, "detail", f.Detail}
	log.Log(ctx, level, "an upstream call failed", append(attrs, "retried", again)...)
	if !f.Ours {
		return
	}
	// At most once a minute.
	now, last := time.Now().UnixNano(), pr.alarmed.Load()
	if (last == 0 || now-last >= int64(time.Minute)) && pr.alarmed.CompareAndSwap(last, now) {
		log.Log(ctx, slog.LevelError, "provider rejects the service's credentials, account or configuration", attrs...)
	}
}
