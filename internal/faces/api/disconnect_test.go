package api_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// breakOff makes a call and closes its connection once wait returns. key is its
// Idempotency-Key; it may be empty.
func breakOff(t *testing.T, h *apitest.Service, path, key string, call body, wait func()) {
	t.Helper()
	text, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", h.URL+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Key)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	go func() {
		wait()
		cancel()
	}()
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
		t.Fatalf("a call that was broken off answered %d", res.StatusCode)
	}
}

// received returns a wait for n requests at the vendor.
func received(t *testing.T, f *fakeup.Server, n int) func() {
	return func() {
		f.Wait(t, "the requests", func(all []fakeup.Served) bool { return len(all) >= n && all[n-1].Attempt > 0 })
	}
}

// paidInput checks that the one receipt is that of an input.
func paidInput(t *testing.T, h *apitest.Service, what string) {
	t.Helper()
	h.HTTP.Close() // waits for the handler
	got := receipt(t, h)
	if !got.Estimated || got.State != "cancelled" || got.Amount <= 0 || got.Usage.InputTokens == 0 || got.Usage.OutputTokens != 0 {
		t.Errorf("%s: charged %+v", what, got.Charge)
	}
	if b := quiet(t, h); b.Spent != got.Amount {
		t.Errorf("%s: spent %d, charged %d", what, b.Spent, got.Amount)
	}
}

func TestADisconnectBeforeTheHeadersPaysTheInput(t *testing.T) {
	t.Parallel()
	for _, model := range allWires {
		for _, stream := range []bool{true, false} {
			for _, path := range allFormats {
				h, f := vendors(t, apitest.Config{})
				call := callTools(path, model, "fault: hang", body{"stream": stream})
				delete(call, "tools")
				breakOff(t, h, path, "", call, received(t, f, 1))
				f.WaitEnded(t, 1)
				paidInput(t, h, model+" at "+path)
			}
		}
	}
}

// TestADisconnectIsPaidOnce leaves while the second of two providers has the request: the
// first one answered with an error, or took too long.
func TestADisconnectIsPaidOnce(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"a timeout": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // until then the close of the connection is not visible
			<-r.Context().Done()
		},
	} {
		f := fakeup.Start(t)
		refuses := httptest.NewServer(first)
		defer refuses.Close()
		one := stoa.Provider{Name: "one", Wire: "chat", Dialect: "openai", BaseURL: refuses.URL, APIKey: "k", Timeouts: stoa.Timeouts{FirstByte: 100 * time.Millisecond}}
		two := f.Provider("chat")
		h := start(t, apitest.Config{
			Providers: []stoa.Provider{one, two},
			Families:  map[string][]stoa.Route{"alpha": {{Provider: "one"}, {Provider: "chat"}}},
		})
		breakOff(t, h, responses, "", body{"model": "alpha-haiku-4-5", "stream": true, "input": "fault: hang"}, received(t, f, 1))
		f.WaitEnded(t, 1)
		paidInput(t, h, name)
		if got := receipt(t, h); got.Provider != "chat" {
			t.Errorf("%s: the receipt names %q", name, got.Provider)
		}
	}
}

// failures reports the first failed request to a provider, and keeps the call until its caller has left.
type failures struct {
	slog.Handler
	seen, left chan struct{}
}

func (f failures) Enabled(context.Context, slog.Level) bool { return true }

func (f failures) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "an upstream call failed" {
		select {
		case f.seen <- struct{}{}:
		default:
		}
		<-f.left
	}
	return nil
}

// TestADisconnectAfterAnErrorIsFree leaves in the pause before a retry.
func TestADisconnectAfterAnErrorIsFree(t *testing.T) {
	t.Parallel()
	for _, model := range allWires {
		told := failures{slog.DiscardHandler, make(chan struct{}, 1), make(chan struct{})}
		h, _ := vendors(t, apitest.Config{Logger: slog.New(told)})
		breakOff(t, h, responses, "", body{"model": model, "stream": true, "input": "fail: 429"}, func() { <-told.seen })
		close(told.left)
		h.HTTP.Close()
		if n := len(receipts(t, h)); n != 0 {
			t.Errorf("%s: %d receipts", model, n)
		}
		quiet(t, h)
	}
}

// TestADisconnectUnderAKeyIsSeen makes calls with an Idempotency-Key, which continue
// without their caller. Beyond the limit of such calls, a caller who disconnects is
// charged, and the key is free for another call with a separate receipt.
func TestADisconnectUnderAKeyIsSeen(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	call := func(input string) body { return body{"model": "alpha-haiku-4-5", "stream": true, "input": input} }
	const may = 16
	for i := range may {
		breakOff(t, h, responses, string(rune('a'+i)), call("fault: hang"), received(t, f, i+1))
	}
	h.Client(t).With("Idempotency-Key", "a").WantError(stoa.CodeIdempotencyRunning, "POST", responses, call("fault: hang"))
	if n := len(receipts(t, h)); n != 0 {
		t.Errorf("%d receipts of calls that go on", n)
	}
	last := call("flaky: 1\nfault: hang\nsay: at last")
	breakOff(t, h, responses, "z", last, received(t, f, may+1))
	c := h.Client(t).With("Idempotency-Key", "z")
	r := c.Do("POST", responses, last)
	for ; r.Status == 409; r = c.Do("POST", responses, last) {
	}
	if r.Status != 200 || r.Text() != "at last" || r.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	h.Server.Stop() // the others hang for ever otherwise
	f.WaitEnded(t, may+2)
	h.HTTP.Close()
	all := receipts(t, h)
	slices.SortFunc(all, func(a, b store.Receipt) int { return cmp.Compare(a.State, b.State) })
	if len(all) != 2 || all[0].State != "cancelled" || !all[0].Estimated || all[1].State != "completed" || all[1].Estimated {
		t.Errorf("the receipts are %+v", all)
	}
	quiet(t, h)
}

// TestACancelBeforeTheHeadersPaysTheInput cancels a session whose provider has the
// request and has not answered.
func TestACancelBeforeTheHeadersPaysTheInput(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"model": "alpha-haiku-4-5"})
	_, path := a.begin(t, "fault: hang", nil)
	received(t, f, 1)()
	a.Want(200, "POST", path+"/cancel", nil)
	f.WaitEnded(t, 1)
	if got := receipt(t, h); !got.Estimated || got.State != "cancelled" || got.Usage.InputTokens == 0 || got.Usage.OutputTokens != 0 || got.SessionID == "" {
		t.Errorf("charged %+v", got.Charge)
	}
	quiet(t, h)
}
