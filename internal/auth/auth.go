// Package auth knows who is calling: it mints API keys and the tokens of embeds,
// keeps their hashes, and turns an Authorization header into a [stoa.Caller] or
// an [Embedded].
//
// It never logs or stores a secret, never repeats one in an error, and decides
// nothing about money. Start with [Keys.Verify]; manage.go has what the key
// endpoints do, secret.go the form of a key; embed.go has tickets, tokens and caps
// of embeds, origin.go which pages they are for.
package auth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

const (
	// freshness is how long a verified key is used from the cache without reading
	// its row again. Changes made through this process clear the cache when they
	// commit; freshness bounds all others, a revocation on another node for one.
	// Expiry and revocation times are compared at every use, and unknown keys are
	// not cached, since a guesser would fill the cache. Measured: 0.2 to 0.3 µs per
	// verification.
	//
	// Messages between processes were rejected: a second way for the truth to
	// travel, needed only to be faster than a second. The choice would be wrong if
	// reads of keys dominated the readers' time, or if a revoked key worked a second
	// later.
	freshness = 900 * time.Millisecond
	// renewal is the age from which one caller reads the row again while the others
	// go on, so that a busy key never makes them all wait at once.
	renewal   = 500 * time.Millisecond
	cacheSize = 20_000
	// flushEvery is how often the times of last use are written down.
	flushEvery = 15 * time.Second
)

// Keys verifies and manages API keys. It is safe for use by many goroutines.
type Keys struct {
	st    *store.Store
	plans func(id string) stoa.Plan
	cache *otter.Cache[[sha256.Size]byte, *known]
	// changes counts what may have made the cache wrong, so that a row read
	// before a change is not cached after it.
	changes atomic.Uint64
	loads   singleflight.Group

	mu   sync.Mutex
	used map[string]time.Time // key id → last use that is not written yet, to the minute
}

// known is a key as it was read.
type known struct {
	key     stoa.Key
	account stoa.Account
	read    time.Time
	renewed atomic.Bool  // somebody is looking at the row again
	noted   atomic.Int64 // the minute of the last use that was noted
}

// New makes Keys over an open store. plans gives the plan with that id, and
// something sensible for one that is not configured; it is asked at each use.
func New(st *store.Store, plans func(id string) stoa.Plan) *Keys {
	return &Keys{
		st: st, plans: plans, used: map[string]time.Time{},
		cache: otter.Must(&otter.Options[[sha256.Size]byte, *known]{MaximumSize: cacheSize}),
	}
}

// Verify tells who shows this Authorization header. Whatever is wrong with it is
// the same CodeUnauthorized; a suspended account is CodeSuspended.
func (k *Keys) Verify(ctx context.Context, authorizationHeader string) (stoa.Caller, error) {
	secret, ok := bearer(authorizationHeader)
	if !ok {
		return stoa.Caller{}, unauthorized()
	}
	hash := sha256.Sum256([]byte(secret))
	now := time.Now()
	e, ok := k.cache.GetIfPresent(hash)
	if ok {
		age := now.Sub(e.read)
		ok = age < renewal || age < freshness && e.renewed.Swap(true)
	}
	if !ok {
		var err error
		if e, err = k.load(ctx, hash); err != nil {
			return stoa.Caller{}, err
		}
		if e == nil {
			return stoa.Caller{}, unauthorized()
		}
	}
	if !InForce(e.key, now) {
		return stoa.Caller{}, unauthorized()
	}
	if e.account.Suspended {
		return stoa.Caller{}, stoa.Errorf(stoa.CodeSuspended, "This account is suspended. Ask the operator of this service.")
	}
	k.note(e, now)
	return stoa.Caller{Account: e.account, Plan: k.plans(e.account.Plan), Key: e.key}, nil
}

// InForce reports whether a key is neither revoked nor expired at that time.
func InForce(key stoa.Key, at time.Time) bool {
	return (key.RevokedAt.IsZero() || at.Before(key.RevokedAt)) && (key.ExpiresAt.IsZero() || at.Before(key.ExpiresAt))
}

func unauthorized() error {
	return stoa.Errorf(stoa.CodeUnauthorized, "The API key is missing or not valid. Send it as: Authorization: Bearer sk_…")
}

// bearer takes the secret out of a header. What cannot be a key is not looked up.
func bearer(header string) (string, bool) {
	scheme, secret, ok := strings.Cut(strings.TrimSpace(header), " ")
	secret = strings.TrimLeft(secret, " ")
	return secret, ok && strings.EqualFold(scheme, "bearer") && strings.HasPrefix(secret, prefix) && len(secret) <= maxSecret
}

// maxSecret bounds what is hashed for a stranger.
const maxSecret = 512

// load reads a key's row, once for all who want it at the same time. It yields
// nil where there is none.
func (k *Keys) load(ctx context.Context, hash [sha256.Size]byte) (*known, error) {
	// The number of changes is part of what is asked: who comes after a change
	// must not get a row read before it.
	before := k.changes.Load()
	question := string(binary.BigEndian.AppendUint64(hash[:], before))
	v, err, _ := k.loads.Do(question, func() (any, error) {
		return k.read(context.WithoutCancel(ctx), hash, before) // others wait for it too
	})
	if err != nil {
		return nil, err
	}
	return v.(*known), nil
}

func (k *Keys) read(ctx context.Context, hash [sha256.Size]byte, before uint64) (*known, error) {
	e := &known{read: time.Now()}
	found := false
	err := k.st.Read(ctx, func(tx *store.Tx) (err error) {
		e.key, e.account, found, err = tx.KeyByHash(ctx, hex.EncodeToString(hash[:]))
		return err
	})
	if err != nil {
		return nil, err
	}
	if !found {
		k.cache.Invalidate(hash)
		return nil, nil
	}
	e.noted.Store(e.key.LastUsedAt.Unix() / 60)
	k.cache.Set(hash, e)
	if k.changes.Load() != before {
		k.cache.Invalidate(hash) // it may be older than the change
	}
	return e, nil
}

// Forget drops all that is remembered of keys and accounts, so that what was
// just committed counts at once. Changes to accounts made with the store's own
// verbs need it; use [Keys.ForgetAfter] inside their transaction.
func (k *Keys) Forget() {
	k.changes.Add(1)
	k.cache.InvalidateAll()
}

// ForgetAfter is [Keys.Forget] once tx is committed.
func (k *Keys) ForgetAfter(tx *store.Tx) { tx.AfterCommit(k.Forget) }

// note remembers that a key is used, once a minute.
func (k *Keys) note(e *known, now time.Time) {
	minute := now.Unix() / 60
	last := e.noted.Load()
	if last >= minute || !e.noted.CompareAndSwap(last, minute) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used[e.key.ID] = time.Unix(minute*60, 0).UTC()
}

// Run writes the times of last use down every few seconds, until ctx ends, and
// once more then. Without it nothing else suffers.
func (k *Keys) Run(ctx context.Context) error {
	t := time.NewTicker(flushEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			// A failure is tried again with the next tick.
			_ = k.Flush(ctx)
		case <-ctx.Done():
			return k.Flush(context.WithoutCancel(ctx))
		}
	}
}

// Flush writes down the times of last use that are only remembered.
func (k *Keys) Flush(ctx context.Context) error {
	k.mu.Lock()
	used := k.used
	k.used = map[string]time.Time{}
	k.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := k.st.Write(ctx, func(tx *store.Tx) error {
		for id, at := range used {
			if err := tx.TouchKey(ctx, id, at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		for id, at := range used {
			if at.After(k.used[id]) {
				k.used[id] = at
			}
		}
	}
	return err
}

// lastUsed adds what is not written yet.
func (k *Keys) lastUsed(key stoa.Key) stoa.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := k.used[key.ID]; at.After(key.LastUsedAt) {
		key.LastUsedAt = at
	}
	return key
}

// Plan gives the plan with that id, as callers carry it.
func (k *Keys) Plan(id string) stoa.Plan { return k.plans(id) }
