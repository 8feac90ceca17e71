package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/mattn/go-isatty"

	"stoa/internal/base/stoa"
)

func terminal(stream any) (fd uintptr, ok bool) {
	f, ok := stream.(*os.File)
	if !ok {
		return 0, false
	}
	return f.Fd(), isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd())
}

func isTerminal(stream any) bool {
	_, ok := terminal(stream)
	return ok
}

func width(stream any) int {
	fd, ok := terminal(stream)
	if !ok {
		return 0
	}
	if w, _, err := term.GetSize(fd); err == nil && w > 0 {
		return w
	}
	return 80
}

// A style colours text for one stream, or leaves it unchanged. Colour must never carry
// information on its own.
type style bool

func (e *env) style(stream io.Writer) style {
	return style(isTerminal(stream) && e.getenv("NO_COLOR") == "" && e.getenv("TERM") != "dumb")
}

func (s style) paint(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) dim(text string) string  { return s.paint("2", text) }
func (s style) bold(text string) string { return s.paint("1", text) }

func (s style) status(word string) string {
	switch status := stoa.SessionStatus(word); {
	case slices.Contains(stoa.ActiveStatuses, status):
		return s.paint("33", word)
	case status.Ended() && status != stoa.SessionCompleted:
		return s.paint("31", word)
	}
	switch word {
	case "active", "completed", "created", "ok", "yes", "sent":
		return s.paint("32", word)
	case "paused", "in_progress", "incomplete", "pending", "replaced":
		return s.paint("33", word)
	case "failing", "unreachable", "revoked", "expired", "suspended", "skipped", "deleted":
		return s.paint("31", word)
	}
	return word
}

// clean removes control characters (except newline and tab) and bidirectional overrides, because
// text of models, files and other people must not move the cursor, set the title or reorder the
// surrounding text.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) && !bidi(r) {
			return r
		}
		return -1
	}, text)
}

func bidi(r rune) bool { return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }

func oneLine(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || bidi(r) }) {
		return text
	}
	return strings.Join(strings.Fields(clean(text)), " ")
}

// shorten cuts text to the given number of columns; 0 or less means no limit.
func shorten(text string, columns int) string {
	if columns <= 0 || ansi.StringWidth(text) <= columns {
		return text
	}
	return ansi.Truncate(text, columns, "…")
}

// breakLine breaks a line between words into parts of at most the given number of columns. It does not split words,
// because they may be ids to copy.
func breakLine(line string, columns int) string {
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(line, " ") {
		w := ansi.StringWidth(word)
		switch {
		case i == 0:
		case used+1+w > columns:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += w
	}
	return b.String()
}

// say prints a line for people on standard error, because standard output is for data.
func (e *env) say(format string, args ...any) {
	fmt.Fprintln(e.err, e.fold(fmt.Sprintf(format, args...), 0))
}

// next prints a line for people and a suggested next command. On a terminal the command
// has a separate, unbroken line, so that it can be pasted.
func (e *env) next(text, command string) {
	if !isTerminal(e.err) {
		e.say("%s %s", text, command)
		return
	}
	e.say("%s", text)
	fmt.Fprintln(e.err, "  "+oneLine(command))
}

// fold prepares text for standard error: on a terminal it is cleaned, broken
// between words and indented.
func (e *env) fold(text string, indent int) string {
	pad := strings.Repeat(" ", indent)
	columns := width(e.err)
	if columns == 0 {
		return pad + text
	}
	text = clean(text)
	if columns > 20+indent {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			lines[i] = breakLine(line, columns-indent)
		}
		text = strings.Join(lines, "\n")
	}
	return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
}

func (e *env) hint(format string, args ...any) {
	if isTerminal(e.err) {
		fmt.Fprintln(e.err, e.style(e.err).dim(e.fold(fmt.Sprintf(format, args...), 0)))
	}
}

// confirm asks before something is deleted. When the input is not a terminal,
// --yes is required.
func (e *env) confirm(yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	question := clean(fmt.Sprintf(format, args...))
	if !isTerminal(e.in) || !isTerminal(e.err) {
		return usagef("not done: %q requires --yes when there is no terminal for a confirmation; add --yes", question)
	}
	fmt.Fprintf(e.err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(e.stdin).ReadString('\n')
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(e.err)
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fmt.Errorf("nothing was changed")
}

// An interruptible reader returns when its context ends. A read in progress stays
// blocked until the program exits.
type interruptible struct {
	ctx context.Context
	in  io.Reader
}

// Read implements [io.Reader]. It returns the error of the context when that ends first; the read
// then continues in the background.
func (r interruptible) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	type result struct {
		n   int
		err error
	}
	own, done := make([]byte, len(b)), make(chan result, 1) // a copy, because b belongs to the caller again after a return
	go func() {
		n, err := r.in.Read(own)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(b, own[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

// readHidden reads a line from a terminal without echo. When ctx ends it restores the terminal's state, because
// otherwise the shell would stay without echo.
func readHidden(ctx context.Context, fd uintptr) (string, error) {
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		done <- result{text, err}
	}()
	select {
	case got := <-done:
		return string(got.text), got.err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

// A progress is one line on a terminal that is overwritten while an operation
// runs. Elsewhere it prints nothing.
type progress struct {
	out     io.Writer
	columns int
	style   style
	shown   bool
	last    time.Time
}

const minRedraw = 50 * time.Millisecond

func (e *env) progress() *progress {
	return &progress{out: e.err, columns: width(e.err), style: e.style(e.err)}
}

func (p *progress) show(format string, args ...any) {
	if p.columns == 0 || time.Since(p.last) < minRedraw {
		return
	}
	p.last = time.Now()
	text := shorten(oneLine(fmt.Sprintf(format, args...)), p.columns-1)
	fmt.Fprintf(p.out, "\r\x1b[K%s", p.style.dim(text))
	p.shown = true
}

func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

func (e *env) configDir() (string, error) {
	if dir := e.getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir + string(os.PathSeparator) + "stoa", nil
	}
	switch runtime.GOOS {
	case "windows":
		if dir := e.getenv("AppData"); dir != "" {
			return dir + `\stoa`, nil
		}
	case "darwin":
		if home := e.getenv("HOME"); home != "" {
			return home + "/Library/Application Support/stoa", nil
		}
	default:
		if home := e.getenv("HOME"); home != "" {
			return home + "/.config/stoa", nil
		}
	}
	return "", fmt.Errorf("there is no directory for profiles; set HOME, or STOA_BASE_URL and STOA_API_KEY instead")
}

// shellWord returns a text as one word of a POSIX shell, so that a printed command can be pasted.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("_-./:@%+,=", r)
	}
	if text != "" && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
