package responses

import (
	"slices"

	"stoa/internal/base/stoa"
)

// A conversation groups the items of an input into messages, regardless of the form in which
// the caller sent them. The same items always yield the same messages, because vendors
// compare a request with earlier ones:
//   - consecutive items of the assistant are one message; between two reasoning parts
//     its texts come before its calls;
//   - the results of a message's calls directly follow it, in the order of the calls,
//     in one message of the user; user texts sent before the last of them follow
//     in that message, and system messages follow it;
//   - a call has exactly one result, and a result follows its call. A call that was
//     cut off and has no result is left out.
//
// Ids may repeat once they are answered. Use the add methods in the order of the input, then
// call messages.
type conversation struct {
	entries []entry
	pending map[string]int // calls without a result so far: their entries, by id
	seen    map[string]bool
}

// An entry is one item of the input.
type entry struct {
	role    stoa.Role
	parts   []stoa.Part
	cut     bool   // a call that was cut off
	path    string // path of the id of a call
	result  int    // of a call: the entry of its result; 0 if none
	call    int    // of a result: the entry of its call, counted from 1; 0 if this is not a result
	dropped bool
	tools   []stoa.Tool // that a system message without parts adds
}

func (c *conversation) message(role stoa.Role, parts ...stoa.Part) {
	c.entries = append(c.entries, entry{role: role, parts: parts})
}

func (c *conversation) tools(tools []stoa.Tool) {
	c.entries = append(c.entries, entry{role: stoa.RoleSystem, tools: tools})
}

// mark marks the input up to the entry that was added last.
func (c *conversation) mark(m stoa.Mark) {
	if e := &c.entries[len(c.entries)-1]; m != stoa.MarkNone {
		e.parts[len(e.parts)-1].Mark = m
	}
}

// call adds a tool call. path is the path of its id in the request; cut means that a limit
// cut it off.
func (c *conversation) call(call stoa.ToolCall, cut bool, path string) error {
	if _, open := c.pending[call.ID]; open {
		return stoa.Errorf(stoa.CodeInvalidValue, "An earlier call with the same id has no output yet.").At(path)
	}
	if c.pending == nil {
		c.pending, c.seen = map[string]int{}, map[string]bool{}
	}
	c.pending[call.ID], c.seen[call.ID] = len(c.entries), true
	c.entries = append(c.entries, entry{
		role: stoa.RoleAssistant, cut: cut, path: path,
		parts: []stoa.Part{{Kind: stoa.PartCall, Call: &call}},
	})
	return nil
}

// result adds the result of the call with its id; path is the path of that id.
func (c *conversation) result(result stoa.ToolResult, path string) error {
	i, open := c.pending[result.CallID]
	switch {
	case !open && c.seen[result.CallID]:
		return stoa.Errorf(stoa.CodeInvalidValue, "The call with this id already has an output. Send one for each call.").At(path)
	case !open:
		return stoa.Errorf(stoa.CodeInvalidValue, "No tool call with this id comes before its output. Send the model's call too, before the output.").At(path)
	}
	delete(c.pending, result.CallID)
	c.entries[i].result = len(c.entries)
	call := c.entries[i].parts[0].Call
	result.Name, result.Custom = call.Name, isCustom(call.Form)
	c.entries = append(c.entries, entry{
		role: stoa.RoleUser, call: i + 1,
		parts: []stoa.Part{{Kind: stoa.PartResult, Result: &result}},
	})
	return nil
}

// messages returns the messages. It fails if a call has no result.
func (c *conversation) messages() ([]stoa.Message, error) {
	for i := range c.entries {
		e := &c.entries[i]
		if e.path == "" || e.result > 0 {
			continue
		}
		if !e.cut {
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "The tool call with this id has no output later in the input. Send one, even if it only says that the call was not made.").At(e.path)
		}
		e.dropped = true
		for j := i - 1; j >= 0 && c.entries[j].reasons(); j-- {
			c.entries[j].dropped = true // no other item depends on it
		}
	}
	var out []stoa.Message
	for i := 0; i < len(c.entries); {
		if c.entries[i].role != stoa.RoleAssistant {
			if c.entries[i].call == 0 { // results were added with their calls
				out = append(out, stoa.Message{Role: c.entries[i].role, Parts: c.entries[i].parts, Tools: c.entries[i].tools})
			}
			i++
			continue
		}
		next := i
		for next < len(c.entries) && c.entries[next].role == stoa.RoleAssistant {
			next++
		}
		var after int
		out, after = c.turn(out, i, next)
		i = after
	}
	return out, nil
}

// turn appends the assistant's message of the entries from i to end, the results of its
// calls, and the entries between them. It returns the index of the next entry.
func (c *conversation) turn(out []stoa.Message, i, end int) ([]stoa.Message, int) {
	var parts, results []stoa.Part
	last := end  // after the last result, unless another turn of the assistant comes first
	segment := 0 // index in parts after the last reasoning
	for _, e := range c.entries[i:end] {
		switch {
		case e.dropped:
			continue
		case e.reasons():
			slices.SortStableFunc(parts[segment:], textsFirst)
			segment = len(parts) + 1
		case e.result > 0:
			results = append(results, c.entries[e.result].parts...)
			last = max(last, e.result+1)
		}
		parts = append(parts, e.parts...)
	}
	slices.SortStableFunc(parts[min(segment, len(parts)):], textsFirst)
	if len(parts) > 0 {
		out = append(out, stoa.Message{Role: stoa.RoleAssistant, Parts: parts})
	}
	if len(results) == 0 {
		return out, end
	}
	var system []stoa.Message
	for end < last && c.entries[end].role != stoa.RoleAssistant {
		switch e := c.entries[end]; {
		case e.call > 0:
		case e.role == stoa.RoleSystem:
			system = append(system, stoa.Message{Role: e.role, Parts: e.parts, Tools: e.tools})
		default:
			results = append(results, e.parts...)
		}
		end++
	}
	out = append(out, stoa.Message{Role: stoa.RoleUser, Parts: results})
	return append(out, system...), end
}

func (e *entry) reasons() bool { return len(e.parts) > 0 && e.parts[0].Kind == stoa.PartReasoning }

func textsFirst(a, b stoa.Part) int {
	rank := func(p stoa.Part) int {
		if p.Kind == stoa.PartCall {
			return 1
		}
		return 0
	}
	return rank(a) - rank(b)
}

// openLoop returns the newest state of an input that ends with results of calls, and reports
// whether the input ends so.
func openLoop(messages []stoa.Message) (newest stoa.State, open bool) {
	i := len(messages) - 1
	for i >= 0 && messages[i].Role == stoa.RoleSystem {
		i--
	}
	if i < 0 || messages[i].Role != stoa.RoleUser || len(messages[i].Parts) == 0 || messages[i].Parts[0].Kind != stoa.PartResult {
		return stoa.State{}, false
	}
	for ; i >= 0; i-- {
		for j := len(messages[i].Parts) - 1; j >= 0; j-- {
			if p := messages[i].Parts[j]; p.Kind == stoa.PartReasoning && p.State.Wire != "" {
				return p.State, true
			}
		}
	}
	return stoa.State{}, true
}
