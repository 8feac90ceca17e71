package e2e

import (
	"context"
	"net/http"
	"testing"
)

// TestFullDiskChargesExactly lets the server reach a limit of its file sizes under load.
// Refused calls are free, no caller gets a complete reply without a charge, and once there is
// disk space again everything continues.
func TestFullDiskChargesExactly(t *testing.T) {
	t.Parallel()
	var l *load
	v := newVendor(t, func() { l.happened() })
	h := newServer(t, v.url, "")
	l = newLoad(h, v)
	h.start()
	l.accounts = []*account{h.newAccount(t, "pro", 100_000_000), h.newAccount(t, "free", 100_000_000)}
	h.newAgent(t, l.accounts[0])
	h.stop(t)
	h.maxFile = 1200
	h.start()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx, callers)
	}()
	for l.refusedForSpace() < 30 {
		l.happens(t, 20)
	}
	// Reads still work, and writes are refused with the reason.
	var c credits
	h.get(t, l.accounts[0].key, "/credits", &c)
	if status, err := h.call(ctx, http.MethodPost, ownerKey, "/accounts", object{"name": "no space"}, nil); status != http.StatusInsufficientStorage && status != http.StatusServiceUnavailable {
		t.Errorf("a new account without disk space: %d, %v", status, err)
	}
	h.kill()
	h.maxFile = 0
	h.start()
	l.happens(t, 200)
	stop()
	<-ended
	l.finish(t)
	t.Logf("%d calls were refused for want of disk space; %s", l.refusedForSpace(), l.tally())
	h.stop(t)
	h.verify(t)
}

// refusedForSpace counts calls that failed inside the service.
func (l *load) refusedForSpace() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		for _, s := range r.attempts {
			if s.code == "storage_full" || s.code == "server_is_overloaded" || s.code == "server_error" {
				n++
			}
		}
	}
	return n
}
