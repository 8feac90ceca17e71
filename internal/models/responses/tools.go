package responses

import (
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
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
	shells       map[string]string // ids of calls of a local shell, by those of their items
	leftOut      map[string]bool   // ids of calls that were left out, whose outputs are too
	added        []stoa.Tool       // by items of the input
	addedAt      string            // the path of the first of them
}

// A foreignTool is a tool that the caller does not run.
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
	named []named  // the tools of Only
}

// A named is a tool as a choice names it.
type named struct{ kind, namespace, name string }

// append appends the tool as a reply repeats it.
func (n named) append(b []byte) []byte {
	b = append(append(append(b, `{"type":"`...), n.kind...), '"')
	if wire.OpenAITool(n.kind) != nil {
		return append(b, '}')
	}
	if n.namespace != "" {
		b = appendText(append(b, `,"namespace":`...), n.namespace)
	}
	return append(appendText(append(b, `,"name":`...), n.name), '}')
}

// add adds a tool that may be called.
func (c *toolChoice) add(n named, path string) {
	c.Only = append(c.Only, stoa.FlatName(n.namespace, n.name))
	c.named = append(c.named, n)
	c.paths = append(c.paths, path)
}

func (p *parser) extra() *extended {
	if p.ext == nil {
		p.ext = &extended{}
	}
	return p.ext
}

// hasItems reports whether the input has an item that can stand alone.
func (x *extended) hasItems() bool {
	return x != nil && x.conversation != nil && slices.ContainsFunc(x.conversation.entries, func(e entry) bool { return !e.reasons() && e.tools == nil })
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
	var tool named
	var mode string
	var tools bool
	err := p.object(name, func(member string) (err error) {
		switch {
		case p.dec.PeekKind() == 'n':
		case member == "type":
			tool.kind, err = p.text(name + ".type")
			return err
		case member == "name":
			tool.name, err = p.short(name+".name", stoa.MaxName)
			return err
		case member == "namespace":
			tool.namespace, err = p.text(name + ".namespace")
			return err
		case member == "mode":
			mode, err = p.choice(name+".mode", "auto", "required")
			return err
		case member == "tools":
			tools = true
			return p.array(name+".tools", maxTools, func(j int) error { return p.allowed(c, at(name+".tools", j)) })
		default:
			return p.ignore(name, member)
		}
		return p.skip()
	})
	if err != nil {
		return err
	}
	if t := p.openAITool(tool.kind); t != nil {
		tool.name = t.Name
	}
	switch kind := tool.kind; {
	case kind == "function", kind == "custom", p.openAITool(kind) != nil:
		if tool.name == "" {
			return stoa.Errorf(stoa.CodeMissingParameter, "\"tool_choice\" names no function.").At(name + ".name")
		}
		c.add(tool, name+".name")
		c.Mode, c.Named = stoa.ChoiceRequired, true
		p.req.echo.toolChoice = string(tool.append(nil))
	case kind == "allowed_tools":
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
		for i, n := range c.named {
			if i > 0 {
				e = append(e, ',')
			}
			e = n.append(e)
		}
		p.req.echo.toolChoice = string(append(e, `]}`...))
	case kind == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "\"tool_choice\" has no \"type\".").At(name + ".type")
	default:
		return unsupportedValue(name+".type", notForced(foreignTool{kind: tool.kind, name: tool.name}))
	}
	return nil
}

// allowed parses one element of the set of allowed tools.
func (p *parser) allowed(c *toolChoice, path string) error {
	if err := p.want(path, "an object such as {\"type\":\"function\",\"name\":\"…\"}", '{'); err != nil {
		return err
	}
	var tool named
	err := p.object(path, func(member string) (err error) {
		switch {
		case p.dec.PeekKind() == 'n':
		case member == "type":
			tool.kind, err = p.text(path + ".type")
			return err
		case member == "name":
			tool.name, err = p.short(path+".name", stoa.MaxName)
			return err
		case member == "namespace":
			tool.namespace, err = p.text(path + ".namespace")
			return err
		default:
			return p.ignore(path, member)
		}
		return p.skip()
	})
	supported := tool.kind == "function" || tool.kind == "custom"
	if t := p.openAITool(tool.kind); t != nil {
		tool.name, supported = t.Name, true
	}
	switch {
	case err != nil:
		return err
	case !supported && p.opts.ForeignTools:
		return nil
	case !supported:
		return unsupportedValue(path+".type", "The tool "+foreignTool{kind: tool.kind, name: tool.name}.String()+" is not a function. Leave it out.")
	case tool.name == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "The tool has no \"name\".").At(path + ".name")
	}
	c.add(tool, path+".name")
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
		n := c.named[i]
		if slices.ContainsFunc(tools, func(t stoa.Tool) bool { return t.Name == name && choiceKind(t.Form) == n.kind }) {
			continue
		}
		if f := slices.IndexFunc(p.ext.foreign, func(t foreignTool) bool { return t.name == n.name }); f >= 0 {
			return unsupportedValue(c.paths[i], notForced(p.ext.foreign[f]))
		}
		return stoa.Errorf(stoa.CodeInvalidValue, "There is no tool with this name in \"tools\".").At(c.paths[i])
	}
	p.req.call.Choice = &c.Choice
	p.req.wanted.only = c.Only
	return nil
}

// choiceKind returns the type by which a choice names a tool.
func choiceKind(f *stoa.ToolForm) string {
	switch {
	case isCustom(f):
		return "custom"
	case f != nil && wire.OpenAITool(f.Kind) != nil:
		return f.Kind
	}
	return "function"
}

func isCustom(f *stoa.ToolForm) bool { return f != nil && f.Custom }

// A toolItem contains the members that tool items have in addition to those of messages. An
// error in a member applies only to the kinds that use it.
type toolItem struct {
	callID, name, arguments, output, sealed, status, phase string
	parts                                                  []stoa.Part // of the output
	isError                                                bool        // of the output: the tool failed
	has                                                    []string    // members that are present
	bad                                                    map[string]error
	mark                                                   stoa.Mark
	namespace                                              string
	added                                                  []byte // the tools of an item that adds some, as JSON
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
	case "arguments", "input":
		into = &t.arguments
	case "namespace":
		into = &t.namespace
	case "tools":
		t.added, err = p.later()
		return err
	case "id", "summary", "created_by", "caller":
		return p.skip()
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
		return t.note(p, name, err)
	case "prompt_cache_breakpoint", "cache_control":
		t.mark, err = p.mark(path + "." + name)
		return err
	default:
		it.unknown = append(it.unknown, name)
		return p.skip()
	}
	t.has = append(t.has, name)
	if most > 0 {
		*into, err = p.short(path+"."+name, most)
	} else {
		*into, err = p.text(path + "." + name)
	}
	return t.note(p, name, err)
}

// note stores a semantic error for the member, and returns an error that ends the parsing.
func (t *toolItem) note(p *parser, name string, err error) error {
	bad, fatal := p.soft(err)
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
		return t.note(p, "output", err)
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
	return t.note(p, "output", bad)
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

// callItem adds a call of an earlier reply: of a function or of a custom tool.
func (p *parser) callItem(path string, it *inputItem) error {
	t := it.tool
	custom, what := it.kind == "custom_tool_call", "arguments"
	if custom {
		what = "input"
	}
	if err := t.need(path, "call_id", "name", what); err != nil {
		return err
	}
	if err := t.bad["namespace"]; err != nil {
		return err
	}
	call := stoa.ToolCall{ID: t.callID, Name: stoa.FlatName(t.namespace, t.name), Arguments: t.arguments}
	if custom {
		call.Arguments = wire.CustomArguments(t.arguments)
	}
	if custom || t.namespace != "" {
		call.Form = &stoa.ToolForm{Namespace: t.namespace, Name: t.name, Custom: custom}
	}
	if err := p.talk().call(call, t.status == statusIncomplete, path+".call_id"); err != nil {
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
		for _, check := range []func() error{p.addTools, p.checkForeign, p.checkChoice} {
			if err := check(); err != nil {
				return err
			}
		}
	}
	called := x != nil && x.conversation != nil && x.conversation.seen != nil
	w := &p.req.wanted
	w.noParallel = call.NoParallel && len(call.Tools) > 0
	for i := range call.Tools {
		if t := &call.Tools[i]; t.Form != nil {
			if w.forms == nil {
				w.forms = map[string]*stoa.ToolForm{}
			}
			w.forms[t.Name] = t.Form
		}
	}
	w.reasoning = len(call.Tools) > 0 || call.Summary || x != nil && (x.encrypted || x.states > 0)
	w.json, w.summary = call.TextFormat().Kind != stoa.FormatText, call.Summary
	w.itemized = w.reasoning || called || w.json || p.hasMedia()
	call.Stateful, call.NoParallel = w.itemized, w.noParallel
	switch {
	case len(call.Tools) == 0:
		call.Choice, w.noTools = nil, true
	case call.ToolChoice().Mode == stoa.ChoiceNone:
		w.noTools = true
	case w.only == nil:
		for i := range call.Tools {
			w.only = append(w.only, call.Tools[i].Name)
		}
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

// markEnd marks the end of the input, unless it is marked.
func (p *parser) markEnd() {
	if list := p.req.call.Messages; p.last != stoa.MarkNone && len(list) > 0 {
		if parts := list[len(list)-1].Parts; len(parts) > 0 {
			last := &parts[len(parts)-1]
			last.Mark = max(last.Mark, p.last)
		}
	}
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
