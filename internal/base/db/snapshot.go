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
	pagesPerStep = 1024 // copied between two checks of ctx
)

// Snapshot copies SQLite files of a data directory, as of one moment, into another
// directory, while their server continues to write. Neither the server's writers nor its
// readers wait for it. It skips files that do not exist and returns the names of the copied
// ones.
//
// It opens a read transaction on each file and then checks whether any of them was
// committed to in between (PRAGMA data_version on a second connection); if so it releases
// them and tries again. The window is some tens of microseconds and a commit takes about a
// millisecond, so few attempts are needed. SQLite's backup API copies the pages from the
// pinned transactions.
//
// Acquiring both write locks was rejected: SQLite's lock is not fair, and every charge
// would wait. VACUUM INTO cannot run inside a transaction, so two files cannot be pinned
// together. An endpoint of the server would not work while the server is down. The choice
// would be wrong if a backup failed with "written to without a pause" in real use.
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

// A pin pins a snapshot of a file: reader has a read transaction open; watch detects
// commits since its last query.
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

// hold begins the read transaction: from now on reader has this snapshot.
func (p *pin) hold(ctx context.Context) error {
	if _, err := p.reader.ExecContext(ctx, "BEGIN"); err != nil {
		return classify(err)
	}
	var n int
	return classify(p.reader.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master").Scan(&n))
}

// version changes whenever another connection has committed.
func (p *pin) version(ctx context.Context) (n int64, err error) {
	err = p.watch.QueryRowContext(ctx, "PRAGMA data_version").Scan(&n)
	return n, classify(err)
}

// pinTogether pins all files at one moment: if none of them was committed to between the
// first hold and the last, all of them were in this state at the last hold. Otherwise it
// tries again.
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
			if _, err := p.reader.ExecContext(ctx, "ROLLBACK"); err != nil {
				return classify(err)
			}
		}
	}
	return errors.New("db: the files are written to without a pause; try again when there is less to do")
}

// copy writes the pinned content to a new file.
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
