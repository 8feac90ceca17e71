// Package remote is what the kinds of servers with tools have in common: the catalog
// that one has, a call and its result, what is known of a call that failed, and the
// secret that requests carry, which is blanked wherever a server repeats it.
//
// It sends nothing itself: packages mcp and httptool are the kinds of servers. It stores
// nothing and decides nothing. Start with [Server], [Parse] and [Error].
package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stoa/internal/outbound"
)

// Limits of a server's replies.
const (
	MaxTools   = 500       // of a catalog
	MaxCatalog = 4 << 20   // bytes of a catalog, or of the document that it is made from
	MaxResult  = 256 << 10 // bytes of the reply to a call, where the call says no other
)

// A Server is the far side of a connection. The errors of its methods are [*Error].
type Server interface {
	// Catalog asks the server for its tools.
	Catalog(ctx context.Context) (*Catalog, error)
	// Call calls a tool once. The class of its error says whether the server may have
	// carried out the call.
	Call(ctx context.Context, call Call) (*Result, error)
}

// An Endpoint is an address, and what requests to it carry.
type Endpoint struct {
	Network    *outbound.Network
	URL        string
	Headers    map[string]string
	Credential Credential
}

// A Catalog is what a server says of itself and its tools.
type Catalog struct {
	Protocol, Name, Version, Instructions string
	URL                                   string // where calls go, if the server says it
	Tools                                 []Tool
	TTL                                   time.Duration // for which the server says that it stays as it is; 0: it does not say
}

// A Call is one call of a tool.
type Call struct {
	ID         string          // sent with the call
	Tool       string          // its name at the server
	Definition string          // the one that was approved
	Arguments  json.RawMessage // an object, which is sent as it is; nil: an empty one
	MaxResult  int64           // bytes of the reply; 0: MaxResult
}

// A Result is what a tool answered.
type Result struct {
	Text    string // for a model
	IsError bool   // the tool says that it failed
	Bytes   int    // as the server sent it
}

// A Class says what is known of a call that brought no result.
type Class string

// The classes.
const (
	NotSent Class = "not_sent" // the server was not reached, or was not asked for the call
	Refused Class = "refused"  // the server took no notice of the call
	Unknown Class = "unknown"  // the server may have carried it out
)

// An Error is a failed exchange. Its text is for the owner of the connection, and holds
// at most a short message of the server.
type Error struct {
	Class        Class
	Message      string
	Unauthorized bool            // the server refuses the secret, or wants one
	Reason       outbound.Reason // empty: the server answered
	Status       int             // of the reply over HTTP; 0: none came
	Code         int             // of the error of the protocol; 0: none, or it is 0
	RetryAfter   time.Duration   // that the server asks to wait; 0: it does not say
	Err          error           // for logs
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Against returns the error for a server that breaks the protocol or a limit.
func Against(message string) *Error { return &Error{Class: Unknown, Message: message} }

// OfNetwork returns the error for a request without a whole reply.
func OfNetwork(failed *outbound.Error) *Error {
	e := &Error{Class: NotSent, Message: Sentence(failed.Error()), Reason: failed.Reason, Err: failed}
	if failed.Sent {
		e.Class = Unknown
	}
	return e
}

// OfStatus returns the error for a reply with a status other than 2xx. The cause is for
// logs; the header may be nil.
func OfStatus(status int, header http.Header, cause error) *Error {
	e := &Error{RetryAfter: retryAfter(header), Class: Unknown, Message: fmt.Sprintf("The server answers with the status %d.", status), Unauthorized: Unauthorized(status), Status: status, Err: cause}
	if refused[status] {
		e.Class = Refused
	}
	return e
}

// retryAfter reads the header of that name in seconds, at most an hour.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseInt(header.Get("Retry-After"), 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(min(max(seconds, 0), 3600)) * time.Second
}

// Unauthorized reports whether a status says that the server refuses the secret, or
// wants one.
func Unauthorized(status int) bool { return status == 401 || status == 403 }

// refused are the statuses of HTTP that say that a call was not begun.
var refused = map[int]bool{400: true, 401: true, 403: true, 404: true, 405: true, 406: true, 409: true, 411: true, 413: true, 415: true, 422: true, 429: true}

// Sentence makes a sentence of the text of an error.
func Sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
