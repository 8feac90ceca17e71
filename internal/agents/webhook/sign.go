package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix = "whsec_"
	secretBytes  = 32
	// Tolerance is the maximum difference between the time of a request and the clock of the receiver.
	// It is five minutes because the libraries of Standard Webhooks use that.
	Tolerance = 5 * time.Minute
)

const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// NewSecret returns a secret in the form of Standard Webhooks.
func NewSecret() string {
	b := make([]byte, secretBytes)
	rand.Read(b) // never fails (crypto/rand)
	return secretPrefix + base64.StdEncoding.EncodeToString(b)
}

// ErrSecret is the error for a secret that does not have the form of one.
var ErrSecret = errors.New(`a secret is "whsec_" and 24 to 64 bytes in base64`)

// SecretKey returns the bytes of a secret; ErrSecret if it does not have the form of one.
func SecretKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, ErrSecret
	}
	return key, nil
}

// Sign returns the header with a body's signatures, one for each secret, separated by spaces.
func Sign(secrets []string, id string, at time.Time, body []byte) (string, error) {
	all := make([]string, 0, len(secrets))
	for _, secret := range secrets {
		key, err := SecretKey(secret)
		if err != nil {
			return "", err
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " "), nil
}

// The errors of [Verify].
var (
	ErrTimestamp = errors.New("the timestamp is not a number of seconds, or differs by more than five minutes from now")
	ErrSignature = errors.New("none of the signatures matches this body with this secret, id and timestamp")
)

// Verify checks the signature of a request as a receiver does at a time: ErrSecret,
// ErrTimestamp or ErrSignature.
func Verify(secret, id, timestamp, signature string, body []byte, now time.Time) error {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return ErrTimestamp
	}
	at := time.Unix(seconds, 0)
	want, err := Sign([]string{secret}, id, at, body)
	if err != nil {
		return err
	}
	if d := now.Sub(at); d > Tolerance || d < -Tolerance {
		return ErrTimestamp
	}
	for given := range strings.FieldsSeq(signature) {
		if hmac.Equal([]byte(given), []byte(want)) {
			return nil
		}
	}
	return ErrSignature
}
