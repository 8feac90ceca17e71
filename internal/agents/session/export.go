package session

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// The formats of [Sessions.Export].
const (
	ExportJSONL    = "jsonl"
	ExportMarkdown = "markdown"
)

const exportBatch = 200

// Export writes a whole session: as lines of JSON (the session, then its messages, the tool
// calls of its steps, its sources and receipts, each with a "type"), or as readable Markdown.
// It reads in pieces, so that a long session uses no more memory than a short one; data added
// during the export may be missing. Errors before the first byte have their code; later ones
// truncate the export.
func (s *Sessions) Export(ctx context.Context, accountID, agentID, id, format string, w io.Writer) error {
	if format != ExportJSONL && format != ExportMarkdown {
		return stoa.Errorf(stoa.CodeInvalidValue, "The format must be %q or %q.", ExportJSONL, ExportMarkdown).At("format")
	}
	row, err := s.Get(ctx, accountID, agentID, id)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	e := &exporter{all: s, s: row, agentID: agentID, out: out}
	if format == ExportMarkdown {
		err = e.markdown(ctx)
	} else {
		err = e.jsonl(ctx)
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

type exporter struct {
	all     *Sessions
	s       stoa.Session
	agentID string
	out     *bufio.Writer
	turns   int64 // number of the last turn that steps has exported
}

// maxTurnSources is far above the number of sources that the tool calls of one turn can show.
const maxTurnSources = 10_000

func (e *exporter) sources(ctx context.Context, turn int64) ([]stoa.Source, error) {
	return e.all.Sources(ctx, e.s.AccountID, e.agentID, e.s.ID, turn, turn, maxTurnSources)
}

func (e *exporter) messages(ctx context.Context, fn func(m stoa.SessionMessage) error) error {
	after := int64(0)
	for {
		page, more, err := e.all.Messages(ctx, e.s.AccountID, e.agentID, e.s.ID, after, exportBatch, false)
		if err != nil {
			return err
		}
		for _, m := range page {
			after = m.Place
			if err := fn(m.SessionMessage); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// feedback returns the ratings of an answer.
func (e *exporter) feedback(ctx context.Context, m stoa.SessionMessage) ([]stoa.Feedback, error) {
	if m.Kind != stoa.KindReply {
		return nil, nil
	}
	list, err := e.all.Feedback(ctx, e.s.AccountID, e.agentID, e.s.ID, m.Turn, m.Turn)
	return slices.DeleteFunc(list, func(r stoa.Feedback) bool { return r.MessageID != m.ID }), err
}

func (e *exporter) steps(ctx context.Context, fn func(st stoa.Step) error) error {
	after := int64(0)
	for {
		turns, more, err := e.all.Turns(ctx, e.s.AccountID, e.agentID, e.s.ID, after, exportBatch, false)
		if err != nil {
			return err
		}
		for _, t := range turns {
			after, e.turns = t.Number, t.Number
			steps, err := store.Read(ctx, e.all.store, func(tx *store.Tx) ([]stoa.Step, error) { return tx.Work().Steps(ctx, e.s.ID, t.Number) })
			for _, st := range steps {
				if err == nil {
					err = fn(st)
				}
			}
			if err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

func (e *exporter) calls(ctx context.Context, st stoa.Step) ([]stoa.ExternalCall, error) {
	if e.s.ToolCalls == 0 || len(st.Calls) == 0 {
		return nil, nil
	}
	return store.Read(ctx, e.all.store, func(tx *store.Tx) ([]stoa.ExternalCall, error) {
		return tx.Work().StepCalls(ctx, e.s.ID, st.Turn, st.Number)
	})
}

// exportSession is the first line of an export. The types of the lines are part of the
// documented format: fields are added, never renamed.
type exportSession struct {
	Type           string            `json:"type"`
	ID             string            `json:"id"`
	AgentID        string            `json:"agentId"`
	AgentVersion   int64             `json:"agentVersion"`
	Mode           string            `json:"mode"`
	Status         string            `json:"status"`
	Title          string            `json:"title,omitzero"`
	ExternalID     string            `json:"externalId,omitzero"`
	ExternalUserID string            `json:"externalUserId,omitzero"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	CreditsMicro   int64             `json:"creditsMicro"`
	CreatedAt      string            `json:"createdAt"`
	ReplyJSON      jsonx.Value       `json:"replyJson,omitempty"` // only with a reply schema
}

type exportMessage struct {
	Type        string           `json:"type"`
	ID          string           `json:"id"`
	Turn        int64            `json:"turn"`
	Role        string           `json:"role"`
	Kind        string           `json:"kind"`
	Status      string           `json:"status"`
	Text        string           `json:"text"`
	CreatedAt   string           `json:"createdAt"`
	Attachments []AttachmentData `json:"attachments,omitempty"`
	Feedback    []exportFeedback `json:"feedback,omitempty"`
}

type exportFeedback struct {
	By        string `json:"by"`
	Rating    string `json:"rating"`
	Comment   string `json:"comment,omitzero"`
	UpdatedAt string `json:"updatedAt"`
}

type exportTool struct {
	Type      string  `json:"type"`
	StepID    string  `json:"stepId"`
	CallID    string  `json:"callId"`
	Name      string  `json:"name"`
	Arguments string  `json:"arguments"`
	Result    *string `json:"result"` // null if none exists
	IsError   bool    `json:"isError"`

	// Only of an external call.
	ToolCallID string `json:"toolCallId,omitzero"`
	Effects    string `json:"effects,omitzero"`
	Outcome    string `json:"outcome,omitzero"`
	Attempts   int    `json:"attempts,omitzero"`

	// Only of a call that needed one, once it was decided.
	Approval     *exportDecision `json:"approval,omitempty"`
	Confirmation *exportDecision `json:"confirmation,omitempty"`
}

// exportDecision is the decision about a call, by a key or by the visitor of an embed.
type exportDecision struct {
	Decision string `json:"decision"`
	By       string `json:"by,omitzero"`
	EmbedID  string `json:"embedId,omitzero"`
	At       string `json:"at"`
	Comment  string `json:"comment,omitzero"`
}

type exportSource struct {
	Type     string `json:"type"`
	Turn     int64  `json:"turn"`
	Path     string `json:"path"`
	SHA256   string `json:"sha256"`
	FromLine int64  `json:"fromLine"`
	ToLine   int64  `json:"toLine"`
	Place    string `json:"place,omitzero"`
	Via      string `json:"via"`
}

type exportReceipt struct {
	Type         string    `json:"type"`
	ID           string    `json:"id"`
	Model        string    `json:"model"`
	Usage        UsageData `json:"usage"`
	CreditsMicro int64     `json:"creditsMicro"`
	CreatedAt    string    `json:"createdAt"`
}

func (e *exporter) line(v any) error {
	b, err := jsonx.Marshal(v)
	if err != nil {
		return err
	}
	e.out.Write(b)
	return e.out.WriteByte('\n')
}

func (e *exporter) jsonl(ctx context.Context) error {
	s := e.s
	err := e.line(exportSession{
		Type: "session", ID: s.ID, AgentID: s.AgentID, AgentVersion: s.AgentVersion, Mode: string(s.Mode), Status: string(s.Status),
		Title: s.Title, ExternalID: s.ExternalID, ExternalUserID: s.ExternalUserID, Metadata: s.Metadata, CreditsMicro: int64(s.Spent), CreatedAt: timeText(s.CreatedAt),
		ReplyJSON: ReplyJSON(s),
	})
	if err != nil {
		return err
	}
	err = e.messages(ctx, func(m stoa.SessionMessage) error {
		ratings, err := e.feedback(ctx, m)
		if err != nil {
			return err
		}
		line := exportMessage{"message", m.ID, m.Turn, string(m.Role), m.Kind, string(m.Status), m.Text, timeText(m.CreatedAt), AttachmentsData(m.Attachments), nil}
		for _, r := range ratings {
			line.Feedback = append(line.Feedback, exportFeedback{r.By, r.Rating, r.Comment, timeText(r.UpdatedAt)})
		}
		return e.line(line)
	})
	if err != nil {
		return err
	}
	err = e.steps(ctx, func(st stoa.Step) error {
		external, err := e.calls(ctx, st)
		if err != nil {
			return err
		}
		for i, c := range st.Calls {
			t := exportTool{Type: "tool", StepID: stoa.StepID(st.SessionID, st.Turn, st.Number), CallID: c.ID, Name: c.Meant().Name, Arguments: c.Meant().Arguments}
			if r := st.Results[i]; r != nil {
				t.Result, t.IsError = &r.Content, r.IsError
			}
			for _, x := range external {
				if x.Place == i {
					t.ToolCallID, t.Effects, t.Outcome, t.Attempts = x.ID, string(x.Effects), string(x.Outcome), x.Attempts
					if x.Decision != "" {
						t.Approval = &exportDecision{Decision: string(x.Decision), By: x.DecidedBy, At: timeText(x.DecidedAt), Comment: x.Comment}
					}
					if x.Confirmed != "" {
						t.Confirmation = &exportDecision{Decision: string(x.Confirmed), EmbedID: x.ConfirmedBy, At: timeText(x.ConfirmedAt)}
					}
				}
			}
			if err := e.line(t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for turn := range e.turns {
		sources, err := e.sources(ctx, turn+1)
		if err != nil {
			return err
		}
		for _, x := range sources {
			if err := e.line(exportSource{"source", x.Turn, x.Path, x.SHA256, x.FromLine, x.ToLine, x.Place, x.Via}); err != nil {
				return err
			}
		}
	}
	p := store.Page{Limit: exportBatch, Asc: true}
	for {
		receipts, more, err := e.all.Receipts(ctx, s.AccountID, e.agentID, s.ID, p)
		if err != nil {
			return err
		}
		for _, c := range receipts {
			u := UsageData{c.Usage.InputTokens, c.Usage.OutputTokens, c.Usage.Total()}
			if err := e.line(exportReceipt{"receipt", c.ID, c.Served, u, int64(c.Amount), timeText(c.CreatedAt)}); err != nil {
				return err
			}
			p.After = store.Cursor{At: c.CreatedAt, ID: c.ID}
		}
		if !more {
			return nil
		}
	}
}

// markdown writes the messages, each under a heading with its author, and the sources of each
// turn. It does not escape the texts, so a program that shows them as HTML must sanitize them.
func (e *exporter) markdown(ctx context.Context) error {
	title := strings.Join(strings.Fields(e.s.Title), " ")
	if title == "" {
		title = "Session " + e.s.ID
	}
	fmt.Fprintf(e.out, "# %s\n\n%s, %s\n", title, e.s.CreatedAt.Format(time.RFC3339), e.s.Status)
	turn := int64(0)
	end := func() error {
		if turn == 0 {
			return nil
		}
		sources, err := e.sources(ctx, turn)
		for _, x := range sources {
			fmt.Fprintf(e.out, "\n- source: %s (%s", strings.Join(strings.Fields(x.Path), " "), x.Via)
			switch {
			case x.Place != "":
				fmt.Fprintf(e.out, ", %s", x.Place)
			case x.ToLine > 0:
				fmt.Fprintf(e.out, ", lines %s", stoa.LineRange(x.FromLine, x.ToLine))
			}
			fmt.Fprint(e.out, ")")
		}
		return err
	}
	err := e.messages(ctx, func(m stoa.SessionMessage) error {
		if m.Turn == 0 {
			return nil
		}
		if m.Turn != turn {
			if err := end(); err != nil {
				return err
			}
			turn = m.Turn
			fmt.Fprint(e.out, "\n")
		}
		who := "User"
		if m.Role == stoa.RoleAssistant {
			who = "Agent"
		}
		if m.Status == stoa.MessageCancelled || m.Status == stoa.MessageFailed {
			who += " (broken off)"
		}
		_, err := fmt.Fprintf(e.out, "\n## %s\n\n%s\n", who, m.Text)
		for _, f := range m.Attachments {
			if err == nil {
				_, err = fmt.Fprintf(e.out, "\nAttached: %s (%s, %d bytes)\n", f.Name, f.MimeType, f.Size)
			}
		}
		if err != nil {
			return err
		}
		ratings, err := e.feedback(ctx, m)
		for _, r := range ratings {
			fmt.Fprintf(e.out, "\nRated %s by the %s: %s\n", r.Rating, r.By, strings.Join(strings.Fields(r.Comment), " "))
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	_, err = fmt.Fprint(e.out, "\n")
	return err
}
