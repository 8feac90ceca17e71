package jsonx

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is the maximum depth of nested values, because the scan recurses and a text must not exhaust the stack.
const MaxDepth = 512

// A Cursor walks once over one JSON text in place, without allocating. It is for streams of
// providers, because only one or two members of each of their events matter. It is lenient like [Lenient], and also
// about types: it skips a value of another type than the requested one and reports it as absent.
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
//
// Providers' replies are read in place, so that a delta event costs one allocation, its text. Types are read
// leniently, because compatible servers send numbers as strings and null for anything; the codec decides what a wrong
// type means.
type Cursor struct {
	Key []byte // name of the current member, valid until the next one; its bytes are not checked

	buf     []byte
	pos     int
	depth   int
	fresh   bool // directly after { or [
	pending bool // the current member or element has not been read
	bad     bool
	reply   bool // created by [NewReplyCursor]
}

// NewCursor returns a cursor before the value of data. It keeps data and does not change it.
func NewCursor(data []byte) Cursor { return Cursor{buf: data, pending: true} }

// NewReplyCursor returns a cursor for the reply of a provider: in the strings that it reads, U+0000 becomes U+FFFD, like
// bytes that are not UTF-8, because PostgreSQL cannot store U+0000.
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

// Done reports whether the text was one JSON value and nothing else. It skips and checks unread parts.
func (c *Cursor) Done() bool {
	if c.pending {
		c.Skip()
	}
	return !c.bad && c.depth == 0 && c.peek() == 0 && c.pos == len(c.buf)
}

// Kind returns the first byte of the current value ('{', '[', '"', 't', 'f', 'n', or '0' for a number), or 0.
func (c *Cursor) Kind() byte {
	if c.bad || !c.pending {
		return 0
	}
	first := c.peek()
	if first == '-' || '0' <= first && first <= '9' {
		return '0'
	}
	return first
}

// Object enters the current value if it is an object and skips any other.
func (c *Cursor) Object() bool { return c.enter('{') }

// Array enters the current value if it is an array and skips any other.
func (c *Cursor) Array() bool { return c.enter('[') }

// enter enters an object or array and skips any other value. More than [MaxDepth] levels are an error.
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

// Member moves to the next member of the object entered last and sets Key. At the end of the object it leaves
// the object and returns false.
func (c *Cursor) Member() bool {
	if !c.next('}') {
		return false
	}
	b, from := c.buf, c.pos+1
	if c.pos == len(b) || b[c.pos] != '"' {
		return c.fail()
	}
	end, escaped := stringEnd(b, from)
	if end < 0 {
		return c.fail()
	}
	c.Key = b[from:end]
	if escaped {
		c.Key = Mend(unescape(nil, c.Key))
	}
	i := skipSpace(b, end+1)
	if i == len(b) || b[i] != ':' {
		return c.fail()
	}
	c.pos, c.pending = i+1, true
	return true
}

// Element moves to the next element of the array entered last. At the end of the array it leaves the array and
// returns false.
func (c *Cursor) Element() bool {
	if !c.next(']') {
		return false
	}
	c.pending = true
	return true
}

// next moves past the separator to the next member or element, or leaves the object or array at its end.
func (c *Cursor) next(end byte) bool {
	if c.pending {
		c.Skip()
	}
	if c.bad {
		return false
	}
	first := c.fresh
	c.fresh = false
	b := c.buf
	i := skipSpace(b, c.pos)
	switch {
	case i == len(b):
		return c.fail()
	case b[i] == end:
		c.pos = i + 1
		c.depth--
		return false
	case first:
		c.pos = i
		return true
	case b[i] != ',':
		return c.fail()
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == end {
		return c.fail()
	}
	c.pos = i
	return true
}

// Text reads a string as valid UTF-8.
func (c *Cursor) Text() (string, bool) {
	raw, escaped, ok := c.stringValue()
	if !ok {
		return "", false
	}
	if escaped || !utf8.Valid(raw) {
		return string(Mend(c.unescape(make([]byte, 0, len(raw)), raw))), true
	}
	return string(raw), true
}

// AppendPiece appends a string that may be a piece of a longer text. Half of a surrogate pair and invalid UTF-8 stay
// unchanged, so that [Mend] or a [Joiner] can add the other half.
func (c *Cursor) AppendPiece(dst []byte) ([]byte, bool) {
	raw, escaped, ok := c.stringValue()
	if !ok {
		return dst, false
	}
	if escaped {
		return c.unescape(dst, raw), true
	}
	return append(dst, raw...), true
}

// Is reports whether the current value is the string s, which must not need escaping, because escapes are not decoded.
func (c *Cursor) Is(s string) bool {
	raw, _, ok := c.stringValue()
	return ok && string(raw) == s
}

// Name reads a short word such as a type or a reason. Unlike Text it returns bytes of the document, so that it allocates
// nothing; they are valid as long as the document, with escapes as written.
func (c *Cursor) Name() []byte {
	raw, _, _ := c.stringValue()
	return raw
}

// Bool reads a boolean.
func (c *Cursor) Bool() (value, ok bool) {
	k := c.Kind()
	c.Skip()
	return k == 't' && !c.bad, (k == 't' || k == 'f') && !c.bad
}

// Int reads an integer. A number beyond int64 becomes the nearest int64; for a fraction, a string or anything else ok is
// false.
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

// Raw reads any value as the bytes of the document; nil after a syntax error.
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
	end := -1
	if c.pending {
		end = valueEnd(c.buf, c.pos, c.depth)
	}
	if end < 0 {
		c.fail()
		return
	}
	c.pos, c.pending = end, false
}

func (c *Cursor) fail() bool {
	c.bad, c.pending = true, false
	return false
}

func (c *Cursor) peek() byte {
	c.pos = skipSpace(c.buf, c.pos)
	if c.pos == len(c.buf) {
		return 0
	}
	return c.buf[c.pos]
}

func (c *Cursor) stringValue() (raw []byte, escaped, ok bool) {
	if c.Kind() != '"' {
		c.Skip()
		return nil, false, false
	}
	from := c.pos + 1
	end, escaped := stringEnd(c.buf, from)
	if end < 0 {
		c.fail()
		return nil, false, false
	}
	c.pos, c.pending = end+1, false
	return c.buf[from:end], escaped, true
}
