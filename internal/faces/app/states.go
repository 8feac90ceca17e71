package app

import (
	"fmt"
	"os"
	"path/filepath"

	"stoa/internal/base/config"
	"stoa/internal/base/seal"
	"stoa/internal/base/vault"
)

// KeysOf returns the names of the keys that a service stores outside of its databases: settings, or files in the data
// directory. A backup names them, because it does not contain them.
func KeysOf(cfg config.Config) (names []string) {
	file := func(name string) {
		if _, err := os.Stat(filepath.Join(cfg.Data, name)); cfg.Database == "" && err == nil {
			names = append(names, name)
		}
	}
	for _, k := range cfg.Secrets.Keys {
		names = append(names, "secrets.keys "+k.ID)
	}
	file(vault.KeyFile)
	if cfg.StateKeys != "" {
		names = append(names, "stateKeys")
	} else {
		file(stateKeyFile)
	}
	return names
}

// stateKeyFile is the file in the data directory with the keys of an installation that sets none: the newest on the
// first line, its predecessors below.
const stateKeyFile = "state.key"

// newStates returns the box that seals the state that callers keep; nil without the extensions that need it. It
// creates a key at its first use.
func newStates(cfg config.Config) (*seal.Box, error) {
	if !cfg.Extensions.Tools && !cfg.Extensions.Compact {
		return nil, nil
	}
	keys, err := config.ParseStateKeys(string(cfg.StateKeys))
	if err != nil {
		return nil, fmt.Errorf("stateKeys: %w", err)
	}
	if len(keys) == 0 {
		if keys, err = vault.KeepKeys(filepath.Join(cfg.Data, stateKeyFile)); err != nil {
			return nil, fmt.Errorf("read or create %s in the data directory: %w", stateKeyFile, err)
		}
	}
	return seal.New(keys...)
}
