package stoa

import "time"

// EmbedKind is the way in which a page gets the token of an embed.
type EmbedKind string

// The kinds of embeds.
const (
	EmbedURL     EmbedKind = "url"     // a ticket for the service's own chat page
	EmbedSession EmbedKind = "session" // a token for a page of the customer's
)

// An Embed is the permission to show an agent in a page, for one chat.
type Embed struct {
	ID                string              `db:"id"`
	AccountID         string              `db:"account_id"`
	AgentID           string              `db:"agent_id"`
	KeyID             string              `db:"key_id"` // creating key, which the receipts of its chat name
	TagID             string              `db:"tag_id"` // script tag that created it for a visitor; empty if none did
	Kind              EmbedKind           `db:"kind"`
	ChatID            string              `db:"chat_id"` // session, which begins with its first message
	Origins           []string            `db:"origins,json"`
	ExternalUserID    string              `db:"external_user_id"`
	Greeting          string              `db:"greeting"`
	Theme             string              `db:"theme"`
	MessagesPerMinute int                 `db:"messages_per_minute"`
	MaxMessages       int                 `db:"max_messages"`
	MaxMessageChars   int                 `db:"max_message_chars"`
	MaxCredits        Credits             `db:"max_credits"`  // 0 means only the balance limits it
	SpentBefore       Credits             `db:"spent_before"` // credits of the chat before the embed was created
	TokenLife         time.Duration       `db:"token_life"`
	ChatLife          time.Duration       `db:"chat_life"`       // time from the first token to the end of all tokens
	ExpiresAt         time.Time           `db:"expires_at"`      // last time at which the ticket of an embed URL can be exchanged
	ChatExpiresAt     time.Time           `db:"chat_expires_at"` // zero before the exchange
	ExchangedAt       time.Time           `db:"exchanged_at"`    // exchange of an embed URL; zero before
	RevokedAt         time.Time           `db:"revoked_at"`      // zero if not revoked
	UsedAt            time.Time           `db:"used_at"`         // newest message; zero means never
	CreatedAt         time.Time           `db:"created_at"`
	Messages          int                 `db:"messages"`
	Recent            []time.Time         `db:"recent,times"`         // times of its messages in the last minute
	Refused           int64               `db:"refused"`              // number of requests from unlisted origins
	Attachments       *VisitorAttachments `db:"attachments,optional"` // permitted files; nil means that a visitor may attach nothing
	EmbedLook
}

// An EmbedLook is the title, the logo and the suggested questions of a chat.
type EmbedLook struct {
	Title    string   `db:"title"`             // empty means the agent's name
	Logo     string   `db:"logo"`              // the id of an [EmbedLogo]; empty means none
	Starters []string `db:"starters,optional"` // questions that are offered before the first message
	Feedback bool     `db:"feedback"`          // visitors can rate answers
	Contact  bool     `db:"contact"`           // visitors can ask for a person
}

// An EmbedLogo is a picture for embeds. Its id is public. Its content never changes, so that
// browsers may cache it.
type EmbedLogo struct {
	ID        string    `db:"id"`
	AccountID string    `db:"account_id"`
	MimeType  string    `db:"mime_type"`
	Bytes     int64     `db:"bytes"`
	Width     int64     `db:"width"` // in pixels
	Height    int64     `db:"height"`
	CreatedAt time.Time `db:"created_at"`
}

// An EmbedTag is a launcher for pages without a server. Its id is public, because the pages contain it.
type EmbedTag struct {
	ID          string              `db:"id"`
	AccountID   string              `db:"account_id"`
	AgentID     string              `db:"agent_id"`
	KeyID       string              `db:"key_id"` // key whose end disables the tag, and which the receipts of its chats name
	Origins     []string            `db:"origins,json"`
	Greeting    string              `db:"greeting"`
	Theme       string              `db:"theme"`
	Accent      string              `db:"accent"` // #rrggbb; empty means the service's own
	Position    string              `db:"position"`
	Language    string              `db:"language"`
	MaxCredits  Credits             `db:"max_credits"` // limit of one chat
	ChatsPerDay int                 `db:"chats_per_day"`
	Disabled    string              `db:"disabled"`             // reason why it is not shown; empty if it is shown
	Refused     int64               `db:"refused"`              // number of requests from unlisted origins
	Attachments *VisitorAttachments `db:"attachments,optional"` // permitted files of its chats; nil means none
	EmbedLook
	Revision  int64     `db:"revision"`
	CreatedAt time.Time `db:"created_at"`
	UpdatedAt time.Time `db:"updated_at"`
}

// Status returns revoked, pending (before the exchange), active or expired.
func (e *Embed) Status(now time.Time) string {
	switch {
	case !e.RevokedAt.IsZero():
		return "revoked"
	case e.ChatExpiresAt.IsZero() && now.Before(e.ExpiresAt):
		return "pending"
	case now.Before(e.ChatExpiresAt):
		return "active"
	}
	return "expired"
}
