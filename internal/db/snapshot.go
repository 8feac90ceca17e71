package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
)

const (
	pinAttempts  = 1000 // at a moment in which no file but the last is written
	pagesPerStep = 1024 // copied between two looks at ctx
)

// Snapshot copies SQLite files of a data directory, as they all were at one
// moment, into another directory, while their server goes on writing. Neither
// the server's writers nor its readers wait for it. A file that does not exist
// is left out; the names of those copied are returned.
//
// It opens a read transaction on each file and then checks whether anybody has
// committed to any of them in between (PRAGMA data_version on a second
// connection); if so it lets go and tries again. The window is some tens of
// microseconds and a commit takes about a millisecond, so few attempts are
// needed. The pages are copied with SQLite's backup API from the pinned
// transactions.
//
// Taking both write locks was rejected: SQLite's lock is not fair, and every
// charge would wait. VACUUM INTO cannot run inside a transaction, so two files
// cannot be pinned together. An endpoint of the server would not work when the
// server does not. It would be wrong if a backup failed with "written to
// without a pause" in real use.
func Snapshot(ctx context.Context, dir string, files []string, to string) (copied []string, err error) {
	var pins []*pin
	defer func() {
		for _, p := range pins {
			p.close()
		}
	}()
	for _, name := range files {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, os.ErrNotExist) {
			continue
		}
		p, err := openPin(ctx, dir, name)
		if err != nil {
			return nil, err
		}
		pins = append(pins, p)
	}
	if err := pinTogether(ctx, pins); err != nil {
		return nil, err
	}
	for _, p := range pins {
		if err := p.copy(ctx, filepath.Join(to, p.name)); err != nil {
			return nil, fmt.Errorf("db: copy %s: %w", p.name, err)
		}
		copied = append(copied, p.name)
	}
	return copied, nil
}

// A pin holds a snapshot of a file: reader has a read transaction open; watch shows
// whether anybody has committed since its last query.
type pin struct {
	name          string
	pool          *sql.DB
	reader, watch *sql.Conn
}

func openPin(ctx context.Context, dir, name string) (*pin, error) {
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	p := &pin{name: name}
	if p.pool, err = sqlitePool(path, Config{}, true); err != nil {
		return nil, err
	}
	for _, c := range []**sql.Conn{&p.reader, &p.watch} {
		if *c, err = p.pool.Conn(ctx); err != nil {
			p.close()
			return nil, fmt.Errorf("db: open %s: %w", name, classify(err))
		}
	}
	return p, nil
}

func (p *pin) close() {
	for _, c := range []*sql.Conn{p.reader, p.watch} {
		if c != nil {
			c.Close()
		}
	}
	p.pool.Close()
}

// hold begins the read transaction: from now on reader sees this moment.
func (p *pin) hold(ctx context.Context) error {
	if _, err := p.reader.ExecContext(ctx, "BEGIN"); err != nil {
		return classify(err)
	}
	var n int
	return classify(p.reader.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master").Scan(&n))
}

func (p *pin) letGo(ctx context.Context) error {
	_, err := p.reader.ExecContext(ctx, "ROLLBACK")
	return classify(err)
}

// version changes whenever another connection has committed.
func (p *pin) version(ctx context.Context) (n int64, err error) {
	err = p.watch.QueryRowContext(ctx, "PRAGMA data_version").Scan(&n)
	return n, classify(err)
}

// pinTogether holds all files at one moment: when nobody has committed to any
// of them between the first hold and the last, then all of them were in this state
// when the last was held. Otherwise it tries again.
func pinTogether(ctx context.Context, pins []*pin) error {
	before := make([]int64, len(pins))
	for range pinAttempts {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		for i, p := range pins {
			if before[i], err = p.version(ctx); err != nil {
				return err
			}
		}
		for _, p := range pins {
			if err := p.hold(ctx); err != nil {
				return err
			}
		}
		still := true
		for i, p := range pins {
			now, err := p.version(ctx)
			if err != nil {
				return err
			}
			still = still && (now == before[i] || len(pins) == 1)
		}
		if still {
			return nil
		}
		for _, p := range pins {
			if err := p.letGo(ctx); err != nil {
				return err
			}
		}
	}
	return errors.New("db: the files are written to without a pause; try again when there is less to do")
}

// copy writes what the pin holds to a new file.
func (p *pin) copy(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists", path)
	}
	return p.reader.Raw(func(driver any) error {
		from, ok := driver.(interface {
			NewBackup(uri string) (*sqlite.Backup, error)
		})
		if !ok {
			return errors.New("this driver cannot copy")
		}
		b, err := from.NewBackup(path)
		if err != nil {
			return classify(err)
		}
		for more := true; more && err == nil; {
			if err = ctx.Err(); err == nil {
				more, err = b.Step(pagesPerStep)
			}
		}
		return errors.Join(classify(err), classify(b.Finish()))
	})
}
