package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/agents/skill"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// sent is what a step records of its call besides the rows from which the prompt was built, so that the call can be built again.
type sent struct {
	Version int64            `json:"version,omitzero"` // of the agent; 0 for a draft
	From    int64            `json:"from,omitzero"`
	Skip    int64            `json:"skip,omitzero"`
	Summary int64            `json:"summary,omitzero"` // the turn of the compaction that the prompt uses
	Window  int64            `json:"window"`
	Access  stoa.DriveAccess `json:"access"`
	Files   int64            `json:"files,omitzero"` // in the drive
	View    bool             `json:"view,omitzero"`
	Whole   bool             `json:"whole,omitzero"` // the prompt has the texts of the view
	Uploads bool             `json:"uploads,omitzero"`
	Sees    bool             `json:"sees,omitzero"`
	Cut     bool             `json:"cut,omitzero"`
	Refused bool             `json:"refused,omitzero"` // images
	InWords bool             `json:"inWords,omitzero"` // the format
	Final   stoa.Code        `json:"final,omitzero"`
	Tools   string           `json:"tools,omitzero"` // hash of the definitions, if they are those of a [toolView]
	SHA256  string           `json:"sha256"`         // see digest
}

// sentAs returns the [sent] of a call of the turn.
func (t *turn) sentAs(call *stoa.Call) (string, error) {
	p := t.prompt
	s := sent{
		From: p.from, Skip: p.skip, Window: t.window, Access: p.access, Files: int64(p.knowledge.Stats.Files), View: p.view != nil, Whole: p.knowledge.Text != "",
		Uploads: len(p.attachments) > 0, Sees: p.sees, Cut: p.cut, Refused: p.refused, InWords: p.reply != nil && p.reply.refused, Final: p.final, SHA256: digest(call),
	}
	if !t.row.Draft {
		s.Version = t.row.AgentVersion
	}
	if p.summary != nil {
		s.Summary = p.summary.Turn
	}
	if p.told != nil {
		s.Tools = p.told.sum
	}
	text, err := jsonx.Marshal(s)
	return string(text), err
}

// recordSent sets what a step that is about to be recorded says about its call. The view changes only after the commit, because the
// transaction may run again.
func (p *prompt) recordSent(ch *session.Transition, st *stoa.Step) error {
	if st.Sent = p.sent; p.view == nil || p.view.Recorded {
		return nil
	}
	v := *p.view
	v.Recorded = true
	text, err := jsonx.Marshal(v)
	if err != nil {
		return err
	}
	st.View = string(text)
	ch.KeepView(st.View)
	return nil
}

// digest returns a hash of everything in a call that the model reads, except the content of images.
func digest(call *stoa.Call) string {
	h := sha256.New()
	add := func(texts ...string) {
		for _, text := range texts {
			fmt.Fprintf(h, "%d ", len(text))
			io.WriteString(h, text) // never fails
		}
	}
	add(call.Instructions)
	for _, t := range call.Tools {
		add("tool", t.Name, t.Description, t.Parameters)
	}
	if f := call.TextFormat(); f.Schema != "" {
		add("format", f.Schema, fmt.Sprint(f.Refused))
	}
	for _, m := range call.Messages {
		add("message", string(m.Role))
		eachPart(m.Parts, func(p stoa.Part, text string) {
			add(fmt.Sprint(p.Kind), text, p.Phase, p.State.Data)
			if p.Call != nil {
				add(p.Call.ID, p.Call.Name)
			}
			if p.Result != nil {
				add(p.Result.CallID, p.Result.Name, fmt.Sprint(p.Result.IsError))
			}
		})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// eachPart calls do with each part and its text: the arguments of a call, the content of a result, the type and size of an image. The
// images of a result follow it.
func eachPart(parts []stoa.Part, do func(p stoa.Part, text string)) {
	for _, p := range parts {
		switch p.Kind {
		case stoa.PartCall:
			do(p, p.Call.Arguments)
		case stoa.PartImage:
			do(p, fmt.Sprintf("%s, %d × %d pixels", p.Media.Type, p.Media.Width, p.Media.Height))
		case stoa.PartResult:
			if showsImage(p.Result) {
				do(p, p.Result.Parts[0].Text)
				eachPart(p.Result.Parts[1:], do)
				continue
			}
			do(p, p.Result.Content)
		default:
			do(p, p.Text)
		}
	}
}

// Kinds of the parts of a [Request], in the order in which they begin there.
const (
	PartTools        = "tools"
	PartInstructions = "instructions"
	PartSkills       = "skills"  // the list of the skills
	PartService      = "service" // Stoa's own instructions
	PartFormat       = "format"
	PartFiles        = "files"
	PartSummary      = "summary"
	PartMemory       = "memory" // the list of the notes about the end user
	PartHistory      = "history"
	PartFound        = "found" // a result of tool_find
	PartMessage      = "message"
	PartNote         = "note" // Stoa's remark before or after a message: changed files, what tools have done, the time
	PartStep         = "step" // an earlier reply of the turn, and the results of its calls
)

// Limits of a [Request].
const (
	MaxRequestParts = 2_000
	MaxRequestText  = 64 << 10 // bytes of a part
	maxRequestTotal = 4 << 20  // bytes of all parts
)

// A Request is a model call as it was sent.
type Request struct {
	Exact   bool     // it is what was sent, which a hash shows
	Differs []string // kinds of parts that are not what was sent; empty if Exact, or if it is not known which
	Note    string   // what is not as it was sent, and why; may be empty
	Parts   []RequestPart
}

// A RequestPart is one part of a [Request].
type RequestPart struct {
	Kind, Role, Type string // the types are text, tool, call, result, image and reasoning
	Turn, Step       int64  // 0 if it is of none
	New              bool   // the call before did not have it
	Name, CallID     string // of a tool
	IsError          bool
	Text             string
	Truncated        bool
	Missing          bool          // its text is no longer stored
	Files            []drive.Known // of PartFiles
	Tokens, Cached   int64         // see [Request.Scale]
}

// Scale distributes the input tokens of a receipt over the parts, in proportion to their estimates, and those that the vendor has read
// from its cache over the first ones, because a cache contains the beginning of a request.
func (r *Request) Scale(input, cached int64) {
	estimated := int64(0)
	for _, p := range r.Parts {
		estimated += p.Tokens
	}
	if estimated == 0 {
		return
	}
	sum, before := int64(0), int64(0)
	for i := range r.Parts {
		p := &r.Parts[i]
		sum += p.Tokens
		upTo := int64(float64(input) * float64(sum) / float64(estimated))
		p.Tokens, p.Cached = upTo-before, min(upTo, cached)-min(before, cached)
		before = upTo
	}
}

// Sent builds the call of a step again from what the session stored, with the code that built it. It returns nil if the step was recorded
// by a release that stored too little.
func (w *Worker) Sent(ctx context.Context, accountID, agentID, sessionID string, turn, number int64) (*Request, error) {
	var row store.SessionRow
	var at sent
	var v *view
	var summary *store.Compaction
	prefix, definitions := "", ""
	err := w.store.Read(ctx, func(tx *store.Tx) (err error) {
		if row, err = tx.Work().Session(ctx, accountID, agentID, sessionID); err != nil {
			return err
		}
		turns, _, err := tx.Work().Turns(ctx, sessionID, turn-1, 1, false)
		if err != nil || len(turns) == 0 || turns[0].Number != turn {
			return err
		}
		row.Turn = turns[0]
		text, viewed, err := tx.Work().StepSent(ctx, sessionID, turn, number)
		if err != nil || text == "" {
			return err
		}
		if err := jsonx.Unmarshal([]byte(text), &at); err != nil {
			return err
		}
		if v, err = readView(viewed); err != nil {
			return err
		}
		if at.Summary > 0 {
			summary, err = tx.Work().CompactionOf(ctx, sessionID, at.Summary)
		}
		if err == nil && at.Tools != "" {
			definitions, err = tx.Work().ToolList(ctx, accountID, agentID, at.Tools)
		}
		return err
	})
	if err != nil || at.SHA256 == "" {
		return nil, err
	}
	if at.Version > 0 {
		row.AgentVersion, row.Draft = at.Version, false
	}
	t, message, attached, err := w.loadRows(ctx, row)
	if err != nil {
		if stoa.CodeOf(err) == stoa.CodeInternal {
			return nil, err
		}
		return &Request{Note: "The request cannot be shown: " + stoa.AsError(err).Message}, nil
	}
	p := t.prompt
	files, err := parseAttached(attached)
	if err != nil {
		return nil, err
	}
	p.message = said(message.Text, message.Note, files)
	for i, s := range p.steps {
		if s.Number == number {
			p.steps, prefix = p.steps[:i], s.Prefix
			break
		}
	}
	p.access, p.sees, p.cut, p.refused, p.final = at.Access, at.Sees, at.Cut, at.Refused, at.Final
	if p.reply != nil {
		p.reply.refused = at.InWords
	}
	if !at.Uploads {
		p.attachments = nil
	}
	if at.Tools == "" {
		p.told = nil
	} else if err := p.toolsThen(turn, number, at.Tools, definitions); err != nil {
		return nil, err
	}
	p.from, p.skip, p.summary, p.view, p.memory = at.From, at.Skip, summary, nil, nil
	p.knowledge = drive.Knowledge{Stats: drive.Stats{Files: at.Files}}
	out := &Request{}
	if at.View && v != nil {
		p.view, p.memory = v, v.Memory
		p.keepSkills(v.Skills)
		if err := w.knownThen(ctx, t, at.Whole, out); err != nil {
			return nil, err
		}
	}
	if err := w.store.Read(ctx, func(tx *store.Tx) error {
		p.past, p.from, p.skip = nil, at.From, at.Skip
		return p.recall(ctx, tx, row, at.Window)
	}); err != nil {
		return nil, err
	}
	var marks []mark
	note := func(kind string, turn int64, messages int) {
		for len(marks) < messages {
			marks = append(marks, mark{kind, turn})
		}
	}
	call := p.buildNoting(note)
	if over := call.EstimateInput() - at.Window; over > 0 {
		p.shorten(&call, over)
	}
	out.add(p, call, marks)
	if out.Exact = digest(&call) == at.SHA256; !out.Exact {
		out.compare(prefix, p.fingerprint(&call))
	}
	return out, nil
}

// A mark says what a message of a call is.
type mark struct {
	kind string
	turn int64 // of PartHistory; the number of the step for PartStep
}

// knownThen sets the prompt's knowledge to that of its view, with the texts that are still stored.
func (w *Worker) knownThen(ctx context.Context, t *turn, whole bool, out *Request) error {
	p := t.prompt
	text, ok, err := w.cfg.Drives.KnownText(ctx, t.drive, p.view.Files)
	if err != nil {
		return err
	}
	if whole {
		p.knowledge.Whole, p.knowledge.Text, p.knowledge.Files = true, text, p.view.Files
	}
	for _, c := range p.view.Changes {
		changed, there, err := w.cfg.Drives.KnownText(ctx, t.drive, c.Files)
		if err != nil {
			return err
		}
		p.view.texts = append(p.view.texts, changed)
		ok = ok && there
	}
	if !ok {
		out.Note = "The text of a file that the request contained has been deleted."
		if whole && p.knowledge.Text == "" {
			p.knowledge.Text = " " // so that the request keeps its form
		}
	}
	return nil
}

// compare names the parts of a request whose hashes are not those that were recorded with the call.
func (r *Request) compare(was, is string) {
	then, now := strings.Fields(was), strings.Fields(is)
	for i, kind := range []string{PartTools, PartInstructions, PartFiles, PartSummary} {
		if len(then) >= prefixParts && then[i] != now[i] {
			r.Differs = append(r.Differs, kind)
		}
	}
	switch {
	case r.Note != "":
	case len(r.Differs) > 0:
		r.Note = "Some parts have changed since the call and are not as they were sent: " + strings.Join(r.Differs, ", ") + "."
	default:
		r.Note = "The conversation is not exactly as it was sent: a result, an image or a note in it has changed since the call."
	}
}

// add appends the parts of a call.
func (r *Request) add(p *prompt, call stoa.Call, marks []mark) {
	left := maxRequestTotal
	add := func(part RequestPart) {
		cut := session.Cut(part.Text, min(MaxRequestText, max(left, 0)))
		part.Truncated, part.Text = len(cut) < len(part.Text), cut
		left -= len(cut)
		r.Parts = append(r.Parts, part)
	}
	before := int64(0)
	for i, tool := range call.Tools {
		upTo := stoa.Call{Tools: call.Tools[:i+1]}.EstimateInput()
		add(RequestPart{Kind: PartTools, Role: "system", Type: "tool", Name: tool.Name, Text: tool.Description + "\n" + tool.Parameters, Tokens: upTo - before})
		before = upTo
	}
	system := func(kind, text string) {
		if text != "" {
			add(RequestPart{Kind: kind, Role: "system", Type: "text", Text: text, Tokens: stoa.Call{Instructions: text}.EstimateInput()})
		}
	}
	system(PartInstructions, p.instructions)
	skills := skill.List(p.skills)
	system(PartSkills, skills)
	rest := strings.TrimPrefix(strings.TrimPrefix(call.Instructions, p.instructions), "\n\n")
	system(PartService, strings.TrimPrefix(strings.TrimPrefix(rest, skills), "\n\n"))
	if call.Format != nil {
		add(RequestPart{Kind: PartFormat, Role: "system", Type: "text", Text: call.Format.Schema, Tokens: stoa.Call{Format: call.Format}.EstimateInput()})
	}
	latest, names := int64(len(p.steps)), map[string]string{} // of the called tools, by the id of the call
	for i, m := range call.Messages {
		at, part := marks[i], RequestPart{Kind: marks[i].kind, Role: string(m.Role)}
		switch at.kind {
		case PartHistory:
			part.Turn = at.turn
		case PartMessage, PartNote, PartMemory:
			part.Turn = at.turn
			part.New = at.turn == p.turn && !slices.ContainsFunc(marks[i+1:], func(m mark) bool { return m.kind == PartStep && m.turn > 0 })
		case PartStep:
			part.Turn, part.Step, part.New = p.turn, at.turn, at.turn == latest || at.turn == 0
		case PartFiles:
			part.Files = p.knowledge.Files
			if m.Text() == filesText+" " {
				m.Parts, part.Missing = []stoa.Part{{Kind: stoa.PartText}}, true
			}
		}
		eachPart(m.Parts, func(piece stoa.Part, text string) {
			one := part
			one.Text, one.Type = text, "text"
			if piece.Kind == stoa.PartResult && showsImage(piece.Result) { // because the images are parts of their own
				result := *piece.Result
				result.Parts, piece.Result = result.Parts[:1], &result
			}
			one.Tokens = stoa.Call{Messages: []stoa.Message{{Role: m.Role, Parts: []stoa.Part{piece}}}}.EstimateInput()
			switch piece.Kind {
			case stoa.PartText:
				if at.kind == PartMessage && text != "" && stoa.WithoutNotes(text) == "" {
					one.Kind = PartNote
				}
			case stoa.PartCall:
				one.Type, one.Name, one.CallID = "call", piece.Call.Meant().Name, piece.Call.ID
				names[one.CallID] = one.Name
			case stoa.PartResult:
				if names[piece.Result.CallID] == stoa.FindTool && !p.isExternal(stoa.FindTool) {
					one.Kind = PartFound
				}
				one.Type, one.Role, one.Name, one.CallID, one.IsError = "result", "tool", cmp.Or(names[piece.Result.CallID], piece.Result.Name), piece.Result.CallID, piece.Result.IsError
			case stoa.PartReasoning:
				one.Type, one.Text = "reasoning", ""
			default:
				one.Type = "image"
			}
			add(one)
		})
	}
	if over := len(r.Parts) - MaxRequestParts; over > 0 { // the oldest turns become one part
		first := slices.IndexFunc(r.Parts, func(p RequestPart) bool { return p.Kind == PartHistory })
		if first < 0 {
			first = len(r.Parts) - MaxRequestParts
		}
		joined := RequestPart{Kind: PartHistory, Role: "user", Type: "text", Truncated: true}
		for _, part := range r.Parts[first : first+over+1] {
			joined.Tokens += part.Tokens
		}
		r.Parts = slices.Replace(r.Parts, first, first+over+1, joined)
	}
}
