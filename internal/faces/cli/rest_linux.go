package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// releaseProgram unmaps the pages of the program's code and constants, so that those that only the start needed do not count
// as resident. The others return from the kernel's cache when they are used. A mapping that contains changed pages is left
// alone, because they would be lost: those of relocations, or of a debugger.
func releaseProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var first, end uintptr // of a mapping of the program that cannot be written to
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		var perms string
		var changed int
		line := lines.Text()
		if n, _ := fmt.Sscanf(line, "%x-%x %4s", &from, &to, &perms); n == 3 {
			if first, end = from, to; !strings.HasSuffix(line, " "+program) || perms != "r--p" && perms != "r-xp" {
				end = 0
			}
		} else if n, _ := fmt.Sscanf(line, "Anonymous: %d kB", &changed); n == 1 && changed == 0 && end > 0 {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, first, end-first, syscall.MADV_DONTNEED) // only a hint
		}
	}
}
