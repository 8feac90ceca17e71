// Package seal encrypts the state that a caller keeps between calls: data of a vendor that must be returned to it
// unchanged. Only Stoa can read a sealed state, and only for the account that received it, so that a
// caller can neither read nor forge it. The package also encrypts stored secrets, see [Ring].
//
// It stores nothing and never logs. Start at [New] and [NewRing].
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"stoa/internal/base/stoa"
)

const (
	KeyBytes = stoa.SealKeyBytes
	MaxKeys  = stoa.MaxSealKeys
	// MaxPlain is the maximum size of a plain text, in bytes.
	MaxPlain = 1 << 20

	idLen = 4 // length of a key's name in bytes
	label = "stoa.reasoning.1"
)

// A Box seals and opens states. It is safe for concurrent use.
type Box struct{ keys []key }

type key struct {
	id   [idLen]byte
	aead cipher.AEAD
}

// state is the plain text, as JSON. Its names are short, because it is sent often.
type state struct {
	Wire     string `json:"w"`
	Provider string `json:"p"`
	Model    string `json:"m"`
	Tokens   int64  `json:"n,omitzero"`
	Data     string `json:"d"`
}

// New returns a box that seals with the first key and opens states of all, so that keys can be replaced: put the new one
// first. Each has [KeyBytes] bytes.
func New(keys ...[]byte) (*Box, error) {
	if len(keys) == 0 || len(keys) > MaxKeys {
		return nil, fmt.Errorf("1 to %d keys are needed", MaxKeys)
	}
	b := &Box{}
	for _, k := range keys {
		if len(k) != KeyBytes {
			return nil, fmt.Errorf("a key has %d bytes", KeyBytes)
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		made := key{aead: aead}
		sum := sha256.Sum256(append([]byte(label), k...))
		copy(made.id[:], sum[:])
		b.keys = append(b.keys, made)
	}
	return b, nil
}

// NewKey returns a random key.
func NewKey() []byte {
	k := make([]byte, KeyBytes)
	rand.Read(k) // rand.Read never fails (crypto/rand)
	return k
}

// Seal returns the state for a caller of the account; "" if it is empty or larger than [MaxPlain].
func (b *Box) Seal(account string, s stoa.State) string {
	if s.Data == "" {
		return ""
	}
	plain, err := json.Marshal(state{Wire: s.Wire, Provider: s.Provider, Model: s.Model, Tokens: s.Tokens, Data: s.Data})
	if err != nil || len(plain) > MaxPlain {
		return ""
	}
	k := b.keys[0]
	n := k.aead.NonceSize()
	sealed := make([]byte, idLen+n, idLen+n+len(plain)+k.aead.Overhead())
	copy(sealed, k.id[:])
	rand.Read(sealed[idLen:])
	sealed = k.aead.Seal(sealed, sealed[idLen:], plain, bound(k.id, account))
	return stoa.SealedPrefix + base64.RawURLEncoding.EncodeToString(sealed)
}

// Open returns a state that [Box.Seal] sealed for the account. It reports false for a state of another
// service, account or key, and for one that was changed.
func (b *Box) Open(account, sealed string) (stoa.State, bool) {
	text, ours := strings.CutPrefix(sealed, stoa.SealedPrefix)
	if !ours {
		return stoa.State{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return stoa.State{}, false
	}
	for _, k := range b.keys {
		n := k.aead.NonceSize()
		if len(raw) < idLen+n || [idLen]byte(raw[:idLen]) != k.id {
			continue
		}
		plain, err := k.aead.Open(nil, raw[idLen:idLen+n], raw[idLen+n:], bound(k.id, account))
		var s state
		if err != nil || json.Unmarshal(plain, &s) != nil {
			return stoa.State{}, false
		}
		return stoa.State{Wire: s.Wire, Provider: s.Provider, Model: s.Model, Tokens: s.Tokens, Data: s.Data}, true
	}
	return stoa.State{}, false
}

// bound returns the authenticated data of a sealed state. It contains the account, so that no other account can use it.
func bound(id [idLen]byte, account string) []byte {
	b := append([]byte(label), id[:]...)
	return append(b, account...)
}
