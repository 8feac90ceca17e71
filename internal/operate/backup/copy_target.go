package backup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/store"
)

// Names in the target of a copy while it runs.
const (
	copyingName = ".copy" // directory of the copy before it is complete
)

// openTarget locks and marks a store and creates its tables. The store must be empty, or contain an interrupted
// copy of the same source.
func (c *copier) openTarget(ctx context.Context, source string) (_ *side, err error) {
	s := &side{}
	if s.lock, err = lockStore(ctx, c.To); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if c.To.PostgresURL != "" {
		err = c.markDatabase(ctx, s, source)
	} else {
		err = c.markDir(ctx, s, source)
	}
	return s, err
}

func (c *copier) markDatabase(ctx context.Context, s *side, source string) error {
	plain, err := db.Open(ctx, db.Config{PostgresURL: c.To.PostgresURL, Connections: 1})
	if err != nil {
		return err
	}
	defer plain.Close()
	marked, before, err := store.CopyMark(ctx, plain)
	if err != nil {
		return err
	}
	if marked && before != source {
		return errors.New("it contains an interrupted copy of another store; choose an empty database, or drop its tables")
	}
	if !marked {
		names, err := c.ownTables(ctx, plain)
		if err != nil {
			return err
		}
		for _, name := range names {
			any := false
			if err := plain.Read(ctx, func(tx *db.Tx) error {
				_, err := tx.Get(ctx, `SELECT EXISTS (SELECT 1 FROM `+name+`)`, nil, &any)
				return err
			}); err != nil {
				return err
			}
			if any {
				return fmt.Errorf("it is not empty (there are rows in %s); a copy needs an empty database, or a separate schema", name)
			}
		}
		if err := plain.Write(ctx, func(tx *db.Tx) error {
			if _, err := tx.Exec(ctx, `CREATE TABLE `+store.CopyTable+` (source TEXT NOT NULL, begun_at BIGINT NOT NULL)`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO `+store.CopyTable+` VALUES ($1, $2)`, source, db.Micros(time.Now()))
			return err
		}); err != nil {
			return err
		}
	}
	for _, cfg := range store.Databases(c.To, c.Drives) {
		d, err := db.Open(ctx, cfg)
		if err != nil {
			return err
		}
		s.dbs = append(s.dbs, d)
	}
	names, err := c.ownTables(ctx, plain)
	if err != nil {
		return err
	}
	s.finish = func(ctx context.Context) error {
		return s.dbs[0].Write(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(ctx, `DROP TABLE `+store.CopyTable)
			return err
		})
	}
	return plain.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(ctx, `TRUNCATE `+strings.Join(names, ", "))
		return err
	})
}

// ownTables returns the tables of a PostgreSQL schema that this program creates.
func (c *copier) ownTables(ctx context.Context, d *db.DB) (names []string, err error) {
	known, err := c.reference(ctx)
	if err != nil {
		return nil, err
	}
	tables, err := d.Tables(ctx)
	for _, t := range tables {
		if slices.Contains(known, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names, err
}

// reference returns the names of the tables that the migrations create. It reads them from a new store in a
// temporary directory, so that no list can be out of date.
func (c *copier) reference(ctx context.Context) (names []string, err error) {
	dir, err := os.MkdirTemp("", "stoa-copy-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, cfg := range store.Databases(store.Config{Dir: dir}, c.Drives) {
		d, err := db.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		tables, err := d.Tables(ctx)
		if err = errors.Join(err, d.Close()); err != nil {
			return nil, err
		}
		for _, t := range tables {
			names = append(names, t.Name)
		}
	}
	return names, nil
}

// markDir begins a copy in a directory inside of the target, so that its complete files can be moved out by
// renaming.
func (c *copier) markDir(ctx context.Context, s *side, source string) error {
	dir, mark := c.To.Dir, filepath.Join(c.To.Dir, store.UnfinishedCopy)
	before, err := os.ReadFile(mark)
	if err == nil {
		if strings.TrimSpace(string(before)) != source {
			return fmt.Errorf("%s contains an interrupted copy of another store; choose an empty directory", dir)
		}
		for _, name := range append(store.Files(), store.IdFile) { // they are from a copy that was interrupted while it was moved
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(filepath.Join(dir, name+suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
			}
		}
	} else if err := empty(dir, "a copy needs an empty directory"); err != nil {
		return err
	}
	if err := store.WriteSynced(mark, source+"\n"); err != nil {
		return err
	}
	if err := db.SyncDir(dir); err != nil {
		return err
	}
	work := filepath.Join(dir, copyingName)
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	to := c.To
	to.Dir, to.Durability = work, db.Process // not synced by each commit, because finish syncs everything
	for _, cfg := range store.Databases(to, c.Drives) {
		d, err := db.Open(ctx, cfg)
		if err != nil {
			return err
		}
		s.dbs = append(s.dbs, d)
	}
	s.finish = func(ctx context.Context) error { return s.publish(ctx, dir, work) }
	return nil
}

// publish moves a complete copy to its place.
func (s *side) publish(ctx context.Context, dir, work string) error {
	for i, d := range s.dbs {
		if err := d.Close(); err != nil {
			return err
		}
		s.dbs[i] = nil
	}
	if err := store.CheckIdentity(ctx, work); err != nil {
		return err
	}
	for _, name := range append(store.Files(), store.IdFile) {
		f, err := os.OpenFile(filepath.Join(work, name), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(work, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(work), db.SyncDir(dir)); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, store.UnfinishedCopy)); err != nil {
		return err
	}
	return db.SyncDir(dir)
}

// A sum counts rows and adds up their hashes, because databases return rows in different orders.
type sum struct {
	rows  int64
	total [4]uint64 // sum of the rows' SHA-256, as four numbers without carry
	hash  hash.Hash
	buf   []byte
}

// add adds a row. It hashes each value with its type and length, so that different rows have different
// hashes.
func (s *sum) add(row []any) {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	s.hash.Reset()
	s.buf = s.buf[:0]
	for _, v := range row {
		switch v := v.(type) {
		case int64:
			s.buf = binary.BigEndian.AppendUint64(append(s.buf, 'i'), uint64(v))
		case string:
			s.buf = append(binary.BigEndian.AppendUint64(append(s.buf, 't'), uint64(len(v))), v...)
		case []byte:
			s.buf = append(binary.BigEndian.AppendUint64(append(s.buf, 'b'), uint64(len(v))), v...)
		default:
			s.buf = append(s.buf, 'n')
		}
	}
	s.hash.Write(s.buf)
	s.buf = s.hash.Sum(s.buf[:0])
	for i := range s.total {
		s.total[i] += binary.BigEndian.Uint64(s.buf[8*i:])
	}
	s.rows++
}

func (s *sum) result() TableSum {
	var b []byte
	for _, n := range s.total {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return TableSum{Rows: s.rows, Hash: hex.EncodeToString(b[:16])}
}
