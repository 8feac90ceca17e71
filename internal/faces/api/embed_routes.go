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

func visitorUpdate[P, B, R any](e *Embeds, pattern string, h func(context.Context, VisitorRequest[P, B]) (rest.Reply[R], error)) rest.Route {
	return visiting(e, pattern, func(x *rest.Exchange, in VisitorRequest[P, B]) error {
		reply, err := h(x.Context(), in)
		return rest.Answer(x, reply, err)
	})
}

func visitorCreate[P, B, R any](e *Embeds, pattern string, h func(context.Context, *store.Tx, VisitorRequest[P, B]) (rest.Reply[R], error)) rest.Route {
	return visiting(e, pattern, func(x *rest.Exchange, in VisitorRequest[P, B]) error {
		return rest.Once(e.Base, x, in.Visitor.Caller, func(tx *store.Tx) (rest.Reply[R], error) {
			return h(x.Context(), tx, in)
		})
	})
}

func visitorStream[P any](e *Embeds, pattern string, h func(http.ResponseWriter, VisitorRequest[P, rest.None]) error) rest.Route {
	rt := visiting(e, pattern, func(x *rest.Exchange, in VisitorRequest[P, rest.None]) error { return h(x, in) })
	return rt.WithOwnBody()
}

// visiting authenticates with the token of an embed before it parses the input.
func visiting[P, B any](e *Embeds, pattern string, do func(*rest.Exchange, VisitorRequest[P, B]) error) rest.Route {
	return rest.Custom(pattern, func(x *rest.Exchange, read func() (rest.Input[P, B], error)) error {
		who, err := e.visitor(x, x.HTTP)
		x.Log.Caller = who.Caller
		if err != nil {
			return e.WrongKey(x.HTTP, err)
		}
		in, err := read()
		if err != nil {
			return err
		}
		return do(x, VisitorRequest[P, B]{Visitor: who, Input: in})
	})
}
