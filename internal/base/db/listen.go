package db

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"stoa/internal/base/stoa"

	"github.com/jackc/pgx/v5"
)

const (
	// maxNotice is the maximum size of one notice, in bytes; PostgreSQL accepts less than
	// 8,000.
	maxNotice = 7900
	// listenPing is the time without a notice after which the connection is checked;
	// listenTimeout limits the answer and the connecting.
	listenPing    = 15 * time.Second
	listenTimeout = 5 * time.Second
)

// Channel returns the name of the channel on which the processes of this database and
// schema notify each other. It is empty on SQLite, which has one process.
func (d *DB) Channel() string { return d.channel }

// channelName is the expression of [DB.Channel]: channels are per database, and
// several schemas may share one.
const channelName = `SELECT 'stoa_' || substr(md5(current_schema()::text), 1, 16)`

// Notify sends notices to all listeners, including this process, outside of any transaction, because
// inside of one every commit with a notice would wait for the other commits. Delivery is not
// guaranteed. On SQLite it does nothing.
func (d *DB) Notify(ctx context.Context, notices []string) error {
	p, ok := d.engine.(*postgresDB)
	if !ok || len(notices) == 0 {
		return nil
	}
	for _, n := range notices {
		if len(n) > maxNotice {
			return errors.New("db: a notice is too long")
		}
	}
	_, err := p.pool.ExecContext(ctx, `SELECT pg_notify($1, n) FROM unnest($2::text[]) AS n`, d.channel, notices)
	return classify(err)
}

// Listen keeps a separate connection to a PostgreSQL address that receives the notices of a
// channel, until ctx ends. The address must lead to the server itself or to a pooler that
// keeps sessions: behind one that shares connections by transaction nothing is received.
// begun is called whenever a connection begins to listen, because earlier notices may have
// been lost. Both functions must be quick.
func Listen(ctx context.Context, address, channel string, lineage *Lineage, log *slog.Logger, begun func(), heard func(notice string)) error {
	pc, err := postgresConfig(address, lineage)
	if err != nil {
		return err
	}
	reported := false
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := listenOnce(ctx, pc, channel, func() {
			if reported {
				log.LogAttrs(ctx, slog.LevelInfo, "notices of other nodes are received again")
			}
			reported, pause = false, minPause
			begun()
		}, heard)
		if ctx.Err() != nil {
			return nil
		}
		if !reported {
			reported = true
			log.LogAttrs(ctx, slog.LevelWarn, "notices of other nodes are not received; rows are read each second", slog.Any("error", err))
		}
		if !stoa.Sleep(ctx, pause) {
			return nil
		}
	}
}

// listenOnce listens on one connection until it breaks.
func listenOnce(ctx context.Context, pc *pgx.ConnConfig, channel string, begun func(), heard func(string)) error {
	within, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(within, pc)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), listenTimeout)
		defer cancel()
		c.Close(closing)
	}()
	if _, err := c.Exec(within, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	begun()
	for {
		silent, cancel := context.WithTimeout(ctx, listenPing)
		n, err := c.WaitForNotification(silent)
		timedOut := silent.Err() != nil
		cancel()
		switch {
		case err == nil:
			heard(n.Payload)
			continue
		case ctx.Err() != nil || !timedOut || c.IsClosed():
			return err
		}
		answer, cancel := context.WithTimeout(ctx, listenTimeout)
		_, err = c.Exec(answer, "SELECT 1")
		cancel()
		if err != nil {
			return err
		}
	}
}
