package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"

	"stoa/internal/config"
	"stoa/internal/logwriter"
)

// flushTime is how long the end of the service waits for the last lines of its log.
const flushTime = 2 * time.Second

// serviceLog returns a logger on standard error that never waits for it, and what
// writes its lines, which [env.endLog] ends.
func (e *env) serviceLog(l config.Log) (*slog.Logger, *logwriter.Writer) {
	handler := e.logHandler(l)
	lines := logwriter.New(e.err, func(to io.Writer, lines uint64) {
		// Whatever the level of the log is: errors may be among them.
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "lines of the log were dropped, as they came faster than they could be written", 0)
		r.AddAttrs(slog.Uint64("lines", lines))
		_ = handler(to).Handle(context.Background(), r) // to is a buffer
	})
	return slog.New(handler(lines)), lines
}

// endLog writes the last lines of the log. If standard error takes none, the command
// says nothing there either, so that it ends.
func (e *env) endLog(lines *logwriter.Writer) {
	if !lines.Close(flushTime) {
		e.err = io.Discard
	}
}

// logHandler returns what makes handlers that write the log as it is read on standard
// error: coloured text on a terminal, plain text elsewhere, or JSON.
func (e *env) logHandler(l config.Log) func(io.Writer) slog.Handler {
	options := slog.HandlerOptions{Level: l.SlogLevel()}
	if l.Format == "json" {
		return func(to io.Writer) slog.Handler { return slog.NewJSONHandler(to, &options) }
	}
	if f, ok := e.err.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		plain := e.getenv("NO_COLOR") != ""
		return func(to io.Writer) slog.Handler {
			return tint.NewTextHandler(to, &tint.Options{Level: options.Level, TimeFormat: "15:04:05.000", NoColor: plain})
		}
	}
	return func(to io.Writer) slog.Handler { return slog.NewTextHandler(to, &options) }
}
