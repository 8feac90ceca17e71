package contract

import (
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A MessagesError is an error in the Messages format.
type MessagesError struct {
	Code      string
	Param     string // path of the member at fault; may be empty
	Message   string
	Retryable bool
	RequestID string
}

// AppendMessagesError appends the error. Clients of the format show only the message, so it
// begins with the path of the member, written as they write it.
func AppendMessagesError(b []byte, e *MessagesError) []byte {
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
	if e.Param == "thread" { // Anthropic's SDK then goes on without threads
		b = append(b, `,"details":{"error_code":"thread_unsupported_request","unsupported":["thread"]}`...)
	}
	b = append(b, `,"retryable":`...)
	b = strconv.AppendBool(b, e.Retryable)
	b = append(b, `},"request_id":`...)
	b = jsonx.AppendString(b, e.RequestID)
	return append(b, '}')
}
