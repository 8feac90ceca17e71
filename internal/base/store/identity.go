package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stoa/internal/base/db"
)

// IdFile is the name of the file in a data directory with the id of its store. Both databases contain the
// same id in their headers, so that a database that is missing, empty or from another store is detected
// before anything is created. Otherwise a new store with new credits would replace a lost core.db.
const IdFile = "store.id"

type identity struct {
	id      uint32
	pending bool // the databases may not contain it yet, because a crash can occur between the writes
}

// CheckIdentity compares the files of a data directory and creates the files of a new
// store. The caller holds the directory's lock. An error says how to proceed.
func CheckIdentity(ctx context.Context, dir string) error {
	var missing, there []string
	for _, name := range Files() {
		info, err := os.Stat(filepath.Join(dir, name))
		switch {
		case err == nil && info.Size() > 0:
			there = append(there, name)
		case err == nil || errors.Is(err, fs.ErrNotExist):
			missing = append(missing, name)
			if wal, err := os.Stat(filepath.Join(dir, name+"-wal")); err == nil && wal.Size() > 0 {
				there = append(there, name+"-wal")
			}
		default:
			return err
		}
	}
	own, err := readIdentity(dir)
	if err != nil {
		return err
	}
	if own.id != 0 && !own.pending {
		there = append(there, IdFile)
	}
	if len(missing) > 0 && len(there) > 0 && !own.pending {
		return fmt.Errorf("%s is missing or empty in %s, but %s is there, so the directory has held a store: restore a backup with \"stoa restore --force\", or put the file back; for a new store choose an empty directory",
			strings.Join(missing, " and "), dir, strings.Join(there, " and "))
	}
	ids := map[string]uint32{}
	for _, name := range Files() {
		if len(missing) == 0 || own.pending && !slices.Contains(missing, name) {
			if ids[name], err = db.FileID(ctx, dir, name); err != nil {
				return err
			}
		}
	}
	return own.apply(ctx, dir, ids)
}

// apply stores the id in a directory's databases where that is safe, and returns an
// error where their ids differ. ids contains 0 for a database without one.
func (own identity) apply(ctx context.Context, dir string, ids map[string]uint32) error {
	names := Files()
	complete := own.id != 0 && !own.pending
	if own.id == 0 {
		own.id = ids[names[0]]
	}
	none := own.id == 0
	for _, name := range names {
		none = none && ids[name] == 0
	}
	switch {
	case none: // a new store, or one from before there were ids
		own = identity{id: newID(), pending: true}
		if err := writeIdentity(dir, own); err != nil {
			return err
		}
	case own.pending: // the process died while it wrote them
	default:
		for _, name := range names {
			if ids[name] != own.id {
				return fmt.Errorf("%s in %s belongs to another store (its id is %08x, that of the directory is %08x): restore a backup with \"stoa restore --force\", which has files of one moment, or put the right file back (files of one copy that have no ids yet: remove "+IdFile+")",
					name, dir, ids[name], own.id)
			}
		}
		if complete {
			return nil
		}
	}
	for _, name := range names {
		if id := ids[name]; id != 0 && id != own.id {
			return fmt.Errorf("%s in %s belongs to another store: restore a backup with \"stoa restore --force\", or put the right file back", name, dir)
		}
		if ids[name] == own.id {
			continue
		}
		if err := db.SetFileID(ctx, dir, name, own.id); err != nil {
			return err
		}
	}
	return writeIdentity(dir, identity{id: own.id})
}

// newID returns a random id, never 0, that fits PRAGMA user_version. A table in each database was rejected,
// because the comparison would have to open both first, and so was application_id, which names the program.
func newID() uint32 { return rand.Uint32N(1<<31-1) + 1 }

// readIdentity returns the zero identity if the file does not exist.
func readIdentity(dir string) (own identity, err error) {
	path := filepath.Join(dir, IdFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, nil
	}
	if err != nil {
		return identity{}, err
	}
	state := ""
	if n, _ := fmt.Sscanf(string(text), "%x %s", &own.id, &state); n == 0 || own.id == 0 {
		return identity{}, fmt.Errorf("%s cannot be read; remove it if both databases are in place: it is written again when their ids agree", path)
	}
	own.pending = state == "pending"
	return own, nil
}

// writeIdentity replaces the file as a whole, so that it is either the old or the new one.
func writeIdentity(dir string, own identity) error {
	text := fmt.Sprintf("%08x\n", own.id)
	if own.pending {
		text = fmt.Sprintf("%08x pending\n", own.id)
	}
	return db.ReplaceFile(filepath.Join(dir, IdFile), text)
}
