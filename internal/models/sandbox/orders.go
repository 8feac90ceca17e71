package sandbox

import (
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/stoa"
)

// Maximum values in orders; larger values are lowered to them.
const (
	MaxTokens = 200_000          // of "tokens:"
	MaxThink  = 1 << 20          // bytes of "think:"
	MaxSlow   = 10 * time.Second // of "slow:"
	MaxWait   = 10 * time.Minute // of "wait:"
	maxCalls  = 32               // of "call:" in one message
)

// Orders are the orders of a prompt to the sandbox. The zero value contains none.
type Orders struct {
	Say    string        // the reply, verbatim; see HasSay
	HasSay bool          // "say:" was ordered, possibly with an empty text
	Repeat bool          // reply with the rest of the message; with Ask or Calls: ask or call again after every result
	Empty  bool          // no text
	Tokens int           // words of the reply
	Think  int           // bytes of thinking before the text
	Slow   time.Duration // before each delta except the first
	Wait   time.Duration // before the first event

	Fail      int       // fail with this HTTP status; 0 means no failure
	FailAfter int       // number of deltas before the failure
	Cut       int       // number of deltas before the stream breaks off; see HasCut
	HasCut    bool      // "cut:" was ordered
	Refuse    string    // a refusal instead of the text; may be empty
	Stop      stoa.Stop // the reply's stop reason; empty means the real one
	Usage     string    // the reported usage: none, huge or negative; empty means the real one

	Ask     string          // question to the user, through the tool ask_user
	Options []string        // its choices; may be nil
	Calls   []stoa.ToolCall // tools to call, in order; IDs are empty
}

// None reports whether no order determines the reply's content.
func (o Orders) None() bool {
	return !o.HasSay && !o.Repeat && !o.Empty && o.Refuse == "" && o.Tokens == 0 && o.Ask == "" && len(o.Calls) == 0
}

// ParseOrders parses the orders in a message, each on a separate line, and returns the text
// without them. A line that is not exactly an order with a valid argument is text. The
// orders:
//
//	say: TEXT              the reply; it continues to the end of the message
//	repeat                 the reply is the rest of the message; with ask or call: again after every result
//	empty                  a reply without text
//	tokens: N              a reply of N words
//	think: N               N bytes of thinking before the text
//	slow: 50ms             a pause before each delta after the first
//	wait: 2s               a pause before the first event
//	fail: 529              fail with that status (400 to 599) before the first delta
//	fail: 529 after 3      fail after three deltas
//	cut: N                 the stream breaks off after N deltas, without an end
//	refuse: TEXT           a refusal instead of the text
//	stop: length           the reply ends with that reason: length or content_filter
//	usage: none            no usage is reported, or an impossible one: huge, negative
//	ask: QUESTION | A | B  ask the user, with choices if there are any
//	call: TOOL {JSON}      call a tool that was offered; may occur several times
//
// With call:, tokens: writes text before the calls. think: produces a segment of reasoning
// that must be sent back unchanged: an altered one is refused. Without orders a choice that
// requires a call gets one, with arguments that fit the tool's schema, and a format gets JSON
// that fits it.
//
// Orders count at the start of a line of the last user message with text. Later tool results
// mean that its tool orders are done: the sandbox then replies with the results of the tools
// (or with say:). A repeat with call: or ask: repeats it after every result, which tests a
// limit on steps. Pauses and lengths have upper bounds.
//
// Orders in instructions do not count, because an agent's instructions are its owner's, and a
// reply that depends on something outside the message would confuse its reader. There is no
// state between calls, since the model endpoint has none.
func ParseOrders(text string) (orders Orders, rest string) {
	var left []string
	for text != "" {
		line, below, more := strings.Cut(text, "\n")
		if word, argument, ok := strings.Cut(line, ":"); ok && word == "say" {
			orders.HasSay = true
			orders.Say = strings.TrimPrefix(argument, " ")
			if more {
				orders.Say += "\n" + below
			}
			break
		} else if !orders.parse(word, strings.TrimSpace(argument), ok) {
			left = append(left, line)
		}
		text = below
	}
	return orders, strings.TrimSpace(strings.Join(left, "\n"))
}

func (o *Orders) parse(word, argument string, colon bool) bool {
	if !colon {
		switch strings.TrimRight(word, " \r") {
		case "repeat":
			o.Repeat = true
		case "empty":
			o.Empty = true
		default:
			return false
		}
		return true
	}
	switch word {
	case "tokens":
		return count(&o.Tokens, argument, 1, MaxTokens)
	case "think":
		return count(&o.Think, argument, 1, MaxThink)
	case "slow":
		return pause(&o.Slow, argument, MaxSlow)
	case "wait":
		return pause(&o.Wait, argument, MaxWait)
	case "fail":
		status, after, ok := strings.Cut(argument, " after ")
		var n, deltas int
		if !count(&n, status, 400, 600) || n == 600 || ok && !count(&deltas, after, 0, MaxTokens) {
			return false
		}
		o.Fail, o.FailAfter = n, deltas
	case "cut":
		o.HasCut = count(&o.Cut, argument, 0, MaxTokens)
		return o.HasCut
	case "refuse":
		o.Refuse = argument
		return argument != ""
	case "stop":
		stop := stoa.Stop(argument)
		if stop != stoa.StopLength && stop != stoa.StopContentFilter {
			return false
		}
		o.Stop = stop
	case "usage":
		if argument != "none" && argument != "huge" && argument != "negative" {
			return false
		}
		o.Usage = argument
	case "ask":
		parts := strings.Split(argument, "|")
		if o.Ask = strings.TrimSpace(parts[0]); o.Ask == "" {
			return false
		}
		o.Options = nil
		for _, option := range parts[1:] {
			o.Options = append(o.Options, strings.TrimSpace(option))
		}
	case "call":
		name, arguments, _ := strings.Cut(argument, " ")
		arguments = strings.TrimSpace(arguments)
		if !stoa.IsName(name) || !strings.HasPrefix(arguments, "{") || len(o.Calls) == maxCalls {
			return false
		}
		o.Calls = append(o.Calls, stoa.ToolCall{Name: name, Arguments: arguments})
	default:
		return false
	}
	return true
}

func count(to *int, s string, least, most int) bool {
	n, err := strconv.Atoi(s)
	if err != nil || n < least {
		return false
	}
	*to = min(n, most)
	return true
}

func pause(to *time.Duration, s string, most time.Duration) bool {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return false
	}
	*to = min(d, most)
	return true
}
