package api

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	maxAlertNotices  = 50
	maxBudgetNotices = 30
	maxTaskNotices   = 30
	maxPersonNotices = 30
	maxSkillNotices  = 30
	personNotice     = 72 * time.Hour // after a visitor asked for a person
	noticeTask       = "schedule.failing"
	noticeSkill      = "skill.withheld"
	maxNotice        = 300 // characters
)

func (s *Status) listNotices(ctx context.Context, in rest.Request[rest.None, rest.None]) (rest.Reply[contract.NoticeList], error) {
	out := contract.NoticeList{Data: []contract.Notice{}}
	add := func(kind, scope, subject, message, path string, since time.Time) {
		if r := []rune(message); len(r) > maxNotice {
			message = string(r[:maxNotice-1]) + "…"
		}
		out.Data = append(out.Data, contract.Notice{
			Object: "notice", Type: kind, Scope: scope, Subject: nullIfZero(subject), Message: message, ConsolePath: path, Since: nullIfNever(since),
		})
	}
	accountID, key := in.Caller.Account.ID, in.Caller.Key
	err := s.Store.Read(ctx, func(tx *store.Tx) error {
		out.Data = out.Data[:0]
		if key.Has(stoa.ScopeOperatorRead) {
			alerts, err := tx.Operations().Alerts(ctx, maxAlertNotices)
			if err != nil {
				return err
			}
			for _, a := range alerts {
				name := a.Subject
				if a.Kind == webhook.BalanceLow {
					of, err := tx.Books().Account(ctx, a.Subject)
					if err != nil || of.Suspended { // its alert ends with the next check
						continue
					}
					name = cmp.Or(of.Name, of.ID)
				}
				message := webhook.Sentence(a.Kind)
				if name != "" {
					message += ": " + name
				}
				add(a.Kind, scopeService, a.Subject, message, webhook.AlertPage(a.Kind, a.Subject), a.OpenedAt)
			}
		}
		if key.Has("webhooks:read") {
			failing, err := tx.Operations().FailingWebhooks(ctx, accountID, tx.Now.Add(-webhook.FailingAfter), store.MaxWebhooks)
			if err != nil {
				return err
			}
			for _, f := range failing {
				w, err := tx.Operations().Webhook(ctx, accountID, f.ID)
				if err != nil || w.Service && !key.Has(stoa.ScopeOperatorRead) {
					continue
				}
				message := "A webhook fails"
				if w.Disabled != "" {
					message = "A webhook was disabled because it failed"
				}
				add(webhook.WebhookFailing, scopeAccount, f.ID, message+": "+cmp.Or(w.Description, w.URL, w.ID), "webhooks/"+f.ID, f.Since)
			}
		}
		if key.Has("schedules:read") {
			failing, err := tx.Work().FailingTasks(ctx, accountID, maxTaskNotices)
			if err != nil {
				return err
			}
			for _, t := range failing {
				message := "A schedule fails"
				if !t.Enabled {
					message = "A schedule was paused because it failed"
				}
				add(noticeTask, scopeAccount, t.ID, message+": "+t.Name, "agents/"+t.AgentID+"/tasks/"+t.ID, t.UpdatedAt)
			}
		}
		if key.Has("agents:read") {
			// As sessions report it: the drives of all agents are too much to read at each poll.
			withheld, err := tx.Setup().WithheldSkills(ctx, accountID, maxSkillNotices)
			if err != nil {
				return err
			}
			for _, w := range withheld {
				add(noticeSkill, scopeAccount, w.AgentID, "An agent does not use skills that have changed since their review: "+w.Name+": "+strings.Join(w.Skills, ", "), "agents/"+w.AgentID+"/skills", w.At)
			}
		}
		if key.Has("sessions:read") {
			asked, err := tx.Work().PersonRequests(ctx, accountID, tx.Now.Add(-personNotice), maxPersonNotices)
			if err != nil {
				return err
			}
			for _, r := range asked {
				add(webhook.PersonRequested, scopeAccount, r.ID, "A visitor asks for a person: "+cmp.Or(r.Title, r.ID), "agents/"+r.AgentID+"/sessions/"+r.ID, r.At)
			}
		}
		if !key.Has(stoa.ScopeAccountRead) {
			return nil
		}
		windows, err := tx.Books().ReachedWindows(ctx, accountID, tx.Now, maxBudgetNotices)
		for _, w := range windows {
			of := string(w.Scope)
			if w.Subject != "" {
				of += " " + w.Subject
			}
			message := fmt.Sprintf("A budget is used up to %d %%: %s", int64(w.Used())*100/max(1, int64(w.Limit)), of)
			add(webhook.BudgetThreshold, scopeAccount, w.BudgetID, message, "budgets", w.StartsAt)
		}
		return err
	})
	return rest.Reply[contract.NoticeList]{Body: out}, err
}
