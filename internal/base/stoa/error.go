package stoa

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A Code identifies an error in replies. Package contract contains its HTTP status and meaning.
type Code string

// The codes. No other code is ever published.
const (
	CodeInvalidJSON          Code = "invalid_json"
	CodeMissingParameter     Code = "missing_required_parameter"
	CodeUnknownField         Code = "unknown_field"
	CodeUnknownParameter     Code = "unknown_parameter"
	CodeInvalidType          Code = "invalid_type"
	CodeInvalidValue         Code = "invalid_value"
	CodeInvalidHeader        Code = "invalid_header"
	CodeInvalidCursor        Code = "invalid_cursor"
	CodeInvalidPath          Code = "invalid_path"
	CodeInvalidMode          Code = "invalid_mode"
	CodeUnsupported          Code = "unsupported_parameter"
	CodeUnsupportedValue     Code = "unsupported_value"
	CodeModelNotFound        Code = "model_not_found"
	CodeContextLength        Code = "context_length_exceeded"
	CodeInvalidPrompt        Code = "invalid_prompt" // the provider rejected the caller's text
	CodeUnauthorized         Code = "Unauthorized"
	CodeScope                Code = "insufficient_scope"
	CodeSuspended            Code = "account_suspended"
	CodeModelNotInPlan       Code = "model_not_in_plan"
	CodeModelNotAllowed      Code = "model_not_allowed"   // the key excludes it
	CodeNetworkNotAllowed    Code = "network_not_allowed" // the key excludes it
	CodeKeyPaused            Code = "key_paused"          // the key's member has not signed in for too long
	CodeNotFound             Code = "not_found"
	CodeFileNotFound         Code = "file_not_found"
	CodeVersionNotFound      Code = "version_not_found"
	CodeTooManyAttachments   Code = "too_many_attachments"
	CodeUploadExpired        Code = "upload_expired"
	CodeAttachmentType       Code = "attachment_type"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeRequestTimeout       Code = "request_timeout"
	CodeConflict             Code = "already_exists"
	CodeSetInFile            Code = "set_in_file" // the configuration file sets it, so that the API must not
	CodePathConflict         Code = "path_conflict"
	CodeNoText               Code = "text_not_available"
	CodePrecondition         Code = "precondition_failed"
	CodeTooLarge             Code = "request_too_large"
	CodeMediaType            Code = "unsupported_media_type"
	CodeRange                Code = "range_not_satisfiable"
	CodeIdempotencyReused    Code = "idempotency_key_reused"
	CodeIdempotencyRunning   Code = "idempotency_in_progress"
	CodeQuota                Code = "insufficient_quota"
	CodeKeyBudget            Code = "key_budget_exceeded"
	CodeBudget               Code = "budget_exceeded"
	CodeRateLimit            Code = "rate_limit_exceeded"
	CodeInternal             Code = "server_error"
	CodeUpstream             Code = "upstream_error"
	CodePaymentService       Code = "payment_service_error"
	CodeOverloaded           Code = "server_is_overloaded"
	CodeModelUnavailable     Code = "model_unavailable"
	CodeUpstreamTimeout      Code = "upstream_timeout"
	CodeStorageFull          Code = "storage_full"
	CodeSpaceNotFound        Code = "space_not_found"
	CodeSpaceNotEmpty        Code = "space_not_empty"
	CodeAgentNotFound        Code = "agent_not_found"
	CodeSessionNotFound      Code = "session_not_found"
	CodeSessionBusy          Code = "session_busy"
	CodeSessionFinished      Code = "session_finished"
	CodeNotWaiting           Code = "not_waiting_for_input"
	CodeInputAnswered        Code = "input_already_answered"
	CodeTooManySessions      Code = "too_many_active_sessions"
	CodeOriginNotAllowed     Code = "origin_not_allowed"
	CodeEmbedDisabled        Code = "embed_disabled"
	CodeCrossOrigin          Code = "cross_origin"
	CodeEmbedUsed            Code = "embed_url_used"
	CodeEmbedExpired         Code = "embed_expired"
	CodeOriginsRequired      Code = "allowed_origins_required"
	CodeEmbedLimit           Code = "embed_limit_reached"
	CodeTaskNotFound         Code = "scheduled_task_not_found"
	CodeLimitReached         Code = "limit_reached"            // maximum of an account's objects
	CodeTooManyTasks         Code = "too_many_scheduled_tasks" // maximum of one agent
	CodeInvalidCron          Code = "invalid_cron"
	CodeInvalidTimezone      Code = "invalid_timezone"
	CodeInvalidURL           Code = "invalid_url"
	CodeWebhookNotFound      Code = "webhook_not_found"
	CodeDeliveryNotFound     Code = "delivery_not_found"
	CodeWebhookDisabled      Code = "webhook_disabled"
	CodeAddressNotAllowed    Code = "address_not_allowed"
	CodeSecretsKeyMissing    Code = "secrets_key_missing"
	CodeUpgradeRequired      Code = "upgrade_required"
	CodeConnectionNotFound   Code = "connection_not_found"
	CodeSecretNotFound       Code = "secret_not_found"
	CodeToolNotFound         Code = "tool_not_found"
	CodeSecretInUse          Code = "secret_in_use"
	CodeConnectionInUse      Code = "connection_in_use"
	CodeConnectionDisabled   Code = "connection_disabled"
	CodeToolChanged          Code = "tool_changed"
	CodeConfirmationRequired Code = "confirmation_required"
	CodeLastOwner            Code = "last_owner"
	CodeInvitationEnded      Code = "invitation_ended"
	CodeSecretOrigin         Code = "secret_origin_mismatch"
	CodeNotToAuthorize       Code = "not_to_authorize"
	CodePublicURLRequired    Code = "public_url_required"
	CodeToolServer           Code = "tool_server_error"
	CodeToolServerTimeout    Code = "tool_server_timeout"
	CodeInvalidSchema        Code = "invalid_schema"
	CodeTooManyTools         Code = "too_many_tools"
	CodePolicyTooLax         Code = "policy_too_lax"
	CodeToolCallNotFound     Code = "tool_call_not_found"
	CodeOutputGiven          Code = "output_already_given"
	CodeDecided              Code = "already_decided"
	CodeInputClaimed         Code = "input_claimed"
	CodeTurnHadEffects       Code = "turn_had_effects"
)

// An Error is an error as reported to a caller. It is created where its meaning is known, and
// callers only wrap it, so that it is rendered and logged once.
type Error struct {
	Code       Code
	Message    string // problem and remedy, in one or two sentences
	Param      string
	RetryAfter time.Duration // 0 if unknown, or if a retry does not help
	Charged    bool          // the call was charged, so that clients must not repeat it by themselves
	Err        error         // cause, for the log only, because it may contain internals
}

// Error returns code, message and cause for logs. Replies contain only Message.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error with a code. An argument for %w becomes the cause and is part of
// the message; for a cause that callers must not see use [Error.Because].
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Subject returns the quoted path of a request member for a message, or "The body" if path is
// empty.
func Subject(path string) string {
	if path == "" {
		return "The body"
	}
	return strconv.Quote(path)
}

// At sets the member of the request at fault.
func (e *Error) At(param string) *Error { e.Param = param; return e }

// After sets the time to wait before a retry.
func (e *Error) After(d time.Duration) *Error { e.RetryAfter = d; return e }

// AfterCharge marks the error of a charged call, so that clients do not repeat it.
func (e *Error) AfterCharge() *Error { e.Charged = true; return e }

// Because sets a cause that is only logged.
func (e *Error) Because(err error) *Error { e.Err = err; return e }

// AsError returns the [Error] in a chain. An error without one becomes
// [CodeInternal] with a fixed message and the chain as its cause.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: "Something went wrong on our side. Try again; if it persists, send the operator the request id.", Err: err}
}

// CodeOf returns the code of an error; empty for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}

// ErrClientGone is returned when the client of a request has disconnected, so that no reply can be
// sent.
var ErrClientGone = errors.New("the client disconnected")
