package drive

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord is the maximum length of an indexed word in bytes. Longer ones are truncated in texts and
// in queries alike, so that they still match.
const maxWord = 64

// A word is one word of a text in its indexed form.
type word struct {
	text       string // folded: letters, digits and marks only
	start, end int    // bytes in the text
	first      bool   // a single character of a script without spaces, which is also the beginning of pairs
}

// eachWord splits a text into words and calls fn with each until it returns false. Words are
// runs of letters and digits. Text in scripts without spaces (such as Han, kana, Thai)
// becomes overlapping pairs of characters, and the last character alone, so that any part of
// it can be found. A pair also spans a line end, because documents wrap their lines within words.
// One tokenizer serves both databases, for texts and for queries, since those of FTS5 and
// tsvector differ and neither finds a part of a Chinese sentence.
func eachWord(text string, fn func(word) bool) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case dense(r):
			end := i
			for end < len(text) {
				if n := denseLen(text[end:]); n > 0 {
					end += n
					continue
				}
				break
			}
			if !eachPair(text, i, end, fn) {
				return
			}
			i = end
		case inWord(r):
			end, ascii := i, true
			for end < len(text) {
				r, n := utf8.DecodeRuneInString(text[end:])
				if !inWord(r) || dense(r) {
					// "don't" is one word, and so are "l’été" and a word with a soft hyphen.
					if (r == '\'' || r == '’' || r == '\u00ad') && end > i && joins(text[end+n:]) {
						ascii = ascii && r == '\''
						end += n
						continue
					}
					break
				}
				ascii = ascii && r < utf8.RuneSelf
				end += n
			}
			if w := fold(text[i:end], ascii); w != "" && !fn(word{text: w, start: i, end: end}) {
				return
			}
			i = end
		default:
			i += n
		}
	}
}

func joins(rest string) bool {
	r, _ := utf8.DecodeRuneInString(rest)
	return unicode.IsLetter(r) && !dense(r)
}

// denseLen returns the length of the first character of a text, with a line end before it; 0 if its
// script separates words.
func denseLen(text string) int {
	rest, windows := strings.CutPrefix(text, "\r\n")
	if !windows {
		rest = strings.TrimPrefix(text, "\n")
	}
	if r, n := utf8.DecodeRuneInString(rest); dense(r) {
		return len(text) - len(rest) + n
	}
	return 0
}

// eachPair calls fn for the overlapping pairs of characters in text[i:end], which is in a script
// without spaces.
func eachPair(text string, i, end int, fn func(word) bool) bool {
	for i < end {
		i += len(text[i:]) - len(strings.TrimLeft(text[i:], "\r\n"))
		_, n := utf8.DecodeRuneInString(text[i:])
		stop := i + n
		single := stop == end
		if !single {
			stop += denseLen(text[stop:])
		}
		if w := fold(text[i:stop], false); w != "" && !fn(word{text: w, start: i, end: stop, first: single}) {
			return false
		}
		i += n
	}
	return true
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// dense reports whether a character belongs to a script that does not separate words by spaces.
func dense(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) ||
		r == 'ー' || r == '々'
}

// fold returns the indexed form of a word: lower case, without the accents of
// Latin, Greek and Cyrillic letters and the vowel marks of Arabic ones, in NFKC, and without
// the s of an English plural.
func fold(w string, ascii bool) string {
	if ascii {
		w = singular(strings.ReplaceAll(strings.ToLower(w), "'", ""))
		return w[:min(len(w), maxWord)]
	}
	w = strings.ToLower(norm.NFKD.String(strings.ToLower(w)))
	w = strings.Map(func(r rune) rune {
		if 0x0300 <= r && r <= 0x036f || 0x064b <= r && r <= 0x0652 || r == 0x0670 || r == 0x0640 || !inWord(r) && r != 'ー' {
			return -1
		}
		return r
	}, strings.ReplaceAll(w, "ß", "ss"))
	w = norm.NFKC.String(w)
	if len(w) > maxWord {
		cut := maxWord
		for !utf8.RuneStart(w[cut]) {
			cut--
		}
		w = w[:cut]
	}
	if isASCII(w) {
		w = singular(w)
	}
	return w
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// singular removes the plural ending of an English word. It is cautious: it may fail to unify
// two forms of a word, but rarely merges two words.
func singular(w string) string {
	n := len(w)
	if n < 4 || w[n-1] != 's' {
		return w
	}
	switch {
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "ies") && n > 4:
		return w[:n-3] + "y"
	case strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "sses"):
		return w[:n-2]
	}
	return w[:n-1]
}
