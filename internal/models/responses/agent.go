package responses

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// A Source produces a reply: the stream of a call of a model, or the turn of an agent. Its methods are those of
// [gateway.Stream].
type Source interface {
	Events(context.Context) iter.Seq2[*stoa.Event, error]
	Due() stoa.Charge
	Settle(context.Context, ...func(context.Context, *store.Tx) error) (stoa.Charge, error)
	Abandon(context.Context, ...func(context.Context, *store.Tx) error) (stoa.Charge, error)
	Pin() string
	Reason() string
	Lowered() bool
	Tried() (model, provider string, attempts int)
	Close()
}

// errTurnGoesOn ends a call of an agent when the service stops, because its turn continues after the next start.
var errTurnGoesOn = stoa.Errorf(stoa.CodeOverloaded, "The service is stopping; the turn of the agent continues. Read it with GET /api/v1/responses/{id} or from the session that the header stoa-session names.").AfterCharge()

// A Turn is a request to an agent.
type Turn struct {
	Conversation string // id of the session to continue; empty means a new one
	Background   bool
	// History are the texts of the earlier messages, the oldest first.
	History   []stoa.SessionMessage
	Message   string
	Files     []*stoa.Media
	EndUser   string
	Metadata  map[string]string
	MaxOutput int64 // 0 means that of the model
	// Schema is the JSON Schema that the answers of the session must fit; empty means that of the agent.
	Schema string
	// Ignored are the members that have no effect on an agent.
	Ignored []string
}

// Agent returns the name of the agent that the request is for, if it is for one.
func (r *Request) Agent() (name string, ok bool) { return strings.CutPrefix(r.Model, stoa.AgentModel) }

// Turn returns the request as one to an agent. It fails if the request has parts that only a model can use.
func (r *Request) Turn() (*Turn, error) {
	t, err := r.turn()
	return t, r.own(err)
}

func (r *Request) turn() (*Turn, error) {
	c := &r.call
	const own = "The agent has its own %s. Leave %q out; change the agent in the console or with PATCH /api/v1/api-agents/{id}."
	switch _, compacts := r.format.(*compactMaker); {
	case compacts:
		return nil, unsupportedValue("model", "An agent's session is summarized by itself. Name a model.")
	case c.Instructions != "":
		return nil, stoa.Errorf(stoa.CodeUnsupported, own, "instructions", "instructions").At("instructions")
	case len(c.Tools) > 0 || len(r.echo.tools) > 0:
		return nil, stoa.Errorf(stoa.CodeUnsupported, own, "tools", "tools").At("tools")
	case r.wanted.json && c.TextFormat().Schema == "":
		return nil, unsupported("text", "An agent replies with text, or by a schema. Send a \"json_schema\", or leave the format out.")
	}
	t := &Turn{Conversation: r.conversation, Background: r.background, EndUser: r.endUser(), MaxOutput: c.MaxOutputTokens, Schema: c.TextFormat().Schema, Ignored: append([]string(nil), r.ignored.paths...)}
	for i := range c.Messages {
		m := &c.Messages[i]
		last := i == len(c.Messages)-1
		var texts []string
		for _, p := range m.Parts {
			switch {
			case m.Role == stoa.RoleSystem:
				return nil, stoa.Errorf(stoa.CodeUnsupported, "The agent has its own instructions. Leave system and developer messages out; change the agent in the console or with PATCH /api/v1/api-agents/{id}.").At("input")
			case p.Kind == stoa.PartText:
				texts = append(texts, p.Text)
			case p.Media == nil:
				return nil, stoa.Errorf(stoa.CodeUnsupportedValue, "The earlier messages of an agent are texts: tool calls, their outputs and reasoning are not accepted.").At("input")
			case !last:
				texts = append(texts, "[a file of an earlier message]")
			case p.Media.Base64 == "":
				return nil, stoa.Errorf(stoa.CodeUnsupportedValue, "An agent does not fetch addresses of images and files. Send the content itself, as a data URL.").At("input")
			default:
				t.Files = append(t.Files, p.Media)
			}
		}
		text := strings.Join(texts, "\n\n")
		switch {
		case !last && text != "":
			t.History = append(t.History, stoa.SessionMessage{Role: m.Role, Text: text})
		case last && m.Role != stoa.RoleUser:
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "The last message must be one of the user, because the agent answers it.").At("input")
		case last:
			t.Message = text
		}
	}
	if t.Message == "" {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The last message has no text.").At("input")
	}
	for name, sent := range map[string]bool{
		"temperature": c.Temperature != nil, "top_p": c.TopP != nil, "top_k": c.TopK != 0, "reasoning": c.Effort != "" || c.Summary,
		"verbosity": c.Verbosity != "", "strict_model": r.Strict,
	} {
		if sent {
			t.Ignored = append(t.Ignored, name)
		}
	}
	slices.Sort(t.Ignored)
	if r.echo.metadata != nil {
		return t, jsonx.Unmarshal(r.echo.metadata, &t.Metadata)
	}
	return t, nil
}

// Trim drops the oldest earlier messages until at most the given numbers of messages and of bytes are left. It returns
// the number of dropped messages.
func (t *Turn) Trim(messages, bytes int) (dropped int) {
	n := 0
	keep := len(t.History)
	for keep > 0 && len(t.History)-keep < messages {
		if n += len(t.History[keep-1].Text); n > bytes {
			break
		}
		keep--
	}
	t.History = t.History[keep:]
	return keep
}

// A Snapshot is the state of a turn of an agent in the Responses format.
type Snapshot struct {
	ID, Model, Session string
	Created, Completed time.Time
	Status             string    // queued, in_progress, completed, failed or cancelled
	Stop               stoa.Stop // of a completed one, which may be incomplete
	Text               string
	Usage              *stoa.Usage // of a turn that has ended
	Failure            *stoa.Failure
	Background         bool
}

// Object returns the snapshot as a response object. r is the request that it answers; nil if it is unknown.
func (s *Snapshot) Object(r *Request) []byte {
	e := &echo{maxToolCalls: -1}
	if r != nil {
		e = &r.echo
	}
	e.background = s.Background
	o := &outcome{status: s.Status}
	if s.Status == statusCompleted {
		o = outcomeOf(s.Stop)
	}
	o.usage = s.Usage
	if s.Failure != nil {
		o.failure = &streamError{code: string(s.Failure.Code), message: s.Failure.Message}
	}
	if o.status == statusCompleted {
		o.completedAt = max(s.Created.Unix(), s.Completed.Unix())
	}
	if s.Text != "" {
		it := &item{kind: itemMessage, id: "msg_" + strings.TrimPrefix(s.ID, "resp_"), status: statusCompleted}
		if o.status != statusCompleted {
			it.status = statusIncomplete
		}
		it.add(pieceText, s.Text)
		o.items = append(o.items, it)
	}
	return e.newFormat().object(nil, &reply{id: s.ID, created: s.Created.Unix(), model: s.Model, session: s.Session}, o)
}
