// Package webhook sends events of an account to addresses of its owner: the outbox,
// signatures, and the dispatcher; see
// docs/decisions/0051-store-an-event-and-its-delivery-in-one-row.md.
//
// An event is a row for each subscribed webhook, written in the transaction of its cause
// ([Emit]). The dispatcher sends the rows, and a process that dies leaves them to the next:
// each arrives at least once, under the same id, in no guaranteed order. A failing webhook
// delays no other and never affects the objects of its events. Bodies contain ids and words,
// never texts of callers or models; mails have the beginnings of some, read when they are sent (news.go).
//
// Start at [Emit] for events, at [Hooks] for the operations of callers, at [Dispatcher.Run]
// for sending.
package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
)

// Hooks implements the verbs of webhooks. Store and Vault are required.
type Hooks struct {
	Store *store.Store
	Vault *vault.Vault
	Mail  Mail
}

const secretKind = "webhook"

// maxSecrets is the maximum number of secrets of a webhook, since each adds a signature to every
// request: the current one, and former ones that have not ended.
const maxSecrets = 4

// A Secret is a secret that signs requests, and its end; zero for the current one.
type Secret struct {
	Text  string    `json:"s"`
	Until time.Time `json:"u,omitzero"`
}

func secretRef(w stoa.Webhook) vault.Ref {
	return vault.Ref{AccountID: w.AccountID, ID: w.ID, Kind: secretKind, Version: w.SecretVersion}
}

// sealSecrets stores the secrets of a webhook in its row, under a new version.
func sealSecrets(v *vault.Vault, w *stoa.Webhook, all []Secret) (err error) {
	w.SecretVersion++
	w.Sealed, err = SealSecrets(v, secretRef(*w), all)
	return err
}

// SealSecrets encrypts the secrets of an object.
func SealSecrets(v *vault.Vault, ref vault.Ref, all []Secret) (string, error) {
	text, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	return v.Seal(ref, text)
}

// OpenSecrets returns the secrets of an object that are valid at a time, the current one
// first; [vault.ErrUnreadable] if the key is missing.
func OpenSecrets(v *vault.Vault, ref vault.Ref, sealed string, now time.Time) ([]Secret, error) {
	text, err := v.Open(ref, sealed)
	if err != nil {
		return nil, err
	}
	var all []Secret
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("the secrets of %s: %w", ref.ID, err)
	}
	return slices.DeleteFunc(all, func(s Secret) bool { return !s.Until.IsZero() && !now.Before(s.Until) }), nil
}

// RotateSecrets returns the secrets of an object after text has replaced the current one: the former
// ones end at until at the latest, or immediately if that is now.
func RotateSecrets(v *vault.Vault, ref vault.Ref, sealed, text string, until, now time.Time) []Secret {
	all := []Secret{{Text: text}}
	former, err := OpenSecrets(v, ref, sealed, now)
	if err != nil {
		former = nil // dropped, because nothing can be signed with them any more
	}
	for _, s := range former {
		if s.Until.IsZero() || until.Before(s.Until) {
			s.Until = until
		}
		if until.After(now) && len(all) < maxSecrets {
			all = append(all, s)
		}
	}
	return all
}

// Readable reports whether the secret of a webhook can be decrypted. Otherwise its deliveries wait,
// because a request must be signed.
func (h *Hooks) Readable(w stoa.Webhook) bool {
	_, err := h.Vault.Open(secretRef(w), w.Sealed)
	return err == nil
}

// Create adds a webhook with a new secret, which it returns. If the service has no key for
// secrets, it fails with CodeSecretsKeyMissing.
func (h *Hooks) Create(ctx context.Context, tx *store.Tx, w stoa.Webhook) (stoa.Webhook, string, error) {
	w.ID = stoa.NewID("whk")
	text := NewSecret()
	if err := sealSecrets(h.Vault, &w, []Secret{{Text: text}}); err != nil {
		return w, "", err
	}
	w, err := tx.Operations().InsertWebhook(ctx, w)
	return w, text, err
}

// Rotate replaces the secret of a webhook by a new one, which it returns. Until the former one
// has ended requests are signed with both, so that receivers can change theirs in the meantime.
func (h *Hooks) Rotate(ctx context.Context, tx *store.Tx, accountID, id string, overlap time.Duration) (w stoa.Webhook, text string, until time.Time, err error) {
	text, until = NewSecret(), tx.Now.Add(overlap)
	w, err = tx.Operations().EditWebhook(ctx, accountID, id, func(w *stoa.Webhook) error {
		return sealSecrets(h.Vault, w, RotateSecrets(h.Vault, secretRef(*w), w.Sealed, text, until, tx.Now))
	})
	return w, text, until, err
}

// Enable makes a webhook receive new events again. [Hooks.Recover] sends those held in the meantime.
func Enable(w *stoa.Webhook, by stoa.Key, now time.Time) {
	if w.Disabled == "" {
		return
	}
	w.Disabled, w.KeyID, w.EnabledAt = "", by.ID, now
	w.FailingSince, w.Failed = time.Time{}, 0
}

// Delete removes a webhook with its deliveries.
func (h *Hooks) Delete(ctx context.Context, tx *store.Tx, accountID, id string) error {
	for _, kind := range []string{CreditsLow, CreditsExhausted} {
		if err := tx.Operations().ForgetNotice(ctx, accountID, notice(kind, id)); err != nil {
			return err
		}
	}
	return tx.Operations().DeleteWebhook(ctx, accountID, id)
}

type testData struct {
	AccountID string `json:"accountId"`
	WebhookID string `json:"webhookId"`
}

// Test adds a delivery of the event webhook.test, which is sent once, even while the webhook is disabled.
func (h *Hooks) Test(ctx context.Context, tx *store.Tx, accountID, id string) (store.Delivery, error) {
	w, err := tx.Operations().Webhook(ctx, accountID, id)
	if err != nil {
		return store.Delivery{}, err
	}
	event, err := emit(ctx, tx, Event{AccountID: accountID, Type: test, Data: testData{accountID, id}, to: id, once: true})
	if err != nil {
		return store.Delivery{}, err
	}
	return tx.Operations().DeliveryOf(ctx, w.AccountID, w.ID, event)
}

func sendable(w stoa.Webhook) error {
	switch {
	case w.URL == "":
		return stoa.Errorf(stoa.CodeWebhookDisabled, "This webhook has no address. Set its \"url\" first.")
	case w.Disabled != "":
		return stoa.Errorf(stoa.CodeWebhookDisabled, "This webhook is disabled (%s). Enable it first.", w.Disabled)
	}
	return nil
}

// Redeliver sends a delivery again, under the same event id, regardless of its state. A
// delivery that waits for its next attempt is sent immediately.
func (h *Hooks) Redeliver(ctx context.Context, tx *store.Tx, accountID, webhookID, id string) (store.Delivery, error) {
	w, err := tx.Operations().Webhook(ctx, accountID, webhookID)
	if err != nil {
		return store.Delivery{}, err
	}
	d, err := tx.Operations().LockDelivery(ctx, accountID, webhookID, id)
	if err == nil {
		err = sendable(w)
	}
	if err != nil || d.Lease != "" { // unchanged, because it is being sent
		return d, err
	}
	d.Status, d.DueAt, d.Round, d.FirstAt, d.FinishedAt = store.DeliveryPending, tx.Now, 0, time.Time{}, time.Time{}
	_, err = tx.Operations().SaveDelivery(ctx, d, "")
	if err == nil {
		tx.Operations().WakeOutbox()
	}
	return d, err
}

const recoverBatch = 500 // deliveries per transaction, so that other writers wait only briefly

// Recover sends all failed or held deliveries of events from since (inclusive) until before until, and
// returns their number. It commits each batch separately; after an error it may be repeated, since
// queued deliveries are skipped.
func (h *Hooks) Recover(ctx context.Context, accountID, webhookID string, since, until time.Time) (total int, err error) {
	var after store.Cursor
	for {
		var next store.Cursor
		var n int
		err := h.Store.Write(ctx, func(tx *store.Tx) error {
			w, err := tx.Operations().Webhook(ctx, accountID, webhookID)
			if err == nil {
				err = sendable(w)
			}
			if err != nil {
				return err
			}
			next, n, err = tx.Operations().RecoverDeliveries(ctx, accountID, webhookID, since, until, after, recoverBatch)
			tx.Operations().WakeOutbox()
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
