package mcp

import (
	"cmp"
	"context"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/remote"
)

// A Session is what several calls of one user share at a server: where the server has
// sessions, one of them. It is opened at the first call. It is safe for concurrent use.
type Session struct {
	server Server

	mu sync.Mutex
	c  *connected // nil: none is open
}

// Session returns a session of a server. Nothing is sent before the first call; it has
// to be closed.
func (s Server) Session() *Session { return &Session{server: s} }

// Call is [Server.Call] in the session. Where the server has forgotten the session, the
// call is made once more in another one: it was not taken.
func (s *Session) Call(ctx context.Context, call remote.Call) (*remote.Result, error) {
	for again := false; ; again = true {
		c, err := s.connect(ctx, cmp.Or(call.MaxResult, remote.MaxResult))
		if err != nil {
			return nil, err
		}
		result, x, err := c.call(ctx, call)
		gone := x.status == http.StatusNotFound && c.session.ID() != ""
		s.leave(c, gone)
		if err == nil || !gone || again {
			return result, err
		}
	}
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
		s.c = c
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

// call makes one call. It also returns what came of the request.
func (c *connected) call(ctx context.Context, call remote.Call) (*remote.Result, exchange, error) {
	params := &sdk.CallToolParams{Meta: sdk.Meta{"stoa/toolCallId": call.ID}, Name: call.Tool}
	if len(call.Arguments) > 0 {
		params.Arguments = call.Arguments
	}
	into := &slot{}
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

// Call makes a call in the session.
func (k kept) Call(ctx context.Context, call remote.Call) (*remote.Result, error) {
	return k.session.Call(ctx, call)
}
