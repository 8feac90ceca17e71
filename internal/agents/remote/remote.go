// Package remote contains the common parts of the kinds of servers with tools: the catalog, a
// call and its result, the class of a failed call, and the secret that requests send, which
// is blanked wherever a server repeats it.
//
// It sends nothing itself: packages mcp and httptool implement the kinds of servers. It
// stores nothing and decides nothing. Start with [Server], [Parse] and [Error].
package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"stoa/internal/base/outbound"
	"stoa/internal/base/stoa"
)

// Limits of a server's replies, which are read into memory.
const (
	MaxTools   = 500
	MaxCatalog = 4 << 20   // bytes of a catalog, or of its source document
	MaxResult  = 256 << 10 // bytes of the reply to a call, unless the call sets another limit
	MaxImages  = 10
)

// A Server is the far side of a connection. The errors of its methods are [*Error].
type Server interface {
	Catalog(ctx context.Context) (*Catalog, error)
	// Call calls a tool once, because only its caller knows whether the tool may be called again.
	// The class of its error says whether the server may have carried out the call.
	Call(ctx context.Context, call Call) (*Result, error)
}

// An Endpoint is an address, and the data that requests to it send.
type Endpoint struct {
	Network    *outbound.Network
	URL        string
	Headers    map[string]string
	Credential Credential
}

// A Catalog is a server's description of itself and its tools.
type Catalog struct {
	Protocol, Name, Version, Instructions string
	URL                                   string // address for calls, if the server specifies it
	Tools                                 []Tool
	Note                                  string // for reviewers, about a list that violates the protocol; usually empty
	TTL                                   time.Duration
}

// A Call is one call of a tool.
type Call struct {
	ID         string          // sent with the call, so that the server can recognize a repetition
	Tool       string          // name at the server
	Definition string          // approved definition, because the server's current one may differ
	Arguments  json.RawMessage // an object, which is sent unchanged; nil means an empty one
	MaxResult  int64           // bytes of the reply; 0 means MaxResult
}

// A Result is the answer of a tool.
type Result struct {
	Text    string        // for a model
	Images  []*stoa.Media // at most [MaxImages]; Text names each
	IsError bool          // the tool reports that it failed
	Bytes   int           // size of the reply
}

// Show adds an image to the result, and returns the text that names it.
func (r *Result) Show(m *stoa.Media) string {
	r.Images = append(r.Images, m)
	return fmt.Sprintf("(image %d: %s, %d × %d pixels)", len(r.Images), m.Type, m.Width, m.Height)
}

// A Class says how far a call without a result got, because that decides whether a call with an
// effect may be repeated.
type Class string

// The classes.
const (
	NotSent Class = "not_sent" // the server was not reached, or the call was not sent
	Refused Class = "refused"  // the server did not process the call
	Unknown Class = "unknown"  // the server may have carried it out
)

// An Error is a failed exchange. Its text is for the owner of the connection, and contains at
// most a short message of the server.
type Error struct {
	Class        Class
	Message      string
	Unauthorized bool            // the server rejects the secret, or requires one
	Reason       outbound.Reason // empty if the server answered
	Status       int             // HTTP status of the reply; 0 if none exists
	Code         int             // error code of the protocol; 0 if none exists
	RetryAfter   time.Duration
	Challenges   []string // headers WWW-Authenticate of the reply
	Err          error    // for logs
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Against returns the error for a server that violates the protocol or a limit.
func Against(message string) *Error { return &Error{Class: Unknown, Message: message} }

// OfNetwork returns the error for a request without a complete reply.
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
	e := &Error{RetryAfter: min(stoa.RetryAfter(header.Get("Retry-After"), time.Now()), maxRetryAfter), Class: Unknown, Message: fmt.Sprintf("The server answered with the status %d.", status), Unauthorized: Unauthorized(status), Status: status, Challenges: header.Values("WWW-Authenticate"), Err: cause}
	if refused[status] {
		e.Class = Refused
	}
	return e
}

// maxRetryAfter is the maximum pause that is read from a server.
const maxRetryAfter = time.Hour

// MaxErrorText is the maximum size of the text of an error that a server sends, in bytes.
const MaxErrorText = 4 << 10

// ErrorBody returns the number of bytes that are read of the body of an error. It exceeds
// MaxErrorText because [Credential.Uncut] drops the end of a longer body.
func (c Credential) ErrorBody() int64 { return int64(MaxErrorText + 2*c.Longest()) }

// Uncut returns the body of an error without the secret. A body of [Credential.ErrorBody]
// bytes may have been cut within the secret.
func (c Credential) Uncut(body []byte) []byte {
	return c.Beginning(body, int64(len(body)) >= c.ErrorBody())
}

// Beginning returns data without the secret, and without its end if it was cut, since that
// may contain a part of the secret.
func (c Credential) Beginning(data []byte, cut bool) []byte {
	blanked := c.Blank(data)
	if cut {
		blanked = blanked[:max(0, len(blanked)-c.Longest())]
	}
	return blanked
}

// Says adds a server's explanation to the error, at most 500 characters and without invisible
// ones, because a model reads it. A page for browsers is not an explanation.
func (e *Error) Says(text string) {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " ")
	if text != "" && !strings.HasPrefix(text, "<") {
		e.Message = strings.TrimSuffix(e.Message, ".") + ": " + strings.TrimSuffix(Visible(Cut(text, 500)), ".") + "."
	}
}

// Unauthorized reports whether a status means that the server rejects the secret, or requires
// one.
func Unauthorized(status int) bool { return status == 401 || status == 403 }

// refused are the HTTP statuses which mean that a call was not begun. 408 and 5xx are missing,
// since the server may have received the call.
var refused = map[int]bool{400: true, 401: true, 403: true, 404: true, 405: true, 406: true, 409: true, 411: true, 413: true, 415: true, 422: true, 429: true}

// Sentence turns the text of an error into a sentence.
func Sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
