package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"strings"
)

const (
	prefix      = "sk_"
	randomChars = 32
	checkChars  = 6
	secretChars = len(prefix) + randomChars + checkChars

	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Mint makes the secret of a new key: sk_, 32 random characters (190 bits) and 6
// check characters.
func Mint() (secret string) {
	b := make([]byte, 0, secretChars)
	b = append(b, prefix...)
	var random [64]byte
	for len(b) < len(prefix)+randomChars {
		rand.Read(random[:]) // never fails (crypto/rand)
		for _, r := range random {
			// The bytes from 248 on would make some characters likelier than others.
			if r < 248 && len(b) < len(prefix)+randomChars {
				b = append(b, base62[r%62])
			}
		}
	}
	return string(append(b, checkOf(string(b))...))
}

// checkOf is the CRC-32 of the text in six base62 characters.
func checkOf(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	var out [checkChars]byte
	for i := checkChars - 1; i >= 0; i-- {
		out[i] = base62[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// CheckDigits reports whether a secret has the form of a minted one and its check
// characters are right. A false one is likely a typing error; it may also be a
// valid key that an operator chose, so this only ever warns.
func CheckDigits(secret string) bool {
	if len(secret) != secretChars || !strings.HasPrefix(secret, prefix) {
		return false
	}
	body := secret[:len(prefix)+randomChars]
	return secret[len(body):] == checkOf(body)
}

// Hash is what is stored of a secret: its SHA-256 in hex. A secret is random
// enough that no slower hash is needed.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
