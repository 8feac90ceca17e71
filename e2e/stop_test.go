package e2e

import (
	"context"
	"syscall"
	"testing"

	"stoa/internal/testkit/storetest"
)

// TestAStopIsOrderly stops the server by SIGTERM under load, several times: calls in flight
// finish, or end as failed and free, and the books are exact.
func TestAStopIsOrderly(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		var l *load
		v := newVendor(t, func() { l.happened() })
		h := newServer(t, v.url, "drain: 20s\n")
		h.postgres = database.Config.PostgresURL
		l = newLoad(h, v)
		h.start()
		l.accounts = []*account{h.newAccount(t, "pro", 100_000_000), h.newAccount(t, "free", 100_000_000)}
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.run(ctx, callers)
		}()
		for i := range 4 {
			l.happens(t, 150)
			if code := h.stop(t); code != 0 {
				t.Errorf("stop %d: the server exits with %d; its last lines: %q", i, code, h.current().tail(5))
			}
			h.verify(t)
			h.start()
		}
		stop()
		<-ended
		l.finish(t)
		for _, r := range l.records {
			for _, s := range r.attempts {
				// No reply is cut off half-way: one that began has an end, unless its caller
				// disconnected or its provider broke the connection.
				if s.broken != nil && !s.clientDisconnected && !s.refused && s.status != 0 {
					t.Errorf("%s was cut off by an orderly stop: %+v", r.mark, s)
				}
			}
		}
		t.Log(l.tally())
		if code := h.stop(t); code != 0 {
			t.Errorf("the last stop: %d", code)
		}
		h.verify(t)
	})
}

// TestAStopEndsWhatDoesNotFinish checks that a reply that is longer than the drain ends as
// failed, with an error for its caller, and is free; in the meantime new calls are refused.
func TestAStopEndsWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		v := newVendor(t, nil)
		h := newServer(t, v.url, "drain: 300ms\n")
		h.postgres = database.Config.PostgresURL
		p := h.start()
		a := h.newAccount(t, "pro", 100_000_000)
		const endless = "slow: 20ms\ntokens: 100000"
		began := make(chan struct{}, 3)
		results := make(chan seen, 3)
		tell := func(n int) {
			if n == 3 {
				began <- struct{}{}
			}
		}
		ask := func(mark, key string, stream bool) {
			results <- h.ask(context.Background(), a.key, key,
				object{"model": "beta-3.8-flash", "user": mark, "stream": stream, "input": "mark: " + mark + "\n" + endless}, tell)
		}
		go ask("streamed", "", true)
		go ask("keyed", "a-key", true)
		go ask("whole", "", false)
		for range 2 { // both streams run, and the vendor serves the whole one
			select {
			case <-began:
			case s := <-results:
				t.Fatalf("a call ended early: %+v", s)
			}
		}
		v.WaitDeltas(t, 3)

		// The replies would last half an hour: only the drain can end them and the process.
		p.signal(t, syscall.SIGTERM)
		for range 3 {
			s := <-results
			switch {
			case s.done():
				t.Errorf("an endless reply was finished: %+v", s)
			case s.status == 200 && s.end != "failed":
				t.Errorf("a stream has no end: %+v", s)
			case s.status != 200 && s.status != 503:
				t.Errorf("a whole reply was not refused with 503: %+v", s)
			}
		}
		if code := p.exit(t); code != 0 {
			t.Errorf("the server exits with %d: %q", code, p.tail(5))
		}
		h.verify(t)

		h.start()
		if all := h.checkConservation(t, a); len(all) != 0 {
			t.Errorf("calls that the stop ended were charged: %+v", all)
		}
		// The key is free again.
		s := h.ask(context.Background(), a.key, "a-key", object{"model": "beta-3.8-flash", "user": "keyed", "stream": true, "input": "mark: keyed\n" + endless, "max_output_tokens": 1}, nil)
		if s.code == "idempotency_in_progress" || s.code == "idempotency_key_reused" {
			t.Errorf("the key of a failed call is still taken: %+v", s)
		}
		if code := h.stop(t); code != 0 {
			t.Errorf("the second stop: %d", code)
		}
		h.verify(t)
	})
}

// TestASecondSignalEndsAtOnce checks that a second SIGTERM ends the process without waiting
// for calls in flight, and that the books stay exact.
func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		v := newVendor(t, nil)
		h := newServer(t, v.url, "drain: 1m\n")
		h.postgres = database.Config.PostgresURL
		p := h.start()
		a := h.newAccount(t, "pro", 100_000_000)
		result := make(chan seen, 1)
		go func() {
			result <- h.ask(context.Background(), a.key, "", object{"model": "auto", "user": "slow", "stream": true, "input": "mark: slow\nslow: 20ms\ntokens: 100000"}, nil)
		}()
		v.WaitDeltas(t, 2)
		stopping := p.logs("stopping")
		p.signal(t, syscall.SIGTERM)
		wait(t, "the stop", stopping)
		// The handler of the first signal may not have restored the default for the second
		// yet, so the signal is sent until the process has ended; the request in between
		// takes some time.
		ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
		defer cancel()
		for ended := false; !ended; {
			select {
			case <-p.ended:
				ended = true
			case <-ctx.Done():
				t.Fatal("the process does not end")
			default:
				p.cmd.Process.Signal(syscall.SIGTERM)
				h.call(ctx, "GET", "", "/health", nil, nil)
			}
		}
		<-result
		h.verify(t)
		h.start()
		if all := h.checkConservation(t, a); len(all) != 0 {
			t.Errorf("a call that was cut off was charged: %+v", all)
		}
	})
}
