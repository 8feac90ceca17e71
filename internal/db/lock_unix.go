//go:build unix

package db

import (
	"errors"
	"os"
	"syscall"
)

// tryLockFile takes an exclusive lock on an open file without waiting. Closing
// the file releases it.
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
