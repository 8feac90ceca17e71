package wire

import (
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/stoa"
)

func encodeChatMessages(w *builder, call stoa.Call, route stoa.Route) error {
	openai, deepseek := route.Dialect == "openai", route.Dialect == "deepseek"
	role := "system"
	if openai {
		role = "developer"
	}
	system, list := turnsOf(call, route, shape{alternate: !openai})
	w.reasoning = reasoningIn(list)
	if order := formatOrder(call, route, system); order != "" {
		system = strings.TrimPrefix(system+"\n\n"+order, "\n\n")
	}
	w.key("messages").open('[')
	if system != "" {
		w.open('{')
		w.member("role", role)
		w.member("content", system)
		w.close('}')
	}
	called := false // tools were called since the last turn of the user
	for _, t := range list {
		switch t.role {
		case stoa.RoleSystem:
			w.open('{')
			w.member("role", role)
			w.member("content", joinTexts(t.parts))
			w.close('}')
		case stoa.RoleAssistant:
			called = encodeChatAssistant(w, t, deepseek, called)
		default:
			called = called && t.parts[0].Kind == stoa.PartResult
			if err := encodeChatUser(w, t); err != nil {
				return err
			}
		}
	}
	w.close(']')
	return nil
}

// reasoningOf returns the text of a segment of reasoning and the member in which it is sent
// back, or an empty member for the signature of a call of Google's models, which is base64.
// DeepSeek's segments are texts without their member.
func reasoningOf(s *stoa.State, deepseek bool) (member, text string) {
	if member, text, ok := strings.Cut(s.Data, "="); ok && (member == "reasoning_content" || member == "reasoning") {
		return member, text
	}
	if deepseek {
		return "reasoning_content", s.Data
	}
	return "", ""
}

// encodeChatAssistant writes a turn of the assistant, whose texts come before its calls, and
// reports whether it or an earlier one called tools, because DeepSeek requires the reasoning of each
// such turn in all later requests, even if it is an empty text; other servers receive what they
// sent. With Google's models, each segment is the signature of the call that follows it.
func encodeChatAssistant(w *builder, t turn, deepseek, called bool) bool {
	var reasoning strings.Builder
	calls, member := 0, ""
	for _, p := range t.parts {
		switch p.Kind {
		case stoa.PartReasoning:
			if name, text := reasoningOf(&p.State, deepseek); name != "" {
				member = name
				reasoning.WriteString(text)
			}
		case stoa.PartCall:
			calls++
		}
	}
	called = called || calls > 0
	w.open('{')
	w.member("role", "assistant")
	if text := joinTexts(t.parts); text != "" {
		w.member("content", text)
	} else {
		w.key("content").raw("null")
	}
	switch {
	case deepseek && (calls > 0 || called && reasoning.Len() > 0):
		w.member("reasoning_content", reasoning.String())
	case !deepseek && member != "":
		w.member(member, reasoning.String())
	}
	if calls > 0 {
		w.key("tool_calls").open('[')
		signature := ""
		for _, p := range t.parts {
			switch p.Kind {
			case stoa.PartReasoning:
				if name, _ := reasoningOf(&p.State, deepseek); name == "" {
					signature = p.State.Data
				}
			case stoa.PartCall:
				encodeChatCall(w, p, signature)
				signature = ""
			}
		}
		w.close(']')
	}
	w.close('}')
	return called
}

func encodeChatCall(w *builder, p piece, signature string) {
	w.open('{')
	w.member("id", p.id)
	w.member("type", "function")
	w.key("function").open('{')
	w.member("name", p.Call.Name)
	w.arguments(p.Call.Arguments)
	w.close('}')
	if signature != "" {
		w.key("extra_content").open('{')
		w.key("google").open('{')
		w.member("thought_signature", signature)
		w.close('}')
		w.close('}')
	}
	w.close('}')
}

// encodeChatUser writes the results of calls, one message for each, and the user's content.
// Results are texts: their images and files follow all of them as content of the user.
func encodeChatUser(w *builder, t turn) error {
	said := make([]piece, 0, len(t.parts))
	for _, p := range t.parts {
		if p.Kind != stoa.PartResult {
			said = append(said, p)
			continue
		}
		text, media := resultText(p.Result)
		w.open('{')
		w.member("role", "tool")
		w.member("tool_call_id", p.id)
		w.member("content", text)
		w.close('}')
		for _, m := range media {
			what := "Image"
			if m.Kind == stoa.PartFile {
				what = "File"
			}
			said = append(said, textPiece(what+" from call "+p.id+":"), piece{Part: m})
		}
	}
	if len(said) == 0 {
		return nil
	}
	w.open('{')
	w.member("role", "user")
	w.key("content")
	if !slices.ContainsFunc(said, func(p piece) bool { return p.Kind != stoa.PartText }) {
		w.text(joinTexts(said)) // because many servers only accept a string
		w.close('}')
		return nil
	}
	w.open('[')
	for _, p := range said {
		if err := encodeChatPart(w, p.Part); err != nil {
			return err
		}
	}
	w.close(']')
	w.close('}')
	return nil
}

func encodeChatPart(w *builder, p *stoa.Part) error {
	w.open('{')
	switch m := p.Media; p.Kind {
	case stoa.PartImage:
		w.member("type", "image_url")
		w.key("image_url").open('{')
		w.member("url", addressOf(m))
		if m.Detail == "original" {
			w.member("detail", "high") // because the format does not define original
		} else if m.Detail != "" {
			w.member("detail", m.Detail)
		}
		w.close('}')
	case stoa.PartFile:
		if m.URL != "" {
			return stoa.Errorf(stoa.CodeUnsupportedValue, "This model does not read files at an address. Send the file itself.").At("input")
		}
		w.member("type", "file")
		w.key("file").open('{')
		w.member("filename", m.Name)
		w.member("file_data", addressOf(m))
		w.close('}')
	default:
		w.member("type", "text")
		w.member("text", p.Text)
	}
	w.close('}')
	return nil
}

func acceptsSchema(route stoa.Route) bool {
	return route.Dialect == "openai" || route.Traits.Schema == "native"
}

// formatOrder returns the instruction to write JSON, if the server has no setting for the
// format or requires that the prompt mentions it, as DeepSeek does. Only the system text is
// searched for such a mention, so that the request does not depend on the messages.
func formatOrder(call stoa.Call, route stoa.Route, system string) string {
	switch f := call.TextFormat(); formatKind(f) {
	case stoa.FormatSchema:
		if !acceptsSchema(route) {
			return inWords(f)
		}
	case stoa.FormatObject:
		if route.Dialect == "deepseek" && !strings.Contains(strings.ToLower(system), "json") {
			return inWords(f)
		}
	}
	return ""
}

func encodeChatOptions(w *builder, call stoa.Call, route stoa.Route) error {
	if kind := formatKind(call.TextFormat()); kind != stoa.FormatText {
		schema := kind == stoa.FormatSchema && acceptsSchema(route)
		if !schema {
			kind = stoa.FormatObject
		}
		w.key("response_format").open('{')
		w.member("type", string(kind))
		if schema {
			w.key("json_schema").open('{')
			if err := w.format(call.TextFormat(), route); err != nil {
				return err
			}
			w.close('}')
		}
		w.close('}')
	}
	openai := route.Dialect == "openai"
	tools := call.Tools
	if !openai {
		tools = allowed(call)
	}
	if len(tools) == 0 {
		return nil
	}
	w.key("tools").open('[')
	for _, t := range tools {
		w.open('{')
		w.member("type", "function")
		w.key("function").open('{')
		w.member("name", t.Name)
		w.member("description", t.Description)
		w.key("parameters")
		strict, err := w.fitted(t, route)
		if err != nil {
			return err
		}
		if strict || openai && t.Strict != nil {
			w.key("strict").raw(strconv.FormatBool(strict))
		}
		w.close('}')
		w.close('}')
	}
	w.close(']')
	encodeChatChoice(w, call, route)
	if call.NoParallel && (openai || route.Traits.ParallelSwitch) {
		w.key("parallel_tool_calls").raw("false")
	}
	return nil
}

// encodeChatChoice writes the choice among the tools, unless it is the server's default, because
// DeepSeek's reasoning models refuse the member even with its default value.
func encodeChatChoice(w *builder, call stoa.Call, route stoa.Route) {
	c, must := call.ToolChoice(), forced(call, route.Traits)
	function := func(name string) {
		w.open('{')
		w.member("type", "function")
		w.key("function").open('{')
		w.member("name", name)
		w.close('}')
		w.close('}')
	}
	switch {
	case c.Mode == stoa.ChoiceNone:
		w.member("tool_choice", "none")
	case c.Named && must:
		w.key("tool_choice")
		function(c.Only[0])
	case len(c.Only) > 0 && !c.Named && route.Dialect == "openai":
		w.key("tool_choice").open('{')
		w.member("type", "allowed_tools")
		w.key("allowed_tools").open('{')
		mode := "auto"
		if must {
			mode = "required"
		}
		w.member("mode", mode)
		w.key("tools").open('[')
		for _, name := range c.Only {
			function(name)
		}
		w.close(']')
		w.close('}')
		w.close('}')
	case must:
		w.member("tool_choice", "required")
	}
}
