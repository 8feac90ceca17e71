//go:build unix

package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A run is the state of one test of one gateway.
type run struct {
	size
	gateway *gateway
	vendor  *vendor
	marks   atomic.Int64
	rich    int64 // a budget that no scenario reaches
}

// A size contains the numbers of callers, keys and kills of a run, and its times.
type size struct {
	crowd, customers, load int
	kills                  int
	away, before, after    time.Duration
	deadline               time.Duration // of a call
	pause                  time.Duration // between two readings of the books
}

var (
	fullSize  = size{crowd: 64, customers: 250, load: 32, kills: 3, away: 20 * time.Second, before: 3 * time.Second, after: 10 * time.Second, deadline: 30 * time.Second, pause: time.Second}
	shortSize = size{crowd: 24, customers: 20, load: 8, kills: 1, away: 3 * time.Second, before: time.Second, after: 3 * time.Second, deadline: 10 * time.Second, pause: time.Second}
)

// A scenario makes calls and returns the customers that made them.
type scenario struct {
	name  string
	about string
	do    func(r *run, ctx context.Context, v *verdict) ([]*customer, error)
}

var scenarios = []scenario{
	{"crowd", "many callers of one key whose budget pays for ten calls", (*run).crowdAtCap},
	{"long", "prompts that are too long for the budget or for the model", (*run).tooLong},
	{"faults", "a vendor that cuts the connection, stalls, or answers twice", (*run).faults},
	{"database", "the database goes away under load", (*run).databaseAway},
	{"kill", "kill -9 of the gateway under load, and a restart", (*run).killed},
	{"customers", "many customers at a time, each with a budget for three calls", (*run).manyCustomers},
}

// An errNotRun gives the reason why a scenario cannot be run.
type errNotRun string

func (e errNotRun) Error() string { return string(e) }

func (r *run) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// newCall returns a call with a new mark. All marks have the same length, so that like calls cost the same.
func (r *run) newCall(words int) *call {
	n := r.marks.Add(1)
	return &call{mark: fmt.Sprintf("m%07d", n), words: words, stream: n%2 == 0}
}

func (r *run) price(c *call) int64 { return r.gateway.Price.of(c.input(), c.words) }

// newCustomer creates a key with a budget.
func (r *run) newCustomer(ctx context.Context, limit int64) (*customer, error) {
	c := &customer{name: fmt.Sprintf("customer-%d", r.marks.Add(1)), cap: limit}
	c.vars = map[string]string{"customer": c.name, "capMicro": fmt.Sprint(limit), "cap": strconv.FormatFloat(float64(limit)/1e6, 'f', -1, 64)}
	for _, s := range r.gateway.Customer {
		if _, err := r.gateway.do(ctx, s, c.vars); err != nil {
			return nil, fmt.Errorf("create a customer: %w", err)
		}
	}
	return c, nil
}

// all makes calls of one customer at a time.
func (r *run) all(ctx context.Context, c *customer, calls []*call) {
	var running sync.WaitGroup
	for _, one := range calls {
		running.Go(func() { one.make(ctx, r.gateway, c, r.deadline) })
	}
	running.Wait()
	c.calls = append(c.calls, calls...)
}

func (r *run) crowdAtCap(ctx context.Context, v *verdict) ([]*customer, error) {
	calls := make([]*call, r.crowd)
	for i := range calls {
		calls[i] = r.newCall(40)
		calls[i].pace = 5 * time.Millisecond
	}
	c, err := r.newCustomer(ctx, 10*r.price(calls[0]))
	if err != nil {
		return nil, err
	}
	r.all(ctx, c, calls)
	atOnce := 0
	for _, call := range calls {
		if _, ok := r.delivered(call); ok {
			atOnce++
		}
	}
	// What is left is spent by one call after the other, so that a gateway that only refuses does not pass.
	for range 20 {
		one := r.newCall(40)
		one.pace = 5 * time.Millisecond
		r.all(ctx, c, []*call{one})
		if one.status/100 == 4 {
			break
		}
	}
	v.Notes = append(v.Notes, fmt.Sprintf("the budget pays for 10 calls; of %d calls together %d were served, and then others one by one", r.crowd, atOnce))
	return []*customer{c}, nil
}

func (r *run) tooLong(ctx context.Context, _ *verdict) ([]*customer, error) {
	limit := 100 * r.price(r.newCall(40))
	tokens := float64(limit) * 1e6 / float64(r.gateway.Price.Input) // of input that the budget pays for
	var customers []*customer
	for _, part := range []struct {
		limit int64
		bytes int
	}{
		{limit, int(0.4 * tokens * 4)},
		{limit, int(3 * tokens * 4)},
		{r.rich, (r.gateway.ContextTokens + 1000) * 4},
	} {
		c, err := r.newCustomer(ctx, part.limit)
		if err != nil {
			return customers, err
		}
		customers = append(customers, c)
		calls := make([]*call, 8)
		for i := range calls {
			calls[i] = r.newCall(20)
			calls[i].padding = part.bytes
		}
		r.all(ctx, c, calls)
		r.all(ctx, c, []*call{r.newCall(20)}) // a short one afterwards
	}
	return customers, nil
}

func (r *run) faults(ctx context.Context, _ *verdict) ([]*customer, error) {
	c, err := r.newCustomer(ctx, r.rich)
	if err != nil {
		return nil, err
	}
	var calls []*call
	for i := range 8 * 5 {
		one := r.newCall(40)
		one.fault = []string{"cut", "cut-once", "stall", "twice", "none"}[i%5]
		one.pace = 2 * time.Millisecond
		calls = append(calls, one)
	}
	r.all(ctx, c, calls)
	return []*customer{c}, nil
}

// underLoad runs callers of four keys while something happens.
func (r *run) underLoad(ctx context.Context, happens func() error) ([]*customer, error) {
	customers := make([]*customer, 4)
	for i := range customers {
		var err error
		if customers[i], err = r.newCustomer(ctx, r.rich); err != nil {
			return nil, err
		}
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	var mu sync.Mutex
	for i := range r.load {
		c := customers[i%len(customers)]
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-ctx.Done():
					return
				default:
				}
				one := r.newCall(20)
				one.pace = 10 * time.Millisecond
				one.make(ctx, r.gateway, c, r.deadline)
				mu.Lock()
				c.calls = append(c.calls, one)
				mu.Unlock()
				if !one.ended {
					r.sleep(ctx, 100*time.Millisecond)
				}
			}
		})
	}
	err := happens()
	close(stop)
	running.Wait()
	return customers, err
}

func (r *run) databaseAway(ctx context.Context, v *verdict) ([]*customer, error) {
	g := r.gateway
	d := g.Database
	if d == nil || g.relay == nil && (len(d.Away) == 0 || len(d.Back) == 0) {
		return nil, errNotRun("the adapter does not say how to take its database away")
	}
	set := func(away bool) error {
		switch {
		case g.relay != nil && len(d.Away) == 0:
			g.relay.setAway(away)
			return nil
		case away:
			return g.commands(ctx, d.Away)
		}
		return g.commands(ctx, d.Back)
	}
	v.Notes = append(v.Notes, fmt.Sprintf("the database was away for %v", r.away))
	return r.underLoad(ctx, func() error {
		r.sleep(ctx, r.before)
		if err := set(true); err != nil {
			return err
		}
		r.sleep(ctx, r.away)
		err := set(false)
		r.sleep(ctx, r.after)
		select {
		case <-g.ended:
			if g.cmd != nil {
				v.Notes = append(v.Notes, "the gateway ended by itself and was started again")
				g.cmd = nil
				return g.start(ctx)
			}
		default:
		}
		return err
	})
}

func (r *run) killed(ctx context.Context, v *verdict) ([]*customer, error) {
	if len(r.gateway.Start) == 0 {
		return nil, errNotRun("the adapter does not say how to start the gateway")
	}
	v.Notes = append(v.Notes, fmt.Sprintf("killed %d times", r.kills))
	return r.underLoad(ctx, func() error {
		for range r.kills {
			r.sleep(ctx, r.before)
			r.gateway.kill()
			if err := r.gateway.start(ctx); err != nil {
				return err
			}
		}
		r.sleep(ctx, r.before)
		return nil
	})
}

func (r *run) manyCustomers(ctx context.Context, _ *verdict) ([]*customer, error) {
	limit := 3 * r.price(r.newCall(40))
	customers := make([]*customer, r.customers)
	errs := make([]error, r.customers)
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range customers {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			customers[i], errs[i] = r.newCustomer(ctx, limit)
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	for _, c := range customers {
		all.Go(func() {
			calls := make([]*call, 5)
			for i := range calls {
				calls[i] = r.newCall(40)
				calls[i].pace = 5 * time.Millisecond
			}
			r.all(ctx, c, calls)
		})
	}
	all.Wait()
	return customers, nil
}

// perform runs a scenario and judges the books.
func (r *run) perform(ctx context.Context, s scenario) (v verdict) {
	v = verdict{Scenario: s.name}
	began := time.Now()
	defer func() { v.Seconds = time.Since(began).Seconds() }()
	customers, err := s.do(r, ctx, &v)
	if reason, ok := err.(errNotRun); ok {
		v.NotRun, v.Passed = string(reason), true
		return v
	}
	if err != nil {
		v.Error = err.Error()
		return v
	}
	r.gateway.note("%s: calls made, waiting for the books", s.name)
	all, err := r.settle(ctx, customers)
	if err != nil {
		v.Error = "the books cannot be read: " + err.Error()
		return v
	}
	r.judge(&v, customers, all)
	if v.Delivered == 0 {
		v.Error = fmt.Sprintf("no reply was delivered, so nothing was measured: %v", r.errors(customers))
		return v
	}
	v.Passed = v.within(r.gateway.Allowed)
	for text, n := range r.errors(customers) {
		v.Notes = append(v.Notes, fmt.Sprintf("%d calls: %s", n, text))
	}
	slices.Sort(v.Notes)
	return v
}

// errors counts the errors of calls that were not delivered. Numbers, ids and marks are left out, so that like errors
// are counted together.
func (r *run) errors(customers []*customer) map[string]int {
	found := map[string]int{}
	for _, c := range customers {
		for _, call := range c.calls {
			text := strings.Join(strings.Fields(changing.ReplaceAllString(call.err, "…")), " ")
			if text = fmt.Sprintf("%.130s", text); text != "" {
				if call.fault != "" {
					text = call.fault + ": " + text
				}
				if _, known := found[text]; !known && len(found) >= 8 {
					text = "other errors"
				}
				found[text]++
			}
		}
	}
	return found
}

// changing matches what differs from one error to the next: ids and amounts.
var changing = regexp.MustCompile(`[a-z]*_?[0-9a-f]*[0-9][0-9a-z]{4,}`)
