package extract

import (
	"bytes"
	"fmt"
	"mime"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// A text may have at most one damaged byte per damagedRate bytes. If it is otherwise ASCII, at most strayBytes of them may
// be in words, because more are letters of an unknown encoding.
const damagedRate, strayBytes = 100, 2

// readText returns a text in UTF-8; HTML as Markdown, JSON with its letters.
func readText(d Document, k textKind, data []byte) Result {
	s, name, r := decode(d, data)
	if r.Status != "" {
		return r
	}
	if k == kindText && isHTML(d.Name, []byte(s[:min(len(s), HeadBytes)])) {
		k = kindHTML
	}
	var f flow
	switch k {
	case kindHTML:
		s = htmlText(s)
	case kindJSON:
		s = unescapeJSON(s)
	}
	f.write(s)
	got := f.result(0, strings.TrimSpace(s) == "")
	got.Encoding = name
	if r.Note != "" {
		got.Note = strings.TrimSpace(r.Note + " " + got.Note)
	}
	return got
}

// decode returns the content of a text in UTF-8 and the name of its encoding, "" for UTF-8.
// The Result has a status if there is no text, otherwise only a note.
func decode(d Document, data []byte) (s, name string, r Result) {
	if d.Encoding != "" {
		return decodeAs(d.Encoding, data)
	}
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		data = data[3:]
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		return decodeAs("utf-16le", data[2:])
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		return decodeAs("utf-16be", data[2:])
	}
	nul, declared := bytes.Count(data, []byte{0}), declaredCharset(d.MediaType, data)
	if declared == "iso-2022-jp" || bytes.Contains(data, []byte("\x1b$B")) && bytes.Contains(data, []byte("\x1b(B")) { // of ASCII characters only
		return decodeAs("iso-2022-jp", data)
	}
	if utf8.Valid(data) && nul == 0 {
		return string(data), "", Result{}
	}
	if wide := wideOrder(data, nul); wide != "" {
		return decodeAs(wide, data)
	}
	bad, good := damage(data)
	few := (bad+nul)*damagedRate <= len(data)
	switch {
	case few && good > bad:
		return repaired(data, bad+nul)
	case nul*damagedRate > len(data) || controls(data):
		return "", "", none()
	case declared != "" && declared != "utf-8":
		return decodeAs(declared, data)
	}
	found := evidence(data)
	if good <= bad && western(found) {
		return decodeAs("windows-1252", data)
	}
	if guess := guessed(found); guess != "" {
		return decodeAs(guess, data)
	}
	if few && inWords(data) <= strayBytes {
		return repaired(data, bad+nul)
	}
	return "", "", unknownEncoding("The encoding of the text is not certain.")
}

func unknownEncoding(why string) Result {
	return Result{Status: UnknownEncoding, Note: why + " State it, or store the text as UTF-8."}
}

// repaired returns a text in UTF-8 whose damaged bytes are replaced.
func repaired(data []byte, n int) (string, string, Result) {
	s := strings.ReplaceAll(validUTF8(data), "\x00", "\ufffd")
	return s, "", Result{Note: fmt.Sprintf("%d damaged bytes were replaced.", n)}
}

func validUTF8(data []byte) string {
	var b strings.Builder
	b.Grow(len(data) + 64)
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		b.WriteRune(r)
		data = data[n:]
	}
	return b.String()
}

// damage counts the invalid bytes of UTF-8, and the valid letters of more than one byte.
func damage(data []byte) (bad, good int) {
	for i := 0; i < len(data); {
		if data[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			bad++
		} else {
			good++
		}
		i += n
	}
	return bad, good
}

// inWords counts the bytes above ASCII that stand beside another one or a letter.
func inWords(data []byte) (n int) {
	letter := func(i int) bool {
		return i >= 0 && i < len(data) && (data[i] >= utf8.RuneSelf || unicode.IsLetter(rune(data[i])))
	}
	for i, c := range data {
		if c >= utf8.RuneSelf && (letter(i-1) || letter(i+1)) {
			n++
		}
	}
	return n
}

func decodeAs(label string, data []byte) (string, string, Result) {
	e, err := htmlindex.Get(label)
	if err != nil {
		return "", "", unknownEncoding(fmt.Sprintf("The encoding %.40q is not known.", label))
	}
	name, err := htmlindex.Name(e)
	if err != nil || name == "replacement" || name == "x-user-defined" {
		return "", "", unknownEncoding(fmt.Sprintf("The encoding %.40q is not supported.", label))
	}
	if name == "utf-8" {
		name = ""
		data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
		if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
			return string(data), "", Result{}
		}
		bad, _ := damage(data)
		return repaired(data, bad+bytes.Count(data, []byte{0}))
	}
	s, bad := decodeWith(e, data)
	s = strings.TrimPrefix(s, "\ufeff")
	if strings.Contains(s, "\x00") {
		s = strings.ReplaceAll(s, "\x00", "\ufffd")
	}
	switch {
	case bad*5 > utf8.RuneCountInString(s):
		return "", "", unknownEncoding(fmt.Sprintf("The content is not text in the encoding %s.", name))
	case bad > 0:
		return s, name, Result{Note: fmt.Sprintf("%d damaged letters were replaced.", bad)}
	}
	return s, name, Result{}
}

func decodeWith(e encoding.Encoding, data []byte) (string, int) {
	if len(data) > 4*MaxText {
		data = data[:4*MaxText]
	}
	out, err := e.NewDecoder().Bytes(data)
	if err != nil {
		return "", len(data)
	}
	s := string(out)
	return s, strings.Count(s, "\ufffd")
}

// wideOrder returns the name of UTF-16 in the byte order that the pattern of zero bytes shows;
// "" for other contents.
func wideOrder(data []byte, nul int) string {
	if len(data) < 8 || len(data)%2 != 0 || nul*50 < len(data) {
		return ""
	}
	even := 0
	for i := 0; i < len(data); i += 2 {
		if data[i] == 0 {
			even++
		}
	}
	name, big := "utf-16le", false
	switch {
	case even*20 > nul*19:
		name, big = "utf-16be", true
	case even*20 > nul:
		return ""
	}
	units := make([]uint16, 0, 4096)
	for i := 0; i+1 < len(data) && len(units) < cap(units); i += 2 {
		if big {
			units = append(units, uint16(data[i])<<8|uint16(data[i+1]))
		} else {
			units = append(units, uint16(data[i+1])<<8|uint16(data[i]))
		}
	}
	odd := 0
	for _, r := range utf16.Decode(units) {
		if r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			odd++
		}
	}
	if odd*20 > len(units) {
		return ""
	}
	return name
}

// controls reports whether a content has too many control characters for a text.
func controls(data []byte) bool {
	n := 0
	for _, c := range data {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1b || c == 0x7f {
			n++
		}
	}
	return n*damagedRate > len(data)
}

// charsetOf finds a declaration of HTML or XML. It is compiled on first use, because only a child needs it.
var charsetOf = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)<meta[^>]{0,200}charset\s*=\s*["']?\s*([-\w:.]+)|^<\?xml[^>]{0,200}encoding\s*=\s*["']([-\w:.]+)`)
})

// declaredCharset returns the name of the encoding that the type of a text or its beginning
// declares; "" without a declaration.
func declaredCharset(mediaType string, data []byte) string {
	label := ""
	if _, params, err := mime.ParseMediaType(mediaType); err == nil {
		label = params["charset"]
	}
	if m := charsetOf().FindSubmatch(data[:min(len(data), 2048)]); m != nil && label == "" {
		label = string(m[1]) + string(m[2])
	}
	if e, err := htmlindex.Get(label); err == nil {
		name, _ := htmlindex.Name(e)
		return name
	}
	return strings.ToLower(label)
}

// unescapeJSON writes the letters of a JSON text that are escaped by their numbers. It keeps what JSON has to escape, so
// that the line numbers stay the same.
func unescapeJSON(s string) string {
	if !strings.Contains(s, `\u`) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		if s[i+1] != 'u' {
			b.WriteString(s[i : i+2])
			i += 2
			continue
		}
		r, n := escaped(s[i:])
		if n > 6 || n == 6 && r > '~' && !utf16.IsSurrogate(r) && unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			n = min(max(n, 2), 6)
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// escaped reads \uXXXX, or two of them for a letter outside of the first plane.
func escaped(s string) (r rune, n int) {
	unit := func(s string) rune {
		if len(s) < 6 || s[:2] != `\u` {
			return -1
		}
		v, err := strconv.ParseUint(s[2:6], 16, 16)
		if err != nil {
			return -1
		}
		return rune(v)
	}
	r = unit(s)
	if r < 0 {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if both := utf16.DecodeRune(r, unit(s[6:])); both != utf8.RuneError {
			return both, 12
		}
	}
	return r, 6
}
