package tool

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"stoa/internal/agents/oauth"
	"stoa/internal/agents/remote"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Times of refreshes.
const (
	refreshEarly = 60 * time.Second       // time before the access token expires
	refreshLease = 60 * time.Second       // longer than a refresh, because a refresh token may be used once only
	refreshTime  = 45 * time.Second       // timeout of a refresh
	refreshPoll  = 200 * time.Millisecond // polling interval while another node refreshes
	idleTime     = 7 * 24 * time.Hour     // age after which unused tokens are refreshed, so that they do not expire
	idlePause    = time.Hour              // interval between searches for such tokens
	idleBatch    = 50                     // tokens per search
	maxRefusals  = 10                     // refusals without a reason after which the tokens are lost, since a proxy may have sent one
	refusalEvery = time.Minute            // counts at most one refusal per interval
)

// token returns the access token of a connection, refreshed if necessary. A token that its
// server has refused is not returned again.
func (t *Tools) token(ctx context.Context, c store.Connection, refused string) (remote.Credential, error) {
	type result struct {
		access string
		err    error
	}
	// The first caller refreshes for all, because a refresh token may be used once only, and
	// continues if its own request ends.
	ch := t.refreshes.DoChan(c.ID+" "+refused, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshLease+refreshTime)
		defer cancel()
		access, err := t.access(ctx, c, refused, false)
		return result{access, err}, nil
	})
	select {
	case <-ctx.Done():
		return remote.Credential{}, withheld("The time was over before the connection's token was refreshed.", ctx.Err())
	case r := <-ch:
		got := r.Val.(result)
		if got.err != nil {
			return remote.Credential{}, got.err
		}
		return remote.Credential{Header: "Authorization", Value: "Bearer " + got.access}, nil
	}
}

// access returns an access token that stays valid for a while and is not the refused one.
// idle forces a refresh.
func (t *Tools) access(ctx context.Context, c store.Connection, refused string, idle bool) (string, error) {
	for {
		row, err := store.Read(ctx, t.Store, func(tx *store.Tx) (*store.Tokens, error) { return tx.Setup().Tokens(ctx, c.AccountID, c.ID) })
		if err != nil {
			return "", err
		}
		if row == nil && c.OAuth.Grant == store.GrantClient {
			return t.first(ctx, c)
		}
		if row == nil {
			return "", withheld("The connection is not authorized. Authorize it.", nil)
		}
		var h holding
		if err := t.openJSON(tokensRef(*row), row.Sealed, &h); err != nil {
			t.unread(ctx, c, err)
			return "", withheld("The tokens of the connection can no longer be decrypted. Authorize it again.", err)
		}
		if h.Origin != Origin(c.URL, false) || !oauth.Covers(row.Resource, c.URL) { // cannot happen
			return "", withheld("The tokens are for another origin. Authorize the connection again.", nil)
		}
		now := time.Now()
		if refused != "" && h.Access == refused && (row.ExpiresAt.IsZero() || now.Before(row.ExpiresAt)) { // so that no node sends it with a call again
			if err := t.Store.Write(ctx, func(tx *store.Tx) error { return tx.Setup().SpoilTokens(ctx, *row) }); err != nil {
				return "", err
			}
		}
		valid := h.Access != refused && (row.ExpiresAt.IsZero() || now.Before(row.ExpiresAt))
		if valid && !idle && (row.ExpiresAt.IsZero() || now.Add(refreshEarly).Before(row.ExpiresAt)) {
			return h.Access, nil
		}
		if h.Refresh == "" && c.OAuth.Grant != store.GrantClient {
			if valid {
				return h.Access, nil
			}
			return "", t.lose(ctx, c, *row, nil)
		}
		lease := random()
		ours, err := store.Write(ctx, t.Store, func(tx *store.Tx) (bool, error) {
			return tx.Setup().LeaseTokens(ctx, *row, lease, tx.Now.Add(refreshLease))
		})
		if err != nil {
			return "", err
		}
		if ours {
			access, done, err := t.refresh(ctx, c, *row, h, lease, valid)
			if done || err != nil {
				return access, err
			}
			continue // another node has acquired the lease
		}
		timer := time.NewTimer(refreshPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return "", withheld("The refresh of the connection's token takes too long.", ctx.Err())
		case <-timer.C:
		}
		if idle {
			return "", nil // another node does it
		}
	}
}

// refresh gets new tokens under a lease. They are stored before one is used, because the old
// refresh token is no longer valid.
func (t *Tools) refresh(ctx context.Context, c store.Connection, row store.Tokens, h holding, lease string, valid bool) (access string, done bool, err error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {h.Refresh}, "resource": {row.Resource}}
	if c.OAuth.Grant == store.GrantClient {
		form = clientForm(row.Resource, h.Scopes)
	}
	asking, cancel := context.WithTimeout(ctx, refreshTime)
	got, err := t.request(asking, c, h, form)
	cancel()
	if err != nil {
		if e, ok := errors.AsType[*oauth.Error](err); ok && e.Refused() {
			return "", true, t.lose(ctx, c, row, err)
		}
		if e, ok := errors.AsType[*oauth.Error](err); ok && e.Unexplained() && time.Since(row.RefreshedAt) >= refusalEvery {
			if row.Refusals++; row.Refusals >= maxRefusals {
				return "", true, t.lose(ctx, c, row, err)
			}
		}
		t.Logger.WarnContext(ctx, "a connection's token was not refreshed", "account", c.AccountID, "connection", c.ID, "error", err)
		released := t.Store.Write(ctx, func(tx *store.Tx) error { return tx.Setup().ReleaseTokens(ctx, row, lease) })
		if valid && released == nil {
			return h.Access, true, nil
		}
		return "", true, &remote.Error{Class: remote.NotSent, Message: "The connection's token could not be refreshed. " + stoa.AsError(refusedBy(err)).Message, Err: errors.Join(err, released)}
	}
	next := row
	next.Version++
	next.ExpiresAt = expiry(got)
	if h.Access = got.Access; got.Refresh != "" {
		h.Refresh = got.Refresh
	}
	if next.Sealed, err = t.sealJSON(tokensRef(next), h); err != nil {
		return "", true, err
	}
	kept, err := store.Write(ctx, t.Store, func(tx *store.Tx) (bool, error) { return tx.Setup().ReplaceTokens(ctx, next, lease) })
	return h.Access, kept, err
}

func clientForm(resource string, scopes []string) url.Values {
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}}
	for _, s := range scopes {
		if form.Has("scope") {
			s = form.Get("scope") + " " + s
		}
		form.Set("scope", s)
	}
	return form
}

func (t *Tools) first(ctx context.Context, c store.Connection) (string, error) {
	caller := oauth.New(t.Network)
	found, err := caller.Discover(ctx, c.URL, c.Kind == store.KindMCP)
	if err != nil {
		return "", t.unfounded(err)
	}
	h := holding{
		Endpoint: found.Server.Token, Origin: Origin(c.URL, false), ClientSecretID: c.ClientSecretID, Scopes: found.Scopes,
		Client: oauth.ClientID{ID: c.OAuth.ClientID, Method: method(found.Server)},
	}
	h.Scopes = scopesOf(c, h.Scopes)
	got, err := t.request(ctx, c, h, clientForm(found.Resource, h.Scopes))
	if err != nil {
		return "", t.unfounded(err)
	}
	h.Access = got.Access
	row := store.Tokens{AccountID: c.AccountID, ConnectionID: c.ID, Issuer: found.Server.Issuer, Resource: found.Resource, Version: time.Now().UnixMicro(), ExpiresAt: expiry(got)}
	return h.Access, t.keep(ctx, c, row, h, "")
}

// unfounded converts the error for a connection without a token into a server's error.
func (t *Tools) unfounded(err error) error {
	e := &remote.Error{Class: remote.NotSent, Message: stoa.AsError(refusedBy(err)).Message, Err: err}
	if known, ok := errors.AsType[*oauth.Error](err); ok {
		e.Reason, e.Unauthorized = known.Reason, known.Refused()
	}
	return e
}

// lose deletes refused tokens, and reports with the commit that the connection must be authorized
// again.
func (t *Tools) lose(ctx context.Context, c store.Connection, row store.Tokens, cause error) error {
	const message = "The connection's authorization has ended. Authorize it again."
	err := t.Store.Write(ctx, func(tx *store.Tx) error {
		if dropped, err := tx.Setup().DropTokens(ctx, row); err != nil || !dropped {
			return err
		}
		return t.refuse(ctx, tx, c, message)
	})
	if err != nil {
		return err
	}
	t.Logger.WarnContext(ctx, "a connection needs authorization", "account", c.AccountID, "connection", c.ID, "error", cause)
	return withheld(message, cause)
}

// A renewing is a server whose access token may be refused before it expires. A refused
// request is repeated once with another token, because it was not carried out.
type renewing struct {
	remote.Server
	tools      *Tools
	connection store.Connection
	access     string
}

// renewed returns the server with another access token; neither that nor an error if the
// failure has another cause, or there is no other token.
func (r renewing) renewed(ctx context.Context, failure error) (server remote.Server, access string, err error) {
	e, ok := errors.AsType[*remote.Error](failure)
	if !ok || e.Status != 401 || e.Class == remote.Unknown {
		return nil, "", nil
	}
	credential, err := r.tools.token(ctx, r.connection, r.access)
	if err != nil {
		if failed, ok := errors.AsType[*remote.Error](err); ok && !failed.Unauthorized { // because another token may be available later
			return nil, "", err
		}
		return nil, "", nil
	}
	access, _ = strings.CutPrefix(credential.Value, "Bearer ")
	if with, ok := r.Server.(interface {
		With(credential remote.Credential) remote.Server
	}); ok { // so that what is open in the session at the server stays
		return with.With(credential), access, nil
	}
	return r.tools.serverWith(r.connection, credential), access, nil
}

// note records that a server refuses a new token.
func (r renewing) note(ctx context.Context, access string, failure error) {
	e, ok := errors.AsType[*remote.Error](failure)
	if !ok || e.Status != 401 {
		return
	}
	t, c := r.tools, r.connection
	err := t.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		row, err := tx.Setup().Tokens(ctx, c.AccountID, c.ID)
		if err != nil {
			return err
		}
		var h holding
		if row != nil && t.openJSON(tokensRef(*row), row.Sealed, &h) == nil && h.Access == access {
			if err := tx.Setup().SpoilTokens(ctx, *row); err != nil {
				return err
			}
		}
		return t.refuse(ctx, tx, c, "The server refuses a newly issued token. Authorize the connection again.")
	})
	if err != nil {
		t.Logger.ErrorContext(ctx, "that a connection needs authorization could not be stored", "account", c.AccountID, "connection", c.ID, "error", err)
	}
}

// Forbid records that a server refuses the secret of its connection.
func (t *Tools) Forbid(ctx context.Context, to Target) error {
	return t.Store.Write(ctx, func(tx *store.Tx) error {
		return t.refuse(ctx, tx, to.connection, "The server refused the secret when a tool was called. Give the connection a secret that the server accepts.")
	})
}

// refuse records that a connection needs authorization, and reports it once. A connection
// whose address or secret has changed since is left unchanged.
func (t *Tools) refuse(ctx context.Context, tx *store.Tx, c store.Connection, message string) error {
	first, err := tx.Setup().MarkUnauthorized(ctx, c, NeedsAuthorization, message)
	if err != nil || !first {
		return err
	}
	return t.emit(ctx, tx, eventAuthorization, c)
}

// Keep returns the server with a session that lasts until end is called.
func (r renewing) Keep() (server remote.Server, end func()) {
	with, ok := r.Server.(interface {
		Keep() (server remote.Server, end func())
	})
	if !ok {
		return r, func() {}
	}
	r.Server, end = with.Keep()
	return r, end
}

// Catalog requests the catalog.
func (r renewing) Catalog(ctx context.Context) (*remote.Catalog, error) {
	out, err := r.Server.Catalog(ctx)
	again, access, failure := r.renewed(ctx, err)
	if failure != nil {
		return nil, failure
	}
	if again != nil {
		out, err = again.Catalog(ctx)
		r.note(ctx, access, err)
	}
	return out, err
}

// Call calls a tool, and repeats the call only if the server did not process it.
func (r renewing) Call(ctx context.Context, call remote.Call) (*remote.Result, error) {
	out, err := r.Server.Call(ctx, call)
	again, access, failure := r.renewed(ctx, err)
	if failure != nil {
		return nil, failure
	}
	if again != nil {
		out, err = again.Call(ctx, call)
		r.note(ctx, access, err)
	}
	return out, err
}

// KeepTokens refreshes unused tokens until ctx ends, so that they stay valid.
func (t *Tools) KeepTokens(ctx context.Context) error {
	ticker := time.NewTicker(idlePause)
	defer ticker.Stop()
	for {
		t.refreshIdle(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (t *Tools) refreshIdle(ctx context.Context) {
	if err := t.Store.Write(ctx, func(tx *store.Tx) error { return tx.Setup().SweepOAuthStates(ctx) }); err != nil && ctx.Err() == nil {
		t.Logger.WarnContext(ctx, "expired authorizations could not be removed", "error", err)
	}
	rows, err := store.Read(ctx, t.Store, func(tx *store.Tx) ([]store.Tokens, error) {
		return tx.Setup().IdleTokens(ctx, time.Now().Add(-idleTime), idleBatch)
	})
	for _, row := range rows {
		if ctx.Err() != nil {
			return
		}
		var c store.Connection
		if c, err = t.connection(ctx, row.AccountID, row.ConnectionID); err == nil && c.OAuth != nil {
			_, err = t.access(ctx, c, "", true)
		}
		if err != nil && ctx.Err() == nil {
			t.Logger.WarnContext(ctx, "a connection's token was not refreshed", "account", row.AccountID, "connection", row.ConnectionID, "error", err)
		}
	}
	if err != nil && len(rows) == 0 && ctx.Err() == nil {
		t.Logger.WarnContext(ctx, "idle tokens could not be listed", "error", err)
	}
}
