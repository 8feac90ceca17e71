package responses

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// openAITool returns the tool of a type if the caller runs it, otherwise nil. Translated formats get
// nil, because they do not have OpenAI's tools.
func (p *parser) openAITool(kind string) *wire.VendorTool {
	if p.opts.translated {
		return nil
	}
	return wire.OpenAITool(kind)
}

// vendorTool returns the tool that a vendor has defined, if the caller runs it: not a shell in a
// container of the vendor, and not a search that the vendor makes.
func (p *parser) vendorTool(d *declaration) *wire.VendorTool {
	if p.opts.translated {
		return wire.AnthropicTool(d.kind)
	}
	switch d.kind {
	case "shell":
		if kind := wire.Member(string(d.who), "type"); kind != "" && kind != `"local"` {
			return nil
		}
	case "tool_search":
		if string(d.who) != `"client"` {
			return nil
		}
	}
	return wire.OpenAITool(d.kind)
}

// declareVendorTool completes such a tool: its vendor gets it as declared, others a function.
func (p *parser) declareVendorTool(d *declaration, v *wire.VendorTool) error {
	t := &d.tool
	native := cmp.Or(string(bytes.TrimLeft(d.native, ", \t\r\n")), "{}") // chat completions have no more than the type
	// Marks are dropped because they are in the tool, and deferral because the vendor's search is left out.
	drop := []string{"type", "cache_control", "prompt_cache_breakpoint", "defer_loading"}
	if !p.opts.translated {
		drop = append(drop, "name")
	}
	t.Form = &stoa.ToolForm{Name: t.Name, Kind: d.kind, Native: wire.Without(native, drop...)}
	t.Strict, d.echo.parameters, d.echo.native = nil, "", wire.Without(native)
	t.Parameters = v.Parameters
	if own := wire.Member(native, "parameters"); own != "" {
		var err error
		if t.Parameters, err = objectSchema(own, d.at("parameters")); err != nil {
			return err
		}
	}
	t.Description = cmp.Or(t.Description, v.Description)
	width := cmp.Or(wire.Member(native, "display_width"), wire.Member(native, "display_width_px"))
	if height := cmp.Or(wire.Member(native, "display_height"), wire.Member(native, "display_height_px")); width != "" && height != "" {
		t.Description += fmt.Sprintf(" The screen has %s × %s pixels.", width, height)
	}
	t.Form.Description = t.Description
	return nil
}

// vendorItem returns the members of an item with which OpenAI's format records a call of such a
// tool, or its output, and the id of the call. skip means that the item is left out, because the
// vendor has run the tool.
func (p *parser) vendorItem(it *inputItem) (members, callID string, skip bool, err error) {
	raw := string(it.raw)
	var known struct {
		CallID jsonx.Value `json:"call_id"`
		ID     jsonx.Value `json:"id"`
	}
	if err := jsonx.Unmarshal(it.raw, &known); err != nil {
		return "", "", false, badJSON(err)
	}
	drop := []string{"type", "call_id", "id"}
	if strings.HasPrefix(it.kind, "local_shell_") { // because the format requires the id, and names the call of an output by it
		drop = drop[:2]
	}
	path := it.path
	id, at := known.CallID, path+".call_id"
	if id.Kind() != '"' && it.kind == "local_shell_call_output" {
		id, at = known.ID, path+".id"
	}
	execution, environment := wire.Member(raw, "execution"), wire.Member(wire.Member(raw, "environment"), "type")
	hosted := strings.HasPrefix(it.kind, "tool_search_") && execution != `"client"` || environment != "" && environment != `"local"`
	if id.Kind() == '"' {
		if call := p.extra().shells[string(id)]; call != "" && at == path+".id" { // it is the id of the call's item
			id = jsonx.Value(appendText(nil, call))
		}
		if err := jsonx.Unmarshal(id, &callID); err != nil {
			return "", "", false, badJSON(err)
		}
	}
	x := p.extra()
	if hosted || x.leftOut[callID] {
		if !p.opts.ForeignTools {
			return "", "", false, errVendorItem(it)
		}
		if x.leftOut == nil {
			x.leftOut = map[string]bool{}
		}
		x.leftOut[callID] = callID != ""
		p.req.adjusted |= stoa.ItemsLeftOut
		return "", "", true, nil
	}
	switch {
	case id == nil || id.Kind() == 'n':
		return "", "", false, stoa.Errorf(stoa.CodeMissingParameter, "%q is missing.", at).At(at)
	case id.Kind() != '"':
		return "", "", false, stoa.Errorf(stoa.CodeInvalidType, "%q must be a string, not %s.", at, kindName(id.Kind())).At(at)
	case callID == "":
		return "", "", false, stoa.Errorf(stoa.CodeInvalidValue, "%q is empty.", at).At(at)
	case len(callID) > maxCallID && len([]rune(callID)) > maxCallID:
		return "", "", false, tooLong(at, maxCallID)
	case hasNUL(raw):
		return "", "", false, stoa.Errorf(stoa.CodeInvalidValue, "%q must not contain a NUL character.", path).At(path)
	}
	if item := known.ID; it.kind == "local_shell_call" && item.Kind() == '"' {
		if x.shells == nil {
			x.shells = map[string]string{}
		}
		x.shells[string(item)] = callID
	}
	return wire.Without(raw, drop...), callID, false, nil
}

func hasNUL(raw string) bool {
	const nul = `\u0000`
	for i := strings.Index(raw, nul); i >= 0; {
		before := strings.TrimRight(raw[:i], `\`)
		if (i-len(before))%2 == 0 { // the backslash is not escaped itself
			return true
		}
		next := strings.Index(raw[i+1:], nul)
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}

func (p *parser) vendorCall(it *inputItem) error {
	kind, v, _ := wire.ToolOfItem(it.kind)
	members, id, skip, err := p.vendorItem(it)
	if skip || err != nil {
		return err
	}
	if v.Member != "" && wire.Member(members, v.Member) == "" {
		return stoa.Errorf(stoa.CodeMissingParameter, "%q is missing.", it.at(v.Member)).At(it.at(v.Member))
	}
	call := stoa.ToolCall{ID: id, Name: v.Name, Arguments: v.Arguments(wire.Without(members, "status", "id")), Form: &stoa.ToolForm{Name: v.Name, Kind: kind, Native: members}}
	return p.talk().call(call, wire.Member(members, "status") == `"incomplete"`, it.at("call_id"))
}

// vendorOutput adds the output of such a call: its item for the vendor, and its content for others.
func (p *parser) vendorOutput(it *inputItem) error {
	kind, _, _ := wire.ToolOfItem(it.kind)
	members, id, skip, err := p.vendorItem(it)
	if skip || err != nil {
		return err
	}
	result := stoa.ToolResult{CallID: id, Kind: kind, Native: members, IsError: wire.Member(members, "status") == `"failed"`}
	output := wire.Member(members, "output")
	switch {
	case kind == "tool_search":
		if result.Content, err = p.foundTools(it); err != nil {
			return err
		}
	case kind == "computer":
		part, err := p.screenshot(it.at("output"), output)
		if err != nil {
			return err
		}
		result.Parts, result.Native = []stoa.Part{part}, wire.Without(members, "output")
	case output == "" && kind != "apply_patch":
		return stoa.Errorf(stoa.CodeMissingParameter, "%q is missing.", it.at("output")).At(it.at("output"))
	case strings.HasPrefix(output, `"`):
		if err := jsonx.Unmarshal([]byte(output), &result.Content); err != nil {
			return badJSON(err)
		}
	default:
		result.Content = output
	}
	if kind == "apply_patch" && result.Content == "" {
		result.Content = cmp.Or(strings.Trim(wire.Member(members, "status"), `"`), statusCompleted)
	}
	if len(result.Content) > maxToolOutput {
		return tooLong(it.at("output"), maxToolOutput)
	}
	return p.talk().result(result, it.at("call_id"))
}

func (p *parser) screenshot(path, output string) (stoa.Part, error) {
	if !p.opts.Images {
		return stoa.Part{}, unsupportedValue(path, "A screenshot is an image: the operator can enable the extension \"images\".")
	}
	var shown struct {
		URL    string `json:"image_url"`
		FileID string `json:"file_id"`
		Detail string `json:"detail"`
	}
	if jsonx.Unmarshal([]byte(output), &shown) != nil {
		return stoa.Part{}, stoa.Errorf(stoa.CodeInvalidType, "%q must be an object such as {\"type\":\"computer_screenshot\",\"image_url\":…}.", path).At(path)
	}
	part, err := p.image(place{path: path}, &mediaMembers{imageURL: shown.URL, fileID: shown.FileID, detail: shown.Detail})
	if err == nil {
		p.req.media[len(p.req.media)-1].tool = true
	}
	return part, err
}

// foundTools adds the tools that a search of the caller has found, and returns their names.
func (p *parser) foundTools(it *inputItem) (string, error) {
	before := len(p.extra().added)
	parsed := p.talk().entries
	if err := p.addedTools(it); err != nil {
		return "", err
	}
	p.talk().entries = parsed // the output itself declares them
	var names []string
	for i := range p.ext.added[before:] {
		t := &p.ext.added[before+i]
		t.Form.Deferred = true // and may be declared already
		names = append(names, t.Name)
	}
	if names == nil {
		return "No tools were found.", nil
	}
	return "These tools can be called: " + strings.Join(names, ", "), nil
}

// contextManagement keeps Anthropic's setting for its own models. It ignores OpenAI's, because that
// has an effect only where replies are stored.
func (p *parser) contextManagement() error {
	const name = "context_management"
	if !p.opts.translated {
		return p.ignore("", name)
	}
	text, err := p.raw(name, "an object", '{')
	if err != nil {
		return err
	}
	var of struct {
		Edits []struct {
			Type string `json:"type"`
		} `json:"edits"`
	}
	if jsonx.Unmarshal([]byte(text), &of) != nil {
		return stoa.Errorf(stoa.CodeInvalidType, "%q must have an array \"edits\" of objects with a \"type\".", name).At(name)
	}
	if i := slices.IndexFunc(of.Edits, func(e struct {
		Type string `json:"type"`
	},
	) bool {
		return strings.HasPrefix(e.Type, "compact")
	}); i >= 0 {
		return unsupportedValue(fmt.Sprintf("%s.edits[%d].type", name, i), "A call does not compact its conversation: the vendor bills that as a separate reply. Leave the edit out; POST /responses/compact and many clients compact by themselves.")
	}
	p.vendor().ContextManagement = text
	p.req.settings = append(p.req.settings, setting{name, func(r stoa.Route) bool { return r.Wire == "messages" }})
	return nil
}
