package wire

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// User texts that a vendor requires but the call does not have: before a first turn of the
// assistant, and after a last one.
const (
	beginText    = "Begin."
	continueText = "Continue."
)

// A builder writes JSON. It sets the commas by the byte written last.
type builder struct {
	b         []byte
	reasoning int       // number of reasoning segments in it
	tools     stoa.Mark // of the tools, which follow the messages
	described bool      // a part of a tool's schema is in its description
	lists     bool      // in Responses texts are parts, because only parts can be marked
	marks     int
	long      bool // one of the marks is long
	moved     bool // a mark of the caller has another place or another life than requested
}

// marked completes a request of a wire whose vendor caches the marked input.
func (w *builder) marked(r Request, call *stoa.Call) Request {
	marks, _ := call.Marks()
	r.Long = w.long
	r.MarksChanged = marks > 0 && (w.moved || w.marks != marks)
	switch {
	case w.marks == 0:
		r.MarkedBy = stoa.MarkedByNone
	case marks > 0:
		r.MarkedBy = stoa.MarkedByCaller
	default:
		r.MarkedBy = stoa.MarkedByStoa
	}
	return r
}

func newBuilder(call stoa.Call) *builder {
	n := 512 + len(call.Instructions)
	for i := range call.Messages {
		n += sizeOfParts(call.Messages[i].Parts)
	}
	return &builder{b: make([]byte, 0, n+n/8)} // inlined, so that it is not on the heap
}

func (w *builder) comma() {
	if len(w.b) == 0 {
		return
	}
	switch w.b[len(w.b)-1] {
	case '{', '[', ':':
	default:
		w.b = append(w.b, ',')
	}
}

// key writes a member's name, which must not need escaping; its value has to follow.
func (w *builder) key(name string) *builder {
	w.comma()
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
	return w
}

func (w *builder) optional(name, text string) {
	if text != "" {
		w.member(name, text)
	}
}

func (w *builder) open(kind byte) {
	w.comma()
	w.b = append(w.b, kind)
}

func (w *builder) close(kind byte) { w.b = append(w.b, kind) }

func (w *builder) text(s string) {
	w.comma()
	w.b = jsonx.AppendString(w.b, s)
}

func (w *builder) raw(s string) {
	w.comma()
	w.b = append(w.b, s...)
}

func (w *builder) int(n int64) {
	w.comma()
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *builder) member(name, value string) { w.key(name).text(value) }

func (w *builder) number(name string, value *float64) {
	if value != nil {
		w.key(name).comma()
		w.b = strconv.AppendFloat(w.b, *value, 'f', -1, 64)
	}
}

const noParameters = `{"type":"object","properties":{}}`

// arguments writes the arguments of a call as a string that contains an object, because
// servers with a template for calls fail on anything else.
func (w *builder) arguments(arguments string) {
	if s := strings.TrimSpace(arguments); s == "" || !isWholeObject([]byte(s)) {
		arguments = string(appendObject(nil, s))
	}
	w.member("arguments", arguments)
}

func appendObject(dst []byte, arguments string) []byte {
	arguments = strings.TrimSpace(arguments)
	if arguments == "" {
		return append(dst, "{}"...)
	}
	if c := jsonx.NewReplyCursor([]byte(arguments)); arguments[0] == '{' && c.Done() {
		return append(dst, arguments...)
	}
	dst = append(dst, `{"unreadable":`...)
	return append(jsonx.AppendString(dst, arguments), '}')
}

// header returns the common headers of requests and the given others, each a canonical name
// and a value; an empty value is left out.
func header(call stoa.Call, others ...[2]string) http.Header {
	accept := "text/event-stream"
	if call.Whole {
		accept = "application/json"
	}
	h := make(http.Header, headerFields)
	values := make([]string, 0, headerFields)
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("Content-Type", "application/json")
	set("Accept", accept)
	for _, other := range others {
		if name, value := other[0], other[1]; value != "" {
			set(name, value)
		}
	}
	return h
}

const headerFields = 8 // initial capacity of a header

func bearer(call stoa.Call, apiKey string) http.Header {
	if apiKey == "" {
		return header(call)
	}
	return header(call, [2]string{"Authorization", "Bearer " + apiKey})
}

// sampling returns the temperature and the top_p that the upstream model accepts.
func sampling(call stoa.Call, t stoa.Traits) (temperature, topP *float64) {
	if !samples(call, t) {
		return nil, nil
	}
	temperature, topP = call.Temperature, call.TopP
	if t.Sampling == "one" && temperature != nil {
		temperature, topP = atMost(temperature, 1), nil
	}
	return temperature, topP
}

func samples(call stoa.Call, t stoa.Traits) bool {
	switch t.Sampling {
	case "none":
		return false
	case "unless_thinking":
		off, effort := thinking(call, t)
		return off || effort == "none"
	}
	return true
}

// topK writes a member with the call's top_k, if the upstream model accepts it.
func (w *builder) topK(name string, call stoa.Call, t stoa.Traits) {
	if call.TopK > 0 && samples(call, t) {
		w.key(name).int(call.TopK)
	}
}

func (w *builder) stops(name string, sequences []string) {
	if len(sequences) == 0 {
		return
	}
	w.key(name).open('[')
	for _, s := range sequences {
		w.text(s)
	}
	w.close(']')
}

func atMost(v *float64, limit float64) *float64 {
	if v != nil && *v > limit {
		return &limit
	}
	return v
}

// efforts are the reasoning efforts, least first.
var efforts = [...]string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// thinking returns the effort to send (empty means none), or off if reasoning has to be
// disabled in the wire's own way. Of two efforts equally near, it returns the higher, because
// the caller asked for at least that much.
func thinking(call stoa.Call, t stoa.Traits) (off bool, effort string) {
	if call.Effort == "" {
		return false, ""
	}
	if call.Effort == "none" && t.ThinkingOff != "" {
		return true, ""
	}
	if slices.Contains(t.Efforts, call.Effort) {
		return false, call.Effort
	}
	want, best := slices.Index(efforts[:], call.Effort), len(efforts)
	for _, e := range t.Efforts {
		rank := slices.Index(efforts[:], e)
		if rank < 0 || want < 0 || e == "none" { // because disabled reasoning does not approximate a low effort
			continue
		}
		if d := max(rank-want, want-rank); d < best || d == best && rank > want {
			best, effort = d, e
		}
	}
	return false, effort
}
