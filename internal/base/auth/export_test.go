package auth

import "time"

// SetNow replaces the clock of Verify.
func (k *Keys) SetNow(now func() time.Time) { k.now = now }

// CacheSize is the bound of the cache, Cached the number of keys in it.
const CacheSize = cacheSize

// Cached returns the number of cached keys.
func (k *Keys) Cached() int {
	k.cache.mu.RLock()
	defer k.cache.mu.RUnlock()
	return len(k.cache.keys)
}

// Fill stores n entries under hashes that belong to no secret.
func (k *Keys) Fill(n int) {
	for i := range n {
		k.cache.set([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, &known{})
	}
}
