package auth

import (
	"crypto/sha256"
	"sync"
)

// cacheSize is how many keys are cached. An entry is of use for [freshness]
// only, so a service that verifies more keys than that within a second reads
// some of them again.
const cacheSize = 20_000

// A keyCache holds keys by the hash of their secret, at most cacheSize. It is
// safe for concurrent use.
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

// set stores an entry. A full cache drops any other one for it: entries live
// for less than a second, so the order of use is not worth tracking.
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
