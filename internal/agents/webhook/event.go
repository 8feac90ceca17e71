package webhook

import (
	"context"
	"slices"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
)

// The types of events.
const (
	SessionCompleted  = "session.completed"
	SessionFailed     = "session.failed"
	SessionCancelled  = "session.cancelled"
	SessionWaiting    = "session.waiting_for_input"
	RunFinished       = "scheduled_task.run_finished"
	RunSkipped        = "scheduled_task.run_skipped"
	TaskPaused        = "scheduled_task.paused"
	CreditsLow        = "credits.low"
	CreditsExhausted  = "credits.exhausted"
	KeyExpiring       = "key.expiring"
	KeyPauseSoon      = "key.pause_soon"
	WebhookFailing    = "webhook.failing"
	WebhookDisabled   = "webhook.disabled"
	CallUnknown       = "tool_call.unknown"
	ReviewNeeded      = "connection.review_needed"
	NeedsAuth         = "connection.needs_authorization"
	AttachmentCreated = "attachment.created"
	MessageFeedback   = "message.feedback"
	PersonRequested   = "chat.person_requested"
	AuditAnchor       = "audit.anchor"
	AuditRecorded     = store.AuditRecorded
	BudgetThreshold   = "budget.threshold"
	ProviderDown      = "provider.down"
	ProviderUp        = "provider.up"
	ErrorsHigh        = "errors.high"
	BalanceLow        = "account.balance_low"
	NodeLost          = store.NodeLost
	ConfigRefused     = store.ConfigRefused
	test              = "webhook.test" // sent by [Hooks.Test]; no webhook subscribes to it
)

// OfService reports whether a type of event is an alert of the service, which only webhooks with
// that scope receive.
func OfService(kind string) bool {
	return slices.Contains([]string{ProviderDown, ProviderUp, ErrorsHigh, BalanceLow, NodeLost, ConfigRefused}, kind)
}

// InScope reports whether a webhook can subscribe to a type of event: one of the scope service to
// alerts, another one to the events of its account, and both to [WebhookFailing] of their own scope.
func InScope(kind string, service bool) bool {
	return kind == WebhookFailing || OfService(kind) == service
}

// An Event is an event of an account.
type Event struct {
	AccountID string
	SpaceID   string // space of the event; if AgentID is empty too, it is about the account
	AgentID   string // agent in whose space it happened, if SpaceID is empty
	Type      string
	Data      any // the member data: ids and words, no texts; at most about 3 KiB, since each delivery stores it

	to, except string
	once       bool
	service    bool // the webhooks that receive alerts of the service receive it, whatever the type
}

// Emit adds a delivery of an event for each webhook subscribed to it, in the transaction of its cause,
// so that neither exists without the other. For an account without webhooks the cost is one index
// lookup.
func Emit(ctx context.Context, tx *store.Tx, e Event) error {
	_, err := emit(ctx, tx, e)
	return err
}

func emit(ctx context.Context, tx *store.Tx, e Event) (id string, err error) {
	id = stoa.NewID("evt")
	return id, tx.Operations().InsertEvent(ctx, store.NewEvent{
		ID: id, AccountID: e.AccountID, Type: e.Type, Data: e.Data, SpaceID: e.SpaceID, AgentID: e.AgentID, To: e.to, Except: e.except, Once: e.once, Service: e.service || OfService(e.Type),
	})
}

type sessionData struct {
	AccountID      string       `json:"accountId"`
	SpaceID        string       `json:"spaceId"`
	AgentID        string       `json:"agentId"`
	SessionID      string       `json:"sessionId"`
	ExternalID     string       `json:"externalId,omitempty"`
	ExternalUserID string       `json:"externalUserId,omitempty"`
	Turn           int64        `json:"turn"`
	StatusReason   string       `json:"statusReason,omitempty"`
	Error          *failureData `json:"error,omitempty"`
	Trigger        triggerData  `json:"trigger"`
	LastEventSeq   int64        `json:"lastEventSeq"`
	PendingInput   *inputData   `json:"pendingInput,omitempty"`
	ReplyJSON      *unsent      `json:"replyJson,omitzero"` // the last member, see [Dispatcher.withReply]
}

// unsent is null in a stored delivery, because what a session says is not stored twice.
type unsent struct{}

// MarshalJSON implements [json.Marshaler].
func (unsent) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

type failureData struct {
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
}

type triggerData struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
}

type inputData struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind"`
	ExpiresAt string   `json:"expiresAt"`
	Tools     []string `json:"tools,omitempty"`
}

// SessionStopped emits the event of a session that has stopped, or waits for input. The row must be in
// its written state, because the event contains the number of its newest event.
func SessionStopped(ctx context.Context, tx *store.Tx, s stoa.Session) error {
	e := Event{AccountID: s.AccountID, SpaceID: s.SpaceID}
	d := sessionData{
		AccountID: s.AccountID, SpaceID: s.SpaceID, AgentID: s.AgentID, SessionID: s.ID, ExternalID: s.ExternalID, ExternalUserID: s.ExternalUserID,
		Turn: s.Turn.Number, StatusReason: s.Turn.Reason, Trigger: triggerData(s.Trigger), LastEventSeq: s.LastSeq,
	}
	switch s.Status {
	case stoa.SessionCompleted:
		e.Type = SessionCompleted
		if s.ReplySchema != "" {
			d.ReplyJSON = &unsent{}
		}
	case stoa.SessionCancelled:
		e.Type = SessionCancelled
	case stoa.SessionFailed:
		e.Type = SessionFailed
		if f := s.Turn.Failure; f != nil {
			d.Error = &failureData{Code: string(f.Code), Retryable: f.Retryable}
		}
	case stoa.SessionWaiting:
		e.Type = SessionWaiting
		if in := s.Pending; in != nil {
			d.PendingInput = &inputData{ID: in.ID, Kind: in.Kind, ExpiresAt: store.EventTime(in.ExpiresAt)}
			for _, c := range in.Calls {
				d.PendingInput.Tools = append(d.PendingInput.Tools, c.Tool)
			}
		}
	default:
		return nil
	}
	e.Data = d
	return Emit(ctx, tx, e)
}

// AttachmentAdded emits the event of a file that a visitor has uploaded.
func AttachmentAdded(ctx context.Context, tx *store.Tx, spaceID, externalUserID string, u stoa.Upload) error {
	return Emit(ctx, tx, Event{AccountID: u.AccountID, SpaceID: spaceID, Type: AttachmentCreated, Data: struct {
		AccountID      string `json:"accountId"`
		SpaceID        string `json:"spaceId"`
		AgentID        string `json:"agentId"`
		SessionID      string `json:"sessionId"`
		ExternalUserID string `json:"externalUserId,omitempty"`
		UploadID       string `json:"uploadId"`
		MimeType       string `json:"mimeType"`
		Size           int64  `json:"size"`
	}{u.AccountID, spaceID, u.AgentID, u.ChatID, externalUserID, u.ID, u.MimeType, u.Size}})
}

type callData struct {
	AccountID    string `json:"accountId"`
	SpaceID      string `json:"spaceId"`
	AgentID      string `json:"agentId"`
	SessionID    string `json:"sessionId"`
	Turn         int64  `json:"turn"`
	CallID       string `json:"callId"`
	Tool         string `json:"tool"`
	ConnectionID string `json:"connectionId,omitempty"`
}

// ToolCallUnknown emits the event of a tool call of which it is unknown whether it was
// carried out.
func ToolCallUnknown(ctx context.Context, tx *store.Tx, s stoa.Session, c stoa.ExternalCall) error {
	return Emit(ctx, tx, Event{AccountID: s.AccountID, SpaceID: s.SpaceID, Type: CallUnknown, Data: callData{
		AccountID: s.AccountID, SpaceID: s.SpaceID, AgentID: s.AgentID, SessionID: s.ID, Turn: c.Turn, CallID: c.ID, Tool: c.Tool, ConnectionID: c.ConnectionID,
	}})
}

type connectionData struct {
	AccountID    string `json:"accountId"`
	SpaceID      string `json:"spaceId"`
	ConnectionID string `json:"connectionId"`
}

type runData struct {
	AccountID        string `json:"accountId"`
	AgentID          string `json:"agentId"`
	TaskID           string `json:"taskId"`
	RunID            string `json:"runId,omitempty"`
	ScheduledFor     string `json:"scheduledFor,omitempty"`
	ScheduledThrough string `json:"scheduledThrough,omitempty"`
	Instants         int64  `json:"instants,omitempty"`
	Status           string `json:"status,omitempty"`
	SkipReason       string `json:"skipReason,omitempty"`
	SessionID        string `json:"sessionId,omitempty"`
	PauseReason      string `json:"pauseReason,omitempty"`
}

func ofTask(t stoa.ScheduledTask, kind string, d runData) Event {
	d.AccountID, d.AgentID, d.TaskID = t.AccountID, t.AgentID, t.ID
	return Event{AccountID: t.AccountID, AgentID: t.AgentID, Type: kind, Data: d}
}

// TaskRunFinished emits the event of a run that has ended.
func TaskRunFinished(ctx context.Context, tx *store.Tx, t stoa.ScheduledTask, r stoa.TaskRun) error {
	return Emit(ctx, tx, ofTask(t, RunFinished, runData{
		RunID: r.ID, ScheduledFor: store.EventTime(r.ScheduledFor), Status: r.Status, SessionID: r.SessionID,
	}))
}

// TaskRunsSkipped emits one event for each reason why runs were skipped, since a task may have thousands
// of them after a long absence. It names the newest run of the reason.
func TaskRunsSkipped(ctx context.Context, tx *store.Tx, t stoa.ScheduledTask, runs []stoa.TaskRun) error {
	var reasons []string
	of := map[string]runData{}
	for _, r := range runs {
		d, seen := of[r.SkipReason]
		if !seen {
			reasons = append(reasons, r.SkipReason)
			d = runData{ScheduledFor: store.EventTime(r.ScheduledFor), Status: stoa.RunSkipped, SkipReason: r.SkipReason}
		}
		d.RunID, d.ScheduledThrough = r.ID, store.EventTime(r.ScheduledFor)
		if !r.Through.IsZero() {
			d.ScheduledThrough = store.EventTime(r.Through)
		}
		d.Instants += max(1, int64(r.Instants))
		of[r.SkipReason] = d
	}
	for _, reason := range reasons {
		d := of[reason]
		if d.Instants == 1 {
			d.ScheduledThrough = ""
		}
		if err := Emit(ctx, tx, ofTask(t, RunSkipped, d)); err != nil {
			return err
		}
	}
	return nil
}

// ScheduledTaskPaused emits the event of a task that was paused, for any reason.
func ScheduledTaskPaused(ctx context.Context, tx *store.Tx, t stoa.ScheduledTask) error {
	return Emit(ctx, tx, ofTask(t, TaskPaused, runData{PauseReason: t.PauseReason}))
}

// OfConnection emits an event about a connection: [ReviewNeeded] or
// [NeedsAuth].
func OfConnection(ctx context.Context, tx *store.Tx, kind string, c store.Connection) error {
	return Emit(ctx, tx, Event{AccountID: c.AccountID, SpaceID: c.SpaceID, Type: kind, Data: connectionData{c.AccountID, c.SpaceID, c.ID}})
}

type budgetData struct {
	AccountID  string `json:"accountId"`
	BudgetID   string `json:"budgetId"`
	Scope      string `json:"scope"`
	Subject    string `json:"subject,omitempty"`
	Percent    int    `json:"percent"`
	SpentMicro int64  `json:"spentMicro"`
	LimitMicro int64  `json:"limitMicro"`
	StartsAt   string `json:"startsAt,omitempty"`
	ResetsAt   string `json:"resetsAt,omitempty"`
}

// BudgetReached emits the event of a budget whose use has reached a mark.
func BudgetReached(ctx context.Context, tx *store.Tx, m billing.Mark) error {
	b := &m.Budget
	d := budgetData{
		AccountID: b.AccountID, BudgetID: b.ID, Scope: string(b.Scope), Subject: m.Subject, Percent: m.Percent,
		SpentMicro: int64(m.Used), LimitMicro: int64(b.Limit),
	}
	if !m.Ends.IsZero() {
		d.StartsAt, d.ResetsAt = store.EventTime(m.Starts), store.EventTime(m.Ends)
	}
	return Emit(ctx, tx, Event{AccountID: b.AccountID, Type: BudgetThreshold, Data: d})
}

// MessageRated emits the event of a rating; an empty rating means that it was removed.
func MessageRated(ctx context.Context, tx *store.Tx, s stoa.Session, f stoa.Feedback, rating string) error {
	return Emit(ctx, tx, Event{AccountID: s.AccountID, SpaceID: s.SpaceID, Type: MessageFeedback, Data: struct {
		AccountID      string `json:"accountId"`
		SpaceID        string `json:"spaceId"`
		AgentID        string `json:"agentId"`
		SessionID      string `json:"sessionId"`
		ExternalID     string `json:"externalId,omitempty"`
		ExternalUserID string `json:"externalUserId,omitempty"`
		MessageID      string `json:"messageId"`
		Turn           int64  `json:"turn"`
		By             string `json:"by"`
		Rating         string `json:"rating,omitempty"`
		HasComment     bool   `json:"hasComment"`
	}{s.AccountID, s.SpaceID, s.AgentID, s.ID, s.ExternalID, s.ExternalUserID, f.MessageID, f.Turn, f.By, rating, rating != "" && f.Comment != ""}})
}

// PersonWanted emits the event of a visitor who asks for a person.
func PersonWanted(ctx context.Context, tx *store.Tx, s stoa.Session) error {
	return Emit(ctx, tx, Event{AccountID: s.AccountID, SpaceID: s.SpaceID, Type: PersonRequested, Data: struct {
		AccountID      string `json:"accountId"`
		SpaceID        string `json:"spaceId"`
		AgentID        string `json:"agentId"`
		SessionID      string `json:"sessionId"`
		ExternalID     string `json:"externalId,omitempty"`
		ExternalUserID string `json:"externalUserId,omitempty"`
		MessageID      string `json:"messageId"`
		Turn           int64  `json:"turn"`
	}{s.AccountID, s.SpaceID, s.AgentID, s.ID, s.ExternalID, s.ExternalUserID, s.Turn.MessageID, s.Turn.Number}})
}
