package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestAWatchEndsTheWaitUnderWay checks when a watch cancels: at the end of the current wait,
// regardless of the time its timer was set for before.
func TestAWatchEndsTheWaitUnderWay(t *testing.T) {
	t.Parallel()
	const limit = time.Minute
	for _, test := range []struct {
		name  string
		waits func(w *watch)
		after time.Duration
		cause error // nil if it is not cancelled within an hour
	}{
		{"one wait", func(w *watch) { w.start(idle, limit) }, limit, idle},
		{"pieces in time", func(w *watch) {
			w.start(firstByte, limit)
			for range 5 {
				time.Sleep(40 * time.Second)
				w.stop()
				w.start(idle, limit)
			}
		}, 5*40*time.Second + limit, idle},
		{"a slow reader", func(w *watch) {
			w.start(idle, limit)
			time.Sleep(time.Second)
			w.stop()
			time.Sleep(10 * limit)
			w.start(idle, limit)
		}, time.Second + 11*limit, idle},
		{"a shorter wait", func(w *watch) {
			w.start(idle, limit)
			w.stop()
			w.start(inOnePiece, time.Second)
		}, time.Second, inOnePiece},
		{"the deadline first", func(w *watch) {
			for range 16 {
				w.start(idle, limit)
				time.Sleep(59 * time.Second)
				w.stop()
			}
			w.start(idle, limit)
		}, 16 * time.Minute, total},
		{"a reader that uses longer than the deadline", func(w *watch) {
			for range 15 {
				w.start(idle, limit)
				time.Sleep(58 * time.Second)
				w.stop()
				time.Sleep(time.Hour)
			}
			w.start(idle, limit)
			time.Sleep(59 * time.Second)
			w.stop()
			w.start(idle, limit)
		}, 16*time.Minute + 15*time.Hour, total},
		{"after the deadline", func(w *watch) {
			time.Sleep(20 * time.Minute)
			w.start(idle, limit)
		}, 20 * time.Minute, total},
		{"stopped", func(w *watch) {
			w.start(idle, limit)
			w.stop()
		}, time.Hour, nil},
		{"ended", func(w *watch) {
			w.start(idle, limit)
			w.end()
		}, time.Hour, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				w := &watch{cancel: cancel, deadline: began.Add(16 * time.Minute)}
				defer w.end()
				test.waits(w)
				select {
				case <-ctx.Done():
				case <-time.After(time.Hour - time.Since(began)%time.Hour):
				}
				if cause, took := context.Cause(ctx), time.Since(began); cause != test.cause || took != test.after {
					t.Errorf("cancelled by %v after %v, not by %v after %v", cause, took, test.cause, test.after)
				}
			})
		})
	}
}
