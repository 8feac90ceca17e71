package responses

import (
	"strings"

	"stoa/internal/stoa"
)

// input parses the member of that name: a text, or the messages so far.
func (p *parser) input() error {
	const name = "input"
	if err := p.want(name, "a string or an array of messages", '"', '['); err != nil {
		return err
	}
	if p.dec.PeekKind() == '"' {
		s, err := p.text(name)
		if err == nil && s == "" {
			err = stoa.Errorf(stoa.CodeInvalidValue, "\"input\" is empty. Send a text or at least one message.").At(name)
		}
		p.req.call.Messages = []stoa.Message{{Role: stoa.RoleUser, Text: s}}
		return err
	}
	if err := p.array(name, maxItems, func(i int) error { return p.item(at(name, i)) }); err != nil {
		return err
	}
	if len(p.req.call.Messages) == 0 {
		return stoa.Errorf(stoa.CodeInvalidValue, "\"input\" has no message. Send a text or at least one message.").At(name)
	}
	return nil
}

// An inputItem collects one element of input, whose members may come in any
// order.
type inputItem struct {
	kind       string
	role       string
	text       string
	hasContent bool
}

// item parses one element of input. Only messages are used; reasoning that a
// client echoes from an earlier reply is dropped.
func (p *parser) item(path string) error {
	if err := p.want(path, "an object such as {\"role\":\"user\",\"content\":\"…\"}", '{'); err != nil {
		return err
	}
	var it inputItem
	var refused error // a bad content counts only if the item is a message
	err := p.object(path, func(name string) (err error) {
		switch {
		case name == "content" && p.dec.PeekKind() != 'n':
			it.hasContent = true
			var bad error
			it.text, bad, err = p.content(path + ".content")
			if refused == nil {
				refused = bad
			}
			return err
		case name == "type" && p.dec.PeekKind() != 'n':
			it.kind, err = p.text(path + ".type")
			return err
		case name == "role" && p.dec.PeekKind() != 'n':
			it.role, err = p.text(path + ".role")
			return err
		}
		return p.skip()
	})
	if err != nil {
		return err
	}
	switch it.kind {
	case "", "message":
	case "reasoning":
		return nil
	case "item_reference":
		return stoa.Errorf(stoa.CodeUnsupportedValue, "Items are not stored here, so a reference cannot be resolved. Send the full item (in the AI SDK set the provider option \"store\" to false).").At(path)
	default:
		return unsupportedValue(path+".type", "Only messages are supported here: tool calls, files and other items are not. Send {\"type\":\"message\",\"role\":…,\"content\":…}.")
	}
	var role stoa.Role
	switch it.role {
	case "user":
		role = stoa.RoleUser
	case "assistant":
		role = stoa.RoleAssistant
	case "system", "developer":
		role = stoa.RoleSystem
	case "":
		return stoa.Errorf(stoa.CodeMissingParameter, "The message has no \"role\". Send user, assistant, system or developer.").At(path + ".role")
	default:
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must be user, assistant, system or developer.", path+".role").At(path + ".role")
	}
	if refused != nil {
		return refused
	}
	if !it.hasContent {
		return stoa.Errorf(stoa.CodeMissingParameter, "The message has no \"content\". Send a string or an array of text parts.").At(path + ".content")
	}
	p.req.call.Messages = append(p.req.call.Messages, stoa.Message{Role: role, Text: it.text})
	return nil
}

// content parses a message's content: a string, or text parts, which are joined
// without a separator. refused is an error of meaning with which parsing goes
// on after the content: it counts only if the item turns out to be a message.
// err ends the parsing.
func (p *parser) content(path string) (text string, refused, err error) {
	if bad := p.want(path, "a string or an array of text parts", '"', '['); bad != nil {
		refused, err = soft(bad)
		return "", refused, err
	}
	if p.dec.PeekKind() == '"' {
		text, err = p.text(path)
		return text, nil, err
	}
	var joined strings.Builder
	n := 0
	err = p.array(path, maxParts, func(j int) error {
		part, bad, err := p.part(at(path, j))
		if refused == nil {
			refused = bad
		}
		if n++; n == 1 {
			text = part // a single part, by far the most common, is not copied
			return err
		}
		if n == 2 {
			joined.WriteString(text)
		}
		joined.WriteString(part)
		return err
	})
	if n > 1 {
		text = joined.String()
	}
	return text, refused, err
}

// part parses one part of a message's content; its errors are those of content.
func (p *parser) part(path string) (text string, refused, err error) {
	if bad := p.want(path, "an object such as {\"type\":\"input_text\",\"text\":\"…\"}", '{'); bad != nil {
		refused, err = soft(bad)
		return "", refused, err
	}
	var kind, refusal string
	var hasText, hasRefusal bool
	read := func(name string, into *string) error {
		s, bad := p.text(path + "." + name)
		bad, fatal := soft(bad)
		if refused == nil {
			refused = bad
		}
		*into = s
		return fatal
	}
	err = p.object(path, func(name string) error {
		switch {
		case p.dec.PeekKind() == 'n':
		case name == "type":
			return read(name, &kind)
		case name == "text":
			hasText = true
			return read(name, &text)
		case name == "refusal":
			hasRefusal = true
			return read(name, &refusal)
		}
		return p.skip()
	})
	if err != nil || refused != nil {
		return "", refused, err
	}
	switch kind {
	case "input_text", "output_text", "text":
		if !hasText {
			refused = stoa.Errorf(stoa.CodeMissingParameter, "The part has no \"text\".").At(path + ".text")
		}
		return text, refused, nil
	case "refusal":
		if !hasRefusal {
			refused = stoa.Errorf(stoa.CodeMissingParameter, "The part has no \"refusal\".").At(path + ".refusal")
		}
		return refusal, refused, nil
	case "":
		return "", stoa.Errorf(stoa.CodeMissingParameter, "The part has no \"type\". Send {\"type\":\"input_text\",\"text\":\"…\"}.").At(path + ".type"), nil
	}
	return "", unsupportedValue(path+".type", "Only text is supported: images, files, audio and other parts are not. Send {\"type\":\"input_text\",\"text\":\"…\"}."), nil
}

// soft separates an error of meaning from one after which parsing cannot go on.
func soft(err error) (refused, fatal error) {
	if stoa.CodeOf(err) == stoa.CodeInvalidJSON {
		return nil, err
	}
	return err, nil
}
