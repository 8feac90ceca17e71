package backup

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"stoa/internal/base/db"
	"stoa/internal/base/store"
)

// CopyOptions are the options of [Copy].
type CopyOptions struct {
	From, To store.Config // each is Dir or PostgresURL
	Drives   store.DriveTables

	// ReplaceText replaces characters that PostgreSQL cannot store in a text (NUL
	// characters and invalid UTF-8) by U+FFFD. Without it such a row is an error, because the copy would differ.
	ReplaceText bool
	// Progress is called regularly with the number of copied rows of a table, and once more
	// after the last one; it may be nil.
	Progress func(table string, rows int64, done bool)
}

// A Copied is the result of [Copy].
type Copied struct {
	Tables      []CopiedTable
	Size        store.BooksSize
	Differences []store.Difference // differences in the ledger, which are equal on both sides; empty if it is correct
}

// A CopiedTable contains the row counts and hashes of a table on both sides. The hash does not depend on the
// order of the rows.
type CopiedTable struct {
	Name     string
	From, To TableSum
}

// A TableSum describes the rows of a table.
type TableSum struct {
	Rows int64
	Hash string // hexadecimal
}

// String describes in one line how a copy differs.
func (t CopiedTable) String() string {
	return fmt.Sprintf("%s: %d rows with the hash %s here, %d rows with %s there", t.Name, t.From.Rows, t.From.Hash, t.To.Rows, t.To.Hash)
}

// Copy copies all rows of a store: from a data directory to PostgreSQL, or back, or to another store of
// the same kind. It acquires the locks of both, copies every table of the source that this program's
// migrations create, and then reads the copy again: the number of rows and the sum of their SHA-256
// must equal those of the source. It reads tables and columns from both schemas, so that a table that is added
// later is copied without a change here. It does not change or migrate the source.
//
// The target is marked from the beginning to the comparison, so that an incomplete copy cannot be opened: a
// start, a migration and a verification refuse a marked target. A target with other data is refused; an
// interrupted copy of the same source is restarted.
//
// Last, it ends the source's nodes in the copy, so that their leases and claims return.
//
// A ledger with differences is copied unchanged and reported, as in [Restore].
func Copy(ctx context.Context, o CopyOptions) (done Copied, err error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, bool) {}
	}
	c := &copier{CopyOptions: o}
	c.From.ReadOnly = true
	from, err := c.openSource(ctx)
	if err != nil {
		return done, fmt.Errorf("the source: %w", err)
	}
	defer func() { err = errors.Join(err, from.close()) }()
	source, err := c.identify(ctx, from)
	if err != nil {
		return done, fmt.Errorf("the source: %w", err)
	}
	to, err := c.openTarget(ctx, source)
	if err != nil {
		return done, fmt.Errorf("the target: %w", err)
	}
	defer func() { err = errors.Join(err, to.close()) }()
	ctx, cancel := held(ctx, from, to)
	defer cancel()
	pairs, err := c.pairs(ctx, from, to)
	if err != nil {
		return done, err
	}
	for _, p := range pairs {
		t, err := c.table(ctx, p)
		if err != nil {
			return done, fmt.Errorf("copy %s: %w", p.name, lostOr(ctx, err))
		}
		done.Tables = append(done.Tables, t)
	}
	if err := c.compare(ctx, pairs, &done, from, to); err != nil {
		return done, lostOr(ctx, err)
	}
	// The nodes of the source are state of its processes, and the copy has no processes that could be lost.
	if err := to.dbs[0].Write(ctx, func(tx *db.Tx) error { return (&store.Tx{Tx: tx}).Operations().EndNodes(ctx) }); err != nil {
		return done, fmt.Errorf("end the nodes of the copy: %w", lostOr(ctx, err))
	}
	return done, to.finish(ctx)
}

// held returns a context that ends when a lock on a database may be lost.
func held(ctx context.Context, sides ...*side) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	for _, s := range sides {
		if lost := s.lock.Lost(); lost != nil {
			go func() {
				select {
				case <-lost:
					cancel(store.ErrLost)
				case <-ctx.Done():
				}
			}()
		}
	}
	return ctx, func() { cancel(nil) }
}

// lostOr returns ErrLost if that ended ctx, otherwise err.
func lostOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), store.ErrLost) {
		return store.ErrLost
	}
	return err
}

type copier struct{ CopyOptions }

// A side is one of the two stores of a copy. On PostgreSQL both databases use the same schema.
type side struct {
	lock   *db.Lock
	dbs    []*db.DB // core, drives
	finish func(context.Context) error
}

func (s *side) close() error {
	var errs []error
	for _, d := range s.dbs {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(append(errs, s.lock.Release())...)
}

func lockStore(ctx context.Context, cfg store.Config) (*db.Lock, error) {
	if cfg.PostgresURL != "" {
		return db.LockPostgres(ctx, cfg.PostgresURL, cfg.Logger)
	}
	return db.LockDir(cfg.Dir)
}

// openSource opens the copied store without writing to it. Its tables must be of this program's version,
// because it is not migrated.
func (c *copier) openSource(ctx context.Context) (_ *side, err error) {
	if c.From.PostgresURL == "" {
		for _, name := range store.Files() { // checked first, so that nothing is created in a wrong directory
			if _, err := os.Stat(filepath.Join(c.From.Dir, name)); err != nil {
				return nil, fmt.Errorf("there is no store in %s: %w", c.From.Dir, err)
			}
		}
	}
	s := &side{}
	if s.lock, err = lockStore(ctx, c.From); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := store.CheckCopied(ctx, c.From); err != nil {
		return nil, err
	}
	if c.From.PostgresURL == "" {
		if err := store.CheckRestored(c.From.Dir); err != nil {
			return nil, err
		}
	}
	for _, cfg := range store.Databases(c.From, c.Drives) {
		at, newest, err := db.Versions(ctx, cfg)
		if err != nil {
			return nil, err
		}
		if at == 0 {
			return nil, errors.New("there is no store in this database")
		}
		if at < newest {
			return nil, fmt.Errorf("the tables of %s are of version %d and this program needs %d: run \"stoa migrate\" on it first", cfg.File, at, newest)
		}
		d, err := db.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		s.dbs = append(s.dbs, d)
	}
	return s, nil
}

// identify returns the id of the oldest account, because no other store has it.
func (c *copier) identify(ctx context.Context, from *side) (id string, err error) {
	err = from.dbs[0].Read(ctx, func(tx *db.Tx) error {
		found, err := tx.Get(ctx, `SELECT id FROM accounts ORDER BY created_at, id LIMIT 1`, nil, &id)
		if err == nil && !found {
			err = errors.New("it has no accounts, so it is not the store of a service")
		}
		return err
	})
	return id, err
}

// A pair is a table on both sides, with the same columns.
type pair struct {
	db.Table // the source's table
	name     string
	from, to *db.DB
	refilled bool
}

// pairs returns the tables to copy, each after the tables that its rows refer to. Tables and columns on only
// one side are an error, because rows would be lost, and so is a table of a SQLite file that the migrations do not
// create. A PostgreSQL schema may contain other tables.
func (c *copier) pairs(ctx context.Context, from, to *side) ([]pair, error) {
	own := func(names ...string) bool { return slices.Contains(c.Drives.Own, strings.Join(names, ".")) }
	known, err := c.reference(ctx)
	if err != nil {
		return nil, err
	}
	here, err := tablesOf(ctx, from, known)
	if err != nil {
		return nil, err
	}
	there, err := tablesOf(ctx, to, known)
	if err != nil {
		return nil, err
	}
	var todo []pair
	for name, t := range there {
		if own(name) {
			continue
		}
		f, ok := here[name]
		if !ok {
			return nil, fmt.Errorf("the source has no table %s", name)
		}
		columns := func(t db.Table) (out []string) {
			for _, c := range t.Columns {
				if !own(name, c.Name) {
					out = append(out, c.Name+" "+string(c.Kind))
				}
			}
			slices.Sort(out)
			return out
		}
		if a, b := columns(f.Table), columns(t.Table); !slices.Equal(a, b) {
			return nil, fmt.Errorf("the table %s has the columns %s here and %s there", name, strings.Join(a, ", "), strings.Join(b, ", "))
		}
		f.Columns = slices.DeleteFunc(f.Columns, func(c db.Column) bool { return own(name, c.Name) })
		todo = append(todo, pair{Table: f.Table, name: name, from: f.from, to: t.from, refilled: name == c.Drives.Refilled})
	}
	for name := range here {
		if _, ok := there[name]; !ok && !own(name) {
			return nil, fmt.Errorf("the source has a table %s, which this program does not create", name)
		}
	}
	return inOrder(todo)
}

type placed struct {
	db.Table
	from *db.DB
}

// tablesOf returns the known tables of one side by name. Others are ignored, because a PostgreSQL schema may contain them.
func tablesOf(ctx context.Context, s *side, known []string) (map[string]placed, error) {
	all := map[string]placed{}
	for _, d := range s.dbs {
		tables, err := d.Tables(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range tables {
			if _, ok := all[t.Name]; !ok && (!d.Postgres() || slices.Contains(known, t.Name)) {
				all[t.Name] = placed{t, d}
			}
		}
	}
	return all, nil
}

func inOrder(todo []pair) (ordered []pair, err error) {
	slices.SortFunc(todo, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	done := map[string]bool{}
	for len(todo) > 0 {
		i := slices.IndexFunc(todo, func(p pair) bool {
			return !slices.ContainsFunc(p.After, func(t string) bool { return !done[t] })
		})
		if i < 0 {
			return nil, fmt.Errorf("the tables %s and others refer to each other", todo[0].name)
		}
		done[todo[i].name] = true
		ordered = append(ordered, todo[i])
		todo = slices.Delete(todo, i, i+1)
	}
	return ordered, nil
}

// progressRows is the number of rows between two calls of Progress.
const progressRows = 10_000

// table copies one table and returns its number of rows and sum.
func (c *copier) table(ctx context.Context, p pair) (t CopiedTable, err error) {
	t.Name = p.name
	var sum sum
	if p.refilled {
		for row, err := range c.rows(ctx, p) {
			if err != nil {
				return t, err
			}
			sum.add(row)
		}
		err = c.Drives.Refill(ctx, p.from, p.to, func(n int64) { c.Progress(p.name, n, false) })
	} else {
		_, err = p.to.Load(ctx, p.name, p.Names(), func(yield func([]any, error) bool) {
			for row, err := range c.rows(ctx, p) {
				if err == nil {
					sum.add(row)
				}
				if !yield(row, err) {
					return
				}
				if sum.rows%progressRows == 0 {
					c.Progress(p.name, sum.rows, false)
				}
			}
		})
	}
	if err != nil {
		return t, err
	}
	for _, column := range p.Columns {
		if column.Counts {
			last, err := p.from.LastNumber(ctx, p.name, column.Name)
			if err != nil {
				return t, err
			}
			if err := p.to.SetLastNumber(ctx, p.name, column.Name, last); err != nil {
				return t, err
			}
		}
	}
	t.From = sum.result()
	c.Progress(p.name, sum.rows, true)
	return t, nil
}

func (c *copier) rows(ctx context.Context, p pair) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for row, err := range p.from.Rows(ctx, p.Table) {
			if err == nil && p.to.Postgres() {
				err = c.mend(p, row)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// mend replaces bytes that PostgreSQL cannot store, because SQLite accepts any bytes as text and earlier versions of the
// service did not reject them.
func (c *copier) mend(p pair, row []any) error {
	for i, v := range row {
		text, ok := v.(string)
		if !ok || utf8.ValidString(text) && !strings.Contains(text, "\x00") {
			continue
		}
		if !c.ReplaceText {
			return fmt.Errorf("the %s of the row with %s has a NUL character or is not UTF-8, which PostgreSQL cannot hold; with --replace-text it becomes U+FFFD",
				p.Columns[i].Name, p.Describe(row))
		}
		row[i] = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	}
	return nil
}

func (c *copier) compare(ctx context.Context, pairs []pair, done *Copied, from, to *side) error {
	var wrong []string
	for i, p := range pairs {
		var sum sum
		t := p.Table // the same columns in the same order
		for row, err := range p.to.Rows(ctx, t) {
			if err != nil {
				return fmt.Errorf("read the copy of %s: %w", p.name, err)
			}
			sum.add(row)
		}
		done.Tables[i].To = sum.result()
		if done.Tables[i].From != done.Tables[i].To {
			wrong = append(wrong, done.Tables[i].String())
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the copy is not like the source:\n%s", strings.Join(wrong, "\n"))
	}
	before, _, err := books(ctx, from.dbs[0])
	if err != nil {
		return fmt.Errorf("verify the books of the source: %w", err)
	}
	if done.Differences, done.Size, err = books(ctx, to.dbs[0]); err != nil {
		return fmt.Errorf("verify the books of the copy: %w", err)
	}
	byLine := func(a, b store.Difference) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(before, byLine)
	slices.SortFunc(done.Differences, byLine)
	if !slices.Equal(before, done.Differences) {
		return fmt.Errorf("the ledger of the copy (%d differences) differs from that of the source (%d)", len(done.Differences), len(before))
	}
	return nil
}

func books(ctx context.Context, d *db.DB) (diffs []store.Difference, size store.BooksSize, err error) {
	err = d.Report(ctx, func(tx *db.Tx) error {
		t := &store.Tx{Tx: tx}
		found, charges, err := t.Books().Differences(ctx, "")
		if diffs = found; err == nil {
			size, err = t.Books().BooksSize(ctx, charges.Calls)
		}
		return err
	})
	return diffs, size, err
}
