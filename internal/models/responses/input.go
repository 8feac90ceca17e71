package responses

import (
	"bytes"
	"slices"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

func (p *parser) input() error {
	const name = "input"
	if err := p.want(name, "a string or an array of messages", '"', '['); err != nil {
		return err
	}
	if p.dec.PeekKind() == '"' {
		s, err := p.text(name)
		if err == nil && s == "" {
			err = stoa.Errorf(stoa.CodeInvalidValue, "\"input\" is empty. Send a text or at least one message.").At(name)
		}
		p.message(stoa.RoleUser, p.one(stoa.Part{Kind: stoa.PartText, Text: s}))
		return err
	}
	if err := p.array(name, maxItems, func(i int) error {
		if p.compacts {
			return stoa.Errorf(stoa.CodeInvalidValue, "%q asks for a compaction of what comes before it. Send it as the last item.", at(name, i-1)).At(at(name, i-1))
		}
		return p.item(at(name, i))
	}); err != nil {
		return err
	}
	return p.endInput(name)
}

func (p *parser) endInput(path string) error {
	if len(p.req.call.Messages) == 0 && !p.ext.hasItems() {
		return stoa.Errorf(stoa.CodeInvalidValue, "%q has no message. Send a text or at least one message.", path).At(path)
	}
	return nil
}

// An inputItem collects one element of input. Its kind, which may come last, determines which
// members count.
type inputItem struct {
	place
	kind       string
	role       string
	parts      []stoa.Part
	hasContent bool
	refused    error // a bad content is an error only if the item is a message

	tool    *toolItem // members of tool items; nil if none so far
	unknown []string  // names of other members
	raw     []byte    // the item as sent
}

// item parses one element of input. In version 1 only messages are used; reasoning
// that a client echoes from an earlier reply is dropped.
func (p *parser) item(path string) error {
	if err := p.want(path, "an object such as {\"role\":\"user\",\"content\":\"…\"}", '{'); err != nil {
		return err
	}
	it := inputItem{place: place{path: path}}
	begin, paths, media := p.dec.InputOffset(), p.req.ignored, len(p.req.media)
	err := p.object(path, func(name string) (err error) {
		switch {
		case p.dec.PeekKind() == 'n':
			return p.skip()
		case name == "content":
			it.hasContent = true
			var bad error
			it.parts, bad, err = p.content(path + ".content")
			if it.refused == nil {
				it.refused = bad
			}
			return err
		case name == "type":
			it.kind, err = p.text(path + ".type")
			return err
		case name == "role":
			it.role, err = p.text(path + ".role")
			return err
		case p.opts.Tools, p.opts.Compact:
			return p.toolMember(&it, name, it.at(name))
		}
		return p.skip()
	})
	if err != nil {
		return err
	}
	_, vendors, _ := wire.ToolOfItem(it.kind)
	switch {
	case vendors != nil: // its members are read again, in their own form
		p.req.ignored, p.req.media = paths, p.req.media[:media]
		it.raw = bytes.TrimLeft(p.src[begin:p.dec.InputOffset()], ", \t\r\n")
	case !p.leavesOut(it.kind):
		p.ignoreAll(path, it.unknown)
	}
	return p.addItem(&it)
}

func (p *parser) addItem(it *inputItem) error {
	switch it.kind {
	case "", "message":
		return p.messageItem(it)
	case "reasoning":
		if p.opts.Tools {
			return p.reasoningItem(it)
		}
		return nil
	case "item_reference":
		return stoa.Errorf(stoa.CodeUnsupportedValue, "Items are not stored here, so a reference cannot be resolved. Send the full item (in the AI SDK set the provider option \"store\" to false).").At(it.path)
	}
	if p.opts.Compact && (it.kind == "compaction" || it.kind == "compaction_summary") {
		return p.compactionItem(it)
	}
	if p.compacts = p.opts.Compact && it.kind == "compaction_trigger"; p.compacts {
		return nil
	}
	if p.opts.Tools {
		return p.otherItem(it)
	}
	return unsupportedValue(it.at("type"), "Only messages are supported here: tool calls, files and other items are not. Send {\"type\":\"message\",\"role\":…,\"content\":…}.")
}

func (p *parser) otherItem(it *inputItem) error {
	_, vendors, output := wire.ToolOfItem(it.kind)
	switch kind := it.kind; {
	case vendors != nil && output:
		return p.vendorOutput(it)
	case vendors != nil:
		return p.vendorCall(it)
	case kind == "function_call", kind == "custom_tool_call":
		return p.callItem(it)
	case kind == "function_call_output", kind == "custom_tool_call_output":
		return p.outputItem(it)
	case kind == "additional_tools":
		return p.addedTools(it)
	case kind == "compaction_trigger": // refused, because it asks for work; only records may be left out
		return unsupportedValue(it.at("type"), "The extension \"compact\", which the operator can enable, is off. Ask for a summary in a message; in Codex, give the provider a name other than \"OpenAI\", so that it summarizes by itself.")
	case p.leavesOut(kind):
		p.req.adjusted |= stoa.ItemsLeftOut
		return nil
	}
	if slices.Contains(vendorItems, it.kind) {
		return errVendorItem(it)
	}
	return unsupportedValue(it.at("type"), "Only messages, reasoning, calls of tools that the caller runs, and their outputs are supported here; other items are not.")
}

func errVendorItem(it *inputItem) error {
	return unsupportedValue(it.at("type"), "The item records a tool that a vendor has run, and is refused. Leave it out, or have the operator set extensionOptions.tools.foreign to ignore.")
}

// vendorItems are the types of items that record tools which vendors have run, and of notes of
// clients. In the format Messages they are the types of blocks. Other types are not left out, because
// they could be the conversation: the form of a name does not say who has run a tool.
var vendorItems = []string{
	"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
	"mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "ghost_snapshot",
	"server_tool_use", "mcp_tool_use", "mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result", "tool_search_tool_result", "advisor_tool_result",
	"code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result",
}

func (p *parser) leavesOut(kind string) bool {
	return p.opts.ForeignTools && slices.Contains(vendorItems, kind)
}

func (p *parser) messageItem(it *inputItem) error {
	var role stoa.Role
	switch it.role {
	case "user":
		role = stoa.RoleUser
	case "assistant":
		role = stoa.RoleAssistant
	case "system", "developer":
		role = stoa.RoleSystem
	case "":
		return stoa.Errorf(stoa.CodeMissingParameter, "The message has no \"role\". Send user, assistant, system or developer.").At(it.at("role"))
	default:
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must be user, assistant, system or developer.", it.at("role")).At(it.at("role"))
	}
	if it.refused != nil {
		return it.refused
	}
	if !it.hasContent {
		return stoa.Errorf(stoa.CodeMissingParameter, "The message has no \"content\". Send a string or an array of text parts.").At(it.at("content"))
	}
	for j, part := range it.parts {
		if part.Media != nil && role != stoa.RoleUser {
			return onlyTexts(at(it.at("content"), j))
		}
	}
	if it.tool != nil && it.tool.phase != "" && role == stoa.RoleAssistant {
		for i := range it.parts { // all are texts
			it.parts[i].Phase = it.tool.phase
		}
	}
	p.message(role, it.parts)
	return nil
}

// content parses a message's content: a string, or parts, whose texts are joined if no
// extension is enabled and none is marked for the cache. refused is a semantic error, after
// which parsing continues because it applies only if the item turns out to be a message. err ends
// the parsing.
func (p *parser) content(path string) (parts []stoa.Part, refused, err error) {
	if bad := p.want(path, "a string or an array of text parts", '"', '['); bad != nil {
		refused, err = p.soft(bad)
		return nil, refused, err
	}
	if p.dec.PeekKind() == '"' {
		text, err := p.text(path)
		return p.one(stoa.Part{Kind: stoa.PartText, Text: text}), nil, err
	}
	err = p.array(path, maxParts, func(j int) error {
		part, bad, err := p.part(at(path, j))
		if refused == nil {
			refused = bad
		}
		parts = p.with(parts, part)
		return err
	})
	if !p.opts.Tools && !p.opts.Formats && !p.opts.Images && !p.opts.Files {
		parts = oneText(parts)
	}
	return parts, refused, err
}

func (p *parser) with(parts []stoa.Part, part stoa.Part) []stoa.Part {
	if len(parts) == 0 {
		return p.one(part)
	}
	return append(parts, part)
}

// one returns a list with one part. The lists of a request share their memory.
func (p *parser) one(part stoa.Part) []stoa.Part {
	n := len(p.parts)
	switch {
	case n < cap(p.parts):
	case n == 0:
		p.first = &firstMessage{}
		p.parts = p.first.parts[:0]
	default:
		n, p.parts = 0, make([]stoa.Part, 0, min(2*n, maxShared))
	}
	p.parts = append(p.parts, part)
	return p.parts[n : n+1 : n+1]
}

// A firstMessage is the memory of a list of messages and of the part of its first one. It is
// separate from the parser, because the parser lives longer than the input of a call.
type firstMessage struct {
	messages [1]stoa.Message
	parts    [1]stoa.Part
}

// maxShared is the maximum number of parts whose lists share their memory.
const maxShared = 256

// part parses one part of a message's content; it returns the same errors as content.
func (p *parser) part(path string) (part stoa.Part, refused, err error) {
	if bad := p.want(path, "an object such as {\"type\":\"input_text\",\"text\":\"…\"}", '{'); bad != nil {
		refused, err = p.soft(bad)
		return part, refused, err
	}
	part.Kind = stoa.PartText
	var kind, refusal string
	var hasText, hasRefusal bool
	var members mediaMembers
	var unknown []string
	read := func(name string, into *string) error {
		s, bad := p.text(path + "." + name)
		bad, fatal := p.soft(bad)
		if refused == nil {
			refused = bad
		}
		*into = s
		return fatal
	}
	err = p.object(path, func(name string) error {
		switch {
		case p.dec.PeekKind() == 'n':
		case name == "type":
			return read(name, &kind)
		case name == "text":
			hasText = true
			return read(name, &part.Text)
		case name == "refusal":
			hasRefusal = true
			return read(name, &refusal)
		case isMark(name):
			part.Mark, err = p.mark(path + "." + name)
			return err
		case name == "annotations" || name == "logprobs":
		default:
			into := members.member(name)
			switch {
			case into == nil:
				unknown = append(unknown, name)
			case p.opts.Images || p.opts.Files:
				return read(name, into)
			}
		}
		return p.skip()
	})
	p.ignoreAll(path, unknown)
	if err != nil || refused != nil {
		return stoa.Part{}, refused, err
	}
	switch kind {
	case "input_text", "output_text", "text":
		if !hasText {
			refused = stoa.Errorf(stoa.CodeMissingParameter, "The part has no \"text\".").At(path + ".text")
		}
		return part, refused, nil
	case "refusal":
		if !hasRefusal {
			refused = stoa.Errorf(stoa.CodeMissingParameter, "The part has no \"refusal\".").At(path + ".refusal")
		}
		part.Text = refusal
		return part, refused, nil
	case "":
		return part, stoa.Errorf(stoa.CodeMissingParameter, "The part has no \"type\". Send {\"type\":\"input_text\",\"text\":\"…\"}.").At(path + ".type"), nil
	}
	part, refused = p.medium(place{path: path}, kind, &members)
	return part, refused, nil
}

// isMark reports whether a member of a part, an item or a tool marks the input up to there for
// the vendor's cache: as OpenAI or as Anthropic writes it.
func isMark(name string) bool { return name == "prompt_cache_breakpoint" || name == "cache_control" }

// mark parses {"mode": "explicit"} or {"type": "ephemeral"}, with "ttl": "1h" for a long life.
// It ignores other values, since a hint fails no call.
func (p *parser) mark(path string) (mark stoa.Mark, err error) {
	if p.dec.PeekKind() != '{' {
		return mark, p.skip()
	}
	var mode, ttl string
	err = p.object(path, func(name string) error {
		if name == "prewarm" && p.dec.PeekKind() == 't' {
			return unsupported(path+".prewarm", "A cache cannot be prepared without a reply. Leave \"prewarm\" out; a call with \"max_output_tokens\" of 16 does nearly the same.")
		}
		into := map[string]*string{"mode": &mode, "type": &mode, "ttl": &ttl}[name]
		if into == nil || p.dec.PeekKind() != '"' {
			return p.skip()
		}
		s, err := p.text(path + "." + name)
		_, fatal := p.soft(err)
		*into = s
		return fatal
	})
	switch {
	case mode != "explicit" && mode != "ephemeral":
	case ttl == "1h":
		mark = stoa.MarkLong
	default:
		mark = stoa.MarkShort
	}
	return mark, err
}

// soft separates a semantic error, after which the parsing goes on, from one that ends it.
func (p *parser) soft(err error) (refused, fatal error) {
	if stoa.CodeOf(err) == stoa.CodeInvalidJSON {
		return nil, err
	}
	if p.unread {
		p.unread = false
		if fatal = p.skip(); fatal != nil {
			return nil, fatal
		}
	}
	return err, nil
}
