package stoa

import "time"

// TriggerTest is the type of the trigger of a session of a [TestRun].
const TriggerTest = "test"

// A TestSet is a list of questions to an agent with what their replies must be like.
type TestSet struct {
	ID        string         `db:"id"`
	AccountID string         `db:"account_id"`
	AgentID   string         `db:"agent_id"`
	Name      string         `db:"name"`
	Questions []TestQuestion `db:"questions,json"`
	Revision  int64          `db:"revision"`
	CreatedAt time.Time      `db:"created_at"`
	UpdatedAt time.Time      `db:"updated_at"`
}

// A TestQuestion is a question to an agent. Its reply must contain all facts and none of the absent texts, and fit the schema unless
// that is empty.
type TestQuestion struct {
	Message     string   `json:"message"`
	Facts       []string `json:"facts,omitempty"`
	Absent      []string `json:"absent,omitempty"`
	ReplySchema string   `json:"replySchema,omitempty"`
}

// A TestRun asks the questions of a test set to the version of the agent that was in use when it began, and to a candidate if it has
// one.
type TestRun struct {
	ID               string         `db:"id"`
	AccountID        string         `db:"account_id"`
	AgentID          string         `db:"agent_id"`
	SetID            string         `db:"set_id"`
	KeyID            string         `db:"key_id"` // key that began it, with which it ends
	Name             string         `db:"name"`   // of the set
	Status           TestRunStatus  `db:"status"`
	Reason           string         `db:"reason"`            // why it stopped or stops; empty if nothing stops it
	Version          int64          `db:"version"`           // in use
	CandidateVersion int64          `db:"candidate_version"` // 0 without one
	Draft            *AgentSettings `db:"draft,optional"`    // of the candidate; nil without one
	Questions        []TestQuestion `db:"questions,json"`
	MaxCredits       Credits        `db:"max_credits"`
	CreatedAt        time.Time      `db:"created_at"`
	FinishedAt       time.Time      `db:"finished_at"`
}

// Sides returns the number of sides that the questions are asked to.
func (r TestRun) Sides() int {
	if r.CandidateVersion == 0 && r.Draft == nil {
		return 1
	}
	return 2
}

// A TestRunStatus is the status of a [TestRun].
type TestRunStatus string

// The statuses of runs, and the reasons why they stop.
const (
	TestRunning   TestRunStatus = "running"
	TestCompleted TestRunStatus = "completed"
	TestStopped   TestRunStatus = "stopped"
	TestCancelled TestRunStatus = "cancelled"

	TestReasonCancelled = "cancelled"
	TestReasonCredits   = "credits"
	TestReasonKey       = "key_revoked"
	TestReasonAccount   = "account_suspended"
)

// A TestResult is the result of a question on one side of a run.
type TestResult struct {
	AccountID    string   `db:"account_id"`
	AgentID      string   `db:"agent_id"`
	RunID        string   `db:"run_id"`
	Number       int      `db:"number"` // of the question, from 1
	Side         int      `db:"side"`   // 0 is the version in use, 1 the candidate
	Status       string   `db:"status"`
	Verdict      string   `db:"verdict"` // empty before the end
	Reasons      []string `db:"reasons,optional"`
	Reply        string   `db:"reply"` // its beginning
	SessionID    string   `db:"session_id"`
	Credits      Credits  `db:"credits"`
	Cap          Credits  `db:"cap"` // most that its session can cost
	Milliseconds int64    `db:"milliseconds"`
}

// The statuses and verdicts of results.
const (
	ResultPending = "pending"
	ResultRunning = "running"
	ResultDone    = "done"
	ResultSkipped = "skipped"

	VerdictPass  = "pass"
	VerdictFail  = "fail"
	VerdictError = "error"
)
