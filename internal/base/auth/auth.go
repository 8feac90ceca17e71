// Package auth authenticates callers: it creates API keys, stores their hashes, and
// resolves an Authorization header to a [stoa.Caller]. The tokens of embeds belong to
// package embed.
//
// It never logs or stores a secret, never repeats one in an error, and does not handle
// credits. Start with [Keys.Verify]; manage.go has the operations of the key endpoints,
// session.go the sessions of the console, secret.go the format of a key.
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

	"golang.org/x/sync/singleflight"

	"stoa/internal/base/cluster"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	// freshness is the time for which a verified key is used from the cache without reading
	// its row again. Changes made through this process clear the cache when they commit,
	// and send a hint so that other nodes clear theirs; freshness limits the delay of all
	// others, such as a revocation whose hint was lost. Expiry and revocation times are
	// compared at every use. Unknown keys are not cached, since guesses would fill the
	// cache. Measured: 0.2 to 0.3 µs per verification.
	//
	// The choice would be wrong if reads of keys dominated the readers' time, or if a
	// revoked key worked a second later.
	freshness = 900 * time.Millisecond
	// renewal is the age from which one caller reads the row again while the others
	// continue with the cached one, so that they never all wait.
	renewal    = 500 * time.Millisecond
	flushEvery = 15 * time.Second // between two stores of the times of last use
)

// Keys verifies and manages API keys. It is safe for concurrent use.
type Keys struct {
	st    *store.Store
	plans func(id string) stoa.Plan
	now   func() time.Time
	cache keyCache // of keys, and of sessions of the console

	// SessionLife and SessionIdle are the longest life of a session of the console, and the
	// longest time without a use. They are set before the first use; New sets defaults.
	SessionLife, SessionIdle time.Duration
	// PauseAfter is the time after the latest sign-in of a member from which the keys that the member
	// created are refused, until the next sign-in; 0 means never. It is set before the first use.
	PauseAfter time.Duration
	// changes counts the invalidations of the cache, so that a row read before one
	// is not cached after it.
	changes atomic.Uint64
	loads   singleflight.Group

	mu   sync.Mutex
	used map[string]time.Time // unstored times of last use by key id, to the minute
	seen map[string]time.Time // likewise of sessions, by the hash of their secret
}

// known is a key with its account as read from the store.
type known struct {
	key     stoa.Key
	account stoa.Account
	session *stoa.ConsoleSession // that acts through the key; nil if the caller has sent the key
	read    time.Time
	renewed atomic.Bool  // a caller is reading the row again
	noted   atomic.Int64 // the minute of the last recorded use, since 1970
}

// New returns Keys over an open store. plans returns the plan with an id, even if it is not
// configured; it is called at each verification.
func New(st *store.Store, plans func(id string) stoa.Plan) *Keys {
	k := &Keys{st: st, plans: plans, now: time.Now, SessionLife: sessionLife, SessionIdle: sessionIdle, used: map[string]time.Time{}, seen: map[string]time.Time{}}
	st.OnHint(cluster.HintKeys, func(string) { k.Forget() })
	st.OnListening(k.Forget)
	return k
}

// Verify authenticates an Authorization header. Every fault of it is CodeUnauthorized with
// a message that explains it; only the holder of the secret learns that a key was revoked
// or has expired. A key of a suspended account is CodeSuspended. With an error the caller
// contains the owner of the key if it is known, only for the logs.
func (k *Keys) Verify(ctx context.Context, authorizationHeader string) (stoa.Caller, error) {
	secret, ok := bearer(authorizationHeader)
	switch {
	case strings.TrimSpace(authorizationHeader) == "":
		return stoa.Caller{}, unauthorized("The API key is missing.")
	case !ok:
		return stoa.Caller{}, unauthorized("The Authorization header does not contain an API key of this service.")
	}
	hash := sha256.Sum256([]byte(secret))
	e := k.cached(hash)
	if e == nil {
		hash := hash // only this copy escapes
		var err error
		e, err = k.load(ctx, hash, func(ctx context.Context, tx *store.Tx, e *known) (found bool, err error) {
			e.key, e.account, found, err = tx.People().KeyByHash(ctx, hex.EncodeToString(hash[:]))
			return found, err
		})
		if err != nil {
			return stoa.Caller{}, err
		}
		if e == nil {
			return stoa.Caller{}, unauthorized("There is no such API key.")
		}
	}
	return k.admit(e)
}

// admit returns the caller of a known key, or the error of a key that is not in force.
func (k *Keys) admit(e *known) (stoa.Caller, error) {
	now := k.now()
	caller := stoa.Caller{Account: e.account, Key: e.key}
	switch {
	case InForce(e.key, now):
	case !e.key.RevokedAt.IsZero() && !now.Before(e.key.RevokedAt):
		return caller, unauthorized("This API key was revoked or replaced. Use another one.")
	default:
		return caller, unauthorized("This API key has expired. Use another one.")
	}
	if e.account.Suspended {
		return caller, stoa.Errorf(stoa.CodeSuspended, "This account is suspended. Ask the operator of this service.")
	}
	if at := e.key.PausesAt(k.PauseAfter); !at.IsZero() && !now.Before(at) {
		return caller, stoa.Errorf(stoa.CodeKeyPaused, "This API key is paused since %s: the member who created it has not signed in to the console. It works again after a sign-in.", at.UTC().Format(time.DateOnly))
	}
	k.recordUse(e, now)
	caller.Plan = k.plans(e.account.Plan)
	return caller, nil
}

// InForce reports whether a key is neither revoked nor expired at that time.
func InForce(key stoa.Key, at time.Time) bool {
	return (key.RevokedAt.IsZero() || at.Before(key.RevokedAt)) && (key.ExpiresAt.IsZero() || at.Before(key.ExpiresAt))
}

func unauthorized(what string) error {
	return stoa.Errorf(stoa.CodeUnauthorized, "%s Send one as: Authorization: Bearer sk_…", what)
}

// bearer returns the secret of a header; false if it cannot be a key.
func bearer(header string) (string, bool) {
	scheme, secret, ok := strings.Cut(strings.TrimSpace(header), " ")
	secret = strings.TrimLeft(secret, " ")
	return secret, ok && strings.EqualFold(scheme, "bearer") && strings.HasPrefix(secret, prefix) && len(secret) <= maxSecret
}

// maxSecret limits a secret, in bytes, to avoid work for an unauthenticated request.
const maxSecret = 512

// cached returns the entry of a hash, or nil if it must be read.
func (k *Keys) cached(hash [sha256.Size]byte) *known {
	if e, ok := k.cache.get(hash); ok {
		if age := k.now().Sub(e.read); age < renewal || age < freshness && e.renewed.Swap(true) {
			return e
		}
	}
	return nil
}

// A reader fills an entry from the store, and reports whether it exists.
type reader func(ctx context.Context, tx *store.Tx, e *known) (bool, error)

// load reads an entry, once for all concurrent callers. It returns nil if the entry does
// not exist.
func (k *Keys) load(ctx context.Context, hash [sha256.Size]byte, fill reader) (*known, error) {
	// The number of changes is part of the flight's name, because a caller after a change must not
	// share a row read before it.
	before := k.changes.Load()
	flight := string(binary.BigEndian.AppendUint64(hash[:], before))
	v, err, _ := k.loads.Do(flight, func() (any, error) {
		return k.read(context.WithoutCancel(ctx), hash, before, fill) // because the read serves other callers too
	})
	if err != nil {
		return nil, err
	}
	return v.(*known), nil
}

// read reads an entry and caches it under its hash, unless a change was committed since
// before; an entry that does not exist is nil.
func (k *Keys) read(ctx context.Context, hash [sha256.Size]byte, before uint64, fill reader) (*known, error) {
	e := &known{read: k.now()}
	found := false
	err := k.st.Read(store.Promptly(ctx), func(tx *store.Tx) (err error) {
		found, err = fill(ctx, tx, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !found {
		k.cache.drop(hash)
		return nil, nil
	}
	last := e.key.LastUsedAt
	if e.session != nil {
		last = e.session.SeenAt
	}
	e.noted.Store(last.Unix() / 60)
	k.cache.set(hash, e)
	if k.changes.Load() != before {
		k.cache.drop(hash) // because the row may be older than the change
	}
	return e, nil
}

// Forget clears the cache of keys and accounts, so that a committed change takes effect
// immediately. Changes of accounts made through the store need it; inside their transaction
// use [Keys.ForgetAfter].
func (k *Keys) Forget() {
	k.changes.Add(1)
	k.cache.clear()
}

// ForgetAfter calls [Keys.Forget] once tx is committed, on this node and soon afterwards on
// the others.
func (k *Keys) ForgetAfter(tx *store.Tx) {
	tx.AfterCommit(func() {
		k.Forget()
		k.st.Hint(cluster.HintKeys, "", "")
	})
}

func (k *Keys) recordUse(e *known, now time.Time) {
	minute := now.Unix() / 60
	last := e.noted.Load()
	if last >= minute || !e.noted.CompareAndSwap(last, minute) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	at := time.Unix(minute*60, 0).UTC()
	k.used[e.key.ID] = at
	if e.session != nil {
		k.seen[e.session.Hash] = at
	}
}

// Run stores the times of last use every 15 seconds until ctx ends, and then once more.
// Nothing else depends on it.
func (k *Keys) Run(ctx context.Context) error {
	t := time.NewTicker(flushEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			// After an error the times are kept for the next tick.
			_ = k.Flush(ctx)
		case <-ctx.Done():
			return k.Flush(context.WithoutCancel(ctx))
		}
	}
}

// Flush stores the times of last use that are only in memory.
func (k *Keys) Flush(ctx context.Context) error {
	k.mu.Lock()
	used, seen := k.used, k.seen
	k.used, k.seen = map[string]time.Time{}, map[string]time.Time{}
	k.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := k.st.Write(ctx, func(tx *store.Tx) error {
		for id, at := range used {
			if err := tx.People().TouchKey(ctx, id, at); err != nil {
				return err
			}
		}
		for hash, at := range seen {
			if err := tx.People().TouchConsoleSession(ctx, hash, at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		keepLatest(k.used, used)
		keepLatest(k.seen, seen)
	}
	return err
}

func keepLatest(to, from map[string]time.Time) {
	for id, at := range from {
		if at.After(to[id]) {
			to[id] = at
		}
	}
}

// lastUsed returns the key with its time of last use, even if that is not stored yet.
func (k *Keys) lastUsed(key stoa.Key) stoa.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at := k.used[key.ID]; at.After(key.LastUsedAt) {
		key.LastUsedAt = at
	}
	return key
}

// Plan returns the plan with that id, as it is in [stoa.Caller].
func (k *Keys) Plan(id string) stoa.Plan { return k.plans(id) }

// cacheSize is the maximum number of cached keys. An entry is used only for [freshness], so
// a service that verifies more keys than that within a second reads some of them again.
const cacheSize = 20_000

// A keyCache stores keys by the hash of their secret, at most cacheSize. It is safe for
// concurrent use.
//
// A map with a lock that drops an arbitrary entry when it is full needs 345 to 455 ns per
// verification on one goroutine and 290 to 305 on eight (two shared cores). A cache with an
// eviction policy (otter, twelve packages) needed 460 to 790 and 455 to 540, and made the
// binary 840 kB larger. An LRU list would need the write lock for each hit. The choice
// would be wrong if a mutex profile of a machine with many cores showed keyCache, or if
// more than cacheSize distinct keys a second were in use.
type keyCache struct {
	mu   sync.RWMutex
	keys map[[sha256.Size]byte]*known
}

func (c *keyCache) get(hash [sha256.Size]byte) (*known, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.keys[hash]
	return e, ok
}

// set stores an entry. A full cache drops an arbitrary other one, because entries live for less than
// a second, so that the order of use is not worth tracking.
func (c *keyCache) set(hash [sha256.Size]byte, e *known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.keys[hash]; !ok && len(c.keys) >= cacheSize {
		for other := range c.keys {
			delete(c.keys, other)
			break
		}
	}
	if c.keys == nil {
		c.keys = map[[sha256.Size]byte]*known{}
	}
	c.keys[hash] = e
}

func (c *keyCache) drop(hash [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keys, hash)
}

func (c *keyCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = nil
}
