package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/base/stoa"
)

// takes returns a check for these positional arguments. The last name may end with
// "..." for one or more; a name in brackets is optional.
func takes(names ...string) cobra.PositionalArgs {
	most := len(names)
	var needed []string
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			needed = append(needed, name)
		}
		if strings.HasSuffix(strings.TrimSuffix(name, "]"), "...") {
			most = -1
		}
	}
	return func(c *cobra.Command, args []string) error {
		if len(args) >= len(needed) && (most < 0 || len(args) <= most) {
			return nil
		}
		use := strings.TrimSuffix(c.UseLine(), " [flags]")
		if len(args) < len(needed) {
			return usagef("%s is missing; the form is %q, see %s --help", argument(needed[len(args)]), use, c.CommandPath())
		}
		return usagef("unexpected argument %q; the form is %q", args[most], use)
	}
}

// textOf returns the text that a flag's value stands for: the value itself, or
// after an "@" the content of that file ("@-": standard input), of at most
// maxPrompt bytes.
func (e *env) textOf(value string) (string, error) {
	name, isFile := strings.CutPrefix(value, "@")
	if !isFile {
		return value, nil
	}
	return e.fileText(value, name, maxPrompt)
}

// fileText returns the content of a file, of at most most bytes; "-" is standard input.
// Errors name it as it was written.
func (e *env) fileText(written, name string, most int64) (string, error) {
	from := e.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", usagef("read %s: %w", written, err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	if err != nil {
		return "", usagef("read %s: %w", written, err)
	}
	if int64(len(text)) > most {
		return "", usagef("%s is larger than %s", written, stoa.Size(most))
	}
	return string(text), nil
}

func metadata(pairs []string) (map[string]any, error) {
	out := map[string]any{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("--metadata requires NAME=VALUE, not %q", pair)
		}
		out[name] = value
	}
	return out, nil
}

// moment parses a time: a date, an RFC 3339 time, or a duration such as 7d or
// 12h counted from now, backwards if past is set. Without a zone it is UTC.
func moment(text string, now time.Time, past bool) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return t, nil
		}
	}
	d, err := span(text)
	if err != nil {
		return time.Time{}, usagef("%q is not a time; write 2026-11-20, 2026-11-20T09:30:00Z, or a duration such as 7d", text)
	}
	if past {
		d = -d
	}
	return now.Add(d), nil
}

// span parses a duration as time.ParseDuration does, and whole days as in 30d.
// It is never negative.
func span(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if _, err := fmt.Sscanf(days+"|", "%d|", &n); err == nil && n >= 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, usagef("%q is not a duration; write one such as 90s, 12h or 30d", text)
	}
	return d, nil
}

// stamp formats a time as the API expects it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// limit adds --limit to a list command; 0 means all.
func limit(c *cobra.Command) *int {
	n := 30
	c.Flags().VarP((*rowLimit)(&n), "limit", "L", "the maximum `number` of rows; 0 shows all")
	return &n
}

type rowLimit int

func (n *rowLimit) Set(text string) error {
	rows, err := strconv.Atoi(text)
	if err == nil && rows < 0 {
		err = strconv.ErrRange
	}
	*n = rowLimit(rows)
	return err
}

func (n *rowLimit) String() string { return strconv.Itoa(int(*n)) }

// Type returns the kind of the value, for [valueNeeded].
func (n *rowLimit) Type() string { return "rows" }

// rowsToFetch returns the number of rows to request: one more than the n to show, so that the list can report that there
// are more; 0 means all.
func rowsToFetch(n int) int {
	if n <= 0 {
		return 0
	}
	return n + 1
}
