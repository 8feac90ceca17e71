package agent

import (
	"fmt"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/models/schema"
)

// A reply is the form of a session's answers. A nil reply is free text.
type reply struct {
	schema string
	check  *schema.Parameters
}

func newReply(text string) (*reply, error) {
	if text == "" {
		return nil, nil
	}
	check, err := schema.ReadParameters(text)
	return &reply{text, check}, err
}

func (r *reply) format() *stoa.Format {
	if r == nil {
		return nil
	}
	return &stoa.Format{Kind: stoa.FormatSchema, Name: "reply", Schema: r.schema, Relaxed: true}
}

// problem returns what is wrong with an answer, for the model that wrote it; empty if it fits. It is always the same, because
// prompts contain it again.
func (r *reply) problem(text string) string {
	if r == nil {
		return ""
	}
	value := jsonx.ObjectIn(text)
	if value == nil {
		return "it is not one JSON object"
	}
	if err := r.check.Check(string(value)); err != nil {
		return err.Error()
	}
	return ""
}

// againText asks the model for another answer.
const againText = "[This answer does not fit the JSON Schema of answers: %s. Answer with JSON that fits it, and with nothing else.]"

// again returns the message after an answer that does not fit; empty if it does.
func (r *reply) again(text string) string {
	problem := r.problem(text)
	if problem == "" {
		return ""
	}
	return fmt.Sprintf(againText, problem)
}
