package contract

import (
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A FormatError is an error in the format of another vendor.
type FormatError struct {
	Code      string
	Param     string // path of the member at fault; may be empty
	Message   string
	Retryable bool
	RequestID string

	// RetryAfter is the value of the header Retry-After in seconds, or empty.
	RetryAfter string
}

// AppendMessagesError appends the error in the Messages format. The message begins with the member's path, because
// clients of the format show only the message.
func AppendMessagesError(b []byte, e *FormatError) []byte {
	_, kind := Code(stoa.Code(e.Code)).MessagesForm()
	message := e.Message
	if e.Param != "" {
		message = strings.NewReplacer("[", ".", "]", "").Replace(e.Param) + ": " + message
	}
	b = append(b, `{"type":"error","error":{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","message":`...)
	b = jsonx.AppendString(b, message)
	b = append(b, `,"param":`...)
	if e.Param == "" {
		b = append(b, `null`...)
	} else {
		b = jsonx.AppendString(b, e.Param)
	}
	b = append(b, `,"code":`...)
	b = jsonx.AppendString(b, e.Code)
	if e.Param == "thread" { // makes Anthropic's SDK continue without threads
		b = append(b, `,"details":{"error_code":"thread_unsupported_request","unsupported":["thread"]}`...)
	}
	b = append(b, `,"retryable":`...)
	b = strconv.AppendBool(b, e.Retryable)
	b = append(b, `},"request_id":`...)
	b = jsonx.AppendString(b, e.RequestID)
	return append(b, '}')
}

// AppendGeminiError appends the error in the format of Google's APIs. This service's further members are in its
// details, because the format provides no others.
func AppendGeminiError(b []byte, e *FormatError) []byte {
	status, word := Code(stoa.Code(e.Code)).GeminiForm()
	message := e.Message
	if e.Param != "" {
		message = e.Param + ": " + message
	}
	b = append(b, `{"error":{"code":`...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, `,"message":`...)
	b = jsonx.AppendString(b, message)
	b = append(b, `,"status":"`...)
	b = append(b, word...)
	b = append(b, `","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":`...)
	b = jsonx.AppendString(b, strings.ToUpper(e.Code))
	b = append(b, `,"domain":"stoa","metadata":{"code":`...)
	b = jsonx.AppendString(b, e.Code)
	if e.Param != "" {
		b = append(b, `,"param":`...)
		b = jsonx.AppendString(b, e.Param)
	}
	b = append(b, `,"requestId":`...)
	b = jsonx.AppendString(b, e.RequestID)
	b = append(b, `,"retryable":"`...)
	b = strconv.AppendBool(b, e.Retryable)
	b = append(b, `"}}`...)
	if e.RetryAfter != "" { // Google's clients read this instead of the header
		b = append(b, `,{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":`...)
		b = append(jsonx.AppendString(b, e.RetryAfter+"s"), '}')
	}
	return append(b, `]}}`...)
}
