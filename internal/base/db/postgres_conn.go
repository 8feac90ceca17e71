package db

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

// pgConnector makes connections that send statements together.
type pgConnector struct{ driver.Connector }

func (c pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &pgConn{Conn: made.(*stdlib.Conn)}, nil
}

// pgConn is a connection that delays statements without an awaited result and sends them
// with the next one: a transaction then needs only as many round trips as it has answers to
// read. It is used by one transaction at a time; outside of one it is a plain connection.
//
// A late error is reported by the statement or commit with which the statement was sent.
// PostgreSQL runs nothing of a message after a failed statement, so a COMMIT after one does
// not run. A closure must therefore not use [Tx.Later] if it handles a failure or needs the
// number of rows.
type pgConn struct {
	*stdlib.Conn

	ctx     context.Context // of the transaction; nil outside of one
	pending []statement     // not sent yet
	opening int             // statements that only begin the transaction: BEGIN, and the fence
	begun   bool            // BEGIN has been sent
	fenced  bool            // the fence has failed
	sent    int             // number of messages with statements
	unused  bool            // the connection broke with BEGIN: nothing has been done
}

type statement struct {
	query string
	args  []any
}

// later keeps a statement for the next one that is sent.
func (c *pgConn) later(query string, args []any) error {
	values := make([]any, len(args))
	for i, a := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return err
		}
		values[i] = v
	}
	c.pending = append(c.pending, statement{query, values})
	return nil
}

// send sends pending statements and reads the answers to all except the last. The caller
// reads that one and closes the results. An error may belong to any statement.
func (c *pgConn) send() (pgx.BatchResults, error) {
	b := &pgx.Batch{}
	for _, s := range c.pending {
		b.Queue(s.query, s.args...)
	}
	n, first := len(c.pending), !c.begun
	clear(c.pending)
	c.pending, c.begun = c.pending[:0], true
	c.sent++
	results := c.Conn.Conn().SendBatch(c.ctx, b)
	for range n - 1 {
		if _, err := results.Exec(); err != nil {
			results.Close()
			c.unused = first && isBroken(err)
			c.fenced = c.fenced || first && c.opening > 1 && isFenced(err)
			return nil, err
		}
	}
	return results, nil
}

// exec sends pending statements and then query, and returns the number of rows that query
// changed.
func (c *pgConn) exec(query string, args []any) (rows int64, err error) {
	if err := c.later(query, args); err != nil {
		return 0, err
	}
	results, err := c.send()
	if err != nil {
		return 0, err
	}
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	return tag.RowsAffected(), err
}

// QueryContext sends pending statements with a query.
func (c *pgConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.ctx == nil {
		return c.Conn.QueryContext(ctx, query, args)
	}
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = a.Value
	}
	if err := c.later(query, values); err != nil {
		return nil, err
	}
	results, err := c.send()
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		results.Close()
		return nil, err
	}
	return &pgRows{rows: rows, results: results}, nil
}

// errRolledBack is the error of a COMMIT that PostgreSQL answered with a rollback.
var errRolledBack = errors.New("db: PostgreSQL rolled the transaction back")

// commit sends pending statements with the COMMIT. A transaction that has sent nothing and
// has nothing pending is not executed at all. After an error doubt reports whether it may
// have been committed.
func (c *pgConn) commit() (doubt bool, err error) {
	if !c.begun && len(c.pending) == c.opening {
		return false, nil
	}
	c.pending = append(c.pending, statement{query: "COMMIT"})
	results, err := c.send()
	c.unused = false
	if err != nil { // of an earlier statement: if the server reports it, the rest is not run
		_, told := errors.AsType[*pgconn.PgError](err)
		return !told, err
	}
	tag, err := results.Exec()
	results.Close()
	if err == nil && tag.String() != "COMMIT" {
		return false, errRolledBack
	}
	_, told := errors.AsType[*pgconn.PgError](err)
	return !told || isBroken(err), err // a server may commit before it reports its shutdown
}

func (c *pgConn) finish() {
	clear(c.pending)
	c.pending = c.pending[:0]
	conn := c.Conn.Conn()
	if c.begun && !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), rollbackTime)
		conn.PgConn().Exec(ctx, "ROLLBACK").ReadAll() // if it fails, the connection is not used again
		cancel()
	}
	c.ctx = nil
}

// rollbackTime is the timeout of a rollback, after which its connection is closed.
const rollbackTime = 5 * time.Second

// A mark is a place among the statements of a transaction.
type mark struct{ sent, pending int }

func (c *pgConn) mark() mark { return mark{c.sent, len(c.pending)} }

// undo rolls back the statements since a mark, of which the first created the savepoint.
func (c *pgConn) undo(m mark, savepoint string) error {
	if c.sent == m.sent { // none was sent
		clear(c.pending[m.pending:])
		c.pending = c.pending[:m.pending]
		return nil
	}
	clear(c.pending)
	c.pending = c.pending[:0]
	c.sent++
	// Not prepared, because nothing can be prepared in a transaction that has failed.
	_, err := c.Conn.Conn().PgConn().Exec(c.ctx, "ROLLBACK TO SAVEPOINT "+savepoint+"; RELEASE SAVEPOINT "+savepoint).ReadAll()
	return err
}

// pgRunner runs the statements of a [Tx] on a connection of the pool.
type pgRunner struct {
	c  *sql.Conn
	pg *pgConn
}

// The statements run under the context of the transaction, see [postgresDB.within].

func (r *pgRunner) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	rows, err := r.pg.exec(query, args)
	return driver.RowsAffected(rows), err
}

func (r *pgRunner) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.c.QueryContext(context.Background(), query, args...)
}

// pgRows reads the rows of a query as they arrive.
type pgRows struct {
	rows    pgx.Rows
	results pgx.BatchResults
}

func (r *pgRows) Columns() []string {
	fields := r.rows.FieldDescriptions()
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

func (r *pgRows) Close() error {
	r.rows.Close()
	return r.results.Close()
}

// Next reads a row into the types that [sql.Rows] converts: integers, texts, bytes
// and booleans by themselves, any other type as pgx reads it.
func (r *pgRows) Next(dest []driver.Value) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	var values []any
	fields := r.rows.FieldDescriptions()
	for i, raw := range r.rows.RawValues() {
		switch f := fields[i]; {
		case raw == nil:
			dest[i] = nil
		case f.DataTypeOID == pgtype.TextOID || f.DataTypeOID == pgtype.VarcharOID:
			dest[i] = string(raw)
		case f.Format == pgx.BinaryFormatCode && f.DataTypeOID == pgtype.Int8OID:
			dest[i] = int64(binary.BigEndian.Uint64(raw))
		case f.Format == pgx.BinaryFormatCode && f.DataTypeOID == pgtype.Int4OID:
			dest[i] = int64(int32(binary.BigEndian.Uint32(raw)))
		case f.Format == pgx.BinaryFormatCode && f.DataTypeOID == pgtype.BoolOID:
			dest[i] = raw[0] == 1
		case f.Format == pgx.BinaryFormatCode && f.DataTypeOID == pgtype.ByteaOID:
			dest[i] = bytes.Clone(raw)
		default:
			if values == nil {
				var err error
				if values, err = r.rows.Values(); err != nil {
					return err
				}
			}
			dest[i] = values[i]
			if v, ok := values[i].(driver.Valuer); ok { // numeric
				var err error
				if dest[i], err = v.Value(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
