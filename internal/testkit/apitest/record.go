package apitest

import (
	"fmt"
	"slices"
	"sync"
)

// A Recorder records which operations and statuses of the contract were exercised. It is safe
// for use by many goroutines; its zero value works.
type Recorder struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (r *Recorder) saw(operation string, status int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[fmt.Sprintf("%s %d", operation, status)] = true
}

// Missing lists the documented statuses, of the operations with one of the tags, that never
// occurred, as "operation status".
func (r *Recorder) Missing(tags []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []string
	for _, op := range Operations() {
		for status := range op.Responses.Map() {
			if name := op.OperationID + " " + status; slices.Contains(tags, op.Tags[0]) && !r.seen[name] {
				missing = append(missing, name)
			}
		}
	}
	slices.Sort(missing)
	return missing
}
