// Package vault seals stored secrets, such as those that sign webhooks, under master keys
// that are in no backup: keys of the settings, or on the embedded store a file that is
// created with the first secret.
//
// A secret is bound to its account, row, kind, version and origin, so that a copy of its
// row elsewhere cannot be decrypted. The package keeps no secret and never logs one;
// without the right key everything else in the service works. Start at [Open], [Vault.Seal]
// and [Vault.Open]; [Vault.Rekey] replaces a key.
package vault

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"stoa/internal/base/config"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// KeyFile is the file of the data directory with the master keys of an installation
// that sets none: the newest on the first line, its predecessors below.
const KeyFile = "secrets.key"

// ErrUnreadable is the error for a secret that no key decrypts: the key is missing, or the
// row was copied from elsewhere.
var ErrUnreadable = errors.New("the secret cannot be read: the key that it was encrypted with is missing")

// A Vault seals and opens secrets. It is safe for concurrent use.
type Vault struct {
	set  []seal.MasterKey // of the settings
	path string           // of the key file; empty if there can be none

	mu   sync.Mutex
	ring *seal.Ring // nil while there is no key
	err  error      // why the key file could not be read; nil if it does not exist
}

// Open returns the vault with the keys of the settings, newest first, followed by those of
// the file at path, if it exists. With an empty path there is no file, and secrets can be
// stored only with a key of the settings. An unreadable file is not an error: its secrets
// are unreadable, see [Vault.Err].
func Open(keys []seal.MasterKey, path string) (*Vault, error) {
	v := &Vault{set: keys, path: path}
	if path == "" {
		return v, v.setRing(nil)
	}
	kept, err := readKeys(path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if v.err = err; err != nil {
		kept = nil
	}
	return v, v.setRing(kept)
}

// setRing sets the ring from the keys of the settings and those of the file.
func (v *Vault) setRing(kept [][]byte) error {
	keys := append([]seal.MasterKey(nil), v.set...)
	for _, k := range kept {
		sum := sha256.Sum256(k)
		keys = append(keys, seal.MasterKey{ID: "file-" + hex.EncodeToString(sum[:4]), Key: k})
	}
	if len(keys) == 0 {
		return nil
	}
	ring, err := seal.NewRing(keys...)
	if err == nil {
		v.ring = ring
	}
	return err
}

// Err returns why the key file could not be read, or nil if it was read or does not exist.
func (v *Vault) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// A Ref identifies a secret. A secret can be opened only with the Ref with which it was
// sealed.
type Ref struct {
	AccountID, ID string // of the row
	Kind          string // of the secret, such as "webhook"
	Origin        string // the only origin to which it may be sent; empty if it is never sent
	Version       int64
}

func (r Ref) bound() []string {
	return []string{r.AccountID, r.ID, r.Kind, r.Origin, strconv.FormatInt(r.Version, 10)}
}

// Seal encrypts a secret of at most 1 MiB. On the embedded store it creates the key if
// necessary; elsewhere a missing key is CodeSecretsKeyMissing.
func (v *Vault) Seal(r Ref, secret []byte) (string, error) {
	ring, err := v.sealing()
	if err != nil {
		return "", err
	}
	return ring.Seal(secret, r.bound()...)
}

// CanSeal reports whether [Vault.Seal] has a key or can create one.
func (v *Vault) CanSeal() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ring != nil || v.canMakeKey()
}

func (v *Vault) canMakeKey() bool { return v.path != "" && v.err == nil }

// sealing returns the ring, and creates its key if necessary.
func (v *Vault) sealing() (*seal.Ring, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ring != nil {
		return v.ring, nil
	}
	missing := stoa.Errorf(stoa.CodeSecretsKeyMissing, "This service has no key to store secrets with. Its operator can set secrets.keys; see docs/configuration.md, \"Keys of stored secrets\".")
	if !v.canMakeKey() {
		return nil, missing.Because(v.err)
	}
	kept, err := KeepKeys(v.path)
	if err == nil {
		err = v.setRing(kept)
	}
	if err != nil {
		return nil, fmt.Errorf("read or create %s in the data directory: %w", KeyFile, err)
	}
	return v.ring, nil
}

// Open decrypts a secret that [Vault.Seal] encrypted with the same Ref. It fails with
// ErrUnreadable if no key decrypts it.
func (v *Vault) Open(r Ref, sealed string) ([]byte, error) {
	v.mu.Lock()
	ring := v.ring
	v.mu.Unlock()
	if ring == nil {
		return nil, ErrUnreadable
	}
	secret, ok := ring.Open(sealed, r.bound()...)
	if !ok {
		return nil, ErrUnreadable
	}
	return secret, nil
}

// A Rekeyed counts the secrets that [Vault.Rekey] processed.
type Rekeyed struct {
	Done       int // encrypted again with the first key
	Current    int // already encrypted with the first key
	Unreadable int // left unchanged
}

// rekeyBatch is the number of rows per transaction.
const rekeyBatch = 100

// Rekey encrypts with the first key every stored secret that is not yet encrypted with it.
// It may be repeated, and may run next to the service; secrets that change in the meantime
// are left to the next run.
func (v *Vault) Rekey(ctx context.Context, st *store.Store) (done Rekeyed, err error) {
	v.mu.Lock()
	ring := v.ring
	v.mu.Unlock()
	for _, table := range store.SealedTables() {
		after := ""
		for {
			var rows []store.SealedRow
			var part Rekeyed
			err := st.Write(ctx, func(tx *store.Tx) (err error) {
				part = Rekeyed{}
				if rows, err = tx.SealedRows(ctx, table, after, rekeyBatch); err != nil {
					return err
				}
				for _, row := range rows {
					if err := rekey(ctx, tx, ring, table, row, &part); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return done, err
			}
			done.Done, done.Current, done.Unreadable = done.Done+part.Done, done.Current+part.Current, done.Unreadable+part.Unreadable
			if len(rows) < rekeyBatch {
				break
			}
			after = rows[len(rows)-1].ID
		}
	}
	return done, nil
}

// rekey encrypts one secret again.
func rekey(ctx context.Context, tx *store.Tx, ring *seal.Ring, table string, row store.SealedRow, part *Rekeyed) error {
	r := Ref{AccountID: row.AccountID, ID: row.ID, Kind: row.Kind, Origin: row.Origin, Version: row.Version}
	if ring == nil {
		part.Unreadable++
		return nil
	}
	secret, ok := ring.Open(row.Sealed, r.bound()...)
	switch {
	case !ok:
		part.Unreadable++
		return nil
	case ring.Newest(row.Sealed):
		part.Current++
		return nil
	}
	sealed, err := ring.Seal(secret, r.bound()...)
	if err != nil {
		return err
	}
	changed, err := tx.Reseal(ctx, table, row, sealed)
	if changed {
		part.Done++
	}
	return err
}

// Unreadable checks at most most secrets of each kind, over all accounts. It returns those
// that no key decrypts, and the number of secrets that it checked.
func (v *Vault) Unreadable(ctx context.Context, st *store.Store, most int) (found []store.SealedRow, looked int, err error) {
	for _, table := range store.SealedTables() {
		after := ""
		for n := 0; n < most; {
			rows, err := store.Read(ctx, st, func(tx *store.Tx) ([]store.SealedRow, error) { return tx.SealedRows(ctx, table, after, rekeyBatch) })
			if err != nil {
				return nil, 0, err
			}
			for _, row := range rows {
				if _, err := v.Open(Ref{AccountID: row.AccountID, ID: row.ID, Kind: row.Kind, Origin: row.Origin, Version: row.Version}, row.Sealed); err != nil {
					found = append(found, row)
				}
			}
			n += len(rows)
			looked += len(rows)
			if len(rows) < rekeyBatch {
				break
			}
			after = rows[len(rows)-1].ID
		}
	}
	return found, looked, nil
}

// Of returns the vault of a configuration, see [Open].
func Of(cfg config.Config) (*Vault, error) {
	var keys []seal.MasterKey
	for _, k := range cfg.Secrets.Keys {
		parsed, err := config.ParseStateKeys(k.Value())
		if err != nil || len(parsed) != 1 {
			return nil, fmt.Errorf("secrets.keys: %s: %w", k.ID, cmp.Or(err, errors.New("one key is needed")))
		}
		keys = append(keys, seal.MasterKey{ID: k.ID, Key: parsed[0]})
	}
	path := ""
	if cfg.Database == "" {
		path = keyPath(cfg.Data)
	}
	return Open(keys, path)
}
