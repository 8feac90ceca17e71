package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// defaultSecretOverlap is the time for which requests are also signed with a replaced secret, so that a receiver can change it.
const defaultSecretOverlap = 24 * time.Hour

func webhookPath(id string) string { return rest.Prefix + "/webhooks/" + id }

// checkHook rejects an address that nothing would be sent to. It may wait for name resolution.
func (s *Webhooks) checkHook(ctx context.Context, accountID string, address nullable.Nullable[string]) error {
	text := orZero(address)
	if text == "" {
		if address.IsSpecified() && !address.IsNull() {
			return stoa.Errorf(stoa.CodeInvalidURL, "The address is empty. Send one such as https://example.com/hooks, or null for a webhook whose events are read with the API.").At("url")
		}
		return nil
	}
	if to, ok := (stoa.Webhook{URL: text}).MailAddress(); ok {
		if !stoa.IsEmail(to) {
			return stoa.Errorf(stoa.CodeInvalidURL, "This is not an email address. Send one such as mailto:ada@example.com, without a subject or a name.").At("url")
		}
		return s.Store.Read(ctx, func(tx *store.Tx) error { return s.Hooks.Mail.Check(ctx, tx, accountID, to) })
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		return stoa.Errorf(stoa.CodeInvalidURL, "Requests cannot be sent to this address. Send one such as https://example.com/hooks, without a user, a password or a fragment.").At("url")
	}
	if err := s.Outbound.Check(ctx, u); err != nil {
		return stoa.Errorf(stoa.CodeAddressNotAllowed, "The service sends no requests to this address. Use https and a public host; the operator can allow others in outbound.allow.").At("url")
	}
	return nil
}

func (s *Webhooks) beforeWebhook(ctx context.Context, in rest.Request[rest.None, contract.CreateWebhook]) (rest.None, error) {
	return rest.None{}, s.checkHook(ctx, in.Caller.Account.ID, in.Body.URL)
}

func (s *Webhooks) createWebhook(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.CreateWebhook], _ rest.None) (rest.Reply[contract.WebhookWithSecret], error) {
	b := in.Body
	w := stoa.Webhook{
		Service:   orZero(b.Scope) == scopeService,
		AccountID: in.Caller.Account.ID, KeyID: in.Caller.Key.ID, URL: orZero(b.URL), Events: b.Events, SpaceIDs: orZero(b.SpaceIds),
		Description: orZero(b.Description), CreditsLow: stoa.Credits(orZero(b.CreditsLowMicro)),
	}
	if enabled, err := b.Enabled.Get(); err == nil && !enabled {
		w.Disabled = stoa.WebhookDisabledByUser
	}
	err := mayAlert(ctx, tx, in.Caller, w.Service)
	if err == nil {
		err = s.checkWebhook(ctx, tx, &w, true)
	}
	if err != nil {
		return rest.Reply[contract.WebhookWithSecret]{}, err
	}
	w, secret, err := s.Hooks.Create(ctx, tx, w)
	return s.withSecret(w, secret, time.Time{}), err
}

const (
	scopeAccount = "account"
	scopeService = "service"
)

func mayAlert(ctx context.Context, tx *store.Tx, by stoa.Caller, service bool) error {
	if !service {
		return nil
	}
	if !by.Key.Has(stoa.ScopeOperator) {
		return stoa.Errorf(stoa.CodeScope, "The alerts of the service require a key with the scope %q.", stoa.ScopeOperator).At("scope")
	}
	owner, err := tx.People().OwnerAccount(ctx)
	if err == nil && owner != by.Account.ID {
		err = stoa.Errorf(stoa.CodeInvalidValue, "Only the account of the service's operator receives the alerts of the service. Omit the scope.").At("scope")
	}
	return err
}

// hookOf returns a webhook of the caller's account. Keys without the scope needed do not find one that receives the
// alerts of the service.
func hookOf(ctx context.Context, tx *store.Tx, by stoa.Caller, id, needed string) (stoa.Webhook, error) {
	w, err := tx.Operations().Webhook(ctx, by.Account.ID, id)
	if err == nil && w.Service && !by.Key.Has(needed) {
		_, err = tx.Operations().Webhook(ctx, by.Account.ID, "")
	}
	return w, err
}

// checkWebhook rejects ineffective settings that the contract allows, and sorts the
// lists. Spaces must exist when they are set.
func (s *Webhooks) checkWebhook(ctx context.Context, tx *store.Tx, w *stoa.Webhook, spaces bool) error {
	if err := checkLengths(lengthLimit{"description", w.Description, s.Limits.DescriptionCharacters}); err != nil {
		return err
	}
	if len(w.Events) > 1 && slices.Contains(w.Events, "*") {
		return stoa.Errorf(stoa.CodeInvalidValue, `"*" means all events: send it alone.`).At("events")
	}
	for i, kind := range w.Events {
		if kind != "*" && !webhook.InScope(kind, w.Service) {
			return stoa.Errorf(stoa.CodeInvalidValue, "%s is not an event of a webhook with this scope: alerts of the service need the scope %q, other events %q.", kind, scopeService, scopeAccount).At(fmt.Sprintf("events[%d]", i))
		}
	}
	if w.Service && len(w.SpaceIDs) > 0 {
		return stoa.Errorf(stoa.CodeInvalidValue, "Alerts of the service do not belong to a space. Omit spaceIds.").At("spaceIds")
	}
	w.Events = sorted(w.Events)
	w.SpaceIDs = sorted(w.SpaceIDs)
	if !spaces {
		return nil
	}
	for _, id := range w.SpaceIDs {
		if _, err := tx.Setup().Space(ctx, w.AccountID, id); err != nil {
			return err
		}
	}
	return nil
}

func sorted(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// withSecret answers with a webhook and its new secret, which is shown only once.
func (s *Webhooks) withSecret(w stoa.Webhook, secret string, previousEnds time.Time) rest.Reply[contract.WebhookWithSecret] {
	body := extend[contract.WebhookWithSecret](s.contractWebhook(w))
	body.Secret, body.PreviousEndsAt = secret, nullIfNever(previousEnds)
	reply := rest.Created(webhookPath(w.ID), body)
	reply.ETag, reply.Secret = revisionETag(w.Revision), true
	return reply
}

func (s *Webhooks) listWebhooks(ctx context.Context, in rest.Request[contract.ListWebhooksParams, rest.None]) (rest.Reply[rest.Page[contract.Webhook]], error) {
	accountID := in.Caller.Account.ID
	p := rest.NewPager(in.Params.Limit, in.Params.Cursor, in.Params.Order, "webhooks", accountID, in.Params.Q)
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.Webhook, store.Cursor, error) {
		return tx.Operations().Webhooks(ctx, accountID, in.Caller.Key.Has(stoa.ScopeOperatorRead), in.Params.Q, p.Page)
	}, s.contractWebhook)
}

func (s *Webhooks) webhookReply(w stoa.Webhook) rest.Reply[contract.Webhook] {
	return rest.Reply[contract.Webhook]{ETag: revisionETag(w.Revision), Body: s.contractWebhook(w)}
}

func (s *Webhooks) getWebhook(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Webhook], error) {
	w, err := hookOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperatorRead)
	return s.webhookReply(w), err
}

func (s *Webhooks) updateWebhook(ctx context.Context, in rest.Request[idAnd[contract.UpdateWebhookParams], contract.UpdateWebhook]) (rest.Reply[contract.Webhook], error) {
	b := in.Body
	if err := s.checkHook(ctx, in.Caller.Account.ID, b.URL); err != nil {
		return rest.Reply[contract.Webhook]{}, err
	}
	if b.Events.IsNull() {
		return rest.Reply[contract.Webhook]{}, stoa.Errorf(stoa.CodeInvalidValue, `A webhook requires events: list them, or send ["*"].`).At("events")
	}
	w, err := store.Write(ctx, s.Store, func(tx *store.Tx) (stoa.Webhook, error) {
		if w, err := hookOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperator); err != nil {
			return w, err
		}
		return tx.Operations().EditWebhook(ctx, in.Caller.Account.ID, in.Params.ID, func(w *stoa.Webhook) error {
			if err := ifCurrent(in.Params.Query.IfMatch, w.Revision); err != nil {
				return err
			}
			patch(&w.URL, b.URL, same)
			patch(&w.Events, b.Events, same)
			patch(&w.SpaceIDs, b.SpaceIds, same)
			patch(&w.Description, b.Description, same)
			patch(&w.CreditsLow, b.CreditsLowMicro, func(n int64) stoa.Credits { return stoa.Credits(n) })
			if b.Enabled.IsSpecified() {
				if enabled, err := b.Enabled.Get(); enabled || err != nil { // because null means the default
					webhook.Enable(w, in.Caller.Key, tx.Now)
				} else if w.Disabled == "" {
					w.Disabled = stoa.WebhookDisabledByUser
				}
			}
			return s.checkWebhook(ctx, tx, w, b.SpaceIds.IsSpecified())
		})
	})
	return s.webhookReply(w), err
}

func (s *Webhooks) deleteWebhook(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.DeleteWebhookParams], rest.None]) (rest.Reply[rest.None], error) {
	w, err := hookOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperator)
	if err == nil {
		err = ifCurrent(in.Params.Query.IfMatch, w.Revision)
	}
	if err == nil {
		err = s.Hooks.Delete(ctx, tx, in.Caller.Account.ID, in.Params.ID)
	}
	return rest.NoContent(), err
}

func (s *Webhooks) testWebhook(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Delivery], error) {
	w, err := hookOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperator)
	if err != nil {
		return rest.Reply[contract.Delivery]{}, err
	}
	d, err := s.Hooks.Test(ctx, tx, w.AccountID, w.ID)
	return accepted(d), err
}

func accepted(d store.Delivery) rest.Reply[contract.Delivery] {
	return rest.Reply[contract.Delivery]{Status: http.StatusAccepted, Location: webhookPath(d.WebhookID) + "/deliveries/" + d.ID, Body: contractDelivery(d, true)}
}

func (s *Webhooks) rotateWebhookSecret(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.RotateWebhookSecret]) (rest.Reply[contract.WebhookWithSecret], error) {
	if _, err := hookOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperator); err != nil {
		return rest.Reply[contract.WebhookWithSecret]{}, err
	}
	overlap := defaultSecretOverlap
	if seconds, err := in.Body.OverlapSeconds.Get(); err == nil {
		overlap = time.Duration(seconds) * time.Second
	}
	w, secret, until, err := s.Hooks.Rotate(ctx, tx, in.Caller.Account.ID, in.Params.ID, overlap)
	return s.withSecret(w, secret, until), err
}

func (s *Webhooks) enableWebhook(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Webhook], error) {
	if _, err := hookOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperator); err != nil {
		return rest.Reply[contract.Webhook]{}, err
	}
	w, err := tx.Operations().EditWebhook(ctx, in.Caller.Account.ID, in.Params.ID, func(w *stoa.Webhook) error {
		webhook.Enable(w, in.Caller.Key, tx.Now)
		return nil
	})
	return s.webhookReply(w), err
}

func (s *Webhooks) recoverWebhook(ctx context.Context, in rest.Request[byID, contract.RecoverWebhook]) (rest.Reply[contract.WebhookRecovery], error) {
	since, until := in.Body.Since.Time(), time.Now()
	if t, err := in.Body.Until.Get(); err == nil {
		until = t.Time()
	}
	if !since.Before(until) {
		return rest.Reply[contract.WebhookRecovery]{}, stoa.Errorf(stoa.CodeInvalidValue, `"since" must be before "until".`).At("since")
	}
	if _, err := store.Read(ctx, s.Store, func(tx *store.Tx) (stoa.Webhook, error) {
		return hookOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperator)
	}); err != nil {
		return rest.Reply[contract.WebhookRecovery]{}, err
	}
	n, err := s.Hooks.Recover(ctx, in.Caller.Account.ID, in.Params.ID, since, until)
	return rest.Reply[contract.WebhookRecovery]{Body: contract.WebhookRecovery{Object: "webhook.recovery", Recovered: int64(n)}}, err
}

func (s *Webhooks) listDeliveries(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.ListDeliveriesParams], rest.None]) (rest.Reply[rest.Page[contract.DeliverySummary]], error) {
	q, accountID := in.Params.Query, in.Caller.Account.ID
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "deliveries", accountID, in.Params.ID, q.Status, q.Type)
	w, err := hookOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperatorRead)
	if err != nil {
		return rest.Reply[rest.Page[contract.DeliverySummary]]{}, err
	}
	filter := store.DeliveryFilter{Status: store.DeliveryStatus(q.Status), Type: q.Type}
	list, next, err := tx.Operations().Deliveries(ctx, accountID, in.Params.ID, filter, p.Page)
	readable := s.Hooks.Readable(w)
	return rest.PageTo(p, list, next, err, func(d store.Delivery) contract.DeliverySummary { return contractSummary(d, readable) })
}

func (s *Webhooks) getDelivery(ctx context.Context, tx *store.Tx, in rest.Request[byDeliveryID, rest.None]) (rest.Reply[contract.Delivery], error) {
	accountID, q := in.Caller.Account.ID, in.Params
	w, err := hookOf(ctx, tx, in.Caller, q.ID, stoa.ScopeOperatorRead)
	if err != nil {
		return rest.Reply[contract.Delivery]{}, err
	}
	d, err := tx.Operations().Delivery(ctx, accountID, q.ID, q.DeliveryID)
	return rest.Reply[contract.Delivery]{Body: contractDelivery(d, s.Hooks.Readable(w))}, err
}

func (s *Webhooks) redeliver(ctx context.Context, tx *store.Tx, in rest.Request[byDeliveryID, rest.None]) (rest.Reply[contract.Delivery], error) {
	if _, err := hookOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperator); err != nil {
		return rest.Reply[contract.Delivery]{}, err
	}
	d, err := s.Hooks.Redeliver(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.DeliveryID)
	return accepted(d), err
}

const (
	hookEnabled    = "enabled"
	hookDisabled   = "disabled"
	hookUnreadable = "secret_unreadable"
)

func (s *Webhooks) contractWebhook(w stoa.Webhook) contract.Webhook {
	status, low, scope := hookEnabled, w.CreditsLow, scopeAccount
	if w.Service {
		scope = scopeService
	}
	switch {
	case w.Disabled != "":
		status = hookDisabled
	case !s.Hooks.Readable(w):
		status = hookUnreadable
	}
	if low == 0 {
		low = webhook.DefaultCreditsLow
	}
	return contract.Webhook{
		ID: w.ID, Object: "webhook", URL: nullIfZero(w.URL), Scope: scope, Events: append([]string{}, w.Events...), SpaceIds: append([]string{}, w.SpaceIDs...),
		Description: nullIfZero(w.Description), CreditsLowMicro: int64(low), Status: status, DisabledReason: nullIfZero(w.Disabled),
		FailingSince: nullIfNever(w.FailingSince), FailedDeliveries: int64(w.Failed), LastSuccessAt: nullIfNever(w.LastSuccessAt),
		CreatedAt: contract.Time(w.CreatedAt), UpdatedAt: contract.Time(w.UpdatedAt),
	}
}

// contractSummary returns a delivery for a reply. readable means that its webhook's
// secret can be decrypted; otherwise the delivery waits.
func contractSummary(d store.Delivery, readable bool) contract.DeliverySummary {
	c := contract.DeliverySummary{
		ID: d.ID, Object: "delivery", WebhookID: d.WebhookID, EventID: d.EventID, Type: d.Type, Status: string(d.Status), AttemptCount: int64(d.Attempts),
		LastStatus: nullable.NewNullNullable[int](), LastError: nullable.NewNullNullable[string](), NextAttemptAt: nullable.NewNullNullable[contract.Time](),
		CreatedAt: contract.Time(d.CreatedAt), FinishedAt: nullIfNever(d.FinishedAt),
	}
	if d.Status == store.DeliveryPending {
		if c.NextAttemptAt = nullIfNever(d.DueAt); !readable {
			c.Status, c.NextAttemptAt = string(store.DeliveryHeld), nullIfNever(time.Time{})
		}
	}
	if n := len(d.Log); n > 0 {
		c.LastStatus, c.LastError = nullIfZero(d.Log[n-1].Status), nullIfZero(d.Log[n-1].Error)
	}
	return c
}

func contractDelivery(d store.Delivery, readable bool) contract.Delivery {
	out := extend[contract.Delivery](contractSummary(d, readable))
	out.Body, out.Attempts = d.Body, make([]contract.DeliveryAttempt, 0, len(d.Log))
	for _, a := range d.Log {
		out.Attempts = append(out.Attempts, contract.DeliveryAttempt{
			Number: int64(a.Number), At: contract.Time(a.At), Milliseconds: a.Millis, Status: nullIfZero(a.Status), Error: nullIfZero(a.Error), Reply: nullIfZero(a.Reply),
		})
	}
	return out
}
