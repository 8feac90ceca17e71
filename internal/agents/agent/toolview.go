package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	toolNoteTokens = 4_000                  // maximum size of the notes about tools in a prompt; above it the prompt begins with the current definitions
	maxToolTokens  = tool.MaxTokens + 4_000 // of the definitions with those of former tools and of the service; likewise
	maxOldNotes    = 50                     // notes kept only to show earlier requests
	maxNamedTools  = 50                     // tools that a note names
)

const goneText = "It is not available in this conversation any more."

// A toolView is what the prompts of a session contain about its tools: the definitions with which they begin, and the notes about what has
// changed since. Neither changes while the prompts grow, because the tools stand before everything else in a request, and a vendor reads
// its beginning from a cache. Only a new tool is added to the definitions, since a model can call no others. A view is replaced when the
// prompts begin differently anyway, and when the notes are large.
//
// A session without tools of programs or servers has no view, because its tools do not change.
type toolView struct {
	Version int64      `json:"version,omitzero"` // of the agent; 0 for a draft
	From    int64      `json:"from,omitzero"`    // the beginning of the prompts, see [prompt]
	Skip    int64      `json:"skip,omitzero"`
	Network bool       `json:"network,omitzero"` // a tool of a program or server has been offered
	Notes   []toolNote `json:"notes,omitempty"`

	list  []stoa.Tool
	sum   string // hash of list
	fresh bool   // list is not stored yet
	dirty bool   // the view is not stored yet
}

// A toolNote tells the model what has changed. It follows a step of a turn, or stands before the message of the turn for step 0.
type toolNote struct {
	Turn   int64       `json:"turn"`
	Step   int64       `json:"step,omitzero"`
	Text   string      `json:"text"`
	States []toolState `json:"states"`
	// The first call that did not contain the note; 0 if all since contain it.
	UntilTurn int64 `json:"untilTurn,omitzero"`
	UntilStep int64 `json:"untilStep,omitzero"`
}

// A toolState is what a model was told about a tool.
type toolState struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256,omitzero"` // hash of the definition; empty if the tool cannot be called
	Reason string `json:"reason,omitzero"` // why it cannot
}

type storedTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  string `json:"parameters"`
}

func readToolView(v store.SessionViews) (*toolView, error) {
	if v.ToolView == "" {
		return nil, nil
	}
	view := &toolView{}
	if err := jsonx.Unmarshal([]byte(v.ToolView), view); err != nil {
		return nil, fmt.Errorf("read the tools of a session: %w", err)
	}
	return view, view.read(v.ToolList, v.Tools)
}

// read sets the definitions from their stored text, which may be empty.
func (v *toolView) read(sum, text string) error {
	if text == "" {
		return nil
	}
	var stored []storedTool
	if err := jsonx.Unmarshal([]byte(text), &stored); err != nil {
		return fmt.Errorf("read the tools of a session: %w", err)
	}
	v.sum, v.list = sum, make([]stoa.Tool, len(stored))
	for i, t := range stored {
		v.list[i] = stoa.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
	}
	return nil
}

// stored returns the text of the definitions.
func (v *toolView) stored() (string, error) {
	list := make([]storedTool, len(v.list))
	for i, t := range v.list {
		list[i] = storedTool{t.Name, t.Description, t.Parameters}
	}
	text, err := jsonx.Marshal(list)
	return string(text), err
}

func (v *toolView) has(name string) bool {
	return v != nil && slices.ContainsFunc(v.list, func(t stoa.Tool) bool { return t.Name == name })
}

// set replaces the definitions.
func (v *toolView) set(list []stoa.Tool) error {
	v.list, v.dirty, v.fresh = list, true, true
	text, err := v.stored()
	v.sum = stoa.HashOf(text)
	return err
}

// store records a view that has changed.
func (v *toolView) store(ch *session.Transition) error {
	if v == nil || !v.dirty {
		return nil
	}
	view, err := jsonx.Marshal(v)
	if err != nil {
		return err
	}
	list := ""
	if v.fresh {
		if list, err = v.stored(); err != nil {
			return err
		}
	}
	ch.KeepTools(v.sum, list, string(view))
	return nil
}

// freezeTools decides which definitions the next call begins with, and what it says at its end about those that are no longer right.
func (p *prompt) freezeTools(version int64) error {
	now, v := p.offers(), p.told
	if v == nil && len(p.external) == 0 {
		return nil
	}
	if v == nil || v.list == nil || v.Version != version || v.From != p.from || v.Skip != p.skip {
		return p.renewTools(version, now)
	}
	list, grown := slices.Clone(v.list), false
	for _, t := range now {
		at := slices.IndexFunc(list, func(o stoa.Tool) bool { return o.Name == t.Name })
		switch {
		case at < 0:
			list, grown = append(list, t), true
		case !p.isExternal(t.Name) && t.Name != stoa.FindTool && definitionHash(list[at]) != definitionHash(t): // a tool of the service can do more, such as read attached files
			list[at], grown = t, true
		}
	}
	if grown && (stoa.Call{Tools: list}).EstimateInput() > maxToolTokens {
		return p.renewTools(version, now)
	}
	if grown {
		v.Network = v.Network || p.usesNetwork()
		if err := v.set(list); err != nil {
			return err
		}
	}
	note := p.toolNews(now)
	if len(note.States) == 0 {
		return nil
	}
	size := len(note.Text)
	for _, n := range v.Notes {
		if n.UntilTurn == 0 {
			size += len(n.Text)
		}
	}
	if stoa.EstimateTokens(size) > toolNoteTokens {
		return p.renewTools(version, now)
	}
	v.Notes, v.dirty = append(v.Notes, note), true
	return nil
}

// renewTools has the prompts begin with the current definitions.
func (p *prompt) renewTools(version int64, now []stoa.Tool) error {
	v := &toolView{Version: version, From: p.from, Skip: p.skip, Network: p.usesNetwork()}
	if p.told != nil {
		for _, n := range p.told.Notes {
			if n.UntilTurn == 0 {
				n.UntilTurn, n.UntilStep = p.turn, int64(len(p.steps)+1)
			}
			v.Notes = append(v.Notes, n)
		}
		v.Notes = v.Notes[max(len(v.Notes)-maxOldNotes, 0):]
	}
	p.told = v
	if p.search { // those that were listed before it began to search
		now = slices.DeleteFunc(now, func(t stoa.Tool) bool { return p.isSearched(t.Name) })
	}
	return v.set(now)
}

// toolNews returns the note about the tools of which the prompt does not say what holds now. It has no states if there are none.
func (p *prompt) toolNews(now []stoa.Tool) toolNote {
	note := toolNote{Turn: p.turn, Step: int64(len(p.steps))}
	var lines []string
	for _, was := range p.toolsTold() {
		is, line := toolState{Name: was.Name}, ""
		t, available := p.definition(now, was.Name)
		if available {
			is.SHA256 = definitionHash(t)
		} else {
			is.Reason = p.unavailable(was.Name)
		}
		of := slices.IndexFunc(p.told.list, func(t stoa.Tool) bool { return t.Name == was.Name })
		switch {
		case is == was || p.search && was.Name == stoa.FindTool:
			continue
		case !available:
			line = is.Reason
		case of < 0:
			line = "It is available, and its definition may have changed: find it again by its name."
		case definitionHash(p.told.list[of]) == is.SHA256:
			line = "It is available as defined at the beginning."
		default:
			line = "It is available with this definition, which replaces the one before: " + t.Description + " Parameters: " + t.Parameters
		}
		note.States = append(note.States, is)
		lines = append(lines, "- "+was.Name+": "+line+"\n")
	}
	if more := len(lines) - maxNamedTools; more > 0 {
		lines = append(lines[:maxNamedTools], fmt.Sprintf("- and %d others\n", more))
	}
	note.Text = stoa.ToolsNote + strings.Join(lines, "") + stoa.ToolsNoteEnd
	return note
}

// toolsTold returns what the prompt says about each tool, in the order in which it says so first.
func (p *prompt) toolsTold() (list []toolState) {
	tell := func(s toolState) {
		if at := slices.IndexFunc(list, func(o toolState) bool { return o.Name == s.Name }); at >= 0 {
			list[at] = s
			return
		}
		list = append(list, s)
	}
	for _, t := range p.told.list {
		tell(toolState{Name: t.Name, SHA256: definitionHash(t)})
	}
	type said struct {
		turn, step int64
		states     []toolState
	}
	var all []said
	find := func(steps []stoa.Step) {
		for i := range steps {
			all = append(all, said{steps[i].Turn, steps[i].Number, foundIn(&steps[i])})
		}
	}
	for _, t := range p.past {
		find(t.steps)
	}
	find(p.steps)
	for _, n := range p.told.Notes {
		if n.UntilTurn == 0 {
			all = append(all, said{n.Turn, n.Step, n.States})
		}
	}
	slices.SortStableFunc(all, func(a, b said) int { return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.step, b.step)) })
	for _, one := range all {
		for _, s := range one.states {
			tell(s)
		}
	}
	return list
}

// definition returns the current definition of a tool, unless it cannot be called.
func (p *prompt) definition(now []stoa.Tool, name string) (t stoa.Tool, ok bool) {
	if at := slices.IndexFunc(now, func(t stoa.Tool) bool { return t.Name == name }); at >= 0 {
		return now[at], true
	}
	at := slices.IndexFunc(p.external, func(t stoa.OfferedTool) bool { return t.Name == name })
	if !p.search || at < 0 {
		return t, false
	}
	return p.external[at].Tool(), true
}

// unavailable returns the sentence for the model about a tool that it cannot call.
func (p *prompt) unavailable(name string) string {
	at := slices.IndexFunc(p.withheld, func(w stoa.Withheld) bool { return w.Tool == name })
	if at < 0 {
		return goneText
	}
	return cmp.Or(tool.WhyWithheld(p.withheld[at].Reason), goneText)
}

// notes returns the texts of the notes after a step of a turn; those before its message for step 0, together with all notes of the turns
// [first, turn), which the prompt does not contain.
func (p *prompt) notes(first, turn, step int64) string {
	if p.told == nil {
		return ""
	}
	var b strings.Builder
	for _, n := range p.told.Notes {
		if n.UntilTurn == 0 && (n.Turn == turn && n.Step == step || n.Turn >= first && n.Turn < turn) {
			b.WriteString(n.Text)
		}
	}
	return b.String()
}

// usesNetwork reports whether the agent has tools outside of the service.
func (p *prompt) usesNetwork() bool {
	return slices.ContainsFunc(p.external, func(t stoa.OfferedTool) bool { return t.Type != stoa.ToolDrive })
}

// definitionHash returns a hash of what a model reads of a tool. The spelling of its parameters does not count.
func definitionHash(t stoa.Tool) string {
	parameters := t.Parameters
	var v any
	d := json.NewDecoder(strings.NewReader(parameters))
	d.UseNumber()
	if d.Decode(&v) == nil {
		if text, err := json.Marshal(v); err == nil {
			parameters = string(text)
		}
	}
	return stoa.HashOf(t.Name + "\x00" + t.Description + "\x00" + parameters)
}

// toolsThen sets the tools of a prompt to those of an earlier call: the definitions with a hash, and the notes until then.
func (p *prompt) toolsThen(turn, step int64, sum, text string) error {
	v := &toolView{Network: p.usesNetwork()}
	if p.told != nil {
		v.Network = p.told.Network
		for _, n := range p.told.Notes {
			made := n.Turn < turn || n.Turn == turn && n.Step < step
			if kept := n.UntilTurn == 0 || n.UntilTurn > turn || n.UntilTurn == turn && n.UntilStep > step; made && kept {
				n.UntilTurn, n.UntilStep = 0, 0
				v.Notes = append(v.Notes, n)
			}
		}
	}
	p.told = v
	if text == "" {
		v.list = p.offers() // because they are no longer stored; the hash of the call shows whether they differ
		return nil
	}
	return v.read(sum, text)
}
