package gateway

import (
	"context"

	"stoa/internal/base/stoa"
)

// A Counter counts the input tokens of a call; see upstream.Pool.
type Counter interface {
	Count(ctx context.Context, m stoa.Model, call stoa.Call) (tokens int64, ok bool, err error)
}

// CountInput returns the number of input tokens of a call: counted by the vendor of the model
// that would serve, or estimated. It needs no hold and is free. It fails like
// [Gateway.Respond] for a model or an input that cannot be served.
func (g *Gateway) CountInput(ctx context.Context, c stoa.Caller, req Request) (int64, error) {
	s, err := g.resolve(ctx, c, req)
	if err != nil {
		return 0, err
	}
	var refused error
	for _, m := range s.res.Models {
		m, call, err := s.fit(ctx, m, true)
		switch {
		case err == nil && s.files: // not counted again, because fit has counted it
			return s.inputEstimate, nil
		case err == nil:
			return s.tokens(ctx, m, *call)
		}
		if refused == nil {
			refused = err
		}
		if !another(refused) {
			break
		}
	}
	return 0, refused
}

func (s *Stream) tokens(ctx context.Context, m stoa.Model, call stoa.Call) (int64, error) {
	if s.g.Counter != nil {
		call.Account = s.caller.Account.ID
		tokens, ok, err := s.g.Counter.Count(ctx, m, call)
		s.counted = ok && err == nil
		if ok || err != nil {
			return tokens, err
		}
	}
	return s.inputEstimate, ctx.Err()
}
