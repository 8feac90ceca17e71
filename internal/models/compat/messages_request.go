package compat

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// Messages translates the body of a POST /messages, or of the request that counts its tokens,
// which has no limit. A body that is not a JSON object is passed on unchanged, so that
// package responses refuses it.
func Messages(body []byte, counting bool) (*Translation, error) {
	return translate(body, func(t *translator, o object) error { return (&messagesRequest{t}).write(o, counting) })
}

// messagesRequest translates one request.
type messagesRequest struct{ *translator }

// write translates the body.
func (m *messagesRequest) write(o object, counting bool) error {
	if err := o.refuse(
		refusal{"thread", "Nothing is stored between calls. Send all earlier turns in \"messages\", without \"thread\"."},
		refusal{"compaction", "A call does not compact its conversation. Leave \"compaction\" out, and ask for a summary in a message, or use POST /responses/compact."},
	); err != nil {
		return err
	}
	if v := o.get("inference_geo"); v != nil && string(v) != `"global"` {
		return stoa.Errorf(stoa.CodeUnsupported, "Where a call is processed cannot be chosen in a request. Leave \"inference_geo\" out, or ask the operator for a provider in that place.").At("inference_geo")
	}
	m.copy(o, "model", "temperature", "top_p", "top_k", "stream", "strict_model", "cache_control", "context_management")
	m.move("", "stop", o, "stop_sequences")
	switch {
	case o.get("max_tokens") != nil:
		m.move("", "max_output_tokens", o, "max_tokens")
	case !counting:
		return missing("max_tokens", "Set the maximum number of tokens of the reply.")
	}
	for _, part := range []func(object) error{m.user, m.tools, m.choice, m.reasoning, m.format} {
		if err := part(o); err != nil {
			return err
		}
	}
	messages, err := m.openInput(o)
	if err != nil {
		return err
	}
	if err := m.system(o); err != nil {
		return err
	}
	for _, name := range []string{"service_tier", "speed"} {
		if v := string(o.members[name]); v == `"auto"` || v == `"standard_only"` || v == `"standard"` { // all calls are
			o.read[name] = true
		}
	}
	return each(messages, "messages", func(_ int, message object) error { return m.message(message) })
}

func (m *messagesRequest) user(o object) error {
	v := o.get("metadata")
	if v == nil {
		return nil
	}
	metadata, err := readObject(v, "metadata")
	if err != nil {
		return err
	}
	m.move("", "user", metadata, "user_id")
	m.done(metadata)
	return nil
}

// system translates the system text: a string, or blocks of text.
func (m *messagesRequest) system(o object) error {
	v := o.get("system")
	if v == nil {
		return nil
	}
	path := m.item("system")
	m.from(path+".content", "system")
	m.key("type").raw(`"message"`).key("role").raw(`"system"`).key("content")
	if v.Kind() != '[' {
		m.value(v).raw("}")
		return nil
	}
	type part struct {
		text string
		mark jsonx.Value
	}
	var parts []part
	marked := false
	if err := eachIn(v, "system", func(_ int, block object) error {
		if kind, err := block.word("type"); err != nil {
			return err
		} else if kind != "text" {
			return stoa.Errorf(stoa.CodeUnsupportedValue, "The system prompt must be text. Send {\"type\":\"text\",\"text\":\"…\"}.").At(block.at("type"))
		}
		text, err := block.word("text")
		if err == nil && !strings.HasPrefix(text, attribution) {
			mark := block.get("cache_control")
			marked = marked || mark != nil
			parts = append(parts, part{text, mark})
			m.done(block, "citations")
		}
		return err
	}); err != nil {
		return err
	}
	if !marked {
		var texts []string
		for _, p := range parts {
			texts = append(texts, p.text)
		}
		m.text(strings.Join(texts, "\n\n")).raw("}")
		return nil
	}
	m.raw("[")
	for _, p := range parts { // the parts of a system message are joined by blank lines
		m.element().raw(`{"type":"input_text"`).key("text").text(p.text)
		if p.mark != nil {
			m.key("cache_control").value(p.mark)
		}
		m.raw("}")
	}
	m.raw("]}")
	return nil
}

// attribution begins a block of Claude Code that the vendor removes from the system text, since
// it may change with every request.
const attribution = "x-anthropic-billing-header:"

// tools translates the tools. Those with a type of the vendor's are copied: the parser knows which
// of them the caller runs, and leaves the others out or refuses them.
func (m *messagesRequest) tools(o object) error {
	v := o.get("tools")
	others, err := m.otherTools(o)
	if err != nil || v == nil && len(others) == 0 {
		return err
	}
	m.key("tools").raw("[")
	n := 0
	if v == nil {
		m.from("tools", others[0].path)
	} else if err := eachIn(v, "tools", func(_ int, tool object) error {
		n++
		m.element()
		if kind := tool.get("type"); kind != nil && string(kind) != `"custom"` {
			m.value(tool.value)
			return nil
		}
		m.raw(`{"type":"function"`)
		m.copy(tool, "name", "description", "strict", "defer_loading", "allowed_callers", "cache_control")
		m.move(tool.path, "parameters", tool, "input_schema")
		m.raw("}")
		m.done(tool)
		return nil
	}); err != nil {
		return err
	}
	for i, other := range others {
		m.from(at("tools", n+i)+".type", other.path)
		m.element().raw("{").key("type").text(other.path)
		if other.name != "" {
			m.key("name").text(other.name)
		}
		m.raw("}")
	}
	m.raw("]")
	return nil
}

// An otherTool is a tool of the vendor that a member other than tools requests.
type otherTool struct{ path, name string }

// otherTools returns the MCP servers and the container of a request.
func (m *messagesRequest) otherTools(o object) (list []otherTool, err error) {
	if v := o.get("mcp_servers"); v != nil {
		if err := eachIn(v, "mcp_servers", func(_ int, server object) error {
			name, err := server.word("name")
			list = append(list, otherTool{"mcp_servers", name})
			return err
		}); err != nil {
			return nil, err
		}
	}
	if o.get("container") != nil {
		list = append(list, otherTool{path: "container"})
	}
	return list, nil
}

// choice translates tool_choice.
func (m *messagesRequest) choice(o object) error {
	v := o.get("tool_choice")
	if v == nil {
		return nil
	}
	choice, err := readObject(v, "tool_choice")
	if err != nil {
		return err
	}
	kind, err := choice.word("type")
	if err != nil {
		return err
	}
	m.key("tool_choice")
	switch kind {
	case "auto", "none":
		m.text(kind)
	case "any":
		m.raw(`"required"`)
	case "tool":
		m.raw(`{"type":"function"`)
		m.copy(choice, "name")
		m.raw("}")
	default:
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must be auto, any, tool or none.", choice.at("type")).At(choice.at("type"))
	}
	if v := choice.get("disable_parallel_tool_use"); v != nil {
		switch v.Kind() {
		case 't':
			m.key("parallel_tool_calls").raw("false")
		case 'f':
		default:
			return wrongType(choice.at("disable_parallel_tool_use"), "true or false")
		}
	}
	m.done(choice)
	return nil
}

// Thinking budgets, in tokens, from which the next effort applies.
const (
	mediumBudget = 4 << 10
	highBudget   = 16 << 10
)

// effortOf returns the effort for a budget.
func effortOf(budget int64) string {
	switch {
	case budget < mediumBudget:
		return "low"
	case budget < highBudget:
		return "medium"
	}
	return "high"
}

// reasoning translates thinking and the effort of output_config.
func (m *messagesRequest) reasoning(o object) error {
	effort, summary := "", false
	if v := o.get("thinking"); v != nil {
		thinking, err := readObject(v, "thinking")
		if err != nil {
			return err
		}
		kind, err := thinking.word("type")
		if err != nil {
			return err
		}
		display, err := thinking.word("display")
		if err != nil {
			return err
		}
		summary = display == "summarized"
		switch kind {
		case "disabled":
			effort = "none"
		case "adaptive":
		case "enabled":
			budget, err := strconv.ParseInt(string(thinking.get("budget_tokens")), 10, 64)
			if err != nil || budget < 1 {
				return stoa.Errorf(stoa.CodeInvalidValue, "%q must be a number of tokens.", thinking.at("budget_tokens")).At(thinking.at("budget_tokens"))
			}
			effort = effortOf(budget)
		default:
			return stoa.Errorf(stoa.CodeInvalidValue, "%q must be enabled, adaptive or disabled.", thinking.at("type")).At(thinking.at("type"))
		}
		m.done(thinking)
	}
	asked := jsonx.Value(nil)
	if v := o.get("output_config"); v != nil {
		config, err := readObject(v, "output_config")
		if err != nil {
			return err
		}
		if asked = config.get("effort"); asked != nil {
			m.from("reasoning.effort", config.at("effort"))
		}
	}
	if effort == "" && asked == nil && !summary {
		return nil
	}
	m.key("reasoning").raw("{")
	switch {
	case effort == "none" || asked == nil && effort != "":
		m.key("effort").text(effort)
	case asked != nil:
		m.key("effort").value(asked)
	}
	if summary {
		m.key("summary").raw(`"auto"`)
	}
	m.raw("}")
	return nil
}

// format translates output_config.format.
func (m *messagesRequest) format(o object) error {
	v, path := o.get("output_format"), "output_format" // its former place
	if c := o.get("output_config"); c != nil {
		config, err := readObject(c, "output_config")
		if err != nil {
			return err
		}
		if f := config.get("format"); f != nil {
			v, path = f, config.at("format")
		}
		m.done(config, "effort")
	}
	if v == nil {
		return nil
	}
	format, err := readObject(v, path)
	if err != nil {
		return err
	}
	m.from("text.format", format.path)
	m.key("text").raw(`{"format":{"name":"reply","strict":true`)
	m.copy(format, "type", "schema")
	m.done(format)
	m.raw("}}")
	return nil
}

// message translates one message into one or more items of input.
func (m *messagesRequest) message(o object) error {
	role, err := o.word("role")
	if err != nil {
		return err
	}
	switch role {
	case "user", "assistant", "system":
	case "":
		return missing(o.at("role"), "Send user or assistant.")
	default:
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must be user, assistant or system.", o.at("role")).At(o.at("role"))
	}
	content := o.get("content")
	if content == nil {
		return missing(o.at("content"), "Send a string or an array of blocks.")
	}
	m.done(o, "id", "type", "model", "stop_reason", "stop_sequence", "usage") // of a reply
	if content.Kind() != '[' {
		item := m.item(o.path)
		m.from(item+".content", o.at("content"))
		m.key("type").raw(`"message"`).key("role").text(role).key("content").value(content).raw("}")
		return nil
	}
	blocks, err := readArray(content, o.at("content"))
	if err != nil {
		return err
	}
	return m.blocks(blocks, role, o.path, o.at("content"))
}

// blocks translates the blocks of a message. Consecutive blocks that belong to a message
// become one.
func (m *messagesRequest) blocks(blocks []jsonx.Value, role, source, path string) error {
	open, parts := "", 0 // the message that is being written
	end := func() {
		if open != "" {
			m.raw("]}")
		}
		open, parts = "", 0
	}
	if len(blocks) == 0 {
		m.item(source)
		m.key("type").raw(`"message"`).key("role").text(role).key("content").raw(`""}`)
		return nil
	}
	if err := each(blocks, path, func(_ int, block object) error {
		kind, err := block.word("type")
		if err != nil {
			return err
		}
		switch kind {
		case "tool_use", "tool_result", "thinking", "redacted_thinking":
			end()
			if (kind == "tool_use") == (role == "user") && strings.HasPrefix(kind, "tool_") {
				return stoa.Errorf(stoa.CodeInvalidValue, "Blocks of \"tool_use\" are only allowed in messages of the assistant, those of \"tool_result\" in messages of the user.").At(block.at("type"))
			}
			err := m.ownItem(block, kind)
			m.done(block, "caller", "thinking", "data", "signature")
			return err
		}
		if isVendorBlock(kind) {
			end()
			item := m.item(block.path)
			m.from(item+".type", block.at("type"))
			m.key("type").text(kind).raw("}")
			return nil
		}
		if open == "" {
			open = m.item(source)
			m.key("type").raw(`"message"`).key("role").text(role).key("content").raw("[")
		}
		part := at(open+".content", parts)
		parts++
		m.from(part, block.path)
		m.element()
		return m.part(block, kind, part)
	}); err != nil {
		return err
	}
	end()
	return nil
}

// isVendorBlock reports whether a block records a tool that the vendor has run.
func isVendorBlock(kind string) bool {
	return kind == "server_tool_use" || kind == "mcp_tool_use" || strings.HasSuffix(kind, "_tool_result") // the parser knows them
}

// ownItem translates a block that becomes a separate item.
func (m *messagesRequest) ownItem(block object, kind string) error {
	switch kind {
	case "thinking":
		m.sealed(block.get("signature"), block.at("signature"))
		return nil
	case "redacted_thinking":
		m.sealed(block.get("data"), block.at("data"))
		return nil
	case "tool_use":
		path := m.item(block.path)
		m.key("type").raw(`"function_call"`)
		m.from(path+".arguments", block.at("input"))
		m.move(path, "call_id", block, "id")
		m.copy(block, "name", "cache_control")
		arguments := "{}"
		if v := block.get("input"); v != nil {
			if v.Kind() != '{' {
				return wrongType(block.at("input"), "an object")
			}
			var err error
			if arguments, err = compact(v); err != nil {
				return err
			}
		}
		m.key("arguments").text(arguments).raw("}")
		return nil
	}
	path := m.item(block.path)
	m.key("type").raw(`"function_call_output"`)
	m.from(path+".output", block.at("content"))
	m.move(path, "call_id", block, "tool_use_id")
	m.copy(block, "is_error", "cache_control")
	m.key("output")
	content := block.get("content")
	if content == nil {
		m.raw(`""}`)
		return nil
	}
	if content.Kind() != '[' {
		m.value(content).raw("}")
		return nil
	}
	m.raw("[")
	err := eachIn(content, block.at("content"), func(i int, inner object) error {
		kind, err := inner.word("type")
		if err != nil {
			return err
		}
		m.element()
		if kind == "tool_reference" { // of a client that searches its tools itself
			name, err := inner.word("tool_name")
			m.raw(`{"type":"input_text","text":`).text("The tool \"" + name + "\" can be called.").raw("}")
			return err
		}
		return m.part(inner, kind, at(path+".output", i))
	})
	m.raw("]}")
	return err
}

// part translates a block that is a part of a message or of a result.
func (m *messagesRequest) part(block object, kind, path string) error {
	switch kind {
	case "text":
		m.raw(`{"type":"input_text"`)
		m.copy(block, "text", "cache_control")
		m.raw("}")
		m.done(block, "type", "citations")
		return nil
	case "image", "document", "search_result":
	default:
		m.value(block.value)
		return nil
	}
	if v := block.get("citations"); v != nil {
		o, err := readObject(v, block.at("citations"))
		if err != nil {
			return err
		}
		if on := o.get("enabled"); on != nil && on.Kind() == 't' {
			return stoa.Errorf(stoa.CodeUnsupported, "Citations are not supported. Leave \"citations\" out.").At(o.at("enabled"))
		}
	}
	if kind == "search_result" {
		return m.searchResult(block)
	}
	from := block.get("source")
	if from == nil {
		return missing(block.at("source"), "Send {\"type\":\"base64\",…} or {\"type\":\"url\",…}.")
	}
	source, err := readObject(from, block.at("source"))
	if err != nil {
		return err
	}
	of, err := source.word("type")
	if err != nil {
		return err
	}
	member := map[string]string{"image base64": "image_url", "image url": "image_url", "document base64": "file_data", "document text": "file_data", "document url": "file_url"}[kind+" "+of]
	if member == "" {
		return stoa.Errorf(stoa.CodeUnsupportedValue, "This source is not supported. Send base64 or an address.").At(source.at("type"))
	}
	value, err := m.sourceValue(source, of)
	if err != nil {
		return err
	}
	m.from(path+"."+member, source.path)
	if kind == "image" {
		m.raw(`{"type":"input_image"`)
	} else {
		m.raw(`{"type":"input_file"`)
		m.move(path, "filename", block, "title")
	}
	m.copy(block, "cache_control")
	m.key(member).text(value).raw("}")
	m.done(source)
	m.done(block, "citations")
	return nil
}

// searchResult translates a result of a search into a text: its title, its source and its texts.
func (m *messagesRequest) searchResult(block object) error {
	var lines []string
	for _, name := range []string{"title", "source"} {
		text, err := block.word(name)
		if err != nil {
			return err
		}
		lines = append(lines, text)
	}
	content := block.get("content")
	if content == nil {
		return missing(block.at("content"), "Send an array of blocks of text.")
	}
	if err := eachIn(content, block.at("content"), func(_ int, inner object) error {
		text, err := inner.word("text")
		lines = append(lines, text)
		return err
	}); err != nil {
		return err
	}
	m.raw(`{"type":"input_text"`).key("text").text(strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n"))
	m.copy(block, "cache_control")
	m.raw("}")
	m.done(block, "type", "citations")
	return nil
}

// sourceValue returns the address of a source, or its content as a data URL.
func (m *messagesRequest) sourceValue(source object, of string) (string, error) {
	if of == "url" {
		return source.word("url")
	}
	kind, err := source.word("media_type")
	if err != nil {
		return "", err
	}
	data, err := source.word("data")
	if err != nil {
		return "", err
	}
	if of == "text" {
		return "data:text/plain;base64," + base64.StdEncoding.EncodeToString([]byte(data)), nil
	}
	return "data:" + kind + ";base64," + data, nil
}
