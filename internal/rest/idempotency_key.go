package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"stoa/internal/stoa"
)

const maxIdempotencyKey = 255

// IdempotencyKey returns the request's Idempotency-Key, or "" if there is none.
func IdempotencyKey(r *http.Request) (string, error) {
	keys := r.Header["Idempotency-Key"]
	if len(keys) == 0 {
		return "", nil
	}
	invisible := strings.ContainsFunc(keys[0], func(c rune) bool { return c < 0x21 || c > 0x7e })
	if len(keys) > 1 || keys[0] == "" || len(keys[0]) > maxIdempotencyKey || invisible {
		return "", stoa.Errorf(stoa.CodeInvalidValue, "The Idempotency-Key must be a single header of 1 to %d visible ASCII characters.", maxIdempotencyKey).At("Idempotency-Key")
	}
	return keys[0], nil
}

// BodyHash returns a hash to compare two bodies under one key.
func BodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
