package responses

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/stoa"
)

// ParseMessages parses the body of POST /messages.
func ParseMessages(body []byte, o Options) (*Request, error) { return parseMessages(body, o, false) }

// ParseMessagesCount parses the body of POST /messages/count_tokens, which needs no
// max_tokens.
func ParseMessagesCount(body []byte, o Options) (*Request, error) {
	return parseMessages(body, o, true)
}

func parseMessages(body []byte, o Options, counting bool) (*Request, error) {
	return parseOther(body, o, messagesMaker{}, func(p *parser, top object) { (&messagesRequest{parser: p}).request(top, counting) })
}

type messagesRequest struct {
	*parser
	removed map[string]stoa.Tool // by a block of the conversation
}

func (m *messagesRequest) request(o object, counting bool) {
	o.refuse(
		refusal{"thread", "Nothing is stored between calls. Send all earlier turns in \"messages\", without \"thread\"."},
		refusal{"compaction", "A call does not compact its conversation. Leave \"compaction\" out, and ask for a summary in a message, or use POST /responses/compact."},
	)
	if v := o.get("inference_geo"); v != nil && string(v) != `"global"` {
		m.fail(unsupported("inference_geo", "Where a call is processed cannot be chosen in a request. Leave \"inference_geo\" out, or ask the operator for a provider in that place."))
	}
	o.take(m.member, "model", "temperature", "top_p", "top_k", "stream", "strict_model", "cache_control", "context_management", "stop_sequences>stop", "max_tokens>max_output_tokens")
	if o.find("max_tokens") == nil && !counting {
		m.fail(missing("max_tokens", "Set the maximum number of tokens of the reply."))
	}
	metadata, _ := o.inner("metadata")
	metadata.take(m.member, "user_id>user")
	metadata.done()
	m.tools(o)
	m.choice(o)
	config, _ := o.inner("output_config")
	m.reasoning(o, config)
	m.format(o, config)
	if o.find("messages") == nil {
		m.fail(missing("messages", "Send at least one message."))
	}
	m.rename("input", "messages")
	m.system(o)
	for _, name := range []string{"service_tier", "speed"} {
		o.accept(name, "auto", "standard_only", "standard") // because all calls are
	}
	o.each("messages", m.message)
	m.fail(m.endInput("messages"))
}

// system reads the system text: a string, or blocks of text, which are joined by blank lines.
func (m *messagesRequest) system(o object) {
	v := o.get("system")
	if v.Kind() != '[' {
		if v != nil {
			m.say("system", "system", o.parts("system", nil))
		}
		return
	}
	var parts []stoa.Part
	var texts []string
	marked := false
	o.each("system", func(block object) {
		if block.word("type") != "text" {
			m.fail(unsupportedValue(block.at("type"), "The system prompt must be text. Send {\"type\":\"text\",\"text\":\"…\"}."))
		}
		text := block.word("text")
		if strings.HasPrefix(text, attribution) {
			return
		}
		marked = marked || block.find("cache_control") != nil
		part := stoa.Part{Kind: stoa.PartText, Text: text}
		block.mark(&part)
		block.done("citations")
		parts, texts = append(parts, part), append(texts, text)
	})
	if !marked {
		m.sayText("system", "system", strings.Join(texts, "\n\n"))
		return
	}
	for i, p := range parts {
		m.fail(checkText(p.Text, at("system", i)+".text", 0))
	}
	m.say("system", "system", parts)
}

// attribution begins a block of Claude Code that is removed from the system text, as the vendor does,
// because it may change with every request.
const attribution = "x-anthropic-billing-header:"

// tools reads the tools. Those with a type of the vendor's are parsed as they are, because the parser
// knows which of them the caller runs, and leaves the others out or refuses them, such as the MCP
// servers and the container of a request.
func (m *messagesRequest) tools(o object) {
	list := toolList{path: "tools", seen: map[string]bool{}}
	var others []*declaration
	other := func(path, name string) {
		others = append(others, &declaration{place: place{path, map[string]string{"type": path}}, kind: path, tool: stoa.Tool{Name: name}})
	}
	o.each("mcp_servers", func(server object) { other("mcp_servers", server.word("name")) })
	if o.get("container") != nil {
		other("container", "")
	}
	v := o.get("tools")
	if v == nil && others != nil {
		list.path = others[0].path
	}
	o.each("tools", func(tool object) { m.declareTool(&list, tool) })
	for _, d := range others {
		m.fail(m.declare(&list, d))
	}
	m.fail(m.setTools(&list, len(v)))
}

func (m *messagesRequest) declareTool(list *toolList, tool object) {
	if kind := tool.get("type"); kind != nil && string(kind) != `"custom"` {
		m.fail(m.within(tool.value, func() error { return m.tool(list, tool.path) }))
		return
	}
	d := &declaration{place: place{tool.path, map[string]string{"parameters": tool.at("input_schema")}}, kind: "function"}
	tool.take(func(name, path string) error { return m.declaredMember(d, name, path) },
		"name", "description", "strict", "defer_loading", "allowed_callers", "cache_control", "input_schema>parameters")
	tool.done()
	m.fail(m.declare(list, d))
}

// change reads a block of a system message that adds a tool or removes one, as Anthropic's tool runners send it. The call has
// the tools of the end of the conversation; OpenAI's models get added ones in their place.
func (m *messagesRequest) change(block object, kind string) {
	tool, _ := block.inner("tool")
	what := tool.word("type")
	switch {
	case what == "tool_definition" && kind == "tool_addition":
		definition, has := tool.inner("definition")
		if !has {
			m.fail(missing(tool.at("definition"), "Send the definition of a tool."))
		}
		list := toolList{path: definition.path}
		m.declareTool(&list, definition)
		for i := range list.tools {
			m.withdraw(list.tools[i].Name) // the last definition of a name counts
		}
		m.addLater(list.tools, list.path)
	case what == "tool_reference":
		name := tool.word("name")
		t, have := m.removed[name]
		switch {
		case kind == "tool_addition" && m.offers(name):
		case kind == "tool_addition" && have:
			m.req.call.Tools = append(m.req.call.Tools, t)
			delete(m.removed, name)
		case kind == "tool_removal" && m.offers(name):
			if m.removed == nil {
				m.removed = map[string]stoa.Tool{}
			}
			m.removed[name] = m.withdraw(name)
		case !have:
			m.fail(stoa.Errorf(stoa.CodeInvalidValue, "No tool of this name comes before the block. Send the definition of a tool, or the name of one in \"tools\".").At(tool.at("name")))
		}
	default:
		m.fail(unsupportedValue(tool.at("type"), "Only tools that the caller runs can be added and removed. Send a tool_definition, or a tool_reference with its name."))
	}
	tool.done()
	block.done("cache_control")
}

func (m *messagesRequest) offers(name string) bool {
	is := func(t stoa.Tool) bool { return t.Name == name }
	return slices.ContainsFunc(m.req.call.Tools, is) || m.ext != nil && slices.ContainsFunc(m.ext.added, is)
}

// withdraw removes a tool from those that the call has so far, and returns its last definition.
func (m *messagesRequest) withdraw(name string) (was stoa.Tool) {
	from := func(list []stoa.Tool) []stoa.Tool {
		return slices.DeleteFunc(list, func(t stoa.Tool) bool {
			if t.Name == name {
				was = t
			}
			return t.Name == name
		})
	}
	m.req.call.Tools = from(m.req.call.Tools)
	if m.ext != nil {
		m.ext.added = from(m.ext.added)
		entries := m.talk().entries
		for i := range entries {
			if e := &entries[i]; e.tools != nil {
				e.tools = from(e.tools)
				e.dropped = len(e.tools) == 0
			}
		}
	}
	return was
}

func (m *messagesRequest) choice(o object) {
	choice, has := o.inner("tool_choice")
	if !has {
		return
	}
	switch kind := choice.word("type"); kind {
	case "auto", "none":
		m.fail(m.chooseWord("tool_choice", kind))
	case "any":
		m.fail(m.chooseWord("tool_choice", "required"))
	case "tool":
		set := &choiceMembers{place: place{path: choice.path}, named: named{kind: "function"}}
		choice.take(func(name, path string) error { return m.namedMember(&set.named, choice.path, name, path) }, "name")
		m.fail(m.choose(set))
	default:
		m.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q must be auto, any, tool or none.", choice.at("type")).At(choice.at("type")))
	}
	switch v := choice.get("disable_parallel_tool_use"); {
	case v == nil, v.Kind() == 'f':
	case v.Kind() == 't':
		m.req.echo.noParallel, m.req.call.NoParallel = true, m.opts.Tools
	default:
		m.fail(wrongType(choice.at("disable_parallel_tool_use"), "true or false"))
	}
	choice.done()
}

// Thinking budgets, in tokens, from which the next effort applies, because a call contains an effort and no budget.
const (
	mediumBudget = 4 << 10
	highBudget   = 16 << 10
)

func effortOf(budget int64) string {
	switch {
	case budget < mediumBudget:
		return "low"
	case budget < highBudget:
		return "medium"
	}
	return "high"
}

func (m *messagesRequest) reasoning(o, config object) {
	thinking, has := o.inner("thinking")
	kind := thinking.word("type")
	switch {
	case !has, kind == "adaptive":
	case kind == "disabled":
		m.setEffort("none")
	case kind == "enabled":
		path := thinking.at("budget_tokens")
		budget, err := strconv.ParseInt(string(thinking.get("budget_tokens")), 10, 64)
		if err != nil || budget < 1 {
			m.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q must be a number of tokens.", path).At(path))
		}
		m.setEffort(effortOf(budget))
	default:
		m.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q must be enabled, adaptive or disabled.", thinking.at("type")).At(thinking.at("type")))
	}
	if thinking.word("display") == "summarized" {
		m.summarize()
	}
	thinking.done()
	if config.get("effort") != nil && kind != "disabled" {
		config.take(m.effort, "effort")
	}
}

func (m *messagesRequest) format(o, config object) {
	format, has := config.inner("format")
	config.done()
	if former := o.get("output_format"); former != nil && !has {
		format, has = o.inner("output_format")
	}
	if !has {
		return
	}
	set := m.newFormatMembers(place{path: format.path})
	set.Name, set.Strict, set.hasName = "reply", new(true), true
	format.take(func(name, path string) error { return m.formatMember(set, name, path) }, "type", "schema")
	format.done()
	m.fail(m.setFormat(set))
}

// message reads one message, which becomes one or more items of input. Consecutive blocks that
// belong to a message become one.
func (m *messagesRequest) message(o object) {
	role := o.word("role")
	switch role {
	case "user", "assistant", "system":
	case "":
		m.fail(missing(o.at("role"), "Send user or assistant."))
	default:
		m.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q must be user, assistant or system.", o.at("role")).At(o.at("role")))
	}
	content := o.get("content")
	if content == nil {
		m.fail(missing(o.at("content"), "Send a string or an array of blocks."))
	}
	o.done("id", "type", "model", "stop_reason", "stop_sequence", "usage") // of a reply
	if content.Kind() != '[' {
		m.say(o.path, role, o.parts("content", nil))
		return
	}
	var parts []stoa.Part
	end := func() {
		if parts != nil {
			m.say(o.path, role, parts)
		}
		parts = nil
	}
	if isEmpty(content, '[') {
		parts = m.one(stoa.Part{Kind: stoa.PartText})
	}
	o.each("content", func(block object) {
		kind := block.word("type")
		switch {
		case kind == "tool_use", kind == "tool_result", kind == "thinking", kind == "redacted_thinking":
			end()
			m.item(block, kind, role)
			block.done("caller", "thinking", "data", "signature")
		case kind == "server_tool_use", kind == "mcp_tool_use", strings.HasSuffix(kind, "_tool_result"): // records of tools that the vendor has run
			end()
			m.add(&inputItem{place: place{path: block.path}, kind: kind})
		case role == "system" && (kind == "tool_addition" || kind == "tool_removal"):
			end()
			m.change(block, kind)
		default:
			part := m.part(block, kind)
			if part.Media != nil && role != "user" {
				m.fail(onlyTexts(block.path))
			}
			parts = m.with(parts, part)
		}
	})
	end()
}

func (m *messagesRequest) item(block object, kind, role string) {
	if (kind == "tool_use") == (role == "user") && strings.HasPrefix(kind, "tool_") {
		m.fail(stoa.Errorf(stoa.CodeInvalidValue, "Blocks of \"tool_use\" are only allowed in messages of the assistant, those of \"tool_result\" in messages of the user.").At(block.at("type")))
	}
	it := &inputItem{place: place{path: block.path}, tool: &toolItem{}}
	switch kind {
	case "thinking", "redacted_thinking":
		name := map[string]string{"thinking": "signature", "redacted_thinking": "data"}[kind]
		text, _ := block.maybe(name) // because that of another service may be anything
		m.sealed(text, block.at(name))
	case "tool_use":
		it.kind, it.other = "function_call", map[string]string{"call_id": block.at("id")}
		block.take(m.memberOf(it), "id>call_id", "name", "cache_control")
		it.tool.arguments, it.tool.has = block.arguments("input"), append(it.tool.has, "arguments")
		m.add(it)
	case "tool_result":
		it.kind, it.other = "function_call_output", map[string]string{"call_id": block.at("tool_use_id"), "output": block.at("content")}
		block.take(m.memberOf(it), "tool_use_id>call_id", "is_error", "cache_control")
		if block.find("content") == nil {
			it.tool.has = append(it.tool.has, "output")
		}
		block.output(it, "content", func(o object) stoa.Part {
			kind := o.word("type")
			if kind == "tool_reference" { // of a client that searches its tools itself
				return m.text(o, "The tool \""+o.word("tool_name")+"\" can be called.")
			}
			return m.part(o, kind)
		})
		m.add(it)
	}
}

func (m *messagesRequest) text(block object, text string) stoa.Part {
	m.fail(checkText(text, block.path+".text", 0))
	return stoa.Part{Kind: stoa.PartText, Text: text}
}

func (m *messagesRequest) part(block object, kind string) (part stoa.Part) {
	switch kind {
	case "text":
		part = block.text()
		block.mark(&part)
		block.done("type", "citations")
		return part
	case "image", "document", "search_result":
	default:
		return block.part()
	}
	citations, _ := block.inner("citations")
	if citations.get("enabled").Kind() == 't' {
		m.fail(unsupported(citations.at("enabled"), "Citations are not supported. Leave \"citations\" out."))
	}
	block.mark(&part)
	if kind == "search_result" {
		lines := []string{block.word("title"), block.word("source")}
		if block.find("content") == nil {
			m.fail(missing(block.at("content"), "Send an array of blocks of text."))
		}
		block.each("content", func(in object) { lines = append(lines, in.word("text")) })
		block.done("type", "citations")
		text := m.text(block, strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n"))
		text.Mark = part.Mark
		return text
	}
	source, has := block.inner("source")
	if !has {
		m.fail(missing(block.at("source"), "Send {\"type\":\"base64\",…} or {\"type\":\"url\",…}."))
	}
	of := source.word("type")
	member := map[string]string{"image base64": "image_url", "image url": "image_url", "document base64": "file_data", "document text": "file_data", "document url": "file_url"}[kind+" "+of]
	if member == "" {
		m.fail(unsupportedValue(source.at("type"), "This source is not supported. Send base64 or an address."))
		return part
	}
	var in mediaMembers
	value := in.member(member)
	if of == "url" {
		*value = source.word("url")
	} else if *value = "data:" + source.word("media_type") + ";base64," + source.word("data"); of == "text" {
		*value = "data:text/plain;base64," + base64.StdEncoding.EncodeToString([]byte(source.word("data")))
	}
	m.fail(checkText(*value, source.path, 0))
	own := "input_image"
	if kind == "document" {
		own = "input_file"
		block.take(m.mediaMember(&in), "title>filename")
	}
	source.done()
	block.done("citations")
	return m.mediumOf(place{block.path, map[string]string{member: source.path, "filename": block.at("title")}}, own, &in)
}
