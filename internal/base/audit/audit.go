// Package audit defines the form of the audit log: the chain of hashes that its rows build, the
// masking of secrets in them, and the check of an export. It does no I/O: package store stores the
// rows, and package rest and the command line record changes.
//
// Each account has one chain, and [Service] has one for changes that belong to no account. A
// row contains the hash of the previous one, so that a row that is changed, removed, inserted
// or moved later breaks the chain. Rows that are cut from its end leave a valid chain: only an
// anchor, a hash that was kept elsewhere, shows that. Start at [Entry] and [Verify].
package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"stoa/internal/base/stoa"
)

// Service is the account of the chain for changes that belong to no account, and the actor of
// changes that the service makes.
const Service = "service"

// CommandLine is the actor of changes by commands that write to the store directly.
const CommandLine = "command line"

// An Entry is a row of the audit log. Its time has the precision of replies, so that an export
// contains exactly what was hashed.
type Entry struct {
	AccountID string    `json:"accountId"`
	Seq       int64     `json:"seq"` // number from 1, without gaps
	At        time.Time `json:"at"`  // time, exact to the millisecond
	Actor     string    `json:"actor"`
	Action    string    `json:"action"`
	Object    string    `json:"object"`
	RequestID string    `json:"requestId"`
	Address   string    `json:"address"` // address of the client; empty unless the operator stores addresses
	Before    string    `json:"before"`  // JSON; empty if there was no object
	After     string    `json:"after"`   // JSON; empty if the object was deleted
	Prev      string    `json:"prev"`    // hash of the previous row; empty in the first one
	Hash      string    `json:"hash"`
}

// Sum returns the hash of an entry: SHA-256, in hex, over the hash of the previous row and over each
// field. Each follows its length as 8 bytes, so that no two entries hash the same bytes.
func (e *Entry) Sum() string {
	h := sha256.New()
	var size [8]byte
	for _, field := range [...]string{
		e.Prev, e.AccountID, strconv.FormatInt(e.Seq, 10), strconv.FormatInt(e.At.UnixMicro(), 10),
		e.Actor, e.Action, e.Object, e.RequestID, e.Address, e.Before, e.After,
	} {
		binary.BigEndian.PutUint64(size[:], uint64(len(field)))
		h.Write(size[:])
		io.WriteString(h, field)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ErasedText replaces an object, and [ErasedAddress] an address, that an erasure removed from an entry.
const (
	ErasedText    = `{"erased":true}`
	ErasedAddress = "(erased)"
)

// ErasureAction is the action of the entries that name erased ones. The entry of an erasure is newer than the entries
// that it names, so a purge of old entries never removes it first.
const ErasureAction = "audit.erased"

// Erase removes the objects and the address of an entry, and reports whether it had any. The hashes of the entry stay,
// so that the chain stays whole.
func (e *Entry) Erase() (changed bool) {
	for _, text := range []*string{&e.Before, &e.After} {
		if *text != "" && *text != ErasedText {
			*text, changed = ErasedText, true
		}
	}
	if e.Address != "" && e.Address != ErasedAddress {
		e.Address, changed = ErasedAddress, true
	}
	return changed
}

func (e *Entry) erased() bool {
	return e.Before == ErasedText || e.After == ErasedText || e.Address == ErasedAddress
}

// MaxErasures is the maximum number of entries that an [Erasure] names, so that its text is stored whole.
const MaxErasures = 200

// An Erasure is the object of an entry with [ErasureAction]. It vouches for what erasures left of earlier entries, whose
// own hashes no longer cover it.
type Erasure struct {
	ID      string        `json:"id"`
	Entries []ErasedEntry `json:"entries"`
}

// An ErasedEntry names an erased entry by its number and its [Entry.Sum] after the erasure.
type ErasedEntry struct {
	Seq int64  `json:"seq"`
	Sum string `json:"sum"`
}

// A Checkpoint is the place after which an export begins, if that is not the start of the
// chain: the rows up to it were purged, or not requested.
type Checkpoint struct {
	AccountID string `json:"accountId"`
	Seq       int64  `json:"seq"`
	Hash      string `json:"hash"`
}

// A Line is a line of an export: an entry or a checkpoint. A checkpoint is the first line, or repeats
// the place of the previous entry, because exports can be appended to each other.
type Line struct {
	Checkpoint *Checkpoint `json:"checkpoint"`
	Entry
}

// A Verified is the outcome of a check: the entries from First to Last are a valid chain. Both
// are 0 for an empty log.
type Verified struct {
	AccountID   string
	First, Last int64
	Hash        string // hash of the last entry
	Erased      int    // number of entries whose texts were erased
	Purged      bool   // the chain begins after a checkpoint
}

// maxLine is the maximum size of a line of an export, in bytes. It suffices for two objects whose every
// character is escaped, so that no valid export is refused.
const maxLine = 2*6*maxObject + 64<<10

// Verify checks an export, JSON Lines with the oldest entry first. anchor is a hash that the
// chain must contain; empty for none. The error names the line and the entry at fault.
func Verify(export io.Reader, anchor string) (Verified, error) {
	var out Verified
	lines := bufio.NewScanner(export)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	var last Checkpoint // the place before the next entry
	anchored := anchor == ""
	unproven := map[int64]ErasedEntry{} // erased entries that no later one has named yet
	n := 0
	for lines.Scan() {
		n++
		var line Line
		reader := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		reader.DisallowUnknownFields()
		if err := reader.Decode(&line); err != nil || reader.More() {
			return out, stoa.Errorf(stoa.CodeInvalidValue, "line %d is not an entry of an audit log", n)
		}
		if c := line.Checkpoint; c != nil {
			if n > 1 && *c == last { // the beginning of an export that was appended
				continue
			}
			if n > 1 {
				return out, stoa.Errorf(stoa.CodeInvalidValue, "line %d is a checkpoint, which can only be the first line, or repeat the entry before it", n)
			}
			last, out.AccountID, out.Purged = *c, c.AccountID, true
			anchored = anchored || c.Hash == anchor
			continue
		}
		e := line.Entry
		if out.AccountID == "" {
			out.AccountID = e.AccountID
		}
		bad := func(reason string) error {
			return stoa.Errorf(stoa.CodeInvalidValue, "line %d, entry %d: %s", n, e.Seq, reason)
		}
		switch {
		case e.AccountID != out.AccountID:
			return out, bad("it belongs to another account than the entries before it")
		case e.Seq != last.Seq+1:
			return out, bad(fmt.Sprintf("entry %d was expected here: entries were removed, inserted or moved", last.Seq+1))
		case e.Prev != last.Hash:
			return out, bad("it does not follow the entry before it: one of them was changed")
		case e.Hash == e.Sum():
		case e.erased():
			unproven[e.Seq] = ErasedEntry{e.Seq, e.Sum()}
			out.Erased++
		default:
			return out, bad("it was changed")
		}
		if e.Action == ErasureAction && e.Actor == Service {
			var names Erasure
			if err := json.Unmarshal([]byte(e.After), &names); err != nil {
				return out, bad("it does not name the entries that were erased")
			}
			for _, named := range names.Entries {
				if unproven[named.Seq] == named {
					delete(unproven, named.Seq)
				}
			}
		}
		last = Checkpoint{e.AccountID, e.Seq, e.Hash}
		anchored = anchored || e.Hash == anchor
		if out.First == 0 {
			out.First = e.Seq
		}
		out.Last, out.Hash = e.Seq, e.Hash
	}
	if err := lines.Err(); err != nil {
		return out, fmt.Errorf("line %d cannot be read: %w", n+1, err)
	}
	if len(unproven) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(unproven)))
		return out, stoa.Errorf(stoa.CodeInvalidValue, "entry %d: its texts were removed, and no later entry %q names it", first, ErasureAction)
	}
	if !anchored {
		return out, stoa.Errorf(stoa.CodeInvalidValue, "no entry up to %d has the hash of the anchor: the end of the log was cut, or the log was written again", last.Seq)
	}
	return out, nil
}
