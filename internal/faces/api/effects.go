package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// The outcomes of an effect, in the order of a text.
const (
	stops     = "stop"
	deletes   = "delete"
	narrows   = "narrow"
	lowers    = "lower"
	blocks    = "block"
	continues = "continue"
)

// effectScopes are the scopes with which the objects of each kind are read.
var effectScopes = map[contract.GetEffectsParamsOf]string{
	"account": stoa.ScopeOperatorRead, "key": "keys:write", "agent": "agents:read", "space": "agents:read",
	"connection": "connections:read", "secret": "connections:read", "member": stoa.ScopeAccountRead,
}

// effectChanges are the changes of each kind.
var effectChanges = map[contract.GetEffectsParamsOf][]string{
	"account": {"delete", "suspend", "plan"}, "key": {"delete"}, "agent": {"delete"}, "space": {"delete"},
	"connection": {"delete", "disable"}, "secret": {"delete"}, "member": {"delete", "role"},
}

// getEffects serves GET /api/v1/effects. Each case counts what the operation of the change does: see [People.EndObjects],
// [session.Sessions.DeleteAgent] and [member.Members.Change].
func (s *People) getEffects(ctx context.Context, tx *store.Tx, in rest.Request[contract.GetEffectsParams, rest.None]) (reply rest.Reply[contract.Effects], err error) {
	q, by, accountID := in.Params, in.Caller.Key, in.Caller.Account.ID
	change := orElse(string(q.Change), "delete")
	if scope := effectScopes[q.Of]; !by.Has(scope) {
		return reply, stoa.Errorf(stoa.CodeScope, "This key does not have the scope %q, which of=%s requires.", scope, q.Of).At("of")
	}
	if !slices.Contains(effectChanges[q.Of], change) {
		return reply, stoa.Errorf(stoa.CodeInvalidValue, "The changes of the kind %q are %s.", q.Of, strings.Join(effectChanges[q.Of], ", ")).At("change")
	}
	if needs := change == "plan" || change == "role"; needs && q.To == "" {
		return reply, stoa.Errorf(stoa.CodeMissingParameter, "The change %q requires \"to\".", change).At("to")
	} else if !needs && q.To != "" {
		return reply, stoa.Errorf(stoa.CodeInvalidValue, "The change %q has no \"to\".", change).At("to")
	}
	var out []contract.Effect
	add := func(outcome, kind string, n int) {
		if n > 0 {
			out = append(out, contract.Effect{Kind: kind, Count: n, Outcome: outcome})
		}
	}
	counted := func(of store.EffectScope, outcomes map[string]string) {
		all, failed := tx.People().Effects(ctx, accountID, of)
		for _, e := range all {
			add(orElse(outcomes[e.Kind], stops), e.Kind, e.Count)
		}
		err = failed
	}
	missing := func(failed error) error {
		if contract.Code(stoa.CodeOf(failed)).Status == 404 { // under the one code of this operation
			return stoa.Errorf(stoa.CodeNotFound, "There is no such %s.", q.Of).At("id")
		}
		return failed
	}
	switch q.Of {
	case "account":
		var a stoa.Account
		if a, err = tx.Books().LiveAccount(ctx, q.ID); err != nil {
			return reply, missing(err)
		}
		if change == "plan" {
			if err = s.checkPlanExists(q.To); err != nil {
				return reply, stoa.Errorf(stoa.CodeInvalidValue, "There is no plan %q.", rest.ShortName(q.To)).At("to")
			}
			s.planEffects(a.Plan, q.To, add)
			break
		}
		accountID = a.ID
		outcomes := map[string]string{"members": narrows}
		if change == "delete" {
			outcomes["agents"] = deletes
		}
		counted(store.EffectScope{}, outcomes)
	case "key":
		k, failed := keyOf(ctx, tx, in.Caller, q.ID, stoa.ScopeOperatorRead)
		if failed != nil {
			return reply, missing(failed)
		}
		accountID = k.AccountID
		counted(store.EffectScope{KeyID: k.ID}, map[string]string{"keys": continues})
	case "agent":
		a, failed := tx.Setup().Agent(ctx, accountID, q.ID)
		if failed != nil {
			return reply, missing(failed)
		}
		counted(store.EffectScope{AgentID: a.ID}, nil)
		add(stops, "exposed", len(a.Expose))
	case "space":
		if _, err = tx.Setup().Space(ctx, accountID, q.ID); err != nil {
			return reply, missing(err)
		}
		counted(store.EffectScope{SpaceID: q.ID}, map[string]string{"agents": deletes, "connections": deletes})
	case "connection":
		c, failed := tx.Setup().Connection(ctx, accountID, q.ID)
		if failed != nil {
			return reply, missing(failed)
		}
		users, failed := tx.Setup().AgentsUsing(ctx, c, store.MaxEffects)
		err = failed
		add(narrows, "agents", len(users))
	case "secret":
		if _, err = tx.Setup().Secret(ctx, accountID, q.ID); err != nil {
			return reply, missing(err)
		}
		users, failed := tx.Setup().SecretUsers(ctx, accountID, q.ID, store.MaxEffects)
		err = failed
		add(blocks, "connections", len(users))
	case "member":
		m, failed := tx.People().Member(ctx, accountID, q.ID)
		if failed != nil {
			return reply, missing(failed)
		}
		if change == "delete" {
			counted(store.EffectScope{MemberID: q.ID}, nil)
			break
		}
		if !slices.Contains(stoa.Roles, q.To) {
			return reply, stoa.Errorf(stoa.CodeInvalidValue, "The roles are %s.", strings.Join(stoa.Roles, ", ")).At("to")
		}
		keys, failed := tx.People().KeysOfMember(ctx, accountID, q.ID)
		err = failed
		scopes, lose, end := stoa.ScopesOf(q.To, m.OperatorRole), 0, 0
		for _, k := range keys {
			switch left := len(stoa.Common(k.Scopes, scopes)); {
			case k.Kind != "" || left == len(k.Scopes):
			case left == 0:
				end++
			default:
				lose++
			}
		}
		add(stops, "keys", min(end, store.MaxEffects))
		add(narrows, "keys", min(lose, store.MaxEffects))
	}
	return rest.Reply[contract.Effects]{Body: contract.Effects{Object: "effects", Text: effectsText(out), Data: append([]contract.Effect{}, out...)}}, err
}

// planEffects adds the limits that are lower on another plan, and the models that it does not allow.
func (s *People) planEffects(from, to string, add func(outcome, kind string, n int)) {
	var was, is stoa.Plan
	for _, p := range s.Plans() {
		if p.ID == from {
			was = p
		}
		if p.ID == to {
			is = p
		}
	}
	n := 0
	for _, limit := range [][2]int{
		{was.RequestsPerMinute, is.RequestsPerMinute},
		{was.RequestsPerMinutePerAccount, is.RequestsPerMinutePerAccount},
		{was.ConcurrentPerKey, is.ConcurrentPerKey},
		{was.ConcurrentPerAccount, is.ConcurrentPerAccount},
		{was.ActiveSessions, is.ActiveSessions},
	} {
		if limit[1] > 0 && (limit[0] == 0 || limit[1] < limit[0]) { // 0 is no limit
			n++
		}
	}
	add(lowers, "limits", n)
	models := 0
	for _, m := range s.Catalog.Load().Models() {
		if was.Allows(m) && !is.Allows(m) {
			models++
		}
	}
	add(stops, "models", models)
}

var effectWords = map[string][2]string{
	"keys": {"key", "keys"}, "members": {"member", "members"}, "agents": {"agent", "agents"}, "sessions": {"session", "sessions"},
	"tasks": {"schedule", "schedules"}, "embeds": {"embed", "embeds"}, "embed_tags": {"script tag", "script tags"}, "hooks": {"hook", "hooks"},
	"webhooks": {"webhook", "webhooks"}, "connections": {"connection", "connections"}, "exposed": {"protocol that calls it", "protocols that call it"},
	"limits": {"limit", "limits"}, "models": {"model", "models"},
}

// effectsText writes effects as sentences, one for each outcome: "3 schedules and 2 embeds stop."
func effectsText(all []contract.Effect) string {
	var sentences []string
	for _, o := range []struct{ outcome, one, many string }{
		{stops, "stops", "stop"},
		{deletes, "is deleted", "are deleted"},
		{narrows, "loses ", "lose "},
		{lowers, "becomes lower", "become lower"},
		{blocks, "uses it and must be changed first", "use it and must be changed first"},
		{continues, "that it created continues", "that it created continue"},
	} {
		var parts []string
		verb := o.one
		for _, e := range all {
			if e.Outcome != o.outcome {
				continue
			}
			n := fmt.Sprint(e.Count)
			if e.Count == store.MaxEffects && e.Kind != "models" {
				n = "at least " + n
			}
			if e.Outcome == narrows { // only one kind at a time
				lost := map[string]string{"keys": "scopes", "agents": "its tools"}[e.Kind]
				o.one, o.many = "loses "+orElse(lost, "access"), "lose "+orElse(lost, "access")
				verb = o.one
			}
			words := effectWords[e.Kind]
			if parts = append(parts, n+" "+words[min(e.Count-1, 1)]); e.Count > 1 {
				verb = o.many
			}
		}
		switch n := len(parts); {
		case n == 1:
			sentences = append(sentences, parts[0]+" "+verb+".")
		case n > 1:
			sentences = append(sentences, strings.Join(parts[:n-1], ", ")+" and "+parts[n-1]+" "+o.many+".")
		}
	}
	if len(sentences) == 0 {
		return "Nothing else stops."
	}
	return strings.Join(sentences, " ")
}
