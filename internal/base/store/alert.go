package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// An Alert is an open incident of the service.
type Alert struct {
	Kind      string    `db:"kind"`         // the type of its event
	Subject   string    `db:"subject"`      // the provider, account or node; empty for the service
	Data      string    `db:"data"`         // data of the event, as JSON
	OpenedAt  time.Time `db:"opened_at"`    // first time at which a node saw the cause
	SeenAt    time.Time `db:"seen_at"`      // last time at which a node saw it
	Announced time.Time `db:"announced_at"` // time at which the event was sent; zero means not yet
}

// The kinds of alerts that the store opens and closes itself.
const (
	NodeLost      = "node.lost"
	ConfigRefused = "config.refused"
)

var alerts = newTable[Alert]("alerts")

// RaiseAlert opens an alert with its data, or records that its cause was seen again.
func (tx Operations) RaiseAlert(ctx context.Context, kind, subject string, data any, now time.Time) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO alerts (kind, subject, data, opened_at, seen_at) VALUES ($1, $2, $3, $4, $4) ON CONFLICT (kind, subject) DO UPDATE SET seen_at = EXCLUDED.seen_at`,
		kind, subject, string(text), db.Micros(now))
	return err
}

// Alerts returns open alerts, the newest first, but those that are not announced before all others,
// so that a limit never hides them.
func (tx Operations) Alerts(ctx context.Context, limit int) ([]Alert, error) {
	return list(ctx, tx.Tx, alerts.scan, `SELECT `+alerts.columns+` FROM alerts ORDER BY CASE WHEN announced_at = 0 THEN 0 ELSE 1 END, opened_at DESC, kind, subject LIMIT $1`, limit)
}

// AlertsAnnounced returns the number of open alerts of a kind that were announced after a time; an
// empty kind means all.
func (tx Operations) AlertsAnnounced(ctx context.Context, kind string, after time.Time) (n int, err error) {
	_, err = tx.Get(ctx, `SELECT COUNT(*) FROM alerts WHERE announced_at > $1 AND (CAST($2 AS TEXT) = '' OR kind = $2)`, []any{db.Micros(after), kind}, &n)
	return n, err
}

// AnnounceAlert records that the event of an alert is sent. It reports whether no node did so
// before, so that only one of them sends it.
func (tx Operations) AnnounceAlert(ctx context.Context, kind, subject string, now time.Time) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE alerts SET announced_at = $3 WHERE kind = $1 AND subject = $2 AND announced_at = 0`, kind, subject, db.Micros(now))
	return n > 0, err
}

// CloseAlert removes an alert whose cause no node has seen after a time. It reports whether it
// existed.
func (tx Operations) CloseAlert(ctx context.Context, kind, subject string, after time.Time) (bool, error) {
	n, err := tx.Exec(ctx, `DELETE FROM alerts WHERE kind = $1 AND subject = $2 AND seen_at <= $3`, kind, subject, db.Micros(after))
	return n > 0, err
}

type lostNode struct {
	NodeID  string `json:"nodeId"`
	Address string `json:"address"`
	Version string `json:"version"`
	SeenAt  string `json:"seenAt"`
}

func (tx Operations) raiseNodeLost(ctx context.Context, id string) error {
	var n lostNode
	var seen int64
	if _, err := tx.Get(ctx, `SELECT id, address, version, seen_at FROM nodes WHERE id = $1`, []any{id}, &n.NodeID, &n.Address, &n.Version, &seen); err != nil {
		return err
	}
	n.SeenAt = EventTime(db.Time(seen))
	return tx.RaiseAlert(ctx, NodeLost, id, n, tx.Now)
}

// lostNodeShown is the time for which an alert of a dead node stays open, unless another node
// replaces it.
const lostNodeShown = 24 * time.Hour

// CloseNodeAlerts closes alerts of dead nodes that were replaced, by a living node that listens on
// the same address and was started later, and alerts about settings of nodes that are not alive.
// Alerts that are not announced stay.
func (tx Operations) CloseNodeAlerts(ctx context.Context, all []Alert, now time.Time) error {
	var living []Node
	for _, a := range all {
		if a.Kind != NodeLost && a.Kind != ConfigRefused || a.Announced.IsZero() {
			continue
		}
		if living == nil {
			var err error
			if living, err = tx.Nodes(ctx); err != nil {
				return err
			}
		}
		if nodeAlertOver(a, living, now) {
			if _, err := tx.CloseAlert(ctx, a.Kind, a.Subject, now); err != nil {
				return err
			}
		}
	}
	return nil
}

func nodeAlertOver(a Alert, living []Node, now time.Time) bool {
	var lost lostNode
	_ = json.Unmarshal([]byte(a.Data), &lost) // written here
	seen, _ := time.Parse(eventTime, lost.SeenAt)
	alive := false
	for _, n := range living {
		if a.Kind == NodeLost && n.Address == lost.Address && n.StartedAt.After(seen) {
			return true
		}
		alive = alive || n.ID == a.Subject
	}
	return a.Kind == ConfigRefused && !alive || a.Kind == NodeLost && now.Sub(a.OpenedAt) > lostNodeShown
}

// A LowAccount is an account with few credits.
type LowAccount struct {
	ID      string
	Unspent stoa.Credits
}

// NewlyLowAccounts returns accounts that were charged today or yesterday, were granted at least a
// number of credits, have fewer left, and have no alert of that kind. It omits one account, that of
// the operator, and suspended ones.
func (tx Operations) NewlyLowAccounts(ctx context.Context, kind string, below stoa.Credits, except string, limit int) ([]LowAccount, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (a LowAccount, err error) {
		var balance, leased stoa.Credits
		err = rows.Scan(&a.ID, &balance, &leased)
		a.Unspent = balance + leased
		return a, err
	}, `SELECT a.id, a.balance, `+unspent("a")+` FROM accounts a WHERE a.id IN (SELECT account_id FROM charge_days WHERE day >= $1)
		AND a.suspended = 0 AND a.granted >= $2 AND a.balance + `+unspent("a")+` < $2 AND a.id <> $3
		AND NOT EXISTS (SELECT 1 FROM alerts WHERE kind = $4 AND subject = a.id) ORDER BY a.id LIMIT $5`, dayOf(tx.Now)-1, int64(below), except, kind, limit)
}

// RefilledAccounts returns the accounts with an alert of that kind that have at least a number of
// credits again, are suspended or do not exist.
func (tx Operations) RefilledAccounts(ctx context.Context, kind string, least stoa.Credits, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT al.subject FROM alerts al LEFT JOIN accounts a ON a.id = al.subject
		WHERE al.kind = $1 AND (a.id IS NULL OR a.suspended = 1 OR a.balance + `+unspent("a")+` >= $2) ORDER BY al.subject LIMIT $3`, kind, int64(least), limit)
}
