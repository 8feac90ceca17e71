package stoa

import (
	"reflect"
	"slices"
	"time"
)

// A Space groups agents of an account.
type Space struct {
	ID          string            `db:"id"`
	AccountID   string            `db:"account_id"`
	ExternalID  string            `db:"external_id,null"`
	Name        string            `db:"name"`
	Description string            `db:"description"`
	Metadata    map[string]string `db:"metadata,json"`
	Revision    int64             `db:"revision"`
	CreatedAt   time.Time         `db:"created_at"`
	UpdatedAt   time.Time         `db:"updated_at"`
}

// An Agent contains the instructions, model and drive for sessions. Version counts the changes
// of its settings, because a session pins one version.
type Agent struct {
	ID          string `db:"id"`
	AccountID   string `db:"account_id"`
	SpaceID     string `db:"space_id"`
	ExternalID  string `db:"external_id,null"`
	Name        string `db:"name"`
	Description string `db:"description"`
	AgentSettings
	EmbedEnabled bool              `db:"embed_enabled"`
	Expose       []string          `db:"expose,optional"` // the protocols through which it is offered: ExposeResponses and so on
	Metadata     map[string]string `db:"metadata,json"`
	Version      int64             `db:"version"`
	Revision     int64             `db:"revision"` // number of all changes
	CreatedAt    time.Time         `db:"created_at"`
	UpdatedAt    time.Time         `db:"updated_at"`
}

// The protocols through which an agent can be offered.
const (
	ExposeResponses = "responses" // as a model
	ExposeMCP       = "mcp"       // as a tool
	ExposeAGUI      = "agui"      // for front ends that speak AG-UI
	ExposeSkills    = "skills"    // its skills can be read by clients of MCP; only with ExposeMCP
)

// AgentModel begins the names of agents as models.
const AgentModel = "agent/"

// AgentSettings are the settings of an agent that its sessions pin. A draft stores them as JSON
// under the names of these fields, so renaming a field breaks stored drafts. JSON omits those that are columns
// of the draft's session.
type AgentSettings struct {
	Instructions string       `db:"instructions"`
	Model        string       `db:"model"`
	DriveAccess  DriveAccess  `db:"drive_access"`
	VisitorDrive VisitorDrive `db:"visitor_drive"`
	Tools        []AgentTool  `db:"tools,optional"`
	Limits       TurnLimits   `json:"-"`
	Timezone     string       `db:"timezone" json:"-"` // IANA name of the zone for the current time in its prompt
	CompactAt    int          `db:"compact_at"`        // share of a model's window, in percent, above which its sessions are summarized; 0 means the operator's, -1 never
	Tables       bool         `db:"tables"`            // the agent can use the tools that query tables
	// Calls are settings of its model calls; nil means none.
	Calls *CallSettings `db:"call_settings,optional" json:",omitzero"`
}

// CallSettings are settings of an agent's model calls.
type CallSettings struct {
	ReplySchema string   `json:",omitzero"` // JSON Schema of the final answer of each turn; empty means free text
	Effort      string   `json:",omitzero"` // see [Call.Effort]
	Temperature *float64 `json:",omitzero"` // 0 to 2; nil means the model's own
	ToolSearch  bool     `json:",omitzero"` // the model searches many tools instead of reading them all; see [FindTool]
	Skills      []Skill  `json:",omitzero"` // in the order of their names
	Memory      string   `json:",omitzero"` // [MemoryUser], or empty if it remembers nobody
}

// A Skill is a folder of an agent's drive with instructions that the agent may use, as it was when somebody reviewed it. If the files differ
// now, new sessions do not get it.
type Skill struct {
	Name        string
	Description string      // from its SKILL.md when it was reviewed; empty before the first review
	Files       []SkillFile // in the order of their paths; empty before the first review
	Source      string      `json:",omitzero"` // the server that it was imported from; empty for a skill of the account's own
}

// A SkillFile is a file of a [Skill]. Its path is relative to the folder of the skill.
type SkillFile struct {
	Path   string
	Size   int64  // bytes
	SHA256 string // lower-case hexadecimal
}

// CallSettings returns the settings of the agent's model calls.
func (s *AgentSettings) CallSettings() CallSettings {
	if s.Calls == nil {
		return CallSettings{}
	}
	return *s.Calls
}

// SetCallSettings sets the settings of the agent's model calls.
func (s *AgentSettings) SetCallSettings(c CallSettings) {
	if s.Calls = nil; !reflect.ValueOf(c).IsZero() {
		s.Calls = &c
	}
}

// Equal reports whether all settings are equal.
func (s AgentSettings) Equal(o AgentSettings) bool {
	equal := slices.EqualFunc(s.Tools, o.Tools, AgentTool.Equal)
	s.Tools, o.Tools = nil, nil
	return equal && reflect.DeepEqual(s, o)
}

// An AgentVersion is the immutable configuration that a session pins, so that later changes of
// the agent do not change the session.
type AgentVersion struct {
	AgentID string `db:"agent_id"`
	Version int64  `db:"version"`
	AgentSettings
	CreatedAt time.Time `db:"created_at"`
}

// DriveAccess is an agent's permission for its drive.
type DriveAccess string

// The permissions of an agent for its drive.
const (
	DriveReadOnly  DriveAccess = "read_only"
	DriveReadWrite DriveAccess = "read_write"
	DriveNone      DriveAccess = "none" // only for sessions, see [VisitorDrive.Access]
)

// VisitorDrive is an agent's permission for its drive in a session that an embed shows.
type VisitorDrive string

// The permissions of an agent for its drive in a session that an embed shows.
const (
	VisitorDriveNone  VisitorDrive = "none"
	VisitorDriveRead  VisitorDrive = "read"
	VisitorDriveWrite VisitorDrive = "write"
)

// Access returns the access to the drive in a session that an embed shows; agent is the access
// otherwise. An empty v means reading, because older drafts do not contain the setting.
func (v VisitorDrive) Access(agent DriveAccess) DriveAccess {
	switch v {
	case VisitorDriveNone:
		return DriveNone
	case VisitorDriveWrite:
		return agent
	default:
		return DriveReadOnly
	}
}

// TurnLimits bound one turn. Zero means the configured default.
type TurnLimits struct {
	MaxCredits Credits       `db:"max_credits"` // limit of all its model calls; 0 means no limit besides the balance
	Timeout    time.Duration `db:"timeout"`     // time from the first claim, without the waits for input
	MaxSteps   int           `db:"max_steps"`
}

// SessionStatus is the status of a session: that of its newest turn.
type SessionStatus string

// The statuses. A client polls until one of the last four.
const (
	SessionQueued    SessionStatus = "queued"
	SessionRunning   SessionStatus = "running"
	SessionWaiting   SessionStatus = "waiting_for_input"
	SessionCompleted SessionStatus = "completed"
	SessionFailed    SessionStatus = "failed"
	SessionCancelled SessionStatus = "cancelled"
)

// ActiveStatuses are those of a session whose turn has not ended, EndedStatuses the others.
// BusyStatuses are the active ones that do not need a client. All code must use these lists, also in
// SQL, because a test compares them with the tables and indexes.
var (
	BusyStatuses   = []SessionStatus{SessionQueued, SessionRunning}
	ActiveStatuses = append(slices.Clone(BusyStatuses), SessionWaiting)
	EndedStatuses  = []SessionStatus{SessionCompleted, SessionFailed, SessionCancelled}
)

// Stopped reports whether a client's polling ends at this status.
func (s SessionStatus) Stopped() bool { return !slices.Contains(BusyStatuses, s) }

// Ended reports whether the turn has ended.
func (s SessionStatus) Ended() bool { return slices.Contains(EndedStatuses, s) }

// A SessionMode is the kind of a conversation.
type SessionMode string

// The modes: a chat session may wait for input and accepts further messages; a once session
// has exactly one turn.
const (
	ModeChat SessionMode = "chat"
	ModeOnce SessionMode = "once"
)

// CanBecome reports whether the transition from one status to the next is legal.
// A stopped session continues only with a new turn: a message, an answer, a
// retry.
func (s SessionStatus) CanBecome(next SessionStatus) bool {
	switch s {
	case SessionQueued:
		return next == SessionRunning || next == SessionCancelled || next == SessionFailed
	case SessionRunning:
		return next != SessionRunning // it is queued again when its worker is lost
	case SessionWaiting:
		return next == SessionQueued || next == SessionFailed || next == SessionCancelled
	}
	return s.Ended() && next == SessionQueued
}
