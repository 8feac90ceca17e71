package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// The tools of an agent that the sandbox calls without an order.
const (
	toolSearch = "drive_search"
	toolAsk    = "ask_user"
)

type turn struct {
	call    stoa.Call
	orders  Orders
	message string            // the text of the last user message
	media   []stoa.Part       // its images and files
	rest    string            // the message without its orders
	earlier int               // number of user messages before it
	results []stoa.ToolResult // the tool results after it

	thoughts int // number of reasoning segments that were sent back
}

// read returns the last message of the user and the tool results after it. It reports whether
// all reasoning of the route is unchanged and in the turn that it belongs to.
func read(call stoa.Call, route stoa.Route) (t turn, intact bool) {
	t.call = call
	for _, m := range call.Messages {
		if m.Role != stoa.RoleUser {
			for _, p := range m.Parts {
				if p.Kind != stoa.PartReasoning || !p.State.Fits(route) {
					continue
				}
				if !isThought(p.State.Data, t.message) {
					return t, false
				}
				t.thoughts++
			}
			continue
		}
		text := m.Text()
		if stoa.StandsAlone(text) {
			continue // because it says nothing about the orders
		}
		var media []stoa.Part
		var results []stoa.ToolResult
		for _, p := range m.Parts {
			switch p.Kind {
			case stoa.PartImage, stoa.PartFile:
				media = append(media, p)
			case stoa.PartResult:
				results = append(results, *p.Result)
			}
		}
		if text == "" && len(media) == 0 && len(results) > 0 {
			t.results = append(t.results, results...)
			continue
		}
		t.message, t.media = stoa.WithoutNotes(text), media
		t.earlier++
		t.results = nil
	}
	t.orders, t.rest = ParseOrders(t.message)
	t.earlier = max(0, t.earlier-1)
	return t, true
}

type plan struct {
	text  string
	calls []stoa.ToolCall
}

func (t turn) offered(name string) bool {
	return allows(t.call.ToolChoice(), name) && slices.ContainsFunc(t.call.Tools, func(tool stoa.Tool) bool { return tool.Name == name })
}

// toolCall returns a call whose id stays the same when this turn is repeated, because a call always
// has the same reply, and differs from earlier ones of the conversation.
func (t turn) toolCall(n int, name, arguments string) stoa.ToolCall {
	return stoa.ToolCall{ID: fmt.Sprintf("call_%d_%d", len(t.call.Messages), n), Name: name, Arguments: arguments}
}

func (t turn) plan(opts Options) plan {
	o := t.orders
	again := len(t.results) == 0 || o.Repeat
	if again {
		if p, ok := t.toolPlan(); ok {
			return p
		}
	}
	switch {
	case o.HasSay:
		return plan{text: o.Say}
	case o.Empty, o.Refuse != "":
		return plan{}
	case o.Tokens > 0:
		return plan{text: words(o.Tokens)}
	case len(t.results) > 0:
		return plan{text: t.inFormat(t.report())}
	case o.Ask != "":
		return plan{text: o.Ask}
	case len(o.Calls) > 0:
		return plan{text: "No tool named " + o.Calls[0].Name + " was offered to the sandbox, so it called none."}
	case o.Repeat:
		return plan{text: t.rest}
	}
	return plan{text: t.inFormat(t.introduce(opts))}
}

func (t turn) toolPlan() (plan, bool) {
	o := t.orders
	var p plan
	for _, c := range o.Calls {
		if t.offered(c.Name) {
			p.calls = append(p.calls, t.toolCall(len(p.calls), c.Name, c.Arguments))
		}
	}
	if o.Ask != "" && t.offered(toolAsk) {
		arguments := `{"question":` + quote(o.Ask)
		if len(o.Options) > 0 {
			var options []string
			for _, option := range o.Options {
				options = append(options, quote(option))
			}
			arguments += `,"options":[` + strings.Join(options, ",") + `]`
		}
		p.calls = append(p.calls, t.toolCall(len(p.calls), toolAsk, arguments+"}"))
	}
	if len(p.calls) > 0 {
		if o.Tokens > 0 && !o.HasSay {
			p.text = words(o.Tokens)
		}
		return p, true
	}
	if query := keywords(t.rest); o.None() && query != "" && t.offered(toolSearch) {
		return plan{calls: []stoa.ToolCall{t.toolCall(0, toolSearch, `{"query":`+quote(query)+`}`)}}, true
	}
	return plan{}, false
}

func (t turn) introduce(opts Options) string {
	var b strings.Builder
	b.WriteString("This reply comes from the built-in sandbox of Stoa, not from a vendor's model")
	if opts.Model != "" {
		b.WriteString("; it stands in for " + opts.Model)
	}
	b.WriteString(".")
	if t.rest != "" {
		b.WriteString(" You wrote: “" + shorten(t.rest, 400) + "”.")
	}
	for i, p := range t.media {
		if i == maxPassages {
			b.WriteString(" There is more.")
			break
		}
		b.WriteString(" You sent " + describe(p.Kind, p.Media) + ".")
	}
	if t.thoughts > 0 {
		fmt.Fprintf(&b, " Earlier reasoning came back unchanged: %d.", t.thoughts)
	}
	if t.earlier > 0 {
		fmt.Fprintf(&b, " That is message %d of yours in this conversation.", t.earlier+1)
	}
	if system := t.call.System(); system != "" {
		b.WriteString(" The instructions begin: “" + shorten(system, 80) + "”.")
	}
	b.WriteString(" To connect a vendor, add it under Providers in the console: no restart is needed. ANTHROPIC_API_KEY, GEMINI_API_KEY," +
		" OPENAI_API_KEY, DEEPSEEK_API_KEY or STOA_UPSTREAM (for a server of your own) do the same at the next start.")
	return b.String()
}

func quote(s string) string { return string(jsonx.AppendString(nil, s)) }
