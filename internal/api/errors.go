package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/contract"
	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// leftoverTimeout is how long a body that is not read may hold up a refusal. The
// key is checked before the body is read, and net/http waits for the unread body
// before it sends the refusal: within this time a body on its way is let in and the
// connection can be reused, and one that never comes holds up nothing. Full duplex
// was rejected (net/http then reads the connection twice and panics), and so was
// closing the connection at every refusal (a client with a wrong key would dial anew
// for each request). It would be wrong if 401s took half a second in the log.
const leftoverTimeout = 500 * time.Millisecond

// maxRetryAfter keeps clients from sleeping for as long as they are told.
const maxRetryAfter = 60 * time.Second

// fail is the one place where an error becomes a reply. After the first byte of
// another reply nothing can be said any more: the connection is cut, so that
// nobody takes what was sent for the whole.
func (s *Server) fail(x *exchange, err error) {
	if errors.Is(err, errClientGone) || x.r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		x.log.clientDisconnected = true
		return
	}
	x.log.Failed(err)
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	if x.r.ContentLength != 0 {
		// Before a reply, net/http waits for a body that nobody read. One that is
		// on its way is let in, so that the connection lives on; one that never
		// comes does not hold up the reply.
		_ = http.NewResponseController(x).SetReadDeadline(time.Now().Add(leftoverTimeout))
	}
	writeError(x, x.log.RequestID, err)
}

// writeError sends the envelope of an error, with the headers that go with it.
func writeError(w http.ResponseWriter, requestID string, err error) {
	e := stoa.AsError(err)
	info := contract.Code(e.Code)
	body := contract.ErrorBody{
		Message: e.Message, Type: info.Type, Code: string(info.Code), RequestID: requestID,
		Retryable: info.Retryable || info.MayCarryRetryAfter() && e.RetryAfter > 0,
	}
	if body.Message == "" {
		body.Message = info.Meaning
	}
	if e.Param != "" {
		body.Param = &e.Param
	}
	h := w.Header()
	after := e.RetryAfter
	if after <= 0 {
		after = info.RetryAfter
	}
	if after > 0 && info.MayCarryRetryAfter() {
		after = min(after, maxRetryAfter)
		h.Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	if info.Status == http.StatusConflict || info.Status == http.StatusTooManyRequests || info.Status >= 500 {
		// Clients would retry any of these by themselves.
		h.Set("x-should-retry", strconv.FormatBool(body.Retryable))
	}
	if info.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	for _, name := range []string{"Content-Length", "Content-Encoding", "ETag", "Location", "stoa-charge-micro", "stoa-model-requested"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	text, err := jsonx.Marshal(contract.ErrorEnvelope{Error: body})
	if err != nil {
		panic(err) // five texts and a flag always marshal
	}
	w.WriteHeader(info.Status)
	_, _ = w.Write(append(text, '\n')) // a caller who left needs no answer
}
