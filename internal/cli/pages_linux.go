package cli

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dropPages unmaps the pages of the program's own code and constants; those that
// are used are mapped again, mostly without a read from the disk, because they stay
// in the page cache. The start runs through nearly all of them, calls use a quarter.
// Under a debugger it does nothing, since that would lose its breakpoints.
func dropPages() {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil || !bytes.Contains(status, []byte("\nTracerPid:\t0\n")) {
		return
	}
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range cleanMappings(string(maps), self) {
		// An error does not matter: the pages stay mapped.
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
	}
}

type mapping struct{ from, to uintptr }

// cleanMappings returns the read-only mappings of a file, as smaps of proc(5) lists
// them, all of whose pages are as the file has them. Others would lose what was
// written to them before they became read-only, as a dynamic linker does.
func cleanMappings(smaps, file string) []mapping {
	var out []mapping
	var m mapping
	of := false // m is one of them, as far as is known
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if name, isDetail := strings.CutSuffix(fields[0], ":"); isDetail {
			if name == "Anonymous" && of && fields[1] == "0" {
				out = append(out, m)
			}
			continue
		}
		// from-to rights offset device inode path
		from, to, _ := strings.Cut(fields[0], "-")
		begin, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		m = mapping{uintptr(begin), uintptr(end)}
		of = err1 == nil && err2 == nil && strings.HasSuffix(line, " "+file+"\n") && (fields[1] == "r-xp" || fields[1] == "r--p")
	}
	return out
}
