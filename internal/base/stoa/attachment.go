package stoa

import "time"

// Limits of attachments.
const (
	MaxAttachments        = 10        // files of a message
	MaxSessionAttachments = 50        // files of a session
	MaxUploads            = 100       // uploads of an account without a message; half of them of visitors
	UploadLife            = time.Hour // of an upload without a message
)

// An Upload is a file for a message. It is stored in a drive of its own, whose owner is its id.
type Upload struct {
	ID        string    `db:"id"`
	AccountID string    `db:"account_id"`
	AgentID   string    `db:"agent_id"`
	ChatID    string    `db:"chat_id"`    // of the visitor who sent it; empty for one of the account
	TagID     string    `db:"tag_id"`     // of the script tag of the chat; empty without
	Network   string    `db:"network"`    // hash of the visitor's network; empty without a tag, or if it is unknown
	SessionID string    `db:"session_id"` // with the message that has it; empty before
	Name      string    `db:"name"`       // its path in its drive
	MimeType  string    `db:"mime"`
	Size      int64     `db:"size"`   // in bytes
	SHA256    string    `db:"sha256"` // empty until its content is stored
	CreatedAt time.Time `db:"created_at"`
	ExpiresAt time.Time `db:"expires_at"` // unless a message has it
}

// An Attachment is a file of a message.
type Attachment struct {
	ID       string `json:"id"`   // of its upload
	Name     string `json:"name"` // unique in the session
	Path     string `json:"path"` // in the drive of its upload
	MimeType string `json:"mimeType"`
	Size     int64  `json:"size"` // in bytes
	SHA256   string `json:"sha256"`
}

// VisitorAttachments are the files that a visitor may attach.
type VisitorAttachments struct {
	MaxFiles int      `json:"maxFiles"` // of the chat
	MaxBytes int64    `json:"maxBytes"` // of a file
	Types    []string `json:"types"`    // see the kinds
}

// The kinds of files that an embed can accept.
const (
	AttachImage    = "image"
	AttachPDF      = "pdf"
	AttachText     = "text"
	AttachDocument = "document"
)
