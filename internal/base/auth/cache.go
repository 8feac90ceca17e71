package auth

import (
	"crypto/sha256"
	"sync"
)

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
