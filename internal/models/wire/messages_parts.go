package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// bindingBeta is the version of the vendor's rules for bound thinking. It is sent with the
// setting to drop thinking whose prefix has changed, because the default of newer accounts is
// an error.
const bindingBeta = "thinking-binding-controls-2026-08-01"

// dropUnbound requests the vendor to drop reasoning whose prefix has changed instead of refusing the
// request, because an agent's prompt changes while it works.
const dropUnbound = `{"prefix_mismatch_behavior":"drop_block"}`

// failedText is the text of a failed result that has none, which the vendor would reject.
const failedText = "The tool failed."

// encodeMessagesTurns writes the members system and messages, and reports whether they
// contain reasoning.
func encodeMessagesTurns(w *builder, call stoa.Call, route stoa.Route) (reasoning bool) {
	system, list := turnsOf(call, route, shape{alternate: true, noBlank: true})
	if call.TextFormat().Kind != stoa.FormatText && !isNative(call.TextFormat(), route.Traits) {
		system = strings.TrimPrefix(system+"\n\n"+inWords(call.TextFormat()), "\n\n")
	}
	off, _ := thinking(call, route.Traits)
	reasoning = keepRun(list, off)
	w.reasoning = reasoningIn(list)
	marks := marksOf(call, system, list)
	w.tools, w.moved = marks.tools, marks.moved
	if strings.TrimSpace(system) != "" {
		if w.key("system"); marks.any {
			w.open('[')
			for _, b := range marks.system {
				w.open('{')
				w.member("type", "text")
				w.member("text", b.text)
				w.mark(b.mark)
				w.close('}')
			}
			w.close(']')
		} else {
			w.text(system)
		}
	}
	w.key("messages").open('[')
	for i, t := range list {
		prefill := i == len(list)-1 && t.role == stoa.RoleAssistant
		w.open('{')
		w.member("role", string(t.role))
		w.key("content")
		if t.role == stoa.RoleSystem || len(t.parts) == 1 && t.parts[0].Kind == stoa.PartText && (!marks.any || prefill) {
			text := joinTexts(t.parts)
			if prefill {
				text = withoutEnd(text)
			}
			w.text(text)
		} else {
			if last := &t.parts[len(t.parts)-1]; prefill && last.Kind == stoa.PartText {
				*last = textPiece(withoutEnd(last.Text))
			}
			w.open('[')
			for _, p := range t.parts {
				encodeMessagesPart(w, p)
			}
			w.close(']')
		}
		w.close('}')
	}
	w.close(']')
	return reasoning
}

// maxMarks is the largest number of marks that the vendor accepts in a request.
const maxMarks = 4

// messagesMarks are the marks of a request besides those of its pieces.
type messagesMarks struct {
	moved  bool // a mark of the caller has another place or another life
	any    bool // the request may have marks, so that all texts are blocks
	tools  stoa.Mark
	system []systemBlock
}

// A systemBlock is a piece of the system text. All but the last end at a mark of the caller.
type systemBlock struct {
	text string
	mark stoa.Mark
}

// systemBlocks divides the system text of a call at the marks of the caller, so that a mark
// before a text that changes keeps its place. moved reports whether one does not.
func systemBlocks(call *stoa.Call, system string) (blocks []systemBlock, moved bool) {
	plain := isPlain(call)
	from, at := 0, len(call.Instructions)
	var later stoa.Mark // of a system message that is elsewhere
	for i, head := 0, true; i < len(call.Messages); i++ {
		m := &call.Messages[i]
		if m.Role != stoa.RoleSystem {
			head = plain
			continue
		}
		for _, p := range m.Parts {
			if !head {
				later = max(later, p.Mark)
				continue
			}
			rest := system[at:]
			if at > 0 && p.Text != "" {
				rest = strings.TrimPrefix(rest, "\n\n")
			}
			if !strings.HasPrefix(rest, p.Text) { // it was changed on the way
				later = max(later, p.Mark)
				continue
			}
			at = len(system) - len(rest) + len(p.Text)
			if text := system[from:at]; p.Mark != stoa.MarkNone && strings.TrimSpace(text) != "" {
				blocks = append(blocks, systemBlock{text, p.Mark})
				from = at
			}
		}
	}
	if rest := system[from:]; strings.TrimSpace(rest) != "" {
		blocks = append(blocks, systemBlock{text: rest})
	}
	if n := len(blocks); n > 0 {
		blocks[n-1].mark = max(blocks[n-1].mark, later)
	}
	return blocks, later != stoa.MarkNone
}

// marksOf marks the pieces of a request: those that the caller marks, of which the last four count, or
// four ends: the instructions, the first part of the conversation (such as the files of an agent or a
// long document), the previous request and this one.
func marksOf(call stoa.Call, system string, list []turn) (m messagesMarks) {
	marks, _ := call.Marks()
	if call.Caching == stoa.CacheOff || marks == 0 && call.Caching == stoa.CacheNothing {
		return m
	}
	m.any = true
	for _, t := range call.Tools {
		m.moved = m.moved || m.tools != stoa.MarkNone // the mark of an earlier tool
		m.tools = max(m.tools, t.Mark)
	}
	blocks, moved := systemBlocks(&call, system)
	m.system, m.moved = blocks, m.moved || moved
	previous := -1 // the turn at whose end the previous request ended
	for i, t := range list {
		for j, p := range t.parts {
			m.moved = !t.mark(j, p.Mark) || m.moved
		}
		if t.role == stoa.RoleAssistant && i < len(list)-1 {
			previous = i - 1
		}
	}
	if n := len(m.system); call.Caching != stoa.CacheNothing && n > 0 {
		m.system[n-1].mark = max(m.system[n-1].mark, stoa.MarkShort)
	}
	if call.Caching == stoa.CacheConversation {
		list[0].mark(0, stoa.MarkShort)
		for _, i := range []int{previous, len(list) - 1} {
			if i >= 0 {
				list[i].mark(len(list[i].parts)-1, stoa.MarkShort)
			}
		}
	}
	m.limit(list)
	return m
}

// mark marks a piece of the turn, or the one before it that is not reasoning, which cannot be
// marked. It reports whether the mark is at the piece.
func (t turn) mark(at int, m stoa.Mark) bool {
	if m == stoa.MarkNone {
		return true
	}
	to := min(at, len(t.parts)-1)
	for to >= 0 && t.parts[to].Kind == stoa.PartReasoning {
		to--
	}
	if to >= 0 && t.role != stoa.RoleSystem {
		t.parts[to].mark = max(t.parts[to].mark, m)
	}
	return to == at
}

// limit keeps the last marks that the vendor accepts. A long mark after a short one, which the
// vendor refuses, becomes short.
func (m *messagesMarks) limit(list []turn) {
	marks := []*stoa.Mark{&m.tools}
	for i := range m.system {
		marks = append(marks, &m.system[i].mark)
	}
	for _, t := range list {
		for j := range t.parts {
			marks = append(marks, &t.parts[j].mark)
		}
	}
	marks = slices.DeleteFunc(marks, func(m *stoa.Mark) bool { return *m == stoa.MarkNone })
	short, changed := false, false
	for i, m := range marks {
		if i < len(marks)-maxMarks {
			*m = stoa.MarkNone
			continue
		}
		if short && *m == stoa.MarkLong {
			*m, changed = stoa.MarkShort, true
		}
		short = *m == stoa.MarkShort
	}
	m.moved = m.moved || changed
}

// mark writes a mark of the vendor's format, if there is one.
func (w *builder) mark(m stoa.Mark) {
	if m != stoa.MarkNone {
		w.marks++
		w.long = w.long || m == stoa.MarkLong
	}
	switch m {
	case stoa.MarkShort:
		w.key("cache_control").raw(`{"type":"ephemeral"}`)
	case stoa.MarkLong:
		w.key("cache_control").raw(`{"type":"ephemeral","ttl":"1h"}`)
	}
}

// withoutEnd removes white space from the end of a text, which the vendor rejects in a
// prefill.
func withoutEnd(text string) string { return strings.TrimRight(text, " \t\r\n") }

// isNative reports whether the vendor has a setting for the format; it has none for an
// object without a schema.
func isNative(f stoa.Format, t stoa.Traits) bool {
	return f.Kind == stoa.FormatSchema && t.Schema == "native"
}

func encodeMessagesPart(w *builder, p piece) {
	switch p.Kind {
	case stoa.PartText:
		w.open('{')
		w.member("type", "text")
		w.member("text", p.Text)
		w.mark(p.mark)
		w.close('}')
	case stoa.PartReasoning:
		_, block := messagesState(p.State.Data)
		w.raw(block)
	case stoa.PartImage, stoa.PartFile:
		encodeMessagesMedia(w, p)
	case stoa.PartCall:
		w.open('{')
		w.member("type", "tool_use")
		w.member("id", p.id)
		w.member("name", p.Call.Name)
		w.key("input").strictObject(p.Call.Arguments)
		w.mark(p.mark)
		w.close('}')
	case stoa.PartResult:
		encodeMessagesResult(w, p)
	}
}

// encodeMessagesResult writes the result of a call. For a failed tool the vendor accepts only
// text and no empty list of parts.
func encodeMessagesResult(w *builder, p piece) {
	r := p.Result
	text, failed := r.Content, r.IsError
	var parts []*stoa.Part
	media := false
	for i := range r.Parts {
		part := &r.Parts[i]
		if part.Kind != stoa.PartText {
			media = true
		} else if strings.TrimSpace(part.Text) == "" {
			continue
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 && !media {
		text, parts = parts[0].Text, nil
	}
	if failed && len(parts) == 0 && strings.TrimSpace(text) == "" {
		text = failedText
	}
	w.open('{')
	w.member("type", "tool_result")
	w.member("tool_use_id", p.id)
	w.key("content")
	if len(parts) == 0 {
		w.text(text)
	} else {
		w.open('[')
		for _, part := range parts {
			encodeMessagesPart(w, piece{Part: part})
		}
		w.close(']')
	}
	if failed && !media {
		w.key("is_error").raw("true")
	}
	w.mark(p.mark)
	w.close('}')
}

func encodeMessagesMedia(w *builder, p piece) {
	w.open('{')
	if p.Kind == stoa.PartImage {
		w.member("type", "image")
	} else {
		w.member("type", "document")
	}
	w.key("source").open('{')
	if p.Media.URL != "" {
		w.member("type", "url")
		w.member("url", p.Media.URL)
	} else {
		w.member("type", "base64")
		w.member("media_type", p.Media.Type)
		w.member("data", p.Media.Base64)
	}
	w.close('}')
	if p.Kind == stoa.PartFile && p.Media.Name != "" {
		w.member("title", p.Media.Name)
	}
	w.mark(p.mark)
	w.close('}')
}

// encodeMessagesOptions writes the members with the settings of reasoning and reply. bound
// means that the messages have reasoning that the vendor binds to its prefix.
func encodeMessagesOptions(w *builder, call stoa.Call, route stoa.Route, bound bool) error {
	off, effort := thinking(call, route.Traits)
	switch {
	case off:
		w.key("thinking").open('{')
		w.member("type", route.Traits.ThinkingOff)
		w.close('}')
	case bound || (call.Summary || strings.Contains(call.VendorSettings().ContextManagement, clearThinking)) && len(route.Traits.Efforts) > 0: // since other models do not reason without a budget
		w.key("thinking").open('{')
		w.member("type", "adaptive")
		if call.Summary {
			w.member("display", "summarized")
		}
		if bound {
			w.key("block_binding").raw(dropUnbound)
		}
		w.close('}')
	}
	native := isNative(call.TextFormat(), route.Traits)
	if effort == "" && !native {
		return nil
	}
	w.key("output_config").open('{')
	if effort != "" {
		w.member("effort", effort)
	}
	if native {
		fitted, err := FitFormat(call.TextFormat(), route)
		if err != nil {
			return err
		}
		w.key("format").open('{')
		w.member("type", "json_schema")
		w.key("schema").raw(fitted)
		w.close('}')
	}
	w.close('}')
	return nil
}

// encodeMessagesTools writes the tools and the choice among them. If the call has none, the tools
// called before are declared, and none may be called, because the vendor accepts calls in messages
// only together with tools.
func encodeMessagesTools(w *builder, call stoa.Call, route stoa.Route) error {
	tools := allowed(call)
	mode := call.ToolChoice().Mode
	if len(tools) == 0 {
		mode = stoa.ChoiceNone
		if tools = calledTools(call); len(tools) == 0 {
			return nil
		}
	}
	enforced, limit := 0, stoa.WireNamed(route.Wire).StrictTools
	w.key("tools").open('[')
	for i, t := range tools {
		w.open('{')
		if AnthropicTool(form(t.Form).Kind) != nil {
			w.member("type", t.Form.Kind)
			w.members(t.Form.Native)
			if i == len(tools)-1 {
				w.mark(w.tools)
			}
			w.close('}')
			continue
		}
		w.member("name", t.Name)
		w.member("description", t.Description)
		if enforced == limit { // because the vendor rejects a request with more
			t.Strict = nil
		}
		w.key("input_schema")
		strict, err := w.fitted(t, route)
		if err != nil {
			return err
		}
		if strict {
			enforced++
			w.key("strict").raw("true")
		}
		if i == len(tools)-1 {
			w.mark(w.tools)
		}
		w.close('}')
	}
	w.close(']')
	w.key("tool_choice").open('{')
	switch {
	case mode == stoa.ChoiceNone:
		w.member("type", "none")
		w.close('}')
		return nil
	case !forced(call, route.Traits):
		w.member("type", "auto")
	case call.ToolChoice().Named:
		w.member("type", "tool")
		w.member("name", call.ToolChoice().Only[0])
	default:
		w.member("type", "any")
	}
	if call.NoParallel {
		w.key("disable_parallel_tool_use").raw("true")
	}
	w.close('}')
	return nil
}

// clearThinking begins the types of edits of the context that concern thinking.
const clearThinking = `"clear_thinking_`

// contextEdits returns the edits of the context, or "", without those that concern thinking if the
// request does not ask for thinking, because the vendor refuses them.
func contextEdits(text string, thinks bool) string {
	if thinks || !strings.Contains(text, clearThinking) {
		return text
	}
	w := builder{b: []byte(`{"edits":[`)}
	before := len(w.b)
	c := jsonx.NewReplyCursor([]byte(Member(text, "edits")))
	for ok := c.Array(); ok && c.Element(); {
		if edit := string(c.Raw()); !strings.HasPrefix(Member(edit, "type"), clearThinking) {
			w.raw(edit)
		}
	}
	if len(w.b) == before {
		return ""
	}
	return string(append(w.b, "]}"...))
}

// messagesState reads the data of a segment of reasoning: the vendor's block, which may be empty, with
// the mark of the segment before it, because a caller may lose a segment, and segments before a gap
// must not be sent. See docs/decisions/0045-return-reasoning-by-segment.md.
func messagesState(data string) (after, block string) {
	c := jsonx.NewReplyCursor([]byte(data))
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "after":
			after, _ = c.Text()
		case "block":
			if c.Kind() == '{' {
				block = string(c.Raw())
			}
		}
	}
	if !c.Done() {
		return "", ""
	}
	return after, block
}

func newMessagesState(after, block string) string {
	w := builder{b: make([]byte, 0, len(block)+64)}
	w.open('{')
	w.member("after", after)
	w.key("block").raw(block)
	w.close('}')
	return string(w.b)
}

// markOf returns the mark of a segment, by which the next segment refers to it.
func markOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:6])
}

// lastMark returns the mark of the last segment of reasoning of the wire messages that is
// followed by a text or a call in its message; empty if none exists.
func lastMark(call *stoa.Call) string {
	for i := len(call.Messages) - 1; i >= 0; i-- {
		followed := false
		parts := call.Messages[i].Parts
		for j := len(parts) - 1; j >= 0; j-- {
			switch p := &parts[j]; {
			case p.Kind == stoa.PartCall, p.Kind == stoa.PartText && strings.TrimSpace(p.Text) != "":
				followed = true
			case p.Kind == stoa.PartReasoning && p.State.Wire == "messages" && followed:
				return markOf(p.State.Data)
			}
		}
	}
	return ""
}

// keepRun removes the reasoning before the last gap, or all of it if none may be sent, because the
// vendor accepts the end of its earlier reasoning, but nothing with a gap. It reports whether any
// remains.
func keepRun(list []turn, none bool) (any bool) {
	next := "" // expected mark of the previous segment
	gap := none
	for i := len(list) - 1; i >= 0; i-- {
		parts := list[i].parts
		at := len(parts) // index of the first part that is kept
		for j := len(parts) - 1; j >= 0; j-- {
			if p := parts[j]; p.Kind == stoa.PartReasoning {
				after, block := messagesState(p.State.Data)
				if gap = gap || block == "" || any && markOf(p.State.Data) != next; gap {
					continue
				}
				any, next = true, after
			}
			at--
			parts[at] = parts[j]
		}
		list[i].parts = parts[at:]
	}
	return any
}

// calledTools returns tools with the names of those called in the messages of a call, in the
// order of their first calls.
func calledTools(call stoa.Call) (tools []stoa.Tool) {
	var seen map[string]bool
	for i := range call.Messages {
		for _, p := range call.Messages[i].Parts {
			if p.Kind == stoa.PartCall && !seen[p.Call.Name] {
				if seen == nil {
					seen = map[string]bool{}
				}
				seen[p.Call.Name] = true
				tools = append(tools, stoa.Tool{Name: p.Call.Name})
			}
		}
	}
	return tools
}
