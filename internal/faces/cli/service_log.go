package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"

	"stoa/internal/base/config"
	"stoa/internal/base/logwriter"
)

// flushTime limits the wait for the last lines of the log, because a blocked standard error must not keep the service
// from exiting.
const flushTime = 2 * time.Second

func (e *env) serviceLog(l config.Log) (*slog.Logger, *logwriter.Writer) {
	handler := e.logHandler(l)
	lines := logwriter.New(e.err, func(to io.Writer, lines uint64) {
		// The line is written at every log level, because the dropped lines may be errors.
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "lines of the log were dropped, because they arrived faster than they could be written", 0)
		r.AddAttrs(slog.Uint64("lines", lines))
		_ = handler(to).Handle(context.Background(), r) // ignored, because to is a buffer
	})
	return slog.New(handler(lines)), lines
}

// endLog writes the last lines of the log. If standard error is blocked, it is discarded, so that the command can exit.
func (e *env) endLog(lines *logwriter.Writer) {
	if !lines.Close(flushTime) {
		e.err = io.Discard
	}
}

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
