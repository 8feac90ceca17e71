package rest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	idempotencyHeader = "Idempotency-Key"
	SessionHeader     = "stoa-session" // the session of an agent that a call of a model continues
	ReplayedHeader    = "Idempotency-Replayed"
	maxIdempotencyKey = 255 // characters
)

// IdempotencyKey returns the request's Idempotency-Key, or "" if there is none.
func IdempotencyKey(r *http.Request) (string, error) {
	keys := r.Header[idempotencyHeader]
	if len(keys) == 0 {
		return "", nil
	}
	invisible := strings.ContainsFunc(keys[0], func(c rune) bool { return c < 0x21 || c > 0x7e })
	if len(keys) > 1 || keys[0] == "" || len(keys[0]) > maxIdempotencyKey || invisible {
		return "", stoa.Errorf(stoa.CodeInvalidValue, "The Idempotency-Key must be a single header of 1 to %d visible ASCII characters.", maxIdempotencyKey).At(idempotencyHeader)
	}
	return keys[0], nil
}

// BodyHash returns a hash to compare two bodies under one key.
func BodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// A claimKey is the Idempotency-Key of a request that creates something.
type claimKey struct {
	key      store.IdempotencyKey
	bodyHash string // hex SHA-256
	seal     []byte // key of [claimKey.box]
}

// newClaimKey parses the header; it returns nil without one. secret is that of the caller.
func newClaimKey(r *http.Request, secret string, body []byte, c stoa.Caller) (*claimKey, error) {
	key, err := IdempotencyKey(r)
	if err != nil || key == "" {
		return nil, err
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("stoa: a stored reply\x00" + key))
	return &claimKey{
		key:      store.IdempotencyKey{AccountID: c.Account.ID, Method: r.Method, Path: r.URL.Path, Key: key},
		bodyHash: BodyHash(body),
		seal:     mac.Sum(nil),
	}, nil
}

// Once runs work and stores its reply under the request's Idempotency-Key in one transaction, so that
// after a crash the object exists together with its reply, or not at all. A repeated request gets
// the stored reply. Without a key, Once only runs work in a transaction. work may run more than once.
func Once[R any](b *Base, x *Exchange, c stoa.Caller, work func(*store.Tx) (Reply[R], error)) error {
	k, err := newClaimKey(x.HTTP, b.secretOf(x.HTTP), x.body, c)
	if err != nil {
		return err
	}
	ctx := x.Context()
	var out rendered
	var stored *store.Reply
	err = b.Store.Write(ctx, func(tx *store.Tx) error {
		stored = nil
		var claim store.Claim
		if k != nil {
			made, earlier, claimed, err := tx.ClaimKey(ctx, k.key, k.bodyHash)
			if err != nil {
				return err
			}
			if !claimed {
				stored = &earlier
				return nil
			}
			claim = made
		}
		reply, err := work(tx)
		if err != nil {
			return err
		}
		if out, err = render(reply); err != nil {
			return err
		}
		if x.change != nil {
			x.change.reply = out.body
		}
		if k == nil {
			return nil
		}
		record, err := k.record(out, reply.Secret)
		if err != nil {
			return err
		}
		return tx.FinishClaim(ctx, claim, record)
	})
	switch {
	case err != nil:
		return err
	case stored != nil:
		x.Log.Replayed = true
		return k.replay(x, *stored)
	}
	out.send(x)
	return nil
}

// storedHead is a stored reply without its body.
type storedHead struct {
	Header map[string]string `json:"header"`
	Sealed bool              `json:"sealed"`
}

func (k *claimKey) record(out rendered, secret bool) (store.Reply, error) {
	head := storedHead{Header: map[string]string{}, Sealed: secret}
	for name, v := range map[string]string{"Location": out.location, "ETag": out.etag, "Retry-After": out.retryAfter} {
		if v != "" {
			head.Header[name] = v
		}
	}
	if out.body != nil {
		head.Header["Content-Type"] = "application/json"
	}
	body := string(out.body)
	if secret {
		box, err := k.box()
		if err != nil {
			return store.Reply{}, err
		}
		nonce := make([]byte, box.NonceSize())
		rand.Read(nonce) // rand.Read never fails (crypto/rand)
		body = base64.StdEncoding.EncodeToString(box.Seal(nonce, nonce, out.body, nil))
	}
	text, err := jsonx.Marshal(head)
	return store.Reply{Status: out.status, Headers: string(text), Body: body}, err
}

// box encrypts with a key derived from the caller's secret and Idempotency-Key, because the store must not
// contain what its hashes protect: a copy of the database reveals no secret.
func (k *claimKey) box() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.seal)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (k *claimKey) replay(w http.ResponseWriter, stored store.Reply) error {
	var head storedHead
	if err := jsonx.Unmarshal([]byte(stored.Headers), &head); err != nil {
		return fmt.Errorf("read a stored reply: %w", err)
	}
	body := []byte(stored.Body)
	if head.Sealed {
		box, err := k.box()
		if err != nil {
			return err
		}
		raw, err := base64.StdEncoding.DecodeString(stored.Body)
		if err != nil || len(raw) < box.NonceSize() {
			return fmt.Errorf("read a stored reply: %w", errors.Join(err, errors.New("it is too short")))
		}
		if body, err = box.Open(nil, raw[:box.NonceSize()], raw[box.NonceSize():], nil); err != nil {
			return stoa.Errorf(stoa.CodeIdempotencyReused, "This Idempotency-Key was used with another API key or session, and its reply contains a secret. Send the request with the first key, or with a new Idempotency-Key.").At(idempotencyHeader)
		}
	}
	h := w.Header()
	for name, value := range head.Header {
		h.Set(name, value)
	}
	h.Set(ReplayedHeader, "true")
	w.WriteHeader(stored.Status)
	_, _ = w.Write(body) // an error is ignored, because the caller may have disconnected
	return nil
}
