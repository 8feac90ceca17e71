package payment

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

const (
	// apiVersion is the version of Stripe's API whose objects the package reads. It is sent, so that a change of the
	// account's default does not change the replies.
	apiVersion = "2026-02-25.clover"
	// RequestTime is the maximum duration of a request to Stripe.
	RequestTime = 20 * time.Second
	MaxReply    = 1 << 20
	MaxEvent    = 64 << 10

	signatureAge  = 300 * time.Second // tolerance of Stripe's libraries
	maxSignatures = 16                // maximum number of compared signatures, because a header can repeat them
	listPage      = 100               // refunds or disputes in a request
	maxListPages  = 10
)

type session struct {
	ID            string            `json:"id"`
	Status        string            `json:"status"`         // open, complete or expired
	PaymentStatus string            `json:"payment_status"` // paid, unpaid or no_payment_required
	Mode          string            `json:"mode"`
	Live          bool              `json:"livemode"`
	Amount        int64             `json:"amount_total"`
	Currency      string            `json:"currency"`
	URL           string            `json:"url"`
	Metadata      map[string]string `json:"metadata"`
	Intent        intent            `json:"payment_intent"`
}

// An intent is a payment intent of Stripe. Members that contain one are expandable, so that they are an id, an object
// or null, depending on the request, the version of the API and the server.
type intent struct {
	ID     string // empty if there is no intent
	Status string // empty if only the id is known
}

// UnmarshalJSON reads each of the three forms.
func (i *intent) UnmarshalJSON(raw []byte) error {
	*i = intent{}
	if bytes.HasPrefix(raw, []byte(`"`)) {
		return jsonx.Unmarshal(raw, &i.ID)
	}
	var object struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	err := jsonx.Unmarshal(raw, &object)
	i.ID, i.Status = object.ID, object.Status
	return err
}

type reversal struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
	Status string `json:"status"`
}

var errAbsent = stoa.Errorf(stoa.CodeNotFound, "Stripe does not have this object.")

// createSession creates the Checkout Session of a payment. Its idempotency key makes a repeated call return the same
// session for 24 hours.
func (s *Sales) createSession(ctx context.Context, p stoa.Payment) (out session, err error) {
	back := s.PublicURL + "/console#/credits/payments"
	form := url.Values{
		"mode":                                          {"payment"},
		"client_reference_id":                           {p.ID},
		"metadata[payment]":                             {p.ID},
		"payment_intent_data[metadata][payment]":        {p.ID},
		"line_items[0][quantity]":                       {"1"},
		"line_items[0][price_data][currency]":           {p.Currency},
		"line_items[0][price_data][unit_amount]":        {strconv.FormatInt(p.Amount, 10)},
		"line_items[0][price_data][product_data][name]": {p.Name},
		"success_url":                                   {back},
		"cancel_url":                                    {back},
	}
	return out, s.send(ctx, http.MethodPost, "/v1/checkout/sessions", form, p.ID, &out)
}

// readSession returns a Checkout Session with its payment intent. It reads the intent's status separately if the
// server has not expanded it.
func (s *Sales) readSession(ctx context.Context, id string) (out session, err error) {
	err = s.send(ctx, http.MethodGet, "/v1/checkout/sessions/"+url.PathEscape(id)+"?expand[]=payment_intent", nil, "", &out)
	if err == nil && out.Intent.ID != "" && out.Intent.Status == "" {
		err = s.send(ctx, http.MethodGet, "/v1/payment_intents/"+url.PathEscape(out.Intent.ID), nil, "", &out.Intent)
	}
	return out, err
}

func (s *Sales) readReversals(ctx context.Context, kind, intent string) (all []reversal, err error) {
	query := url.Values{"payment_intent": {intent}, "limit": {strconv.Itoa(listPage)}}
	for range maxListPages {
		var page struct {
			Data    []reversal `json:"data"`
			HasMore bool       `json:"has_more"`
		}
		if err := s.send(ctx, http.MethodGet, "/v1/"+kind+"?"+query.Encode(), nil, "", &page); err != nil {
			return nil, err
		}
		if all = append(all, page.Data...); !page.HasMore || len(page.Data) == 0 {
			return all, nil
		}
		query.Set("starting_after", page.Data[len(page.Data)-1].ID)
	}
	return nil, fmt.Errorf("the payment intent %s has more than %d %s", intent, maxListPages*listPage, kind)
}

func (s *Sales) send(ctx context.Context, method, path string, form url.Values, idempotencyKey string, into any) error {
	var body []byte
	if form != nil {
		body = []byte(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, s.Settings.Stripe.BaseURL()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.Settings.Stripe.Key())
	req.Header.Set("Stripe-Version", apiVersion)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Idempotency-Key", idempotencyKey)
	}
	reply, err := s.Client.Exchange(req)
	if err != nil {
		return unavailable(err)
	}
	if reply.Status == http.StatusOK {
		if err := jsonx.Unmarshal(reply.Body, into); err != nil {
			return unavailable(fmt.Errorf("the reply of Stripe to %s: %w", method, err))
		}
		return nil
	}
	var failed struct {
		Error struct {
			Type    string `json:"type"`
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = jsonx.Unmarshal(reply.Body, &failed) // an error is ignored, because the status is known
	if reply.Status == http.StatusNotFound {
		return errAbsent
	}
	e := failed.Error
	return unavailable(fmt.Errorf("status %d of Stripe (%s, request %s): %s", reply.Status, cmp.Or(e.Code, e.Type, "no code"), reply.Header.Get("Request-Id"), e.Message))
}

// unavailable returns the error for callers if Stripe cannot be used. Only the log shows the cause.
func unavailable(cause error) error {
	return stoa.Errorf(stoa.CodePaymentService, "The payment service does not answer as expected. Nothing was paid; try again later.").Because(cause)
}

// CheckSignature checks the header Stripe-Signature of a notification: one of its signatures of the timestamp and
// the body must be of one of the secrets, and the timestamp must not be more than 5 minutes ago, so that a recorded
// notification cannot be repeated. As in Stripe's libraries it may be ahead, since otherwise a slow clock of this
// machine would refuse everything.
func CheckSignature(header string, body []byte, secrets []string, now time.Time) error {
	wrong := stoa.Errorf(stoa.CodeInvalidValue, "The signature of the notification is invalid or older than %d seconds.", signatureAge/time.Second).At("Stripe-Signature")
	var stamp string
	var signatures [][]byte
	for _, part := range strings.Split(header, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch strings.TrimSpace(name) {
		case "t":
			stamp = value
		case "v1":
			if sum, err := hex.DecodeString(value); err == nil && len(signatures) < maxSignatures {
				signatures = append(signatures, sum)
			}
		}
	}
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(at, 0)) > signatureAge {
		return wrong
	}
	valid := false
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "."))
		mac.Write(body)
		sum := mac.Sum(nil)
		for _, s := range signatures {
			valid = hmac.Equal(s, sum) || valid
		}
	}
	if !valid {
		return wrong
	}
	return nil
}

// event is a notification. Only its type and ids are used, because the objects are read from Stripe.
type event struct {
	Object string `json:"object"`
	Type   string `json:"type"`
	Live   *bool  `json:"livemode"`
	Data   struct {
		Object struct {
			ID     string `json:"id"`
			Object string `json:"object"`
			Intent intent `json:"payment_intent"`
		} `json:"object"`
	} `json:"data"`
}

// about returns the ids of the checkout session and the payment intent that an event concerns, or "".
func (e event) about() (checkout, intent string) {
	o := e.Data.Object
	switch o.Object {
	case "checkout.session":
		return o.ID, o.Intent.ID
	case "payment_intent":
		return "", o.ID
	case "charge", "refund", "dispute":
		return "", o.Intent.ID
	}
	return "", ""
}
