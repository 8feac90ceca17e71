package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A Kind is the Go type of the values of a column. Any other type of a database is a Kind
// with that type's name, which [DB.Rows] rejects.
type Kind string

// The kinds that both databases keep.
const (
	Integer Kind = "integer" // int64
	Text    Kind = "text"    // string
	Bytes   Kind = "bytes"   // []byte
)

// A Column is a column of a [Table].
type Column struct {
	Name   string
	Kind   Kind
	Key    bool // part of the primary key
	Counts bool // the database numbers new rows
}

// A Table is a table as the database has it.
type Table struct {
	Name    string
	Columns []Column
	After   []string // tables that its rows refer to
}

// Names returns the names of the columns.
func (t Table) Names() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// Key returns the columns of the primary key.
func (t Table) Key() (key []string) {
	for _, c := range t.Columns {
		if c.Key {
			key = append(key, c.Name)
		}
	}
	return key
}

// Tables returns the tables of the file or of the PostgreSQL schema, by name, except those
// of this package and of SQLite itself: virtual tables and their shadow tables.
func (d *DB) Tables(ctx context.Context) (tables []Table, err error) {
	query := sqliteColumns
	if d.postgres {
		query = postgresColumns
	}
	err = d.Read(ctx, func(tx *Tx) error {
		tables = nil
		err := tx.Query(ctx, func(rows *sql.Rows) error {
			var table string
			var c Column
			if err := rows.Scan(&table, &c.Name, &c.Kind, &c.Key, &c.Counts); err != nil {
				return err
			}
			if strings.HasSuffix(table, migrationsSuffix) || strings.HasSuffix(table, needsSuffix) {
				return nil
			}
			if known, ok := kinds[strings.ToLower(string(c.Kind))]; ok {
				c.Kind = known
			}
			if n := len(tables); n == 0 || tables[n-1].Name != table {
				tables = append(tables, Table{Name: table})
			}
			last := &tables[len(tables)-1]
			last.Columns = append(last.Columns, c)
			return nil
		}, query)
		if err != nil {
			return err
		}
		refer := sqliteReferences
		if d.postgres {
			refer = postgresReferences
		}
		return tx.Query(ctx, func(rows *sql.Rows) error {
			var from, to string
			if err := rows.Scan(&from, &to); err != nil {
				return err
			}
			for i := range tables {
				if tables[i].Name == from && from != to && !slices.Contains(tables[i].After, to) {
					tables[i].After = append(tables[i].After, to)
				}
			}
			return nil
		}, refer)
	})
	return tables, err
}

// kinds are the types of both databases that we use.
var kinds = map[string]Kind{
	"bigint": Integer, "integer": Integer,
	"text":  Text,
	"bytea": Bytes, "blob": Bytes,
}

const (
	sqliteColumns = `SELECT t.name, c.name, c.type, c.pk > 0,
			c.pk = 1 AND upper(c.type) = 'INTEGER' AND s.sql LIKE '%AUTOINCREMENT%'
		FROM pragma_table_list t JOIN sqlite_schema s ON s.type = 'table' AND s.name = t.name, pragma_table_info(t.name) c
		WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY t.name, c.cid`
	sqliteReferences = `SELECT t.name, f."table" FROM pragma_table_list t, pragma_foreign_key_list(t.name) f
		WHERE t.schema = 'main' AND t.type = 'table'`
	postgresColumns = `SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL)::text,
			COALESCE(a.attnum = ANY (i.indkey), false), a.attidentity <> ''
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') ORDER BY c.relname, a.attnum`
	postgresReferences = `SELECT c.relname::text, f.relname::text FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class f ON f.oid = k.confrelid
		WHERE k.contype = 'f' AND c.relnamespace = current_schema()::regnamespace`
)

// errRowsAgain ends a [DB.Rows] whose connection broke, because it cannot begin again.
var errRowsAgain = errors.New("db: the connection broke while rows were read")

// Rows reads the given columns of all rows of a table in one snapshot, without buffering
// them. Each row is a new slice of int64, string, []byte and nil. A value that does not
// have the kind of its column is an error.
func (d *DB) Rows(ctx context.Context, t Table) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for _, c := range t.Columns {
			if c.Kind != Integer && c.Kind != Text && c.Kind != Bytes {
				yield(nil, fmt.Errorf("the column %s of %s has the type %q, which cannot be copied", c.Name, t.Name, c.Kind))
				return
			}
		}
		begun, stopped := false, errors.New("stopped")
		err := d.Read(ctx, func(tx *Tx) error {
			if begun {
				return errRowsAgain
			}
			begun = true
			return tx.Query(ctx, func(rows *sql.Rows) error {
				row, err := t.scan(rows)
				if err != nil {
					return err
				}
				if !yield(row, nil) {
					return stopped
				}
				return nil
			}, `SELECT `+quoted(t.Names())+` FROM `+quoted([]string{t.Name}))
		})
		if err != nil && err != stopped {
			yield(nil, err)
		}
	}
}

func (t Table) scan(rows *sql.Rows) ([]any, error) {
	row := make([]any, len(t.Columns))
	dest := make([]any, len(t.Columns))
	for i := range row {
		dest[i] = &row[i]
	}
	if err := rows.Scan(dest...); err != nil {
		return nil, err
	}
	for i, c := range t.Columns {
		ok := row[i] == nil
		switch row[i].(type) {
		case int64:
			ok = c.Kind == Integer
		case string:
			ok = c.Kind == Text
		case []byte:
			ok = c.Kind == Bytes
		}
		if !ok {
			return nil, fmt.Errorf("a row of %s (%s) has a %T in the column %s, which is for %s", t.Name, t.Describe(row), row[i], c.Name, c.Kind)
		}
	}
	return row, nil
}

// Describe returns the primary key of a row, for messages.
func (t Table) Describe(row []any) string {
	var parts []string
	for i, c := range t.Columns {
		if c.Key {
			parts = append(parts, fmt.Sprintf("%s %.100q", c.Name, fmt.Sprint(row[i])))
		}
	}
	return strings.Join(parts, ", ")
}

// quoted returns names as SQL has them, separated by commas.
func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = pgx.Identifier{n}.Sanitize()
	}
	return strings.Join(out, ", ")
}

// A batch of [DB.Load] on SQLite ends with this many rows or bytes.
const (
	loadRows  = 1000
	loadBytes = 4 << 20
)

// Load adds rows to a table and returns their number. PostgreSQL receives them with COPY,
// all or none. On SQLite each thousand is a transaction. It is for a database that is not
// in use yet.
func (d *DB) Load(ctx context.Context, table string, columns []string, rows iter.Seq2[[]any, error]) (n int64, err error) {
	if d.postgres {
		return d.engine.(*postgresDB).load(ctx, table, columns, rows)
	}
	insert := `INSERT INTO ` + quoted([]string{table}) + ` (` + quoted(columns) + `) VALUES (`
	for i := range columns {
		insert += [2]string{"", ", "}[min(i, 1)] + fmt.Sprintf("$%d", i+1)
	}
	insert += ")"
	var batch [][]any
	size := 0
	flush := func() error {
		err := d.Write(ctx, func(tx *Tx) error {
			for _, row := range batch {
				if _, err := tx.Exec(ctx, insert, row...); err != nil {
					return err
				}
			}
			return nil
		})
		n += int64(len(batch))
		batch, size = batch[:0], 0
		return err
	}
	for row, err := range rows {
		if err != nil {
			return n, err
		}
		batch = append(batch, row)
		for _, v := range row {
			size += valueBytes(v)
		}
		if len(batch) == loadRows || size > loadBytes {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	return n, flush()
}

func valueBytes(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 8
}

func (p *postgresDB) load(ctx context.Context, table string, columns []string, rows iter.Seq2[[]any, error]) (int64, error) {
	c, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return 0, fmt.Errorf("db: connect to PostgreSQL: %w", err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, "SET statement_timeout = 0"); err != nil {
		return 0, classify(err)
	}
	next, stop := iter.Pull2(rows)
	defer stop()
	n, err := c.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		row, err, ok := next()
		if !ok {
			return nil, nil
		}
		return row, err
	}))
	return n, classify(err)
}

// LastNumber returns the highest number that the database has assigned in a table with a
// numbering column, or 0.
func (d *DB) LastNumber(ctx context.Context, table, column string) (last int64, err error) {
	err = d.Read(ctx, func(tx *Tx) error {
		last = 0
		if !d.postgres {
			_, err := tx.Get(ctx, `SELECT seq FROM sqlite_sequence WHERE name = $1`, []any{table}, &last)
			return err
		}
		sequence, err := tx.sequence(ctx, table, column)
		if err != nil {
			return err
		}
		var called bool
		if _, err := tx.Get(ctx, `SELECT last_value, is_called FROM `+sequence, nil, &last, &called); err != nil {
			return err
		}
		if !called {
			last--
		}
		return nil
	})
	return last, err
}

// SetLastNumber makes the next row of a table get the number after last.
func (d *DB) SetLastNumber(ctx context.Context, table, column string, last int64) error {
	return d.Write(ctx, func(tx *Tx) error {
		if !d.postgres {
			if _, err := tx.Exec(ctx, `DELETE FROM sqlite_sequence WHERE name = $1`, table); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)`, table, last)
			return err
		}
		sequence, err := tx.sequence(ctx, table, column)
		if err != nil {
			return err
		}
		var set int64
		_, err = tx.Get(ctx, `SELECT setval($1::text::regclass, $2, $3)`, []any{sequence, max(last, 1), last > 0}, &set)
		return err
	})
}

// sequence returns the name of the sequence that numbers a column, as SQL has it.
func (t *Tx) sequence(ctx context.Context, table, column string) (name string, err error) {
	_, err = t.Get(ctx, `SELECT pg_get_serial_sequence(quote_ident(current_schema()) || '.' || quote_ident($1::text), $2::text)`, []any{table, column}, &name)
	return name, err
}
