package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
)

// A Call is a model call and its idempotency key.
type Call struct {
	contract.CreateResponse
	// IdempotencyKey makes retries of the call safe, because the service stores the reply for a day. It may be
	// empty.
	IdempotencyKey string
}

// A Reply is a complete reply.
type Reply struct {
	contract.Response
	Raw         jsonx.Value // unparsed reply
	RequestID   string
	ChargeMicro int64 // charge in micro-credits
	Replayed    bool  // stored reply of an earlier call with the same key
}

// ErrCutOff is the error of a stream that ended without its last event.
var ErrCutOff = errors.New("the stream ended before the reply was complete")

// request returns the call as an HTTP request. It adds no Idempotency-Key, because the service would store the reply;
// so a call without one is not retried after it may have arrived.
func (call Call) request() (Request, error) {
	body, err := jsonx.Marshal(call.CreateResponse)
	if err != nil {
		return Request{}, err
	}
	r := Request{Method: http.MethodPost, Path: "/responses", Body: body, Header: http.Header{}, Once: call.IdempotencyKey == ""}
	if call.IdempotencyKey != "" {
		r.Header.Set("Idempotency-Key", call.IdempotencyKey)
	}
	return r, nil
}

// Respond makes a call and returns its complete reply. An error reply is an [*Error].
func (c *Client) Respond(ctx context.Context, call Call) (*Reply, error) {
	call.Stream = false
	r, err := call.request()
	if err != nil {
		return nil, err
	}
	text, header, err := c.Bytes(ctx, r)
	if err != nil {
		return nil, err
	}
	reply := &Reply{Raw: text, RequestID: header.Get("x-request-id"), Replayed: header.Get("Idempotency-Replayed") == "true"}
	if err := jsonx.Unmarshal(text, &reply.Response); err != nil {
		return nil, c.notThisAPI(r.Path)
	}
	if cost := header.Get("stoa-charge-micro"); cost != "" {
		if reply.ChargeMicro, err = strconv.ParseInt(cost, 10, 64); err != nil {
			return nil, fmt.Errorf("the reply's charge is not a number: %w", err)
		}
	}
	return reply, nil
}

// Stream makes a call and ranges over the events of its reply as they arrive. The last one is
// response.completed or response.incomplete. A failed reply ends with an [*Error] after its events, a truncated
// one with [ErrCutOff]. Breaking out of the range closes the connection.
func (c *Client) Stream(ctx context.Context, call Call) iter.Seq2[contract.ResponseEvent, error] {
	return func(yield func(contract.ResponseEvent, error) bool) {
		if err := c.stream(ctx, call, yield); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			yield(contract.ResponseEvent{}, err)
		}
	}
}

// stream yields the events and returns the error that ends them, if any.
func (c *Client) stream(ctx context.Context, call Call, yield func(contract.ResponseEvent, error) bool) error {
	call.Stream = true
	r, err := call.request()
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	res, err := c.Do(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if media := res.Header.Get("Content-Type"); !strings.HasPrefix(media, "text/event-stream") {
		return fmt.Errorf("the reply is of the type %q, not a stream; check the base URL", media)
	}
	var failure *Error
	for events := sse.NewReader(res.Body, maxBody); ; {
		raw, err := events.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err == nil && string(raw.Data) == "[DONE]":
			if failure != nil {
				return failure
			}
			return ErrCutOff
		case err != nil:
			return &networkError{c.base, err}
		}
		var ev contract.ResponseEvent
		if err := jsonx.Unmarshal(raw.Data, &ev); err != nil {
			return fmt.Errorf("an event does not match the contract: %w", err)
		}
		switch ev.Type {
		case contract.EventError:
			failure = &Error{Code: ev.Code, Message: ev.Message}
		case contract.EventFailed:
			if failure == nil {
				failure = &Error{Message: "The reply failed."}
			}
			if ev.Response != nil && ev.Response.Error != nil {
				failure.Code, failure.Message = ev.Response.Error.Code, ev.Response.Error.Message
			}
		}
		if failure != nil {
			failure.RequestID = res.Header.Get("x-request-id")
		}
		if !yield(ev, nil) {
			return nil
		}
		switch ev.Type {
		case contract.EventCompleted, contract.EventIncomplete:
			return nil
		case contract.EventFailed:
			return failure
		}
	}
}
