package webhook

import (
	"context"
	"strconv"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

const (
	// DefaultCreditsLow is the threshold of low credits for a webhook that does not set one.
	DefaultCreditsLow = 10 * stoa.Credit
	// exhaustedBelow is the threshold of exhausted credits: hardly any call fits into the
	// rest.
	exhaustedBelow = stoa.Credit / 100

	sweepPage   = 200
	maxExpiring = 50_000 // keys that one sweep examines
	pendingMost = 100_000
	noticesKept = 30 * 24 * time.Hour
)

// warnings are the times before its end at which a key's expiry is announced. A key that
// lives for less is not announced.
var warnings = [...]time.Duration{7 * 24 * time.Hour, 24 * time.Hour}

// notice returns the name of a notification to a webhook.
func notice(kind, webhookID string) string { return kind + " " + webhookID }

// Sweep notifies webhooks about low credits, expiring keys and the anchors of audit logs, and
// counts the waiting deliveries. It is repeated each minute; a notification is not repeated.
func (d *Dispatcher) Sweep(ctx context.Context) error {
	if err := d.credits(ctx); err != nil {
		return err
	}
	if err := d.keys(ctx); err != nil {
		return err
	}
	if err := d.anchors(ctx); err != nil {
		return err
	}
	if err := d.store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.PurgeNotices(ctx, d.now().Add(-noticesKept), sweepPage)
		return err
	}); err != nil {
		return err
	}
	return d.store.Read(ctx, func(tx *store.Tx) error {
		n, oldest, err := tx.PendingDeliveries(ctx, pendingMost)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pending, d.lag = n, 0
		if now := d.now(); !oldest.IsZero() && now.After(oldest) {
			d.lag = now.Sub(oldest)
		}
		return err
	})
}

// Backlog returns the number of deliveries that waited at the latest sweep, up to 100,000,
// and the delay of the oldest.
func (d *Dispatcher) Backlog() (pending int, lag time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pending, d.lag
}

// creditsData is the data of the events of credits.
type creditsData struct {
	AccountID      string `json:"accountId"`
	AvailableMicro int64  `json:"availableMicro"`
	ThresholdMicro int64  `json:"thresholdMicro"`
}

// credits announces low credits: once for each time that they fall below a threshold.
func (d *Dispatcher) credits(ctx context.Context) error {
	after := ""
	for {
		var list []store.CreditsWatch
		err := d.store.Read(ctx, func(tx *store.Tx) (err error) {
			list, err = tx.CreditsWatches(ctx, after, sweepPage)
			return err
		})
		if err != nil {
			return err
		}
		for _, c := range list {
			low := c.Low
			if low == 0 {
				low = DefaultCreditsLow
			}
			if err := d.crossing(ctx, c, CreditsLow, low); err != nil {
				return err
			}
			if err := d.crossing(ctx, c, CreditsExhausted, exhaustedBelow); err != nil {
				return err
			}
			after = c.WebhookID
		}
		if len(list) < sweepPage {
			return nil
		}
	}
}

// crossing notifies a webhook that credits are below a threshold, or allows the next
// notification when they are not.
func (d *Dispatcher) crossing(ctx context.Context, c store.CreditsWatch, kind string, threshold stoa.Credits) error {
	below, name := c.Unspent < threshold, notice(kind, c.WebhookID)
	var told bool
	if err := d.store.Read(ctx, func(tx *store.Tx) (err error) {
		told, err = tx.Noticed(ctx, c.AccountID, name)
		return err
	}); err != nil || told == below {
		return err
	}
	return d.store.Write(ctx, func(tx *store.Tx) error {
		if !below {
			return tx.ForgetNotice(ctx, c.AccountID, name)
		}
		if isNew, err := tx.Notice(ctx, c.AccountID, name); err != nil || !isNew {
			return err
		}
		return Emit(ctx, tx, Event{AccountID: c.AccountID, Type: kind, to: c.WebhookID, Data: creditsData{c.AccountID, int64(max(c.Unspent, 0)), int64(threshold)}})
	})
}

// keyData is the data of the event key.expiring.
type keyData struct {
	AccountID string `json:"accountId"`
	KeyID     string `json:"keyId"`
	ExpiresAt string `json:"expiresAt"`
}

// keys announces keys that expire soon.
func (d *Dispatcher) keys(ctx context.Context) error {
	now := d.now()
	after := store.Cursor{At: now}
	for range maxExpiring / sweepPage {
		var list []stoa.Key
		err := d.store.Read(ctx, func(tx *store.Tx) (err error) {
			list, err = tx.ExpiringKeys(ctx, after, now.Add(warnings[0]), sweepPage)
			return err
		})
		if err != nil {
			return err
		}
		for _, k := range list {
			if err := d.expiring(ctx, k, now); err != nil {
				return err
			}
			after = store.Cursor{At: k.ExpiresAt, ID: k.ID}
		}
		if len(list) < sweepPage {
			return nil
		}
	}
	return nil
}

// expiring announces the expiry of one key, for the shortest warning time that has been
// reached.
func (d *Dispatcher) expiring(ctx context.Context, k stoa.Key, now time.Time) error {
	name := ""
	for _, w := range warnings {
		if k.ExpiresAt.Sub(now) <= w && k.ExpiresAt.Sub(k.CreatedAt) > w {
			name = KeyExpiring + " " + k.ID + " " + strconv.FormatInt(k.ExpiresAt.Unix(), 10) + " " + strconv.Itoa(int(w.Hours()))
		}
	}
	if name == "" {
		return nil
	}
	var told bool
	if err := d.store.Read(ctx, func(tx *store.Tx) (err error) {
		told, err = tx.Noticed(ctx, k.AccountID, name)
		return err
	}); err != nil || told {
		return err
	}
	return d.store.Write(ctx, func(tx *store.Tx) error {
		if isNew, err := tx.Notice(ctx, k.AccountID, name); err != nil || !isNew {
			return err
		}
		return Emit(ctx, tx, Event{AccountID: k.AccountID, Type: KeyExpiring, Data: keyData{k.AccountID, k.ID, store.EventTime(k.ExpiresAt)}})
	})
}

// anchorData is the data of the event audit.anchor. AuditID is the account of the chain, or
// [audit.Service].
type anchorData struct {
	AccountID string `json:"accountId"`
	AuditID   string `json:"auditId"`
	Seq       int64  `json:"seq"`
	Hash      string `json:"hash"`
}

// anchors announces the newest row of each audit log that has changed, once a day. Those of
// the service go to the oldest account, the operator's.
func (d *Dispatcher) anchors(ctx context.Context) error {
	now, after := d.now(), ""
	for {
		var list []string
		err := d.store.Read(ctx, func(tx *store.Tx) (err error) {
			list, err = tx.AuditsToAnchor(ctx, now, after, sweepPage)
			return err
		})
		if err != nil {
			return err
		}
		for _, id := range list {
			if err := d.store.Write(ctx, func(tx *store.Tx) error { return anchor(ctx, tx, id, now) }); err != nil {
				return err
			}
			after = id
		}
		if len(list) < sweepPage {
			return nil
		}
	}
}

func anchor(ctx context.Context, tx *store.Tx, auditID string, now time.Time) error {
	c, isNew, err := tx.AnchorAudit(ctx, auditID, now)
	if err != nil || !isNew {
		return err
	}
	to, err := tx.AuditReceiver(ctx, auditID)
	if err != nil {
		return err
	}
	return Emit(ctx, tx, Event{AccountID: to, Type: AuditAnchor, Data: anchorData{to, auditID, c.Seq, c.Hash}})
}
