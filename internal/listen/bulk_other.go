//go:build !unix

package listen

import "errors"

// haveBulk reports whether the system has reads and writes that never block.
const haveBulk = false

var errBlocks = errors.New("would block")

func readNow(uintptr, []byte) (int, error)  { return 0, errBlocks }
func writeNow(uintptr, []byte) (int, error) { return 0, errBlocks }
