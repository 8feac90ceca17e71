package stoa

import (
	"testing"
	"time"
)

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"20": 20 * time.Second, " 5 ": 5 * time.Second, "0": 0, "-3": 0, "": 0, "soon": 0, "1.5": 0,
		"Sat, 28 Nov 2026 12:00:07 GMT": 7 * time.Second, "Sat, 28 Nov 2026 11:59:00 GMT": 0,
		"9000000000000000000": (1<<31 - 1) * time.Second, "99999999999999999999": 0,
	} {
		if got := RetryAfter(value, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
