package responses

import (
	"encoding/base64"
	"strconv"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
)

// A geminiMaker makes the format of a reply of Gemini's API.
type geminiMaker struct{ array bool } // a stream is a JSON array

func (m geminiMaker) newFormat() format { return &geminiFormat{array: m.array} }

// geminiFormat writes replies as Gemini's generateContent: one candidate, and in a stream an object
// for each piece of text and for each whole call.
type geminiFormat struct {
	array   bool     // a stream is a JSON array
	objects int      // of the stream so far
	sealed  []string // reasoning that waits for its part
	said    bool     // the reply has a part
}

func (f *geminiFormat) framing() (contentType []string, silence string) {
	if f.array {
		return jsonType, "\n"
	}
	return eventStreamType, "\n\n" // because Google's libraries for Go and Python raise an error on a comment
}

func (f *geminiFormat) object(b []byte, r *reply, o *outcome) []byte {
	b = append(b, `{"candidates":[{`...)
	parts := partList{b: b}
	var sealed []string
	for _, it := range o.items {
		switch it.kind {
		case itemReasoning:
			if text := it.text.String(); text != "" {
				parts.text(text, true, nil)
			}
			if it.sealed != "" {
				sealed = append(sealed, it.sealed)
			}
		case itemMessage:
			if text := it.text.String() + it.refusal.String(); text != "" {
				parts.text(text, false, sealed)
				sealed = nil
			}
		case itemCall:
			if it.status == statusCompleted {
				parts.call(it, sealed)
				sealed = nil
			}
		}
	}
	if sealed != nil {
		parts.text("", false, sealed)
	}
	if parts.n == 0 && o.reason != "content_filter" {
		parts.text("", false, nil) // because clients require a part
	}
	return append(appendEnded(parts.end(), r, o, parts.n == 0), '}')
}

// A partList writes the member content of a candidate, unless it has no parts.
type partList struct {
	b []byte
	n int
}

func (p *partList) begin() {
	p.n++
	if p.n == 1 {
		p.b = append(p.b, `"content":{"role":"model","parts":[`...)
		return
	}
	p.b = append(p.b, ',')
}

func (p *partList) end() []byte {
	if p.n > 0 {
		return append(p.b, `]},`...)
	}
	return p.b
}

func (p *partList) text(text string, thought bool, sealed []string) {
	p.begin()
	p.b = appendText(append(p.b, `{"text":`...), text)
	if thought {
		p.b = append(p.b, `,"thought":true`...)
	}
	p.b = appendSignature(p.b, sealed)
}

func (p *partList) call(it *item, sealed []string) {
	p.begin()
	p.b = appendText(append(p.b, `{"functionCall":{"id":`...), it.callID)
	p.b = appendText(append(p.b, `,"name":`...), it.name)
	p.b = appendInput(append(p.b, `,"args":`...), it.text.String())
	p.b = appendSignature(append(p.b, '}'), sealed)
}

func appendSignature(b []byte, sealed []string) []byte {
	if len(sealed) > 0 {
		b = append(b, `,"thoughtSignature":"`...)
		b = append(b, signatureOf(sealed)...)
		b = append(b, '"')
	}
	return append(b, '}')
}

// appendEnded appends the members of the last object after the content, which is empty if silent:
// then the provider blocked the reply, or there would be a part.
func appendEnded(b []byte, r *reply, o *outcome, silent bool) []byte {
	b = append(b, `"finishReason":"`...)
	b = append(b, geminiReason(o)...)
	b = append(b, `","index":0}]`...)
	if silent {
		b = append(b, `,"promptFeedback":{"blockReason":"SAFETY"}`...)
	}
	u := o.usage
	if u == nil {
		u = &stoa.Usage{}
	}
	b = append(b, `,"usageMetadata":{"promptTokenCount":`...)
	b = strconv.AppendInt(b, u.InputTokens, 10)
	if u.CachedTokens > 0 {
		b = append(b, `,"cachedContentTokenCount":`...)
		b = strconv.AppendInt(b, u.CachedTokens, 10)
	}
	b = append(b, `,"candidatesTokenCount":`...)
	b = strconv.AppendInt(b, max(u.OutputTokens-u.ReasoningTokens, 0), 10)
	if u.ReasoningTokens > 0 {
		b = append(b, `,"thoughtsTokenCount":`...)
		b = strconv.AppendInt(b, u.ReasoningTokens, 10)
	}
	b = append(b, `,"totalTokenCount":`...)
	b = strconv.AppendInt(b, u.Total(), 10)
	return appendOrigin(append(b, '}'), r)
}

func appendOrigin(b []byte, r *reply) []byte {
	b = append(b, `,"modelVersion":`...)
	b = appendText(b, r.model)
	b = append(b, `,"responseId":"`...)
	b = append(b, r.id...)
	return append(b, '"')
}

// geminiReason returns the reason for the end of the reply. It also marks a refusal, because the
// format has no other mark for one.
func geminiReason(o *outcome) string {
	switch {
	case o.reason == "max_output_tokens":
		return "MAX_TOKENS"
	case o.reason == "content_filter":
		return "SAFETY"
	case o.reason != "": // the provider withheld calls
		return "MALFORMED_FUNCTION_CALL"
	}
	for _, it := range o.items {
		if it.kind == itemMessage && !it.refusal.empty() {
			return "SAFETY"
		}
	}
	return "STOP"
}

func (f *geminiFormat) begin(b []byte) []byte {
	f.objects++
	switch {
	case !f.array:
		return sse.AppendHead(b, "")
	case f.objects > 1:
		return append(b, ",\n"...)
	}
	return b
}

func (f *geminiFormat) finish(b []byte) []byte {
	if f.array {
		return b
	}
	return sse.AppendEnd(b)
}

func (f *geminiFormat) part(b []byte, r *reply, write func(*partList)) []byte {
	f.said = true
	parts := partList{b: append(f.begin(b), `{"candidates":[{`...)}
	write(&parts)
	b = append(parts.end(), `"index":0}]`...)
	return f.finish(append(appendOrigin(b, r), '}'))
}

func (f *geminiFormat) start(b []byte, _ *reply) []byte {
	if f.array {
		b = append(b, '[')
	}
	return b
}

func (f *geminiFormat) open(b []byte, _ *reply, _ *item) []byte { return b }

func (f *geminiFormat) piece(b []byte, r *reply, _ *item, kind pieceKind, text string) []byte {
	switch kind {
	case pieceArguments: // later, because a call is sent when it is complete
		return b
	case pieceSummary:
		return f.part(b, r, func(p *partList) { p.text(text, true, nil) })
	}
	sealed := f.sealed
	f.sealed = nil
	return f.part(b, r, func(p *partList) { p.text(text, false, sealed) })
}

func (f *geminiFormat) close(b []byte, r *reply, it *item) []byte {
	switch {
	case it.kind == itemReasoning && it.sealed != "":
		f.sealed = append(f.sealed, it.sealed)
	case it.kind == itemCall && it.status == statusCompleted:
		sealed := f.sealed
		f.sealed = nil
		return f.part(b, r, func(p *partList) { p.call(it, sealed) })
	}
	return b
}

func (f *geminiFormat) end(b []byte, r *reply, o *outcome) []byte {
	silent := !f.said && f.sealed == nil && o.reason == "content_filter"
	parts := partList{b: append(f.begin(b), `{"candidates":[{`...)}
	if !silent {
		parts.text("", false, f.sealed) // as the vendor ends a stream
	}
	b = f.finish(append(appendEnded(parts.end(), r, o, silent), '}'))
	if f.array {
		b = append(b, "]\n"...)
	}
	return b
}

// fail appends the error, because the vendor's clients throw on it.
func (f *geminiFormat) fail(b []byte, r *reply, o *outcome) []byte {
	e := o.failure
	info := contract.Code(stoa.Code(e.code))
	b = contract.AppendGeminiError(f.begin(b), &contract.FormatError{Code: e.code, Param: e.param, Message: e.message, Retryable: info.Retryable && !e.charged, RequestID: r.request})
	b = f.finish(b)
	if f.array {
		b = append(b, "]\n"...)
	}
	return b
}

func (f *geminiFormat) restore(stored []byte) (*reply, *outcome, error) {
	var was struct {
		Candidates [1]struct {
			Content struct {
				Parts []struct {
					Text      string `json:"text"`
					Thought   bool   `json:"thought"`
					Signature string `json:"thoughtSignature"`
					Call      *struct {
						ID   string      `json:"id"`
						Name string      `json:"name"`
						Args jsonx.Value `json:"args"`
					} `json:"functionCall"`
				} `json:"parts"`
			} `json:"content"`
			Reason string `json:"finishReason"`
		} `json:"candidates"`
		Usage struct {
			Input    int64 `json:"promptTokenCount"`
			Cached   int64 `json:"cachedContentTokenCount"`
			Output   int64 `json:"candidatesTokenCount"`
			Thoughts int64 `json:"thoughtsTokenCount"`
		} `json:"usageMetadata"`
		Model string `json:"modelVersion"`
		ID    string `json:"responseId"`
	}
	if err := jsonx.Unmarshal(stored, &was); err != nil {
		return nil, nil, err
	}
	u := was.Usage
	o := &outcome{status: statusCompleted, usage: &stoa.Usage{
		InputTokens: u.Input, CachedTokens: u.Cached, OutputTokens: u.Output + u.Thoughts, ReasoningTokens: u.Thoughts,
	}}
	switch was.Candidates[0].Reason {
	case "MAX_TOKENS":
		o.status, o.reason = statusIncomplete, "max_output_tokens"
	case "SAFETY":
		o.status, o.reason = statusIncomplete, "content_filter"
	case "MALFORMED_FUNCTION_CALL":
		o.status, o.reason = statusIncomplete, "calls_dropped"
	}
	for _, part := range was.Candidates[0].Content.Parts {
		if part.Signature != "" {
			text, _ := base64.StdEncoding.DecodeString(part.Signature)
			o.items = append(o.items, &item{kind: itemReasoning, sealed: string(text)})
		}
		it := &item{kind: itemMessage, status: statusCompleted}
		switch {
		case part.Call != nil:
			it.kind, it.callID, it.name = itemCall, part.Call.ID, part.Call.Name
			it.add(pieceArguments, argumentsOf(part.Call.Args))
		case part.Text == "":
			continue
		case part.Thought:
			it.kind = itemReasoning
			it.add(pieceSummary, part.Text)
		default:
			it.add(pieceText, part.Text)
		}
		o.items = append(o.items, it)
	}
	return &reply{id: was.ID, model: was.Model}, o, nil
}
