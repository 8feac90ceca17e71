package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// block lets no charge be committed until the returned function is called, as a disk
// does that has stopped answering.
func block(t *testing.T, h *apitest.Service) (release func()) {
	t.Helper()
	ctx := context.Background()
	blocked, free := make(chan error), make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		err := h.Store.Write(ctx, func(tx *store.Tx) error {
			if tx.Postgres() { // on SQLite there is one writer
				for _, q := range []string{`SET LOCAL idle_in_transaction_session_timeout = 0`, `LOCK TABLE charges, leases, idempotency IN SHARE MODE`} {
					if _, err := tx.Exec(ctx, q); err != nil {
						return err
					}
				}
			}
			blocked <- nil
			<-free
			return nil
		})
		if err != nil {
			select {
			case blocked <- err:
			default:
				t.Error(err)
			}
		}
	})
	if err := <-blocked; err != nil {
		t.Fatal(err)
	}
	return func() { close(free); writer.Wait() }
}

// stream starts a streamed call and returns its lines.
func stream(t *testing.T, h *apitest.Service, ctx context.Context, input string) *bufio.Scanner {
	t.Helper()
	request, _ := json.Marshal(body{"model": "alpha-haiku-4-5", "stream": true, "input": input})
	req, err := http.NewRequestWithContext(ctx, "POST", h.URL+responses, bytes.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return bufio.NewScanner(res.Body)
}

// read reads up to the next event of a type.
func read(t *testing.T, lines *bufio.Scanner, event string) {
	t.Helper()
	for lines.Scan() {
		if lines.Text() == "event: "+event {
			return
		}
	}
	t.Fatalf("no %s came: %v", event, lines.Err())
}

// pacedVendor speaks the chat format. To a prompt with "wait" it sends a word for each
// element of more until its client leaves, to others one word, and for an element of end another and the end.
func pacedVendor(t *testing.T) (p stoa.Provider, more, end, left chan struct{}) {
	t.Helper()
	more, end, left = make(chan struct{}), make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		const event = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word"},"finish_reason":%s}]}` + "\n\n"
		for bytes.Contains(asked, []byte("wait")) {
			select {
			case <-more:
				fmt.Fprintf(w, event, "null")
				http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				close(left)
				return
			}
		}
		fmt.Fprintf(w, event, "null")
		http.NewResponseController(w).Flush()
		<-end // it would take the text with it
		fmt.Fprintf(w, event+"data: [DONE]\n\n", `"stop"`)
	}))
	t.Cleanup(server.Close)
	return stoa.Provider{Name: "paced", Wire: "chat", BaseURL: server.URL + "/v1", MaxInFlight: 100}, more, end, left
}

// TestASlowDiskStopsCommitsAlone makes calls while nothing is committed. Only what
// says that something is durable waits.
func TestASlowDiskStopsCommitsAlone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		vendor, more, end, left := pacedVendor(t)
		h := start(t, apitest.Config{Home: &home, Providers: []stoa.Provider{vendor}, Families: map[string][]stoa.Route{"alpha": {{Provider: "paced", Model: "m"}}}})
		c := h.Client(t)
		first := stream(t, h, t.Context(), "x")
		end <- struct{}{}
		read(t, first, contract.EventCompleted) // from now on there are credits in memory

		leaving, leave := context.WithCancel(t.Context())
		under := make(chan *bufio.Scanner)
		go func() { under <- stream(t, h, leaving, "wait") }()
		more <- struct{}{}
		lines := <-under
		read(t, lines, contract.EventOutputTextDelta)
		release := block(t, h)
		var released atomic.Bool
		begun := stream(t, h, t.Context(), "x") // at once: after five seconds no call begins
		read(t, begun, contract.EventOutputTextDelta)
		for range 20 {
			more <- struct{}{}
			read(t, lines, contract.EventOutputTextDelta)
		}
		leave()
		<-left

		if r := c.Do("GET", "/api/v1/health", nil); r.Status != 200 && r.Status != 503 { // 503: for 5 s already
			t.Errorf("health: %d", r.Status)
		}
		var page struct{ Data []contract.Receipt }
		if c.Want(200, "GET", "/api/v1/receipts", nil).JSON(&page); len(page.Data) != 1 {
			t.Errorf("%d receipts while nothing is committed, want that of the first call", len(page.Data))
		}
		c.Want(200, "GET", "/api/v1/credits", nil)
		c.Want(400, "POST", responses, body{"model": "nope", "input": "x"})

		end <- struct{}{}
		read(t, begun, contract.EventOutputTextDelta) // it came with the end, and does not wait for the charge
		completed := make(chan bool)
		go func() {
			for begun.Scan() {
				if strings.Contains(begun.Text(), contract.EventCompleted) {
					completed <- released.Load()
					return
				}
			}
			close(completed)
		}()
		released.Store(true)
		release()
		if after, ok := <-completed; !ok || !after {
			t.Errorf("completed: %v; after its charge was durable: %v", ok, after)
		}
		h.HTTP.Close() // waits for the handlers
		quiet(t, h)
		if n := len(receipts(t, h)); n != 3 {
			t.Errorf("%d receipts, want that of each call", n)
		}
	})
}
