package app

import (
	"fmt"
	"path/filepath"

	"stoa/internal/config"
	"stoa/internal/seal"
	"stoa/internal/vault"
)

// stateKeyFile contains the keys of an installation that sets none, in the data directory:
// the newest on the first line, its predecessors below.
const stateKeyFile = "state.key"

// newStates returns the box that seals the state that callers keep; nil without the extension
// that needs it. It creates a key at its first use.
func newStates(cfg config.Config) (*seal.Box, error) {
	if !cfg.Extensions.Tools {
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
