package api

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// A responsesRequest is the body of POST /responses, read and checked: what is
// honoured is in call, what is only repeated in the reply is in echo.
type responsesRequest struct {
	model  string
	stream bool
	call   stoa.Call
	echo   echo
}

// echo holds the members that a reply repeats.
type echo struct {
	instructions     *string
	maxOutputTokens  int64 // 0: null
	maxToolCalls     int64 // -1: null
	noParallel       bool
	promptCacheKey   *string
	safetyIdentifier *string
	user             *string
	effort           string // empty: null
	temperature      *float64
	topP             *float64
	presence         float64
	frequency        float64
	verbosity        string
	toolChoice       string // empty: auto
	truncation       string // empty: disabled
	metadata         []byte // an object; nil: {}
}

// parseResponses reads the body of a model call in one pass. Members it does
// not know are ignored, null counts as absent, and what it refuses is named by
// its path.
func parseResponses(body []byte) (*responsesRequest, error) {
	p := &responsesParser{dec: jsonx.NewDecoder(body)}
	p.req.echo.maxToolCalls = -1
	if k := p.dec.PeekKind(); k != '{' {
		if _, err := p.dec.ReadValue(); err != nil {
			return nil, badJSON(err)
		}
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body must be one JSON object, not %s.", kindName(k))
	}
	err := p.object("", func(name string) error { return p.member(name) })
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body goes on after its JSON object. Send one object and nothing else.")
	}
	if !p.hasModel {
		return nil, stoa.Errorf(stoa.CodeMissingParameter, "The member \"model\" is missing. Name a model, or send \"auto\".").At("model")
	}
	if !p.hasInput {
		return nil, stoa.Errorf(stoa.CodeMissingParameter, "The member \"input\" is missing. Send a text or an array of messages.").At("input")
	}
	return &p.req, nil
}

type responsesParser struct {
	dec      *jsonx.Decoder
	req      responsesRequest
	hasModel bool
	hasInput bool
}

// member reads the value of one member of the body.
func (p *responsesParser) member(name string) error {
	if p.dec.PeekKind() == 'n' {
		return p.skip() // null is the same as absent
	}
	e, c := &p.req.echo, &p.req.call
	switch name {
	case "model":
		s, err := p.text(name)
		if err == nil && s == "" {
			err = stoa.Errorf(stoa.CodeInvalidValue, "\"model\" is empty. Name a model, or send \"auto\".").At(name)
		}
		p.req.model, p.hasModel = s, true
		return err
	case "input":
		p.hasInput = true
		return p.input()
	case "instructions":
		s, err := p.text(name)
		c.Instructions, e.instructions = s, &s
		return err
	case "stream":
		b, err := p.boolean(name)
		p.req.stream = b
		return err
	case "store":
		_, err := p.boolean(name)
		return err
	case "background":
		b, err := p.boolean(name)
		if b {
			return unsupported(name, "Background replies are not supported; leave \"background\" out and use \"stream\" for long replies.")
		}
		return err
	case "previous_response_id":
		return p.refuse(name, "This endpoint keeps nothing between calls. Send the earlier turns in \"input\".")
	case "conversation":
		return p.refuse(name, "Conversations are not kept here. Send the earlier turns in \"input\".")
	case "prompt":
		return p.refuse(name, "Prompt templates are not supported. Send the text in \"input\" and \"instructions\".")
	case "tools":
		return p.tools()
	case "tool_choice":
		return p.toolChoice()
	case "parallel_tool_calls":
		b, err := p.boolean(name)
		e.noParallel = !b
		return err
	case "max_tool_calls":
		n, err := p.integer(name, 1)
		e.maxToolCalls = n
		return err
	case "max_output_tokens":
		n, err := p.integer(name, 1)
		c.MaxOutputTokens, e.maxOutputTokens = n, n
		return err
	case "temperature":
		f, err := p.number(name, 0, 2)
		c.Temperature, e.temperature = &f, &f
		return err
	case "top_p":
		f, err := p.number(name, 0, 1)
		c.TopP, e.topP = &f, &f
		return err
	case "presence_penalty":
		f, err := p.number(name, -2, 2)
		e.presence = f
		return err
	case "frequency_penalty":
		f, err := p.number(name, -2, 2)
		e.frequency = f
		return err
	case "top_logprobs":
		n, err := p.integer(name, 0)
		if n > 0 {
			return unsupported(name, "Log probabilities are not supported; leave \"top_logprobs\" out.")
		}
		return err
	case "metadata":
		return p.metadata()
	case "text":
		return p.textOptions()
	case "truncation":
		s, err := p.choice(name, "auto", "disabled")
		e.truncation = s
		return err
	case "reasoning":
		return p.reasoning()
	case "include":
		return p.array(name, func(i int) error {
			_, err := p.text(at(name, i))
			return err
		})
	case "stream_options":
		return p.object(name, func(string) error { return p.skip() })
	case "service_tier":
		_, err := p.text(name)
		return err
	case "user", "safety_identifier", "prompt_cache_key":
		s, err := p.text(name)
		switch name {
		case "user":
			e.user = &s
		case "safety_identifier":
			e.safetyIdentifier = &s
		default:
			e.promptCacheKey = &s
		}
		return err
	}
	return p.skip()
}

// refuse skips a value and refuses its member.
func (p *responsesParser) refuse(path, advice string) error {
	if err := p.skip(); err != nil {
		return err
	}
	return unsupported(path, advice)
}

func (p *responsesParser) tools() error {
	n := 0
	err := p.array("tools", func(int) error { n++; return p.skip() })
	if err == nil && n > 0 {
		return unsupported("tools", "Tool calling is not supported on this endpoint. Leave \"tools\" out or send an empty array.")
	}
	return err
}

func (p *responsesParser) toolChoice() error {
	const name = "tool_choice"
	if p.dec.PeekKind() == '{' {
		return p.refuse(name, "Tool calling is not supported on this endpoint. Send \"auto\" or \"none\", or leave \"tool_choice\" out.")
	}
	s, err := p.text(name)
	if err != nil {
		return err
	}
	if s != "auto" && s != "none" {
		return unsupportedValue(name, "Tool calling is not supported on this endpoint. Send \"auto\" or \"none\", or leave \"tool_choice\" out.")
	}
	p.req.echo.toolChoice = s
	return nil
}

func (p *responsesParser) textOptions() error {
	return p.object("text", func(name string) error {
		switch {
		case p.dec.PeekKind() == 'n':
		case name == "verbosity":
			s, err := p.choice("text.verbosity", "low", "medium", "high")
			p.req.call.Verbosity, p.req.echo.verbosity = s, s
			return err
		case name == "format":
			return p.object("text.format", func(name string) error {
				if name != "type" || p.dec.PeekKind() == 'n' {
					return p.skip()
				}
				s, err := p.text("text.format.type")
				if err == nil && s != "text" {
					err = unsupportedValue("text.format.type", "Structured output is not supported. Replies are plain text: send {\"type\":\"text\"} or leave \"text.format\" out.")
				}
				return err
			})
		}
		return p.skip()
	})
}

func (p *responsesParser) reasoning() error {
	return p.object("reasoning", func(name string) error {
		if name != "effort" || p.dec.PeekKind() == 'n' {
			return p.skip()
		}
		s, err := p.choice("reasoning.effort", "none", "minimal", "low", "medium", "high", "xhigh", "max")
		p.req.call.Effort, p.req.echo.effort = s, s
		return err
	})
}

// Limits of metadata, from the Responses format.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

func (p *responsesParser) metadata() error {
	n, out := 0, []byte{'{'}
	err := p.object("metadata", func(name string) error {
		path := "metadata." + name
		if utf8.RuneCountInString(name) > maxMetadataKey {
			return stoa.Errorf(stoa.CodeInvalidValue, "A key of \"metadata\" has at most %d characters.", maxMetadataKey).At("metadata")
		}
		if n++; n > maxMetadata {
			return stoa.Errorf(stoa.CodeInvalidValue, "\"metadata\" holds at most %d pairs.", maxMetadata).At("metadata")
		}
		s, err := p.text(path)
		if err != nil {
			return err
		}
		if utf8.RuneCountInString(s) > maxMetadataValue {
			return stoa.Errorf(stoa.CodeInvalidValue, "A value of \"metadata\" has at most %d characters.", maxMetadataValue).At(path)
		}
		if n > 1 {
			out = append(out, ',')
		}
		out = appendText(append(appendText(out, name), ':'), s)
		return nil
	})
	p.req.echo.metadata = append(out, '}')
	return err
}

// The readers of values. Each refuses another JSON type by the value's path.

func (p *responsesParser) skip() error {
	if err := p.dec.SkipValue(); err != nil {
		return badJSON(err)
	}
	return nil
}

// want checks the kind of the next value; what it refuses it names.
func (p *responsesParser) want(path, what string, kinds ...jsonx.Kind) error {
	k := p.dec.PeekKind()
	if slices.Contains(kinds, k) {
		return nil
	}
	if err := p.skip(); err != nil {
		return err
	}
	return stoa.Errorf(stoa.CodeInvalidType, "%q must be %s, not %s.", path, what, kindName(k)).At(path)
}

func (p *responsesParser) text(path string) (string, error) {
	if err := p.want(path, "a string", '"'); err != nil {
		return "", err
	}
	t, err := p.dec.ReadToken()
	if err != nil {
		return "", badJSON(err)
	}
	return t.String(), nil
}

func (p *responsesParser) choice(path string, of ...string) (string, error) {
	s, err := p.text(path)
	if err == nil && !slices.Contains(of, s) {
		err = stoa.Errorf(stoa.CodeInvalidValue, "%q must be one of %s.", path, quoted(of)).At(path)
	}
	return s, err
}

func (p *responsesParser) boolean(path string) (bool, error) {
	if err := p.want(path, "true or false", 't', 'f'); err != nil {
		return false, err
	}
	t, err := p.dec.ReadToken()
	if err != nil {
		return false, badJSON(err)
	}
	return t.Bool(), nil
}

func (p *responsesParser) integer(path string, least int64) (int64, error) {
	if err := p.want(path, "an integer", '0'); err != nil {
		return 0, err
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return 0, badJSON(err)
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return 0, stoa.Errorf(stoa.CodeInvalidType, "%q must be an integer.", path).At(path)
	}
	if err != nil || n < least {
		return 0, stoa.Errorf(stoa.CodeInvalidValue, "%q must be an integer of at least %d.", path, least).At(path)
	}
	return n, nil
}

func (p *responsesParser) number(path string, least, most float64) (float64, error) {
	if err := p.want(path, "a number", '0'); err != nil {
		return 0, err
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return 0, badJSON(err)
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < least || f > most {
		return 0, stoa.Errorf(stoa.CodeInvalidValue, "%q must be a number from %g to %g.", path, least, most).At(path)
	}
	return f, nil
}

func (p *responsesParser) object(path string, member func(name string) error) error {
	if path != "" {
		if err := p.want(path, "an object", '{'); err != nil {
			return err
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return badJSON(err)
	}
	for {
		t, err := p.dec.ReadToken()
		if err != nil {
			return badJSON(err)
		}
		if t.Kind() == '}' {
			return nil
		}
		if err := member(t.String()); err != nil {
			return err
		}
	}
}

func (p *responsesParser) array(path string, element func(i int) error) error {
	if err := p.want(path, "an array", '['); err != nil {
		return err
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return badJSON(err)
	}
	for i := 0; p.dec.PeekKind() != ']'; i++ {
		if p.dec.PeekKind() == jsonx.KindInvalid {
			break // ReadToken below says why
		}
		if err := element(i); err != nil {
			return err
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return badJSON(err)
	}
	return nil
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func unsupported(path, advice string) error {
	return stoa.Errorf(stoa.CodeUnsupported, "%s", advice).At(path)
}

func unsupportedValue(path, advice string) error {
	return stoa.Errorf(stoa.CodeUnsupportedValue, "%s", advice).At(path)
}

// badJSON says where a body stops being JSON.
func badJSON(err error) error {
	what := "is not valid JSON"
	switch {
	case errors.Is(err, jsonx.ErrDuplicateName):
		what = "names a member twice"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return stoa.Errorf(stoa.CodeInvalidJSON, "The body ends before its JSON does. Send one complete JSON object.").Because(err)
	}
	if s, ok := errors.AsType[*jsonx.SyntacticError](err); ok {
		return stoa.Errorf(stoa.CodeInvalidJSON, "The body %s at byte %d. Send one JSON object in UTF-8.", what, s.ByteOffset).Because(err)
	}
	return stoa.Errorf(stoa.CodeInvalidJSON, "The body %s. Send one JSON object in UTF-8.", what).Because(err)
}

func kindName(k jsonx.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "invalid JSON"
}

func quoted(words []string) string {
	var b []byte
	for i, w := range words {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "%q", w)
	}
	return string(b)
}
