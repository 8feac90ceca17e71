// Package scheduler starts sessions at the instants of scheduled tasks, and implements the
// verbs that create, change, pause and run tasks.
//
// It only uses the exported verbs of package session: a run is an ordinary session, and its
// worker is independent of the reason why it began. Package schedule computes the instants of
// a schedule. All durable state is in the rows of the tasks; several processes may run a
// scheduler on the same store.
//
// Start at [Scheduler.Run] and [Scheduler.Tick]; verbs.go is for handlers, task.go contains
// every change of a task.
package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stoa/internal/agents/session"
	"stoa/internal/base/schedule"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
)

// Config configures [New]. Sessions is required; zero values of the other fields mean the
// defaults in brackets.
type Config struct {
	Sessions *session.Sessions
	// Shared means that other processes write to the same store; the rows are then read every
	// second.
	Shared bool
	// Now is the clock that determines when instants are due [time.Now]. It may jump in both
	// directions: an instant never runs twice. Instants that were skipped because a clock was
	// ahead become due at their time, once the clock has been right for five minutes.
	Now      func() time.Time
	PerAgent int                // maximum number of tasks of one agent [50]
	Interval time.Duration      // minimum time between two runs [1 min]
	Keep     int                // ended runs that are kept per task [10,000]
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
	wakeup   chan struct{}
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

func (s *Scheduler) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// now returns the present, with the precision in which it is stored.
func (s *Scheduler) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

const (
	dueBatch          = 25                    // tasks per transaction, so that other writers do not wait long
	rowsBatch         = 2000                  // approximate maximum of rows per transaction
	batchPause        = 10 * time.Millisecond // after a transaction that processed many instants
	concurrentWriters = 4                     // concurrent transactions, if the database supports them
	capacityPoll      = time.Second           // polling interval of the queue of sessions while runs wait for a place in it
)

// Run starts due runs until ctx ends. It sleeps until the next instant or a change.
func (s *Scheduler) Run(ctx context.Context) error {
	stoa.Poll(ctx, s.wakeup, s.sessions.RunsChanged(), func() time.Duration {
		wait, err := s.look(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.log.LogAttrs(ctx, slog.LevelError, "the scheduled tasks could not be read", slog.Any("error", err))
			}
			wait = stoa.PollShared
		}
		return wait
	})
	return nil
}

// look does all pending work, and returns the time until the next work.
func (s *Scheduler) look(ctx context.Context) (time.Duration, error) {
	next, waiting, err := s.Tick(ctx)
	if err != nil {
		return 0, err
	}
	// The clock may be set at any time, and other processes may write the rows.
	wait := stoa.PollEvery(s.cfg.Shared)
	if !next.IsZero() {
		wait = min(wait, next.Sub(s.now()))
	}
	if waiting {
		wait = min(wait, capacityPoll)
	}
	return max(wait, time.Millisecond), nil
}

// Tick does the work that is due now: it starts or skips due instants, records ended runs,
// and starts waiting runs. It returns the next instant of any task, zero if none, and reports
// whether runs wait for a place among the account's sessions.
func (s *Scheduler) Tick(ctx context.Context) (next time.Time, waiting bool, err error) {
	// Lateness is measured at the start of the pass, so that its duration does not matter.
	pass := s.now()
	for {
		now := s.now()
		s.clock.observe(now)
		if now.Before(pass) { // because the clock was set back in the meantime
			pass = now
		}
		if err := s.correct(ctx); err != nil {
			return time.Time{}, false, err
		}
		todo, err := store.Read(ctx, s.store, func(tx *store.Tx) (store.PendingTaskWork, error) { return tx.Work().PendingTaskWork(ctx) })
		due := !todo.NextAt.IsZero() && !todo.NextAt.After(pass)
		done := 0
		for _, job := range []struct {
			needed bool
			do     func() (int, error)
		}{
			{due, func() (int, error) {
				return s.concurrently(func() (int, error) {
					n, _, err := s.batch(ctx, pass, func(tx *store.Tx) ([]store.Ref, error) { return tx.Work().DueTasks(ctx, pass, dueBatch) }, (*transition).chunk)
					return n, err
				})
			}},
			{todo.Settle, func() (int, error) {
				n, _, err := s.batch(ctx, pass, func(tx *store.Tx) ([]store.Ref, error) { return tx.Work().TasksToSettle(ctx, dueBatch) }, nil)
				return n, err
			}},
			{todo.Capacity, func() (int, error) { return s.startWaiting(ctx, pass) }},
			{todo.Deleted, func() (int, error) {
				return store.Write(ctx, s.store, func(tx *store.Tx) (int, error) { return tx.Work().RemoveHiddenTasks(ctx, sweepRuns) })
			}},
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
		case due: // because another process works on the rest
			return pass.Add(stoa.PollShared), todo.Capacity, nil
		case todo.NextAt.IsZero() || todo.NextAt.After(s.now()):
			return todo.NextAt, todo.Capacity, nil
		default:
			pass = s.now()
		}
	}
}

// concurrently runs do several times concurrently, if the database supports more than one writer,
// and returns the sum of the results.
func (s *Scheduler) concurrently(do func() (int, error)) (int, error) {
	if !s.store.Postgres() {
		return do()
	}
	var group errgroup.Group
	var total atomic.Int64
	for range concurrentWriters {
		group.Go(func() error {
			n, err := do()
			total.Add(int64(n))
			return err
		})
	}
	err := group.Wait()
	return int(total.Load()), err
}

// batch changes tasks in one transaction: first it records ended runs, then calls work, then
// starts waiting runs. It returns the number of tasks that it examined and of runs that
// began. A task that cannot be changed does not affect the others.
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
				if err := tx.Work().PutOffTask(ctx, ref.AccountID, ref.ID); err != nil {
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
		stoa.Sleep(ctx, batchPause)
	}
	return n, began, err
}

// startWaiting starts runs that wait for capacity, for each account as many as its queue has
// capacity for.
//
// The scheduler fills an account's queue to nine tenths; further runs are recorded as queued
// with waitingFor capacity and get their sessions, oldest first, as the queue drains.
// Otherwise ten thousand tasks of nine o'clock would be refused or fail in the queue, and
// would block the account's callers in the meantime. A waiting run counts as one that has not
// ended, so a task under the overlap policy skip never has more than one in line; under the
// others a hundred may wait. Runs that are made up for (run_all) wait for each other even
// under skip: all but the first would be skipped as overlapping otherwise.
//
// Skipping such runs was rejected, since the credits are available and the work is wanted; so
// was a separate limit, since two queues of one account starve each other. Reconsider this if
// delaySeconds grows from day to day.
func (s *Scheduler) startWaiting(ctx context.Context, now time.Time) (int, error) {
	accounts, err := store.Read(ctx, s.store, func(tx *store.Tx) ([]string, error) { return tx.Work().AccountsWaitingForCapacity(ctx) })
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
				return tx.Work().TasksWaitingForCapacity(ctx, id, min(free, dueBatch))
			}, nil)
			if err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// sweepRuns limits the rows of deleted tasks that one transaction removes, so that other writers do not wait long.
const sweepRuns = 500

// capacity returns the number of sessions that the scheduler may still queue for an account. It
// leaves a tenth of the queue to callers, because otherwise the tasks of nine o'clock would block
// them.
func (s *Scheduler) capacity(ctx context.Context, tx *store.Tx, accountID string) (int, error) {
	limit := s.sessions.Limits().Queued
	limit -= limit / 10
	n, err := tx.Work().QueuedSessions(ctx, accountID, store.QueueOf{}, limit)
	return limit - n, err
}

// accounts caches the accounts of one transaction, by id, so that each is read once.
type accounts map[string]*account

type account struct {
	suspended bool
	free      int // free places in its queue of sessions
}
