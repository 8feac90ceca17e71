// Package stripe_test compares what the service expects of Stripe with the official library: the version of the
// API, the signatures of events, and the requests and replies of the Stripe that the other tests use.
package stripe_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v84"
	"github.com/stripe/stripe-go/v84/webhook"

	"stoa/internal/operate/payment"
	"stoa/internal/testkit/fakestripe"
)

func TestTheLibrarySignsAsTheServiceChecks(t *testing.T) {
	t.Parallel()
	body, now := []byte(`{"object":"event"}`), time.Now()
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: fakestripe.Secret, Timestamp: now})
	if err := payment.CheckSignature(signed.Header, body, []string{"whsec_old", fakestripe.Secret}, now); err != nil {
		t.Error(err)
	}
	if err := payment.CheckSignature(signed.Header, body, []string{"whsec_old"}, now); err == nil {
		t.Error("another secret is accepted")
	}
	if err := payment.CheckSignature(signed.Header, body, []string{fakestripe.Secret}, now.Add(301*time.Second)); err == nil {
		t.Error("an old event is accepted")
	}
}

func TestTheLibraryUnderstandsTheFake(t *testing.T) {
	t.Parallel()
	if stripe.APIVersion != fakestripe.Version {
		t.Errorf("the library has the version %s, the service %s", stripe.APIVersion, fakestripe.Version)
	}
	ctx := context.Background()
	fake := fakestripe.New(t)
	client := stripe.NewClient(fakestripe.Key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(fake.URL), MaxNetworkRetries: stripe.Int64(0), LeveledLogger: &stripe.LeveledLogger{},
	})))
	create := func(amount int64) (*stripe.CheckoutSession, error) {
		return client.V1CheckoutSessions.Create(ctx, &stripe.CheckoutSessionCreateParams{
			Params: stripe.Params{IdempotencyKey: stripe.String("one")},
			Mode:   stripe.String("payment"), SuccessURL: stripe.String("https://ai.example.com"), Metadata: map[string]string{"payment": "pay_1"},
			LineItems: []*stripe.CheckoutSessionCreateLineItemParams{{
				Quantity: stripe.Int64(1), PriceData: &stripe.CheckoutSessionCreateLineItemPriceDataParams{
					Currency: stripe.String("eur"), UnitAmount: stripe.Int64(amount), ProductData: &stripe.CheckoutSessionCreateLineItemPriceDataProductDataParams{Name: stripe.String("10 credits")},
				},
			}},
		})
	}
	s, err := create(1000)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := create(1000); err != nil || again.ID != s.ID {
		t.Errorf("the same idempotency key: %v, %v", again, err)
	}
	var failed *stripe.Error
	if _, err := create(2000); !errors.As(err, &failed) || failed.Type != stripe.ErrorTypeIdempotency {
		t.Errorf("the idempotency key with another price: %v", err)
	}
	if s.Status != stripe.CheckoutSessionStatusOpen || s.PaymentStatus != stripe.CheckoutSessionPaymentStatusUnpaid || s.AmountTotal != 1000 || s.Currency != "eur" || s.URL == "" || s.Livemode || s.Metadata["payment"] != "pay_1" {
		t.Errorf("a session: %+v", s)
	}
	fake.Pay(s.ID)
	fake.Refund(s.ID, 400)
	fake.SetDispute(fake.Dispute(s.ID), "lost")
	read := &stripe.CheckoutSessionRetrieveParams{}
	read.AddExpand("payment_intent")
	if s, err = client.V1CheckoutSessions.Retrieve(ctx, s.ID, read); err != nil {
		t.Fatal(err)
	}
	if s.PaymentStatus != stripe.CheckoutSessionPaymentStatusPaid || s.PaymentIntent == nil || s.PaymentIntent.Status != stripe.PaymentIntentStatusSucceeded {
		t.Errorf("a paid session: %+v", s)
	}
	refunds := &stripe.RefundListParams{PaymentIntent: stripe.String(s.PaymentIntent.ID)}
	refunds.Limit = stripe.Int64(100)
	for r, err := range client.V1Refunds.List(ctx, refunds) {
		if err != nil || r.Amount != 400 || r.Status != stripe.RefundStatusSucceeded {
			t.Errorf("a refund: %+v, %v", r, err)
		}
	}
	disputes := &stripe.DisputeListParams{PaymentIntent: stripe.String(s.PaymentIntent.ID)}
	disputes.Limit = stripe.Int64(100)
	for d, err := range client.V1Disputes.List(ctx, disputes) {
		if err != nil || d.Status != stripe.DisputeStatusLost {
			t.Errorf("a dispute: %+v, %v", d, err)
		}
	}
	for _, raw := range fake.Events() {
		e, err := webhook.ConstructEvent(raw, fakestripe.Sign(raw, time.Now(), "whsec_old", fakestripe.Secret), fakestripe.Secret)
		if err != nil || e.Livemode {
			t.Fatalf("%s: %v", raw, err)
		}
		var of struct{ ID, Object string }
		if err := json.Unmarshal(e.Data.Raw, &of); err != nil || of.ID == "" || of.Object == "" {
			t.Errorf("%s: %v", e.Data.Raw, err)
		}
	}
}
