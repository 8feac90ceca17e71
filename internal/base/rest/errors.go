package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// maxRetryAfter is the maximum Retry-After, so that a client is not idle long after a limit has ended.
const maxRetryAfter = 60 * time.Second

// fail is the only place where an error becomes a reply. After the first byte of a reply it cuts the connection
// instead, so that the client does not treat the partial reply as complete.
func (b *Base) fail(x *Exchange, err error) {
	if errors.Is(err, stoa.ErrClientGone) || x.HTTP.Context().Err() != nil && errors.Is(err, context.Canceled) {
		x.Log.Disconnected = true
		if x.status == 0 {
			panic(http.ErrAbortHandler) // otherwise net/http would answer with 200
		}
		return
	}
	x.Log.Failed(err)
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	x.writeError(err)
}

func (x *Exchange) writeError(err error) {
	if !x.messages && !x.gemini {
		writeError(x, x.Log.ID, err, x.noCredits)
		return
	}
	e := stoa.AsError(err)
	info := contract.Code(e.Code)
	prepareError(x.Header(), e, info)
	form := &contract.FormatError{
		Code: string(info.Code), Param: cut(e.Param, maxParam), Message: cut(cmp.Or(e.Message, info.Meaning), maxMessage),
		Retryable: retryable(e, info), RequestID: x.Log.ID, RetryAfter: x.Header().Get("Retry-After"),
	}
	status, _ := info.MessagesForm()
	write := contract.AppendMessagesError
	if x.gemini {
		status, _ = info.GeminiForm()
		write = contract.AppendGeminiError
	}
	x.WriteHeader(status)
	text := write(nil, form)
	_, _ = x.Write(append(text, '\n')) // an error is ignored, because the caller may have disconnected
}

// Limits of the caller's text in an error, in bytes, so that it does not return whole inputs. Names are cut to
// [maxShownName] when they are inserted.
const (
	maxMessage = 4 << 10
	maxParam   = 512
)

// cut shortens a text to a maximum number of bytes.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// writeError sends the envelope of an error and its headers. noCredits is as in [Exchange].
func writeError(w http.ResponseWriter, requestID string, err error, noCredits int) {
	e := stoa.AsError(err)
	info := contract.Code(e.Code)
	if info.Type == contract.TypeQuota {
		info.Status = cmp.Or(noCredits, info.Status)
	}
	body := contract.ErrorBody{
		Message: e.Message, Type: info.Type, Code: string(info.Code), RequestID: requestID,
		Retryable: retryable(e, info),
	}
	if body.Message == "" {
		body.Message = info.Meaning
	}
	body.Message = cut(body.Message, maxMessage)
	if e.Param != "" {
		body.Param = new(cut(e.Param, maxParam))
	}
	prepareError(w.Header(), e, info)
	text, err := jsonx.Marshal(contract.ErrorEnvelope{Error: body})
	if err != nil {
		panic(err) // cannot happen, because five strings and a boolean always marshal
	}
	w.WriteHeader(info.Status)
	_, _ = w.Write(append(text, '\n')) // an error is ignored, because the caller may have disconnected
}

func retryable(e *stoa.Error, info contract.CodeInfo) bool {
	if e.Charged {
		return false
	}
	return info.Retryable || info.MayCarryRetryAfter() && e.RetryAfter > 0
}

func prepareError(h http.Header, e *stoa.Error, info contract.CodeInfo) {
	after := e.RetryAfter
	if after <= 0 {
		after = info.RetryAfter
	}
	if after > 0 && info.MayCarryRetryAfter() {
		after = min(after, maxRetryAfter)
		h.Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	// The header is always sent, because some clients otherwise retry even a request with a wrong key.
	h.Set("x-should-retry", strconv.FormatBool(retryable(e, info)))
	if info.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	for _, name := range []string{"Content-Length", "Content-Encoding", "ETag", "Location", "stoa-charge-micro", "stoa-model-requested"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
}
