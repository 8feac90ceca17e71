// Package null is a vendor that does as little as possible: it implements the four formats of
// providers, checks nothing, and answers with prepared bytes, one flush per delta. Start at
// [Vendor.ServeHTTP].
//
// The prompt describes the reply: see [Prompt].
package null

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Plan describes a reply.
type Plan struct {
	Deltas int           // of a stream; also the output tokens that are reported
	Bytes  int           // of the text, deltas together
	Delay  time.Duration // before each delta except the first; 0 means none
}

const mark = "null-reply "

// Prompt returns the prompt for a plan. It may be one string among others of a body.
func Prompt(p Plan) string {
	return fmt.Sprintf("%s%d %d %d.", mark, p.Deltas, p.Bytes, p.Delay.Microseconds())
}

// planOf reads the text of [Prompt], anywhere in a body.
func planOf(body []byte) (p Plan, ok bool) {
	i := bytes.LastIndex(body, []byte(mark))
	if i < 0 {
		return p, false
	}
	text, _, ok := bytes.Cut(body[i+len(mark):], []byte("."))
	if !ok || len(text) > 60 {
		return p, false
	}
	var micros int64
	if _, err := fmt.Sscan(string(text), &p.Deltas, &p.Bytes, &micros); err != nil {
		return p, false
	}
	p.Delay = time.Duration(micros) * time.Microsecond
	return p, p.Deltas > 0
}

// A Vendor answers model calls. Its zero value is ready.
type Vendor struct {
	mu      sync.Mutex
	replies map[kind]*reply
}

// A kind of request has one reply.
type kind struct {
	wire          string
	deltas, bytes int
}

// ServeHTTP answers one call.
func (v *Vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	wire, stream := wireOf(r.URL, body)
	plan, ok := planOf(body)
	if wire == "" || !ok {
		http.Error(w, "the null vendor knows neither the path nor the prompt", http.StatusNotFound)
		return
	}
	reply := v.reply(kind{wire, plan.Deltas, plan.Bytes})
	if !stream {
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(reply.whole))}
		_, _ = w.Write(reply.whole)
		return
	}
	w.Header()["Content-Type"] = []string{"text/event-stream"}
	flush := http.NewResponseController(w).Flush
	_, _ = w.Write(reply.before)
	for i, d := range reply.deltas {
		if i > 0 && plan.Delay > 0 {
			time.Sleep(plan.Delay)
		}
		if _, err := w.Write(d); err != nil {
			return
		}
		if err := flush(); err != nil {
			return
		}
	}
	_, _ = w.Write(reply.after)
}

// wireOf returns the format of a request, and whether it asks for a stream.
func wireOf(u *url.URL, body []byte) (wire string, stream bool) {
	stream = bytes.Contains(body, []byte(`"stream":true`))
	switch {
	case strings.HasSuffix(u.Path, "/chat/completions"):
		return "chat", stream
	case strings.HasSuffix(u.Path, "/responses"):
		return "responses", stream
	case strings.HasSuffix(u.Path, "/messages"):
		return "messages", stream
	case strings.HasSuffix(u.Path, ":streamGenerateContent"):
		return "gemini", strings.Contains(u.RawQuery, "alt=sse")
	case strings.HasSuffix(u.Path, ":generateContent"):
		return "gemini", false
	}
	return "", false
}

func (v *Vendor) reply(k kind) *reply {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.replies[k]
	if r == nil {
		if v.replies == nil {
			v.replies = map[kind]*reply{}
		}
		r = newReply(k.wire, k.deltas, k.bytes)
		v.replies[k] = r
	}
	return r
}
