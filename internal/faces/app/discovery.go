package app

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
	"stoa/internal/models/upstream"
)

// Times of a [Discovery].
const (
	listEvery = time.Minute
	listAgain = 5 * time.Second  // pause after a failure
	listPause = 10 * time.Second // minimum pause between two reads for unknown names, because callers can send any number of them
	listWait  = 2 * time.Second  // maximum wait of a call with an unknown name
)

// A Discovery reads the models that servers list and adds them to the catalog. If a list cannot be read, the
// previous one stays in effect, so that a short failure removes no model.
type Discovery struct {
	pool *upstream.Pool
	log  *slog.Logger
	use  func(*catalog.Catalog)
	kick chan struct{} // signals a new configuration

	lock     chan struct{} // mutex for the fields below; a channel, so that waiting can end with a context
	base     *catalog.Catalog
	listings map[string]catalog.Listing // by provider
	problems map[string]string          // latest problem by provider
	read     time.Time
	findings atomic.Pointer[[]store.Finding]
}

func newDiscovery(pool *upstream.Pool, base *catalog.Catalog, log *slog.Logger, use func(*catalog.Catalog)) *Discovery {
	d := &Discovery{
		pool: pool, log: log, use: use, base: base, kick: make(chan struct{}, 1), lock: make(chan struct{}, 1),
		listings: map[string]catalog.Listing{}, problems: map[string]string{},
	}
	d.findings.Store(new([]store.Finding))
	use(base.WithListings(nil))
	return d
}

// Run reads the lists immediately and then once a minute, until ctx ends.
func (d *Discovery) Run(ctx context.Context) error {
	for {
		pause := listEvery
		if d.Read(ctx) {
			pause = listAgain
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.kick:
		case <-time.After(pause):
		}
	}
}

// Read reads the lists and reports whether one of them failed.
func (d *Discovery) Read(ctx context.Context) (failed bool) {
	d.lock <- struct{}{}
	defer func() { <-d.lock }()
	return d.refresh(ctx)
}

// rebase continues with the catalog of a new configuration.
func (d *Discovery) rebase(base *catalog.Catalog) {
	d.lock <- struct{}{}
	d.base = base
	d.use(base.WithListings(d.listings))
	<-d.lock
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// Find reads the lists for the call of an unknown model, unless they were read within [listPause]. It waits for at most
// [listWait].
func (d *Discovery) Find(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	select {
	case d.lock <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-d.lock }()
	if time.Since(d.read) >= listPause {
		d.refresh(ctx)
	}
}

// refresh implements [Discovery.Read]. The caller must hold the lock.
func (d *Discovery) refresh(ctx context.Context) (failed bool) {
	d.read = time.Now()
	changed, findings := false, []store.Finding{}
	for _, p := range d.base.Discovering() {
		l, problem := catalog.Listing{Of: p}, ""
		var err error
		l.Models, l.Local, err = d.pool.Models(ctx, p)
		switch {
		case ctx.Err() != nil:
			return true
		case err != nil:
			failed, problem = true, fmt.Sprintf("The list of models could not be read: %v.", err)
		case l.Unpriced():
			problem = fmt.Sprintf("Its %d models are not offered: its address is not a private one, and the provider has no price. Set price, or the prices of models in models.", len(l.Models))
		case len(l.Models) > catalog.MaxListed:
			problem = fmt.Sprintf("Of its %d models, only the first %d are offered.", len(l.Models), catalog.MaxListed)
		}
		if problem != "" {
			findings = append(findings, store.Finding{ID: p.Name, Detail: problem})
		}
		if last, seen := d.problems[p.Name]; problem != last && problem != "" {
			d.log.WarnContext(ctx, "the models of a provider are not all offered", "provider", p.Name, "reason", problem)
		} else if problem == "" && (!seen || last != "") {
			d.log.InfoContext(ctx, "the models of a provider are offered", "provider", p.Name, "models", len(l.Models))
		}
		d.problems[p.Name] = problem
		if err == nil && !reflect.DeepEqual(d.listings[p.Name], l) {
			d.listings[p.Name], changed = l, true
		}
	}
	d.findings.Store(&findings)
	if changed {
		d.use(d.base.WithListings(d.listings))
	}
	return failed
}
