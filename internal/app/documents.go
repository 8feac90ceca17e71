package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"stoa/internal/config"
	"stoa/internal/extract"
)

// newExtract returns the reader of documents. The compiled PDF reader is stored in the user's
// cache directory, so that other services of the user share it, or in the data directory.
func newExtract(cfg config.Config, log *slog.Logger) *extract.Service {
	dirs := []string{filepath.Join(cfg.Data, "cache")}
	if user, err := os.UserCacheDir(); err == nil {
		dirs = append([]string{filepath.Join(user, "stoa")}, dirs...)
	}
	for _, dir := range dirs[:len(dirs)-1] {
		if extract.CheckCache(dir) == nil {
			return extract.New(extract.Config{Cache: dir, Logger: log})
		}
	}
	return extract.New(extract.Config{Cache: dirs[len(dirs)-1], Logger: log})
}

// errWarming means that the reader of PDF files is being compiled.
var errWarming = errors.New("the reader of PDF files is being compiled")

// warmer is implemented by readers that have to be prepared.
type warmer interface {
	Warm(ctx context.Context) error
}

// warmDocuments prepares the reader of documents. Its failures are logged there and reported
// by the diagnosis.
func (s *Service) warmDocuments(ctx context.Context) error {
	if w, ok := s.Extract.(warmer); ok {
		_ = w.Warm(ctx)
	}
	return nil
}

// documents returns the reason why some documents cannot be read; nil if all can.
func (s *Service) documents(ctx context.Context) error {
	w, ok := s.Extract.(warmer)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errWarming)
	defer cancel()
	return w.Warm(ctx)
}
