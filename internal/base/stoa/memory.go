package stoa

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// MemoryUser is the setting of an agent that remembers end users, see [CallSettings].
const MemoryUser = "user"

// The names of the built-in tools for what an agent remembers.
const (
	MemoryRead  = "memory_read"
	MemoryWrite = "memory_write"
)

// Limits of what an agent remembers of one end user. A model that needs more must shorten its notes.
const (
	MaxMemoryNotes = 100
	MaxMemoryNote  = 8 << 10   // bytes of the text of a note
	MaxMemoryBytes = 256 << 10 // bytes of all names and texts
)

// A MemoryOwner names what one agent remembers of one end user. Another agent or another account has another memory, also of the same
// person.
type MemoryOwner struct {
	AccountID string `db:"account_id"`
	AgentID   string `db:"agent_id"`
	UserID    string `db:"user_id"` // externalUserId
}

// A Memory sums up the notes of an agent about an end user. It exists while there are any.
type Memory struct {
	ID string `db:"id"`
	MemoryOwner
	Revision  int64     `db:"revision"` // another one after each change, also if all notes were deleted in between
	Notes     int64     `db:"notes"`
	Bytes     int64     `db:"bytes"` // of all names and texts
	CreatedAt time.Time `db:"created_at"`
	UpdatedAt time.Time `db:"updated_at"`
}

// A MemoryNote is a text that an agent keeps about an end user.
type MemoryNote struct {
	ID string `db:"id"`
	MemoryOwner
	Name      string    `db:"name"`
	Text      string    `db:"text"`
	Bytes     int64     `db:"bytes"` // of the text
	CreatedAt time.Time `db:"created_at"`
	UpdatedAt time.Time `db:"updated_at"`
}

var memoryName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// CheckMemoryNote returns CodeInvalidValue if a note cannot have that name or text.
func CheckMemoryNote(name, text string) error {
	switch {
	case !memoryName.MatchString(name):
		return Errorf(CodeInvalidValue, "The name of a note has 1 to 64 of the characters a to z, 0 to 9, - and _, and begins with a letter or a digit.").At("name")
	case len(text) > MaxMemoryNote:
		return Errorf(CodeInvalidValue, "The note has %d bytes; the maximum is %d. Shorten it, or split it.", len(text), MaxMemoryNote).At("text")
	case strings.Contains(text, "\x00") || !utf8.ValidString(text):
		return Errorf(CodeInvalidValue, "The note is not valid text: it contains a NUL character, or is not UTF-8.").At("text")
	}
	return nil
}

// MemoryOwner returns whose memory the session has; false if it has none. It has one only if the id of its end user comes from a program
// of the account: from the holder of a key, or from the server that made the link or the embed session of a page. The id in an event of a
// hook is what an outsider may have typed, and the visitors of a script tag have none.
func (s *Session) MemoryOwner() (MemoryOwner, bool) {
	switch s.Trigger.Type {
	case "api", "embed", ExposeResponses:
	default:
		return MemoryOwner{}, false
	}
	return MemoryOwner{AccountID: s.AccountID, AgentID: s.AgentID, UserID: s.ExternalUserID}, s.ExternalUserID != ""
}
