package responses

import (
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// ParseChat parses the body of POST /chat/completions.
func ParseChat(body []byte, o Options) (*Request, error) {
	m := &chatMaker{}
	return parseOther(body, o, m, func(p *parser, top object) { (&chatRequest{p}).request(top, m) })
}

type chatRequest struct{ *parser }

func (c *chatRequest) request(o object, m *chatMaker) {
	c.refused(o)
	o.take(c.member, "model", "temperature", "top_p", "stream", "parallel_tool_calls", "metadata", "user", "store", "frequency_penalty", "presence_penalty", "top_logprobs", "prompt_cache_key", "prompt_cache_options", "moderation", "safety_identifier", "service_tier", "strict_model")
	limit := "max_completion_tokens" // the newer one takes precedence
	if o.find(limit) == nil {
		limit = "max_tokens"
	}
	o.take(c.member, limit+">max_output_tokens")
	options, _ := o.inner("stream_options")
	if v := options.get("include_usage"); v != nil {
		if m.usage = v.Kind() == 't'; !m.usage && v.Kind() != 'f' {
			c.fail(wrongType(options.at("include_usage"), "true or false"))
		}
	}
	options.done()
	if v := o.get("tools"); v != nil {
		list := toolList{path: "tools", seen: map[string]bool{}}
		o.each("tools", func(tool object) { c.tool(&list, tool) })
		c.fail(c.setTools(&list, len(v)))
	}
	c.choice(o)
	o.take(c.verbosity, "verbosity")
	c.format(o)
	o.take(c.effort, "reasoning_effort")
	o.take(c.member, "stop")
	if o.find("messages") == nil {
		c.fail(missing("messages", "Send at least one message."))
	}
	c.rename("input", "messages")
	o.each("messages", c.message)
	c.fail(c.endInput("messages"))
}

// refused fails for unsupported members that would change a reply.
func (c *chatRequest) refused(o object) {
	o.refuse(
		refusal{"audio", "Audio is not supported. Leave \"audio\" out."},
		refusal{"function_call", "\"function_call\" is of an earlier form of this format. Send \"tool_choice\"."},
		refusal{"functions", "\"functions\" is of an earlier form of this format. Send \"tools\"."},
		refusal{"prediction", "Predicted output is not supported. Leave \"prediction\" out."},
		refusal{"web_search_options", "Web search is not supported. Leave \"web_search_options\" out."},
	)
	if v := o.get("logit_bias"); v != nil && !isEmpty(v, '{', '[') {
		c.fail(unsupported("logit_bias", "Biases of tokens are not supported. Leave \"logit_bias\" out."))
	}
	if v := o.get("n"); v != nil && !isOne(v) {
		c.fail(unsupported("n", "A call has one reply. Leave \"n\" out, or send 1."))
	}
	if o.get("logprobs").Kind() == 't' {
		c.fail(unsupported("logprobs", "Log probabilities are not supported. Leave \"logprobs\" out."))
	}
	for i, m := range o.list("modalities") {
		if string(m) != `"text"` {
			c.fail(unsupportedValue(at("modalities", i), "Replies are text. Leave \"modalities\" out, or send [\"text\"]."))
		}
	}
}

func (c *chatRequest) tool(list *toolList, tool object) {
	d := &declaration{place: place{path: tool.path}}
	var in object
	names := []string{"name"}
	if string(tool.get("type")) == `"custom"` {
		names = []string{"name", "description"}
		in = c.required(tool, "custom")
		c.grammarOf(d, in)
	} else if in = c.nested(tool); tool.find("function") != nil {
		names = []string{"name", "description", "parameters", "strict"}
	}
	d.other = map[string]string{"name": in.at("name"), "parameters": in.at("parameters")}
	member := func(name, path string) error { return c.declaredMember(d, name, path) }
	tool.take(member, "type")
	in.take(member, names...)
	if len(names) > 1 {
		in.done()
	}
	if d.kind == "function" || d.kind == "custom" {
		tool.done()
	}
	c.fail(c.declare(list, d))
}

func (c *chatRequest) grammarOf(d *declaration, custom object) {
	format, has := custom.inner("format")
	if !has {
		return
	}
	g := &grammar{place: place{path: format.path}}
	in, has := format.inner("grammar")
	if has {
		g.other = map[string]string{"syntax": in.at("syntax"), "definition": in.at("definition")}
	}
	member := func(name, path string) error { return c.grammarMember(g, name, path) }
	format.take(member, "type")
	in.take(member, "syntax", "definition")
	in.done()
	format.done()
	d.grammar = g
}

func (c *chatRequest) required(o object, name string) object {
	in, has := o.inner(name)
	if !has {
		c.fail(missing(o.at(name), "Send an object with the \"name\"."))
	}
	return in
}

// nested returns the object that describes the function of o. For a tool of another kind it is the
// member with the name of the kind, whose name alone is read.
func (c *chatRequest) nested(o object) object {
	in, has := o.inner("function")
	if has {
		return in
	}
	kind := o.word("type")
	if kind == "function" {
		c.fail(missing(o.at(kind), "Send an object with the \"name\" of the function."))
	}
	if o.get(kind).Kind() == '{' {
		in, _ = o.inner(kind)
		return in
	}
	return object{p: c.parser, path: o.path}
}

func (c *chatRequest) choice(o object) {
	if o.get("tool_choice").Kind() != '{' {
		o.take(func(_, path string) error { return c.toolChoice(path) }, "tool_choice")
		return
	}
	choice, _ := o.inner("tool_choice")
	set := &choiceMembers{place: place{choice.path, map[string]string{}}}
	set.named = c.named(choice, &set.place)
	allowed, has := choice.inner("allowed_tools")
	if has {
		set.other["mode"], set.other["tools"] = allowed.at("mode"), allowed.at("tools")
	}
	allowed.take(func(name, path string) error { return c.choiceMember(set, name, path) }, "mode")
	allowed.each("tools", func(tool object) {
		l := place{tool.path, map[string]string{}}
		n := c.named(tool, &l)
		c.fail(c.allow(set, n, l))
	})
	choice.done()
	c.fail(c.choose(set))
}

// named reads the type and the name of a tool that a choice names, and sets the place of the name.
func (c *chatRequest) named(o object, l *place) (n named) {
	in := c.nested(o)
	l.other["name"] = in.at("name")
	member := func(name, path string) error { return c.namedMember(&n, o.path, name, path) }
	o.take(member, "type")
	in.take(member, "name")
	if o.find("function") != nil {
		in.done()
	}
	return n
}

func (c *chatRequest) format(o object) {
	f, has := o.inner("response_format")
	if !has {
		return
	}
	set := c.newFormatMembers(place{path: f.path})
	schema, has := f.inner("json_schema")
	if has {
		set.other = map[string]string{"name": schema.at("name"), "schema": schema.at("schema")}
	}
	member := func(name, path string) error { return c.formatMember(set, name, path) }
	f.take(member, "type")
	schema.take(member, "name", "description", "schema", "strict")
	schema.done()
	f.done()
	c.fail(c.setFormat(set))
}

func (c *chatRequest) message(m object) {
	var echoes []string
	switch role := m.word("role"); role {
	case "system", "developer", "user":
		if m.find("content") == nil {
			c.fail(missing(m.at("content"), "Send a string or an array of parts."))
		}
		c.say(m.path, role, m.parts("content", c.part))
	case "assistant":
		echoes = []string{"annotations", "audio"}
		c.assistant(m)
	case "tool":
		echoes = []string{"name"}
		it := &inputItem{place: place{m.path, map[string]string{"call_id": m.at("tool_call_id"), "output": m.at("content")}}, kind: "function_call_output", tool: &toolItem{}}
		m.take(c.memberOf(it), "tool_call_id>call_id")
		m.output(it, "content", c.part)
		c.add(it)
	case "":
		c.fail(missing(m.at("role"), "Send system, developer, user, assistant or tool."))
	case "function":
		c.fail(unsupportedValue(m.at("role"), "Messages of \"function\" are of an earlier form of this format. Send messages of \"tool\"."))
	default:
		c.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q must be system, developer, user, assistant or tool.", m.at("role")).At(m.at("role")))
	}
	m.done(echoes...)
}

// part reads one part. Parts that are the same in the Responses format, or unknown to both, are
// parsed as they are.
func (c *chatRequest) part(o object) stoa.Part {
	kind := o.word("type")
	own, names := "input_image", []string{"url>image_url", "detail"}
	if kind == "file" {
		own, names = "input_file", []string{"file_data", "filename", "file_id"}
	}
	if kind != "image_url" && kind != "file" || o.get(kind) == nil {
		return o.part()
	}
	in, _ := o.inner(kind)
	var m mediaMembers
	in.take(c.mediaMember(&m), names...)
	in.done()
	o.done()
	l := place{o.path, map[string]string{"image_url": in.at("url"), "detail": in.at("detail"), "file_data": in.at("file_data"), "filename": in.at("filename"), "file_id": in.at("file_id")}}
	return c.mediumOf(l, own, &m)
}

func (c *chatRequest) assistant(m object) {
	var calls []object
	m.each("tool_calls", func(call object) { calls = append(calls, call) })
	details := c.details(m, calls)
	// before adds the reasoning that precedes a call; with an empty id, the reasoning before everything.
	before := func(call string) {
		for _, d := range details {
			if d.call == call {
				c.sealed(d.sealed, d.source)
			}
		}
	}
	before("")
	content, refusal := m.get("content"), m.get("refusal")
	switch {
	case content == nil && refusal != nil:
		c.say(m.path, "assistant", m.parts("refusal", c.part))
	case calls != nil && (content == nil || string(content) == `""`):
	case content != nil:
		c.say(m.path, "assistant", m.parts("content", c.part))
	default:
		var all map[string]jsonx.Value
		if jsonx.Unmarshal(m.value, &all) != nil || all["content"] == nil {
			c.fail(missing(m.at("content"), "Send a string, an array of parts or \"tool_calls\"."))
		}
		c.sayText(m.path, "assistant", "") // null, as in a reply without text
	}
	for i, call := range calls {
		if i > 0 {
			before(call.word("id"))
		}
		c.call(call)
	}
}

func (c *chatRequest) call(call object) {
	var in object
	it := &inputItem{kind: "function_call"}
	argument := "arguments"
	switch kind := call.word("type"); kind {
	case "custom":
		it.kind, argument = "custom_tool_call", "input"
		in = c.required(call, kind)
	case "", "function":
		in = c.nested(call)
	default:
		c.fail(unsupportedValue(call.at("type"), "Only calls of functions and of custom tools are supported."))
		return
	}
	it.place = place{call.path, map[string]string{"call_id": call.at("id"), "name": in.at("name"), argument: in.at(argument)}}
	call.take(c.memberOf(it), "id>call_id")
	in.take(c.memberOf(it), "name", argument)
	in.done()
	call.done("index", "extra_content")
	c.add(it)
}

// A detail is sealed reasoning that a client sends back.
type detail struct {
	call   string // id of the call that follows it; empty means before everything
	sealed string
	source string
}

// details returns the sealed reasoning of a message: from reasoning_details or, because some
// clients keep nothing else, from the calls.
func (c *chatRequest) details(m object, calls []object) (found []detail) {
	ids := make([]string, len(calls))
	for i, call := range calls {
		ids[i], _ = call.maybe("id")
	}
	add := func(before, sealed, source string) {
		if len(ids) == 0 || before == ids[0] || !slices.Contains(ids, before) {
			before = ""
		}
		if strings.HasPrefix(sealed, stoa.SealedPrefix) {
			found = append(found, detail{before, sealed, source})
		}
	}
	if m.get("reasoning_details").Kind() == '[' {
		for i, v := range m.list("reasoning_details") {
			if v.Kind() == '{' { // because that of another service may be anything
				o := c.read(v, at(m.at("reasoning_details"), i))
				before, _ := o.maybe("id")
				sealed, _ := o.maybe("data")
				add(before, sealed, o.at("data"))
			}
		}
	}
	if found != nil {
		return found
	}
	for i, call := range calls {
		var extra struct {
			Google struct {
				Signature jsonx.Value `json:"thought_signature"`
			} `json:"google"`
		}
		var signature string
		if v := call.get("extra_content"); v != nil && jsonx.Unmarshal(v, &extra) == nil && jsonx.Unmarshal(extra.Google.Signature, &signature) == nil {
			for sealed := range strings.SplitSeq(signature, " ") {
				add(ids[i], sealed, call.at("extra_content")+".google.thought_signature")
			}
		}
	}
	return found
}
