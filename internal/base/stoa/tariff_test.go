package stoa

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func atTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestATariffRaisesTheWholeCallAboveALength(t *testing.T) {
	t.Parallel()
	tariff := Tariff{Input: 2_000_000, CachedInput: 200_000, CacheWrite: 2_000_000, CacheWriteLong: 2_000_000, Output: 12_000_000, Version: "v", Above: &LongInput{Tokens: 200_000, Input: 2, Output: 1.5}}
	for _, c := range []struct {
		usage Usage
		want  Credits
		band  string
	}{
		{Usage{InputTokens: 199_999, OutputTokens: 1000}, 399_998 + 12_000, ""},
		{Usage{InputTokens: 200_000, OutputTokens: 1000}, 400_000 + 12_000, ""},
		{Usage{InputTokens: 200_001, OutputTokens: 1000}, 800_004 + 18_000, "above 200000 tokens"},
		{Usage{InputTokens: 300_000, OutputTokens: 1000}, 1_218_000, "above 200000 tokens"},
		{Usage{InputTokens: 300_000, CachedTokens: 250_000}, 50_000*4 + 250_000*4/10, "above 200000 tokens"},
		{Usage{InputTokens: 300_000, CacheWriteTokens: 300_000}, 1_200_000, "above 200000 tokens"},
	} {
		p := tariff.At(c.usage.InputTokens, time.Now())
		if got := p.Cost(c.usage); got != c.want || p.Band != c.band || p.Version != "v" {
			t.Errorf("%+v costs %d in band %q, want %d in %q", c.usage, got, p.Band, c.want, c.band)
		}
	}
}

func TestHoursDecideByTheSecond(t *testing.T) {
	t.Parallel()
	peak := []PriceHours{{Zone: "Asia/Shanghai", From: "09:00", To: "12:00", Factor: 2}, {Zone: "Asia/Shanghai", From: "14:00", To: "18:00", Factor: 2}}
	tariff := Tariff{Input: 150_000, CachedInput: 3_000, CacheWrite: 150_000, CacheWriteLong: 150_000, Output: 600_000, Hours: peak}
	for at, want := range map[string]Credits{
		"2026-11-28T00:59:59Z": 150_000, "2026-11-28T01:00:00Z": 300_000, "2026-11-28T03:59:59Z": 300_000, "2026-11-28T04:00:00Z": 150_000,
		"2026-11-28T05:59:59Z": 150_000, "2026-11-28T06:00:00Z": 300_000, "2026-11-28T09:59:59Z": 300_000, "2026-11-28T10:00:00Z": 150_000,
		"2026-11-28T17:00:00Z": 150_000,
	} {
		if p := tariff.At(1, atTime(t, at)); p.Input != want || p.Output != 4*want || (p.Band != "") != (want == 300_000) {
			t.Errorf("at %s: %+v", at, p)
		}
	}
	weekend := Tariff{Input: 100, Output: 100, Hours: []PriceHours{{Zone: "Europe/Berlin", Days: []string{"sat", "sun"}, From: "00:00", To: "24:00", Factor: 0.5}}}
	for at, want := range map[string]Credits{
		"2026-03-27T22:59:59Z": 100, "2026-03-27T23:00:00Z": 50, // Friday, Saturday
		"2026-03-29T21:59:59Z": 50, "2026-03-29T22:00:00Z": 100, // summer time began on Sunday
		"2026-10-25T22:59:59Z": 50, "2026-10-25T23:00:00Z": 100, // and ended
	} {
		if p := weekend.At(1, atTime(t, at)); p.Input != want {
			t.Errorf("at %s: %d, want %d", at, p.Input, want)
		}
	}
}

func TestFactorsRoundUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate Credits
		f    float64
		want Credits
	}{{1, 1.1, 2}, {10, 1.1, 11}, {1_000_000_000, 1.1, 1_100_000_000}, {7, 1.001, 8}, {0, 10, 0}, {3, 0.5, 2}} {
		if got := times(c.rate, c.f); got != c.want {
			t.Errorf("%d × %v = %d, want %d", c.rate, c.f, got, c.want)
		}
	}
}

// TestNoCallCostsMoreThanTheHighestPrice tries calls of any length within the estimate and any start
// until the deadline.
func TestNoCallCostsMoreThanTheHighestPrice(t *testing.T) {
	t.Parallel()
	tariff := Tariff{
		Input: 1_000, CachedInput: 100, CacheWrite: 1_250, CacheWriteLong: 2_000, Output: 6_000, Above: &LongInput{Tokens: 1000, Input: 2, Output: 1.5},
		Hours: []PriceHours{{Zone: "Asia/Kathmandu", From: "09:00", To: "12:00", Factor: 2}, {Zone: "Asia/Kathmandu", From: "12:00", To: "12:15", Factor: 3}},
	}
	day := atTime(t, "2026-11-28T00:00:00Z")
	const estimate, counted = 667, 981 // the least that can reach the band
	if p := tariff.Highest(estimate-1, false, day, day); p.Input != 1_000 {
		t.Errorf("an estimate of %d holds %d", estimate-1, p.Input)
	}
	if p := tariff.Highest(estimate, false, day, day); p.Input != 2_000 || p.Output != 9_000 || p.CacheWriteLong != 4_000 {
		t.Errorf("an estimate of %d holds %+v", estimate, p)
	}
	if p := tariff.Highest(counted-1, true, day, day); p.Input != 1_000 {
		t.Errorf("a count of %d holds %d", counted-1, p.Input)
	}
	if p := tariff.Highest(counted, true, day, day); p.Input != 2_000 {
		t.Errorf("a count of %d holds %d", counted, p.Input)
	}
	for from := day; from.Before(day.Add(24 * time.Hour)); from = from.Add(97 * time.Second) {
		deadline := from.Add(15 * time.Minute)
		most := tariff.Highest(700, false, from, deadline)
		for at := from; !at.After(deadline); at = at.Add(7 * time.Second) {
			for _, tokens := range []int64{0, 700, 1000, 1001, 1050} {
				if p := tariff.At(tokens, at); p.Input > most.Input || p.CachedInput > most.CachedInput || p.CacheWriteLong > most.CacheWriteLong || p.Output > most.Output {
					t.Fatalf("at %s with %d tokens the price is %+v, held at %s was %+v", at, tokens, p, from, most)
				}
			}
		}
		if quiet := from.Add(15*time.Minute + time.Minute); tariff.Highest(1, true, from, deadline).Input > 1_000 && tariff.At(1, from).Band == "" {
			dearer := false
			for at := from; at.Before(quiet); at = at.Add(time.Second) {
				dearer = dearer || tariff.At(1, at).Input > 1_000
			}
			if !dearer {
				t.Fatalf("at %s credits are held for hours that do not begin", from)
			}
		}
	}
}

// TestAZoneHasOneName refuses spellings that only the files of some machines know.
func TestAZoneHasOneName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe//Berlin", "Europe/Berlin/", "/UTC", "UTC/"} {
		if _, err := LoadZone(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

func TestMistakesOfATariffHaveTheirPath(t *testing.T) {
	t.Parallel()
	hours := func(change func(h *PriceHours)) Tariff {
		h := PriceHours{Zone: "UTC", From: "09:00", To: "12:00", Factor: 2}
		change(&h)
		return Tariff{Input: 1, Output: 1, Hours: []PriceHours{{Zone: "UTC", Days: []string{"mon"}, From: "06:00", To: "07:00", Factor: 0.5}, h}}
	}
	for want, tariff := range map[string]Tariff{
		"":                {Input: 1, Output: 1, Above: &LongInput{Tokens: 1, Input: 2, Output: 1.5}},
		"above.tokens":    {Above: &LongInput{Input: 2, Output: 1}},
		"above.input":     {Above: &LongInput{Tokens: 1, Output: 1}},
		"above.output":    {Above: &LongInput{Tokens: 1, Input: 1, Output: 10.5}},
		"hours[1].zone":   hours(func(h *PriceHours) { h.Zone = "Local" }),
		"hours[1].days":   hours(func(h *PriceHours) { h.Days = []string{"Monday"} }),
		"hours[1].from":   hours(func(h *PriceHours) { h.From = "9:00" }),
		"hours[1].to":     hours(func(h *PriceHours) { h.To = "24:01" }),
		"hours[1].factor": hours(func(h *PriceHours) { h.Factor = 1.2345 }),
		"hours[1]":        hours(func(h *PriceHours) { h.From = "06:59" }),
		"rates":           {Input: MaxRate, Above: &LongInput{Tokens: 1, Input: 2, Output: 1}},
	} {
		var got []string
		tariff.Problems(func(path, format string, args ...any) {
			if path == "" {
				path = "rates"
			}
			if strings.Contains(fmt.Sprintf(format, args...), "%!") {
				t.Errorf("%s: "+format, append([]any{path}, args...)...)
			}
			got = append(got, path)
		})
		if strings.Join(got, " ") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for name, h := range map[string]func(h *PriceHours){
		"another zone":   func(h *PriceHours) { h.Zone = "Asia/Shanghai" },
		"after midnight": func(h *PriceHours) { h.From, h.To = "22:00", "02:00" },
		"no time":        func(h *PriceHours) { h.From = "24:00" },
	} {
		found := false
		bad := hours(h)
		bad.Problems(func(string, string, ...any) { found = true })
		if !found {
			t.Errorf("%s is accepted", name)
		}
	}
}
