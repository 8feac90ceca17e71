package api

import (
	"bytes"
	"context"
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

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

const (
	idempotencyHeader = "Idempotency-Key"
	replayedHeader    = "Idempotency-Replayed"
)

// An intent is what a request with an Idempotency-Key wants to happen once.
type intent struct {
	key      store.IdempotencyKey
	bodyHash string // hex SHA-256
	seal     []byte // for replies that hold a secret; see [intent.sealed]
}

// newIntent reads the header; nil where there is none.
func newIntent(r *http.Request, body []byte, c stoa.Caller) (*intent, error) {
	key, err := idempotencyKey(r)
	if err != nil || key == "" {
		return nil, err
	}
	sum := sha256.Sum256(body)
	mac := hmac.New(sha256.New, []byte(r.Header.Get("Authorization")))
	mac.Write([]byte("stoa: a stored reply\x00" + key))
	return &intent{
		key:      store.IdempotencyKey{AccountID: c.Account.ID, Method: r.Method, Path: r.URL.Path, Key: key},
		bodyHash: hex.EncodeToString(sum[:]),
		seal:     mac.Sum(nil),
	}, nil
}

// makeOnce runs a creating handler's work and stores its reply under the request's
// Idempotency-Key, all in one transaction: whatever dies in between, the thing
// exists together with its reply or not at all. A repeated request comes back
// as a [*replay]. secret says that the reply holds one.
func makeOnce[R any](ctx context.Context, s *Server, secret bool, visit func(R, http.ResponseWriter) error, work func(tx *store.Tx) (R, error)) (R, error) {
	in := LogFields(ctx).intent
	var out R
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		var claim store.Claim
		if in != nil {
			c, reply, claimed, err := tx.ClaimKey(ctx, in.key, in.bodyHash)
			if err != nil {
				return err
			}
			if !claimed {
				return &replay{reply: reply, in: in}
			}
			claim = c
		}
		var err error
		if out, err = work(tx); err != nil || in == nil {
			return err
		}
		reply, err := in.record(secret, func(w http.ResponseWriter) error { return visit(out, w) })
		if err != nil {
			return err
		}
		return tx.FinishClaim(ctx, claim, reply)
	})
	return out, err
}

// kept are the headers of a reply that are stored with it.
var kept = []string{"Content-Type", "Location", "ETag", "Retry-After"}

// storedHead is what is stored beside a body.
type storedHead struct {
	Header map[string]string `json:"header"`
	Sealed bool              `json:"sealed"`
}

// record renders a reply for the store.
func (in *intent) record(secret bool, visit func(http.ResponseWriter) error) (store.Reply, error) {
	page := &page{header: http.Header{}}
	if err := visit(page); err != nil {
		return store.Reply{}, err
	}
	head := storedHead{Header: map[string]string{}, Sealed: secret}
	for _, name := range kept {
		if v := page.header.Get(name); v != "" {
			head.Header[name] = v
		}
	}
	body := page.body.String()
	if secret {
		box, err := in.box()
		if err != nil {
			return store.Reply{}, err
		}
		nonce := make([]byte, box.NonceSize())
		rand.Read(nonce) // never fails (crypto/rand)
		body = base64.StdEncoding.EncodeToString(box.Seal(nonce, nonce, page.body.Bytes(), nil))
	}
	text, err := jsonx.Marshal(head)
	return store.Reply{Status: page.status, Headers: string(text), Body: body}, err
}

// box encrypts with a key that only the caller's own API key and
// Idempotency-Key give: the store keeps hashes of secrets, never a secret.
func (in *intent) box() (cipher.AEAD, error) {
	block, err := aes.NewCipher(in.seal)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// A replay is a stored reply on its way past the generated code. It is an error
// only so that the transaction rolls back.
type replay struct {
	reply store.Reply
	in    *intent
}

func (r *replay) Error() string { return "api: answered before" }

// write sends the stored reply again.
func (r *replay) write(w http.ResponseWriter) error {
	var head storedHead
	if err := jsonx.Unmarshal([]byte(r.reply.Headers), &head); err != nil {
		return fmt.Errorf("read a stored reply: %w", err)
	}
	body := []byte(r.reply.Body)
	if head.Sealed {
		box, err := r.in.box()
		if err != nil {
			return err
		}
		raw, err := base64.StdEncoding.DecodeString(r.reply.Body)
		if err != nil || len(raw) < box.NonceSize() {
			return fmt.Errorf("read a stored reply: %w", errors.Join(err, errors.New("it is too short")))
		}
		if body, err = box.Open(nil, raw[:box.NonceSize()], raw[box.NonceSize():], nil); err != nil {
			return stoa.Errorf(stoa.CodeIdempotencyReused, "This Idempotency-Key was used with another API key, and its reply holds a secret. Send the request with the first key, or with a new Idempotency-Key.").At(idempotencyHeader)
		}
	}
	h := w.Header()
	for name, value := range head.Header {
		h.Set(name, value)
	}
	h.Set(replayedHeader, "true")
	w.WriteHeader(r.reply.Status)
	_, _ = w.Write(body) // a caller who left needs no answer
	return nil
}

// A page takes a reply in memory.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }
func (p *page) WriteHeader(status int)      { p.status = status }
