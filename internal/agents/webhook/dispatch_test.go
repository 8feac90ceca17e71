package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/testkit/storetest"
)

func TestAnEventIsSentOnceAndSigned(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, secret := b.hook(stoa.Webhook{URL: r.URL + "/hook"})
	b.emit(1, Event{Data: map[string]string{"sessionId": "ses_1"}})
	b.drain()
	b.drain()
	all := r.requests()
	if len(all) != 1 {
		t.Fatalf("%d requests", len(all))
	}
	g := all[0]
	if err := verified(t, secret, g); err != nil {
		t.Error(err)
	}
	var body struct {
		ID, Type, Timestamp string
		Data                map[string]string
	}
	if err := json.Unmarshal(g.body, &body); err != nil {
		t.Fatal(err)
	}
	d := b.all(b.account.ID, w.ID)[0]
	if body.ID != d.EventID || g.header.Get(HeaderID) != d.EventID || body.Type != SessionCompleted || body.Data["sessionId"] != "ses_1" {
		t.Errorf("%s\n%v", g.body, g.header)
	}
	if at, err := time.Parse(time.RFC3339, body.Timestamp); err != nil || !at.Equal(d.CreatedAt.Truncate(time.Millisecond)) {
		t.Errorf("%s is not when it happened: %v", body.Timestamp, d.CreatedAt)
	}
	if g.path != "/hook" || g.header.Get("Content-Type") != "application/json" || !strings.HasPrefix(g.header.Get("User-Agent"), "Stoa-Webhooks/1.0 stoa/") {
		t.Errorf("%s %v", g.path, g.header)
	}
	if d.Status != store.DeliveryDelivered || d.Attempts != 1 || d.Log[0].Status != 200 || !stoa.IsID("dlv", d.ID) || d.Body != string(g.body) {
		t.Errorf("%+v", d)
	}
	if got := b.read(w.ID); got.LastSuccessAt.IsZero() {
		t.Error("the success is not recorded")
	}
}

func TestWithoutAWebhookThereIsNoRow(t *testing.T) {
	t.Parallel()
	database := storetest.New(t)
	var mu sync.Mutex
	statements := 0
	database.Config.Observe = func(query string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(query, "webhooks") || strings.Contains(query, "deliveries") {
			statements++
		}
	}
	b := benchOn(t, database.Open())
	other := storetest.Account(t, b.store, 0)
	b.write(func(ctx context.Context, tx *store.Tx) error { // of another account
		_, _, err := b.hooks.Create(ctx, tx, stoa.Webhook{AccountID: other.ID, URL: "https://example.com", Events: []string{"*"}})
		return err
	})
	mu.Lock()
	statements = 0
	mu.Unlock()
	b.write(func(ctx context.Context, tx *store.Tx) error {
		return SessionStopped(ctx, tx, stoa.Session{AccountID: b.account.ID, Status: stoa.SessionCompleted})
	})
	mu.Lock()
	if statements != 1 {
		t.Errorf("%d statements for an account without webhooks", statements)
	}
	mu.Unlock()
	if err := b.store.Read(t.Context(), func(tx *store.Tx) error {
		n, _, err := tx.Operations().PendingDeliveries(t.Context(), 10)
		if n != 0 {
			t.Errorf("%d rows", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAWebhookGetsWhatItWants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var agent stoa.Agent
	b.write(func(ctx context.Context, tx *store.Tx) error {
		space, err := tx.Setup().DefaultSpace(ctx, b.account.ID)
		if err == nil {
			agent, err = tx.Setup().InsertAgent(ctx, stoa.Agent{AccountID: b.account.ID, SpaceID: space.ID, Name: "a"})
		}
		return err
	})
	all, _ := b.hook(stoa.Webhook{})
	some, _ := b.hook(stoa.Webhook{Events: []string{SessionFailed, CreditsLow}})
	here, _ := b.hook(stoa.Webhook{SpaceIDs: []string{agent.SpaceID, "spc_2"}})
	for _, c := range []struct {
		e    Event
		want []string
	}{
		{Event{Type: SessionCompleted, SpaceID: agent.SpaceID}, []string{all.ID, here.ID}},
		{Event{Type: SessionFailed, SpaceID: "spc_3"}, []string{all.ID, some.ID}},
		{Event{Type: SessionFailed, SpaceID: "spc_2"}, []string{all.ID, some.ID, here.ID}},
		{Event{Type: RunFinished, AgentID: agent.ID}, []string{all.ID, here.ID}},
		{Event{Type: RunFinished, AgentID: "agt_none"}, []string{all.ID}},
		{Event{Type: CreditsLow}, []string{all.ID, some.ID, here.ID}},
		{Event{Type: CreditsLow, to: some.ID}, []string{some.ID}},
		{Event{Type: CreditsExhausted, to: some.ID}, nil},
		{Event{Type: WebhookDisabled, except: all.ID}, []string{here.ID}},
		{Event{Type: "session.comple_ed", SpaceID: "spc_3"}, []string{all.ID}},
	} {
		before := map[string]bool{}
		for _, d := range b.all(b.account.ID, "") {
			before[d.ID] = true
		}
		b.emit(1, c.e)
		var got []string
		for _, d := range b.all(b.account.ID, "") {
			if !before[d.ID] {
				got = append(got, d.WebhookID)
				if d.Status != store.DeliveryHeld { // there is no address
					t.Errorf("%s: %s", d.Type, d.Status)
				}
			}
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.e, got, c.want)
		}
	}
}

func TestFailuresAreRepeatedForADay(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, secret := b.hook(stoa.Webhook{URL: r.URL})
	r.status(500)
	b.emit(1, Event{})
	began := b.now()
	for n := 1; n <= Attempts; n++ {
		b.drain()
		all := r.requests()
		if len(all) != 1 {
			t.Fatalf("attempt %d: %d requests", n, len(all))
		}
		if err := verified(t, secret, all[0]); err != nil {
			t.Errorf("attempt %d: %v", n, err)
		}
		if at := all[0].header.Get(HeaderTimestamp); at != strconv.FormatInt(b.now().Unix(), 10) {
			t.Errorf("attempt %d has the time %s", n, at)
		}
		d := b.all(b.account.ID, w.ID)[0]
		if all[0].header.Get(HeaderID) != d.EventID || string(all[0].body) != d.Body {
			t.Errorf("attempt %d is another event", n)
		}
		if n == Attempts {
			break
		}
		b.add(d.DueAt.Sub(b.now()) - time.Millisecond)
		if b.drain(); len(r.requests()) != 0 {
			t.Errorf("attempt %d comes too early", n+1)
		}
		b.add(time.Millisecond)
	}
	if took := b.now().Sub(began); took < 24*time.Hour || took > 24*time.Hour+time.Minute {
		t.Errorf("the attempts take %v", took)
	}
	d := b.all(b.account.ID, w.ID)[0]
	if d.Status != store.DeliveryFailed || len(d.Log) != Attempts || d.Log[7].Error != errorStatus || d.Log[7].Number != Attempts {
		t.Errorf("%+v", d)
	}
	b.add(48 * time.Hour)
	if b.drain(); len(r.requests()) != 0 {
		t.Error("what was given up is sent again")
	}
	if got := b.read(w.ID); got.Failed != 1 || got.FailingSince.IsZero() || got.Disabled != "" {
		t.Errorf("%+v", got)
	}
}

func TestGapsVaryByATenth(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := b.now()
	for i, gap := range gaps {
		for jitter, want := range map[float64]float64{0: 0.9, 0.5: 1, 1: 1.1} {
			b.cfg.Jitter = func() float64 { return jitter }
			got := b.next(store.Delivery{Round: i + 1, FirstAt: now}, now, 0).Sub(now)
			if d := got.Seconds() - want*gap.Seconds(); d > 0.001 || d < -0.001 {
				t.Errorf("gap %d with %v: %v", i, jitter, got)
			}
		}
	}
	for _, of := range []store.Delivery{{Round: Attempts, FirstAt: now}, {Round: 1, Once: true, FirstAt: now}, {Round: 2, FirstAt: now.Add(-longest)}} {
		if at := b.next(of, now, 0); !at.IsZero() {
			t.Errorf("%+v is sent again", of)
		}
	}
}

func TestRetryAfterLengthensOnly(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, _ := b.hook(stoa.Webhook{URL: r.URL})
	for asked, want := range map[string]time.Duration{
		"90": 90 * time.Second, "1": 5 * time.Second, "999999": 2 * time.Hour, "soon": 5 * time.Second, "-3": 5 * time.Second, "": 5 * time.Second,
		b.now().Add(time.Hour).Format(http.TimeFormat): time.Hour,
	} {
		r.answers(func(_ int, _ got, w http.ResponseWriter) { w.Header().Set("Retry-After", asked); w.WriteHeader(429) })
		b.emit(1, Event{})
		b.drain()
		all := b.all(b.account.ID, w.ID)
		d := all[len(all)-1]
		if got := d.DueAt.Sub(b.now()); got > want || got < want-time.Second {
			t.Errorf("%q: %v, want %v", asked, got, want)
		}
	}
}

func TestARedirectIsAFailure(t *testing.T) {
	t.Parallel()
	b, r, other := newBench(t), newReceiver(t), newReceiver(t)
	w, _ := b.hook(stoa.Webhook{URL: r.URL})
	r.answers(func(_ int, _ got, w http.ResponseWriter) {
		w.Header().Set("Location", other.URL)
		w.WriteHeader(307)
		fmt.Fprint(w, "\x00\xff"+strings.Repeat("x", 4096))
	})
	b.emit(1, Event{})
	b.drain()
	if n := len(other.requests()); n != 0 {
		t.Errorf("the other address got %d requests", n)
	}
	d := b.all(b.account.ID, w.ID)[0]
	if a := d.Log[0]; d.Status != store.DeliveryPending || a.Status != 307 || a.Error != errorStatus || !strings.HasPrefix(a.Reply, "\uFFFD\uFFFDxxx") || strings.Count(a.Reply, "x") != ReplyKept-2 {
		t.Errorf("%+v", d)
	}
}

func TestNoReplyIsAFailure(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	r.Close()
	dead, _ := b.hook(stoa.Webhook{URL: r.URL})
	private, _ := b.hook(stoa.Webhook{URL: "https://10.0.0.1/"})
	b.emit(1, Event{})
	b.drain()
	for id, want := range map[string]string{dead.ID: "unreachable", private.ID: "not_allowed"} {
		if d := b.all(b.account.ID, id)[0]; d.Status != store.DeliveryPending || d.Log[0].Status != 0 || d.Log[0].Error != want {
			t.Errorf("%s: %+v", want, d)
		}
	}
}

func TestGoneDisablesAtOnce(t *testing.T) {
	t.Parallel()
	b, r, live := newBench(t), newReceiver(t), newReceiver(t)
	w, _ := b.hook(stoa.Webhook{URL: r.URL})
	other, _ := b.hook(stoa.Webhook{URL: live.URL, Events: []string{WebhookDisabled}})
	r.status(410)
	b.emit(1, Event{})
	b.pass()
	if got := b.read(w.ID); got.Disabled != stoa.WebhookDisabledGone {
		t.Fatalf("%+v", got)
	}
	b.drain()
	if n := len(r.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
	told := live.requests()
	if len(told) != 1 || !strings.Contains(string(told[0].body), w.ID) || !strings.Contains(string(told[0].body), `"reason":"gone"`) {
		t.Errorf("the other webhook is told %v", told)
	}
	if !strings.Contains(b.log.String(), "a webhook was disabled") {
		t.Error("there is no line of it in the log")
	}
	if got := b.statuses(other.ID); got[store.DeliveryDelivered] != 1 {
		t.Error(got)
	}
}

func TestADeadWebhookIsDisabledAndRecovers(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, _ := b.hook(stoa.Webhook{URL: r.URL})
	r.status(503)
	b.emit(failedMany, Event{})
	for range 5 * 24 * 12 { // five days
		b.drain()
		b.add(5 * time.Minute)
	}
	if got := b.read(w.ID); got.Disabled != "" || got.Failed != failedMany {
		t.Fatalf("before three days had passed: %+v", got)
	}
	b.emit(3, Event{})
	for range 2 * 24 * 12 {
		b.drain()
		b.add(5 * time.Minute)
	}
	if got := b.read(w.ID); got.Disabled != stoa.WebhookDisabledByFailures {
		t.Fatalf("%+v", got)
	}
	alarm := `level=WARN msg="a webhook was disabled" account=` + b.account.ID + ` webhook=` + w.ID + ` reason=` + stoa.WebhookDisabledByFailures
	if n := strings.Count(b.log.String(), alarm); n != 1 {
		t.Errorf("the log has %d times %s", n, alarm)
	}
	r.requests()
	r.status(204)
	b.emit(4, Event{})
	b.drain()
	got := b.statuses(w.ID)
	if n := len(r.requests()); n != 0 || got[store.DeliveryHeld] < 4 || got[store.DeliveryPending] != 0 || got[store.DeliveryHeld]+got[store.DeliveryFailed] != failedMany+7 {
		t.Fatalf("%d requests while it is disabled: %v", n, got)
	}
	ctx := context.Background()
	if _, err := b.hooks.Recover(ctx, b.account.ID, w.ID, time.Unix(0, 0), b.now()); stoa.CodeOf(err) != stoa.CodeWebhookDisabled {
		t.Errorf("while it is disabled: %v", err)
	}
	b.write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Operations().EditWebhook(ctx, b.account.ID, w.ID, func(w *stoa.Webhook) error { Enable(w, stoa.Key{ID: "key_1"}, tx.Now); return nil })
		return err
	})
	n, err := b.hooks.Recover(ctx, b.account.ID, w.ID, time.Unix(0, 0), b.now())
	if err != nil || n != failedMany+7 {
		t.Fatalf("%d recovered: %v", n, err)
	}
	if again, err := b.hooks.Recover(ctx, b.account.ID, w.ID, time.Unix(0, 0), b.now()); err != nil || again != 0 {
		t.Errorf("%d more: %v", again, err)
	}
	b.drain()
	if got := b.statuses(w.ID); got[store.DeliveryDelivered] != failedMany+7 {
		t.Error(got)
	}
	if got := b.read(w.ID); got.Failed != 0 || !got.FailingSince.IsZero() || got.KeyID != "key_1" {
		t.Errorf("%+v", got)
	}
}

// The dead webhooks never get more than half of the places, regardless of the order of
// arrival.
func TestDeadWebhooksHoldUpNobody(t *testing.T) {
	t.Parallel()
	b, dead, live := newBench(t), newReceiver(t), newReceiver(t)
	hang := make(chan struct{})
	dead.answers(func(int, got, http.ResponseWriter) { <-hang })
	release := sync.OnceFunc(func() { close(hang) })
	defer release()
	accounts := []stoa.Account{b.account}
	for range 30 {
		accounts = append(accounts, storetest.Account(t, b.store, 0))
	}
	b.write(func(ctx context.Context, tx *store.Tx) error {
		for i, a := range accounts {
			w := stoa.Webhook{AccountID: a.ID, URL: dead.URL, Events: []string{"*"}}
			if i == 0 {
				w.URL = live.URL
			}
			w, _, err := b.hooks.Create(ctx, tx, w)
			if err != nil {
				return err
			}
			if i > 0 { // they have failed before
				if _, _, err := tx.Operations().WebhookFailed(ctx, a.ID, w.ID, tx.Now, false); err != nil {
					return err
				}
			}
			for range 20 {
				if err := Emit(ctx, tx, Event{AccountID: a.ID, Type: SessionCompleted}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	// Each pass is like one of the loop, except that it does not wait for the dead webhooks.
	ctx, cancel := context.WithCancel(context.Background())
	for b.statuses("")[store.DeliveryDelivered] < 20 {
		if _, err := b.Look(ctx); err != nil {
			t.Fatal(err)
		}
		b.mu2(func() {
			failing, of := 0, map[string]int{}
			for _, f := range b.sending {
				if f.slow {
					failing++
					of[f.webhook]++
				}
			}
			for _, n := range of {
				if n > 1 {
					t.Errorf("%d requests to a dead webhook at once", n)
				}
			}
			if failing > slowShare {
				t.Errorf("%d places are the dead ones'", failing)
			}
		})
		<-b.wakeup // a live one has ended: the dead never do
	}
	if live.count() != 20 {
		t.Errorf("the live one got %d requests, want 20", live.count())
	}
	cancel()
	release()
	b.requests.Wait()
}

// TestSlowWebhooksHoldUpNobody has the webhooks of eight accounts answer 200 after a time that
// never ends here. Half of them are new, the others were quick before.
func TestSlowWebhooksHoldUpNobody(t *testing.T) {
	t.Parallel()
	b, slow, live := newBench(t), newReceiver(t), newReceiver(t)
	hang := make(chan struct{})
	slow.answers(func(int, got, http.ResponseWriter) { <-hang })
	release := sync.OnceFunc(func() { close(hang) })
	defer release()
	accounts := []stoa.Account{b.account}
	for range 8 {
		accounts = append(accounts, storetest.Account(t, b.store, 0))
	}
	var wasQuick []string
	b.write(func(ctx context.Context, tx *store.Tx) error {
		for i, a := range accounts {
			for n := range 20 {
				w := stoa.Webhook{AccountID: a.ID, URL: slow.URL, Events: []string{"*"}}
				if i == 0 {
					w.URL = live.URL
				}
				w, _, err := b.hooks.Create(ctx, tx, w)
				if err != nil {
					return err
				}
				if i > 0 && n%2 == 0 {
					wasQuick = append(wasQuick, w.ID)
				}
				if i == 0 {
					break
				}
			}
			for range 20 * min(i, 1) {
				if err := Emit(ctx, tx, Event{AccountID: a.ID, Type: SessionCompleted}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	b.mu2(func() {
		for _, id := range wasQuick {
			b.quick[id] = true
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	passes, most := 0, 0
	for b.statuses("")[store.DeliveryDelivered] < 20 {
		if _, err := b.Look(ctx); err != nil {
			t.Fatal(err)
		}
		b.mu2(func() {
			of := map[string]int{}
			for _, f := range b.sending {
				of[f.account]++
			}
			for _, n := range of {
				if n > perAccount {
					t.Errorf("%d places of one account", n)
				}
			}
			most = max(most, len(b.sending))
		})
		if passes++; passes == 1 {
			b.add(slowAnswer) // from then on the quick ones are waited for no longer
			b.emit(20, Event{AccountID: b.account.ID, Type: SessionCompleted})
		}
		switch {
		case b.inProgress(b.account.ID) > 0:
			<-b.wakeup // a live one has ended: the slow never do
		case passes > 1 && b.statuses("")[store.DeliveryDelivered] < 20:
			t.Fatal("the slow ones have every place")
		}
	}
	if most <= quickShare {
		t.Errorf("only %d requests were in progress", most)
	}
	cancel()
	release()
	b.requests.Wait()
}

// inProgress returns the number of requests to the webhooks of an account that have not been
// waited for.
func (b *bench) inProgress(account string) (n int) {
	b.mu2(func() {
		for _, f := range b.sending {
			if f.account == account {
				n++
			}
		}
	})
	return n + len(b.wakeup)
}

// mu2 runs fn with the dispatcher's lock.
func (b *bench) mu2(fn func()) {
	b.Dispatcher.mu.Lock()
	defer b.Dispatcher.mu.Unlock()
	fn()
}

func TestWhatAKilledProcessSentIsSentAgain(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, _ := b.hook(stoa.Webhook{URL: r.URL})
	b.emit(3, Event{})
	now := b.now()
	b.write(func(ctx context.Context, tx *store.Tx) error { // it claims, and is gone
		list, err := tx.Operations().ClaimDeliveries(ctx, w.ID, "node_dead/1", now, now.Add(lease), perWebhook)
		if len(list) != 3 {
			t.Errorf("%d are claimed", len(list))
		}
		return err
	})
	if b.drain(); len(r.requests()) != 0 {
		t.Fatal("what another process is sending is sent beside it")
	}
	if !b.store.Postgres() { // no other process can be sending
		if err := b.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.drain()
	} else {
		b.add(lease)
		b.drain()
	}
	if got := b.statuses(w.ID); got[store.DeliveryDelivered] != 3 || len(r.requests()) != 3 {
		t.Error(got)
	}
}

func TestAnAttemptAfterItsLeaseIsNotRecorded(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, _ := b.hook(stoa.Webhook{URL: r.URL})
	b.emit(1, Event{})
	other := b.process(b.store, b.cfg.Vault)
	r.answers(func(n int, _ got, w http.ResponseWriter) {
		if n > 1 {
			return
		}
		b.add(lease) // and another process claims it
		if _, err := other.Look(context.Background()); err != nil {
			t.Error(err)
		}
		other.requests.Wait()
		w.WriteHeader(500)
	})
	b.drain()
	if d := b.all(b.account.ID, w.ID)[0]; d.Status != store.DeliveryDelivered || d.Attempts != 1 {
		t.Errorf("%+v", d)
	}
	if got := b.read(w.ID); !got.FailingSince.IsZero() {
		t.Errorf("the late failure counts: %+v", got)
	}
}

func TestTwoProcessesShareTheWork(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	b.hook(stoa.Webhook{URL: r.URL})
	b.emit(40, Event{})
	other := b.process(b.store, b.cfg.Vault)
	for range 40 {
		var wg sync.WaitGroup
		for _, d := range []*Dispatcher{b.Dispatcher, other} {
			wg.Go(func() {
				if _, err := d.Look(context.Background()); err != nil {
					t.Error(err)
				}
				d.requests.Wait()
			})
		}
		wg.Wait()
	}
	seen := map[string]int{}
	for _, g := range r.requests() {
		seen[g.header.Get(HeaderID)]++
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d events", len(seen))
	}
}

func TestARotatedSecretOverlaps(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, first := b.hook(stoa.Webhook{URL: r.URL})
	rotate := func(overlap time.Duration) (secret string) {
		b.write(func(ctx context.Context, tx *store.Tx) (err error) {
			_, secret, _, err = b.hooks.Rotate(ctx, tx, b.account.ID, w.ID, overlap)
			return err
		})
		return secret
	}
	next := func() got {
		b.emit(1, Event{})
		b.drain()
		all := r.requests()
		if len(all) != 1 {
			t.Fatalf("%d requests", len(all))
		}
		return all[0]
	}
	check := func(what string, g got, valid ...string) {
		t.Helper()
		for _, s := range valid {
			if err := verified(t, s, g); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := len(strings.Fields(g.header.Get(HeaderSignature))); n != len(valid) {
			t.Errorf("%s: %d signatures", what, n)
		}
	}
	second := rotate(time.Hour)
	check("within the overlap", next(), first, second)
	third := rotate(2 * time.Hour)
	check("rotated twice", next(), first, second, third)
	b.add(time.Hour)
	check("after the first has ended", next(), second, third)
	b.add(time.Hour)
	check("after the second has ended", next(), third)
	fourth := rotate(0)
	check("without an overlap", next(), fourth)
}

func TestWithTheWrongKeyDeliveriesWait(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, secret := b.hook(stoa.Webhook{URL: r.URL})
	wrong, err := vault.Open([]seal.MasterKey{{ID: "test", Key: seal.NewKey()}}, "")
	if err != nil {
		t.Fatal(err)
	}
	right := b.cfg.Vault
	b.cfg.Vault = wrong
	if (&Hooks{Store: b.store, Vault: wrong}).Readable(w) || !b.hooks.Readable(w) {
		t.Error("whether the secret can be read is not told")
	}
	b.emit(2, Event{})
	for range 3 {
		b.drain()
		b.add(26 * time.Hour)
	}
	if n := len(r.requests()); n != 0 {
		t.Fatalf("%d requests without a signature", n)
	}
	if got := b.all(b.account.ID, w.ID); got[0].Status != store.DeliveryPending || got[0].Attempts != 0 {
		t.Errorf("%+v", got[0])
	}
	if n := strings.Count(b.log.String(), "a secret cannot be read"); n != 1 || strings.Contains(b.log.String(), secret) {
		t.Errorf("%d lines in the log", n)
	}
	b.cfg.Vault = right
	b.add(unreadableIn)
	b.drain()
	if got := b.statuses(w.ID); got[store.DeliveryDelivered] != 2 {
		t.Error(got)
	}
}

func TestATestIsSentOnceThoughDisabled(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, _ := b.hook(stoa.Webhook{URL: r.URL, Disabled: stoa.WebhookDisabledByUser, Events: []string{SessionFailed}})
	r.status(500)
	var d store.Delivery
	b.write(func(ctx context.Context, tx *store.Tx) (err error) {
		d, err = b.hooks.Test(ctx, tx, b.account.ID, w.ID)
		return err
	})
	if d.Status != store.DeliveryPending || d.Type != test {
		t.Errorf("%+v", d)
	}
	b.drain()
	b.add(time.Hour)
	b.drain()
	all := b.all(b.account.ID, w.ID)
	if n := len(r.requests()); n != 1 || len(all) != 1 || all[0].Status != store.DeliveryFailed {
		t.Errorf("%d requests, %+v", n, all)
	}
	if got := b.read(w.ID); got.Failed != 0 || !got.FailingSince.IsZero() {
		t.Errorf("a test counts as a failure: %+v", got)
	}
}

func TestADeliveryIsSentAgainOnDemand(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, _ := b.hook(stoa.Webhook{URL: r.URL})
	b.emit(1, Event{})
	b.drain()
	d := b.all(b.account.ID, w.ID)[0]
	for range 30 {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			_, err := b.hooks.Redeliver(ctx, tx, b.account.ID, w.ID, d.ID)
			return err
		})
		b.drain()
	}
	ids := map[string]bool{}
	all := r.requests()
	for _, g := range all {
		ids[g.header.Get(HeaderID)] = true
	}
	got := b.all(b.account.ID, w.ID)[0]
	if len(all) != 31 || len(ids) != 1 || got.Attempts != 31 || len(got.Log) != logKept || got.Log[logKept-1].Number != 31 {
		t.Errorf("%d requests with %d ids: %+v", len(all), len(ids), got)
	}
}

func TestDeliveriesOfADeletedWebhookGo(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, _ := b.hook(stoa.Webhook{URL: r.URL})
	b.emit(5, Event{})
	b.write(func(ctx context.Context, tx *store.Tx) error { return b.hooks.Delete(ctx, tx, b.account.ID, w.ID) })
	b.drain()
	if n := len(r.requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
	if err := b.store.Read(t.Context(), func(tx *store.Tx) error {
		accounts, err := tx.Operations().AccountsWithDeliveries(t.Context(), "", 10)
		if len(accounts) != 0 {
			t.Errorf("rows of %v", accounts)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAStopGivesBackWhatIsBeingSent(t *testing.T) {
	t.Parallel()
	b, r := newBench(t), newReceiver(t)
	w, _ := b.hook(stoa.Webhook{URL: r.URL})
	begun, end := make(chan struct{}), make(chan struct{})
	r.answers(func(n int, _ got, _ http.ResponseWriter) {
		if n == 1 {
			close(begun)
			<-end
		}
	})
	b.emit(1, Event{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	<-begun
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(end)
	d := b.all(b.account.ID, w.ID)[0]
	if d.Lease != "" || d.Attempts != 0 || d.Status != store.DeliveryPending || d.DueAt.After(b.now()) {
		t.Errorf("%+v", d)
	}
	b.drain()
	if got := b.statuses(w.ID); got[store.DeliveryDelivered] != 1 {
		t.Error(got)
	}
}
