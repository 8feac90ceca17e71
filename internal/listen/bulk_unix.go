//go:build unix

package listen

import "syscall"

// haveBulk reports whether the system has reads and writes that never block.
const haveBulk = true

const errBlocks = syscall.EAGAIN

// readNow reads what has come; errBlocks if nothing has.
func readNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// writeNow writes what the system takes; errBlocks if that is nothing.
func writeNow(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
