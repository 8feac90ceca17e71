package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/requestlog"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const Prefix = "/api/v1"

// betaPrefix is a second prefix for the models and their operations, because clients of Gemini's API expect it.
const betaPrefix = "/api/v1beta"

// An Exchange is one request on its way to its reply. It is the [http.ResponseWriter] of all inner handlers.
type Exchange struct {
	responseRecorder
	HTTP *http.Request
	Log  Fields
	body []byte // body, once it is read

	messages  bool // errors use the format of Anthropic's Messages
	gemini    bool // errors use the format of Gemini's API
	noCredits int  // status of errors of the type insufficient_quota; 0 means that of the code

	change *change // audit record; nil if the operation is not recorded

	in      *bodyReader // nil if there is no body
	op      *operation
	maxBody int64 // maximum size for the operation, in bytes
	held    int64 // reserved bytes of the budget of bodies
	counted bool  // set by [Base.enterRequest]
}

// Context returns the context for a handler of the control plane. It does not end when the client closes
// its side of the connection, because the client may still wait for the reply and net/http cannot
// distinguish this from a disconnect. Handlers that wait must use the context of the request instead.
func (x *Exchange) Context() context.Context {
	ctx := context.WithoutCancel(x.HTTP.Context())
	if x.change != nil {
		ctx = store.WithAuditor(ctx, x.change)
	}
	return ctx
}

// WriteHeader begins the reply. It settles the body first, because the connection can only be closed by a header.
func (x *Exchange) WriteHeader(status int) {
	if x.status == 0 && status >= 200 && x.in.settle(status) {
		x.Header().Set("Connection", "close")
	}
	x.responseRecorder.WriteHeader(status)
}

// Write sends a piece of the body.
func (x *Exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.responseRecorder.Write(b)
}

// FlushError sends buffered data; see [http.ResponseController].
func (x *Exchange) FlushError() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.responseRecorder.FlushError()
}

func (x *Exchange) takeBody(idle time.Duration) {
	if x.HTTP.Body == nil || x.HTTP.Body == http.NoBody {
		return
	}
	rc := http.NewResponseController(x.ResponseWriter)
	_ = rc.EnableFullDuplex() // so that net/http does not read the rest of a body
	x.in = &bodyReader{
		ReadCloser: x.HTTP.Body, rc: rc, idle: idle, announced: x.HTTP.ContentLength,
		expectsAnswer: strings.EqualFold(x.HTTP.Header.Get("Expect"), "100-continue"),
	}
	x.HTTP.Body = x.in
	if len(x.HTTP.TransferEncoding) > 0 {
		// net/http does not expose whether the request also contained a Content-Length. The connection is closed, because
		// a proxy may treat a request with both as two requests: RFC 9112, 6.1.
		x.Header().Set("Connection", "close")
	}
}

// Header fields that all replies share.
var (
	noSniff       = []string{"nosniff"}
	noStore       = []string{"no-store"}
	contentPolicy = []string{"default-src 'none'; frame-ancestors 'none'"}
)

// Handler serves every path. Each request passes, in order: its id and log line, the check for a
// stopping service, the route, authentication and scope, the parameters, the body.
//
// before receives each request before routing; it reports whether it has answered.
func (b *Base) Handler(mux *http.ServeMux, before func(http.ResponseWriter, *http.Request) (bool, error)) http.Handler {
	return b.Tracer.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		defer b.activity.enter()()
		if b.Extensions.V1Alias && Under(r.URL.Path, "/v1") {
			aliased := *r
			u := *r.URL
			u.Path = "/api" + u.Path
			if u.RawPath != "" {
				u.RawPath = "/api" + u.RawPath
			}
			aliased.URL = &u
			r = &aliased
		}
		x := &Exchange{responseRecorder: responseRecorder{ResponseWriter: w}, HTTP: r}
		x.Log.ID, x.Log.StartedAt = stoa.NewID("req"), started
		h := w.Header()
		h.Set("x-request-id", x.Log.ID)
		h["X-Content-Type-Options"] = noSniff
		// Anthropic's clients receive even the error about the disabled extension in their form, because they read no other.
		if x.messages = (b.Extensions.Messages || r.Method == http.MethodPost) && Under(r.URL.Path, Prefix+"/messages"); x.messages {
			h.Set("request-id", x.Log.ID) // the name that Anthropic's clients read
		}
		x.gemini = Under(r.URL.Path, betaPrefix) || Under(r.URL.Path, Prefix) && stoa.IsGemini(r.URL.Path)
		if Under(r.URL.Path, Prefix+"/chat/completions") {
			x.noCredits = b.ChatNoCredits
		}
		defer b.ended(x)
		defer b.leaveRequest(x)
		defer func() { b.bodies.release(x.Log.Caller.Account.ID, x.held) }()
		defer func() { x.in.linger(x.status, func() (func(), bool) { return b.enterLinger(r.RemoteAddr) }) }()
		defer func() {
			if v := recover(); v != nil {
				// Once a part was sent, the connection must be cut, because nothing else tells the caller that the reply is incomplete.
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(v)
				}
				x.Log.Failed(fmt.Errorf("panic: %v", v))
				x.Log.stack = debug.Stack()
				if x.status != 0 {
					panic(http.ErrAbortHandler)
				}
				x.writeError(x.Log.cause)
			}
		}()
		x.takeBody(b.BodyIdle)
		if b.Hosts != nil && !b.Hosts(r.Host) {
			b.fail(x, stoa.Errorf(stoa.CodeOriginNotAllowed, "This service is not known under the name of the request's Host. Use its address; its operator can set publicUrl to a name.").At("Host"))
			return
		}
		if b.isForWeb(r) {
			b.Web.ServeHTTP(x, r)
			return
		}
		h["Cache-Control"], h["Content-Security-Policy"] = noStore, contentPolicy
		if err := b.dispatch(mux, before, x); err != nil {
			b.fail(x, err)
		}
		if x.status == 0 {
			panic(http.ErrAbortHandler) // otherwise net/http would answer with 200
		}
	}))
}

func (b *Base) ended(x *Exchange) {
	x.Log.end(x.status)
	x.Log.line(x.HTTP.Context(), b.Logger, x.HTTP.Method, x.HTTP.URL.Path, x.bytes)
	if requestlog.Keeps(x.Log.Route) {
		x.Log.Address = b.LoggedAddress(x.HTTP)
	}
	b.Tracer.Request(x.HTTP.Context(), &x.Log.Request)
	if b.Ended != nil {
		b.Ended(&x.Log.Request)
	}
}

// RefuseConnection returns the complete HTTP reply to a connection beyond the limit of its address
// (429) or of the service (503).
func RefuseConnection(ofAddress bool) []byte {
	err := stoa.Errorf(stoa.CodeOverloaded, "The service has reached its maximum number of connections. Try again in a second.").After(time.Second)
	if ofAddress {
		err = stoa.Errorf(stoa.CodeRateLimit, "Your address has reached its maximum number of open connections. Use fewer, or try again in a second.").After(time.Second)
	}
	out := &bufferedReply{header: http.Header{}}
	id := stoa.NewID("req")
	out.header.Set("x-request-id", id)
	writeError(out, id, err, 0)
	res := http.Response{
		StatusCode: out.status, ProtoMajor: 1, ProtoMinor: 1, Header: out.header, Close: true,
		ContentLength: int64(out.body.Len()), Body: io.NopCloser(&out.body),
	}
	var text bytes.Buffer
	_ = res.Write(&text) // writes to a buffer cannot fail
	return text.Bytes()
}

type bufferedReply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *bufferedReply) Header() http.Header         { return b.header }
func (b *bufferedReply) WriteHeader(status int)      { b.status = status }
func (b *bufferedReply) Write(p []byte) (int, error) { return b.body.Write(p) }

// isForWeb reports whether the pages serve the request.
func (b *Base) isForWeb(r *http.Request) bool {
	if b.Web == nil {
		return false
	}
	p := r.URL.Path
	return !Under(p, Prefix) && !Under(p, betaPrefix) || Under(p, Prefix+"/doc")
}

// Under reports whether p is dir or below it.
func Under(p, dir string) bool {
	rest, ok := strings.CutPrefix(p, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// dispatch finds the route and runs it. Paths that the mux would redirect are not found, because a
// redirect turns a POST into a GET.
func (b *Base) dispatch(mux *http.ServeMux, before func(http.ResponseWriter, *http.Request) (bool, error), x *Exchange) error {
	r := x.HTTP
	if b.IsDraining() {
		x.Header().Set("Connection", "close")
	}
	if b.IsDraining() && r.URL.Path != Prefix+"/health" {
		return stoa.Errorf(stoa.CodeOverloaded, "The service is shutting down and accepts no more requests. Try again in a moment.")
	}
	if raw := r.URL.EscapedPath(); !strings.HasPrefix(raw, "/") || path.Clean(raw) != strings.TrimSuffix(raw, "/") && raw != "/" || !isText(r.URL.Path) {
		return notFound(r, nil)
	}
	if done, err := before(x, r); done || err != nil {
		return err
	}
	mux.ServeHTTP(x, r)
	return nil
}

func (b *Base) served(op *operation, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		x := w.(*Exchange)
		x.Log.Route, x.op, x.maxBody = op.pattern, op, op.maxBody
		if rule := b.Audited[op.pattern]; rule != nil {
			x.change = &change{base: b, x: x, name: op.id, rule: rule}
		}
		if err := h(x); err != nil {
			b.fail(x, err)
		}
	})
}

// noRoute answers if no route matches, because the mux would answer in plain text. It lists the path's methods, if
// there are any.
func noRoute(mux *http.ServeMux, patterns []string, custom customMethods) handler {
	return func(x *Exchange) error {
		var allow []string
		for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost, http.MethodPut} {
			other := *x.HTTP
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "/" && custom.have(pattern, x.HTTP.URL.Path) {
				allow = append(allow, method)
			}
		}
		switch {
		case len(allow) == 0:
			return notFound(x.HTTP, patterns)
		}
		if x.HTTP.URL.Path == Prefix+"/responses" && isWebSocket(x.HTTP) {
			x.Header().Set("Upgrade", "HTTP/1.1")
			x.Header().Set("Connection", "Upgrade")
			return stoa.Errorf(stoa.CodeUpgradeRequired, "This path is not served over WebSocket. Send the request with POST over HTTP.")
		}
		methods := strings.Join(allow, ", ")
		x.Header().Set("Allow", methods)
		if _, operation, ok := strings.Cut(path.Base(x.HTTP.URL.Path), ":"); ok && x.HTTP.Method == http.MethodPost && (Under(x.HTTP.URL.Path, Prefix+"/models") || Under(x.HTTP.URL.Path, betaPrefix)) {
			return stoa.Errorf(stoa.CodeMethodNotAllowed, "The operation %q of models is not offered; generateContent, streamGenerateContent and countTokens are.", ShortName(operation))
		}
		return stoa.Errorf(stoa.CodeMethodNotAllowed, "%s is not a method of this path; use %s.", x.HTTP.Method, methods)
	}
}

// isWebSocket reports whether the request would open a WebSocket (RFC 6455, 4.2.1). The key is enough, because proxies
// such as nginx drop the headers Upgrade and Connection, which are for one hop.
func isWebSocket(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.Header.Get("Sec-WebSocket-Key") != "" || hasToken(r.Header["Connection"], "upgrade") && hasToken(r.Header["Upgrade"], "websocket"))
}

// hasToken reports whether one of the comma-separated lists contains the token, ignoring case.
func hasToken(lists []string, token string) bool {
	for _, list := range lists {
		for item := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// formats maps paths of other vendors' formats to extensions, because clients take a 404 of these for an unknown model.
var formats = map[string]string{Prefix + "/chat/completions": "chatCompletions", Prefix + "/messages": "messages", Prefix + "/messages/count_tokens": "messages"}

// elsewhere has the first parts of the paths that clients of other vendors' APIs ask for and no path here resembles.
var elsewhere = []string{
	"assistants", "audio", "batches", "cachedContents", "completions", "containers", "conversations", "embeddings", "evals", "files",
	"fine_tuning", "images", "interactions", "moderations", "realtime", "rerank", "threads", "uploads", "vector_stores", "videos",
}

// notFound returns the error for a path without a route, with the most similar pattern.
func notFound(r *http.Request, patterns []string) error {
	extension := formats[r.URL.Path]
	if stoa.IsGemini(r.URL.Path) && (Under(r.URL.Path, Prefix+"/models") || Under(r.URL.Path, betaPrefix)) {
		extension = "gemini"
	}
	if extension != "" && r.Method == http.MethodPost {
		return stoa.Errorf(stoa.CodeUnsupported, "This format is switched off: the operator can enable the extension %q. POST /api/v1/responses is served.", extension)
	}
	if Under(r.URL.Path, betaPrefix) {
		return stoa.Errorf(stoa.CodeNotFound, "This path does not exist. Below %s are only models and their operations, with the extension \"gemini\", which the operator can enable.", betaPrefix)
	}
	if r.URL.Path == Prefix+"/models" || strings.HasPrefix(r.URL.Path, Prefix+"/models/") {
		return stoa.Errorf(stoa.CodeNotFound, "There is no list of models at this path. GET /api/v1/meta names the models; the operator can enable the extension \"models\".")
	}
	if part, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Prefix+"/"), "/"); slices.Contains(elsewhere, part) {
		return stoa.Errorf(stoa.CodeNotFound, "%q is not a part of this service. It serves models at POST /api/v1/responses; GET /api/v1/openapi.json lists the paths.", part)
	}
	if path := similarPath(r.URL.Path, patterns); path != "" {
		return stoa.Errorf(stoa.CodeNotFound, "This path does not exist; did you mean %s? GET /api/v1/openapi.json lists the paths.", path)
	}
	return stoa.Errorf(stoa.CodeNotFound, "This path does not exist. GET /api/v1/openapi.json lists the paths.")
}

// similarPath returns the path of the pattern that differs from asked in one part, by at most a third of its
// letters or by the prefix "api-"; empty if there is none.
func similarPath(asked string, patterns []string) string {
	parts, best, least := strings.Split(strings.TrimSuffix(asked, "/"), "/"), "", math.MaxInt
	if len(asked) > 200 {
		return ""
	}
	for _, pattern := range patterns {
		_, path, _ := strings.Cut(pattern, " ")
		other := strings.Split(path, "/")
		if len(other) != len(parts) {
			continue
		}
		sum, wrong := 0, 0
		for i, part := range other {
			if parts[i] == part || strings.HasPrefix(part, "{") {
				continue
			}
			wrong++
			d := stoa.EditDistance(parts[i], part)
			if "api-"+parts[i] == part {
				d = 1
			}
			if sum += d; d > (len(part)+2)/3 {
				wrong = len(other)
			}
		}
		if wrong == 1 && sum < least {
			best, least = path, sum
		}
	}
	return best
}

func (b *Base) authenticate(r *http.Request, scope string) (stoa.Caller, error) {
	c, err := b.Verify(r)
	switch {
	case err != nil:
		return c, b.WrongKey(r, err)
	case c.Account.Suspended:
		return c, stoa.Errorf(stoa.CodeSuspended, "This account is suspended. Ask its operator to reactivate it.")
	case len(c.Key.Networks) > 0 && !c.Key.AllowsAddress(b.ClientAddr(r)):
		return c, stoa.Errorf(stoa.CodeNetworkNotAllowed, "This key is not allowed from your address, or your address is unknown to the service. Use it from one of its networks, or change its networks.")
	case scope != "" && !c.Key.Has(scope):
		return c, stoa.Errorf(stoa.CodeScope, "This key does not have the scope %q, which the request requires. Use another key, or create one with that scope.", scope)
	}
	return c, b.admit(r, c)
}

// takesGoogleKey reports whether a path accepts the key in x-goog-api-key, because clients of Gemini's API send no other.
func (b *Base) takesGoogleKey(path string) bool {
	return b.Extensions.Gemini && (Under(path, Prefix+"/models") || Under(path, betaPrefix))
}

// takesBareKey reports whether a path accepts the key in x-api-key, because Anthropic's clients send it there.
func (b *Base) takesBareKey(path string) bool {
	return b.Extensions.Models && Under(path, Prefix+"/models") || b.Extensions.Messages && Under(path, Prefix+"/messages")
}

// A responseRecorder counts the sent bytes for the log line. Its status says whether a reply has begun,
// because an error cannot be sent afterwards.
type responseRecorder struct {
	http.ResponseWriter
	status int // 0 if nothing was sent
	bytes  int64
}

// WriteHeader begins the reply.
func (t *responseRecorder) WriteHeader(status int) {
	if t.status == 0 && status >= 200 {
		t.status = status
	}
	t.ResponseWriter.WriteHeader(status)
}

// Write sends a piece of the body.
func (t *responseRecorder) Write(b []byte) (int, error) {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	n, err := t.ResponseWriter.Write(b)
	t.bytes += int64(n)
	return n, err
}

// FlushError sends buffered data; see [http.ResponseController].
func (t *responseRecorder) FlushError() error {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	return http.NewResponseController(t.ResponseWriter).Flush()
}

// Unwrap lets [http.ResponseController] reach the connection.
func (t *responseRecorder) Unwrap() http.ResponseWriter { return t.ResponseWriter }
