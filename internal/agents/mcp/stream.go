package mcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"stoa/internal/agents/remote"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/outbound"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
)

// The streams of the era with sessions: a reply continues in another stream if its own ends
// early, and a server may send requests outside of the streams of calls.

const (
	maxResumes   = 5                      // without a new event
	resumePause  = 100 * time.Millisecond // minimum pause before a resumption other than the first
	maxPause     = 30 * time.Second       // because a server chooses the pause
	listenIdle   = 10 * time.Minute       // after which a silent stream of a session is requested again
	eventStream  = "text/event-stream"
	sessionIDKey = "Mcp-Session-Id"
)

// A resumption is the state of a reply whose stream ended before its last event.
type resumption struct {
	id    string // last event
	pause time.Duration
	tries int // since that event
}

// resume continues a reply in a new stream, after the last event that the server has named,
// as the protocol defines. It does not repeat the request. It reports whether there is such a
// stream.
func (r *reply) resume() bool {
	to, ctx := &r.resumed, r.request.Context()
	if id := r.events.LastID(); id != "" && id != to.id {
		to.id, to.tries = id, 0
	}
	to.pause = min(cmp.Or(r.events.Retry(), to.pause), maxPause)
	for to.id != "" && to.tries < maxResumes {
		pause := to.pause
		if to.tries > 0 {
			pause = max(pause, resumePause)
		}
		to.tries++
		if !stoa.Sleep(ctx, pause) {
			return false
		}
		resp, err := r.w.get(r.request, to.id)
		if err != nil {
			continue
		}
		r.body.Close()
		r.body, r.events = resp.Body, sse.NewReader(resp.Body, remote.MaxCatalog)
		return isStream(resp)
	}
	return false
}

func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode == http.StatusOK && kind == eventStream
}

// get requests a stream of events with the headers of a request that was sent; after may be
// empty.
func (w *wire) get(sent *http.Request, after string) (*http.Response, error) {
	req := sent.Clone(sent.Context())
	req.Method, req.Body, req.ContentLength = http.MethodGet, nil, 0
	for _, name := range []string{"Content-Type", methodHeader, "Mcp-Name"} {
		req.Header.Del(name)
	}
	req.Header.Set("Accept", eventStream)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	return w.client.RoundTrip(req)
}

// cutsOff reports whether a reply has failed only because it is too large. Its beginning is then
// the result of a call, since the call was carried out.
func (r *reply) cutsOff(err error) bool {
	failed, _ := errors.AsType[*outbound.Error](err)
	_, event := errors.AsType[*sse.TooLargeError](err)
	return r.callsTool && (event || failed != nil && failed.Reason == outbound.TooLarge)
}

func (r *reply) beginning(data []byte) []byte {
	r.x.cut = len(data)
	return jsonx.Close(r.credential.Beginning(data, true))
}

// listen answers the SDK's request for the stream of a session with the requests that the
// server sends there: the SDK then answers them, mostly with an error, so that the server
// does not wait for an answer. It returns without waiting for the server. The stream has no
// end, because the SDK would end the session with it.
func (w *wire) listen(req *http.Request) *http.Response {
	if !w.listens || req.Header.Get(sessionIDKey) == "" {
		return &http.Response{StatusCode: http.StatusMethodNotAllowed, Request: req, Header: http.Header{}, Body: http.NoBody}
	}
	from, into := io.Pipe()
	go func() {
		defer into.Close()
		for w.copyRequests(req, into) {
		}
		<-req.Context().Done()
	}()
	resp := answer(req, nil)
	resp.Header.Set("Content-Type", eventStream)
	resp.Body, resp.ContentLength = from, -1
	return resp
}

// copyRequests copies the server's requests from one stream. It reports whether the server
// only was silent for a while, so that the stream is requested again.
func (w *wire) copyRequests(req *http.Request, into io.Writer) (again bool) {
	silent := &wire{server: w.server, client: w.server.Network.Client(outbound.Limits{Body: remote.MaxCatalog, Idle: listenIdle})}
	resp, err := silent.get(req, "")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if !isStream(resp) {
		return false
	}
	events := sse.NewReader(resp.Body, remote.MaxCatalog)
	for {
		event, err := events.Next()
		if err != nil {
			failed, _ := errors.AsType[*outbound.Error](err)
			return failed != nil && failed.Reason == outbound.Timeout && req.Context().Err() == nil
		}
		var m envelope
		if json.Unmarshal(event.Data, &m) != nil || m.Method == "" || m.ID == nil {
			continue
		}
		if _, err := into.Write(sse.AppendEvent(nil, "message", event.Data)); err != nil {
			return false
		}
	}
}
