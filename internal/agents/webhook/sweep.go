package webhook

import (
	"context"
	"strconv"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	// DefaultCreditsLow is the threshold of low credits for a webhook that does not set one.
	DefaultCreditsLow = 10 * stoa.Credit
	// exhaustedBelow is the threshold of exhausted credits. It is not zero, because hardly any call fits
	// into the rest.
	exhaustedBelow = stoa.Credit / 100

	// FailingAfter is the time of failed attempts without a success after which a webhook does not
	// work.
	FailingAfter = 5 * time.Minute

	sweepPage   = 200
	maxExpiring = 50_000 // keys per sweep
	pendingMost = 100_000
	noticesKept = 30 * 24 * time.Hour
)

// warnings lists the times before its end at which a key's expiry or pause is announced. A key that
// works for less is not announced.
var warnings = [...]time.Duration{7 * 24 * time.Hour, 24 * time.Hour}

func notice(kind, webhookID string) string { return kind + " " + webhookID }

// Sweep notifies webhooks about low credits, expiring and pausing keys, the anchors of audit logs and
// other webhooks that do not work, and counts the waiting deliveries. It runs each minute on every node,
// so it records each notification in a row to avoid repeating it.
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
	if err := d.failing(ctx); err != nil {
		return err
	}
	if err := d.store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Operations().PurgeNotices(ctx, d.now().Add(-noticesKept), sweepPage)
		return err
	}); err != nil {
		return err
	}
	return d.store.Read(ctx, func(tx *store.Tx) error {
		n, oldest, err := tx.Operations().PendingDeliveries(ctx, pendingMost)
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

type creditsData struct {
	AccountID      string `json:"accountId"`
	AvailableMicro int64  `json:"availableMicro"`
	ThresholdMicro int64  `json:"thresholdMicro"`
}

// credits announces low credits, once for each time that they fall below a threshold.
func (d *Dispatcher) credits(ctx context.Context) error {
	after := ""
	for {
		list, err := store.Read(ctx, d.store, func(tx *store.Tx) ([]store.CreditsWatch, error) {
			return tx.Operations().CreditsWatches(ctx, after, sweepPage)
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

// crossing notifies a webhook that credits are below a threshold. When they are not, it allows the next
// notification, so that a top-up is followed by another one.
func (d *Dispatcher) crossing(ctx context.Context, c store.CreditsWatch, kind string, threshold stoa.Credits) error {
	below, name := c.Unspent < threshold, notice(kind, c.WebhookID)
	told, err := store.Read(ctx, d.store, func(tx *store.Tx) (bool, error) { return tx.Operations().Noticed(ctx, c.AccountID, name) })
	if err != nil || told == below {
		return err
	}
	return d.store.Write(ctx, func(tx *store.Tx) error {
		if !below {
			return tx.Operations().ForgetNotice(ctx, c.AccountID, name)
		}
		if isNew, err := tx.Operations().Notice(ctx, c.AccountID, name); err != nil || !isNew {
			return err
		}
		return Emit(ctx, tx, Event{AccountID: c.AccountID, Type: kind, to: c.WebhookID, Data: creditsData{c.AccountID, int64(max(c.Unspent, 0)), int64(threshold)}})
	})
}

// failingData is the data of the event webhook.failing. Without LastSuccessAt the webhook never worked.
type failingData struct {
	AccountID     string `json:"accountId"`
	WebhookID     string `json:"webhookId"`
	FailingSince  string `json:"failingSince"`
	LastSuccessAt string `json:"lastSuccessAt,omitempty"`
}

// failing announces webhooks whose attempts have failed for [FailingAfter] to the other webhooks of the
// account with the same scope. It does so once until they work again, because two webhooks that fail
// would otherwise announce each other forever.
func (d *Dispatcher) failing(ctx context.Context) error {
	after := [2]string{}
	for {
		list, err := store.Read(ctx, d.store, func(tx *store.Tx) ([]stoa.Webhook, error) {
			return tx.Operations().WebhooksFailing(ctx, d.now().Add(-FailingAfter), after, sweepPage)
		})
		if err != nil {
			return err
		}
		for _, w := range list {
			after = [2]string{w.AccountID, w.ID}
			data := failingData{AccountID: w.AccountID, WebhookID: w.ID, FailingSince: store.EventTime(w.FailingSince)}
			if !w.LastSuccessAt.IsZero() {
				data.LastSuccessAt = store.EventTime(w.LastSuccessAt)
			}
			name := notice(WebhookFailing, w.ID) + " " + strconv.FormatInt(w.FailingSince.UnixMicro(), 10)
			if err := d.once(ctx, name, Event{AccountID: w.AccountID, Type: WebhookFailing, except: w.ID, service: w.Service, Data: data}); err != nil {
				return err
			}
		}
		if len(list) < sweepPage {
			return nil
		}
	}
}

func (d *Dispatcher) once(ctx context.Context, name string, e Event) error {
	told, err := store.Read(ctx, d.store, func(tx *store.Tx) (bool, error) { return tx.Operations().Noticed(ctx, e.AccountID, name) })
	if err != nil || told {
		return err
	}
	return d.store.Write(ctx, func(tx *store.Tx) error {
		if isNew, err := tx.Operations().Notice(ctx, e.AccountID, name); err != nil || !isNew {
			return err
		}
		return Emit(ctx, tx, e)
	})
}

type keyData struct {
	AccountID string `json:"accountId"`
	KeyID     string `json:"keyId"`
	MemberID  string `json:"memberId,omitempty"`
	ExpiresAt string `json:"expiresAt,omitempty"`
	PausesAt  string `json:"pausesAt,omitempty"`
}

func (d *Dispatcher) keys(ctx context.Context) error {
	if err := d.endings(ctx, 0, store.Operations.ExpiringKeys, func(k stoa.Key) ending {
		return ending{KeyExpiring, k.CreatedAt, k.ExpiresAt, keyData{AccountID: k.AccountID, KeyID: k.ID, ExpiresAt: store.EventTime(k.ExpiresAt)}}
	}); err != nil || d.cfg.KeysPauseAfter == 0 {
		return err
	}
	return d.endings(ctx, d.cfg.KeysPauseAfter, store.Operations.PausingKeys, func(k stoa.Key) ending {
		at := k.PausesAt(d.cfg.KeysPauseAfter)
		return ending{KeyPauseSoon, k.SignedInAt, at, keyData{AccountID: k.AccountID, KeyID: k.ID, MemberID: k.MemberID, PausesAt: store.EventTime(at)}}
	})
}

type ending struct {
	kind         string
	begins, ends time.Time
	data         keyData
}

// endings announces the ends of keys. list returns the keys in the order of a stored time that is
// earlier than their ends by offset.
func (d *Dispatcher) endings(ctx context.Context, offset time.Duration, list func(store.Operations, context.Context, store.Cursor, time.Time, int) ([]stoa.Key, error), of func(stoa.Key) ending) error {
	now := d.now()
	after := store.Cursor{At: now.Add(-offset)}
	for range maxExpiring / sweepPage {
		keys, err := store.Read(ctx, d.store, func(tx *store.Tx) ([]stoa.Key, error) {
			return list(tx.Operations(), ctx, after, now.Add(warnings[0]-offset), sweepPage)
		})
		if err != nil {
			return err
		}
		for _, k := range keys {
			e := of(k)
			if k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt) {
				if err := d.announce(ctx, e, now); err != nil {
					return err
				}
			}
			after = store.Cursor{At: e.ends.Add(-offset), ID: k.ID}
		}
		if len(keys) < sweepPage {
			return nil
		}
	}
	return nil
}

// announce announces the end of one key, for the shortest warning time that has been reached.
func (d *Dispatcher) announce(ctx context.Context, e ending, now time.Time) error {
	name := ""
	for _, w := range warnings {
		if e.ends.Sub(now) <= w && e.ends.Sub(e.begins) > w {
			name = e.kind + " " + e.data.KeyID + " " + strconv.FormatInt(e.ends.Unix(), 10) + " " + strconv.Itoa(int(w.Hours()))
		}
	}
	if name == "" {
		return nil
	}
	return d.once(ctx, name, Event{AccountID: e.data.AccountID, Type: e.kind, Data: e.data})
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
		list, err := store.Read(ctx, d.store, func(tx *store.Tx) ([]string, error) { return tx.People().AuditsToAnchor(ctx, now, after, sweepPage) })
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
	c, isNew, err := tx.People().AnchorAudit(ctx, auditID, now)
	if err != nil || !isNew {
		return err
	}
	to, err := tx.People().AuditReceiver(ctx, auditID)
	if err != nil {
		return err
	}
	return Emit(ctx, tx, Event{AccountID: to, Type: AuditAnchor, Data: anchorData{to, auditID, c.Seq, c.Hash}})
}
