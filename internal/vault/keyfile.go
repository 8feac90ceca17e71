package vault

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"stoa/internal/config"
	"stoa/internal/seal"
)

func keyPath(dir string) string { return filepath.Join(dir, KeyFile) }

// errNoKeys is the error for a file of keys without any.
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

// KeepKeys reads the keys of a file, which it makes with one if there is none. The file
// is complete or not there, whenever the process ends, and its owner alone reads it.
func KeepKeys(path string) ([][]byte, error) {
	keys, err := readKeys(path)
	if !errors.Is(err, os.ErrNotExist) {
		return keys, err
	}
	if err := writeSynced(path, []byte(hex.EncodeToString(seal.NewKey())+"\n")); err != nil {
		return nil, err
	}
	return readKeys(path)
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
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable, where the system can.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // not every system can
	return d.Close()
}

// AddKey puts a new key in front in the file of keys of a configuration, which it makes
// if there is none. The service must be stopped.
func AddKey(cfg config.Config) error {
	path := keyPath(cfg.Data)
	kept, err := readKeys(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(kept) >= seal.MaxKeys {
		return fmt.Errorf("%s has %d keys already: take out those that encrypt nothing any more", KeyFile, len(kept))
	}
	text := ""
	for _, k := range append([][]byte{seal.NewKey()}, kept...) {
		text += hex.EncodeToString(k) + "\n"
	}
	return writeSynced(path, []byte(text))
}
