package compat

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// Gemini translates the body of a request for Gemini's API. Its path names the model and says
// whether the reply is a stream. A body that is not a JSON object is passed on unchanged, so that
// package responses refuses it.
func Gemini(body []byte, model string, stream bool) (*Translation, error) {
	return translate(body, func(t *translator, o object) error {
		o.camel()
		return (&geminiRequest{translator: t}).write(o, model, stream)
	})
}

// GeminiCount translates the body of a request that counts the tokens of a call: its contents, or
// the whole call.
func GeminiCount(body []byte, model string) (*Translation, error) {
	return translate(body, func(t *translator, o object) error {
		o.camel()
		g := &geminiRequest{translator: t}
		v := o.get("generateContentRequest")
		if v == nil {
			return g.write(o, model, false)
		}
		inner, err := g.object(v, o.at("generateContentRequest"))
		if err == nil {
			err = g.write(inner, model, false)
			g.done(inner)
		}
		return err
	})
}

// Limits of a request, which the contract publishes. Package responses has those of functions.
const (
	maxModel  = 128 // characters
	maxTools  = 128 // lists of functions
	maxSafety = 100 // settings
)

// geminiRequest translates one request.
type geminiRequest struct {
	*translator
	calls []geminiCall
}

// A geminiCall is a call of the conversation. The format does not require ids.
type geminiCall struct {
	id, name string
	own      bool // the client sent the id
	answered bool
}

// object decomposes an object of the format. Its members can be written in snake_case too, as the
// vendor's documentation does.
func (g *geminiRequest) object(v jsonx.Value, path string) (object, error) {
	o, err := readObject(v, path)
	o.camel()
	return o, err
}

// each is [eachIn] with objects of the format.
func (g *geminiRequest) each(v jsonx.Value, path string, do func(o object) error) error {
	return eachIn(v, path, func(_ int, o object) error {
		o.camel()
		return do(o)
	})
}

// write translates a call.
func (g *geminiRequest) write(o object, model string, stream bool) error {
	if err := o.refuse(refusal{"cachedContent", "Caches are not stored here. Send the whole conversation in \"contents\", without \"cachedContent\"."}); err != nil {
		return err
	}
	if model == "" || utf8.RuneCountInString(model) > maxModel {
		return stoa.Errorf(stoa.CodeModelNotFound, "The path names no model. Send one with 1 to %d characters, or \"auto\".", maxModel).At("model")
	}
	o.get("model") // the path has it
	g.key("model").text(model)
	if stream {
		g.key("stream").raw("true")
	}
	g.move("", "strict_model", o, "strictModel")
	if v := string(o.members["serviceTier"]); v == `"standard"` || v == `"unspecified"` { // all calls are
		o.read["serviceTier"] = true
	}
	if err := g.safety(o); err != nil {
		return err
	}
	if err := g.config(o); err != nil {
		return err
	}
	if err := g.tools(o); err != nil {
		return err
	}
	if err := g.choice(o); err != nil {
		return err
	}
	contents := o.get("contents")
	if contents == nil {
		return missing(o.at("contents"), "Send at least one content.")
	}
	g.key("input").raw("[")
	g.from("input", o.at("contents"))
	if err := g.system(o); err != nil {
		return err
	}
	return g.each(contents, o.at("contents"), g.content)
}

// safety refuses settings that would block a reply, since no setting reaches a provider.
func (g *geminiRequest) safety(o object) error {
	v := o.members["safetySettings"] // not read: the receipt names it
	if v == nil {
		return nil
	}
	n := 0
	return g.each(v, o.at("safetySettings"), func(setting object) error {
		if n++; n > maxSafety {
			return stoa.Errorf(stoa.CodeInvalidValue, "%q can have at most %d elements.", o.at("safetySettings"), maxSafety).At(o.at("safetySettings"))
		}
		threshold, err := setting.word("threshold")
		if err == nil && strings.HasPrefix(threshold, "BLOCK_") && threshold != "BLOCK_NONE" {
			err = stoa.Errorf(stoa.CodeUnsupported, "Thresholds that block are not offered, and leaving one out would change what is let through. Send BLOCK_NONE, or leave \"safetySettings\" out.").At(setting.at("threshold"))
		}
		return err
	})
}

// config translates generationConfig.
func (g *geminiRequest) config(o object) error {
	v := o.get("generationConfig")
	if v == nil {
		return nil
	}
	config, err := g.object(v, o.at("generationConfig"))
	if err != nil {
		return err
	}
	if err := config.refuse(
		refusal{"responseFormat", "\"responseFormat\" is not supported. Send \"responseMimeType\" and a schema."},
		refusal{"speechConfig", "Replies are text. Leave \"speechConfig\" out."},
		refusal{"imageConfig", "Replies are text. Leave \"imageConfig\" out."},
	); err != nil {
		return err
	}
	if v := config.get("candidateCount"); v != nil && !isOne(v) {
		return stoa.Errorf(stoa.CodeUnsupported, "A call has one reply. Leave \"candidateCount\" out, or send 1.").At(config.at("candidateCount"))
	}
	if v := config.get("responseLogprobs"); v != nil && v.Kind() == 't' {
		return stoa.Errorf(stoa.CodeUnsupported, "Log probabilities are not supported. Leave \"responseLogprobs\" out.").At(config.at("responseLogprobs"))
	}
	if v := config.get("responseModalities"); v != nil {
		list, err := readArray(v, config.at("responseModalities"))
		if err != nil {
			return err
		}
		for i, m := range list {
			if !strings.EqualFold(string(m), `"text"`) {
				return stoa.Errorf(stoa.CodeUnsupportedValue, "Replies are text. Leave \"responseModalities\" out, or send [\"TEXT\"].").At(at(config.at("responseModalities"), i))
			}
		}
	}
	for _, m := range [][2]string{
		{"temperature", "temperature"},
		{"topP", "top_p"},
		{"topK", "top_k"},
		{"maxOutputTokens", "max_output_tokens"},
		{"stopSequences", "stop"},
		{"presencePenalty", "presence_penalty"},
		{"frequencyPenalty", "frequency_penalty"},
	} {
		g.move("", m[1], config, m[0])
	}
	if err := g.thinking(config); err != nil {
		return err
	}
	if err := g.format(config); err != nil {
		return err
	}
	g.done(config)
	return nil
}

// thinking translates thinkingConfig. A level takes precedence over a budget.
func (g *geminiRequest) thinking(config object) error {
	v := config.get("thinkingConfig")
	if v == nil {
		return nil
	}
	thinking, err := g.object(v, config.at("thinkingConfig"))
	if err != nil {
		return err
	}
	effort := ""
	if v := thinking.get("thinkingBudget"); v != nil {
		path := thinking.at("thinkingBudget")
		budget, err := strconv.ParseInt(string(v), 10, 64)
		switch {
		case err != nil || budget < -1:
			return stoa.Errorf(stoa.CodeInvalidValue, "%q must be a number of tokens, or -1.", path).At(path)
		case budget == 0:
			effort = "none"
		case budget > 0:
			effort = effortOf(budget)
		}
		g.from("reasoning.effort", path)
	}
	level, err := thinking.word("thinkingLevel")
	if err != nil {
		return err
	}
	if level != "" && level != "THINKING_LEVEL_UNSPECIFIED" {
		path := thinking.at("thinkingLevel")
		if effort = strings.ToLower(level); !slices.Contains([]string{"minimal", "low", "medium", "high"}, effort) {
			return stoa.Errorf(stoa.CodeInvalidValue, "%q must be MINIMAL, LOW, MEDIUM or HIGH.", path).At(path)
		}
	}
	shown := thinking.get("includeThoughts").Kind() == 't'
	g.done(thinking)
	if effort == "" && !shown {
		return nil
	}
	g.key("reasoning").raw("{")
	if effort != "" {
		g.key("effort").text(effort)
	}
	if shown {
		g.key("summary").raw(`"auto"`)
	}
	g.raw("}")
	return nil
}

// format translates the media type of the reply and its schema.
func (g *geminiRequest) format(config object) error {
	kind, err := config.word("responseMimeType")
	if err != nil {
		return err
	}
	name := "responseJsonSchema"
	schema := config.get(name)
	own := config.get("responseSchema")
	if schema == nil && own != nil {
		name, schema = "responseSchema", own
	}
	path := config.at("responseMimeType")
	switch {
	case kind == "application/json", kind == "" && schema != nil:
	case kind == "", kind == "text/plain" && schema == nil:
		return nil
	case kind == "text/plain":
		return stoa.Errorf(stoa.CodeInvalidValue, "A reply with a schema is JSON. Send \"application/json\".").At(path)
	default:
		return stoa.Errorf(stoa.CodeUnsupportedValue, "Replies are text or JSON. Send \"text/plain\" or \"application/json\".").At(path)
	}
	g.from("text.format", path)
	if schema == nil {
		g.key("text").raw(`{"format":{"type":"json_object"}}`)
		return nil
	}
	g.from("text.format.schema", config.at(name))
	g.key("text").raw(`{"format":{"type":"json_schema","name":"reply","schema":`)
	if name == "responseSchema" {
		err = g.schema(schema, config.at(name))
	} else {
		g.value(schema)
	}
	g.raw("}}")
	return err
}

// tools translates the functions. Tools that the vendor runs become tools without settings, so
// that the parser leaves them out or refuses them.
func (g *geminiRequest) tools(o object) error {
	v := o.get("tools")
	if v == nil {
		return nil
	}
	n, lists := 0, 0
	g.key("tools").raw("[")
	g.from("tools", o.at("tools"))
	err := g.each(v, o.at("tools"), func(tool object) error {
		if lists++; lists > maxTools {
			return stoa.Errorf(stoa.CodeInvalidValue, "%q can have at most %d elements.", o.at("tools"), maxTools).At(o.at("tools"))
		}
		if v := tool.get("functionDeclarations"); v != nil {
			if err := g.each(v, tool.at("functionDeclarations"), func(f object) error {
				g.from(at("tools", n), f.path)
				n++
				return g.function(f, at("tools", n-1))
			}); err != nil {
				return err
			}
		}
		for _, name := range tool.order {
			switch {
			case name == "functionDeclarations":
				continue
			case name == "computerUse": // the client runs it
				return stoa.Errorf(stoa.CodeUnsupported, "The tool \"computerUse\" is not supported. Declare functions instead.").At(tool.at(name))
			}
			g.from(at("tools", n)+".type", tool.at(name))
			n++
			g.element().raw(`{"type":`).text(name).raw("}")
		}
		return nil
	})
	g.raw("]")
	return err
}

// function translates a declaration.
func (g *geminiRequest) function(f object, path string) error {
	g.element().raw(`{"type":"function"`)
	g.copy(f, "name", "description")
	source := "parametersJsonSchema"
	schema := f.get(source)
	own := f.get("parameters")
	var err error
	switch {
	case schema != nil:
		g.key("parameters").value(schema)
	case own != nil:
		source = "parameters"
		g.key("parameters")
		err = g.schema(own, f.at(source))
	}
	g.from(join(path, "parameters"), f.at(source))
	g.raw("}")
	g.done(f)
	return err
}

// choice translates functionCallingConfig.
func (g *geminiRequest) choice(o object) error {
	v := o.get("toolConfig")
	if v == nil {
		return nil
	}
	all, err := g.object(v, o.at("toolConfig"))
	if err != nil {
		return err
	}
	defer g.done(all)
	if v = all.get("functionCallingConfig"); v == nil {
		return nil
	}
	config, err := g.object(v, all.at("functionCallingConfig"))
	if err != nil {
		return err
	}
	mode, err := config.word("mode")
	if err != nil {
		return err
	}
	var names []jsonx.Value
	path := config.at("allowedFunctionNames")
	if v := config.get("allowedFunctionNames"); v != nil {
		if names, err = readArray(v, path); err != nil {
			return err
		}
	}
	g.done(config)
	g.from("tool_choice", config.at("mode"))
	word := "auto"
	switch mode {
	case "", "MODE_UNSPECIFIED", "AUTO":
	case "VALIDATED": // the schemas of functions are only requests here
		g.ignored = append(g.ignored, config.at("mode"))
	case "ANY":
		word = "required"
	case "NONE":
		word, names = "none", nil
	default:
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must be AUTO, ANY, NONE or VALIDATED.", config.at("mode")).At(config.at("mode"))
	}
	g.key("tool_choice")
	switch {
	case len(names) == 0:
		g.text(word)
	case len(names) == 1 && word == "required":
		g.from("tool_choice.name", at(path, 0))
		g.raw(`{"type":"function","name":`).value(names[0]).raw("}")
	default:
		g.from("tool_choice.tools", path)
		g.raw(`{"type":"allowed_tools","mode":`).text(word).raw(`,"tools":[`)
		for i, name := range names {
			g.from(at("tool_choice.tools", i)+".name", at(path, i))
			g.element().raw(`{"type":"function","name":`).value(name).raw("}")
		}
		g.raw("]}")
	}
	return nil
}

// system translates systemInstruction: its texts are one message.
func (g *geminiRequest) system(o object) error {
	v := o.get("systemInstruction")
	if v == nil {
		return nil
	}
	source := o.at("systemInstruction")
	if v.Kind() == '"' {
		text, err := readText(v, source)
		g.message(source, "system", text)
		return err
	}
	content, err := g.object(v, source)
	if err != nil {
		return err
	}
	content.get("role") // some clients send user
	var texts []string
	if v := content.get("parts"); v != nil {
		if err := g.each(v, content.at("parts"), func(part object) error {
			if part.get("text") == nil {
				return stoa.Errorf(stoa.CodeUnsupportedValue, "The system prompt must be text. Send {\"text\":\"…\"}.").At(part.path)
			}
			text, err := part.word("text")
			texts = append(texts, text)
			g.done(part)
			return err
		}); err != nil {
			return err
		}
	}
	g.done(content)
	if len(texts) > 0 {
		g.message(source, "system", strings.Join(texts, "\n\n"))
	}
	return nil
}

// message writes a message with one text.
func (g *geminiRequest) message(source, role, text string) {
	path := g.item(source)
	g.from(path+".content", source)
	g.key("type").raw(`"message"`).key("role").text(role).key("content").text(text).raw("}")
}
