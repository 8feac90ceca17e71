package responses

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// Limits of tools and their items, which the contract publishes.
const (
	maxTools      = 128
	maxToolBytes  = 512 << 10 // of the JSON of all tools
	maxCallID     = 512       // characters; vendors get ids of their own form
	maxToolOutput = 10 << 20  // characters
	maxSealed     = 1_468_006 // characters: 1.4 MiB
	maxReasoning  = 2_000     // items
)

// extended contains the members of a request that need extensions.
type extended struct {
	conversation *conversation // nil if all items so far are messages
	choice       *toolChoice   // nil if not given
	encrypted    bool          // include names the sealed state
	states       int           // number of usable states
	reasoning    int           // items
	textFile     bool          // a part is a text file, which must not be joined with other texts
	foreign      []foreignTool
	deferred     string // the path of the first defer_loading of a function; empty if none
	repeated     error  // of the first tool whose name repeats another; nil if none
}

// A foreignTool is a tool that is not a function.
type foreignTool struct {
	kind, name string // name may be empty
	path       string
}

// maxShown is the maximum size of a caller's text that an error repeats, in bytes.
const maxShown = 64

// String returns the type and the name of the tool, quoted.
func (t foreignTool) String() string {
	s := shown(t.kind)
	if t.name != "" {
		s += " " + shown(t.name)
	}
	return s
}

// notForced is the message for a choice that names a tool which is not a function.
func notForced(t foreignTool) string {
	return "The tool " + t.String() + " is not a function that the caller runs, and its call cannot be forced. Send \"auto\", or name a function."
}

func shown(s string) string {
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return strconv.Quote(s)
}

// A toolChoice is tool_choice as sent; it is checked when the tools are known.
type toolChoice struct {
	stoa.Choice
	paths []string // of Only
}

func (p *parser) extra() *extended {
	if p.ext == nil {
		p.ext = &extended{}
	}
	return p.ext
}

// hasItems reports whether the input has an item that can stand alone.
func (x *extended) hasItems() bool {
	return x != nil && x.conversation != nil && slices.ContainsFunc(x.conversation.entries, func(e entry) bool { return !e.reasons() })
}

// functions parses the tools.
func (p *parser) functions() error {
	const name = "tools"
	before := p.dec.InputOffset()
	seen := map[string]bool{}
	err := p.array(name, maxTools, func(i int) error { return p.function(at(name, i), seen) })
	if err == nil && p.dec.InputOffset()-before > maxToolBytes {
		return stoa.Errorf(stoa.CodeInvalidValue, "\"tools\" may have at most %d bytes of JSON.", maxToolBytes).At(name)
	}
	if err != nil || p.ext == nil {
		return err
	}
	if err := p.ext.repeated; err != nil {
		return err
	}
	return p.checkForeign()
}

// checkForeign checks the tools that are not functions and are left out of the call.
func (p *parser) checkForeign() error {
	x := p.ext
	if len(x.foreign) == 0 {
		return nil
	}
	if len(p.req.call.Tools) == 0 {
		return unsupportedValue(x.foreign[0].path+".type", "No supported tool remains: "+x.foreign[0].String()+" is not a function that the caller runs, and is not passed on. Send at least one function, or leave \"tools\" out.")
	}
	searches := func(t foreignTool) bool { return strings.HasPrefix(t.kind, "tool_search") }
	if x.deferred != "" && slices.ContainsFunc(x.foreign, searches) {
		return unsupported(x.deferred, "Tool search is not supported: the model receives all tools. Leave out \"defer_loading\" and the search tool.")
	}
	p.req.fewer = true
	return nil
}

// function parses one tool.
func (p *parser) function(path string, seen map[string]bool) error {
	if err := p.want(path, "an object such as {\"type\":\"function\",\"name\":…,\"parameters\":…}", '{'); err != nil {
		return err
	}
	var kind string
	var tool stoa.Tool
	var e echoTool
	var refused error // an error only if the tool is a function
	note := func(err error) error {
		bad, fatal := soft(err)
		if refused == nil {
			refused = bad
		}
		return fatal
	}
	hasName, deferred := false, false
	err := p.object(path, func(member string) (err error) {
		switch {
		case p.dec.PeekKind() == 'n':
		case member == "type":
			kind, err = p.text(path + ".type")
			return err
		case member == "name":
			hasName = true
			tool.Name, err = p.text(path + ".name")
			return note(err)
		case member == "description":
			tool.Description, err = p.text(path + ".description")
			e.description = &tool.Description
			return note(err)
		case member == "parameters":
			e.parameters, err = p.raw(path+".parameters", "a JSON Schema, an object", '{')
			return note(err)
		case member == "strict":
			b, err := p.boolean(path + ".strict")
			tool.Strict = &b
			return note(err)
		case isMark(member):
			tool.Mark, err = p.mark(path + "." + member)
			return err
		case member == "defer_loading":
			deferred, err = p.boolean(path + "." + member)
			return note(err)
		case member == "allowed_callers" || member == "output_schema":
			return note(p.refuse(path+"."+member, "Calls by programs of a model are not supported here. Leave \""+member+"\" out."))
		}
		return p.skip()
	})
	if err != nil {
		return err
	}
	switch {
	case kind == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "The tool has no \"type\". Send \"function\".").At(path + ".type")
	case kind != "function" && p.opts.ForeignTools:
		x := p.extra()
		x.foreign = append(x.foreign, foreignTool{kind, tool.Name, path})
		return nil
	case kind != "function":
		return unsupportedValue(path+".type", "The tool "+foreignTool{kind: kind, name: tool.Name}.String()+" is not a function that the caller runs, and is refused. Leave it out, or have the operator set extensionOptions.tools.foreign to ignore.")
	case refused != nil:
		return refused
	case !hasName:
		return stoa.Errorf(stoa.CodeMissingParameter, "The tool has no \"name\".").At(path + ".name")
	case !stoa.IsName(tool.Name):
		return stoa.Errorf(stoa.CodeInvalidValue, "A tool's name must have 1 to %d of the characters a-z, A-Z, 0-9, _ and -.", stoa.MaxName).At(path + ".name")
	case seen[tool.Name]:
		if x := p.extra(); x.repeated == nil { // returned later: too many tools is the first error to report
			x.repeated = stoa.Errorf(stoa.CodeInvalidValue, "There are two tools with this name.").At(path + ".name")
		}
	}
	seen[tool.Name] = true
	if deferred {
		if x := p.extra(); x.deferred == "" {
			x.deferred = path + ".defer_loading"
		}
	}
	if tool.Parameters, err = objectSchema(e.parameters, path+".parameters"); err != nil {
		return err
	}
	e.name = tool.Name
	p.req.call.Tools = append(p.req.call.Tools, tool)
	p.req.echo.tools = append(p.req.echo.tools, e)
	return nil
}

// objectSchema returns the schema of a tool's arguments, and adds the type object if there is
// no type.
func objectSchema(text, path string) (string, error) {
	if text == "" {
		return `{"type":"object","properties":{}}`, nil
	}
	c := jsonx.NewCursor([]byte(text))
	for ok := c.Object(); ok && c.Member(); {
		if string(c.Key) != "type" {
			continue
		}
		if kind, ok := c.Text(); !ok || kind != "object" {
			return "", stoa.Errorf(stoa.CodeInvalidType, "The arguments of a tool must be an object: the \"type\" of its schema must be \"object\".").At(path)
		}
		return text, nil
	}
	if text == "{}" {
		return `{"type":"object"}`, nil
	}
	return `{"type":"object",` + text[1:], nil
}

// raw reads a value as JSON without white space.
func (p *parser) raw(path, what string, kind jsonx.Kind) (string, error) {
	if err := p.want(path, what, kind); err != nil {
		return "", err
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return "", badJSON(err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, v); err != nil {
		return "", badJSON(err)
	}
	n := 0
	for c := jsonx.NewCursor(out.Bytes()); n <= maxMembers && (n > 0 || c.Object()) && c.Member(); n++ {
	}
	if n > maxMembers {
		return "", stoa.Errorf(stoa.CodeInvalidValue, "%q has more than %d members.", path, maxMembers).At(path)
	}
	return out.String(), nil
}

// functionChoice parses tool_choice, which complete checks.
func (p *parser) functionChoice() error {
	const name = "tool_choice"
	if err := p.want(name, "a string or an object", '"', '{'); err != nil {
		return err
	}
	c := &toolChoice{}
	p.extra().choice = c
	if p.dec.PeekKind() == '"' {
		s, err := p.choice(name, "auto", "none", "required")
		switch s {
		case "none":
			c.Mode = stoa.ChoiceNone
		case "required":
			c.Mode = stoa.ChoiceRequired
		}
		if s != "auto" {
			p.req.echo.toolChoice = `"` + s + `"`
		}
		return err
	}
	var kind, function, mode string
	var tools bool
	err := p.object(name, func(member string) (err error) {
		switch {
		case p.dec.PeekKind() == 'n':
		case member == "type":
			kind, err = p.text(name + ".type")
			return err
		case member == "name":
			function, err = p.short(name+".name", stoa.MaxName)
			return err
		case member == "mode":
			mode, err = p.choice(name+".mode", "auto", "required")
			return err
		case member == "tools":
			tools = true
			return p.array(name+".tools", maxTools, func(j int) error { return p.allowed(c, at(name+".tools", j)) })
		}
		return p.skip()
	})
	if err != nil {
		return err
	}
	switch kind {
	case "function":
		if function == "" {
			return stoa.Errorf(stoa.CodeMissingParameter, "\"tool_choice\" names no function.").At(name + ".name")
		}
		c.Choice = stoa.Choice{Mode: stoa.ChoiceRequired, Only: []string{function}, Named: true}
		c.paths = []string{name + ".name"}
		p.req.echo.toolChoice = string(append(appendText([]byte(`{"type":"function","name":`), function), '}'))
	case "allowed_tools":
		if mode == "" {
			return stoa.Errorf(stoa.CodeMissingParameter, "\"tool_choice.mode\" is missing. Send auto or required.").At(name + ".mode")
		}
		if !tools || len(c.Only) == 0 {
			return stoa.Errorf(stoa.CodeInvalidValue, "\"tool_choice.tools\" names no function.").At(name + ".tools")
		}
		if mode == "required" {
			c.Mode = stoa.ChoiceRequired
		}
		e := append([]byte(`{"type":"allowed_tools","mode":"`), mode...)
		e = append(e, `","tools":[`...)
		for i, n := range c.Only {
			if i > 0 {
				e = append(e, ',')
			}
			e = append(appendText(append(e, `{"type":"function","name":`...), n), '}')
		}
		p.req.echo.toolChoice = string(append(e, `]}`...))
	case "":
		return stoa.Errorf(stoa.CodeMissingParameter, "\"tool_choice\" has no \"type\".").At(name + ".type")
	default:
		return unsupportedValue(name+".type", notForced(foreignTool{kind: kind, name: function}))
	}
	return nil
}

// allowed parses one element of the set of allowed tools.
func (p *parser) allowed(c *toolChoice, path string) error {
	if err := p.want(path, "an object such as {\"type\":\"function\",\"name\":\"…\"}", '{'); err != nil {
		return err
	}
	var kind, function string
	err := p.object(path, func(member string) (err error) {
		switch {
		case p.dec.PeekKind() == 'n':
		case member == "type":
			kind, err = p.text(path + ".type")
			return err
		case member == "name":
			function, err = p.short(path+".name", stoa.MaxName)
			return err
		}
		return p.skip()
	})
	switch {
	case err != nil:
		return err
	case kind != "function" && p.opts.ForeignTools:
		return nil
	case kind != "function":
		return unsupportedValue(path+".type", "The tool "+foreignTool{kind: kind, name: function}.String()+" is not a function. Leave it out.")
	case function == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "The tool has no \"name\".").At(path + ".name")
	}
	c.Only = append(c.Only, function)
	c.paths = append(c.paths, path+".name")
	return nil
}

// checkChoice checks the choice against the tools.
func (p *parser) checkChoice() error {
	c := p.ext.choice
	if c == nil {
		return nil
	}
	tools := p.req.call.Tools
	if len(tools) == 0 && c.Mode == stoa.ChoiceRequired && c.Only == nil {
		return stoa.Errorf(stoa.CodeInvalidValue, "\"tool_choice\" requires a call, but the request has no tools.").At("tool_choice")
	}
	for i, name := range c.Only {
		if slices.ContainsFunc(tools, func(t stoa.Tool) bool { return t.Name == name }) {
			continue
		}
		if f := slices.IndexFunc(p.ext.foreign, func(t foreignTool) bool { return t.name == name }); f >= 0 {
			return unsupportedValue(c.paths[i], notForced(p.ext.foreign[f]))
		}
		return stoa.Errorf(stoa.CodeInvalidValue, "There is no tool with this name in \"tools\".").At(c.paths[i])
	}
	p.req.call.Choice = &c.Choice
	p.req.wanted.only = c.Only
	return nil
}

// A toolItem contains the members that tool items have in addition to those of messages. An
// error in a member applies only to the kinds that use it.
type toolItem struct {
	callID, name, arguments, output, sealed, status, phase string
	parts                                                  []stoa.Part // of the output
	isError                                                bool        // of the output: the tool failed
	has                                                    []string    // members that are present
	bad                                                    map[string]error
	mark                                                   stoa.Mark
}

// toolMember parses a member that an item of tools may have.
func (p *parser) toolMember(it *inputItem, path, name string) (err error) {
	var into *string
	if it.tool == nil {
		it.tool = &toolItem{}
	}
	t := it.tool
	most := 0
	switch name {
	case "call_id":
		into, most = &t.callID, maxCallID
	case "name":
		into = &t.name
	case "arguments":
		into = &t.arguments
	case "encrypted_content":
		into, most = &t.sealed, maxSealed
	case "status":
		into = &t.status
	case "phase":
		into = &t.phase
	case "output":
		return p.output(t, path+".output")
	case "is_error":
		failed, err := p.boolean(path + ".is_error")
		t.isError = failed
		return t.note(name, err)
	case "prompt_cache_breakpoint", "cache_control":
		t.mark, err = p.mark(path + "." + name)
		return err
	default:
		return p.skip()
	}
	t.has = append(t.has, name)
	if most > 0 {
		*into, err = p.short(path+"."+name, most)
	} else {
		*into, err = p.text(path + "." + name)
	}
	return t.note(name, err)
}

// note stores a semantic error for the member, and returns an error that ends the parsing.
func (t *toolItem) note(name string, err error) error {
	bad, fatal := soft(err)
	if bad != nil && t.bad[name] == nil {
		if t.bad == nil {
			t.bad = map[string]error{}
		}
		t.bad[name] = bad
	}
	return fatal
}

// output parses the output of a call: a text, or parts.
func (p *parser) output(t *toolItem, path string) error {
	t.has = append(t.has, "output")
	if p.dec.PeekKind() == '"' {
		s, err := p.short(path, maxToolOutput)
		t.output = s
		return t.note("output", err)
	}
	before := len(p.req.media)
	parts, bad, err := p.content(path)
	if err != nil {
		return err
	}
	for i := range p.req.media[before:] {
		p.req.media[before+i].tool = true
	}
	if len(parts) == 1 && parts[0].Kind == stoa.PartText {
		t.output = parts[0].Text
	} else {
		t.parts = parts
	}
	return t.note("output", bad)
}

// need returns the error of the first of the named members that is missing or invalid.
func (t *toolItem) need(path string, names ...string) error {
	for _, name := range names {
		if t == nil || !slices.Contains(t.has, name) {
			return stoa.Errorf(stoa.CodeMissingParameter, "%q is missing.", path+"."+name).At(path + "." + name)
		}
		if err := t.bad[name]; err != nil {
			return err
		}
	}
	if slices.Contains(names, "call_id") && t.callID == "" {
		return stoa.Errorf(stoa.CodeInvalidValue, "%q is empty.", path+".call_id").At(path + ".call_id")
	}
	if slices.Contains(names, "name") && strings.TrimSpace(t.name) == "" {
		return stoa.Errorf(stoa.CodeInvalidValue, "%q is empty.", path+".name").At(path + ".name")
	}
	return nil
}

// callItem adds a tool call of an earlier reply.
func (p *parser) callItem(path string, it *inputItem) error {
	t := it.tool
	if err := t.need(path, "call_id", "name", "arguments"); err != nil {
		return err
	}
	if err := p.talk().call(stoa.ToolCall{ID: t.callID, Name: t.name, Arguments: t.arguments}, t.status == statusIncomplete, path+".call_id"); err != nil {
		return err
	}
	p.talk().mark(t.mark)
	return nil
}

// outputItem adds the output of a call.
func (p *parser) outputItem(path string, it *inputItem) error {
	t := it.tool
	if err := t.need(path, "call_id", "output"); err != nil {
		return err
	}
	if err := t.bad["is_error"]; err != nil {
		return err
	}
	if err := p.talk().result(stoa.ToolResult{CallID: t.callID, Content: t.output, Parts: t.parts, IsError: t.isError}, path+".call_id"); err != nil {
		return err
	}
	p.talk().mark(t.mark)
	return nil
}

// reasoningItem adds a segment of reasoning. Its content is used if Stoa sealed it for this
// account; otherwise only its position is.
func (p *parser) reasoningItem(path string, it *inputItem) error {
	x := p.extra()
	if x.reasoning++; x.reasoning > maxReasoning {
		return stoa.Errorf(stoa.CodeInvalidValue, "The input has more than %d reasoning items.", maxReasoning).At(path + ".encrypted_content")
	}
	var state stoa.State
	if t := it.tool; t != nil {
		if err := t.bad["encrypted_content"]; err != nil {
			return err
		}
		if t.sealed != "" {
			s, ok := p.opts.Open(t.sealed)
			if ok {
				state = s
				x.states++
			} else {
				p.req.unread++
			}
		}
	}
	p.talk().reasoning(state)
	return nil
}

// setPhase sets the phase of an assistant's message on its texts.
func (it *inputItem) setPhase() {
	for i := range it.parts {
		it.parts[i].Phase = it.tool.phase
	}
}

// message adds a message of texts, images and files.
func (p *parser) message(role stoa.Role, parts []stoa.Part) {
	if p.ext != nil && p.ext.conversation != nil {
		p.ext.conversation.message(role, withoutEmpty(parts)...)
		return
	}
	list := p.req.call.Messages
	if list == nil && p.first != nil {
		list = p.first.messages[:0]
	}
	p.req.call.Messages = append(list, stoa.Message{Role: role, Parts: parts})
}

// talk returns the conversation, which contains the messages so far.
func (p *parser) talk() *conversation {
	x := p.extra()
	if x.conversation == nil {
		x.conversation = &conversation{}
		for _, m := range p.req.call.Messages {
			x.conversation.message(m.Role, withoutEmpty(m.Parts)...)
		}
		p.req.call.Messages = nil
	}
	return x.conversation
}

// withoutEmpty returns the parts except empty texts.
func withoutEmpty(parts []stoa.Part) []stoa.Part {
	return slices.DeleteFunc(parts, func(p stoa.Part) bool { return p.Kind == stoa.PartText && p.Text == "" })
}

// complete checks everything that depends on the whole request. If no extension is in use,
// each message becomes one text, as in version 1.
func (p *parser) complete() error {
	call := &p.req.call
	x := p.ext
	if x != nil {
		if err := p.checkChoice(); err != nil {
			return err
		}
	}
	called := x != nil && x.conversation != nil && x.conversation.seen != nil
	w := &p.req.wanted
	w.noParallel = call.NoParallel && len(call.Tools) > 0
	w.reasoning = len(call.Tools) > 0 || call.Summary || x != nil && (x.encrypted || x.states > 0)
	w.json, w.summary = call.TextFormat().Kind != stoa.FormatText, call.Summary
	w.itemized = w.reasoning || called || w.json || p.hasMedia()
	call.Stateful, call.NoParallel = w.itemized, w.noParallel
	if w.noTools = len(call.Tools) == 0; w.noTools {
		call.Choice = nil
	}
	if w.itemized {
		var err error
		call.Messages, err = p.talk().messages()
		return err
	}
	if x != nil && x.conversation != nil { // of messages, and of reasoning that is dropped
		for _, e := range x.conversation.entries {
			if !e.reasons() {
				call.Messages = append(call.Messages, stoa.Message{Role: e.role, Parts: e.parts})
			}
		}
	}
	for i := range call.Messages {
		call.Messages[i].Parts = oneText(call.Messages[i].Parts)
	}
	return nil
}

// hasMedia reports whether a message contains an image or a file, or a text that must not be
// joined.
func (p *parser) hasMedia() bool {
	textFile := p.ext != nil && p.ext.textFile
	if !textFile && !p.opts.Images && !p.opts.Files {
		return false
	}
	more := func(parts []stoa.Part) bool {
		return textFile && len(parts) > 1 || slices.ContainsFunc(parts, func(p stoa.Part) bool { return p.Media != nil })
	}
	if p.ext != nil && p.ext.conversation != nil {
		return slices.ContainsFunc(p.ext.conversation.entries, func(e entry) bool { return more(e.parts) })
	}
	return slices.ContainsFunc(p.req.call.Messages, func(m stoa.Message) bool { return more(m.Parts) })
}

// oneText joins the texts of parts without a separator into one text without a phase. It
// changes the list.
func oneText(parts []stoa.Part) []stoa.Part {
	if len(parts) == 0 || slices.ContainsFunc(parts, func(p stoa.Part) bool { return p.Mark != stoa.MarkNone }) {
		return parts
	}
	parts[0] = stoa.Part{Kind: stoa.PartText, Text: textOf(parts)}
	return parts[:1]
}

// textOf returns the texts of parts, joined without a separator.
func textOf(parts []stoa.Part) string {
	if len(parts) == 1 {
		return parts[0].Text
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
