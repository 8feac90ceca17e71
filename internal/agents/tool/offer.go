package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"stoa/internal/agents/remote"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/models/schema"
)

// Limits of the tools of an agent, of programs and connections together.
const (
	MaxOffered        = 64
	MaxTokens         = 16_000    // estimated tokens of all tool definitions, because each step pays for them
	MaxSearched       = 1_000     // instead of MaxOffered, of an agent that searches its tools
	mostSearched      = 2_000_000 // instead of MaxTokens
	SearchAbove       = 30        // tools; with more, an agent that may search its tools does
	SearchAboveTokens = 8_000     // or with definitions of more tokens
	shownText         = 2_000     // characters of a tool's description for a model
	shownTitle        = 200
	shownRemarks      = 1_000 // characters of a description inside a schema
)

// An Audience describes the session for which a turn offers tools.
type Audience struct {
	AccountID, SpaceID string
	Once               bool // the session cannot wait for anything
	Visitor            bool
	Unattended         bool        // no visitor can confirm a call
	Search             bool        // the agent searches its tools
	Own                Credentials // never nil for a session that has begun
}

// An entry is an allowed tool of a connection, with its catalog row.
type entry struct {
	tool       *store.ConnectionTool // nil if the catalog lacks it
	name       string                // name at the server
	modelName  string
	connection *store.Connection // nil if the space lacks it
	stricter   stoa.Stricter
}

// entries returns the allowed tools of one connection, in the order of the agent's list.
func entries(ctx context.Context, tx *store.Tx, who Audience, t stoa.AgentTool) ([]entry, error) {
	c, err := tx.Setup().LocateConnection(ctx, who.AccountID, t.ConnectionID)
	if err != nil {
		return nil, err
	}
	if c != nil && c.SpaceID != who.SpaceID {
		c = nil
	}
	var rows []store.ConnectionTool
	prefix := ""
	if c != nil {
		prefix = c.Name
		if rows, err = tx.Setup().NamedTools(ctx, who.AccountID, c.ID, t.Allow); err != nil {
			return nil, err
		}
	}
	all := make([]entry, 0, len(t.Allow))
	for _, name := range t.Allow {
		e := entry{name: name, modelName: remote.ModelName(prefix, name, func(string) bool { return false }), connection: c}
		if at := slices.IndexFunc(rows, func(r store.ConnectionTool) bool { return r.Name == name }); at >= 0 {
			e.tool, e.modelName = &rows[at], rows[at].ModelName
		}
		if at := slices.IndexFunc(t.Stricter, func(s stoa.Stricter) bool { return s.Name == name }); at >= 0 {
			e.stricter = t.Stricter[at]
		}
		all = append(all, e)
	}
	return all, nil
}

// definition returns the approved definition of the tool for a model, and its title for
// people: without invisible characters, and with bounded texts.
func (e entry) definition(definition string) (title, description, parameters string, err error) {
	key := definitionKey{definition, e.tool.IdempotencyArgument}
	shown, ok := known.get(key)
	if !ok {
		d := remote.Parse(definition)
		tidy(d.InputSchema)
		leaveOut(d.InputSchema, key.argument)
		text, err := json.Marshal(d.InputSchema)
		if err != nil {
			return "", "", "", err
		}
		shown = shownDefinition{title: remote.Strip(d.Title, shownTitle), description: remote.Strip(cmp.Or(d.Description, d.Title, d.Name), shownText), parameters: string(text)}
		known.put(key, shown)
	}
	return shown.title, shown.description, shown.parameters, nil
}

// unsupported returns why a definition cannot be offered to a model; nil if it can.
func (e entry) unsupported(definition string) error {
	key := definitionKey{definition, e.tool.IdempotencyArgument}
	shown, ok := known.get(key)
	if !ok || !shown.checked {
		var err error
		if shown.title, shown.description, shown.parameters, err = e.definition(definition); err != nil {
			return err
		}
		_, shown.problem = schema.ReadParameters(shown.parameters)
		shown.checked = true
		known.put(key, shown)
	}
	return shown.problem
}

type definitionKey struct{ definition, argument string }

type shownDefinition struct {
	title, description, parameters string

	checked bool
	problem error // why the parameters are not supported, once they are checked
}

// known contains definitions as they are shown, because the turns of an agent with hundreds of tools would spend most of their time in
// reading the same ones, and agents and sessions are created in transactions that write.
var known definitions

const maxKnown = 32 << 20 // bytes

type definitions struct {
	mu   sync.Mutex
	size int
	all  map[definitionKey]shownDefinition
}

func (d *definitions) get(key definitionKey) (shown shownDefinition, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	shown, ok = d.all[key]
	return shown, ok
}

func (d *definitions) put(key definitionKey, shown shownDefinition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil || d.size > maxKnown {
		d.size, d.all = 0, map[definitionKey]shownDefinition{}
	}
	if _, ok := d.all[key]; !ok {
		d.size += len(key.definition) + len(shown.description) + len(shown.parameters)
	}
	d.all[key] = shown
}

// tidy cleans up the texts of a schema that are meant for readers.
func tidy(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if text, ok := member.(string); ok && (name == "description" || name == "title" || name == "$comment") {
				v[name] = remote.Strip(text, shownRemarks)
				continue
			}
			tidy(member)
		}
	case []any:
		for _, member := range v {
			tidy(member)
		}
	}
}

// A policy contains the effective settings of a tool for an agent: the stricter ones.
type policy struct {
	approval  string
	effects   stoa.Effects
	onUnknown string
}

func (e entry) policy() policy {
	p := policy{e.tool.Approval, stoa.Effects(e.tool.Effects), cmp.Or(e.tool.OnUnknown, stoa.UnknownTells)}
	if e.stricter.Approval == stoa.ApprovalAlways {
		p.approval = stoa.ApprovalAlways
	}
	if s := e.stricter.Effects; s != "" && p.effects.Laxer(s) {
		p.effects = s
	}
	if e.stricter.OnUnknown == stoa.UnknownFails {
		p.onUnknown = stoa.UnknownFails
	}
	return p
}

// alters reports whether a call was planned under settings that are less strict than these,
// or with another argument for its id.
func (e entry) alters(who Audience, planned stoa.ExternalCall) bool {
	p := e.policy()
	return p.approval == stoa.ApprovalAlways && planned.Approval != stoa.ApprovalAlways || planned.Effects.Laxer(p.effects) || e.confirmed(who) && planned.Confirmation == nil ||
		p.onUnknown == stoa.UnknownFails && !planned.FailsUnknown() || e.tool.IdempotencyArgument != planned.IdempotencyArgument
}

func (e entry) withheld(who Audience, refused bool) string {
	switch {
	case e.connection == nil || e.tool == nil || e.tool.State == store.ToolMissing:
		return stoa.WithheldMissing
	case e.connection.Disabled:
		return stoa.WithheldDisabled
	case e.connection.Allows(*e.tool):
	case e.tool.State == store.ToolChanged || e.tool.State == store.ToolInvalid && e.tool.ApprovedSHA256 != "":
		return stoa.WithheldChanged
	default:
		return stoa.WithheldUnapproved
	}
	switch {
	case who.Visitor && e.tool.Visitors != store.VisitorsYes && (e.tool.Visitors != store.VisitorsConfirm || who.Unattended):
		return stoa.WithheldVisitor
	case refused:
		return stoa.WithheldUnauthorized
	}
	if who.Once && (e.policy().approval != stoa.ApprovalNever || e.confirmed(who)) {
		return stoa.WithheldOnce
	}
	return ""
}

func (e entry) confirmed(who Audience) bool {
	return who.Visitor && e.tool.Visitors == store.VisitorsConfirm
}

// Offer returns the tools of an agent's connections that a turn offers to its model, in their
// approved definitions, and those that it withholds. Together with the tools of programs,
// which count towards the limits and are not returned, there are at most [MaxOffered], or [MaxSearched]. keys
// decrypt secrets: tools whose secret they cannot decrypt are withheld; nil skips that check.
func Offer(ctx context.Context, tx *store.Tx, who Audience, tools []stoa.AgentTool, keys *vault.Vault) (offered []stoa.OfferedTool, withheld []stoa.Withheld, err error) {
	if !slices.ContainsFunc(tools, func(t stoa.AgentTool) bool { return t.Type == stoa.ToolConnection }) {
		return nil, nil, nil
	}
	maxCount, maxTokens := limits(who.Search)
	count, tokens := 0, int64(0)
	for _, t := range tools {
		if t.Type != stoa.ToolConnection {
			count++
			tokens += tokensOf(t.Name, t.Description, t.Parameters)
		}
	}
	taken := map[string]bool{}
	for _, t := range tools {
		if t.Type != stoa.ToolConnection {
			continue
		}
		all, err := entries(ctx, tx, who, t)
		if err != nil {
			return nil, nil, err
		}
		refused := false
		if len(all) > 0 && all[0].connection != nil {
			if refused, err = unauthorized(ctx, tx, who, *all[0].connection, keys); err != nil {
				return nil, nil, err
			}
		}
		for _, e := range all {
			reason := e.withheld(who, refused)
			if reason == "" && taken[e.modelName] {
				reason = stoa.WithheldLimit
			}
			if reason != "" {
				withheld = append(withheld, stoa.Withheld{Tool: e.modelName, Reason: reason})
				continue
			}
			out := stoa.OfferedTool{AgentTool: stoa.AgentTool{Type: stoa.ToolConnection, Name: e.modelName, ConnectionID: e.connection.ID}, Remote: e.name, SHA256: e.tool.ApprovedSHA256}
			p := e.policy()
			out.Approval, out.Effects, out.OnUnknown = p.approval, p.effects, p.onUnknown
			if out.IdempotencyArgument = e.tool.IdempotencyArgument; out.IdempotencyArgument != "" {
				sent, err := json.Marshal(remote.Parse(e.tool.ApprovedDefinition).InputSchema)
				if err != nil {
					return nil, nil, err
				}
				out.Sent = string(sent)
			}
			if e.confirmed(who) {
				if out.Ask = e.ask(); out.Ask == nil {
					withheld = append(withheld, stoa.Withheld{Tool: e.modelName, Reason: stoa.WithheldUnapproved})
					continue
				}
			}
			if out.Title, out.Description, out.Parameters, err = e.definition(e.tool.ApprovedDefinition); err != nil {
				return nil, nil, err
			}
			n := tokensOf(out.Name, out.Description, out.Parameters)
			if count == maxCount || tokens+n > maxTokens {
				withheld = append(withheld, stoa.Withheld{Tool: e.modelName, Reason: stoa.WithheldLimit})
				continue
			}
			count++
			tokens += n
			taken[e.modelName] = true
			offered = append(offered, out)
		}
	}
	return offered, withheld, nil
}

func limits(search bool) (count int, tokens int64) {
	if search {
		return MaxSearched, mostSearched
	}
	return MaxOffered, MaxTokens
}

// Searches reports whether an agent that may search its tools does, because it has many of them.
func Searches(tools []stoa.OfferedTool) bool {
	tokens := int64(0)
	for _, t := range tools {
		tokens += tokensOf(t.Name, t.Description, t.Parameters)
	}
	return len(tools) > SearchAbove || tokens > SearchAboveTokens
}

// DefinitionTokens estimates the tokens of the current definition of an offered tool.
func DefinitionTokens(row store.ConnectionTool) int64 {
	e := entry{tool: &row}
	_, description, parameters, err := e.definition(row.Definition)
	if err != nil {
		return 0
	}
	return tokensOf(row.ModelName, description, parameters)
}

func tokensOf(name, description, parameters string) int64 {
	return stoa.EstimateTokens(len(name) + len(description) + len(parameters))
}

// unauthorized reports whether the server of a connection is known to reject the secret, or
// there is no secret that can be sent.
func unauthorized(ctx context.Context, tx *store.Tx, who Audience, c store.Connection, keys *vault.Vault) (bool, error) {
	refused := c.ErrorCode == NeedsAuthorization
	switch {
	case sendsOwn(c, who.Own):
		s, err := tx.Setup().Secret(ctx, c.AccountID, who.Own[c.ID])
		if stoa.CodeOf(err) == stoa.CodeSecretNotFound {
			return true, nil
		}
		return err == nil && (s.Expired(tx.Now) || !opens(keys, ref(s), s.Sealed)), err
	case c.PerSession == store.PerSessionRequired:
		return true, nil
	}
	secretID := c.SecretID
	if c.OAuth != nil {
		tokens, err := tx.Setup().Tokens(ctx, c.AccountID, c.ID)
		if err != nil || tokens == nil && c.OAuth.Grant == store.GrantCode || tokens != nil && !opens(keys, tokensRef(*tokens), tokens.Sealed) {
			return true, err
		}
		secretID = c.ClientSecretID
	}
	if secretID == "" {
		return refused, nil
	}
	s, err := tx.Setup().Secret(ctx, c.AccountID, secretID)
	if stoa.CodeOf(err) == stoa.CodeSecretNotFound {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if refused && c.OAuth == nil && s.UpdatedAt.After(c.CheckedAt) { // because its value has changed since the refusal
		refused = false
	}
	return refused || c.OAuth == nil && s.Expired(tx.Now) || !opens(keys, ref(s), s.Sealed), nil
}

// opens reports whether keys can decrypt a secret; nil skips the check.
func opens(keys *vault.Vault, r vault.Ref, sealed string) bool {
	if keys == nil {
		return true
	}
	_, err := keys.Open(r, sealed)
	return err == nil
}

// CheckTools checks whether an agent may have these tools: their connections belong to its
// space and have the tools, and none of the settings is laxer than the review. The error
// names the member at fault.
func CheckTools(ctx context.Context, tx *store.Tx, accountID, spaceID string, settings stoa.AgentSettings) error {
	tools, search := settings.Tools, settings.CallSettings().ToolSearch
	maxCount, maxTokens := limits(search)
	count, tokens := 0, int64(0)
	for i, t := range tools {
		if t.Type == stoa.ToolConnection {
			count += len(t.Allow)
			continue
		}
		if search && (t.Name == stoa.FindTool || t.Name == stoa.CallTool) {
			return stoa.Errorf(stoa.CodeInvalidValue, "The name %q is the service's own where toolSearch is on.", t.Name).At(fmt.Sprintf("tools[%d].name", i))
		}
		count++
		tokens += tokensOf(t.Name, t.Description, t.Parameters)
	}
	if count > maxCount { // before anything is read, because a list can have 32,000 names
		hint := "."
		if !search {
			hint = fmt.Sprintf(", or %d with toolSearch.", MaxSearched)
		}
		return stoa.Errorf(stoa.CodeTooManyTools, "The agent has %d tools; the maximum is %d%s", count, maxCount, hint).At("tools")
	}
	type allowed struct {
		entry
		approved string // its definition
		at       string
	}
	var list []allowed
	for i, t := range tools {
		if t.Type != stoa.ToolConnection {
			continue
		}
		all, err := entries(ctx, tx, Audience{AccountID: accountID, SpaceID: spaceID}, t)
		if err != nil {
			return err
		}
		for j, e := range all {
			at := fmt.Sprintf("tools[%d].", i)
			if e.connection == nil {
				return stoa.Errorf(stoa.CodeConnectionNotFound, "The space of the agent has no such connection.").At(at + "connectionId")
			}
			if e.tool == nil {
				return stoa.Errorf(stoa.CodeToolNotFound, "The connection %s has no tool %q. Use a name of the catalog; refresh the connection if the tool is new.", e.connection.Name, short(e.name)).At(fmt.Sprintf("%sallow[%d]", at, j))
			}
			definition := cmp.Or(e.tool.ApprovedDefinition, e.tool.Definition)
			_, description, parameters, err := e.definition(definition)
			if err != nil {
				return err
			}
			if err := e.checkPolicy(at, t); err != nil {
				return err
			}
			tokens += tokensOf(e.modelName, description, parameters)
			list = append(list, allowed{e, definition, fmt.Sprintf("%sallow[%d]", at, j)})
		}
	}
	if tokens > maxTokens {
		return stoa.Errorf(stoa.CodeTooManyTools, "The definitions of the tools have about %d tokens; the maximum is %d, since the model reads them with every step, unless toolSearch is on.", tokens, maxTokens).At("tools")
	}
	for _, e := range list { // last, because it takes longest
		if err := e.unsupported(e.approved); err != nil {
			return stoa.Errorf(stoa.CodeInvalidSchema, "The tool %q cannot be offered to a model: its parameters are not supported: %v.", short(e.name), err).At(e.at)
		}
	}
	return nil
}

func (e entry) checkPolicy(at string, t stoa.AgentTool) error {
	k := slices.IndexFunc(t.Stricter, func(s stoa.Stricter) bool { return s.Name == e.name })
	if k < 0 || e.tool.ApprovedSHA256 == "" {
		return nil
	}
	at = fmt.Sprintf("%sstricter[%d].", at, k)
	if e.stricter.Approval == stoa.ApprovalNever && e.tool.Approval != stoa.ApprovalNever {
		return stoa.Errorf(stoa.CodePolicyTooLax, "The review of %q requires a person's approval of each call. An agent can be stricter, but not laxer; review the tool again.", short(e.name)).At(at + "approval")
	}
	if e.stricter.Effects != "" && e.stricter.Effects.Laxer(stoa.Effects(e.tool.Effects)) {
		return stoa.Errorf(stoa.CodePolicyTooLax, "The review of %q has the effects %q, and %q is laxer. An agent can be stricter, but not laxer; review the tool again.", short(e.name), e.tool.Effects, e.stricter.Effects).At(at + "effects")
	}
	if e.stricter.OnUnknown == stoa.UnknownTells && e.tool.OnUnknown == stoa.UnknownFails {
		return stoa.Errorf(stoa.CodePolicyTooLax, "The review of %q lets the turn fail if it is unknown whether a call was executed. An agent can be stricter, but not laxer; review the tool again.", short(e.name)).At(at + "onUnknown")
	}
	return nil
}

// checkArgument checks that the argument configured to carry the id of a call can do so: it
// is a property of the arguments' schema, of type string, and accepts such an id. Otherwise every
// call would fail.
func checkArgument(row store.ConnectionTool) *stoa.Error {
	name := row.IdempotencyArgument
	if name == "" {
		return nil
	}
	wrong := func(format string, args ...any) *stoa.Error {
		return stoa.Errorf(stoa.CodeInvalidValue, format, args...)
	}
	if stoa.Effects(row.Effects) == stoa.EffectsRead {
		return wrong("A call of %q is read-only, so its id would not prevent anything from being done twice. Leave the argument out, or review other effects.", short(row.Name))
	}
	d := remote.Parse(row.ApprovedDefinition)
	properties, _ := d.InputSchema["properties"].(map[string]any)
	property, ok := properties[name].(map[string]any)
	if !ok {
		return wrong("The tool %q has no argument %q: name a property of its inputSchema.", short(row.Name), short(name))
	}
	if kind, _ := property["type"].(string); kind != "string" {
		return wrong("The argument %q of %q does not have the type string, which the id of a call needs.", short(name), short(row.Name))
	}
	if format, ok := property["format"].(string); ok {
		return wrong("The argument %q of %q has the format %q, which the id of a call does not have.", short(name), short(row.Name), short(format))
	}
	if slices.Contains(row.PublicFields, "/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name)) {
		return wrong("The argument %q is one of the publicFields: visitors would be shown an id instead of the model's value. Remove it there.", short(name))
	}
	alone := map[string]any{"type": "object", "properties": map[string]any{name: property}}
	for _, shared := range []string{"$defs", "definitions"} { // because the property may reference them
		if v := d.InputSchema[shared]; v != nil {
			alone[shared] = v
		}
	}
	text, err := json.Marshal(alone)
	if err != nil {
		return wrong("The schema of the argument %q cannot be read.", short(name))
	}
	parameters, err := schema.ReadParameters(string(text))
	if err == nil {
		err = parameters.Check(jsonx.WithMember("", name, stoa.NewID("cal")))
	}
	if err != nil {
		return wrong("The argument %q of %q does not accept the id of a call, such as %s: %v.", short(name), short(row.Name), stoa.NewID("cal"), err)
	}
	return nil
}

func leaveOut(schema map[string]any, name string) {
	properties, _ := schema["properties"].(map[string]any)
	if _, there := properties[name]; !there || name == "" {
		return
	}
	delete(properties, name)
	required, _ := schema["required"].([]any)
	if required = slices.DeleteFunc(required, func(v any) bool { return v == name }); len(required) > 0 {
		schema["required"] = required
	} else {
		delete(schema, "required")
	}
}

func switchedOff() error {
	return stoa.Errorf(stoa.CodeConnectionDisabled, "The connection is disabled, so its server is not called. Enable it first (enabled: true).")
}
