package db

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// ReplaceFile replaces a small file durably. After a crash it has the old or the new content, and
// only its owner can read it.
func ReplaceFile(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.WriteString(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir flushes a directory, so that the names in it survive a loss of power.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // because a directory cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
