package fakeup

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// play serves one request after it was read.
type play struct {
	h      *Handler
	f      format
	w      http.ResponseWriter
	r      *http.Request
	out    *http.ResponseController
	s      *Served
	stream bool
	orders Orders
	plan   plan
	left   <-chan struct{} // closed when the client disconnects
}

// overloaded is Anthropic's own status for an overload.
const overloaded = 529

// run serves the request according to its orders.
func (p *play) run(no *refusal) {
	o := p.orders
	if no != nil {
		p.fail(no.status, no)
		return
	}
	if o.Wait > 0 && !p.pause(o.Wait) {
		return
	}
	switch {
	case o.Fault == FaultStreamOnly && !p.stream:
		p.fail(cmp.Or(o.Fail, http.StatusBadRequest), &refusal{text: "Only streaming is supported."})
	case o.Fault == FaultHang:
		p.hang()
	case o.Fault == FaultClose:
		panic(http.ErrAbortHandler)
	case o.Fault == FaultReset && o.FaultAfter == 0 && !p.stream:
		p.reset()
	case o.Fault == FaultHTML:
		p.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		p.answer(http.StatusOK)
		fmt.Fprint(p.w, "<!doctype html><title>Sign in</title><p>Please sign in to the network.</p>")
	case o.Fault == FaultRedirect:
		p.w.Header().Set("Location", "/v1/elsewhere")
		p.answer(http.StatusTemporaryRedirect)
	case o.Fault == FaultNoContent:
		p.answer(http.StatusNoContent)
	case o.Fault == FaultEmptyBody:
		p.heading()
		p.answer(http.StatusOK)
	case o.Fail > 0 && o.Fault == "":
		p.fail(o.Fail, &refusal{text: "The fake vendor fails as ordered.", retryAfter: o.RetryAfter})
	case p.stream:
		p.streamed()
	default:
		p.whole()
	}
}

// fail answers with the vendor's error body.
func (p *play) fail(status int, no *refusal) {
	p.h.update(func() { p.s.Refused = no.text })
	p.f.header(p.w.Header(), p.plan)
	if no.retryAfter != "" && p.f.name() != "gemini" {
		p.w.Header().Set("Retry-After", no.retryAfter)
	}
	p.w.Header().Set("Content-Type", "application/json")
	if p.f.name() == "gemini" && status == overloaded {
		status = http.StatusServiceUnavailable
	}
	p.answer(status)
	p.w.Write(p.f.failure(status, no, p.plan.id))
}

func (p *play) heading() {
	p.f.header(p.w.Header(), p.plan)
	kind := "application/json; charset=utf-8"
	if p.stream {
		kind = "text/event-stream; charset=utf-8"
		p.w.Header().Set("Cache-Control", "no-cache")
	}
	p.w.Header().Set("Content-Type", kind)
}

func (p *play) answer(status int) {
	p.h.update(func() { p.s.Status, p.s.Usage = status, p.plan.usage })
	p.w.WriteHeader(status)
}

// whole answers with one JSON document, once it is complete. A failure in the middle of a
// stream becomes a status.
func (p *play) whole() {
	o := p.orders
	for i := range p.plan.pieces {
		if i > 0 && o.Slow > 0 && !p.pause(o.Slow) {
			return
		}
	}
	text := p.f.whole(p.plan)
	if o.Fault == FaultEvent {
		p.fail(cmp.Or(o.Fail, overloaded), &refusal{text: "The fake vendor fails as ordered.", retryAfter: o.RetryAfter})
		return
	}
	p.heading()
	half := text[:len(text)/2]
	switch {
	case o.HasCut:
		p.answer(http.StatusOK)
		p.send(half)
		panic(http.ErrAbortHandler)
	case o.Fault == FaultNoEnd || o.Fault == FaultMalformed:
		p.answer(http.StatusOK)
		p.w.Write(half)
		return
	case o.Fault == FaultHangBody:
		p.answer(http.StatusOK)
		if p.send(half) {
			p.hang()
		}
		return
	case o.Fault == FaultReset:
		p.answer(http.StatusOK)
		if p.send(half) {
			p.reset()
		}
		return
	case o.Fault == FaultComments: // DeepSeek sends empty lines while waiting
		p.answer(http.StatusOK)
		for p.send([]byte("\n")) && p.pause(pause) {
		}
		return
	case o.Fault == FaultEndless || o.Fault == FaultHugeLine:
		p.answer(http.StatusOK)
		chunk := bytes.Repeat([]byte("huge"), 16<<10)
		for p.send([]byte(`{"id":"`)); p.send(chunk); {
		}
		return
	case o.Fault == FaultHugeHeader:
		p.w.Header().Set("X-Huge", strings.Repeat("h", 256<<10))
	case o.Fault == FaultBadUTF8:
		text = bytes.Replace(text, []byte("word"), []byte("w\xff\xfe"), 1)
	}
	p.answer(http.StatusOK)
	if p.send(text) {
		p.h.update(func() { p.s.Deltas, p.s.UsageSent, p.s.Completed = len(p.plan.pieces), !p.plan.noUsage, true })
	}
}

// streamed answers with a stream of events.
func (p *play) streamed() {
	o := p.orders
	p.heading()
	if o.Fault == FaultHugeHeader {
		p.w.Header().Set("X-Huge", strings.Repeat("h", 256<<10))
	}
	frames := p.f.frames(p.plan)
	if o.Fault == FaultNoEnd {
		for len(frames) > 0 && frames[len(frames)-1].end {
			frames = frames[:len(frames)-1]
		}
	}
	p.answer(http.StatusOK)
	if p.out.Flush() != nil {
		p.clientDisconnected()
		return
	}
	deltas := 0
	for i, fr := range frames {
		// A fault "after 0" happens before the first event, one "after N" right after the Nth
		// delta.
		if (i == 0 || i > 0 && frames[i-1].delta) && deltas == o.FaultAfter && o.Fault != "" && !p.fault(i == 0) {
			return
		}
		if o.HasCut && (fr.delta || fr.end) && deltas == o.Cut {
			panic(http.ErrAbortHandler)
		}
		if fr.delta && deltas > 0 && o.Slow > 0 && !p.pause(o.Slow) {
			return
		}
		if !p.send(fr.bytes) {
			return
		}
		if fr.delta {
			deltas++
		}
		p.h.update(func() {
			p.s.Deltas = deltas
			p.s.UsageSent = fr.end && !p.plan.noUsage
			p.s.Completed = o.Fault != FaultNoEnd && i == len(frames)-1
		})
	}
}

// fault carries out the ordered fault and reports whether the reply continues. fresh means that nothing was sent yet.
func (p *play) fault(fresh bool) bool {
	p.plan.fresh = fresh
	switch p.orders.Fault {
	case FaultHangBody:
		p.hang()
	case FaultReset:
		p.reset()
	case FaultMalformed:
		p.send(p.f.malformed())
		return true
	case FaultEvent:
		p.send(p.f.failureEvent(cmp.Or(p.orders.Fail, overloaded), p.plan))
	case FaultBadUTF8:
		p.send(p.f.text("broken \xff\xfe\xe2\x82 bytes"))
		return true
	case FaultHugeLine:
		p.huge()
	case FaultEndless:
		batch := bytes.Repeat(p.f.text(" and on"), 32)
		for p.send(batch) {
			p.h.update(func() { p.s.Deltas += 32 })
		}
	case FaultComments:
		for p.send(p.f.comment()) && p.pause(pause) {
		}
	default:
		return true
	}
	return false
}

// huge sends one event of 64 MiB, or the part of it that the client reads.
func (p *play) huge() {
	begin, end, _ := bytes.Cut(p.f.text("@"), []byte("@"))
	chunk := bytes.Repeat([]byte("huge"), 16<<10)
	if !p.send(begin) {
		return
	}
	for range 64 << 20 / len(chunk) {
		if !p.send(chunk) {
			return
		}
	}
	p.send(end)
}

// send writes and flushes and reports whether the client is still connected.
func (p *play) send(b []byte) bool {
	step := len(b)
	if p.orders.Fault == FaultDrip {
		step = 1
	}
	for len(b) > 0 {
		n := min(step, len(b))
		if _, err := p.w.Write(b[:n]); err != nil || p.out.Flush() != nil || p.r.Context().Err() != nil {
			p.clientDisconnected()
			return false
		}
		b = b[n:]
	}
	return true
}

// pause waits for d and reports whether the client is still connected.
func (p *play) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.left:
		p.clientDisconnected()
		return false
	}
}

// hang waits until the client disconnects.
func (p *play) hang() {
	<-p.left
	p.clientDisconnected()
}

func (p *play) clientDisconnected() { p.h.update(func() { p.s.DisconnectedAt = time.Now() }) }

// reset resets the connection (RST on a TCP socket).
func (p *play) reset() {
	conn, _, err := p.out.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 resets the stream
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
