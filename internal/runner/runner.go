// Package runner does the work nobody waits for: it runs the turns of agent
// sessions, and has the verbs that start, feed, stop and read them.
//
// It never knows HTTP or SQL, never asks a model but through the gateway, and
// never writes for a session whose lease it has lost. The rows of the sessions
// are the queue; there is no other state that has to survive.
//
// For handlers: [Runner.Start], [Runner.Send], [Runner.Answer], [Runner.Cancel],
// [Runner.Retry], [Runner.Edit] and the Delete verbs write; [Runner.Get],
// [Runner.Wait], [Runner.List], [Runner.Events] and their neighbours in read.go
// and events.go only read. Spaces and agents are edited through the store
// itself (store/space.go, store/agent.go), inside the handler's transaction.
// For app: [Runner.Recover] before the listener opens, then [Runner.Run].
//
// Inside: moves.go has every change of a session's state; run.go claims and
// sweeps; turn.go runs one turn; step.go makes one model call; prompt.go says
// what the model is told; tools.go has the tools.
package runner

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/drive"
	"stoa/internal/gateway"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// Config says what a runner works with. Store, Gateway, Drives and Plans are
// required; zeros of the rest mean the defaults in brackets.
type Config struct {
	Store   *store.Store
	Gateway *gateway.Gateway
	Drives  *drive.Drives
	// Plans gives the plan with that id, for the calls of sessions: they are made
	// for the account as it is then. Its ActiveSessions is how many turns run at
	// the same time.
	Plans func(id string) stoa.Plan
	// AgentDeleted is called in the transaction that deletes an agent, for what
	// hangs on it elsewhere: schedules stop, embed tokens die.
	AgentDeleted []func(ctx context.Context, tx *store.Tx, accountID, agentID string) error

	Workers int           // turns that run at once in this process [128]
	Grace   time.Duration // how long a step may go on after Run was told to stop [5 s]; negative: not at all
	// Shared says that other processes run sessions of the same store. Without it
	// every lease of an earlier life is void at once, and nobody has to be
	// listened for.
	Shared bool
	Lease  time.Duration // for which a claim holds without a heartbeat, where the store is shared [10 s]
	Limits Limits
	Logger *slog.Logger // [none]
}

// Limits bound what sessions may take. Zeros mean the defaults in brackets.
type Limits struct {
	Queued         int           // queued sessions of an account [1,000]
	QueueTime      time.Duration // that a turn waits for its first claim [1 h]
	QueuedMessages int           // waiting in one session [10]
	Steps          int           // of a turn; agents and sessions can only lower it [50]
	TurnTime       time.Duration // of a turn; agents and sessions can only lower it [10 min]
	InputTime      time.Duration // that a turn waits for its user [7 days]
	MessageChars   int           // of a message [100,000]
	KnowledgeSize  int64         // tokens of a drive that goes into the prompt whole [24,000]
	ToolOutput     int           // bytes that a tool may answer [16 KiB]
}

func (l Limits) withDefaults() Limits {
	or := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	orTime := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	or(&l.Queued, 1000)
	or(&l.QueuedMessages, 10)
	or(&l.Steps, 50)
	or(&l.MessageChars, 100_000)
	or(&l.ToolOutput, 16<<10)
	orTime(&l.QueueTime, time.Hour)
	orTime(&l.TurnTime, 10*time.Minute)
	orTime(&l.InputTime, 7*24*time.Hour)
	if l.KnowledgeSize == 0 {
		l.KnowledgeSize = 24_000
	}
	return l
}

// A Runner runs sessions. It is safe for use by many goroutines.
type Runner struct {
	cfg Config
	id  string // of this life of this process, as the owner of leases
	log *slog.Logger
	hub *hub

	wake      chan struct{} // a session may have become claimable, or a place free
	news      chan struct{} // for the scheduler: a run has ended, or a task has changed
	strayLook time.Time     // the claiming loop's
	nextLook  atomic.Int64  // when the claiming loop looks by itself, in microseconds since 1970

	mu       sync.Mutex
	runs     map[string]*run // by session
	stopping bool
	after    string // account that was served last
}

// New makes a runner. Nothing runs before [Runner.Run].
func New(cfg Config) *Runner {
	if cfg.Workers == 0 {
		cfg.Workers = 128
	}
	if cfg.Grace == 0 {
		cfg.Grace = 5 * time.Second
	}
	if cfg.Lease == 0 {
		cfg.Lease = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Limits = cfg.Limits.withDefaults()
	return &Runner{
		cfg: cfg, id: stoa.NewID("runner"), log: cfg.Logger, hub: newHub(),
		wake: make(chan struct{}, 1), news: make(chan struct{}, 1), runs: map[string]*run{},
	}
}

// Limits are the limits in force.
func (r *Runner) Limits() Limits { return r.cfg.Limits }

// caller is for whom a session's calls are made now: the account as it is, and
// the key that started the session, whose limits count.
func (r *Runner) caller(ctx context.Context, accountID, keyID string) (stoa.Caller, error) {
	var c stoa.Caller
	err := r.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if c.Account, err = tx.Account(ctx, accountID); err != nil || keyID == "" {
			return err
		}
		if c.Key, err = tx.Key(ctx, accountID, keyID); stoa.CodeOf(err) == stoa.CodeNotFound {
			c.Key, err = stoa.Key{ID: keyID}, nil
		}
		return err
	})
	c.Plan = r.cfg.Plans(c.Account.Plan)
	return c, err
}

// nudge has the claiming loop look now.
func (r *Runner) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// tell has the scheduler look now.
func (r *Runner) tell() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// also is what a verb does in its transaction at the end: what has to commit
// with it, such as an idempotency key's answer.
type also = func(ctx context.Context, tx *store.Tx, s stoa.Session) error
