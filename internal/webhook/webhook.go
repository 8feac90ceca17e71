// Package webhook sends what happens in an account to addresses of its owner: the
// outbox, signatures, and the dispatcher; see docs/decisions/0051-store-an-event-and-its-delivery-in-one-row.md.
//
// An event is a row for each webhook that wants it, written in the transaction of what
// happened ([Emit]). The dispatcher sends the rows, and a process that dies leaves them
// to the next: each arrives at least once, under the same id, in no promised order. A
// webhook that fails holds up no other and never touches what its events are about.
// Bodies have ids and words, never texts of callers or models.
//
// Start at [Emit] for what happens, at [Hooks] for what callers do, at
// [Dispatcher.Run] for sending.
package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/vault"
)

// Hooks are the verbs of webhooks. The zero value of no member is useful.
type Hooks struct {
	Store *store.Store
	Vault *vault.Vault
}

// secretKind is the kind of the secrets of webhooks in the vault.
const secretKind = "webhook"

// A secret of a webhook, and when it ends; zero: it is the current one.
type secret struct {
	Text  string    `json:"s"`
	Until time.Time `json:"u,omitzero"`
}

// maxSecrets is how many secrets a webhook has at a time: the current one, and former
// ones that have not ended.
const maxSecrets = 4

// secretRef returns what the secrets of a webhook are bound to.
func secretRef(w stoa.Webhook) vault.Ref {
	return vault.Ref{AccountID: w.AccountID, ID: w.ID, Kind: secretKind, Version: w.SecretVersion}
}

// sealSecrets puts the secrets of a webhook into its row, under a new version.
func sealSecrets(v *vault.Vault, w *stoa.Webhook, all []secret) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	w.SecretVersion++
	w.Sealed, err = v.Seal(secretRef(*w), text)
	return err
}

// openSecrets returns the secrets of a webhook that are in force at a time, the current one
// first; [vault.ErrUnreadable] where the key is missing.
func openSecrets(v *vault.Vault, w stoa.Webhook, now time.Time) ([]secret, error) {
	text, err := v.Open(secretRef(w), w.Sealed)
	if err != nil {
		return nil, err
	}
	var all []secret
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("the secrets of webhook %s: %w", w.ID, err)
	}
	return slices.DeleteFunc(all, func(s secret) bool { return !s.Until.IsZero() && !now.Before(s.Until) }), nil
}

// Readable reports whether the secret of a webhook can be read, without which nothing is
// sent.
func (h *Hooks) Readable(w stoa.Webhook) bool {
	_, err := h.Vault.Open(secretRef(w), w.Sealed)
	return err == nil
}

// Create adds a webhook with a new secret, which it returns. A service without a key for
// secrets is CodeSecretsKeyMissing.
func (h *Hooks) Create(ctx context.Context, tx *store.Tx, w stoa.Webhook) (stoa.Webhook, string, error) {
	w.ID = stoa.NewID("whk")
	text := newSecret()
	if err := sealSecrets(h.Vault, &w, []secret{{Text: text}}); err != nil {
		return w, "", err
	}
	w, err := tx.InsertWebhook(ctx, w)
	return w, text, err
}

// Rotate gives a webhook a new secret, which it returns. Until the former one has ended
// requests are signed with both.
func (h *Hooks) Rotate(ctx context.Context, tx *store.Tx, accountID, id string, overlap time.Duration) (w stoa.Webhook, text string, until time.Time, err error) {
	text, until = newSecret(), tx.Now.Add(overlap)
	w, err = tx.EditWebhook(ctx, accountID, id, func(w *stoa.Webhook) error {
		all := []secret{{Text: text}}
		former, err := openSecrets(h.Vault, *w, tx.Now)
		if err != nil {
			former = nil // nothing can be signed with them any more
		}
		for _, s := range former {
			if s.Until.IsZero() || until.Before(s.Until) {
				s.Until = until
			}
			if overlap > 0 && len(all) < maxSecrets {
				all = append(all, s)
			}
		}
		return sealSecrets(h.Vault, w, all)
	})
	return w, text, until, err
}

// Enable has a webhook sent again what happens from now on. What was held meanwhile is
// sent by [Hooks.Recover].
func Enable(w *stoa.Webhook, by stoa.Key, now time.Time) {
	if w.Disabled == "" {
		return
	}
	w.Disabled, w.KeyID, w.EnabledAt = "", by.ID, now
	w.FailingSince, w.Failed = time.Time{}, 0
}

// Delete removes a webhook. Its deliveries go with it.
func (h *Hooks) Delete(ctx context.Context, tx *store.Tx, accountID, id string) error {
	for _, kind := range []string{CreditsLow, CreditsExhausted} {
		if err := tx.ForgetNotice(ctx, accountID, notice(kind, id)); err != nil {
			return err
		}
	}
	return tx.DeleteWebhook(ctx, accountID, id)
}

// testData is the data of a test.
type testData struct {
	AccountID string `json:"accountId"`
	WebhookID string `json:"webhookId"`
}

// Test adds a delivery of the event webhook.test, which is sent once, also while the
// webhook is disabled.
func (h *Hooks) Test(ctx context.Context, tx *store.Tx, accountID, id string) (store.Delivery, error) {
	w, err := tx.Webhook(ctx, accountID, id)
	if err != nil {
		return store.Delivery{}, err
	}
	event, err := emit(ctx, tx, Event{AccountID: accountID, Type: test, Data: testData{accountID, id}, to: id, once: true})
	if err != nil {
		return store.Delivery{}, err
	}
	return tx.DeliveryOf(ctx, w.AccountID, w.ID, event)
}

// sendable returns an error where a webhook sends nothing.
func sendable(w stoa.Webhook) error {
	switch {
	case w.URL == "":
		return stoa.Errorf(stoa.CodeWebhookDisabled, "This webhook has no address. Set its \"url\" first.")
	case w.Disabled != "":
		return stoa.Errorf(stoa.CodeWebhookDisabled, "This webhook is disabled (%s). Enable it first.", w.Disabled)
	}
	return nil
}

// Redeliver has a delivery sent again, under the same id of its event, whatever became
// of it. One that waits for its next attempt is sent at once.
func (h *Hooks) Redeliver(ctx context.Context, tx *store.Tx, accountID, webhookID, id string) (store.Delivery, error) {
	w, err := tx.Webhook(ctx, accountID, webhookID)
	if err != nil {
		return store.Delivery{}, err
	}
	d, err := tx.LockDelivery(ctx, accountID, webhookID, id)
	if err == nil {
		err = sendable(w)
	}
	if err != nil || d.Lease != "" { // it is being sent
		return d, err
	}
	d.Status, d.DueAt, d.Round, d.FirstAt, d.FinishedAt = store.DeliveryPending, tx.Now, 0, time.Time{}, time.Time{}
	_, err = tx.SaveDelivery(ctx, d, "")
	if err == nil {
		tx.WakeOutbox()
	}
	return d, err
}

// recoverBatch is how many deliveries one transaction looks at.
const recoverBatch = 500

// Recover has all deliveries sent that failed or were held, of events from since until
// before until. It returns how many; each batch is committed for itself, and it may be
// repeated.
func (h *Hooks) Recover(ctx context.Context, accountID, webhookID string, since, until time.Time) (total int, err error) {
	var after store.Cursor
	for {
		var next store.Cursor
		var n int
		err := h.Store.Write(ctx, func(tx *store.Tx) error {
			w, err := tx.Webhook(ctx, accountID, webhookID)
			if err == nil {
				err = sendable(w)
			}
			if err != nil {
				return err
			}
			next, n, err = tx.RecoverDeliveries(ctx, accountID, webhookID, since, until, after, recoverBatch)
			tx.WakeOutbox()
			return err
		})
		if err != nil {
			return total, err
		}
		if total += n; next == (store.Cursor{}) {
			return total, nil
		}
		after = next
	}
}
