package responses

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
	"stoa/internal/models/gateway"
)

// A compaction item stands in for a conversation: its summary, sealed for the account. It is the
// result of a call that ends with an order to summarize, and an item of input of later calls. POST
// /responses/compact is such a call, and so is one whose last item is a compaction_trigger.

// compactionState is the wire of a sealed summary, which is not the state of a provider.
const compactionState = "compaction"

// keptTokens is the maximum size of the user's messages that a compaction repeats.
const keptTokens = 20_000

var errNoSummary = stoa.Errorf(stoa.CodeUpstream, "The model wrote no summary. The call was charged, and so would another be: use another model, or send the messages without compacting them.").AfterCharge()

// ParseCompact parses the body of POST /responses/compact, which has the members of a call. Those
// that concern only the reply have no effect.
func ParseCompact(body []byte, o Options) (*Request, error) {
	req, err := Parse(body, o)
	if err != nil {
		return nil, err
	}
	if m, ok := req.format.(*compactMaker); ok {
		m.echo = nil
	} else {
		req.compact(&compactMaker{})
	}
	req.Stream = false
	return req, nil
}

func (r *Request) compact(m *compactMaker) {
	c := &r.call
	m.kept, r.format = userTexts(c.Messages), m
	c.Messages = append(c.Messages, stoa.TextMessage(stoa.RoleUser, stoa.SummarizeText))
	c.MaxOutputTokens, c.Format, c.Stops = stoa.SummaryTokens, nil, nil
	r.wanted = wanted{itemized: r.wanted.itemized, noTools: true}
}

// unusable returns the error of an outcome that is charged and of no use to the caller: a
// compaction without a summary, or a reply that is not text.
func (r *Request) unusable(o *outcome) error {
	if _, compacts := r.format.(*compactMaker); compacts && strings.TrimSpace(o.text()) == "" {
		return errNoSummary
	}
	if o.other != "" {
		return gateway.NotText(o.other)
	}
	return nil
}

// userTexts returns the texts of the user's newest messages, in their order, up to keptTokens.
func userTexts(messages []stoa.Message) (list []string) {
	total := int64(0)
	for _, m := range slices.Backward(messages) {
		text := m.Text()
		if m.Role != stoa.RoleUser || text == "" {
			continue
		}
		if total += stoa.EstimateTokens(len(text)); total > keptTokens {
			break
		}
		list = append(list, text)
	}
	slices.Reverse(list)
	return list
}

func (p *parser) compactionItem(it *inputItem) error {
	path := it.at("encrypted_content")
	if it.tool != nil && it.tool.bad["encrypted_content"] != nil {
		return it.tool.bad["encrypted_content"]
	}
	if it.tool != nil && it.tool.sealed != "" {
		if s, ok := p.opts.Open(it.tool.sealed); ok && s.Wire == compactionState {
			p.message(stoa.RoleUser, p.one(stoa.Part{Kind: stoa.PartText, Text: stoa.SummaryText + s.Data}))
			return nil
		}
	}
	return stoa.Errorf(stoa.CodeInvalidValue, "%q is not a compaction that this service has made for this account. Send the item unchanged, or the messages themselves.", path).At(path)
}

type compactMaker struct {
	kept []string
	echo *echo // of a call; nil for POST /responses/compact
}

func (m *compactMaker) newFormat() format {
	if m.echo != nil {
		return &triggeredFormat{responsesFormat: responsesFormat{echo: m.echo}}
	}
	return &compactFormat{kept: m.kept}
}

// A triggeredFormat is the format of a call whose only item is a compaction.
type triggeredFormat struct {
	responsesFormat
	seal func(stoa.State) string
	made *item // a seal is never the same twice
}

// The text of the model is not shown, because the reply contains only the compaction.
func (f *triggeredFormat) open(b []byte, _ *reply, _ *item) []byte { return b }

func (f *triggeredFormat) piece(b []byte, _ *reply, _ *item, _ pieceKind, _ string) []byte { return b }

func (f *triggeredFormat) close(b []byte, _ *reply, _ *item) []byte { return b }

func (f *triggeredFormat) object(b []byte, r *reply, o *outcome) []byte {
	return f.responsesFormat.object(b, r, f.compacted(o))
}

func (f *triggeredFormat) end(b []byte, r *reply, o *outcome) []byte {
	o = f.compacted(o)
	for _, event := range []string{"response.output_item.added", "response.output_item.done"} {
		b = f.head(b, event)
		b = appendIndex(b, o.items[0])
		b = append(b, `,"item":`...)
		b = sse.AppendEnd(append(appendItem(b, o.items[0]), '}'))
	}
	return f.responsesFormat.end(b, r, o)
}

func (f *triggeredFormat) fail(b []byte, r *reply, o *outcome) []byte {
	return f.responsesFormat.fail(b, r, f.compacted(o))
}

// compacted returns the outcome with the compaction in place of the text. A summary that a limit cut
// is one, too.
func (f *triggeredFormat) compacted(o *outcome) *outcome {
	if o.failure != nil || o.status == statusInProgress {
		return &outcome{status: o.status, failure: o.failure, usage: o.usage}
	}
	if f.made == nil {
		if f.made = o.items[0]; f.made.kind != itemCompaction { // it is, if it was stored
			f.made = &item{kind: itemCompaction, id: stoa.NewID("cmp"), sealed: f.seal(stoa.State{Wire: compactionState, Data: o.text()})}
		}
	}
	same := *o
	same.items, same.last = []*item{f.made}, nil
	same.status, same.reason = statusCompleted, ""
	if same.completedAt == 0 {
		same.completedAt = time.Now().Unix()
	}
	return &same
}

// A compactFormat is the format of POST /responses/compact, which has no streams.
type compactFormat struct {
	responsesFormat
	kept []string
	seal func(stoa.State) string
	made []byte // the output; a seal is never the same twice
}

func (f *compactFormat) object(b []byte, r *reply, o *outcome) []byte {
	if f.made == nil {
		for _, text := range f.kept {
			f.made = append(f.made, `{"id":"`+stoa.NewID("msg")+`","type":"message","status":"completed","role":"user","content":[{"type":"input_text","text":`...)
			f.made = append(appendText(f.made, text), `}]},`...)
		}
		f.made = append(f.made, `{"id":"`+stoa.NewID("cmp")+`","type":"compaction","encrypted_content":`...)
		f.made = append(appendText(f.made, f.seal(stoa.State{Wire: compactionState, Data: o.text()})), '}')
	}
	b = append(b, `{"id":"`+r.id+`","object":"response.compaction","created_at":`...)
	b = strconv.AppendInt(b, r.created, 10)
	b = append(b, `,"output":[`...)
	b = append(b, f.made...)
	b = append(b, `],"usage":`...)
	return append(appendUsage(b, o.usage), '}')
}

// restore implements [format]. It reads no items, because the caller sends the stored text itself.
func (f *compactFormat) restore(stored []byte) (*reply, *outcome, error) {
	var was contract.Response
	if err := jsonx.Unmarshal(stored, &was); err != nil {
		return nil, nil, err
	}
	return &reply{id: was.ID, created: was.CreatedAt}, &outcome{status: statusCompleted, usage: usageOf(was.Usage)}, nil
}
