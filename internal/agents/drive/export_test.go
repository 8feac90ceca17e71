package drive

import (
	"context"
	"time"

	"stoa/internal/base/extract"
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

// ReadDue reads the texts that are due, as [Drives.Run] does.
func (d *Drives) ReadDue(ctx context.Context) error { return d.readDue(ctx) }

// SetReaders sets the version of the readers, and the pause after a failure to read.
func (d *Drives) SetReaders(version int64, pause time.Duration) {
	d.version, d.textPause = version, pause
}

// Waits reports whether a write has woken the sweep of texts.
func (d *Drives) Waits() bool { return len(d.wake) > 0 }

// PlaceOf returns the place of some lines of a text.
func PlaceOf(list []extract.Place, first, last int64) string { return places(list).of(first, last) }

// Erased is the list of the columns with texts.
var Erased = erased
