package stoa

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// RetryAfter reads the value of a header Retry-After: seconds, or a date after now. It returns 0
// for anything else.
func RetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(n, 0), math.MaxInt32)) * time.Second
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} { // RFC 9110, 5.6.7
		if at, err := time.Parse(layout, value); err == nil {
			return max(0, at.Sub(now))
		}
	}
	return 0
}
