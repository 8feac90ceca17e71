package db_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"stoa/internal/base/db"
)

// TestALockEndsThoughAChildHasItsFile has a second descriptor of the open file, as a
// child process does until it runs its own program.
func TestALockEndsThoughAChildHasItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := db.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	copied := -1
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range all {
		if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && to == filepath.Join(dir, db.LockFile) {
			n, _ := strconv.Atoi(entry.Name())
			if copied, err = syscall.Dup(n); err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(copied)
		}
	}
	if copied < 0 {
		t.Fatal("the file of the lock is not open")
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := db.LockDir(dir)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}
