package api_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakestripe"
)

const paymentsPath = "/api/v1/payments"

func TestOwnersBuyCredits(t *testing.T) {
	t.Parallel()
	stripe := fakestripe.New(t)
	h := start(t, apitest.Config{Idle: true, Payments: stripe.Payments(), Grant: 1})
	hook := h.URL + "/hooks/stripe"
	c := h.Client(t)
	var meta contract.Meta
	c.Want(200, "GET", "/api/v1/meta", nil).JSON(&meta)
	var packs contract.PackList
	c.Want(200, "GET", paymentsPath+"/packs", nil).JSON(&packs)
	if !meta.Payments || len(packs.Data) != 2 || packs.Data[0] != (contract.Pack{ID: "small", Name: "10 credits", Amount: 1000, Currency: "eur", CreditsMicro: 10_000_001}) {
		t.Errorf("the packs are %+v", packs.Data)
	}
	if e := c.Want(400, "POST", paymentsPath, object{"pack": "huge"}).Error(); e.Param == nil || *e.Param != "pack" || !strings.Contains(e.Message, "large, small") {
		t.Errorf("an unknown pack: %+v", e)
	}
	once := c.With("Idempotency-Key", "one")
	var p, again contract.Payment
	once.Want(201, "POST", paymentsPath, object{"pack": "small"}).JSON(&p)
	once.Want(201, "POST", paymentsPath, object{"pack": "small"}).JSON(&again)
	once.Want(422, "POST", paymentsPath, object{"pack": "large"})
	if again.ID != p.ID || p.State != "pending" || orNone(p.CheckoutURL) == "" || p.Live || stripe.Requests("POST") != 1 {
		t.Errorf("%+v, again %+v", p, again)
	}
	checkout := orNone(p.CheckoutURL)
	checkout = checkout[strings.LastIndexByte(checkout, '/')+1:]
	stripe.Pay(checkout)
	event := stripe.Events()[0]

	// Nothing but a valid signature has an effect.
	for name, signature := range map[string]string{
		"none": "", "forged": fakestripe.Sign(event, time.Now(), "whsec_other"), "old": fakestripe.Sign(event, time.Now().Add(-6*time.Minute), fakestripe.Secret),
		"of another body": fakestripe.Sign([]byte("{}"), time.Now(), fakestripe.Secret),
	} {
		if status := fakestripe.Post(t, hook, event, signature); status != 400 {
			t.Errorf("%s: %d", name, status)
		}
	}
	large := bytes.Repeat([]byte(" "), 64<<10)
	if status := fakestripe.Post(t, hook, append(large, event...), fakestripe.Sign(event, time.Now(), fakestripe.Secret)); status != 413 {
		t.Errorf("too large: %d", status)
	}
	if status := stripe.Deliver(hook, []byte("{}")); status != 400 {
		t.Errorf("not an event: %d", status)
	}
	c.Want(200, "GET", paymentsPath+"/"+p.ID, nil).JSON(&p)
	if p.State != "pending" {
		t.Errorf("a forged notification: %+v", p)
	}
	for range 2 {
		if status := stripe.Deliver(hook, event); status != 200 {
			t.Errorf("a notification: %d", status)
		}
	}
	stripe.Refund(checkout, 500)
	for _, e := range stripe.Events() {
		stripe.Deliver(hook, e)
	}
	var list contract.PaymentList
	c.Want(200, "GET", paymentsPath, nil).JSON(&list)
	if len(list.Data) != 1 {
		t.Fatalf("the payments are %+v", list.Data)
	}
	if p = list.Data[0]; p.State != "paid" || p.RefundedAmount != 500 || p.WithdrawnMicro != 5_000_000 || !p.CheckoutURL.IsNull() || p.PaidAt.IsNull() {
		t.Errorf("paid and refunded: %+v", p)
	}
	var credits contract.Credits
	c.Want(200, "GET", "/api/v1/credits", nil).JSON(&credits)
	if credits.AvailableMicro != 1+10_000_001-5_000_000 {
		t.Errorf("the balance is %+v", credits)
	}
	var statements contract.StatementList
	c.Want(200, "GET", "/api/v1/statements/"+string(stoa.MonthOf(time.Now())), nil).JSON(&statements)
	if s := statements.Data[0]; len(s.Grants) != 2 || s.Grants[1].Kind != "purchase" || len(s.Withdrawals) != 1 || s.Withdrawals[0].Kind != "refund" {
		t.Errorf("the statement is %+v", s)
	}
	// Only owners buy; an operator reads the payments of others.
	secret, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	h.ClientWith(t, secret).Want(403, "POST", paymentsPath, object{"pack": "small"})
	h.ClientWith(t, secret).Want(403, "GET", paymentsPath, nil)
	var other contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "Other"}).JSON(&other)
	c.Want(200, "GET", paymentsPath+"?accountId="+other.ID, nil).JSON(&list)
	if len(list.Data) != 0 {
		t.Errorf("the payments of another account are %+v", list.Data)
	}
	stripe.Fail(500)
	if e := c.Want(502, "POST", paymentsPath, object{"pack": "small"}).Error(); strings.Contains(e.Message, "purpose") {
		t.Errorf("a failing Stripe: %+v", e)
	}
}

func TestWithoutSettingsNothingIsSold(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	for _, path := range []string{paymentsPath, paymentsPath + "/packs", paymentsPath + "/pay_1"} {
		c.Want(404, "GET", path, nil)
	}
	c.Want(404, "POST", paymentsPath, object{"pack": "small"})
	r, err := http.Post(h.URL+"/hooks/stripe", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != 404 && r.StatusCode != 405 {
		t.Errorf("the hook answers with %d", r.StatusCode)
	}
	var meta contract.Meta
	if c.Want(200, "GET", "/api/v1/meta", nil).JSON(&meta); meta.Payments {
		t.Error("meta says that credits are sold")
	}
}
