package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/testkit/fakeup"
)

// A load is a group of callers of every kind that work until they are stopped.
type load struct {
	h        *server
	vendor   *vendor
	accounts []*account
	events   chan struct{} // something happened at a caller or at the vendor

	next atomic.Int64

	mu      sync.Mutex
	records map[string]*record
	faults  []string // forbidden results of callers
	tops    int
}

// A vendor is the fake provider, which reports its events to the load.
type vendor struct {
	*fakeup.Handler
	url string
}

func newVendor(t testing.TB, event func()) *vendor {
	t.Helper()
	v := &vendor{Handler: fakeup.NewHandler(fakeup.Options{Brief: true})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if event != nil {
			event()
			defer event()
		}
		v.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	v.url = server.URL
	return v
}

// models are the requested models: every wire, gated ones, aliases, auto.
var models = []string{
	"alpha-haiku-4-5", "alpha-sonnet-5-5", "alpha-sonnet-5", "alpha-opus-5-5", "alpha-fable-5-1", "alpha-opus-5",
	"beta-3.1-pro", "beta-3.1-flash", "beta-3.8-flash",
	"gamma-6.1-sol", "gamma-6-luna", "gamma-5.6-luna",
	"delta-v4-flash", "delta-v4-pro", "auto", "auto",
}

func newLoad(h *server, v *vendor, accounts ...*account) *load {
	return &load{h: h, vendor: v, accounts: accounts, events: make(chan struct{}, 1024), records: map[string]*record{}}
}

func (l *load) happened() {
	select {
	case l.events <- struct{}{}:
	default: // the reader is slower; it needs no exact number
	}
}

// run works with the given number of callers until ctx ends; it returns when the last of them
// has finished.
func (l *load) run(ctx context.Context, callers int) {
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				l.one(ctx)
			}
		})
	}
	all.Wait()
}

func (l *load) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func (l *load) record(a *account, idempotencyKey string) *record {
	r := &record{mark: fmt.Sprintf("c%d", l.next.Add(1)), account: a}
	if idempotencyKey != "" {
		r.key = idempotencyKey + r.mark
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records[r.mark] = r
	return r
}

func (l *load) saw(r *record, s seen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.attempts = append(r.attempts, s)
	l.happened()
}

// orders returns a random prompt; half of them last long enough to be killed
// half-way.
func orders() string {
	switch rand.IntN(10) {
	case 0:
		return "think: 200\ntokens: 10"
	case 1, 2, 3:
		return fmt.Sprintf("slow: %dms\ntokens: %d", 1+rand.IntN(4), 5+rand.IntN(30))
	case 4:
		return "cached: 20\nsay: from the cache"
	case 5:
		return "stop: length\ntokens: 12"
	case 6:
		return "flaky: 1\ntokens: 4" // fails once, then serves
	}
	return fmt.Sprintf("tokens: %d", 1+rand.IntN(20))
}

// failing returns a prompt that no provider serves to the end.
func failing() string {
	return []string{
		"fail: 500", "fail: 529", "fail: 503 after 3\ntokens: 9", "cut: 2\ntokens: 9", "cut: 0",
		"fault: no-end\ntokens: 5", "fault: reset", "fault: reset after 2\ntokens: 9", "fault: error-in-stream\ntokens: 5", "fault: html", "fault: empty-body", "fault: malformed after 1\ntokens: 4",
	}[rand.IntN(12)]
}

func (l *load) body(r *record, order string, stream bool) object {
	return object{
		"model": models[rand.IntN(len(models))], "user": r.mark, "stream": stream, "max_output_tokens": 400,
		"input": "mark: " + r.mark + "\n" + order,
	}
}

// one makes one call of a random kind.
func (l *load) one(ctx context.Context) {
	a := l.accounts[rand.IntN(len(l.accounts))]
	switch kind := rand.IntN(100); {
	case kind < 22: // whole
		l.once(a, orders(), false, nil)
	case kind < 44: // streamed
		l.once(a, orders(), true, nil)
	case kind < 56: // disconnects during a stream
		after := rand.IntN(6)
		l.once(a, "slow: 2ms\ntokens: 40", true, func(n int, leave func()) {
			if n > after {
				leave()
			}
		})
	case kind < 62: // disconnects at any moment, whole or streamed
		l.leaving(a, rand.IntN(2) == 0)
	case kind < 65 && a.cappedKey != "":
		// The prompt is so long that the fake, which counts all of a request's bytes, reports
		// less than was held: above that a cap is not exact.
		l.onceAs(a, a.cappedKey, "tokens: 8\n"+strings.Repeat("and on ", 200), rand.IntN(2) == 0, nil)
	case kind < 70: // an upstream that fails
		l.once(a, failing(), rand.IntN(2) == 0, nil)
	case kind < 76 && a.agent != "":
		l.session(ctx, a)
	case kind < 94:
		l.untilAnswered(ctx, a)
	case kind < 97:
		l.topUp(ctx, a)
	default:
		l.look(a)
	}
}

// once makes a call once, regardless of its outcome. Each call runs to its end, so that only
// the kill of the server can hide the outcome.
func (l *load) once(a *account, order string, stream bool, onDelta func(n int, leave func())) {
	l.onceAs(a, a.key, order, stream, onDelta)
}

func (l *load) onceAs(a *account, key, order string, stream bool, onDelta func(n int, leave func())) {
	ctx, leave := context.WithTimeout(context.Background(), 60*time.Second)
	defer leave()
	r := l.record(a, "")
	s := l.h.ask(ctx, key, "", l.body(r, order, stream), func(n int) {
		l.happened()
		if onDelta != nil {
			onDelta(n, leave)
		}
	})
	l.saw(r, s)
	if s.refused {
		l.h.await(ctx)
	}
}

// leaving makes a call whose caller disconnects at a random moment.
func (l *load) leaving(a *account, stream bool) {
	ctx, leave := context.WithTimeout(context.Background(), time.Duration(rand.IntN(12_000))*time.Microsecond)
	defer leave()
	r := l.record(a, "")
	l.saw(r, l.h.ask(ctx, a.key, "", l.body(r, "slow: 1ms\ntokens: 30", stream), nil))
}

// untilAnswered repeats a call under an idempotency key until it has its reply, as a careful
// client would, and then once more.
func (l *load) untilAnswered(ctx context.Context, a *account) {
	r := l.record(a, "key-")
	body := l.body(r, orders(), rand.IntN(2) == 0)
	answered := 0
	limit, cancel := context.WithTimeout(context.Background(), safetyNet)
	defer cancel()
	for limit.Err() == nil {
		attempt, leave := context.WithTimeout(context.Background(), 60*time.Second)
		if rand.IntN(5) == 0 { // the caller of this attempt disconnects early
			leave()
			attempt, leave = context.WithTimeout(context.Background(), time.Duration(rand.IntN(20_000))*time.Microsecond)
		}
		s := l.h.ask(attempt, a.key, r.key, body, func(int) { l.happened() })
		leave()
		l.saw(r, s)
		switch {
		case s.done():
			if answered++; answered == 2 {
				return
			}
		case s.code == "insufficient_quota":
			return
		case s.refused:
			l.h.await(ctx)
		case s.status == http.StatusServiceUnavailable:
			pass(limit, retryAfter)
		case s.code == "idempotency_in_progress":
			pass(limit, 20*time.Millisecond)
		}
	}
	l.fault("%s was never answered under its key; at last: %+v", r.mark, r.attempts[len(r.attempts)-3:])
}

// session starts one session of the account's agent, repeating the request as often as
// necessary, and follows it until it stops.
func (l *load) session(ctx context.Context, a *account) {
	r := l.record(a, "session-")
	r.session = true
	background, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
	defer cancel()
	path := "/api-agents/" + a.agent + "/sessions"
	body := object{"message": "mark: " + r.mark + "\n" + orders(), "mode": "once", "externalUserId": r.mark}
	var s struct {
		ID, Status string
		Usage      struct{ InputTokens, OutputTokens, TotalTokens int64 }
		Model      struct{ Served *string }
	}
	for {
		status, err := l.h.callOnce(background, http.MethodPost, a.key, r.key, path, body, &s)
		if err == nil && s.ID != "" {
			break
		}
		if status != 0 && status < 500 && status != http.StatusConflict || background.Err() != nil {
			l.fault("start session %s: %v", r.mark, err)
			return
		}
		l.h.await(background)
		if status == http.StatusServiceUnavailable {
			pass(background, retryAfter)
		}
	}
	l.happened()
	id := s.ID
	for s.Status == "queued" || s.Status == "running" {
		if status, err := l.h.call(background, http.MethodGet, a.key, path+"/"+id+"?waitSeconds=1", nil, &s); err != nil {
			if status != 0 && status < 500 || background.Err() != nil {
				l.fault("read session %s: %v", r.mark, err)
				return
			}
			l.h.await(background)
			if status == http.StatusServiceUnavailable {
				pass(background, retryAfter)
			}
		}
	}
	told := seen{id: id, end: s.Status, charge: -1, usage: usage{s.Usage.InputTokens, s.Usage.OutputTokens, s.Usage.TotalTokens}}
	if s.Model.Served != nil {
		told.model = *s.Model.Served
	}
	l.saw(r, told)
}

// topUp grants credits under a reference, until a reply confirms it.
func (l *load) topUp(ctx context.Context, a *account) {
	const amount = 50_000
	l.mu.Lock()
	l.tops++
	ref := fmt.Sprintf("top-up-%s-%d", a.id, l.tops)
	l.mu.Unlock()
	background, cancel := context.WithTimeout(context.WithoutCancel(ctx), 60*time.Second)
	defer cancel()
	if err := l.h.grant(background, a, amount, ref); err != nil {
		l.fault("top-up: %v", err)
		return
	}
	l.mu.Lock()
	a.granted += amount
	l.mu.Unlock()
}

// look reads the credits while calls run: invariant 6, and the sum.
func (l *load) look(a *account) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var c credits
	if _, err := l.h.call(ctx, http.MethodGet, a.key, "/credits", nil, &c); err != nil {
		l.h.await(ctx)
		return
	}
	if c.AvailableMicro < 0 || c.HeldMicro < 0 || c.SpentMicro < 0 || c.GrantedMicro != c.AvailableMicro+c.HeldMicro+c.SpentMicro {
		l.fault("account %s while calls run: %+v", a.id, c)
	}
}

// finish checks everything after the load has ended: the server must be up.
func (l *load) finish(t testing.TB) *audit {
	t.Helper()
	served := l.vendor.WaitEnded(t, 0)
	audit := l.h.newAudit(t, l.records, served)
	for _, a := range l.accounts {
		audit.receipts[a] = l.h.checkConservation(t, a)
	}
	audit.check(t)
	for _, f := range l.faults {
		t.Error(f)
	}
	return audit
}

// tally counts the outcomes for the log of the test.
func (l *load) tally() string {
	var calls, completed, failed, clientDisconnected, cut, refused, replayed, quota, budget, sessions, unfinished int
	for _, r := range l.records {
		calls++
		for _, s := range r.attempts {
			switch {
			case r.session && s.end == "completed":
				sessions++
			case r.session:
				unfinished++
			case s.replayed:
				replayed++
			case s.done():
				completed++
			case s.refused:
				refused++
			case s.code == "insufficient_quota":
				quota++
			case s.code == "key_budget_exceeded":
				budget++
			case s.clientDisconnected:
				clientDisconnected++
			case s.broken != nil:
				cut++
			default:
				failed++
			}
		}
	}
	return fmt.Sprintf("%d calls: %d replies, %d replays, %d failures, %d disconnects, %d cut by a kill, %d not connected, %d without credits, %d above a key's cap; %d sessions, %d failed ones; %d top-ups; the vendor saw %d requests",
		calls, completed, replayed, failed, clientDisconnected, cut, refused, quota, budget, sessions, unfinished, l.tops, len(l.vendor.Served()))
}

// retryAfter is the pause of callers after a 503, shorter than the requested one.
const retryAfter = 200 * time.Millisecond

// pass waits until d is over or ctx ends. It is used for the duration of a fault and the
// pause between attempts of a caller; no result depends on it.
func pass(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}
