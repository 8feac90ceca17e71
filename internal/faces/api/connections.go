package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/remote"
	"stoa/internal/agents/tool"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Agents) createConnection(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.CreateConnection]) (rest.Reply[contract.Connection], error) {
	b := in.Body
	c := store.Connection{
		AccountID: in.Caller.Account.ID, SpaceID: orZero(b.SpaceID), Kind: b.Kind, Name: b.Name, URL: b.URL,
		Headers: orZero(b.Headers), Metadata: orZero(b.Metadata), Limits: store.DefaultConnectionLimits, OnChange: orZero(b.OnChange),
		PerSession: orZero(b.CredentialsPerSession), Sessions: orZero(b.Sessions),
	}
	setLimits(&c, b.Limits)
	if err := setFilter(&c, b.Filter); err != nil {
		return rest.Reply[contract.Connection]{}, err
	}
	source, err := newSource(&c, connectionSource{b.Operations, b.DocumentURL, b.Document}, true)
	if err != nil {
		return rest.Reply[contract.Connection]{}, err
	}
	if c.SpaceID == "" {
		space, err := tx.Setup().DefaultSpace(ctx, c.AccountID)
		if err != nil {
			return rest.Reply[contract.Connection]{}, err
		}
		c.SpaceID = space.ID
	}
	if err := setAuth(&c, b.Auth); err != nil {
		return rest.Reply[contract.Connection]{}, err
	}
	if err := checkConnection(ctx, tx, c); err != nil {
		return rest.Reply[contract.Connection]{}, err
	}
	made, err := tx.Setup().InsertConnection(ctx, c)
	if err == nil && source != nil {
		made, err = keepSource(ctx, tx, made, *source)
	}
	if err != nil {
		return rest.Reply[contract.Connection]{}, err
	}
	shown, err := showConnection(ctx, tx, c.AccountID, made.ID)
	return rest.Reply[contract.Connection]{
		Status: http.StatusCreated, Location: rest.Prefix + "/connections/" + made.ID, ETag: revisionETag(shown.revision), Body: shown.Connection,
	}, err
}

func setAuth(c *store.Connection, auth contract.ConnectionAuth) error {
	id := orZero(auth.SecretID)
	switch {
	case auth.Type == "secret" && id == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "Select a secret: auth.secretId.").At("auth.secretId")
	case auth.Type != "secret" && id != "":
		return stoa.Errorf(stoa.CodeInvalidValue, "A secret is only allowed with the type secret.").At("auth.secretId")
	}
	c.SecretID, c.OAuth, c.ClientSecretID = id, nil, ""
	grant, client, secret := orZero(auth.Grant), orZero(auth.ClientID), orZero(auth.ClientSecretID)
	if auth.Type != "oauth" {
		if grant != "" || client != "" || secret != "" || len(orZero(auth.Scopes)) > 0 {
			return stoa.Errorf(stoa.CodeInvalidValue, "grant, scopes, clientId and clientSecretId are only allowed with the type oauth.").At("auth.type")
		}
		return nil
	}
	for i, scope := range orZero(auth.Scopes) {
		if strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return stoa.Errorf(stoa.CodeInvalidValue, "A scope must consist of printable ASCII characters without spaces, quotes and backslashes.").At(fmt.Sprintf("auth.scopes[%d]", i))
		}
	}
	switch {
	case secret != "" && client == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "The secret belongs to a client: set auth.clientId.").At("auth.clientId")
	case grant == store.GrantClient && (client == "" || secret == ""):
		return stoa.Errorf(stoa.CodeMissingParameter, "The grant client_credentials requires a client with a secret: auth.clientId and auth.clientSecretId.").At("auth.clientSecretId")
	}
	c.OAuth, c.ClientSecretID = &store.OAuth{Grant: cmp.Or(grant, store.GrantCode), Scopes: orZero(auth.Scopes), ClientID: client}, secret
	return nil
}

func checkClientSecret(ctx context.Context, tx *store.Tx, c store.Connection) error {
	if c.ClientSecretID == "" {
		return nil
	}
	secret, err := tx.Setup().SecretForShare(ctx, c.AccountID, c.ClientSecretID)
	const at = "auth.clientSecretId"
	switch {
	case stoa.CodeOf(err) == stoa.CodeSecretNotFound:
		return stoa.AsError(err).At(at)
	case err != nil:
		return err
	case secret.Kind != store.SecretToken:
		return stoa.Errorf(stoa.CodeInvalidValue, "The secret of a client must be of the kind token.").At(at)
	case secret.ExternalUserID != "" || secret.SpaceID != "" && secret.SpaceID != c.SpaceID:
		return stoa.Errorf(stoa.CodeSecretOrigin, "The secret belongs to another space, or to the sessions of one external user.").At(at)
	}
	return nil
}

// checkConnection rejects a connection whose requests could not be sent, or would send a secret to a foreign origin.
func checkConnection(ctx context.Context, tx *store.Tx, c store.Connection) error {
	origin := tool.Origin(c.URL, false)
	switch {
	case c.URL == "" && c.Kind == store.KindOpenAPI: // because the document contains it
	case c.URL == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "Send the address of the server, such as https://mcp.example.com/mcp.").At("url")
	case origin == "":
		return stoa.Errorf(stoa.CodeInvalidValue, "The address must have the form https://mcp.example.com/mcp, without a user and without a fragment.").At("url")
	}
	if c.DocumentURL != "" && tool.Origin(c.DocumentURL, false) == "" {
		return stoa.Errorf(stoa.CodeInvalidValue, "The address must have the form https://api.example.com/openapi.json, without a user and without a fragment.").At("documentUrl")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		if strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "User-Agent") {
			return stoa.Errorf(stoa.CodeInvalidHeader, "The service sets the header %q. Use a secret for the value of Authorization.", name).At("headers")
		}
		if err := checkHeaderName(name, "headers"); err != nil {
			return err
		}
		if !remote.HeaderValue(c.Headers[name]) {
			return stoa.Errorf(stoa.CodeInvalidHeader, "The value of the header %q must be printable ASCII without a space at either end.", name).At("headers")
		}
	}
	if err := checkMetadata(c.Metadata); err != nil {
		return err
	}
	if err := checkClientSecret(ctx, tx, c); err != nil || c.SecretID == "" {
		return err
	}
	secret, err := tx.Setup().SecretForShare(ctx, c.AccountID, c.SecretID)
	switch {
	case err != nil:
	case secret.Kind == store.SecretToken:
		err = stoa.Errorf(stoa.CodeInvalidValue, "A secret of the kind token is not sent with requests. Store one of another kind.").At("auth.secretId")
	case secret.ExternalUserID != "":
		err = stoa.Errorf(stoa.CodeSecretOrigin, "The secret belongs to the sessions of one external user. Use it in their credentials.").At("auth.secretId")
	case secret.SpaceID != "" && secret.SpaceID != c.SpaceID:
		err = stoa.Errorf(stoa.CodeSecretOrigin, "The secret belongs to connections of another space.").At("auth.secretId")
	case c.URL != "" && secret.Origin != origin:
		err = stoa.Errorf(stoa.CodeSecretOrigin, "The secret is for %s, but the address belongs to %s. Store another secret for it.", secret.Origin, origin).At("auth.secretId")
	}
	return err
}

// checkHeaderName rejects invalid names, and headers that the connection or the protocol sets.
func checkHeaderName(name, param string) error {
	if !remote.HeaderName(name) {
		return stoa.Errorf(stoa.CodeInvalidHeader, "%q is not the name of a header that can be set.", name).At(param)
	}
	return nil
}

func (s *Agents) listConnections(ctx context.Context, in rest.Request[contract.ListConnectionsParams, rest.None]) (rest.Reply[rest.Page[contract.Connection]], error) {
	accountID, q := in.Caller.Account.ID, in.Params
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "connections", accountID, q.SpaceID, q.Q)
	n := namesOf(accountID)
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]store.Connection, store.Cursor, error) {
		list, next, err := tx.Setup().Connections(ctx, accountID, q.SpaceID, q.Q, p.Page)
		for _, c := range list {
			n.add(store.NamedSpaces, c.SpaceID)
		}
		return list, next, n.read(ctx, tx, err)
	}, func(c store.Connection) contract.Connection {
		out := contractConnection(c)
		out.SpaceName = n.of(store.NamedSpaces, c.SpaceID)
		return out
	})
}

func (s *Agents) getConnection(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.GetConnectionParams], rest.None]) (rest.Reply[contract.Connection], error) {
	out, err := showConnection(ctx, tx, in.Caller.Account.ID, in.Params.ID)
	return unlessCurrent(in.Params.Query.IfNoneMatch, revisionTag(out.revision), out.Connection), err
}

func (s *Agents) updateConnection(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.UpdateConnectionParams], contract.UpdateConnection]) (rest.Reply[contract.Connection], error) {
	accountID, b := in.Caller.Account.ID, in.Body
	_, err := tx.Setup().EditConnection(ctx, accountID, in.Params.ID, func(c *store.Connection) error {
		if err := ifCurrent(in.Params.Query.IfMatch, c.Revision); err != nil {
			return err
		}
		return editConnection(ctx, tx, c, b)
	})
	if err != nil {
		return rest.Reply[contract.Connection]{}, err
	}
	out, err := showConnection(ctx, tx, accountID, in.Params.ID)
	return rest.Reply[contract.Connection]{ETag: revisionETag(out.revision), Body: out.Connection}, err
}

func editConnection(ctx context.Context, tx *store.Tx, c *store.Connection, b contract.UpdateConnection) error {
	was := *c
	if b.URL != "" {
		c.URL = b.URL
	}
	if b.Auth.Type != "" {
		if err := setAuth(c, b.Auth); err != nil {
			return err
		}
	}
	patch(&c.Headers, b.Headers, same)
	if b.OnChange.IsSpecified() {
		c.OnChange = orElse(orZero(b.OnChange), store.OnChangeBlock)
	}
	if b.CredentialsPerSession.IsSpecified() {
		c.PerSession = orElse(orZero(b.CredentialsPerSession), store.PerSessionOff)
	}
	if b.Sessions.IsSpecified() {
		c.Sessions = orElse(orZero(b.Sessions), store.SessionsTurn)
	}
	if err := setFilter(c, b.Filter); err != nil {
		return err
	}
	if b.Enabled.IsSpecified() {
		c.Disabled = !valueOr(b.Enabled, true)
	}
	setLimits(c, b.Limits)
	if err := mergeMetadata(&c.Metadata, b.Metadata); err != nil {
		return err
	}
	source, err := newSource(c, connectionSource{b.Operations, b.DocumentURL, b.Document}, false)
	if err != nil {
		return err
	}
	if err := checkConnection(ctx, tx, *c); err != nil {
		return err
	}
	if !tool.SameTarget(*c, was) {
		if err := tx.Setup().ForgetTokens(ctx, c.AccountID, c.ID); err != nil {
			return err
		}
	}
	if !tool.SameTarget(*c, was) || c.SecretID != was.SecretID {
		c.CheckedAt, c.Protocol, c.ServerName, c.ServerVersion, c.Instructions, c.ErrorCode, c.ErrorMessage = time.Time{}, "", "", "", "", "", ""
		if err := tool.Forget(ctx, tx, c.AccountID, c.ID); err != nil {
			return err
		}
		if c.Kind == store.KindHTTP { // because tools of the kind http are not requested from a server
			c.CheckedAt = tx.Now
		}
	}
	switch {
	case source == nil:
		return nil
	case c.Kind == store.KindHTTP:
		return tool.Describe(ctx, tx, c, *source)
	}
	return tx.Setup().SetConnectionSource(ctx, c.AccountID, c.ID, *source)
}

func (s *Agents) deleteConnection(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.DeleteConnectionParams], rest.None]) (rest.Reply[rest.None], error) {
	accountID, id := in.Caller.Account.ID, in.Params.ID
	c, err := tx.Setup().Connection(ctx, accountID, id)
	if err == nil {
		err = ifCurrent(in.Params.Query.IfMatch, c.Revision)
	}
	if err == nil && !in.Params.Query.Force {
		err = checkUnused(ctx, tx, c)
	}
	if err == nil {
		err = tx.Setup().DeleteConnection(ctx, accountID, id)
	}
	return rest.NoContent(), err
}

const namedAgents = 5

func checkUnused(ctx context.Context, tx *store.Tx, c store.Connection) error {
	names, err := tx.Setup().AgentsUsing(ctx, c, namedAgents+1)
	if err != nil || len(names) == 0 {
		return err
	}
	more := ""
	if len(names) > namedAgents {
		names, more = names[:namedAgents], " and others"
	}
	for i, name := range names {
		names[i] = strconv.Quote(remote.Cut(remote.Visible(name), 64))
	}
	return stoa.Errorf(stoa.CodeConnectionInUse, "Agents use tools of the connection: %s%s. Remove the tools from them, or delete it with force=true, which withholds them.", strings.Join(names, ", "), more)
}

func (s *Agents) refreshConnection(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[contract.RefreshedConnection], error) {
	d, err := s.Tools.Refresh(ctx, in.Caller.Account.ID, in.Params.ID)
	if err != nil {
		return rest.Reply[contract.RefreshedConnection]{}, err
	}
	list := func(names []string) []string { return append([]string{}, names...) }
	return rest.Reply[contract.RefreshedConnection]{Body: contract.RefreshedConnection{
		Added: list(d.Added), Changed: list(d.Changed), Missing: list(d.Missing), Unchanged: int64(d.Unchanged), Connection: contractConnection(d.Connection),
	}}, nil
}

func (s *Agents) listConnectionTools(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.ConnectionToolList], error) {
	list, err := catalogOf(ctx, tx, in.Caller.Account.ID, in.Params.ID)
	return rest.Reply[contract.ConnectionToolList]{Body: list}, err
}

func catalogOf(ctx context.Context, tx *store.Tx, accountID, id string) (contract.ConnectionToolList, error) {
	list := contract.ConnectionToolList{Data: []contract.ConnectionTool{}}
	c, err := tx.Setup().Connection(ctx, accountID, id)
	if err != nil {
		return list, err
	}
	rows, err := tx.Setup().ConnectionTools(ctx, accountID, id)
	for _, row := range rows {
		list.Data = append(list.Data, contractCatalogTool(c, row))
	}
	return list, err
}

func (s *Agents) reviewConnectionTools(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.ReviewConnectionTools]) (rest.Reply[contract.ConnectionToolList], error) {
	var decisions []tool.Decision
	for i, t := range in.Body.Tools {
		d := tool.Decision{Name: t.Name, SHA256: t.Sha256, Approve: t.Decision == "approve", Approval: orZero(t.Approval), Effects: orZero(t.Effects), Visitors: orZero(t.Visitors), VisitorTitle: orZero(t.VisitorTitle), PublicFields: orZero(t.PublicFields)}
		d.OnUnknown, d.IdempotencyArgument = orZero(t.OnUnknown), orZero(t.IdempotencyArgument)
		policy := orZero(t.Policy) != ""
		switch {
		case d.Approve && !policy && (d.Approval == "" || d.Effects == ""):
			return rest.Reply[contract.ConnectionToolList]{}, stoa.Errorf(stoa.CodeMissingParameter, "An approved tool requires approval and effects, or policy: by_annotations.").At(fmt.Sprintf("tools[%d].approval", i))
		case policy && (d.Approval != "" || d.Effects != ""):
			return rest.Reply[contract.ConnectionToolList]{}, stoa.Errorf(stoa.CodeInvalidValue, "Send policy instead of approval and effects, not both.").At(fmt.Sprintf("tools[%d].policy", i))
		}
		decisions = append(decisions, d)
	}
	if err := tool.Review(ctx, tx, in.Caller.Account.ID, in.Params.ID, decisions); err != nil {
		return rest.Reply[contract.ConnectionToolList]{}, err
	}
	list, err := catalogOf(ctx, tx, in.Caller.Account.ID, in.Params.ID)
	return rest.Reply[contract.ConnectionToolList]{Body: list}, err
}

// A trial is the body of a test call. Its arguments are raw, so that they are forwarded unchanged.
type trial struct {
	Name      string                  `json:"name"`
	Arguments jsonx.Value             `json:"arguments"`
	Confirm   nullable.Nullable[bool] `json:"confirm"`
}

func (s *Agents) testConnectionTool(ctx context.Context, in rest.Request[byID, trial]) (rest.Reply[contract.ConnectionToolTest], error) {
	t := tool.Trial{Tool: in.Body.Name, Confirm: orZero(in.Body.Confirm)}
	if a := in.Body.Arguments; len(a) > 0 && string(a) != "null" {
		t.Arguments = a
	}
	out, err := s.Tools.Try(ctx, in.Caller.Account.ID, in.Params.ID, t)
	if err != nil {
		return rest.Reply[contract.ConnectionToolTest]{}, err
	}
	body := contract.ConnectionToolTest{
		CallID: out.CallID, Outcome: out.Outcome, Message: nullIfZero(out.Message), Text: nullable.NewNullNullable[string](), DurationMilliseconds: out.Duration.Milliseconds(),
	}
	if r := out.Result; r != nil {
		body.Text, body.IsError, body.Bytes = nullable.NewNullableWithValue(strings.ToValidUTF8(r.Text, "\ufffd")), r.IsError, int64(r.Bytes)
	}
	return rest.Reply[contract.ConnectionToolTest]{Body: body}, nil
}

func contractConnection(c store.Connection) contract.Connection {
	out := contract.Connection{
		ID: c.ID, SpaceID: c.SpaceID, Kind: c.Kind, Name: c.Name, URL: c.URL, Auth: contract.ConnectionAuth{Type: "none", SecretID: nullIfZero(c.SecretID)},
		DocumentURL: nullIfZero(c.DocumentURL), Operations: nullable.NewNullNullable[[]contract.ConnectionOperation](), OnChange: c.OnChange, CredentialsPerSession: c.PerSession, Sessions: c.Sessions, Filter: nullable.NewNullNullable[contract.ConnectionFilter](),
		Limits: contract.ConnectionLimits{
			TimeoutSeconds: c.Limits.TimeoutSeconds, MaxResultBytes: c.Limits.MaxResultBytes, MaxConcurrent: c.Limits.MaxConcurrent, CallsPerMinute: c.Limits.CallsPerMinute,
		},
		Headers: c.Headers, Enabled: !c.Disabled, Status: connectionStatus(c), Instructions: nullIfZero(c.Instructions), LastCheckedAt: nullIfNever(c.CheckedAt),
		Protocol:          nullUnless(c.Protocol != "", contract.ConnectionProtocol{Era: tool.Era(c.Protocol), Version: c.Protocol, ServerName: c.ServerName, ServerVersion: c.ServerVersion}),
		LastError:         nullUnless(c.ErrorCode != "", contract.ConnectionError{Code: c.ErrorCode, Message: c.ErrorMessage}),
		LastAuthorization: nullable.NewNullNullable[contract.ConnectionAuthorization](),
		Metadata:          contractMetadata(c.Metadata), CreatedAt: contract.Time(c.CreatedAt), UpdatedAt: contract.Time(c.UpdatedAt),
	}
	if f := c.Filter; f != nil {
		out.Filter = nullable.NewNullableWithValue(contract.ConnectionFilter{Tags: f.Tags, Paths: f.Paths, Search: f.Search})
	}
	switch {
	case c.SecretID != "":
		out.Auth.Type = "secret"
	case c.OAuth != nil:
		out.Auth = contract.ConnectionAuth{
			Type: "oauth", Grant: nullIfZero(c.OAuth.Grant), Scopes: nullIfEmpty(c.OAuth.Scopes),
			ClientID: nullIfZero(c.OAuth.ClientID), ClientSecretID: nullIfZero(c.ClientSecretID),
		}
	}
	if out.Headers == nil {
		out.Headers = map[string]string{}
	}
	n := func(state store.ToolState) int64 { return int64(c.Tools[state]) }
	out.ToolCounts = contract.ConnectionToolCounts{
		Approved: n(store.ToolApproved), New: n(store.ToolNew), Changed: n(store.ToolChanged), Missing: n(store.ToolMissing),
		Rejected: n(store.ToolRejected), Invalid: n(store.ToolInvalid),
	}
	if a := c.Authorization; a != nil {
		out.LastAuthorization = nullable.NewNullableWithValue(contract.ConnectionAuthorization{
			ID: a.ID, Status: a.Status, Message: nullIfZero(a.Message), StartedAt: contract.Time(a.StartedAt), EndedAt: nullIfNever(a.EndedAt),
		})
	}
	return out
}

func connectionStatus(c store.Connection) string {
	switch {
	case c.Disabled:
		return "disabled"
	case c.OAuth != nil && c.OAuth.Grant == store.GrantCode && !c.Authorized:
		return "needs_authorization"
	case c.CheckedAt.IsZero():
		return "unchecked"
	case c.ErrorCode == tool.NeedsAuthorization:
		return "needs_authorization"
	case c.ErrorCode != "":
		return "unreachable"
	case c.Tools[store.ToolNew]+c.Tools[store.ToolChanged]+c.Tools[store.ToolMissing] > 0:
		return "review_needed"
	}
	return "ready"
}

func contractCatalogTool(c store.Connection, row store.ConnectionTool) contract.ConnectionTool {
	d := remote.Parse(row.Definition)
	approval, effects := remote.Suggested(d)
	out := contract.ConnectionTool{
		Name: row.Name, ModelName: row.ModelName, Title: remote.Visible(d.Title), Description: remote.Visible(d.Description),
		InputSchema: visible(d.InputSchema), OutputSchema: orNull(visible(d.OutputSchema)), Annotations: orNull(visible(d.Annotations)), Request: orNull(visible(d.Request)),
		Visitors: orElse(row.Visitors, store.VisitorsNo), VisitorTitle: row.VisitorTitle, PublicFields: row.PublicFields, TimeoutSeconds: c.Limits.TimeoutSeconds, DefinitionTokens: tool.DefinitionTokens(row),
		Sha256: row.SHA256, State: string(row.State), ApprovedSha256: nullIfZero(row.ApprovedSHA256), Approval: nullIfZero(row.Approval), Effects: nullIfZero(row.Effects),
		OnUnknown: nullUnless(row.ApprovedSHA256 != "", cmp.Or(row.OnUnknown, stoa.UnknownTells)), IdempotencyArgument: nullIfZero(row.IdempotencyArgument),
		Suggested: contract.ConnectionToolPolicy{Approval: approval, Effects: effects}, Warnings: remote.Warnings(d),
		Previous: nullable.NewNullNullable[contract.ConnectionToolPrevious](),
	}
	if row.Problem != "" {
		out.Warnings = append(out.Warnings, row.Problem)
	}
	if out.InputSchema == nil {
		out.InputSchema = map[string]any{}
	}
	if row.ApprovedDefinition != "" && row.ApprovedSHA256 != row.SHA256 {
		was := remote.Parse(row.ApprovedDefinition)
		out.Previous = nullable.NewNullableWithValue(contract.ConnectionToolPrevious{
			Title: remote.Visible(was.Title), Description: remote.Visible(was.Description), InputSchema: visible(was.InputSchema), Request: orNull(visible(was.Request)),
		})
	}
	return out
}

// visible escapes invisible characters in the texts of a server's value, because people review them.
func visible(members map[string]any) map[string]any {
	if members == nil {
		return nil
	}
	return showAll(members).(map[string]any)
}

func showAll(v any) any {
	switch v := v.(type) {
	case string:
		return remote.Visible(v)
	case []any:
		out := make([]any, len(v))
		for i, member := range v {
			out[i] = showAll(member)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			out[remote.Visible(name)] = showAll(member)
		}
		return out
	}
	return v
}

func orNull(members map[string]any) nullable.Nullable[map[string]any] {
	return nullUnless(members != nil, members)
}

func (s *Agents) authorizeConnection(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[contract.AuthorizationStart], error) {
	a, err := s.Tools.Authorize(ctx, in.Caller.Account.ID, in.Params.ID)
	return rest.Reply[contract.AuthorizationStart]{Body: contract.AuthorizationStart{ID: a.ID, AuthorizeURL: a.URL, Issuer: a.Issuer, SignInOrigin: a.SignIn, TokenOrigin: a.TokenFrom, ExpiresAt: contract.Time(a.ExpiresAt)}}, err
}

func (s *Agents) deauthorizeConnection(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[contract.Connection], error) {
	if _, err := s.Tools.Deauthorize(ctx, in.Caller.Account.ID, in.Params.ID); err != nil {
		return rest.Reply[contract.Connection]{}, err
	}
	out, err := store.Read(ctx, s.Store, func(tx *store.Tx) (shownConnection, error) {
		return showConnection(ctx, tx, in.Caller.Account.ID, in.Params.ID)
	})
	return rest.Reply[contract.Connection]{ETag: revisionETag(out.revision), Body: out.Connection}, err
}
