package db

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

const maxStatements = 512 // prepared statements that a connection keeps

// conn is a connection that keeps its prepared statements. It is used by one goroutine
// at a time.
type conn struct {
	c     *sql.Conn
	stmts map[string]*sql.Stmt
}

func newConn(c *sql.Conn) *conn {
	return &conn{c: c, stmts: map[string]*sql.Stmt{}}
}

// prepared returns the prepared statement of a query and prepares it at its
// first use; nil for one that is not to be prepared.
func (c *conn) prepared(query string) *sql.Stmt {
	if st := c.stmts[query]; st != nil {
		return st
	}
	if len(c.stmts) >= maxStatements || strings.HasPrefix(query, "PRAGMA") {
		return nil
	}
	st, err := c.c.PrepareContext(context.Background(), positional(query))
	if err != nil {
		return nil // because running it unprepared returns the error
	}
	c.stmts[query] = st
	return st
}

// positional replaces $1, $2, $3 by ?, ?, ? where each occurs once and in order, because to SQLite
// $n is a name, and binding by name costs more the more there are. Any other text is unchanged.
func positional(query string) string {
	if strings.ContainsAny(query, "'\"?") {
		return query // because quoted text may contain a dollar
	}
	var b strings.Builder
	n, rest := 0, query
	for {
		i := strings.IndexByte(rest, '$')
		if i < 0 {
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(rest[:i])
		b.WriteByte('?')
		rest = rest[i+1:]
		n++
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		if rest[:digits] != strconv.Itoa(n) {
			return query
		}
		rest = rest[digits:]
	}
}

func (c *conn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if st := c.prepared(query); st != nil {
		return st.ExecContext(ctx, args...)
	}
	return c.c.ExecContext(ctx, query, args...)
}

func (c *conn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if st := c.prepared(query); st != nil {
		return st.QueryContext(ctx, args...)
	}
	return c.c.QueryContext(ctx, query, args...)
}

func (c *conn) close() {
	for _, st := range c.stmts {
		st.Close()
	}
	c.c.Close()
}
