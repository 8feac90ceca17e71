package webhook

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/outbound"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/testkit/storetest"
)

// A got is a request that a receiver received.
type got struct {
	path   string
	header http.Header
	body   []byte
}

// A receiver is a server of a customer.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	all  []got
	next func(n int, g got, w http.ResponseWriter) // answers the nth request; nil means 200
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		g := got{req.URL.Path, req.Header, body}
		r.all = append(r.all, g)
		n, next := len(r.all), r.next
		r.mu.Unlock()
		if next != nil {
			next(n, g, w)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// answers sets the behaviour of the receiver.
func (r *receiver) answers(next func(n int, g got, w http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = next
}

// status makes the receiver answer with a status.
func (r *receiver) status(code int) {
	r.answers(func(_ int, _ got, w http.ResponseWriter) { w.WriteHeader(code) })
}

// requests returns the requests since the last call.
func (r *receiver) requests() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// count returns the number of requests since the last call of requests.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// A bench is a store, an account, and a dispatcher with a clock that the test sets.
type bench struct {
	*Dispatcher
	t       *testing.T
	hooks   *Hooks
	account stoa.Account
	client  http.RoundTripper
	log     bytes.Buffer
	logger  *slog.Logger // to log, of all its dispatchers

	mu sync.Mutex
	at time.Time
}

func newBench(t *testing.T) *bench { return benchOn(t, storetest.New(t).Open()) }

func benchOn(t *testing.T, st *store.Store) *bench {
	t.Helper()
	v, err := vault.Open([]seal.MasterKey{{ID: "test", Key: seal.NewKey()}}, "")
	if err != nil {
		t.Fatal(err)
	}
	allow, err := outbound.ParseDestinations([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		t: t, hooks: &Hooks{Store: st, Vault: v}, account: storetest.Account(t, st, 100*stoa.Credit), at: time.Now().Add(time.Minute),
		client: outbound.New(outbound.Settings{Allow: allow}).Client(outbound.Limits{Body: ReplyKept, ErrorBody: ReplyKept}),
	}
	b.logger = slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.Dispatcher = b.process(st, v)
	return b
}

// process returns another dispatcher with the bench's clock.
func (b *bench) process(st *store.Store, v *vault.Vault) *Dispatcher {
	return New(Config{
		Store: st, Vault: v, Client: b.client, Shared: st.Postgres(), Version: "test", Jitter: func() float64 { return 0.5 },
		Now: func() time.Time { b.mu.Lock(); defer b.mu.Unlock(); return b.at }, Logger: b.logger,
	})
}

// add moves the clock.
func (b *bench) add(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

// write runs fn in a transaction.
func (b *bench) write(fn func(ctx context.Context, tx *store.Tx) error) {
	b.t.Helper()
	if err := b.store.Write(context.Background(), func(tx *store.Tx) error { return fn(context.Background(), tx) }); err != nil {
		b.t.Fatal(err)
	}
}

// hook adds a webhook and returns it with its secret.
func (b *bench) hook(w stoa.Webhook) (stoa.Webhook, string) {
	b.t.Helper()
	var secret string
	w.AccountID = b.account.ID
	if w.Events == nil {
		w.Events = []string{"*"}
	}
	b.write(func(ctx context.Context, tx *store.Tx) (err error) {
		w, secret, err = b.hooks.Create(ctx, tx, w)
		return err
	})
	return w, secret
}

// emit emits an event n times.
func (b *bench) emit(n int, e Event) {
	b.t.Helper()
	if e.AccountID == "" {
		e.AccountID = b.account.ID
	}
	if e.Type == "" {
		e.Type = SessionCompleted
	}
	b.write(func(ctx context.Context, tx *store.Tx) error {
		for range n {
			if err := Emit(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// pass calls Look once, and waits for the requests that it started.
func (b *bench) pass() time.Duration {
	b.t.Helper()
	wait, err := b.Look(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	b.requests.Wait()
	return wait
}

// drain calls pass until nothing is left to send now.
func (b *bench) drain() {
	b.t.Helper()
	for range 1000 {
		before := b.count()
		b.pass()
		if b.count() == before {
			return
		}
	}
	b.t.Fatal("there is no end")
}

// count returns the attempts of all deliveries.
func (b *bench) count() (n int) {
	for _, d := range b.all(b.account.ID, "") {
		n += d.Attempts
	}
	return n
}

// all returns the deliveries of an account, or of a webhook of it, oldest first.
func (b *bench) all(accountID, webhookID string) (out []store.Delivery) {
	b.t.Helper()
	ctx := context.Background()
	err := b.store.Read(ctx, func(tx *store.Tx) error {
		out = nil
		hooks, _, err := tx.Operations().Webhooks(ctx, accountID, true, "", store.Page{Limit: 100, Asc: true})
		for _, w := range hooks {
			if webhookID != "" && w.ID != webhookID {
				continue
			}
			for p := (store.Page{Limit: 100, Asc: true}); err == nil; {
				var list []store.Delivery
				var next store.Cursor
				list, next, err = tx.Operations().Deliveries(ctx, accountID, w.ID, store.DeliveryFilter{}, p)
				out = append(out, list...)
				if p.After = next; next == (store.Cursor{}) {
					break
				}
			}
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// statuses counts the deliveries of a webhook by their status.
func (b *bench) statuses(id string) map[store.DeliveryStatus]int {
	b.t.Helper()
	n := map[store.DeliveryStatus]int{}
	for _, d := range b.all(b.account.ID, id) {
		n[d.Status]++
	}
	return n
}

// read returns the current webhook.
func (b *bench) read(id string) (w stoa.Webhook) {
	b.t.Helper()
	if err := b.store.Read(context.Background(), func(tx *store.Tx) (err error) {
		w, err = tx.Operations().Webhook(context.Background(), b.account.ID, id)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	return w
}
