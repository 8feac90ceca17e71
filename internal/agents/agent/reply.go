package agent

import (
	"errors"
	"fmt"
	"net/http"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/models/schema"
	"stoa/internal/models/wire"
)

// A reply is the form of a session's answers. A nil reply is free text.
type reply struct {
	schema  string
	check   *schema.Parameters
	refused bool // a request with the format was refused: later ones ask for it in words
}

func newReply(text string) (*reply, error) {
	if text == "" {
		return nil, nil
	}
	check, err := schema.ReadParameters(text)
	return &reply{schema: text, check: check}, err
}

func (r *reply) format() *stoa.Format {
	if r == nil {
		return nil
	}
	return &stoa.Format{Kind: stoa.FormatSchema, Name: "reply", Schema: r.schema, Relaxed: true, Refused: r.refused}
}

// problem returns what is wrong with an answer, for the model that wrote it; empty if it fits.
func (r *reply) problem(text string) string {
	if r == nil {
		return ""
	}
	value := jsonx.ObjectIn(text)
	if value == nil {
		return "it is not one JSON object without another text"
	}
	if err := r.check.Check(string(value)); err != nil {
		return err.Error()
	}
	return ""
}

// againText asks the model for another answer.
const againText = "[This answer does not fit the JSON Schema of answers: %s. Answer with JSON that fits it, and with nothing else.]"

// again returns the message after a step whose answer does not fit; empty for any other step.
func again(s *stoa.Step) string {
	if s.Problem == "" {
		return ""
	}
	return fmt.Sprintf(againText, s.Problem)
}

// dropFormat reports whether a request may have been refused because of its format, since servers that are compatible with a
// vendor need not have it. The request is then repeated with the format in words.
func (p *prompt) dropFormat(err error) bool {
	f, ok := errors.AsType[*wire.Failure](err)
	if !ok || p.reply == nil || p.reply.refused || f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity {
		return false
	}
	p.reply.refused = true
	return true
}
