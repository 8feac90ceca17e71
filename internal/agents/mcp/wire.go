package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"

	"stoa/internal/agents/remote"
	"stoa/internal/base/outbound"
	"stoa/internal/base/sse"
)

// A wire sends the SDK's requests. It adds headers and the secret, stores the outcome of the
// last request, and returns replies that the SDK can read, regardless of the server's.
type wire struct {
	server Server
	client *outbound.Client
	asked  slot // the last request that is not a call of a tool
	denied slot // the last request of a handshake that was rejected because of its secret

	assumed string                            // version that is not requested, to avoid a request before each call
	listens bool                              // receives the server's requests outside of the streams of calls
	renewed atomic.Pointer[remote.Credential] // replaces the secret of the server
}

// A slot contains the outcome of one request. The slot of a call is in the context of the
// call, because several run at the same time.
type slot struct {
	headers http.Header // contains arguments, for servers whose version defines such headers
	mu      sync.Mutex
	x       exchange
}

type slotKey struct{}

// An exchange is the outcome of one request.
type exchange struct {
	status  int // 0 if there was no reply
	header  http.Header
	result  json.RawMessage // as the server wrote it, because the SDK would round integers
	code    int             // error of the protocol; 0 if none exists
	message string
	said    string // the body of a status other than 2xx that is not a message of the protocol
	// questions are the ids of the questions for a person that the server asks instead of
	// carrying out the call, if it asks nothing else, and state is what it expects back.
	questions []string
	state     string
	cut       int   // number of bytes that were read of a reply that is too large; 0 if it is complete
	err       error // there was no reply, or not a message of the protocol
	begun     bool  // the request may have been sent, and nothing else is known
}

func (s *slot) last() exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.x
}

func (s *slot) keep(x exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.x = x
}

type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// RoundTrip sends one request of the SDK.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	var asked envelope
	if req.Body != nil {
		data, err := io.ReadAll(req.Body) // produced by the SDK
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &asked); err != nil {
			return nil, err
		}
		if asked.Method == methodDiscover && w.assumed != "" {
			return answer(req, assumption(asked.ID, w.assumed)), nil
		}
		if asked.Method == methodList {
			data = bytes.Replace(data, []byte(`"cursor":"\u0000empty"`), []byte(`"cursor":""`), 1) // emptyCursor
		}
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	}
	maps.Copy(out.Header, headers(w.server))
	credential := w.server.Credential
	if c := w.renewed.Load(); c != nil {
		credential = *c
	}
	credential.Add(out)
	if req.Method == http.MethodGet {
		return w.listen(out), nil
	}
	call := asked.ID != nil && asked.Method != ""
	if asked.Method == "notifications/cancelled" { // limited, because the end of the call waits for it
		ctx, cancel := context.WithTimeout(req.Context(), closeTime/2)
		defer cancel()
		out = out.WithContext(ctx)
	}
	into, ok := req.Context().Value(slotKey{}).(*slot)
	if !ok {
		into = &w.asked
	}
	if asked.Method == methodCall && out.Header.Get(methodHeader) != "" {
		maps.Copy(out.Header, into.headers)
	}
	if call { // because the SDK may return before its request does
		into.keep(exchange{begun: true})
	}
	resp, err := w.client.RoundTrip(out)
	if err != nil {
		if call {
			into.keep(exchange{err: err})
		}
		if call && asked.Method == methodCall && req.Context().Err() == nil {
			return answer(req, failedReply(asked.ID)), nil // otherwise the SDK would end the session
		}
		return nil, err
	}
	if !call {
		if remote.Unauthorized(resp.StatusCode) {
			w.denied.keep(exchange{status: resp.StatusCode, header: resp.Header})
		}
		return resp, nil
	}
	r := &reply{w: w, credential: credential, into: into, request: out, body: resp.Body, id: asked.ID, callsTool: asked.Method == methodCall, x: exchange{status: resp.StatusCode, header: resp.Header}}
	r.neutral = asked.Method == methodList || asked.Method == methodCall
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode/100 != 2:
		resp.Body = r.refused()
		if into == &w.asked && remote.Unauthorized(resp.StatusCode) {
			w.denied.keep(r.x)
		}
		if asked.Method == methodCall {
			resp = answer(req, failedReply(asked.ID)) // so that the SDK does not end the session
		}
	case kind == eventStream:
		r.events = sse.NewReader(resp.Body, remote.MaxCatalog)
		resp.Body = r
	default:
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if kind == "application/json" && r.cutsOff(err) {
			data, err = r.beginning(data), nil
		}
		if kind != "application/json" && err == nil {
			err = errNotProtocol
		}
		text, whole := r.accept(data)
		if err == nil && !whole {
			err = errNotProtocol
		}
		if err != nil {
			text = r.broken(err)
		}
		resp.Header.Set("Content-Type", "application/json")
		resp.Body = io.NopCloser(bytes.NewReader(text))
		r.into.keep(r.x)
	}
	return resp, nil
}

// Methods of the protocol.
const (
	methodCall     = "tools/call"
	methodList     = "tools/list"
	methodDiscover = "server/discover"
)

// methodHeader is the header with the method of a request, in versions that have it.
const methodHeader = "Mcp-Method"

// assumption returns the version reply for the SDK if the server is known to use a version
// without sessions: the SDK then calls the tool immediately.
func assumption(id json.RawMessage, version string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"resultType":"complete","supportedVersions":["` + version + `"],"capabilities":{"tools":{}}}}`)
}

// failedReply returns the reply for the SDK to a call without a result: the reason is in the
// slot.
func failedReply(id json.RawMessage) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":-32603,"message":"no reply"}}`)
}

func answer(req *http.Request, text []byte) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}
}

var (
	errNotProtocol = errors.New("the server's reply is not a message of the protocol")
	errQuestion    = errors.New("the server did not do it: it first requires the answer to a question, which this service does not answer")
	errNoReply     = errors.New("the server's stream ended without the reply")
)

// A reply is a server's reply to one request, as the SDK reads it. For a stream of events it
// is the body.
type reply struct {
	w    *wire
	into *slot

	credential remote.Credential // as sent, since another request may renew it meanwhile
	request    *http.Request     // as sent
	body       io.ReadCloser
	id         json.RawMessage
	neutral    bool // the SDK receives an empty result, because it would lose a whole result by one unknown part
	callsTool  bool // the beginning of the result suffices
	x          exchange
	events     *sse.Reader
	resumed    resumption
	out        []byte // not yet read by the SDK
	done       bool
}

// isOwn reports whether a message has the id of the request. An error may be without an id if
// the server could not read it, and so may the beginning of a reply; each stream is for one
// request.
func (r *reply) isOwn(m envelope) bool {
	id := bytes.TrimSpace(m.ID)
	none := len(id) == 0 || string(id) == "null"
	return bytes.Equal(id, bytes.TrimSpace(r.id)) || none && (m.Error != nil || r.x.cut > 0)
}

// accept reads a message. If it is the reply, its content is stored, and the message for the
// SDK is returned.
func (r *reply) accept(data []byte) (text []byte, is bool) {
	data = r.credential.Blank(data)
	var m envelope
	err := json.Unmarshal(data, &m)
	if string(m.Result) == "null" {
		m.Result = nil
	}
	if err != nil || m.Method != "" || !r.isOwn(m) || (m.Result == nil) == (m.Error == nil) {
		return data, false
	}
	if m.Error != nil {
		r.x.code, r.x.message = m.Error.Code, m.Error.Message
		if r.x.code == 0 {
			r.x.code = 1 // none of the defined codes
		}
		if !bytes.Equal(bytes.TrimSpace(m.ID), bytes.TrimSpace(r.id)) {
			data = failedReply(r.id) // because the SDK would wait for one with the id
		}
		return data, true
	}
	r.x.result = m.Result
	var kind struct {
		ResultType    string                             `json:"resultType"`
		InputRequests map[string]struct{ Method string } `json:"inputRequests"`
		RequestState  string                             `json:"requestState"`
	}
	if json.Unmarshal(m.Result, &kind) == nil && kind.ResultType == "input_required" {
		r.x.result, r.x.err, r.x.state = nil, errQuestion, kind.RequestState
		for id, q := range kind.InputRequests {
			if q.Method != "elicitation/create" {
				r.x.questions = nil
				break
			}
			r.x.questions = append(r.x.questions, id)
		}
	}
	if r.neutral {
		data = []byte(`{"jsonrpc":"2.0","id":` + string(r.id) + `,"result":{"resultType":"complete","tools":[],"content":[]}}`)
	}
	return data, true
}

// broken stores the reason for a missing reply, and returns one for the SDK.
func (r *reply) broken(err error) []byte {
	r.x.err, r.x.result = err, nil
	return failedReply(r.id)
}

// refused reads the body of a status other than 2xx, which may contain an error of the
// protocol.
func (r *reply) refused() io.ReadCloser {
	data, err := io.ReadAll(r.body)
	r.body.Close()
	if err == nil {
		data = r.credential.Uncut(data)
		if _, is := r.accept(data); is {
			r.x.result = nil
		} else {
			r.x.said = string(data)
		}
	}
	r.into.keep(r.x)
	return io.NopCloser(bytes.NewReader(data))
}

// Read reads the stream of events up to the reply.
func (r *reply) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.done {
			return 0, io.EOF
		}
		event, err := r.events.Next()
		var text []byte
		switch {
		case err != nil && r.cutsOff(err):
			text, r.done = r.accept(r.beginning(r.events.Unfinished()))
			if !r.done {
				text, r.done = r.broken(err), true
			}
		case err != nil && r.resume():
			continue
		case err == io.EOF:
			text, r.done = r.broken(errNoReply), true
		case err != nil:
			text, r.done = r.broken(err), true
		case len(event.Type) > 0 && string(event.Type) != "message":
			continue
		case len(event.Data) == 0: // because a server sends an empty first event for its id only
			continue
		default:
			text, r.done = r.accept(event.Data)
			if !r.done && !json.Valid(text) {
				text, r.done = r.broken(errNotProtocol), true
			}
		}
		if r.done {
			r.into.keep(r.x)
		}
		r.out = sse.AppendEvent(nil, "message", text)
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// Close ends the stream.
func (r *reply) Close() error {
	if !r.done { // the caller has disconnected
		r.done = true
		r.broken(errNoReply)
		r.into.keep(r.x)
	}
	return r.body.Close()
}
