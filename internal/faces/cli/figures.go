package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/stoa"
)

// Decimals of credits for people, as in lib/format.ts of the console.
const (
	usualDecimals = 4
	exactDecimals = 6 // in books and receipts
)

// amount formats credits with at most the given number of decimals, rounded half away from
// zero. With aligned it shows all of them, for a column, and otherwise at least two. An amount
// that is too small to show is "<0.0001".
func amount(c stoa.Credits, decimals int, aligned bool) string {
	unit := uint64(1)
	for range exactDecimals - decimals {
		unit *= 10
	}
	sign, less, n := "", "<", uint64(c)
	if c < 0 {
		sign, less, n = "-", ">", -n
	}
	if n > 0 && n < unit {
		n = unit
	} else {
		less = ""
	}
	n = (n + unit/2) / unit * unit
	fraction := fmt.Sprintf("%06d", n%1_000_000)[:decimals]
	for !aligned && len(fraction) > 2 && strings.HasSuffix(fraction, "0") {
		fraction = fraction[:len(fraction)-1]
	}
	return less + sign + stoa.Grouped(int64(n/1_000_000)) + "." + fraction
}

func short(c stoa.Credits) string { return amount(c, usualDecimals, false) }

// parseCredits parses credits, with at most six decimals, as micro-credits.
func parseCredits(text string) (stoa.Credits, error) {
	whole, frac, _ := strings.Cut(strings.TrimSpace(text), ".")
	digits := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	if !digits(whole) || !digits(frac) || whole+frac == "" || len(frac) > 6 || len(whole) > 9 {
		return 0, usagef("%q is not an amount of credits; write one like 5 or 0.25", text)
	}
	n, err := strconv.ParseInt(whole+(frac + "000000")[:6], 10, 64)
	if err != nil {
		return 0, usagef("%q is not an amount of credits", text)
	}
	return stoa.Credits(n), nil
}

// some formats a count with its noun.
func some(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return stoa.Grouped(int64(n)) + " " + many
}

// relative formats a time by its distance from now; after 30 days, as a date.
func relative(t, now time.Time) string {
	d := now.Sub(t)
	ahead := d < 0
	if ahead {
		d = -d
	}
	var span string
	switch {
	case d < 45*time.Second:
		if ahead {
			return "in moments"
		}
		return "just now"
	case d < time.Hour:
		span = fmt.Sprintf("%d min", max(1, int(d.Round(time.Minute)/time.Minute)))
	case d < 24*time.Hour:
		span = fmt.Sprintf("%d h", int(d/time.Hour))
	case d < 48*time.Hour:
		span = "1 day"
	case d < 30*24*time.Hour:
		span = fmt.Sprintf("%d days", int(d/(24*time.Hour)))
	default:
		return t.Local().Format("2006-01-02")
	}
	if ahead {
		return "in " + span
	}
	return span + " ago"
}
