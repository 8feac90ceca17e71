package apitest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// A Recorder remembers which operations and statuses of the contract were
// exercised. It is safe for use by many goroutines; its zero value works.
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

// Missing lists the documented statuses that were never seen, as "operation
// status".
func (r *Recorder) Missing(doc *openapi3.T) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []string
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for status := range op.Responses.Map() {
				name := op.OperationID + " " + strings.ToUpper(status)
				if !r.seen[name] {
					missing = append(missing, name)
				}
			}
		}
	}
	slices.Sort(missing)
	return missing
}
