package jsonx

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// The functions below scan JSON without state: they take a position and return a position, or
// -1 if the text violates the syntax (RFC 8259).

// skipSpace returns the position of the first byte from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// valueEnd returns the position after the value at i, which is nested in depth objects and arrays; white space may
// precede it. More than [MaxDepth] levels are an error.
func valueEnd(b []byte, i, depth int) int {
	if i = skipSpace(b, i); i == len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		if i, _ = stringEnd(b, i+1); i < 0 {
			return -1
		}
		return i + 1
	case '{':
		return objectEnd(b, i+1, depth+1)
	case '[':
		return arrayEnd(b, i+1, depth+1)
	case 't':
		return literalEnd(b, i, "true")
	case 'f':
		return literalEnd(b, i, "false")
	case 'n':
		return literalEnd(b, i, "null")
	}
	return numberEnd(b, i)
}

// objectEnd returns the position after the object whose brace precedes i.
func objectEnd(b []byte, i, depth int) int {
	if depth > MaxDepth {
		return -1
	}
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i == len(b) || b[i] != '"' {
			return -1
		}
		if i, _ = stringEnd(b, i+1); i < 0 {
			return -1
		}
		if i = skipSpace(b, i+1); i == len(b) || b[i] != ':' {
			return -1
		}
		if i = valueEnd(b, i+1, depth); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i == len(b) {
			return -1
		}
		if b[i] == '}' {
			return i + 1
		}
		if b[i] != ',' {
			return -1
		}
		i = skipSpace(b, i+1)
	}
}

// arrayEnd returns the position after the array whose bracket precedes i.
func arrayEnd(b []byte, i, depth int) int {
	if depth > MaxDepth {
		return -1
	}
	if i = skipSpace(b, i); i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = valueEnd(b, i, depth); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i == len(b) {
			return -1
		}
		if b[i] == ']' {
			return i + 1
		}
		if b[i] != ',' {
			return -1
		}
		i++
	}
}

// stringEnd returns the position of the quote that ends the string whose first byte is at i, and whether the string
// contains escapes.
func stringEnd(b []byte, i int) (end int, escaped bool) {
	for i < len(b) {
		if i+8 <= len(b) {
			// Eight bytes at a time while none of them is a quote, a backslash or a control character (the classic tests for a zero
			// byte and for one below n, which are exact for the first byte that they find).
			const ones, highs = 0x0101010101010101, 0x8080808080808080
			w := binary.LittleEndian.Uint64(b[i:])
			q, s := w^(ones*'"'), w^(ones*'\\')
			found := ((q-ones)&^q | (s-ones)&^s | (w-ones*0x20)&^w) & highs
			if found == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(found) / 8
		}
		switch k := b[i]; {
		case k == '"':
			return i, escaped
		case k == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				return -1, false
			}
			escaped = true
			i += n
		case k < 0x20:
			return -1, false
		default:
			i++
		}
	}
	return -1, false
}

// literalEnd returns the position after the word, if it is at i.
func literalEnd(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// numberEnd returns the position after the number at i (RFC 8259, section 6).
func numberEnd(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digitsEnd(b, i); i < 0 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = digitsEnd(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digitsEnd(b, i)
	}
	return i
}

// digitsEnd returns the position after the digits at i; there must be at least one.
func digitsEnd(b []byte, i int) int {
	from := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

// escapeLen returns the length of the escape at the start of b, or 0.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := unit(b); ok {
			return 6
		}
	}
	return 0
}

// unit returns the UTF-16 unit of the \uXXXX at the start of b.
func unit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, k := range b[2:6] {
		switch {
		case '0' <= k && k <= '9':
			k -= '0'
		case 'a' <= k && k <= 'f':
			k -= 'a' - 10
		case 'A' <= k && k <= 'F':
			k -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(k)
	}
	return r, true
}

// unescape appends the value of a checked string. It writes an unpaired surrogate as the three bytes that UTF-8 would use,
// so that a later piece can complete it.
func unescape(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			from := i
			for i < len(raw) && raw[i] != '\\' {
				i++
			}
			dst = append(dst, raw[from:i]...)
			continue
		}
		switch k := raw[i+1]; k {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := unit(raw[i:])
			i += 6
			if utf16.IsSurrogate(r) {
				low, _ := unit(raw[i:])
				if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
					dst = utf8.AppendRune(dst, full)
					i += 6
				} else {
					dst = append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f))
				}
			} else {
				dst = utf8.AppendRune(dst, r)
			}
			continue
		default:
			dst = append(dst, k)
		}
		i += 2
	}
	return dst
}
