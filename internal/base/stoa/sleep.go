package stoa

import (
	"context"
	"time"
)

// Sleep waits for d, and reports whether it did: it returns false when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Polling intervals of a loop over rows. PollShared applies while other processes write rows too.
// Otherwise changes wake the loop, so that PollAlone only has to recover missed wakeups.
const (
	PollShared = time.Second
	PollAlone  = 15 * time.Second
)

// PollEvery returns the polling interval.
func PollEvery(shared bool) time.Duration {
	if shared {
		return PollShared
	}
	return PollAlone
}

// Poll calls look immediately, when one of the channels has a value, and at the latest after the
// time that look returned, until ctx ends.
func Poll(ctx context.Context, wake, other <-chan struct{}, look func() time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-other:
		case <-timer.C:
		}
		timer.Reset(look())
	}
}
