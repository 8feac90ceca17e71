package wire

import (
	"path"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// unsigned replaces the missing signature of a call, because the vendor requires one on the first
// call of each step, and accepts this word for a call that it did not make.
const unsigned = "skip_thought_signature_validator"

func encodeGemini(w *builder, call stoa.Call, route stoa.Route) error {
	if err := CheckFormat(&call, route); err != nil {
		return err
	}
	old := isOldGemini(route)
	system, list := turnsOf(call, route, shape{alternate: true})
	w.reasoning = reasoningIn(list)
	f := call.TextFormat()
	if f.Kind == stoa.FormatSchema && route.Traits.Schema != "native" || f.Kind == stoa.FormatObject && route.Traits.Schema == "" {
		system = strings.TrimPrefix(system+"\n\n"+inWords(f), "\n\n")
	}
	w.open('{')
	if system != "" {
		w.key("systemInstruction").open('{')
		w.key("parts").open('[')
		encodeGeminiText(w, system)
		w.close(']')
		w.close('}')
	}
	w.key("contents").open('[')
	for _, t := range list {
		w.open('{')
		role := "user"
		if t.role == stoa.RoleAssistant {
			role = "model"
		}
		w.member("role", role)
		w.key("parts").open('[')
		encodeGeminiTurn(w, t, old)
		w.close(']')
		w.close('}')
	}
	w.close(']')
	if err := encodeGeminiSettings(w, call, route); err != nil {
		return err
	}
	if err := encodeGeminiTools(w, call, route); err != nil {
		return err
	}
	w.close('}')
	return nil
}

// isOldGemini reports whether the model is older than the third generation, which signs
// calls, accepts media in results, and accepts formats together with tools.
func isOldGemini(route stoa.Route) bool {
	model := geminiModel(route)
	return strings.HasPrefix(model, "gemini-1") || strings.HasPrefix(model, "gemini-2")
}

// encodeGeminiTurn writes the parts of a turn. A signature is written on the next part of the
// kind that it arrived with.
func encodeGeminiTurn(w *builder, t turn, old bool) {
	var media []piece // of results that cannot contain it
	var onText, onCall string
	first := true // of the calls
	for i, p := range t.parts {
		if p.Kind != stoa.PartResult && (i == 0 || t.parts[i-1].Kind == stoa.PartResult) {
			encodeGeminiMedia(w, media...)
			media = nil
		}
		switch p.Kind {
		case stoa.PartReasoning:
			if on, signature := geminiState(p.State.Data); on == "call" {
				onCall = signature
			} else {
				onText = signature
			}
		case stoa.PartText:
			w.open('{')
			w.member("text", p.Text)
			if onText != "" {
				w.member("thoughtSignature", onText)
			}
			w.close('}')
			onText = ""
		case stoa.PartImage, stoa.PartFile:
			encodeGeminiMedia(w, p)
		case stoa.PartCall:
			if onCall == "" && first && !old {
				onCall = unsigned
			}
			first = false
			w.open('{')
			w.key("functionCall").open('{')
			w.member("id", p.id)
			w.member("name", geminiName(p.Call.Name))
			w.key("args").strictObject(p.Call.Arguments)
			w.close('}')
			if onCall != "" {
				w.member("thoughtSignature", onCall)
			}
			w.close('}')
			onCall = ""
		case stoa.PartResult:
			media = append(media, encodeGeminiResponse(w, p, old)...)
		}
	}
	encodeGeminiMedia(w, media...)
}

// encodeGeminiResponse writes the result of a call and returns the media that the result
// cannot contain, preceded by a text that names the call.
func encodeGeminiResponse(w *builder, p piece, old bool) (rest []piece) {
	texts := []string{}
	if p.Result.Content != "" {
		texts = append(texts, p.Result.Content)
	}
	var inside []piece
	for i := range p.Result.Parts {
		switch part := &p.Result.Parts[i]; {
		case part.Kind == stoa.PartText:
			texts = append(texts, part.Text)
		case old || part.Media.URL != "" || part.Media.Type == "image/gif":
			if rest == nil {
				rest = append(rest, textPiece("Of the result of call "+p.id+":"))
			}
			rest = append(rest, piece{Part: part})
		default:
			inside = append(inside, piece{Part: part})
		}
	}
	w.open('{')
	w.key("functionResponse").open('{')
	w.member("id", p.id)
	w.member("name", geminiName(p.Result.Name))
	w.key("response").open('{')
	name := "output"
	if p.Result.IsError {
		name = "error"
	}
	w.member(name, strings.Join(texts, "\n\n"))
	w.close('}')
	if len(inside) > 0 {
		w.key("parts").open('[')
		encodeGeminiMedia(w, inside...)
		w.close(']')
	}
	w.close('}')
	w.close('}')
	return rest
}

// encodeGeminiMedia writes images and files, and the texts between them.
func encodeGeminiMedia(w *builder, list ...piece) {
	for _, p := range list {
		switch m := p.Media; {
		case m == nil:
			encodeGeminiText(w, p.Text)
		case m.URL != "":
			w.open('{')
			w.key("fileData").open('{')
			if t := typeOfURL(p.Kind, m.URL); t != "" {
				w.member("mimeType", t)
			}
			w.member("fileUri", m.URL)
			w.close('}')
			w.close('}')
		default:
			w.open('{')
			w.key("inlineData").open('{')
			w.member("mimeType", m.Type)
			w.member("data", m.Base64)
			w.close('}')
			w.close('}')
		}
	}
}

// typeOfURL returns the media type of an address, guessed from its name.
func typeOfURL(kind stoa.PartKind, url string) string {
	if kind == stoa.PartFile {
		return "application/pdf"
	}
	url, _, _ = strings.Cut(url, "?")
	switch ext := strings.ToLower(path.Ext(url)); ext {
	case ".png", ".webp", ".gif", ".jpeg":
		return "image/" + ext[1:]
	case ".jpg":
		return "image/jpeg"
	}
	return ""
}

// encodeGeminiSettings writes the member generationConfig, which has the settings of
// reasoning and reply, unless it would be empty.
func encodeGeminiSettings(w *builder, call stoa.Call, route stoa.Route) error {
	t := route.Traits
	temperature, topP := sampling(call, t)
	off, effort := thinking(call, t)
	before := len(w.b)
	w.key("generationConfig").open('{')
	if call.MaxOutputTokens > 0 {
		w.key("maxOutputTokens").int(call.MaxOutputTokens)
	}
	w.number("temperature", temperature)
	w.number("topP", topP)
	w.topK("topK", call, t)
	w.stops("stopSequences", call.Stops)
	switch {
	case off:
		w.key("thinkingConfig").raw(`{"thinkingBudget":0}`)
	case effort != "" || call.Summary:
		w.key("thinkingConfig").open('{')
		if effort != "" {
			w.member("thinkingLevel", strings.ToUpper(effort))
		}
		if call.Summary {
			w.key("includeThoughts").raw("true")
		}
		w.close('}')
	}
	if call.TextFormat().Kind != stoa.FormatText && t.Schema != "" {
		w.member("responseMimeType", "application/json")
	}
	if call.TextFormat().Kind == stoa.FormatSchema && t.Schema == "native" {
		fitted, err := FitFormat(call.TextFormat(), route)
		if err != nil {
			return err
		}
		w.key("responseJsonSchema").raw(fitted)
	}
	if r := mediaResolution(call); r != "" {
		w.member("mediaResolution", r)
	}
	if w.b[len(w.b)-1] == '{' {
		w.b = w.b[:before]
		return nil
	}
	w.close('}')
	return nil
}

// mediaResolution returns the highest resolution requested for an image of a call, which
// applies to all its images; empty means the vendor's default.
func mediaResolution(call stoa.Call) string {
	high, low, other := false, false, false
	see := func(parts []stoa.Part) {
		for i := range parts {
			if parts[i].Kind != stoa.PartImage {
				continue
			}
			switch parts[i].Media.Detail {
			case "high", "original":
				high = true
			case "low":
				low = true
			default:
				other = true
			}
		}
	}
	for i := range call.Messages {
		see(call.Messages[i].Parts)
		for _, p := range call.Messages[i].Parts {
			if p.Kind == stoa.PartResult {
				see(p.Result.Parts)
			}
		}
	}
	switch {
	case high:
		return "MEDIA_RESOLUTION_HIGH"
	case low && !other:
		return "MEDIA_RESOLUTION_LOW"
	}
	return ""
}

// encodeGeminiTools writes the tools and the choice among them.
func encodeGeminiTools(w *builder, call stoa.Call, route stoa.Route) error {
	must := forced(call, route.Traits)
	tools := call.Tools
	if !must {
		tools = allowed(call)
	}
	if len(tools) == 0 {
		return nil
	}
	mode := "AUTO"
	w.key("tools").open('[')
	w.open('{')
	w.key("functionDeclarations").open('[')
	for _, t := range tools {
		w.open('{')
		w.member("name", geminiName(t.Name))
		w.member("description", t.Description)
		parameters, strict, err := w.fit(t, route)
		if err != nil {
			return err
		}
		if strict {
			mode = "VALIDATED"
		}
		if parameters != noParameters { // because the vendor rejected an object without members
			w.key("parametersJsonSchema").raw(parameters)
		}
		w.close('}')
	}
	w.close(']')
	w.close('}')
	w.close(']')
	var only []string
	switch {
	case call.ToolChoice().Mode == stoa.ChoiceNone:
		mode = "NONE"
	case must:
		mode, only = "ANY", call.ToolChoice().Only
	}
	w.key("toolConfig").open('{')
	w.key("functionCallingConfig").open('{')
	w.member("mode", mode)
	if len(only) > 0 {
		w.key("allowedFunctionNames").open('[')
		for _, name := range slices.Compact(slices.Clone(only)) {
			w.text(geminiName(name))
		}
		w.close(']')
	}
	w.close('}')
	w.close('}')
	return nil
}

// geminiName returns the vendor's name of a tool: prefixed with an underscore, unless it begins with
// a letter or an underscore, because the vendor requires that. Names that look like a prefixed one
// get one too, so that the prefix can be removed from the names in replies.
func geminiName(name string) string {
	if isMarked(name) {
		return "_" + name
	}
	return name
}

// isMarked reports whether the first character of name that is not an underscore is a digit
// or a dash.
func isMarked(name string) bool {
	rest := strings.TrimLeft(name, "_")
	return rest != "" && (rest[0] == '-' || '0' <= rest[0] && rest[0] <= '9')
}

// newGeminiState returns the data of a segment of reasoning: a signature, which is a JSON
// string, and the kind of part that it arrived with, a call or a text.
func newGeminiState(on string, signature []byte) string {
	w := builder{}
	w.open('{')
	w.member("on", on)
	w.key("signature").raw(string(signature))
	w.close('}')
	return string(w.b)
}

// geminiState reads the data of a segment of reasoning.
func geminiState(data string) (on, signature string) {
	c := jsonx.NewReplyCursor([]byte(data))
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "on":
			on, _ = c.Text()
		case "signature":
			signature, _ = c.Text()
		}
	}
	if !c.Done() {
		return "", ""
	}
	return on, signature
}
