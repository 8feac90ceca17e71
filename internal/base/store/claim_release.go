package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"stoa/internal/base/db"
)

const (
	// maxFreeLater is the maximum number of claims that wait to be freed. It exceeds the concurrent
	// calls of a node, so that none is dropped.
	maxFreeLater = 100_000
	// freeTogether is the maximum number of claims in one transaction, so that other writers wait only briefly.
	freeTogether = 64
	// freePause is the pause between two attempts, because the store does not commit at the moment.
	freePause = 250 * time.Millisecond
)

// claimsToFree lists claims that could not be freed when their requests ended.
type claimsToFree struct {
	mu      sync.Mutex
	list    []Claim
	working bool
	stop    chan struct{} // closed by Close
	worker  sync.WaitGroup
}

// FreeLater frees a claim as soon as the store commits: one that could not be freed, or
// whose commit is unknown. Otherwise the request could not be repeated while this process
// lives.
func (s *Store) FreeLater(c Claim) {
	f := &s.toFree
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.stop:
		return // the end of the node frees it
	default:
	}
	if len(f.list) >= maxFreeLater {
		s.log.LogAttrs(context.Background(), slog.LevelError, "an Idempotency-Key could not be freed", slog.Any("error", errors.New("too many wait for it")))
		return
	}
	f.list = append(f.list, c)
	if !f.working {
		f.working = true
		f.worker.Go(s.freeClaims)
	}
}

func (s *Store) freeClaims() {
	f := &s.toFree
	ctx := context.Background()
	for {
		f.mu.Lock()
		n := min(len(f.list), freeTogether)
		if n == 0 {
			f.list, f.working = nil, false
			f.mu.Unlock()
			return
		}
		next := f.list[:n:n]
		f.mu.Unlock()
		err := s.Write(ctx, func(tx *Tx) error {
			for _, c := range next {
				// The commit of the claim may still be in progress. The insert waits for a transaction that has claimed
				// the key and not ended: otherwise nothing would be found, and the claim would exist afterwards.
				if tx.s.Postgres() {
					now := db.Micros(tx.Now)
					if err := tx.Later(ctx, `INSERT INTO idempotency (account_id, method, path, key, body_hash, state, owner, claim, created_at, expires_at)
			VALUES ($1, $2, $3, $4, '', 'running', $5, $6, $7, $7) ON CONFLICT (account_id, method, path, key) DO NOTHING`,
						c.AccountID, c.Method, c.Path, c.Key, tx.s.node, c.ID, now); err != nil {
						return err
					}
				}
				if err := tx.FreeClaim(ctx, c); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			f.mu.Lock()
			f.list = f.list[n:]
			f.mu.Unlock()
			continue
		}
		pause := time.NewTimer(freePause)
		select {
		case <-pause.C:
		case <-f.stop:
			pause.Stop()
			return
		case <-s.Lost():
			pause.Stop()
			return
		}
	}
}
