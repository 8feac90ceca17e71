package extract

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

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
