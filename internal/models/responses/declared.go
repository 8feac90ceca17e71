package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

func (p *parser) tools() error {
	before := p.dec.InputOffset()
	list := toolList{path: "tools", seen: map[string]bool{}}
	if err := p.array(list.path, maxTools, func(i int) error {
		if !p.opts.Tools {
			return toolsOff(list.path)
		}
		return p.tool(&list, at(list.path, i))
	}); err != nil {
		return err
	}
	return p.setTools(&list, int(p.dec.InputOffset()-before))
}

func (p *parser) setTools(list *toolList, size int) error {
	switch {
	case size > maxToolBytes && p.opts.Tools:
		return stoa.Errorf(stoa.CodeInvalidValue, "%q can have at most %d bytes of JSON.", list.path, maxToolBytes).At(list.path)
	case list.repeated != nil:
		return list.repeated
	case len(list.tools) > maxTools: // with those of namespaces
		return tooManyTools(list.path)
	}
	p.rename("tools", list.path)
	p.req.call.Tools, p.req.echo.tools = list.tools, list.echo
	return nil
}

func toolsOff(path string) error {
	return unsupported(path, fmt.Sprintf("Tool calling is switched off: the operator can enable the extension \"tools\". Leave %q out or send an empty array.", path))
}

func tooManyTools(path string) error {
	return stoa.Errorf(stoa.CodeInvalidValue, "The request has more than %d tools.", maxTools).At(path)
}

// checkForeign checks the tools that are not supported and are left out of the call.
func (p *parser) checkForeign() error {
	x := p.ext
	if len(x.foreign) == 0 {
		return nil
	}
	if len(p.req.call.Tools) == 0 {
		return unsupportedValue(x.foreign[0].path, "No supported tool remains: "+x.foreign[0].String()+" is not a function that the caller runs, and is not passed on. Send at least one function, or leave \"tools\" out.")
	}
	p.req.adjusted |= stoa.ToolsLeftOut
	return nil
}

// A toolList collects the tools of one list.
type toolList struct {
	path      string
	count     int // of all tools, supported or not
	tools     []stoa.Tool
	echo      []echoTool
	seen      map[string]bool // names of tools; nil if they may repeat
	repeated  error           // of the first tool whose name repeats another; nil if none: too many tools is the first error to report
	namespace *stoa.ToolForm  // whose tools are parsed; nil outside of namespaces
}

type declaration struct {
	place
	kind          string
	tool          stoa.Tool
	echo          echoTool
	format, inner []byte   // JSON of format and tools
	grammar       *grammar // the parsed format
	refused       error    // an error only if the kind of the tool is supported
	hasName       bool
	deferred      bool
	who, native   []byte // JSON of environment or execution, and of the whole tool
	unknown       []string
}

func (p *parser) tool(list *toolList, path string) error {
	if err := p.want(path, "an object such as {\"type\":\"function\",\"name\":…,\"parameters\":…}", '{'); err != nil {
		return err
	}
	d := declaration{place: place{path: path}}
	begin := p.dec.InputOffset()
	if err := p.object(path, func(member string) error { return p.declaredMember(&d, member, d.at(member)) }); err != nil {
		return err
	}
	d.native = p.src[begin:p.dec.InputOffset()]
	return p.declare(list, &d)
}

// declare adds a tool to a list: a function, a custom tool or a namespace. Others are left out.
func (p *parser) declare(list *toolList, d *declaration) error {
	if !p.opts.Tools {
		return toolsOff(list.path)
	}
	if list.count++; list.count > maxTools {
		return tooMany(list.path, maxTools)
	}
	t := &d.tool
	vendors := p.vendorTool(d)
	if vendors != nil {
		d.hasName = true
		if t.Name == "" || !p.opts.translated { // OpenAI's tools have none
			t.Name = vendors.Name
		}
	}
	supported := d.kind == "function" || d.kind == "custom" || (d.kind == "namespace" || vendors != nil) && list.namespace == nil
	switch {
	case d.kind == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "The tool has no \"type\". Send \"function\".").At(d.at("type"))
	case !supported && p.opts.ForeignTools:
		x := p.extra()
		x.foreign = append(x.foreign, foreignTool{d.kind, t.Name, d.at("type")})
		return nil
	case !supported:
		return unsupportedValue(d.at("type"), "The tool "+foreignTool{kind: d.kind, name: t.Name}.String()+" is not a function that the caller runs, and is refused. Leave it out, or have the operator set extensionOptions.tools.foreign to ignore.")
	case d.refused != nil:
		return d.refused
	case !d.hasName:
		return stoa.Errorf(stoa.CodeMissingParameter, "The tool has no \"name\".").At(d.at("name"))
	}
	if vendors != nil {
		d.unknown = nil // the vendor knows them
	}
	if d.format != nil && d.kind != "custom" {
		d.unknown = append(d.unknown, "format")
	}
	if d.inner != nil && d.kind != "namespace" {
		d.unknown = append(d.unknown, "tools")
	}
	p.ignoreAll(d.path, d.unknown)
	if d.kind == "namespace" {
		return p.namespace(list, d)
	}
	if !stoa.IsName(t.Name) {
		return stoa.Errorf(stoa.CodeInvalidValue, "A tool's name must have 1 to %d of the characters a-z, A-Z, 0-9, _ and -.", stoa.MaxName).At(d.at("name"))
	}
	d.echo.name = t.Name
	if list.namespace != nil {
		form := *list.namespace
		form.Name, form.Description = t.Name, t.Description
		t.Form, t.Name = &form, stoa.FlatName(form.Namespace, form.Name)
	}
	d.echo.flat = t.Name
	if list.seen[t.Name] && list.repeated == nil {
		list.repeated = stoa.Errorf(stoa.CodeInvalidValue, "There are two tools with this name.").At(d.at("name"))
	}
	if list.seen != nil {
		list.seen[t.Name] = true
	}
	var err error
	switch {
	case vendors != nil:
		err = p.declareVendorTool(d, vendors)
	case d.kind == "custom":
		err = p.custom(d)
	default:
		t.Parameters, err = objectSchema(d.echo.parameters, d.at("parameters"))
	}
	if err != nil {
		return err
	}
	if d.deferred && vendors == nil {
		if t.Form == nil {
			t.Form = &stoa.ToolForm{Name: t.Name, Description: t.Description}
		}
		t.Form.Deferred = true
	}
	list.tools, list.echo = append(list.tools, *t), append(list.echo, d.echo)
	return nil
}

func (p *parser) declaredMember(d *declaration, member, path string) (err error) {
	note := func(err error) error {
		bad, fatal := p.soft(err)
		if d.refused == nil {
			d.refused = bad
		}
		return fatal
	}
	t, e := &d.tool, &d.echo
	switch {
	case p.dec.PeekKind() == 'n':
	case member == "type":
		d.kind, err = p.text(path)
		return err
	case member == "name":
		d.hasName = true
		t.Name, err = p.text(path)
		return note(err)
	case member == "description":
		t.Description, err = p.text(path)
		e.description = &t.Description
		return note(err)
	case member == "parameters":
		e.parameters, err = p.raw(path, "a JSON Schema, an object", '{')
		return note(err)
	case member == "strict":
		b, err := p.boolean(path)
		t.Strict = &b
		return note(err)
	case member == "format":
		d.format, err = p.later()
		return err
	case member == "tools":
		d.inner, err = p.later()
		return err
	case isMark(member):
		t.Mark, err = p.mark(path)
		return err
	case member == "defer_loading":
		d.deferred, err = p.boolean(path)
		return note(err)
	case member == "allowed_callers":
		callers, err := p.later()
		var list []string
		if err == nil && (jsonx.Unmarshal(callers, &list) != nil || slices.ContainsFunc(list, func(s string) bool { return s != "direct" })) {
			err = unsupported(path, "Calls by programs of a model are not supported here. Send [\"direct\"], or leave \"allowed_callers\" out.")
		}
		return note(err)
	case member == "execution" || member == "environment":
		d.who, err = p.later()
		return err
	default:
		d.unknown = append(d.unknown, member)
	}
	return p.skip()
}

// later reads a value that must be parsed after the other members of its object; see
// [parser.within].
func (p *parser) later() ([]byte, error) {
	v, err := p.dec.ReadValue()
	if err != nil {
		return nil, badJSON(err)
	}
	return v.Clone(), nil
}

func (p *parser) within(v []byte, parse func() error) error {
	outer, src := p.dec, p.src
	p.dec, p.src = jsonx.NewDecoder(v), v
	defer func() { p.dec, p.src = outer, src }()
	return parse()
}

// namespace parses the tools of a namespace, whose names are unique within it.
func (p *parser) namespace(list *toolList, d *declaration) error {
	if d.tool.Name == "" {
		return stoa.Errorf(stoa.CodeInvalidValue, "%q is empty.", d.at("name")).At(d.at("name"))
	}
	if d.inner == nil {
		return stoa.Errorf(stoa.CodeMissingParameter, "The namespace has no \"tools\".").At(d.at("tools"))
	}
	about := ""
	if d.echo.description != nil {
		about = d.tool.Description
	}
	own := toolList{path: d.at("tools"), seen: list.seen, namespace: &stoa.ToolForm{Namespace: d.tool.Name, About: about}}
	err := p.within(d.inner, func() error {
		return p.array(own.path, maxTools, func(i int) error { return p.tool(&own, at(own.path, i)) })
	})
	if err != nil || len(own.tools) == 0 {
		return err
	}
	if list.repeated == nil {
		list.repeated = own.repeated
	}
	if first := &own.tools[0]; about != "" {
		first.Description = strings.TrimPrefix(first.Description+"\n\nThe tools of "+d.tool.Name+": "+about, "\n\n")
	}
	if last := &own.tools[len(own.tools)-1]; last.Mark == stoa.MarkNone {
		last.Mark = d.tool.Mark
	}
	d.echo.name, d.echo.kind, d.echo.tools = d.tool.Name, d.kind, own.echo
	list.tools, list.echo = append(list.tools, own.tools...), append(list.echo, d.echo)
	return nil
}

// customSchema is the schema of the function that stands for a custom tool.
const customSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`

// custom completes a custom tool: its input is a text, which may have to match a grammar. Models of
// other vendors get a function with the grammar in its description, since they have no such tools.
func (p *parser) custom(d *declaration) error {
	t := &d.tool
	if t.Form == nil {
		t.Form = &stoa.ToolForm{Name: t.Name}
	}
	t.Form.Custom, t.Form.Description = true, t.Description
	t.Parameters, t.Strict = customSchema, nil
	d.echo.kind, d.echo.parameters = d.kind, `{"type":"text"}`
	words := "Write the whole text into \"input\"."
	if d.format != nil {
		g := &grammar{place: place{path: d.at("format")}}
		if err := p.within(d.format, func() error {
			return p.object(g.path, func(member string) error { return p.grammarMember(g, member, g.at(member)) })
		}); err != nil {
			return err
		}
		d.grammar = g
	}
	if g := d.grammar; g != nil {
		if err := g.check(); err != nil {
			return err
		}
		if g.kind == "grammar" {
			b := appendText([]byte(`{"type":"grammar","syntax":`), g.syntax)
			t.Form.Format = string(append(appendText(append(b, `,"definition":`...), g.definition), '}'))
			d.echo.parameters = t.Form.Format
			title := "Lark grammar"
			if g.syntax == "regex" {
				title = "regular expression"
			}
			words += " It must match this " + title + ":\n" + g.definition
		}
	}
	if t.Description != "" {
		words = t.Description + "\n\n" + words
	}
	t.Description = words
	if text := t.Form.Description; d.echo.description != nil {
		d.echo.description = &text
	}
	return nil
}

type grammar struct {
	place
	kind               string // text or grammar
	syntax, definition string
	has                bool // a definition
}

func (p *parser) grammarMember(g *grammar, member, path string) (err error) {
	switch {
	case p.dec.PeekKind() == 'n':
	case member == "type":
		g.kind, err = p.choice(path, "text", "grammar")
		return err
	case member == "syntax":
		g.syntax, err = p.choice(path, "lark", "regex")
		return err
	case member == "definition":
		g.has = true
		g.definition, err = p.text(path)
		return err
	default:
		return p.ignore(g.path, member)
	}
	return p.skip()
}

func (g *grammar) check() error {
	lacks := ""
	switch {
	case g.kind == "":
		lacks = "type"
	case g.kind == "text":
		return nil
	case g.syntax == "":
		lacks = "syntax"
	case !g.has:
		lacks = "definition"
	case g.definition == "":
		return stoa.Errorf(stoa.CodeInvalidValue, "%q is empty.", g.at("definition")).At(g.at("definition"))
	default:
		return nil
	}
	return stoa.Errorf(stoa.CodeMissingParameter, "%q is missing.", g.at(lacks)).At(g.at(lacks))
}

func (p *parser) addedTools(it *inputItem) error {
	list := toolList{path: it.at("tools"), seen: map[string]bool{}}
	if it.tool == nil || it.tool.added == nil {
		return stoa.Errorf(stoa.CodeMissingParameter, "%q is missing.", list.path).At(list.path)
	}
	if len(it.tool.added) > maxToolBytes {
		return stoa.Errorf(stoa.CodeInvalidValue, "%q can have at most %d bytes of JSON.", list.path, maxToolBytes).At(list.path)
	}
	err := p.within(it.tool.added, func() error {
		return p.array(list.path, maxTools, func(i int) error { return p.tool(&list, at(list.path, i)) })
	})
	switch {
	case err != nil:
		return err
	case list.repeated != nil:
		return list.repeated
	case len(list.tools) == 0:
		return nil
	}
	p.addLater(list.tools, list.path)
	return nil
}

// addLater adds tools from this place of the input on.
func (p *parser) addLater(tools []stoa.Tool, path string) {
	for i := range tools {
		t := &tools[i]
		if t.Form == nil {
			t.Form = &stoa.ToolForm{Name: t.Name, Description: t.Description}
		}
		t.Form.Added = true
	}
	x := p.extra()
	if x.added == nil {
		x.addedAt = path
	}
	x.added = append(x.added, tools...)
	p.talk().tools(tools)
}

// addTools adds the tools of the input to those of the body. The last one of a name counts.
func (p *parser) addTools() error {
	tools := &p.req.call.Tools
	at := map[string]int{}
	for i := range *tools {
		at[(*tools)[i].Name] = i
	}
	own := len(*tools)
	for _, t := range p.ext.added {
		i, have := at[t.Name]
		switch {
		case have && i < own && t.Form.Deferred: // a search has found it
		case have && i < own:
			return stoa.Errorf(stoa.CodeInvalidValue, "There are two tools with the name %q.", t.Name).At(p.ext.addedAt)
		case have:
			(*tools)[i] = t
		case len(*tools) == maxTools:
			return tooManyTools(p.ext.addedAt)
		default:
			at[t.Name] = len(*tools)
			*tools = append(*tools, t)
		}
	}
	return nil
}

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
