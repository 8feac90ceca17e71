// Package scheduler starts sessions at the instants of scheduled tasks, and has
// the verbs that create, change, pause and run tasks.
//
// It uses the exported verbs of package session alone: a run is an ordinary
// session, and the worker that runs it does not know why it began. Which instants
// a schedule has is package schedule's. What has to survive is in the rows of the
// tasks; several processes may run a scheduler on the same store.
//
// Start at [Scheduler.Run] and [Scheduler.Tick]; verbs.go is for handlers, task.go
// has every change of a task.
package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stoa/internal/schedule"
	"stoa/internal/session"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/telemetry"
)

// Config configures [New]. Sessions is required; zeros of the rest mean the
// defaults in brackets.
type Config struct {
	Sessions *session.Sessions
	// Shared reports that other processes write the same store; then the rows are read
	// every second.
	Shared bool
	// Now is the clock on which instants fall due [time.Now]. It may jump, in both
	// directions: what has run never runs again. Instants that were skipped because a
	// clock was ahead fall due at their time, once it has been right for five minutes.
	Now      func() time.Time
	PerAgent int                // tasks of one agent [50]
	Interval time.Duration      // the least between two runs [1 min]
	Keep     int                // runs of one task that are kept, ended ones [10,000]
	Logger   *slog.Logger       // [none]
	Metrics  *telemetry.Metrics // [none]
}

// A Scheduler starts sessions at the instants of scheduled tasks. It is safe for
// use by many goroutines.
type Scheduler struct {
	cfg      Config
	sessions *session.Sessions
	store    *store.Store
	log      *slog.Logger
	zones    schedule.Zones
	wakeup   chan struct{} // a task has changed
	clock    steadiness
}

// New returns a scheduler. Nothing begins before [Scheduler.Run].
func New(cfg Config) *Scheduler {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.PerAgent = cmp.Or(cfg.PerAgent, 50)
	cfg.Interval = cmp.Or(cfg.Interval, schedule.MinEvery)
	cfg.Keep = cmp.Or(cfg.Keep, 10_000)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Scheduler{cfg: cfg, sessions: cfg.Sessions, store: cfg.Sessions.Store(), log: cfg.Logger, wakeup: make(chan struct{}, 1)}
}

// wake has the loop look now.
func (s *Scheduler) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

func (s *Scheduler) report(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.log.LogAttrs(ctx, slog.LevelError, what, slog.Any("error", err))
	}
}

// now is the present, as exact as it is stored.
func (s *Scheduler) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

const (
	pollShared    = time.Second           // how often the rows are read when other processes write them too
	pollAlone     = 15 * time.Second      // and when none does: what changes wakes the loop, so this only heals
	dueBatch      = 25                    // tasks in one transaction, so that no other writer waits for long
	rowsBatch     = 2000                  // and about as many rows
	batchPause    = 10 * time.Millisecond // after a transaction that judged many instants
	writersBeside = 4                     // transactions at once, where the database allows it
	capacityPoll  = time.Second           // how often the queue of sessions is read while runs wait for a place in it
)

// Run starts what falls due until ctx ends. It sleeps until the next instant, or
// until there is news.
func (s *Scheduler) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wakeup:
		case <-s.sessions.RunsChanged():
		case <-timer.C:
		}
		wait, err := s.look(ctx)
		if err != nil {
			s.report(ctx, "the scheduled tasks could not be read", err)
			wait = pollShared
		}
		timer.Reset(wait)
	}
}

// look does all that there is to do, and tells how long there will be nothing.
func (s *Scheduler) look(ctx context.Context) (time.Duration, error) {
	next, waiting, err := s.Tick(ctx)
	if err != nil {
		return 0, err
	}
	// The clock may be set at any time, and others may write the rows.
	wait := pollAlone
	if s.cfg.Shared {
		wait = pollShared
	}
	if !next.IsZero() {
		wait = min(wait, next.Sub(s.now()))
	}
	if waiting {
		wait = min(wait, capacityPoll)
	}
	return max(wait, time.Millisecond), nil
}

// Tick does what is to be done at this moment: it starts or skips what is due,
// takes note of runs that have ended, and starts those that waited. It gives the
// next instant of any task, zero for none, and reports whether runs wait for
// a place among the account's sessions.
func (s *Scheduler) Tick(ctx context.Context) (next time.Time, waiting bool, err error) {
	// What is late is judged by when the pass began, not by how long it takes.
	pass := s.now()
	for {
		now := s.now()
		s.clock.observe(now)
		if now.Before(pass) { // it was set back meanwhile
			pass = now
		}
		if err := s.correct(ctx); err != nil {
			return time.Time{}, false, err
		}
		var todo store.PendingTaskWork
		err := s.store.Read(ctx, func(tx *store.Tx) (err error) {
			todo, err = tx.PendingTaskWork(ctx)
			return err
		})
		due := !todo.NextAt.IsZero() && !todo.NextAt.After(pass)
		done := 0
		for _, job := range []struct {
			needed bool
			do     func() (int, error)
		}{
			{due, func() (int, error) {
				return s.beside(func() (int, error) {
					n, _, err := s.batch(ctx, pass, func(tx *store.Tx) ([]store.Ref, error) { return tx.DueTasks(ctx, pass, dueBatch) }, (*transition).chunk)
					return n, err
				})
			}},
			{todo.Settle, func() (int, error) {
				n, _, err := s.batch(ctx, pass, func(tx *store.Tx) ([]store.Ref, error) { return tx.TasksToSettle(ctx, dueBatch) }, nil)
				return n, err
			}},
			{todo.Capacity, func() (int, error) { return s.startWaiting(ctx, pass) }},
			{todo.Deleted, func() (int, error) { return s.sweep(ctx) }},
		} {
			if job.needed && err == nil {
				var n int
				n, err = job.do()
				done += n
			}
		}
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil:
			return todo.NextAt, todo.Capacity, err
		case done > 0:
		case due: // what is left, another process is at
			return pass.Add(pollShared), todo.Capacity, nil
		case todo.NextAt.IsZero() || todo.NextAt.After(s.now()):
			return todo.NextAt, todo.Capacity, nil
		default:
			pass = s.now()
		}
	}
}

// beside does the same several times at once, where the database has more than
// one writer. It adds up what they did.
func (s *Scheduler) beside(do func() (int, error)) (int, error) {
	if !s.store.Postgres() {
		return do()
	}
	var group errgroup.Group
	var total atomic.Int64
	for range writersBeside {
		group.Go(func() error {
			n, err := do()
			total.Add(int64(n))
			return err
		})
	}
	err := group.Wait()
	return int(total.Load()), err
}

// batch changes tasks in one transaction: first it takes note of what has ended,
// then work, then what waits may start. It tells how many it looked at, and how
// many runs began. A task that cannot be changed keeps nobody else from it.
func (s *Scheduler) batch(ctx context.Context, now time.Time, pick func(tx *store.Tx) ([]store.Ref, error), work func(*transition) error) (n, began int, err error) {
	s.clock.observe(s.now())
	judged := 0 // instants
	err = s.store.Write(ctx, func(tx *store.Tx) error {
		n, began = 0, 0
		refs, err := pick(tx)
		if err != nil {
			return err
		}
		known := accounts{}
		judged = 0
		for _, ref := range refs {
			rows, starts := 0, 0
			err := tx.Savepoint(ctx, func() error {
				c, err := s.open(ctx, tx, now, known, ref.AccountID, "", ref.ID)
				if stoa.CodeOf(err) == stoa.CodeTaskNotFound {
					return nil
				}
				if err == nil {
					err = c.settle()
				}
				if err == nil && work != nil {
					err = work(c)
				}
				if err == nil {
					err = c.advance()
				}
				if err == nil {
					err = c.save()
				}
				rows, starts = c.rows, c.starts
				judged += c.judged
				return err
			})
			if err == nil {
				began += starts
			} else {
				s.log.LogAttrs(ctx, slog.LevelError, "a scheduled task could not be worked on", slog.String("task", ref.ID), slog.Any("error", err))
				if err := tx.PutOffTask(ctx, ref.AccountID, ref.ID); err != nil {
					return err
				}
			}
			n++
			if rows > rowsBatch || judged >= maxChunk {
				break
			}
		}
		return nil
	})
	if err == nil && judged >= maxChunk {
		s.pause(ctx)
	}
	return n, began, err
}

// pause lets other writers in before the next large transaction.
func (s *Scheduler) pause(ctx context.Context) {
	timer := time.NewTimer(batchPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// startWaiting starts runs that wait for capacity, for each account as many as its
// queue has capacity for.
//
// The scheduler fills an account's queue to nine tenths; further runs are recorded
// as queued with waitingFor capacity and get their sessions, oldest first, as the
// queue drains. Otherwise ten thousand tasks of nine o'clock would be refused or
// fail in the queue, and would lock the account's callers out meanwhile. A run that
// waits counts as one that has not ended, so a task under the overlap policy skip
// never has more than one in line; under the others a hundred may wait. Runs that
// are made up for (run_all) wait for each other even under skip: all but the first
// would be skipped as overlapping otherwise.
//
// Skipping such runs was rejected, since the credits are there and the work is
// wanted; so was a limit of their own, since two queues of one account starve each
// other. It would be wrong if delaySeconds grew from day to day.
func (s *Scheduler) startWaiting(ctx context.Context, now time.Time) (int, error) {
	var accounts []string
	err := s.store.Read(ctx, func(tx *store.Tx) (err error) {
		accounts, err = tx.AccountsWaitingForCapacity(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	total := 0
	for _, id := range accounts {
		for began := 1; began > 0 && ctx.Err() == nil; total += began {
			_, began, err = s.batch(ctx, now, func(tx *store.Tx) ([]store.Ref, error) {
				free, err := s.capacity(ctx, tx, id)
				if err != nil || free <= 0 {
					return nil, err
				}
				return tx.TasksWaitingForCapacity(ctx, id, min(free, dueBatch))
			}, nil)
			if err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// sweep removes rows of deleted tasks, a bounded number at a time.
func (s *Scheduler) sweep(ctx context.Context) (n int, err error) {
	err = s.store.Write(ctx, func(tx *store.Tx) error {
		n, err = tx.RemoveHiddenTasks(ctx, sweepRuns)
		return err
	})
	return n, err
}

const sweepRuns = 500

// capacity returns how many more sessions of an account the scheduler may queue:
// it leaves a tenth of the places to callers.
func (s *Scheduler) capacity(ctx context.Context, tx *store.Tx, accountID string) (int, error) {
	limit := s.sessions.Limits().Queued
	limit -= limit / 10
	n, err := tx.QueuedSessions(ctx, accountID, limit)
	return limit - n, err
}

// accounts are those of one transaction, by id, so that each is read once.
type accounts map[string]*account

type account struct {
	suspended bool
	free      int // places in its queue of sessions
}
