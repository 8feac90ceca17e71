package responses

import "sync"

// A disconnectPolicy ends a call when its client disconnects, unless the call's claim lets
// the call continue. It is safe for use by several goroutines.
type disconnectPolicy struct {
	claim Claim  // nil if the call ends with its connection
	end   func() // cancels the call

	mu      sync.Mutex
	release func() // not nil if the call continues without its client
	over    bool   // the call has ended
}

// clientDisconnected reports whether the call continues without its client, and ends it
// otherwise. It may be called more than once.
func (p *disconnectPolicy) clientDisconnected() (goesOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.release != nil {
		return p.release != nil
	}
	if p.claim != nil {
		if release, ok := p.claim.Detach(); ok {
			p.release = release
			return true
		}
	}
	p.end()
	return false
}

func (p *disconnectPolicy) detached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.release != nil
}

func (p *disconnectPolicy) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.release != nil && !p.over {
		p.release()
	}
	p.over = true
}
