// Package client calls the service over HTTP as the contract describes it: one
// way to send a request, with safe retries, errors that carry what the service
// replied, iterators over pages, and streams.
//
// It never prints or prompts, and keeps nothing between calls but connections.
// Start at [Client.Do]; [Client.Respond] and [Client.Stream] are model calls.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

// Prefix begins every path of the API.
const Prefix = "/api/v1"

const (
	tries   = 3                // attempts of one request, in total
	maxWait = 10 * time.Second // maximum pause before a retry; a longer Retry-After ends the attempts, so that no command hangs
	maxBody = 64 << 20         // maximum reply that is read completely
)

// A Client calls one service with one key. It is safe for concurrent use.
type Client struct {
	// UserAgent names the caller; set it before the first call.
	UserAgent string

	base string
	key  string
	http *http.Client
}

// New returns a client for the service at base, an origin such as https://stoa.example. It accepts a trailing
// /api/v1 as well. An empty key is not sent.
func New(base, key string) (*Client, error) {
	short := strings.TrimRight(strings.TrimSpace(base), "/")
	short = strings.TrimRight(strings.TrimSuffix(short, Prefix), "/")
	at, err := url.Parse(short)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return nil, fmt.Errorf("the base URL %q is not an address such as https://stoa.example or http://127.0.0.1:8080", base)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	transport.MaxIdleConnsPerHost = 8
	c := &Client{UserAgent: "stoa", base: at.String(), key: key}
	c.http = &http.Client{
		Transport: transport,
		// Redirects are not followed, because they would turn a POST into a GET, or carry the key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// BaseURL returns the origin of the service.
func (c *Client) BaseURL() string { return c.base }

// A Request is one call. At most one of Body and Open is set.
type Request struct {
	Method string // empty means GET
	Path   string // escaped path of the API: "/keys" and "/api/v1/keys" are the same
	Query  url.Values
	Header http.Header

	Body []byte                        // JSON, unless Header says otherwise
	Open func() (io.ReadCloser, error) // returns a new body for each attempt, because the previous one may be consumed
	Size int64                         // length of the body from Open; -1 if unknown

	// Once disables the Idempotency-Key of a POST, so that it is not sent again after it may have arrived.
	Once bool
}

// Do sends a request and returns the reply, whose body the caller closes. A status of
// 300 or more, except 304, is an [*Error].
//
// A POST gets an Idempotency-Key. A request is sent up to three times in total if the service requests a
// retry, or if it was lost on the network and repeating it is harmless.
func (c *Client) Do(ctx context.Context, r Request) (*http.Response, error) {
	r = c.prepare(r)
	return retry(ctx, r, func() (*http.Response, error) { return c.send(ctx, r) })
}

// Bytes is like [Client.Do], and reads the complete reply of at most 64 MiB.
func (c *Client) Bytes(ctx context.Context, r Request) ([]byte, http.Header, error) {
	r = c.prepare(r)
	var header http.Header
	body, err := retry(ctx, r, func() ([]byte, error) {
		res, err := c.send(ctx, r)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		header = res.Header
		body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
		if err != nil {
			return nil, &networkError{c.base, err}
		}
		if len(body) > maxBody {
			return nil, fmt.Errorf("the reply of %s is larger than %d MiB", r.Path, maxBody>>20)
		}
		return body, nil
	})
	return body, header, err
}

// JSON sends body as JSON (if not nil), decodes the reply into into (if not nil) and returns the reply's bytes.
func (c *Client) JSON(ctx context.Context, method, path string, query url.Values, body, into any) (jsonx.Value, error) {
	r := Request{Method: method, Path: path, Query: query}
	if body != nil {
		text, err := jsonx.Marshal(body)
		if err != nil {
			return nil, err
		}
		r.Body = text
	}
	reply, _, err := c.Bytes(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(reply) > 0 && !jsonx.Valid(reply) {
		return nil, c.notThisAPI(r.Path)
	}
	if into != nil {
		if err := jsonx.Unmarshal(reply, into); err != nil {
			return nil, c.notThisAPI(r.Path)
		}
	}
	return reply, nil
}

// Me returns the account of the client's key.
func (c *Client) Me(ctx context.Context) (contract.User, error) {
	var user contract.User
	if _, err := c.JSON(ctx, http.MethodGet, "/users/me", nil, nil, &user); err != nil {
		return contract.User{}, err
	}
	if user.ID == "" {
		return contract.User{}, c.notThisAPI("/users/me")
	}
	return user, nil
}

func (c *Client) notThisAPI(path string) error {
	return fmt.Errorf("%s did not answer %s with the JSON of this API; check the base URL and the service's version", c.base, path)
}

// prepare fills in defaults and headers once, so that every attempt sends the same Idempotency-Key.
func (c *Client) prepare(r Request) Request {
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	r.Path = "/" + strings.TrimLeft(r.Path, "/")
	if r.Path != Prefix && !strings.HasPrefix(r.Path, Prefix+"/") {
		r.Path = Prefix + r.Path
	}
	r.Header = r.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("User-Agent", c.UserAgent)
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if r.Body != nil && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if r.Method == http.MethodPost && !r.Once && r.Header.Get("Idempotency-Key") == "" {
		r.Header.Set("Idempotency-Key", "cli-"+rand.Text())
	}
	return r
}

func (c *Client) send(ctx context.Context, r Request) (*http.Response, error) {
	address := c.base + r.Path
	if len(r.Query) > 0 {
		address += "?" + r.Query.Encode()
	}
	var body io.Reader
	size := int64(len(r.Body))
	switch {
	case r.Open != nil:
		f, err := r.Open()
		if err != nil {
			return nil, err
		}
		body, size = f, r.Size
	case r.Body != nil:
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, address, body)
	if err != nil {
		return nil, err
	}
	req.Header = r.Header
	if req.ContentLength = size; size == 0 {
		req.Body = http.NoBody
		if f, ok := body.(io.Closer); ok {
			f.Close()
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &networkError{c.base, err}
	}
	if res.StatusCode >= 300 && res.StatusCode != http.StatusNotModified {
		defer res.Body.Close()
		return nil, readError(res)
	}
	return res, nil
}

// repeatable reports whether sending the request twice has the effect of sending it once.
func (r Request) repeatable() bool {
	if r.Header.Get("If-Match") != "" || r.Header.Get("If-None-Match") != "" && r.Method != http.MethodGet {
		return false // the first attempt may have changed the state that the condition compares
	}
	return r.Method != http.MethodPost || r.Header.Get("Idempotency-Key") != ""
}

// retry calls try until it succeeds, fails permanently, was called tries times, or ctx ends.
func retry[T any](ctx context.Context, r Request, try func() (T, error)) (T, error) {
	for n := 1; ; n++ {
		got, err := try()
		if err == nil || n == tries || ctx.Err() != nil {
			return got, err
		}
		wait := time.Duration(n) * 250 * time.Millisecond
		if answer, ok := errors.AsType[*Error](err); ok {
			if !answer.Retryable {
				return got, err
			}
			wait = max(wait, answer.RetryAfter)
		} else if lost, ok := errors.AsType[*networkError](err); !ok || !r.repeatable() || lost.dialing() {
			return got, err
		}
		if wait > maxWait {
			return got, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return got, ctx.Err()
		}
	}
}
