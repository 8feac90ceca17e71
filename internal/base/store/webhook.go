package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// MaxWebhooks is the maximum number of webhooks of an account.
const MaxWebhooks = 20

var webhooks = newTable[stoa.Webhook]("webhooks")

// words returns the form of a list in the columns events and spaces.
func words(list []string) string {
	switch {
	case len(list) == 0:
		return ""
	case len(list) == 1 && list[0] == "*":
		return "*"
	}
	return " " + strings.Join(list, " ") + " "
}

// marks are the letters of marks.
const marks = "0123456789abcdefghijklmnopqrstuv"

// InsertWebhook adds a webhook. Times and revision are set, and the id if it is empty.
func (tx Operations) InsertWebhook(ctx context.Context, w stoa.Webhook) (stoa.Webhook, error) {
	if err := tx.within(ctx, MaxWebhooks, "", w.AccountID, w.AccountID, "webhooks in this account", `webhooks WHERE account_id = $2`); err != nil {
		return w, err
	}
	used, err := tx.texts(ctx, `SELECT mark FROM webhooks WHERE account_id = $1 LIMIT $2`, w.AccountID, MaxWebhooks)
	if err != nil {
		return w, err
	}
	taken := map[string]bool{}
	for _, m := range used {
		taken[m] = true
	}
	mark := ""
	for i := range MaxWebhooks + 1 {
		if mark = "0" + string(marks[i]); !taken[mark] {
			break
		}
	}
	if w.ID == "" {
		w.ID = stoa.NewID("whk")
	}
	w.CreatedAt, w.UpdatedAt, w.EnabledAt, w.Revision = tx.Now, tx.Now, tx.Now, 1
	_, err = webhooks.insert(ctx, tx.Tx, &w, "", "mark", mark)
	return w, err
}

// Webhook returns a webhook of an account, or CodeWebhookNotFound.
func (tx Operations) Webhook(ctx context.Context, accountID, id string) (stoa.Webhook, error) {
	return tx.webhook(ctx, accountID, id, "")
}

func (tx Operations) webhook(ctx context.Context, accountID, id, lock string) (stoa.Webhook, error) {
	missing := stoa.Errorf(stoa.CodeWebhookNotFound, "There is no such webhook.").At("id")
	return webhooks.one(ctx, tx.Tx, missing, `account_id = $1 AND id = $2`+lock, accountID, id)
}

// Webhooks lists the webhooks of an account, with service also those that receive the alerts of
// the service. A text in the address, the description or the id narrows it (see [Setup.Agents]).
func (tx Operations) Webhooks(ctx context.Context, accountID string, service bool, text string, p Page) ([]stoa.Webhook, Cursor, error) {
	return webhooks.search(ctx, tx.Tx, p, filtered{from: `FROM webhooks WHERE account_id = $1 AND service <= $2`, args: []any{accountID, db.Bit(service)}, search: textSearch{text, []string{"url", "description", "id"}}})
}

// EditWebhook lets fn change a webhook and writes the result. The row is locked while fn
// runs. If fn fails, its error is returned and nothing is written.
func (tx Operations) EditWebhook(ctx context.Context, accountID, id string, fn func(*stoa.Webhook) error) (stoa.Webhook, error) {
	w, err := tx.webhook(ctx, accountID, id, tx.ForUpdate())
	if err != nil {
		return w, err
	}
	return webhooks.edit(ctx, tx.Tx, accountID, id, w, fn)
}

// DeleteWebhook removes a webhook; its deliveries are removed later, see
// [Operations.PurgeDeliveries]. A missing webhook is not an error.
func (tx Operations) DeleteWebhook(ctx context.Context, accountID, id string) error {
	_, err := tx.Exec(ctx, `DELETE FROM webhooks WHERE account_id = $1 AND id = $2`, accountID, id)
	return err
}

// WebhookDisabledAction is the action, in the audit log, of the service that disables a webhook.
const WebhookDisabledAction = "webhook.disabled"

// DisableWebhooksOf disables at most limit webhooks of a key, and returns their number.
func (tx Operations) DisableWebhooksOf(ctx context.Context, accountID, keyID string, which KeyObjects, limit int) (int, error) {
	return tx.disableOf(ctx, "webhooks", WebhookDisabledAction, accountID, keyID, which, limit)
}

// disableAlertsOf disables the webhooks of a key that receive the alerts of the service.
func (tx Operations) disableAlertsOf(ctx context.Context, k stoa.Key) error {
	ids, err := tx.texts(ctx, `UPDATE webhooks SET disabled = $3, revision = revision + 1, updated_at = $4
		WHERE account_id = $1 AND id IN (SELECT id FROM webhooks WHERE key_id = $2 AND service = 1 AND disabled = '' LIMIT $5) RETURNING id`,
		k.AccountID, k.ID, stoa.WebhookDisabledScope, db.Micros(tx.Now), MaxWebhooks)
	for _, id := range ids {
		tx.AuditAutomatic(k.AccountID, WebhookDisabledAction, id, stoa.WebhookDisabledScope)
	}
	return err
}

// successNoted is the precision of the time of a webhook's newest success.
const successNoted = time.Minute

// WebhookSucceeded records an attempt that succeeded.
func (tx Operations) WebhookSucceeded(ctx context.Context, accountID, id string, at time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE webhooks SET last_success_at = $3, failing_since = 0, failed = 0 WHERE account_id = $1 AND id = $2
		AND (failing_since > 0 OR failed > 0 OR last_success_at <= $4)`, accountID, id, db.Micros(at), db.Micros(at.Add(-successNoted)))
	return err
}

// WebhookFailed records an attempt that failed. givenUp: it was the last of a delivery.
// It returns the webhook as it is then, locked until the commit, and whether there is
// one.
func (tx Operations) WebhookFailed(ctx context.Context, accountID, id string, at time.Time, givenUp bool) (stoa.Webhook, bool, error) {
	w, err := tx.webhook(ctx, accountID, id, tx.ForUpdate())
	if stoa.CodeOf(err) == stoa.CodeWebhookNotFound {
		return w, false, nil
	}
	if err != nil {
		return w, false, err
	}
	if w.FailingSince.IsZero() {
		w.FailingSince = at
	}
	if givenUp {
		w.Failed++
	}
	_, err = tx.Exec(ctx, `UPDATE webhooks SET failing_since = $3, failed = $4 WHERE account_id = $1 AND id = $2`,
		accountID, id, db.Micros(w.FailingSince), w.Failed)
	return w, true, err
}

// WebhooksFailing lists webhooks that are not disabled and whose attempts have failed since before a time,
// after an account and an id.
func (tx Operations) WebhooksFailing(ctx context.Context, before time.Time, after [2]string, limit int) ([]stoa.Webhook, error) {
	return list(ctx, tx.Tx, webhooks.scan, `SELECT `+webhooks.columns+` FROM webhooks WHERE failing_since > 0 AND failing_since <= $1 AND disabled = ''
		AND (account_id, id) > ($2, $3) ORDER BY account_id, id LIMIT $4`, db.Micros(before), after[0], after[1], limit)
}

// DisableWebhook disables a webhook for a reason. It reports whether it was not before.
func (tx Operations) DisableWebhook(ctx context.Context, accountID, id, reason string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE webhooks SET disabled = $3, revision = revision + 1, updated_at = $4 WHERE account_id = $1 AND id = $2 AND disabled = ''`,
		accountID, id, reason, db.Micros(tx.Now))
	return n > 0, err
}

// A CreditsWatch is a webhook that subscribes to the end of its account's credits.
type CreditsWatch struct {
	WebhookID, AccountID string
	Low                  stoa.Credits // 0 means the default
	Unspent              stoa.Credits // unspent credits of the account
}

// CreditsWatches returns enabled webhooks with the credits of their accounts, by their
// ids after one.
func (tx Operations) CreditsWatches(ctx context.Context, after string, limit int) ([]CreditsWatch, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (c CreditsWatch, err error) {
		var balance, leased stoa.Credits
		err = rows.Scan(&c.WebhookID, &c.AccountID, &c.Low, &balance, &leased)
		c.Unspent = balance + leased
		return c, err
	}, `SELECT w.id, w.account_id, w.credits_low, a.balance, `+unspent("a")+` FROM webhooks w JOIN accounts a ON a.id = w.account_id
		WHERE w.id > $1 AND w.disabled = '' AND w.service = 0 AND (w.events = '*' OR w.events LIKE '% credits.%') ORDER BY w.id LIMIT $2`, after, limit)
}

// ExpiringKeys returns keys in force that expire after one time and at or before another,
// of accounts with a webhook that subscribes to it, the earliest expiry first, after a
// position: the time and the id of a key.
func (tx Operations) ExpiringKeys(ctx context.Context, after Cursor, before time.Time, limit int) ([]stoa.Key, error) {
	return list(ctx, tx.Tx, keys.scan, `SELECT `+keys.columns+` FROM keys WHERE expires_at > 0 AND (expires_at, id) > ($1, $2) AND expires_at <= $3 AND revoked_at = 0
		AND `+subscribed("key.expiring")+`
		ORDER BY expires_at, id LIMIT $4`, db.Micros(after.At), after.ID, db.Micros(before), limit)
}

// PausingKeys returns keys that are not revoked, that members created and whose latest sign-in was after one time
// and at or before another, of accounts with a webhook that subscribes to key.pause_soon, the
// earliest sign-in first, after a position: the time and the id of a key.
func (tx Operations) PausingKeys(ctx context.Context, after Cursor, before time.Time, limit int) ([]stoa.Key, error) {
	return list(ctx, tx.Tx, keys.scan, `SELECT `+keys.columns+` FROM keys WHERE member_id <> '' AND kind = '' AND (signed_in_at, id) > ($1, $2) AND signed_in_at <= $3
		AND revoked_at = 0 AND `+subscribed("key.pause_soon")+`
		ORDER BY signed_in_at, id LIMIT $4`, db.Micros(after.At), after.ID, db.Micros(before), limit)
}

// subscribed is a condition on keys: their account has a webhook that subscribes to a type of event.
func subscribed(event string) string {
	return `EXISTS (SELECT 1 FROM webhooks w WHERE w.account_id = keys.account_id AND w.disabled = '' AND w.service = 0 AND (w.events = '*' OR w.events LIKE '% ` + event + ` %'))`
}

// Notice records that an account was notified. It reports whether this is the first time.
func (tx Operations) Notice(ctx context.Context, accountID, name string) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO webhook_notices (account_id, name, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, accountID, name, db.Micros(tx.Now))
	return n > 0, err
}

// Noticed reports whether an account was notified.
func (tx Operations) Noticed(ctx context.Context, accountID, name string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM webhook_notices WHERE account_id = $1 AND name = $2`, []any{accountID, name}, &one)
}

// PurgeNotices removes up to limit notices about keys that were given before a time.
func (tx Operations) PurgeNotices(ctx context.Context, before time.Time, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM webhook_notices WHERE at < $1 AND name LIKE 'key.%' AND (account_id, name) IN
		(SELECT account_id, name FROM webhook_notices WHERE at < $1 AND name LIKE 'key.%' LIMIT $2)`, db.Micros(before), limit)
}

// ForgetNotice allows a notification of an account to be repeated.
func (tx Operations) ForgetNotice(ctx context.Context, accountID, name string) error {
	_, err := tx.Exec(ctx, `DELETE FROM webhook_notices WHERE account_id = $1 AND name = $2`, accountID, name)
	return err
}
