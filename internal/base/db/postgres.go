package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"stoa/internal/base/stoa"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// DefaultConnections is the most connections of a pool to PostgreSQL where
// Config.Connections is 0.
const DefaultConnections = 16

const (
	maxAttempts = 6
	// Several, because a server that restarts is away for a moment.
	connectAttempts = 15
	connectPause    = 100 * time.Millisecond
	// reachTime is the maximum wait of a transaction for a connection, free in the pool or
	// new. After it the transaction is refused, so that no queue grows.
	reachTime = 2 * time.Second
	// connectTime is the timeout for connecting if the address does not set one
	// (connect_timeout), because a stopped server accepts the connection but does not answer.
	connectTime     = 5 * time.Second
	oldestPostgres  = 150000
	oldestPostgresV = 15
)

type postgresDB struct {
	pool        *sql.DB
	config      *pgx.ConnConfig // of its connections
	connections int
	readOnly    bool
	fence       *Fence        // may be nil
	limit       time.Duration // of a write transaction
	trace       func(Trace)   // may be nil

	mu      sync.Mutex
	running map[*Tx]time.Time // write transactions and when they began
}

// postgresConfig returns the settings of connections to an address, each of which is checked against
// the lineage, if there is one.
func postgresConfig(address string, lineage *Lineage) (*pgx.ConnConfig, error) {
	if stoa.IsUnescaped(address) {
		return nil, errors.New("db: the PostgreSQL address cannot be read: " + stoa.UnescapedAddress)
	}
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, addressError(err)
	}
	asked := parametersOf(c)
	validate := c.ValidateConnect // target_session_attrs
	// Where this refuses a host, the next one of the address is tried.
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if validate != nil {
			if err := validate(ctx, conn); err != nil {
				return err
			}
		}
		if lineage != nil {
			if err := lineage.check(ctx, conn); err != nil {
				return err
			}
		}
		return checkParameters(ctx, conn, asked)
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "stoa"
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTime
	}
	c.AfterConnect = durable("on")
	return c, nil
}

// addressError returns the error of an address. The cause may contain a password, except for files.
func addressError(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("db: a file that the PostgreSQL address or a PG… variable names (sslrootcert, sslcert or sslkey) cannot be read: %w", file)
	}
	for text, what := range map[string]string{
		"unable to add CA to cert pool": "the file of sslrootcert contains no certificate in PEM format",
		"sslkey":                        "the file of sslkey contains no usable key in PEM format",
		"unable to decrypt key":         "the file of sslkey cannot be decrypted with sslpassword",
		"unable to find sslpassword":    "the file of sslkey is encrypted, and sslpassword is missing",
		"unable to load cert":           "the files of sslcert and sslkey are not a certificate and its key in PEM format",
	} {
		if strings.Contains(err.Error(), text) {
			return errors.New("db: the TLS settings of the PostgreSQL address are wrong: " + what)
		}
	}
	return errors.New("db: the PostgreSQL address is invalid; it has the form postgres://user@host/database")
}

// A target describes the database at an address.
type target struct {
	schema, path      string // the first schema of the search path that exists; empty if none does
	standby, readOnly bool
}

const targetQuery = `SELECT COALESCE(current_schema()::text, ''), current_setting('search_path'), pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'`

// check returns an error if the service cannot work there, whatever it tries. Without this the first
// statement fails with an error that does not name the cause.
func (f target) check(reads bool) error {
	switch {
	case f.schema == "":
		return fmt.Errorf("no schema of the search_path %s exists, or the role may not use it: create it with CREATE SCHEMA, or correct ?search_path= of the address", f.path)
	case f.standby && !reads:
		return errors.New("this PostgreSQL server is a standby and accepts no changes: use the address of the primary, or name all servers with ?target_session_attrs=read-write")
	case f.readOnly && !reads:
		return errors.New("this PostgreSQL role or database is read-only (default_transaction_read_only = on): set it to off with ALTER ROLE or ALTER DATABASE, or use another role")
	}
	return nil
}

// durable returns a function that sets whether commits on a new connection wait for the disk,
// and the isolation of its transactions. They must not be startup parameters, because PgBouncer
// refuses connections with those, or drops them.
func durable(synchronousCommit string) pgconn.AfterConnectFunc {
	return func(ctx context.Context, c *pgconn.PgConn) error {
		return c.Exec(ctx, "SET synchronous_commit = "+synchronousCommit+"; SET default_transaction_isolation = 'read committed'").Close()
	}
}

func openPostgres(ctx context.Context, cfg Config) (*postgresDB, error) {
	pc, err := postgresConfig(cfg.PostgresURL, cfg.Lineage)
	if err != nil {
		return nil, err
	}
	cfg.Lineage.survey(ctx, pc)
	pool := sql.OpenDB(pgConnector{stdlib.GetConnector(*pc)})
	n := cmp.Or(cfg.Connections, DefaultConnections)
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
	var found target
	if err := pool.QueryRowContext(ctx, targetQuery).Scan(&found.schema, &found.path, &found.standby, &found.readOnly); err != nil {
		return fail(fmt.Errorf("db: connect to PostgreSQL: %w", err))
	}
	if err := found.check(cfg.ReadOnly); err != nil {
		return fail(fmt.Errorf("db: %w", err))
	}
	if version < oldestPostgres {
		return fail(fmt.Errorf("db: PostgreSQL %d is too old; at least %d is needed", version/10000, oldestPostgresV))
	}
	if err := migratePostgres(ctx, cfg, pool); err != nil {
		return fail(fmt.Errorf("db: %w", err))
	}
	return &postgresDB{pool: pool, config: pc, connections: n, readOnly: cfg.ReadOnly, fence: cfg.Fence, limit: cfg.WriteTimeout, trace: cfg.Trace, running: map[*Tx]time.Time{}}, nil
}

// write runs a closure in a transaction. It runs again after a deadlock or a serialization
// failure, and on another connection if its own broke before the commit was sent, since
// PostgreSQL rolls that back. If the connection breaks later, the transaction may have been
// committed, and nothing is repeated.
func (p *postgresDB) write(ctx context.Context, fn func(*Tx) error) error {
	if p.readOnly {
		return ErrReadOnly
	}
	for attempt := 1; ; attempt++ {
		err := p.try(ctx, fn)
		again := isConflict(err) || isBroken(err) && !errors.Is(err, errUnreached) && !errors.Is(err, errDoubt)
		if !again || attempt == maxAttempts {
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

// writeLow is write without the wait for the disk at the commit.
func (p *postgresDB) writeLow(ctx context.Context, fn func(*Tx) error) error {
	return p.write(ctx, func(tx *Tx) error {
		if err := tx.Later(ctx, "SET LOCAL synchronous_commit TO OFF"); err != nil {
			return err
		}
		return fn(tx)
	})
}

// try runs one attempt of a transaction within its time limit. The caller's
// ctx counts until it has begun.
func (p *postgresDB) try(ctx context.Context, fn func(*Tx) error) error {
	limit, own := p.limit, limitOf(ctx)
	if own > 0 {
		limit = min(limit, own)
	}
	inside, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return p.within(ctx, inside, "BEGIN", p.fence, func(tx *Tx) (err error) {
		defer func() {
			if tx.pg.fenced {
				err = fmt.Errorf("%w: %w", ErrFenced, err)
			}
		}()
		tx.ctx, tx.limit, tx.own = inside, limit, own > 0
		defer p.track(tx)()
		if err := recovered(func() error { return fn(tx) }); err != nil {
			return err
		}
		if tx.broken != nil {
			return tx.broken
		}
		if doubt, err := tx.pg.commit(); err != nil {
			if doubt { // also when its time is over, and where pgconn.SafeToRetry is true
				return errUnknown(err)
			}
			return tx.fail(err)
		}
		tx.committed()
		return nil
	})
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

// read runs fn, and again when the connection broke, because nothing has been changed.
func (p *postgresDB) read(ctx context.Context, fn func(*Tx) error) error {
	outer, limit := ctx, limitOf(ctx)
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	err := p.readOnce(ctx, fn)
	if isBroken(err) && !errors.Is(err, errUnreached) && ctx.Err() == nil {
		err = p.readOnce(ctx, fn)
	}
	if err != nil && limit > 0 && ctx.Err() != nil && outer.Err() == nil {
		return errUnreachable(err)
	}
	return err
}

func (p *postgresDB) readOnce(ctx context.Context, fn func(*Tx) error) error {
	return p.within(ctx, ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", nil, fn)
}

// within runs fn in a transaction that fn commits or that is rolled back. ctx limits
// the wait for a connection, inside the statements. If a connection turns out to be dead with the
// first of them, fn runs on another one, because nothing has been done yet, and after a restart of
// PostgreSQL all of them are dead.
func (p *postgresDB) within(ctx, inside context.Context, begin string, fence *Fence, fn func(*Tx) error) error {
	reaching, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	for dead := 0; ; dead++ {
		c, err := p.conn(reaching)
		if err != nil && reaching.Err() != nil && ctx.Err() == nil {
			return errUnreachable(fmt.Errorf("%w within %s: %w", errUnreached, reachTime, err))
		}
		if err != nil {
			return err
		}
		var pg *pgConn
		if err := c.Raw(func(conn any) error { pg = conn.(*pgConn); return nil }); err != nil {
			c.Close()
			return classify(err)
		}
		var unused bool
		err = func() error {
			defer c.Close()
			defer func() { unused = pg.unused }() // the connection is another's once it is closed here
			pg.ctx, pg.begun, pg.unused, pg.fenced = inside, false, false, false
			pg.pending = append(pg.pending[:0], statement{query: begin})
			if fence != nil {
				pg.pending = append(pg.pending, statement{fence.Query, fence.Args})
			}
			pg.opening = len(pg.pending)
			defer pg.finish()
			tx := &Tx{Now: now(), on: &pgRunner{c, pg}, pg: pg, postgres: true}
			if p.trace != nil {
				defer func(sent int) { p.trace(Trace{tx.ctx != nil, tx.ran, pg.sent - sent}) }(pg.sent)
			}
			return fn(tx)
		}()
		if err == nil || !unused || inside.Err() != nil {
			return err
		}
		if dead == p.connections {
			return classify(fmt.Errorf("%w: %w", errUnreached, err))
		}
	}
}

// conn returns a connection of the pool, and waits for it until ctx ends. While a server
// restarts or has no connection left it retries a few times.
func (p *postgresDB) conn(ctx context.Context) (*sql.Conn, error) {
	for refused := 1; ; refused++ {
		c, err := p.pool.Conn(ctx)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil || !isBroken(err) {
			return nil, closedOr(err)
		}
		if refused > connectAttempts {
			return nil, classify(fmt.Errorf("%w: %w", errUnreached, err))
		}
		wait := time.NewTimer(connectPause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
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
