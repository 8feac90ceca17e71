package api_test

import (
	"bytes"
	"log/slog"
	"sync"
)

// A logBuffer keeps what is logged.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func capture() (*logBuffer, *slog.Logger) {
	l := &logBuffer{}
	return l, slog.New(slog.NewTextHandler(l, nil))
}

// unhealthy is the body of a health check that fails.
type unhealthy struct{ Status string }
