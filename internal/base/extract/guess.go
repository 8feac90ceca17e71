package extract

import (
	"bytes"
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

// guessed returns the encoding of a text by the frequencies of its bytes; "" if it is not
// certain. Encodings of the Latin alphabet are not guessed here, because the frequencies do
// not distinguish them; see [western].
func guessed(data []byte) string {
	data = data[:min(len(data), guessBytes)]
	r := chardet.Detect(data)
	if r.Confidence < sure {
		return ""
	}
	if r.Encoding == "GB2312" || r.Encoding == "Big5" { // each is often taken for the other one
		return chinese(data)
	}
	if _, ok := decodes(r.Encoding, data); !ok {
		return ""
	}
	return r.Encoding
}

// decodes returns a text in an encoding and reports whether it is valid there.
func decodes(label string, data []byte) (string, bool) {
	e, err := htmlindex.Get(label)
	if err != nil {
		return "", false
	}
	s, bad := decodeWith(e, data)
	return s, bad*damagedRate <= len(s)
}

// hanzi are the most frequent Chinese characters, in both forms. They are a third of an
// ordinary text.
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

// westernLetters are letters of Windows-1252 that other encodings of the Latin alphabet
// replace by others. A text with them must have words of a western language.
const westernLetters = "àèìòùÀÈÌÒÙãõÃÕñÑåÅæÆøØêûÊÛïÏœŒ¿¡"

// sharedLetters are the letters that Windows-1250, 1252 and 1254 have in common.
const sharedLetters = "áâäçéëíîóôöúüßÁÂÄÇÉËÍÎÓÔÖÚÜ§©®°«»·±´¨¦¤\u00a0"

// typography are the quotes, dashes and other signs that they have in common.
const typography = "€‚„…†‡‰‹‘’“”•–—™›"

// westernWords are frequent words of western languages that are rare in the others. They
// contain only letters of ASCII.
const westernWords = "the and of that with der die und ist nicht mit den das ein eine le les et est une que pour dans des du il che per non una sono con el los las del por para como um uma em os dos na och att det som en har til er og ikke av het een van niet zijn"

// western reports whether a text that is not UTF-8 is certainly in Windows-1252: its bytes
// above ASCII are letters of words and typographic signs, and either they mean the same in all
// encodings of the Latin alphabet, or the words are western.
func western(data []byte) bool {
	data = data[:min(len(data), guessBytes)]
	s, ok := decodes("windows-1252", data)
	if !ok {
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

// westernShare reports whether enough words of a text are western.
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
