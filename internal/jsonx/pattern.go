package jsonx

// A Pattern is a JSON text in which some values are open. It recognises the texts
// that differ from it in these values alone, in a fraction of the time that a
// [Cursor] takes: the events of a provider's stream repeat everything but a few
// words. What a cursor would find in such a text is what it found in the first one,
// but for the open values, which [Pattern.Value] returns.
//
// The reader of a text calls [Pattern.Begin], then [Pattern.Open] before it reads a
// value that may differ, [Pattern.Spoil] if it does something that another such text
// would not do in the same way, and at the end [Pattern.Learn].
//
// The zero value is ready and recognises nothing.
type Pattern struct {
	text  []byte // learned
	open  [maxOpen]openValue
	n     int // of open; 0: nothing was learned
	found [maxOpen]int
	data  []byte // found's text

	reading []byte // the text that is being read; nil: none, or it is spoiled
	draft   [maxOpen]openValue
	drafted int // of draft
}

const (
	maxOpen    = 4
	maxPattern = 1 << 10 // bytes of a text that is learned; longer ones are rare, and each stream keeps one
)

// An openValue is a value that may differ.
type openValue struct {
	from, to int
	depth    int
	kind     byte
	name     uint8
}

// Begin says that text is read next. Until it is learned, the pattern stays the one
// before.
func (p *Pattern) Begin(text []byte) { p.reading, p.drafted = text, 0 }

// Spoil says that the text that is being read is no pattern for others.
func (p *Pattern) Spoil() { p.reading = nil }

// Open says that the current value of the cursor, which reads the text given to Begin,
// may differ. The name, of the reader's choice, is for [Pattern.Value]. A name that
// comes twice, and a cursor over another text, spoil the pattern.
func (p *Pattern) Open(name uint8, c *Cursor) {
	kind := c.Kind() // moves to the value
	ok := kind != 0 && p.drafted < maxOpen && len(p.reading) == len(c.buf) && &p.reading[0] == &c.buf[0]
	for _, o := range p.draft[:p.drafted] {
		ok = ok && o.name != name && o.from < c.pos
	}
	if !ok {
		p.Spoil()
		return
	}
	p.draft[p.drafted] = openValue{from: c.pos, depth: c.depth, kind: kind, name: name}
	p.drafted++
}

// Learn makes the text that was read the pattern, if it was not spoiled and the value
// of that name is open in it, and reports whether it did. The text must be valid JSON
// and short.
func (p *Pattern) Learn(name uint8) bool {
	text := p.reading
	p.reading = nil
	if text == nil || len(text) > maxPattern {
		return false
	}
	named := false
	for i := range p.draft[:p.drafted] {
		o := &p.draft[i]
		if o.to = valueEnd(text, o.from, o.depth); o.to < 0 {
			return false
		}
		named = named || o.name == name
	}
	if named {
		p.open, p.n = p.draft, p.drafted
		p.text = append(p.text[:0], text...)
	}
	return named
}

// Match reports whether data differs from the pattern in the open values alone, each
// of the same kind as there.
func (p *Pattern) Match(data []byte) bool {
	at, from := 0, 0
	for i := range p.open[:p.n] {
		o := &p.open[i]
		same := p.text[from:o.from]
		if len(data)-at <= len(same) || string(data[at:at+len(same)]) != string(same) {
			return false
		}
		at += len(same)
		if kindOf(data[at]) != o.kind {
			return false
		}
		p.found[i] = at
		if at = valueEnd(data, at, o.depth); at < 0 {
			return false
		}
		from = o.to
	}
	p.data = data
	return p.n > 0 && string(data[at:]) == string(p.text[from:])
}

// Value returns a cursor before the open value of that name in the text that matched,
// as [NewReplyCursor] makes it; false if the pattern has none.
func (p *Pattern) Value(name uint8) (Cursor, bool) {
	for i, o := range p.open[:p.n] {
		if o.name == name {
			return Cursor{buf: p.data, pos: p.found[i], depth: o.depth, pending: true, reply: true}, true
		}
	}
	return Cursor{}, false
}
