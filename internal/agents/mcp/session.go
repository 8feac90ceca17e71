package mcp

import (
	"cmp"
	"context"
	"errors"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/agents/remote"
	"stoa/internal/base/telemetry"
)

// A Session is shared by several calls of one user at a server: if the server has sessions,
// it is one of them. It is opened at the first call. It is safe for concurrent use.
type Session struct {
	server Server

	mu    sync.Mutex
	c     *connected // nil if none is open
	spoke string     // the version that the server last used; empty before the first connection
	id    string     // of the server's session in the last connection; empty if it has none
}

// Session returns a session of a server. Nothing is sent before the first call; it must be
// closed.
func (s Server) Session() *Session { return &Session{server: s} }

// Call is [Server.Call] in the session. If the server did not accept the call because it has
// dropped the session or changed its version, the call is repeated once in a new session: it was
// not executed.
func (s *Session) Call(ctx context.Context, call remote.Call) (*remote.Result, error) {
	limit := cmp.Or(call.MaxResult, remote.MaxResult)
	c, err := s.connect(ctx, limit)
	if err != nil {
		return nil, err
	}
	result, x, err := c.call(ctx, call)
	forgotten := c.session.ID() != "" && x.hasDropped()
	other := c.wire.assumed != "" && x.isOtherEra()
	s.leave(c, err != nil && (forgotten || other))
	if err == nil || !forgotten && !other {
		return result, err
	}
	if other {
		s.mu.Lock()
		s.server.Protocol = "" // so that the next connection requests the server's version
		s.mu.Unlock()
	}
	next, asked := s.connect(ctx, limit)
	if failed, _ := errors.AsType[*remote.Error](asked); failed != nil && (forgotten || failed.Unauthorized) {
		return nil, asked
	}
	if asked != nil || other && next.protocol() == c.protocol() { // otherwise the refusal is about the version
		if next != nil {
			s.leave(next, false)
		}
		return nil, err
	}
	result, _, err = next.call(ctx, call)
	s.leave(next, false)
	return result, err
}

// connect returns an open connection, which it reserves for one more call.
func (s *Session) connect(ctx context.Context, limit int64) (*connected, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		c, err := s.server.open(ctx, limit, true)
		if err != nil {
			return nil, err
		}
		s.c, s.spoke, s.id = c, c.protocol(), c.session.ID()
	}
	s.c.calls++
	return s.c, nil
}

// leave ends the use of a connection by a call. A connection that is gone is not used again.
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

// Close ends the session at the server, if it answers in time. No call may be in progress.
func (s *Session) Close() {
	s.mu.Lock()
	c := s.c
	s.c = nil
	s.mu.Unlock()
	if c != nil {
		c.close()
	}
}

// Protocol returns the protocol version that the server used in the last call; empty before
// the first.
func (s *Session) Protocol() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spoke
}

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
	asked := len(x.questions) > 0
	if asked { // cancelled, because the person of the session may be a visitor; the server decides how the call ends
		params.RequestState, params.InputResponses = x.state, sdk.InputResponseMap{}
		for _, id := range x.questions {
			params.InputResponses[id] = &sdk.ElicitResult{Action: "cancel"}
		}
		_, err = c.session.CallTool(context.WithValue(ctx, slotKey{}, into), params)
		x = into.last()
	}
	if x.result == nil {
		return nil, x, x.failure(ctx, err)
	}
	result := resultOf(x.result)
	if asked {
		result.Text = "(The server asked the person a question first. It was cancelled: this service does not ask people.)\n" + result.Text
	}
	if x.cut > 0 {
		result.Bytes, result.Text = x.cut, remote.CutNote(x.cut)+result.Text
	}
	return result, x, nil
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

// Protocol returns the protocol version that the server used in the session.
func (k kept) Protocol() string { return k.session.Protocol() }

// With makes the session use another secret from the next request on.
func (k kept) With(credential remote.Credential) remote.Server {
	s := k.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Credential = credential
	if s.c != nil {
		s.c.wire.renewed.Store(&credential)
	}
	k.Server.Credential = credential
	return k
}

// SessionID returns the id of the server's session in the last call; empty if the server has
// none.
func (k kept) SessionID() string {
	k.session.mu.Lock()
	defer k.session.mu.Unlock()
	return k.session.id
}

// Call makes a call in the session.
func (k kept) Call(ctx context.Context, call remote.Call) (*remote.Result, error) {
	return k.session.Call(ctx, call)
}
