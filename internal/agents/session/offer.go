package session

import (
	"context"
	"maps"
	"slices"

	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// AudienceOf returns the audience to which a session about to start offers the tools of
// connections.
func AudienceOf(a stoa.Agent, req StartRequest) tool.Audience {
	return tool.Audience{AccountID: a.AccountID, SpaceID: a.SpaceID, Once: req.Mode == stoa.ModeOnce, Visitor: ofOutsider(req.Trigger), Unattended: req.Trigger.Type == stoa.TriggerHook, Own: req.Credentials, Search: a.CallSettings().ToolSearch}
}

// Audience returns the audience to which a session, with secrets of its own, offers the tools
// of connections.
func Audience(ctx context.Context, tx *store.Tx, s stoa.Session, own tool.Credentials) (tool.Audience, error) {
	visitor, err := IsVisitors(ctx, tx, s)
	return tool.Audience{AccountID: s.AccountID, SpaceID: s.SpaceID, Once: s.Mode == stoa.ModeOnce, Visitor: visitor, Unattended: s.Trigger.Type == stoa.TriggerHook, Own: own}, err
}

// IsVisitors reports whether a session is a visitor's; that of a hook counts as one. A session that
// began otherwise and is now shown by an embed counts too, because otherwise the visitor's messages
// would be executed with the authority of the account.
func IsVisitors(ctx context.Context, tx *store.Tx, s stoa.Session) (bool, error) {
	if ofOutsider(s.Trigger) {
		return true, nil
	}
	return tx.Setup().IsShown(ctx, s.AccountID, s.ID)
}

func hasConnections(tools []stoa.AgentTool) bool {
	return slices.ContainsFunc(tools, func(t stoa.AgentTool) bool { return t.Type == stoa.ToolConnection })
}

// Credentials returns the session's own secrets for the connections of its agent's tools; it
// may be empty.
func Credentials(ctx context.Context, tx *store.Tx, s stoa.Session, tools []stoa.AgentTool) (tool.Credentials, error) {
	if !hasConnections(tools) {
		return tool.Credentials{}, nil
	}
	return ownCredentials(ctx, tx, s.AccountID, s.ID)
}

func ownCredentials(ctx context.Context, tx *store.Tx, accountID, ownerID string) (tool.Credentials, error) {
	own, err := tx.Setup().OwnCredentials(ctx, accountID, ownerID)
	if own == nil {
		own = map[string]string{}
	}
	return own, err
}

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

// MaxWithheld is the maximum number of withheld tools and skills that a session records. Those of servers come last.
const MaxWithheld = 200

func recorded(list []stoa.Withheld) []stoa.Withheld { return list[:min(len(list), MaxWithheld)] }

// Withhold records the tools and skills that the turn does not offer. The first time, it adds the event
// if there are any tools.
func (t *Transition) Withhold(list []stoa.Withheld) {
	list = recorded(list)
	t.Row.Withheld = list
	t.do(func() error {
		first, err := t.tx.Setup().SetWithheld(t.ctx, t.Row.AccountID, t.Row.ID, t.Row.Turn.Number, list)
		tools := slices.DeleteFunc(slices.Clone(list), func(w stoa.Withheld) bool { return w.Skill != "" })
		if err == nil && first && len(tools) > 0 {
			t.event(EventToolsWithheld, WithheldData{Turn: t.Row.Turn.Number, Tools: tools})
		}
		return err
	})
}
