package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// scheduleText returns a schedule in words: "Mon–Fri 09:00, Europe/Berlin". An
// expression without a short form is returned unchanged.
func scheduleText(v any) string {
	switch text(v, "type") {
	case "interval":
		return "every " + spanText(time.Duration(number(v, "everySeconds"))*time.Second)
	case "once":
		return "once, " + instantText(text(v, "runAt"), time.UTC)
	case "cron":
		expr, zone := text(v, "expression"), cmp.Or(text(v, "timezone"), "UTC")
		words := cronText(expr)
		if words == "" {
			return fmt.Sprintf("cron %s, %s", expr, zone)
		}
		return words + ", " + zone
	}
	return text(v, "type")
}

func spanText(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		word string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= u.size && d%u.size == 0 {
			return fmt.Sprintf("%d %s", d/u.size, u.word)
		}
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// cronText returns words for the usual cron expressions: a time of day on every day, on
// weekdays or on a day of the month, or a minute of every hour; empty for other
// expressions.
func cronText(expr string) string {
	switch expr {
	case "@hourly":
		return "every hour at :00"
	case "@daily", "@midnight":
		return "every day 00:00"
	case "@weekly":
		return "Sun 00:00"
	case "@monthly":
		return "day 1 of the month 00:00"
	}
	f := strings.Fields(expr)
	if len(f) != 5 || f[3] != "*" {
		return ""
	}
	minute, err := strconv.Atoi(f[0])
	if err != nil {
		return ""
	}
	if f[1] == "*" && f[2] == "*" && f[4] == "*" {
		return fmt.Sprintf("every hour at :%02d", minute)
	}
	hour, err := strconv.Atoi(f[1])
	if err != nil {
		return ""
	}
	days := "every day"
	switch {
	case f[2] != "*" && f[4] != "*":
		return ""
	case f[2] != "*":
		if _, err := strconv.Atoi(f[2]); err != nil {
			return ""
		}
		days = "day " + f[2] + " of the month"
	case f[4] != "*":
		if days = weekdays(f[4]); days == "" {
			return ""
		}
	}
	return fmt.Sprintf("%s %02d:%02d", days, hour, minute)
}

// weekdays returns the words for the last field of a cron expression: "Mon–Fri", "Sat,
// Sun"; empty if it does not consist of days, lists and ranges.
func weekdays(field string) string {
	day := func(word string) string {
		names := []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
		if n, err := strconv.Atoi(word); err == nil && n >= 0 && n < len(names) {
			return names[n]
		}
		for _, name := range names {
			if strings.EqualFold(name, word) {
				return name
			}
		}
		return ""
	}
	var parts []string
	for part := range strings.SplitSeq(field, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, last := day(from), day(to)
		switch {
		case first == "" || isRange && last == "":
			return ""
		case isRange:
			parts = append(parts, first+"–"+last)
		default:
			parts = append(parts, first)
		}
	}
	return strings.Join(parts, ", ")
}

func instantsText(v any, zone string) string {
	at, err := time.LoadLocation(cmp.Or(zone, "UTC"))
	if err != nil {
		at = time.UTC
	}
	all := texts(v)
	shown := make([]string, 0, 3)
	for _, t := range all[:min(3, len(all))] {
		shown = append(shown, instantText(t, at))
	}
	if len(shown) == 0 {
		return "–"
	}
	if len(all) > len(shown) {
		shown = append(shown, "…")
	}
	return strings.Join(shown, " · ")
}

// instantText returns a time in a time zone: "Mon 2026-11-23 09:00 CET".
func instantText(stamp string, at *time.Location) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return oneLine(stamp)
	}
	return t.In(at).Format("Mon 2006-01-02 15:04 MST")
}
