//go:build unix

package db

import (
	"errors"
	"os"
	"syscall"
)

// tryLockFile acquires an exclusive lock on an open file without waiting.
func tryLockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errFileLocked
		}
		return err
	}
}

// unlockFile releases the lock of an open file, for copies of it in other processes too.
func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
