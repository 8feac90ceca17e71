// Package agent runs the turns of agent sessions in the background: it claims
// queued sessions, calls the model step by step, runs the tools that the model
// asks for, and writes what came of it through package session.
//
// It never knows HTTP or SQL, never calls a model but through the gateway, and
// never writes for a session whose lease it has lost. It keeps nothing that has
// to survive: the rows of the sessions are the queue.
//
// Start at [Worker.Run]. claim.go claims and sweeps; turn.go runs one turn;
// step.go makes one model call; delta.go writes its text while it arrives;
// prompt.go builds what the model is told; executor.go answers the tool calls of a
// step; connection.go those of servers, result.go what of their results is shown; tools.go
// has the tools of the service itself, image.go what they show of images.
package agent

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"stoa/internal/drive"
	"stoa/internal/gateway"
	"stoa/internal/ratelimit"
	"stoa/internal/session"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/telemetry"
	"stoa/internal/tool"
)

// Config configures [New]. Sessions, Gateway, Drives, Tools and Plans are required;
// zeros of the rest mean the defaults in brackets.
type Config struct {
	Sessions *session.Sessions
	Gateway  *gateway.Gateway
	Drives   *drive.Drives
	// Tools calls the tools of connections.
	Tools *tool.Tools
	// Plans returns the plan with that id, for the calls of sessions: they are made
	// for the account as it is then. Its ActiveSessions is how many turns of an
	// account run at the same time.
	Plans func(id string) stoa.Plan

	// Workers is how many turns run at once in this process [2048]. One that waits for
	// its model takes some 50 KB, its connection to the provider included.
	Workers int
	Grace   time.Duration // how long a step may go on after Run was told to stop [5 s]; negative: not at all
	// Shared reports that other processes run sessions of the same store. Their cancels
	// and events are then looked for each second.
	Shared bool

	KnowledgeSize int64              // tokens of a drive that goes into the prompt whole [24,000]
	ToolOutput    int                // bytes that a tool may answer [16 KiB]
	Logger        *slog.Logger       // [none]
	Metrics       *telemetry.Metrics // [none]
	Tracer        *telemetry.Tracer  // [none]
}

func (c Config) withDefaults() Config {
	c.Workers = cmp.Or(c.Workers, 2048)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	c.KnowledgeSize = cmp.Or(c.KnowledgeSize, 24_000)
	c.ToolOutput = cmp.Or(c.ToolOutput, session.ShownOutput)
	if c.Tools == nil {
		c.Tools = &tool.Tools{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Worker runs sessions. It is safe for use by many goroutines.
type Worker struct {
	cfg      Config
	id       string // of this worker in this process, as the owner of leases
	sessions *session.Sessions
	store    *store.Store
	alarm    *session.Alarm
	log      *slog.Logger
	images   ratelimit.Turns // of what holds images, by account

	lastStrayScan time.Time // the claiming loop's

	mu       sync.Mutex
	runs     map[string]*run // by session
	stopping bool
	after    string // account that was served last
}

// New returns a worker for sessions; they have no other in this process. Nothing
// runs before [Worker.Run].
func New(cfg Config) *Worker {
	cfg = cfg.withDefaults()
	w := &Worker{
		cfg: cfg, id: stoa.NewID("runner"), sessions: cfg.Sessions, store: cfg.Sessions.Store(),
		alarm: cfg.Sessions.Alarm(), log: cfg.Logger, runs: map[string]*run{},
	}
	w.sessions.OnStop(w.stop)
	return w
}

// caller returns for whom a session's calls are made now: the account as it is,
// and the key that started the session, whose limits count.
func (w *Worker) caller(ctx context.Context, tx *store.Tx, accountID, keyID string) (c stoa.Caller, err error) {
	if c.Account, err = tx.Account(ctx, accountID); err != nil {
		return c, err
	}
	c.Plan = w.cfg.Plans(c.Account.Plan)
	if keyID == "" {
		return c, nil
	}
	if c.Key, err = tx.Key(ctx, accountID, keyID); stoa.CodeOf(err) == stoa.CodeNotFound {
		c.Key, err = stoa.Key{ID: keyID}, nil
	}
	return c, err
}

// stop ends what this process does for a session, if anything.
func (w *Worker) stop(sessionID string, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.runs[sessionID]; r != nil {
		r.cancel(cause)
	}
}

// Running returns how many turns run in this process.
func (w *Worker) Running() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(len(w.runs))
}

func (w *Worker) stopAll(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		r.cancel(cause)
	}
}

func (w *Worker) isStopping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopping
}

func (w *Worker) report(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		w.log.LogAttrs(ctx, slog.LevelError, what, slog.Any("error", err))
	}
}
