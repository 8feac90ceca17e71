package responses

import (
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// A cutter ends a text before the first of its stop sequences, because not all providers accept the
// sequences.
type cutter struct {
	sequences []string
	held      string // the end of the text so far, which may be the beginning of a sequence
	reached   string // the sequence that ended the text; empty if none did
	here      bool   // the cutter found it, not the provider
}

// next returns the part of the text that certainly belongs to the reply, after the held text. The
// sequence that is complete first ends the text, so that the result does not depend on the sizes
// of the pieces.
func (c *cutter) next(text string) string {
	text, c.held = c.held+text, ""
	from, to := 0, len(text)+1
	for _, s := range c.sequences {
		if i := strings.Index(text, s); i >= 0 && (i+len(s) < to || i+len(s) == to && i < from) {
			from, to, c.reached = i, i+len(s), s
		}
	}
	if c.reached != "" {
		c.here = true
		return text[:from]
	}
	from = len(text)
	for _, s := range c.sequences {
		for n := min(len(s)-1, len(text)); n > len(text)-from; n-- {
			if strings.HasSuffix(text, s[:n]) {
				from = len(text) - n
			}
		}
	}
	c.held = text[from:]
	return text[:from]
}

// limit applies the stop sequences to an event. It reports whether the event needs no further
// processing: text does not, nor does anything after a stop sequence.
func (b *builder) limit(ev *stoa.Event) (done bool, err error) {
	switch ev.Kind {
	case stoa.UsageSoFar, stoa.Thinking:
		return false, nil
	case stoa.Delta:
		if b.cut.reached == "" {
			if text := b.cut.next(ev.Text); text != "" {
				return true, b.piece(pieceText, text, ev.More)
			}
		}
	default:
		if b.cut.reached == "" {
			return false, b.release()
		}
	}
	return true, b.catchUp(ev)
}

func (b *builder) release() error {
	text := b.cut.held
	if text == "" {
		return nil
	}
	b.cut.held = ""
	return b.piece(pieceText, text, true)
}

// ending processes the last event of a reply, before [builder.finish].
func (b *builder) ending(ev *stoa.Event) {
	b.other = ev.Other
	_ = b.release() // ignored, because a client that has disconnected is charged too
	if b.cut.reached == "" && slices.Contains(b.stops, ev.Text) {
		b.cut.reached = ev.Text
	}
}
