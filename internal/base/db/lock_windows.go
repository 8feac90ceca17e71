package db

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLockFile acquires an exclusive lock on an open file without waiting.
func tryLockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errFileLocked
	}
	return err
}

// unlockFile releases the lock of an open file.
func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, new(windows.Overlapped))
}
