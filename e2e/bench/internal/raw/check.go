package raw

import (
	"bytes"
	"errors"
	"fmt"
)

// Whole checks that a body is a completed reply with the text.
func Whole(body []byte, text string) error {
	switch {
	case !bytes.Contains(body, []byte(text)):
		return fmt.Errorf("the reply has not the vendor's text: %.600s", body)
	case !bytes.Contains(body, []byte(`"status":"completed"`)):
		return fmt.Errorf("the reply is not completed: %.600s", body)
	}
	return nil
}

// A Stream checks the events of one reply as they arrive: the deltas are the text in order,
// and response.completed is the last event.
type Stream struct {
	Text    string          // that is expected
	OnDelta func(bytes int) // called for each delta; may be nil

	at       int    // number of bytes of the text received
	line     []byte // that has begun
	complete bool
}

// Reset prepares for the next reply with the same text.
func (s *Stream) Reset() { s.at, s.line, s.complete = 0, s.line[:0], false }

var (
	isDelta    = []byte(`"type":"response.output_text.delta"`)
	isComplete = []byte(`"type":"response.completed"`)
	isFailure  = []byte(`"type":"response.failed"`)
	data       = []byte("data: ")
	delta      = []byte(`"delta":"`)
)

// Write checks the next bytes of the body.
func (s *Stream) Write(p []byte) error {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			s.line = append(s.line, p...)
			return nil
		}
		line := p[:i]
		if len(s.line) > 0 {
			s.line = append(s.line, line...)
			line = s.line
		}
		if bytes.HasPrefix(line, data) {
			if err := s.event(line[len(data):]); err != nil {
				return err
			}
		}
		p, s.line = p[i+1:], s.line[:0]
	}
	return nil
}

// event checks the data of one event. The type is near its beginning.
func (s *Stream) event(b []byte) error {
	if s.complete {
		if bytes.Equal(bytes.TrimSpace(b), []byte("[DONE]")) {
			return nil
		}
		return fmt.Errorf("an event after the last: %.200s", b)
	}
	head := b[:min(len(b), 200)]
	switch {
	case bytes.Contains(head, isDelta):
		i := bytes.Index(b, delta)
		if i < 0 {
			return fmt.Errorf("a delta without text: %.200s", b)
		}
		piece, _, _ := bytes.Cut(b[i+len(delta):], []byte(`"`))
		if s.at+len(piece) > len(s.Text) || string(piece) != s.Text[s.at:s.at+len(piece)] {
			return fmt.Errorf("a delta is not the vendor's: %.200s", b)
		}
		s.at += len(piece)
		if s.OnDelta != nil {
			s.OnDelta(len(piece))
		}
	case bytes.Contains(head, isComplete):
		s.complete = true
	case bytes.Contains(head, isFailure):
		return fmt.Errorf("the reply failed: %.600s", b)
	}
	return nil
}

// End returns an error if an ended stream is incomplete.
func (s *Stream) End() error {
	switch {
	case !s.complete:
		return errors.New("the stream ended without response.completed")
	case s.at != len(s.Text):
		return fmt.Errorf("the stream has %d bytes of the text, not %d", s.at, len(s.Text))
	}
	return nil
}
