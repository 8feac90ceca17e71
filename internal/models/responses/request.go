package responses

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/media"
	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// A Request is the parsed and checked body of POST /responses.
type Request struct {
	Model  string // as requested; never empty
	Stream bool
	Strict bool // no other model may serve in place of a gated one

	call   stoa.Call         // supported part of the request
	echo   echo              // the part that the reply only repeats
	format formatMaker       // of the reply
	wanted wanted            // for it
	names  map[string]string // the client's names of parts of the call that errors name; nil in the Responses format
	unread int               // number of unusable sealed states in the input
	media  []mediaItem       // images and files of the input
	// adjusted are the changes that parsing made to the call.
	adjusted stoa.Adjustments
	ignored  ignored
	// conversation is the id of the session of an agent that the call continues; background calls are only those of agents.
	conversation string
	background   bool
	settings     []setting // that one vendor has; for others they are ignored
}

// A setting is a member of a request that only routes of one vendor have.
type setting struct {
	path string
	has  func(stoa.Route) bool
}

// Options enable extensions of version 1 of the API, which is their zero value.
type Options struct {
	Tools   bool // function tools, their calls and results, and reasoning items
	Formats bool // text.format
	Images  bool // input_image
	Files   bool // input_file
	// Documents means that files of all kinds are accepted: their text is read here.
	Documents bool
	Compact   bool // compaction items
	// ImageURL and FileURL are the policies for addresses of images and files.
	ImageURL, FileURL media.Policy
	// ForeignTools drops tools that the caller does not run, and items of other services,
	// instead of refusing them, as long as another tool and another item remain.
	ForeignTools bool
	// translated means that the request is of another format: it may have stop and top_k, which
	// the Responses format does not have.
	translated bool
	// Open opens states that Stoa sealed for the caller's account; required with Tools and Compact.
	Open func(sealed string) (stoa.State, bool)
}

type echo struct {
	background       bool
	instructions     *string
	maxOutputTokens  int64 // 0 means null
	maxToolCalls     int64 // -1 means null
	noParallel       bool
	promptCacheKey   *string
	safetyIdentifier *string
	user             *string
	effort           string // empty means null
	temperature      *float64
	topP             *float64
	presence         float64
	frequency        float64
	verbosity        string
	toolChoice       string // JSON; empty means auto
	truncation       string // empty means disabled
	metadata         []byte // an object; nil means {}
	summary          string // empty means null
	tools            []echoTool
	format           string // JSON; empty means plain text
}

// An echoTool is a tool as a reply repeats it. The serving model determines whether it is
// strict.
type echoTool struct {
	kind        string // custom or namespace; empty for a function
	name        string
	flat        string // [stoa.FlatName] of a function
	description *string
	parameters  string     // as sent, JSON; empty means null; of a custom tool, its format
	tools       []echoTool // of a namespace
	native      string     // of a tool that a vendor has defined: all of it, as JSON
}

// Limits of a request, which the contract publishes. Values that only the size of the body
// limits are not listed.
const (
	maxModel   = 128    // characters
	maxLabel   = 512    // characters of user and other names that are repeated, and of a stop sequence
	maxStops   = 4      // stop sequences
	maxInclude = 64     // elements
	maxItems   = 10_000 // elements of input
	maxParts   = 10_000 // elements of a message's content
	maxMembers = 1_000  // of any object, including unknown ones
	maxCount   = math.MaxInt32
)

// Parse parses the body of a model call in one pass. Unknown members are
// ignored and null counts as absent, as clients of the format expect; an error
// names the refused member by its path.
func Parse(body []byte, o Options) (*Request, error) {
	p := newParser(o)
	p.dec, p.src = jsonx.NewDecoder(body), body
	if k := p.dec.PeekKind(); k != '{' {
		if _, err := p.dec.ReadValue(); err != nil {
			return nil, badJSON(err)
		}
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body must be one JSON object, not %s.", kindName(k))
	}
	err := p.object("", func(name string) error { return p.member(name, name) })
	if err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if p.hasModel && !p.hasInput {
		if p.hasMessages {
			return nil, stoa.Errorf(stoa.CodeMissingParameter, "\"input\" is missing. Send the array of \"messages\" as \"input\".").At("input")
		}
		return nil, stoa.Errorf(stoa.CodeMissingParameter, "\"input\" is missing. Send a text or an array of messages.").At("input")
	}
	return p.finish()
}

func (p *parser) end() error {
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return stoa.Errorf(stoa.CodeInvalidJSON, "The body continues after its JSON object. Send one object and nothing else.")
	}
	return nil
}

func (p *parser) finish() (*Request, error) {
	if !p.hasModel {
		return nil, stoa.Errorf(stoa.CodeMissingParameter, "\"model\" is missing. Name a model, or send \"auto\".").At("model")
	}
	if _, agent := p.req.Agent(); !agent {
		switch r := &p.req; {
		case r.background:
			return nil, unsupported("background", "Background replies are not supported; leave \"background\" out and use \"stream\" for long replies.")
		case r.conversation != "":
			return nil, unsupported("conversation", "Conversations are not stored here. Send the earlier turns in \"input\".")
		}
	}
	if err := p.complete(); err != nil {
		return nil, err
	}
	if list := p.req.call.Messages; p.last != stoa.MarkNone && len(list) > 0 {
		if parts := list[len(list)-1].Parts; len(parts) > 0 {
			last := &parts[len(parts)-1]
			last.Mark = max(last.Mark, p.last)
		}
	}
	if p.compacts {
		p.req.compact(&compactMaker{echo: &p.req.echo})
	}
	p.translation, p.dec, p.src, p.ext, p.parts, p.first = nil, nil, nil, nil, nil, nil // because the request is a part of the parser and would keep the body alive
	return &p.req, nil
}

type parser struct {
	*translation // nil in the Responses format
	dec          *jsonx.Decoder
	src          []byte // that dec reads
	opts         Options
	req          Request
	ext          *extended   // members of extensions; nil if none so far
	parts        []stoa.Part // of messages with one part
	first        *firstMessage
	hasModel     bool
	hasInput     bool

	last        stoa.Mark // of the end of the input
	hasMessages bool      // set only by chat completions, in place of the input
	compacts    bool      // the last item is a compaction_trigger
	unread      bool      // the last value was refused before its end; see [parser.soft]
}

func newParser(o Options) *parser {
	p := &parser{opts: o}
	p.req.echo.maxToolCalls = -1
	p.req.format = &p.req.echo
	return p
}

func (p *parser) member(name, path string) error {
	if p.dec.PeekKind() == 'n' {
		return p.skip() // because null counts as absent
	}
	e, c := &p.req.echo, &p.req.call
	switch name {
	case "model":
		s, err := p.short(path, maxModel)
		if err == nil && s == "" {
			err = stoa.Errorf(stoa.CodeInvalidValue, "\"model\" is empty. Name a model, or send \"auto\".").At(path)
		}
		p.req.Model, p.hasModel = s, true
		return err
	case "input":
		p.hasInput = true
		return p.input()
	case "instructions":
		s, err := p.text(path)
		c.Instructions, e.instructions = s, &s
		return err
	case "stream":
		b, err := p.boolean(path)
		p.req.Stream = b
		return err
	case "strict_model":
		b, err := p.boolean(path)
		p.req.Strict = b
		return err
	case "store":
		b, err := p.boolean(path)
		p.ignoreIf(b, path)
		return err
	case "background":
		b, err := p.boolean(path)
		p.req.background = b
		return err
	case "previous_response_id":
		return p.refuse(path, "This endpoint stores nothing between calls. Send the earlier turns in \"input\".")
	case "conversation":
		return p.conversation(path)
	case "prompt":
		return p.refuse(path, "Prompt templates are not supported. Send the text in \"input\" and \"instructions\".")
	case "tools":
		return p.tools()
	case "tool_choice":
		return p.toolChoice(path)
	case "parallel_tool_calls":
		b, err := p.boolean(path)
		e.noParallel = !b
		c.NoParallel = p.opts.Tools && !b
		return err
	case "max_tool_calls":
		n, err := p.integer(path, 1, maxCount)
		e.maxToolCalls = n
		p.ignoreIf(err == nil, path)
		return err
	case "max_output_tokens":
		p.rename(name, path)
		n, err := p.integer(path, 1, maxCount)
		c.MaxOutputTokens, e.maxOutputTokens = n, n
		return err
	case "temperature":
		f, err := p.number(path, 0, 2)
		c.Temperature, e.temperature = &f, &f
		return err
	case "top_p":
		f, err := p.number(path, 0, 1)
		c.TopP, e.topP = &f, &f
		return err
	case "stop", "top_k":
		switch {
		case !p.opts.translated:
			return p.ignore("", name)
		case name == "stop":
			return p.stops(path)
		}
		n, err := p.integer(path, 0, maxCount)
		c.TopK = n
		return err
	case "presence_penalty":
		f, err := p.number(path, -2, 2)
		e.presence = f
		p.ignoreIf(f != 0, path)
		return err
	case "frequency_penalty":
		f, err := p.number(path, -2, 2)
		e.frequency = f
		p.ignoreIf(f != 0, path)
		return err
	case "top_logprobs":
		n, err := p.integer(path, 0, maxCount)
		if n > 0 {
			return unsupported(path, "Log probabilities are not supported; leave \"top_logprobs\" out.")
		}
		return err
	case "metadata":
		return p.metadata()
	case "text":
		return p.textOptions()
	case "truncation":
		s, err := p.choice(path, "auto", "disabled")
		e.truncation = s
		p.ignoreIf(s == "auto", path)
		return err
	case "reasoning":
		return p.reasoning()
	case "include":
		return p.array(path, maxInclude, func(i int) error {
			s, err := p.short(at(path, i), maxLabel)
			if p.opts.Tools && s == "reasoning.encrypted_content" {
				p.extra().encrypted = true
			} else {
				p.ignoreIf(err == nil, at(path, i))
			}
			return err
		})
	case "stream_options":
		return p.object(path, func(member string) error { return p.ignore(path, member) })
	case "service_tier":
		s, err := p.short(path, maxLabel)
		p.ignoreIf(s != "" && s != "auto" && s != "default", path)
		return err
	case "cache_control": // of Messages; it marks the end of the input
		if !p.opts.translated {
			return p.ignore("", name)
		}
		mark, err := p.mark(path)
		p.last = mark
		return err
	case "context_management":
		return p.contextManagement()
	case "moderation":
		v, err := p.dec.ReadValue()
		if err != nil {
			return badJSON(err)
		}
		var policy any
		if jsonx.Unmarshal(jsonx.Value(v), &policy) == nil && blocks(policy) {
			return unsupported(path, "Moderation that blocks is not offered, and leaving it out would change what is let through. Leave \"moderation\" out, or moderate in your program.")
		}
		p.ignoreIf(true, path)
		return nil
	case "prompt_cache_options": // its mode may be explicit, like that of a mark
		mark, err := p.mark(path)
		c.MarkedOnly = mark != stoa.MarkNone
		return err
	case "user", "safety_identifier", "prompt_cache_key":
		s, err := p.short(path, maxLabel)
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
	p.hasMessages = p.hasMessages || name == "messages"
	return p.ignore("", name)
}

// conversation reads the id of a session, or an object with it.
func (p *parser) conversation(path string) (err error) {
	if p.dec.PeekKind() != '{' {
		p.req.conversation, err = p.short(path, maxLabel)
		return err
	}
	return p.object(path, func(name string) (err error) {
		if name != "id" {
			return p.ignore(path, name)
		}
		p.req.conversation, err = p.short(path+".id", maxLabel)
		return err
	})
}

func blocks(policy any) bool {
	switch v := policy.(type) {
	case map[string]any:
		for name, member := range v {
			if mode, ok := member.(string); ok && name == "mode" && strings.EqualFold(mode, "block") || blocks(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, blocks)
	case string:
		return strings.EqualFold(v, "block")
	}
	return false
}

func (r *Request) endUser() string { return cmp.Or(deref(r.echo.safetyIdentifier), deref(r.echo.user)) }

func (p *parser) rename(name, path string) {
	if p.req.names != nil {
		p.req.names[name] = path
	}
}

func (p *parser) stops(path string) error {
	stop := func(path string) error {
		s, err := p.short(path, maxLabel)
		if err == nil && s == "" {
			err = stoa.Errorf(stoa.CodeInvalidValue, "%q is empty. Send the text before which the reply ends.", path).At(path)
		}
		p.req.wanted.stops = append(p.req.wanted.stops, s)
		p.req.call.Stops = p.req.wanted.stops
		return err
	}
	if path == "stop" && p.dec.PeekKind() == '"' {
		return stop(path)
	}
	return p.array(path, maxStops, func(i int) error { return stop(at(path, i)) })
}

func (p *parser) refuse(path, advice string) error {
	if err := p.skip(); err != nil {
		return err
	}
	return unsupported(path, advice)
}

func (p *parser) textOptions() error {
	return p.object("text", func(name string) error {
		switch {
		case p.dec.PeekKind() == 'n':
		case name == "verbosity":
			return p.verbosity(name, "text.verbosity")
		case name == "format":
			f := p.newFormatMembers(place{path: "text.format"})
			if err := p.object(f.path, func(name string) error { return p.formatMember(f, name, f.at(name)) }); err != nil {
				return err
			}
			return p.setFormat(f)
		default:
			return p.ignore("text", name)
		}
		return p.skip()
	})
}

func (p *parser) verbosity(_, path string) error {
	s, err := p.choice(path, "low", "medium", "high")
	p.req.call.Verbosity, p.req.echo.verbosity = s, s
	return err
}

func (p *parser) vendor() *stoa.VendorSettings {
	if p.req.call.Vendor == nil {
		p.req.call.Vendor = &stoa.VendorSettings{}
	}
	return p.req.call.Vendor
}

func (p *parser) reasoning() error {
	return p.object("reasoning", func(name string) error {
		switch kind := p.dec.PeekKind(); {
		case kind == 'n':
		case name == "effort":
			return p.effort(name, "reasoning.effort")
		case name == "summary" && p.opts.Tools:
			s, err := p.choice("reasoning.summary", "auto", "concise", "detailed")
			p.req.call.Summary, p.req.echo.summary = true, s
			return err
		case name == "summary":
		case (name == "context" || name == "mode") && kind == '"':
			s, err := p.short("reasoning."+name, maxLabel)
			if name == "context" {
				p.vendor().ReasoningContext = s
			} else {
				p.vendor().ReasoningMode = s
			}
			p.req.settings = append(p.req.settings, setting{"reasoning." + name, wire.TakesReasoningSettings})
			return err
		default:
			return p.ignore("reasoning", name)
		}
		return p.skip()
	})
}

func (p *parser) effort(_, path string) error {
	s, err := p.choice(path, "none", "minimal", "low", "medium", "high", "xhigh", "max")
	p.setEffort(s)
	return err
}

func (p *parser) setEffort(s string) { p.req.call.Effort, p.req.echo.effort = s, s }

func (p *parser) summarize() {
	if p.opts.Tools {
		p.req.call.Summary, p.req.echo.summary = true, "auto"
	}
}

// Limits of metadata, as the OpenAI Responses API documents them; lengths are in
// characters.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// metadata reads the caller's metadata, which is echoed but not stored, within the limits of
// the format.
func (p *parser) metadata() error {
	n, out := 0, []byte{'{'}
	err := p.object("metadata", func(name string) error {
		path := "metadata." + name
		if utf8.RuneCountInString(name) > maxMetadataKey {
			return stoa.Errorf(stoa.CodeInvalidValue, "A key of \"metadata\" can have at most %d characters.", maxMetadataKey).At("metadata")
		}
		if strings.Contains(name, "\x00") {
			return stoa.Errorf(stoa.CodeInvalidValue, "A key of \"metadata\" must not contain a NUL character.").At("metadata")
		}
		if n++; n > maxMetadata {
			return stoa.Errorf(stoa.CodeInvalidValue, "\"metadata\" can have at most %d pairs.", maxMetadata).At("metadata")
		}
		s, err := p.short(path, maxMetadataValue)
		if err != nil {
			return err
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
