package app

import (
	"fmt"
	"os"
	"runtime"

	"stoa/internal/api"
	"stoa/internal/config"
)

// leastFiles is the limit on open files below which a start warns: each caller,
// each call to a provider over HTTP/1.1 and each event stream takes one.
const leastFiles = 1024

// warnings returns what is probably not right with the machine: a limit on open
// files that some callers use up, and a data directory that others can list.
// openFiles is the limit, 0 if it is not known.
func warnings(cfg config.Config, openFiles uint64) (list []string) {
	if openFiles > 0 && openFiles < leastFiles {
		list = append(list, fmt.Sprintf("the process may open %d files, and each connection takes one; raise the limit to %d or more (LimitNOFILE in systemd, ulimit -n)", openFiles, leastFiles))
	}
	if cfg.Database != "" || runtime.GOOS == "windows" {
		return list
	}
	info, err := os.Stat(cfg.Data)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		list = append(list, fmt.Sprintf("the data directory %s has the mode %04o, so that other users can list it; chmod 700 %[1]s", cfg.Data, info.Mode().Perm()))
	}
	return list
}

// machineOf returns what says how the machine is, with the data directory at a path.
func machineOf(data string) func() api.Machine {
	return func() api.Machine {
		m := api.Machine{OpenFiles: openFileLimit(), NeedsOf: leastFiles}
		m.FreeDisk, m.Disk = diskOf(data)
		return m
	}
}
