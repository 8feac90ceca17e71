package stoa

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // so that every machine knows the same zones, even one without a zone database
)

// A Tariff is the price of a model in settings and in the shipped list: rates in micro-credits
// per million tokens, ordered like those of a [Price]. Above and Hours exist because some vendors
// charge more or less for long inputs and at some hours. [Tariff.At] returns the price of one call.
type Tariff struct {
	Input          Credits      `json:"input" yaml:"input"`
	CachedInput    Credits      `json:"cachedInput" yaml:"cachedInput"`                           // rate of input read from a vendor's cache
	CacheWrite     Credits      `json:"cacheWrite,omitempty" yaml:"cacheWrite,omitempty"`         // rate of input written to the cache; 0 in settings means the rate of the vendor's wire
	CacheWriteLong Credits      `json:"cacheWriteLong,omitempty" yaml:"cacheWriteLong,omitempty"` // rate of input written to the cache for a long lifetime; 0 likewise
	Output         Credits      `json:"output" yaml:"output"`
	Above          *LongInput   `json:"above,omitempty" yaml:"above,omitempty"`
	Hours          []PriceHours `json:"hours,omitempty" yaml:"hours,omitempty"`
	Version        string       `json:"-" yaml:"-"`
}

// A LongInput multiplies the rates of a whole call whose input exceeds Tokens. Cached reads and
// writes count as input.
type LongInput struct {
	Tokens int64   `json:"tokens" yaml:"tokens"`
	Input  float64 `json:"input" yaml:"input"`
	Output float64 `json:"output" yaml:"output"`
}

// PriceHours multiply all rates of a call whose request to the vendor begins in them. The hours
// of a tariff use one zone and do not overlap, so that at most one entry applies.
type PriceHours struct {
	Zone   string   `json:"zone" yaml:"zone"`                     // IANA name
	Days   []string `json:"days,omitempty" yaml:"days,omitempty"` // names of [Weekdays]; none means every day
	From   string   `json:"from" yaml:"from"`                     // "09:00"
	To     string   `json:"to" yaml:"to"`                         // exclusive; "24:00" is the end of the day
	Factor float64  `json:"factor" yaml:"factor"`
}

// Weekdays are the names of the days in [PriceHours], as [time.Weekday] counts them.
var Weekdays = [...]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// MaxPriceHours is the maximum number of hours of a tariff. MaxFactor is the largest factor.
const (
	MaxPriceHours = 24
	MaxFactor     = 10
)

// forInput returns the price of a call with inputTokens, without the hours.
func (t *Tariff) forInput(tokens int64) Price {
	p := Price{Input: t.Input, CachedInput: t.CachedInput, CacheWrite: t.CacheWrite, CacheWriteLong: t.CacheWriteLong, Output: t.Output, Version: t.Version}
	if a := t.Above; a != nil && tokens > a.Tokens {
		p = p.times(a.Input, a.Output)
		p.Band = fmt.Sprintf("above %d tokens", a.Tokens)
	}
	return p
}

func (t *Tariff) hoursAt(at time.Time) *PriceHours {
	for i := range t.Hours {
		if h := &t.Hours[i]; h.contain(at) {
			return h
		}
	}
	return nil
}

func (t *Tariff) factorAt(at time.Time) float64 {
	if h := t.hoursAt(at); h != nil {
		return h.Factor
	}
	return 1
}

// At returns the price of a call with that input whose request to the vendor began at a time.
func (t *Tariff) At(inputTokens int64, at time.Time) Price {
	p := t.forInput(inputTokens)
	if h := t.hoursAt(at); h != nil {
		p = p.times(h.Factor, h.Factor)
		if p.Band != "" {
			p.Band += ", "
		}
		p.Band += h.From + "-" + h.To + " " + h.Zone
	}
	return p
}

// maxCallTime limits the time over which [Tariff.Highest] searches for higher rates, because no
// reply takes a day.
const maxCallTime = 24 * time.Hour

// Highest returns the highest rates that a call can reach before its vendor has counted it and
// answered, because its input is an estimate and its request may begin at any time until its
// deadline. A vendor's own count can be 2 % off, for the text that the vendor adds. An estimate of
// three bytes per token is half too low for a text of two.
func (t *Tariff) Highest(inputTokens int64, counted bool, from, deadline time.Time) Price {
	longest := inputTokens + (inputTokens+1)/2
	if counted {
		longest = inputTokens + (inputTokens+49)/50
	}
	p := t.forInput(inputTokens).highest(t.forInput(longest))
	if len(t.Hours) == 0 {
		return p
	}
	if last := from.Add(maxCallTime); deadline.After(last) {
		deadline = last
	}
	factor := t.factorAt(from)
	// A step of a minute is enough, since hours begin and end at whole minutes.
	for at := from.Truncate(time.Minute).Add(time.Minute); !at.After(deadline); at = at.Add(time.Minute) {
		factor = max(factor, t.factorAt(at))
	}
	return p.times(factor, factor)
}

func (p Price) highest(q Price) Price {
	p.Input, p.CachedInput, p.Output = max(p.Input, q.Input), max(p.CachedInput, q.CachedInput), max(p.Output, q.Output)
	p.CacheWrite, p.CacheWriteLong = max(p.CacheWrite, q.CacheWrite), max(p.CacheWriteLong, q.CacheWriteLong)
	return p
}

// times returns the price with its rates multiplied, rounded up so that no call is sold below the
// vendor's price.
func (p Price) times(input, output float64) Price {
	for _, rate := range []*Credits{&p.Input, &p.CachedInput, &p.CacheWrite, &p.CacheWriteLong} {
		*rate = times(*rate, input)
	}
	p.Output = times(p.Output, output)
	return p
}

// times multiplies in thousandths, because a factor such as 1.1 has no exact binary form.
func times(rate Credits, factor float64) Credits {
	return (rate*Credits(math.Round(factor*1000)) + 999) / 1000
}

// contain reports whether the hours contain an instant. A zone that does not exist, which
// [Tariff.Problems] reports, contains none.
func (h *PriceHours) contain(at time.Time) bool {
	zone, err := LoadZone(h.Zone)
	if err != nil {
		return false
	}
	at = at.In(zone)
	if len(h.Days) > 0 && !slices.Contains(h.Days, Weekdays[at.Weekday()]) {
		return false
	}
	now := at.Hour()*60 + at.Minute()
	return minuteOf(h.From) <= now && now < minuteOf(h.To)
}

// minuteOf returns the minute of the day of a time such as 09:00; -1 for others.
func minuteOf(clock string) int {
	if !isClock(clock) {
		return -1
	}
	return (int(clock[0]-'0')*10+int(clock[1]-'0'))*60 + int(clock[3]-'0')*10 + int(clock[4]-'0')
}

// Problems calls report for each mistake in a tariff's rules, with its path in the tariff.
func (t *Tariff) Problems(report func(path, format string, args ...any)) {
	long := 1.0
	if a := t.Above; a != nil {
		if a.Tokens < 1 || a.Tokens > MaxTokens {
			report("above.tokens", "%d is not a count of tokens; use 1 to %d", a.Tokens, MaxTokens)
		}
		checkFactor(report, "above.input", a.Input)
		checkFactor(report, "above.output", a.Output)
		long = max(a.Input, a.Output)
	}
	if len(t.Hours) > MaxPriceHours {
		report("hours", "there are %d entries; use at most %d", len(t.Hours), MaxPriceHours)
		return
	}
	highest := long
	for i := range t.Hours {
		h, path := &t.Hours[i], fmt.Sprintf("hours[%d]", i)
		if _, err := LoadZone(h.Zone); err != nil {
			report(path+".zone", "%q is not a time zone of the IANA database; use a name such as \"Asia/Shanghai\" or \"UTC\"", h.Zone)
		} else if h.Zone != t.Hours[0].Zone {
			report(path+".zone", "the hours of one price have one time zone; use %q as the first entry", t.Hours[0].Zone)
		}
		for _, day := range h.Days {
			if !slices.Contains(Weekdays[:], day) {
				report(path+".days", "%q is not a day; use mon, tue, wed, thu, fri, sat or sun", day)
			}
		}
		switch {
		case !isClock(h.From) || h.From == "24:00":
			report(path+".from", "%q is not a time of day; write it as 09:00", h.From)
		case !isClock(h.To):
			report(path+".to", "%q is not a time of day; write it as 18:00, or 24:00 for the end of the day", h.To)
		case h.From >= h.To:
			report(path+".to", "%s is not after %s; split hours that cross midnight into two entries", h.To, h.From)
		}
		checkFactor(report, path+".factor", h.Factor)
		highest = max(highest, long*h.Factor)
		for j := range i {
			if other := &t.Hours[j]; h.From < other.To && other.From < h.To && h.shareDay(other) {
				report(path, "overlaps hours[%d]; no two entries may apply at the same time", j)
			}
		}
	}
	for _, rate := range []Credits{t.Input, t.CachedInput, t.CacheWrite, t.CacheWriteLong, t.Output} {
		if float64(rate)*highest > float64(MaxRate) && rate <= MaxRate {
			report("", "the factors lead to more than %d micro-credits per million tokens", int64(MaxRate))
			return
		}
	}
}

func (h *PriceHours) shareDay(other *PriceHours) bool {
	return len(h.Days) == 0 || len(other.Days) == 0 || slices.ContainsFunc(h.Days, func(day string) bool { return slices.Contains(other.Days, day) })
}

// isClock reports whether a text is a time from 00:00 to 24:00.
func isClock(s string) bool {
	if len(s) != 5 || s[2] != ':' {
		return false
	}
	for _, i := range [...]int{0, 1, 3, 4} {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s[:2] < "24" && s[3] < '6' || s == "24:00"
}

func checkFactor(report func(path, format string, args ...any), path string, f float64) {
	if !(f > 0 && f <= MaxFactor) || math.Abs(f*1000-math.Round(f*1000)) > 1e-6 {
		report(path, "%v is not a factor; use more than 0 to %d, with at most three decimals", f, MaxFactor)
	}
}

// zones caches the loaded zones by name. It cannot grow without limit, because the IANA database
// limits their number.
var zones sync.Map

var errNoZone = errors.New("not the name of a zone")

// LoadZone loads a zone of the compiled-in IANA database, so that a schedule means the same on every
// machine. It fails with [CodeInvalidTimezone] for other names, also those that mean this machine's zone.
func LoadZone(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := loadZone(name)
	if err != nil {
		return nil, Errorf(CodeInvalidTimezone, "%q is not a time zone of the IANA database; use a name such as \"Europe/Berlin\" or \"UTC\".", name).Because(err)
	}
	zones.Store(name, zone)
	return zone, nil
}

func loadZone(name string) (*time.Location, error) {
	first, _, _ := strings.Cut(name, "/")
	switch first {
	case "", "Local", "localtime", "posixrules", "posix", "right", "Factory", "SystemV": // this machine's zone, or not a zone
		return nil, errNoZone
	}
	// A zone file is found under a name with an empty part, and the compiled-in zone is not, so that
	// such names would be valid on some machines only.
	if len(name) > 64 || strings.Contains(name, "//") || strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/_+-", r)
	}) {
		return nil, errNoZone
	}
	return time.LoadLocation(name)
}
