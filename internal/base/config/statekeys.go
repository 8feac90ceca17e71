package config

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"stoa/internal/base/stoa"
)

var errStateKey = errors.New("a key is 32 bytes, as 64 hexadecimal digits or in base64 (openssl rand -hex 32 makes one)")

// ParseStateKeys returns keys of 32 bytes from hexadecimal digits or base64, separated by line
// breaks or commas.
func ParseStateKeys(text string) ([][]byte, error) {
	var keys [][]byte
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
		k, err := hex.DecodeString(word)
		if err != nil {
			k, err = base64.StdEncoding.DecodeString(word)
		}
		if err != nil || len(k) != stoa.SealKeyBytes {
			return nil, errStateKey // without the text, because it may be most of a key
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func (c *checker) stateKeys() {
	keys, err := ParseStateKeys(string(c.StateKeys))
	switch {
	case err != nil:
		c.problem("stateKeys", "%v", err)
	case len(keys) > stoa.MaxSealKeys:
		c.problem("stateKeys", "there are %d keys; at most %d are read", len(keys), stoa.MaxSealKeys)
	case len(keys) == 0 && c.Database != "" && c.Extensions.Tools:
		c.problem("stateKeys", "the extension tools needs a key that all nodes of the database have: set STOA_STATE_KEYS to 64 hexadecimal digits (openssl rand -hex 32), the same on each node")
	}
}

func (c *checker) secretsKeys() {
	if n := len(c.Secrets.Keys); n > stoa.MaxSealKeys {
		c.problem("secrets.keys", "there are %d keys; at most %d are read", n, stoa.MaxSealKeys)
	}
	seen := map[string]bool{}
	for i, k := range c.Secrets.Keys {
		path := fmt.Sprintf("secrets.keys[%d]", i)
		switch {
		case !isName(k.ID) || strings.HasPrefix(k.ID, "file-"):
			c.problem(path+".id", "%q is not a valid key name; use lowercase letters, digits, - and _, and do not begin with file-", k.ID)
		case seen[k.ID]:
			c.problem(path+".id", "there are two keys named %q; rename one that has encrypted nothing yet", k.ID)
		case (k.Env == "") == (k.File == ""):
			c.problem(path, "the key is in a variable or in a file: set either env or file")
		}
		seen[k.ID] = true
		if k.Value() == "" {
			continue // already reported by readKeys
		}
		if keys, err := ParseStateKeys(k.Value()); err != nil || len(keys) != 1 {
			c.problem(path, "%v; there is one in each place", errStateKey)
		}
	}
}
