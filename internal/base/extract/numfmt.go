package extract

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// A numberFormat is the format code of a cell (ECMA-376 part 1, 18.8.31) in its sections.
type numberFormat []formatSection

// A formatSection formats the numbers that meet its condition.
type formatSection struct {
	tokens   []formatToken
	op       string // operator of the condition; empty: none
	limit    float64
	language int  // the primary language of a code such as [$-407]; 0: English
	long     bool // the long date of the reader's system
	unsure   bool // it contains something unknown
	date     bool
	years    int  // of the calendar, more than those of the Gregorian one
	bare     bool // it has something in brackets
}

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

// parseFormat reads a format code. It never fails, because an unknown part only makes a section unsure.
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
		case strings.IndexByte("ymdhsegb", c) >= 0, strings.HasPrefix(rest, "aaa"):
			s.date = true
			add(fmtDate, len(rest)-len(strings.TrimLeft(rest, string(c))))
		default:
			add(fmtLiteral, width)
		}
	}
	return all
}

func (s *formatSection) afterSeconds() bool {
	if len(s.tokens) < 2 {
		return false
	}
	t := s.tokens[len(s.tokens)-2]
	return (t.kind == fmtDate || t.kind == fmtElapsed) && strings.HasPrefix(strings.ToLower(t.text), "s")
}

func (s *formatSection) bracket(text string) {
	s.bare = true
	lower := strings.ToLower(text)
	switch m := formatCondition().FindStringSubmatch(text); {
	case m != nil:
		s.op = m[1]
		s.limit, _ = strconv.ParseFloat(m[2], 64)
	case strings.HasPrefix(text, "$"):
		sign, code, _ := strings.Cut(text[1:], "-")
		s.tokens = append(s.tokens, formatToken{fmtLiteral, sign})
		id, err := strconv.ParseUint(code, 16, 64)
		s.long = id&0xffff == 0xf800 || strings.HasPrefix(lower, "$-x-sysdate")
		s.language = int(id & 0x3ff)
		switch tag, _, _ := strings.Cut(strings.ToLower(code), "-"); {
		case id&0xffff == 0x404 || strings.EqualFold(code, "zh-TW"):
			s.language = taiwan
		case err != nil:
			s.language = languageTags[tag]
		}
		switch id >> 16 & 0xff { // the calendar
		case 0x05: // of Korea, from Dangun
			s.years = 2333
		case 0x07: // of Buddhism
			s.years = 543
		case 0x03, 0x04, 0x06, 0x08, 0x17: // eras, of Islam, of Judaism
			s.unsure = true
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
	if f.texts() == len(f)-1 && len(f) > 1 {
		n = min(n, len(f)-1)
	}
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

// texts returns the number of the section for texts: the last one, if it has their sign, or the fourth; -1 if the code
// has none.
func (f numberFormat) texts() int {
	last := len(f) - 1
	if last == 3 || last >= 0 && slices.ContainsFunc(f[last].tokens, func(t formatToken) bool { return t.kind == fmtText }) {
		return last
	}
	return -1
}

func (f numberFormat) showText(text string) string {
	section := f.texts()
	if section < 0 {
		return text
	}
	var b strings.Builder
	for _, t := range f[section].tokens {
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
		if s.bare && !slices.ContainsFunc(s.tokens, func(t formatToken) bool { return t.text != "" }) { // only a color or a language
			return general(v), true
		}
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
	// The digits are assigned from the right, because the first placeholder gets all that are left.
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
		case fmtLiteral, fmtPercent, fmtPoint:
			b.WriteString(t.text)
		}
	}
}

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
	from := slash // start of the numerator
	for from > 0 && s.tokens[from-1].kind == fmtDigit {
		from--
	}
	to, digits, fixed := slash+1, 0, 0 // end of the denominator
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
	before := s.tokens[:from]
	if integer {
		last := from - 1
		for before[last].kind != fmtDigit {
			last--
		}
		s.digits(&b, before[:last+1], newDecimal(whole), slices.ContainsFunc(before, func(t formatToken) bool { return t.kind == fmtComma }))
		if n == 0 && whole == 0 && !strings.ContainsAny(b.String(), "0123456789") {
			b.WriteByte('0')
		}
		before = before[last+1:]
	}
	for i, t := range before {
		if t.kind == fmtLiteral && (i == 0 && !integer || strings.TrimSpace(t.text) != "" || b.Len() > 0) {
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
