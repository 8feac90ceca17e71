package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/store"
)

// Names in the data directory while a restore runs.
const (
	restoringName = ".restore" // directory of the unpacked copy during its check
)

// A Restored is the result of [Restore].
type Restored struct {
	Manifest    Manifest
	Differences []store.Difference // differences in the restored ledger; empty if it is correct
	Replaced    string             // directory of the former databases; empty if there were none
}

// Restore puts a backup into a data directory that no server uses. It acquires the directory's lock,
// checks every hash, opens the copy (which migrates its tables) and verifies its ledger, and only then
// replaces the databases of the directory. It refuses a directory that is not empty unless force is set, and then
// keeps the former databases in a directory next to the new ones.
//
// drives contains the migrations of drive.db. A backup without accounts, or with tables, triggers or views
// that the migrations do not create, is refused, because these could change the ledger.
//
// After an interruption, either nothing has changed, or the store refuses to open until Restore has been
// run again.
//
// Differences in the ledger are reported in [Restored].Differences, and the backup is restored all
// the same, because a backup with a wrong row is better than none. Replacing the
// former files without keeping them was rejected, since a mistyped file name could destroy the data; the price
// is disk space for two copies.
func Restore(ctx context.Context, dir, file string, force bool, drives fs.FS) (r Restored, err error) {
	in, err := os.Open(file)
	if err != nil {
		return r, err
	}
	defer in.Close()
	lock, err := db.LockDir(dir)
	if err != nil {
		return r, err
	}
	defer lock.Release()
	if !force {
		if err := empty(dir, "with --force the backup replaces its databases, which are kept in another directory"); err != nil {
			return r, err
		}
	}
	work := filepath.Join(dir, restoringName)
	if err := os.RemoveAll(work); err != nil {
		return r, err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if r.Manifest, err = unpack(ctx, in, work); err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return r, fmt.Errorf("%s could not be unpacked; the backup itself may be complete: %w", file, err)
		}
		return r, fmt.Errorf("%s is not a complete backup: %w", file, err)
	}
	if r.Differences, err = prove(ctx, work, drives); err != nil {
		return r, fmt.Errorf("%s: the copy does not open: %w", file, err)
	}
	r.Replaced, err = replace(dir, work)
	return r, err
}

// empty returns an error with advice if a directory contains more than a lock, or PostgreSQL's last server.
func empty(dir, instead string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != db.LockFile && e.Name() != db.LineageFile && e.Name() != restoringName {
			return fmt.Errorf("the data directory %s is not empty (it contains %s); %s", dir, e.Name(), instead)
		}
	}
	return nil
}

// unpack writes the files of a backup into a directory and checks each.
func unpack(ctx context.Context, from io.Reader, dir string) (m Manifest, err error) {
	r := tar.NewReader(from)
	head, err := r.Next()
	if err != nil {
		return m, err
	}
	if head.Name != manifestName || head.Size > maxManifest {
		return m, fmt.Errorf("it begins with %q, not with a manifest", head.Name)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return m, err
	}
	if err := jsonx.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("its manifest: %w", err)
	}
	if m.Format != backupFormat {
		return m, fmt.Errorf("it has the format %q and this program reads %q; use the program that made it (%s)", m.Format, backupFormat, m.Version)
	}
	if len(m.Files) == 0 || m.Files[0].Name != store.Files()[0] {
		return m, fmt.Errorf("it contains no %s", store.Files()[0])
	}
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		if !slices.Contains(store.Files(), f.Name) {
			return m, fmt.Errorf("it contains a file %q", f.Name)
		}
		head, err := r.Next()
		if err != nil {
			return m, fmt.Errorf("%s is missing: %w", f.Name, err)
		}
		if head.Name != f.Name || head.Size != f.Bytes {
			return m, fmt.Errorf("found %s with %d bytes instead of %s with %d", head.Name, head.Size, f.Name, f.Bytes)
		}
		sum, err := extract(r, filepath.Join(dir, f.Name))
		if err != nil {
			return m, fmt.Errorf("%s: %w", f.Name, err)
		}
		if sum != f.SHA256 {
			return m, fmt.Errorf("%s has been changed: its SHA-256 is %s, the manifest says %s", f.Name, sum, f.SHA256)
		}
	}
	return m, nil
}

// extract writes one file of a backup, syncs it and returns its SHA-256.
func extract(r io.Reader, path string) (sum string, err error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, h), r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), out.Sync()
}

// prove opens the unpacked store as a server would, and verifies its ledger.
func prove(ctx context.Context, dir string, drives fs.FS) (diffs []store.Difference, err error) {
	if err := checkSchemas(ctx, dir, map[string]fs.FS{store.CoreFile: store.Migrations(), store.DriveFile: drives}); err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, store.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.Read(ctx, func(tx *store.Tx) error {
		if any, err := tx.Books().HasAccounts(ctx); err != nil || !any {
			return errors.Join(err, errors.New("it has no accounts, so it is not the store of a service"))
		}
		diffs, _, err = tx.Books().Differences(ctx, "")
		return err
	})
	return diffs, err
}

// replace moves the databases of a directory aside and the new ones in. A marker file exists in the
// meantime, so that a mixture of both is never opened.
func replace(dir, work string) (kept string, err error) {
	marker := filepath.Join(dir, store.UnfinishedRestore)
	if err := store.WriteSynced(marker, "A restore was interrupted. Run \"stoa restore\" again, with --force.\n"); err != nil {
		return "", err
	}
	if err := db.SyncDir(dir); err != nil {
		return "", err
	}
	for _, name := range append(store.Files(), store.IdFile) {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			old := filepath.Join(dir, name+suffix)
			if _, err := os.Lstat(old); errors.Is(err, os.ErrNotExist) {
				continue
			}
			if kept == "" {
				kept = filepath.Join(dir, "replaced-"+time.Now().UTC().Format("20060102T150405.000Z"))
				if err := os.Mkdir(kept, 0o700); err != nil {
					return "", err
				}
			}
			if err := os.Rename(old, filepath.Join(kept, name+suffix)); err != nil {
				return kept, err
			}
		}
	}
	for _, name := range append(store.Files(), store.IdFile) {
		if err := os.Rename(filepath.Join(work, name), filepath.Join(dir, name)); err != nil {
			return kept, err
		}
	}
	if err := db.SyncDir(dir); err != nil {
		return kept, err
	}
	if err := os.Remove(marker); err != nil {
		return kept, err
	}
	return kept, db.SyncDir(dir)
}
