package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"strings"
)

// maxStatements is how many prepared statements a connection keeps.
const maxStatements = 512

// conn is a connection that keeps its prepared statements. It is used by one goroutine
// at a time.
type conn struct {
	c     *sql.Conn
	stmts map[string]*sql.Stmt
	execs map[string]driver.StmtExecContext // of ExecContext
	args  []driver.NamedValue               // of the statement that runs
}

func newConn(c *sql.Conn) *conn {
	return &conn{c: c, stmts: map[string]*sql.Stmt{}, execs: map[string]driver.StmtExecContext{}}
}

// prepared returns the prepared statement of a query and prepares it at its
// first use; nil for one that is not to be prepared.
func (c *conn) prepared(query string) *sql.Stmt {
	if st := c.stmts[query]; st != nil {
		return st
	}
	if !c.keeps(query) {
		return nil
	}
	st, err := c.c.PrepareContext(context.Background(), positional(query))
	if err != nil {
		return nil // running it unprepared returns the error
	}
	c.stmts[query] = st
	return st
}

// keeps reports whether a query that was not prepared yet is to be.
func (c *conn) keeps(query string) bool {
	return len(c.stmts)+len(c.execs) < maxStatements && !strings.HasPrefix(query, "PRAGMA")
}

// exec is prepared for the driver's own statement. Database/sql has locks and copies
// for users that this connection does not have; a charge has more than thirty values.
func (c *conn) exec(query string) driver.StmtExecContext {
	if st := c.execs[query]; st != nil {
		return st
	}
	if !c.keeps(query) {
		return nil
	}
	var made driver.StmtExecContext
	_ = c.c.Raw(func(of any) error {
		prepares, ok := of.(driver.ConnPrepareContext)
		if !ok {
			return nil
		}
		st, err := prepares.PrepareContext(context.Background(), positional(query))
		if err != nil {
			return err
		}
		if made, ok = st.(driver.StmtExecContext); !ok {
			return st.Close()
		}
		return nil
	})
	if made != nil {
		c.execs[query] = made
	}
	return made
}

// values sets args to what database/sql would give to the driver, which has no
// conversions of its own. It reports whether there is such a value for each.
func (c *conn) values(args []any) bool {
	c.args = c.args[:0]
	for i, a := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return false
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return true
}

// positional replaces $1, $2, $3 by ?, ?, ? where each occurs once and in order: to
// SQLite $n is a name, and binding by name costs more the more there are. Any
// other text is returned unchanged.
func positional(query string) string {
	if strings.ContainsAny(query, "'\"?") {
		return query // quoted text may hold a dollar
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
	defer func() { clear(c.args) }()
	if c.values(args) {
		if st := c.exec(query); st != nil {
			return st.ExecContext(ctx, c.args)
		}
	}
	return c.c.ExecContext(ctx, query, args...) // also for its errors
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
	for _, st := range c.execs {
		_ = st.(driver.Stmt).Close()
	}
	c.c.Close()
}
