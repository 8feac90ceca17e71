package vault

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/seal"
)

func keyPath(dir string) string { return filepath.Join(dir, KeyFile) }

var errNoKeys = errors.New("the file has no keys")

// readKeys reads the keys of a file, each in hexadecimal digits or base64.
func readKeys(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keys, err := config.ParseStateKeys(string(text))
	if err == nil && len(keys) == 0 {
		err = errNoKeys
	}
	return keys, err
}

// KeepKeys reads the keys of a file, or creates the file with one key. The file is either
// complete or absent, even if the process dies, and only its owner can read it.
func KeepKeys(path string) ([][]byte, error) {
	keys, err := readKeys(path)
	if !errors.Is(err, os.ErrNotExist) {
		return keys, err
	}
	if err := db.ReplaceFile(path, hex.EncodeToString(seal.NewKey())+"\n"); err != nil {
		return nil, err
	}
	return readKeys(path)
}

// AddKey adds a new first key to the key file of a configuration, and creates the file if
// necessary. The service must be stopped.
func AddKey(cfg config.Config) error {
	path := keyPath(cfg.Data)
	kept, err := readKeys(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(kept) >= seal.MaxKeys {
		return fmt.Errorf("%s already has %d keys: remove those that no longer encrypt anything", KeyFile, len(kept))
	}
	text := ""
	for _, k := range append([][]byte{seal.NewKey()}, kept...) {
		text += hex.EncodeToString(k) + "\n"
	}
	return db.ReplaceFile(path, text)
}
