package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

// Life has the times of a node's life on PostgreSQL. Zeros mean the defaults in
// brackets. Expiry, by the node's own clock, has to be well below Death, by the
// database's. See docs/decisions/0038-the-life-of-a-node.md.
type Life struct {
	Every  time.Duration // between two renewals [1 s]
	Expiry time.Duration // without a renewal, after which the node acknowledges nothing [5 s]
	Death  time.Duration // without a renewal, after which others may declare it dead [10 s]
	GiveUp time.Duration // after Expiry, for which the node goes on trying to renew [30 s]
}

func (l Life) withDefaults() Life {
	l.Every = cmp.Or(l.Every, time.Second)
	l.Expiry = cmp.Or(l.Expiry, 5*time.Second)
	l.Death = cmp.Or(l.Death, 10*time.Second)
	l.GiveUp = cmp.Or(l.GiveUp, 30*time.Second)
	return l
}

// NodeInfo is what a node tells of itself to its peers and to operators.
type NodeInfo struct {
	Version    string // of the program
	Address    string // that it listens on
	ConfigHash string // of the settings that all nodes should have in common
}

// ErrLost is returned by Write when this process's node is dead: others may have
// what it had, and the process must stop.
var ErrLost error = stoa.Errorf(stoa.CodeOverloaded, "This node of the service has ended. Try again.").After(time.Second)

var (
	errDeclaredDead = errors.New("another node has declared this one dead")
	errGaveUp       = errors.New("the node could not renew its life in time")
)

const (
	// Between two attempts at a renewal that failed.
	minRenewPause = 50 * time.Millisecond
	maxRenewPause = 500 * time.Millisecond
	// idleTransaction is how long a transaction may wait for this process before
	// PostgreSQL ends it: one that was stopped in the middle keeps its locks so long.
	idleTransaction = 10 * time.Second
)

// fenceQuery keeps a node alive until the commit, and fails where it is dead. A
// renewal does not wait for it; a declaration of death does, because alive is part of
// a unique index.
const fenceQuery = `SELECT 1 / COALESCE((SELECT alive FROM nodes WHERE id = $1 FOR KEY SHARE), 0), set_config('idle_in_transaction_session_timeout', $2, true)`

// life renews the life of this process's node on PostgreSQL, over a connection of its
// own, and declares others dead. There is none on SQLite.
type life struct {
	st     *Store
	times  Life
	log    *slog.Logger
	direct *db.Direct         // of run alone while it runs
	cancel context.CancelFunc // of run
	tasks  sync.WaitGroup     // run, and burials
	lost   chan struct{}
	lose   func()

	began   time.Time    // of the monotonic clock
	renewed atomic.Int64 // when the latest renewal that succeeded was sent; since began
	burying atomic.Bool

	mu        sync.Mutex
	suspended chan struct{} // nil while the node lives as far as it knows; otherwise closed when that changes
	expired   bool          // suspended for longer than Expiry
	onExpiry  func()
	calls     func() int64
	info      NodeInfo

	// Of run alone.
	steady time.Time       // when renewals last began to succeed again; zero: all have
	warned map[string]bool // peers' settings that differ, by node and hash
}

// beginLife registers this process as a node on PostgreSQL and renews its life until
// endLife.
func (s *Store) beginLife(ctx context.Context, cfg Config) error {
	l := &life{
		st: s, direct: s.direct, times: cfg.Life.withDefaults(), log: cfg.Logger, began: time.Now(), info: cfg.Node,
		lost: make(chan struct{}), onExpiry: func() {}, calls: func() int64 { return 0 }, warned: map[string]bool{},
	}
	l.lose = sync.OnceFunc(func() { close(l.lost) })
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.renewed.Store(int64(time.Since(l.began)))
	if _, err := l.direct.Exec(ctx, `INSERT INTO nodes (id, alive, started_at, seen_at, version, config_hash, address)
		VALUES ($1, 1, `+databaseClock+`, `+databaseClock+`, $2, $3, $4)`, s.node, l.info.Version, l.info.ConfigHash, l.info.Address); err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	if err := l.checkConnections(ctx); err != nil {
		return fmt.Errorf("compare the connections of the nodes with PostgreSQL's: %w", err)
	}
	running, cancel := context.WithCancel(context.Background())
	l.cancel, s.life = cancel, l
	if expired, err := l.lookAtPeers(ctx); err == nil { // what they left is free when the first call comes
		l.bury(ctx, expired)
	}
	l.tasks.Go(func() { l.run(running) })
	return s.Write(ctx, func(tx *Tx) error { return tx.forgetNodes(ctx) })
}

// nodeConnections is the most connections that a node has to PostgreSQL: two pools (the
// core's and the drives'), its life, the notices of others, and two while it starts.
const nodeConnections = 2*db.DefaultConnections + 4

// checkConnections warns where the nodes that live, this one included, may need more
// connections than PostgreSQL gives to users who are not superusers.
func (l *life) checkConnections(ctx context.Context) error {
	return l.direct.Query(ctx, func(scan func(...any) error) error {
		var nodes, most int64
		if err := scan(&nodes, &most); err != nil {
			return err
		}
		if needed := nodes * nodeConnections; needed > most {
			l.log.LogAttrs(ctx, slog.LevelWarn, "the nodes may need more connections than PostgreSQL has; raise its max_connections",
				slog.Int64("nodes", nodes), slog.Int64("connections", needed), slog.Int64("maxConnections", most))
		}
		return nil
	}, `SELECT (SELECT COUNT(*) FROM nodes WHERE alive = 1), current_setting('max_connections')::bigint
		- current_setting('superuser_reserved_connections')::bigint - COALESCE(current_setting('reserved_connections', true), '0')::bigint LIMIT 1`)
}

// end stops renewing and gives back what the node has.
func (l *life) end() error {
	l.cancel()
	l.tasks.Wait()
	ctx := context.Background()
	select {
	case <-l.lost:
		return nil
	default:
	}
	err := l.st.db.Write(ctx, func(tx *db.Tx) error { return (&Tx{Tx: tx, s: l.st}).endNode(ctx, l.st.node) })
	l.lose()
	if errors.Is(err, db.ErrFenced) { // nothing is left to be given back
		return nil
	}
	return err
}

// age returns for how long the node has not been renewed, by the monotonic clock.
func (l *life) age() time.Duration { return time.Since(l.began) - time.Duration(l.renewed.Load()) }

// run renews until ctx ends or the node is dead.
func (l *life) run(ctx context.Context) {
	for {
		err := l.direct.Idle(ctx, l.times.Every)
		if err == nil {
			err = l.renew(ctx)
		}
		if err != nil && ctx.Err() == nil {
			err = l.renewAgain(ctx, err)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.log.LogAttrs(ctx, slog.LevelError, "the node is dead; the process stops", slog.String("node", l.st.node), slog.Any("error", err))
			l.lose()
			return
		}
		l.lookAround(ctx)
	}
}

// renew says that the node lives. Only the answer shows that it does, from when the
// statement was sent; a node that is dead stays dead.
func (l *life) renew(ctx context.Context) error {
	limit := l.times.Expiry - l.age() // so that what is under way ends in time
	if limit <= 0 {
		limit = l.times.Expiry
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l.mu.Lock()
	calls, hash := l.calls, l.info.ConfigHash
	l.mu.Unlock()
	sent := time.Since(l.began)
	n, err := l.direct.Exec(ctx, `UPDATE nodes SET seen_at = `+databaseClock+`, calls = $2, config_hash = $3 WHERE id = $1 AND alive = 1`, l.st.node, calls(), hash)
	if err != nil {
		return err
	}
	if n == 0 {
		return errDeclaredDead
	}
	l.renewed.Store(int64(sent))
	l.resume()
	return nil
}

// renewAgain tries to renew after a failure: new work is refused at once, after
// Expiry what is under way ends, and after GiveUp more the node ends. It returns why.
func (l *life) renewAgain(ctx context.Context, cause error) error {
	if errors.Is(cause, errDeclaredDead) {
		return cause
	}
	l.suspend()
	l.log.LogAttrs(ctx, slog.LevelError, "the node cannot renew its life; new work is refused until it can", slog.Any("error", cause))
	for pause := minRenewPause; ; pause = min(2*pause, maxRenewPause) {
		switch age := l.age(); {
		case age > l.times.Expiry+l.times.GiveUp:
			return fmt.Errorf("%w: %w", errGaveUp, cause)
		case age > l.times.Expiry:
			l.expire()
		}
		waiting := time.NewTimer(pause)
		select {
		case <-waiting.C:
		case <-ctx.Done():
			waiting.Stop()
			return ctx.Err()
		}
		err := l.renew(ctx)
		if err == nil {
			l.steady = time.Now()
			l.log.LogAttrs(ctx, slog.LevelInfo, "the node has renewed its life")
			return nil
		}
		if errors.Is(err, errDeclaredDead) || ctx.Err() != nil {
			return err
		}
		cause = err
	}
}

func (l *life) suspend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.suspended == nil {
		l.suspended = make(chan struct{})
	}
}

func (l *life) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.suspended != nil {
		close(l.suspended)
	}
	l.suspended, l.expired = nil, false
}

// expire ends what is under way: who waits to write is told that it cannot.
func (l *life) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expired {
		return
	}
	l.expired = true
	close(l.suspended)
	l.suspended = make(chan struct{})
	l.log.LogAttrs(context.Background(), slog.LevelError, "the node has not renewed its life in time; what is under way ends", slog.Duration("age", l.age()))
	go l.onExpiry()
}

// away returns nil while the node lives as far as it knows. Otherwise it returns a
// channel that is closed when that changes, and reports whether what is under way
// has ended. A process that was paused is away until its next renewal.
func (l *life) away() (changed <-chan struct{}, expired bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.suspended == nil && l.age() > l.times.Expiry {
		l.suspended = make(chan struct{})
	}
	return l.suspended, l.expired
}

// lookAround looks at the other nodes and buries the dead. After an interruption of
// its own, which may have been everybody's, this node gives the others as long to
// come back as a node has before it is dead.
func (l *life) lookAround(ctx context.Context) {
	expired, err := l.lookAtPeers(ctx)
	if err != nil || len(expired) == 0 || !l.steady.IsZero() && time.Since(l.steady) < l.times.Death {
		return
	}
	if l.burying.Swap(true) {
		return
	}
	l.tasks.Go(func() { // it may wait for locks, which renewals may not
		defer l.burying.Store(false)
		l.bury(ctx, expired)
	})
}

// lookAtPeers returns the other nodes whose time is over, and warns of settings that
// differ from this node's. A node that has just started cannot know whether PostgreSQL
// was away before: the others have as long to come back, unless they would have given
// up by then. None is over while PostgreSQL has just started.
func (l *life) lookAtPeers(ctx context.Context) (expired []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.times.Expiry)
	defer cancel()
	after := l.times.Death
	if time.Since(l.began) < after {
		after = max(after, l.times.Expiry+l.times.GiveUp)
	}
	l.mu.Lock()
	own := l.info.ConfigHash
	l.mu.Unlock()
	err = l.direct.Query(ctx, func(scan func(...any) error) error {
		var id, hash string
		var over bool
		if err := scan(&id, &hash, &over); err != nil {
			return err
		}
		if over {
			expired = append(expired, id)
		} else if seen := id + " " + hash + " " + own; hash != own && !l.warned[seen] {
			l.warned[seen] = true
			l.log.LogAttrs(ctx, slog.LevelWarn, "another node has other settings", slog.String("node", id), slog.String("configHash", hash), slog.String("ownConfigHash", own))
		}
		return nil
	}, `SELECT id, config_hash, seen_at < `+databaseClock+` - $2 AND EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000 < `+databaseClock+` - $3
		FROM nodes WHERE alive = 1 AND id <> $1 LIMIT $4`, l.st.node, after.Microseconds(), l.times.Death.Microseconds(), maxNodes)
	return expired, err
}

// bury declares nodes dead whose time is over; see [Tx.endExpired].
func (l *life) bury(ctx context.Context, ids []string) {
	for _, id := range ids {
		if ctx.Err() != nil {
			return
		}
		ended := false
		err := l.st.Write(ctx, func(tx *Tx) (err error) {
			ended, err = tx.endExpired(ctx, id, l.times.Death)
			return err
		})
		switch {
		case err != nil && ctx.Err() == nil:
			l.log.LogAttrs(ctx, slog.LevelError, "a node could not be declared dead; it is tried again", slog.String("node", id), slog.Any("error", err))
		case ended:
			l.log.LogAttrs(ctx, slog.LevelWarn, "a node was declared dead; what it had is free", slog.String("node", id))
		}
	}
}
