// Package tool manages connections: servers that have tools. It requests their catalogs,
// records the decision about each tool, and calls approved ones.
//
// A server's catalog is stored as of the last refresh, and a decision is about exactly that:
// a changed definition is not the approved one. Secrets are decrypted for one exchange, and
// are sent to their own origin only.
//
// It does not depend on models and sessions. Start with [Tools.Refresh], [Review] and
// [Tools.Try].
package tool

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/singleflight"

	"stoa/internal/agents/httptool"
	"stoa/internal/agents/mcp"
	"stoa/internal/agents/remote"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/outbound"
	"stoa/internal/base/ratelimit"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
)

// Limits of exchanges with servers.
const (
	RefreshTime     = 20 * time.Second
	perAccount      = 8      // concurrent exchanges
	maxInstructions = 20_000 // characters
	maxServerName   = 200    // characters
)

// Tools manages the connections of a store and calls their tools.
type Tools struct {
	Store   *store.Store
	Vault   *vault.Vault
	Network *outbound.Network
	Version string // of this program
	Logger  *slog.Logger
	// Emit is called with an event of a connection, in the transaction of its cause; it may
	// be nil.
	Emit func(ctx context.Context, tx *store.Tx, kind string, c store.Connection) error
	// Refreshes is the timeout of a refresh; 0 means [RefreshTime].
	Refreshes time.Duration
	// PublicURL is the origin of the service, to which authorization servers redirect people;
	// may be empty.
	PublicURL string

	refreshes singleflight.Group // of tokens
	turns     ratelimit.Turns    // of refreshes by Sweep

	mu   sync.Mutex
	busy map[string]int // exchanges in progress, by account

	gates gates
	kept  keeper
}

// enter counts an exchange of an account until done is called.
func (t *Tools) enter(accountID string) (done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy == nil {
		t.busy = map[string]int{}
	}
	if t.busy[accountID] >= perAccount {
		return nil, stoa.Errorf(stoa.CodeRateLimit, "The account already has %d requests to servers in progress. Wait until one has been answered.", perAccount)
	}
	t.busy[accountID]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.busy[accountID]--; t.busy[accountID] == 0 {
			delete(t.busy, accountID)
		}
	}, nil
}

// Origin returns scheme, host and port of an address, which may not contain more if bare is
// true; empty if it is not the address of a server.
func Origin(address string, bare bool) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Opaque != "" || strings.ContainsAny(address, "#\\ \t\r\n") ||
		strings.HasSuffix(u.Host, ":") || bare && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery) {
		return ""
	}
	host := strings.ToLower(u.Host)
	if port := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]; strings.HasSuffix(host, port) {
		host = strings.TrimSuffix(host, port)
	}
	return u.Scheme + "://" + host
}

func ref(s store.Secret) vault.Ref {
	return vault.Ref{AccountID: s.AccountID, ID: s.ID, Kind: s.Kind, Origin: s.Origin, Version: s.Version}
}

// minHinted is the minimum length of a value whose end is shown.
const minHinted = 16

// Seal sets the value of a secret.
func (t *Tools) Seal(s *store.Secret, value string) (err error) {
	s.Hint = ""
	if len(value) >= minHinted {
		s.Hint = value[len(value)-4:]
	}
	s.Sealed, err = t.Vault.Seal(ref(*s), []byte(value))
	return err
}

// Unreadable reports whether the value of a secret can no longer be decrypted.
func (t *Tools) Unreadable(s store.Secret) bool {
	_, err := t.Vault.Open(ref(s), s.Sealed)
	return err != nil
}

// server returns the server of a connection, as reached by a session with its own
// credentials.
func (t *Tools) server(ctx context.Context, c store.Connection, own Credentials) (remote.Server, error) {
	var credential remote.Credential
	if c.URL != "" { // otherwise a document names the origin at the first refresh
		var err error
		credential, err = t.credential(ctx, c, own)
		if failed, ok := errors.AsType[*remote.Error](err); ok {
			return unasked{failed}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	server := t.serverWith(c, credential)
	if token, ok := strings.CutPrefix(credential.Value, "Bearer "); ok && c.OAuth != nil && !sendsOwn(c, own) {
		return renewing{server, t, c, token}, nil
	}
	return server, nil
}

func (t *Tools) serverWith(c store.Connection, credential remote.Credential) remote.Server {
	to := remote.Endpoint{Network: t.Network, URL: c.URL, Headers: c.Headers, Credential: credential}
	if c.Kind == store.KindHTTP || c.Kind == store.KindOpenAPI {
		return httptool.Server{Endpoint: to, Account: c.AccountID}
	}
	return mcp.Server{Endpoint: to, Protocol: c.Protocol, Version: t.Version}
}

// A Difference is the result of a refresh.
type Difference struct {
	Added, Changed, Missing []string // names of tools
	Unchanged               int
	Connection              store.Connection

	withdrawn bool // the definition of an approved tool has changed
}

// Refresh requests the catalog of a connection's server and stores it. It approves nothing.
func (t *Tools) Refresh(ctx context.Context, accountID, id string) (d Difference, err error) {
	c, err := store.Read(ctx, t.Store, func(tx *store.Tx) (store.Connection, error) { return tx.Setup().Connection(ctx, accountID, id) })
	if err != nil {
		return d, err
	}
	if c.Disabled {
		return d, switchedOff()
	}
	done, err := t.enter(accountID)
	if err != nil {
		return d, err
	}
	defer done()
	catalog, err := t.ask(ctx, c)
	if ctx.Err() != nil {
		return d, err // because the caller has disconnected, and nothing is known about the server
	}
	t.stepUp(ctx, c, err)
	failure := failureOf(err)
	if err != nil && failure == nil {
		return d, err
	}
	if failure == nil {
		for _, one := range catalog.Tools { // here, because reading parameters takes long, and agents are created in transactions that write
			if one.Problem == "" {
				_ = entry{tool: &store.ConnectionTool{}}.unsupported(one.Definition)
			}
		}
	}
	asked := failure
	err = t.Store.Write(ctx, func(tx *store.Tx) (err error) {
		d, failure = Difference{}, asked // because a transaction may be repeated
		d.Connection, err = tx.Setup().EditConnection(ctx, accountID, id, func(now *store.Connection) error {
			if !SameTarget(*now, c) || now.SecretID != c.SecretID || now.DocumentURL != c.DocumentURL {
				return stoa.Errorf(stoa.CodeToolServer, "The connection was changed in the meantime. Refresh it again.")
			}
			refused := now.ErrorCode == NeedsAuthorization
			now.CheckedAt, now.ErrorCode, now.ErrorMessage = tx.Now, "", ""
			if failure == nil {
				failure, err = settle(ctx, tx, now, catalog)
				if err != nil {
					return err
				}
			}
			if failure != nil {
				now.ErrorCode, now.ErrorMessage = failure.stored, failure.answer.Message
				if failure.stored == NeedsAuthorization && !refused {
					return t.emit(ctx, tx, eventAuthorization, *now)
				}
				return nil
			}
			now.Protocol, now.ServerName, now.ServerVersion = cut(catalog.Protocol, 64), cut(catalog.Name, maxServerName), cut(catalog.Version, maxServerName)
			if now.Instructions = cut(catalog.Instructions, maxInstructions); catalog.Note != "" {
				now.Instructions = cut("("+catalog.Note+")\n"+catalog.Instructions, maxInstructions)
			}
			if err := d.update(ctx, tx, *now, catalog.Tools); err != nil || !d.withdrawn {
				return err
			}
			return t.emit(ctx, tx, eventReview, *now)
		})
		if err == nil && failure == nil && catalog.TTL != 0 {
			err = tx.Setup().PlanRefresh(ctx, d.Connection, tx.Now.Add(min(max(catalog.TTL, refreshAgain), refreshLate)))
		}
		return err
	})
	if err == nil && failure != nil {
		err = failure.answer
	}
	return d, err
}

// settle adopts the address in a document if the connection has none. It is stored permanently,
// so that a changed document does not redirect calls, and must have the secret's origin.
func settle(ctx context.Context, tx *store.Tx, c *store.Connection, catalog *remote.Catalog) (*failure, error) {
	if c.URL != "" || catalog.URL == "" {
		return nil, nil
	}
	if c.SecretID != "" {
		s, err := tx.Setup().SecretForShare(ctx, c.AccountID, c.SecretID)
		if err != nil {
			return nil, err
		}
		if origin := Origin(catalog.URL, false); s.Origin != origin {
			answer := stoa.Errorf(stoa.CodeSecretOrigin, "The secret is for %s, but the document names the server %s.", s.Origin, origin)
			return &failure{stored: string(stoa.CodeSecretOrigin), answer: answer}, nil
		}
	}
	c.URL = catalog.URL
	return nil, nil
}

func (t *Tools) ask(ctx context.Context, c store.Connection) (*remote.Catalog, error) {
	server, err := t.server(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	if h, ok := server.(httptool.Server); ok {
		if server, err = t.described(ctx, c, h); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(t.Refreshes, RefreshTime))
	defer cancel()
	return server.Catalog(ctx)
}

// described returns a server with the document that describes its requests. The secret of the
// connection is sent to fetch the document if that has the same origin.
func (t *Tools) described(ctx context.Context, c store.Connection, h httptool.Server) (remote.Server, error) {
	source, err := store.Read(ctx, t.Store, func(tx *store.Tx) (string, error) { return tx.Setup().ConnectionSource(ctx, c.AccountID, c.ID) })
	if err != nil {
		return nil, err
	}
	if c.Kind == store.KindHTTP {
		h.Operations = source
		return h, nil
	}
	h.Document, h.DocumentURL, h.Filter = source, c.DocumentURL, c.Filter
	if h.DocumentURL != "" {
		h.Document = ""
		from := c
		from.URL = c.DocumentURL
		credential, err := t.credential(ctx, from, nil)
		if err != nil && stoa.CodeOf(err) != stoa.CodeSecretOrigin {
			return nil, err
		}
		h.ReadWith = remote.Endpoint{Network: t.Network, Credential: credential}
	}
	return h, nil
}

// cut returns a server's text in the form to store: with invisible characters escaped, and at
// most most characters.
func cut(text string, most int) string {
	text = remote.Visible(text)
	if utf8.RuneCountInString(text) > most {
		return string([]rune(text)[:most])
	}
	return text
}

// Value of [store.Connection.ErrorCode] besides the codes of replies: the server rejects the
// secret, or requires one.
const NeedsAuthorization = "needs_authorization"

// A failure is the failure of an exchange: as stored with the connection, and as returned to
// the caller.
type failure struct {
	stored string
	class  remote.Class
	answer *stoa.Error
}

// failureOf returns the failure of an exchange with a server; nil for other errors.
func failureOf(err error) *failure {
	e, ok := errors.AsType[*remote.Error](err)
	if !ok {
		return nil
	}
	code := stoa.CodeToolServer
	switch e.Reason {
	case outbound.NotAllowed:
		code = stoa.CodeAddressNotAllowed
	case outbound.Timeout:
		code = stoa.CodeToolServerTimeout
	}
	message := e.Message
	switch {
	case e.Unauthorized && e.Status == 0: // nothing was sent, and the message explains why
	case len(lackingOf(err)) > 0:
		message += " " + lackingText(lackingOf(err))
	case e.Unauthorized && e.Status == 403:
		message += " If the secret lacks a permission, give the connection another one."
	case e.Unauthorized:
		message += " Give the connection a secret that the server accepts."
	case code == stoa.CodeAddressNotAllowed:
		message = "The address of the connection must not be accessed from this service. Its operator can allow it (outbound.allow), unless it is an address of this service itself."
	}
	f := &failure{string(code), e.Class, stoa.Errorf(code, "%s", message).Because(e.Err)}
	if e.Unauthorized {
		f.stored = NeedsAuthorization
	}
	return f
}

// update compares the catalog with the stored one, and stores it.
func (d *Difference) update(ctx context.Context, tx *store.Tx, c store.Connection, tools []remote.Tool) error {
	rows, err := tx.Setup().ConnectionTools(ctx, c.AccountID, c.ID)
	if err != nil {
		return err
	}
	kept, owner := map[string]store.ConnectionTool{}, map[string]string{} // names of tools by their names for models
	for _, t := range tools {                                             // so that a tool whose name needs no change keeps it
		owner[c.Name+"__"+t.Name] = t.Name
	}
	for _, row := range rows {
		kept[row.Name], owner[row.ModelName] = row, row.Name
	}
	for _, t := range tools {
		was, known := kept[t.Name]
		delete(kept, t.Name)
		switch {
		case !known || !was.Present:
			d.Added = append(d.Added, t.Name)
		case was.SHA256 != t.SHA256 || was.Problem != t.Problem:
			d.Changed = append(d.Changed, t.Name)
		default:
			d.Unchanged++
			continue
		}
		approved := was.State == store.ToolApproved
		now := was
		now.AccountID, now.ConnectionID, now.Name = c.AccountID, c.ID, t.Name
		if now.ModelName == "" { // otherwise it keeps its name
			now.ModelName = remote.ModelName(c.Name, t.Name, func(name string) bool { return owner[name] != "" && owner[name] != t.Name })
			owner[now.ModelName] = t.Name
		}
		now.Definition, now.SHA256, now.Problem, now.Present = t.Definition, t.SHA256, t.Problem, true
		now.Judge()
		d.withdrawn = d.withdrawn || approved && now.State != store.ToolApproved
		if err := tx.Setup().PutConnectionTool(ctx, now); err != nil {
			return err
		}
	}
	gone := 0
	for _, row := range rows {
		if _, missing := kept[row.Name]; !missing {
			continue
		}
		if row.Present {
			d.Missing = append(d.Missing, row.Name)
		}
		row.Present = false
		if gone++; row.ApprovedSHA256 == "" || gone > store.MaxCatalog-remote.MaxTools {
			err = tx.Setup().DeleteConnectionTool(ctx, c.AccountID, c.ID, row.Name)
		} else {
			err = tx.Setup().PutConnectionTool(ctx, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Describe creates the tools of a connection of the kind http from its operations, and stores
// both. It approves nothing.
func Describe(ctx context.Context, tx *store.Tx, c *store.Connection, operations string) error {
	tools, err := httptool.FromOperations(operations)
	if err != nil {
		return err
	}
	if err := tx.Setup().SetConnectionSource(ctx, c.AccountID, c.ID, operations); err != nil {
		return err
	}
	c.CheckedAt, c.ErrorCode, c.ErrorMessage = tx.Now, "", ""
	return new(Difference).update(ctx, tx, *c, tools)
}

// A Decision is a reviewer's decision about a tool.
type Decision struct {
	Name, SHA256      string // of the reviewed definition
	Approve           bool
	Approval, Effects string // of an approved tool; both empty means as the definition suggests
	Visitors          string // store.VisitorsYes and so on; empty means not offered in the sessions of visitors
	VisitorTitle      string // this and the following fields: only with store.VisitorsConfirm; see [store.ConnectionTool]
	PublicFields      []string
	OnUnknown         string // stoa.UnknownTells or stoa.UnknownFails; empty means UnknownTells
	// IdempotencyArgument is the argument of an approved tool that carries the id of a call;
	// may be empty.
	IdempotencyArgument string
}

// Review records decisions about tools, or none of them if any is about an outdated
// definition. Its errors name the member of the request at fault.
func Review(ctx context.Context, tx *store.Tx, accountID, id string, decisions []Decision) error {
	_, err := tx.Setup().EditConnection(ctx, accountID, id, func(c *store.Connection) error {
		rows, err := tx.Setup().ConnectionTools(ctx, accountID, id)
		if err != nil {
			return err
		}
		for i, d := range decisions {
			at := slices.IndexFunc(rows, func(t store.ConnectionTool) bool { return t.Name == d.Name })
			if at < 0 {
				return noTool(d.Name)
			}
			row := rows[at]
			switch {
			case slices.ContainsFunc(decisions[:i], func(other Decision) bool { return other.Name == d.Name }):
				return stoa.Errorf(stoa.CodeInvalidValue, "The tool %q is listed twice. Decide about it once.", short(d.Name)).At(member(i, "name"))
			case row.SHA256 != d.SHA256 || !row.Present:
				return stoa.Errorf(stoa.CodeToolChanged, "The tool %q has another definition now, or is gone. Read the catalog again; nothing was changed.", short(d.Name)).At(member(i, "sha256"))
			case d.Approve && row.Problem != "":
				return stoa.Errorf(stoa.CodeInvalidValue, "The tool %q cannot be used: %s", short(d.Name), row.Problem).At(member(i, "decision"))
			}
			decide(&row, d)
			switch {
			case d.Visitors == store.VisitorsYes && row.Effects != "read":
				return stoa.Errorf(stoa.CodeInvalidValue, "Visitors can only use read-only tools, unless they confirm each call (visitors: confirm); the effects of %q are %s.", short(d.Name), row.Effects).At(member(i, "visitors"))
			case d.Visitors == store.VisitorsConfirm:
				if err := checkConfirmation(i, row.Definition, d); err != nil {
					return err
				}
			case len(d.PublicFields) > 0:
				return stoa.Errorf(stoa.CodeInvalidValue, "Public fields require visitors: confirm.").At(member(i, "publicFields"))
			case d.VisitorTitle != "":
				return stoa.Errorf(stoa.CodeInvalidValue, "A title for visitors requires visitors: confirm.").At(member(i, "visitorTitle"))
			}
			if err := checkArgument(row); err != nil {
				return err.At(member(i, "idempotencyArgument"))
			}
			if err := tx.Setup().PutConnectionTool(ctx, row); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func decide(row *store.ConnectionTool, d Decision) {
	row.Visitors, row.VisitorTitle, row.PublicFields = store.VisitorsNo, "", nil
	row.OnUnknown, row.IdempotencyArgument = "", ""
	if !d.Approve {
		row.RejectedSHA256, row.ApprovedSHA256, row.ApprovedDefinition, row.Approval, row.Effects = row.SHA256, "", "", "", ""
		return
	}
	if d.Approval == "" {
		d.Approval, d.Effects = remote.Suggested(remote.Parse(row.Definition))
	}
	row.ApprovedSHA256, row.ApprovedDefinition, row.RejectedSHA256, row.Approval, row.Effects = row.SHA256, row.Definition, "", d.Approval, d.Effects
	row.OnUnknown, row.IdempotencyArgument = cmp.Or(d.OnUnknown, stoa.UnknownTells), d.IdempotencyArgument
	if row.Visitors = cmp.Or(d.Visitors, store.VisitorsNo); row.Visitors == store.VisitorsConfirm {
		row.VisitorTitle, row.PublicFields = d.VisitorTitle, d.PublicFields
	}
}

func member(i int, name string) string { return "tools[" + strconv.Itoa(i) + "]." + name }

func short(name string) string { return cut(name, 64) }

func noTool(name string) error {
	return stoa.Errorf(stoa.CodeToolNotFound, "The server has no tool %q. Use a name of the catalog; refresh the connection if the tool is new.", short(name)).At("name")
}

// Forget revokes every decision about the tools of a connection, because its address or its
// secret has changed.
func Forget(ctx context.Context, tx *store.Tx, accountID, id string) error {
	rows, err := tx.Setup().ConnectionTools(ctx, accountID, id)
	for _, row := range rows {
		if err != nil {
			return err
		}
		row.ApprovedSHA256, row.ApprovedDefinition, row.RejectedSHA256, row.Approval, row.Effects, row.Visitors = "", "", "", "", "", store.VisitorsNo
		row.VisitorTitle, row.PublicFields = "", nil
		row.OnUnknown, row.IdempotencyArgument = "", ""
		if row.Present {
			err = tx.Setup().PutConnectionTool(ctx, row)
		} else {
			err = tx.Setup().DeleteConnectionTool(ctx, accountID, id, row.Name)
		}
	}
	return err
}

// A Trial is a trial call of a tool.
type Trial struct {
	Tool      string
	Arguments []byte // a JSON object; nil means an empty one
	Confirm   bool   // accept the effects of the call
}

// An Outcome is the outcome of a call.
type Outcome struct {
	CallID   string
	Outcome  string // ok, error, or a class of package remote
	Message  string
	Result   *remote.Result
	Duration time.Duration
}

// Try calls an approved tool once. A failed call is an outcome, not an error.
func (t *Tools) Try(ctx context.Context, accountID, id string, trial Trial) (out Outcome, err error) {
	var c store.Connection
	var rows []store.ConnectionTool
	err = t.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if c, err = tx.Setup().Connection(ctx, accountID, id); err == nil {
			rows, err = tx.Setup().ConnectionTools(ctx, accountID, id)
		}
		return err
	})
	if err != nil {
		return out, err
	}
	at := slices.IndexFunc(rows, func(t store.ConnectionTool) bool { return t.Name == trial.Tool })
	switch {
	case at < 0:
		return out, noTool(trial.Tool)
	case c.Disabled:
		return out, switchedOff()
	case !c.Allows(rows[at]):
		return out, stoa.Errorf(stoa.CodeToolChanged, "The tool is %s, and only an approved tool can be called. Review it first.", rows[at].State).At("name")
	case rows[at].Effects != "read" && !trial.Confirm:
		return out, stoa.Errorf(stoa.CodeConfirmationRequired, "The tool has effects (%s). Send confirm: true to execute the call.", rows[at].Effects).At("confirm")
	}
	done, err := t.admit(c)
	if err != nil {
		return out, err
	}
	defer done()
	server, err := t.server(ctx, c, nil)
	if err != nil {
		return out, err
	}
	row, err := t.beginTrial(ctx, c, rows[at], trial)
	if err != nil {
		return out, err
	}
	out.CallID = row.ID
	began := time.Now()
	calling, cancel := context.WithTimeout(ctx, time.Duration(c.Limits.TimeoutSeconds)*time.Second)
	defer cancel()
	out.Result, err = server.Call(calling, remote.Call{ID: out.CallID, Tool: trial.Tool, Definition: rows[at].ApprovedDefinition, Arguments: []byte(row.Arguments), MaxResult: c.Limits.MaxResultBytes})
	out.Duration = time.Since(began)
	switch failed := failureOf(err); {
	case failed != nil:
		out.Outcome, out.Message = string(failed.class), failed.answer.Message
	case err != nil: // no kind of server returns this
		out.Outcome, out.Message = string(remote.Unknown), "The call failed."
	case out.Result.IsError:
		out.Outcome = "error"
	default:
		out.Outcome = "ok"
	}
	t.doubt(ctx, c, "", err)
	if err := t.endTrial(ctx, row, out); err != nil { // only logged, because the outcome was received
		t.Logger.WarnContext(ctx, "a call could not be recorded", "account", accountID, "call", out.CallID, "error", err)
	}
	t.Logger.InfoContext(ctx, "a tool was called for a trial", "account", accountID, "connection", id, "tool", trial.Tool, "call", out.CallID, "outcome", out.Outcome, "era", Era(c.Protocol), "duration", out.Duration, "error", err)
	return out, nil
}

// trialLost is the age after which the process of an unfinished trial call is considered
// lost; no call takes half as long.
const trialLost = 15 * time.Minute

// beginTrial records a call without a session before it is sent, because this process may die
// during the call.
func (t *Tools) beginTrial(ctx context.Context, c store.Connection, row store.ConnectionTool, trial Trial) (call stoa.ExternalCall, err error) {
	err = t.Store.Write(ctx, func(tx *store.Tx) error {
		call = stoa.ExternalCall{
			ID: stoa.NewID("cal"), AccountID: c.AccountID, Step: tx.Now.UnixMicro(), Place: int(rand.Int32()), // because without a session nothing else is unique
			Type: stoa.ToolConnection, Tool: row.ModelName, Title: remote.Parse(row.ApprovedDefinition).Title, ConnectionID: c.ID, DefinitionSHA256: row.ApprovedSHA256,
			Arguments: cmp.Or(string(trial.Arguments), "{}"), IdempotencyArgument: row.IdempotencyArgument, OnUnknown: row.OnUnknown, Effects: stoa.Effects(row.Effects), Status: stoa.CallClaimed, Attempts: 1, CreatedAt: tx.Now, StartedAt: tx.Now,
			TimeoutSeconds: c.Limits.TimeoutSeconds, SecretID: secretOf(c, nil),
		}
		call.Title = cut(call.Title, 200)
		if call.IdempotencyArgument != "" {
			call.Arguments = jsonx.WithMember(call.Arguments, call.IdempotencyArgument, call.ID)
		}
		if err := tx.Work().EndLostTrials(ctx, c.AccountID, tx.Now.Add(-trialLost)); err != nil {
			return err
		}
		if err := tx.Work().InsertToolCall(ctx, call); err != nil {
			return err
		}
		return tx.Work().UpdateToolCall(ctx, call)
	})
	return call, err
}

// endTrial records the outcome, even if the caller has disconnected.
func (t *Tools) endTrial(ctx context.Context, call stoa.ExternalCall, out Outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	call.Status, call.Outcome = stoa.CallDone, stoa.OutcomeError
	switch out.Outcome {
	case "ok":
		call.Outcome = stoa.OutcomeOK
	case string(remote.Unknown):
		call.Outcome = stoa.OutcomeUnknown
	}
	call.Result = out.Message
	if out.Result != nil {
		call.Result = strings.ReplaceAll(strings.ToValidUTF8(out.Result.Text, "\ufffd"), "\x00", "\ufffd")
	}
	return t.Store.Write(ctx, func(tx *store.Tx) error {
		call.FinishedAt = tx.Now
		return tx.Work().UpdateToolCall(ctx, call)
	})
}
