package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"stoa/internal/embed"
	"stoa/internal/jsonx"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// none stands for the parameters or the body of an operation without any.
type none = struct{}

// Input is what a handler reads of a request: parameters and body fit the
// contract. Its own limits, which the contract does not know, are the handler's.
type Input[P, B any] struct {
	Params P             // path, query and header; see [parameters]
	Body   B             // zero where an optional body is absent
	HTTP   *http.Request // for what the above does not cover
	Log    *Fields       // of the request's log line
}

// Request is one authenticated, validated request of the control plane.
type Request[P, B any] struct {
	Caller stoa.Caller // never empty: a route without an API key has another type
	Input[P, B]
}

// VisitorRequest is one validated request of a page with the token of an embed.
type VisitorRequest[P, B any] struct {
	Visitor embed.Visitor // never empty
	Input[P, B]
}

// PublicRequest is one validated request that needs no key. There is no caller.
type PublicRequest[P, B any] struct {
	Input[P, B]
}

// Reply is what a handler answers.
type Reply[R any] struct {
	Status     int    // 0: 200; a reply of 204 or 304 has no body
	Location   string // of what was created; empty: no header
	ETag       string // empty: no header
	RetryAfter int    // seconds; 0: no header
	Body       R
	Secret     bool // the body holds a secret, so a stored copy of it is sealed
}

// noContent is 204.
func noContent() Reply[none] { return Reply[none]{Status: http.StatusNoContent} }

// created is 201 with the address of what was created.
func created[R any](location string, body R) Reply[R] {
	return Reply[R]{Status: http.StatusCreated, Location: location, Body: body}
}

// A route is a line of the table of routes. A test compares the table with the
// contract in both directions.
// See docs/decisions/0027-typed-routes-without-a-generated-server.md.
type route struct {
	pattern string // method and path, as in the contract
	scope   string // that the key must carry; empty: any key is enough
	access  access
	bind    func(*Server, *operation) handler // runs once, when the mux is made
}

// access is what a route authenticates.
type access int

const (
	byKey   access = iota // an API key
	byToken               // the token of an embed
	public                // nothing
)

// A handler serves one exchange. The error that it returns becomes the reply in
// one place, [Server.fail].
type handler func(*exchange) error

// get returns a route that reads.
func get[P, R any](pattern, scope string, h func(*Server, context.Context, Request[P, none]) (Reply[R], error)) route {
	return update(pattern, scope, h)
}

// update returns a route that changes or reads something without an idempotency
// key: what it does may be done twice.
func update[P, B, R any](pattern, scope string, h func(*Server, context.Context, Request[P, B]) (Reply[R], error)) route {
	return keyed(pattern, scope, func(s *Server, x *exchange, in Request[P, B]) error {
		reply, err := h(s, x.context(), in)
		return answer(x, reply, err)
	})
}

// create returns a route whose handler runs in the transaction of the request's
// idempotency key: what it makes exists together with the stored reply, or not
// at all. The handler may run more than once.
func create[P, B, R any](pattern, scope string, h func(*Server, context.Context, *store.Tx, Request[P, B]) (Reply[R], error)) route {
	return keyed(pattern, scope, func(s *Server, x *exchange, in Request[P, B]) error {
		return once(s, x, in.Caller, func(tx *store.Tx) (Reply[R], error) {
			return h(s, x.context(), tx, in)
		})
	})
}

// createAfter is [create] for a handler that needs what can only be found out
// outside of a transaction. What before returns is passed on to it.
func createAfter[P, B, V, R any](pattern, scope string, before func(*Server, context.Context, Request[P, B]) (V, error), h func(*Server, context.Context, *store.Tx, Request[P, B], V) (Reply[R], error)) route {
	return keyed(pattern, scope, func(s *Server, x *exchange, in Request[P, B]) error {
		v, err := before(s, x.context(), in)
		if err != nil {
			return err
		}
		return once(s, x, in.Caller, func(tx *store.Tx) (Reply[R], error) {
			return h(s, x.context(), tx, in, v)
		})
	})
}

// stream returns a route whose handler writes the reply itself, and reads the body
// itself if there is one. It is [keyed] written out: a function between would keep a
// copy of the request on the stack for as long as the stream lasts.
func stream[P any](pattern, scope string, h func(*Server, http.ResponseWriter, *Request[P, none]) error) route {
	rt := route{pattern: pattern, scope: scope, access: byKey, bind: func(s *Server, op *operation) handler {
		read := newReader[P, none](s, op)
		return func(x *exchange) error {
			if err := s.takeCaller(x, scope); err != nil {
				return err
			}
			in, err := requestOf(x, read)
			if err != nil {
				return err
			}
			return h(s, x, in)
		}
	}}
	return rt.withOwnBody()
}

// requestOf reads the input of a request, outside of the frames that stay on the stack.
func requestOf[P any](x *exchange, read func(*exchange) (Input[P, none], error)) (*Request[P, none], error) {
	in, err := read(x)
	if err != nil {
		return nil, err
	}
	return &Request[P, none]{Caller: x.log.caller, Input: in}, nil
}

// publicGet returns a route that reads and needs no key.
func publicGet[P, R any](pattern string, h func(*Server, context.Context, PublicRequest[P, none]) (Reply[R], error)) route {
	return publicUpdate(pattern, h)
}

// publicUpdate is [update] without a key.
func publicUpdate[P, B, R any](pattern string, h func(*Server, context.Context, PublicRequest[P, B]) (Reply[R], error)) route {
	return open(pattern, func(s *Server, x *exchange, in PublicRequest[P, B]) error {
		reply, err := h(s, x.context(), in)
		return answer(x, reply, err)
	})
}

// publicStream is [stream] without a key.
func publicStream[P any](pattern string, h func(*Server, http.ResponseWriter, PublicRequest[P, none]) error) route {
	rt := open(pattern, func(s *Server, x *exchange, in PublicRequest[P, none]) error { return h(s, x, in) })
	return rt.withOwnBody()
}

// visitorUpdate is [update] for a page with the token of an embed.
func visitorUpdate[P, B, R any](pattern string, h func(*Server, context.Context, VisitorRequest[P, B]) (Reply[R], error)) route {
	return visiting(pattern, func(s *Server, x *exchange, in VisitorRequest[P, B]) error {
		reply, err := h(s, x.context(), in)
		return answer(x, reply, err)
	})
}

// visitorCreate is [create] for a page with the token of an embed.
func visitorCreate[P, B, R any](pattern string, h func(*Server, context.Context, *store.Tx, VisitorRequest[P, B]) (Reply[R], error)) route {
	return visiting(pattern, func(s *Server, x *exchange, in VisitorRequest[P, B]) error {
		return once(s, x, in.Visitor.Caller, func(tx *store.Tx) (Reply[R], error) {
			return h(s, x.context(), tx, in)
		})
	})
}

// visitorStream is [stream] for a page with the token of an embed.
func visitorStream[P any](pattern string, h func(*Server, http.ResponseWriter, VisitorRequest[P, none]) error) route {
	rt := visiting(pattern, func(s *Server, x *exchange, in VisitorRequest[P, none]) error { return h(s, x, in) })
	return rt.withOwnBody()
}

// keyed authenticates by API key, then reads the input.
func keyed[P, B any](pattern, scope string, do func(*Server, *exchange, Request[P, B]) error) route {
	return route{pattern: pattern, scope: scope, access: byKey, bind: func(s *Server, op *operation) handler {
		read := newReader[P, B](s, op)
		return func(x *exchange) error {
			if err := s.takeCaller(x, scope); err != nil {
				return err
			}
			in, err := read(x)
			if err != nil {
				return err
			}
			return do(s, x, Request[P, B]{Caller: x.log.caller, Input: in})
		}
	}}
}

// takeCaller notes who the caller of a request is.
func (s *Server) takeCaller(x *exchange, scope string) (err error) {
	x.log.caller, err = s.authenticate(x.r, scope)
	return err
}

// visiting authenticates by the token of an embed, then reads the input.
func visiting[P, B any](pattern string, do func(*Server, *exchange, VisitorRequest[P, B]) error) route {
	return route{pattern: pattern, access: byToken, bind: func(s *Server, op *operation) handler {
		read := newReader[P, B](s, op)
		return func(x *exchange) error {
			who, err := s.visitor(x, x.r)
			x.log.caller = who.Caller
			if err != nil {
				return s.wrongKey(x.r, err)
			}
			in, err := read(x)
			if err != nil {
				return err
			}
			return do(s, x, VisitorRequest[P, B]{Visitor: who, Input: in})
		}
	}}
}

// open reads the input of a route that authenticates nobody.
func open[P, B any](pattern string, do func(*Server, *exchange, PublicRequest[P, B]) error) route {
	return route{pattern: pattern, access: public, bind: func(s *Server, op *operation) handler {
		read := newReader[P, B](s, op)
		return func(x *exchange) error {
			in, err := read(x)
			if err != nil {
				return err
			}
			return do(s, x, PublicRequest[P, B]{in})
		}
	}}
}

// withOwnBody leaves a body that the contract describes to the handler.
func (rt route) withOwnBody() route {
	bind := rt.bind
	rt.bind = func(s *Server, op *operation) handler {
		bare := *op
		bare.body = nil
		return bind(s, &bare)
	}
	return rt
}

// answer sends a handler's reply.
func answer[R any](x *exchange, reply Reply[R], err error) error {
	if err != nil {
		return err
	}
	text, err := render(reply)
	if err != nil {
		return err
	}
	text.send(x)
	return nil
}

// A rendered reply is ready to be sent and stored.
type rendered struct {
	status         int
	location, etag string
	retryAfter     string
	body           []byte // JSON and a line feed; nil: none
}

// render writes a reply's body as JSON.
func render[R any](reply Reply[R]) (rendered, error) {
	out := rendered{status: reply.Status, location: reply.Location, etag: reply.ETag}
	if out.status == 0 {
		out.status = http.StatusOK
	}
	if reply.RetryAfter > 0 {
		out.retryAfter = strconv.Itoa(reply.RetryAfter)
	}
	if out.status == http.StatusNoContent || out.status == http.StatusNotModified {
		return out, nil
	}
	text, err := jsonx.MarshalModel(reply.Body)
	if err != nil {
		return out, fmt.Errorf("write the reply: %w", err)
	}
	out.body = append(text, '\n')
	return out, nil
}

// send writes the rendered reply.
func (out rendered) send(w http.ResponseWriter) {
	h := w.Header()
	for _, m := range [...]struct{ name, value string }{{"Location", out.location}, {"ETag", out.etag}, {"Retry-After", out.retryAfter}} {
		if m.value != "" {
			h.Set(m.name, m.value)
		}
	}
	if out.body == nil {
		w.WriteHeader(out.status)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(out.body)))
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body) // what was done is done, whoever listens
}
