package session

import (
	"context"
	"fmt"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/schema"
)

// CodeSchema is the code of a turn whose answer does not fit the session's reply schema.
const CodeSchema stoa.Code = "reply_schema_mismatch"

// ReadReplySchema checks a schema of answers and returns it in its shortest form. The error names the member at.
func ReadReplySchema(text []byte, at string) (string, error) {
	short := jsonx.Value(text).Clone()
	if len(short) == 0 || short.Kind() == 'n' {
		return "", nil
	}
	if err := short.Compact(); err != nil {
		return "", stoa.Errorf(stoa.CodeInvalidSchema, "The reply schema is not valid JSON.").At(at)
	}
	if _, err := schema.ReadParameters(string(short)); err != nil {
		return "", stoa.Errorf(stoa.CodeInvalidSchema, "The reply schema is not supported: %v.", err).At(at)
	}
	return string(short), nil
}

// ReplyJSON returns the value of a session's newest finished answer; nil if it has none, or no reply schema.
func ReplyJSON(s stoa.Session) jsonx.Value {
	if s.ReplySchema == "" {
		return nil
	}
	return jsonx.ObjectIn(s.Reply) // nil for an answer from before an upgrade to a version with a schema
}

// replySchema returns the ReplySchema of a session with its own schema, unless empty.
func replySchema(own string, agent stoa.Agent) string {
	if own == "" && agent.CallSettings().ReplySchema != "" {
		return stoa.AgentSchema
	}
	return own
}

func checkSchema(ctx context.Context, tx *store.Tx, row *store.SessionRow, want string) error {
	if want == "" {
		return nil
	}
	c, err := tx.Work().SessionConfig(ctx, *row)
	if err == nil && canonical(c.CallSettings().ReplySchema) != canonical(want) {
		err = stoa.Errorf(stoa.CodeUnsupportedValue, "The session has another reply schema, which is set when it starts. Send the same one, or leave it out.").At("replySchema")
	}
	return err
}

// canonical returns a schema in the form of RFC 8785, since clients escape and order the same one differently.
func canonical(schema string) string {
	v := jsonx.Value(schema)
	_ = v.Canonicalize() // an error leaves it as it is
	return string(v)
}

// Reject records that the answer of a step does not fit the session's reply schema, so that the turn goes on.
func (t *Transition) Reject(st stoa.Step) {
	t.event(EventRejected, RejectedData{StepID: stoa.StepID(st.SessionID, st.Turn, st.Number), Turn: st.Turn, Step: st.Number, Problem: st.Problem})
}

// Mismatch ends the turn because its answer does not fit the session's reply schema. Its message has the text.
func (t *Transition) Mismatch(problem string) {
	t.Fail(stoa.Failure{Code: CodeSchema, Message: fmt.Sprintf("The answer does not fit the reply schema: %s. Retry the turn, simplify the schema, or use another model.", problem), Retryable: true})
}
