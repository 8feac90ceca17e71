package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/sse"
)

// A usage is the usage that a reply reports, in tokens.
type usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Total  int64 `json:"total_tokens"`
}

// seen contains everything that a caller received for one request.
type seen struct {
	status   int    // HTTP status; 0 if no headers arrived
	code     string // of an error, in the body or in the stream
	noRetry  bool   // x-should-retry: false
	replayed bool
	charge   int64 // stoa-charge-micro of a whole reply; -1: unknown

	id                 string
	model              string
	end                string // completed, incomplete, failed; empty if no end arrived
	text               string
	usage              usage
	deltas             int
	broken             error // the connection broke, or the caller disconnected
	clientDisconnected bool  // the caller disconnected
	refused            bool  // the connection was refused: no request was sent

	began time.Time
	took  time.Duration // until the headers arrived, or the request failed
}

// done reports whether the caller has a finished reply.
func (s seen) done() bool { return s.end == "completed" || s.end == "incomplete" }

type object = map[string]any

// ask sends one request to the model endpoint. delta, which may be nil, is called with the
// number of each delta of a stream.
func (h *server) ask(ctx context.Context, key, idempotencyKey string, body object, delta func(n int)) seen {
	s := seen{charge: -1}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/api/v1/responses", bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	// The transport must not retry: requests are counted.
	req.GetBody = nil
	if idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", idempotencyKey)
	}
	s.began = time.Now()
	res, err := h.http.Do(req)
	s.took = time.Since(s.began)
	if err != nil {
		s.fail(ctx, err)
		s.refused = strings.Contains(err.Error(), "connection refused")
		return s
	}
	defer res.Body.Close()
	s.status = res.StatusCode
	s.noRetry = res.Header.Get("x-should-retry") == "false"
	s.replayed = res.Header.Get("Idempotency-Replayed") == "true"
	if n, err := strconv.ParseInt(res.Header.Get("stoa-charge-micro"), 10, 64); err == nil {
		s.charge = n
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		s.stream(ctx, res.Body, delta)
		return s
	}
	whole, err := io.ReadAll(res.Body)
	if err != nil {
		s.fail(ctx, err)
		return s
	}
	if res.StatusCode != http.StatusOK {
		var e struct{ Error struct{ Code string } }
		if err := json.Unmarshal(whole, &e); err != nil {
			s.broken = fmt.Errorf("status %d with %q", res.StatusCode, whole)
		}
		s.code = e.Error.Code
		return s
	}
	var r reply
	if err := json.Unmarshal(whole, &r); err != nil {
		s.broken = fmt.Errorf("a reply that is no JSON: %q", whole)
		return s
	}
	s.record(r)
	return s
}

func (s *seen) fail(ctx context.Context, err error) {
	s.broken, s.clientDisconnected = err, ctx.Err() != nil
}

// A reply is the checked part of a response object.
type reply struct {
	ID     string
	Status string
	Model  string
	Usage  *usage
	Output []struct {
		Content []struct{ Text string }
	}
	Error *struct{ Code string }
}

func (s *seen) record(r reply) {
	s.id, s.model, s.end = r.ID, r.Model, r.Status
	s.text = ""
	for _, item := range r.Output {
		for _, part := range item.Content {
			s.text += part.Text
		}
	}
	if r.Usage != nil {
		s.usage = *r.Usage
	}
	if r.Error != nil {
		s.code = r.Error.Code
	}
}

// stream reads events up to [DONE].
func (s *seen) stream(ctx context.Context, body io.Reader, delta func(int)) {
	events := sse.NewReader(body, 0)
	for {
		ev, err := events.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			s.fail(ctx, err)
			return
		}
		if string(ev.Data) == "[DONE]" {
			return
		}
		var e struct {
			Type     string
			Delta    string
			Response *reply
			Code     string
		}
		if err := json.Unmarshal(ev.Data, &e); err != nil {
			s.broken = fmt.Errorf("an event that is not JSON: %q", ev.Data)
			return
		}
		switch e.Type {
		case "response.created":
			s.id, s.model = e.Response.ID, e.Response.Model
		case "response.output_text.delta":
			s.deltas++
			if delta != nil {
				delta(s.deltas)
			}
		case "response.completed", "response.incomplete", "response.failed":
			s.record(*e.Response)
		}
	}
}

// call sends one request to the control plane and returns the status, 0 if no reply arrived.
func (h *server) call(ctx context.Context, method, key, path string, body, into any) (int, error) {
	return h.callOnce(ctx, method, key, "", path, body, into)
}

// callOnce is call under an idempotency key.
func (h *server) callOnce(ctx context.Context, method, key, idempotencyKey, path string, body, into any) (int, error) {
	return h.request(ctx, method, key, idempotencyKey, path, "", body, into)
}

// request is callOnce from a page with that origin; empty means from a program.
func (h *server) request(ctx context.Context, method, key, idempotencyKey, path, origin string, body, into any) (int, error) {
	var text io.Reader
	header := map[string]string{"Idempotency-Key": idempotencyKey, "Origin": origin}
	if key != "" {
		header["Authorization"] = "Bearer " + key
	}
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		text, header["Content-Type"] = bytes.NewReader(b), "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, method, h.url+"/api/v1"+path, text)
	if err != nil {
		return 0, err
	}
	for name, value := range header {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := h.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	if res.StatusCode >= 400 {
		return res.StatusCode, fmt.Errorf("%s %s: %d %s", method, path, res.StatusCode, all)
	}
	if into == nil {
		return res.StatusCode, nil
	}
	return res.StatusCode, json.Unmarshal(all, into)
}

// get is [server.call], but an error ends the test.
func (h *server) get(t testing.TB, key, path string, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := h.call(ctx, http.MethodGet, key, path, nil, into); err != nil {
		t.Fatal(err)
	}
}

// An account is a customer of the service.
type account struct {
	id, key, plan string
	granted       int64

	// A second key with a daily limit; may be empty.
	cappedKey, cappedID string
	cap                 int64

	agent string // its id; may be empty
}

// newAgent creates an agent of the account.
func (h *server) newAgent(t testing.TB, a *account) {
	t.Helper()
	var me struct{ DefaultSpaceID string }
	h.get(t, a.key, "/users/me", &me)
	var made struct{ ID string }
	_, err := h.call(context.Background(), http.MethodPost, a.key, "/api-agents",
		object{"spaceId": me.DefaultSpaceID, "name": "agent", "instructions": "Do as you are told.", "model": "alpha-haiku-4-5"}, &made)
	if err != nil {
		t.Fatal(err)
	}
	a.agent = made.ID
}

// newCappedKey creates a key of the account with a daily cap, in micro-credits.
func (h *server) newCappedKey(t testing.TB, a *account, perDay int64) {
	t.Helper()
	var made struct{ ID, Secret string }
	_, err := h.call(context.Background(), http.MethodPost, ownerKey, "/accounts/"+a.id+"/keys",
		object{"name": "capped", "maxCreditsMicroPerDay": perDay}, &made)
	if err != nil {
		t.Fatal(err)
	}
	a.cappedKey, a.cappedID, a.cap = made.Secret, made.ID, perDay
}

// newAccount creates an account with the given grant, in micro-credits.
func (h *server) newAccount(t testing.TB, plan string, grant int64) *account {
	t.Helper()
	var made struct {
		ID  string
		Key struct{ Secret string }
	}
	body := object{"name": "customer", "plan": plan}
	if grant > 0 {
		body["grantMicro"] = grant
	}
	if _, err := h.call(context.Background(), http.MethodPost, ownerKey, "/accounts", body, &made); err != nil {
		t.Fatal(err)
	}
	return &account{id: made.ID, key: made.Key.Secret, plan: plan, granted: grant}
}

// text reads a resource that is not JSON.
func (h *server) text(t testing.TB, key, path string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, h.url+"/api/v1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := h.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %s %v", path, res.StatusCode, all, err)
	}
	return string(all)
}
