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

// LinkPrefix begins the tokens of links that people open once.
const LinkPrefix = "inv_"

// Mint returns the secret of a new key: sk_, 32 random characters (190 bits) and
// 6 check characters.
func Mint() (secret string) {
	secret = random(prefix)
	return secret + checkOf(secret)
}

// MintLink returns the token of a new link: [LinkPrefix] and 32 random characters.
func MintLink() (token string) { return random(LinkPrefix) }

func random(prefix string) string {
	b := make([]byte, 0, secretChars)
	b = append(b, prefix...)
	var random [64]byte
	for len(b) < len(prefix)+randomChars {
		rand.Read(random[:]) // never fails (crypto/rand)
		for _, r := range random {
			// Without bytes from 248 on, because 256 is not a multiple of 62, so that they would bias the choice.
			if r < 248 && len(b) < len(prefix)+randomChars {
				b = append(b, base62[r%62])
			}
		}
	}
	return string(b)
}

// checkOf returns the CRC-32 of the text in six base62 characters.
func checkOf(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	var out [checkChars]byte
	for i := checkChars - 1; i >= 0; i-- {
		out[i] = base62[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// CheckDigits reports whether a secret has the format of [Mint] with the right check
// characters. False probably means a typing error, but the operator may also have chosen
// the key, so callers may only warn.
func CheckDigits(secret string) bool {
	if len(secret) != secretChars || !strings.HasPrefix(secret, prefix) {
		return false
	}
	body := secret[:len(prefix)+randomChars]
	return secret[len(body):] == checkOf(body)
}

// Hash returns the stored form of a secret: its SHA-256 in hex, because 190 random bits need no
// slower hash.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
