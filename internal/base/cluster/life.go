// Package cluster keeps the node of a process alive on PostgreSQL: it renews the node's
// lease, suspends the process while it cannot, declares other nodes dead, and passes hints
// between nodes. On SQLite, which only one process uses, none of this happens.
//
// The package does not know the resources of a node: [Rows] releases them. Start at [New],
// then [Hints].
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/base/db"
)

// Times are the intervals of a node's lease on PostgreSQL. Zeros mean the defaults in
// brackets. Expiry, by the node's own clock, must be well below Death, by the database's.
// See docs/decisions/0038-fence-nodes-that-stop-renewing-their-lease.md.
type Times struct {
	Every  time.Duration // between two renewals [1 s]
	Expiry time.Duration // without a renewal, after which the node acknowledges nothing [5 s]
	Death  time.Duration // without a renewal, after which others may declare it dead [10 s]
	GiveUp time.Duration // after Expiry, for which the node keeps trying to renew [30 s]
}

func (l Times) withDefaults() Times {
	l.Every = cmp.Or(l.Every, time.Second)
	l.Expiry = cmp.Or(l.Expiry, 5*time.Second)
	l.Death = cmp.Or(l.Death, 10*time.Second)
	l.GiveUp = cmp.Or(l.GiveUp, 30*time.Second)
	return l
}

// NodeInfo is the information of a node for its peers and for operators.
type NodeInfo struct {
	Version    string // of the program
	Address    string // of its listener
	ConfigHash string // of the settings that all nodes should have in common
}

var (
	errDeclaredDead = errors.New("another node has declared this one dead")
	errGaveUp       = errors.New("the node could not renew its life in time")
)

const (
	// Between two attempts at a renewal that failed.
	minRenewPause = 50 * time.Millisecond
	maxRenewPause = 500 * time.Millisecond
)

// clock is the present by the clock of PostgreSQL, in microseconds.
const clock = `(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint`

// maxNodes limits a list of nodes. There are far fewer, because each has a pool of connections to the
// same PostgreSQL.
const maxNodes = 1000

// Rows manages the rows of nodes and of their resources.
type Rows interface {
	// EndNode ends the node of this process and releases its resources.
	EndNode(ctx context.Context, id string) error
	// EndExpired ends a node that has not renewed its lease for the given time. It reports
	// whether it did.
	EndExpired(ctx context.Context, id string, after time.Duration) (bool, error)
	// ForgetNodes removes dead nodes without references.
	ForgetNodes(ctx context.Context) error
}

// Config is the node of a process.
type Config struct {
	ID     string // a new one for each start
	Info   NodeInfo
	Times  Times
	Rows   Rows
	Direct *db.Direct   // a dedicated connection
	Logger *slog.Logger // nil means no log
}

// A Member is the node of this process on PostgreSQL. It renews its lease over a dedicated
// connection and declares others dead. It is safe for concurrent use.
type Member struct {
	id     string
	rows   Rows
	times  Times
	log    *slog.Logger
	direct *db.Direct         // used only by run while it runs
	cancel context.CancelFunc // of run
	tasks  sync.WaitGroup     // run, and endings of dead nodes
	lost   chan struct{}
	lose   func()

	began   time.Time    // of the monotonic clock
	renewed atomic.Int64 // send time of the latest successful renewal, since began
	ending  atomic.Bool

	mu        sync.Mutex
	suspended chan struct{} // nil while the node is alive as far as it knows; otherwise closed when that changes
	expired   bool          // suspended for longer than Expiry
	onExpiry  func()
	calls     func() int64
	info      NodeInfo

	// Used only by run.
	steady time.Time       // when renewals last began to succeed again; zero means all have
	warned map[string]bool // peers' settings that differ, by node and hash
}

// New returns the node of this process. It is registered by [Member.Begin].
func New(cfg Config) *Member {
	m := &Member{
		id: cfg.ID, rows: cfg.Rows, direct: cfg.Direct, times: cfg.Times.withDefaults(), log: cfg.Logger, began: time.Now(), info: cfg.Info,
		lost: make(chan struct{}), onExpiry: func() {}, calls: func() int64 { return 0 }, warned: map[string]bool{}, cancel: func() {},
	}
	m.lose = sync.OnceFunc(func() { close(m.lost) })
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.renewed.Store(int64(time.Since(m.began)))
	return m
}

// Begin registers the node and renews its life until [Member.End].
func (m *Member) Begin(ctx context.Context) error {
	if _, err := m.direct.Exec(ctx, `INSERT INTO nodes (id, alive, started_at, seen_at, version, config_hash, address, sums_hours)
		VALUES ($1, 1, `+clock+`, `+clock+`, $2, $3, $4, 1)`, m.id, m.info.Version, m.info.ConfigHash, m.info.Address); err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	if err := m.checkConnections(ctx); err != nil {
		return fmt.Errorf("compare the connections of the nodes with PostgreSQL's: %w", err)
	}
	running, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	if expired, err := m.expiredPeers(ctx); err == nil { // so that their resources are free before the first call arrives
		m.endExpired(ctx, expired)
	}
	m.tasks.Go(func() { m.run(running) })
	return m.rows.ForgetNodes(ctx)
}

// Lost returns a channel that is closed when the node is dead: the process must stop.
func (m *Member) Lost() <-chan struct{} { return m.lost }

// Lose records that the node is dead.
func (m *Member) Lose() { m.lose() }

// OnExpiry sets the function that is called, on a separate goroutine, when the node could
// not renew its lease for [Times.Expiry].
func (m *Member) OnExpiry(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onExpiry = fn
}

// CountCalls sets the function that counts the model calls under way.
func (m *Member) CountCalls(count func() int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = count
}

// SetConfigHash changes [NodeInfo.ConfigHash].
func (m *Member) SetConfigHash(hash string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.info.ConfigHash = hash
}

// Expiry is the maximum time that a write waits for the node's life to be renewed.
func (m *Member) Expiry() time.Duration { return m.times.Expiry }

// nodeConnections is the most connections that a node has to PostgreSQL: two pools (the
// core's and the drives'), its life, the notices of others, and two while it starts.
const nodeConnections = 2*db.DefaultConnections + 4

// checkConnections logs a warning if the live nodes, including this one, may need more
// connections than PostgreSQL gives to users who are not superusers.
func (m *Member) checkConnections(ctx context.Context) error {
	return m.direct.Query(ctx, func(scan func(...any) error) error {
		var nodes, most int64
		if err := scan(&nodes, &most); err != nil {
			return err
		}
		if needed := nodes * nodeConnections; needed > most {
			m.log.LogAttrs(ctx, slog.LevelWarn, "the nodes may need more connections than PostgreSQL has; raise its max_connections",
				slog.Int64("nodes", nodes), slog.Int64("connections", needed), slog.Int64("maxConnections", most))
		}
		return nil
	}, `SELECT (SELECT COUNT(*) FROM nodes WHERE alive = 1), current_setting('max_connections')::bigint
		- current_setting('superuser_reserved_connections')::bigint - COALESCE(current_setting('reserved_connections', true), '0')::bigint LIMIT 1`)
}

// End stops renewing and ends the node.
func (m *Member) End() error {
	m.cancel()
	m.tasks.Wait()
	ctx := context.Background()
	select {
	case <-m.lost:
		return nil
	default:
	}
	err := m.rows.EndNode(ctx, m.id)
	m.lose()
	if errors.Is(err, db.ErrFenced) { // because nothing is left to be given back
		return nil
	}
	return err
}

// age returns the time since the latest renewal, by the monotonic clock.
func (m *Member) age() time.Duration { return time.Since(m.began) - time.Duration(m.renewed.Load()) }

// run renews until ctx ends or the node is dead.
func (m *Member) run(ctx context.Context) {
	for {
		err := m.direct.Idle(ctx, m.times.Every)
		if err == nil {
			err = m.renew(ctx)
		}
		if err != nil && ctx.Err() == nil {
			err = m.renewAgain(ctx, err)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.log.LogAttrs(ctx, slog.LevelError, "the node is dead; the process stops", slog.String("node", m.id), slog.Any("error", err))
			m.lose()
			return
		}
		m.checkPeers(ctx)
	}
}

// renew renews the node's lease. Only the answer proves that the node is alive, from the
// time at which the statement was sent; a dead node stays dead.
func (m *Member) renew(ctx context.Context) error {
	limit := m.times.Expiry - m.age() // so that running work ends in time
	if limit <= 0 {
		limit = m.times.Expiry
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	m.mu.Lock()
	calls, hash := m.calls, m.info.ConfigHash
	m.mu.Unlock()
	sent := time.Since(m.began)
	n, err := m.direct.Exec(ctx, `UPDATE nodes SET seen_at = `+clock+`, calls = $2, config_hash = $3 WHERE id = $1 AND alive = 1`, m.id, calls(), hash)
	if err != nil {
		return err
	}
	if n == 0 {
		return errDeclaredDead
	}
	m.renewed.Store(int64(sent))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.suspended != nil {
		close(m.suspended)
	}
	m.suspended, m.expired = nil, false
	return nil
}

// renewAgain retries the renewal after a failure. New work is refused immediately, after
// Expiry running work ends, and GiveUp later the node ends. It returns the reason.
func (m *Member) renewAgain(ctx context.Context, cause error) error {
	if errors.Is(cause, errDeclaredDead) {
		return cause
	}
	m.suspend()
	m.log.LogAttrs(ctx, slog.LevelError, "the node cannot renew its life; new work is refused until it can", slog.Any("error", cause))
	for pause := minRenewPause; ; pause = min(2*pause, maxRenewPause) {
		switch age := m.age(); {
		case age > m.times.Expiry+m.times.GiveUp:
			return fmt.Errorf("%w: %w", errGaveUp, cause)
		case age > m.times.Expiry:
			m.expire()
		}
		waiting := time.NewTimer(pause)
		select {
		case <-waiting.C:
		case <-ctx.Done():
			waiting.Stop()
			return ctx.Err()
		}
		err := m.renew(ctx)
		if err == nil {
			m.steady = time.Now()
			m.log.LogAttrs(ctx, slog.LevelInfo, "the node has renewed its life")
			return nil
		}
		if errors.Is(err, errDeclaredDead) || ctx.Err() != nil {
			return err
		}
		cause = err
	}
}

func (m *Member) suspend() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.suspended == nil {
		m.suspended = make(chan struct{})
	}
}

// expire ends running work: waiting writers receive an error.
func (m *Member) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.expired {
		return
	}
	m.expired = true
	close(m.suspended)
	m.suspended = make(chan struct{})
	m.log.LogAttrs(context.Background(), slog.LevelError, "the node has not renewed its lease in time; running work ends", slog.Duration("age", m.age()))
	go m.onExpiry()
}

// Away returns nil while the node is alive as far as it knows. Otherwise it returns a
// channel that is closed when that changes, and reports whether running work has ended. A
// process that was paused is away until its next renewal.
func (m *Member) Away() (changed <-chan struct{}, expired bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.suspended == nil && m.age() > m.times.Expiry {
		m.suspended = make(chan struct{})
	}
	return m.suspended, m.expired
}

// checkPeers ends dead peers. After an interruption of its own, which may have affected all
// nodes, this node gives the others as much time to recover as a node has before it is
// dead.
func (m *Member) checkPeers(ctx context.Context) {
	expired, err := m.expiredPeers(ctx)
	if err != nil || len(expired) == 0 || !m.steady.IsZero() && time.Since(m.steady) < m.times.Death {
		return
	}
	if m.ending.Swap(true) {
		return
	}
	m.tasks.Go(func() { // because it may wait for locks, which renewals may not
		defer m.ending.Store(false)
		m.endExpired(ctx, expired)
	})
}

// expiredPeers returns the other nodes whose time is over, and warns of settings that
// differ from this node's. The others get as much time to recover after a start of this node, unless
// they would already have given up, because it cannot know whether PostgreSQL was unavailable before.
// While PostgreSQL has just started, no node is expired.
func (m *Member) expiredPeers(ctx context.Context) (expired []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.times.Expiry)
	defer cancel()
	after := m.times.Death
	if time.Since(m.began) < after {
		after = max(after, m.times.Expiry+m.times.GiveUp)
	}
	m.mu.Lock()
	own := m.info.ConfigHash
	m.mu.Unlock()
	err = m.direct.Query(ctx, func(scan func(...any) error) error {
		var id, hash string
		var over bool
		if err := scan(&id, &hash, &over); err != nil {
			return err
		}
		if over {
			expired = append(expired, id)
		} else if seen := id + " " + hash + " " + own; hash != own && !m.warned[seen] {
			m.warned[seen] = true
			m.log.LogAttrs(ctx, slog.LevelWarn, "another node has other settings", slog.String("node", id), slog.String("configHash", hash), slog.String("ownConfigHash", own))
		}
		return nil
	}, `SELECT id, config_hash, seen_at < `+clock+` - $2 AND EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000 < `+clock+` - $3
		FROM nodes WHERE alive = 1 AND id <> $1 LIMIT $4`, m.id, after.Microseconds(), m.times.Death.Microseconds(), maxNodes)
	return expired, err
}

func (m *Member) endExpired(ctx context.Context, ids []string) {
	for _, id := range ids {
		if ctx.Err() != nil {
			return
		}
		ended, err := m.rows.EndExpired(ctx, id, m.times.Death)
		switch {
		case err != nil && ctx.Err() == nil:
			m.log.LogAttrs(ctx, slog.LevelError, "a node could not be declared dead; it is tried again", slog.String("node", id), slog.Any("error", err))
		case ended:
			m.log.LogAttrs(ctx, slog.LevelWarn, "a node was declared dead; what it had is free", slog.String("node", id))
		}
	}
}
