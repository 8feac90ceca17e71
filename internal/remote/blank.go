package remote

import (
	"encoding/base64"
	"encoding/hex"
	"hash/maphash"
	"slices"
	"strings"
)

// minBlanked is the length of the shortest secret that is blanked: a shorter one could
// be any word.
const minBlanked = 8

// blankedAs stands where a secret was.
const blankedAs = "[secret]"

// deepest is how many texts with escapes are looked for one in the other, such as an
// address in JSON in JSON.
const deepest = 4

// Blank takes the secret out of what a server sent: servers repeat headers. It finds it
// in plain, in base64 and in hexadecimal digits, those two also of a longer text, in
// either alphabet and case, and with line breaks in between; with the escapes of JSON and
// with those of addresses; and where such a text is within another one, up to four deep.
//
// Its time is proportional to the length of data, whatever that is and the secret is.
func (c Credential) Blank(data []byte) []byte {
	patterns := blanked(c.Value)
	for _, part := range c.Parts {
		patterns = append(patterns, blanked(part)...)
	}
	if len(patterns) == 0 {
		return data
	}
	b := blanking{patterns: patterns, seed: maphash.MakeSeed(), seen: map[uint64]int{}}
	b.search(layer{text: data}, deepest)
	return b.without(data)
}

// A blanking is one search for the forms of a secret.
type blanking struct {
	patterns []pattern
	seed     maphash.Seed
	seen     map[uint64]int // how many layers were looked for in a text, by its hash
	found    []span
}

// A span is where a secret was found: from up to, and not including, to.
type span struct{ from, to int }

// A layer is a text without the escapes of those around it, and where each of its bytes
// begins in the outermost one.
type layer struct {
	text []byte
	from []int32 // with the end of all; nil: it is the outermost one
}

// at returns where a byte begins.
func (l layer) at(i int) int {
	if l.from == nil {
		return i
	}
	return int(l.from[i])
}

// search finds the secret in a layer, and in so many more below it.
func (b *blanking) search(l layer, more int) {
	hash := maphash.Bytes(b.seed, l.text)
	if below, searched := b.seen[hash]; searched && below >= more {
		return
	} else if !searched {
		for _, p := range b.patterns {
			b.found = p.find(l, b.found)
		}
	}
	b.seen[hash] = more
	if more == 0 {
		return
	}
	if next, changed := l.unescape('\\', ofJSON); changed {
		b.search(next, more-1)
	}
	if next, changed := l.unescape('%', ofAddress); changed {
		b.search(next, more-1)
	}
}

// without returns data with everything blanked that was found.
func (b *blanking) without(data []byte) []byte {
	if len(b.found) == 0 {
		return data
	}
	slices.SortFunc(b.found, func(x, y span) int { return x.from - y.from })
	out, kept := make([]byte, 0, len(data)), 0 // up to where data is in out
	for i := 0; i < len(b.found); {
		at := b.found[i]
		for i++; i < len(b.found) && b.found[i].from < at.to; i++ {
			at.to = max(at.to, b.found[i].to)
		}
		if escaped(data[kept:at.from]) { // the backslash goes with what it escapes
			at.from--
		}
		out = append(append(out, data[kept:at.from]...), blankedAs...)
		kept = at.to
	}
	return append(out, data[kept:]...)
}

// escaped reports whether what follows a text is escaped by its end.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// unescape returns the layer below one, where a byte begins what is escaped. It reports
// whether there is any.
func (l layer) unescape(with byte, unescaped func([]byte) (byte, int)) (next layer, changed bool) {
	for i := 0; i < len(l.text); {
		if l.text[i] != with {
			if changed {
				next.text, next.from = append(next.text, l.text[i]), append(next.from, int32(l.at(i)))
			}
			i++
			continue
		}
		c, n := unescaped(l.text[i:])
		if n > 1 && !changed {
			changed = true
			next.text, next.from = make([]byte, i, len(l.text)), make([]int32, i, len(l.text)+1)
			copy(next.text, l.text)
			for k := range i {
				next.from[k] = int32(l.at(k))
			}
		}
		if changed {
			next.text, next.from = append(next.text, c), append(next.from, int32(l.at(i)))
		}
		i += n
	}
	if changed {
		next.from = append(next.from, int32(l.at(len(l.text))))
	}
	return next, changed
}

// ofJSON returns which byte a text of JSON begins with that begins with a backslash, and
// how many bytes stand for it.
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

// ofAddress is [ofJSON] for an address, and what begins with %. A + stands for itself:
// see [folded].
func ofAddress(text []byte) (c byte, n int) {
	if c, ok := ofHex(text[1:], 2); ok {
		return c, 3
	}
	return text[0], 1
}

// ofHex returns the byte that so many hexadecimal digits are; false: they are none.
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

// A folding says which bytes count as the same, and with -1 which count as nothing.
type folding [256]int16

// folded are the foldings of plain texts, base64, and hexadecimal digits.
var folded = func() (all struct{ plain, base64, hex folding }) {
	for i := range 256 {
		all.plain[i], all.base64[i], all.hex[i] = int16(i), int16(i), int16(i)
	}
	all.plain['+'] = ' ' // so an address has it
	all.base64['-'], all.base64['_'] = '+', '/'
	for _, c := range "\r\n\t " {
		all.base64[c], all.hex[c] = -1, -1
	}
	for c := 'A'; c <= 'F'; c++ {
		all.hex[c] = int16(c) + 'a' - 'A'
	}
	return all
}()

// A pattern is a text that would give a secret away.
type pattern struct {
	as   *folding
	text []int16 // folded
	back []int   // of a prefix that does not go on: how long the longest one is that ends it
}

func newPattern(as *folding, text string) pattern {
	p := pattern{as: as, text: make([]int16, 0, len(text))}
	for i := range len(text) {
		if c := as[text[i]]; c >= 0 {
			p.text = append(p.text, c)
		}
	}
	p.back = make([]int, len(p.text))
	for i, k := 1, 0; i < len(p.text); i++ {
		for k > 0 && p.text[i] != p.text[k] {
			k = p.back[k-1]
		}
		if p.text[i] == p.text[k] {
			k++
		}
		p.back[i] = k
	}
	return p
}

// find adds where a layer has the pattern (Knuth, Morris and Pratt).
func (p pattern) find(l layer, found []span) []span {
	k := 0
	for i, c := range l.text {
		is := p.as[c]
		if is < 0 {
			continue
		}
		for k > 0 && p.text[k] != is {
			k = p.back[k-1]
		}
		if p.text[k] == is {
			k++
		}
		if k < len(p.text) {
			continue
		}
		first := i
		for left := k; ; first-- {
			if p.as[l.text[first]] >= 0 {
				if left--; left == 0 {
					break
				}
			}
		}
		found = append(found, span{l.at(first), l.at(i + 1)})
		k = 0
	}
	return found
}

// blanked returns the texts that would give a secret away: itself, without the scheme of
// the header, and what base64 and hexadecimal digits make of it wherever it begins in a
// text.
func blanked(secret string) (all []pattern) {
	value := secret
	values := []string(nil)
	if scheme, after, found := strings.Cut(secret, " "); found && len(after) >= minBlanked {
		value = after
		if scheme != "Bearer" && scheme != "Basic" { // it may be no scheme, but part of the secret
			values = append(values, secret)
		}
	}
	if len(value) < minBlanked {
		return nil
	}
	for _, s := range append(values, value) {
		all = append(all, newPattern(&folded.plain, s), newPattern(&folded.hex, hex.EncodeToString([]byte(s))))
		for before := range 3 {
			text := base64.RawStdEncoding.EncodeToString([]byte("   "[:before] + s))
			all = append(all, newPattern(&folded.base64, text[(8*before+5)/6:8*(before+len(s))/6])) // without what it shares with its neighbours
		}
	}
	return all
}
