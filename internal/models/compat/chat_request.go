package compat

import (
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// Chat translates the body of a POST /chat/completions. A body that is not a JSON object is
// passed on unchanged, so that package responses refuses it.
func Chat(body []byte) (*Translation, error) {
	return translate(body, func(t *translator, o object) error { return (&chatRequest{t}).write(o) })
}

// chatRequest translates one request.
type chatRequest struct{ *translator }

// write translates the body.
func (c *chatRequest) write(o object) error {
	if err := refuseOfChat(o); err != nil {
		return err
	}
	c.copy(o, "model", "temperature", "top_p", "stream", "parallel_tool_calls", "metadata", "user", "store", "frequency_penalty", "presence_penalty", "top_logprobs", "prompt_cache_key", "prompt_cache_options", "moderation", "safety_identifier", "service_tier", "strict_model")
	for _, limit := range []string{"max_completion_tokens", "max_tokens"} { // the newer one takes precedence
		if o.get(limit) != nil {
			c.move("", "max_output_tokens", o, limit)
			break
		}
	}
	for _, part := range []func(object) error{c.options, c.tools, c.choice, c.format} {
		if err := part(o); err != nil {
			return err
		}
	}
	if v := o.get("reasoning_effort"); v != nil {
		c.key("reasoning").raw(`{"effort":`).value(v).raw("}")
		c.from("reasoning.effort", "reasoning_effort")
	}
	if v := o.get("stop"); v.Kind() == '"' {
		c.key("stop").raw("[").value(v).raw("]")
		c.from("stop[0]", "stop")
	} else {
		c.copy(o, "stop")
	}
	messages, err := c.openInput(o)
	if err != nil {
		return err
	}
	return each(messages, "messages", func(_ int, m object) error { return c.message(m) })
}

// refuseOfChat returns an error for unsupported members that would change a reply.
func refuseOfChat(o object) error {
	if err := o.refuse(
		refusal{"audio", "Audio is not supported. Leave \"audio\" out."},
		refusal{"function_call", "\"function_call\" is of an earlier form of this format. Send \"tool_choice\"."},
		refusal{"functions", "\"functions\" is of an earlier form of this format. Send \"tools\"."},
		refusal{"prediction", "Predicted output is not supported. Leave \"prediction\" out."},
		refusal{"web_search_options", "Web search is not supported. Leave \"web_search_options\" out."},
	); err != nil {
		return err
	}
	refuse := func(name, advice string) error { return stoa.Errorf(stoa.CodeUnsupported, "%s", advice).At(name) }
	if v := o.get("logit_bias"); v != nil && !isEmpty(v, '{', '[') {
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

// options reads stream_options.
func (c *chatRequest) options(o object) error {
	v := o.get("stream_options")
	if v == nil {
		return nil
	}
	options, err := readObject(v, "stream_options")
	if err != nil {
		return err
	}
	if v = options.get("include_usage"); v == nil {
		c.done(options)
		return nil
	}
	if v.Kind() != 't' && v.Kind() != 'f' {
		return wrongType("stream_options.include_usage", "true or false")
	}
	c.includeUsage = v.Kind() == 't'
	c.done(options)
	return nil
}

// tools translates the tools, whose functions are nested one level deeper.
func (c *chatRequest) tools(o object) error {
	v := o.get("tools")
	if v == nil {
		return nil
	}
	c.key("tools").raw("[")
	err := eachIn(v, "tools", func(_ int, tool object) error {
		c.element().raw("{")
		c.copy(tool, "type")
		var err error
		if string(tool.get("type")) == `"custom"` {
			err = c.custom(tool)
		} else {
			err = c.function(tool.path, tool, "name", "description", "parameters", "strict")
		}
		c.raw("}")
		if kind := string(tool.get("type")); kind == `"function"` || kind == `"custom"` {
			c.done(tool)
		}
		return err
	})
	c.raw("]")
	return err
}

// custom writes the members of a custom tool, whose grammar is nested one level deeper too.
func (c *chatRequest) custom(tool object) error {
	custom, err := c.inner(tool, "custom")
	if err != nil {
		return err
	}
	c.copyTo(tool.path, custom, "name", "description")
	v := custom.get("format")
	c.done(custom)
	if v == nil {
		return nil
	}
	format, err := readObject(v, custom.at("format"))
	if err != nil {
		return err
	}
	path := join(tool.path, "format")
	c.from(path, format.path)
	c.key("format").raw("{")
	c.copy(format, "type")
	if format.get("grammar") != nil {
		grammar, err := c.inner(format, "grammar")
		if err != nil {
			return err
		}
		c.copyTo(path, grammar, "syntax", "definition")
		c.done(grammar)
	}
	c.done(format)
	c.raw("}")
	return nil
}

// inner returns an object that a member of another one requires.
func (c *chatRequest) inner(o object, name string) (object, error) {
	v := o.get(name)
	if v == nil {
		return object{}, missing(o.at(name), "Send an object with the \"name\".")
	}
	return readObject(v, o.at(name))
}

// choice translates tool_choice, whose functions are nested one level deeper too.
func (c *chatRequest) choice(o object) error {
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
	c.copy(choice, "type")
	if err := c.function(choice.path, choice, "name"); err != nil {
		return err
	}
	if err := c.allowed(choice); err != nil {
		return err
	}
	c.done(choice)
	c.raw("}")
	return nil
}

// function writes members of the object's function into the object at path; for a tool of
// another kind, its name.
func (c *chatRequest) function(path string, o object, names ...string) error {
	kind, v := "function", o.get("function")
	if v == nil {
		var err error
		if kind, err = o.word("type"); err != nil {
			return err
		}
		if kind == "function" {
			return missing(o.at("function"), "Send an object with the \"name\" of the function.")
		}
		if v = o.get(kind); v.Kind() != '{' {
			return nil
		}
		names = []string{"name"}
	}
	f, err := readObject(v, o.at(kind))
	if err != nil {
		return err
	}
	c.copyTo(path, f, names...)
	if kind == "function" {
		c.done(f)
	}
	return nil
}

// allowed writes the members of a choice's allowed_tools.
func (c *chatRequest) allowed(choice object) error {
	v := choice.get("allowed_tools")
	if v == nil {
		return nil
	}
	allowed, err := readObject(v, choice.at("allowed_tools"))
	if err != nil {
		return err
	}
	c.copyTo(choice.path, allowed, "mode")
	tools := choice.at("tools")
	c.from(tools, allowed.at("tools"))
	if v = allowed.get("tools"); v == nil {
		return nil
	}
	c.key("tools").raw("[")
	err = eachIn(v, allowed.at("tools"), func(i int, tool object) error {
		c.element().raw("{")
		c.copy(tool, "type")
		err := c.function(at(tools, i), tool, "name")
		c.raw("}")
		return err
	})
	c.raw("]")
	return err
}

// format translates response_format and verbosity.
func (c *chatRequest) format(o object) error {
	format, verbosity := o.get("response_format"), o.get("verbosity")
	if format == nil && verbosity == nil {
		return nil
	}
	c.key("text").raw("{")
	c.copyTo("text", o, "verbosity")
	if format != nil {
		f, err := readObject(format, "response_format")
		if err != nil {
			return err
		}
		c.from("text.format", f.path)
		c.key("format").raw("{")
		c.copy(f, "type")
		if v := f.get("json_schema"); v != nil {
			schema, err := readObject(v, f.at("json_schema"))
			if err != nil {
				return err
			}
			c.copyTo("text.format", schema, "name", "description", "schema", "strict")
			c.done(schema)
		}
		c.done(f)
		c.raw("}")
	}
	c.raw("}")
	return nil
}

// message translates one message into one or more items of input.
func (c *chatRequest) message(m object) error {
	role, err := m.word("role")
	if err != nil {
		return err
	}
	switch role {
	case "system", "developer", "user":
		err = c.plain(m, role)
		c.done(m)
		return err
	case "assistant":
		err = c.assistant(m)
		c.done(m, "annotations", "audio")
		return err
	case "tool":
		err = c.result(m)
		c.done(m, "name")
		return err
	case "":
		return missing(m.at("role"), "Send system, developer, user, assistant or tool.")
	case "function":
		return stoa.Errorf(stoa.CodeUnsupportedValue, "Messages of \"function\" are of an earlier form of this format. Send messages of \"tool\".").At(m.at("role"))
	}
	return stoa.Errorf(stoa.CodeInvalidValue, "%q must be system, developer, user, assistant or tool.", m.at("role")).At(m.at("role"))
}

// plain translates a message that only has a content.
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
	c.raw("[")
	err := eachIn(v, source, func(i int, part object) error {
		c.element()
		return c.part(part, at(path, i))
	})
	c.raw("]")
	return err
}

// part translates one part. Parts that are the same in both formats, or unknown to both, are
// copied.
func (c *chatRequest) part(part object, path string) error {
	kind, err := part.word("type")
	if err != nil {
		return err
	}
	inner := map[string]string{"image_url": "image_url", "file": "file"}[kind]
	if inner == "" || part.get(inner) == nil {
		c.value(part.value)
		return nil
	}
	o, err := readObject(part.get(inner), part.at(inner))
	if err != nil {
		return err
	}
	if kind == "image_url" {
		c.raw(`{"type":"input_image"`)
		c.move(path, "image_url", o, "url")
		c.copyTo(path, o, "detail")
	} else {
		c.raw(`{"type":"input_file"`)
		c.copyTo(path, o, "file_data", "filename", "file_id")
	}
	c.done(o)
	c.done(part)
	c.raw("}")
	return nil
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
	return each(list, m.at("tool_calls"), func(i int, call object) error {
		if i > 0 {
			id, err := call.word("id")
			if err != nil {
				return err
			}
			c.before(details, id)
		}
		return c.call(call)
	})
}

// call translates a tool call.
func (c *chatRequest) call(call object) error {
	kind, err := call.word("type")
	switch {
	case err != nil:
		return err
	case kind == "custom":
		custom, err := c.inner(call, kind)
		if err != nil {
			return err
		}
		path := c.item(call.path)
		c.key("type").raw(`"custom_tool_call"`)
		c.move(path, "call_id", call, "id")
		c.copyTo(path, custom, "name", "input")
		c.done(custom)
		c.done(call, "index", "extra_content")
		c.raw("}")
		return nil
	case kind != "" && kind != "function":
		return stoa.Errorf(stoa.CodeUnsupportedValue, "Only calls of functions and of custom tools are supported.").At(call.at("type"))
	}
	path := c.item(call.path)
	c.key("type").raw(`"function_call"`)
	c.move(path, "call_id", call, "id")
	if err := c.function(path, call, "name", "arguments"); err != nil {
		return err
	}
	c.done(call, "index", "extra_content")
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
	case content == nil && !hasNull(m.value, "content"):
		return missing(m.at("content"), "Send a string, an array of parts or \"tool_calls\".")
	case content == nil: // as in a reply without text
		content = jsonx.Value(`""`)
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

// hasNull reports whether an object has the member, and it is null.
func hasNull(object jsonx.Value, name string) bool {
	var all map[string]jsonx.Value
	return jsonx.Unmarshal(object, &all) == nil && all[name].Kind() == 'n'
}

// A detail is sealed reasoning that a client sends back.
type detail struct {
	call   string // the id of the call that follows it; empty means before everything
	sealed jsonx.Value
	source string
}

// details returns the sealed reasoning of a message: from reasoning_details or, for clients
// that keep nothing else, from the calls.
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

// before writes the reasoning that precedes a call; with an empty id, the reasoning before
// everything.
func (c *chatRequest) before(details []detail, call string) {
	for _, d := range details {
		if d.call == call {
			c.sealed(d.sealed, d.source)
		}
	}
}

// idOf returns the id of a call; empty if it does not have one.
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
// and its path; empty if none exists.
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
	c.move(path, "call_id", m, "tool_call_id")
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
