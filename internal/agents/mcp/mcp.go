// Package mcp is a client for servers of the Model Context Protocol over HTTP: it reads their
// catalogs of tools and makes single calls.
//
// The official SDK implements the handshake, the headers and the sessions of both eras of the
// protocol. The rest is implemented around it, on the requests themselves: results and
// definitions are read from the bytes that the server sent, so that an unreadable part does
// not affect the others, numbers keep their spelling, every size has a limit, and for each
// call it is known whether the server may have received it. Nothing is repeated that the
// server may have carried out.
//
// See docs/decisions/0047-use-the-official-mcp-sdk-with-our-own-transport.md. The package stores
// nothing and decides nothing about the data. Start with [Server.Catalog] and [Server.Call].
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/agents/remote"
	"stoa/internal/base/outbound"
	"stoa/internal/base/sse"
)

const maxPages = 50 // because a hostile server may send new cursors without end

// Modern is the first version of the protocol without sessions.
const Modern = "2026-07-28"

// A Server is a server, and the data that requests to it send.
type Server struct {
	remote.Endpoint
	// Protocol is the version that the server last used; empty if unknown.
	Protocol string
	// Version is the version of this program, which is sent to the server.
	Version string
}

// Catalog requests a server's tools. Its errors are [*remote.Error].
func (s Server) Catalog(ctx context.Context) (*remote.Catalog, error) {
	s.Protocol = "" // because the server may have changed its version
	c, err := s.open(ctx, remote.MaxCatalog, false)
	if err != nil {
		return nil, s.older(ctx, err)
	}
	defer c.close()
	out := &remote.Catalog{}
	if r := c.session.InitializeResult(); r != nil {
		out.Protocol, out.Instructions = r.ProtocolVersion, r.Instructions
		if r.ServerInfo != nil {
			out.Name, out.Version = r.ServerInfo.Name, r.ServerInfo.Version
		}
	}
	var entries []json.RawMessage
	known := map[string]bool{} // so that a page that is sent twice does not make its tools ambiguous
	bytes, pages, seen := 0, 0, map[string]bool{}
	for cursor := (*string)(nil); ; {
		if pages++; pages > maxPages {
			return nil, remote.Against("The server's list of tools does not end.")
		}
		page, err := c.list(ctx, cursor)
		if err != nil {
			return nil, err
		}
		if ttl := page.ttl(); ttl != 0 && (out.TTL == 0 || ttl < out.TTL) {
			out.TTL = ttl
		}
		for _, t := range page.Tools {
			if pages > 1 && known[string(t)] {
				continue
			}
			known[string(t)] = true
			bytes += len(t)
			entries = append(entries, t)
		}
		if len(entries) > remote.MaxTools || bytes > remote.MaxCatalog {
			return nil, remote.Against(fmt.Sprintf("The server has more than %d tools, or more than %d MiB of definitions.", remote.MaxTools, remote.MaxCatalog>>20))
		}
		if cursor = page.NextCursor; cursor == nil {
			break
		}
		if seen[*cursor] {
			out.Note = fmt.Sprintf("The server's list of tools does not end: it repeats a cursor on page %d. These are the tools up to there.", pages)
			break
		}
		seen[*cursor] = true
	}
	out.Tools = remote.ParseTools(entries)
	for i, t := range out.Tools {
		if t.Problem == "" && out.Protocol >= Modern {
			_, out.Tools[i].Problem = argumentsOf(t.Definition)
		}
	}
	return out, nil
}

// A listing is one page of a catalog.
type listing struct {
	Tools      []json.RawMessage `json:"tools"`
	NextCursor *string           `json:"nextCursor"` // nil on the last page; an empty one leads to another page, too
	TTLMs      json.RawMessage   `json:"ttlMs"`      // raw, so that an invalid one does not affect the tools
}

// ttl returns the time for which the page is valid; 0 if the server does not say.
func (l listing) ttl() time.Duration {
	ms, err := strconv.ParseFloat(string(l.TTLMs), 64)
	if err != nil || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, float64(maxTTL.Milliseconds()))) * time.Millisecond
}

const maxTTL = 365 * 24 * time.Hour // to avoid an overflow

// A connected is an open session with a server.
type connected struct {
	session *sdk.ClientSession
	wire    *wire
	calls   int // number of calls that use it; guarded by [Session]
}

func (c *connected) protocol() string {
	if r := c.session.InitializeResult(); r != nil {
		return r.ProtocolVersion
	}
	return ""
}

// spoken contains the versions without sessions that the SDK supports: if a server last used
// one of them, no version is requested before a call.
var spoken = map[string]bool{Modern: true}

// open connects to a server with replies of at most limit bytes each. If the server no longer
// accepts the handshake of its last version, the version is requested again, because the server
// may have been updated. A version without sessions has no handshake: nothing is sent. listens
// receives the server's requests outside of the streams of calls.
func (s Server) open(ctx context.Context, limit int64, listens bool) (*connected, error) {
	c, err := s.handshake(ctx, limit, listens)
	failed, _ := errors.AsType[*remote.Error](err)
	if failed != nil && failed.Reason == "" && !failed.Unauthorized && s.Protocol != "" && s.Protocol < Modern {
		s.Protocol = ""
		c, err = s.handshake(ctx, limit, listens)
	}
	return c, err
}

// handshake is open for one version of the protocol.
func (s Server) handshake(ctx context.Context, limit int64, listens bool) (*connected, error) {
	w := &wire{server: s, client: s.Network.Client(outbound.Limits{Body: limit, ErrorBody: s.Credential.ErrorBody()}), listens: listens}
	if spoken[s.Protocol] {
		w.assumed = s.Protocol
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "stoa", Version: s.Version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	if err := sdk.AddSendingCustomMethod[*listSkillsParams, *listedSkills](client, "skills/list"); err != nil {
		return nil, &remote.Error{Class: remote.NotSent, Message: "The client could not be prepared.", Err: err}
	}
	transport := &sdk.StreamableClientTransport{
		Endpoint: s.URL, MaxRetries: -1, DisableStandaloneSSE: !listens, MaxEventSize: int(limit),
		HTTPClient: &http.Client{Transport: w, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	var options *sdk.ClientSessionOptions
	if s.Protocol != "" && s.Protocol < Modern {
		options = &sdk.ClientSessionOptions{ProtocolVersion: s.Protocol}
	}
	session, err := client.Connect(ctx, transport, options)
	if err != nil {
		x := w.asked.last()
		if denied := w.denied.last(); denied.status != 0 { // because the SDK continues with the handshake of the other era
			x = denied
		}
		failed := x.failure(ctx, err)
		failed.Class = remote.NotSent // the call itself was not sent
		return nil, failed
	}
	return &connected{session: session, wire: w}, nil
}

const closeTime = 2 * time.Second

// close ends the session. It waits at most closeTime for a server of the legacy era, because its
// turn would end later otherwise, and a server ends abandoned sessions itself.
func (c *connected) close() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.session.Close()
	}()
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// emptyCursor stands for an empty cursor, because the SDK would leave that out of the request.
const emptyCursor = "\x00empty"

// list reads one page of the catalog from the bytes of the reply, because the SDK rounds
// integers and loses all tools because of one invalid tool.
func (c *connected) list(ctx context.Context, cursor *string) (page listing, err error) {
	c.wire.asked.keep(exchange{})
	params := &sdk.ListToolsParams{}
	if cursor != nil {
		params.Cursor = cmp.Or(*cursor, emptyCursor)
	}
	_, err = c.session.ListTools(ctx, params)
	x := c.wire.asked.last()
	if x.result == nil {
		return page, x.failure(ctx, err)
	}
	if json.Unmarshal(x.result, &page) != nil {
		return page, remote.Against("The server's list of tools cannot be read.")
	}
	return page, nil
}

// Call calls a tool once. Its errors are [*remote.Error]: the class says whether the server may
// have carried out the call.
func (s Server) Call(ctx context.Context, call remote.Call) (*remote.Result, error) {
	session := s.Session()
	defer session.Close()
	return session.Call(ctx, call)
}

// failure returns the error of an exchange without a result.
func (x exchange) failure(ctx context.Context, err error) *remote.Error {
	failed, network := errors.AsType[*outbound.Error](x.err)
	switch {
	case network:
		return remote.OfNetwork(failed)
	case x.code != 0:
		e := remote.OfStatus(x.status, x.header, err)
		e.Code = x.code
		e.Message = fmt.Sprintf("The server rejects the call with the error %d: %s", x.code, remote.Visible(remote.Cut(x.message, 500)))
		if refusals[x.code] {
			e.Class = remote.Refused
		}
		return e
	case x.status != 0 && x.status/100 != 2:
		e := remote.OfStatus(x.status, x.header, err)
		e.Says(x.said)
		return e
	case x.err == errQuestion:
		return &remote.Error{Class: remote.Refused, Message: remote.Sentence(x.err.Error()), Err: err}
	case x.err != nil:
		return &remote.Error{Class: remote.Unknown, Message: remote.Sentence(x.err.Error()), Err: err}
	case x.begun:
		return &remote.Error{Class: remote.Unknown, Message: "The time was over before the server answered.", Reason: outbound.Timeout, Err: err}
	case x.status == 0 && ctx.Err() != nil:
		return &remote.Error{Class: remote.NotSent, Message: "The time was over before the call was sent.", Reason: outbound.Timeout, Err: err}
	case x.status == 0:
		return &remote.Error{Class: remote.NotSent, Message: "The server does not support any protocol version that this service supports.", Err: err}
	default:
		return &remote.Error{Class: remote.Unknown, Message: "The server's reply is not a message of the protocol.", Err: err}
	}
}

// older returns the error for a server with which no handshake was possible. It names the
// transport of 2024-11-05 if the server uses that one, so that a person can correct the address.
func (s Server) older(ctx context.Context, err error) error {
	failed, _ := errors.AsType[*remote.Error](err)
	if failed == nil || failed.Status != http.StatusBadRequest && failed.Status != http.StatusNotFound && failed.Status != http.StatusMethodNotAllowed {
		return err
	}
	w := &wire{server: s, client: s.Network.Client(outbound.Limits{Body: 64 << 10, Total: 5 * time.Second})} // since such a stream does not end
	req, invalid := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if invalid != nil {
		return err
	}
	maps.Copy(req.Header, headers(s))
	s.Credential.Add(req)
	resp, unreachable := w.get(req, "")
	if unreachable != nil {
		return err
	}
	defer resp.Body.Close()
	if !isStream(resp) {
		return err
	}
	if event, ended := sse.NewReader(resp.Body, 0).Next(); ended == nil && string(event.Type) == "endpoint" {
		failed.Message = "The server has the transport HTTP+SSE of the protocol version 2024-11-05 at this address, which this service does not support. Use its address for streamable HTTP, which often ends in /mcp, or a newer version of the server."
	}
	return failed
}

func headers(s Server) http.Header {
	all := http.Header{"User-Agent": {"stoa"}}
	for name, value := range s.Headers {
		all.Set(name, value)
	}
	return all
}

// hasDropped reports whether a server refused a request because it does not have the session:
// with the status 404 as the protocol defines, or with 400 and a text about sessions, since some
// servers do so.
func (x exchange) hasDropped() bool {
	about := strings.ToLower(x.message + x.said)
	return x.status == http.StatusNotFound || x.status == http.StatusBadRequest && x.code != InvalidParams && strings.Contains(about, "session")
}

// isOtherEra reports whether a server refused a request in the way of a server of another
// era, or of one that has dropped the version.
func (x exchange) isOtherEra() bool {
	switch {
	case x.code == -32022:
		return true
	case x.code == InvalidParams || x.code == -32020 || x.code == -32021:
		return false
	}
	return x.status == http.StatusBadRequest || x.status == http.StatusNotFound || x.status == http.StatusMethodNotAllowed
}

// InvalidParams is the protocol's error for a tool that the server does not have, or
// arguments that its tool does not accept.
const InvalidParams = -32602

// refusals are the protocol's errors which mean that a call was not begun. -32603 is missing,
// because an internal error does not say that nothing was done.
var refusals = map[int]bool{-32600: true, -32601: true, InvalidParams: true, -32020: true, -32021: true, -32022: true}
