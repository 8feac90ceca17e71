package drive

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// Sizes of a passage in bytes: no passage exceeds maxPassage, because a hit is quoted as a whole.
// One of at least fullPassage ends with its line; one of at least halfPassage ends at an empty
// line, or before a heading or page, so that it is about one thing.
const (
	maxPassage  = 2048
	fullPassage = 1200
	halfPassage = 500
)

// A passage is a group of lines of a text, of a size suitable for quoting. Passages follow each
// other without gaps, since reading by line begins at the passage of the line. A line longer than
// a passage is split into several.
type passage struct {
	firstLine, lastLine int64 // from 1
	start, end          int64 // bytes in the file, end excluded
	text                []byte
}

// eachPassage splits a text into passages and calls fn with each; the text of a
// passage is valid until fn returns.
func eachPassage(r io.Reader, fn func(passage) error) error {
	in := bufio.NewReaderSize(r, 2*maxPassage)
	var p passage
	p.text = make([]byte, 0, maxPassage)
	line := int64(1)  // number of the line that contains the next byte
	lineStart := true // the next byte is the first of its line
	flush := func() error {
		if len(p.text) == 0 {
			return nil
		}
		p.end = p.start + int64(len(p.text))
		if err := fn(p); err != nil {
			return err
		}
		p.start, p.text = p.end, p.text[:0]
		return nil
	}
	for {
		b, err := in.Peek(maxPassage)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(b) == 0 {
			break
		}
		whole := true
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			b = b[:i+1]
		} else if len(b) == maxPassage {
			b, whole = b[:softCut(b)], false
		}
		heading := lineStart && beginsPart(b)
		if len(p.text)+len(b) > maxPassage || heading && len(p.text) >= halfPassage {
			if err := flush(); err != nil {
				return err
			}
		}
		if len(p.text) == 0 {
			p.firstLine = line
		}
		p.text = append(p.text, b...)
		p.lastLine = line
		blank := lineStart && len(bytes.TrimSpace(b)) == 0
		if len(p.text) >= fullPassage || blank && len(p.text) >= halfPassage {
			if err := flush(); err != nil {
				return err
			}
		}
		lineStart = whole && b[len(b)-1] == '\n'
		if lineStart {
			line++
		}
		in.Discard(len(b)) // cannot fail: it was peeked
	}
	return flush()
}

// beginsPart reports whether a line is a heading, or begins a page, slide or sheet.
func beginsPart(line []byte) bool {
	return line[0] == '#' || bytes.HasPrefix(line, []byte("[page ")) || bytes.HasPrefix(line, []byte("[slide ")) || bytes.HasPrefix(line, []byte("[sheet "))
}

// softCut returns the position at which to cut a long line: after the last space of its
// second half, or else between two characters.
func softCut(b []byte) int {
	if i := bytes.LastIndexAny(b, " \t"); i >= len(b)/2 {
		return i + 1
	}
	cut := len(b)
	for n := 1; n < utf8.UTFMax; n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				cut = len(b) - n
			}
			break
		}
	}
	return cut
}
