package responses

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"stoa/internal/base/stoa"
)

// ParseGemini returns a parser for the body of POST /models/{model}:generateContent and, with
// stream, of :streamGenerateContent; with array its reply is a JSON array instead of events.
func ParseGemini(model string, stream, array bool) func([]byte, Options) (*Request, error) {
	return func(body []byte, o Options) (*Request, error) {
		return parseOther(body, o, geminiMaker{array}, func(p *parser, top object) {
			p.snake = true
			top.camel()
			(&geminiRequest{parser: p}).request(top, model, stream)
		})
	}
}

// ParseGeminiCount returns a parser for the body of POST /models/{model}:countTokens: the contents
// of a call, or the whole call.
func ParseGeminiCount(model string) func([]byte, Options) (*Request, error) {
	return func(body []byte, o Options) (*Request, error) {
		return parseOther(body, o, geminiMaker{}, func(p *parser, top object) {
			p.snake = true
			top.camel()
			call, has := top.inner("generateContentRequest")
			if !has {
				call = top
			}
			(&geminiRequest{parser: p}).request(call, model, false)
			if has {
				call.done()
			}
		})
	}
}

// Limits of a request, which the contract publishes.
const (
	maxToolLists = 128 // lists of functions
	maxSafety    = 100 // settings
)

// geminiRequest reads one request. It also accepts members in snake_case, because the vendor's
// documentation uses them.
type geminiRequest struct {
	*parser
	calls    []geminiCall
	text     joined // of the model, see [geminiRequest.endText]
	textPath string
}

// A geminiCall is a call of the conversation. The format does not require ids.
type geminiCall struct {
	id, name string
	own      bool // the client sent the id
	answered bool
}

func (g *geminiRequest) request(o object, model string, stream bool) {
	o.refuse(refusal{"cachedContent", "Caches are not stored here. Send the whole conversation in \"contents\", without \"cachedContent\"."})
	if model == "" || utf8.RuneCountInString(model) > maxModel {
		g.fail(stoa.Errorf(stoa.CodeModelNotFound, "The path names no model. Send one with 1 to %d characters, or \"auto\".", maxModel).At("model"))
	}
	g.fail(checkText(model, "model", 0))
	o.get("model") // ignored, because the path contains it
	g.req.Model, g.hasModel, g.req.Stream = model, true, stream
	o.take(g.member, "strictModel>strict_model")
	o.accept("serviceTier", "standard", "unspecified") // because all calls are
	g.safety(o)
	g.config(o)
	g.tools(o)
	g.choice(o)
	if o.find("contents") == nil {
		g.fail(missing(o.at("contents"), "Send at least one content."))
	}
	g.rename("input", o.at("contents"))
	g.system(o)
	o.each("contents", g.content)
	g.endText()
	g.fail(g.endInput(o.at("contents")))
}

// safety refuses settings that would block a reply, since no setting reaches a provider.
func (g *geminiRequest) safety(o object) {
	n, path := 0, o.at("safetySettings")
	o.each("safetySettings", func(setting object) {
		if n++; n > maxSafety {
			g.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q can have at most %d elements.", path, maxSafety).At(path))
		}
		if threshold := setting.word("threshold"); strings.HasPrefix(threshold, "BLOCK_") && threshold != "BLOCK_NONE" {
			g.fail(unsupported(setting.at("threshold"), "Thresholds that block are not offered, and leaving one out would change what is let through. Send BLOCK_NONE, or leave \"safetySettings\" out."))
		}
	})
	if m := o.find("safetySettings"); m != nil {
		m.read = false // so that the receipt names it
	}
}

func (g *geminiRequest) config(o object) {
	config, has := o.inner("generationConfig")
	if !has {
		return
	}
	config.refuse(
		refusal{"responseFormat", "\"responseFormat\" is not supported. Send \"responseMimeType\" and a schema."},
		refusal{"speechConfig", "Replies are text. Leave \"speechConfig\" out."},
		refusal{"imageConfig", "Replies are text. Leave \"imageConfig\" out."},
	)
	if v := config.get("candidateCount"); v != nil && !isOne(v) {
		g.fail(unsupported(config.at("candidateCount"), "A call has one reply. Leave \"candidateCount\" out, or send 1."))
	}
	if config.get("responseLogprobs").Kind() == 't' {
		g.fail(unsupported(config.at("responseLogprobs"), "Log probabilities are not supported. Leave \"responseLogprobs\" out."))
	}
	for i, m := range config.list("responseModalities") {
		if !strings.EqualFold(string(m), `"text"`) {
			g.fail(unsupportedValue(at(config.at("responseModalities"), i), "Replies are text. Leave \"responseModalities\" out, or send [\"TEXT\"]."))
		}
	}
	g.rename("max_output_tokens", config.at("maxOutputTokens"))
	config.take(g.member, "temperature", "topP>top_p", "topK>top_k", "maxOutputTokens>max_output_tokens", "stopSequences>stop", "presencePenalty>presence_penalty", "frequencyPenalty>frequency_penalty")
	g.thinking(config)
	g.format(config)
	config.done()
}

// thinking reads thinkingConfig. A level takes precedence over a budget.
func (g *geminiRequest) thinking(config object) {
	thinking, _ := config.inner("thinkingConfig")
	if v := thinking.get("thinkingBudget"); v != nil {
		path := thinking.at("thinkingBudget")
		budget, err := strconv.ParseInt(string(v), 10, 64)
		switch {
		case err != nil || budget < -1:
			g.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q must be a number of tokens, or -1.", path).At(path))
		case budget == 0:
			g.setEffort("none")
		case budget > 0:
			g.setEffort(effortOf(budget))
		}
	}
	if level := thinking.word("thinkingLevel"); level != "" && level != "THINKING_LEVEL_UNSPECIFIED" {
		path := thinking.at("thinkingLevel")
		if g.setEffort(strings.ToLower(level)); !slices.Contains([]string{"minimal", "low", "medium", "high"}, g.req.call.Effort) {
			g.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q must be MINIMAL, LOW, MEDIUM or HIGH.", path).At(path))
		}
	}
	if thinking.get("includeThoughts").Kind() == 't' {
		g.summarize()
	}
	thinking.done()
}

func (g *geminiRequest) format(config object) {
	kind, path := config.word("responseMimeType"), config.at("responseMimeType")
	name := "responseJsonSchema"
	schema, own := config.get(name), config.get("responseSchema")
	if schema == nil && own != nil {
		name, schema = "responseSchema", own
	}
	switch {
	case kind == "application/json", kind == "" && schema != nil:
	case kind == "", kind == "text/plain" && schema == nil:
		return
	case kind == "text/plain":
		g.fail(stoa.Errorf(stoa.CodeInvalidValue, "A reply with a schema is JSON. Send \"application/json\".").At(path))
	default:
		g.fail(unsupportedValue(path, "Replies are text or JSON. Send \"text/plain\" or \"application/json\"."))
	}
	set := &formatMembers{place: place{path: path}, kind: "json_object"}
	if schema != nil {
		set.kind, set.Name, set.hasName, set.other = "json_schema", "reply", true, map[string]string{"schema": config.at(name)}
		g.schema(config, name, func(path string) error { return g.formatMember(set, "schema", path) })
	}
	g.fail(g.setFormat(set))
}

// tools reads the functions. Tools that the vendor runs are left out or refused.
func (g *geminiRequest) tools(o object) {
	v := o.get("tools")
	if v == nil {
		return
	}
	list := toolList{path: o.at("tools"), seen: map[string]bool{}}
	lists := 0
	o.each("tools", func(tool object) {
		if lists++; lists > maxToolLists {
			g.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q can have at most %d elements.", list.path, maxToolLists).At(list.path))
		}
		tool.each("functionDeclarations", func(f object) { g.function(&list, f) })
		for _, m := range tool.members {
			switch path := tool.join(m.written); m.name {
			case "functionDeclarations":
			case "computerUse": // the client runs it
				g.fail(unsupported(path, "The tool \"computerUse\" is not supported. Declare functions instead."))
			default:
				g.fail(g.declare(&list, &declaration{place: place{path, map[string]string{"type": path}}, kind: m.name}))
			}
		}
	})
	g.fail(g.setTools(&list, len(v)))
}

func (g *geminiRequest) function(list *toolList, f object) {
	source := "parametersJsonSchema"
	if f.get("parameters") != nil && f.get(source) == nil {
		source = "parameters"
	}
	d := &declaration{place: place{f.path, map[string]string{"parameters": f.at(source)}}, kind: "function"}
	f.take(func(name, path string) error { return g.declaredMember(d, name, path) }, "name", "description")
	g.schema(f, source, func(path string) error { return g.declaredMember(d, "parameters", path) })
	f.done()
	g.fail(g.declare(list, d))
}

func (g *geminiRequest) choice(o object) {
	all, _ := o.inner("toolConfig")
	config, has := all.inner("functionCallingConfig")
	mode, modePath, path := config.word("mode"), config.at("mode"), config.at("allowedFunctionNames")
	names := config.list("allowedFunctionNames")
	config.done()
	word := "auto"
	switch mode {
	case "", "MODE_UNSPECIFIED", "AUTO":
	case "VALIDATED": // the schemas of functions are only requests here
		g.unused.add(modePath)
	case "ANY":
		word = "required"
	case "NONE":
		word, names = "none", nil
	default:
		g.fail(stoa.Errorf(stoa.CodeInvalidValue, "%q must be AUTO, ANY, NONE or VALIDATED.", modePath).At(modePath))
	}
	all.done()
	set := &choiceMembers{place: place{modePath, map[string]string{"name": at(path, 0), "tools": path}}, mode: word}
	one := len(names) == 1 && word == "required"
	for i, v := range names {
		n, at := named{kind: "function"}, at(path, i)
		g.fail(g.within(v, func() error { return g.namedMember(&n, at, "name", at) }))
		if set.named = n; !one {
			set.named = named{kind: "allowed_tools"}
			g.fail(g.allow(set, n, place{at, map[string]string{"name": at}}))
		}
	}
	switch {
	case names != nil:
		g.fail(g.choose(set))
	case has:
		g.fail(g.chooseWord(modePath, word))
	}
}

func (g *geminiRequest) system(o object) {
	path := o.at("systemInstruction")
	if o.get("systemInstruction").Kind() == '"' {
		g.sayText(path, "system", o.word("systemInstruction"))
		return
	}
	content, has := o.inner("systemInstruction")
	content.get("role") // some clients send user
	var texts []string
	content.each("parts", func(part object) {
		if part.find("text") == nil {
			g.fail(unsupportedValue(part.path, "The system prompt must be text. Send {\"text\":\"…\"}."))
		}
		texts = append(texts, part.word("text"))
		part.done()
	})
	content.done()
	if has && texts != nil {
		g.sayText(path, "system", strings.Join(texts, "\n\n"))
	}
}
