package app

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"stoa/internal/config"
	"stoa/internal/seal"
)

// stateKeyFile has the keys of an installation that sets none, in the data directory:
// the newest on the first line, its predecessors below.
const stateKeyFile = "state.key"

// newStates returns what seals the state that callers keep; nil without the extension
// that needs it. It makes a key at its first use.
func newStates(cfg config.Config) (*seal.Box, error) {
	if !cfg.Extensions.Tools {
		return nil, nil
	}
	keys, err := config.ParseStateKeys(string(cfg.StateKeys))
	if err != nil {
		return nil, fmt.Errorf("stateKeys: %w", err)
	}
	if len(keys) == 0 {
		if keys, err = keptStateKeys(filepath.Join(cfg.Data, stateKeyFile)); err != nil {
			return nil, fmt.Errorf("read or make %s in the data directory: %w", stateKeyFile, err)
		}
	}
	return seal.New(keys...)
}

// keptStateKeys reads the keys of a file, which it makes if there is none. The file is
// complete or not there, whenever the process ends.
func keptStateKeys(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		text = []byte(hex.EncodeToString(seal.NewKey()) + "\n")
		err = writeSynced(path, text)
	}
	if err != nil {
		return nil, err
	}
	return config.ParseStateKeys(string(text))
}

// writeSynced writes a file that only its owner reads, durably and at once.
func writeSynced(path string, text []byte) error {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(part, path)
}
