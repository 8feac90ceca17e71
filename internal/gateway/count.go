package gateway

import (
	"context"

	"stoa/internal/stoa"
)

// A Counter counts the input tokens of a call; see upstream.Pool.
type Counter interface {
	Count(ctx context.Context, m stoa.Model, call stoa.Call) (tokens int64, ok bool, err error)
}

// CountInput returns how many input tokens a call has: as the vendor of the model that
// would serve counts them, or an estimate. It takes no hold and is free. It fails as
// [Gateway.Respond] does for a model or an input that cannot be served.
func (g *Gateway) CountInput(ctx context.Context, c stoa.Caller, req Request) (int64, error) {
	s, err := g.resolve(c, req)
	if err != nil {
		return 0, err
	}
	m := s.res.Models[0]
	if err := s.fits(m); err != nil {
		return 0, err
	}
	if g.Counter != nil {
		call := req.Call
		call.Account = c.Account.ID
		tokens, ok, err := g.Counter.Count(ctx, m, call)
		if ok || err != nil {
			return tokens, err
		}
	}
	return s.inputEstimate, ctx.Err()
}
