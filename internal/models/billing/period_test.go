package billing_test

import (
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/billing"
)

// TestPeriodsBeginAtLocalMidnight has days with both changes of the clocks in five zones, among
// them zones that change them at midnight, and a day that a zone skipped.
func TestPeriodsBeginAtLocalMidnight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, at, day, week, month string // at in UTC; the others are begin and end
	}{
		{"UTC", "2026-11-27T00:00:00Z", "2026-11-27T00:00:00Z 2026-11-28T00:00:00Z", "2026-11-23T00:00:00Z 2026-11-30T00:00:00Z", "2026-11-01T00:00:00Z 2026-12-01T00:00:00Z"},
		{"UTC", "2026-11-26T23:59:59Z", "2026-11-26T00:00:00Z 2026-11-27T00:00:00Z", "2026-11-23T00:00:00Z 2026-11-30T00:00:00Z", "2026-11-01T00:00:00Z 2026-12-01T00:00:00Z"},
		// 23 and 25 hours.
		{"Europe/Vienna", "2026-03-29T10:00:00Z", "2026-03-28T23:00:00Z 2026-03-29T22:00:00Z", "2026-03-22T23:00:00Z 2026-03-29T22:00:00Z", "2026-02-28T23:00:00Z 2026-03-31T22:00:00Z"},
		{"Europe/Vienna", "2026-10-25T22:59:59Z", "2026-10-24T22:00:00Z 2026-10-25T23:00:00Z", "2026-10-18T22:00:00Z 2026-10-25T23:00:00Z", "2026-09-30T22:00:00Z 2026-10-31T23:00:00Z"},
		// The clocks go from 00:00 to 01:00, and from 01:00 back to 00:00, which occurs twice.
		{"America/Havana", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z 2026-03-09T04:00:00Z", "2026-03-02T05:00:00Z 2026-03-09T04:00:00Z", "2026-03-01T05:00:00Z 2026-04-01T04:00:00Z"},
		{"America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z 2026-11-02T05:00:00Z", "2026-10-26T04:00:00Z 2026-11-02T05:00:00Z", "2026-11-01T04:00:00Z 2026-12-01T05:00:00Z"},
		// The clocks go from 00:00 to 01:00 on a Friday, and from 24:00 back to 23:00.
		{"Africa/Cairo", "2026-04-24T00:00:00Z", "2026-04-23T22:00:00Z 2026-04-24T21:00:00Z", "2026-04-19T22:00:00Z 2026-04-26T21:00:00Z", "2026-03-31T22:00:00Z 2026-04-30T21:00:00Z"},
		{"Africa/Cairo", "2026-10-29T21:30:00Z", "2026-10-28T21:00:00Z 2026-10-29T22:00:00Z", "2026-10-25T21:00:00Z 2026-11-01T22:00:00Z", "2026-09-30T21:00:00Z 2026-10-31T22:00:00Z"},
		// Half an hour.
		{"Australia/Lord_Howe", "2026-04-04T16:00:00Z", "2026-04-04T13:00:00Z 2026-04-05T13:30:00Z", "2026-03-29T13:00:00Z 2026-04-05T13:30:00Z", "2026-03-31T13:00:00Z 2026-04-30T13:30:00Z"},
		{"Australia/Lord_Howe", "2026-10-03T16:00:00Z", "2026-10-03T13:30:00Z 2026-10-04T13:00:00Z", "2026-09-27T13:30:00Z 2026-10-04T13:00:00Z", "2026-09-30T13:30:00Z 2026-10-31T13:00:00Z"},
		// 30 December 2011 did not exist.
		{"Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z 2011-12-30T10:00:00Z", "2011-12-26T10:00:00Z 2012-01-01T10:00:00Z", "2011-12-01T10:00:00Z 2011-12-31T10:00:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		for period, want := range map[stoa.BudgetPeriod]string{stoa.BudgetDay: c.day, stoa.BudgetWeek: c.week, stoa.BudgetMonth: c.month} {
			begin, end := billing.Period(period, at, zone)
			if got := begin.Format(time.RFC3339) + " " + end.Format(time.RFC3339); got != want {
				t.Errorf("the %s of %s in %s is %s, want %s", period, c.at, c.zone, got, want)
			}
		}
		if begin, end := billing.Period(stoa.BudgetTotal, at, zone); !begin.IsZero() || !end.IsZero() {
			t.Error("a total has a begin or an end")
		}
	}
}

// TestPeriodsFollowEachOther walks through years of every hour: each instant is in its period,
// and a period begins where the one before ends.
func TestPeriodsFollowEachOther(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe/Vienna", "America/Havana", "Africa/Cairo", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, period := range []stoa.BudgetPeriod{stoa.BudgetDay, stoa.BudgetWeek, stoa.BudgetMonth} {
			var last time.Time
			for at := time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2013; at = at.Add(time.Hour) {
				begin, end := billing.Period(period, at, zone)
				if at.Before(begin) || !at.Before(end) {
					t.Fatalf("%s: %s is not in its %s, %s to %s", name, at, period, begin, end)
				}
				if !last.IsZero() && !at.Before(last) && !begin.Equal(last) {
					t.Fatalf("%s: a %s begins at %s, and the one before ended at %s", name, period, begin, last)
				}
				last = end
			}
		}
	}
}
