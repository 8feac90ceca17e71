package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"stoa/internal/stoa"
)

// fingerprint returns hashes of the parts with which a call begins, in their order: tools,
// instructions, files of the drive, and what stands in for the beginning of the session.
func (p *prompt) fingerprint(call *stoa.Call) string {
	var tools strings.Builder
	for _, t := range call.Tools {
		fmt.Fprintf(&tools, "%q %q %q\n", t.Name, t.Description, t.Parameters)
	}
	var b strings.Builder
	for _, part := range []string{tools.String(), call.Instructions, p.knowledge.Text, p.omission()} {
		sum := sha256.Sum256([]byte(part))
		b.WriteString(hex.EncodeToString(sum[:4]))
		b.WriteByte(' ')
	}
	return b.String()
}

// broke returns the first part in which a call with one fingerprint differs from the call before;
// empty if it does not.
func broke(before, now string) stoa.Broke {
	reasons := []stoa.Broke{stoa.BrokeTools, stoa.BrokeInstructions, stoa.BrokeKnowledge, stoa.BrokeCompacted}
	was, is := strings.Fields(before), strings.Fields(now)
	for i, why := range reasons {
		if len(was) == len(reasons) && len(is) == len(reasons) && was[i] != is[i] {
			return why
		}
	}
	return ""
}

// lastPrefix returns the fingerprint of the call before the next one; empty if it is unknown.
func (p *prompt) lastPrefix() string {
	if n := len(p.steps); n > 0 {
		return p.steps[n-1].Prefix
	}
	return p.pastPrefix
}
