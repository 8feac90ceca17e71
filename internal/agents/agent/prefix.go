package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"strings"

	"stoa/internal/base/stoa"
)

// fingerprint returns hashes of the parts with which a call begins, in their order: tools,
// instructions, files of the drive, and what stands in for the beginning of the session.
func (p *prompt) fingerprint(call *stoa.Call) string {
	tools := make([]string, 0, 3*len(call.Tools))
	for _, t := range call.Tools {
		tools = append(tools, t.Name, t.Description, t.Parameters)
	}
	instructions := []string{call.Instructions}
	if f := call.TextFormat(); f.Schema != "" {
		instructions = append(instructions, f.Schema, strconv.FormatBool(f.Refused))
	}
	parts := [][]string{tools, instructions, {p.knowledge.Text}, {p.omission()}}
	sums := make([]string, len(parts))
	for i, texts := range parts {
		h := sha256.New()
		for _, text := range texts {
			io.WriteString(h, text) // never fails
			h.Write([]byte{0})
		}
		sums[i] = hex.EncodeToString(h.Sum(nil)[:4])
	}
	return strings.Join(sums, " ")
}

// place returns the [gateway.Stream.Place] of the call whose fingerprint was stored with it; empty
// if a former release stored it.
func place(stored string) string {
	if words := strings.Fields(stored); len(words) == prefixParts+2 {
		return words[prefixParts] + " " + words[prefixParts+1]
	}
	return ""
}

// prefixParts is the number of parts of a fingerprint. The stored one of a call also has its place.
const prefixParts = 4

// broke returns the first part in which a call with one fingerprint differs from the call before;
// empty if it does not.
func broke(before, now string) stoa.Broke {
	reasons := []stoa.Broke{stoa.BrokeTools, stoa.BrokeInstructions, stoa.BrokeKnowledge, stoa.BrokeCompacted}
	was, is := strings.Fields(before), strings.Fields(now)
	for i, why := range reasons {
		if len(was) >= prefixParts && len(is) >= prefixParts && was[i] != is[i] {
			return why
		}
	}
	return ""
}
