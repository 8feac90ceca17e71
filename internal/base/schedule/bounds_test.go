package schedule_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"stoa/internal/base/schedule"
	"stoa/internal/base/stoa"
)

// someExpressions are cron expressions with an instant in every year, or in some.
var someExpressions = []string{
	"* * * * *", "*/5 * * * *", "0 9 * * MON-FRI", "59 23 31 12 *", "30 2 * * SUN", "0 0 29 2 *", "0 0 1 1 *", "15 3 1-7 * 3",
}

// zoneNames are zones with and without daylight saving, and with odd offsets.
var zoneNames = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"}

// For any schedule and any moment, the instants that follow are after that moment, in order,
// at least a minute apart, and within the years that a time on the wire can have.
func TestInstantsFollowInEveryYear(t *testing.T) {
	t.Parallel()
	first := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	moment := rapid.Custom(func(r *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(first, last).Draw(r, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(r, "nanoseconds")).UTC()
	})
	rapid.Check(t, func(r *rapid.T) {
		s := stoa.Schedule{Type: rapid.SampledFrom([]string{stoa.ScheduleCron, stoa.ScheduleInterval, stoa.ScheduleOnce}).Draw(r, "type")}
		var w schedule.Window
		switch s.Type {
		case stoa.ScheduleCron:
			s.Expression, s.Timezone = rapid.SampledFrom(someExpressions).Draw(r, "expression"), rapid.SampledFrom(zoneNames).Draw(r, "zone")
		case stoa.ScheduleInterval:
			s.Every = time.Duration(rapid.Int64Range(60, int64(schedule.MaxEvery/time.Second)).Draw(r, "every")) * time.Second
			w.Anchor = moment.Draw(r, "anchor")
		default:
			s.RunAt = moment.Draw(r, "runAt")
		}
		if rapid.Bool().Draw(r, "from") {
			w.From = moment.Draw(r, "start")
		}
		if rapid.Bool().Draw(r, "through") {
			w.Through = moment.Draw(r, "end")
		}
		after := moment.Draw(r, "after")
		checkInstants(r, s, w, after)
	})
}

// fatal is the common interface of a test and a property.
type fatal interface {
	Fatalf(format string, args ...any)
}

// checkInstants checks the first instants of a schedule after a moment.
func checkInstants(t fatal, s stoa.Schedule, w schedule.Window, after time.Time) {
	sched, err := schedule.New(s, w)
	if err != nil {
		return
	}
	before, n := after, 0
	for at := range sched.After(after) {
		switch {
		case !at.After(before):
			t.Fatalf("%+v %+v after %v: %v follows %v", s, w, after, at, before)
		case n > 0 && at.Sub(before) < schedule.MinEvery:
			t.Fatalf("%+v %+v after %v: %v is less than a minute after %v", s, w, after, at, before)
		case at.Year() < 1 || at.Year() > 9999:
			t.Fatalf("%+v %+v after %v: %v cannot be written", s, w, after, at)
		case !w.From.IsZero() && at.Before(w.From), !w.Through.IsZero() && at.After(w.Through):
			t.Fatalf("%+v %+v after %v: %v lies outside", s, w, after, at)
		case s.Type == stoa.ScheduleInterval && (at.Unix()-w.Anchor.Unix())%int64(s.Every/time.Second) != 0:
			t.Fatalf("%+v %+v after %v: %v is no multiple of the interval", s, w, after, at)
		}
		if before, n = at, n+1; n == 5 {
			return
		}
	}
}

func TestAnIntervalFromLongAgoHasItsPhase(t *testing.T) {
	t.Parallel()
	s := parse(t, stoa.Schedule{Type: stoa.ScheduleInterval, Every: time.Minute}, schedule.Window{Anchor: at("1700-01-01T00:00:00Z"), From: at("1700-01-01T00:00:00Z")})
	if got, want := s.Next(at("2026-03-01T08:00:30Z")), at("2026-03-01T08:01:00Z"); !got.Equal(want) {
		t.Errorf("the next instant is %v, want %v", got, want)
	}
}

// FuzzInstants reads schedules as a caller writes them, and computes instants after any
// moment of the years 1 to 9999.
func FuzzInstants(f *testing.F) {
	for _, e := range someExpressions {
		f.Add(e, "Europe/Berlin", int64(0), int64(60), int64(0))
		f.Add(e, "America/New_York", int64(-62_135_596_800), int64(31_622_400), int64(253_402_300_799))
	}
	f.Add("0 2 * * *", "Pacific/Apia", int64(1_325_238_000), int64(3600), int64(-8_520_336_000))
	f.Add("*/7 1-23/2 * JAN,MAR 1#2", "Local", int64(0), int64(59), int64(1))
	f.Fuzz(func(t *testing.T, expression, zone string, after, every, anchor int64) {
		moment := time.Unix(clampYears(after), 0).UTC()
		checkInstants(t, stoa.Schedule{Type: stoa.ScheduleCron, Expression: expression, Timezone: zone}, schedule.Window{}, moment)
		if every > 0 && every < int64(schedule.MaxEvery/time.Second)*2 {
			checkInstants(t, stoa.Schedule{Type: stoa.ScheduleInterval, Every: time.Duration(every) * time.Second},
				schedule.Window{Anchor: time.Unix(clampYears(anchor), 0).UTC()}, moment)
		}
	})
}

// clampYears clamps seconds since 1970 to the years 1 to 9999.
func clampYears(s int64) int64 {
	const first, span = -62_135_596_800, 315_537_897_600
	return first + ((s-first)%span+span)%span
}
