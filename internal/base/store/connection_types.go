package store

import (
	"time"

	"stoa/internal/base/stoa"
)

// A Secret is a stored value that requests to one origin need. Its value is encrypted and opened for
// one request at a time.
type Secret struct {
	ID             string    `db:"id"`
	AccountID      string    `db:"account_id"`
	Name           string    `db:"name"`
	Kind           string    `db:"kind"`        // such as SecretBearer
	HeaderName     string    `db:"header_name"` // name of the header or, for SecretQuery, of the parameter
	Origin         string    `db:"origin"`      // the only origin to which it is sent
	Hint           string    `db:"hint"`        // the last characters of the value; empty if it is short
	Sealed         string    `db:"sealed"`
	Version        int64     `db:"version"` // number of values set so far
	CreatedAt      time.Time `db:"created_at"`
	UpdatedAt      time.Time `db:"updated_at"`       // time at which the value was set
	SpaceID        string    `db:"space_id"`         // the space whose connections may use it; empty means all
	ExternalUserID string    `db:"external_user_id"` // the only user in whose sessions it is sent; empty means all
	LastUsedAt     time.Time `db:"last_used_at"`     // exact to a minute; zero means never
	ExpiresAt      time.Time `db:"expires_at"`       // time from which it is not sent; zero means never
	DeletedAt      time.Time `db:"deleted_at"`       // time at which its value was deleted; the row stays because calls name it; zero if it was not deleted
}

// Expired reports whether the secret is not sent any more at a time.
func (s Secret) Expired(now time.Time) bool { return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt) }

// The kinds of secrets.
const (
	SecretBearer = "bearer"
	SecretHeader = "header"
	SecretBasic  = "basic" // user:password
	SecretQuery  = "query" // a parameter of the address
	SecretToken  = "token" // never sent with calls, such as the secret of an OAuth client
)

// A Connection is a server with tools.
type Connection struct {
	ID             string            `db:"id"`
	AccountID      string            `db:"account_id"`
	SpaceID        string            `db:"space_id"`
	Kind           string            `db:"kind"`
	Name           string            `db:"name"`
	URL            string            `db:"url"`          // empty before the OpenAPI document that contains it is read
	DocumentURL    string            `db:"document_url"` // address of an OpenAPI document; empty if there is none, or if its text is stored
	SecretID       string            `db:"secret_id"`    // empty if requests carry none
	Headers        map[string]string `db:"headers,json"`
	Metadata       map[string]string `db:"metadata,json"`
	Protocol       string            `db:"protocol"` // version at the last refresh; empty before the first one
	ServerName     string            `db:"server_name"`
	ServerVersion  string            `db:"server_version"`
	Instructions   string            `db:"instructions"` // the server's own description
	ErrorCode      string            `db:"error_code"`   // result of the last refresh; empty on success
	ErrorMessage   string            `db:"error_message"`
	Revision       int64             `db:"revision"`
	CheckedAt      time.Time         `db:"checked_at"` // time of the last refresh; zero if none
	CreatedAt      time.Time         `db:"created_at"`
	UpdatedAt      time.Time         `db:"updated_at"`
	OnChange       string            `db:"on_change"` // OnChangeBlock or OnChangeKeep
	Limits         ConnectionLimits
	OAuth          *OAuth                `db:"oauth,optional"`          // the authorization by OAuth; nil if not used
	ClientSecretID string                `db:"client_secret_id"`        // secret of the OAuth client; empty if none is stored
	PerSession     string                `db:"credentials_per_session"` // PerSessionOff, PerSessionOptional or PerSessionRequired
	Disabled       bool                  `db:"enabled,not"`             // disabled: its server is not contacted
	Filter         *stoa.OperationFilter `db:"filter,optional"`         // operations of a connection of the kind openapi; nil selects all
	Sessions       string                `db:"sessions"`                // SessionsTurn or SessionsSession
	Authorized     bool                  // there are tokens; not stored with it
	Authorization  *Authorization        // the newest one; nil if none. Not stored with it
	Tools          map[ToolState]int     // numbers of tools; not stored with it
}

// OAuth defines the authorization of a connection.
type OAuth struct {
	Grant    string   `json:"grant"` // GrantCode or GrantClient
	Scopes   []string `json:"scopes,omitempty"`
	ClientID string   `json:"clientId,omitempty"` // empty means the client registers itself
	Lacking  []string `json:"lacking,omitempty"`  // scopes that the server required for calls, which are requested too
}

// How long a session at a server lasts.
const (
	SessionsTurn    = "turn"    // it ends when the turn ends or waits
	SessionsSession = "session" // it lasts as long as that of the agent
)

// The grants of OAuth.
const (
	GrantCode   = "authorization_code"
	GrantClient = "client_credentials"
)

// Whether sessions use their own secrets for a connection.
const (
	PerSessionOff      = "off"
	PerSessionOptional = "optional" // or else that of the connection is sent
	PerSessionRequired = "required"
)

// The kinds of connections.
const (
	KindMCP     = "mcp"     // a server of the Model Context Protocol
	KindHTTP    = "http"    // requests that the owner describes
	KindOpenAPI = "openapi" // requests that an OpenAPI document describes
)

// What happens to a tool whose definition differs from the one that was approved.
const (
	OnChangeBlock = "block" // the tool is withheld until it is reviewed
	OnChangeKeep  = "keep"  // the tool keeps the approved definition
)

// ConnectionLimits bound the calls of a connection's tools.
type ConnectionLimits struct {
	TimeoutSeconds int64 `db:"timeout_seconds"`
	MaxResultBytes int64 `db:"max_result_bytes"`
	MaxConcurrent  int64 `db:"max_concurrent"`
	CallsPerMinute int64 `db:"calls_per_minute"`
}

// Limits of calls: the defaults of a connection, and the maximums.
var (
	DefaultConnectionLimits = ConnectionLimits{TimeoutSeconds: 30, MaxResultBytes: 256 << 10, MaxConcurrent: 8, CallsPerMinute: 60}
	MaxConnectionLimits     = ConnectionLimits{TimeoutSeconds: 300, MaxResultBytes: 4 << 20, MaxConcurrent: 32, CallsPerMinute: 600}
)

// Allows reports whether a tool of the connection may be called: with the definition
// that was approved.
func (c Connection) Allows(t ConnectionTool) bool {
	return t.State == ToolApproved || t.State == ToolChanged && c.OnChange == OnChangeKeep
}

// A ToolState is the review state of a tool.
type ToolState string

// The states of a tool.
const (
	ToolNew      ToolState = "new"
	ToolApproved ToolState = "approved"
	ToolChanged  ToolState = "changed"  // approved, with another definition since
	ToolMissing  ToolState = "missing"  // approved, and gone since
	ToolRejected ToolState = "rejected" // in the definition that it has
	ToolInvalid  ToolState = "invalid"  // cannot be used
)

// Whether a tool may be offered in the sessions of visitors.
const (
	VisitorsNo      = "no"
	VisitorsYes     = "yes"
	VisitorsConfirm = "confirm" // the visitor is asked before each call
)

// A ConnectionTool is a tool of a server, with its current and its approved definition.
type ConnectionTool struct {
	AccountID           string    `db:"account_id"`
	ConnectionID        string    `db:"connection_id"`
	Name                string    `db:"name"`
	ModelName           string    `db:"model_name"`
	Definition          string    `db:"definition"`          // canonical JSON
	SHA256              string    `db:"sha256"`              // hash of Definition
	Problem             string    `db:"problem"`             // the reason why it cannot be used; empty if it can
	Present             bool      `db:"present"`             // the last refresh found it
	ApprovedDefinition  string    `db:"approved_definition"` // empty if none is approved
	ApprovedSHA256      string    `db:"approved_sha256"`
	RejectedSHA256      string    `db:"rejected_sha256"`
	Approval            string    `db:"approval"`               // as reviewed; empty until then
	Effects             string    `db:"effects"`                // as reviewed; empty until then
	Visitors            string    `db:"visitors"`               // as reviewed: VisitorsNo, VisitorsYes or VisitorsConfirm
	VisitorTitle        string    `db:"visitor_title"`          // title of the question to a visitor; empty means that of the definition
	PublicFields        []string  `db:"public_fields,optional"` // JSON Pointers to the arguments that a visitor may see
	OnUnknown           string    `db:"on_unknown"`             // as reviewed: stoa.UnknownTells or stoa.UnknownFails; empty until then
	IdempotencyArgument string    `db:"idempotency_argument"`   // as reviewed: the argument that contains the id of a call; may be empty
	State               ToolState `db:"state"`
}

// Judge sets the state of a tool from its definitions.
func (t *ConnectionTool) Judge() {
	switch {
	case !t.Present:
		t.State = ToolMissing
	case t.Problem != "":
		t.State = ToolInvalid
	case t.SHA256 == t.ApprovedSHA256:
		t.State = ToolApproved
	case t.SHA256 == t.RejectedSHA256:
		t.State = ToolRejected
	case t.ApprovedSHA256 != "":
		t.State = ToolChanged
	default:
		t.State = ToolNew
	}
}
