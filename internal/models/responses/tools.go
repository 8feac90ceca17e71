package responses

import (
	"fmt"
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
	added        []stoa.Tool       // tools that items of the input add
	addedAt      string            // path of the first of them
}

type foreignTool struct {
	kind, name string // name may be empty
	path       string
}

const maxShown = 64

// String returns the type and the name of the tool, quoted.
func (t foreignTool) String() string {
	s := shown(t.kind)
	if t.name != "" {
		s += " " + shown(t.name)
	}
	return s
}

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
	path  string
	paths []string // of Only
	named []named  // the tools of Only
}

// A named is a tool as a choice names it.
type named struct{ kind, namespace, name string }

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

func (x *extended) hasItems() bool {
	return x != nil && x.conversation != nil && slices.ContainsFunc(x.conversation.entries, func(e entry) bool { return !e.reasons() && e.tools == nil })
}

// toolChoice parses tool_choice, which complete checks. Without the extension it may be auto or none.
func (p *parser) toolChoice(path string) error {
	if p.opts.Tools {
		if err := p.want(path, "a string or an object", '"', '{'); err != nil {
			return err
		}
	} else if p.dec.PeekKind() == '{' {
		return p.refuse(path, choiceOff(path))
	}
	if !p.opts.Tools || p.dec.PeekKind() == '"' {
		s, err := p.text(path)
		if err != nil {
			return err
		}
		return p.chooseWord(path, s)
	}
	c := choiceMembers{place: place{path: path}}
	if err := p.object(path, func(member string) error { return p.choiceMember(&c, member, c.at(member)) }); err != nil {
		return err
	}
	return p.choose(&c)
}

func choiceOff(path string) string {
	return fmt.Sprintf("Tool calling is switched off: the operator can enable the extension \"tools\". Send \"auto\" or \"none\", or leave %q out.", path)
}

func (p *parser) chooseWord(path, s string) error {
	c := &toolChoice{path: path}
	switch {
	case !p.opts.Tools && s != "auto" && s != "none":
		return unsupportedValue(path, choiceOff(path))
	case s == "auto":
	case s == "none":
		c.Mode = stoa.ChoiceNone
	case s == "required":
		c.Mode = stoa.ChoiceRequired
	default:
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must be one of %s.", path, quoted([]string{"auto", "none", "required"})).At(path)
	}
	if s != "auto" {
		p.req.echo.toolChoice = `"` + s + `"`
	}
	p.extra().choice = c
	p.rename("tool_choice", path)
	return nil
}

type choiceMembers struct {
	place
	named
	choice toolChoice
	mode   string
	count  int // of the allowed tools, supported or not
}

func (p *parser) choiceMember(c *choiceMembers, member, path string) (err error) {
	switch {
	case p.dec.PeekKind() == 'n':
	case member == "mode":
		c.mode, err = p.choice(path, "auto", "required")
		return err
	case member == "tools":
		return p.array(path, maxTools, func(j int) error {
			l := place{path: at(path, j)}
			if err := p.want(l.path, "an object such as {\"type\":\"function\",\"name\":\"…\"}", '{'); err != nil {
				return err
			}
			var tool named
			if err := p.object(l.path, func(member string) error { return p.namedMember(&tool, l.path, member, l.at(member)) }); err != nil {
				return err
			}
			return p.allow(c, tool, l)
		})
	}
	return p.namedMember(&c.named, c.path, member, path)
}

func (p *parser) namedMember(n *named, in, member, path string) (err error) {
	switch {
	case p.dec.PeekKind() == 'n':
		return p.skip()
	case member == "type":
		n.kind, err = p.text(path)
	case member == "name":
		n.name, err = p.short(path, stoa.MaxName)
	case member == "namespace":
		n.namespace, err = p.text(path)
	default:
		return p.ignore(in, member)
	}
	return err
}

func (p *parser) choose(in *choiceMembers) error {
	if !p.opts.Tools {
		return unsupported(in.path, choiceOff(in.path))
	}
	c, tool := &in.choice, in.named
	c.path = in.path
	p.extra().choice = c
	p.rename("tool_choice", in.path)
	if t := p.openAITool(tool.kind); t != nil {
		tool.name = t.Name
	}
	switch kind := tool.kind; {
	case kind == "function", kind == "custom", p.openAITool(kind) != nil:
		if tool.name == "" {
			return stoa.Errorf(stoa.CodeMissingParameter, "\"tool_choice\" names no function.").At(in.at("name"))
		}
		c.add(tool, in.at("name"))
		c.Mode, c.Named = stoa.ChoiceRequired, true
		p.req.echo.toolChoice = string(tool.append(nil))
	case kind == "allowed_tools":
		if in.mode == "" {
			return stoa.Errorf(stoa.CodeMissingParameter, "%q is missing. Send auto or required.", in.at("mode")).At(in.at("mode"))
		}
		if len(c.Only) == 0 {
			return stoa.Errorf(stoa.CodeInvalidValue, "%q names no function.", in.at("tools")).At(in.at("tools"))
		}
		if in.mode == "required" {
			c.Mode = stoa.ChoiceRequired
		}
		e := append([]byte(`{"type":"allowed_tools","mode":"`), in.mode...)
		e = append(e, `","tools":[`...)
		for i, n := range c.named {
			if i > 0 {
				e = append(e, ',')
			}
			e = n.append(e)
		}
		p.req.echo.toolChoice = string(append(e, `]}`...))
	case kind == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "\"tool_choice\" has no \"type\".").At(in.at("type"))
	default:
		return unsupportedValue(in.at("type"), notForced(foreignTool{kind: tool.kind, name: tool.name}))
	}
	return nil
}

func (p *parser) allow(in *choiceMembers, tool named, l place) error {
	if in.count++; in.count > maxTools {
		return tooMany(in.at("tools"), maxTools)
	}
	supported := tool.kind == "function" || tool.kind == "custom"
	if t := p.openAITool(tool.kind); t != nil {
		tool.name, supported = t.Name, true
	}
	switch {
	case !supported && p.opts.ForeignTools:
		return nil
	case !supported:
		return unsupportedValue(l.at("type"), "The tool "+foreignTool{kind: tool.kind, name: tool.name}.String()+" is not a function. Leave it out.")
	case tool.name == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "The tool has no \"name\".").At(l.at("name"))
	}
	in.choice.add(tool, l.at("name"))
	return nil
}

func (p *parser) checkChoice() error {
	c := p.ext.choice
	if c == nil {
		return nil
	}
	tools := p.req.call.Tools
	if len(tools) == 0 && c.Mode == stoa.ChoiceRequired && c.Only == nil {
		return stoa.Errorf(stoa.CodeInvalidValue, "%q requires a call, but the request has no tools.", c.path).At(c.path)
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

// A toolItem contains the members that tool items have in addition to those of messages. It keeps
// the error in a member, because it applies only to the kinds that use it.
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

func (p *parser) toolMember(it *inputItem, name, path string) (err error) {
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
		return p.output(t, path)
	case "is_error":
		failed, err := p.boolean(path)
		t.isError = failed
		return t.note(p, name, err)
	case "prompt_cache_breakpoint", "cache_control":
		t.mark, err = p.mark(path)
		return err
	default:
		it.unknown = append(it.unknown, name)
		return p.skip()
	}
	t.has = append(t.has, name)
	if most > 0 {
		*into, err = p.short(path, most)
	} else {
		*into, err = p.text(path)
	}
	return t.note(p, name, err)
}

func (p *parser) memberOf(it *inputItem) func(name, path string) error {
	return func(name, path string) error { return p.toolMember(it, name, path) }
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

func (p *parser) output(t *toolItem, path string) error {
	if p.dec.PeekKind() == '"' {
		s, err := p.short(path, maxToolOutput)
		t.output, t.has = s, append(t.has, "output")
		return t.note(p, "output", err)
	}
	before := len(p.req.media)
	parts, bad, err := p.content(path)
	if err != nil {
		return err
	}
	p.setOutput(t, parts, before)
	return t.note(p, "output", bad)
}

// setOutput sets an output of parts, whose media follow the first before ones of the request.
func (p *parser) setOutput(t *toolItem, parts []stoa.Part, before int) {
	t.has = append(t.has, "output")
	for i := range p.req.media[before:] {
		p.req.media[before+i].tool = true
	}
	if len(parts) == 1 && parts[0].Kind == stoa.PartText {
		t.output = parts[0].Text
	} else {
		t.parts = parts
	}
}

func (it *inputItem) need(names ...string) error {
	t := it.tool
	for _, name := range names {
		if t == nil || !slices.Contains(t.has, name) {
			return stoa.Errorf(stoa.CodeMissingParameter, "%q is missing.", it.at(name)).At(it.at(name))
		}
		if err := t.bad[name]; err != nil {
			return err
		}
	}
	if slices.Contains(names, "call_id") && t.callID == "" {
		return stoa.Errorf(stoa.CodeInvalidValue, "%q is empty.", it.at("call_id")).At(it.at("call_id"))
	}
	if slices.Contains(names, "name") && strings.TrimSpace(t.name) == "" {
		return stoa.Errorf(stoa.CodeInvalidValue, "%q is empty.", it.at("name")).At(it.at("name"))
	}
	return nil
}

func (p *parser) callItem(it *inputItem) error {
	t := it.tool
	custom, what := it.kind == "custom_tool_call", "arguments"
	if custom {
		what = "input"
	}
	if err := it.need("call_id", "name", what); err != nil {
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
	if err := p.talk().call(call, t.status == statusIncomplete, it.at("call_id")); err != nil {
		return err
	}
	p.talk().mark(t.mark)
	return nil
}

func (p *parser) outputItem(it *inputItem) error {
	t := it.tool
	if err := it.need("call_id", "output"); err != nil {
		return err
	}
	if err := t.bad["is_error"]; err != nil {
		return err
	}
	if err := p.talk().result(stoa.ToolResult{CallID: t.callID, Content: t.output, Parts: t.parts, IsError: t.isError}, it.at("call_id")); err != nil {
		return err
	}
	p.talk().mark(t.mark)
	return nil
}

// reasoningItem adds a segment of reasoning. It uses only the position of a content that Stoa did
// not seal for this account.
func (p *parser) reasoningItem(it *inputItem) error {
	x := p.extra()
	if x.reasoning++; x.reasoning > maxReasoning {
		return stoa.Errorf(stoa.CodeInvalidValue, "The input has more than %d reasoning items.", maxReasoning).At(it.at("encrypted_content"))
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
	p.talk().message(stoa.RoleAssistant, stoa.Part{Kind: stoa.PartReasoning, State: state})
	return nil
}

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

// hasMedia reports whether a message contains an image or a file, or a text that must not be joined.
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
