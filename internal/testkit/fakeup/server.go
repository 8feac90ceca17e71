package fakeup

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/stoa"
)

// Options configure a fake vendor. The zero value listens on a loopback socket and
// speaks HTTP.
type Options struct {
	Key   string // the API key it accepts; empty means [Key]
	TLS   bool   // HTTPS with HTTP/2, under a self-signed certificate
	Pipe  string // a host name: listen in memory under it; see [Transport]
	Brief bool   // do not record bodies and headers
	// Context is the context of the model in tokens, enforced as vLLM does: input and
	// max_tokens together may not exceed it. 0 means no limit.
	Context int64
	// Bound makes thinking after a changed history an error of the format Messages, as for
	// accounts created since 2026-08-31. Otherwise it is dropped; see [Served].
	Bound bool
	// Cache gives Anthropic's, OpenAI's Responses, Gemini's and DeepSeek's formats a cache like the
	// vendor's; the usage is what it charges.
	Cache bool
	Now   func() time.Time // the clock of the cache; nil means [time.Now]
	// Null makes it fast: every request is answered immediately with this many prepared
	// deltas, or an equally long whole reply, in one write; nothing is checked or recorded.
	Null int
	// Script returns the orders of a request, instead of those of its prompt; nil means its own.
	Script func(body []byte) string
}

// A Handler is the fake vendor as an HTTP handler.
type Handler struct {
	opts    Options
	formats []format
	null    map[string][]byte // streams, by wire
	wholes  map[string][]byte // whole replies, by wire

	mu       sync.Mutex
	changed  *sync.Cond
	served   []*Served
	attempts map[string]int // by wire and prompt
	inFlight int
	peak     int
	cache    map[[32]byte]cacheEntry
}

// Served is the fake's record of one request.
type Served struct {
	ID      string // part of every id in the reply
	Wire    string
	Model   string
	Prompt  string // the last user turn, orders included
	Attempt int    // of this prompt on this wire, from 1
	Header  http.Header
	Body    []byte

	Status    int    // of the response; 0 if not sent yet
	Deltas    int    // sent
	Usage     Usage  // of the reply; see UsageSent
	UsageSent bool   // the whole usage was sent
	Completed bool   // the format's end was sent
	Dropped   int    // thinking blocks that did not match their prefix
	Refused   string // the message of its error reply

	StartedAt      time.Time
	DisconnectedAt time.Time // time at which the client disconnected before the end; zero if it did not
	EndedAt        time.Time // zero while it is being served
}

// NewHandler creates a fake vendor.
func NewHandler(opts Options) *Handler {
	if opts.Key == "" {
		opts.Key = Key
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	h := &Handler{opts: opts, formats: []format{messages{}, gemini{}, responses{}, chat{}}, attempts: map[string]int{}, null: map[string][]byte{}, wholes: map[string][]byte{}}
	h.changed = sync.NewCond(&h.mu)
	if opts.Null > 0 {
		for _, f := range h.formats {
			p := plan{id: "null", model: "null", stop: "end", pieces: slices.Repeat([]string{" word"}, opts.Null), usage: Usage{Input: 10, Output: int64(opts.Null)}}
			for _, fr := range f.frames(p) {
				h.null[f.name()] = append(h.null[f.name()], fr.bytes...)
			}
			h.wholes[f.name()] = f.whole(p)
		}
	}
	return h
}

// A Server is a fake vendor that listens.
type Server struct {
	*Handler
	URL  string
	http *httptest.Server
	pipe *pipeListener // nil for a socket
}

// Start starts a fake vendor that runs until the test ends.
func Start(t testing.TB, opts ...Options) *Server {
	t.Helper()
	var o Options
	if len(opts) > 0 {
		o = opts[0]
	}
	s := &Server{Handler: NewHandler(o)}
	if o.Pipe != "" {
		s.http, s.pipe = newPipeServer(o.Pipe, s.Handler)
	} else {
		s.http = httptest.NewUnstartedServer(s.Handler)
	}
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	if o.TLS {
		s.http.EnableHTTP2 = true
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	s.URL = s.http.URL
	t.Cleanup(s.Close)
	return s
}

// Close closes all connections and stops the server.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// TLSConfig returns a client configuration that trusts the server's certificate.
func (s *Server) TLSConfig() *tls.Config {
	return s.http.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}

// Provider returns a provider for a wire at this server, named like the wire. The wire
// "deepseek" is chat in DeepSeek's dialect, "compatible" chat in the dialect of compatible
// servers.
func (s *Server) Provider(wire string) stoa.Provider {
	p := stoa.Provider{Name: wire, Wire: wire, BaseURL: s.URL, APIKey: s.opts.Key}
	switch wire {
	case "responses":
		p.BaseURL += "/v1"
	case "chat":
		p.BaseURL += "/v1"
		p.Dialect = "openai"
	case "deepseek":
		p.Wire, p.Dialect = "chat", "deepseek"
	case "compatible":
		p.Wire, p.Dialect = "chat", "compatible"
		p.BaseURL += "/v1"
	}
	return p
}

// Served returns the records so far, in the order of arrival.
func (h *Handler) Served() []Served {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records()
}

// records returns copies of the records. h.mu must be held.
func (h *Handler) records() []Served {
	out := make([]Served, len(h.served))
	for i, s := range h.served {
		out[i] = *s
	}
	return out
}

// Peak returns the maximum number of requests that were served at the same time.
func (h *Handler) Peak() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.peak
}

// Wait blocks until the records satisfy the condition and returns them. The test
// fails after two minutes: the condition will never be true.
func (h *Handler) Wait(t testing.TB, what string, enough func([]Served) bool) []Served {
	t.Helper()
	late := false
	timer := time.AfterFunc(2*time.Minute, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		late = true
		h.changed.Broadcast()
	})
	defer timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		out := h.records()
		if enough(out) {
			return out
		}
		if late {
			t.Fatalf("the fake vendor waited in vain for %s; its records: %+v", what, out)
		}
		h.changed.Wait()
	}
}

// WaitEnded blocks until at least n requests have ended and none is being served.
func (h *Handler) WaitEnded(t testing.TB, n int) []Served {
	t.Helper()
	return h.Wait(t, "all requests to end", func(all []Served) bool {
		ended := 0
		for _, s := range all {
			if !s.EndedAt.IsZero() {
				ended++
			}
		}
		return ended == len(all) && ended >= n
	})
}

// WaitDeltas blocks until a request is being served of which at least n deltas were
// sent.
func (h *Handler) WaitDeltas(t testing.TB, n int) {
	t.Helper()
	h.Wait(t, "deltas to be sent", func(all []Served) bool {
		return slices.ContainsFunc(all, func(s Served) bool { return s.EndedAt.IsZero() && s.Deltas >= n })
	})
}

// Wake makes Wait check its condition again.
func (h *Handler) Wake() { h.update(func() {}) }

// update changes the records.
func (h *Handler) update(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	h.changed.Broadcast()
}

// tooLong returns vLLM's rejection of a request that does not fit its context.
func (h *Handler) tooLong(a ask) *refusal {
	input, context := int64(len(a.prompt)/4), h.opts.Context
	switch {
	case context == 0:
		return nil
	case input >= context:
		return bad("This model's maximum context length is %d tokens. However, your request has %d input tokens. Please reduce the length of the input messages.", context, input)
	case input+a.maxTokens > context:
		return bad("'max_tokens' or 'max_completion_tokens' is too large: %d. This model's maximum context length is %d tokens and your request has %d input tokens (%d > %d - %d).", a.maxTokens, context, input, a.maxTokens, context, input)
	}
	return nil
}

const maxBody = 64 << 20

// ServeHTTP serves one request of any of the formats.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.count(w, r) {
		return
	}
	var f format
	for _, f = range h.formats {
		if f.match(r.URL.Path) {
			break
		}
		f = nil
	}
	if f == nil || r.Method != http.MethodPost {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	if h.opts.Null > 0 {
		if strings.HasSuffix(r.URL.Path, ":streamGenerateContent") || bytes.Contains(text, []byte(`"stream":true`)) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Write(h.null[f.name()])
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(h.wholes[f.name()])
		return
	}
	s := &Served{ID: strings.TrimPrefix(stoa.NewID("x"), "x_"), Wire: f.name(), StartedAt: time.Now()}
	if !h.opts.Brief {
		s.Header, s.Body = r.Header.Clone(), text
	}
	turn := 0
	h.update(func() {
		turn = len(h.served)
		h.served = append(h.served, s)
		h.inFlight++
		h.peak = max(h.peak, h.inFlight)
	})
	defer func() {
		h.update(func() {
			h.inFlight--
			s.EndedAt = time.Now()
		})
	}()

	var body object
	var a ask
	no := bad("We could not parse the JSON body of your request.")
	if json.Unmarshal(text, &body) == nil && body != nil {
		a, no = f.read(r, body, h.opts.Key)
		a.stops = stopsOf(f.name(), body)
	}
	if no == nil && h.opts.Bound {
		no = a.before.mismatch
	}
	if no == nil && strings.HasPrefix(a.model, "missing-") {
		no = &refusal{status: 404, text: "model: " + a.model}
	}
	a.bytes = len(text)
	if no == nil {
		no = h.tooLong(a)
	}
	if no == nil && h.opts.Cache && len(a.blocks.list) > 0 {
		usage := h.cached(a.blocks, h.opts.Now())
		a.cached = &usage
	}
	orders := a.prompt
	if h.opts.Script != nil {
		orders = h.opts.Script(text)
	}
	o := ParseOrders(orders)
	h.update(func() {
		s.Model, s.Prompt, s.Dropped = a.model, a.prompt, a.dropped
		h.attempts[s.Wire+"\n"+s.Prompt]++
		s.Attempt = h.attempts[s.Wire+"\n"+s.Prompt]
	})
	p := &play{h: h, f: f, w: w, r: r, out: http.NewResponseController(w), s: s, stream: a.stream, left: r.Context().Done()}
	p.orders = o.attempt(s.Attempt)
	p.plan = p.orders.plan(s.ID, a)
	p.plan.turn = turn
	if f.name() == "chat" && !a.usage {
		p.plan.noUsage = true
	}
	p.run(no)
}
