package extract

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// A numberFormat is the format code of a cell (ECMA-376 part 1, 18.8.31) in its sections.
type numberFormat []formatSection

// A formatSection formats the numbers that meet its condition.
type formatSection struct {
	tokens   []formatToken
	op       string // of the condition; empty: none
	limit    float64
	language int  // the primary language of a code such as [$-407]; 0: English
	long     bool // the long date of the reader's system
	unsure   bool // it has something that is not known here
	date     bool
}

// A formatToken is a part of a section.
type formatToken struct {
	kind formatKind
	text string
}

type formatKind int

const (
	fmtLiteral   formatKind = iota
	fmtDigit                // 0, # or ?
	fmtPoint                // the decimal point
	fmtComma                // between thousands, or a division by 1,000
	fmtPercent              // times 100
	fmtExponent             // E+ or E-
	fmtSlash                // of a fraction or a date
	fmtDate                 // a run of y, m, d, h, s, e, g or b
	fmtElapsed              // [h], [m] or [s]
	fmtSubsecond            // .000 after seconds
	fmtNoon                 // AM/PM
	fmtText                 // @
	fmtGeneral              // the word General
)

// maxFormat is the longest format code of Excel.
const maxFormat = 255

var formatCondition = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(<=|>=|<>|<|>|=)\s*(-?[\d.]+(?:[eE][-+]?\d+)?)$`)
})

// parseFormat reads a format code. Every text is one; what is not known makes a section unsure.
func parseFormat(code string) numberFormat {
	code = code[:min(len(code), maxFormat)]
	all := numberFormat{{}}
	for i := 0; i < len(code); {
		s := &all[len(all)-1]
		add := func(kind formatKind, n int) {
			s.tokens = append(s.tokens, formatToken{kind, code[i : i+n]})
			i += n
		}
		_, width := utf8.DecodeRuneInString(code[i:])
		rest := strings.ToLower(code[i:])
		c := rest[0]
		switch {
		case c == ';':
			all = append(all, formatSection{})
			i++
		case c == '"':
			end := strings.IndexByte(code[i+1:], '"')
			if end < 0 {
				end = len(code) - i - 1
			}
			s.tokens = append(s.tokens, formatToken{fmtLiteral, code[i+1 : i+1+end]})
			i = min(i+end+2, len(code))
		case c == '\\' || c == '_' || c == '*': // an escaped sign, a blank as wide as the sign, a sign that fills the cell
			_, sign := utf8.DecodeRuneInString(code[i+1:])
			text := map[byte]string{'\\': code[i+1 : i+1+sign], '_': " "}[c]
			s.tokens = append(s.tokens, formatToken{fmtLiteral, text})
			i += 1 + sign
		case c == '[':
			end := strings.IndexByte(code[i:], ']')
			if end < 0 {
				end = len(code) - i
			}
			s.bracket(code[i+1 : i+end])
			i = min(i+end+1, len(code))
		case strings.HasPrefix(rest, "general"):
			add(fmtGeneral, len("general"))
		case strings.HasPrefix(rest, "am/pm"):
			add(fmtNoon, len("am/pm"))
		case strings.HasPrefix(rest, "上午/下午"):
			add(fmtNoon, len("上午/下午"))
		case strings.HasPrefix(rest, "a/p"):
			add(fmtNoon, len("a/p"))
		case c == '0' || c == '#' || c == '?':
			if n := len(rest) - len(strings.TrimLeft(rest[1:], "0")); c == '0' && len(s.tokens) > 0 && s.tokens[len(s.tokens)-1].kind == fmtPoint && s.afterSeconds() {
				s.tokens[len(s.tokens)-1] = formatToken{fmtSubsecond, code[i : i+n]}
				i += n
			} else {
				add(fmtDigit, 1)
			}
		case c == '.':
			add(fmtPoint, 1)
		case c == ',':
			add(fmtComma, 1)
		case c == '%':
			add(fmtPercent, 1)
		case c == '/':
			add(fmtSlash, 1)
		case c == '@':
			add(fmtText, 1)
		case strings.HasPrefix(rest, "e+"), strings.HasPrefix(rest, "e-"):
			add(fmtExponent, 2)
		case strings.IndexByte("ymdhsegb", c) >= 0:
			s.date = true
			add(fmtDate, len(rest)-len(strings.TrimLeft(rest, string(c))))
		default:
			add(fmtLiteral, width)
		}
	}
	return all
}

// afterSeconds reports whether the last token before the point is one of seconds.
func (s *formatSection) afterSeconds() bool {
	if len(s.tokens) < 2 {
		return false
	}
	t := s.tokens[len(s.tokens)-2]
	return (t.kind == fmtDate || t.kind == fmtElapsed) && strings.HasPrefix(strings.ToLower(t.text), "s")
}

// bracket reads what stands in brackets.
func (s *formatSection) bracket(text string) {
	lower := strings.ToLower(text)
	switch m := formatCondition().FindStringSubmatch(text); {
	case m != nil:
		s.op = m[1]
		s.limit, _ = strconv.ParseFloat(m[2], 64)
	case strings.HasPrefix(text, "$"):
		sign, code, _ := strings.Cut(text[1:], "-")
		s.tokens = append(s.tokens, formatToken{fmtLiteral, sign})
		id, _ := strconv.ParseUint(code, 16, 64)
		s.long = id&0xffff == 0xf800
		s.language = int(id & 0x3ff)
		if id&0xffff == 0x404 {
			s.language = taiwan
		}
	case lower != "" && strings.Trim(lower, lower[:1]) == "" && strings.IndexByte("hms", lower[0]) >= 0:
		s.date = true
		s.tokens = append(s.tokens, formatToken{fmtElapsed, lower})
	case strings.HasPrefix(lower, "color"):
	default:
		switch lower {
		case "black", "blue", "cyan", "green", "magenta", "red", "white", "yellow":
		default:
			s.unsure = true
		}
	}
}

// meets reports whether a number meets the condition of a section.
func (s *formatSection) meets(v float64) bool {
	switch s.op {
	case "<":
		return v < s.limit
	case "<=":
		return v <= s.limit
	case ">":
		return v > s.limit
	case ">=":
		return v >= s.limit
	case "=":
		return v == s.limit
	case "<>":
		return v != s.limit
	}
	return true
}

// section returns the section for a number; nil if the code has none. plain is set if it shows the number without
// its sign, as sections of negative numbers do.
func (f numberFormat) section(v float64) (s *formatSection, plain bool) {
	n := min(len(f), 3) // the fourth is for texts
	first, second := &f[0], &f[min(1, n-1)]
	negative := func(s *formatSection) bool { return s.limit == 0 && (s.op == "<" || s.op == "<=") }
	switch {
	case n == 1 && first.op == "":
		return first, false
	case first.op == "" && second.op == "" && n == 2:
		if v < 0 {
			return second, true
		}
		return first, false
	case first.op == "" && second.op == "":
		switch {
		case v > 0:
			return first, false
		case v < 0:
			return second, true
		}
		return &f[2], false
	case first.op != "" && first.meets(v):
		return first, negative(first)
	case first.op == "" && v > 0:
		return first, false
	case n == 1:
		return nil, false
	case second.op == "" && n == 2:
		return second, first.limit == 0 && (first.op == ">" || first.op == ">=") && v < 0
	case second.op == "" && v < 0:
		return second, true
	case second.op != "" && second.meets(v):
		return second, negative(second)
	case n == 3:
		return &f[2], false
	}
	return nil, false
}

// show returns what a spreadsheet program shows of a number, and whether that is certain.
func (f numberFormat) show(v float64, from1904 bool) (string, bool) {
	s, plain := f.section(v)
	if s == nil {
		return general(v), false
	}
	sign := ""
	if v < 0 {
		if v = -v; !plain {
			sign = "-"
		}
	}
	if s.date {
		text, ok := s.moment(v, sign, from1904)
		return text, ok && !s.unsure
	}
	text, digits := s.number(v)
	if !digits {
		sign = ""
	}
	return sign + text, !s.unsure
}

// showText returns what is shown of a text.
func (f numberFormat) showText(text string) string {
	if len(f) < 4 {
		return text
	}
	var b strings.Builder
	for _, t := range f[3].tokens {
		switch t.kind {
		case fmtText, fmtGeneral:
			b.WriteString(text)
		default:
			b.WriteString(t.text)
		}
	}
	return b.String()
}

// general returns a number as in a cell without a format that is wide enough: with at most 15 digits.
func general(v float64) string {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'e', 14, 64), 64)
	if a := math.Abs(v); a != 0 && (a >= 1e21 || a < 1e-9) {
		return strings.ToUpper(strconv.FormatFloat(v, 'e', -1, 64))
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// A decimal is a number of at most 15 digits: 0.DIGITS times ten to the power of point.
type decimal struct {
	digits string
	point  int
}

func newDecimal(v float64) decimal {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 14, 64), "e")
	e, _ := strconv.Atoi(exponent)
	digits := strings.TrimRight(strings.Replace(mantissa, ".", "", 1), "0")
	if digits == "" {
		return decimal{}
	}
	return decimal{digits, e + 1}
}

// round returns the digits before and after the decimal point; a half is rounded up. There are no zeros at the
// beginning of the first.
func (d decimal) round(places int) (whole, part string) {
	n := d.point + places // digits that stay
	kept := ""
	if n >= 0 {
		kept = d.digits[:min(n, len(d.digits))]
		if n > len(kept) {
			kept += strings.Repeat("0", n-len(kept))
		}
	}
	kept = strings.Repeat("0", max(0, places+1-len(kept))) + kept
	if n >= 0 && n < len(d.digits) && d.digits[n] >= '5' {
		up := []byte(kept)
		i := len(up) - 1
		for ; i >= 0 && up[i] == '9'; i-- {
			up[i] = '0'
		}
		if i >= 0 {
			up[i]++
			kept = string(up)
		} else {
			kept = "1" + string(up)
		}
	}
	return strings.TrimLeft(kept[:len(kept)-places], "0"), kept[len(kept)-places:]
}

// number returns a positive number, or 0, and whether it has digits: a text alone has no sign.
func (s *formatSection) number(v float64) (shown string, digits bool) {
	var b strings.Builder
	d := newDecimal(v)
	last, point, exponent, slash := -1, -1, -1, -1
	for i, t := range s.tokens {
		switch t.kind {
		case fmtDigit:
			last = i
		case fmtPoint:
			if point < 0 && exponent < 0 {
				point = i
			}
		case fmtExponent:
			if exponent < 0 && last >= 0 {
				exponent = i
			}
		case fmtSlash:
			if slash < 0 && last >= 0 {
				slash = i
			}
		case fmtPercent:
			d.point += 2
		}
	}
	switch {
	case slash >= 0:
		return s.fraction(v, slash), true
	case exponent >= 0:
		return s.scientific(d, point, exponent), true
	case last < 0: // no digits
		for _, t := range s.tokens {
			switch t.kind {
			case fmtGeneral, fmtText:
				b.WriteString(general(v))
				digits = true
			default:
				b.WriteString(t.text)
			}
		}
		return b.String(), digits
	}
	thousands := false
	for i, t := range s.tokens {
		if t.kind != fmtComma {
			continue
		}
		if i < last && s.tokens[i+1].kind != fmtPoint {
			thousands = true
		} else {
			d.point -= 3
		}
	}
	s.digits(&b, s.tokens, d, thousands)
	return b.String(), true
}

// digits writes tokens with the digits of a number.
func (s *formatSection) digits(b *strings.Builder, tokens []formatToken, d decimal, thousands bool) {
	point, before, places := len(tokens), 0, 0
	firstZero, lastZero := len(tokens), -1 // between them and the point a # is a 0
	for i, t := range tokens {
		switch {
		case t.kind == fmtPoint && point == len(tokens):
			point = i
		case t.kind == fmtDigit && point == len(tokens):
			before++
		case t.kind == fmtDigit:
			places++
		}
		if t.kind == fmtDigit && t.text == "0" {
			firstZero, lastZero = min(firstZero, i), i
		}
	}
	whole, part := d.round(places)
	// The digits before the point are assigned from the right; the first placeholder gets all that are left.
	out := make([]string, point)
	written := 0
	put := func(digit string, text *string) {
		if thousands && written > 0 && written%3 == 0 && digit != " " {
			*text = "," + *text
		}
		*text = digit + *text
		written++
	}
	for i := point - 1; i >= 0; i-- {
		t := tokens[i]
		switch t.kind {
		case fmtDigit:
			var text string
			before--
			for whole != "" {
				var digit string
				whole, digit = whole[:len(whole)-1], whole[len(whole)-1:]
				if put(digit, &text); before > 0 {
					break
				}
			}
			if text == "" && i >= firstZero {
				put("0", &text)
			} else if text == "" && t.text == "?" {
				text = " "
			}
			out[i] = text
		case fmtLiteral, fmtPercent, fmtSlash:
			out[i] = t.text
		}
	}
	for _, text := range out {
		b.WriteString(text)
	}
	b.WriteString(whole) // without a placeholder, as in ".00"
	if point == len(tokens) {
		return
	}
	part = strings.TrimRight(part, "0")
	shown, i := false, 0
	for at, t := range tokens[point+1:] {
		switch t.kind {
		case fmtDigit:
			digit := ""
			switch {
			case i < len(part):
				digit = part[i : i+1]
			case point+1+at <= lastZero:
				digit = "0"
			case t.text == "?":
				digit = " "
			}
			if digit != "" && !shown {
				b.WriteByte('.')
				shown = true
			}
			b.WriteString(digit)
			i++
		case fmtLiteral, fmtPercent:
			b.WriteString(t.text)
		}
	}
}

// scientific returns a number with an exponent.
func (s *formatSection) scientific(d decimal, point, exponent int) string {
	whole, places := 0, 0
	for i, t := range s.tokens[:exponent] {
		if t.kind == fmtDigit && (point < 0 || i < point) {
			whole++
		} else if t.kind == fmtDigit {
			places++
		}
	}
	whole = max(whole, 1)
	e := 0
	if d.digits != "" {
		for try := d.point - 1; ; try++ {
			e = try - ((try%whole)+whole)%whole
			if integer, _ := (decimal{d.digits, d.point - e}).round(places); len(integer) <= whole {
				break
			}
		}
	}
	var b strings.Builder
	s.digits(&b, s.tokens[:exponent], decimal{d.digits, d.point - e}, false)
	b.WriteByte('E')
	if e < 0 {
		b.WriteByte('-')
	} else if s.tokens[exponent].text[1] == '+' {
		b.WriteByte('+')
	}
	s.digits(&b, s.tokens[exponent+1:], newDecimal(math.Abs(float64(e))), false)
	return b.String()
}

// fraction returns a number as a fraction; slash is the place of its bar.
func (s *formatSection) fraction(v float64, slash int) string {
	from := slash // of the numerator
	for from > 0 && s.tokens[from-1].kind == fmtDigit {
		from--
	}
	to, digits, fixed := slash+1, 0, 0 // of the denominator
	for ; to < len(s.tokens); to++ {
		t := s.tokens[to]
		if n, err := strconv.Atoi(t.text); err == nil && (t.kind == fmtLiteral || fixed > 0) {
			fixed = fixed*10 + n
		} else if t.kind == fmtDigit {
			digits++
		} else {
			break
		}
	}
	integer := false
	for _, t := range s.tokens[:from] {
		integer = integer || t.kind == fmtDigit
	}
	whole := 0.0
	if integer {
		whole = math.Floor(v)
	}
	n, d := 0.0, float64(fixed)
	if fixed > 0 {
		n = math.Floor((v-whole)*d + 0.5)
	} else {
		n, d = nearest(v-whole, math.Pow10(min(digits, 7))-1)
	}
	if integer && n == d && n > 0 {
		whole, n = whole+1, 0
	}
	var b strings.Builder
	if integer && (whole > 0 || n == 0) {
		b.WriteString(general(whole))
	}
	for i, t := range s.tokens[:from] {
		if t.kind == fmtLiteral && (i == 0 || strings.TrimSpace(t.text) != "" || b.Len() > 0) {
			b.WriteString(t.text)
		}
	}
	if n != 0 || !integer {
		b.WriteString(general(n) + "/" + general(d))
	}
	for _, t := range s.tokens[min(to, len(s.tokens)):] {
		if t.kind == fmtLiteral {
			b.WriteString(t.text)
		}
	}
	return b.String()
}

// nearest returns the fraction that is nearest to a number from 0, with a denominator up to a limit (continued
// fractions).
func nearest(v, limit float64) (n, d float64) {
	n0, d0, n1, d1 := 0.0, 1.0, 1.0, 0.0
	for x := v; ; {
		a := math.Floor(x + 1e-9)
		if d0+a*d1 > limit && d1 != 0 {
			a = math.Floor((limit - d0) / d1)
			n2, d2 := n0+a*n1, d0+a*d1
			if d2 > 0 && math.Abs(v-n2/d2) < math.Abs(v-n1/d1) {
				return n2, d2
			}
			return n1, d1
		}
		n0, d0, n1, d1 = n1, d1, n0+a*n1, d0+a*d1
		if math.Abs(x-a) < 1e-9 || math.Abs(v-n1/d1) < 1e-12 {
			return n1, d1
		}
		x = 1 / (x - a)
	}
}

const (
	lastSerial = 2_958_465 // 9999-12-31

	// Languages of Windows (MS-LCID).
	chineseID  = 0x04
	germanID   = 0x07
	japaneseID = 0x11
	koreanID   = 0x12
	taiwan     = -1 // Chinese with the calendar of the Republic of China
)

// moment returns a date, a time or a duration; sign is that of the number. It is not certain where no program shows
// one.
func (s *formatSection) moment(v float64, sign string, from1904 bool) (string, bool) {
	elapsed := false
	smallest := 0 // digits of a second that are shown
	noon := false
	for _, t := range s.tokens {
		switch t.kind {
		case fmtElapsed:
			elapsed = true
		case fmtSubsecond:
			smallest = len(t.text)
		case fmtNoon:
			noon = true
		}
	}
	if v > lastSerial+1 || sign != "" && !elapsed {
		return sign + general(v), false
	}
	precision := 1e5 // of a second; the error of a serial number is smaller
	if smallest > 0 {
		precision = math.Pow10(min(smallest, 5))
	}
	seconds := math.Round(v*86400*precision) / precision
	days := int(math.Floor(seconds / 86400))
	rest := seconds - float64(days)*86400
	year, month, day, weekday := civil(days, from1904)
	hour, minute, second := int(rest)/3600, int(rest)/60%60, int(rest)%60
	if s.long {
		return fmt.Sprintf("%s, %s %d, %d", weekdays(0)[weekday], months(0)[month-1], day, year), true
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, t := range s.tokens {
		n := len(t.text)
		switch t.kind {
		case fmtElapsed:
			total := seconds
			switch t.text[0] {
			case 'h':
				total /= 3600
			case 'm':
				total /= 60
			}
			fmt.Fprintf(&b, "%0*d", n, int64(total+1e-9))
		case fmtSubsecond:
			text := strconv.FormatFloat(rest-math.Floor(rest), 'f', 5, 64)
			text += strings.Repeat("0", max(0, smallest-5))
			b.WriteString("." + text[2:2+smallest])
		case fmtNoon:
			b.WriteString(half(t.text, hour))
		case fmtDate:
			switch letter := strings.ToLower(t.text[:1]); {
			case letter == "y" && n <= 2:
				fmt.Fprintf(&b, "%02d", year%100)
			case letter == "y":
				fmt.Fprintf(&b, "%04d", year)
			case letter == "b":
				fmt.Fprintf(&b, "%d", year+543)
			case letter == "g" || letter == "e":
				b.WriteString(s.era(letter, n, year, month, day))
			case letter == "m" && s.minutes(i):
				fmt.Fprintf(&b, "%0*d", min(n, 2), minute)
			case letter == "m" && n <= 2:
				fmt.Fprintf(&b, "%0*d", n, month)
			case letter == "m":
				b.WriteString(name(months(s.language)[month-1], n, s.language))
			case letter == "d" && n <= 2:
				fmt.Fprintf(&b, "%0*d", n, day)
			case letter == "d":
				b.WriteString(name(weekdays(s.language)[weekday], n, s.language))
			case letter == "h":
				h := hour
				if noon {
					h = (hour+11)%12 + 1
				}
				fmt.Fprintf(&b, "%0*d", min(n, 2), h)
			case letter == "s":
				fmt.Fprintf(&b, "%0*d", min(n, 2), second)
			}
		case fmtGeneral:
			b.WriteString(general(v))
		default:
			b.WriteString(t.text)
		}
	}
	return b.String(), true
}

// minutes reports whether the m at a place are minutes: after hours or before seconds.
func (s *formatSection) minutes(at int) bool {
	for i := at - 1; i >= 0; i-- {
		if t := s.tokens[i]; t.kind == fmtDate || t.kind == fmtElapsed {
			if strings.ToLower(t.text)[0] == 'h' {
				return true
			}
			break
		}
	}
	for _, t := range s.tokens[at+1:] {
		if t.kind == fmtDate || t.kind == fmtElapsed {
			return strings.ToLower(t.text)[0] == 's'
		}
	}
	return false
}

// half returns the half of the day in the words of a format.
func half(words string, hour int) string {
	am, pm, _ := strings.Cut(words, "/")
	if hour < 12 {
		return am
	}
	return pm
}

// civil returns the day of a serial number. In the system of 1900 there is a 29 February 1900, and number 0 is
// "1900-01-00".
func civil(days int, from1904 bool) (year, month, day, weekday int) {
	from := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	switch {
	case from1904:
		from = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	case days == 0:
		return 1900, 1, 0, 6
	case days == 60:
		return 1900, 2, 29, 3
	case days < 60:
		from = from.AddDate(0, 0, 1)
	}
	t := from.AddDate(0, 0, days)
	weekday = int(t.Weekday())
	if !from1904 {
		weekday = (days + 6) % 7
	}
	return t.Year(), int(t.Month()), t.Day(), weekday
}

// eras of Japan, newest first.
var eras = []struct {
	year, month, day int
	name, letter     string
}{{2019, 5, 1, "令和", "R"}, {1989, 1, 8, "平成", "H"}, {1926, 12, 25, "昭和", "S"}, {1912, 7, 30, "大正", "T"}, {1868, 1, 25, "明治", "M"}}

// era returns the name (g) or the year (e) of an era; elsewhere e is the year.
func (s *formatSection) era(letter string, n, year, month, day int) string {
	switch s.language {
	case taiwan:
		if letter == "e" && year > 1911 {
			return strconv.Itoa(year - 1911)
		}
		return ""
	case japaneseID:
		for _, era := range eras {
			if year > era.year || year == era.year && (month > era.month || month == era.month && day >= era.day) {
				switch {
				case letter == "e":
					return fmt.Sprintf("%0*d", n, year-era.year+1)
				case n == 1:
					return era.letter
				case n == 2:
					_, size := utf8.DecodeRuneInString(era.name)
					return era.name[:size]
				}
				return era.name
			}
		}
	}
	if letter == "e" {
		return strconv.Itoa(year)
	}
	return ""
}

// dateNames are the months, in the form that follows a day, and the days of the week from Sunday, by language.
var dateNames = map[int]string{
	0x09:       "January February March April May June July August September October November December Sunday Monday Tuesday Wednesday Thursday Friday Saturday",
	0x05:       "ledna února března dubna května června července srpna září října listopadu prosince neděle pondělí úterý středa čtvrtek pátek sobota",
	0x06:       "januar februar marts april maj juni juli august september oktober november december søndag mandag tirsdag onsdag torsdag fredag lørdag",
	germanID:   "Januar Februar März April Mai Juni Juli August September Oktober November Dezember Sonntag Montag Dienstag Mittwoch Donnerstag Freitag Samstag",
	0x0a:       "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre domingo lunes martes miércoles jueves viernes sábado",
	0x0b:       "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta marraskuuta joulukuuta sunnuntai maanantai tiistai keskiviikko torstai perjantai lauantai",
	0x0c:       "janvier février mars avril mai juin juillet août septembre octobre novembre décembre dimanche lundi mardi mercredi jeudi vendredi samedi",
	0x10:       "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre domenica lunedì martedì mercoledì giovedì venerdì sabato",
	0x13:       "januari februari maart april mei juni juli augustus september oktober november december zondag maandag dinsdag woensdag donderdag vrijdag zaterdag",
	0x14:       "januar februar mars april mai juni juli august september oktober november desember søndag mandag tirsdag onsdag torsdag fredag lørdag",
	0x15:       "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia niedziela poniedziałek wtorek środa czwartek piątek sobota",
	0x16:       "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro domingo segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado",
	0x19:       "января февраля марта апреля мая июня июля августа сентября октября ноября декабря воскресенье понедельник вторник среда четверг пятница суббота",
	0x1d:       "januari februari mars april maj juni juli augusti september oktober november december söndag måndag tisdag onsdag torsdag fredag lördag",
	0x1f:       "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık Pazar Pazartesi Salı Çarşamba Perşembe Cuma Cumartesi",
	chineseID:  "一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月 星期日 星期一 星期二 星期三 星期四 星期五 星期六",
	japaneseID: "1月 2月 3月 4月 5月 6月 7月 8月 9月 10月 11月 12月 日曜日 月曜日 火曜日 水曜日 木曜日 金曜日 土曜日",
	koreanID:   "1월 2월 3월 4월 5월 6월 7월 8월 9월 10월 11월 12월 일요일 월요일 화요일 수요일 목요일 금요일 토요일",
}

func namesOf(language int) []string {
	if language == taiwan {
		language = chineseID
	}
	list := dateNames[language]
	if list == "" {
		list = dateNames[0x09]
	}
	return strings.Fields(list)
}

func months(language int) []string   { return namesOf(language)[:12] }
func weekdays(language int) []string { return namesOf(language)[12:] }

// name returns a name of a month or a day in as many letters as a format has: three are a short form, five its first
// letter.
func name(full string, letters, language int) string {
	runes := []rune(full)
	switch {
	case letters == 4:
	case letters == 5:
		return string(runes[:1])
	case letters > 5:
	case language == chineseID || language == taiwan:
		return strings.Replace(full, "星期", "周", 1)
	case language == germanID && strings.HasSuffix(full, "g") || full == "Mittwoch": // a day
		return string(runes[:2])
	case language == japaneseID || language == koreanID:
		if unicode.IsDigit(runes[0]) {
			return full
		}
		return string(runes[:1])
	default:
		return string(runes[:min(3, len(runes))])
	}
	return full
}
