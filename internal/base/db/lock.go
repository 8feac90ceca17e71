package db

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// A Lock is an exclusive lock on a data directory or a PostgreSQL database: its
// holder is the only process that writes there.
// See docs/decisions/0014-one-process-per-data-directory.md.
type Lock struct {
	lost    chan struct{} // nil for a directory
	release func() error
	once    sync.Once
}

// ErrLocked is the error if another process holds the lock.
var ErrLocked = errors.New("another stoa process is using it")

// LockFile is the name of the file in a data directory that its lock is taken on.
// Its contents mean nothing.
const LockFile = "stoa.lock"

// errFileLocked is the error of tryLockFile if another process, or another open file of
// this one, holds the lock.
var errFileLocked = errors.New("db: the file is locked")

// LockDir locks a data directory, and creates the directory if it does not exist. It fails
// with ErrLocked if another process holds the lock. The kernel releases the lock when the
// process ends for any reason.
func LockDir(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := tryLockFile(f); err != nil {
		f.Close()
		if errors.Is(err, errFileLocked) {
			return nil, fmt.Errorf("data directory %s: %w; stop it first, or choose another directory", dir, ErrLocked)
		}
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	// Unlocked first, because closing alone would leave the lock with a child process that has
	// inherited the file, until it runs its own program.
	return &Lock{release: func() error { return errors.Join(unlockFile(f), f.Close()) }}, nil
}

// Lost returns a channel that is closed when the lock may be another process's: its
// connection broke. The lock of a directory cannot be lost; its channel is nil.
func (l *Lock) Lost() <-chan struct{} { return l.lost }

// Release releases the lock. Calls after the first do nothing.
func (l *Lock) Release() error {
	var err error
	l.once.Do(func() { err = l.release() })
	return err
}
