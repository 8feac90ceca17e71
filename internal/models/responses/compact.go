package responses

import (
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/models/gateway"
)

// A compaction item stands in for a conversation: its summary, sealed for the account. It is made
// by POST /responses/compact, which is a call that ends with an order to summarize, and is an item
// of input of later calls.

// compactionState is the wire of a sealed summary, which is not the state of a provider.
const compactionState = "compaction"

// keptTokens is the maximum size of the user's messages that a compaction repeats.
const keptTokens = 20_000

// errNoSummary is the reply to a compaction without a text. Its call is charged.
var errNoSummary = stoa.Errorf(stoa.CodeUpstream, "The model wrote no summary. The call was charged, and so would another be: use another model, or send the messages without compacting them.").AfterCharge()

// ParseCompact parses the body of POST /responses/compact, which has the members of a call. Those
// that concern only the reply have no effect.
func ParseCompact(body []byte, o Options) (*Request, error) {
	req, err := Parse(body, o)
	if err != nil {
		return nil, err
	}
	c := &req.call
	req.format = &compactMaker{kept: userTexts(c.Messages)}
	c.Messages = append(c.Messages, stoa.TextMessage(stoa.RoleUser, stoa.SummarizeText))
	c.MaxOutputTokens, c.Format, c.Stops = stoa.SummaryTokens, nil, nil
	req.Stream = false
	req.wanted = wanted{itemized: req.wanted.itemized, noTools: true}
	return req, nil
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

// compactionItem adds the summary of an item of POST /responses/compact.
func (p *parser) compactionItem(path string, it *inputItem) error {
	if it.tool != nil && it.tool.bad["encrypted_content"] != nil {
		return it.tool.bad["encrypted_content"]
	}
	if it.tool != nil && it.tool.sealed != "" {
		if s, ok := p.opts.Open(it.tool.sealed); ok && s.Wire == compactionState {
			p.message(stoa.RoleUser, p.one(stoa.Part{Kind: stoa.PartText, Text: stoa.SummaryText + s.Data}))
			return nil
		}
	}
	return stoa.Errorf(stoa.CodeInvalidValue, "%q is not a compaction that this service has made for this account. Send the item unchanged, or the messages themselves.", path+".encrypted_content").At(path + ".encrypted_content")
}

// A compactMaker makes the format of a compaction.
type compactMaker struct{ kept []string }

func (m *compactMaker) newFormat() format { return &compactFormat{kept: m.kept} }

// A compactFormat is the format of POST /responses/compact, which has no streams.
type compactFormat struct {
	responsesFormat
	kept []string
	seal func(stoa.State) string
	made []byte // the output; a seal is never the same twice
}

// object appends the compaction.
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

// restore implements [format]; the caller sends the stored text itself.
func (f *compactFormat) restore(stored []byte) (*reply, *outcome, error) {
	var was contract.Response
	if err := jsonx.Unmarshal(stored, &was); err != nil {
		return nil, nil, err
	}
	return &reply{id: was.ID, created: was.CreatedAt}, &outcome{status: statusCompleted, usage: usageOf(was.Usage)}, nil
}
