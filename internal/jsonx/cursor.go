package jsonx

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deeply a [Cursor] follows nested values.
const MaxDepth = 512

// A Cursor walks once over one JSON text in place, without allocating. It is for
// streams of providers, where one or two members of each event matter. It is
// lenient like [Lenient], and also about types: a value of another type than the
// requested one is skipped and reported as absent.
//
// The pattern is
//
//	c := jsonx.NewCursor(data)
//	if c.Object() {
//		for c.Member() {
//			switch string(c.Key) {
//			case "text":
//				text, ok = c.Text()
//			} // a member that was not read is skipped
//		}
//	}
//	if !c.Done() { … } // data was not one JSON value
//
// After a syntax error every method reports absence and Done is false.
// See docs/decisions/0006-one-json-cursor-for-provider-replies.md.
type Cursor struct {
	Key []byte // the name of the current member, valid until the next one; its bytes are not checked

	buf     []byte
	pos     int
	depth   int
	fresh   bool // directly after { or [
	pending bool // the current member or element was not read yet
	bad     bool
	reply   bool // made by NewReplyCursor
}

// NewCursor returns a cursor before the value of data, which it keeps and never
// changes.
func NewCursor(data []byte) Cursor { return Cursor{buf: data, pending: true} }

// NewReplyCursor returns a cursor for the reply of a provider: in the strings that
// it reads U+0000 becomes U+FFFD, like bytes that are no UTF-8, since PostgreSQL
// stores no U+0000.
func NewReplyCursor(data []byte) Cursor { return Cursor{buf: data, pending: true, reply: true} }

// unescape appends the value of a checked string with escapes.
func (c *Cursor) unescape(dst, raw []byte) []byte {
	from := len(dst)
	dst = unescape(dst, raw)
	if c.reply && bytes.IndexByte(dst[from:], 0) >= 0 {
		dst = append(dst[:from], bytes.ReplaceAll(dst[from:], []byte{0}, []byte("\ufffd"))...)
	}
	return dst
}

// Done reports whether the text was one JSON value and nothing else. What was
// not read yet is skipped and checked.
func (c *Cursor) Done() bool {
	if c.pending {
		c.Skip()
	}
	return !c.bad && c.depth == 0 && c.peek() == 0 && c.pos == len(c.buf)
}

// Kind returns the first byte of the current value ('{', '[', '"', 't', 'f', 'n', or
// '0' for a number), 0 if there is none.
func (c *Cursor) Kind() byte {
	if c.bad || !c.pending {
		return 0
	}
	k := c.peek()
	if k == '-' || '0' <= k && k <= '9' {
		return '0'
	}
	return k
}

// Object enters the current value if it is an object and skips any other.
func (c *Cursor) Object() bool { return c.enter('{') }

// Array enters the current value if it is an array and skips any other.
func (c *Cursor) Array() bool { return c.enter('[') }

// enter enters an object or array; a value of another kind is skipped. More
// than MaxDepth levels are an error.
func (c *Cursor) enter(open byte) bool {
	if c.Kind() != open {
		c.Skip()
		return false
	}
	if c.depth++; c.depth > MaxDepth {
		return c.fail()
	}
	c.pos++
	c.fresh, c.pending = true, false
	return true
}

// Member moves to the next member of the object entered last and sets Key. At the
// end of the object it leaves it and returns false.
func (c *Cursor) Member() bool {
	if !c.next('}') {
		return false
	}
	if c.peek() != '"' {
		return c.fail()
	}
	raw, escaped, ok := c.str()
	if !ok {
		return false
	}
	c.Key = raw
	if escaped {
		c.Key = Mend(unescape(nil, raw))
	}
	if c.peek() != ':' {
		return c.fail()
	}
	c.pos++
	c.pending = true
	return true
}

// Element moves to the next element of the array entered last. At the end of the
// array it leaves it and returns false.
func (c *Cursor) Element() bool {
	if !c.next(']') {
		return false
	}
	c.pending = true
	return true
}

// next moves past the separator to the next member or element, or leaves the
// object or array at its end.
func (c *Cursor) next(end byte) bool {
	if c.pending {
		c.Skip()
	}
	if c.bad {
		return false
	}
	first := c.fresh
	c.fresh = false
	switch k := c.peek(); {
	case k == end:
		c.pos++
		c.depth--
		return false
	case first:
		return true
	case k != ',':
		return c.fail()
	}
	c.pos++
	if c.peek() == end {
		return c.fail()
	}
	return true
}

// Text reads a string as valid UTF-8.
func (c *Cursor) Text() (string, bool) {
	raw, escaped, ok := c.take()
	if !ok {
		return "", false
	}
	if escaped || !utf8.Valid(raw) {
		return string(Mend(c.unescape(make([]byte, 0, len(raw)), raw))), true
	}
	return string(raw), true
}

// AppendPiece appends a string that may be a piece of a longer text: half of a
// surrogate pair and invalid UTF-8 stay unchanged until [Mend] or a [Joiner] gets
// the other half.
func (c *Cursor) AppendPiece(dst []byte) ([]byte, bool) {
	raw, escaped, ok := c.take()
	if !ok {
		return dst, false
	}
	if escaped {
		return c.unescape(dst, raw), true
	}
	return append(dst, raw...), true
}

// Is reports whether the current value is the string s, which needs no escape.
func (c *Cursor) Is(s string) bool {
	raw, _, ok := c.take()
	return ok && string(raw) == s
}

// Name reads a short word such as a type or a reason. Unlike Text it returns
// bytes of the document, valid as long as that is, with escapes as written.
func (c *Cursor) Name() []byte {
	raw, _, _ := c.take()
	return raw
}

// Bool reads a boolean.
func (c *Cursor) Bool() (value, ok bool) {
	k := c.Kind()
	c.Skip()
	return k == 't' && !c.bad, (k == 't' || k == 'f') && !c.bad
}

// Int reads an integer. A number beyond int64 becomes the nearest int64; a
// fraction, a string or anything else is not ok.
func (c *Cursor) Int() (int64, bool) {
	if c.Kind() != '0' {
		c.Skip()
		return 0, false
	}
	raw := c.Raw()
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64, true
	case f <= math.MinInt64:
		return math.MinInt64, true
	case err != nil || f != math.Trunc(f):
		return 0, false
	}
	return int64(f), true
}

// Raw reads any value as the bytes of the document. They are nil after a syntax error.
func (c *Cursor) Raw() []byte {
	c.peek()
	from := c.pos
	c.Skip()
	if c.bad {
		return nil
	}
	return c.buf[from:c.pos]
}

// Skip skips the current value and checks its syntax.
func (c *Cursor) Skip() {
	if c.bad {
		return
	}
	kind := c.Kind()
	c.pending = false
	switch kind {
	case '{':
		c.pending = true
		if c.Object() {
			for c.Member() {
			}
		}
	case '[':
		c.pending = true
		if c.Array() {
			for c.Element() {
			}
		}
	case '"':
		c.str()
	case '0':
		c.number()
	case 't':
		c.literal("true")
	case 'f':
		c.literal("false")
	case 'n':
		c.literal("null")
	default:
		c.fail()
	}
}

func (c *Cursor) fail() bool {
	c.bad, c.pending = true, false
	return false
}

// peek skips white space and returns the next byte, 0 at the end.
func (c *Cursor) peek() byte {
	for c.pos < len(c.buf) {
		switch k := c.buf[c.pos]; k {
		case ' ', '\n', '\r', '\t':
			c.pos++
		default:
			return k
		}
	}
	return 0
}

// take returns the current value if it is a string.
func (c *Cursor) take() (raw []byte, escaped, ok bool) {
	if c.Kind() != '"' {
		c.Skip()
		return nil, false, false
	}
	c.pending = false
	return c.str()
}

// str reads the string at pos, which is at its first quote.
func (c *Cursor) str() (raw []byte, escaped, ok bool) {
	from := c.pos + 1
	i := from
	for {
		// Eight bytes at a time while none of them is a quote, a backslash or a
		// control character (the classic tests for a zero byte and for one below n).
		for i+8 <= len(c.buf) {
			const ones, highs = 0x0101010101010101, 0x8080808080808080
			w := binary.LittleEndian.Uint64(c.buf[i:])
			q, s := w^(ones*'"'), w^(ones*'\\')
			if ((q-ones)&^q|(s-ones)&^s|(w-ones*0x20)&^w)&highs != 0 {
				break
			}
			i += 8
		}
		for stop := min(i+8, len(c.buf)); ; i++ {
			if i == len(c.buf) {
				c.fail()
				return nil, false, false
			}
			if i == stop {
				break // back to the eights
			}
			switch k := c.buf[i]; {
			case k == '"':
				c.pos = i + 1
				return c.buf[from:i], escaped, true
			case k == '\\':
				n := escapeLen(c.buf[i:])
				if n == 0 {
					c.fail()
					return nil, false, false
				}
				escaped = true
				i += n - 1
				stop = max(stop, i+1)
			case k < 0x20:
				c.fail()
				return nil, false, false
			}
		}
	}
}

// escapeLen returns the length of the escape that b begins with, 0 if there is
// none.
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

// unit returns the UTF-16 unit of the \uXXXX that b begins with.
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

// unescape appends the value of a checked string. An unpaired surrogate is
// written as the three bytes it would have in UTF-8 if that were allowed.
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

func (c *Cursor) literal(word string) {
	if len(c.buf)-c.pos < len(word) || string(c.buf[c.pos:c.pos+len(word)]) != word {
		c.fail()
		return
	}
	c.pos += len(word)
}

// number moves past a number and checks its syntax (RFC 8259, section 6).
func (c *Cursor) number() {
	digits := func() bool {
		from := c.pos
		for c.pos < len(c.buf) && '0' <= c.buf[c.pos] && c.buf[c.pos] <= '9' {
			c.pos++
		}
		return c.pos > from
	}
	at := func(k byte) bool {
		if c.pos < len(c.buf) && c.buf[c.pos] == k {
			c.pos++
			return true
		}
		return false
	}
	at('-')
	ok := at('0') || digits()
	if ok && at('.') {
		ok = digits()
	}
	if ok && (at('e') || at('E')) {
		if !at('+') {
			at('-')
		}
		ok = digits()
	}
	if !ok {
		c.fail()
	}
}
