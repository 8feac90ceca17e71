package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const driveSweep = 10 * time.Minute

// openDrives opens the agents' files in their separate database file.
func openDrives(ctx context.Context, cfg config.Config, st *store.Store, documents extract.Reader, log *slog.Logger) (*drive.Drives, error) {
	d, err := drive.Open(ctx, db.Config{
		Dir: cfg.Data, PostgresURL: string(cfg.Database), Durability: db.Durability(cfg.Durability), Fence: st.Fence(), Lineage: st.Lineage(), Logger: log,
	}, drive.Limits{
		MaxPath: int(cfg.Limits.DrivePath), MaxSegment: int(cfg.Limits.DriveSegment),
		MaxFileBytes: int64(cfg.Limits.File), MaxBytes: int64(cfg.Limits.Drive), MaxFiles: int64(cfg.Limits.DriveFiles), MaxAccountBytes: int64(cfg.Limits.DrivesPerAccount),
	})
	if err != nil {
		return nil, err
	}
	d.UseReader(documents)
	if cfg.Drive.Store.S3.Endpoint == "" {
		return d, nil
	}
	bucket, err := drive.NewBucket(cfg.Drive.Store.S3)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.UseBucket(bucket)
	if err := bucket.Check(ctx); err != nil { // logged only, because the service works without it except for large files
		log.Error("the bucket for large files is not available", "error", err)
	}
	return d, nil
}

func (s *Service) sweepDrives(ctx context.Context) error {
	return s.Drives.Run(ctx, driveSweep, s.ownersExist, func(err error) { s.log.Error("the sweep of the drives failed; it is tried again later", "error", err) })
}

// ownersExist returns which agents and uploads exist, because the drives cannot see the other database.
func (s *Service) ownersExist(ctx context.Context, owners []drive.Owner) ([]bool, error) {
	there := make([]bool, len(owners))
	err := s.Store.Read(ctx, func(tx *store.Tx) error {
		for i, o := range owners {
			if strings.HasPrefix(o.AgentID, "upl_") {
				var err error
				if there[i], err = tx.Work().HasUpload(ctx, o.AccountID, o.AgentID); err != nil {
					return err
				}
				continue
			}
			_, err := tx.Setup().Agent(ctx, o.AccountID, o.AgentID)
			if err != nil && stoa.CodeOf(err) != stoa.CodeAgentNotFound {
				return err
			}
			there[i] = err == nil
		}
		return nil
	})
	return there, err
}

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
