package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/telemetry"
	"stoa/internal/vault"
)

// Config configures [New]. Store, Vault and Client are required; zero values of the other
// fields mean the defaults in brackets.
type Config struct {
	Store  *store.Store
	Vault  *vault.Vault
	Client http.RoundTripper // must not follow redirects and must limit the time of a request; see package outbound
	// Shared means that other processes write to the same store; the rows are then read every
	// second.
	Shared  bool
	Version string             // of the program, in the header User-Agent
	Now     func() time.Time   // [time.Now]
	Jitter  func() float64     // a random number from 0 to 1 [rand.Float64]
	Logger  *slog.Logger       // [none]
	Metrics *telemetry.Metrics // [none]
}

// Limits of the dispatcher in each process.
const (
	AttemptTime  = 15 * time.Second // of one request
	lease        = time.Minute      // time in which no other process sends a claimed delivery
	atOnce       = 32               // concurrent requests
	perWebhook   = 4                // concurrent requests to one webhook
	failingShare = 16               // concurrent requests to webhooks whose latest attempt failed: one to each
)

const (
	pollShared   = time.Second      // polling interval when other processes write to the store too
	pollAlone    = 15 * time.Second // polling interval otherwise: commits wake the loop
	lookGap      = 10 * time.Millisecond
	sweepEvery   = time.Minute
	unreadableIn = time.Minute // pause before a webhook with an unreadable secret is tried again
	holdBatch    = 500
	stopTime     = 5 * time.Second // for the last writes
)

// A Dispatcher sends deliveries. There is one in each process; several processes may
// run one on the same store.
type Dispatcher struct {
	cfg    Config
	store  *store.Store
	log    *slog.Logger
	node   string
	wakeup chan struct{} // a request has ended

	mu         sync.Mutex
	sending    map[string]int       // requests in progress, by webhook
	failing    map[string]bool      // webhooks whose latest attempt in this process failed
	unreadable map[string]time.Time // webhooks with an unreadable secret: the time until which they are skipped
	last       string               // the webhook that was served last
	requests   sync.WaitGroup
	pending    int           // deliveries at the latest sweep
	lag        time.Duration // delay of the oldest of them beyond its due time
}

// New returns a dispatcher. Nothing is sent before [Dispatcher.Run].
func New(cfg Config) *Dispatcher {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Dispatcher{
		cfg: cfg, store: cfg.Store, log: cfg.Logger, node: cfg.Store.Node(), wakeup: make(chan struct{}, 1),
		sending: map[string]int{}, failing: map[string]bool{}, unreadable: map[string]time.Time{},
	}
}

func (d *Dispatcher) now() time.Time { return d.cfg.Now().UTC().Truncate(time.Microsecond) }

func (d *Dispatcher) wake() {
	select {
	case d.wakeup <- struct{}{}:
	default:
	}
}

func (d *Dispatcher) report(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		d.log.LogAttrs(ctx, slog.LevelError, what, slog.Any("error", err))
	}
}

// Run sends due deliveries until ctx ends. It then aborts the requests in progress, and
// leaves their deliveries to the next process, which may send them again.
func (d *Dispatcher) Run(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		d.report(ctx, "the outbox of webhooks could not be read", err)
	}
	defer d.requests.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	swept := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.store.Outbox():
		case <-d.wakeup:
		case <-timer.C:
		}
		if now := d.now(); now.Sub(swept) >= sweepEvery || now.Before(swept) {
			swept = now
			if err := d.Sweep(ctx); err != nil {
				d.report(ctx, "credits and keys could not be checked for webhooks", err)
			}
		}
		wait, err := d.Look(ctx)
		if err != nil {
			d.report(ctx, "the outbox of webhooks could not be read", err)
			wait = pollShared
		}
		timer.Reset(max(wait, lookGap))
		if ctx.Err() == nil {
			d.gap(ctx)
		}
	}
}

// gap delays the next Look, so that it finds all commits in the meantime.
func (d *Dispatcher) gap(ctx context.Context) {
	timer := time.NewTimer(lookGap)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// begin frees the deliveries that an earlier process was sending, if no other process can
// exist.
func (d *Dispatcher) begin(ctx context.Context) error {
	for n := int64(holdBatch); n == holdBatch && !d.cfg.Shared; {
		if err := d.store.Write(ctx, func(tx *store.Tx) (err error) {
			n, err = tx.FreeDeliveries(ctx, holdBatch)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Look claims due deliveries, up to the limits, and begins to send them. It returns the time
// until more work is due, unless something is committed or a request ends.
func (d *Dispatcher) Look(ctx context.Context) (time.Duration, error) {
	var due []store.DueWebhook
	err := d.store.Read(ctx, func(tx *store.Tx) (err error) {
		due, err = tx.DueWebhooks(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	now, wait := d.now(), pollAlone
	if d.cfg.Shared {
		wait = pollShared
	}
	var ready []string
	for _, w := range due {
		if w.DueAt.After(now) {
			wait = min(wait, w.DueAt.Sub(now))
		} else {
			ready = append(ready, w.ID)
		}
	}
	if len(ready) == 0 {
		return wait, nil
	}
	more, err := d.claim(ctx, now, d.inTurn(ready))
	if more {
		wait = 0
	}
	return wait, err
}

// inTurn orders webhooks starting after the one that was served last (round robin).
func (d *Dispatcher) inTurn(ids []string) []string {
	slices.Sort(ids)
	d.mu.Lock()
	defer d.mu.Unlock()
	i, found := slices.BinarySearch(ids, d.last)
	if found {
		i++
	}
	return append(ids[i:len(ids):len(ids)], ids[:i]...)
}

// places returns the number of deliveries of a webhook that may be claimed now.
func (d *Dispatcher) places(id string, now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Before(d.unreadable[id]) {
		return 0
	}
	all, failing := 0, 0
	for of, n := range d.sending {
		all += n
		if d.failing[of] {
			failing += n
		}
	}
	n := min(perWebhook-d.sending[id], atOnce-all)
	if d.failing[id] {
		n = min(1-d.sending[id], failingShare-failing, atOnce-all)
	}
	return max(n, 0)
}

// claimed is a webhook with deliveries that this process sends.
type claimed struct {
	webhook    stoa.Webhook
	secrets    []secret
	deliveries []store.Delivery
}

// claim claims deliveries of the webhooks, one webhook after the other, and begins to send
// them. It reports whether more can be claimed immediately.
func (d *Dispatcher) claim(ctx context.Context, now time.Time, ids []string) (more bool, err error) {
	for _, id := range ids {
		n := d.places(id, now)
		if n == 0 {
			continue
		}
		var c claimed
		var held bool
		err := d.store.Write(ctx, func(tx *store.Tx) (err error) {
			c, held, err = d.claimOf(ctx, tx, id, now, n)
			return err
		})
		if err != nil {
			return false, err
		}
		more = more || held
		d.mu.Lock()
		d.last = id
		d.sending[id] += len(c.deliveries)
		d.mu.Unlock()
		for _, delivery := range c.deliveries {
			d.requests.Go(func() { d.send(ctx, c.webhook, c.secrets, delivery) })
		}
	}
	return more, nil
}

// claimOf claims at most n deliveries of a webhook. Those of a disabled webhook are held, and
// those of a deleted one removed; held reports that there may be more.
func (d *Dispatcher) claimOf(ctx context.Context, tx *store.Tx, id string, now time.Time, n int) (c claimed, held bool, err error) {
	w, found, err := tx.AnyWebhook(ctx, id)
	if err != nil {
		return c, false, err
	}
	if !found {
		d.forget(id)
		gone, err := tx.DropDeliveries(ctx, id, holdBatch)
		return c, gone == holdBatch, err
	}
	if w.Disabled != "" || w.URL == "" {
		if n, err := tx.HoldDeliveries(ctx, id, holdBatch); err != nil || n > 0 {
			return c, true, err
		}
	}
	secrets, err := openSecrets(d.cfg.Vault, w, now)
	if err != nil {
		d.cannotRead(ctx, w, now, err)
		return c, false, nil
	}
	d.mu.Lock()
	delete(d.unreadable, id)
	d.mu.Unlock()
	c = claimed{webhook: w, secrets: secrets}
	if !w.FailingSince.IsZero() { // another process or an earlier one may have set it
		d.mu.Lock()
		known := d.failing[id]
		d.failing[id] = true
		d.mu.Unlock()
		if !known {
			n = d.places(id, now)
		}
	}
	if n > 0 {
		c.deliveries, err = tx.ClaimDeliveries(ctx, id, d.node+"/"+stoa.NewID("lse"), now, now.Add(lease), n)
	}
	return c, false, err
}

// forget drops the state of a deleted webhook.
func (d *Dispatcher) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.failing, id)
	delete(d.unreadable, id)
}

// cannotRead skips a webhook with an unreadable secret for a while: its deliveries wait, and
// no attempt counts.
func (d *Dispatcher) cannotRead(ctx context.Context, w stoa.Webhook, now time.Time, err error) {
	d.mu.Lock()
	_, known := d.unreadable[w.ID]
	d.unreadable[w.ID] = now.Add(unreadableIn)
	d.mu.Unlock()
	if !known {
		d.log.LogAttrs(ctx, slog.LevelError, "a secret cannot be read", slog.String("webhook", w.ID), slog.String("account", w.AccountID), slog.Any("error", err))
	}
}

// ended records that a request has ended.
func (d *Dispatcher) ended(id string, failed bool) {
	d.mu.Lock()
	if d.sending[id]--; d.sending[id] <= 0 {
		delete(d.sending, id)
	}
	if failed {
		d.failing[id] = true
	} else {
		delete(d.failing, id)
	}
	d.mu.Unlock()
	d.wake()
}

// gaps are the times between the attempts of a delivery: 24 hours in all.
var gaps = [...]time.Duration{
	5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 15*time.Hour + 24*time.Minute,
}

const (
	// Attempts is the maximum number of attempts of a delivery.
	Attempts   = len(gaps) + 1
	jitter     = 0.1                 // of a gap, in both directions
	maxAsked   = 2 * time.Hour       // maximum Retry-After that is honoured
	longest    = 27 * time.Hour      // from the first attempt; after that the next attempt is the last
	failedLong = 3 * 24 * time.Hour  // without a success
	failedMany = 20                  // deliveries
	logKept    = 20                  // attempts of a delivery
	ReplyKept  = 512                 // bytes of a reply that are kept
	userAgent  = "Stoa-Webhooks/1.0" // followed by the version of the program

)

// next returns the time of the next attempt of a failed delivery; zero if none exists.
func (d *Dispatcher) next(of store.Delivery, now time.Time, asked time.Duration) time.Time {
	if of.Once || of.Round >= Attempts || now.Sub(of.FirstAt) >= longest {
		return time.Time{}
	}
	gap := gaps[of.Round-1]
	gap += time.Duration((2*d.cfg.Jitter() - 1) * jitter * float64(gap))
	return now.Add(cmp.Or(max(gap, min(asked, maxAsked)), time.Second))
}
