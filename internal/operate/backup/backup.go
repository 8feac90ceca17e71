// Package backup copies whole stores: into one file and back, and from one kind of
// database to the other. What it writes is complete or does not open.
//
// Start at [Create], [Restore] and [Copy].
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
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/store"
)

const (
	backupFormat = "stoa-backup-1"
	manifestName = "manifest.json"
	maxManifest  = 1 << 20
)

// A Manifest is the first file of a backup and describes the others.
type Manifest struct {
	Format    string    `json:"format"`
	Version   string    `json:"version"` // version of the program that wrote it
	CreatedAt time.Time `json:"createdAt"`
	Files     []File    `json:"files"`
	Keys      []string  `json:"keys,omitempty"` // names of the service's keys, which no file contains
}

// A File is one database in a backup.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hexadecimal
}

// Create copies the databases of a data directory at one moment into one new tar file, while a server may be
// using them. It needs disk space for two copies next to the file. keys are the names of the service's keys, which are
// not copied, so that the file alone opens no secret.
func Create(ctx context.Context, dir, file, version string, keys ...string) (m Manifest, err error) {
	if _, err := os.Lstat(file); err == nil {
		return m, fmt.Errorf("%s exists; a backup overwrites nothing", file)
	}
	work, err := os.MkdirTemp(filepath.Dir(file), ".stoa-backup-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	m = Manifest{Format: backupFormat, Version: version, CreatedAt: time.Now().UTC().Truncate(time.Millisecond), Keys: keys}
	names, err := db.Snapshot(ctx, dir, store.Files(), work)
	if err != nil {
		return m, err
	}
	if !slices.Contains(names, store.Files()[0]) {
		return m, fmt.Errorf("there is no store in %s", dir)
	}
	for _, name := range names {
		f, err := describe(filepath.Join(work, name))
		if err != nil {
			return m, err
		}
		m.Files = append(m.Files, f)
	}
	part := filepath.Join(work, "backup.tar")
	if err := pack(ctx, m, work, part); err != nil {
		return m, err
	}
	if err := publish(part, file); err != nil {
		return m, err
	}
	return m, db.SyncDir(filepath.Dir(file))
}

// publish renames a finished file to its name, which must be free. It links instead of renaming, so that a
// file created in the meantime is not overwritten. If the file system does not support links, it checks first
// and renames.
func publish(part, file string) error {
	err := os.Link(part, file)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, there := os.Lstat(file); there == nil {
		return err
	}
	return os.Rename(part, file)
}

func describe(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return File{Name: filepath.Base(path), Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// pack writes the manifest and its files to a new tar file and makes it durable.
func pack(ctx context.Context, m Manifest, from, path string) (err error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	head, err := jsonx.Marshal(m)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	add := func(name string, size int64, r io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: m.CreatedAt}); err != nil {
			return err
		}
		_, err := io.Copy(w, r)
		return err
	}
	if err := add(manifestName, int64(len(head)), strings.NewReader(string(head))); err != nil {
		return err
	}
	for _, f := range m.Files {
		in, err := os.Open(filepath.Join(from, f.Name))
		if err != nil {
			return err
		}
		err = add(f.Name, f.Bytes, in)
		in.Close()
		if err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Sync()
}
