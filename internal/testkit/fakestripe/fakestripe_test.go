package fakestripe

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stoa/internal/testkit/shape"
)

// replies makes the requests of the service, and some that are refused. Requests whose replies have several forms
// are repeated, and named by the form of the payment intent.
func replies(t *testing.T, at, key string, paid func(session string)) (all []shape.Reply) {
	send := func(name, method, path, key string, form url.Values) (got struct {
		ID     string
		Intent json.RawMessage `json:"payment_intent"`
	},
	) {
		req, err := http.NewRequest(method, at+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Stripe-Version", Version)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		r := shape.HTTP(t, name, res, "Request-Id")
		_, body, _ := strings.Cut(r.Text, "\n\n")
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ":") {
			r.Name += map[byte]string{'"': " string", '{': " object", 'n': " null"}[got.Intent[0]]
		}
		if !slices.ContainsFunc(all, func(a shape.Reply) bool { return a.Name == r.Name }) {
			all = append(all, r)
		}
		return got
	}
	form := url.Values{
		"mode": {"payment"}, "success_url": {"https://example.com"}, "line_items[0][quantity]": {"1"}, "line_items[0][price_data][currency]": {"eur"},
		"line_items[0][price_data][unit_amount]": {"1000"}, "line_items[0][price_data][product_data][name]": {"10 credits"},
		"client_reference_id": {"pay_1"}, "metadata[payment]": {"pay_1"}, "payment_intent_data[metadata][payment]": {"pay_1"},
	}
	var session, intent string
	for range 6 {
		session = send("create:", "POST", "/v1/checkout/sessions", key, form).ID
	}
	paid(session)
	for range 2 {
		_ = json.Unmarshal(send("read:", "GET", "/v1/checkout/sessions/"+session, key, nil).Intent, &intent)
		send("read expanded:", "GET", "/v1/checkout/sessions/"+session+"?expand[]=payment_intent", key, nil)
	}
	send("intent", "GET", "/v1/payment_intents/"+intent, key, nil)
	send("refunds", "GET", "/v1/refunds?limit=100&payment_intent="+intent, key, nil)
	send("disputes", "GET", "/v1/disputes?limit=100&payment_intent="+intent, key, nil)
	send("no key", "GET", "/v1/payment_intents/"+intent, "", nil)
	send("no path", "GET", "/v1/nothing", key, nil)
	form.Set("mode", "odd")
	send("wrong value", "POST", "/v1/checkout/sessions", key, form)
	send("unknown parameter", "POST", "/v1/checkout/sessions", key, url.Values{"odd": {"1"}})
	return all
}

func TestRecordedStripe(t *testing.T) {
	t.Parallel()
	s := New(t)
	fake := replies(t, s.URL, Key, func(session string) {
		s.Pay(session)
		s.Refund(session, 1)
		s.Dispute(session)
	})
	shape.Recording{
		File: "stripe-mock.txtar",
		Record: func(t *testing.T, programs string) (string, []shape.Reply) {
			port := shape.Run(t, programs, nil, filepath.Join(programs, "bin", "stripe-mock"), "-http-port", "PORT")
			return shape.Go(t, programs, "stripe-mock"), replies(t, "http://127.0.0.1:"+port, "sk_test_123", func(string) {})
		},
		Random: map[string]string{`validator 0x[0-9a-f]+`: "validator 0x1", `"cs_test_\w+"`: `"cs_test_1"`},
		OnPurpose: map[string]string{
			`create: (null|object): no reply of the real program`:                                       "Stripe creates the payment intent with the session or when it is paid, depending on the version of its API",
			`read expanded: string: no reply of the real program`:                                       "other servers with this API ignore expand[]",
			`.*: \.(amount_total|currency|client_reference_id|metadata\.payment) (is|\(string\) is) .*`: "stripe-mock keeps nothing of a session",
			`(refunds|disputes): \.data\[\]\.payment_intent is string, not null`:                        "stripe-mock keeps no payments",
			`read.*: \.url is null, not string`:                                                         "stripe-mock has no paid sessions",
			`(wrong value|unknown parameter): \.error\.(code|param) .*`:                                 "stripe-mock has no codes of errors; those of Stripe are in its documentation",
		},
	}.Compare(t, fake)
}
