package session

import (
	"errors"

	"stoa/internal/stoa"
	"stoa/internal/tool"
)

// AudienceOf returns for whom a session to be started offers the tools of connections.
func AudienceOf(a stoa.Agent, req StartRequest) tool.Audience {
	return tool.Audience{AccountID: a.AccountID, SpaceID: a.SpaceID, Once: req.Mode == stoa.ModeOnce, Visitor: req.Trigger.Type == triggerEmbed}
}

// Audience returns for whom a session offers the tools of connections.
func Audience(s stoa.Session) tool.Audience {
	return tool.Audience{AccountID: s.AccountID, SpaceID: s.SpaceID, Once: s.Mode == stoa.ModeOnce, Visitor: s.Trigger.Type == triggerEmbed}
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
