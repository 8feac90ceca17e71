package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"hash/maphash"
	"slices"
	"strings"
)

// minBlanked is the minimum length of a secret that is blanked, because a shorter one could be
// any word of a result.
const minBlanked = 8

const blankedAs = "[secret]"

// deepest is the maximum number of nested escaped texts that are searched, because a server
// may repeat a secret in an address in JSON in JSON.
const deepest = 4

// Blank removes the secret from data that a server sent, since servers repeat headers. It
// finds it in plain, in base64 and in hexadecimal, in these two also as part of a longer
// text, in either alphabet and case, and with line breaks in between; with the escapes of
// JSON and of addresses; and inside texts nested up to four deep.
//
// Time and memory are proportional to the length of data, because a hostile server chooses the
// content: some 30 bytes for each byte.
func (c Credential) Blank(data []byte) []byte {
	b := newBlanking(c, data)
	if b == nil {
		return data
	}
	b.search(layer{text: data}, deepest)
	return b.without(data)
}

// A blanking is one search for the forms of a secret.
type blanking struct {
	forms  []*automaton
	seed   maphash.Seed
	seen   map[uint64]int // layers searched below a text, by its hash, so that no text is searched twice
	below  [deepest]layer // memory for layers, by the number of layers to search below
	cover  []int32        // number of forms that begin at a byte minus the number that end there
	found  bool
	places []int32 // positions of the bytes read in the current layer
	steps  int     // number of bytes and states examined, which tests check
}

// newBlanking returns nil if nothing could reveal the secret.
func newBlanking(c Credential, data []byte) *blanking {
	b := &blanking{seed: maphash.MakeSeed(), seen: map[uint64]int{}}
	for _, as := range []*folding{&folded.plain, &folded.base64, &folded.hex} {
		b.forms = append(b.forms, &automaton{as: as, states: make([]state, 1)})
	}
	found := b.add(c.Value)
	for _, part := range c.Parts {
		found = b.add(part) || found
	}
	if !found {
		return nil
	}
	for _, a := range b.forms {
		a.link()
	}
	b.cover = make([]int32, len(data)+1)
	return b
}

// A layer is an unescaped text, and the position of each of its bytes in the outermost text.
type layer struct {
	text []byte
	from []int32 // followed by the end of all; nil for the outermost layer
}

func (l layer) at(i int) int {
	if l.from == nil {
		return i
	}
	return int(l.from[i])
}

// search finds the secret in a layer, and in up to more layers below it.
func (b *blanking) search(l layer, more int) {
	hash := maphash.Bytes(b.seed, l.text)
	if below, searched := b.seen[hash]; searched && below >= more {
		return
	} else if !searched {
		for _, a := range b.forms {
			b.find(a, l)
		}
	}
	b.seen[hash] = more
	if more == 0 {
		return
	}
	next := &b.below[more-1]
	if l.unescape(next, '\\', ofJSON) {
		b.search(*next, more-1)
	}
	if l.unescape(next, '%', ofAddress) {
		b.search(*next, more-1)
	}
	b.steps += 2 * len(l.text)
}

// find marks the texts of a layer that would reveal the secret.
func (b *blanking) find(a *automaton, l layer) {
	places := slices.Grow(b.places[:0], len(l.text))
	at := int32(0)
	for i, c := range l.text {
		is := a.as[c]
		if is < 0 {
			continue
		}
		places = append(places, int32(i))
		if at == 0 {
			at = a.first[is]
		} else {
			var back int
			at, back = a.next(at, is)
			b.steps += back
		}
		if n := int(a.states[at].ends); n > 0 {
			b.found = true
			b.cover[l.at(int(places[len(places)-n]))]++
			b.cover[l.at(i+1)]--
		}
	}
	b.places = places
	b.steps += len(l.text)
}

// without returns data with all marked ranges blanked. Adjacent ranges become one.
func (b *blanking) without(data []byte) []byte {
	if !b.found {
		return data
	}
	out, kept := make([]byte, 0, len(data)), 0 // position up to which data is in out
	forms := int32(0)
	for i, change := range b.cover {
		before := forms
		forms += change
		switch {
		case before == 0 && forms > 0:
			from := i
			text, n := data[kept:from], 0
			for n < len(text) && text[len(text)-1-n] == '\\' {
				n++
			}
			if n%2 == 1 { // because the backslash without the character it escapes would break the JSON
				from--
			}
			out = append(append(out, data[kept:from]...), blankedAs...)
		case before > 0 && forms == 0:
			kept = i
		}
	}
	return append(out, data[kept:]...)
}

// unescape sets next to the layer below l, where the byte with begins an escape. It reports
// whether there is any.
func (l layer) unescape(next *layer, with byte, unescaped func([]byte) (byte, int)) bool {
	i := l.escape(0, with, unescaped)
	if i == len(l.text) {
		return false
	}
	if cap(next.from) <= len(l.text) {
		next.text, next.from = make([]byte, 0, len(l.text)), make([]int32, 0, len(l.text)+1)
	}
	text, from := next.text[:0], next.from[:0]
	for plain := 0; ; {
		text = append(text, l.text[plain:i]...)
		if l.from != nil {
			from = append(from, l.from[plain:i]...)
		} else {
			for k := plain; k < i; k++ {
				from = append(from, int32(k))
			}
		}
		if i == len(l.text) {
			next.text, next.from = text, append(from, int32(l.at(i)))
			return true
		}
		c, n := unescaped(l.text[i:])
		text, from = append(text, c), append(from, int32(l.at(i)))
		plain = i + n
		i = l.escape(plain, with, unescaped)
	}
}

// escape returns the position of the next escape from i on, or the end.
func (l layer) escape(i int, with byte, unescaped func([]byte) (byte, int)) int {
	for {
		n := bytes.IndexByte(l.text[i:], with)
		if n < 0 {
			return len(l.text)
		}
		i += n
		if _, n = unescaped(l.text[i:]); n > 1 {
			return i
		}
		i++
	}
}

// ofJSON returns the byte encoded by the JSON escape at the start of text, or the first byte
// of a character, and the length of the escape.
func ofJSON(text []byte) (c byte, n int) {
	if len(text) < 2 {
		return text[0], 1
	}
	digits := 0
	switch c := text[1]; c {
	case '"', '\\', '/', '\'':
		return c, 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	case 'x':
		digits = 2
	}
	if c, ok := ofHex(text[2:], digits); ok && digits > 0 {
		return c, 2 + digits
	}
	return text[0], 1
}

// ofAddress is [ofJSON] for an address, where % begins an escape. A + stays as it is: see
// [folded].
func ofAddress(text []byte) (c byte, n int) {
	if c, ok := ofHex(text[1:], 2); ok {
		return c, 3
	}
	return text[0], 1
}

// ofHex returns the value of the given number of hexadecimal digits.
func ofHex(text []byte, digits int) (byte, bool) {
	if len(text) < digits {
		return 0, false
	}
	n := 0
	for _, c := range text[:digits] {
		at := strings.IndexByte("0123456789abcdef", c|0x20)
		if at < 0 || c < '0' {
			return 0, false
		}
		if n = n<<4 | at; n > 0xff {
			return 0, false
		}
	}
	return byte(n), true
}

// A folding maps bytes to their equivalence class; -1 means that a byte is ignored.
type folding [256]int16

// folded are the foldings of plain texts, base64, and hexadecimal digits.
var folded = func() (all struct{ plain, base64, hex folding }) {
	for i := range 256 {
		all.plain[i], all.base64[i], all.hex[i] = int16(i), int16(i), int16(i)
	}
	all.plain['+'] = ' ' // because an address writes a space as +
	all.base64['-'], all.base64['_'] = '+', '/'
	for _, c := range "\r\n\t " {
		all.base64[c], all.hex[c] = -1, -1
	}
	for c := 'A'; c <= 'F'; c++ {
		all.hex[c] = int16(c) + 'a' - 'A'
	}
	return all
}()

// An automaton finds all texts of one folding in one pass (Aho and Corasick).
type automaton struct {
	as     *folding
	first  [256]int32 // states after one byte
	states []state    // by the text read so far; 0 means no prefix of any text
}

// A state is a prefix of a text. The states that continue it are a list: most have one.
type state struct {
	is             int16 // its last byte, folded
	child, sibling int32 // 0 means none
	back           int32 // the longest other state that is a suffix of it
	ends           int32 // length of the longest text that is a suffix of it
}

func (a *automaton) child(at int32, is int16) int32 {
	if at == 0 {
		return a.first[is]
	}
	for at = a.states[at].child; at != 0 && a.states[at].is != is; {
		at = a.states[at].sibling
	}
	return at
}

// next returns the state after a byte, and the number of backward steps: in total at most the
// number of bytes read.
func (a *automaton) next(at int32, is int16) (next int32, back int) {
	for {
		if next = a.child(at, is); next != 0 || at == 0 {
			return next, back
		}
		at = a.states[at].back
		back++
	}
}

// add adds a text, before link.
func (a *automaton) add(text string) {
	at, length := int32(0), int32(0)
	for i := range len(text) {
		is := a.as[text[i]]
		if is < 0 {
			continue
		}
		length++
		next := a.child(at, is)
		if next == 0 {
			next = int32(len(a.states))
			a.states = append(a.states, state{is: is, sibling: a.states[at].child})
			if a.states[at].child = next; at == 0 {
				a.first[is] = next
			}
		}
		at = next
	}
	a.states[at].ends = length
}

// link computes the back links of all states, shorter ones first.
func (a *automaton) link() {
	order := make([]int32, 1, len(a.states))
	for i := 0; i < len(order); i++ {
		at := order[i]
		for next := a.states[at].child; next != 0; next = a.states[next].sibling {
			s := &a.states[next]
			if at != 0 {
				s.back, _ = a.next(a.states[at].back, s.is)
			}
			s.ends = max(s.ends, a.states[s.back].ends)
			order = append(order, next)
		}
	}
}

// add adds the texts that would reveal a secret: the secret itself, without the scheme of the
// header, and its base64 and hexadecimal forms at any position of a text. It reports whether
// there are any.
func (b *blanking) add(secret string) bool {
	value := secret
	values := []string(nil)
	if scheme, after, found := strings.Cut(secret, " "); found && len(after) >= minBlanked {
		value = after
		if scheme != "Bearer" && scheme != "Basic" { // because the word may be part of the secret
			values = append(values, secret)
		}
	}
	if len(value) < minBlanked {
		return false
	}
	plain, in64, inHex := b.forms[0], b.forms[1], b.forms[2]
	for _, s := range append(values, value) {
		plain.add(s)
		inHex.add(hex.EncodeToString([]byte(s)))
		for before := range 3 {
			text := base64.RawStdEncoding.EncodeToString([]byte("   "[:before] + s))
			in64.add(text[(8*before+5)/6 : 8*(before+len(s))/6]) // without the characters shared with neighbours
		}
	}
	return true
}
