// Package fakestripe is a Stripe for tests: Checkout Sessions, refunds and disputes of the version of the API that
// the service uses, with all members that Stripe's own stripe-mock gives them. It refuses what Stripe refuses: other keys and versions, unknown and missing parameters,
// prices below the minimum, and an idempotency key with other parameters. Tests pay, refund and dispute, and
// deliver the signed events in any order. It is for tests only; start with [New].
package fakestripe

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/testkit/shape"
)

// What the server accepts and signs with.
const (
	Key     = "rk_test_stoa"
	Secret  = "whsec_stoa"
	Version = "2026-02-25.clover"
)

// object is a JSON object.
type object = map[string]any

//go:embed testdata/stripe-mock.txtar
var recording []byte

// recorded returns an object of a recorded reply: that of a list, or the reply itself.
func recorded(name string) object {
	body := shape.Find(recording, name).Body
	var list struct{ Data []json.RawMessage }
	if _ = json.Unmarshal(body, &list); len(list.Data) > 0 {
		body = list.Data[0]
	}
	return shape.Members(body)
}

// like returns a recorded object with other members.
func like(name string, members object) object {
	o := recorded(name)
	maps.Copy(o, members)
	return o
}

// A Server is a running Stripe. Objects are in the test mode unless Live is set before the first request.
type Server struct {
	URL  string
	Live bool

	t        testing.TB
	mu       sync.Mutex
	n        int
	sessions map[string]object
	intents  map[string]object
	refunds  []object // the newest first
	disputes []object
	replies  map[string]stored // by idempotency key
	events   [][]byte
	requests []string
	turns    map[string]int // of the forms of payment intents, by place
	fail     []int          // statuses of the next requests; -1 drops the connection after the work is done
}

type stored struct {
	params string
	status int
	body   []byte
}

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	s := &Server{t: t, sessions: map[string]object{}, intents: map[string]object{}, replies: map[string]stored{}, turns: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/checkout/sessions", s.once(s.createSession))
	mux.HandleFunc("GET /v1/checkout/sessions/{id}", s.serve(s.getSession))
	mux.HandleFunc("GET /v1/payment_intents/{id}", s.serve(s.getIntent))
	mux.HandleFunc("GET /v1/refunds", s.serve(func(r *http.Request) (int, object) { return s.list(r, "/v1/refunds", s.refunds) }))
	mux.HandleFunc("GET /v1/disputes", s.serve(func(r *http.Request) (int, object) { return s.list(r, "/v1/disputes", s.disputes) }))
	mux.HandleFunc("/", s.serve(func(r *http.Request) (int, object) {
		return failure(http.StatusNotFound, "invalid_request_error", "", "", "Unrecognized request URL ("+r.Method+": "+r.URL.Path+").")
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Payments returns settings with which the service sells two packs: small has 10.000001 credits for 10.00
// EUR, large 100 credits for 90.00 EUR.
func (s *Server) Payments() config.Payments {
	secrets := map[string]string{"KEY": s.key(), "SECRET": Secret}
	file := fmt.Appendf(nil, `publicUrl: http://127.0.0.1
payments:
  stripe: {keyEnv: KEY, api: %q, webhookSecrets: [{env: SECRET}]}
  packs:
    small: {name: 10 credits, price: 1000, currency: eur, creditsMicro: 10000001}
    large: {name: 100 credits, price: 9000, currency: eur, creditsMicro: 100000000}
`, s.URL)
	c, err := config.Load(config.Flags{Config: "stoa.yaml"}, func(name string) string { return secrets[name] }, func(string) ([]byte, error) { return file, nil })
	if err != nil {
		s.t.Fatal(err)
	}
	return c.Payments
}

// Fail makes the next requests fail with these statuses; -1 drops the connection after the work is done.
func (s *Server) Fail(statuses ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = append(s.fail, statuses...)
}

// Requests returns the number of requests whose method and path contain a text.
func (s *Server) Requests(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.Contains(r, text) {
			n++
		}
	}
	return n
}

// serve checks the headers of a request and answers it.
func (s *Server) serve(h func(r *http.Request) (int, object)) http.HandlerFunc {
	return s.answer(func(r *http.Request) (int, []byte) {
		status, body := h(r)
		return status, encode(body)
	})
}

// once is serve for requests with an idempotency key.
func (s *Server) once(h func(r *http.Request) (int, object)) http.HandlerFunc {
	return s.answer(func(r *http.Request) (int, []byte) {
		if r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
			status, body := failure(http.StatusBadRequest, "invalid_request_error", "", "", "Invalid request: use application/x-www-form-urlencoded.")
			return status, encode(body)
		}
		if err := r.ParseForm(); err != nil {
			status, body := failure(http.StatusBadRequest, "invalid_request_error", "", "", err.Error())
			return status, encode(body)
		}
		key := r.Header.Get("Idempotency-Key")
		if earlier, found := s.replies[key]; found && key != "" {
			if earlier.params != r.PostForm.Encode() {
				status, body := failure(http.StatusBadRequest, "idempotency_error", "", "", "Keys for idempotent requests can only be used with the same parameters they were first used with.")
				return status, encode(body)
			}
			return earlier.status, earlier.body
		}
		status, body := h(r)
		raw := encode(body)
		s.replies[key] = stored{r.PostForm.Encode(), status, raw}
		return status, raw
	})
}

func (s *Server) answer(h func(r *http.Request) (int, []byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
		next := 0
		if len(s.fail) > 0 {
			next, s.fail = s.fail[0], s.fail[1:]
		}
		status, body := 0, []byte(nil)
		switch {
		case next > 0:
			code, of := failure(next, "api_error", "", "", "The request failed on purpose.")
			status, body = code, encode(of)
		case r.Header.Get("Authorization") != "Bearer "+s.key():
			code, of := failure(http.StatusUnauthorized, "invalid_request_error", "", "", "Invalid API Key provided.")
			status, body = code, encode(of)
		case r.Header.Get("Stripe-Version") != Version:
			code, of := failure(http.StatusBadRequest, "invalid_request_error", "", "", "Invalid Stripe API version: "+r.Header.Get("Stripe-Version"))
			status, body = code, encode(of)
		default:
			status, body = h(r)
		}
		if next < 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		if status != http.StatusUnauthorized {
			w.Header().Set("Request-Id", "req_fake")
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

func (s *Server) key() string {
	if s.Live {
		return strings.Replace(Key, "test", "live", 1)
	}
	return Key
}

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func failure(status int, kind, code, param, message string) (int, object) {
	e := object{"type": kind, "message": message}
	if code != "" {
		e["code"] = code
	}
	if param != "" {
		e["param"] = param
	}
	return status, object{"error": e}
}

// id returns a new id with a prefix.
func (s *Server) id(prefix string) string {
	s.n++
	return fmt.Sprintf("%s_test_%d", prefix, s.n)
}

// known are the accepted parameters of a session.
var known = regexp.MustCompile(`^(mode|client_reference_id|success_url|cancel_url|metadata\[\w+\]|payment_intent_data\[metadata\]\[\w+\]|line_items\[0\]\[(quantity|price_data\]\[(currency|unit_amount|product_data\]\[name))\])$`)

func (s *Server) createSession(r *http.Request) (int, object) {
	form := r.PostForm
	for name := range form {
		if !known.MatchString(name) {
			return failure(http.StatusBadRequest, "invalid_request_error", "parameter_unknown", name, "Received unknown parameter: "+name)
		}
	}
	for _, name := range []string{"mode", "success_url", "line_items[0][quantity]", "line_items[0][price_data][currency]", "line_items[0][price_data][unit_amount]", "line_items[0][price_data][product_data][name]"} {
		if form.Get(name) == "" {
			return failure(http.StatusBadRequest, "invalid_request_error", "parameter_missing", name, "Missing required param: "+name+".")
		}
	}
	amount, err := strconv.ParseInt(form.Get("line_items[0][price_data][unit_amount]"), 10, 64)
	currency := form.Get("line_items[0][price_data][currency]")
	switch {
	case err != nil || form.Get("line_items[0][quantity]") != "1" || form.Get("mode") != "payment":
		return failure(http.StatusBadRequest, "invalid_request_error", "parameter_invalid_integer", "line_items", "Invalid parameter.")
	case !strings.HasPrefix(form.Get("success_url"), "http"):
		return failure(http.StatusBadRequest, "invalid_request_error", "url_invalid", "success_url", "Not a valid URL")
	case currency != "eur" && currency != "usd":
		return failure(http.StatusBadRequest, "invalid_request_error", "", "line_items[0][price_data][currency]", "Invalid currency: "+currency)
	case amount < 50:
		return failure(http.StatusBadRequest, "invalid_request_error", "amount_too_small", "", "The Checkout Session's total amount must convert to at least 50 cents.")
	}
	metadata := object{}
	for name, values := range form {
		if key, ok := strings.CutPrefix(name, "metadata["); ok {
			metadata[strings.TrimSuffix(key, "]")] = values[0]
		}
	}
	id := s.id("cs")
	session := like("create: string", object{
		"id": id, "object": "checkout.session", "livemode": s.Live, "mode": "payment", "status": "open", "payment_status": "unpaid",
		"amount_total": amount, "currency": currency, "client_reference_id": form.Get("client_reference_id"), "metadata": metadata,
		"payment_intent": nil, "url": "https://checkout.stripe.com/c/pay/" + id, "created": time.Now().Unix(), "expires_at": time.Now().Add(24 * time.Hour).Unix(),
		"success_url": form.Get("success_url"),
	})
	s.sessions[id] = session
	if s.turn("created", 3) > 0 { // older versions of the API create the intent with the session
		session["payment_intent"] = s.createIntent(session, "requires_payment_method")
		return http.StatusOK, s.show("created session", session, true)
	}
	return http.StatusOK, session
}

// turn returns 0, 1, … up to n - 1, and then begins again, for each place.
func (s *Server) turn(place string, n int) int {
	defer func() { s.turns[place]++ }()
	return s.turns[place] % n
}

// createIntent creates the payment intent of a session, and returns its id.
func (s *Server) createIntent(session object, status string) string {
	id := s.id("pi")
	s.intents[id] = like("intent", object{"id": id, "status": status, "amount": session["amount_total"], "currency": session["currency"], "livemode": s.Live})
	return id
}

// show returns an object with its payment intent as an object and as an id in turn; as servers do that expand
// without a request, or not in spite of one.
func (s *Server) show(place string, of object, expand bool) object {
	out := maps.Clone(of)
	if intent, ok := of["payment_intent"].(string); ok && expand && s.turn(place, 2) == 0 {
		out["payment_intent"] = s.intents[intent]
	}
	return out
}

func (s *Server) getIntent(r *http.Request) (int, object) {
	intent, found := s.intents[r.PathValue("id")]
	if !found {
		return failure(http.StatusNotFound, "invalid_request_error", "resource_missing", "intent", "No such payment_intent: '"+r.PathValue("id")+"'")
	}
	return http.StatusOK, intent
}

func (s *Server) getSession(r *http.Request) (int, object) {
	session, found := s.sessions[r.PathValue("id")]
	if !found {
		return failure(http.StatusNotFound, "invalid_request_error", "resource_missing", "id", "No such checkout.session: '"+r.PathValue("id")+"'")
	}
	q := r.URL.Query()
	return http.StatusOK, s.show("read session", session, cmp.Or(q.Get("expand[]"), q.Get("expand[0]")) == "payment_intent")
}

// list answers with a page of the refunds or disputes of a payment intent.
func (s *Server) list(r *http.Request, path string, all []object) (int, object) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		return failure(http.StatusBadRequest, "invalid_request_error", "parameter_invalid_integer", "limit", "This value must be between 1 and 100.")
	}
	if _, found := s.intents[q.Get("payment_intent")]; !found {
		return failure(http.StatusNotFound, "invalid_request_error", "resource_missing", "payment_intent", "No such payment_intent: '"+q.Get("payment_intent")+"'")
	}
	data, more, after := []object{}, false, q.Get("starting_after")
	for _, o := range all {
		switch {
		case o["payment_intent"] != q.Get("payment_intent"):
		case after != "":
			if o["id"] == after {
				after = ""
			}
		case len(data) == limit:
			more = true
		default:
			data = append(data, o)
		}
	}
	return http.StatusOK, object{"object": "list", "url": path, "has_more": more, "data": data}
}

// Change changes members of a session, such as its amount.
func (s *Server) Change(session string, members map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, value := range members {
		s.sessions[session][name] = value
	}
}

// Pay completes a session with a card. Its event is added to [Server.Events].
func (s *Server) Pay(session string) {
	s.complete(session, "paid", "succeeded", "checkout.session.completed")
}

// PayLater completes a session with a method whose result comes later; see [Server.Arrive].
func (s *Server) PayLater(session string) {
	s.complete(session, "unpaid", "processing", "checkout.session.completed")
}

// Arrive ends the payment of a session that was completed before.
func (s *Server) Arrive(session string, succeeds bool) {
	if succeeds {
		s.complete(session, "paid", "succeeded", "checkout.session.async_payment_succeeded")
		return
	}
	s.complete(session, "unpaid", "requires_payment_method", "checkout.session.async_payment_failed")
}

func (s *Server) complete(id, paid, intentStatus, event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[id]
	intent, made := session["payment_intent"].(string)
	if !made {
		intent = s.createIntent(session, intentStatus)
		session["payment_intent"] = intent
	}
	s.intents[intent]["status"] = intentStatus
	session["status"], session["payment_status"], session["url"] = "complete", paid, nil
	s.emit(event, session)
}

// Expire ends an open session.
func (s *Server) Expire(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[id]
	session["status"], session["url"] = "expired", nil
	s.emit("checkout.session.expired", session)
}

// Refund refunds a part of the payment of a session, and returns the id of the refund.
func (s *Server) Refund(session string, amount int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	refund := like("refunds", object{"id": s.id("re"), "amount": amount, "status": "succeeded", "payment_intent": s.sessions[session]["payment_intent"]})
	s.refunds = append([]object{refund}, s.refunds...)
	s.emit("refund.created", refund)
	return refund["id"].(string)
}

// FailRefund makes a refund fail after all.
func (s *Server) FailRefund(id string) { s.setStatus(s.refunds, id, "failed", "refund.failed") }

// Dispute opens a dispute of the payment of a session, and returns its id.
func (s *Server) Dispute(session string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	dispute := like("disputes", object{"id": s.id("du"), "amount": s.sessions[session]["amount_total"], "status": "needs_response", "payment_intent": s.sessions[session]["payment_intent"]})
	s.disputes = append([]object{dispute}, s.disputes...)
	s.emit("charge.dispute.created", dispute)
	return dispute["id"].(string)
}

// SetDispute sets the status of a dispute, such as won, lost or warning_needs_response.
func (s *Server) SetDispute(id, status string) {
	s.setStatus(s.disputes, id, status, "charge.dispute.updated")
}

func (s *Server) setStatus(of []object, id, status, event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range of {
		if o["id"] == id {
			o["status"] = status
			s.emit(event, o)
		}
	}
}

func (s *Server) emit(kind string, of object) {
	s.events = append(s.events, encode(object{
		"id": s.id("evt"), "object": "event", "type": kind, "api_version": Version, "livemode": s.Live, "created": time.Now().Unix(), "data": object{"object": s.show(kind, of, true)},
	}))
}

// Events returns the events since the last call, the oldest first.
func (s *Server) Events() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.events
	s.events = nil
	return list
}

// Sign returns the header Stripe-Signature of an event, with one signature of each secret.
func Sign(event []byte, at time.Time, secrets ...string) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	header := "t=" + stamp
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "."))
		mac.Write(event)
		header += ",v1=" + hex.EncodeToString(mac.Sum(nil))
	}
	return header
}

// Deliver posts an event to an endpoint with a valid signature, and returns the status of the reply.
func (s *Server) Deliver(endpoint string, event []byte) int {
	return Post(s.t, endpoint, event, Sign(event, time.Now(), Secret))
}

// Post posts an event to an endpoint with a header Stripe-Signature.
func Post(t testing.TB, endpoint string, event []byte, signature string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, endpoint, bytes.NewReader(event))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("Stripe-Signature", signature)
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	return reply.StatusCode
}
