package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/adhocore/gronx"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stoa/internal/base/schedule"
	"stoa/internal/base/stoa"
)

func cron(expression, zone string) stoa.Schedule {
	return stoa.Schedule{Type: stoa.ScheduleCron, Expression: expression, Timezone: zone}
}

func parse(t testing.TB, s stoa.Schedule, w schedule.Window) *schedule.Schedule {
	t.Helper()
	out, err := schedule.New(s, w)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

// A year lists every minute of a year, for comparison with computed instants.
type year struct {
	from, to time.Time
	first    map[int64]int64 // of each wall time: the first instant that shows it
	order    []int64         // instants
	walls    []int64         // the wall time of each
}

// walk records the wall time of every minute of a year.
func walk(zone string, of int) year {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	y := year{
		from: time.Date(of, 1, 1, 0, 0, 0, 0, time.UTC), to: time.Date(of+1, 1, 1, 0, 0, 0, 0, time.UTC),
		first: map[int64]int64{},
	}
	for t := y.from.Add(-48 * time.Hour); t.Before(y.to.Add(48 * time.Hour)); t = t.Add(time.Minute) {
		_, offset := t.In(loc).Zone()
		wall := t.Unix() + int64(offset)
		if _, seen := y.first[wall]; !seen {
			y.first[wall] = t.Unix()
		}
		y.order, y.walls = append(y.order, t.Unix()), append(y.walls, wall)
	}
	return y
}

// due returns the instant at which a wall time is due: when the clock first shows it or, if
// never, first shows a later one.
func (y year) due(wall int64) int64 {
	if at, shown := y.first[wall]; shown {
		return at
	}
	for i, shown := range y.walls {
		if shown > wall {
			return y.order[i]
		}
	}
	panic("the wall time is outside of the year")
}

// matching returns the wall minutes around a year that another implementation of
// cron matches.
func matching(expression string, of int) []int64 {
	g := gronx.New()
	segments, err := gronx.Segments(expression)
	if err != nil {
		panic(err)
	}
	var walls []int64
	for t := time.Date(of-1, 12, 31, 0, 0, 0, 0, time.UTC); t.Year() <= of || t.YearDay() < 2; t = t.Add(time.Minute) {
		g.C.SetRef(t)
		due, err := g.SegmentsDue(segments)
		if err != nil {
			panic(err)
		}
		if due {
			walls = append(walls, t.Unix())
		}
	}
	return walls
}

func expressions() []string {
	return []string{
		"* * * * *", "*/5 * * * *", "0 9 * * *", "30 2 * * *", "15 0 * * *", "0 0 * * *", "45 1-3 * * *", "30 1 * * SUN",
		"0 8-18/2 * * MON-FRI", "0 12 1,15 * FRI", "10 4 */2 JAN-JUN *", "59 23 31 * *",
	}
}

// TestYearOfInstantsInManyZones compares every instant of a year with a list
// computed minute by minute: wall times by the standard library, matches by another
// cron implementation, gaps and folds by comparing neighbours.
func TestYearOfInstantsInManyZones(t *testing.T) {
	zones := []string{"America/New_York", "Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "Asia/Tehran", "UTC"}
	for _, of := range []int{2021, 2026} { // Tehran ended daylight saving in 2022, Cairo resumed it in 2023
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			t.Parallel()
			walls := map[string][]int64{}
			for _, e := range expressions() {
				walls[e] = matching(e, of)
			}
			for _, zone := range zones {
				y := walk(zone, of)
				for _, e := range expressions() {
					var want []int64
					for _, w := range walls[e] {
						if at := y.due(w); at >= y.from.Unix() && at < y.to.Unix() && (len(want) == 0 || at != want[len(want)-1]) {
							want = append(want, at)
						}
					}
					s := parse(t, cron(e, zone), schedule.Window{Through: y.to.Add(-1)})
					var got []int64
					for at := range s.After(y.from.Add(-1)) {
						got = append(got, at.Unix())
					}
					if !slices.Equal(got, want) {
						t.Errorf("%q in %s has %d instants, want %d; first difference: %s", e, zone, len(got), len(want), difference(got, want))
					}
					// Repeated calls, as in the scheduler, return the same.
					for i := 0; i < len(got)-1; i += 1 + len(got)/500 {
						if next := s.Next(time.Unix(got[i], 0)); next.Unix() != got[i+1] {
							t.Fatalf("%q in %s: after %s comes %s, want %s", e, zone, clock(got[i]), next, clock(got[i+1]))
						}
					}
				}
			}
		})
	}
}

func clock(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

func difference(got, want []int64) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return "misses " + clock(want[i])
		case i >= len(want):
			return "has also " + clock(got[i])
		case got[i] != want[i]:
			return clock(got[i]) + " instead of " + clock(want[i])
		}
	}
	return "none"
}

func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, expression, zone, after string
		want                          []string
		shift                         []string
	}{
		{
			"a time in the gap runs when the gap is over", "30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z",
			[]string{"2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"},
			[]string{"gap", ""},
		},
		{
			"all times in the gap are one run", "*/15 2,3 * * *", "America/New_York", "2026-03-08T06:59:00Z",
			[]string{"2026-03-08T07:00:00Z", "2026-03-08T07:15:00Z"},
			[]string{"", ""},
		},
		{
			"a time that occurs twice runs the first time", "30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z",
			[]string{"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},
			[]string{"fold", ""},
		},
		{
			"a gap of half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z",
			[]string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"},
			[]string{"gap", ""},
		},
		{
			"midnight that does not exist", "0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z",
			[]string{"2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"},
			[]string{"gap", ""},
		},
		{
			"a day that does not exist", "0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z",
			[]string{"2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"},
			[]string{"gap", ""},
		},
		{
			"a leap day", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z",
			[]string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"},
			[]string{"", ""},
		},
		{
			"a leap day on a Monday", "0 0 */28 2 1", "UTC", "2026-01-01T00:00:00Z",
			[]string{"2027-02-01T00:00:00Z", "2038-02-01T00:00:00Z"},
			[]string{"", ""},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := parse(t, cron(tc.expression, tc.zone), schedule.Window{})
			var got, shift []string
			for next := range s.After(at(tc.after)) {
				if got = append(got, next.Format(time.RFC3339)); len(got) == len(tc.want) {
					break
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Fatal(d)
			}
			for _, text := range got {
				shift = append(shift, s.Show(at(text)).Shift)
			}
			if d := cmp.Diff(tc.shift, shift); d != "" {
				t.Errorf("what is shown of them: %s", d)
			}
		})
	}
}

func TestWordsForExpressions(t *testing.T) {
	t.Parallel()
	for word, expression := range map[string]string{
		"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", " @Monthly ": "0 0 1 * *",
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "0 0 * * 7": "0 0 * * 0", "0 0 * jan,Dec sat-sun": "0 0 * 1,12 6,0",
		"0\t0 *   * FRI-SUN": "0 0 * * 5,6,0", "5/20 * * * *": "5,25,45 * * * *", "0 0 * * 1/2": "0 0 * * 1,3,5",
	} {
		a, b := parse(t, cron(word, "UTC"), schedule.Window{}), parse(t, cron(expression, "UTC"), schedule.Window{})
		from := at("2026-02-27T10:11:12Z")
		for range 20 {
			x, y := a.Next(from), b.Next(from)
			if !x.Equal(y) {
				t.Fatalf("%q is %s and %q is %s", word, x, expression, y)
			}
			from = x
		}
	}
}

func TestErrorsNameTheField(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ expression, want string }{
		{"", "0 fields"},
		{"* * * *", "4 fields"},
		{"0 0 9 * * *", "6 fields"},
		{"60 * * * *", `"minute" (60) is wrong: 60 is not between 0 and 59`},
		{"0 24 * * *", `"hour" (24)`},
		{"0 0 0 * *", `"day of month" (0)`},
		{"0 0 * 13 *", `"month" (13)`},
		{"0 0 * * 8", `"day of week" (8)`},
		{"0 0 * * FUN", `"day of week" (FUN) is wrong: "FUN" is neither * nor a value of it`},
		{"0 0 * ANF *", `"month" (ANF)`},
		{"0 0 L * *", `"day of month" (L)`},
		{"0 9-17- * * *", `"hour" (9-17-)`},
		{"0 17-9 * * *", `is in the wrong order`},
		{"*/0 * * * *", `"minute" (*/0) is wrong: a step`},
		{"*/90 * * * *", `"minute" (*/90) is wrong: a step of 90 is longer than the field`},
		{"*/-5 * * * *", `a step must be a whole number`},
		{"+5 * * * *", `"minute" (+5)`},
		{"1,,2 * * * *", `"minute" (1,,2)`},
		{"** * * * *", `"minute" (**)`},
		{"0 0 30 2 *", `"day of month" is wrong: none of the months has a day 30`},
		{"0 0 31 4,6 */2", `none of the months has a day 31`},
		{"@reboot", `"@reboot" is not a word of cron`},
		{"99999999999999999999 * * * *", `"minute"`},
	} {
		_, err := schedule.New(cron(tc.expression, "UTC"), schedule.Window{})
		if stoa.CodeOf(err) != stoa.CodeInvalidCron || !strings.Contains(stoa.AsError(err).Message, tc.want) || stoa.AsError(err).Param != "schedule.expression" {
			t.Errorf("%q: %v, want a message with %q", tc.expression, err, tc.want)
		}
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"", "Local", "localtime", "posixrules", "right/UTC", "posix/UTC", "Factory", "CEST", "+02:00", "Europe/Atlantis", "../etc/passwd", "/etc/localtime", "Europe/", strings.Repeat("x", 300)} {
		_, err := schedule.New(cron("@daily", zone), schedule.Window{})
		if stoa.CodeOf(err) != stoa.CodeInvalidTimezone {
			t.Errorf("%q: %v", zone, err)
		}
	}
	for _, zone := range []string{"UTC", "Etc/UTC", "Etc/GMT+5", "Europe/Berlin", "America/Argentina/Ushuaia", "Asia/Kathmandu"} {
		parse(t, cron("@daily", zone), schedule.Window{})
	}
}

func TestIntervalsAndSingleInstants(t *testing.T) {
	t.Parallel()
	anchor := at("2026-01-01T00:00:07Z")
	list := func(s *schedule.Schedule, after string) []string {
		var out []string
		for next := range s.After(at(after)) {
			if out = append(out, next.Format("15:04:05")); len(out) == 3 {
				break
			}
		}
		return out
	}
	every := stoa.Schedule{Type: stoa.ScheduleInterval, Every: 90 * time.Second}
	for _, tc := range []struct {
		name   string
		s      stoa.Schedule
		w      schedule.Window
		after  string
		expect []string
	}{
		{"the anchor is the first", every, schedule.Window{Anchor: anchor}, "2025-01-01T00:00:00Z", []string{"00:00:07", "00:01:37", "00:03:07"}},
		{"an instant is not after itself", every, schedule.Window{Anchor: anchor}, "2026-01-01T00:00:07Z", []string{"00:01:37", "00:03:07", "00:04:37"}},
		{"the start counts", every, schedule.Window{Anchor: anchor, From: at("2026-01-01T00:03:07Z")}, "2025-01-01T00:00:00Z", []string{"00:03:07", "00:04:37", "00:06:07"}},
		{"the end counts", every, schedule.Window{Anchor: anchor, Through: at("2026-01-01T00:01:37Z")}, "2025-01-01T00:00:00Z", []string{"00:00:07", "00:01:37"}},
		{"once", stoa.Schedule{Type: stoa.ScheduleOnce, RunAt: anchor}, schedule.Window{}, "2026-01-01T00:00:06Z", []string{"00:00:07"}},
		{"once and never again", stoa.Schedule{Type: stoa.ScheduleOnce, RunAt: anchor}, schedule.Window{}, "2026-01-01T00:00:07Z", nil},
		{"once, too early", stoa.Schedule{Type: stoa.ScheduleOnce, RunAt: anchor}, schedule.Window{From: anchor.Add(1)}, "2025-01-01T00:00:07Z", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.expect, list(parse(t, tc.s, tc.w), tc.after)); d != "" {
				t.Error(d)
			}
		})
	}
	for _, s := range []stoa.Schedule{
		{Type: "interval", Every: 59 * time.Second},
		{Type: "interval", Every: 400 * 24 * time.Hour},
		{Type: "interval", Every: time.Minute + 1},
		{Type: "once"},
		{Type: "often"},
		{},
	} {
		if _, err := schedule.New(s, schedule.Window{}); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
}

// TestRandomExpressions compares random expressions, zones and moments with another
// implementation.
func TestRandomExpressions(t *testing.T) {
	t.Parallel()
	item := func(low, top int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			a := rapid.IntRange(low, top).Draw(t, "a")
			b := rapid.IntRange(a, top).Draw(t, "b")
			n := rapid.IntRange(1, min(7, top-low)).Draw(t, "n")
			return rapid.SampledFrom([]string{"*", fmt.Sprint(a), fmt.Sprintf("%d-%d", a, b), fmt.Sprintf("*/%d", n), fmt.Sprintf("%d-%d/%d", a, b, n), fmt.Sprintf("%d,%d", a, b)}).Draw(t, "item")
		})
	}
	zones := []string{"America/New_York", "Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kathmandu", "Africa/Casablanca", "UTC"}
	rapid.Check(t, func(t *rapid.T) {
		e := strings.Join([]string{item(0, 59).Draw(t, "minute"), item(0, 23).Draw(t, "hour"), item(1, 28).Draw(t, "day"), item(1, 12).Draw(t, "month"), item(0, 6).Draw(t, "weekday")}, " ")
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		from := time.Unix(rapid.Int64Range(1.6e9, 2.2e9).Draw(t, "from"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds"))
		s, err := schedule.New(cron(e, zone), schedule.Window{})
		if err != nil {
			t.Fatalf("%q: %v", e, err)
		}
		loc, _ := time.LoadLocation(zone)
		last := from
		for range 5 {
			next := s.Next(last)
			if next.IsZero() {
				return // such a day is too rare
			}
			if !next.After(last) || last != from && next.Sub(last) < time.Minute {
				t.Fatalf("%q in %s: %s comes after %s", e, zone, next, last)
			}
			shown := next.In(loc)
			wall := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), 0, 0, time.UTC)
			due, err := gronx.New().IsDue(e, wall)
			if err != nil {
				t.Fatalf("%q: %v", e, err)
			}
			_, before := next.Add(-time.Second).In(loc).Zone()
			_, now := shown.Zone()
			if !due && now <= before { // a gap may end here
				t.Fatalf("%q in %s runs at %s, which shows %s", e, zone, next, wall)
			}
			last = next
		}
	})
}

func TestMissedInstantsByPolicy(t *testing.T) {
	t.Parallel()
	const window = time.Hour
	for _, tc := range []struct {
		policy string
		late   time.Duration
		newest bool
		want   schedule.Verdict
	}{
		{stoa.MissedRunLatest, 0, true, schedule.Verdict{Trigger: "schedule"}},
		{stoa.MissedSkip, time.Minute, true, schedule.Verdict{Trigger: "schedule"}},
		{stoa.MissedSkip, time.Minute + 1, true, schedule.Verdict{Skip: "missed"}},
		{stoa.MissedSkip, time.Second, false, schedule.Verdict{Skip: "missed"}},
		{stoa.MissedRunLatest, time.Hour, true, schedule.Verdict{Trigger: "catch_up"}},
		{stoa.MissedRunLatest, time.Hour, false, schedule.Verdict{Skip: "missed"}},
		{stoa.MissedRunLatest, time.Hour + 1, true, schedule.Verdict{Skip: "catch_up_window"}},
		{stoa.MissedRunAll, time.Hour, false, schedule.Verdict{Trigger: "catch_up"}},
		{stoa.MissedRunAll, time.Hour + 1, false, schedule.Verdict{Skip: "catch_up_window"}},
		{stoa.MissedRunAll, time.Second, true, schedule.Verdict{Trigger: "schedule"}},
	} {
		if got := schedule.Judge(tc.policy, window, tc.late, tc.newest); got != tc.want {
			t.Errorf("%s, %s late, newest %v: %+v, want %+v", tc.policy, tc.late, tc.newest, got, tc.want)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	from := at("2026-06-01T00:00:00Z")
	for b.Loop() {
		s, err := schedule.New(cron("30 9 * * MON-FRI", "Europe/Berlin"), schedule.Window{})
		if err != nil {
			b.Fatal(err)
		}
		s.Next(from)
	}
}

func BenchmarkAYearOfMinutes(b *testing.B) {
	for b.Loop() {
		s, _ := schedule.New(cron("* * * * *", "Europe/Berlin"), schedule.Window{Through: at("2027-01-01T00:00:00Z")})
		n := 0
		for range s.After(at("2026-01-01T00:00:00Z")) {
			n++
		}
	}
}
