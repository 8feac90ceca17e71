package extract

import (
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// otherMonths are names and short forms of months besides those of [dateNames]. It includes those of Croatian, because
// other languages use some of them for another month, so that these do not name a certain month.
const otherMonths = "mrz 3 mrt 3 sept 9 " +
	"siječnja 1 veljače 2 ožujka 3 travnja 4 svibnja 5 lipnja 6 srpnja 7 kolovoza 8 rujna 9 listopada 10 studenoga 11 prosinca 12 " +
	"leden 1 únor 2 březen 3 duben 4 květen 5 červen 6 červenec 7 srpen 8 září 9 říjen 10 prosinec 12 " +
	"styczeń 1 luty 2 marzec 3 kwiecień 4 maj 5 czerwiec 6 lipiec 7 sierpień 8 wrzesień 9 październik 10 grudzień 12 " +
	"январь 1 февраль 2 март 3 апрель 4 май 5 июнь 6 июль 7 август 8 сентябрь 9 октябрь 10 ноябрь 11 декабрь 12"

// monthNames are the months by their names and by the beginnings of their names, from three letters. A name of several
// months in different languages is left out, because it is not certain, unless it is English.
var monthNames = sync.OnceValue(func() map[string]int {
	names := map[string]int{}
	add := func(name string, month int) {
		name = strings.ToLower(name)
		for i, n := 0, 0; i < len(name); n++ {
			_, size := utf8.DecodeRuneInString(name[i:])
			if i += size; n < 2 {
				continue
			}
			if was, ok := names[name[:i]]; ok && was != month {
				names[name[:i]] = 0
			} else {
				names[name[:i]] = month
			}
		}
	}
	for language := range dateNames {
		for i, name := range months(language) {
			if language != chineseID && language != japaneseID && language != koreanID {
				add(name, i+1)
			}
		}
	}
	others := strings.Fields(otherMonths)
	for i := 0; i < len(others); i += 2 {
		month, _ := strconv.Atoi(others[i+1])
		add(others[i], month)
	}
	for i, name := range months(0) {
		name = strings.ToLower(name)
		names[name], names[name[:3]] = i+1, i+1
	}
	return names
})

// weekdayNames are the days of the week and their first three letters, in English.
var weekdayNames = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, name := range weekdays(0) {
		name = strings.ToLower(name)
		names[name], names[name[:3]] = true, true
	}
	return names
})

// eastAsianDate writes a date such as 2025年3月1日 with hyphens.
var eastAsianDate = strings.NewReplacer("年", "-", "月", "-", "日", " ", "년 ", "-", "년", "-", "월 ", "-", "월", "-", "일", " ")

// namedDate reads a date whose month has a name, such as "3 Mar 2025", "12-Jan-24" or "Monday, March 3rd, 2025". rest is what
// follows it. A year of two digits is the last number.
func namedDate(s string) (date, rest string) {
	if len(s) < 8 || len(s) > 60 || !strings.ContainsAny(s, "0123456789") {
		return "", ""
	}
	s = strings.ToLower(s)
	var parts [3]string
	month, at := 0, 0
	for n := 0; n < len(parts); {
		s = strings.TrimLeft(s, " ,.-/")
		size := strings.IndexFunc(s+".", func(r rune) bool { return !unicode.IsLetter(r) })
		if digits := len(s) - len(strings.TrimLeft(s, "0123456789")); digits > 0 {
			parts[n] = s[:digits]
			s = s[digits:]
			if n == 0 || month > 0 {
				for _, suffix := range []string{"st", "nd", "rd", "th"} {
					s = strings.TrimPrefix(s, suffix)
				}
			}
			n++
			continue
		}
		word := s[:size]
		s = s[size:]
		switch {
		case word == "de" || word == "of", n == 0 && weekdayNames()[word]:
		case month > 0 || monthNames()[word] == 0:
			return "", ""
		default:
			month, at = monthNames()[word], n
			n++
		}
	}
	if month == 0 || at == 2 {
		return "", ""
	}
	day, year := parts[1-at], parts[2]
	if len(day) == 4 {
		day, year = year, day
	}
	if len(day) > 2 || len(year) != 4 && (len(year) != 2 || day == parts[2]) {
		return "", ""
	}
	d, _ := strconv.Atoi(day)
	y, _ := strconv.Atoi(year)
	return dateOf(y, month, d, len(year)), strings.TrimLeft(s, " ,t")
}
