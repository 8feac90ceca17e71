package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// A MasterKey is a named key. Each sealed text contains the name, so that its key is found after a replacement.
type MasterKey struct {
	ID  string // letters, digits, - and _
	Key []byte // [KeyBytes] bytes
}

// A Ring seals stored secrets, each row under a separate key that is derived from a master key, so that a text moved to
// another row does not open. It is safe for concurrent use.
type Ring struct{ keys []MasterKey }

const (
	ringPrefix = "stoa2."
	ringLabel  = "stoa.stored.2"
)

// NewRing returns a ring that seals with the first key and opens texts of all, so that keys can be replaced.
func NewRing(keys ...MasterKey) (*Ring, error) {
	if len(keys) == 0 || len(keys) > MaxKeys {
		return nil, fmt.Errorf("1 to %d keys are needed", MaxKeys)
	}
	seen := map[string]bool{}
	for _, k := range keys {
		switch {
		case k.ID == "" || strings.Contains(k.ID, "."):
			return nil, fmt.Errorf("%q is not the name of a key", k.ID)
		case seen[k.ID]:
			return nil, fmt.Errorf("two keys are named %q", k.ID)
		case len(k.Key) != KeyBytes:
			return nil, fmt.Errorf("a key has %d bytes", KeyBytes)
		}
		seen[k.ID] = true
	}
	return &Ring{keys: keys}, nil
}

// Seal encrypts with AES-256-GCM. The key is derived by HKDF-SHA-256 (RFC 5869) from the first master key
// and bound, which must be the same for [Ring.Open]. The plain text has at most [MaxPlain] bytes.
func (r *Ring) Seal(plain []byte, bound ...string) (string, error) {
	if len(plain) > MaxPlain {
		return "", errors.New("seal: the text is too long")
	}
	k := r.keys[0]
	aead, info, err := k.derive(bound)
	if err != nil {
		return "", err
	}
	n := aead.NonceSize()
	sealed := make([]byte, n, n+len(plain)+aead.Overhead())
	rand.Read(sealed) // rand.Read never fails (crypto/rand)
	sealed = aead.Seal(sealed, sealed[:n], plain, info)
	return ringPrefix + k.ID + "." + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Open returns the text that [Ring.Seal] sealed with the same bound. It reports false if no key opens it, or if it was
// changed.
func (r *Ring) Open(sealed string, bound ...string) ([]byte, bool) {
	id, text, ok := parts(sealed)
	if !ok {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, false
	}
	for _, k := range r.keys {
		if k.ID != id {
			continue
		}
		aead, info, err := k.derive(bound)
		if err != nil || len(raw) < aead.NonceSize() {
			return nil, false
		}
		plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], info)
		return plain, err == nil
	}
	return nil, false
}

// Newest reports whether a text was sealed under the name of the first key.
func (r *Ring) Newest(sealed string) bool {
	id, _, ok := parts(sealed)
	return ok && id == r.keys[0].ID
}

// KeyOf returns the name of the key of a sealed text, or "".
func KeyOf(sealed string) string {
	if id, _, ok := parts(sealed); ok {
		return id
	}
	return ""
}

func parts(sealed string) (id, text string, ok bool) {
	rest, ours := strings.CutPrefix(sealed, ringPrefix)
	id, text, ok = strings.Cut(rest, ".")
	return id, text, ours && ok
}

// derive returns the cipher of one row and its authenticated data: the parts of bound. Each is preceded by its
// length, so that different parts never make the same data.
func (k MasterKey) derive(bound []string) (cipher.AEAD, []byte, error) {
	info := []byte(ringLabel)
	for _, part := range bound {
		info = binary.BigEndian.AppendUint32(info, uint32(len(part)))
		info = append(info, part...)
	}
	key, err := hkdf.Key(sha256.New, k.Key, nil, string(info), KeyBytes)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	return aead, info, err
}
