package responses

import (
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// content reads one content, which becomes one or more items of input. Consecutive parts of a user that belong to a
// message become one. Consecutive texts of the model become one text, also from several contents, because the chats of
// Google's libraries keep each chunk of a stream as a content.
func (g *geminiRequest) content(o object) {
	role := o.word("role")
	switch role {
	case "model":
		role = "assistant"
	case "", "user", "function": // because function is a former name for results
		role = "user"
	default:
		g.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q must be user or model.", o.at("role")).At(o.at("role")))
	}
	if o.get("parts") == nil {
		g.fail(missing(o.at("parts"), "Send at least one part."))
	}
	o.done()
	var parts []stoa.Part
	end := func() {
		g.endText()
		if parts != nil {
			g.say(o.path, role, parts)
		}
		parts = nil
	}
	if role == "user" {
		g.endText()
	}
	o.each("parts", func(part object) {
		if role == "assistant" {
			if list := sealedIn(part.word("thoughtSignature")); list != nil {
				end()
				for _, sealed := range list {
					g.sealed(sealed, part.at("thoughtSignature"))
				}
			}
			text := part.find("text")
			if part.get("thought").Kind() == 't' || text != nil && string(text.value) == `""` { // the text is not the conversation's
				return
			}
		}
		for _, m := range part.members {
			switch path := part.join(m.written); m.name {
			case "functionCall", "functionResponse":
				if (m.name == "functionCall") != (role == "assistant") {
					g.fail(stoa.Errorf(stoa.CodeInvalidValue, "\"functionCall\" is only allowed in contents of the model, \"functionResponse\" in those of the user.").At(path))
				}
				end()
				if in, _ := part.inner(m.name); m.name == "functionCall" {
					g.call(in)
				} else {
					g.result(in)
				}
				part.done()
				return
			case "executableCode", "codeExecutionResult", "toolCall", "toolResponse": // records of the vendor's tools
				end()
				g.add(&inputItem{place: place{part.path, map[string]string{"type": path}}, kind: m.name + "_call"})
				return
			}
		}
		p := g.part(part)
		if p.Media != nil && role != "user" {
			g.fail(onlyTexts(part.path))
		}
		if role == "user" {
			parts = g.with(parts, p)
			return
		}
		if g.text.empty() {
			g.textPath = o.path
		}
		g.text.add(p.Text)
	})
	if role == "user" {
		end()
	}
}

// endText adds the text that the model has said since its last call or reasoning.
func (g *geminiRequest) endText() {
	if !g.text.empty() {
		g.say(g.textPath, "assistant", g.one(stoa.Part{Kind: stoa.PartText, Text: g.text.String()}))
		g.text = joined{}
	}
}

// call reads a functionCall. One without an id receives an id that only depends on its place, so that
// it is the same in later requests.
func (g *geminiRequest) call(o object) {
	id := o.word("id")
	own := id != ""
	if !own {
		id = "gemini_call_" + strconv.Itoa(len(g.calls))
	}
	g.fail(checkText(id, o.path, maxCallID))
	g.calls = append(g.calls, geminiCall{id: id, name: o.word("name"), own: own})
	it := &inputItem{
		place: place{o.path, map[string]string{"call_id": o.path}}, kind: "function_call",
		tool: &toolItem{callID: id, arguments: o.arguments("args"), has: []string{"call_id", "arguments"}},
	}
	o.take(g.memberOf(it), "name")
	o.done()
	g.add(it)
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

func (g *geminiRequest) result(o object) {
	id, name := o.word("id"), o.word("name")
	if o.get("willContinue").Kind() == 't' {
		g.fail(unsupported(o.at("willContinue"), "A call has one response. Send the whole response, without \"willContinue\"."))
	}
	if id = g.answered(id, name); id == "" {
		g.fail(stoa.Errorf(stoa.CodeInvalidValue, "No unanswered call of this function comes before its response. Send the model's call too, before the response.").At(o.at("name")))
	}
	g.fail(checkText(id, o.path, maxCallID))
	it := &inputItem{
		place: place{o.path, map[string]string{"call_id": o.path}}, kind: "function_call_output",
		tool: &toolItem{callID: id, has: []string{"call_id", "output"}},
	}
	// The text is the value of the only member if that is "output" or "error", else all of it.
	response, has := o.inner("response")
	if v := response.value; has {
		if len(response.members) == 1 {
			for _, name := range []string{"output", "error"} {
				if only := response.get(name); only != nil {
					v, it.tool.isError = only, name == "error"
				}
			}
		}
		if jsonx.Unmarshal(v, &it.tool.output) != nil { // not a text
			it.tool.output = compacted(v)
		}
		g.fail(checkText(it.tool.output, o.at("response"), maxToolOutput))
	}
	has = o.get("parts") != nil
	o.done()
	if has {
		before := len(g.req.media)
		var parts []stoa.Part
		if it.tool.output != "" {
			parts = append(parts, stoa.Part{Kind: stoa.PartText, Text: it.tool.output})
		}
		o.each("parts", func(in object) { parts = append(parts, g.part(in)) })
		it.tool.output = ""
		g.setOutput(it.tool, parts, before)
	}
	g.add(it)
}

func (g *geminiRequest) part(part object) stoa.Part {
	if part.find("text") != nil {
		text := part.text()
		part.done()
		return text
	}
	source, inline := part.inner("inlineData")
	name := "data"
	if !inline {
		var has bool
		if source, has = part.inner("fileData"); !has {
			g.fail(unsupportedValue(part.path, g.opts.partsText()))
		}
		name = "fileUri"
	}
	kind := source.word("mimeType")
	if strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "video/") {
		g.fail(unsupportedValue(source.at("mimeType"), "Audio and video are not supported. Send a text, an image or a document."))
	}
	value := source.word(name)
	switch {
	case value == "":
		g.fail(missing(source.at(name), "Send the content in \"inlineData\", or its address in \"fileData\"."))
	case inline:
		value = "data:" + kind + ";base64," + plainBase64(value)
	case strings.HasPrefix(value, "gs://"), strings.HasPrefix(value, "files/"), strings.HasPrefix(value, "https://generativelanguage.googleapis.com/"):
		g.fail(unsupportedValue(source.at(name), "Files of Google's services cannot be read here. Send the content itself, in \"inlineData\"."))
	}
	g.fail(checkText(value, source.at(name), 0))
	var m mediaMembers
	own, member := "input_image", "image_url"
	if strings.HasPrefix(kind, "image/") {
		source.get("displayName")
	} else {
		own, member = "input_file", "file_url"
		if inline {
			member = "file_data"
		}
		source.take(g.mediaMember(&m), "displayName>filename")
	}
	*m.member(member) = value
	source.done()
	part.done()
	return g.mediumOf(place{part.path, map[string]string{"type": source.path, member: source.at(name), "filename": source.at("displayName")}}, own, &m)
}

// plainBase64 returns base64 in the common alphabet, because the format also allows that for addresses.
func plainBase64(s string) string {
	if !strings.ContainsAny(s, "-_") {
		return s
	}
	return strings.NewReplacer("-", "+", "_", "/").Replace(s)
}
