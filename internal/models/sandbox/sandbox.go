// Package sandbox is the built-in model, for installations without a provider: it
// turns a call into the events of a streamed reply, in this process. It is
// deterministic: the same call always has the same reply.
//
// A reply states that it comes from the sandbox. It follows orders in the prompt
// (see [ParseOrders]), so that every path can be tested offline, and runs an agent's
// tool loop: it searches the drive, quotes passages, asks the user. It opens no
// socket and reads no file. Start at [Reply].
package sandbox

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"stoa/internal/base/stoa"
)

// Options configure a reply. The zero value works.
type Options struct {
	Model string // the identifier it stands for; may be empty
	// Route is the route that serves the call. States of other routes are ignored.
	Route stoa.Route
}

// A Failure is a failure ordered by a prompt. Its fields have the same meaning as those of
// wire.Failure.
type Failure struct {
	Status     int           // HTTP-like; 0 means that the stream broke off
	Err        *stoa.Error   // for the caller
	Retry      bool          // the same route may work in a moment
	Caller     bool          // the caller's input is at fault
	Ours       bool          // the service's credentials or account are at fault
	RetryAfter time.Duration // 0 if none
}

func (f *Failure) Error() string {
	return fmt.Sprintf("sandbox failed as ordered (status %d): %v", f.Status, f.Err)
}

// Unwrap returns the error for the caller.
func (f *Failure) Unwrap() error { return f.Err }

func failure(status int) *Failure {
	f := &Failure{Status: status}
	switch {
	case status == 0:
		f.Err = stoa.Errorf(stoa.CodeUpstream, "The model's reply broke off before its end. Try again.")
		f.Retry = true
	case status == 401 || status == 402 || status == 403:
		f.Err = stoa.Errorf(stoa.CodeUpstream, "The model cannot be reached because of a fault of the service. The operator has been notified.")
		f.Ours = true
	case status == 408 || status == 504:
		f.Err = stoa.Errorf(stoa.CodeUpstreamTimeout, "The model did not answer in time. Try again.")
		f.Retry = true
	case status == 429 || status == 503 || status == 529:
		f.Err = stoa.Errorf(stoa.CodeOverloaded, "The model is overloaded at the moment. Try again in a moment.").After(time.Second)
		f.Retry = true
	case status >= 500:
		f.Err = stoa.Errorf(stoa.CodeUpstream, "The model failed. Try again.")
		f.Retry = true
	case status == 413:
		f.Err = stoa.Errorf(stoa.CodeContextLength, "The input is longer than the model accepts. Shorten it.").At("input")
		f.Caller = true
	default:
		f.Err = stoa.Errorf(stoa.CodeInvalidPrompt, "The model refused the input.").At("input")
		f.Caller = true
	}
	return f
}

// Reply streams the sandbox's reply to a call: Thinking, Delta and Called events, and those
// of items if they are requested, then one Finished. Like a codec it never yields Started.
// Its errors are a [*Failure], or the context's.
//
// A word with the space before it is one delta and counts as one output token; a word of more
// than sixteen characters is several. Input is counted by [stoa.Call.EstimateInput]. A limit
// on output tokens ends the reply with [stoa.StopLength].
func Reply(ctx context.Context, call stoa.Call, opts Options) iter.Seq2[*stoa.Event, error] {
	return func(yield func(*stoa.Event, error) bool) {
		turn, intact := read(call, opts.Route)
		if !intact {
			yield(nil, failure(400))
			return
		}
		r := &reply{ctx: ctx, yield: yield, turn: turn, route: opts.Route, limit: call.MaxOutputTokens}
		r.usage.InputTokens = call.EstimateInput()
		r.run(r.turn.obey(r.turn.plan(opts)))
	}
}

type reply struct {
	ctx    context.Context
	yield  func(*stoa.Event, error) bool
	turn   turn
	route  stoa.Route
	limit  int64 // of output tokens; 0 means none
	usage  stoa.Usage
	deltas int
	event  stoa.Event // the last yielded one
}

// run yields a plan. Every step reports whether to continue.
func (r *reply) run(p plan) {
	o := r.turn.orders
	if !r.pause(o.Wait) || !r.fault() || !r.think(o.Think) || !r.reason() || !r.refuse(o.Refuse) {
		return
	}
	stop := stoa.StopEnd
	for piece := range pieces(p.text) {
		if r.full() {
			stop = stoa.StopLength
			break
		}
		if r.deltas > 0 && !r.pause(o.Slow) {
			return
		}
		r.deltas++
		r.usage.OutputTokens++
		// More follows immediately, unless a pause was ordered. It is false regularly, so that the writer's buffer stays small.
		if !r.send(stoa.Event{Kind: stoa.Delta, Text: piece, More: o.Slow == 0 && r.deltas%64 != 0}) || !r.fault() {
			return
		}
	}
	if (o.Fail > 0 || o.HasCut) && len(p.calls) == 0 && !r.lastFault() {
		return
	}
	if stop == stoa.StopEnd && len(p.calls) > 0 {
		for _, c := range p.calls {
			cut, more := r.stream(c)
			if !more {
				return
			}
			if cut {
				stop = stoa.StopLength
				break
			}
		}
		if stop == stoa.StopEnd {
			stop = stoa.StopToolCalls
		}
	}
	if len(p.calls) > 0 && (o.Fail > 0 || o.HasCut) && !r.lastFault() {
		return
	}
	if o.Stop != "" {
		stop = o.Stop
	}
	ev := stoa.Event{Kind: stoa.Finished, Stop: stop, Usage: r.usage, HasUsage: true}
	switch r.turn.orders.Usage {
	case "none":
		ev.Usage, ev.HasUsage = stoa.Usage{}, false
	case "huge":
		ev.Usage = stoa.Usage{InputTokens: 1 << 40, OutputTokens: 1 << 40}
	case "negative":
		ev.Usage = stoa.Usage{InputTokens: -1, OutputTokens: -1}
	}
	r.send(ev)
}

func (r *reply) full() bool { return r.limit > 0 && r.usage.OutputTokens >= r.limit }

func (r *reply) think(bytes int) bool {
	const piece = 256
	for left := bytes; left > 0; left -= piece {
		n := min(left, piece)
		tokens := stoa.EstimateTokens(n)
		if r.limit > 0 {
			tokens = min(tokens, r.limit-r.usage.OutputTokens)
		}
		if tokens <= 0 {
			break
		}
		r.usage.OutputTokens += tokens
		r.usage.ReasoningTokens += tokens
		if !r.send(stoa.Event{Kind: stoa.Thinking, Thinking: n, More: r.turn.orders.Slow == 0}) || !r.pause(r.turn.orders.Slow) {
			return false
		}
	}
	return true
}

func (r *reply) fault() bool {
	o := r.turn.orders
	if o.Fail > 0 && r.deltas == o.FailAfter {
		r.yield(nil, failure(o.Fail))
		return false
	}
	if o.HasCut && r.deltas == o.Cut {
		r.yield(nil, failure(0))
		return false
	}
	return true
}

// lastFault fails at the end, because the reply was shorter than the order expected.
func (r *reply) lastFault() bool {
	o := r.turn.orders
	if o.Fail > 0 && r.deltas < o.FailAfter {
		r.yield(nil, failure(o.Fail))
		return false
	}
	if o.HasCut && r.deltas < o.Cut {
		r.yield(nil, failure(0))
		return false
	}
	return true
}

func (r *reply) send(ev stoa.Event) bool {
	if err := r.ctx.Err(); err != nil {
		r.yield(nil, context.Cause(r.ctx))
		return false
	}
	r.event = ev
	return r.yield(&r.event, nil)
}

func (r *reply) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.ctx.Done():
		r.yield(nil, context.Cause(r.ctx))
		return false
	}
}

const longest = 16

// pieces splits a text into deltas: a word with the space before it, at most
// [longest] characters.
func pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, runes, inWord := 0, 0, false
		for i, c := range text {
			space := unicode.IsSpace(c)
			if i > start && (space && inWord || runes == longest) {
				if !yield(text[start:i]) {
					return
				}
				start, runes = i, 0
			}
			inWord = !space
			runes++
		}
		if start < len(text) {
			yield(text[start:])
		}
	}
}

func words(n int) string {
	list := []string{"stoa", "is", "a", "quiet", "place", "where", "people", "walk", "and", "talk", "in", "the", "shade"}
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(list[i%len(list)])
	}
	return b.String()
}

// shorten returns at most n characters of a text, on one line. It reads only the
// beginning of a long text.
func shorten(s string, n int) string {
	whole := len(s)
	s = clip(s, 16*n)
	line := strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(line) > n {
		return string([]rune(line)[:n]) + "…"
	}
	if len(s) < whole {
		return line + "…"
	}
	return line
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
