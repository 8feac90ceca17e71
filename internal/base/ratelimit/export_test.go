package ratelimit

// Len returns how many names are kept.
func (r *Rates) Len() int { return len(r.rates) }
