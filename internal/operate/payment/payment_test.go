package payment_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/outbound"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/operate/payment"
	"stoa/internal/testkit/fakestripe"
	"stoa/internal/testkit/storetest"
)

var ctx = context.Background()

// A shop is a node that sells packs.
type shop struct {
	*payment.Sales
	t       testing.TB
	stripe  *fakestripe.Server
	account stoa.Account
}

// open starts a node over a store.
func open(t testing.TB, st *store.Store, stripe *fakestripe.Server, a stoa.Account) *shop {
	t.Helper()
	l := billing.New(st, billing.Config{Shared: st.Postgres()})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.Run(running); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	allow, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	network := outbound.New(outbound.Settings{Allow: allow})
	return &shop{t: t, stripe: stripe, account: a, Sales: &payment.Sales{
		Store: st, Ledger: l, Client: network.Client(outbound.Limits{Total: payment.RequestTime, Body: payment.MaxReply}),
		Settings: stripe.Payments(), PublicURL: "http://127.0.0.1", Logger: slog.New(slog.DiscardHandler),
	}}
}

func shopOn(t *testing.T) *shop {
	database := storetest.New(t)
	st := database.Open()
	return open(t, st, fakestripe.New(t), storetest.Account(t, st, 50))
}

func (s *shop) caller() stoa.Caller {
	return stoa.Caller{Account: s.account, Key: stoa.Key{ID: "key_1", AccountID: s.account.ID}}
}

// buy begins and opens a payment.
func (s *shop) buy(pack, key string) (stoa.Payment, error) {
	p, err := s.Begin(ctx, s.caller(), pack, key)
	if err != nil {
		return p, err
	}
	err = s.Store.Write(ctx, func(tx *store.Tx) (err error) {
		p, err = s.Open(ctx, tx, p)
		return err
	})
	return p, err
}

func (s *shop) mustBuy(pack string) stoa.Payment {
	s.t.Helper()
	p, err := s.buy(pack, "")
	if err != nil {
		s.t.Fatal(err)
	}
	if p.State != stoa.PaymentPending || p.CheckoutURL == "" {
		s.t.Fatalf("a new payment: %+v", p)
	}
	return p
}

// notify processes all events of Stripe.
func (s *shop) notify() {
	s.t.Helper()
	for _, e := range s.stripe.Events() {
		if err := s.Notified(ctx, e); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *shop) payment(id string) stoa.Payment {
	s.t.Helper()
	var p stoa.Payment
	if err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		p, err = tx.Books().Payment(ctx, s.account.ID, id)
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	return p
}

// makeDue ends all claims and waits, as if time had passed.
func (s *shop) makeDue() {
	s.t.Helper()
	if err := s.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE payments SET claimed_until = 0, due_at = 1 WHERE due_at > 0`)
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
}

// want checks a payment, and that the balance has its credits and the books are in order.
func (s *shop) want(id string, state stoa.PaymentState, unspent, owed stoa.Credits) {
	s.t.Helper()
	if p := s.payment(id); p.State != state {
		s.t.Errorf("the payment is %+v, want %s", p, state)
	}
	b, err := s.Ledger.Balance(ctx, s.account.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	if b.Available != 50+unspent || b.Owed != owed {
		s.t.Errorf("the balance is %+v, want %d bought and %d owed", b, unspent, owed)
	}
	diffs, err := s.Ledger.Verify(ctx)
	if err != nil || len(diffs) > 0 {
		s.t.Errorf("the books: %v, %v", diffs, err)
	}
}

const small = 10_000_001

func TestAPaidPackIsGrantedOnce(t *testing.T) {
	t.Parallel()
	s := shopOn(t)
	p := s.mustBuy("small")
	s.want(p.ID, stoa.PaymentPending, 0, 0)
	s.stripe.Pay(p.CheckoutID)
	for _, e := range slices.Repeat(s.stripe.Events(), 3) {
		if err := s.Notified(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	s.want(p.ID, stoa.PaymentPaid, small, 0)
	if p := s.payment(p.ID); p.CheckoutURL != "" || p.PaidAt.IsZero() || p.PaymentIntent == "" {
		t.Errorf("paid: %+v", p)
	}
	if _, err := s.buy("none", ""); stoa.CodeOf(err) != stoa.CodeInvalidValue {
		t.Errorf("an unknown pack: %v", err)
	}
}

// TestExpandableMembersHaveEveryForm buys, refunds and fails as often as the fake has forms of a payment
// intent: an id, an object and null.
func TestExpandableMembersHaveEveryForm(t *testing.T) {
	t.Parallel()
	s := shopOn(t)
	for n := range 6 {
		p := s.mustBuy("small")
		s.stripe.Pay(p.CheckoutID)
		s.notify()
		s.want(p.ID, stoa.PaymentPaid, small, 0)
		s.stripe.Refund(p.CheckoutID, 1000)
		s.notify()
		s.want(p.ID, stoa.PaymentPaid, 0, 0)
		late := s.mustBuy("small")
		s.stripe.PayLater(late.CheckoutID)
		s.notify()
		s.stripe.Arrive(late.CheckoutID, false)
		s.notify()
		s.want(late.ID, stoa.PaymentFailed, 0, 0)
		if t.Failed() {
			t.Fatalf("in round %d", n)
		}
	}
}

func TestRefundsAndDisputesAreBooked(t *testing.T) {
	t.Parallel()
	s := shopOn(t)
	p := s.mustBuy("small")
	s.stripe.Pay(p.CheckoutID)
	s.notify()
	s.stripe.Refund(p.CheckoutID, 333) // a third, rounded down
	s.notify()
	s.want(p.ID, stoa.PaymentPaid, small-3_330_000, 0)
	inquiry := s.stripe.Dispute(p.CheckoutID)
	s.stripe.SetDispute(inquiry, "warning_needs_response") // takes no money
	s.notify()
	s.want(p.ID, stoa.PaymentPaid, small-3_330_000, 0)
	dispute := s.stripe.Dispute(p.CheckoutID)
	s.notify()
	s.want(p.ID, stoa.PaymentPaid, 0, 0)
	s.stripe.SetDispute(dispute, "won")
	s.notify()
	s.want(p.ID, stoa.PaymentPaid, small-3_330_000, 0)
	failed := s.stripe.Refund(p.CheckoutID, 667)
	s.notify()
	s.want(p.ID, stoa.PaymentPaid, 0, 0)
	s.stripe.FailRefund(failed)
	s.notify()
	s.want(p.ID, stoa.PaymentPaid, small-3_330_000, 0)
	s.stripe.SetDispute(s.stripe.Dispute(p.CheckoutID), "lost")
	s.notify()
	s.want(p.ID, stoa.PaymentPaid, 0, 0)
}

func TestSpentCreditsAreOwedAfterARefund(t *testing.T) {
	t.Parallel()
	s := shopOn(t)
	p := s.mustBuy("small")
	s.stripe.Pay(p.CheckoutID)
	s.notify()
	if _, _, err := s.Ledger.Withdraw(ctx, stoa.Withdrawal{AccountID: s.account.ID, Amount: 50 + small - 5, ExternalRef: "spent", Kind: stoa.Withdrawn}, true, nil); err != nil {
		t.Fatal(err)
	}
	s.stripe.Refund(p.CheckoutID, 1000)
	s.notify()
	s.want(p.ID, stoa.PaymentPaid, -50, small-5)
	if p := s.payment(p.ID); p.Refunded != 1000 || p.Withdrawn != small {
		t.Errorf("refunded: %+v", p)
	}
	again := s.mustBuy("small") // pays what is owed first
	s.stripe.Pay(again.CheckoutID)
	s.notify()
	s.want(again.ID, stoa.PaymentPaid, 5-50, 0)
}

// TestTheOrderOfNotificationsDoesNotMatter delivers the events of a history in random orders, doubled and
// with some lost.
func TestTheOrderOfNotificationsDoesNotMatter(t *testing.T) {
	t.Parallel()
	s := shopOn(t)
	random := rand.New(rand.NewPCG(1, 2))
	bought := stoa.Credits(0)
	for range 20 {
		p := s.mustBuy("small")
		s.stripe.Pay(p.CheckoutID)
		s.stripe.Refund(p.CheckoutID, 500)
		s.stripe.SetDispute(s.stripe.Dispute(p.CheckoutID), "won")
		events := s.stripe.Events()
		events = append(events, events...)
		random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for _, e := range events[:random.IntN(len(events))] {
			if err := s.Notified(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
		s.makeDue() // the rest is lost: the sweep reads it
		if err := s.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		bought += small - small/2
		s.want(p.ID, stoa.PaymentPaid, bought, 0)
	}
}

func TestSessionsThatDifferGrantNothing(t *testing.T) {
	t.Parallel()
	s := shopOn(t)
	for name, change := range map[string]map[string]any{
		"amount": {"amount_total": 1}, "currency": {"currency": "usd"}, "live": {"livemode": true}, "mode": {"mode": "setup"},
		"metadata": {"metadata": map[string]any{"payment": "pay_other"}},
	} {
		p := s.mustBuy("small")
		s.stripe.Pay(p.CheckoutID)
		s.stripe.Change(p.CheckoutID, change)
		s.notify()
		s.want(p.ID, stoa.PaymentRejected, 0, 0)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	free := s.mustBuy("small")
	s.stripe.Pay(free.CheckoutID)
	s.stripe.Change(free.CheckoutID, map[string]any{"payment_status": "no_payment_required"})
	s.notify()
	s.want(free.ID, stoa.PaymentPending, 0, 0)
	for _, body := range []string{`{}`, `[]`, `no`, `{"object":"event","type":"x"}`} {
		if err := s.Notified(ctx, []byte(body)); stoa.CodeOf(err) != stoa.CodeInvalidJSON {
			t.Errorf("%s: %v", body, err)
		}
	}
	// Another mode, and objects that are not of this service.
	for _, body := range []string{
		`{"object":"event","livemode":true,"data":{"object":{"object":"checkout.session","id":"` + free.CheckoutID + `"}}}`,
		`{"object":"event","livemode":false,"data":{"object":{"object":"checkout.session","id":"cs_other"}}}`,
		`{"object":"event","livemode":false,"data":{"object":{"object":"refund","id":"re_1","payment_intent":null}}}`,
		`{"object":"event","livemode":false,"data":{"object":{"object":"customer","id":"cus_1"}}}`,
	} {
		before := s.stripe.Requests("GET")
		if err := s.Notified(ctx, []byte(body)); err != nil || s.stripe.Requests("GET") != before {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestPaymentsEnd(t *testing.T) {
	t.Parallel()
	s := shopOn(t)
	expired := s.mustBuy("small")
	s.stripe.Expire(expired.CheckoutID)
	s.notify()
	s.want(expired.ID, stoa.PaymentExpired, 0, 0)
	late := s.mustBuy("small")
	s.stripe.PayLater(late.CheckoutID)
	s.notify()
	s.want(late.ID, stoa.PaymentPending, 0, 0)
	s.stripe.Arrive(late.CheckoutID, false)
	s.notify()
	s.want(late.ID, stoa.PaymentFailed, 0, 0)
	s.stripe.Arrive(late.CheckoutID, true)
	s.notify()
	s.want(late.ID, stoa.PaymentPaid, small, 0)
	// Nobody has the address of a session that was not stored.
	lost, err := s.Begin(ctx, s.caller(), "small", "")
	if err != nil {
		t.Fatal(err)
	}
	s.makeDue()
	if err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	s.want(lost.ID, stoa.PaymentFailed, small, 0)
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := s.Open(ctx, tx, lost)
		return err
	})
	if stoa.CodeOf(err) != stoa.CodeConflict {
		t.Errorf("opening an ended payment: %v", err)
	}
	for range store.MaxPendingPayments {
		s.mustBuy("small")
	}
	if _, err := s.buy("small", ""); stoa.CodeOf(err) != stoa.CodeLimitReached {
		t.Errorf("one payment too many: %v", err)
	}
}

// TestAPurchaseIsRepeatedSafely loses the replies of Stripe and of the service.
func TestAPurchaseIsRepeatedSafely(t *testing.T) {
	t.Parallel()
	s := shopOn(t)
	s.stripe.Fail(-1, 500)
	for range 2 {
		if _, err := s.buy("small", "key"); stoa.CodeOf(err) != stoa.CodePaymentService {
			t.Errorf("a failing Stripe: %v", err)
		}
	}
	for _, step := range []string{"inserted", "created"} {
		s.KillAt(step)
		if _, err := s.buy("small", "key"); err == nil {
			t.Error("the process did not end")
		}
	}
	s.KillAt("")
	p, err := s.buy("small", "key")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.buy("small", "key"); err != nil || again != p {
		t.Errorf("again: %+v, %v; want %+v", again, err, p)
	}
	other := *s
	other.account = storetest.Account(t, s.Store, 1)
	if q, err := other.buy("small", "key"); err != nil || q.ID == p.ID || q.CheckoutID == p.CheckoutID {
		t.Errorf("the same key of another account: %+v, %v", q, err)
	}
	s.KillAt("inserted")
	if _, err := s.buy("small", "second"); err == nil {
		t.Error("the process did not end")
	}
	s.KillAt("")
	if _, err := s.buy("large", "second"); stoa.CodeOf(err) != stoa.CodeIdempotencyReused {
		t.Errorf("another pack with the key: %v", err)
	}
}

// TestAKillLosesNothing ends the process at every step of every booking; the sweep of the next one
// continues.
func TestAKillLosesNothing(t *testing.T) {
	t.Parallel()
	s := shopOn(t)
	bought := stoa.Credits(0)
	for _, step := range []string{"hinted", "claimed", "read", "booking"} {
		p := s.mustBuy("small")
		check := func(what string, credits stoa.Credits) {
			t.Helper()
			for _, e := range s.stripe.Events() {
				s.KillAt(step)
				_ = s.Notified(ctx, e) // ends at the step, if it gets there
			}
			s.KillAt("")
			s.makeDue()
			if err := s.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
			s.want(p.ID, stoa.PaymentPaid, bought+credits, 0)
			if t.Failed() {
				t.Fatalf("%s, killed at %s", what, step)
			}
		}
		s.stripe.Pay(p.CheckoutID)
		check("paid", small)
		s.stripe.Refund(p.CheckoutID, 500)
		check("refunded", small-small/2)
		dispute := s.stripe.Dispute(p.CheckoutID)
		check("disputed", 0)
		s.stripe.SetDispute(dispute, "won")
		check("won", small-small/2)
		bought += small - small/2
	}
}

func TestAFailingStripeIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := shopOn(t)
	p := s.mustBuy("small")
	s.stripe.Pay(p.CheckoutID)
	s.stripe.Fail(503)
	s.notify() // recorded
	s.want(p.ID, stoa.PaymentPending, 0, 0)
	if q := s.payment(p.ID); !q.ClaimedUntil.IsZero() || time.Until(q.DueAt) > 2*time.Minute {
		t.Errorf("postponed: %+v", q)
	}
	s.makeDue()
	if err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	s.want(p.ID, stoa.PaymentPaid, small, 0)
	// A quiet payment is read again when its age has doubled.
	if q := s.payment(p.ID); time.Until(q.DueAt) < 9*time.Minute {
		t.Errorf("the next reading: %+v", q)
	}
}

// TestNodesBookAPaymentTogether delivers the events of payments to three nodes at the same time.
func TestNodesBookAPaymentTogether(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	stripe := fakestripe.New(t)
	first := database.Open()
	nodes := []*shop{open(t, first, stripe, storetest.Account(t, first, 50))}
	for range 2 {
		nodes = append(nodes, open(t, database.Open(), stripe, nodes[0].account))
	}
	for n := range 10 {
		p := nodes[n%3].mustBuy("small")
		stripe.Pay(p.CheckoutID)
		stripe.Refund(p.CheckoutID, 1)
		dispute := stripe.Dispute(p.CheckoutID)
		var all sync.WaitGroup
		for _, e := range stripe.Events() {
			for _, s := range nodes {
				all.Go(func() {
					if err := s.Notified(ctx, e); err != nil {
						t.Error(err)
					}
				})
			}
		}
		stripe.SetDispute(dispute, "lost")
		for _, e := range stripe.Events() {
			all.Go(func() {
				if err := nodes[n%3].Notified(ctx, e); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		nodes[0].makeDue()
		for _, s := range nodes {
			all.Go(func() {
				if err := s.Sweep(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		nodes[0].want(p.ID, stoa.PaymentPaid, 0, 0)
		if t.Failed() {
			t.Fatalf("payment %d: %+v", n, nodes[0].payment(p.ID))
		}
	}
}

func TestSignaturesAreChecked(t *testing.T) {
	t.Parallel()
	body, now := []byte(`{"object":"event"}`), time.Unix(1_800_000_000, 0)
	secrets := []string{"whsec_old", "whsec_new"}
	valid := fakestripe.Sign(body, now, "whsec_new")
	for name, header := range map[string]string{
		"the new secret": valid, "the old one": fakestripe.Sign(body, now, "whsec_old"), "several": fakestripe.Sign(body, now, "whsec_other", "whsec_old"),
		"almost old": fakestripe.Sign(body, now.Add(-300*time.Second), "whsec_new"), "another scheme": valid + ",v0=00",
		"a clock that is behind": fakestripe.Sign(body, now.Add(time.Hour), "whsec_new"),
	} {
		if err := payment.CheckSignature(header, body, secrets, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, header := range map[string]string{
		"none": "", "no time": "v1=" + valid[len(valid)-64:], "another secret": fakestripe.Sign(body, now, "whsec_other"), "an empty secret": fakestripe.Sign(body, now, ""),
		"old":          fakestripe.Sign(body, now.Add(-301*time.Second), "whsec_new"),
		"another body": fakestripe.Sign([]byte("{}"), now, "whsec_new"), "another time": "t=1800000001" + valid[len("t=1800000000"):], "another scheme": "t=1800000000,v0=" + valid[len(valid)-64:],
	} {
		if err := payment.CheckSignature(header, body, append(secrets, ""), now); stoa.CodeOf(err) != stoa.CodeInvalidValue {
			t.Errorf("%s: %v", name, err)
		}
	}
}
