package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A Delivery is an event for one webhook.
type Delivery struct {
	ID         string         `db:"id"`
	AccountID  string         `db:"account_id"`
	WebhookID  string         `db:"webhook_id"`
	EventID    string         `db:"event_id"`
	Type       string         `db:"type"`
	Body       string         `db:"body"` // the signed and sent body
	Status     DeliveryStatus `db:"status"`
	Once       bool           `db:"once"`         // a test: it is sent once
	DueAt      time.Time      `db:"due_at"`       // time of the next attempt of a pending delivery
	Lease      string         `db:"lease"`        // the current sender; may be empty
	Round      int            `db:"round"`        // number of attempts since it was queued
	Attempts   int            `db:"attempts"`     // number of all attempts
	Log        []Attempt      `db:"log,optional"` // the newest attempts, oldest first
	FirstAt    time.Time      `db:"first_at"`     // time of the first attempt of the round; zero before it
	FinishedAt time.Time      `db:"finished_at"`  // zero until then
	CreatedAt  time.Time      `db:"created_at"`   // time of the event
}

var deliveries = newTable[Delivery]("deliveries")

// A DeliveryStatus is the progress of a delivery.
type DeliveryStatus string

// The statuses of a delivery.
const (
	DeliveryPending   DeliveryStatus = "pending"
	DeliveryDelivered DeliveryStatus = "delivered"
	DeliveryFailed    DeliveryStatus = "failed" // given up
	DeliveryHeld      DeliveryStatus = "held"   // while the webhook is disabled or has no address
)

// An Attempt is one request of a delivery.
type Attempt struct {
	Number int       `json:"n"`
	At     time.Time `json:"at"`
	Millis int64     `json:"ms"`
	Status int       `json:"status,omitzero"` // status of the reply; 0 if none
	Error  string    `json:"error,omitzero"`  // kind of failure; empty on success
	Reply  string    `json:"reply,omitzero"`  // beginning of the body of the reply
}

// A NewEvent is an event of an account for its webhooks.
type NewEvent struct {
	ID, AccountID, Type string
	Data                any    // the member data of the body that is sent
	SpaceID             string // the place of the event; if AgentID is empty too, the account
	AgentID             string // the agent in whose space it happened, if SpaceID is empty
	To                  string // the only webhook that receives it; empty means all subscribers
	Except              string // a webhook that does not receive it
	Service             bool   // an alert of the service, for the webhooks that receive these
	Once                bool   // a test: To receives it once, regardless of its subscriptions and even if it is disabled
}

// eventTime is the format of times in events.
const eventTime = "2006-01-02T15:04:05.000Z07:00"

// EventTime returns a time in the form of events: in UTC, with milliseconds.
func EventTime(t time.Time) string { return t.UTC().Format(eventTime) }

// InsertEvent adds a delivery of an event for each webhook of its account that subscribes to it. It
// is one INSERT … SELECT, so that accounts without such a webhook pay for one index lookup only.
func (tx Operations) InsertEvent(ctx context.Context, e NewEvent) error {
	body, err := jsonText(struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Timestamp string `json:"timestamp"`
		Data      any    `json:"data"`
	}{e.ID, e.Type, EventTime(tx.Now), e.Data})
	if err != nil {
		return err
	}
	args := []any{
		e.AccountID, e.ID, e.Type, body, db.Micros(tx.Now), `% ` + e.Type + ` %`, e.SpaceID, e.AgentID, e.To, e.Except, db.Bit(e.Once), db.Bit(e.Service),
	}
	if tx.Postgres() { // whether there were any is not worth a round trip
		if err := tx.Later(ctx, insertEvent, args...); err != nil {
			return err
		}
	} else if n, err := tx.Exec(ctx, insertEvent, args...); err != nil || n == 0 {
		return err
	}
	tx.WakeOutbox()
	return nil
}

// WakeOutbox makes the dispatcher of this process poll for deliveries after the commit, because it
// would otherwise find them only at its next interval.
func (tx Operations) WakeOutbox() {
	outbox := tx.s.outbox
	tx.AfterCommit(func() {
		select {
		case outbox <- struct{}{}:
		default:
		}
	})
}

// insertEvent composes the id of a delivery from that of the event and the mark of the webhook, so
// that one statement creates all of them.
const insertEvent = `INSERT INTO deliveries (id, account_id, webhook_id, event_id, type, body, status, once, due_at, lease, round, attempts, log,
		first_at, finished_at, created_at)
	SELECT 'dlv_' || substr(CAST($2 AS TEXT), 5, 24) || w.mark, w.account_id, w.id, CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT),
		CASE WHEN w.url = '' OR w.disabled <> '' AND CAST($11 AS BIGINT) = 0 THEN 'held' ELSE 'pending' END,
		CAST($11 AS BIGINT), CAST($5 AS BIGINT), '', 0, 0, '', 0, 0, CAST($5 AS BIGINT)
	FROM webhooks w WHERE w.account_id = $1
		AND (CAST($11 AS BIGINT) = 1 OR w.service = CAST($12 AS BIGINT) AND (w.events = '*' AND CAST($3 AS TEXT) <> '` + AuditRecorded + `' OR w.events LIKE CAST($6 AS TEXT)))
		AND (w.spaces = '' OR CAST($7 AS TEXT) = '' AND CAST($8 AS TEXT) = '' OR w.spaces LIKE '% ' ||
			COALESCE(NULLIF(CAST($7 AS TEXT), ''), (SELECT a.space_id FROM agents a WHERE a.account_id = $1 AND a.id = $8), '') || ' %')
		AND (CAST($9 AS TEXT) = '' OR w.id = $9) AND w.id <> CAST($10 AS TEXT)`

// Delivery returns a delivery of an account's webhook, or CodeDeliveryNotFound.
func (tx Operations) Delivery(ctx context.Context, accountID, webhookID, id string) (Delivery, error) {
	return tx.delivery(ctx, accountID, webhookID, id, "")
}

// LockDelivery is [Operations.Delivery], and locks the row until the commit.
func (tx Operations) LockDelivery(ctx context.Context, accountID, webhookID, id string) (Delivery, error) {
	return tx.delivery(ctx, accountID, webhookID, id, tx.ForUpdate())
}

func (tx Operations) delivery(ctx context.Context, accountID, webhookID, id, lock string) (Delivery, error) {
	missing := stoa.Errorf(stoa.CodeDeliveryNotFound, "There is no such delivery of this webhook, or it is no longer kept.").At("deliveryId")
	return deliveries.one(ctx, tx.Tx, missing, `account_id = $1 AND webhook_id = $2 AND id = $3`+lock, accountID, webhookID, id)
}

// DeliveryOf returns the delivery of an event that happened just now to an account's
// webhook.
func (tx Operations) DeliveryOf(ctx context.Context, accountID, webhookID, eventID string) (Delivery, error) {
	return deliveries.one(ctx, tx.Tx, fmt.Errorf("store: the event %s has no delivery", eventID), `account_id = $1 AND webhook_id = $2 AND created_at = $3 AND event_id = $4`,
		accountID, webhookID, db.Micros(tx.Now), eventID)
}

// A DeliveryFilter narrows a list of deliveries. Empty members match all.
type DeliveryFilter struct {
	Status DeliveryStatus
	Type   string
}

// Deliveries lists the deliveries of an account's webhook, and returns the cursor of the next page,
// or the zero cursor. With a filter a page may be short or empty although there is a next one,
// because it reads at most 2,000 deliveries.
func (tx Operations) Deliveries(ctx context.Context, accountID, webhookID string, f DeliveryFilter, p Page) ([]Delivery, Cursor, error) {
	q := filtered{
		from: `FROM deliveries WHERE account_id = $1 AND webhook_id = $2`, args: []any{accountID, webhookID},
		rest: []string{"status", string(f.Status), "type", f.Type},
	}
	return filteredPage(ctx, tx.Tx, p, q, deliveries.scan, func(d Delivery) Cursor { return Cursor{At: d.CreatedAt, ID: d.ID} },
		`SELECT `+deliveries.columns+` FROM (`, `) d`)
}

// A DueWebhook is a webhook with pending deliveries, and the time of the next claim.
type DueWebhook struct {
	ID, AccountID string
	DueAt         time.Time
}

// maxDueWebhooks is the maximum number of webhooks of a poll, so that its memory stays bounded.
const maxDueWebhooks = 10_000

// DueWebhooks returns the webhooks of all accounts that have pending deliveries, by id. The query
// skips from one webhook to the next in an index, so that a long queue does not slow the poll.
func (tx Operations) DueWebhooks(ctx context.Context) ([]DueWebhook, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (w DueWebhook, err error) {
		var due int64
		err = rows.Scan(&w.ID, &w.AccountID, &due)
		w.DueAt = db.Time(due)
		return w, err
	}, `WITH RECURSIVE w (id) AS (
			SELECT (SELECT webhook_id FROM deliveries WHERE status = 'pending' ORDER BY webhook_id LIMIT 1)
			UNION ALL
			SELECT (SELECT d.webhook_id FROM deliveries d WHERE d.status = 'pending' AND d.webhook_id > w.id ORDER BY d.webhook_id LIMIT 1)
				FROM w WHERE w.id IS NOT NULL
		) SELECT w.id, COALESCE((SELECT h.account_id FROM webhooks h WHERE h.id = w.id), ''),
			(SELECT d.due_at FROM deliveries d WHERE d.status = 'pending' AND d.webhook_id = w.id ORDER BY d.due_at LIMIT 1)
		FROM w WHERE w.id IS NOT NULL LIMIT $1`, maxDueWebhooks)
}

// AnyWebhook returns a webhook of any account, and whether it exists.
func (tx Operations) AnyWebhook(ctx context.Context, id string) (stoa.Webhook, bool, error) {
	return webhooks.first(ctx, tx.Tx, `id = $1`, id)
}

// ClaimDeliveries returns at most limit deliveries of a webhook that are due at now, the oldest due
// time first. No other sender claims them until the lease ends, so that each is sent once unless a
// sender dies.
func (tx Operations) ClaimDeliveries(ctx context.Context, webhookID, lease string, now, until time.Time, limit int) ([]Delivery, error) {
	all, err := list(ctx, tx.Tx, deliveries.scan, `SELECT `+deliveries.columns+` FROM deliveries WHERE webhook_id = $1 AND status = 'pending' AND due_at <= $2
		ORDER BY due_at LIMIT $3`+tx.ForUpdateUnlocked(), webhookID, db.Micros(now), limit)
	if err != nil {
		return nil, err
	}
	for i := range all {
		d := &all[i]
		d.Lease, d.DueAt = lease, until
		if err := tx.Later(ctx, `UPDATE deliveries SET lease = $3, due_at = $4 WHERE account_id = $1 AND id = $2`, d.AccountID, d.ID, lease, db.Micros(until)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// SaveDelivery writes the progress of a delivery, if the row still has the given lease. It reports
// whether it did: otherwise another sender has claimed the delivery.
func (tx Operations) SaveDelivery(ctx context.Context, d Delivery, lease string) (bool, error) {
	n, err := deliveries.change(ctx, tx.Tx, &d, `status due_at lease round attempts log first_at finished_at`, `account_id = $1 AND id = $2 AND lease = $3`, d.AccountID, d.ID, lease)
	return n > 0, err
}

// FreeDeliveries frees at most limit deliveries that earlier processes were sending, so that they
// can be claimed immediately. No other process may have the store open, since it may be sending them.
func (tx Operations) FreeDeliveries(ctx context.Context, limit int) (int64, error) {
	return tx.Exec(ctx, `UPDATE deliveries SET lease = '', due_at = $1 WHERE id IN
		(SELECT id FROM deliveries WHERE status = 'pending' AND lease <> '' LIMIT $2)`, db.Micros(tx.Now), limit)
}

// HoldDeliveries holds at most limit pending deliveries of a disabled webhook, except tests
// and those in progress, and returns their number.
func (tx Operations) HoldDeliveries(ctx context.Context, webhookID string, limit int) (int64, error) {
	return tx.Exec(ctx, `UPDATE deliveries SET status = 'held' WHERE id IN
		(SELECT id FROM deliveries WHERE webhook_id = $1 AND status = 'pending' AND once = 0 AND lease = '' LIMIT $2) AND status = 'pending' AND lease = ''`, webhookID, limit)
}

// RecoverDeliveries queues failed and held deliveries of an account's webhook again, for
// events from since until before until. It reads at most limit deliveries after the given
// position. It returns the position after them, zero at the end, and the number of queued
// ones.
func (tx Operations) RecoverDeliveries(ctx context.Context, accountID, webhookID string, since, until time.Time, after Cursor, limit int) (Cursor, int, error) {
	type row struct {
		id, status string
		at         int64
	}
	rows, err := list(ctx, tx.Tx, func(rows *sql.Rows) (r row, err error) {
		err = rows.Scan(&r.id, &r.status, &r.at)
		return r, err
	}, `SELECT id, status, created_at FROM deliveries WHERE account_id = $1 AND webhook_id = $2 AND created_at >= $3 AND created_at < $4
		AND (created_at, id) > ($5, $6) ORDER BY created_at, id LIMIT $7`,
		accountID, webhookID, db.Micros(since), db.Micros(until), db.Micros(after.At), after.ID, limit)
	if err != nil {
		return Cursor{}, 0, err
	}
	n := 0
	for _, r := range rows {
		if status := DeliveryStatus(r.status); status != DeliveryFailed && status != DeliveryHeld {
			continue
		}
		changed, err := tx.Exec(ctx, `UPDATE deliveries SET status = 'pending', due_at = $3, round = 0, first_at = 0, finished_at = 0
			WHERE account_id = $1 AND id = $2 AND status IN ('failed', 'held')`, accountID, r.id, db.Micros(tx.Now))
		if err != nil {
			return Cursor{}, 0, err
		}
		n += int(changed)
	}
	if len(rows) < limit {
		return Cursor{}, n, nil
	}
	last := rows[len(rows)-1]
	return Cursor{At: db.Time(last.at), ID: last.id}, n, nil
}

// The time for which deliveries are kept after their event, and the maximum number per webhook.
// Pending ones are not counted, because they end within two days.
const (
	DeliveredKept  = 7 * 24 * time.Hour
	DeliveriesKept = 30 * 24 * time.Hour // longer, because failed and held ones can be queued again
	MaxDeliveries  = 100_000             // the oldest are removed
)

// AccountsWithDeliveries returns accounts with deliveries, after one.
func (tx Operations) AccountsWithDeliveries(ctx context.Context, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT DISTINCT account_id FROM deliveries WHERE account_id > $1 ORDER BY account_id LIMIT $2`, after, limit)
}

// PurgeDeliveries removes up to limit deliveries of an account that are expired, exceed the
// maximum number, or belong to deleted webhooks. It returns their number.
func (tx Operations) PurgeDeliveries(ctx context.Context, accountID string, limit int) (total int64, err error) {
	after := ""
	for {
		var id, exists string
		found, err := tx.Get(ctx, `SELECT d.webhook_id, COALESCE((SELECT w.id FROM webhooks w WHERE w.id = d.webhook_id), '') FROM deliveries d
			WHERE d.account_id = $1 AND d.webhook_id > $2 ORDER BY d.webhook_id LIMIT 1`, []any{accountID, after}, &id, &exists)
		if err != nil || !found {
			return total, err
		}
		n, err := tx.purgeDeliveries(ctx, accountID, id, exists == "", limit-int(total))
		if total += n; err != nil || total >= int64(limit) {
			return total, err
		}
		after = id
	}
}

func (tx Operations) purgeDeliveries(ctx context.Context, accountID, webhookID string, gone bool, limit int) (int64, error) {
	if gone {
		return tx.Exec(ctx, `DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE account_id = $1 AND webhook_id = $2 LIMIT $3)`, accountID, webhookID, limit)
	}
	var beyond int64 // the newest that is one too many
	if _, err := tx.Get(ctx, `SELECT created_at FROM deliveries WHERE account_id = $1 AND webhook_id = $2 ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET $3`,
		[]any{accountID, webhookID, MaxDeliveries}, &beyond); err != nil {
		return 0, err
	}
	before := max(db.Micros(tx.Now.Add(-DeliveriesKept)), beyond+1)
	return tx.Exec(ctx, `DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE account_id = $1 AND webhook_id = $2
		AND (created_at < $3 AND status <> 'pending' OR created_at < $4 AND status = 'delivered') ORDER BY created_at, id LIMIT $5)`,
		accountID, webhookID, before, db.Micros(tx.Now.Add(-DeliveredKept)), limit)
}

// DropDeliveries removes at most limit pending deliveries of a deleted webhook, so that they are not
// sent, and returns their number. [Operations.PurgeDeliveries] removes the others.
func (tx Operations) DropDeliveries(ctx context.Context, webhookID string, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE webhook_id = $1 AND status = 'pending' LIMIT $2)`, webhookID, limit)
}

// PendingDeliveries counts pending deliveries, up to a limit, and returns the due time of the one
// that has waited longest for a claim, or zero.
func (tx Operations) PendingDeliveries(ctx context.Context, limit int) (n int, oldest time.Time, err error) {
	var due int64
	_, err = tx.Get(ctx, `SELECT COUNT(*), COALESCE(MIN(CASE WHEN lease = '' THEN due_at END), 0) FROM
		(SELECT lease, due_at FROM deliveries WHERE status = 'pending' LIMIT $1) p`, []any{limit}, &n, &due)
	return n, db.Time(due), err
}
