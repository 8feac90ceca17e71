package extract

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	lastSerial = 2_958_465 // 9999-12-31

	// Languages of Windows (MS-LCID).
	chineseID    = 0x04
	germanID     = 0x07
	japaneseID   = 0x11
	koreanID     = 0x12
	thaiID       = 0x1e
	vietnameseID = 0x2a
	taiwan       = -1 // Chinese with the calendar of the Republic of China
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
	if smallest > 0 || elapsed && slices.ContainsFunc(s.tokens, func(t formatToken) bool {
		return (t.kind == fmtDate || t.kind == fmtElapsed) && strings.HasPrefix(strings.ToLower(t.text), "s")
	}) {
		precision = math.Pow10(min(smallest, 5))
	}
	seconds := math.Round(v*86400*precision) / precision
	days := int(math.Floor(seconds / 86400))
	rest := math.Round((seconds-float64(days)*86400)*precision) / precision
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
				fmt.Fprintf(&b, "%02d", (year+s.years)%100)
			case letter == "y":
				fmt.Fprintf(&b, "%04d", year+s.years)
			case letter == "b":
				fmt.Fprintf(&b, "%d", year+543)
			case letter == "g" || letter == "e":
				b.WriteString(s.era(letter, n, year, month, day))
			case letter == "m" && s.minutes(i):
				fmt.Fprintf(&b, "%0*d", min(n, 2), minute)
			case letter == "m" && n <= 2:
				fmt.Fprintf(&b, "%0*d", n, month)
			case letter == "m":
				names := monthsAlone(s.language)
				if n != 3 && slices.ContainsFunc(s.tokens, func(t formatToken) bool {
					return t.kind == fmtDate && len(t.text) <= 2 && (t.text[0] == 'd' || t.text[0] == 'D')
				}) {
					names = months(s.language)
				}
				text := nameOf(names, month-1, n, s.language)
				if n == 3 && aloneNames[s.language] != "" {
					text = strings.ToLower(text)
				}
				b.WriteString(text)
			case letter == "d" && n <= 2:
				fmt.Fprintf(&b, "%0*d", n, day)
			case letter == "d":
				b.WriteString(nameOf(weekdays(s.language), weekday, n, s.language))
			case letter == "a": // as d, in East Asian editions
				b.WriteString(strings.TrimPrefix(nameOf(weekdays(s.language), weekday, n, s.language), "周"))
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

var eras = []struct {
	year, month, day int
	name, letter     string
}{{2019, 5, 1, "令和", "R"}, {1989, 1, 8, "平成", "H"}, {1926, 12, 25, "昭和", "S"}, {1912, 7, 30, "大正", "T"}, {1868, 1, 25, "明治", "M"}}

// era returns the name (g) or the year (e) of an era; elsewhere e is the year.
func (s *formatSection) era(letter string, n, year, month, day int) string {
	switch s.language {
	case taiwan:
		if letter == "e" {
			return strconv.Itoa(max(year-1911, 1912-year))
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
	0x01:       "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر الأحد الاثنين الثلاثاء الأربعاء الخميس الجمعة السبت",
	0x02:       "януари февруари март април май юни юли август септември октомври ноември декември неделя понеделник вторник сряда четвъртък петък събота",
	0x03:       "gener febrer març abril maig juny juliol agost setembre octubre novembre desembre diumenge dilluns dimarts dimecres dijous divendres dissabte",
	0x08:       "Ιανουαρίου Φεβρουαρίου Μαρτίου Απριλίου Μαΐου Ιουνίου Ιουλίου Αυγούστου Σεπτεμβρίου Οκτωβρίου Νοεμβρίου Δεκεμβρίου Κυριακή Δευτέρα Τρίτη Τετάρτη Πέμπτη Παρασκευή Σάββατο",
	0x0d:       "ינואר פברואר מרץ אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר ראשון שני שלישי רביעי חמישי שישי שבת",
	0x0e:       "január február március április május június július augusztus szeptember október november december vasárnap hétfő kedd szerda csütörtök péntek szombat",
	0x18:       "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie duminică luni marți miercuri joi vineri sâmbătă",
	0x1b:       "januára februára marca apríla mája júna júla augusta septembra októbra novembra decembra Nedeľa Pondelok Utorok Streda Štvrtok Piatok Sobota",
	0x1e:       "มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม อาทิตย์ จันทร์ อังคาร พุธ พฤหัสบดี ศุกร์ เสาร์",
	0x21:       "Januari Februari Maret April Mei Juni Juli Agustus September Oktober November Desember Minggu Senin Selasa Rabu Kamis Jumat Sabtu",
	0x22:       "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня неділя понеділок вівторок середа четвер п'ятниця субота",
	0x24:       "januar februar marec april maj junij julij avgust september oktober november december nedelja ponedeljek torek sreda četrtek petek sobota",
	0x25:       "jaanuar veebruar märts aprill mai juuni juuli august september oktoober november detsember pühapäev esmaspäev teisipäev kolmapäev neljapäev reede laupäev",
	0x26:       "janvāris februāris marts aprīlis maijs jūnijs jūlijs augusts septembris oktobris novembris decembris svētdiena pirmdiena otrdiena trešdiena ceturtdiena piektdiena sestdiena",
	0x27:       "sausio vasario kovo balandžio gegužės birželio liepos rugpjūčio rugsėjo spalio lapkričio gruodžio sekmadienis pirmadienis antradienis trečiadienis ketvirtadienis penktadienis šeštadienis",
	0x2a:       "Tháng_01 Tháng_02 Tháng_03 Tháng_04 Tháng_05 Tháng_06 Tháng_07 Tháng_08 Tháng_09 Tháng_10 Tháng_11 Tháng_12 Chủ_Nhật Thứ_Hai Thứ_Ba Thứ_Tư Thứ_Năm Thứ_Sáu Thứ_Bảy",
	0x39:       "जनवरी फरवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर रविवार सोमवार मंगलवार बुधवार गुरुवार शुक्रवार शनिवार",
	chineseID:  "一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月 星期日 星期一 星期二 星期三 星期四 星期五 星期六",
	japaneseID: "1月 2月 3月 4月 5月 6月 7月 8月 9月 10月 11月 12月 日曜日 月曜日 火曜日 水曜日 木曜日 金曜日 土曜日",
	koreanID:   "1월 2월 3월 4월 5월 6월 7월 8월 9월 10월 11월 12월 일요일 월요일 화요일 수요일 목요일 금요일 토요일",
}

// aloneNames are the months in the form that stands without a day, where that is another one.
var aloneNames = map[int]string{
	0x05: "leden únor březen duben květen červen červenec srpen září říjen listopad prosinec",
	0x0b: "tammikuu helmikuu maaliskuu huhtikuu toukokuu kesäkuu heinäkuu elokuu syyskuu lokakuu marraskuu joulukuu",
	0x15: "styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik listopad grudzień",
	0x19: "Январь Февраль Март Апрель Май Июнь Июль Август Сентябрь Октябрь Ноябрь Декабрь",
	0x1b: "január február marec apríl máj jún júl august september október november december",
	0x22: "Січень Лютий Березень Квітень Травень Червень Липень Серпень Вересень Жовтень Листопад Грудень",
	0x27: "sausis vasaris kovas balandis gegužė birželis liepa rugpjūtis rugsėjis spalis lapkritis gruodis",
}

// languageTags are the languages whose names are known, by their tags.
var languageTags = map[string]int{
	"ar": 0x01, "bg": 0x02, "ca": 0x03, "zh": chineseID, "cs": 0x05, "da": 0x06, "de": germanID, "el": 0x08, "es": 0x0a, "fi": 0x0b, "fr": 0x0c,
	"he": 0x0d, "hu": 0x0e, "it": 0x10, "ja": japaneseID, "ko": koreanID, "nl": 0x13, "nb": 0x14, "no": 0x14, "pl": 0x15, "pt": 0x16, "ro": 0x18,
	"ru": 0x19, "sk": 0x1b, "sv": 0x1d, "th": thaiID, "tr": 0x1f, "id": 0x21, "uk": 0x22, "sl": 0x24, "et": 0x25, "lv": 0x26, "lt": 0x27,
	"vi": vietnameseID, "hi": 0x39,
}

func namesOf(language int) []string {
	if language == taiwan {
		language = chineseID
	}
	list := dateNames[language]
	if list == "" {
		list = dateNames[0x09]
	}
	names := strings.Fields(list)
	for i := range names {
		names[i] = strings.ReplaceAll(names[i], "_", " ")
	}
	return names
}

func months(language int) []string   { return namesOf(language)[:12] }
func weekdays(language int) []string { return namesOf(language)[12:] }

func monthsAlone(language int) []string {
	if list := aloneNames[language]; list != "" {
		return strings.Fields(list)
	}
	return months(language)
}

// nameOf returns a name of a month or a day in as many letters as a format has: three are a short form, five its first
// letter. A short form may be longer, so that it differs from the other names, such as June and July in French.
func nameOf(names []string, at, letters, language int) string {
	full := names[at]
	runes := []rune(full)
	switch {
	case letters == 5:
		return string(runes[:1])
	case letters != 3:
		return full
	case language == chineseID || language == taiwan:
		return strings.Replace(full, "星期", "周", 1)
	case language == germanID && len(names) == 7:
		return string(runes[:2])
	case language == japaneseID || language == koreanID:
		if unicode.IsDigit(runes[0]) {
			return full
		}
		return string(runes[:1])
	case strings.ContainsFunc(full, unicode.IsMark) || language == vietnameseID || unicode.Is(unicode.Arabic, runes[0]):
		return full
	}
	for n := 3; n < len(runes); n++ {
		begin := string(runes[:n])
		if !slices.ContainsFunc(names, func(other string) bool { return other != full && strings.HasPrefix(other, begin) }) {
			return begin
		}
	}
	return full
}
