// Package agent runs the turns of agent sessions in the background: it claims queued
// sessions, calls the model step by step, runs the tools that the model calls, and records
// the results through package session.
//
// It never uses HTTP or SQL directly, never calls a model except through the gateway, and
// never writes to a session whose lease it has lost. It keeps no state that must survive a
// restart: the session rows are the queue.
//
// Start at [Worker.Run]. claim.go claims and sweeps; turn.go runs one turn; step.go makes one
// model call; delta.go writes its text while it arrives; prompt.go builds the prompt,
// and compares its beginnings, knowledge.go its files, compact.go its summary;
// executor.go executes the tool calls of a step; connection.go handles calls to servers,
// result.go the excerpts of their results; tools.go implements the built-in tools, image.go
// their image output.
package agent

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/extract"
	"stoa/internal/base/ratelimit"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
	"stoa/internal/models/gateway"
)

// Config configures [New]. Sessions, Gateway, Drives, Tools and Plans are required; the other
// fields have the defaults in brackets.
type Config struct {
	Sessions *session.Sessions
	Gateway  *gateway.Gateway
	Drives   *drive.Drives
	// Tools calls the tools of connections.
	Tools *tool.Tools
	// Tables answers the queries of agents [none: no agent has the tools for them].
	Tables extract.TableReader
	// Plans returns the plan with the given id. Calls of a session use the account's current
	// plan. The plan's ActiveSessions limits the turns of an account that run at the same
	// time.
	Plans func(id string) stoa.Plan

	// Workers is the maximum number of turns that run at the same time in this process
	// [2048]. A turn that waits for its model uses some 50 KB, including the connection to
	// the provider.
	Workers int
	Grace   time.Duration // time that a step may continue after Run's context ends [5 s]; negative means none
	// Shared reports that other processes run sessions of the same store. The worker then polls
	// every second, because only the store has their cancellations and events.
	Shared bool

	KnowledgeSize int64 // maximum size, in tokens, of a drive that is included in the prompt whole [24,000]
	// CompactAt is the part of a model's window, in percent, above which sessions are summarized;
	// 0 means never.
	CompactAt  int
	ToolOutput int                // maximum size, in bytes, of a tool's result [16 KiB]
	Logger     *slog.Logger       // [none]
	Metrics    *telemetry.Metrics // [none]
	Tracer     *telemetry.Tracer  // [none]
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
	id       string // owner of its leases; unique within this process
	sessions *session.Sessions
	store    *store.Store
	alarm    *session.Alarm
	log      *slog.Logger
	images   ratelimit.Turns // limits the steps and tool calls that hold images, by account

	lastStrayScan time.Time // used only by the claiming loop

	mu       sync.Mutex
	runs     map[string]*run
	stopping bool
	after    string // account that was served last, so that the next one is first
}

// New returns the worker for sessions; a process must not create a second one. Nothing runs
// before [Worker.Run] is called.
func New(cfg Config) *Worker {
	cfg = cfg.withDefaults()
	w := &Worker{
		cfg: cfg, id: stoa.NewID("runner"), sessions: cfg.Sessions, store: cfg.Sessions.Store(),
		alarm: cfg.Sessions.Alarm(), log: cfg.Logger, runs: map[string]*run{},
	}
	w.sessions.OnStop(w.stop)
	return w
}

// caller returns the caller on whose behalf a session's calls are made: the account in its
// current state, and the key that started the session, whose limits apply. Visitors stop when
// half of the key's credits of the day is spent, because the rest is reserved for its owner.
func (w *Worker) caller(ctx context.Context, tx *store.Tx, row *store.SessionRow) (c stoa.Caller, err error) {
	if c.Account, err = tx.Books().Account(ctx, row.AccountID); err != nil {
		return c, err
	}
	c.Plan = w.cfg.Plans(c.Account.Plan)
	if row.KeyID == "" {
		return c, nil
	}
	if c.Key, err = tx.People().Key(ctx, row.AccountID, row.KeyID); stoa.CodeOf(err) == stoa.CodeNotFound {
		c.Key, err = stoa.Key{ID: row.KeyID}, nil
	}
	if row.Trigger.Exposed() {
		c.Key.Models = nil // because they name the agent, which was checked when its turn began
	}
	if most := &c.Key.MaxCreditsPerDay; row.Line != "" && *most > 0 {
		*most = max(*most/2, 1)
	}
	return c, err
}

func (w *Worker) stop(sessionID string, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.runs[sessionID]; r != nil {
		r.cancel(cause)
	}
}

// Running returns the number of turns that run in this process.
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
