package billing

import (
	"testing"
	"time"
)

// TestUnpaidCountsForAnHour counts a micro-credit a second for three hours, then none.
func TestUnpaidCountsForAnHour(t *testing.T) {
	t.Parallel()
	var u unpaid
	now := time.Unix(1_800_000_000, 0)
	for range 3 * 3600 {
		u.add(1, now)
		if sum := u.sum(now); sum > 3600+120 || now.Unix() >= 1_800_000_000+3600 && sum < 3600 {
			t.Fatalf("after %d s: %d", now.Unix()-1_800_000_000, sum)
		}
		now = now.Add(time.Second)
	}
	if len(u) > 62 {
		t.Errorf("%d parts are kept", len(u))
	}
	if sum := u.sum(now.Add(unpaidFor + time.Minute)); sum != 0 || len(u) != 0 {
		t.Errorf("%d after an hour, in %d parts", sum, len(u))
	}
}
