package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"stoa/internal/stoa"
)

const prefix = "/api/v1"

// Handler serves every path. What every request passes through, in order: its
// id and log line, the end of the house, the route, the key and its scope; only
// then is the body looked at.
func (s *Server) Handler() http.Handler {
	s.prepare()
	mux := s.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		fields := &Fields{RequestID: stoa.NewID("req")}
		r = r.WithContext(context.WithValue(r.Context(), fieldsKey{}, fields))
		fields.request = r
		t := &tracker{ResponseWriter: w}
		h := w.Header()
		h.Set("x-request-id", fields.RequestID)
		h.Set("X-Content-Type-Options", "nosniff")
		defer fields.line(r.Context(), s.Logger, r.Method, r.URL.Path, t, started)
		defer func() {
			if v := recover(); v != nil {
				s.panicked(t, r, v)
			}
		}()
		if s.isForWeb(r) {
			s.Web.ServeHTTP(t, r)
			return
		}
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		s.dispatch(mux, t, r)
	})
}

// isForWeb reports whether the pages answer the request.
func (s *Server) isForWeb(r *http.Request) bool {
	if s.Web == nil {
		return false
	}
	p := r.URL.Path
	return !under(p, prefix) || under(p, prefix+"/doc")
}

// under reports whether p is dir or below it.
func under(p, dir string) bool {
	rest, ok := strings.CutPrefix(p, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// dispatch finds the route and runs it, or says in JSON that there is none. The
// mux alone would answer in plain text, and redirect unclean paths, which turns
// a POST into a GET.
func (s *Server) dispatch(mux *http.ServeMux, t *tracker, r *http.Request) {
	if s.isDraining() && r.URL.Path != prefix+"/health" {
		t.Header().Set("Connection", "close")
		s.fail(t, r, stoa.Errorf(stoa.CodeOverloaded, "The service is about to stop and takes no more requests. Try again in a moment."))
		return
	}
	if raw := r.URL.EscapedPath(); !strings.HasPrefix(raw, "/") || path.Clean(raw) != strings.TrimSuffix(raw, "/") && raw != "/" || !isText(r.URL.Path) {
		s.fail(t, r, notFound(r))
		return
	}
	if isPreflight(r) {
		if err := s.preflight(t, r); err != nil {
			s.fail(t, r, err)
		}
		return
	}
	handler, pattern := mux.Handler(r)
	if pattern != "" {
		mux.ServeHTTP(t, r)
		return
	}
	refusal := &refusal{header: http.Header{}}
	handler.ServeHTTP(refusal, r)
	if refusal.status != http.StatusMethodNotAllowed {
		s.fail(t, r, notFound(r))
		return
	}
	allow := refusal.header.Get("Allow")
	t.Header().Set("Allow", allow)
	s.fail(t, r, stoa.Errorf(stoa.CodeMethodNotAllowed, "%s is not a method of this path; use %s.", r.Method, allow))
}

func notFound(r *http.Request) error {
	if r.URL.Path == prefix+"/models" || strings.HasPrefix(r.URL.Path, prefix+"/models/") {
		return stoa.Errorf(stoa.CodeNotFound, "This service has no model listing endpoint. GET /api/v1/meta names the models.")
	}
	return stoa.Errorf(stoa.CodeNotFound, "There is nothing at this path. GET /api/v1/openapi.json describes what there is.")
}

// A refusal hears the mux say no without passing it on.
type refusal struct {
	header http.Header
	status int
}

func (r *refusal) Header() http.Header         { return r.header }
func (r *refusal) Write(b []byte) (int, error) { return len(b), nil }
func (r *refusal) WriteHeader(status int)      { r.status = status }

// A handler serves one route for a caller and leaves its errors to the adapter.
type handler func(w http.ResponseWriter, r *http.Request, c stoa.Caller) error

// adapt makes a route's handler an [http.Handler]: the key and its scope come
// before everything else.
func (s *Server) adapt(rt route, do handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := w.(*tracker)
		fields := LogFields(r.Context())
		fields.route = rt.pattern
		var err error
		switch {
		case rt.visitor:
			fields.embedded, err = s.visitor(t, r)
			fields.caller = fields.embedded.Caller
		case !rt.public:
			fields.caller, err = s.authenticate(r, rt)
		}
		if err == nil {
			err = do(t, r, fields.caller)
		}
		if err != nil {
			s.fail(t, r, err)
		}
	})
}

// authenticate finds the caller and checks that the route is open to it.
func (s *Server) authenticate(r *http.Request, rt route) (stoa.Caller, error) {
	headers := r.Header["Authorization"]
	if len(headers) != 1 { // two keys are no key
		headers = []string{""}
	}
	c, err := s.Keys.Verify(r.Context(), headers[0])
	switch {
	case err != nil:
		return c, err
	case c.Account.Suspended:
		return c, stoa.Errorf(stoa.CodeSuspended, "This account is suspended. Its operator can lift that.")
	case rt.scope != "" && !c.Key.Has(rt.scope):
		return c, stoa.Errorf(stoa.CodeScope, "This key does not carry the scope %q, which the request needs. Use another key, or make one with that scope.", rt.scope)
	}
	return c, s.admit(c)
}

// panicked ends a request whose handler panicked: with 500 where nothing was
// sent, by cutting the connection where something was.
func (s *Server) panicked(t *tracker, r *http.Request, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	fields := LogFields(r.Context())
	fields.Failed(fmt.Errorf("panic: %v", v))
	fields.stack = debug.Stack()
	if t.status != 0 {
		panic(http.ErrAbortHandler)
	}
	writeError(t, fields.RequestID, fields.cause)
}
