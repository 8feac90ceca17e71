package jsonx

import "unicode/utf8"

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string with its quotes. The result is one line of valid UTF-8: control
// characters are escaped, invalid bytes become U+FFFD, and U+2028 and U+2029 are escaped because some readers
// treat them as line ends.
func AppendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			from = i
			continue
		}
		r, n := decodeRune(s, i)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, s[from:i]...)
			dst = append(dst, "\ufffd"...)
			from = i + 1
		case r == 0x2028 || r == 0x2029:
			dst = append(dst, s[from:i]...)
			dst = append(dst, '\\', 'u', '2', '0', '2', hex[r&15])
			from = i + n
		}
		i += n
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// decodeRune is utf8.DecodeRune for both kinds of text. It copies one character, because converting s would copy the rest.
func decodeRune[T ~string | ~[]byte](s T, i int) (rune, int) {
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s[i:min(len(s), i+utf8.UTFMax)])])
}

// plain reports which bytes need no escaping inside a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()
