package wire

import "stoa/internal/base/stoa"

// takesBreakpoints reports whether a call may have breakpoints for OpenAI's cache. Instructions are
// then a message, because only its parts can have one, and texts are always parts, so that a
// conversation has the same form with and without breakpoints.
func takesBreakpoints(call *stoa.Call, route stoa.Route) bool {
	return route.Traits.PaidCache && call.Caching != stoa.CacheOff
}

// withoutOwnCache reports whether the vendor must cache only what has breakpoints, because by default
// it writes every prompt at a higher rate, and the caller does not want that, or this prompt will
// probably not be sent again.
func withoutOwnCache(call *stoa.Call, route stoa.Route) bool {
	if !takesBreakpoints(call, route) {
		return false
	}
	marks, _ := call.Marks()
	return call.MarkedOnly || call.Frugal && marks == 0 && call.Caching <= stoa.CacheInstructions
}

// A breakpoints places the marks of a call on the pieces that OpenAI accepts them on: texts, images
// and files of users and of the system.
type breakpoints struct {
	w    *builder
	last *stoa.Mark   // of the latest such piece
	set  []*stoa.Mark // those that are set, in order
}

// mark marks the latest piece that can be marked; moved means that the caller marked another place,
// so that less is cached.
func (b *breakpoints) mark(m stoa.Mark, moved bool) {
	if m == stoa.MarkNone || b.last == nil {
		return
	}
	// A long life is never requested, because its price is unknown.
	b.w.moved = b.w.moved || moved || m == stoa.MarkLong
	if *b.last == stoa.MarkNone {
		*b.last = stoa.MarkShort
		b.set = append(b.set, b.last)
	}
}

// setBreakpoints marks the pieces as the caller does, of whose marks the last four count, or the ends
// of the instructions and of the first part of the conversation; the vendor itself marks the end of
// the input. It returns the mark of the instructions. Marks of tools are moved to the end of the
// system text, which follows them.
func (w *builder) setBreakpoints(call *stoa.Call, list []turn) (instructions stoa.Mark) {
	b := breakpoints{w: w}
	if call.Instructions != "" {
		b.last = &instructions
	}
	head := 0 // turns of the system text
	for head < len(list) && list[head].role == stoa.RoleSystem {
		b.turn(list[head])
		head++
	}
	for _, t := range call.Tools {
		b.mark(t.Mark, true)
	}
	if call.Caching >= stoa.CacheInstructions {
		b.mark(stoa.MarkShort, false)
	}
	for i, t := range list[head:] {
		if i == 0 && call.Caching == stoa.CacheConversation && canMark(t, 0) {
			b.last = &t.parts[0].mark
			b.mark(stoa.MarkShort, false)
		}
		b.turn(t)
	}
	for _, m := range b.set[:max(0, len(b.set)-maxMarks)] {
		*m = stoa.MarkNone
	}
	return instructions
}

func (b *breakpoints) turn(t turn) {
	for j := range t.parts {
		p := &t.parts[j]
		can := canMark(t, j)
		if can {
			b.last = &p.mark
		}
		b.mark(p.Mark, !can)
	}
}

// canMark reports whether the vendor accepts a breakpoint on a piece of the turn.
func canMark(t turn, at int) bool {
	switch t.parts[at].Kind {
	case stoa.PartText, stoa.PartImage, stoa.PartFile:
		return t.role != stoa.RoleAssistant
	}
	return false
}
