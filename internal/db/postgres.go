package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

const (
	defaultConnections = 16
	maxAttempts        = 6
	// A server that restarts is away for a moment.
	connectAttempts = 10
	connectPause    = 100 * time.Millisecond
	oldestPostgres  = 150000
	oldestPostgresV = 15
)

type postgresDB struct {
	pool        *sql.DB
	connections int
	readOnly    bool
	limit       time.Duration // of a write transaction

	mu      sync.Mutex
	running map[*Tx]time.Time // write transactions and when they began
}

func postgresConfig(address string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errors.New("db: the PostgreSQL address is invalid; it has the form postgres://user@host/database") // the cause may contain a password
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "stoa"
	}
	c.RuntimeParams["synchronous_commit"] = "on"
	c.RuntimeParams["default_transaction_isolation"] = "read committed"
	return c, nil
}

func openPostgres(ctx context.Context, cfg Config) (*postgresDB, error) {
	pc, err := postgresConfig(cfg.PostgresURL)
	if err != nil {
		return nil, err
	}
	pool := stdlib.OpenDB(*pc)
	n := cmp.Or(cfg.Connections, defaultConnections)
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	fail := func(err error) (*postgresDB, error) {
		pool.Close()
		return nil, err
	}
	var version int
	if err := pool.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return fail(fmt.Errorf("db: connect to PostgreSQL: %w", err))
	}
	if version < oldestPostgres {
		return fail(fmt.Errorf("db: PostgreSQL %d is too old; at least %d is needed", version/10000, oldestPostgresV))
	}
	if err := migrate(ctx, cfg, goose.DialectPostgres, pool); err != nil {
		return fail(fmt.Errorf("db: %w", err))
	}
	return &postgresDB{pool: pool, connections: n, readOnly: cfg.ReadOnly, limit: cfg.WriteTimeout, running: map[*Tx]time.Time{}}, nil
}

// write runs a closure in a transaction of its own, again after a deadlock or
// a serialization failure.
func (p *postgresDB) write(ctx context.Context, fn func(*Tx) error) error {
	if p.readOnly {
		return ErrReadOnly
	}
	for attempt := 1; ; attempt++ {
		err := p.try(ctx, fn)
		if err == nil || attempt == maxAttempts || !isConflict(err) {
			return err
		}
		wait := time.NewTimer(time.Duration(1+rand.IntN(10<<attempt)) * time.Millisecond)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}

// try runs one attempt of a transaction within its time limit. The caller's
// ctx counts until it has begun.
func (p *postgresDB) try(ctx context.Context, fn func(*Tx) error) error {
	inside, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.limit)
	defer cancel()
	st, done, err := p.begin(ctx, inside, nil)
	if err != nil {
		return err
	}
	defer done()
	tx := &Tx{Now: now(), ctx: inside, limit: p.limit, on: st, postgres: true}
	defer p.track(tx)()
	if err := recovered(func() error { return fn(tx) }); err != nil {
		return err
	}
	if tx.broken != nil {
		return tx.broken
	}
	if err := st.Commit(); err != nil {
		return tx.fail(err)
	}
	tx.committed()
	return nil
}

// track records a running write transaction until the returned function is called.
func (p *postgresDB) track(tx *Tx) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[tx] = time.Now()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, tx)
	}
}

func (p *postgresDB) writing() (oldest time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, began := range p.running {
		if oldest.IsZero() || began.Before(oldest) {
			oldest = began
		}
	}
	return oldest
}

// read runs fn, and again when the connection broke: nothing has been changed.
func (p *postgresDB) read(ctx context.Context, fn func(*Tx) error) error {
	err := p.readOnce(ctx, fn)
	if isBroken(err) && ctx.Err() == nil {
		err = p.readOnce(ctx, fn)
	}
	return err
}

func (p *postgresDB) readOnce(ctx context.Context, fn func(*Tx) error) error {
	st, done, err := p.begin(ctx, ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer done()
	return fn(&Tx{Now: now(), on: st, postgres: true})
}

// begin opens a transaction that lives as long as inside; ctx limits the wait for
// it. When the connection turns out to be dead nothing has been done yet, so
// another one is tried: after a restart of PostgreSQL all of them are dead. done
// rolls back what is not committed.
func (p *postgresDB) begin(ctx, inside context.Context, opts *sql.TxOptions) (st *sql.Tx, done func(), err error) {
	for dead, refused := 0, 0; ; {
		c, err := p.pool.Conn(ctx)
		if err == nil {
			if st, err = c.BeginTx(inside, opts); err == nil {
				return st, func() { st.Rollback(); c.Close() }, nil
			}
			c.Close()
			dead++
		} else {
			refused++
		}
		if ctx.Err() != nil || !isBroken(err) || dead > p.connections || refused > connectAttempts {
			return nil, nil, closedOr(err)
		}
		if refused > 0 {
			wait := time.NewTimer(connectPause)
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
			}
		}
	}
}

func (p *postgresDB) close() error { return p.pool.Close() }

func closedOr(err error) error {
	if err != nil && err.Error() == "sql: database is closed" {
		return ErrClosed
	}
	return classify(err)
}
