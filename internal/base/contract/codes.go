package contract

import (
	"net/http"
	"time"

	"stoa/internal/base/stoa"
)

// A CodeInfo describes a published code.
type CodeInfo struct {
	Code       stoa.Code
	Status     int           // status of the HTTP reply
	Type       string        // group of the error, as in the client libraries
	Retryable  bool          // sending the same request again can help
	RetryAfter time.Duration // default Retry-After; 0 means none
	Meaning    string        // one sentence for the documentation
}

const (
	TypeInvalidRequest = "invalid_request_error"
	TypePermission     = "permission_error"
	TypeQuota          = "insufficient_quota"
	TypeRateLimit      = "rate_limit_error"
	TypeServer         = "server_error"
)

// Codes returns the table of all codes, in the order of their statuses.
func Codes() []CodeInfo {
	invalid := func(code stoa.Code, status int, meaning string) CodeInfo {
		return CodeInfo{Code: code, Status: status, Type: TypeInvalidRequest, Meaning: meaning}
	}
	return []CodeInfo{
		invalid(stoa.CodeInvalidJSON, 400, "The body is not one JSON object in UTF-8 without duplicate members."),
		invalid(stoa.CodeMissingParameter, 400, "A required member, parameter or header is absent."),
		invalid(stoa.CodeUnknownField, 400, "The body has a member that the operation does not have."),
		invalid(stoa.CodeUnknownParameter, 400, "The query has a parameter that the operation does not have."),
		invalid(stoa.CodeInvalidType, 400, "A value has the wrong JSON type."),
		invalid(stoa.CodeInvalidValue, 400, "A value has the right type but is not allowed."),
		invalid(stoa.CodeInvalidHeader, 400, "The name or value of a header cannot be sent."),
		invalid(stoa.CodeInvalidCursor, 400, "The cursor is damaged, or belongs to another list, filter or order."),
		invalid(stoa.CodeInvalidMode, 400, "The mode of the session is unknown."),
		invalid(stoa.CodeInvalidPath, 400, "The path of a file breaks a rule of paths: relative, `/` between folders, no empty, `.` or `..` segments."),
		invalid(stoa.CodeInvalidSchema, 400, "The parameters of a tool, or a reply schema, are not a supported JSON Schema."),
		invalid(stoa.CodeUnsupported, 400, "The service does not support this member."),
		invalid(stoa.CodeUnsupportedValue, 400, "The service does not support this value of the member."),
		invalid(stoa.CodeModelNotFound, 400, "No model has this identifier."),
		invalid(stoa.CodeContextLength, 400, "The input is longer than the model accepts."),
		invalid(stoa.CodeInvalidPrompt, 400, "The model's provider rejects the text."),
		invalid(stoa.CodeTooManyAttachments, 400, "The message, the session or the chat has more files than allowed."),
		invalid(stoa.CodeInvalidURL, 400, "Requests cannot be sent to the address."),
		invalid(stoa.CodeUnauthorized, 401, "The key is missing, malformed, unknown, expired or revoked."),
		{Code: stoa.CodeScope, Status: 403, Type: TypePermission, Meaning: "The key does not have the scope that the operation requires."},
		{Code: stoa.CodeSuspended, Status: 403, Type: TypePermission, Meaning: "The account is suspended; the operator can reactivate it."},
		{Code: stoa.CodeModelNotInPlan, Status: 403, Type: TypePermission, Meaning: "The account's plan does not include the model, and `strict_model` is set."},
		{Code: stoa.CodeModelNotAllowed, Status: 403, Type: TypePermission, Meaning: "The key is not allowed for the model."},
		{Code: stoa.CodeNetworkNotAllowed, Status: 403, Type: TypePermission, Meaning: "The key is not allowed from this address, or the address is unknown."},
		{Code: stoa.CodeKeyPaused, Status: 403, Type: TypePermission, Meaning: "The member who created the key has not signed in for too long. The key works again after a sign-in."},
		{Code: stoa.CodeOriginNotAllowed, Status: 403, Type: TypePermission, Meaning: "The page that sent the request is not among the allowed origins."},
		{Code: stoa.CodeEmbedDisabled, Status: 403, Type: TypePermission, Meaning: "Embedding is switched off for the agent."},
		{Code: stoa.CodeCrossOrigin, Status: 403, Type: TypePermission, Meaning: "A page of another origin sent the request with the cookie of the console."},
		invalid(stoa.CodeNotFound, 404, "The path does not exist, or the object does not exist in this account."),
		invalid(stoa.CodeSpaceNotFound, 404, "The space does not exist in this account."),
		invalid(stoa.CodeAgentNotFound, 404, "The agent does not exist in this account."),
		invalid(stoa.CodeSessionNotFound, 404, "The agent does not have this session."),
		invalid(stoa.CodeTaskNotFound, 404, "The agent does not have this scheduled task."),
		invalid(stoa.CodeToolCallNotFound, 404, "The tool call does not exist in this account, or the input does not include it."),
		invalid(stoa.CodeFileNotFound, 404, "The drive does not contain this file."),
		invalid(stoa.CodeVersionNotFound, 404, "The version of the file does not exist or is no longer kept."),
		invalid(stoa.CodeWebhookNotFound, 404, "The webhook does not exist in this account."),
		invalid(stoa.CodeDeliveryNotFound, 404, "The delivery does not exist or is no longer kept."),
		invalid(stoa.CodeConnectionNotFound, 404, "The connection does not exist in this account."),
		invalid(stoa.CodeSecretNotFound, 404, "The secret does not exist in this account."),
		invalid(stoa.CodeToolNotFound, 404, "The server of the connection does not have this tool."),
		invalid(stoa.CodeMethodNotAllowed, 405, "The path exists, but does not support this method; `Allow` lists the supported ones."),
		{
			Code: stoa.CodeRequestTimeout, Status: 408, Type: TypeInvalidRequest, Retryable: true,
			Meaning: "The body did not arrive in time; the request had no effect.",
		},
		invalid(stoa.CodeConflict, 409, "An object with this name or reference already exists."),
		invalid(stoa.CodeSetInFile, 409, "The configuration file or a variable sets this name, and takes precedence; the message names the line."),
		invalid(stoa.CodeSpaceNotEmpty, 409, "The space still has agents."),
		invalid(stoa.CodeLimitReached, 409, "The maximum number of objects of this kind is reached; see `limits` of GET /api/v1/meta."),
		invalid(stoa.CodeTooManyTasks, 409, "The agent has reached its maximum number of scheduled tasks."),
		invalid(stoa.CodeNoText, 409, "The file has no readable text, or not yet."),
		invalid(stoa.CodePathConflict, 409, "A path cannot be both a file and a folder: a file or folder exists at or above this path."),
		invalid(stoa.CodeSessionBusy, 409, "The session is working on a turn."),
		invalid(stoa.CodeSessionFinished, 409, "The session has ended and no longer accepts this request."),
		invalid(stoa.CodeNotWaiting, 409, "The session does not wait for input."),
		invalid(stoa.CodeInputAnswered, 409, "This question was already answered."),
		invalid(stoa.CodeWebhookDisabled, 409, "The webhook is disabled, or has no address: nothing can be sent."),
		invalid(stoa.CodeOutputGiven, 409, "The tool call already has another output."),
		invalid(stoa.CodeDecided, 409, "The tool call already has another decision."),
		{
			Code: stoa.CodeInputClaimed, Status: 409, Type: TypeInvalidRequest, Retryable: true, RetryAfter: time.Second,
			Meaning: "Another program has claimed the calls of this input; `Retry-After` is the remaining time.",
		},
		invalid(stoa.CodeTurnHadEffects, 409, "Tool calls of the turn may have had effects; retry with `acknowledgeEffects`."),
		invalid(stoa.CodeSecretInUse, 409, "A connection uses the secret."),
		invalid(stoa.CodeConnectionInUse, 409, "Agents use tools of the connection."),
		invalid(stoa.CodeConnectionDisabled, 409, "The connection is switched off: no request is sent to its server."),
		invalid(stoa.CodeToolChanged, 409, "The definition of the tool differs from the reviewed one."),
		invalid(stoa.CodeConfirmationRequired, 409, "The tool has effects; the request must confirm them."),
		invalid(stoa.CodeLastOwner, 409, "The account would have no owner left."),
		{
			Code: stoa.CodeIdempotencyRunning, Status: 409, Type: TypeInvalidRequest, Retryable: true, RetryAfter: time.Second,
			Meaning: "The first request with this `Idempotency-Key` is still running.",
		},
		invalid(stoa.CodeNotToAuthorize, 409, "The connection does not use authorization by a person, or was changed meanwhile."),
		invalid(stoa.CodeEmbedUsed, 409, "The ticket of this link was already exchanged."),
		invalid(stoa.CodeInvitationEnded, 410, "The invitation or the sign-in link was used, was revoked or has expired."),
		invalid(stoa.CodeEmbedExpired, 410, "The link or its chat has expired."),
		invalid(stoa.CodeUploadExpired, 410, "The upload does not exist, has expired, or belongs to a message already."),
		invalid(stoa.CodePrecondition, 412, "The object no longer matches `If-Match`."),
		invalid(stoa.CodeTooLarge, 413, "The body is larger than the operation accepts; see `x-max-body`."),
		invalid(stoa.CodeMediaType, 415, "The body is not JSON, or it is compressed."),
		invalid(stoa.CodeAttachmentType, 415, "The kind of file is not among those that the embed accepts."),
		invalid(stoa.CodeRange, 416, "The range begins after the end of the file."),
		invalid(stoa.CodeIdempotencyReused, 422, "The `Idempotency-Key` was used before with another body."),
		invalid(stoa.CodeInvalidCron, 422, "The cron expression is invalid; the message names the field."),
		invalid(stoa.CodeInvalidTimezone, 422, "The IANA database has no such time zone."),
		invalid(stoa.CodeTooManyTools, 422, "The agent has too many tools, or their definitions are too long."),
		invalid(stoa.CodePolicyTooLax, 422, "An agent's settings for a tool must not be less strict than the review in its connection."),
		invalid(stoa.CodeOriginsRequired, 422, "The origins of the pages that can show the agent are required."),
		invalid(stoa.CodeAddressNotAllowed, 422, "Requests to this address are not allowed; the operator can allow them."),
		invalid(stoa.CodePublicURLRequired, 422, "The service has no public address for the redirect of authorization servers; the operator can set `publicUrl`."),
		invalid(stoa.CodeSecretOrigin, 422, "The secret belongs to a different origin than the address, or to another external user or space."),
		{
			Code: stoa.CodeSecretsKeyMissing, Status: 422, Type: TypeServer,
			Meaning: "The service has no key for the encryption of secrets; the operator can set `secrets.keys`.",
		},
		invalid(stoa.CodeUpgradeRequired, 426, "The path is not served over WebSocket; send the request with POST."),
		{Code: stoa.CodeQuota, Status: 429, Type: TypeQuota, Meaning: "The account's credits do not cover the call; a top-up helps."},
		{Code: stoa.CodeKeyBudget, Status: 429, Type: TypeQuota, Meaning: "The key's daily cap of credits is used up."},
		{Code: stoa.CodeBudget, Status: 429, Type: TypeQuota, Meaning: "The remaining budget is too small; the message names the budget and the start of its next period."},
		{
			Code: stoa.CodeRateLimit, Status: 429, Type: TypeRateLimit, Retryable: true, RetryAfter: time.Second,
			Meaning: "Too many requests, or too many at the same time; `Retry-After` says when to try again.",
		},
		{
			Code: stoa.CodeTooManySessions, Status: 429, Type: TypeRateLimit, Retryable: true, RetryAfter: 5 * time.Second,
			Meaning: "Too many sessions of the account are running or queued.",
		},
		{Code: stoa.CodeEmbedLimit, Status: 429, Type: TypeRateLimit, Meaning: "The visitor has reached the embed's message limit, per minute or in total."},
		{Code: stoa.CodeInternal, Status: 500, Type: TypeServer, Retryable: true, Meaning: "An internal error of the service."},
		{Code: stoa.CodeUpstream, Status: 502, Type: TypeServer, Retryable: true, Meaning: "The model's provider failed."},
		{Code: stoa.CodePaymentService, Status: 502, Type: TypeServer, Retryable: true, Meaning: "The payment service cannot be reached, or answered with an error."},
		{Code: stoa.CodeToolServer, Status: 502, Type: TypeServer, Retryable: true, Meaning: "The server of the connection cannot be reached, answered with an error, or violated the protocol."},
		{
			Code: stoa.CodeOverloaded, Status: 503, Type: TypeServer, Retryable: true, RetryAfter: 2 * time.Second,
			Meaning: "The service or the model's provider is overloaded, or the service is shutting down.",
		},
		{Code: stoa.CodeModelUnavailable, Status: 503, Type: TypeServer, Meaning: "No provider serves this model here."},
		{Code: stoa.CodeUpstreamTimeout, Status: 504, Type: TypeServer, Retryable: true, Meaning: "The model's provider did not answer in time."},
		{Code: stoa.CodeToolServerTimeout, Status: 504, Type: TypeServer, Retryable: true, Meaning: "The server of the connection did not answer in time."},
		{Code: stoa.CodeStorageFull, Status: 507, Type: TypeServer, Meaning: "The service's disk or a quota is full."},
	}
}

// Code returns the entry of one code. An unknown code is published as [stoa.CodeInternal], because clients
// rely on the published list.
func Code(code stoa.Code) CodeInfo {
	var internal CodeInfo
	for _, c := range Codes() {
		switch c.Code {
		case code:
			return c
		case stoa.CodeInternal:
			internal = c
		}
	}
	return internal
}

// MayCarryRetryAfter reports whether a reply with the code may say when to retry. Codes of credits and daily caps
// never do, because clients would wait and retry in vain.
func (c CodeInfo) MayCarryRetryAfter() bool {
	return c.Type != TypeQuota && (c.Status == http.StatusConflict || c.Status == http.StatusTooManyRequests || c.Status >= 500)
}

// MessagesForm returns the HTTP status and the type of an error in the format of Anthropic's Messages.
// Missing credits are not 429, because clients of that format retry it automatically, and overload is 529
// instead of 503, because Anthropic uses it.
func (c CodeInfo) MessagesForm() (status int, kind string) {
	switch {
	case c.Type == TypeQuota:
		return http.StatusPaymentRequired, "billing_error"
	case c.Status == http.StatusServiceUnavailable:
		return StatusOverloaded, "overloaded_error"
	}
	switch c.Status {
	case http.StatusUnauthorized:
		kind = "authentication_error"
	case http.StatusForbidden:
		kind = "permission_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	case http.StatusRequestEntityTooLarge:
		kind = "request_too_large"
	case http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case http.StatusGatewayTimeout:
		kind = "timeout_error"
	default:
		if kind = "api_error"; c.Status < 500 {
			kind = "invalid_request_error"
		}
	}
	return c.Status, kind
}

// GeminiForm returns the HTTP status and the word of an error in the format of Google's APIs. Missing
// credits are not 429, because clients of that format retry it automatically. An unknown model is 404,
// because it is a part of the path.
func (c CodeInfo) GeminiForm() (status int, word string) {
	switch {
	case c.Type == TypeQuota:
		return http.StatusPaymentRequired, "RESOURCE_EXHAUSTED"
	case c.Code == stoa.CodeModelNotFound:
		return http.StatusNotFound, "NOT_FOUND"
	}
	switch c.Status {
	case http.StatusUnauthorized:
		word = "UNAUTHENTICATED"
	case http.StatusForbidden:
		word = "PERMISSION_DENIED"
	case http.StatusNotFound:
		word = "NOT_FOUND"
	case http.StatusMethodNotAllowed:
		word = "UNIMPLEMENTED"
	case http.StatusConflict:
		word = "ABORTED"
	case http.StatusTooManyRequests, http.StatusInsufficientStorage:
		word = "RESOURCE_EXHAUSTED"
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		word = "UNAVAILABLE"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		word = "DEADLINE_EXCEEDED"
	default:
		if word = "INTERNAL"; c.Status < 500 {
			word = "INVALID_ARGUMENT"
		}
	}
	return c.Status, word
}

// StatusOverloaded is Anthropic's status for too much load; see [CodeInfo.MessagesForm].
const StatusOverloaded = 529
