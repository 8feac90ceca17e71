package mcp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/remote"
	"stoa/internal/telemetry"
)

// A Session is what several calls of one user share at a server: where the server has
// sessions, one of them. It is opened at the first call. It is safe for concurrent use.
type Session struct {
	server Server

	mu    sync.Mutex
	c     *connected // nil: none is open
	spoke string     // the version that the server spoke the last time; empty: it was not opened
}

// Session returns a session of a server. Nothing is sent before the first call; it has
// to be closed.
func (s Server) Session() *Session { return &Session{server: s} }

// Call is [Server.Call] in the session. Where the server did not take the call, since it
// has forgotten the session or speaks another version than it did, the call is made once
// more in another one.
func (s *Session) Call(ctx context.Context, call remote.Call) (*remote.Result, error) {
	limit := cmp.Or(call.MaxResult, remote.MaxResult)
	c, err := s.connect(ctx, limit)
	if err != nil {
		return nil, err
	}
	result, x, err := c.call(ctx, call)
	forgotten := x.status == http.StatusNotFound && c.session.ID() != ""
	other := c.wire.assumed != "" && x.isOtherEra()
	s.leave(c, err != nil && (forgotten || other))
	if err == nil || !forgotten && !other {
		return result, err
	}
	if other {
		s.ask()
	}
	next, asked := s.connect(ctx, limit)
	if failed, _ := errors.AsType[*remote.Error](asked); failed != nil && (forgotten || failed.Unauthorized) {
		return nil, asked
	}
	if asked != nil || other && next.protocol() == c.protocol() { // the refusal is about the call
		if next != nil {
			s.leave(next, false)
		}
		return nil, err
	}
	result, _, err = next.call(ctx, call)
	s.leave(next, false)
	return result, err
}

// ask has the server asked what it speaks when the session is opened again.
func (s *Session) ask() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Protocol = ""
}

// connect returns an open connection, which one more call uses.
func (s *Session) connect(ctx context.Context, limit int64) (*connected, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		c, err := s.server.open(ctx, limit)
		if err != nil {
			return nil, err
		}
		s.c, s.spoke = c, c.protocol()
	}
	s.c.calls++
	return s.c, nil
}

// leave ends the use of a connection by a call. One that is gone is used no more.
func (s *Session) leave(c *connected, gone bool) {
	s.mu.Lock()
	c.calls--
	if gone && s.c == c {
		s.c = nil
	}
	unused := s.c != c && c.calls == 0
	s.mu.Unlock()
	if unused {
		c.close()
	}
}

// Close ends the session at the server, as far as it answers in time. No call may be
// under way.
func (s *Session) Close() {
	s.mu.Lock()
	c := s.c
	s.c = nil
	s.mu.Unlock()
	if c != nil {
		c.close()
	}
}

// Protocol returns the version of the protocol that the server spoke in the last call;
// empty: there was none.
func (s *Session) Protocol() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spoke
}

// call makes one call. It also returns what came of the request.
func (c *connected) call(ctx context.Context, call remote.Call) (*remote.Result, exchange, error) {
	params := &sdk.CallToolParams{Meta: sdk.Meta{"stoa/toolCallId": call.ID}, Name: call.Tool}
	if parent := telemetry.Parent(ctx); parent != "" {
		params.Meta["traceparent"] = parent
	}
	if len(call.Arguments) > 0 {
		params.Arguments = call.Arguments
	}
	into := &slot{headers: headersOf(call.Definition, call.Arguments)}
	_, err := c.session.CallTool(context.WithValue(ctx, slotKey{}, into), params)
	x := into.last()
	if x.result == nil {
		return nil, x, x.failure(ctx, err)
	}
	return resultOf(x.result), x, nil
}

// Keep returns the server with one session for several calls; end closes it.
func (s Server) Keep() (server remote.Server, end func()) {
	session := s.Session()
	return kept{s, session}, session.Close
}

// kept is a server whose calls share a session.
type kept struct {
	Server
	session *Session
}

// Protocol returns the version that the server spoke in the session.
func (k kept) Protocol() string { return k.session.Protocol() }

// Call makes a call in the session.
func (k kept) Call(ctx context.Context, call remote.Call) (*remote.Result, error) {
	return k.session.Call(ctx, call)
}
