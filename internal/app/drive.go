package app

import (
	"context"
	"time"

	"stoa/internal/db"
	"stoa/internal/drive"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// driveSweep is how often drives are looked over for what agents left behind.
const driveSweep = 10 * time.Minute

// openDrives opens the agents' files, which have a database file of their own.
func (h *house) openDrives(ctx context.Context) (*drive.Drives, error) {
	cfg := h.opts.Config
	return drive.Open(ctx, db.Config{
		Dir: cfg.Data, PostgresURL: string(cfg.Database), Durability: db.Durability(cfg.Durability), Logger: h.log,
	}, drive.Limits{
		MaxPath: int(cfg.Limits.DrivePath), MaxSegment: int(cfg.Limits.DriveSegment),
		MaxFileBytes: int64(cfg.Limits.File), MaxBytes: int64(cfg.Limits.Drive), MaxFiles: int64(cfg.Limits.DriveFiles),
	})
}

// sweepDrives runs until ctx ends.
func (h *house) sweepDrives(ctx context.Context) error {
	return h.drives.Run(ctx, driveSweep, h.agentsExist, func(err error) { h.log.Error("the sweep of the drives failed; it is tried again later", "error", err) })
}

// agentsExist tells the drives, which know no agents, whose agents are there.
func (h *house) agentsExist(ctx context.Context, owners []drive.Owner) ([]bool, error) {
	there := make([]bool, len(owners))
	err := h.store.Read(ctx, func(tx *store.Tx) error {
		for i, o := range owners {
			_, err := tx.Agent(ctx, o.AccountID, o.AgentID)
			if err != nil && stoa.CodeOf(err) != stoa.CodeAgentNotFound {
				return err
			}
			there[i] = err == nil
		}
		return nil
	})
	return there, err
}
