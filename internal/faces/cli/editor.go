package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/charmbracelet/x/term"
	edit "golang.org/x/term"
)

// Limits of input and history. A mark represents a long paste, because x/term limits a line to 4,096 characters.
const (
	historyLines = 500
	historyLine  = 4096 // bytes; longer lines are not stored
	shortPaste   = 1000 // bytes
)

type editor struct {
	e     *env
	fd    uintptr
	line  *edit.Terminal
	paste pasteReader
}

// newEditor returns an editor on the terminal e.in. complete returns candidates that
// can replace the line up to the cursor.
func (e *env) newEditor(fd uintptr, h *history, complete func(head string) []string) *editor {
	d := &editor{e: e, fd: fd, paste: pasteReader{in: e.in}}
	d.line = edit.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&d.paste, e.err}, "")
	d.line.History = h
	d.line.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		head := line[:pos]
		if found := complete(head); len(found) > 0 {
			head = common(found)
			if len(found) == 1 {
				head += " "
			}
		}
		return head + line[pos:], len(head), true
	}
	return d
}

func common(texts []string) string {
	head := texts[0]
	for _, t := range texts[1:] {
		for !strings.HasPrefix(t, head) {
			head = head[:len(head)-1]
		}
	}
	return strings.ToValidUTF8(head, "")
}

// read returns the next line. It ends with io.EOF at Ctrl-D on an empty line, and with
// context.Canceled at Ctrl-C or when stop gets a signal. Outside of a read the terminal
// has its original state.
func (d *editor) read(mark string, stop <-chan os.Signal) (string, error) {
	before, err := term.MakeRaw(d.fd)
	if err != nil {
		return "", err
	}
	defer func() {
		fmt.Fprint(d.e.err, "\x1b[?2004l")
		term.Restore(d.fd, before)
	}()
	if w, h, err := term.GetSize(d.fd); err == nil && w > 0 && h > 0 {
		if err := d.line.SetSize(w, h); err != nil {
			return "", err
		}
	}
	fmt.Fprint(d.e.err, "\x1b[?2004h") // bracketed paste, because otherwise each pasted line would be sent as a message
	d.line.SetPrompt(mark)
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := d.line.ReadLine()
		done <- result{text, err}
	}()
	select {
	case <-stop:
		fmt.Fprint(d.e.err, "\r\n")
		return "", context.Canceled
	case got := <-done:
		if got.err != nil {
			fmt.Fprint(d.e.err, "\r\n")
			if got.err == io.EOF && d.paste.interrupted() {
				return "", context.Canceled
			}
			return "", got.err
		}
		return d.paste.expand(got.text), nil
	}
}

// Signs for characters that a line cannot contain.
const (
	newlineSign = "⏎"
	tabSign     = "␉"
)

// A pasteReader forwards typed input. Text between the marks of a paste becomes one
// line: line ends and tabs become signs, other control characters are dropped, and a
// long text is replaced by a mark.
type pasteReader struct {
	in io.Reader

	mu     sync.Mutex
	ready  []byte
	text   []byte // of a paste that has not ended
	inside bool
	long   []string
	last   byte // of the input read
}

func pasteMark(n int, text string) string {
	return fmt.Sprintf("[paste %d: %s]", n, some(strings.Count(text, "\n")+1, "line", "lines"))
}

// Read implements [io.Reader].
func (p *pasteReader) Read(b []byte) (int, error) {
	for {
		p.mu.Lock()
		n := copy(b, p.ready)
		p.ready = p.ready[n:]
		p.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		chunk := make([]byte, 4096)
		n, err := p.in.Read(chunk)
		p.mu.Lock()
		p.split(chunk[:n])
		empty := len(p.ready) == 0
		p.mu.Unlock()
		if err != nil && empty {
			return 0, err
		}
	}
}

var pasteBegins, pasteEnds = []byte("\x1b[200~"), []byte("\x1b[201~")

func (p *pasteReader) split(chunk []byte) {
	if len(chunk) > 0 {
		p.last = chunk[len(chunk)-1]
	}
	for len(chunk) > 0 {
		if !p.inside {
			before, after, found := bytes.Cut(chunk, pasteBegins)
			p.ready = append(p.ready, before...)
			chunk, p.inside = after, found
			continue
		}
		p.text = append(p.text, chunk...)
		text, after, found := bytes.Cut(p.text, pasteEnds)
		if !found {
			if len(p.text) > maxPrompt {
				p.text = p.text[:maxPrompt]
			}
			return
		}
		chunk = bytes.Clone(after)
		p.ready = append(p.ready, p.oneLine(string(text))...)
		p.text, p.inside = nil, false
	}
}

func (p *pasteReader) oneLine(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	text = strings.TrimRight(clean(strings.ToValidUTF8(text, "\ufffd")), "\n")
	if len(text) > shortPaste {
		p.long = append(p.long, text)
		return pasteMark(len(p.long), text)
	}
	return strings.NewReplacer("\n", newlineSign, "\t", tabSign).Replace(text)
}

func (p *pasteReader) expand(line string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	line = strings.NewReplacer(newlineSign, "\n", tabSign, "\t").Replace(line)
	for i, text := range p.long {
		line = strings.ReplaceAll(line, pasteMark(i+1, text), text)
	}
	return line
}

func (p *pasteReader) interrupted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last == 3
}

// A history contains the typed lines, newest last: in a file that only its owner can read, or without a path in memory.
type history struct {
	path  string
	lines []string
}

// openHistory reads the history of the chat. A missing or damaged file counts as empty, because a chat must not fail for it.
func (e *env) openHistory(keep bool) *history {
	h := &history{}
	dir, err := e.configDir()
	if err != nil || !keep {
		return h
	}
	h.path = filepath.Join(dir, "chat_history")
	info, err := os.Stat(h.path)
	if err != nil || info.Size() > 2*historyLines*historyLine {
		return h
	}
	text, err := os.ReadFile(h.path)
	if err != nil {
		return h
	}
	for line := range strings.Lines(string(text)) {
		var s string
		if json.Unmarshal([]byte(line), &s) == nil && !strings.ContainsFunc(s, unicode.IsControl) {
			h.lines = append(h.lines, s)
		}
	}
	h.lines = h.lines[max(0, len(h.lines)-historyLines):]
	return h
}

// Add appends a line and rewrites the file. Repeated, empty and very long lines, and
// lines that begin with a space, are not stored.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || line[0] == ' ' || len(line) > historyLine || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = slices.Clone(h.lines[max(0, len(h.lines)-historyLines):])
	if h.path == "" {
		return
	}
	var b bytes.Buffer
	for _, l := range h.lines {
		text, err := json.Marshal(l)
		if err != nil {
			continue
		}
		b.Write(append(text, '\n'))
	}
	if os.MkdirAll(filepath.Dir(h.path), 0o700) == nil {
		_ = writeFile(h.path, b.Bytes(), 0o600) // ignored, because a chat must not fail for its history
	}
}

// Len returns the number of lines.
func (h *history) Len() int { return len(h.lines) }

// At returns a line; 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
