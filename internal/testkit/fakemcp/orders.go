package fakemcp

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// An order describes the answer to a request.
type order struct {
	effect bool // a call is carried out before it fails
	play   func(h *Handler, p play)
}

// A play is a request that is answered according to an order.
type play struct {
	w      http.ResponseWriter
	r      *http.Request
	id     json.RawMessage
	method string
	// session is that of the legacy era; empty in the other.
	session string
}

// large is one byte more than the maximum size of a reply.
const large = 4<<20 + 1

// The following orders exist, set by the argument order of a call or by [Handler.Next], in
// addition to every status of HTTP from 300 ("503") and every error code of the protocol
// ("-32602", "0"):
//
//	reset               the connection is reset without a reply
//	short               the connection ends in the middle of the body
//	restart             all connections end, all sessions are forgotten
//	hang                no reply comes
//	hold                no reply comes before Release
//	truncated           the body is half of a JSON text
//	no reply            a stream of events that ends without the reply
//	wrong id            the reply to another request
//	null                a result that is null
//	html                a page with the status 200
//	large               a body of 4 MiB and a byte
//	gzip                a body of 8 KiB that unpacks to 8 MiB
//	drip                comments of a stream, for ever
//	endless, same       of a list: a new cursor each time, or the same one
//	501                 of a list: 501 tools
//	error               a result that says that the tool failed
//	int64, structured, link, block, schema, photo, image, input
//	                    results with a long number, a link, an unknown block, structured
//	                    content against its schema, an image, a damaged one, a question to
//	                    the client
//	sampling            before the result the client is asked for a model's reply and pinged
//
// A call that ends this way was carried out, except after statuses and codes that say that it
// was refused, and before the question to the client.
//
// Orders returns the names of the orders that prevent an answer.
func Orders() []string {
	return slices.Sorted(maps.Keys(orders))
}

var orders = map[string]order{
	"reset":     {true, (*Handler).reset},
	"short":     {true, short},
	"restart":   {true, func(h *Handler, p play) { h.Forget(); h.end(); h.reset(p) }},
	"hang":      {true, func(_ *Handler, p play) { <-p.r.Context().Done() }},
	"truncated": {true, body("application/json", `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"te`)},
	"no reply":  {true, body("text/event-stream", ": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n\n")},
	"wrong id":  {true, body("application/json", `{"jsonrpc":"2.0","id":"another","result":{"content":[{"type":"text","text":"of another"}]}}`)},
	"null":      {true, body("application/json", `{"jsonrpc":"2.0","id":ID,"result":null}`)},
	"html":      {true, body("text/html", "<!doctype html><p>Sign in")},
	"large":     {true, huge},
	"gzip":      {true, bomb},
	"drip":      {true, drip},
}

// results are the orders of a call that returns something other than a text.
var results = map[string]string{
	"error":      `{"resultType":"complete","content":[{"type":"text","text":"it failed"}],"isError":true}`,
	"int64":      `{"resultType":"complete","content":[],"structuredContent":{"id":1915883588174806058,"x":1.0}}`,
	"structured": `{"resultType":"complete","content":[{"type":"text","text":"{\"temperature\":33,\"conditions\":\"Cloudy\",\"humidity\":82}"}],"structuredContent":{"temperature":33,"conditions":"Cloudy","humidity":82}}`,
	"block":      `{"resultType":"complete","content":[{"type":"text","text":"before"},{"type":"hologram","data":7},null,{"type":"text","text":"after"}]}`,
	"schema":     `{"resultType":"complete","content":[{"type":"text","text":"done"}],"structuredContent":{"n":"seven"}}`,
	"link":       `{"resultType":"complete","content":[{"type":"text","text":"a link"},{"name":"secrets","uri":"http://HOST/linked","description":"A link.","mimeType":"text/plain","type":"resource_link"}]}`,
	"photo":      `{"resultType":"complete","content":[{"type":"text","text":"before"},{"type":"image","data":"iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAAAAACcgYFdAAAAC0lEQVR4nGNggAIAAAkAAftSuKkAAAAASUVORK5CYII=","mimeType":"image/png"},{"type":"text","text":"after"}]}`,
	"image":      `{"resultType":"complete","content":[{"type":"image","data":"not base64!","mimeType":"image/png"}]}`,
	"input":      `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}}`,
}

// refusals are the statuses and codes after which a call was not carried out.
var refusals = map[string]bool{
	"400": true, "401": true, "403": true, "404": true, "405": true, "406": true, "409": true, "411": true, "413": true, "415": true, "422": true, "429": true,
	"-32600": true, "-32601": true, "-32602": true, "-32020": true, "-32021": true, "-32022": true,
}

// orderOf returns the order of a name; false if it does not exist.
func orderOf(name string) (order, bool) {
	if o, ok := orders[name]; ok {
		return o, true
	}
	n, err := strconv.Atoi(name)
	switch {
	case err != nil:
		return order{}, false
	case n >= 300 && n < 600:
		return order{!refusals[name], status(n)}, true
	default:
		return order{!refusals[name], body("application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":ID,"error":{"code":%d,"message":"no"}}`, n))}, true
	}
}

// status answers with an HTTP status and its headers.
func status(code int) func(*Handler, play) {
	return func(_ *Handler, p play) {
		switch code {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			p.w.Header().Set("Retry-After", "2")
		case http.StatusUnauthorized:
			p.w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://`+p.r.Host+`/metadata"`)
		}
		if code < 400 {
			p.w.Header().Set("Location", "http://"+p.r.Host+"/elsewhere")
		}
		http.Error(p.w, "no", code)
	}
}

// body answers with a text, in which ID is replaced by that of the request.
func body(kind, text string) func(*Handler, play) {
	return func(_ *Handler, p play) {
		p.w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(p.w, strings.Replace(text, "ID", string(p.id), 1))
	}
}

// reset ends the connection so that the client gets an error instead of an end.
func (*Handler) reset(p play) {
	hijacker, ok := p.w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	c, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// short ends the connection within the body.
func short(_ *Handler, p play) {
	p.w.Header().Set("Content-Type", "application/json")
	p.w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(p.w, `{"jsonrpc":"2.0","id":`+string(p.id)+`,"result":{`)
	panic(http.ErrAbortHandler)
}

func huge(_ *Handler, p play) {
	p.w.Header().Set("Content-Type", "application/json")
	start := `{"jsonrpc":"2.0","id":` + string(p.id) + `,"result":{"content":[],"tools":[],"x":"`
	_, _ = io.WriteString(p.w, start+strings.Repeat("x", large-len(start)-3)+`"}}`)
}

// unpacked is the end of the content that the order gzip sends: 8 MiB and the end of a
// message.
var unpacked = sync.OnceValue(func() []byte {
	return packed(strings.Repeat("x", 8<<20) + `"}}`)
})

func packed(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text) // to memory
	_ = z.Close()
	return b.Bytes()
}

func bomb(_ *Handler, p play) {
	p.w.Header().Set("Content-Type", "application/json")
	p.w.Header().Set("Content-Encoding", "gzip")
	_, _ = p.w.Write(packed(`{"jsonrpc":"2.0","id":` + string(p.id) + `,"result":{"content":[],"tools":[],"x":"`))
	_, _ = p.w.Write(unpacked())
}

// dripping is the interval between comments of a stream without a reply.
const dripping = 20 * time.Millisecond

func drip(_ *Handler, p play) {
	p.w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(dripping)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(p.w, ": still there\n\n"); err != nil || http.NewResponseController(p.w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-p.r.Context().Done():
			return
		}
	}
}
