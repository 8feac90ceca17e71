// Package httptool calls servers that have no protocol for tools, with requests that the
// owner of a connection or an OpenAPI document describes. Each operation is a tool; its
// definition contains the request, so that the reviewed request is the one that is sent.
//
// The values of a call are data: they are encoded into the path, the query, headers of fixed
// names and a JSON body, and can change neither the host nor the path's segments nor add a
// header. Nothing is sent twice, no redirect is followed.
//
// See docs/decisions/0049-pin-an-http-tool-together-with-its-request.md. Start with
// [Server.Catalog] and [Server.Call].
package httptool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"stoa/internal/agents/oauth"
	"stoa/internal/agents/remote"
	"stoa/internal/base/media"
	"stoa/internal/base/outbound"
)

// A Server is a server, and the description of its requests: Operations, or a document.
type Server struct {
	remote.Endpoint
	Operations  string // JSON list of [Operation]; empty if a document describes them
	Document    string // OpenAPI, in JSON or YAML; empty if it is at DocumentURL
	DocumentURL string
	Filter      *Filter         // nil selects all operations
	ReadWith    remote.Endpoint // for the request for the document, because that may have another origin
	Account     string          // accounts take turns in reading documents
}

// Catalog makes the tools from the description. It only sends a request for a document that
// has an address.
func (s Server) Catalog(ctx context.Context) (*remote.Catalog, error) {
	if s.Operations != "" {
		tools, err := FromOperations(s.Operations)
		if err != nil {
			return nil, &remote.Error{Class: remote.NotSent, Message: remote.Sentence(err.Error())}
		}
		return &remote.Catalog{Tools: tools}, nil
	}
	text := []byte(s.Document)
	if len(text) == 0 {
		var err error
		if text, err = s.fetch(ctx); err != nil {
			return nil, err
		}
	}
	return s.readDocument(ctx, text)
}

func (s Server) fetch(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.DocumentURL, nil)
	if err != nil {
		return nil, &remote.Error{Class: remote.NotSent, Message: "The address of the document cannot be used.", Err: err}
	}
	req.Header.Set("Accept", "application/json, application/yaml, text/yaml, */*")
	req.Header.Set("User-Agent", "stoa")
	s.ReadWith.Credential.Add(req)
	most := int64(MaxJSON)
	if s.ReadWith.Credential.Value != "" { // because the search for the secret needs 30 bytes for each byte
		most = MaxDocument
	}
	reply, failed := exchange(s.ReadWith.Network.Client(outbound.Limits{Body: most}), req)
	if failed != nil {
		return nil, failed
	}
	if reply.Status/100 != 2 {
		return nil, remote.OfStatus(reply.Status, reply.Header, nil)
	}
	return s.ReadWith.Credential.Blank(reply.Body), nil
}

func exchange(client *outbound.Client, req *http.Request) (*outbound.Reply, *remote.Error) {
	reply, err := client.Exchange(req)
	if failed, ok := errors.AsType[*outbound.Error](err); ok {
		return nil, remote.OfNetwork(failed)
	}
	if err != nil {
		return nil, &remote.Error{Class: remote.Unknown, Message: "The request failed.", Err: err}
	}
	return reply, nil
}

// Call sends the request that the approved definition describes.
func (s Server) Call(ctx context.Context, call remote.Call) (*remote.Result, error) {
	d := remote.Parse(call.Definition)
	p, err := planOf(d)
	if err != nil {
		return nil, &remote.Error{Class: remote.NotSent, Message: "The definition of the tool cannot be used. Refresh the connection.", Err: err}
	}
	made, err := p.request(d, s.URL, call.Arguments)
	if err != nil {
		return nil, &remote.Error{Class: remote.NotSent, Message: remote.Sentence(err.Error())}
	}
	var body io.Reader
	if made.body != nil {
		body = io.NopCloser(bytes.NewReader(made.body)) // so that net/http cannot send the call a second time
	}
	req, err := http.NewRequestWithContext(ctx, p.Method, made.url, body)
	if err != nil {
		return nil, &remote.Error{Class: remote.NotSent, Message: "The address of the request cannot be used.", Err: err}
	}
	for name, value := range made.headers {
		req.Header.Set(name, value)
	}
	for name, value := range s.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.1")
	req.Header.Set("User-Agent", "stoa")
	if made.body != nil {
		req.ContentLength = int64(len(made.body))
		req.Header.Set("Content-Type", map[bool]string{false: "application/json", true: formType}[p.Form])
	}
	if p.IdempotencyKey {
		req.Header.Set("Idempotency-Key", call.ID)
	}
	s.Credential.Add(req)
	most := cmp.Or(call.MaxResult, remote.MaxResult)
	reply, failed := exchange(s.Network.Client(outbound.Limits{Body: most, Cut: true, ErrorBody: s.Credential.ErrorBody()}), req)
	if failed != nil {
		return nil, failed
	}
	return s.result(p, reply)
}

// result reads a reply. Plain HTTP reports by the status that a request was executed, so any 2xx
// is an answer. A 4xx is a failed result, because its body explains to the model what is wrong,
// except for the statuses about the secret, the rate and the time.
func (s Server) result(p *plan, reply *outbound.Reply) (*remote.Result, error) {
	out := &remote.Result{Bytes: len(reply.Body)}
	kind := reply.Header.Get("Content-Type")
	status := "Status: " + strconv.Itoa(reply.Status) + "\n"
	switch code := reply.Status; {
	case code/100 == 2:
		if m, err := media.ImageOf(reply.Body); err == nil && !reply.Cut {
			out.Text = status + out.Show(m)
			return out, nil
		}
		out.Text = status + p.text(kind, s.Credential.Beginning(reply.Body, reply.Cut), reply.Cut)
		return out, nil
	case code/100 == 4 && code != http.StatusUnauthorized && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests && len(oauth.Lacking(reply.Header.Values("WWW-Authenticate"))) == 0:
		body := s.Credential.Uncut(reply.Body)
		out.IsError, out.Text = true, status+"The reply is empty."
		if len(bytes.TrimSpace(body)) > 0 {
			out.Text = status + remote.CutBytes((&plan{}).text(kind, body, false), remote.MaxErrorText)
		}
		return out, nil
	}
	failed := remote.OfStatus(reply.Status, reply.Header, errors.New(strings.TrimSpace(status)))
	failed.Says(string(decoded(kind, s.Credential.Uncut(reply.Body))))
	return nil, failed
}
