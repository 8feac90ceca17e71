// Package alert finds incidents of the service and announces each once, whichever nodes see it: a
// provider whose circuit stays open, many failed calls, customers with few credits, lost nodes and
// refused configurations.
//
// An incident is a row in the table alerts while it is open. Each node that sees its cause renews
// the row. The first node that finds an unannounced row sends the event to the service's
// webhooks in the same transaction, so that no event is sent twice. An incident that no node has seen for
// a while is closed, and the same cause then opens a new one. The package changes nothing else, and
// reacts to no event. Start at [Watch.Look].
package alert

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/upstream"
)

// The rules of alerts. docs/alerts.md explains them to operators.
const (
	every       = 15 * time.Second // interval of checks
	downAfter   = time.Minute      // duration of an open circuit, so that a short failure raises no alert
	upAfter     = 3 * time.Minute  // duration without an open circuit, on all nodes
	errorsSlot  = 30 * time.Second
	errorsSlots = 10              // slots of the window of counted calls
	errorsShare = 20              // one failed call in this number: 5 %
	minErrors   = 5               // minimum in the window, so that few calls raise no alert
	minCalls    = 20              // minimum in the window, for the same reason
	errorsOver  = 5 * time.Minute // duration below the limits, on all nodes
	lowBelow    = webhook.DefaultCreditsLow
	lowEvery    = time.Minute
	lowBatch    = 20   // accounts for each check
	maxPerLook  = 20   // events for each check
	maxPerHour  = 100  // events about open incidents, so that a wave does not flood the operator
	maxShown    = 1000 // open alerts that are read
)

// Config configures [New]. Store and Providers are required.
type Config struct {
	Store     *store.Store
	Providers func() upstream.Stats
	Now       func() time.Time // nil means [time.Now]
	Logger    *slog.Logger     // nil disables logging
}

// A Watch finds incidents. Each process has one.
type Watch struct {
	cfg Config

	mu      sync.Mutex
	open    map[string]time.Time // time since which a circuit of a provider is not closed
	calls   [errorsSlots]slot
	lowSeen time.Time // latest check for customers with few credits
}

// A slot counts the model calls that ended in a part of the window.
type slot struct {
	number        int64
	calls, failed int
}

// New returns a watch. Nothing happens before [Watch.Run].
func New(cfg Config) *Watch {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Watch{cfg: cfg, open: map[string]time.Time{}}
}

// Run checks for incidents until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	timer := time.NewTicker(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := w.Look(ctx); err != nil && ctx.Err() == nil {
			w.cfg.Logger.LogAttrs(ctx, slog.LevelError, "the alerts of the service could not be checked", slog.Any("error", err))
		}
	}
}

// Request counts a finished request, if it was a model call.
func (w *Watch) Request(r *stoa.Request) {
	if r.Asked == "" || r.Disconnected {
		return
	}
	number := w.cfg.Now().UnixNano() / int64(errorsSlot)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.calls[number%errorsSlots]
	if s.number != number {
		*s = slot{number: number}
	}
	s.calls++
	if r.Status >= 500 || r.Code != "" && contract.Code(r.Code).Status >= 500 {
		s.failed++
	}
}

// Look opens, announces and closes alerts.
func (w *Watch) Look(ctx context.Context) error {
	raised := w.local()
	var all []store.Alert
	var low []store.LowAccount
	var refilled []string
	err := w.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if all, err = tx.Operations().Alerts(ctx, maxShown); err != nil || !w.lowDue() {
			return err
		}
		owner, err := tx.People().OwnerAccount(ctx)
		if err == nil && len(all) < maxShown {
			low, err = tx.Operations().NewlyLowAccounts(ctx, webhook.BalanceLow, lowBelow, owner, lowBatch)
		}
		if err == nil {
			refilled, err = tx.Operations().RefilledAccounts(ctx, webhook.BalanceLow, lowBelow, lowBatch)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range low {
		raised = append(raised, incident{webhook.BalanceLow, a.ID, lowData{CustomerID: a.ID, AvailableMicro: int64(max(a.Unspent, 0)), ThresholdMicro: int64(lowBelow)}})
	}
	if len(raised)+len(refilled)+len(all) == 0 {
		return nil
	}
	now := w.cfg.Now()
	return w.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		for _, i := range raised {
			if err := tx.Operations().RaiseAlert(ctx, i.kind, i.subject, i.data, now); err != nil {
				return err
			}
		}
		if err := w.announce(ctx, tx, now); err != nil {
			return err
		}
		for _, id := range refilled {
			if _, err := tx.Operations().CloseAlert(ctx, webhook.BalanceLow, id, now); err != nil {
				return err
			}
		}
		return w.close(ctx, tx, now)
	})
}

func (w *Watch) lowDue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.cfg.Now()
	due := now.Sub(w.lowSeen) >= lowEvery
	if due {
		w.lowSeen = now
	}
	return due
}

type incident struct {
	kind, subject string
	data          any
}

// The data of alerts, to which the account is added when they are sent.
type (
	providerData struct {
		Provider string   `json:"provider"`
		Models   []string `json:"models"` // models with an open circuit
		Code     string   `json:"code,omitempty"`
		Since    string   `json:"since"`
	}
	errorsData struct {
		NodeID  string `json:"nodeId"`
		Calls   int    `json:"calls"`
		Failed  int    `json:"failed"`
		Percent int    `json:"percent"`
		Minutes int    `json:"minutes"`
	}
	lowData struct {
		CustomerID     string `json:"customerId"`
		AvailableMicro int64  `json:"availableMicro"`
		ThresholdMicro int64  `json:"thresholdMicro"`
	}
	refusedData struct {
		NodeID  string `json:"nodeId"`
		Setting string `json:"setting,omitempty"`
		Where   string `json:"where,omitempty"`
	}
)

// local returns the incidents that this node can see without the database.
func (w *Watch) local() (all []incident) {
	stats := w.cfg.Providers()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.cfg.Now()
	seen := map[string]bool{}
	for _, p := range stats.Providers {
		d := providerData{Provider: p.Name}
		var latest time.Time
		for _, r := range p.Routes {
			if r.Breaker == "closed" {
				continue
			}
			d.Models = append(d.Models, r.Model)
			if r.LastFailureAt.After(latest) {
				latest, d.Code = r.LastFailureAt, string(r.LastFailureCode)
			}
		}
		if len(d.Models) == 0 {
			continue
		}
		seen[p.Name] = true
		since, known := w.open[p.Name]
		if !known {
			since = now
			w.open[p.Name] = now
		}
		if d.Since = store.EventTime(since); now.Sub(since) >= downAfter {
			all = append(all, incident{webhook.ProviderDown, p.Name, d})
		}
	}
	for name := range w.open {
		if !seen[name] {
			delete(w.open, name)
		}
	}
	newest := now.UnixNano() / int64(errorsSlot)
	d := errorsData{NodeID: w.cfg.Store.Node(), Minutes: int(errorsSlots * errorsSlot / time.Minute)}
	for _, s := range w.calls {
		if newest-s.number < errorsSlots {
			d.Calls, d.Failed = d.Calls+s.calls, d.Failed+s.failed
		}
	}
	if d.Calls >= minCalls && d.Failed >= minErrors && d.Failed*errorsShare >= d.Calls {
		d.Percent = 100 * d.Failed / d.Calls
		all = append(all, incident{webhook.ErrorsHigh, "", d})
	}
	return all
}

// announce sends the events of unannounced alerts up to the limits; the others wait.
func (w *Watch) announce(ctx context.Context, tx *store.Tx, now time.Time) error {
	all, err := tx.Operations().Alerts(ctx, maxPerLook)
	if err != nil || len(all) == 0 || !all[0].Announced.IsZero() {
		return err
	}
	sent, err := tx.Operations().AlertsAnnounced(ctx, "", now.Add(-time.Hour))
	if err != nil {
		return err
	}
	for _, a := range all {
		if !a.Announced.IsZero() || sent >= maxPerHour {
			return nil
		}
		others := 0
		if a.Kind == webhook.ConfigRefused { // once for all nodes, because they refuse the same configuration
			if others, err = tx.Operations().AlertsAnnounced(ctx, a.Kind, time.UnixMicro(0)); err != nil {
				return err
			}
		}
		first, err := tx.Operations().AnnounceAlert(ctx, a.Kind, a.Subject, now)
		if err != nil {
			return err
		}
		if !first || others > 0 {
			continue
		}
		if err := emit(ctx, tx, a.Kind, json.RawMessage(a.Data)); err != nil {
			return err
		}
		sent++
		w.log(ctx, tx, "an alert is open", a)
	}
	return nil
}

func (w *Watch) close(ctx context.Context, tx *store.Tx, now time.Time) error {
	all, err := tx.Operations().Alerts(ctx, maxShown)
	if err != nil {
		return err
	}
	for _, a := range all {
		over := map[string]time.Duration{webhook.ProviderDown: upAfter, webhook.ErrorsHigh: errorsOver}[a.Kind]
		if over == 0 || now.Sub(a.SeenAt) < over {
			continue
		}
		closed, err := tx.Operations().CloseAlert(ctx, a.Kind, a.Subject, now.Add(-over))
		if err != nil {
			return err
		}
		if !closed {
			continue
		}
		w.log(ctx, tx, "an alert is over", a)
		if a.Kind == webhook.ProviderDown && !a.Announced.IsZero() {
			if err := emit(ctx, tx, webhook.ProviderUp, json.RawMessage(a.Data)); err != nil {
				return err
			}
		}
	}
	return tx.Operations().CloseNodeAlerts(ctx, all, now)
}

func (w *Watch) log(ctx context.Context, tx *store.Tx, what string, a store.Alert) {
	tx.AfterCommit(func() {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, what, slog.String("type", a.Kind), slog.String("subject", a.Subject))
	})
}

// emit sends an event to the webhooks of the operator's account, because those receive the service's alerts.
func emit(ctx context.Context, tx *store.Tx, kind string, data json.RawMessage) error {
	owner, err := tx.People().OwnerAccount(ctx)
	if err != nil || owner == "" {
		return err
	}
	account, err := json.Marshal(map[string]string{"accountId": owner})
	if err != nil {
		return err
	}
	merged := slices.Concat(account[:len(account)-1], []byte(","), data[1:])
	return webhook.Emit(ctx, tx, webhook.Event{AccountID: owner, Type: kind, Data: json.RawMessage(merged)})
}

// Refused opens an alert about a configuration that this node has refused. setting is the path of a setting
// at fault, and where its place; both may be empty.
func (w *Watch) Refused(ctx context.Context, setting, where string) error {
	return w.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		return tx.Operations().RaiseAlert(ctx, webhook.ConfigRefused, w.cfg.Store.Node(), refusedData{w.cfg.Store.Node(), setting, where}, w.cfg.Now())
	})
}

// Accepted closes the alert of [Watch.Refused].
func (w *Watch) Accepted(ctx context.Context) error {
	return w.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Operations().CloseAlert(ctx, webhook.ConfigRefused, w.cfg.Store.Node(), w.cfg.Now())
		return err
	})
}
