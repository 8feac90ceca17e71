package drive

import (
	"context"
	"time"
)

// EnterSearch reserves the search slot of an account without searching.
func (d *Drives) EnterSearch(ctx context.Context, accountID string, timeout time.Duration) (leave func(), err error) {
	return d.searches.enter(ctx, accountID, timeout)
}

// SearchUnranked returns the result of a search that ran out of time.
func (d *Drives) SearchUnranked(ctx context.Context, who Owner, query string, limit int) ([]Hit, error) {
	s := &searcher{d: d, who: who, limit: limit}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.attempt(ctx, parseQuery(query), (*searcher).unranked)
}

// Searching returns the number of accounts that search or wait.
func (d *Drives) Searching() int {
	d.searches.mu.Lock()
	defer d.searches.mu.Unlock()
	return len(d.searches.running)
}
