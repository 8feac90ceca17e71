package session

import (
	"context"
	"errors"
	"maps"
	"slices"

	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/tool"
)

// AudienceOf returns for whom a session to be started offers the tools of connections.
func AudienceOf(a stoa.Agent, req StartRequest) tool.Audience {
	return tool.Audience{AccountID: a.AccountID, SpaceID: a.SpaceID, Once: req.Mode == stoa.ModeOnce, Visitor: req.Trigger.Type == triggerEmbed, Own: req.Credentials}
}

// Audience returns for whom a session offers the tools of connections, for which it has
// secrets of its own.
func Audience(ctx context.Context, tx *store.Tx, s stoa.Session, own tool.Credentials) (tool.Audience, error) {
	visitor, err := IsVisitors(ctx, tx, s)
	return tool.Audience{AccountID: s.AccountID, SpaceID: s.SpaceID, Once: s.Mode == stoa.ModeOnce, Visitor: visitor, Own: own}, err
}

// IsVisitors reports whether a session is a visitor's. One that began otherwise is, too,
// once an embed shows it: what the visitor says would be done with the authority of the
// account.
func IsVisitors(ctx context.Context, tx *store.Tx, s stoa.Session) (bool, error) {
	if s.Trigger.Type == triggerEmbed {
		return true, nil
	}
	return tx.IsShown(ctx, s.AccountID, s.ID)
}

// hasConnections reports whether an agent has tools of connections.
func hasConnections(tools []stoa.AgentTool) bool {
	return slices.ContainsFunc(tools, func(t stoa.AgentTool) bool { return t.Type == stoa.ToolConnection })
}

// Credentials returns the secrets that a session has of its own for the connections of
// its agent's tools; empty where there are none.
func Credentials(ctx context.Context, tx *store.Tx, s stoa.Session, tools []stoa.AgentTool) (tool.Credentials, error) {
	if !hasConnections(tools) {
		return tool.Credentials{}, nil
	}
	return ownCredentials(ctx, tx, s.AccountID, s.ID)
}

// ownCredentials is store.Tx.OwnCredentials that is never nil.
func ownCredentials(ctx context.Context, tx *store.Tx, accountID, ownerID string) (tool.Credentials, error) {
	own, err := tx.OwnCredentials(ctx, accountID, ownerID)
	if own == nil {
		own = map[string]string{}
	}
	return own, err
}

// takeCredentials checks the secrets that a session is to have of its own, and adds
// those of what starts it.
func takeCredentials(ctx context.Context, tx *store.Tx, a stoa.Agent, req *StartRequest) error {
	if len(req.Credentials) > 0 {
		if err := tool.CheckCredentials(ctx, tx, a.AccountID, req.ExternalUserID, req.Credentials); err != nil {
			return err
		}
	}
	if req.CredentialsOf == "" || !hasConnections(a.Tools) {
		return nil
	}
	own, err := ownCredentials(ctx, tx, a.AccountID, req.CredentialsOf)
	maps.Copy(own, req.Credentials)
	req.Credentials = own
	return err
}

// inDraft returns an error about a member of an agent as one about the draft of it.
func inDraft(err error) error {
	if e, ok := errors.AsType[*stoa.Error](err); ok && e.Param != "" {
		return e.At("draft." + e.Param)
	}
	return err
}

// Withhold records which tools the turn does not offer. The event of the turn is
// written the first time, if there is any.
func (t *Transition) Withhold(list []stoa.Withheld) {
	t.Row.Withheld = list
	t.do(func() error {
		first, err := t.tx.SetWithheld(t.ctx, t.Row.AccountID, t.Row.ID, t.Row.Turn.Number, list)
		if err == nil && first && len(list) > 0 {
			t.event(EventToolsWithheld, WithheldData{Turn: t.Row.Turn.Number, Tools: list})
		}
		return err
	})
}
