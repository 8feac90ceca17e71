package gateway

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"
)

// maxRecent is the number of entries of a [recent].
const maxRecent = 1 << 17

// recent remembers numbers of this process's recent calls, by the hash of some texts. The zero
// value is ready to use.
type recent struct {
	mu sync.Mutex
	at map[uint64]recentValue
}

type recentValue struct {
	value int64
	until time.Time
}

var recentSeed = maphash.MakeSeed()

func hashOf(texts []string) uint64 {
	var h maphash.Hash
	h.SetSeed(recentSeed)
	for _, text := range texts {
		h.WriteString(text)
		h.WriteByte(0)
	}
	return h.Sum64()
}

// put remembers a value for life, and returns the one before.
func (r *recent) put(value int64, life time.Duration, now time.Time, texts ...string) (before int64, found bool) {
	key := hashOf(texts)
	r.mu.Lock()
	defer r.mu.Unlock()
	old, found := r.at[key]
	if !found && len(r.at) >= maxRecent {
		maps.DeleteFunc(r.at, func(_ uint64, v recentValue) bool { return now.After(v.until) })
		if len(r.at) >= maxRecent {
			clear(r.at)
		}
	}
	if r.at == nil {
		r.at = map[uint64]recentValue{}
	}
	r.at[key] = recentValue{value, now.Add(life)}
	return old.value, found && !now.After(old.until)
}

// get returns a remembered value, or 0.
func (r *recent) get(now time.Time, texts ...string) int64 {
	key := hashOf(texts)
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.at[key]; !now.After(v.until) {
		return v.value
	}
	return 0
}
