package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"stoa/internal/base/config"
	"stoa/internal/base/extract"
)

// newExtract returns the reader of documents. It stores the compiled PDF reader in the user's cache directory, so that
// other services of the user share it, or otherwise in the data directory.
func newExtract(cfg config.Config, log *slog.Logger) *extract.Service {
	dir := filepath.Join(cfg.Data, "cache")
	if user, err := os.UserCacheDir(); err == nil {
		if shared := filepath.Join(user, "stoa"); extract.CheckCache(shared) == nil {
			dir = shared
		}
	}
	return extract.New(extract.Config{Cache: dir, Logger: log})
}

// warmer is implemented by readers that need preparation.
type warmer interface {
	Warm(ctx context.Context) error
}

// warmDocuments prepares the reader of documents. It ignores failures, because the reader logs them and the diagnosis
// reports them.
func (s *Service) warmDocuments(ctx context.Context) error {
	_ = s.documents(ctx)
	return nil
}

// documents waits until the reader of documents is prepared, and returns the reason why some documents cannot be
// read, or nil.
func (s *Service) documents(ctx context.Context) error {
	if w, ok := s.Extract.(warmer); ok {
		return w.Warm(ctx)
	}
	return nil
}
