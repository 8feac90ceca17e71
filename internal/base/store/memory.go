package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// MaxMemories is the maximum number of end users of all agents of an account of whom there are notes.
const MaxMemories = 100_000

// MemoryBeginning is the part of a note, in characters, that [Work.MemoryIndex] returns.
const MemoryBeginning = 200

var (
	memories    = newTable[stoa.Memory]("memories")
	memoryNotes = newTable[stoa.MemoryNote]("memory_notes")
)

// ofMemory is the condition of all statements about one memory.
const ofMemory = `account_id = $1 AND agent_id = $2 AND user_id = $3`

// Memory returns what sums up a memory; the zero value if there are no notes.
func (tx Work) Memory(ctx context.Context, o stoa.MemoryOwner) (stoa.Memory, error) {
	m, _, err := memories.first(ctx, tx.Tx, ofMemory, o.AccountID, o.AgentID, o.UserID)
	return m, err
}

// Memories lists the memories of an agent.
func (tx Work) Memories(ctx context.Context, accountID, agentID string, p Page) ([]stoa.Memory, bool, error) {
	return memories.page(ctx, tx.Tx, p, `account_id = $1 AND agent_id = $2`, accountID, agentID)
}

// MemoryNotes lists the notes of a memory; with a name at most that one.
func (tx Work) MemoryNotes(ctx context.Context, o stoa.MemoryOwner, name string, p Page) ([]stoa.MemoryNote, bool, error) {
	return memoryNotes.page(ctx, tx.Tx, p, ofMemory+` AND ($4 = '' OR name = $4)`, o.AccountID, o.AgentID, o.UserID, name)
}

// MemoryIndex lists the notes of a memory with their beginnings only, the newest first.
func (tx Work) MemoryIndex(ctx context.Context, o stoa.MemoryOwner) ([]stoa.MemoryNote, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (n stoa.MemoryNote, err error) {
		err = rows.Scan(&n.Name, &n.Bytes, &n.Text)
		return n, err
	}, `SELECT name, bytes, SUBSTR(text, 1, $4) FROM memory_notes WHERE `+ofMemory+` ORDER BY updated_at DESC, name LIMIT $5`, o.AccountID, o.AgentID, o.UserID, MemoryBeginning, stoa.MaxMemoryNotes)
}

// MemoryNote returns a note; nil if there is none of that name.
func (tx Work) MemoryNote(ctx context.Context, o stoa.MemoryOwner, name string) (*stoa.MemoryNote, error) {
	return memoryNotes.find(ctx, tx.Tx, ofMemory+` AND name = $4`, o.AccountID, o.AgentID, o.UserID, name)
}

// A MemoryChange is the effect of [Work.PutMemoryNote].
type MemoryChange struct {
	Note          stoa.MemoryNote // empty if it was deleted
	Outcome       string          // created, changed, deleted or unchanged
	Before, After int64           // revisions of the memory; 0 without notes
	Left          int64           // bytes that can still be written
}

// PutMemoryNote writes a note, or deletes it if the text is empty. A note that is not allowed, or for which there is no space, is
// CodeInvalidValue or CodeLimitReached, and nothing is changed. Concurrent writers of a memory wait for each other, so that together they
// do not exceed a limit.
func (tx Work) PutMemoryNote(ctx context.Context, o stoa.MemoryOwner, name, text string) (c MemoryChange, err error) {
	if err = stoa.CheckMemoryNote(name, text); err != nil {
		return c, err
	}
	lock := func() (m stoa.Memory, found bool, err error) {
		return memories.first(ctx, tx.Tx, ofMemory+tx.ForUpdate(), o.AccountID, o.AgentID, o.UserID)
	}
	m, found, err := lock()
	if err == nil && !found && text != "" {
		if err = tx.lockMemory(ctx, o.AccountID, o.UserID); err == nil {
			err = tx.within(ctx, MaxMemories, "", o.AccountID, o.AccountID, "end users of this account of whom agents remember something", `memories WHERE account_id = $2`)
		}
		if err == nil { // because another writer may have begun it while this one waited
			m, found, err = lock()
		}
	}
	var old *stoa.MemoryNote
	if err == nil && found {
		old, err = tx.MemoryNote(ctx, o, name)
	}
	if err != nil {
		return c, err
	}
	c.Before, c.After, c.Outcome, c.Left = m.Revision, m.Revision, "unchanged", stoa.MaxMemoryBytes-m.Bytes
	if old == nil && text == "" || old != nil && old.Text == text {
		if old != nil {
			c.Note = *old
		}
		return c, nil
	}
	if old != nil {
		m.Notes, m.Bytes = m.Notes-1, m.Bytes-int64(len(old.Name)+len(old.Text))
	}
	if text != "" {
		m.Notes, m.Bytes = m.Notes+1, m.Bytes+int64(len(name)+len(text))
	}
	switch {
	case m.Notes > stoa.MaxMemoryNotes:
		return c, stoa.Errorf(stoa.CodeLimitReached, "There are %d notes about this user, which is the maximum. Delete or combine some.", stoa.MaxMemoryNotes)
	case m.Bytes > stoa.MaxMemoryBytes:
		return c, stoa.Errorf(stoa.CodeLimitReached, "The notes about this user would have %d bytes; the maximum is %d. Delete or shorten some.", m.Bytes, stoa.MaxMemoryBytes)
	}
	m.Revision, m.UpdatedAt = max(m.Revision+1, db.Micros(tx.Now)), tx.Now
	switch {
	case m.Notes == 0:
		m.Revision = 0
		_, err = tx.Exec(ctx, `DELETE FROM memories WHERE `+ofMemory, o.AccountID, o.AgentID, o.UserID)
	case found:
		_, err = memories.change(ctx, tx.Tx, &m, "revision notes bytes updated_at", ofMemory, o.AccountID, o.AgentID, o.UserID)
	default:
		m.ID, m.MemoryOwner, m.CreatedAt = stoa.NewID("mem"), o, tx.Now
		_, err = memories.insert(ctx, tx.Tx, &m, "")
	}
	if err != nil {
		return c, err
	}
	note := stoa.MemoryNote{ID: stoa.NewID("mno"), MemoryOwner: o, Name: name, Text: text, Bytes: int64(len(text)), CreatedAt: tx.Now, UpdatedAt: tx.Now}
	switch {
	case text == "":
		c.Outcome = "deleted"
		_, err = tx.Exec(ctx, `DELETE FROM memory_notes WHERE `+ofMemory+` AND name = $4`, o.AccountID, o.AgentID, o.UserID, name)
	case old != nil:
		c.Outcome, note.ID, note.CreatedAt = "changed", old.ID, old.CreatedAt
		_, err = memoryNotes.change(ctx, tx.Tx, &note, "text bytes updated_at", ofMemory+` AND name = $4`, o.AccountID, o.AgentID, o.UserID, name)
	default:
		c.Outcome = "created"
		_, err = memoryNotes.insert(ctx, tx.Tx, &note, "")
	}
	if text != "" {
		c.Note = note
	}
	c.After, c.Left = m.Revision, stoa.MaxMemoryBytes-m.Bytes
	return c, err
}

// lockMemory makes transactions that begin or remove the memories of an end user wait for each other. The lock of a row is not enough, because
// there is no row before the first note: a removal would miss the row and then find the note.
func (tx Work) lockMemory(ctx context.Context, accountID, user string) error {
	return tx.lockText(ctx, "memory of "+accountID+" "+user)
}

// DeleteMemory removes all notes of a memory. Its row precedes its notes, as in all statements that
// lock both.
func (tx Work) DeleteMemory(ctx context.Context, o stoa.MemoryOwner) error {
	err := tx.lockMemory(ctx, o.AccountID, o.UserID)
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM memories WHERE `+ofMemory, o.AccountID, o.AgentID, o.UserID)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM memory_notes WHERE `+ofMemory, o.AccountID, o.AgentID, o.UserID)
	}
	return err
}

// EraseMemories removes what all agents of an account remember of an end user, and returns the number of rows. It must run in the
// transaction that inserts the erasure: sessions that begin later stay, and must not be shown the notes. [Work.MemoryIsErased] keeps earlier
// sessions from writing more.
func (tx Work) EraseMemories(ctx context.Context, accountID, user string) (n int64, err error) {
	if err := tx.lockMemory(ctx, accountID, user); err != nil {
		return 0, err
	}
	for _, table := range []string{"memories", "memory_notes"} {
		gone, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE account_id = $1 AND user_id = $2`, accountID, user)
		if err != nil {
			return n, err
		}
		n += gone
	}
	return n, nil
}

// MemoryIsErased reports whether an end user is being erased with the sessions that were created until a time. No erasure begins before the
// transaction ends.
func (tx Work) MemoryIsErased(ctx context.Context, o stoa.MemoryOwner, created time.Time) (bool, error) {
	if err := tx.lockMemory(ctx, o.AccountID, o.UserID); err != nil {
		return false, err
	}
	var one int
	return tx.Get(ctx, `SELECT 1 FROM erasures WHERE target = $1 AND kind = 'end_user' AND subject = $2 AND completed_at = 0 AND created_at >= $3 LIMIT 1`,
		[]any{o.AccountID, o.UserID, db.Micros(created)}, &one)
}

// RemoveMemories removes up to limit rows of a deleted agent, and returns their number.
func (tx Work) RemoveMemories(ctx context.Context, accountID, agentID string, limit int) (int64, error) {
	for _, table := range []string{"memories", "memory_notes"} {
		n, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE id IN (SELECT id FROM `+table+` WHERE account_id = $1 AND agent_id = $2 LIMIT $3)`, accountID, agentID, limit)
		if err != nil || n > 0 {
			return n, err
		}
	}
	return 0, nil
}
