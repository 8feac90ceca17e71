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

	"golang.org/x/time/rate"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
	"stoa/internal/base/vault"
)

// Config configures [New]. Store, Vault and Client are required; zero values of the other
// fields mean the defaults in brackets.
type Config struct {
	Store  *store.Store
	Vault  *vault.Vault
	Client http.RoundTripper // must not follow redirects and must limit the time of a request; see package outbound
	Mail   Mail
	// Shared means that other processes write to the same store, so that the rows are read every
	// second.
	Shared         bool
	KeysPauseAfter time.Duration      // see [auth.Keys]; 0 means never
	Version        string             // version of the program for the header User-Agent
	Now            func() time.Time   // [time.Now]
	Jitter         func() float64     // a random number from 0 to 1 [rand.Float64]
	Logger         *slog.Logger       // [none]
	Metrics        *telemetry.Metrics // [none]
}

// Limits of the dispatcher in each process. A webhook is slow if its newest attempt here failed or took
// longer than slowAnswer, or if it had none. Slow ones use separate, small shares, so that they never
// delay the others.
const (
	AttemptTime = 15 * time.Second // timeout of one request
	lease       = time.Minute      // time in which no other process sends a claimed delivery; longer than an attempt, so that none is sent twice
	slowAnswer  = 2 * time.Second

	atOnce      = 4 * quickShare // concurrent requests
	quickShare  = 128            // requests to quick webhooks that have run for less than slowAnswer
	slowShare   = 64             // requests to slow webhooks, one to each
	perAccount  = quickShare / 4 // requests to the webhooks of an account, so that none uses more than a quarter
	slowAccount = slowShare / 16 // requests to the slow webhooks of an account
	perWebhook  = 4              // requests to one webhook
)

const (
	lookGap      = 10 * time.Millisecond // pause after each Look, so that the next one finds all commits in the meantime
	sweepEvery   = time.Minute
	unreadableIn = time.Minute // pause before a webhook with an unreadable secret is tried again
	holdBatch    = 500
	stopTime     = 5 * time.Second // timeout of the last writes when the process stops
)

// A Dispatcher sends deliveries. Several processes may run one on the same store.
type Dispatcher struct {
	cfg    Config
	store  *store.Store
	log    *slog.Logger
	node   string
	wakeup chan struct{}

	mu         sync.Mutex
	sending    map[string]flight        // requests in progress, by delivery
	quick      map[string]bool          // webhooks that are not slow
	unreadable map[string]time.Time     // time until which webhooks with an unreadable secret are skipped
	mails      map[string]*rate.Limiter // rates of mail by address
	last       store.DueWebhook         // the webhook that was served last
	requests   sync.WaitGroup
	pending    int           // number of deliveries at the latest sweep
	lag        time.Duration // delay of the oldest of them beyond its due time
}

type flight struct {
	webhook, account string
	slow             bool // the webhook was slow when the request began
	began            time.Time
}

type usage struct {
	all, quick, slow           int
	account, slowAccount, hook map[string]int
}

func (d *Dispatcher) usage(now time.Time) *usage {
	u := &usage{account: map[string]int{}, slowAccount: map[string]int{}, hook: map[string]int{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.sending {
		u.add(f, now)
	}
	return u
}

func (u *usage) add(f flight, now time.Time) {
	u.all++
	u.account[f.account]++
	u.hook[f.webhook]++
	switch {
	case f.slow:
		u.slow++
		u.slowAccount[f.account]++
	case now.Sub(f.began) < slowAnswer:
		u.quick++
	}
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
		sending: map[string]flight{}, quick: map[string]bool{}, unreadable: map[string]time.Time{}, mails: map[string]*rate.Limiter{},
	}
}

func (d *Dispatcher) now() time.Time { return d.cfg.Now().UTC().Truncate(time.Microsecond) }

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
	swept := time.Time{}
	stoa.Poll(ctx, d.store.Outbox(), d.wakeup, func() time.Duration {
		if now := d.now(); now.Sub(swept) >= sweepEvery || now.Before(swept) {
			swept = now
			if err := d.Sweep(ctx); err != nil {
				d.report(ctx, "credits and keys could not be checked for webhooks", err)
			}
		}
		wait, err := d.Look(ctx)
		if err != nil {
			d.report(ctx, "the outbox of webhooks could not be read", err)
			wait = stoa.PollShared
		}
		stoa.Sleep(ctx, lookGap)
		return wait - lookGap
	})
	return nil
}

// begin frees the deliveries that an earlier process was sending, unless another process may still send
// them, so that they need not wait for the end of their lease.
func (d *Dispatcher) begin(ctx context.Context) error {
	for n := int64(holdBatch); n == holdBatch && !d.cfg.Shared; {
		if err := d.store.Write(ctx, func(tx *store.Tx) (err error) {
			n, err = tx.Operations().FreeDeliveries(ctx, holdBatch)
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
	due, err := store.Read(ctx, d.store, func(tx *store.Tx) ([]store.DueWebhook, error) { return tx.Operations().DueWebhooks(ctx) })
	if err != nil {
		return 0, err
	}
	now, wait := d.now(), stoa.PollEvery(d.cfg.Shared)
	var ready []store.DueWebhook
	for _, w := range due {
		if w.DueAt.After(now) {
			wait = min(wait, w.DueAt.Sub(now))
		} else {
			ready = append(ready, w)
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

// inTurn orders webhooks so that accounts take turns, each with its webhooks in turn. It starts after
// the account and the webhook that were served last, so that none of them waits forever.
func (d *Dispatcher) inTurn(ready []store.DueWebhook) []store.DueWebhook {
	d.mu.Lock()
	last := d.last
	d.mu.Unlock()
	after := func(w store.DueWebhook) int {
		if cmp.Or(cmp.Compare(w.AccountID, last.AccountID), cmp.Compare(w.ID, last.ID)) > 0 {
			return 0
		}
		return 1
	}
	slices.SortFunc(ready, func(a, b store.DueWebhook) int {
		return cmp.Or(cmp.Compare(after(a), after(b)), cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.ID, b.ID))
	})
	round, seen := map[string]int{}, map[string]int{}
	for _, w := range ready {
		round[w.ID] = seen[w.AccountID]
		seen[w.AccountID]++
	}
	slices.SortStableFunc(ready, func(a, b store.DueWebhook) int { return cmp.Compare(round[a.ID], round[b.ID]) })
	return ready
}

// places returns the number of deliveries of a webhook that may be claimed now, and whether it
// is slow.
func (d *Dispatcher) places(w store.DueWebhook, u *usage, now time.Time) (n int, slow bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = min(atOnce-u.all, perAccount-u.account[w.AccountID])
	if slow = !d.quick[w.ID]; slow {
		n = min(n, slowShare-u.slow, slowAccount-u.slowAccount[w.AccountID], 1-u.hook[w.ID])
	} else {
		n = min(n, quickShare-u.quick, perWebhook-u.hook[w.ID])
	}
	if now.Before(d.unreadable[w.ID]) {
		n = 0
	}
	return max(n, 0), slow
}

type claimed struct {
	webhook    stoa.Webhook
	secrets    []Secret
	deliveries []store.Delivery
}

// claim claims deliveries of the webhooks, one webhook after the other, and begins to send
// them. It reports whether more can be claimed immediately.
func (d *Dispatcher) claim(ctx context.Context, now time.Time, ready []store.DueWebhook) (more bool, err error) {
	u := d.usage(now)
	for _, w := range ready {
		n, slow := d.places(w, u, now)
		if n == 0 {
			continue
		}
		var c claimed
		var held bool
		err := d.store.Write(ctx, func(tx *store.Tx) (err error) {
			c, held, err = d.claimOf(ctx, tx, w, now, func(w store.DueWebhook) (n int) {
				n, slow = d.places(w, u, now)
				return n
			})
			return err
		})
		if err != nil {
			return false, err
		}
		more = more || held
		d.mu.Lock()
		d.last = w
		for _, delivery := range c.deliveries {
			f := flight{w.ID, w.AccountID, slow, now}
			d.sending[delivery.ID] = f
			u.add(f, now)
		}
		d.mu.Unlock()
		for _, delivery := range c.deliveries {
			d.requests.Go(func() { d.send(ctx, c.webhook, c.secrets, delivery) })
		}
	}
	return more, nil
}

// claimOf claims deliveries of a webhook, as many as there are places for it. It holds those of a
// disabled webhook and removes those of a deleted one, a batch at a time so that the transaction stays
// short; held reports that there may be more.
func (d *Dispatcher) claimOf(ctx context.Context, tx *store.Tx, due store.DueWebhook, now time.Time, places func(store.DueWebhook) int) (c claimed, held bool, err error) {
	id := due.ID
	w, found, err := tx.Operations().AnyWebhook(ctx, id)
	if err != nil {
		return c, false, err
	}
	if !found {
		d.forget(id)
		gone, err := tx.Operations().DropDeliveries(ctx, id, holdBatch)
		return c, gone == holdBatch, err
	}
	if w.Disabled != "" || w.URL == "" {
		if n, err := tx.Operations().HoldDeliveries(ctx, id, holdBatch); err != nil || n > 0 {
			return c, true, err
		}
	}
	secrets, err := OpenSecrets(d.cfg.Vault, secretRef(w), w.Sealed, now)
	if err != nil {
		d.mu.Lock()
		_, known := d.unreadable[w.ID]
		d.unreadable[w.ID] = now.Add(unreadableIn)
		d.mu.Unlock()
		if !known {
			d.log.LogAttrs(ctx, slog.LevelError, "a secret cannot be read", slog.String("webhook", w.ID), slog.String("account", w.AccountID), slog.Any("error", err))
		}
		return c, false, nil
	}
	d.mu.Lock()
	delete(d.unreadable, id)
	d.mu.Unlock()
	c = claimed{webhook: w, secrets: secrets}
	if !w.FailingSince.IsZero() { // checked here too, because another process may have set it
		d.mu.Lock()
		delete(d.quick, id)
		d.mu.Unlock()
	}
	if n := places(due); n > 0 {
		c.deliveries, err = tx.Operations().ClaimDeliveries(ctx, id, d.node+"/"+stoa.NewID("lse"), now, now.Add(lease), n)
	}
	return c, false, err
}

func (d *Dispatcher) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.quick, id)
	delete(d.unreadable, id)
}

func (d *Dispatcher) ended(of store.Delivery, quick bool) {
	d.mu.Lock()
	delete(d.sending, of.ID)
	if quick {
		d.quick[of.WebhookID] = true
	} else {
		delete(d.quick, of.WebhookID)
	}
	d.mu.Unlock()
	select {
	case d.wakeup <- struct{}{}:
	default:
	}
}

// gaps lists the pauses between the attempts of a delivery: 24 hours in total.
var gaps = [...]time.Duration{
	5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 15*time.Hour + 24*time.Minute,
}

const (
	// Attempts is the maximum number of attempts of a delivery.
	Attempts   = len(gaps) + 1
	jitter     = 0.1                 // share of a gap, in both directions, so that deliveries that failed together are not retried together
	maxAsked   = 2 * time.Hour       // maximum Retry-After that is honoured, since receivers may send any number
	longest    = 27 * time.Hour      // time from the first attempt after which the next one is the last
	failedLong = 3 * 24 * time.Hour  // time without a success after which a webhook is disabled
	failedMany = 20                  // number of failed deliveries that this needs too
	logKept    = 20                  // attempts of a delivery that its row lists
	ReplyKept  = 512                 // bytes of a reply that are kept
	userAgent  = "Stoa-Webhooks/1.0" // followed by the version of the program

)

func (d *Dispatcher) next(of store.Delivery, now time.Time, asked time.Duration) time.Time {
	if of.Once || of.Round >= Attempts || now.Sub(of.FirstAt) >= longest {
		return time.Time{}
	}
	gap := gaps[of.Round-1]
	gap += time.Duration((2*d.cfg.Jitter() - 1) * jitter * float64(gap))
	return now.Add(cmp.Or(max(gap, min(asked, maxAsked)), time.Second))
}
