package app

import (
	"fmt"
	"os"
	"runtime"

	"stoa/internal/base/config"
	"stoa/internal/faces/api"
)

// leastFiles is the limit on open files below which a start warns, because each caller, each event stream and each
// HTTP/1.1 call to a provider uses one.
const leastFiles = 1024

// warnings returns probable mistakes in the machine's setup or the settings: a low limit on
// open files, a data directory that other users can list, and on PostgreSQL a missing key for
// secrets or temporary directory. openFiles is the limit, 0 if unknown.
func warnings(cfg config.Config, openFiles uint64) (list []string) {
	if openFiles > 0 && openFiles < leastFiles {
		list = append(list, fmt.Sprintf("the process can open %d files, and each connection uses one; raise the limit to %d or more (LimitNOFILE in systemd, ulimit -n)", openFiles, leastFiles))
	}
	if cfg.Database != "" {
		if len(cfg.Secrets.Keys) == 0 {
			list = append(list, "no secret can be stored, so webhooks and credentials for tools are not available: set secrets.keys (docs/configuration.md, Keys of stored secrets)")
		}
		if f, err := os.CreateTemp("", "stoa-*"); err != nil {
			list = append(list, fmt.Sprintf("uploads above 1 MiB will fail, since they need a writable temporary directory (%v); set TMPDIR", err))
		} else {
			_ = f.Close() // it is empty
			_ = os.Remove(f.Name())
		}
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

// machineOf returns the function that reports the state of the machine, with the data
// directory at a path.
func machineOf(data string) func() api.Machine {
	return func() api.Machine {
		m := api.Machine{OpenFiles: openFileLimit(), NeedsOf: leastFiles}
		m.FreeDisk, m.Disk = diskOf(data)
		return m
	}
}
