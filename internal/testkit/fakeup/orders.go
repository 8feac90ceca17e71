package fakeup

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/sandbox"
)

// Orders are the orders of a prompt to the fake vendor: the sandbox's orders (see
// [sandbox.ParseOrders]) and those that need a connection. Each is on a separate line, before
// any "say:":
//
//	fault: NAME          the fault; see the Fault constants
//	fault: NAME after N  the fault happens after N deltas, of text or of calls
//	flaky: N             faults and failures happen on the first N attempts of this prompt only
//	retry-after: 1       the header of that name, on a failure
//	cached: N            this many of the input tokens came from a cache
//	input: N             the number of input tokens, instead of a quarter of the bytes
//	written: N           this many of the others were written to a cache
//	written-long: N      this many of those were written for a long life
//	rounds: N            calls are made again until their results came N times; 1 if it is missing
//	interleave           reasoning comes before each call, where the format allows it
//	cut-call: N          the reply ends after N bytes of the last call's arguments, for its length
//	phase: NAME          the phase of the text, in the format responses
//	chunks: NAME         an odd form of the calls in a stream; see the Chunks constants
//	stray                calls are made whether or not the request offers tools
//	finish: REASON       the finishReason of a reply that would end with STOP, in the format gemini
//	mark: WORD           no effect; makes prompts distinct
type Orders struct {
	sandbox.Orders
	Fault      string
	FaultAfter int
	Flaky      int
	RetryAfter string
	Cached     int64
	Input      int64
	Written    int64
	Long       int64
	Rounds     int
	Interleave bool
	CutCall    int // bytes; see HasCutCall
	HasCutCall bool
	Chunks     string
	Phase      string
	Stray      bool
	Finish     string
	Rest       string // the prompt without its orders
}

// The faults.
const (
	FaultHang       = "hang"            // the request is read, then nothing, not even headers
	FaultHangBody   = "hang-body"       // headers and deltas, then silence without an end
	FaultDrip       = "drip"            // every byte is sent separately
	FaultReset      = "reset"           // the connection is reset
	FaultMalformed  = "malformed"       // an event that is not JSON
	FaultEvent      = "error-in-stream" // the vendor's own error event; the status is that of "fail:", or 529
	FaultHugeLine   = "huge-line"       // one event of 64 MiB
	FaultHugeHeader = "huge-header"     // a header of 256 KiB
	FaultBadUTF8    = "bad-utf8"        // text with bytes that are not UTF-8
	FaultEndless    = "endless"         // deltas until the client disconnects
	FaultHTML       = "html"            // a web page with status 200
	FaultRedirect   = "redirect"        // status 307
	FaultNoEnd      = "no-end"          // the body ends cleanly, the format's end is missing
	FaultEmptyBody  = "empty-body"      // status 200 and nothing
	FaultNoContent  = "no-content"      // status 204
	FaultComments   = "comments"        // keep-alive lines of the format until the client disconnects
	FaultClose      = "close"           // the connection is closed before the headers
	FaultStreamOnly = "stream-only"     // a request without a stream is refused; the status is that of "fail:", or 400
)

// The odd forms of calls. Those of the wire chat are sent by servers that imitate it.
const (
	ChunksNoIndex    = "no-index"    // chat: pieces have no index
	ChunksIndexZero  = "index-zero"  // chat: every call has the index 0
	ChunksNoIDs      = "no-ids"      // chat: calls have no ids
	ChunksOddIDs     = "odd-ids"     // chat: ids such as functions.f:0
	ChunksObjects    = "objects"     // chat: arguments are objects
	ChunksLateName   = "late-name"   // chat: the name comes after the arguments
	ChunksTogether   = "together"    // chat: every call begins in one chunk, and their pieces alternate
	ChunksFinishStop = "finish-stop" // chat: the reason to stop is not that of calls
	ChunksOnlyDone   = "only-done"   // responses: arguments arrive complete, without pieces
)

// ParseOrders parses the orders in a prompt.
func ParseOrders(prompt string) Orders {
	var o Orders
	lines := strings.SplitAfter(prompt, "\n")
	var others strings.Builder
	for i, line := range lines {
		if strings.HasPrefix(line, "say:") {
			others.WriteString(strings.Join(lines[i:], ""))
			break
		}
		switch strings.TrimSpace(line) {
		case "interleave":
			o.Interleave = true
			continue
		case "stray":
			o.Stray = true
			continue
		}
		word, argument, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || !o.parse(word, strings.TrimSpace(argument)) {
			others.WriteString(line)
		}
	}
	o.Orders, o.Rest = sandbox.ParseOrders(others.String())
	return o
}

func (o *Orders) parse(word, argument string) bool {
	var err error
	switch word {
	case "fault":
		var after string
		o.Fault, after, _ = strings.Cut(argument, " after ")
		if after != "" {
			o.FaultAfter, err = strconv.Atoi(after)
		}
	case "flaky":
		o.Flaky, err = strconv.Atoi(argument)
	case "cached":
		o.Cached, err = strconv.ParseInt(argument, 10, 64)
	case "input":
		o.Input, err = strconv.ParseInt(argument, 10, 64)
	case "written":
		o.Written, err = strconv.ParseInt(argument, 10, 64)
	case "written-long":
		o.Long, err = strconv.ParseInt(argument, 10, 64)
	case "retry-after":
		o.RetryAfter = argument
	case "rounds":
		o.Rounds, err = strconv.Atoi(argument)
	case "cut-call":
		o.CutCall, err = strconv.Atoi(argument)
		o.HasCutCall = err == nil
	case "chunks":
		o.Chunks = argument
	case "phase":
		o.Phase = argument
	case "finish":
		o.Finish = argument
	case "mark":
	default:
		return false
	}
	return err == nil
}

// attempt returns the orders for the nth attempt (from 1) of their prompt.
func (o Orders) attempt(n int) Orders {
	if o.Flaky > 0 && n > o.Flaky {
		o.Fault, o.Fail, o.FailAfter, o.Cut, o.HasCut = "", 0, 0, 0, false
	} else if o.Flaky > 0 && o.Fault == "" && o.Fail == 0 && !o.HasCut {
		o.Fail = 529
	}
	if o.Fail > 0 && o.FailAfter > 0 && o.Fault == "" {
		o.Fault, o.FaultAfter = FaultEvent, o.FailAfter
	}
	return o
}

// A plan is a reply before it is encoded in a vendor's format.
type plan struct {
	id, model string
	thinking  []string
	pieces    []string
	calls     []toolCall
	stop      string // end, length, content_filter or tool_calls
	stopped   any    // the stop sequence that ended the text, a string, or nil
	usage     Usage
	noUsage   bool

	before     prefix
	refusal    bool // the text is a refusal
	thought    int  // bytes of thinking
	interleave bool
	cut        bool // the last call is incomplete
	chunks     string
	phase      string
	finish     string // of Gemini
	turn       int    // the number of requests before; forms in which a vendor's replies differ are taken in turn
	fresh      bool   // nothing was sent yet
	thoughts   bool   // of Gemini: the thinking was requested
	declared   []declared
}

type toolCall struct{ id, name, arguments string }

// thoughtMark is in the ids of calls made after reasoning, followed by the number of bytes,
// so that DeepSeek's format knows which reasoning must be sent back with them.
const thoughtMark = "_thought"

// thoughtOf returns the reasoning that belongs to a call.
func thoughtOf(id string) (text string, ok bool) {
	_, after, ok := strings.Cut(id, thoughtMark)
	n, err := strconv.Atoi(after)
	if !ok || err != nil {
		return "", false
	}
	return strings.Join(thinking(n), ""), true
}

// thinking returns n bytes of reasoning in pieces.
func thinking(n int) (pieces []string) {
	for ; n > 0; n -= 40 {
		pieces = append(pieces, strings.Repeat("hm, ", 10)[:min(n, 40)])
	}
	return pieces
}

// Usage is the usage that the fake reported for a call, in tokens. Input includes cached and
// written, Written includes long, Output includes reasoning.
type Usage struct{ Input, Cached, Written, Long, Output, Reasoning int64 }

// inputDetails are the parts of the input in both of OpenAI's formats.
func (u Usage) inputDetails() object {
	d := object{"cached_tokens": u.Cached}
	if u.Written > 0 {
		d["cache_write_tokens"] = u.Written
		d["cache_write_tokens_details"] = object{"ttl_30m_tokens": u.Written - u.Long, "ttl_12h_tokens": u.Long}
	}
	return d
}

// ask contains the relevant parts of a request.
type ask struct {
	model     string
	stream    bool
	prompt    string // the last user turn's text
	maxTokens int64  // 0 if not given
	bytes     int    // of the whole request, for the usage
	tools     bool
	results   bool   // the last turn contains tool results
	rounds    int    // number of turns with results after the prompt
	none      bool   // the choice allows no calls
	before    prefix // of Messages: the prefix that thinking is bound to
	dropped   int    // number of dropped thinking blocks
	blocks    blocks // for the cache; none of chat completions other than DeepSeek's
	cached    *Usage // of the input, if there is a cache
	usage     bool   // the usage was requested: chat's stream_options.include_usage
	stops     []string
	declared  []declared // of Responses: the tools
	thoughts  bool       // of Gemini: the thinking was requested
}

func (o Orders) plan(id string, a ask) plan {
	p := plan{id: id, model: a.model, stop: "end", noUsage: o.Usage == "none"}
	p.thinking, p.thought, p.interleave, p.chunks = thinking(o.Think), o.Think, o.Interleave, o.Chunks
	p.before, p.phase, p.finish, p.declared, p.thoughts = a.before, o.Phase, o.Finish, a.declared, a.thoughts
	text := "The fake vendor heard: " + o.Rest
	switch {
	case o.HasSay:
		text = o.Say
	case o.Refuse != "":
		text, p.refusal = o.Refuse, true
	case o.Repeat:
		text = o.Rest
	case o.Tokens > 0:
		text = strings.TrimSpace(strings.Repeat("word ", o.Tokens))
	}
	if (o.Stray || a.tools && !a.none) && (!a.results || a.rounds < o.Rounds) {
		mark := ""
		if o.Think > 0 {
			mark = thoughtMark + strconv.Itoa(o.Think)
		}
		for i, c := range o.Calls {
			p.calls = append(p.calls, toolCall{"call_" + id + strconv.Itoa(i) + mark, c.Name, c.Arguments})
		}
	}
	if len(p.calls) > 0 {
		text, p.stop = "", "tool_calls"
		if o.HasSay {
			text = o.Say
		}
	}
	for _, s := range a.stops {
		if before, _, found := strings.Cut(text, s); found {
			text, p.stopped = before, s
		}
	}
	if !o.Empty {
		p.pieces = words(text)
	}
	if a.maxTokens > 0 && int64(len(p.pieces)) > a.maxTokens {
		p.pieces, p.stop = p.pieces[:a.maxTokens], "length"
	}
	if n := len(p.calls); n > 0 && o.HasCutCall {
		last := &p.calls[n-1]
		last.arguments = last.arguments[:min(o.CutCall, len(last.arguments))]
		p.stop, p.cut = "length", true
	}
	if o.Stop != "" {
		p.stop = string(o.Stop)
	}
	p.usage = Usage{Input: int64(a.bytes+3) / 4, Reasoning: stoa.EstimateTokens(o.Think)}
	p.usage.Input = cmp.Or(o.Input, p.usage.Input)
	p.usage.Cached = min(o.Cached, p.usage.Input)
	p.usage.Written = min(o.Written, p.usage.Input-p.usage.Cached)
	p.usage.Long = min(o.Long, p.usage.Written)
	if a.cached != nil && o.Input+o.Cached+o.Written+o.Long == 0 {
		a.cached.Reasoning = p.usage.Reasoning
		p.usage = *a.cached
	}
	p.usage.Output = int64(len(p.pieces)) + p.usage.Reasoning + int64(8*len(p.calls))
	switch o.Usage {
	case "huge":
		p.usage = Usage{Input: 1 << 50, Output: 1 << 50}
	case "negative":
		p.usage = Usage{Input: -5, Output: -7}
	}
	return p
}

// stopsOf returns the stop sequences of a request. OpenAI's Responses has none.
func stopsOf(format string, body object) (stops []string) {
	list := body["stop"]
	switch format {
	case "messages":
		list = body["stop_sequences"]
	case "gemini":
		config, _ := body["generationConfig"].(object)
		list = config["stopSequences"]
	}
	all, _ := list.([]any)
	for _, s := range all {
		text, _ := s.(string)
		stops = append(stops, text)
	}
	return stops
}

// words splits a text into deltas: one word each, with the space before it.
func words(text string) []string {
	var out []string
	start := 0
	for i := 1; i < len(text); i++ {
		if text[i] == ' ' || text[i] == '\n' {
			out, start = append(out, text[start:i]), i
		}
	}
	if start < len(text) {
		out = append(out, text[start:])
	}
	return out
}

// pause is the interval of a repeating fault.
const pause = time.Millisecond
