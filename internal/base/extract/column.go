package extract

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The types of columns of a [Table]. Dates are texts that sort by time, and booleans are 1 and 0, because SQLite has
// neither type.
const (
	typeInteger  = "integer"
	typeReal     = "real"
	typeDate     = "date"     // 2024-03-01
	typeDateTime = "datetime" // 2024-03-01 14:30:00
	typeTime     = "time"     // 14:30:00
	typeBoolean  = "boolean"
	typeText     = "text"
	typeMixed    = "mixed" // each cell keeps its own type
)

// A tableColumn is a column of a table and how its cells become values of SQLite.
type tableColumn struct {
	name, kind, note string
	at               int // index in the rows
	value            func(c sheetCell) any
}

// blanks are texts that stand for a missing value. They are NULL in a column whose other cells agree on a type, because
// SQLite would count each as 0 in an average.
var blanks = []string{"-", "–", "—", "n/a", "na", "n.a.", "null", "none", "k.a.", "k. a.", "#n/a", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"}

func isBlank(text string) bool { return slices.Contains(blanks, strings.ToLower(text)) }

var numberStyles = [...][2]byte{{'.', 0}, {'.', ','}, {'.', ' '}, {'.', '\''}, {',', 0}, {',', '.'}, {',', ' '}, {',', '\''}}

// Sets of numberStyles, as bits.
const (
	pointStyles = 0x0f
	commaStyles = 0xf0
)

var spaces = strings.NewReplacer("\u00a0", " ", "\u202f", " ", "\u2009", " ", "’", "'", "−", "-")

var currencies = []string{"€", "$", "£", "¥", "EUR", "USD", "GBP", "CHF", "JPY"}

// A numeral is a number as a text has it.
type numeral struct {
	text     string // digits and separators
	negative bool
	unit     string // "%", a currency, or empty
	styles   int    // the numberStyles in which text is a number
}

// numeralOf reads a number; styles is 0 if the text is something else.
func numeralOf(s string) (n numeral) {
	if s == "" || len(s) > 60 || !strings.ContainsAny(s, "0123456789") {
		return n
	}
	s = strings.TrimSpace(spaces.Replace(s))
	sign := func() {
		if len(s) > 1 && (s[0] == '-' || s[0] == '+') && !n.negative {
			n.negative, s = s[0] == '-', strings.TrimSpace(s[1:])
		}
	}
	if inner, ok := strings.CutPrefix(s, "("); ok && strings.HasSuffix(inner, ")") {
		n.negative, s = true, inner[:len(inner)-1]
	}
	sign()
	if rest, ok := strings.CutSuffix(s, "%"); ok {
		n.unit, s = "%", strings.TrimSpace(rest)
	}
	for _, c := range currencies {
		before, ok := strings.CutPrefix(s, c)
		if after, is := strings.CutSuffix(s, c); is && !ok {
			before, ok = after, true
		}
		if ok && n.unit == "" {
			n.unit, s = c, strings.TrimSpace(before)
		}
	}
	sign()
	if rest, ok := strings.CutSuffix(s, "-"); ok && !n.negative { // as SAP writes
		n.negative, s = true, rest
	}
	n.text = s
	for i, style := range numberStyles {
		if fitsStyle(s, style[0], style[1]) {
			n.styles |= 1 << i
		}
	}
	return n
}

// fitsStyle reports whether digits are a number with a decimal sign and a separator of thousands. Zeros at the beginning
// are refused because they belong to a code.
func fitsStyle(s string, decimal, group byte) bool {
	whole, part, has := strings.Cut(s, string(decimal))
	if decimal == '.' {
		if mantissa, exponent, ok := strings.Cut(strings.ToLower(part), "e"); ok && has {
			if _, err := strconv.Atoi(exponent); err != nil {
				return false
			}
			part = mantissa
		}
	}
	if has && (part == "" || !isDigits(part)) {
		return false
	}
	if group != 0 && strings.IndexByte(whole, group) > 0 {
		parts := strings.Split(whole, string(group))
		for i, p := range parts {
			if !isDigits(p) || i > 0 && len(p) != 3 || i == 0 && len(p) > 3 {
				return false
			}
		}
		whole = strings.Join(parts, "")
		if whole[0] == '0' {
			return false
		}
	}
	if whole == "" {
		return has
	}
	return isDigits(whole) && (len(whole) == 1 || whole[0] != '0') && len(whole) <= 18
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// value returns a numeral as an integer or a float64. A percentage is the fraction that it means, as in a spreadsheet.
func (n numeral) value(style int, integer bool) any {
	s := n.text
	if group := numberStyles[style][1]; group != 0 {
		s = strings.ReplaceAll(s, string(group), "")
	}
	if numberStyles[style][0] == ',' {
		s = strings.Replace(s, ",", ".", 1)
	}
	if n.negative {
		s = "-" + s
	}
	if integer {
		v, _ := strconv.ParseInt(s, 10, 64)
		return v
	}
	v, _ := strconv.ParseFloat(s, 64)
	if n.unit == "%" && !strings.ContainsAny(s, "eE") {
		v, _ = strconv.ParseFloat(s+"e-2", 64)
	}
	return v
}

// Orders of day and month, as bits.
const (
	orderYMD = 1 << iota
	orderDMY
	orderMDY
)

// momentOf reads a date, with or without a time, in each order in which it is one. The texts are as SQLite has them.
func momentOf(s string) (orders int, dates [3]string, clock string) {
	if date, rest := namedDate(s); date != "" {
		if rest != "" {
			if clock = clockOf(rest); clock == "" {
				return 0, dates, ""
			}
		}
		return orderYMD | orderDMY | orderMDY, [3]string{date, date, date}, clock
	}
	if strings.ContainsAny(s, "年년") {
		s = strings.TrimSpace(eastAsianDate.Replace(s))
	}
	date, clock, timed := strings.Cut(strings.Replace(s, "T", " ", 1), " ")
	if len(date) < 8 || len(date) > 10 || date[0] < '0' || date[0] > '9' {
		return 0, dates, ""
	}
	sign := date[strings.IndexFunc(date+"?", func(r rune) bool { return r < '0' || r > '9' }):]
	if sign == "" || !strings.Contains("-./", sign[:1]) {
		return 0, dates, ""
	}
	parts := strings.Split(date, sign[:1])
	if len(parts) != 3 || !isDigits(parts[0]) || !isDigits(parts[1]) || !isDigits(parts[2]) {
		return 0, dates, ""
	}
	if timed {
		if clock = clockOf(strings.TrimSpace(clock)); clock == "" {
			return 0, dates, ""
		}
	}
	add := func(order, year, month, day int) {
		y, _ := strconv.Atoi(parts[year])
		m, _ := strconv.Atoi(parts[month])
		d, _ := strconv.Atoi(parts[day])
		if date := dateOf(y, m, d, len(parts[year])); date != "" {
			orders |= order
			dates[order/2] = date
		}
	}
	switch short := len(date) == 8 && sign[0] == '.' && len(parts[0]) == 2 && len(parts[1]) == 2; {
	case len(parts[0]) == 4 && len(parts[1]) < 3 && len(parts[2]) < 3:
		add(orderYMD, 0, 1, 2)
	case (len(parts[2]) == 4 || short) && len(parts[0]) < 3 && len(parts[1]) < 3:
		add(orderDMY, 2, 1, 0)
		if sign[0] != '.' {
			add(orderMDY, 2, 0, 1)
		}
	}
	return orders, dates, clock
}

// dateOf returns a date in SQLite's form, with a year of two or four digits; empty if there is no such day.
func dateOf(year, month, day, digits int) string {
	if digits == 2 {
		if year += 1900; year < 1970 {
			year += 100
		}
	}
	if month < 1 || month > 12 || day < 1 || day > time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() {
		return ""
	}
	return fmt.Sprintf("%04d-%02d-%02d", year, month, day)
}

// clockOf returns a time of day as hh:mm:ss, with parts of a second if it has them; empty if it is not one. A Z, for UTC,
// is left out.
func clockOf(s string) string {
	s, fraction, has := strings.Cut(strings.TrimSuffix(s, "Z"), ".")
	if has && (!isDigits(fraction) || len(fraction) > 9) {
		return ""
	}
	parts := strings.Split(s, ":")
	if len(parts) == 2 {
		parts = append(parts, "00")
	}
	if len(parts) != 3 {
		return ""
	}
	for i, limit := range []int{24, 60, 60} {
		n, err := strconv.Atoi(parts[i])
		if err != nil || !isDigits(parts[i]) || len(parts[i]) > 2 || n >= limit {
			return ""
		}
		parts[i] = fmt.Sprintf("%02d", n)
	}
	if has {
		parts[2] += "." + fraction
	}
	return strings.Join(parts, ":")
}

func dated(date, clock, kind string) string {
	if kind == typeDate {
		return date
	}
	if clock == "" {
		clock = "00:00:00"
	}
	return date + " " + clock
}

// A scan counts the cells of a column by what they can be.
type scan struct {
	kinds          [cellKinds]int
	hours          int // of the dates
	blank          int
	integer        bool // all numbers are
	timed, timeOff bool // of the dates of a sheet: some have a time; some are not only a time
	styles, orders int
	unit           string
	signs          bool // some texts have a point or a comma
	sampleBlank    string
	odd            string // the first text that is neither a number nor a date, with its row
	numbers, dates int    // texts that are numbers, and dates
	utc            int    // of the dates
	logical        int
}

func (s scan) filled() (n int) {
	for k := cellText; k < cellKinds; k++ {
		n += s.kinds[k]
	}
	return n
}

func (g *grid) scan(at int) scan {
	s := scan{integer: true, styles: pointStyles | commaStyles, orders: orderYMD | orderDMY | orderMDY}
	for _, row := range g.data() {
		if at >= len(row.cells) {
			continue
		}
		c := row.cells[at]
		if c.kind == cellText && isBlank(c.shown) {
			s.blank++
			s.sampleBlank = c.shown
			continue
		}
		s.kinds[c.kind]++
		switch c.kind {
		case cellNumber:
			s.integer = s.integer && c.value == math.Trunc(c.value) && math.Abs(c.value) < 1e15
		case cellDate:
			if c.hours {
				s.hours++
			}
			date, clock := g.moment(c)
			s.timed = s.timed || clock != "" && clock != "00:00:00"
			s.timeOff = s.timeOff || date != ""
		case cellText:
			known := false
			if g.texts {
				if n := numeralOf(c.shown); n.styles != 0 {
					if s.numbers == 0 {
						s.unit = n.unit
					} else if s.unit != n.unit {
						s.styles = 0
					}
					s.numbers++
					s.styles &= n.styles
					s.signs = s.signs || strings.ContainsAny(n.text, ".,")
					known = true
				} else if orders, _, clock := momentOf(c.shown); orders != 0 {
					s.dates++
					if strings.HasSuffix(c.shown, "Z") {
						s.utc++
					}
					s.orders &= orders
					s.timed = s.timed || clock != "" && clock != "00:00:00"
					known = true
				} else if strings.EqualFold(c.shown, "true") || strings.EqualFold(c.shown, "false") {
					s.logical++
					known = true
				}
			}
			if !known && s.odd == "" {
				s.odd = fmt.Sprintf("%q in row %d", cutText(c.shown, 40), row.n)
			}
		}
	}
	return s
}

// moment returns the date and the time of a cell of a sheet; each is empty if the cell has none.
func (g *grid) moment(c sheetCell) (date, clock string) {
	if c.value == 0 {
		if orders, dates, clock := momentOf(c.shown); orders&orderYMD != 0 { // stored as a text
			return dates[0], clock
		}
	}
	if c.value < 0 || c.value >= lastSerial+1 {
		return "", ""
	}
	seconds := int(math.Round(c.value * 86400))
	clock = fmt.Sprintf("%02d:%02d:%02d", seconds/3600%24, seconds/60%60, seconds%60)
	if days := seconds / 86400; days > 0 || g.from1904 && seconds == 0 {
		year, month, day, _ := civil(days, g.from1904)
		date = fmt.Sprintf("%04d-%02d-%02d", year, month, day)
	}
	return date, clock
}

// A locale is what the certain columns of a file say about the others.
type locale struct{ styles, orders int }

// localeOf searches columns that can be read in one way only. Without one, numbers of files with semicolons get a decimal
// comma, because programs use that separator where the comma is taken.
func (g *grid) localeOf(scans []scan) (l locale) {
	styles, orders := 0, 0
	for _, s := range scans {
		if total := s.kinds[cellText]; total == 0 {
			continue
		} else if s.numbers == total && s.signs && (s.styles&pointStyles == 0) != (s.styles&commaStyles == 0) {
			if s.styles&pointStyles != 0 {
				styles |= 1
			} else {
				styles |= 2
			}
		} else if s.dates == total && (s.orders == orderDMY || s.orders == orderMDY) {
			orders |= s.orders
		}
	}
	switch {
	case styles == 1:
		l.styles = pointStyles
	case styles == 2:
		l.styles = commaStyles
	}
	if orders == orderDMY || orders == orderMDY {
		l.orders = orders
	}
	return l
}

// columns decides the type of each column over all of its cells.
func (g *grid) columns() []tableColumn {
	names := g.names()
	scans := make([]scan, len(names))
	for i := range names {
		scans[i] = g.scan(i)
	}
	l := g.localeOf(scans)
	var list []tableColumn
	for i, s := range scans {
		if names[i] == "" && s.filled()+s.blank == 0 {
			continue
		}
		c := tableColumn{name: names[i], at: i, kind: typeText, value: func(c sheetCell) any { return c.shown }}
		g.decide(&c, s, l)
		if c.kind != typeText && c.kind != typeMixed && s.blank > 0 {
			c.note = strings.TrimSpace(fmt.Sprintf("%s %d cells such as %q are NULL.", c.note, s.blank, s.sampleBlank))
		}
		list = append(list, c)
	}
	unique(list)
	return list
}

func (g *grid) decide(c *tableColumn, s scan, l locale) {
	switch filled := s.filled(); filled {
	case 0:
	case s.kinds[cellNumber]:
		c.kind = typeReal
		if s.integer {
			c.kind = typeInteger
		}
		c.value = func(v sheetCell) any { return numberValue(v.value, s.integer) }
	case s.kinds[cellLogical]:
		c.kind = typeBoolean
		c.value = func(v sheetCell) any { return boolValue(v.shown == "TRUE") }
	case s.kinds[cellDate]:
		if s.hours == filled {
			c.kind, c.note = typeReal, "Durations in hours."
			c.value = func(v sheetCell) any { return math.Round(v.value*86400) / 3600 }
			return
		}
		c.kind = typeDate
		switch {
		case !s.timeOff:
			c.kind = typeTime
		case s.timed:
			c.kind = typeDateTime
		}
		c.value = func(v sheetCell) any {
			date, clock := g.moment(v)
			switch {
			case c.kind == typeTime:
				return clock
			case date == "":
				return v.shown
			}
			return dated(date, clock, c.kind)
		}
	case s.kinds[cellText]:
		if g.texts {
			g.decideText(c, s, l, filled)
		}
	default:
		c.kind = typeMixed
		c.value = func(v sheetCell) any {
			date, clock := g.moment(v)
			switch {
			case v.kind == cellNumber:
				return numberValue(v.value, v.value == math.Trunc(v.value) && math.Abs(v.value) < 1e15)
			case v.kind == cellDate && date != "" && clock != "00:00:00":
				return date + " " + clock
			case v.kind == cellDate && date != "":
				return date
			}
			return v.shown
		}
		var parts []string
		for k := cellText; k < cellKinds; k++ {
			if s.kinds[k] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", s.kinds[k], [...]string{"", "texts", "numbers", "dates", "true or false"}[k]))
			}
		}
		c.note = "Cells of several types: " + strings.Join(parts, ", ") + "."
		if s.odd != "" {
			c.note += " The first text is " + s.odd + ". avg and sum count texts as 0."
		}
	}
}

func (g *grid) decideText(c *tableColumn, s scan, l locale, filled int) {
	switch filled {
	case s.logical:
		c.kind = typeBoolean
		c.value = func(v sheetCell) any { return boolValue(strings.EqualFold(v.shown, "true")) }
	case s.numbers:
		styles := s.styles
		if s.signs && styles&pointStyles != 0 && styles&commaStyles != 0 { // such as 1.234
			if styles &= g.styles(s, l); styles == 0 {
				c.note = "It is not certain whether these are decimals or thousands, so that they are texts."
				return
			}
		}
		if styles == 0 {
			c.note = "The numbers are written in different ways or have different units, so that they are texts."
			return
		}
		style := 0
		for styles>>style&1 == 0 {
			style++
		}
		integer := s.unit != "%"
		for _, row := range g.data() {
			if c.at < len(row.cells) && row.cells[c.at].kind == cellText && !isBlank(row.cells[c.at].shown) {
				text := numeralOf(row.cells[c.at].shown).text
				integer = integer && strings.IndexByte(text, numberStyles[style][0]) < 0
			}
		}
		c.kind = typeReal
		if integer {
			c.kind = typeInteger
		}
		switch s.unit {
		case "":
		case "%":
			c.note = "Percentages as fractions: 0.05 is 5 %."
		default:
			c.note = "Amounts in " + s.unit + "."
		}
		c.value = func(v sheetCell) any { return numeralOf(v.shown).value(style, integer) }
	case s.dates:
		orders := s.orders
		if orders == orderYMD|orderDMY|orderMDY { // all months have names
			orders = orderYMD
		} else if orders&(orders-1) != 0 && l.orders != 0 {
			orders &= l.orders
		}
		if orders == 0 || orders&(orders-1) != 0 {
			c.note = "It is not certain which number is the day and which the month, so that they are texts."
			return
		}
		switch s.utc {
		case 0:
		case filled:
			c.note = "Times in UTC."
		default:
			c.note = "Only some times are in UTC, so that they are texts."
			return
		}
		c.kind = typeDate
		if s.timed {
			c.kind = typeDateTime
		}
		c.value = func(v sheetCell) any {
			_, dates, clock := momentOf(v.shown)
			return dated(dates[orders/2], clock, c.kind)
		}
	default:
		if s.odd != "" && s.numbers > filled/2 {
			c.note = fmt.Sprintf("%d of %d cells are numbers; the first other is %s, so that all are texts.", s.numbers, filled, s.odd)
		}
	}
}

// styles returns the numberStyles of a column that can be read in two ways; 0 if that is not certain.
func (g *grid) styles(s scan, l locale) int {
	if l.styles != 0 {
		return l.styles
	}
	comma := s.styles&(1<<4) != 0 // ",": 1,234 is a number with a decimal comma
	switch {
	case comma && g.delimiter == ';':
		return commaStyles
	case comma && g.delimiter == ',', !comma && g.delimiter != ';':
		return pointStyles
	}
	return 0
}

func numberValue(v float64, integer bool) any {
	if integer {
		return int64(v)
	}
	return v
}

func boolValue(b bool) any {
	if b {
		return int64(1)
	}
	return int64(0)
}
