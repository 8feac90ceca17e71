package api

import (
	"context"
	"net/http"

	"stoa/internal/agents/embed"
	"stoa/internal/base/rest"
	"stoa/internal/base/store"
)

// VisitorRequest is one validated request of a page with the token of an embed.
type VisitorRequest[P, B any] struct {
	Visitor embed.Visitor // never empty
	rest.Input[P, B]
}

// visitorUpdate is like [rest.Update], for a page with the token of an embed.
func visitorUpdate[P, B, R any](pattern string, h func(*Server, context.Context, VisitorRequest[P, B]) (rest.Reply[R], error)) rest.Route[*Server] {
	return visiting(pattern, func(s *Server, x *rest.Exchange, in VisitorRequest[P, B]) error {
		reply, err := h(s, x.Context(), in)
		return rest.Answer(x, reply, err)
	})
}

// visitorCreate is like [rest.Create], for a page with the token of an embed.
func visitorCreate[P, B, R any](pattern string, h func(*Server, context.Context, *store.Tx, VisitorRequest[P, B]) (rest.Reply[R], error)) rest.Route[*Server] {
	return visiting(pattern, func(s *Server, x *rest.Exchange, in VisitorRequest[P, B]) error {
		return rest.Once(&s.Base, x, in.Visitor.Caller, func(tx *store.Tx) (rest.Reply[R], error) {
			return h(s, x.Context(), tx, in)
		})
	})
}

// visitorStream is like [rest.Stream], for a page with the token of an embed.
func visitorStream[P any](pattern string, h func(*Server, http.ResponseWriter, VisitorRequest[P, rest.None]) error) rest.Route[*Server] {
	rt := visiting(pattern, func(s *Server, x *rest.Exchange, in VisitorRequest[P, rest.None]) error { return h(s, x, in) })
	return rt.WithOwnBody()
}

// visiting authenticates with the token of an embed, then parses the input.
func visiting[P, B any](pattern string, do func(*Server, *rest.Exchange, VisitorRequest[P, B]) error) rest.Route[*Server] {
	return rest.Custom(pattern, func(s *Server, x *rest.Exchange, read func() (rest.Input[P, B], error)) error {
		who, err := s.visitor(x, x.HTTP)
		x.Log.Caller = who.Caller
		if err != nil {
			return s.WrongKey(x.HTTP, err)
		}
		in, err := read()
		if err != nil {
			return err
		}
		return do(s, x, VisitorRequest[P, B]{Visitor: who, Input: in})
	})
}
