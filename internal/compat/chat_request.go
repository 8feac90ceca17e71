package compat

import (
	"slices"
	"strings"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// Chat translates the body of a POST /chat/completions. A body that is no JSON
// object is handed on as it is, for package responses to refuse.
func Chat(body []byte) (*Translation, error) {
	if v := jsonx.Value(body); !jsonx.Valid(body) || v.Kind() != '{' {
		return &Translation{Body: body}, nil
	}
	o, err := readObject(body, "")
	if err != nil {
		return nil, err
	}
	if err := refuseOfChat(o); err != nil {
		return nil, err
	}
	c := &chatRequest{translator{out: make([]byte, 0, len(body)+len(body)/8+256)}}
	c.raw("{")
	for _, same := range []string{"model", "temperature", "top_p", "stream", "parallel_tool_calls", "metadata", "user", "store", "frequency_penalty", "presence_penalty", "top_logprobs", "prompt_cache_key", "safety_identifier", "service_tier", "strict_model"} {
		c.member(o, same, same)
	}
	if limit := "max_completion_tokens"; o.get(limit) != nil {
		c.member(o, limit, "max_output_tokens")
	} else {
		c.member(o, "max_tokens", "max_output_tokens")
	}
	usage, err := c.options(o)
	if err != nil {
		return nil, err
	}
	if err := c.tools(o); err != nil {
		return nil, err
	}
	if err := c.format(o); err != nil {
		return nil, err
	}
	if v := o.get("reasoning_effort"); v != nil {
		c.key("reasoning").raw(`{"effort":`).value(v).raw("}")
		c.from("reasoning.effort", "reasoning_effort")
	}
	list := o.get("messages")
	if list == nil {
		return nil, missing("messages", "Send at least one message.")
	}
	messages, err := readArray(list, "messages")
	if err != nil {
		return nil, err
	}
	c.key("input").raw("[")
	c.from("input", "messages")
	for i, m := range messages {
		if err := c.message(m, at("messages", i)); err != nil {
			return nil, err
		}
	}
	t := c.done()
	t.IncludeUsage = usage
	return t, nil
}

// refuseOfChat returns an error for what would change a reply and is not supported.
func refuseOfChat(o object) error {
	if err := o.refuse(map[string]string{
		"functions":          "\"functions\" is of an earlier form of this format. Send \"tools\".",
		"function_call":      "\"function_call\" is of an earlier form of this format. Send \"tool_choice\".",
		"audio":              "Audio is not supported. Leave \"audio\" out.",
		"prediction":         "Predicted output is not supported. Leave \"prediction\" out.",
		"web_search_options": "Web search is not supported. Leave \"web_search_options\" out.",
	}); err != nil {
		return err
	}
	refuse := func(name, advice string) error { return stoa.Errorf(stoa.CodeUnsupported, "%s", advice).At(name) }
	if v := o.get("stop"); v != nil && v.Kind() != '[' || v != nil && len(v) > len("[]") {
		return refuse("stop", "Stop sequences are not supported. Leave \"stop\" out.")
	}
	if v := o.get("logit_bias"); v != nil && len(v) > len("{}") {
		return refuse("logit_bias", "Biases of tokens are not supported. Leave \"logit_bias\" out.")
	}
	if v := o.get("n"); v != nil && !isOne(v) {
		return refuse("n", "A call has one reply. Leave \"n\" out, or send 1.")
	}
	if v := o.get("logprobs"); v != nil && v.Kind() == 't' {
		return refuse("logprobs", "Log probabilities are not supported. Leave \"logprobs\" out.")
	}
	if v := o.get("modalities"); v != nil {
		list, err := readArray(v, "modalities")
		if err != nil {
			return err
		}
		for i, m := range list {
			if string(m) != `"text"` {
				return stoa.Errorf(stoa.CodeUnsupportedValue, "Replies are text. Leave \"modalities\" out, or send [\"text\"].").At(at("modalities", i))
			}
		}
	}
	return nil
}

// chatRequest translates one request.
type chatRequest struct{ translator }

// options reads stream_options.
func (c *chatRequest) options(o object) (usage bool, err error) {
	v := o.get("stream_options")
	if v == nil {
		return false, nil
	}
	options, err := readObject(v, "stream_options")
	if err != nil {
		return false, err
	}
	v = options.get("include_usage")
	if v != nil && v.Kind() != 't' && v.Kind() != 'f' {
		return false, wrongType("stream_options.include_usage", "true or false")
	}
	return v != nil && v.Kind() == 't', nil
}

// tools translates tools and tool_choice, whose functions are one level deeper.
func (c *chatRequest) tools(o object) error {
	if v := o.get("tools"); v != nil {
		list, err := readTools(v)
		if err != nil {
			return err
		}
		c.key("tools").raw("[")
		for i, v := range list {
			tool, err := readObject(v, at("tools", i))
			if err != nil {
				return err
			}
			c.element().raw("{")
			if v := tool.get("type"); v != nil {
				c.key("type").value(v)
			}
			if err := c.function(tool, "name", "description", "parameters", "strict"); err != nil {
				return err
			}
			c.raw("}")
		}
		c.raw("]")
	}
	v := o.get("tool_choice")
	if v == nil {
		return nil
	}
	c.key("tool_choice")
	if v.Kind() != '{' {
		c.value(v)
		return nil
	}
	choice, err := readObject(v, "tool_choice")
	if err != nil {
		return err
	}
	c.raw("{")
	if v := choice.get("type"); v != nil {
		c.key("type").value(v)
	}
	if err := c.function(choice, "name"); err != nil {
		return err
	}
	if err := c.allowed(choice); err != nil {
		return err
	}
	c.raw("}")
	return nil
}

// function writes members of the object's function as members of the object.
func (c *chatRequest) function(o object, names ...string) error {
	v := o.get("function")
	if v == nil {
		return nil
	}
	f, err := readObject(v, o.at("function"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if v := f.get(name); v != nil {
			c.key(name).value(v)
		}
		c.from(o.at(name), f.at(name))
	}
	return nil
}

// allowed writes the members of a choice's allowed_tools.
func (c *chatRequest) allowed(choice object) error {
	v := choice.get("allowed_tools")
	if v == nil {
		return nil
	}
	allowed, err := readObject(v, "tool_choice.allowed_tools")
	if err != nil {
		return err
	}
	if v := allowed.get("mode"); v != nil {
		c.key("mode").value(v)
	}
	c.from("tool_choice.mode", allowed.at("mode"))
	c.from("tool_choice.tools", allowed.at("tools"))
	v = allowed.get("tools")
	if v == nil {
		return nil
	}
	list, err := readArray(v, allowed.at("tools"))
	if err != nil {
		return err
	}
	c.key("tools").raw("[")
	for i, v := range list {
		tool, err := readObject(v, at(allowed.at("tools"), i))
		if err != nil {
			return err
		}
		c.element().raw("{")
		if v := tool.get("type"); v != nil {
			c.key("type").value(v)
		}
		if v := tool.get("function"); v != nil {
			f, err := readObject(v, tool.at("function"))
			if err != nil {
				return err
			}
			if v := f.get("name"); v != nil {
				c.key("name").value(v)
			}
			c.from(at("tool_choice.tools", i)+".name", f.at("name"))
		}
		c.raw("}")
	}
	c.raw("]")
	return nil
}

// format translates response_format and verbosity.
func (c *chatRequest) format(o object) error {
	format, verbosity := o.get("response_format"), o.get("verbosity")
	if format == nil && verbosity == nil {
		return nil
	}
	c.key("text").raw("{")
	if verbosity != nil {
		c.key("verbosity").value(verbosity)
		c.from("text.verbosity", "verbosity")
	}
	if format != nil {
		f, err := readObject(format, "response_format")
		if err != nil {
			return err
		}
		c.from("text.format", "response_format")
		c.key("format").raw("{")
		if v := f.get("type"); v != nil {
			c.key("type").value(v)
		}
		if v := f.get("json_schema"); v != nil {
			schema, err := readObject(v, "response_format.json_schema")
			if err != nil {
				return err
			}
			for _, name := range []string{"name", "description", "schema", "strict"} {
				if v := schema.get(name); v != nil {
					c.key(name).value(v)
				}
				c.from("text.format."+name, schema.at(name))
			}
		}
		c.raw("}")
	}
	c.raw("}")
	return nil
}

// message translates one message into one or more items of input.
func (c *chatRequest) message(v jsonx.Value, path string) error {
	m, err := readObject(v, path)
	if err != nil {
		return err
	}
	role, err := m.word("role")
	if err != nil {
		return err
	}
	switch role {
	case "system", "developer", "user":
		return c.plain(m, role)
	case "assistant":
		return c.assistant(m)
	case "tool":
		return c.result(m)
	case "":
		return missing(m.at("role"), "Send system, developer, user, assistant or tool.")
	case "function":
		return stoa.Errorf(stoa.CodeUnsupportedValue, "Messages of \"function\" are of an earlier form of this format. Send messages of \"tool\".").At(m.at("role"))
	}
	return stoa.Errorf(stoa.CodeInvalidValue, "%q must be system, developer, user, assistant or tool.", m.at("role")).At(m.at("role"))
}

// plain translates a message that has nothing but a content.
func (c *chatRequest) plain(m object, role string) error {
	content := m.get("content")
	if content == nil {
		return missing(m.at("content"), "Send a string or an array of parts.")
	}
	path := c.item(m.path)
	c.key("type").raw(`"message"`).key("role").text(role).key("content")
	if err := c.content(content, m.at("content"), path+".content"); err != nil {
		return err
	}
	c.raw("}")
	return nil
}

// content translates a string or parts.
func (c *chatRequest) content(v jsonx.Value, source, path string) error {
	if v.Kind() != '[' {
		c.value(v)
		return nil
	}
	parts, err := readArray(v, source)
	if err != nil {
		return err
	}
	c.raw("[")
	for i, v := range parts {
		part, err := readObject(v, at(source, i))
		if err != nil {
			return err
		}
		c.element()
		if err := c.part(part, v, at(path, i)); err != nil {
			return err
		}
	}
	c.raw("]")
	return nil
}

// part translates one part. Those that are the same in both formats, and those that
// neither knows, are left as they are.
func (c *chatRequest) part(part object, v jsonx.Value, path string) error {
	kind, err := part.word("type")
	if err != nil {
		return err
	}
	inner := map[string]string{"image_url": "image_url", "file": "file"}[kind]
	if inner == "" || part.get(inner) == nil {
		c.value(v)
		return nil
	}
	o, err := readObject(part.get(inner), part.at(inner))
	if err != nil {
		return err
	}
	if kind == "image_url" {
		c.raw(`{"type":"input_image"`)
		if v := o.get("url"); v != nil {
			c.key("image_url").value(v)
		}
		c.from(path+".image_url", o.at("url"))
		c.copied(o, path, "detail")
	} else {
		c.raw(`{"type":"input_file"`)
		c.copied(o, path, "file_data", "filename", "file_id")
	}
	c.raw("}")
	return nil
}

// copied writes members of an inner object as members of the part at path.
func (c *chatRequest) copied(o object, path string, names ...string) {
	for _, name := range names {
		if v := o.get(name); v != nil {
			c.key(name).value(v)
		}
		c.from(path+"."+name, o.at(name))
	}
}

// assistant translates a message of the assistant: its reasoning, its text, its
// calls.
func (c *chatRequest) assistant(m object) error {
	calls := m.get("tool_calls")
	var list []jsonx.Value
	var err error
	if calls != nil {
		if list, err = readArray(calls, m.at("tool_calls")); err != nil {
			return err
		}
	}
	details, err := c.details(m, list)
	if err != nil {
		return err
	}
	c.before(details, "")
	if err := c.said(m, len(list) > 0); err != nil {
		return err
	}
	for i, v := range list {
		call, err := readObject(v, at(m.at("tool_calls"), i))
		if err != nil {
			return err
		}
		if i > 0 {
			id, err := call.word("id")
			if err != nil {
				return err
			}
			c.before(details, id)
		}
		if err := c.call(call); err != nil {
			return err
		}
	}
	return nil
}

// call translates a tool call.
func (c *chatRequest) call(call object) error {
	if kind, err := call.word("type"); err != nil {
		return err
	} else if kind != "" && kind != "function" {
		return stoa.Errorf(stoa.CodeUnsupportedValue, "Only calls of functions are supported.").At(call.at("type"))
	}
	path := c.item(call.path)
	c.key("type").raw(`"function_call"`)
	if v := call.get("id"); v != nil {
		c.key("call_id").value(v)
	}
	c.from(path+".call_id", call.at("id"))
	if v := call.get("function"); v != nil {
		f, err := readObject(v, call.at("function"))
		if err != nil {
			return err
		}
		c.copied(f, path, "name", "arguments")
	}
	c.raw("}")
	return nil
}

// said writes the text of an assistant's message, if it has any.
func (c *chatRequest) said(m object, calls bool) error {
	content, refusal := m.get("content"), m.get("refusal")
	source := m.at("content")
	switch {
	case content == nil && refusal != nil:
		content, source = refusal, m.at("refusal")
	case content == nil && calls, calls && string(content) == `""`:
		return nil
	case content == nil:
		return missing(m.at("content"), "Send a string, an array of parts or \"tool_calls\".")
	}
	path := c.item(m.path)
	c.from(path+".content", source)
	c.key("type").raw(`"message"`).key("role").raw(`"assistant"`).key("content")
	if err := c.content(content, source, path+".content"); err != nil {
		return err
	}
	c.raw("}")
	return nil
}

// A detail is sealed reasoning that a client sends back.
type detail struct {
	call   string // the id of the call that it comes before; empty: before everything
	sealed jsonx.Value
	source string
}

// details returns the sealed reasoning of a message: of reasoning_details or, of
// clients that keep nothing else, of the calls.
func (c *chatRequest) details(m object, calls []jsonx.Value) ([]detail, error) {
	var found []detail
	ids := make([]string, len(calls))
	for i, v := range calls {
		ids[i] = idOf(v)
	}
	if v := m.get("reasoning_details"); v != nil && v.Kind() == '[' {
		list, err := readArray(v, m.at("reasoning_details"))
		if err != nil {
			return nil, err
		}
		for i, v := range list {
			if v.Kind() != '{' {
				continue // of another service
			}
			o, err := readObject(v, at(m.at("reasoning_details"), i))
			if err != nil {
				return nil, err
			}
			before, _ := o.word("id") // of another service, it may be anything
			if len(ids) == 0 || before == ids[0] || !slices.Contains(ids, before) {
				before = ""
			}
			if sealed := o.get("data"); isSealed(sealed) {
				found = append(found, detail{before, sealed, o.at("data")})
			}
		}
	}
	if found != nil {
		return found, nil
	}
	for i, v := range calls {
		signature, path := signatureOf(v, at(m.at("tool_calls"), i))
		before := ids[i]
		if i == 0 {
			before = ""
		}
		for sealed := range strings.SplitSeq(signature, " ") {
			if v := jsonx.Value(jsonx.AppendString(nil, sealed)); isSealed(v) {
				found = append(found, detail{before, v, path})
			}
		}
	}
	return found, nil
}

// before writes the reasoning that comes before a call; with an empty id, before
// everything.
func (c *chatRequest) before(details []detail, call string) {
	for _, d := range details {
		if d.call == call {
			c.sealed(d.sealed, d.source)
		}
	}
}

// idOf returns the id of a call, as far as it has one.
func idOf(v jsonx.Value) string {
	var call struct {
		ID jsonx.Value `json:"id"`
	}
	if jsonx.Unmarshal(v, &call) != nil || call.ID.Kind() != '"' {
		return ""
	}
	s, _ := readText(call.ID, "")
	return s
}

// signatureOf returns the text at extra_content.google.thought_signature of a call,
// and its path; empty if there is none.
func signatureOf(v jsonx.Value, path string) (signature, at string) {
	var call struct {
		Extra struct {
			Google struct {
				Signature jsonx.Value `json:"thought_signature"`
			} `json:"google"`
		} `json:"extra_content"`
	}
	path += ".extra_content.google.thought_signature"
	if jsonx.Unmarshal(v, &call) != nil || call.Extra.Google.Signature.Kind() != '"' {
		return "", path
	}
	s, _ := readText(call.Extra.Google.Signature, path)
	return s, path
}

// result translates the message of a tool.
func (c *chatRequest) result(m object) error {
	path := c.item(m.path)
	c.key("type").raw(`"function_call_output"`)
	if v := m.get("tool_call_id"); v != nil {
		c.key("call_id").value(v)
	}
	c.from(path+".call_id", m.at("tool_call_id"))
	c.from(path+".output", m.at("content"))
	if v := m.get("content"); v != nil {
		c.key("output")
		if err := c.content(v, m.at("content"), path+".output"); err != nil {
			return err
		}
	}
	c.raw("}")
	return nil
}
