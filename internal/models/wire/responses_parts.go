package wire

import (
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// encodeResponsesTurns writes the member input. Items have no ids, because the vendor would look
// them up, but it stores nothing.
func encodeResponsesTurns(w *builder, call stoa.Call, route stoa.Route) error {
	w.lists = takesBreakpoints(&call, route)
	_, list := turnsOf(call, route, shape{system: true, marks: w.lists})
	w.reasoning = reasoningIn(list)
	w.key("input").open('[')
	if w.lists {
		if mark := w.setBreakpoints(&call, list); call.Instructions != "" {
			encodeResponsesMessage(w, "developer", piece{Part: &stoa.Part{Kind: stoa.PartText, Text: call.Instructions}, mark: mark})
		}
	}
	var reasoning map[string]bool // sent; the vendor refuses an item that comes twice, as clients send it that copy a signature
	for _, t := range list {
		switch t.role {
		case stoa.RoleAssistant:
			for _, p := range t.parts {
				if p.Kind == stoa.PartReasoning {
					if reasoning[p.State.Data] {
						continue
					}
					if reasoning == nil {
						reasoning = map[string]bool{}
					}
					reasoning[p.State.Data] = true
				}
				encodeResponsesOutput(w, p, hasCustomTools(route))
			}
		case stoa.RoleSystem:
			if t.tools != nil {
				w.open('{')
				w.member("type", "additional_tools")
				w.member("role", "developer")
				if err := encodeResponsesToolList(w, t.tools, route); err != nil {
					return err
				}
				w.close('}')
				continue
			}
			encodeResponsesMessage(w, "developer", t.parts...)
		default:
			n := 0
			for n < len(t.parts) && t.parts[n].Kind == stoa.PartResult {
				encodeResponsesResult(w, t.parts[n], hasCustomTools(route))
				n++
			}
			encodeResponsesMessage(w, "user", t.parts[n:]...)
		}
	}
	w.close(']')
	return nil
}

// joinTexts returns the texts among the parts, joined by blank lines.
func joinTexts(parts []piece) string {
	text, more := "", []string(nil)
	for _, p := range parts {
		switch {
		case p.Kind != stoa.PartText:
		case text == "":
			text = p.Text
		default:
			more = append(more, p.Text)
		}
	}
	return joined(text, more)
}

// encodeResponsesMessage writes content as one message: a string, if it is one text and no text of
// the request can be marked.
func encodeResponsesMessage(w *builder, role string, parts ...piece) {
	if len(parts) == 0 {
		return
	}
	w.open('{')
	w.member("type", "message")
	w.member("role", role)
	w.key("content")
	if len(parts) == 1 && parts[0].Kind == stoa.PartText && !w.lists {
		w.text(parts[0].Text)
	} else {
		w.open('[')
		for _, p := range parts {
			encodeResponsesInput(w, p.Part, p.mark)
		}
		w.close(']')
	}
	w.close('}')
}

func encodeResponsesInput(w *builder, p *stoa.Part, mark stoa.Mark) {
	w.open('{')
	switch m := p.Media; p.Kind {
	case stoa.PartImage:
		w.member("type", "input_image")
		w.member("image_url", addressOf(m))
		if m.Detail != "" {
			w.member("detail", m.Detail)
		}
	case stoa.PartFile:
		w.member("type", "input_file")
		if m.URL != "" {
			w.member("file_url", m.URL)
		} else {
			w.member("filename", m.Name)
			w.member("file_data", addressOf(m))
		}
	default:
		w.member("type", "input_text")
		w.member("text", p.Text)
	}
	if mark != stoa.MarkNone {
		w.marks++
		w.key("prompt_cache_breakpoint").raw(`{"mode":"explicit"}`)
	}
	w.close('}')
}

// addressOf returns the URL of an image or a file; a data URL for content in the request.
func addressOf(m *stoa.Media) string {
	if m.URL != "" {
		return m.URL
	}
	return "data:" + m.Type + ";base64," + m.Base64
}

// encodeResponsesOutput writes a part of an assistant's turn as an item. custom means that the
// vendor has custom tools and namespaces.
func encodeResponsesOutput(w *builder, p piece, custom bool) {
	switch p.Kind {
	case stoa.PartText:
		w.open('{')
		w.member("type", "message")
		w.member("role", "assistant")
		w.member("content", p.Text)
		if p.Phase != "" {
			w.member("phase", p.Phase)
		}
		w.close('}')
	case stoa.PartReasoning:
		if c := jsonx.NewReplyCursor([]byte(p.State.Data)); c.Kind() == '{' && c.Done() {
			w.raw(p.State.Data)
		}
	case stoa.PartCall:
		own := form(p.Call.Form)
		name := p.Call.Name
		if !custom {
			own = stoa.ToolForm{}
		}
		if own.Name != "" {
			name = own.Name
		}
		w.open('{')
		if t := OpenAITool(own.Kind); t != nil {
			w.member("type", t.Call)
			w.member("call_id", p.id)
			w.members(own.Native)
			w.close('}')
			return
		}
		if own.Custom {
			w.member("type", customCall)
		} else {
			w.member("type", "function_call")
		}
		w.member("call_id", p.id)
		w.optional("namespace", own.Namespace)
		w.member("name", name)
		if own.Custom {
			input, _ := CustomInput(p.Call.Arguments)
			w.member("input", input)
		} else {
			w.arguments(p.Call.Arguments)
		}
		w.close('}')
	}
}

// encodeResponsesResult writes the result of a call. The failure of a tool is expressed in
// words.
func encodeResponsesResult(w *builder, p piece, custom bool) {
	text, media := resultText(p.Result)
	w.open('{')
	if t := OpenAITool(p.Result.Kind); custom && t != nil {
		w.member("type", t.Output)
		w.member("call_id", p.id)
		w.members(p.Result.Native)
		if len(media) > 0 { // a screenshot
			w.key("output").open('{')
			w.member("type", "computer_screenshot")
			w.member("image_url", addressOf(media[0].Media))
			w.optional("detail", media[0].Media.Detail)
			w.close('}')
		}
		w.close('}')
		return
	}
	if custom && p.Result.Custom {
		w.member("type", "custom_tool_call_output")
	} else {
		w.member("type", "function_call_output")
	}
	w.member("call_id", p.id)
	w.key("output")
	if len(media) == 0 {
		w.text(text)
		w.close('}')
		return
	}
	w.open('[')
	if p.Result.IsError {
		encodeResponsesInput(w, &stoa.Part{Text: strings.TrimSpace(failedPrefix)}, stoa.MarkNone)
	}
	for i := range p.Result.Parts {
		if part := &p.Result.Parts[i]; part.Kind != stoa.PartText || part.Text != "" {
			encodeResponsesInput(w, part, stoa.MarkNone)
		}
	}
	w.close(']')
	w.close('}')
}

// failedPrefix precedes the result of a failed tool on a wire without a member for the
// failure.
const failedPrefix = "Error: "

// resultText returns the text of a result and its parts that are not text.
func resultText(r *stoa.ToolResult) (text string, media []*stoa.Part) {
	text = r.Content
	var texts []string
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Kind != stoa.PartText {
			media = append(media, p)
		} else if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	if len(r.Parts) > 0 {
		text = strings.Join(texts, "\n\n")
	}
	if r.IsError {
		text = failedPrefix + text
	}
	return text, media
}

func encodeResponsesOptions(w *builder, call stoa.Call, route stoa.Route) error {
	off, effort := thinking(call, route.Traits)
	if off {
		effort = "none"
	}
	summary := call.Summary && len(route.Traits.Efforts) > 0 // since other models do not reason
	vendor := call.VendorSettings()
	own := vendor.ReasoningContext+vendor.ReasoningMode != "" && TakesReasoningSettings(route)
	if effort != "" || summary || own {
		w.key("reasoning").open('{')
		w.optional("effort", effort)
		if summary {
			w.member("summary", "auto")
		}
		if own {
			w.optional("context", vendor.ReasoningContext)
			w.optional("mode", vendor.ReasoningMode)
		}
		w.close('}')
	}
	verbosity := call.Verbosity != "" && route.Traits.Verbosity
	if !verbosity && call.TextFormat().Kind == stoa.FormatText {
		return nil
	}
	w.key("text").open('{')
	if verbosity {
		w.member("verbosity", call.Verbosity)
	}
	if call.TextFormat().Kind != stoa.FormatText {
		w.key("format").open('{')
		w.member("type", string(formatKind(call.TextFormat())))
		if err := w.format(call.TextFormat(), route); err != nil {
			return err
		}
		w.close('}')
	}
	w.close('}')
	return nil
}

// TakesReasoningSettings reports whether a route is one of OpenAI's models that reason, which have
// [stoa.VendorSettings].
func TakesReasoningSettings(route stoa.Route) bool {
	return route.Wire == "responses" && hasCustomTools(route) && len(route.Traits.Efforts) > 0
}

// formatKind returns the kind of a format: without a schema it is an object.
func formatKind(f stoa.Format) stoa.FormatKind {
	if f.Kind == stoa.FormatSchema && strings.TrimSpace(f.Schema) == "" {
		return stoa.FormatObject
	}
	return f.Kind
}

// format writes the members of OpenAI's description of a schema.
func (w *builder) format(f stoa.Format, route stoa.Route) error {
	if formatKind(f) != stoa.FormatSchema {
		return nil
	}
	name := f.Name
	if name == "" {
		name = "reply" // because the vendor requires one
	}
	w.member("name", name)
	if f.Description != "" {
		w.member("description", f.Description)
	}
	fit, err := FitFormat(f, route)
	if err != nil {
		return err
	}
	w.key("schema").raw(fit)
	if f.Strict != nil { // otherwise the vendor enforces what it can
		w.key("strict").raw(strconv.FormatBool(*f.Strict))
	}
	return nil
}

// encodeResponsesTools writes the tools, the choice among them, and the requested parts of
// the reply's reasoning.
func encodeResponsesTools(w *builder, call stoa.Call, route stoa.Route) error {
	if len(call.Tools) > 0 {
		tools := call.Tools
		if hasCustomTools(route) { // since items of the input declare the others
			tools = slices.DeleteFunc(slices.Clone(tools), func(t stoa.Tool) bool { return form(t.Form).Added })
		}
		if len(tools) > 0 {
			if err := encodeResponsesToolList(w, tools, route); err != nil {
				return err
			}
		}
		encodeResponsesChoice(w, call, route)
		if call.NoParallel {
			w.key("parallel_tool_calls").raw("false")
		}
	}
	// Not for other models, because one that does not reason refuses this.
	if call.Stateful && len(route.Traits.Efforts) > 0 {
		w.key("include").raw(`["reasoning.encrypted_content"]`)
	}
	return nil
}

func encodeResponsesToolList(w *builder, tools []stoa.Tool, route stoa.Route) error {
	w.key("tools").open('[')
	within := ""
	search := slices.ContainsFunc(tools, func(t stoa.Tool) bool { return form(t.Form).Kind == "tool_search" }) // of the caller, for deferred tools
	for _, t := range tools {
		own := stoa.ToolForm{Name: t.Name, Description: t.Description}
		if t.Form != nil && hasCustomTools(route) {
			own = *t.Form
		}
		own.Deferred = own.Deferred && search
		if own.Namespace != within {
			w.endNamespace(within)
			if within = own.Namespace; within != "" {
				w.open('{')
				w.member("type", "namespace")
				w.member("name", within)
				w.member("description", own.About)
				w.key("tools").open('[')
			}
		}
		t.Name, t.Description = own.Name, own.Description
		if err := encodeResponsesTool(w, t, own, route); err != nil {
			return err
		}
	}
	w.endNamespace(within)
	w.close(']')
	return nil
}

// endNamespace ends a namespace, unless it is empty.
func (w *builder) endNamespace(name string) {
	if name != "" {
		w.close(']')
		w.close('}')
	}
}

func encodeResponsesTool(w *builder, t stoa.Tool, own stoa.ToolForm, route stoa.Route) error {
	w.open('{')
	defer w.close('}')
	if OpenAITool(own.Kind) != nil {
		w.member("type", own.Kind)
		w.members(own.Native)
		return nil
	}
	if own.Deferred {
		w.key("defer_loading").raw("true")
	}
	if own.Custom {
		w.member("type", "custom")
		w.member("name", t.Name)
		w.optional("description", t.Description)
		if own.Format != "" {
			w.key("format").raw(own.Format)
		}
		return nil
	}
	w.member("type", "function")
	w.member("name", t.Name)
	w.member("description", t.Description)
	w.key("parameters")
	strict, err := w.fitted(t, route)
	if err == nil && t.Strict != nil { // otherwise the vendor enforces what it can
		w.key("strict").raw(strconv.FormatBool(strict))
	}
	return err
}

// encodeResponsesName writes a tool of the call as a choice names it.
func encodeResponsesName(w *builder, call stoa.Call, name string, route stoa.Route) {
	own := stoa.ToolForm{Name: name}
	if i := slices.IndexFunc(call.Tools, func(t stoa.Tool) bool { return t.Name == name && t.Form != nil }); i >= 0 && hasCustomTools(route) {
		own = *call.Tools[i].Form
	}
	w.open('{')
	defer w.close('}')
	switch {
	case OpenAITool(own.Kind) != nil:
		w.member("type", own.Kind)
		return
	case own.Custom:
		w.member("type", "custom")
	default:
		w.member("type", "function")
	}
	w.optional("namespace", own.Namespace)
	w.member("name", own.Name)
}

func encodeResponsesChoice(w *builder, call stoa.Call, route stoa.Route) {
	c := call.ToolChoice()
	mode := "auto"
	switch {
	case c.Mode == stoa.ChoiceNone:
		w.member("tool_choice", "none")
		return
	case forced(call, route.Traits):
		mode = "required"
	}
	switch {
	case c.Named && mode == "required":
		w.key("tool_choice")
		encodeResponsesName(w, call, c.Only[0], route)
	case len(c.Only) > 0 && !c.Named:
		w.key("tool_choice").open('{')
		w.member("type", "allowed_tools")
		w.member("mode", mode)
		w.key("tools").open('[')
		for _, name := range c.Only {
			encodeResponsesName(w, call, name, route)
		}
		w.close(']')
		w.close('}')
	default:
		w.member("tool_choice", mode)
	}
}
