package upstream

import (
	"context"
	"io"
	"net/http"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// CountTime is the timeout of [Pool.Count].
const CountTime = 2 * time.Second

// Count queries the vendor of the model's first route for the number of input tokens of a
// call. ok is false if the vendor does not count, is failing, or does not answer within
// [CountTime]: the caller then estimates. It does not affect the route's circuit. An error is
// the caller's fault: the call cannot be expressed for the vendor.
func (p *Pool) Count(ctx context.Context, m stoa.Model, call stoa.Call) (tokens int64, ok bool, err error) {
	for _, r := range m.Routes {
		pr := p.provider(&r)
		if pr == nil {
			continue
		}
		r.Wire, r.Dialect, r.Fingerprint = pr.Wire, pr.Dialect, pr.fingerprint
		req, ok, err := wire.CountRequest(call, r, pr.APIKey)
		if err != nil || !ok || !pr.route(r.Model).breaker.ready(call.Account) || !pr.enter(call.Account) {
			return 0, false, err
		}
		defer pr.leave(call.Account)
		ctx, cancel := context.WithTimeout(ctx, CountTime)
		defer cancel()
		tokens, ok = p.count(ctx, pr, req)
		return tokens, ok, nil
	}
	return 0, false, nil
}

func (p *Pool) count(ctx context.Context, pr *provider, r wire.Request) (int64, bool) {
	to, err := pr.at(r.Path)
	if err != nil {
		return 0, false
	}
	p.complete(r.Header, to)
	req := &http.Request{
		Method: http.MethodPost, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.Header, Body: newPayload(r.Body), ContentLength: int64(len(r.Body)),
	}
	res, err := p.cfg.Transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return 0, false
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes))
	if err != nil || res.StatusCode != http.StatusOK {
		p.cfg.Logger.DebugContext(ctx, "a vendor did not count tokens; they are estimated", "provider", pr.Name, "status", res.StatusCode)
		return 0, false
	}
	return wire.DecodeCount(pr.Wire, body)
}
