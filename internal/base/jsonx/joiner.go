package jsonx

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A Joiner joins a text that arrives in strings, because providers may cut these inside a character or a
// surrogate pair. It returns whole code points, always valid UTF-8. The zero value is ready to use.
type Joiner struct {
	held []byte // beginning of an incomplete character
	work []byte
	slab strings.Builder // memory of short texts
}

const (
	slabSize = 256 // size of the memory that short texts share, in bytes; small, because keeping one of them keeps all
	short    = 64  // maximum size of a text that shares memory, in bytes
)

// Next reads the string of the cursor and returns the complete text so far, which may be empty.
func (j *Joiner) Next(c *Cursor) string {
	raw, escaped, ok := c.stringValue()
	if !ok {
		return ""
	}
	if len(j.held) == 0 && !escaped && utf8.Valid(raw) {
		// Short texts share memory, because providers send a few bytes at a time and an allocation for each would be a third of
		// the allocations of a stream.
		if len(raw) > short {
			return string(raw)
		}
		if j.slab.Cap()-j.slab.Len() < len(raw) {
			j.slab.Reset()
			j.slab.Grow(slabSize)
		}
		from := j.slab.Len()
		j.slab.Write(raw)
		return j.slab.String()[from:]
	}
	j.work = append(j.work[:0], j.held...)
	if escaped {
		j.work = c.unescape(j.work, raw)
	} else {
		j.work = append(j.work, raw...)
	}
	return j.whole()
}

// Piece is [Joiner.Next] for the result of [Cursor.AppendPiece].
func (j *Joiner) Piece(b []byte) string {
	j.work = append(append(j.work[:0], j.held...), b...)
	return j.whole()
}

// whole returns the complete characters of work and holds the rest.
func (j *Joiner) whole() string {
	whole := len(j.work) - unfinished(j.work)
	j.held = append(j.held[:0], j.work[whole:]...)
	return string(Mend(j.work[:whole]))
}

// Rest returns U+FFFD for an incomplete character; usually it returns "".
func (j *Joiner) Rest() string {
	s := string(Mend(j.held))
	j.held = j.held[:0]
	return s
}

// unfinished returns the length of the character at b's end that could still be completed: the first bytes of a
// longer one, or the first half of a pair and what may be the beginning of its second half.
func unfinished(b []byte) int {
	for n := 1; n <= min(utf8.UTFMax, len(b)); n++ {
		tail := b[len(b)-n:]
		if tail[0] < utf8.RuneSelf {
			return 0
		}
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		high := tail[0] == 0xed && (n == 1 || tail[1] >= 0xa0) // may be a surrogate
		switch {
		case high && n == 3 && tail[1] < 0xb0:
			return n
		case high && n < 3:
			if n == 2 && tail[1] >= 0xb0 || n == 1 {
				// The beginning of a second half stays with the first half before it, because only both make a character.
				if m := len(b) - n; m >= 3 && surrogate(b[m-3:m]) != 0 && b[m-2] < 0xb0 {
					return n + 3
				}
			}
			return n
		case n < utf8.UTFMax && !utf8.FullRune(tail):
			return n
		}
		return 0
	}
	return 0
}

// surrogate returns the surrogate that b begins with, encoded as if UTF-8 allowed it, or 0.
func surrogate(b []byte) rune {
	if len(b) < 3 || b[0] != 0xed || b[1]&0xe0 != 0xa0 || b[2]&0xc0 != 0x80 {
		return 0
	}
	return 0xd000 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f)
}

// Mend converts joined pieces (see [Cursor.AppendPiece]) to valid UTF-8, in place if possible: halves of a
// surrogate pair become their character, other invalid bytes become U+FFFD.
func Mend(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b)+8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			if s := surrogate(b); s != 0 {
				n = 3
				if full := utf16.DecodeRune(s, surrogate(b[3:])); full != utf8.RuneError {
					r, n = full, 6
				}
			}
		}
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return out
}
