package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/models/upstream"
	"stoa/internal/testkit/apitest/plans"
	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) { os.Exit(plans.Checked(storetest.Both(m)).Run()) }

// A bench is a store with a webhook of the service, and nodes that look for incidents.
type bench struct {
	t       *testing.T
	store   *store.Store
	owner   stoa.Account
	hook    stoa.Webhook // of the service
	other   stoa.Webhook // of the account
	watches []*Watch

	mu    sync.Mutex
	at    time.Time
	stats []upstream.Stats // of each watch
	seen  int
}

func newBench(t *testing.T, nodes int) *bench {
	t.Helper()
	b := &bench{t: t, store: storetest.New(t).Open(), at: time.Now().Truncate(time.Microsecond), stats: make([]upstream.Stats, nodes)}
	v, err := vault.Open([]seal.MasterKey{{ID: "test", Key: seal.NewKey()}}, "")
	if err != nil {
		t.Fatal(err)
	}
	b.owner = storetest.Account(t, b.store, 0)
	hooks := webhook.Hooks{Store: b.store, Vault: v}
	b.write(func(ctx context.Context, tx *store.Tx) error {
		owner, err := tx.People().OwnerAccount(ctx)
		if err != nil {
			return err
		}
		if b.owner, err = tx.Books().Account(ctx, owner); err != nil {
			return err
		}
		b.hook, _, err = hooks.Create(ctx, tx, stoa.Webhook{AccountID: owner, Service: true, Events: []string{"*"}})
		if err == nil {
			b.other, _, err = hooks.Create(ctx, tx, stoa.Webhook{AccountID: owner, Events: []string{"*"}})
		}
		return err
	})
	for i := range nodes {
		b.watches = append(b.watches, New(Config{Store: b.store, Now: b.now, Providers: func() upstream.Stats {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.stats[i]
		}}))
	}
	return b
}

func (b *bench) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

func (b *bench) write(fn func(ctx context.Context, tx *store.Tx) error) {
	b.t.Helper()
	if err := b.store.Write(context.Background(), func(tx *store.Tx) error { return fn(context.Background(), tx) }); err != nil {
		b.t.Fatal(err)
	}
}

// circuit sets the state of the circuit of a provider on a node.
func (b *bench) circuit(node int, provider, state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats[node] = upstream.Stats{Providers: []upstream.ProviderStats{{Name: provider, Routes: []upstream.RouteStats{
		{Model: "m1", Breaker: state, LastFailureAt: b.at, LastFailureCode: stoa.CodeUpstream}, {Model: "m2", Breaker: "closed"},
	}}}}
}

// pass lets time go by, in which all nodes look, and returns the events of that time.
func (b *bench) pass(d time.Duration) string {
	b.t.Helper()
	for end := b.now().Add(d); ; {
		for _, w := range b.watches {
			if err := w.Look(context.Background()); err != nil {
				b.t.Fatal(err)
			}
		}
		if !b.now().Before(end) {
			return b.events()
		}
		b.mu.Lock()
		b.at = b.at.Add(every)
		b.mu.Unlock()
	}
}

// events returns the new events of the service's webhook.
func (b *bench) events() string {
	b.t.Helper()
	var types []string
	for _, d := range b.deliveries()[b.seen:] {
		types = append(types, d.Type)
	}
	b.seen += len(types)
	return strings.Join(types, " ")
}

func (b *bench) deliveries() (all []store.Delivery) {
	b.t.Helper()
	ctx := context.Background()
	if err := b.store.Read(ctx, func(tx *store.Tx) error {
		all = nil
		p := store.Page{Limit: 100, Asc: true}
		for {
			list, next, err := tx.Operations().Deliveries(ctx, b.owner.ID, b.hook.ID, store.DeliveryFilter{}, p)
			all = append(all, list...)
			if p.After = next; err != nil || next == (store.Cursor{}) {
				return err
			}
		}
	}); err != nil {
		b.t.Fatal(err)
	}
	return all
}

func (b *bench) want(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestAProviderIsDownOnce: three nodes see the same incident.
func TestAProviderIsDownOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3)
	b.circuit(0, "claude", "open")
	b.circuit(1, "claude", "half-open")
	b.want("for less than a minute", b.pass(45*time.Second), "")
	b.want("for a minute", b.pass(time.Minute), "provider.down")
	var body struct {
		Data struct {
			AccountID, Provider, Code string
			Models                    []string
		}
	}
	if err := json.Unmarshal([]byte(b.deliveries()[0].Body), &body); err != nil || body.Data.AccountID != b.owner.ID || body.Data.Provider != "claude" || fmt.Sprint(body.Data.Models) != "[m1]" || body.Data.Code == "" {
		t.Errorf("%s", b.deliveries()[0].Body)
	}
	b.circuit(0, "claude", "closed")
	b.want("still open on a node", b.pass(10*time.Minute), "")
	b.circuit(1, "claude", "closed")
	b.want("closed for two minutes", b.pass(2*time.Minute), "")
	b.want("closed for three minutes", b.pass(time.Minute), "provider.up")
	b.want("after that", b.pass(time.Hour), "")
}

// TestAFlappingProviderIsNoStorm: a circuit that opens and closes each minute is one incident.
func TestAFlappingProviderIsNoStorm(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	var got []string
	for range 24 {
		b.circuit(0, "claude", "open")
		got = append(got, b.pass(75*time.Second))
		b.circuit(0, "claude", "closed")
		got = append(got, b.pass(75*time.Second))
	}
	b.want("in an hour", strings.TrimSpace(strings.Join(got, "")), "provider.down")
}

func TestManyFailedCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	calls := func(n int, r stoa.Request) {
		r.Asked = "auto"
		for range n {
			b.watches[1].Request(&r)
		}
	}
	calls(10, stoa.Request{Status: 503, Code: stoa.CodeOverloaded})
	b.want("too few calls", b.pass(every), "")
	calls(200, stoa.Request{Status: 200})
	calls(100, stoa.Request{Status: 502, Disconnected: true})
	b.want("less than 5 percent", b.pass(every), "")
	calls(1, stoa.Request{Status: 200, Code: stoa.CodeUpstream}) // a stream that failed
	b.want("5 percent", b.pass(every), "errors.high")
	b.want("the same incident", b.pass(3*time.Minute), "")
	b.want("it is over", b.pass(20*time.Minute), "")
	calls(20, stoa.Request{Status: 500})
	b.want("the next one", b.pass(every), "errors.high")
}

func TestACustomersCreditsAreLow(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	grant := func(id string, amount stoa.Credits) { // or spend, if it is negative
		b.write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance + $2 WHERE id = $1`, id, int64(amount))
			return err
		})
	}
	active := func(id string) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO charge_days (account_id, day, node_id, amount) VALUES ($1, $2, $3, 1)`, id, tx.Now.Unix()/86400, b.store.Node())
			return err
		})
	}
	customer, trial, idle := storetest.Account(t, b.store, 20*stoa.Credit), storetest.Account(t, b.store, 5*stoa.Credit), storetest.Account(t, b.store, 20*stoa.Credit)
	for _, a := range []stoa.Account{customer, trial, b.owner} {
		active(a.ID)
	}
	grant(idle.ID, -15*stoa.Credit)
	b.want("nobody", b.pass(time.Minute), "")
	grant(customer.ID, -15*stoa.Credit)
	b.want("a customer", b.pass(2*time.Minute), "account.balance_low")
	if body := b.deliveries()[0].Body; !strings.Contains(body, `"customerId":"`+customer.ID+`","availableMicro":5000000,"thresholdMicro":10000000`) {
		t.Error(body)
	}
	grant(customer.ID, 10*stoa.Credit)
	b.want("after a top-up", b.pass(2*time.Minute), "")
	grant(customer.ID, -10*stoa.Credit)
	b.want("again", b.pass(2*time.Minute), "account.balance_low")

	for range maxPerHour + 20 {
		a := storetest.Account(t, b.store, 20*stoa.Credit)
		active(a.ID)
		grant(a.ID, -15*stoa.Credit)
	}
	if n := strings.Count(b.pass(time.Minute), "account"); n > 2*lowBatch {
		t.Errorf("%d events in a minute", n)
	}
	b.pass(20 * time.Minute)
	if n := len(b.deliveries()); n != maxPerHour+1 { // the first incident is over, and no longer counts
		t.Errorf("%d events in an hour", n)
	}
	b.pass(2 * time.Hour)
	if n := len(b.deliveries()); n != maxPerHour+22 {
		t.Errorf("%d events in all", n)
	}
	b.hook = b.other
	if n := len(b.deliveries()); n != 0 {
		t.Errorf("the webhook of the account received %d alerts", n)
	}
}

// TestARefusedConfigurationIsOneIncident: several nodes refuse it, and one event says so.
func TestARefusedConfigurationIsOneIncident(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	other := func(node string) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			return tx.Operations().RaiseAlert(ctx, webhook.ConfigRefused, node, refusedData{NodeID: node}, b.now())
		})
	}
	if err := b.watches[0].Refused(t.Context(), "providers[0].wire", "stoa.yaml:14:5"); err != nil {
		t.Fatal(err)
	}
	other("node_gone")
	b.want("two nodes", b.pass(time.Minute), "config.refused")
	open := func() (n int) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			all, err := tx.Operations().Alerts(ctx, 10)
			n = len(all)
			return err
		})
		return n
	}
	if n := open(); n != 1 { // that of the node which does not live is closed
		t.Errorf("%d are open", n)
	}
	if err := b.watches[0].Accepted(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := open(); n != 0 {
		t.Errorf("%d are open", n)
	}
	if err := b.watches[0].Refused(t.Context(), "", ""); err != nil {
		t.Fatal(err)
	}
	b.want("the next one", b.pass(time.Minute), "config.refused")
}

// TestALostNodeIsAnnounced declares a node dead, which another one replaces later.
func TestALostNodeIsAnnounced(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	raise := func(id, address string, seen time.Time) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			return tx.Operations().RaiseAlert(ctx, webhook.NodeLost, id, map[string]string{"nodeId": id, "address": address, "seenAt": store.EventTime(seen)}, b.now())
		})
	}
	var own store.Node
	b.write(func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.Operations().Nodes(ctx)
		own = all[0]
		return err
	})
	raise("node_a", own.Address, own.StartedAt.Add(-time.Minute)) // this node has replaced it
	raise("node_b", own.Address, own.StartedAt.Add(time.Minute))
	b.want("both", b.pass(time.Minute), "node.lost node.lost")
	open := func() (ids []string) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			ids = nil
			all, err := tx.Operations().Alerts(ctx, 10)
			for _, a := range all {
				ids = append(ids, a.Subject)
			}
			return err
		})
		return ids
	}
	if ids := open(); fmt.Sprint(ids) != "[node_b]" {
		t.Errorf("%v are open", ids)
	}
	b.mu.Lock()
	b.at = b.at.Add(24 * time.Hour)
	b.mu.Unlock()
	b.want("a day later", b.pass(time.Minute), "")
	if ids := open(); len(ids) != 0 {
		t.Errorf("%v are open", ids)
	}
}
