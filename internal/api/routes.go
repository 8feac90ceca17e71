package api

import (
	"errors"
	"fmt"
	"net/http"

	"stoa/internal/contract"
	"stoa/internal/stoa"
)

// A route is a line of the table below. A test holds it against the contract.
type route struct {
	pattern string // method and path, as in the contract
	scope   string // that the key must carry; empty: any key will do
	public  bool   // needs no key
	visitor bool   // needs the token of an embed in place of a key
	own     func(*Server) handler
}

// table is every route of the API, in the order of the contract. A route
// without a handler of its own is served by the generated server, which calls
// the method of [Server] named like the operation.
func table() []route {
	return []route{
		{pattern: "POST /api/v1/responses", scope: "responses", own: func(s *Server) handler { return s.createResponse }},
		{pattern: "GET /api/v1/health", public: true},
		{pattern: "GET /api/v1/meta", public: true},
		{pattern: "GET /api/v1/openapi.json", public: true, own: func(s *Server) handler { return s.getOpenAPI }},
		{pattern: "GET /api/v1/users/me"},

		{pattern: "POST /api/v1/keys", scope: "keys:write"},
		{pattern: "GET /api/v1/keys", scope: "keys:write"},
		{pattern: "GET /api/v1/keys/{id}", scope: "keys:write"},
		{pattern: "PATCH /api/v1/keys/{id}", scope: "keys:write"},
		{pattern: "DELETE /api/v1/keys/{id}", scope: "keys:write"},
		{pattern: "POST /api/v1/keys/{id}/rotate", scope: "keys:write"},

		{pattern: "GET /api/v1/credits", scope: "usage:read"},
		{pattern: "GET /api/v1/credits/ledger", scope: "usage:read"},
		{pattern: "GET /api/v1/receipts", scope: "usage:read"},
		{pattern: "GET /api/v1/receipts/{id}", scope: "usage:read"},
		{pattern: "GET /api/v1/usage", scope: "usage:read"},
		{pattern: "GET /api/v1/usage/reconcile", scope: "usage:read"},

		{pattern: "POST /api/v1/accounts", scope: stoa.ScopeOperator},
		{pattern: "GET /api/v1/accounts", scope: stoa.ScopeOperator},
		{pattern: "GET /api/v1/accounts/{id}", scope: stoa.ScopeOperator},
		{pattern: "PATCH /api/v1/accounts/{id}", scope: stoa.ScopeOperator},
		{pattern: "POST /api/v1/accounts/{id}/grants", scope: stoa.ScopeOperator},
		{pattern: "POST /api/v1/accounts/{id}/keys", scope: stoa.ScopeOperator},

		{pattern: "GET /api/v1/providers", scope: stoa.ScopeOperator},

		{pattern: "POST /api/v1/spaces", scope: "agents:write"},
		{pattern: "GET /api/v1/spaces", scope: "agents:read"},
		{pattern: "GET /api/v1/spaces/{id}", scope: "agents:read"},
		{pattern: "PATCH /api/v1/spaces/{id}", scope: "agents:write"},
		{pattern: "DELETE /api/v1/spaces/{id}", scope: "agents:write"},
		{pattern: "GET /api/v1/spaces/{id}/agents", scope: "agents:read"},
		{pattern: "GET /api/v1/spaces/{id}/scheduled-tasks", scope: "schedules:read"},
		{pattern: "POST /api/v1/api-agents", scope: "agents:write"},
		{pattern: "GET /api/v1/api-agents", scope: "agents:read"},
		{pattern: "GET /api/v1/api-agents/{id}", scope: "agents:read"},
		{pattern: "PATCH /api/v1/api-agents/{id}", scope: "agents:write"},
		{pattern: "DELETE /api/v1/api-agents/{id}", scope: "agents:write"},
		{pattern: "GET /api/v1/api-agents/{id}/versions", scope: "agents:read"},
		{pattern: "GET /api/v1/api-agents/{id}/versions/{version}", scope: "agents:read"},
		{pattern: "POST /api/v1/api-agents/{id}/rollback", scope: "agents:write"},
		{pattern: "POST /api/v1/api-agents/{id}/duplicate", scope: "agents:write"},

		{pattern: "GET /api/v1/api-agents/{id}/drive", scope: "drive:read"},
		{pattern: "GET /api/v1/api-agents/{id}/drive/files", scope: "drive:read"},
		{pattern: "PUT /api/v1/api-agents/{id}/drive/files", scope: "drive:write", own: func(s *Server) handler { return s.putDriveFile }},
		{pattern: "DELETE /api/v1/api-agents/{id}/drive/files", scope: "drive:write"},
		{pattern: "GET /api/v1/api-agents/{id}/drive/files/metadata", scope: "drive:read"},
		{pattern: "GET /api/v1/api-agents/{id}/drive/files/content", scope: "drive:read", own: func(s *Server) handler { return s.getDriveFileContent }},
		{pattern: "PUT /api/v1/api-agents/{id}/drive/files/content", scope: "drive:write", own: func(s *Server) handler { return s.putDriveFileContent }},
		{pattern: "POST /api/v1/api-agents/{id}/drive/files/move", scope: "drive:write", own: func(s *Server) handler { return s.moveDriveFile }},
		{pattern: "GET /api/v1/api-agents/{id}/drive/files/versions", scope: "drive:read"},
		{pattern: "POST /api/v1/api-agents/{id}/drive/files/restore", scope: "drive:write", own: func(s *Server) handler { return s.restoreDriveFile }},
		{pattern: "POST /api/v1/api-agents/{id}/drive/batch", scope: "drive:write", own: func(s *Server) handler { return s.batchDrive }},
		{pattern: "GET /api/v1/api-agents/{id}/drive/search", scope: "drive:read"},
		{pattern: "GET /api/v1/api-agents/{id}/drive/export", scope: "drive:read", own: func(s *Server) handler { return s.exportDrive }},

		{pattern: "POST /api/v1/api-agents/{id}/sessions", scope: "sessions:write"},
		{pattern: "GET /api/v1/api-agents/{id}/sessions", scope: "sessions:read"},
		{pattern: "GET /api/v1/api-agents/{id}/sessions/{sessionId}", scope: "sessions:read"},
		{pattern: "PATCH /api/v1/api-agents/{id}/sessions/{sessionId}", scope: "sessions:write"},
		{pattern: "DELETE /api/v1/api-agents/{id}/sessions/{sessionId}", scope: "sessions:write"},
		{pattern: "GET /api/v1/api-agents/{id}/sessions/{sessionId}/turns", scope: "sessions:read"},
		{pattern: "POST /api/v1/api-agents/{id}/sessions/{sessionId}/messages", scope: "sessions:write"},
		{pattern: "GET /api/v1/api-agents/{id}/sessions/{sessionId}/messages", scope: "sessions:read"},
		{pattern: "POST /api/v1/api-agents/{id}/sessions/{sessionId}/input", scope: "sessions:write"},
		{pattern: "POST /api/v1/api-agents/{id}/sessions/{sessionId}/cancel", scope: "sessions:write"},
		{pattern: "POST /api/v1/api-agents/{id}/sessions/{sessionId}/retry", scope: "sessions:write"},
		{pattern: "GET /api/v1/api-agents/{id}/sessions/{sessionId}/events", scope: "sessions:read"},
		{pattern: "GET /api/v1/api-agents/{id}/sessions/{sessionId}/receipts", scope: "sessions:read"},
		{pattern: "GET /api/v1/api-agents/{id}/sessions/{sessionId}/sources", scope: "sessions:read"},
		{pattern: "GET /api/v1/api-agents/{id}/sessions/{sessionId}/export", scope: "sessions:read"},

		{pattern: "POST /api/v1/api-agents/{id}/scheduled-tasks", scope: "schedules:write"},
		{pattern: "GET /api/v1/api-agents/{id}/scheduled-tasks", scope: "schedules:read"},
		{pattern: "POST /api/v1/api-agents/{id}/scheduled-tasks/preview", scope: "schedules:read"},
		{pattern: "GET /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", scope: "schedules:read"},
		{pattern: "PATCH /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", scope: "schedules:write"},
		{pattern: "DELETE /api/v1/api-agents/{id}/scheduled-tasks/{taskId}", scope: "schedules:write"},
		{pattern: "POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/pause", scope: "schedules:write"},
		{pattern: "POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/resume", scope: "schedules:write"},
		{pattern: "POST /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/run", scope: "schedules:write"},
		{pattern: "GET /api/v1/api-agents/{id}/scheduled-tasks/{taskId}/runs", scope: "schedules:read"},

		{pattern: "POST /api/v1/api-agents/{id}/embed-urls", scope: "embeds:write"},
		{pattern: "GET /api/v1/api-agents/{id}/embed-urls", scope: "embeds:write"},
		{pattern: "GET /api/v1/api-agents/{id}/embed-urls/{embedId}", scope: "embeds:write"},
		{pattern: "DELETE /api/v1/api-agents/{id}/embed-urls/{embedId}", scope: "embeds:write"},
		{pattern: "POST /api/v1/api-agents/{id}/embed-sessions", scope: "embeds:write"},
		{pattern: "GET /api/v1/api-agents/{id}/embed-sessions", scope: "embeds:write"},
		{pattern: "GET /api/v1/api-agents/{id}/embed-sessions/{embedId}", scope: "embeds:write"},
		{pattern: "DELETE /api/v1/api-agents/{id}/embed-sessions/{embedId}", scope: "embeds:write"},
		{pattern: "POST /api/v1/api-agents/{id}/embed-sessions/{embedId}/refresh", scope: "embeds:write"},
		{pattern: "POST /api/v1/embed/exchange", public: true},
		{pattern: "POST /api/v1/embed/refresh", public: true, visitor: true},
		{pattern: "GET /api/v1/embed/chat-sessions/{chatId}", public: true, visitor: true},
		{pattern: "POST /api/v1/embed/chat-sessions/{chatId}/messages", public: true, visitor: true},
		{pattern: "POST /api/v1/embed/chat-sessions/{chatId}/input", public: true, visitor: true},
		{pattern: "POST /api/v1/embed/chat-sessions/{chatId}/cancel", public: true, visitor: true},
		{pattern: "POST /api/v1/embed/chat-sessions/{chatId}/retry", public: true, visitor: true},
		{pattern: "GET /api/v1/embed/chat-sessions/{chatId}/events", public: true, visitor: true},
	}
}

// routes makes the mux. It panics where table and contract do not fit, which a
// test would have found.
func (s *Server) routes() *http.ServeMux {
	doc, err := contract.Load()
	if err != nil {
		panic(err)
	}
	generated := collector{}
	contract.HandlerWithOptions(
		contract.NewStrictHandlerWithOptions(s, nil, contract.StrictHTTPServerOptions{
			RequestErrorHandlerFunc:  unreadable,
			ResponseErrorHandlerFunc: failed,
		}),
		contract.StdHTTPServerOptions{BaseRouter: generated, ErrorHandlerFunc: wrongParameter},
	)
	mux := http.NewServeMux()
	for _, rt := range table() {
		do := rt.own
		if do == nil {
			h, ok := generated[rt.pattern]
			if !ok {
				panic(fmt.Sprintf("api: no handler for %s", rt.pattern))
			}
			do = func(s *Server) handler { return s.controlPlane(newChecker(doc, rt.pattern), h) }
		}
		mux.Handle(rt.pattern, s.adapt(rt, do(s)))
	}
	return mux
}

// A collector takes the handlers that the generated code would register.
type collector map[string]http.HandlerFunc

// HandleFunc keeps a handler.
func (c collector) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	c[pattern] = h
}

// ServeHTTP is never called.
func (collector) ServeHTTP(http.ResponseWriter, *http.Request) {}

// controlPlane runs a generated handler on a request that fits the contract.
func (s *Server) controlPlane(check *checker, h http.HandlerFunc) handler {
	return func(w http.ResponseWriter, r *http.Request, c stoa.Caller) error {
		if err := check.parameters(r); err != nil {
			return err
		}
		var body []byte
		if check.takesBody() {
			var err error
			if body, err = s.readBody(w, r); err != nil {
				return err
			}
			if r.Body, err = check.body(body); err != nil {
				return err
			}
		}
		if r.Method == http.MethodPost {
			var err error
			if LogFields(r.Context()).intent, err = newIntent(r, body, c); err != nil {
				return err
			}
		}
		out := &outcomeWriter{ResponseWriter: w}
		h(out, r)
		if again, ok := errors.AsType[*replay](out.err); ok {
			LogFields(r.Context()).replay = true
			return again.write(w)
		}
		return out.err
	}
}

// An outcomeWriter carries a handler's error past the generated code, which
// knows no way to return one.
type outcomeWriter struct {
	http.ResponseWriter
	err error
}

// Unwrap lets [http.ResponseController] reach the connection.
func (o *outcomeWriter) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func failed(w http.ResponseWriter, _ *http.Request, err error) {
	w.(*outcomeWriter).err = err
}

// unreadable is told of bodies that the generated code cannot decode. The check
// against the contract finds all that are known before.
func unreadable(w http.ResponseWriter, _ *http.Request, err error) {
	failed(w, nil, stoa.Errorf(stoa.CodeInvalidValue, "A value of the body cannot be read. Compare it with the contract.").Because(err))
}

// wrongParameter is told of parameters that the generated code cannot read. The
// check against the contract finds nearly all of them before.
func wrongParameter(w http.ResponseWriter, _ *http.Request, err error) {
	failed(w, nil, stoa.Errorf(stoa.CodeInvalidValue, "A parameter of the path or the query cannot be read: %v", err))
}
