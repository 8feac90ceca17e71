package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// None is the type of the parameters or the body of an operation without any.
type None = struct{}

// Input is the input of a handler. Parameters and body match the contract, but the handler must check
// limits that are not in the contract.
type Input[P, B any] struct {
	Params P             // path, query and header; see [parameters]
	Body   B             // zero if an optional body is absent
	HTTP   *http.Request // request, for everything else
	Log    *Fields       // fields of the request's log line
}

// Request is one authenticated, validated request of the control plane.
type Request[P, B any] struct {
	Caller stoa.Caller // never empty, because a route without an API key has another type
	Input[P, B]
}

// PublicRequest is one validated request that needs no key, and therefore contains no caller.
type PublicRequest[P, B any] struct {
	Input[P, B]
}

// Reply is the answer of a handler.
type Reply[R any] struct {
	Status     int    // 0 means 200; replies with 204 or 304 have no body
	Location   string // address of the created object; empty for no header
	ETag       string // empty for no header
	RetryAfter int    // seconds; 0 for no header
	Body       R
	Secret     bool // Body contains a secret, so that its stored copy must be sealed
}

// NoContent is 204.
func NoContent() Reply[None] { return Reply[None]{Status: http.StatusNoContent} }

// Created returns a reply of 201 with the address of the created object.
func Created[R any](location string, body R) Reply[R] {
	return Reply[R]{Status: http.StatusCreated, Location: location, Body: body}
}

// A Route is a row of the table of routes. A test compares the table with the contract in both directions.
// See docs/decisions/0027-typed-routes-without-a-generated-server.md.
type Route struct {
	Pattern string                          // method and path in the contract's form
	Scope   string                          // required scope; empty if any key is enough
	Keyed   bool                            // an API key is required
	bind    func(*Base, *operation) handler // runs once, when the mux is created, so that mistakes appear at the start
}

// A handler serves one exchange. Only [Base.fail] turns its error into a reply.
type handler func(*Exchange) error

// Get returns a route that reads.
func Get[P, R any](pattern, scope string, h func(context.Context, Request[P, None]) (Reply[R], error)) Route {
	return Update(pattern, scope, h)
}

// Update returns a route without an idempotency key. Its handler must be safe to repeat, because clients
// retry it.
func Update[P, B, R any](pattern, scope string, h func(context.Context, Request[P, B]) (Reply[R], error)) Route {
	return keyed(pattern, scope, func(_ *Base, x *Exchange, in Request[P, B]) error {
		reply, err := h(x.Context(), in)
		return Answer(x, reply, err)
	})
}

// Read is like [Get], for a handler that runs in a transaction.
func Read[P, R any](pattern, scope string, h func(context.Context, *store.Tx, Request[P, None]) (Reply[R], error)) Route {
	return inTransaction(pattern, scope, (*store.Store).Read, h)
}

// Write is like [Update], for a handler that runs in a transaction. It may run more than once.
func Write[P, B, R any](pattern, scope string, h func(context.Context, *store.Tx, Request[P, B]) (Reply[R], error)) Route {
	return inTransaction(pattern, scope, (*store.Store).Write, h)
}

func inTransaction[P, B, R any](pattern, scope string, run func(*store.Store, context.Context, func(*store.Tx) error) error, h func(context.Context, *store.Tx, Request[P, B]) (Reply[R], error)) Route {
	return keyed(pattern, scope, func(b *Base, x *Exchange, in Request[P, B]) error {
		var reply Reply[R]
		err := run(b.Store, x.Context(), func(tx *store.Tx) (err error) {
			reply, err = h(x.Context(), tx, in)
			return err
		})
		return Answer(x, reply, err)
	})
}

// Create returns a route whose handler runs in the transaction of the request's idempotency key, so that the
// created object exists together with the stored reply, or not at all. The handler may run more than once.
func Create[P, B, R any](pattern, scope string, h func(context.Context, *store.Tx, Request[P, B]) (Reply[R], error)) Route {
	return keyed(pattern, scope, func(b *Base, x *Exchange, in Request[P, B]) error {
		return Once(b, x, in.Caller, func(tx *store.Tx) (Reply[R], error) {
			return h(x.Context(), tx, in)
		})
	})
}

// CreateAfter is like [Create], for a handler that needs the result of before, whose work must not hold a
// transaction open.
func CreateAfter[P, B, V, R any](pattern, scope string, before func(context.Context, Request[P, B]) (V, error), h func(context.Context, *store.Tx, Request[P, B], V) (Reply[R], error)) Route {
	return keyed(pattern, scope, func(b *Base, x *Exchange, in Request[P, B]) error {
		v, err := before(x.Context(), in)
		if err != nil {
			return err
		}
		return Once(b, x, in.Caller, func(tx *store.Tx) (Reply[R], error) {
			return h(x.Context(), tx, in, v)
		})
	})
}

// Stream returns a route whose handler writes the reply itself, and reads the body itself if
// there is one. It inlines [keyed], because another function would keep a copy of the
// request on the stack for the duration of the stream.
func Stream[P any](pattern, scope string, h func(http.ResponseWriter, *Request[P, None]) error) Route {
	rt := Route{Pattern: pattern, Scope: scope, Keyed: true, bind: func(b *Base, op *operation) handler {
		read := newReader[P, None](b, op)
		return func(x *Exchange) error {
			if err := b.takeCaller(x, scope); err != nil {
				return err
			}
			in, err := requestOf(x, read)
			if err != nil {
				return err
			}
			return h(x, in)
		}
	}}
	return rt.WithOwnBody()
}

// requestOf reads the input of a request. It is a function, so that its frame leaves the stack of a stream.
func requestOf[P any](x *Exchange, read func(*Exchange) (Input[P, None], error)) (*Request[P, None], error) {
	in, err := read(x)
	if err != nil {
		return nil, err
	}
	return &Request[P, None]{Caller: x.Log.Caller, Input: in}, nil
}

// PublicGet returns a route that reads and requires no key.
func PublicGet[P, R any](pattern string, h func(context.Context, PublicRequest[P, None]) (Reply[R], error)) Route {
	return PublicUpdate(pattern, h)
}

// PublicUpdate is like [Update], without a key.
func PublicUpdate[P, B, R any](pattern string, h func(context.Context, PublicRequest[P, B]) (Reply[R], error)) Route {
	return open(pattern, func(x *Exchange, in PublicRequest[P, B]) error {
		reply, err := h(x.Context(), in)
		return Answer(x, reply, err)
	})
}

// PublicStream is like [Stream], without a key.
func PublicStream[P any](pattern string, h func(http.ResponseWriter, PublicRequest[P, None]) error) Route {
	rt := open(pattern, func(x *Exchange, in PublicRequest[P, None]) error { return h(x, in) })
	return rt.WithOwnBody()
}

func keyed[P, B any](pattern, scope string, do func(*Base, *Exchange, Request[P, B]) error) Route {
	return Route{Pattern: pattern, Scope: scope, Keyed: true, bind: func(b *Base, op *operation) handler {
		read := newReader[P, B](b, op)
		return func(x *Exchange) error {
			if err := b.takeCaller(x, scope); err != nil {
				return err
			}
			in, err := read(x)
			if err != nil {
				return err
			}
			return do(b, x, Request[P, B]{Caller: x.Log.Caller, Input: in})
		}
	}}
}

func (b *Base) takeCaller(x *Exchange, scope string) (err error) {
	if x.Log.Caller, err = b.authenticate(x.HTTP, scope); err != nil {
		return err
	}
	return b.enterRequest(x)
}

func open[P, B any](pattern string, do func(*Exchange, PublicRequest[P, B]) error) Route {
	return Custom(pattern, func(x *Exchange, read func() (Input[P, B], error)) error {
		in, err := read()
		if err != nil {
			return err
		}
		return do(x, PublicRequest[P, B]{in})
	})
}

// Custom returns a route without an API key. do must authenticate the request if required, and then reads
// the input.
func Custom[P, B any](pattern string, do func(x *Exchange, read func() (Input[P, B], error)) error) Route {
	return Route{Pattern: pattern, bind: func(b *Base, op *operation) handler {
		read := newReader[P, B](b, op)
		return func(x *Exchange) error {
			return do(x, func() (Input[P, B], error) { return read(x) })
		}
	}}
}

// WithOwnBody returns the route with a body that the handler reads itself, although the contract describes it.
func (rt Route) WithOwnBody() Route {
	bind := rt.bind
	rt.bind = func(b *Base, op *operation) handler {
		bare := *op
		bare.body = nil
		return bind(b, &bare)
	}
	return rt
}

// Answer sends a handler's reply.
func Answer[R any](w http.ResponseWriter, reply Reply[R], err error) error {
	if err != nil {
		return err
	}
	text, err := render(reply)
	if err != nil {
		return err
	}
	text.send(w)
	return nil
}

// A rendered reply can be sent and stored.
type rendered struct {
	status         int
	location, etag string
	retryAfter     string
	body           []byte // JSON and a line feed; nil means no body
}

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
	_, _ = w.Write(out.body) // a write error is ignored, because the operation has succeeded
}

// largestBody is the x-max-body of the operations that limits.body configures.
const largestBody = 16 << 20

// NewMux builds the mux. It panics if a route does not match the contract, because a test would have found that.
func NewMux(b *Base, doc *openapi3.T, table []Route) *http.ServeMux {
	mux, patterns, methods := http.NewServeMux(), []string(nil), customMethods{}
	for _, rt := range table {
		if _, path, _ := strings.Cut(rt.Pattern, " "); doc.Paths.Value(path) == nil {
			continue // the operation belongs to a disabled extension
		}
		op := NewOperation(doc, rt.Pattern)
		if op.maxBody == largestBody {
			op.maxBody = b.MaxBody
		}
		op.maxBody = min(op.maxBody, b.MaxBody)
		patterns = append(patterns, rt.Pattern)
		prefixes := []string{Prefix}
		if b.Extensions.Gemini && strings.Contains(rt.Pattern, " "+Prefix+"/models") {
			prefixes = append(prefixes, betaPrefix)
		}
		for _, prefix := range prefixes {
			methods.handle(mux, strings.Replace(rt.Pattern, Prefix, prefix, 1), b.served(op, rt.bind(b, op)))
		}
	}
	none := b.served(&operation{}, noRoute(mux, patterns, methods))
	for pattern := range methods {
		mux.Handle(pattern, methods.handler(pattern, none))
	}
	mux.Handle("/", none)
	return mux
}

// customMethods are the handlers of patterns that end with a method after the last parameter, as Google's
// APIs write it: POST /models/{model}:countTokens. Because the mux does not support such patterns, they share one
// without the method, which this map splits by method.
type customMethods map[string]map[string]http.Handler

// handle registers a handler, in the mux itself if its pattern contains no method.
func (m customMethods) handle(mux *http.ServeMux, pattern string, h http.Handler) {
	shared, method, ok := strings.Cut(pattern, "}:")
	if !ok {
		mux.Handle(pattern, h)
		return
	}
	shared += "}"
	if m[shared] == nil {
		m[shared] = map[string]http.Handler{}
	}
	m[shared][method] = h
}

// handler returns the handler of a shared pattern; none serves unknown methods.
func (m customMethods) handler(pattern string, none http.Handler) http.Handler {
	name := strings.TrimSuffix(pattern[strings.LastIndexByte(pattern, '{')+1:], "}")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, method, _ := cutLast(r.PathValue(name))
		h := m[pattern][method]
		if h == nil {
			none.ServeHTTP(w, r)
			return
		}
		r.SetPathValue(name, value)
		h.ServeHTTP(w, r)
	})
}

// have reports whether a pattern of the mux has a handler for a path.
func (m customMethods) have(pattern, path string) bool {
	_, method, _ := cutLast(path)
	return m[pattern] == nil || m[pattern][method] != nil
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
