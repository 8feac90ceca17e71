package client

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

// An Error is an error reply of the service, or of a proxy before it.
type Error struct {
	Status     int           // of HTTP; 0 for an error within a stream
	Code       string        // machine-readable; empty if the reply is not from the service
	Param      string        // request member at fault, if any
	Message    string        // one or two sentences
	RequestID  string        // id in the operator's log
	Retryable  bool          // a retry can help
	RetryAfter time.Duration // minimum delay of a retry; 0 if not given
	Body       []byte        // unparsed
}

// Error returns the message, with the request id if there is one.
func (e *Error) Error() string {
	if e.RequestID == "" {
		return e.Message
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.RequestID)
}

// CodeOf returns the machine-readable code of an [*Error]; empty for any other
// error.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// readError converts an error reply.
func readError(res *http.Response) *Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // an error is ignored, because the received text is the only information
	e := &Error{Status: res.StatusCode, RequestID: res.Header.Get("X-Request-Id"), Body: body}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	var envelope contract.ErrorEnvelope
	if jsonx.Lenient(body, &envelope) == nil && envelope.Error.Message != "" {
		in := envelope.Error
		e.Code, e.Message, e.Retryable = in.Code, in.Message, in.Retryable
		if in.RequestID != "" {
			e.RequestID = in.RequestID
		}
		if in.Param != nil {
			e.Param = *in.Param
		}
		return e
	}
	if e.Status == http.StatusBadRequest && bytes.Contains(body, []byte("HTTP request to an HTTPS server")) {
		e.Message = "the service answers HTTPS there; write https://" + res.Request.URL.Host
		return e
	}
	e.Message = fmt.Sprintf("%s answered %d %s, which is not an error of this API; check the base URL",
		res.Request.URL.Host, res.StatusCode, http.StatusText(res.StatusCode))
	e.Retryable = res.StatusCode == http.StatusBadGateway || res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusGatewayTimeout
	return e
}

// A networkError means that a reply did not arrive completely.
type networkError struct {
	base string
	err  error
}

// Error says whether the connection failed or broke. It omits the URL, because its path is meaningless to the
// user of a command.
func (e *networkError) Error() string {
	err := e.err
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return fmt.Sprintf("the service answers plain HTTP there; write http://%s", strings.TrimPrefix(e.base, "https://"))
	}
	if e.dialing() {
		if cause, ok := errors.AsType[*os.SyscallError](err); ok {
			err = cause.Err // without the operations and the address, because the base URL names it
		} else if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
			return fmt.Sprintf("no connection to %s: the name %s does not exist", e.base, name.Name)
		}
		return fmt.Sprintf("no connection to %s: %v", e.base, err)
	}
	return fmt.Sprintf("the connection to %s broke: %v", e.base, err)
}

// Unwrap returns the cause.
func (e *networkError) Unwrap() error { return e.err }

// dialing reports whether the connection failed, so that nothing was sent and a retry is safe.
func (e *networkError) dialing() bool {
	op, ok := errors.AsType[*net.OpError](e.err)
	return ok && op.Op == "dial"
}

// Unreachable reports whether err means that nothing listens at the base URL.
func Unreachable(err error) bool {
	e, ok := errors.AsType[*networkError](err)
	return ok && e.dialing()
}
