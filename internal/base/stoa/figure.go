package stoa

import (
	"strconv"
	"strings"
)

// Grouped formats a number with a comma every three digits.
func Grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Size formats a number of bytes as limits are written: with the largest binary unit, such as 10 MiB, and at most one
// decimal.
func Size(n int64) string {
	value, unit := float64(n), "bytes"
	if n == 1 {
		unit = "byte"
	}
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1023.95 { // which rounds to less than the next unit
			break
		}
		value, unit = value/1024, next
	}
	return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0") + " " + unit
}
