package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"os"
	"strings"
	"unicode/utf8"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
)

// Limits of one reply. A reply beyond one is rejected, so that it cannot exhaust memory.
const (
	maxEvent     = 8 << 20  // bytes of one event of a stream
	maxWhole     = 32 << 20 // bytes of a reply that is not a stream
	wholePiece   = 4 << 10  // bytes of a delta of such a reply, so that it can be cut between deltas if it exceeds its limit
	maxText      = 16 << 20 // bytes of the reply's text
	maxState     = 16 << 20 // bytes of the state to send back
	maxCalls     = 128
	maxArguments = 1 << 20 // bytes of one call's arguments
)

// A format is the codec's part of reading a reply. Its methods emit events through the
// embedded [reply], and return a [*Failure].
type format interface {
	event(sse.Event) error // one event of a stream
	whole([]byte) error    // a reply that is one JSON text
	end() error            // the stream ended; not called after Finished
}

// reply reads one reply and yields its events. It delays each event until it is known whether
// another follows without waiting, so that More is exact even if vendor events without a
// meaning for Stoa follow.
type reply struct {
	src   *sse.Reader
	yield func(*stoa.Event, error) bool

	held  stoa.Event
	holds bool
	gone  bool // the reader stopped ranging
	ended bool // Finished was emitted

	want  Want
	whole bool // the reply is one JSON text
	text  int  // bytes of text emitted
	mused int  // bytes of reasoning that arrived
	calls int
	// sequence is the stop sequence that ended the text, if the vendor reports it.
	sequence string
	other    string // a kind of output that is not text, a call or reasoning
	join     jsonx.Joiner
	usage    counts
	items    items
}

// read runs a format over a body. list allows a whole reply to be an array.
func read(body io.Reader, want Want, list bool, of func(*reply) format) iter.Seq2[*stoa.Event, error] {
	return func(yield func(*stoa.Event, error) bool) {
		r := &reply{yield: yield, want: want, src: sse.NewReader(body, maxEvent)}
		defer r.src.Release() // safe, because events hold copies
		if err := r.run(of(r), list); err != nil && !r.gone {
			if r.flush(true); !r.gone {
				yield(nil, err)
			}
			return
		}
		r.flush(false)
	}
}

func (r *reply) run(f format, list bool) error {
	first, err := r.src.First()
	if err != nil {
		return bodyFailure(err)
	}
	if first == '{' || list && first == '[' {
		r.whole = true
		data, err := r.src.Rest(maxWhole)
		if err != nil {
			return bodyFailure(err)
		}
		if err := f.whole(data); err != nil || r.ended {
			return err
		}
		return f.end()
	}
	for {
		if !r.src.More() {
			r.flush(false)
		}
		if r.gone {
			return nil
		}
		ev, err := r.src.Next()
		if err == io.EOF {
			return r.last(f)
		}
		if err != nil {
			return bodyFailure(err)
		}
		if err := f.event(ev); err != nil || r.ended {
			return err
		}
	}
}

// last handles the rest of a stream whose body has ended. An event without its blank line
// counts if its data is complete JSON, because a truncated event is not.
func (r *reply) last(f format) error {
	if r.src.Leftover() {
		ev, ok := r.src.Partial()
		if ok && !bytes.HasPrefix(ev.Data, []byte("[DONE]")) {
			c := jsonx.NewReplyCursor(ev.Data)
			ok = c.Kind() == '{' && c.Done()
		}
		if !ok {
			return bodyFailure(io.EOF)
		}
		if err := f.event(ev); err != nil || r.ended {
			return err
		}
	}
	return f.end()
}

// emit yields the delayed event and delays ev.
func (r *reply) emit(ev stoa.Event) {
	r.flush(true)
	r.held, r.holds = ev, true
}

func (r *reply) flush(more bool) {
	if r.holds && !r.gone {
		r.held.More = more
		r.gone = !r.yield(&r.held, nil)
	}
	r.holds = false
}

// delta emits the complete characters of the text at the cursor.
func (r *reply) delta(c *jsonx.Cursor) error {
	return r.emitText(r.join.Next(c))
}

func (r *reply) emitText(text string) error {
	if text == "" {
		return nil
	}
	if r.inCall() {
		return broken("a text inside a tool call")
	}
	if r.text += len(text); r.text > maxText {
		return tooMuch("text")
	}
	for r.whole && len(text) > wholePiece {
		n := wholePiece
		for n > wholePiece-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		r.emitDelta(text[:n])
		text = text[n:]
	}
	r.emitDelta(text)
	return nil
}

// emitDelta emits a piece of text. Most events follow one of the same kind, and differ from
// it only in their text and usage.
func (r *reply) emitDelta(text string) {
	if !r.holds || r.held.Kind != stoa.Delta {
		r.emit(stoa.Event{Kind: stoa.Delta, Text: text})
		return
	}
	r.flush(true)
	r.held.Text, r.holds = text, true
	if r.held.HasUsage {
		r.held.Usage, r.held.HasUsage = stoa.Usage{}, false
	}
}

func (r *reply) thought(bytes int) {
	if bytes > 0 {
		r.mused += bytes
		r.emit(stoa.Event{Kind: stoa.Thinking, Thinking: bytes})
	}
}

// count emits the known usage if it changed: with the delayed text, or separately.
func (r *reply) count(before counts) {
	switch {
	case r.usage == before:
	case r.holds && r.held.Kind == stoa.Delta && !r.held.HasUsage:
		r.held.Usage, r.held.HasUsage = r.usage.mended(), true
	default:
		r.emit(stoa.Event{Kind: stoa.UsageSoFar, Usage: r.usage.mended()})
	}
}

// finish emits the rest of the text, and Finished.
// See docs/decisions/0009-a-reply-ends-only-with-an-explicit-end.md.
func (r *reply) finish(stop stoa.Stop) error {
	if !r.inCall() {
		if err := r.emitText(r.join.Rest()); err != nil {
			return err
		}
	}
	if err := r.stopCall(stop); err != nil {
		return err
	}
	if r.isCut() && stop != stoa.StopContentFilter {
		stop = stoa.StopLength
	}
	if stop == stoa.StopEnd && r.calls > 0 {
		stop = stoa.StopToolCalls
	}
	if stop == stoa.StopToolCalls && r.calls == 0 {
		return broken("a stop for tool calls without any")
	}
	other := ""
	if stop == stoa.StopEnd && r.text == 0 { // not the provider's fault, because the caller can ask for an image
		other = bounded(r.other)
	}
	if r.usage.ReasoningTokens == 0 && r.usage.known { // estimated, because self-hosted servers count it only as output
		r.usage.ReasoningTokens = stoa.EstimateTokens(r.mused)
	}
	r.emit(stoa.Event{Kind: stoa.Finished, Stop: stop, Other: other, Text: r.sequence, Usage: r.usage.mended(), HasUsage: r.usage.known && !r.usage.bad})
	r.ended = true
	return nil
}

// counts is a usage as a vendor reports it piece by piece.
type counts struct {
	stoa.Usage
	known bool // enough was reported for billing
	bad   bool // a reported value was not a count
}

// keep keeps the earlier counts of a sum that a later report sets to zero. Otherwise a server that
// repeats the structure of its usage without filling it would delete what it reported before, and
// the call would be charged by an estimate or as if it had no input.
func (u *counts) keep(earlier stoa.Usage) {
	if u.InputTokens == 0 && earlier.InputTokens > 0 {
		u.InputTokens, u.CachedTokens = earlier.InputTokens, earlier.CachedTokens
		u.CacheWriteTokens, u.CacheWriteLongTokens = earlier.CacheWriteTokens, earlier.CacheWriteLongTokens
	}
	if u.OutputTokens == 0 && earlier.OutputTokens > 0 {
		u.OutputTokens, u.ReasoningTokens = earlier.OutputTokens, earlier.ReasoningTokens
	}
}

// readDetails reads the parts of the input or of the output as both of OpenAI's formats
// report them.
func (u *counts) readDetails(c *jsonx.Cursor) {
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "cached_tokens":
			u.read(c, &u.CachedTokens)
		case "cache_write_tokens":
			u.read(c, &u.CacheWriteTokens)
		case "cache_write_tokens_details":
			for ok := c.Object(); ok && c.Member(); {
				if string(c.Key) == "ttl_12h_tokens" {
					u.read(c, &u.CacheWriteLongTokens)
				}
			}
		case "reasoning_tokens":
			u.read(c, &u.ReasoningTokens)
		}
	}
}

// withoutNUL replaces U+0000 in the strings of a JSON text by U+FFFD.
func withoutNUL(text string) string {
	const nul = `\u0000`
	if !strings.Contains(text, nul) {
		return text
	}
	out := []byte(text)
	for i := 0; i+1 < len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		if strings.HasPrefix(text[i:], nul) {
			copy(out[i:], `\ufffd`)
		}
		i++ // because a backslash escapes the next byte
	}
	return string(out)
}

// addDetails adds the cached and the written tokens to the input if the vendor does not count
// them in it: its total says so, or one of them exceeds the input, as with Grok at Azure. (The
// sum may exceed it: OpenRouter reports the same tokens as cached and as written.)
func (u *counts) addDetails(total int64) {
	extra := u.CachedTokens + u.CacheWriteTokens
	if extra > 0 && (total == u.InputTokens+u.OutputTokens+extra || u.CachedTokens > u.InputTokens || u.CacheWriteTokens > u.InputTokens) {
		u.InputTokens += extra
	}
}

// mended returns the usage with no part larger than its whole, because vendors report such parts by
// mistake next to correct sums, such as the same tokens as cached and as written.
func (u *counts) mended() stoa.Usage {
	m := u.Usage
	if m.InputTokens >= 0 && m.CachedTokens >= 0 && m.CacheWriteTokens >= 0 {
		m.CachedTokens = min(m.CachedTokens, m.InputTokens)
		m.CacheWriteTokens = min(m.CacheWriteTokens, m.InputTokens-m.CachedTokens)
		m.CacheWriteLongTokens = min(m.CacheWriteLongTokens, m.CacheWriteTokens)
	}
	if m.OutputTokens >= 0 {
		m.ReasoningTokens = min(m.ReasoningTokens, m.OutputTokens)
	}
	return m
}

// maxCount bounds a vendor's counts so that their sums cannot overflow; a larger count is not
// plausible anyway (see [stoa.Usage.Sane]).
const maxCount = 1 << 40

// read reads a count into n and reports whether there was one. null leaves n unchanged; a
// value that is not a number makes the whole usage unknown.
func (u *counts) read(c *jsonx.Cursor, n *int64) bool {
	if c.Kind() == 'n' {
		c.Skip()
		return false
	}
	v, ok := c.Int()
	if !ok {
		u.bad = true
		return false
	}
	*n = max(-maxCount, min(maxCount, v))
	return true
}

// broken returns the failure of a reply that violates its format.
func broken(detail string) *Failure {
	return &Failure{
		Err:    stoa.Errorf(stoa.CodeUpstream, "The model's provider sent a broken reply. Try again."),
		Retry:  true,
		Detail: detail,
	}
}

// tooMuch returns the failure of a reply that exceeds a limit of this service.
func tooMuch(what string) *Failure {
	f := broken("too much: " + what)
	f.Retry, f.Cut = false, true
	return f
}

// truncated returns the failure of a reply that ended before its format's end.
func truncated() *Failure {
	f := broken("the reply ended early")
	f.Err.Message = "The model's provider ended its reply early. Try again."
	return f
}

// bodyFailure returns the failure of a body that could not be read to its end.
func bodyFailure(err error) *Failure {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		f := truncated()
		f.Err.Err = err
		return f
	}
	if _, ok := errors.AsType[*sse.TooLargeError](err); ok {
		f := tooMuch(err.Error())
		f.Cut = false // because no model writes such an event
		return f
	}
	f := truncated()
	f.Detail = bounded(err.Error())
	f.Err.Err = err
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		f.Err.Code = stoa.CodeUpstreamTimeout
		f.Err.Message = "The model's provider took too long. Try again."
	}
	return f
}
