package extract

import (
	"bytes"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wlynxg/chardet"
	"golang.org/x/text/encoding/htmlindex"
)

const (
	guessBytes = 256 << 10 // of a text whose encoding is guessed
	sure       = 0.8       // minimum confidence of a guess
)

// evidence returns what decides about the encoding of a text: the lines with bytes above ASCII, and of a long line the
// parts around them. Of more than guessBytes it returns parts from the whole text.
func evidence(data []byte) []byte {
	size := 0
	for part := range foreign(data) {
		size += len(part)
	}
	every, n := size/guessBytes+1, 0
	out := make([]byte, 0, size/every)
	for part := range foreign(data) {
		if n++; n%every == 0 {
			out = append(append(out, part...), '\n')
		}
	}
	return out
}

// foreign yields the parts of a text with bytes above ASCII. Each ends before a byte that is no second byte of a
// letter in any encoding but GB 18030.
func foreign(data []byte) iter.Seq[[]byte] {
	const around, longest = 128, 4096
	return func(yield func([]byte) bool) {
		for end := 0; ; {
			n := bytes.IndexFunc(data[end:], func(r rune) bool { return r >= utf8.RuneSelf })
			if n < 0 {
				return
			}
			first := end + n
			from := max(end, first-around)
			from += bytes.LastIndexByte(data[from:first], '\n') + 1
			for end = first; end < min(len(data), from+longest) && data[end] != '\n' && (end < first+around || data[end] >= 0x40); {
				end++
			}
			if !yield(data[from:end]) {
				return
			}
		}
	}
}

// guessed returns the encoding of the [evidence] of a text by the frequencies of its bytes; "" if it is not certain.
// Encodings of the Latin alphabet are not guessed here, because the frequencies do not distinguish them; see
// [western].
func guessed(data []byte) string {
	label := likely(data)
	// Two encodings are mostly like another one.
	switch between := func(signs string) int { // of the signs, those behind a small letter
		n := 0
		for i := 1; i < len(data); i++ {
			if strings.IndexByte(signs, data[i]) >= 0 && data[i-1] >= 0xc0 {
				n++
			}
		}
		return n
	}; strings.ToLower(label) {
	case "koi8-r":
		if between("\xa4\xa6\xa7\xad") > 0 { // Ukrainian letters, and else frames
			return "koi8-u"
		}
	case "windows-1251":
		if between("\xdf") > 1 && bytes.IndexByte(data, 0xff) < 0 { // я, and else Я
			return "x-mac-cyrillic"
		}
	}
	return label
}

// likely is [guessed] without encodings that are mostly like another one.
func likely(data []byte) string {
	r := chardet.Detect(data)
	if r.Confidence < sure {
		return frequent(data)
	}
	if r.Encoding == "ISO-8859-7" && bytes.IndexByte(data, 0xa2) >= 0 && bytes.IndexByte(data, 0xb6) < 0 {
		r.Encoding = "windows-1253" // the two differ in one letter
	}
	if r.Encoding == "GB2312" || r.Encoding == "Big5" { // each is often taken for the other one
		return chinese(data)
	}
	if _, ok := decodes(r.Encoding, data); !ok { // also MacCyrillic, which short texts of Windows-1251 are taken for
		return frequent(data)
	}
	return r.Encoding
}

func decodes(label string, data []byte) (string, bool) {
	e, err := htmlindex.Get(label)
	if err != nil {
		return "", false
	}
	s, bad := decodeWith(e, data)
	return s, bad*damagedRate <= len(s)
}

// hanzi are the most frequent Chinese characters, in both forms. They are a third of an ordinary text.
const hanzi = "的一是不了在人有我他这中大来上个国到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小么心多天而能好都然没日于起还发成事只作当想看文无开手用主行方又如前所本见经头面公同三已老从动两长知民样现分将外但身些与高意进把法此实回二理美点月明其种声全工己话儿者向情部正名定女问力机给等几很业最间新什打便位因重被走电四第门相次东政海口使教西再平真听世气信北少关并内加化由却代军产入先山五太水万市" +
	"這來個國說們為時會過對後麼沒於還發當開無見經頭從動兩長樣現將與進實點種聲話兒問機給業間電門東聽氣關並產萬"

// chinese returns the encoding in which a text has more frequent characters; "" if it has few
// in both.
func chinese(data []byte) string {
	best, most := "", 0
	for _, label := range []string{"gb18030", "big5"} {
		s, ok := decodes(label, data)
		if !ok {
			continue
		}
		han, common := 0, 0
		for _, r := range s {
			if unicode.Is(unicode.Han, r) {
				han++
				if strings.ContainsRune(hanzi, r) {
					common++
				}
			}
		}
		if common > most && common*10 > han {
			best, most = label, common
		}
	}
	return best
}

// Frequent letters of Japanese and of the Cyrillic alphabet. Katakana of one byte are left out, because the letters of
// other encodings look like them.
const (
	kana     = "ぁあぃいぅうぇえぉおかがきぎくぐけげこごさざしじすずせぜそぞただちっつづてでとどなにぬねのはばぱひびぴふぶぷへべぺほぼぽまみむめもゃやゅゆょよらりるれろわをんァアィイゥウェエォオカガキギクグケゲコゴサザシジスズセゼソゾタダチッツヅテデトドナニヌネノハバパヒビピフブプヘベペホボポマミムメモャヤュユョヨラリルレロワヲンヴー"
	cyrillic = "оеаинтсрвлкмдупя"
	arabic   = "اليمنوترهبدعفسكقحةأ"
	kanji    = "日一国会人年大十二本中長出三同時政事自行社見月分議後前民生連五発間対上部東者党地合市業内相方四定今回新場金員九入選立開手米力学問高代明実円関決子動京全目表戦経通外最言氏現理調体化田当八六約主題下首意法不来作性的要用制治度務強気小七成期公野協取都和統以機平総加山思家話世受区領多県続進正安設保改数記院女初北午指権心界支第産結百派点教報済書府活原先共得解名交資予川向際査勝面委告軍文反元重近千考判認画海参売利組知案道信策集在件団別物側任引使求所次水半品昨論計死官増係感特情投示変打男基私各始島直両朝価式確村提運終果西勢減台広容必応電歳住争談能無再位置企真流格有口過局少放税検町常校料状工建語営空職証土急止送供可役構木割聞身費付施切由説転食比難防補車優夫研収断何南石足違消境神番規術展態導備宅害配副算視条独育席輸訪楽起万着乗店残想線率病農州声質念待試族象銀域助労例然早張限親額環験追商葉義伝働形落担退準辺造英被株頭技低毎医復仕去味負失移差個門写評課末守若種美影命含福量望整段型白深字夜製票況音申様財港識注達号庫単"
)

var frequentLetters = []struct{ label, letters string }{
	{"shift_jis", kana + kanji},
	{"windows-1251", cyrillic},
	{"koi8-r", cyrillic},
	{"ibm866", cyrillic},
	{"iso-8859-5", cyrillic},
	{"windows-1256", arabic},
	{"iso-8859-6", arabic},
}

// frequent returns the encoding in which most letters of a short text are frequent ones; "" if there is none, or more
// than one. A word with letters of ASCII, too, is of the Latin alphabet.
func frequent(data []byte) string {
	best, most, second := "", 0.0, 0.0
	for _, c := range frequentLetters {
		s, ok := decodes(c.label, data)
		if !ok {
			continue
		}
		letters, common, kinds := 0, 0, map[rune]bool{}
		for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return r < utf8.RuneSelf && !unicode.IsLetter(r) || unicode.Is(unicode.Punct, r) }) {
			mixed := strings.ContainsFunc(word, func(r rune) bool { return r < utf8.RuneSelf })
			for i, r := range word {
				if i == 0 {
					r = unicode.ToLower(r)
				}
				if r >= utf8.RuneSelf {
					letters++
					if !mixed && strings.ContainsRune(c.letters, r) {
						common++
						kinds[r] = true
					}
				}
			}
		}
		share := float64(common) / float64(letters)
		switch {
		case len(kinds) < 4:
		case share > most:
			best, most, second = c.label, share, most
		case share > second:
			second = share
		}
	}
	if most < 0.5 || second > most*0.8 {
		return ""
	}
	return best
}

// westernLetters are letters of Windows-1252 that other encodings of the Latin alphabet replace by others, so that a text
// with them must contain words of a western language.
const westernLetters = "àèìòùÀÈÌÒÙãõÃÕñÑåÅæÆøØêûÊÛïÏœŒ¿¡"

// sharedLetters are the letters that Windows-1250, 1252 and 1254 have in common.
const sharedLetters = "áâäçéëíîóôöúüßÁÂÄÇÉËÍÎÓÔÖÚÜ§©®°«»·±´¨¦¤\u00a0"

// typography contains quotes, dashes and other signs that they have in common.
const typography = "€‚„…†‡‰‹‘’“”•–—™›"

// westernWords are frequent words of western languages that are rare in the others. They
// contain only letters of ASCII.
const westernWords = "the and of that with der die und ist nicht mit den das ein eine le les et est une que pour dans des du il che per non una sono con el los las del por para como um uma em os dos na och att det som en har til er og ikke av het een van niet zijn"

// western reports whether a text that is not UTF-8 is certainly in Windows-1252: the bytes above ASCII in its
// [evidence] are letters of words and typographic signs, and either they mean the same in all
// encodings of the Latin alphabet, or the words are western.
func western(data []byte) bool {
	s, ok := decodes("windows-1252", data)
	if !ok || s == "" {
		return false
	}
	ascii, high, special := 0, 0, false
	before := ' '
	for i, r := range s {
		switch {
		case r < utf8.RuneSelf:
			if unicode.IsLetter(r) {
				ascii++
			}
		case strings.ContainsRune(sharedLetters, r):
			high++
		case strings.ContainsRune(westernLetters, r):
			special = true
			high++
		case strings.ContainsRune(typography, r):
			after, _ := utf8.DecodeRuneInString(s[i+utf8.RuneLen(r):])
			if r != '’' && r != '–' && r != '—' && r != '…' && unicode.IsLetter(before) && unicode.IsLetter(after) {
				return false // a letter of an old encoding
			}
		default:
			return false
		}
		before = r
	}
	if ascii < 3*high {
		return false
	}
	return !special || westernShare(data)
}

func westernShare(data []byte) bool {
	words, western := 0, 0
	list := " " + westernWords + " "
	for w := range bytes.FieldsFuncSeq(bytes.ToLower(data), func(r rune) bool { return r < utf8.RuneSelf && !unicode.IsLetter(r) }) {
		words++
		if len(w) > 1 && strings.Contains(list, " "+string(w)+" ") {
			western++
		}
	}
	return western*25 >= words
}
