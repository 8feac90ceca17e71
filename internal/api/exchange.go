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

// An exchange is one request on its way to its reply. It is the
// [http.ResponseWriter] of everything inside.
type exchange struct {
	responseRecorder
	r    *http.Request
	log  Fields
	body []byte // as it was sent, once the input is read
}

// Handler serves every path. What every request passes through, in order: its
// id and log line, the check for a stopping service, the route, authentication
// and scope, the parameters, the body.
func (s *Server) Handler() http.Handler {
	s.prepare()
	mux := s.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		x := &exchange{responseRecorder: responseRecorder{ResponseWriter: w}, log: Fields{RequestID: stoa.NewID("req")}}
		r = r.WithContext(context.WithValue(r.Context(), fieldsKey{}, &x.log))
		x.r = r
		h := w.Header()
		h.Set("x-request-id", x.log.RequestID)
		h.Set("X-Content-Type-Options", "nosniff")
		defer x.log.line(r.Context(), s.Logger, r.Method, r.URL.Path, &x.responseRecorder, started)
		defer func() {
			if v := recover(); v != nil {
				s.panicked(x, v)
			}
		}()
		if s.isForWeb(r) {
			s.Web.ServeHTTP(x, r)
			return
		}
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if err := s.dispatch(mux, x); err != nil {
			s.fail(x, err)
		}
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

// dispatch finds the route and runs it. Paths that the mux would redirect are no
// paths: a redirect turns a POST into a GET.
func (s *Server) dispatch(mux *http.ServeMux, x *exchange) error {
	r := x.r
	if s.isDraining() {
		x.Header().Set("Connection", "close")
	}
	if s.isDraining() && r.URL.Path != prefix+"/health" {
		return stoa.Errorf(stoa.CodeOverloaded, "The service is about to stop and takes no more requests. Try again in a moment.")
	}
	if raw := r.URL.EscapedPath(); !strings.HasPrefix(raw, "/") || path.Clean(raw) != strings.TrimSuffix(raw, "/") && raw != "/" || !isText(r.URL.Path) {
		return notFound(r)
	}
	if isPreflight(r) {
		return s.preflight(x, r)
	}
	mux.ServeHTTP(x, r)
	return nil
}

// served adapts a route's handler to the mux.
func (s *Server) served(pattern string, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		x := w.(*exchange)
		x.log.route = pattern
		if err := h(x); err != nil {
			s.fail(x, err)
		}
	})
}

// noRoute answers where no route fits: with the methods of the path where it has
// some, in place of the plain text of the mux.
func noRoute(mux *http.ServeMux) handler {
	return func(x *exchange) error {
		var allow []string
		for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost, http.MethodPut} {
			other := *x.r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "/" {
				allow = append(allow, method)
			}
		}
		if len(allow) == 0 {
			return notFound(x.r)
		}
		methods := strings.Join(allow, ", ")
		x.Header().Set("Allow", methods)
		return stoa.Errorf(stoa.CodeMethodNotAllowed, "%s is not a method of this path; use %s.", x.r.Method, methods)
	}
}

func notFound(r *http.Request) error {
	if r.URL.Path == prefix+"/models" || strings.HasPrefix(r.URL.Path, prefix+"/models/") {
		return stoa.Errorf(stoa.CodeNotFound, "This service has no model listing endpoint. GET /api/v1/meta names the models.")
	}
	return stoa.Errorf(stoa.CodeNotFound, "There is nothing at this path. GET /api/v1/openapi.json describes what there is.")
}

// authenticate finds the caller and checks that the route is open to it.
func (s *Server) authenticate(r *http.Request, scope string) (stoa.Caller, error) {
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
	case scope != "" && !c.Key.Has(scope):
		return c, stoa.Errorf(stoa.CodeScope, "This key does not carry the scope %q, which the request needs. Use another key, or make one with that scope.", scope)
	}
	return c, s.admit(c)
}

// panicked ends a request whose handler panicked: with 500 where nothing was
// sent, by cutting the connection where something was.
func (s *Server) panicked(x *exchange, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	x.log.Failed(fmt.Errorf("panic: %v", v))
	x.log.stack = debug.Stack()
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	writeError(x, x.log.RequestID, x.log.cause)
}
