package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"stoa/internal/agents/mcp"
	"stoa/internal/agents/remote"
	"stoa/internal/base/outbound"
	"stoa/internal/base/ratelimit"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Limits of the calls that sessions make, in addition to those of each connection.
const (
	CallsPerMinute = 600              // of an account
	CallsAccount   = 32               // concurrent calls of an account
	CallsProcess   = 256              // concurrent calls of this process
	callsSlow      = CallsProcess / 2 // for connections without a quick newest call, so that slow servers leave room for others
	slowCall       = 2 * time.Second
	breakAfter     = 3 // consecutive failed calls of a tool
	breakTime      = 30 * time.Second
	longestHint    = 10 * time.Second // longest Retry-After that is honoured, because the turn waits
)

// A Target is a tool of a connection as it may currently be called.
type Target struct {
	connection store.Connection
	tool       store.ConnectionTool
	visitor    bool
}

// Timeout returns the timeout of a call of the tool.
func (t Target) Timeout() time.Duration {
	return time.Duration(t.connection.Limits.TimeoutSeconds) * time.Second
}

// SecretID returns the id of the secret that a call sends for a session with the given own
// secrets; empty if it sends none that is stored separately.
func (t Target) SecretID(own Credentials) string { return secretOf(t.connection, own) }

// A Refusal is the reason why a call is not made: its code, and a sentence for the model.
type Refusal struct {
	Code stoa.Code
	Text string
}

// Target returns the target of a call that a session of this audience has planned. refused is
// the reason if the call must not be made. The tool must be unchanged since the call was planned:
// approved, with the same definition, and not reviewed more strictly, and its connection enabled.
// Each attempt calls Target in its transaction, because a review may have come in between.
func (t *Tools) Target(ctx context.Context, tx *store.Tx, who Audience, offer stoa.OfferedTool, planned stoa.ExternalCall) (to Target, refused *Refusal, err error) {
	all, err := entries(ctx, tx, who, stoa.AgentTool{ConnectionID: offer.ConnectionID, Allow: []string{offer.Remote}})
	if err != nil {
		return to, nil, err
	}
	e := all[0]
	forbidden := false
	if e.connection != nil {
		if forbidden, err = unauthorized(ctx, tx, who, *e.connection, t.Vault); err != nil {
			return to, nil, err
		}
	}
	why := e.withheld(Audience{Visitor: who.Visitor, Unattended: who.Unattended}, forbidden)
	if why == "" && e.tool.ApprovedSHA256 != planned.DefinitionSHA256 {
		why = stoa.WithheldChanged
	}
	switch {
	case why != "":
		return to, RefusalOf(why), nil
	case e.alters(who, planned):
		return to, &Refusal{stoa.CodeToolChanged, "The tool was reviewed again, with other settings, after it was called; nothing was done. Call it again if it is still needed."}, nil
	}
	return Target{*e.connection, *e.tool, who.Visitor}, nil, nil
}

// RefusalOf returns the refusal of a call of a tool that is withheld for a reason; nil for
// other reasons.
func RefusalOf(reason string) *Refusal {
	text := reasons[reason]
	switch {
	case text == "":
		return nil
	case reason == stoa.WithheldDisabled:
		return &Refusal{stoa.CodeConnectionDisabled, text + "; nothing was done."}
	}
	return &Refusal{stoa.CodeToolChanged, text + "; nothing was done."}
}

// WhyWithheld returns the sentence for the model about a tool that is withheld for a reason; empty for reasons that say nothing to it.
func WhyWithheld(reason string) string {
	if text := reasons[reason]; text != "" {
		return text + "."
	}
	return ""
}

// reasons contains the sentences for the model about refused calls, without their ends.
var reasons = map[string]string{
	stoa.WithheldMissing:      "The tool is not there any more",
	stoa.WithheldChanged:      "The definition of the tool has changed, and the new one is not approved",
	stoa.WithheldUnapproved:   "The tool is not approved",
	stoa.WithheldDisabled:     "The connection of the tool is switched off",
	stoa.WithheldVisitor:      "The tool is not for visitors",
	stoa.WithheldUnauthorized: "The server of the tool refuses its credentials, or they cannot be read",
}

// gates limit the calls of sessions.
type gates struct {
	mu      sync.Mutex
	now     map[string]int // calls in progress, by the name of the limit
	changed chan struct{}  // closed when a call ends
	rates   ratelimit.Rates
	broken  map[broken]*breaker
	quick   map[string]bool // connections whose newest call took at most slowCall
}

// A breaker counts consecutive calls that failed: of one tool, or of a connection whose
// server was not reached.
type breaker struct {
	failures int
	call     string // the last failed call, so that its attempts count once
	tools    map[string]bool
	at       time.Time // last failure
	until    time.Time // no call is made before
}

// fail records a failed attempt of a call of a tool. The breaker opens after enough calls, of
// at least tools different tools. It reports whether it opened.
func (b *breaker) fail(tool, call string, tools int, now time.Time) (opened bool) {
	if b.at = now; call != b.call {
		b.failures++
	}
	if b.call = call; b.tools == nil {
		b.tools = map[string]bool{}
	}
	b.tools[tool] = true
	if b.failures >= breakAfter && len(b.tools) >= tools {
		opened = !now.Before(b.until)
		b.until = now.Add(breakTime)
	}
	return opened
}

// A broken is the key of a breaker: a tool, or a connection if tool is empty.
type broken struct{ connection, tool string }

// A bound is a limit of concurrent calls.
type bound struct {
	name string
	most int
}

func (g *gates) bounds(t Target) []bound {
	list := []bound{{"", CallsProcess}, {t.connection.AccountID, CallsAccount}, {t.connection.ID, int(t.connection.Limits.MaxConcurrent)}}
	if t.visitor {
		list = append(list, bound{"visitors " + t.connection.AccountID, CallsAccount / 2})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.quick[t.connection.ID] {
		list = append(list, bound{"slow", callsSlow})
	}
	return list
}

// took records the duration of the newest call of a connection.
func (g *gates) took(connection string, d time.Duration, failed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if failed || d > slowCall {
		delete(g.quick, connection)
		return
	}
	if g.quick == nil {
		g.quick = map[string]bool{}
	}
	g.quick[connection] = true
}

// Enter waits until a call may be made, within the limits of concurrent calls of a
// connection, of an account and of this process. leave ends the call. refused is the reason, for
// the model, if a limit per minute is reached: the model can continue without the call, so that
// its turn need not wait.
func (t *Tools) Enter(ctx context.Context, to Target) (leave func(), refused string, err error) {
	g := &t.gates
	if why := g.forbids(to, time.Now()); why != "" {
		return nil, why, nil
	}
	rates := []bound{{"connection " + to.connection.ID, int(to.connection.Limits.CallsPerMinute)}, {"account " + to.connection.AccountID, CallsPerMinute}}
	if to.visitor { // so that the owner's sessions have at least the other half
		rates = slices.Insert(rates, 0, bound{"visitors " + to.connection.AccountID, CallsPerMinute / 2})
	}
	for _, r := range rates {
		wait, ok := g.rates.Allow(r.name, r.most, time.Now())
		if !ok {
			return nil, fmt.Sprintf("At most %d calls are made in a minute, and they were. Nothing was done; try again in %d seconds.", r.most, (wait+time.Second-1)/time.Second), nil
		}
	}
	for {
		bounds := g.bounds(to)
		ready, changed := g.enter(bounds)
		if ready {
			return sync.OnceFunc(func() { g.leave(bounds) }), "", nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, "", context.Cause(ctx)
		}
	}
}

// Reasons of an open breaker, for the model.
const (
	unavailable     = "The server of the tool is not available at the moment: several calls in a row have failed. Nothing was done."
	toolUnavailable = "The tool is not available at the moment: several calls of it in a row have failed. Nothing was done."
)

func (g *gates) enter(bounds []bound) (ready bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == nil {
		g.now, g.changed = map[string]int{}, make(chan struct{})
	}
	for _, b := range bounds {
		if g.now[b.name] >= b.most {
			return false, g.changed
		}
	}
	for _, b := range bounds {
		g.now[b.name]++
	}
	return true, nil
}

func (g *gates) leave(bounds []bound) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range bounds {
		if g.now[b.name]--; g.now[b.name] == 0 {
			delete(g.now, b.name)
		}
	}
	close(g.changed)
	g.changed = make(chan struct{})
}

// forbids returns the reason, for the model, if a breaker forbids a call; otherwise empty.
func (g *gates) forbids(to Target, now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.broken[broken{to.connection.ID, ""}]; b != nil && now.Before(b.until) {
		return unavailable
	}
	if b := g.broken[broken{to.connection.ID, to.tool.Name}]; b != nil && now.Before(b.until) {
		return toolUnavailable
	}
	return ""
}

// count records the end of an attempt of a call. A tool whose calls fail affects no other tool,
// because its server may work, except if calls of several tools did not reach the server. It
// reports whether a breaker opened.
func (g *gates) count(to Target, call string, class Class, now time.Time) (opened bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	tool, connection := broken{to.connection.ID, to.tool.Name}, broken{to.connection.ID, ""}
	if class != NotSent {
		delete(g.broken, connection)
	}
	if class != NotSent && class != Unknown {
		delete(g.broken, tool)
		return false
	}
	if g.broken == nil {
		g.broken = map[broken]*breaker{}
	}
	fail := func(key broken, tools int) bool {
		if g.broken[key] == nil {
			g.broken[key] = &breaker{}
		}
		return g.broken[key].fail(tool.tool, call, tools, now)
	}
	opened = fail(tool, 1)
	if class == NotSent {
		opened = fail(connection, 2) || opened
	}
	return opened
}

// Broken returns the number of connections of which at least one tool is currently not
// called, because several consecutive calls have failed.
func (t *Tools) Broken() int64 {
	g := &t.gates
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	open := map[string]bool{}
	for key, b := range g.broken {
		switch {
		case now.Before(b.until):
			open[key.connection] = true
		case now.Sub(b.at) > time.Hour:
			delete(g.broken, key)
		}
	}
	return int64(len(open))
}

// A Turn makes the calls of one turn of a session, and shares nothing with other turns, because
// servers keep a user's state in their sessions. A session at a server is opened at the first
// call. A Turn is safe for concurrent use.
type Turn struct {
	tools   *Tools
	own     Credentials
	session string // id of the agent's session; empty for none
	keeps   bool   // the session has further turns

	mu   sync.Mutex
	open []*opened
}

// An opened is the session at the server of one connection.
type opened struct {
	connection string
	endpoint   string // a hash that includes the secret
	server     remote.Server
	end        func()
	id         string  // id of the session that the server gave in the last call; empty without a session
	key        keptFor // zero if the session ends with the turn
}

// Turn returns a Turn for calls that belong to no session of an agent. It must be closed.
func (t *Tools) Turn(own Credentials) *Turn { return &Turn{tools: t, own: own} }

// TurnOf returns a Turn for the calls of a turn of an agent's session, with the session's own
// secrets. keeps is set if the session may have further turns, or waits. It must be closed.
func (t *Tools) TurnOf(session string, keeps bool, own Credentials) *Turn {
	return &Turn{tools: t, own: own, session: session, keeps: keeps}
}

// Close ends the sessions at servers, except for those that are kept. No call may be in
// progress.
func (t *Turn) Close() {
	t.mu.Lock()
	all := t.open
	t.open = nil
	t.mu.Unlock()
	var over []opened
	for _, o := range all {
		if o.key != (keptFor{}) {
			t.tools.kept.release(o.key, *o, time.Now())
		} else {
			over = append(over, *o)
		}
	}
	end(over)
}

// server returns the server of a connection, with the turn's session if the server has
// sessions, or the one that is kept for the agent's session. It ends with a change of its
// address or secret.
func (t *Turn) server(ctx context.Context, c store.Connection) (remote.Server, *opened, error) {
	made, err := t.tools.server(ctx, c, t.own)
	if err != nil {
		return nil, nil, err
	}
	with, ok := made.(interface {
		Keep() (server remote.Server, end func())
	})
	if !ok {
		return made, nil, nil
	}
	endpoint, err := t.tools.endpoint(ctx, c, made)
	if err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.IndexFunc(t.open, func(o *opened) bool { return o.connection == c.ID && o.endpoint == endpoint }); at >= 0 {
		return t.open[at].with(made), t.open[at], nil
	}
	var key keptFor
	if t.keeps && c.Sessions == store.SessionsSession {
		key = keptFor{c.AccountID, t.session, c.ID}
		if slices.ContainsFunc(t.open, func(o *opened) bool { return o.key == key }) { // because its address or secret has changed within the turn
			key = keptFor{}
		} else if o, ok := t.tools.kept.reserve(ctx, key, endpoint); o != nil {
			t.open = append(t.open, o)
			return o.with(made), o, nil
		} else if !ok {
			key = keptFor{}
		}
	}
	o := &opened{connection: c.ID, endpoint: endpoint, key: key}
	o.server, o.end = with.Keep()
	t.open = append(t.open, o)
	return o.server, o, nil
}

// endpoint returns a hash of what a session at a server belongs to: its address, its headers,
// and its secret, or else the authorization, because a renewed token must not end the session.
func (t *Tools) endpoint(ctx context.Context, c store.Connection, made remote.Server) (string, error) {
	of, ok := inner(made).(mcp.Server)
	if !ok {
		return stoa.HashOf(fmt.Sprintf("%+v", made)), nil
	}
	credential, authorization := of.Credential, ""
	if _, renews := made.(renewing); renews {
		credential = remote.Credential{}
		err := t.Store.Read(ctx, func(tx *store.Tx) error {
			a, err := tx.Setup().Authorization(ctx, c.AccountID, c.ID)
			if a != nil && a.Status == store.AuthorizationDone {
				authorization = a.ID
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return stoa.HashOf(fmt.Sprintf("%s %q %+v %s", of.URL, of.Headers, credential, authorization)), nil
}

// with returns the server of a session, whose requests carry the current token. The lock of
// its turn is held.
func (o *opened) with(made remote.Server) remote.Server {
	now, renews := made.(renewing)
	was, kept := o.server.(renewing)
	if !renews || !kept || now.access == was.access {
		return o.server
	}
	if s, ok := was.Server.(interface {
		With(credential remote.Credential) remote.Server
	}); ok {
		now.Server = s.With(remote.Credential{Header: "Authorization", Value: "Bearer " + now.access})
		o.server = now
	}
	return o.server
}

// A Class says how far a call got.
type Class string

// The classes of calls.
const (
	Answered Class = "answered" // there is a result
	NotSent  Class = "not_sent" // nothing reached the server
	Refused  Class = "refused"  // the server did not process it
	Unknown  Class = "unknown"  // it may have been carried out
)

// A Reply is the outcome of a call.
type Reply struct {
	Class        Class
	Text         string // the result or the error, for the model
	Images       []*stoa.Media
	IsError      bool          // the tool reported a failure
	Hopeless     bool          // repeating the call would have the same outcome
	Wait         time.Duration // pause that the server requested; 0 if none, or too long to wait for
	Unauthorized bool          // the server rejected the secret
}

// Call makes one request for a call, in at most timeout.
func (t *Turn) Call(ctx context.Context, to Target, id, arguments string, timeout time.Duration) Reply {
	g := &t.tools.gates
	if why := g.forbids(to, time.Now()); why != "" {
		return Reply{Class: NotSent, Text: why, Hopeless: true}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	server, at, err := t.server(ctx, to.connection)
	if err != nil {
		return Reply{Class: NotSent, Text: "The call could not be made: " + stoa.AsError(err).Message, Hopeless: true}
	}
	result, err := server.Call(ctx, remote.Call{
		ID: id, Tool: to.tool.Name, Definition: to.tool.ApprovedDefinition, Arguments: json.RawMessage(arguments), MaxResult: to.connection.Limits.MaxResultBytes,
	})
	reply := replyOf(result, err)
	if err == nil && at != nil {
		reply.Text = t.noteLoss(context.WithoutCancel(ctx), to.connection, id, server, at) + reply.Text
	}
	version := spoken(server)
	t.tools.doubt(ctx, to.connection, version, err)
	if context.Cause(ctx) == nil || errors.Is(context.Cause(ctx), context.DeadlineExceeded) { // otherwise it says nothing about the server
		g.took(to.connection.ID, time.Since(began), reply.Class == Unknown || reply.Class == NotSent)
		if g.count(to, id, reply.Class, time.Now()) {
			t.tools.logger().LogAttrs(ctx, slog.LevelWarn, "calls of a connection's tool fail and are not made for a while", slog.String("connection", to.connection.ID), slog.String("tool", to.tool.ModelName))
		}
	}
	status, size := 0, 0
	if result != nil {
		size = result.Bytes
	}
	if failed, ok := errors.AsType[*remote.Error](err); ok {
		status = failed.Status
	}
	t.tools.logger().LogAttrs(ctx, slog.LevelDebug, "a tool call was sent to a server", slog.String("call", id), slog.String("connection", to.connection.ID),
		slog.String("tool", to.tool.ModelName), slog.String("outcome", string(reply.Class)), slog.Int("status", status), slog.Int("bytes", size),
		slog.String("era", Era(cmp.Or(version, to.connection.Protocol))), slog.Duration("duration", time.Since(began)))
	return reply
}

// spoken returns the protocol version that a server used in the last call; empty if it is
// unknown or has none.
func spoken(server remote.Server) string {
	if s, ok := inner(server).(interface{ Protocol() string }); ok {
		return s.Protocol()
	}
	return ""
}

func inner(server remote.Server) remote.Server {
	if r, ok := server.(renewing); ok {
		return r.Server
	}
	return server
}

// Era returns the era of a version of the Model Context Protocol: modern, or legacy for
// versions with sessions; empty without a version.
func Era(version string) string {
	switch {
	case version == "":
		return ""
	case version >= mcp.Modern:
		return "modern"
	}
	return "legacy"
}

// replyOf classifies an exchange.
func replyOf(result *remote.Result, err error) Reply {
	if err == nil {
		return Reply{Class: Answered, Text: result.Text, Images: result.Images, IsError: result.IsError}
	}
	failed, ok := errors.AsType[*remote.Error](err)
	if !ok {
		return Reply{Class: Unknown, Text: "The call failed."}
	}
	// A 403 is an error of one call, so that it does not end the authorization of the connection.
	r := Reply{Class: Class(failed.Class), Text: failed.Message, Unauthorized: failed.Status == 401}
	r.Hopeless = failed.Reason == outbound.NotAllowed || failed.Status/100 == 3 || r.Class == Refused || r.Class == NotSent && failed.Status/100 == 4
	if failed.Status == 429 && failed.RetryAfter > 0 && failed.RetryAfter <= longestHint {
		r.Wait = failed.RetryAfter
	}
	if lacking := lackingOf(err); len(lacking) > 0 {
		r.Text += " " + lackingText(lacking)
	}
	if failed.Reason == outbound.NotAllowed {
		r.Text = "The address of the server may not be reached from here."
	}
	return r
}

func (t *Tools) logger() *slog.Logger { return cmp.Or(t.Logger, slog.New(slog.DiscardHandler)) }

// admit counts a trial call until done is called, within the limits of the connection, which
// sessions share, and of its account.
func (t *Tools) admit(c store.Connection) (done func(), err error) {
	leave, err := t.enter(c.AccountID)
	if err != nil {
		return nil, err
	}
	g, bounds := &t.gates, []bound{{c.ID, int(c.Limits.MaxConcurrent)}}
	if ready, _ := g.enter(bounds); !ready {
		leave()
		return nil, stoa.Errorf(stoa.CodeRateLimit, "The connection allows %d concurrent calls (limits.maxConcurrent). Wait until one has ended.", c.Limits.MaxConcurrent)
	}
	done = sync.OnceFunc(func() { g.leave(bounds); leave() })
	if _, ok := g.rates.Allow("connection "+c.ID, int(c.Limits.CallsPerMinute), time.Now()); !ok {
		done()
		return nil, stoa.Errorf(stoa.CodeRateLimit, "The connection allows %d calls per minute (limits.callsPerMinute). Wait a little.", c.Limits.CallsPerMinute)
	}
	return done, nil
}
