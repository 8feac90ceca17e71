package compat

import (
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// content translates one content into one or more items of input. Consecutive parts that belong to
// a message become one.
func (g *geminiRequest) content(o object) error {
	role, err := o.word("role")
	if err != nil {
		return err
	}
	switch role {
	case "model":
		role = "assistant"
	case "", "user", "function": // function is a former name for results
		role = "user"
	default:
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must be user or model.", o.at("role")).At(o.at("role"))
	}
	parts := o.get("parts")
	if parts == nil {
		return missing(o.at("parts"), "Send at least one part.")
	}
	g.done(o)
	open, n := "", 0 // the message that is being written
	end := func() {
		if open != "" {
			g.raw("]}")
		}
		open, n = "", 0
	}
	err = g.each(parts, o.at("parts"), func(part object) error {
		if role == "assistant" {
			signature, err := part.word("thoughtSignature")
			if err != nil {
				return err
			}
			if list := sealedIn(signature); len(list) > 0 {
				end()
				for _, v := range list {
					g.sealed(v, part.at("thoughtSignature"))
				}
			}
			if part.get("thought").Kind() == 't' || string(part.members["text"]) == `""` { // the text is not the conversation's
				return nil
			}
		}
		if done, err := g.ownItem(part, role, end); done || err != nil {
			return err
		}
		if open == "" {
			open = g.item(o.path)
			g.key("type").raw(`"message"`).key("role").text(role).key("content").raw("[")
		}
		path := at(open+".content", n)
		n++
		g.element()
		return g.part(part, path)
	})
	end()
	return err
}

// ownItem translates a part that becomes a separate item, after end.
func (g *geminiRequest) ownItem(part object, role string, end func()) (done bool, err error) {
	for _, name := range part.order {
		switch name {
		case "functionCall", "functionResponse":
			if (name == "functionCall") != (role == "assistant") {
				return true, stoa.Errorf(stoa.CodeInvalidValue, "\"functionCall\" is only allowed in contents of the model, \"functionResponse\" in those of the user.").At(part.at(name))
			}
			end()
			o, err := g.object(part.get(name), part.at(name))
			if err == nil && name == "functionCall" {
				err = g.call(o)
			} else if err == nil {
				err = g.result(o)
			}
			g.done(part)
			return true, err
		case "executableCode", "codeExecutionResult", "toolCall", "toolResponse": // records of the vendor's tools
			end()
			path := g.item(part.path)
			g.from(path+".type", part.at(name))
			g.raw(`"type":`).text(name + "_call").raw("}")
			return true, nil
		}
	}
	return false, nil
}

// call translates a functionCall. Without an id it gets one that depends on its place only, so
// that it is the same in later requests.
func (g *geminiRequest) call(o object) error {
	id, err := o.word("id")
	if err != nil {
		return err
	}
	name, err := o.word("name")
	if err != nil {
		return err
	}
	own := id != ""
	if !own {
		id = "gemini_call_" + strconv.Itoa(len(g.calls))
	}
	g.calls = append(g.calls, geminiCall{id: id, name: name, own: own})
	path := g.item(o.path)
	g.from(path+".call_id", o.path)
	g.from(path+".arguments", o.at("args"))
	g.key("type").raw(`"function_call"`).key("call_id").text(id)
	g.copy(o, "name")
	arguments := "{}"
	if v := o.get("args"); v != nil {
		if v.Kind() != '{' {
			return wrongType(o.at("args"), "an object")
		}
		if arguments, err = compact(v); err != nil {
			return err
		}
	}
	g.key("arguments").text(arguments).raw("}")
	g.done(o)
	return nil
}

// compact returns JSON without white space.
func compact(v jsonx.Value) (string, error) {
	v = v.Clone() // Compact changes it
	if err := v.Compact(); err != nil {
		return "", notJSON(err)
	}
	return string(v), nil
}

// answered returns the id of the call that a result belongs to: the unanswered one with its id or,
// since clients make ids up that the call does not have, the first unanswered one of its name.
func (g *geminiRequest) answered(id, name string) string {
	found := -1
	for i, c := range g.calls {
		switch {
		case c.answered:
		case id != "" && c.own && c.id == id:
			g.calls[i].answered = true
			return id
		case found < 0 && c.name == name && (id == "" || !c.own):
			found = i
		}
	}
	if found < 0 {
		return id
	}
	g.calls[found].answered = true
	return g.calls[found].id
}

// result translates a functionResponse.
func (g *geminiRequest) result(o object) error {
	id, err := o.word("id")
	if err != nil {
		return err
	}
	name, err := o.word("name")
	if err != nil {
		return err
	}
	if o.get("willContinue").Kind() == 't' {
		return stoa.Errorf(stoa.CodeUnsupported, "A call has one response. Send the whole response, without \"willContinue\".").At(o.at("willContinue"))
	}
	if id = g.answered(id, name); id == "" {
		return stoa.Errorf(stoa.CodeInvalidValue, "No unanswered call of this function comes before its response. Send the model's call too, before the response.").At(o.at("name"))
	}
	path := g.item(o.path)
	g.from(path+".call_id", o.path)
	g.from(path+".output", o.at("response"))
	g.key("type").raw(`"function_call_output"`).key("call_id").text(id)
	text, failed, err := output(o)
	if err != nil {
		return err
	}
	if failed {
		g.key("is_error").raw("true")
	}
	g.key("output")
	v := o.get("parts")
	g.done(o)
	if v == nil {
		g.text(text).raw("}")
		return nil
	}
	n := 0
	g.raw("[")
	if text != "" {
		n++
		g.raw(`{"type":"input_text","text":`).text(text).raw("}")
	}
	err = g.each(v, o.at("parts"), func(part object) error {
		g.element()
		n++
		return g.part(part, at(path+".output", n-1))
	})
	g.raw("]}")
	return err
}

// output returns the text of a response: the value of its only member if that is "output" or
// "error", else all of it.
func output(o object) (text string, failed bool, err error) {
	v := o.get("response")
	if v == nil {
		return "", false, nil
	}
	response, err := readObject(v, o.at("response"))
	if err != nil {
		return "", false, err
	}
	if len(response.members) == 1 {
		for _, name := range []string{"output", "error"} {
			if only := response.get(name); only != nil {
				v, failed = only, name == "error"
			}
		}
	}
	if v.Kind() == '"' {
		text, err = readText(v, o.at("response"))
		return text, failed, err
	}
	text, err = compact(v)
	return text, failed, err
}

// part translates a text, or the content or the address of a medium.
func (g *geminiRequest) part(part object, path string) error {
	g.from(path, part.path)
	if part.get("text") != nil {
		g.raw(`{"type":"input_text"`)
		g.copy(part, "text")
		g.raw("}")
		g.done(part)
		return nil
	}
	name := "inlineData"
	v := part.get(name)
	if v == nil {
		name = "fileData"
		v = part.get(name)
	}
	if v == nil { // the parser refuses it
		name = "part"
		if len(part.order) > 0 {
			name = part.order[0]
		}
		g.from(path+".type", part.path)
		g.raw(`{"type":`).text(name).raw("}")
		return nil
	}
	source, err := g.object(v, part.at(name))
	if err != nil {
		return err
	}
	if err := g.medium(source, path, name == "inlineData"); err != nil {
		return err
	}
	g.done(source)
	g.done(part)
	return nil
}

// medium writes an image or a file.
func (g *geminiRequest) medium(source object, path string, inline bool) error {
	kind, err := source.word("mimeType")
	if err != nil {
		return err
	}
	if strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "video/") {
		return stoa.Errorf(stoa.CodeUnsupportedValue, "Audio and video are not supported. Send a text, an image or a document.").At(source.at("mimeType"))
	}
	name := "fileUri"
	if inline {
		name = "data"
	}
	value, err := source.word(name)
	switch {
	case err != nil:
		return err
	case value == "":
		return missing(source.at(name), "Send the content in \"inlineData\", or its address in \"fileData\".")
	case inline:
		value = "data:" + kind + ";base64," + plainBase64(value)
	case strings.HasPrefix(value, "gs://"), strings.HasPrefix(value, "files/"), strings.HasPrefix(value, "https://generativelanguage.googleapis.com/"):
		return stoa.Errorf(stoa.CodeUnsupportedValue, "Files of Google's services cannot be read here. Send the content itself, in \"inlineData\".").At(source.at(name))
	}
	g.from(path+".type", source.path)
	member := "image_url"
	if strings.HasPrefix(kind, "image/") {
		g.raw(`{"type":"input_image"`)
		source.get("displayName")
	} else {
		member = "file_url"
		if inline {
			member = "file_data"
		}
		g.raw(`{"type":"input_file"`)
		g.move(path, "filename", source, "displayName")
	}
	g.from(path+"."+member, source.at(name))
	g.key(member).text(value).raw("}")
	return nil
}

// plainBase64 returns base64 in the common alphabet: the format allows the one for addresses too.
func plainBase64(s string) string {
	if !strings.ContainsAny(s, "-_") {
		return s
	}
	return strings.NewReplacer("-", "+", "_", "/").Replace(s)
}
