package schedule

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/stoa"
)

// cron is an expression of five fields: for each the set of values that match. It is matched
// on the wall calendar without a zone, and each match becomes an instant by one rule: a wall
// time that does not exist is due at the first instant after the gap, one that occurs twice
// is due the first time. So instants have the order of wall times, and an expression runs at
// most once for each wall time. The price is that "*/5 * * * *" pauses during the repeated
// hour. The library gronx is only the oracle of the tests, because it does not name the invalid field, and
// iterates in the zone's own time.
type cron struct {
	minute, hour, day, month, weekday uint64
	either                            bool // both day fields are restricted, so that one of them is enough
}

// A field is one of the five, with its bounds.
type field struct {
	name     string
	low, top int
	names    string // three letters for each value, beginning with low
}

func fields() [5]field {
	return [5]field{
		{name: "minute", top: 59},
		{name: "hour", top: 23},
		{name: "day of month", low: 1, top: 31},
		{name: "month", low: 1, top: 12, names: "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"},
		{name: "day of week", top: 7, names: "SUNMONTUEWEDTHUFRISAT"},
	}
}

func word(text string) (expression string, found bool) {
	switch text {
	case "@hourly":
		return "0 * * * *", true
	case "@daily", "@midnight":
		return "0 0 * * *", true
	case "@weekly":
		return "0 0 * * 0", true
	case "@monthly":
		return "0 0 1 * *", true
	case "@yearly", "@annually":
		return "0 0 1 1 *", true
	}
	return "", false
}

const expressionMember = "schedule.expression"

func wrong(format string, args ...any) error {
	return stoa.Errorf(stoa.CodeInvalidCron, format, args...).At(expressionMember)
}

func parseCron(text string) (cron, error) {
	var c cron
	parts := strings.Fields(text)
	if len(parts) == 1 && strings.HasPrefix(parts[0], "@") {
		expression, found := word(strings.ToLower(parts[0]))
		if !found {
			return c, wrong("%q is not a word of cron; use @hourly, @daily (or @midnight), @weekly, @monthly, @yearly (or @annually), or five fields.", parts[0])
		}
		parts = strings.Fields(expression)
	}
	if len(parts) != 5 {
		return c, wrong("The expression has %d fields; it needs five: minute, hour, day of month, month, day of week.", len(parts))
	}
	for i, f := range fields() {
		set, err := f.parse(parts[i])
		if err != nil {
			return c, err
		}
		*[5]*uint64{&c.minute, &c.hour, &c.day, &c.month, &c.weekday}[i] = set
	}
	if c.weekday&(1<<7) != 0 { // 7 means Sunday, too
		c.weekday = c.weekday&^(1<<7) | 1
	}
	c.either = parts[2][0] != '*' && parts[4][0] != '*'
	if !c.either && !c.hasDay() {
		return c, wrong("The field %q is wrong: none of the months has a day %s.", "day of month", parts[2])
	}
	return c, nil
}

// hasDay reports whether one of the months can contain one of the days, because an expression for 31 February would
// never be due.
func (c cron) hasDay() bool {
	for m := time.January; m <= time.December; m++ {
		if c.month&(1<<m) != 0 && c.day&(1<<(longest(m)+1)-1) != 0 {
			return true
		}
	}
	return false
}

func longest(m time.Month) int { return time.Date(2024, m+1, 0, 0, 0, 0, 0, time.UTC).Day() }

// parse parses one field: items separated by commas, each *, a value or a range, with or without a step.
func (f field) parse(text string) (uint64, error) {
	var set uint64
	for item := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(item, "/")
		low, top := f.low, f.top
		if span == "*" {
			if f.top == 7 {
				top = 6
			}
		} else {
			from, to, isRange := strings.Cut(span, "-")
			var err error
			if low, err = f.value(from, text); err != nil {
				return 0, err
			}
			switch {
			case isRange:
				if top, err = f.value(to, text); err != nil {
					return 0, err
				}
				if f.top == 7 && top == 0 && low > 0 { // FRI-SUN
					top = 7
				}
			case !stepped:
				top = low
			case f.top == 7:
				top = 6
			}
			if low > top {
				return 0, f.wrong(text, "the range %s is in the wrong order", span)
			}
		}
		by := 1
		if stepped {
			n, err := number(step)
			if err != nil || n < 1 {
				return 0, f.wrong(text, "a step must be a whole number from 1 on, not %q", step)
			}
			if n > f.top-f.low {
				return 0, f.wrong(text, "a step of %d is longer than the field", n)
			}
			by = n
		}
		for v := low; v <= top; v += by {
			set |= 1 << v
		}
	}
	return set, nil
}

// value parses a number or a name.
func (f field) value(text, whole string) (int, error) {
	if len(text) == 3 && f.names != "" {
		if at := strings.Index(f.names, strings.ToUpper(text)); at >= 0 && at%3 == 0 {
			return f.low + at/3, nil
		}
	}
	n, err := number(text)
	if err != nil {
		return 0, f.wrong(whole, "%q is neither * nor a value of it", text)
	}
	if n < f.low || n > f.top {
		return 0, f.wrong(whole, "%d is not between %d and %d", n, f.low, f.top)
	}
	return n, nil
}

func (f field) wrong(text, format string, args ...any) error {
	return wrong("The field %q (%s) is wrong: "+format+".", append([]any{f.name, text}, args...)...)
}

// number parses digits without a sign. It limits their number, so that they cannot overflow.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err == nil && (len(text) > 4 || text[0] == '+') {
		err = strconv.ErrRange
	}
	return int(n), err
}

func (c cron) matchesDay(d civil) bool {
	if c.month&(1<<d.month) == 0 {
		return false
	}
	day, week := c.day&(1<<d.day) != 0, c.weekday&(1<<d.weekday) != 0
	if c.either {
		return day || week
	}
	return day && week
}

// A civil is a calendar day without a zone.
type civil struct {
	year, month, day, weekday int
	number                    int64 // days since 1970
}

func civilOf(number int64) civil {
	t := time.Unix(number*daySeconds, 0).UTC()
	y, m, d := t.Date()
	return civil{y, int(m), d, int(t.Weekday()), number}
}

const (
	daySeconds = 24 * 60 * 60
	maxYears   = 60 // maximum search, because a 29 February on a given weekday occurs within 40
)

// nextWall returns the first matching wall time at or after the given one, or false if there is none within
// [maxYears]. Both are whole minutes, in seconds since 1970 as if the wall clock were in UTC.
func (c cron) nextWall(from int64) (int64, bool) {
	number := floorDiv(from, daySeconds)
	minute := (from - number*daySeconds) / 60
	d := civilOf(number)
	for last := d.year + maxYears; d.year <= last; {
		switch {
		case c.month&(1<<d.month) == 0: // continues with the next month, so that days of other months cost nothing
			first := time.Date(d.year, time.Month(d.month)+1, 1, 0, 0, 0, 0, time.UTC)
			d, minute = civilOf(first.Unix()/daySeconds), 0
			continue
		case c.matchesDay(d):
			if m, found := c.nextMinute(minute); found {
				return d.number*daySeconds + m*60, true
			}
		}
		d, minute = civilOf(d.number+1), 0
	}
	return 0, false
}

// nextMinute returns the first matching minute of a day at or after the given one.
func (c cron) nextMinute(from int64) (int64, bool) {
	hour, minute := from/60, from%60
	if c.hour&(1<<hour) != 0 {
		if rest := c.minute >> minute; rest != 0 {
			return hour*60 + minute + int64(bits.TrailingZeros64(rest)), true
		}
	}
	if rest := c.hour >> (hour + 1); rest != 0 {
		hour += 1 + int64(bits.TrailingZeros64(rest))
		return hour*60 + int64(bits.TrailingZeros64(c.minute)), true
	}
	return 0, false
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
