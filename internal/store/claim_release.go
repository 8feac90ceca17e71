package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"stoa/internal/db"
)

const (
	// maxFreeLater is how many claims wait to be freed: more than the calls that a node
	// has under way.
	maxFreeLater = 100_000
	// freeTogether is how many of them are freed in one transaction.
	freeTogether = 64
	// freePause is the time between two attempts.
	freePause = 250 * time.Millisecond
)

// claimsToFree are claims that could not be freed when their requests ended.
type claimsToFree struct {
	mu      sync.Mutex
	list    []Claim
	working bool
	stop    chan struct{} // closed by Close
	worker  sync.WaitGroup
}

// freeDoubtful is [Tx.FreeClaim] of a claim whose commit may still be on its way: where a
// transaction that has claimed the key has not ended, this one waits for it. Otherwise
// nothing would be found, and the claim be there afterwards.
func (tx *Tx) freeDoubtful(ctx context.Context, c Claim) error {
	if tx.s.Postgres() {
		now := db.Micros(tx.Now)
		if err := tx.Later(ctx, `INSERT INTO idempotency (account_id, method, path, key, body_hash, state, owner, claim, created_at, expires_at)
			VALUES ($1, $2, $3, $4, '', 'running', $5, $6, $7, $7) ON CONFLICT (account_id, method, path, key) DO NOTHING`,
			c.AccountID, c.Method, c.Path, c.Key, tx.s.node, c.ID, now); err != nil {
			return err
		}
	}
	return tx.FreeClaim(ctx, c)
}

// FreeLater frees a claim as soon as the store commits: one that could not be freed, or
// whose commit is unknown. Otherwise nobody could repeat the request while this process
// lives.
func (s *Store) FreeLater(c Claim) {
	f := &s.toFree
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.stop:
		return // whoever ends the node frees it
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

// freeClaims frees what waits for it, and returns when nothing does.
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
				if err := tx.freeDoubtful(ctx, c); err != nil {
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

// end stops freeing claims.
func (f *claimsToFree) end() {
	f.mu.Lock()
	select {
	case <-f.stop: // closed twice
	default:
		close(f.stop)
	}
	f.mu.Unlock()
	f.worker.Wait()
}
