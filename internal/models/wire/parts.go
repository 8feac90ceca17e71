package wire

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// isPlain reports whether a call is a conversation of texts only whose reply is not sent back
// with its reasoning.
func isPlain(call *stoa.Call) bool {
	if call.Stateful || len(call.Tools) > 0 {
		return false
	}
	for i := range call.Messages {
		parts := call.Messages[i].Parts
		for j := range parts {
			if parts[j].Kind != stoa.PartText {
				return false
			}
		}
	}
	return true
}

// A turn is a message as it is sent to a vendor.
type turn struct {
	role  stoa.Role   // RoleSystem: in its position among the others
	tools []stoa.Tool // of RoleSystem: that are added here; then there are no parts
	parts []piece     // of a user: results first
	one   [1]piece    // memory for parts while there is only one
}

// A piece is a part with its vendor-specific id. Reasoning is always of this route.
type piece struct {
	*stoa.Part
	id   string    // PartCall, PartResult: unique in the request
	mark stoa.Mark // of the request, for the vendor's cache
}

func textPiece(text string) piece {
	return piece{Part: &stoa.Part{Kind: stoa.PartText, Text: text}}
}

// A shape describes the requirements of a wire for a conversation.
type shape struct {
	system    bool // all system messages stay in their places, including the first ones
	alternate bool // user and assistant alternate, the user begins
	noBlank   bool // a text of only white space is refused
	marks     bool // a text of a system message can be marked
}

// turnsOf returns the system text of a call (its instructions and the system messages before
// all others, unless they stay) and its messages in the form that a wire requires. A later
// system message stays in its place if the route's model accepts it there, and otherwise
// becomes a text of the user; if turns alternate, it follows the user's content before the
// next turn of the assistant. The encoding of a message must not depend on later messages, so that
// a conversation that continues begins with the same bytes.
//
// A plain call (see [isPlain]) has all its system messages in the system text, and, if turns
// alternate, consecutive turns of one author are one text unless the caller marks the input.
func turnsOf(call stoa.Call, route stoa.Route, want shape) (system string, list []turn) {
	marks, _ := call.Marks()
	p := parter{want: want, route: route, ids: callIDs{nine: route.Traits.CallIDs == "nine"}, plain: isPlain(&call), marked: marks > 0, list: make([]turn, 0, len(call.Messages)+1)}
	var head []string
	var space [8]piece // for the parts of one message, to avoid an allocation
	for i := range call.Messages {
		switch m := &call.Messages[i]; {
		case m.Role == stoa.RoleSystem && !want.system && (p.plain || len(head) == i):
			head = append(head, m.Text())
		case m.Role == stoa.RoleSystem:
			p.system(m)
		case m.Role == stoa.RoleAssistant:
			p.assistant(m, space[:0])
		default:
			p.user(m, space[:0])
		}
	}
	p.end()
	return joined(call.Instructions, head), p.list
}

// joined returns the non-empty texts, joined by blank lines.
func joined(first string, more []string) string {
	more = slices.DeleteFunc(more, func(s string) bool { return s == "" })
	switch {
	case len(more) == 0:
		return first
	case first == "":
		return strings.Join(more, "\n\n")
	}
	return first + "\n\n" + strings.Join(more, "\n\n")
}

func reasoningIn(list []turn) (n int) {
	for _, t := range list {
		for i := range t.parts {
			if t.parts[i].Kind == stoa.PartReasoning {
				n++
			}
		}
	}
	return n
}

// A parter builds the turns of a conversation.
type parter struct {
	want  shape
	route stoa.Route
	plain bool
	// marked means that the caller marks the input for a cache: its parts stay separate, because the
	// next call marks other ones of them.
	marked bool
	ids    callIDs
	list   []turn
	open   []openCall // calls of the last turn that have no result yet
	later  []piece    // texts of system messages that wait for their position
}

type openCall struct{ given, sent string }

func (p *parter) system(m *stoa.Message) {
	if len(m.Tools) > 0 && p.want.system && hasCustomTools(p.route) {
		p.list = append(p.list, turn{role: stoa.RoleSystem, tools: m.Tools})
		return
	}
	text := m.Text()
	if p.isBlank(text) {
		return
	}
	one := textPiece(text)
	for i := range m.Parts {
		one.Mark = max(one.Mark, m.Parts[i].Mark)
	}
	texts := []piece{one}
	if p.want.marks {
		texts = splitAtMarks(m)
	}
	inPlace := p.want.system || p.route.Traits.MidSystem
	if len(p.open) > 0 || inPlace && p.want.alternate { // because results directly follow their calls
		p.later = append(p.later, texts...)
		return
	}
	p.addSystem(texts...)
}

func splitAtMarks(m *stoa.Message) (pieces []piece) {
	text := ""
	for i := range m.Parts {
		part := &m.Parts[i]
		if part.Text != "" && (text != "" || len(pieces) > 0) {
			text += "\n\n"
		}
		text += part.Text
		if text != "" && (part.Mark != stoa.MarkNone || i == len(m.Parts)-1) {
			pieces = append(pieces, textPiece(text))
			pieces[len(pieces)-1].Mark = part.Mark
			text = ""
		}
	}
	return pieces
}

func (p *parter) addSystem(texts ...piece) {
	role := stoa.RoleUser
	if p.want.system || p.route.Traits.MidSystem {
		role = stoa.RoleSystem
	}
	p.add(role, texts)
}

// user adds a message of the user; parts is the memory for its parts.
func (p *parter) user(m *stoa.Message, parts []piece) {
	for i := range m.Parts {
		switch part := &m.Parts[i]; part.Kind {
		case stoa.PartText:
			if !p.isBlank(part.Text) {
				parts = append(parts, piece{Part: part})
			}
		case stoa.PartResult:
			at := slices.IndexFunc(p.open, func(c openCall) bool { return c.given == part.Result.CallID })
			if at < 0 {
				verb := " answered:]\n"
				if part.Result.IsError {
					verb = " failed:]\n"
				}
				parts = append(parts, textPiece("[A tool"+verb+part.Result.Content))
				continue
			}
			parts = append(parts, piece{Part: part, id: p.open[at].sent})
			p.open = slices.Delete(p.open, at, at+1)
		case stoa.PartImage, stoa.PartFile:
			parts = append(parts, piece{Part: part})
		}
	}
	p.open = p.open[:0]
	p.add(stoa.RoleUser, parts)
	if !p.waits() {
		p.addLater()
	}
}

// waits reports whether system messages wait for the end of the user's content.
func (p *parter) waits() bool {
	return p.want.alternate && (p.want.system || p.route.Traits.MidSystem)
}

func (p *parter) addLater() {
	if len(p.later) == 0 {
		return
	}
	if n := len(p.list); p.waits() && (n == 0 || p.list[n-1].role != stoa.RoleUser) {
		p.filler(n)
	}
	p.addSystem(p.later...)
	p.later = nil
}

// assistant adds a message of the assistant; parts is the memory for its parts. Reasoning at
// the end is left out, because vendors refuse it.
func (p *parter) assistant(m *stoa.Message, parts []piece) {
	whole := 0 // length of parts up to the last that is not reasoning
	var open []openCall
	for i := range m.Parts {
		switch part := &m.Parts[i]; part.Kind {
		case stoa.PartText:
			if p.isBlank(part.Text) {
				continue
			}
			parts = append(parts, piece{Part: part})
		case stoa.PartReasoning:
			if part.State.Data != "" && part.State.Fits(p.route) {
				parts = append(parts, piece{Part: part})
			}
			continue
		case stoa.PartCall:
			c := openCall{given: part.Call.ID, sent: p.ids.of(part.Call.ID)}
			open = append(open, c)
			parts = append(parts, piece{Part: part, id: c.sent})
		default:
			continue
		}
		whole = len(parts)
	}
	if whole == 0 {
		return
	}
	p.addLater()
	p.open = open
	n := len(p.list)
	switch {
	case n == 0 && (p.want.alternate || !p.plain), n > 0 && p.want.alternate && !p.plain && p.list[n-1].role == stoa.RoleAssistant:
		p.filler(n)
	}
	p.add(stoa.RoleAssistant, parts[:whole])
}

// add adds parts to the last turn if turns alternate and both are the user's, or both are the
// assistant's in a plain call; otherwise as a new turn.
func (p *parter) add(role stoa.Role, parts []piece) {
	if len(parts) == 0 {
		return
	}
	n := len(p.list)
	if p.want.alternate && (role == stoa.RoleUser || p.plain) && n > 0 && p.list[n-1].role == role {
		p.list[n-1].parts = append(p.list[n-1].parts, parts...)
		return
	}
	p.list = append(p.list, turn{role: role})
	p.list[n].parts = append(p.list[n].one[:0], parts...)
}

// filler adds a turn of the user that the vendor requires after n turns.
func (p *parter) filler(n int) {
	text := continueText
	if n == 0 {
		text = beginText
	}
	p.list = append(p.list, turn{role: stoa.RoleUser, parts: []piece{textPiece(text)}})
}

// end adds the turns that the end of a conversation requires.
func (p *parter) end() {
	p.addLater()
	n := len(p.list)
	if n == 0 || p.route.Traits.NoPrefill && p.list[n-1].role == stoa.RoleAssistant {
		p.filler(n)
	}
	if !p.plain || p.marked {
		return
	}
	for i, t := range p.list {
		if len(t.parts) > 1 {
			p.list[i].parts = []piece{textPiece(joinTexts(t.parts))}
		}
	}
}

func (p *parter) isBlank(text string) bool {
	return text == "" || p.want.noBlank && strings.TrimSpace(text) == ""
}

// callIDs assigns ids that a vendor accepts and that are unique in a request: the call's own
// id if possible. The id of a call depends only on earlier calls.
type callIDs struct {
	nine  bool // ids have nine letters and digits; see [stoa.Traits]
	sent  map[string]bool
	times map[string]int // the last number added to an id
}

func (m *callIDs) of(given string) string {
	if m.sent == nil {
		m.sent, m.times = map[string]bool{}, map[string]int{}
	}
	id := m.fitted(given)
	n := max(1, m.times[given])
	for m.sent[id] {
		n++
		id = m.fitted(given + "_" + strconv.Itoa(n))
	}
	m.times[given] = n
	m.sent[id] = true
	return id
}

// fitted returns the id, or a replacement that the server accepts: a hash. [callIDs.of] keeps the
// replacements in a request apart, however short they are.
func (m *callIDs) fitted(id string) string {
	sum := sha256.Sum256([]byte(id))
	switch {
	case m.nine && !nineID.MatchString(id):
		return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:])[:9])
	case !stoa.IsName(id):
		return "call_" + hex.EncodeToString(sum[:16])
	}
	return id
}

var nineID = regexp.MustCompile(`^[A-Za-z0-9]{9}$`)

// forced reports whether the call must be answered by a tool call and the route's model
// supports that.
func forced(call stoa.Call, t stoa.Traits) bool {
	return call.ToolChoice().Mode == stoa.ChoiceRequired && len(call.Tools) > 0 && t.Forces(call.Effort)
}

// allowed returns the tools that the model may call. All tools are returned if none may be
// called, or if the call names the one to be called.
func allowed(call stoa.Call) []stoa.Tool {
	c := call.ToolChoice()
	if c.Mode == stoa.ChoiceNone || c.Named || len(c.Only) == 0 {
		return call.Tools
	}
	return slices.DeleteFunc(slices.Clone(call.Tools), func(t stoa.Tool) bool { return !slices.Contains(c.Only, t.Name) })
}

// strictObject writes a call's arguments like [builder.object], but also wraps an object with
// duplicate names, which readers could interpret differently.
func (w *builder) strictObject(arguments string) {
	if arguments = strings.TrimSpace(arguments); arguments == "" || arguments[0] == '{' && jsonx.Valid([]byte(arguments)) {
		w.comma()
		w.b = appendObject(w.b, arguments)
		return
	}
	w.open('{')
	w.member("unreadable", arguments)
	w.close('}')
}

// inWords returns the instruction to answer in a format, for a model without a setting for
// it.
func inWords(f stoa.Format) string {
	if f.Kind == stoa.FormatSchema && strings.TrimSpace(f.Schema) != "" {
		return "Answer with JSON that fits the following JSON Schema, and with nothing else:\n" + strings.TrimSpace(f.Schema)
	}
	return "Answer with one JSON object, and with nothing else."
}

func sizeOfParts(parts []stoa.Part) (n int) {
	for i := range parts {
		p := &parts[i]
		n += 64 + len(p.Text) + len(p.State.Data)
		switch {
		case p.Media != nil:
			n += len(p.Media.Base64) + len(p.Media.URL)
		case p.Call != nil:
			n += len(p.Call.Arguments)
		case p.Result != nil:
			n += len(p.Result.Content) + sizeOfParts(p.Result.Parts)
		}
	}
	return n
}
