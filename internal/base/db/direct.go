package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"stoa/internal/base/stoa"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// connectWait is the maximum wait of a start for an unreachable PostgreSQL.
	connectWait = 30 * time.Second
	// Between two attempts to connect.
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
	// goodbye is the timeout for closing a connection.
	goodbye = time.Second
)

// A Direct is one connection to PostgreSQL outside the pool, for statements that must not
// wait for a free one and for session locks. It is for one goroutine. Its commits survive
// the death of this process but not that of the server, because they do not wait for its
// disk.
type Direct struct {
	cfg  *pgx.ConnConfig
	conn *pgx.Conn // nil means not connected

	shared bool // see [Direct.Share]
}

// OpenDirect connects to a server of the lineage, which may be nil, and tries for 30 s while the server cannot be reached or is
// starting. Its application_name is the pool's with a suffix.
func OpenDirect(ctx context.Context, address, suffix string, lineage *Lineage, log *slog.Logger) (*Direct, error) {
	cfg, err := postgresConfig(address, lineage)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg.RuntimeParams["application_name"] += suffix
	cfg.AfterConnect = durable("off")
	lineage.survey(ctx, cfg)
	d := &Direct{cfg: cfg}
	d.conn, err = connectPatiently(ctx, cfg, log)
	return d, err
}

// connectPatiently connects, and tries for connectWait while the server cannot be
// reached or is starting.
func connectPatiently(ctx context.Context, pc *pgx.ConnConfig, log *slog.Logger) (*pgx.Conn, error) {
	deadline := time.Now().Add(connectWait)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		c, err := pgx.ConnectConfig(ctx, pc)
		if err == nil || !isBroken(err) || time.Now().After(deadline) {
			return c, err
		}
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && strings.Contains(e.Message, "unsupported startup parameter") {
			return nil, fmt.Errorf("the pooler refuses a parameter of the address; connect directly, or remove it from the address and set it with ALTER ROLE … SET: %w", err)
		}
		if errors.Is(err, errRefused) && oneHost(pc) {
			return nil, err // because another try cannot help
		}
		if pause == minPause {
			log.LogAttrs(ctx, slog.LevelWarn, "PostgreSQL cannot be reached; trying again", slog.Any("error", err))
		}
		if !stoa.Sleep(ctx, pause) {
			return nil, err
		}
	}
}

// oneHost reports whether an address names a single host, which connections with and without TLS share.
func oneHost(pc *pgx.ConnConfig) bool {
	for _, other := range pc.Fallbacks {
		if other.Host != pc.Host || other.Port != pc.Port {
			return false
		}
	}
	return true
}

// connected connects if the connection does not exist or is broken.
func (d *Direct) connected(ctx context.Context) error {
	if d.conn != nil && !d.conn.IsClosed() {
		return nil
	}
	return d.connect(ctx)
}

// Exec runs a statement in its own transaction, on a new connection if the previous one is
// broken, and returns the number of changed rows. After an error the statement may have
// been executed all the same.
func (d *Direct) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	if err := d.connected(ctx); err != nil {
		return 0, err
	}
	tag, err := d.conn.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

// Query runs a query and calls row with a function that scans for each row. See
// [Direct.Exec].
func (d *Direct) Query(ctx context.Context, row func(scan func(dest ...any) error) error, query string, args ...any) error {
	if err := d.connected(ctx); err != nil {
		return err
	}
	rows, err := d.conn.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// errIdle is returned by [Direct.Idle] when the connection was closed from this side.
var errIdle = errors.New("db: the connection is closed")

// Idle waits for the duration of pause or until ctx ends, and returns an error as soon as
// the connection breaks.
func (d *Direct) Idle(ctx context.Context, pause time.Duration) error {
	if d.conn == nil || d.conn.IsClosed() {
		return errIdle
	}
	waiting, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	for {
		_, err := d.conn.WaitForNotification(waiting)
		if waiting.Err() != nil && !d.conn.IsClosed() {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Close closes the connection.
func (d *Direct) Close() error {
	if d.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	defer func() { d.conn = nil }()
	return d.conn.Close(ctx)
}
