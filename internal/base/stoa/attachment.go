package stoa

import "time"

// Limits of attachments.
const (
	MaxAttachments        = 10        // files of a message
	MaxSessionAttachments = 50        // files of a session
	MaxUploads            = 100       // unattached uploads of an account; visitors may use only half of them, so that they cannot block its programs
	UploadLife            = time.Hour // lifetime of an unattached upload
)

// An Upload is a file for a message. It is stored in its own drive, whose owner is its id.
type Upload struct {
	ID        string    `db:"id"`
	AccountID string    `db:"account_id"`
	AgentID   string    `db:"agent_id"`
	ChatID    string    `db:"chat_id"`    // visitor's chat; empty for an upload of the account
	TagID     string    `db:"tag_id"`     // script tag of the chat; empty if there is none
	Network   string    `db:"network"`    // hash of the visitor's network; empty without a tag, or if it is unknown
	SessionID string    `db:"session_id"` // session of its message; empty before
	Name      string    `db:"name"`       // path in its drive
	MimeType  string    `db:"mime"`
	Size      int64     `db:"size"`   // in bytes
	SHA256    string    `db:"sha256"` // empty until its content is stored
	CreatedAt time.Time `db:"created_at"`
	ExpiresAt time.Time `db:"expires_at"` // does not apply once a message contains it
}

// An Attachment is a file of a message.
type Attachment struct {
	ID       string `json:"id"`
	Name     string `json:"name"` // unique in the session, because tools find the file by it
	Path     string `json:"path"` // path in the drive of its upload
	MimeType string `json:"mimeType"`
	Size     int64  `json:"size"` // in bytes
	SHA256   string `json:"sha256"`
}

// VisitorAttachments are the files that a visitor may attach.
type VisitorAttachments struct {
	MaxFiles int      `json:"maxFiles"` // limit of the chat, not of a message
	MaxBytes int64    `json:"maxBytes"` // limit of each file
	Types    []string `json:"types"`
}

const (
	AttachImage    = "image"
	AttachPDF      = "pdf"
	AttachText     = "text"
	AttachDocument = "document"
)
