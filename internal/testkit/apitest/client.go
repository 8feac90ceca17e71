package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
)

// A Client sends requests and fails its test whenever a reply violates the contract.
type Client struct {
	URL    string
	Key    string            // empty means none is sent
	Header map[string]string // sent with every request; an empty value removes a header

	t        testing.TB
	http     *http.Client
	recorder *Recorder
}

// NewClient returns a client of any running service. The recorder may be nil.
func NewClient(t testing.TB, baseURL, key string, r *Recorder) *Client {
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &Client{
		URL: baseURL, Key: key, t: t, recorder: r,
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// With returns the client with one more header.
func (c *Client) With(name, value string) *Client {
	next := *c
	next.Header = map[string]string{name: value}
	for k, v := range c.Header {
		if k != name {
			next.Header[k] = v
		}
	}
	return &next
}

// A Reply is a reply that conforms to the contract.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
	Close  bool                     // the connection is closed after it
	Events []contract.ResponseEvent // of a stream
	Log    []LogEvent               // of a stream of a session's events
	t      testing.TB
}

// Do sends a request and checks it and its reply. A string or bytes are sent unchanged as the
// body, nil means none, any other value becomes JSON.
func (c *Client) Do(method, path string, body any) *Reply {
	c.t.Helper()
	r, err := c.Try(context.Background(), method, path, body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// Want is [Client.Do] for a reply that must have the given status.
func (c *Client) Want(status int, method, path string, body any) *Reply {
	c.t.Helper()
	r := c.Do(method, path, body)
	if r.Status != status {
		c.t.Fatalf("%s %s answered %d, want %d: %s", method, path, r.Status, status, r.Body)
	}
	return r
}

// WantError is [Client.Do] for a reply that must be the given error; it returns it.
func (c *Client) WantError(code stoa.Code, method, path string, body any) contract.ErrorBody {
	c.t.Helper()
	r := c.Do(method, path, body)
	e := r.Error()
	if e.Code != string(code) {
		c.t.Fatalf("%s %s answered %d %s, want %s: %s", method, path, r.Status, e.Code, code, r.Body)
	}
	return e
}

// Try is [Client.Do], but returns violations as an error.
func (c *Client) Try(ctx context.Context, method, path string, body any) (*Reply, error) {
	raw, err := encode(body)
	if err != nil {
		return nil, err
	}
	var reader io.Reader
	if raw != nil {
		reader = bytes.NewReader(raw)
	}
	return c.send(ctx, method, path, raw, reader)
}

// Stall sends a request whose body begins and never continues.
func (c *Client) Stall(method, path string) *Reply {
	c.t.Helper()
	begun, stalled := io.Pipe()
	defer stalled.Close()
	r, err := c.send(c.t.Context(), method, path, []byte("{"), io.MultiReader(strings.NewReader("{"), begun))
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// send sends a request; raw is the body for the check against the contract.
func (c *Client) send(ctx context.Context, method, path string, raw []byte, reader io.Reader) (*Reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, reader)
	if err != nil {
		return nil, err
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	if raw != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.Header {
		req.Header.Set(name, value)
		if value == "" {
			req.Header.Del(name)
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read the reply: %w", err)
	}
	r := &Reply{Status: res.StatusCode, Header: res.Header, Body: text, Close: res.Close, t: c.t}
	u, err := url.Parse(path)
	if err != nil {
		return nil, err
	}
	return r, c.check(r, method, u.EscapedPath(), raw)
}

func encode(body any) ([]byte, error) {
	switch body := body.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(body), nil
	case []byte:
		return body, nil
	}
	return json.Marshal(body)
}

// check checks a request and its reply against the contract.
func (c *Client) check(r *Reply, method, path string, sent []byte) error {
	id := r.Header.Get("x-request-id")
	if !stoa.IsID("req", id) {
		return fmt.Errorf("%d: x-request-id is %q", r.Status, id)
	}
	if r.Header.Get("X-Content-Type-Options") != "nosniff" {
		return fmt.Errorf("%d: nosniff is missing", r.Status)
	}
	if rest, ok := strings.CutPrefix(path, "/api/v1beta/models"); ok { // the same operations
		path = "/api/v1/models" + rest
	}
	op := find(Document(), strings.Replace(method, http.MethodHead, http.MethodGet, 1), path)
	if op == nil {
		if r.Status != http.StatusNotFound && r.Status != http.StatusMethodNotAllowed && r.Status != http.StatusUpgradeRequired && r.Status < 500 {
			return fmt.Errorf("the contract has no %s %s, and it answered %d", method, path, r.Status)
		}
		return c.checkEnvelope(r, nil)
	}
	documented := op.Responses.Status(r.Status)
	if documented == nil {
		return fmt.Errorf("%s: the status %d is not documented: %.300s", op.OperationID, r.Status, r.Body)
	}
	c.recorder.saw(op.OperationID, r.Status)
	for name, h := range documented.Value.Headers {
		value := r.Header.Get(name)
		if value == "" {
			if h.Value.Required {
				return fmt.Errorf("%s %d: the header %s is missing", op.OperationID, r.Status, name)
			}
			continue
		}
		if err := checkHeader(h.Value.Schema.Value.Type.Is("integer"), value, func(v any) error { return visit(h.Value.Schema.Value, v) }); err != nil {
			return fmt.Errorf("%s %d: the header %s is %q: %w", op.OperationID, r.Status, name, value, err)
		}
	}
	if method == http.MethodHead {
		return nil
	}
	if r.Status >= 400 && len(documented.Value.Extensions) > 0 {
		codes, _ := documented.Value.Extensions["x-codes"].([]any)
		if op.Extensions["x-error-form"] == "messages" {
			return c.checkMessagesError(r, codes)
		}
		if op.Extensions["x-error-form"] == "gemini" {
			return c.checkGeminiError(r, codes)
		}
		return c.checkEnvelope(r, codes)
	}
	if len(documented.Value.Content) == 0 {
		if len(r.Body) > 0 {
			return fmt.Errorf("%s %d: has a body: %.200s", op.OperationID, r.Status, r.Body)
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("%s %d: content type: %w", op.OperationID, r.Status, err)
	}
	content := documented.Value.Content.Get(media)
	if content == nil {
		return fmt.Errorf("%s %d: the content type %s is not documented", op.OperationID, r.Status, media)
	}
	if r.Status < 300 && op.RequestBody != nil && op.RequestBody.Value.Content["application/json"] != nil && len(bytes.TrimSpace(sent)) > 0 {
		var v any
		if err := json.Unmarshal(sent, &v); err != nil {
			return fmt.Errorf("%s: took a body that is not JSON: %w", op.OperationID, err)
		}
		if err := visit(op.RequestBody.Value.Content["application/json"].Schema.Value, v); err != nil {
			return fmt.Errorf("%s: took a body that the contract refuses: %w", op.OperationID, err)
		}
	}
	switch media {
	case "text/event-stream":
		switch op.OperationID {
		case "listSessionEvents":
			return r.checkLog(content.Schema.Value, false)
		case "listEmbedEvents":
			return r.checkLog(content.Schema.Value, true)
		}
		if op.OperationID == "createChatCompletion" {
			return r.checkChunks(content.Schema.Value)
		}
		if op.OperationID == "createMessage" {
			return r.checkBlocks(content.Schema.Value)
		}
		if op.OperationID == "streamGenerateContent" {
			return r.checkObjects(content.Schema.Value)
		}
		if op.OperationID == "callMCP" || op.OperationID == "callAgentMCP" || op.OperationID == "runAgent" {
			return r.checkMessages(content.Schema.Value)
		}
		return r.checkStream()
	case "application/json":
		if r.Header.Get("Content-Encoding") != "" {
			return nil
		}
		var v any
		if err := json.Unmarshal(r.Body, &v); err != nil {
			return fmt.Errorf("%s %d: not JSON: %w", op.OperationID, r.Status, err)
		}
		if err := visit(content.Schema.Value, v); err != nil {
			return fmt.Errorf("%s %d: %w in %.1000s", op.OperationID, r.Status, err, r.Body)
		}
		if times := badTimes(v); times != "" {
			return fmt.Errorf("%s %d: the time %s is not UTC with milliseconds", op.OperationID, r.Status, times)
		}
	}
	return nil
}

func checkHeader(isInteger bool, value string, visit func(any) error) error {
	if !isInteger {
		return visit(value)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return err
	}
	return visit(float64(n))
}

// badTimes finds a member with a time's name whose form violates the contract.
func badTimes(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if text, ok := value.(string); ok && strings.HasSuffix(name, "At") && (len(text) != 24 || text[19] != '.' || text[23] != 'Z') {
				return name + " " + text
			}
			if bad := badTimes(value); bad != "" {
				return bad
			}
		}
	case []any:
		for _, value := range v {
			if bad := badTimes(value); bad != "" {
				return bad
			}
		}
	}
	return ""
}

// checkEnvelope checks an error against the envelope, the table of codes, and the documented
// codes of the status.
func (c *Client) checkEnvelope(r *Reply, documented []any) error {
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		return fmt.Errorf("%d: an error of the type %q: %.200s", r.Status, got, r.Body)
	}
	if len(r.Body) == 0 { // of a HEAD request
		return nil
	}
	var v any
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return fmt.Errorf("%d: an error that is not JSON: %.200s", r.Status, r.Body)
	}
	if err := visit(Document().Components.Schemas["ErrorEnvelope"].Value, v); err != nil {
		return fmt.Errorf("%d: %w: %s", r.Status, err, r.Body)
	}
	e := r.Error()
	info := contract.Code(stoa.Code(e.Code))
	switch {
	case string(info.Code) != e.Code:
		return fmt.Errorf("the code %q is not in the table", e.Code)
	case info.Status != r.Status && (info.Type != contract.TypeQuota || r.Status != http.StatusPaymentRequired || documented == nil) || info.Type != e.Type:
		return fmt.Errorf("%q came as %d %s, the table says %d %s", e.Code, r.Status, e.Type, info.Status, info.Type)
	case e.RequestID != r.Header.Get("x-request-id"):
		return fmt.Errorf("%q: the body has the request id %s, the header %s", e.Code, e.RequestID, r.Header.Get("x-request-id"))
	case documented != nil && !slices.Contains(documented, any(e.Code)):
		return fmt.Errorf("the code %q is not documented for this status: %s", e.Code, r.Body)
	case info.Type == contract.TypeQuota && r.Header.Get("Retry-After") != "":
		return fmt.Errorf("%q has a Retry-After", e.Code)
	case r.Header.Get("x-should-retry") != "" && r.Header.Get("x-should-retry") != strconv.FormatBool(e.Retryable):
		return fmt.Errorf("%q: retryable and x-should-retry differ", e.Code)
	case e.Code == string(stoa.CodeInternal) && strings.Contains(e.Message, "sql"):
		return fmt.Errorf("an internal text got out: %s", e.Message)
	}
	return nil
}

// JSON reads the body.
func (r *Reply) JSON(into any) *Reply {
	r.t.Helper()
	if err := json.Unmarshal(r.Body, into); err != nil {
		r.t.Fatalf("%v in %.300s", err, r.Body)
	}
	return r
}

// Error reads the body as an error; its fields are empty if it is not one.
func (r *Reply) Error() contract.ErrorBody {
	var e struct {
		contract.ErrorEnvelope
		RequestID string `json:"request_id"` // in the Messages format
	}
	if g := geminiErrorOf(r.Body); g.Code != "" {
		return g
	}
	_ = json.Unmarshal(r.Body, &e) // an invalid body leaves the fields empty
	if e.RequestID != "" {
		e.Error.RequestID = e.RequestID
	}
	return e.Error
}
