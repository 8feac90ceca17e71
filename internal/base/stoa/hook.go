package stoa

import "time"

// A Hook is an address at which another service starts turns of an agent with signed requests.
type Hook struct {
	ID             string        `db:"id"`
	AccountID      string        `db:"account_id"`
	AgentID        string        `db:"agent_id"`
	KeyID          string        `db:"key_id"` // key whose end disables the hook, and which the receipts of its turns name
	Name           string        `db:"name"`
	Signature      HookSignature `db:"signature,json"`
	Message        string        `db:"message_path"`  // this and the next three are JSON Pointers into the body; empty means the whole body
	ExternalID     string        `db:"external_path"` // empty means that each event starts a session
	ExternalUserID string        `db:"user_path"`     // empty means none
	EventID        string        `db:"event_path"`    // or the name of a header; empty means the default of the signature
	Mode           SessionMode   `db:"mode"`
	Networks       []string      `db:"networks,fields"` // permitted CIDR blocks; empty means all
	TurnsPerDay    int           `db:"turns_per_day"`
	MaxCredits     Credits       `db:"max_credits"` // limit of one turn; 0 means no limit besides the agent's
	Disabled       string        `db:"disabled"`    // reason why it accepts nothing; empty if it accepts requests
	Sealed         string        `db:"sealed"`      // encrypted secrets
	SecretVersion  int64         `db:"secret_version"`
	Revision       int64         `db:"revision"`
	CreatedAt      time.Time     `db:"created_at"`
	UpdatedAt      time.Time     `db:"updated_at"`
}

// A HookSignature is the way in which the other service signs its requests. All members but Kind
// belong to [SignedHMAC].
type HookSignature struct {
	Kind      string `json:"kind"`
	Header    string `json:"header,omitempty"`
	Algorithm string `json:"algorithm,omitempty"` // sha256 or sha512
	Encoding  string `json:"encoding,omitempty"`  // hex or base64
	Prefix    string `json:"prefix,omitempty"`    // text before the signature in the header
}

// The kinds of signatures.
const (
	SignedStandard = "standard" // https://www.standardwebhooks.com
	SignedGitHub   = "github"
	SignedSlack    = "slack"
	SignedHMAC     = "hmac" // an HMAC of the body in a header
)

// TriggerHook is the type of the trigger of a hook's session.
const TriggerHook = "hook"
