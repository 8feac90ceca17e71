package agui

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// An Input is a request to run an agent: the protocol's RunAgentInput. The contract has checked its members.
type Input struct {
	ThreadID       string        `json:"threadId"`
	RunID          string        `json:"runId"`
	ParentRunID    string        `json:"parentRunId"`
	State          jsonx.Value   `json:"state"`
	Messages       []jsonx.Value `json:"messages"` // raw, because a snapshot returns them with all their members
	Tools          []Tool        `json:"tools"`
	Context        []jsonx.Value `json:"context"`
	ForwardedProps jsonx.Value   `json:"forwardedProps"`
	Resume         []Resume      `json:"resume"`

	list []message
}

// A Tool is a tool of the front end.
type Tool struct {
	Name string `json:"name"`
}

// A Resume answers an interrupt.
type Resume struct {
	InterruptID string      `json:"interruptId"`
	Status      string      `json:"status"` // resolved or cancelled
	Payload     jsonx.Value `json:"payload"`
}

type message struct {
	ID         string      `json:"id"`
	Role       string      `json:"role"`
	Content    jsonx.Value `json:"content"`
	ToolCallID string      `json:"toolCallId"`
	Error      string      `json:"error"`

	index int
}

type part struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Source struct {
		Type     string `json:"type"`
		Value    string `json:"value"`
		MimeType string `json:"mimeType"`
	} `json:"source"`
	Metadata jsonx.Value `json:"metadata"`
}

// Read reads a request. It fails if the request has parts that change its meaning and that an agent cannot use; the error
// names the member.
func Read(body []byte) (*Input, error) {
	in := &Input{}
	if err := jsonx.Unmarshal(body, in); err != nil {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "A value of the body cannot be read. Compare it with the contract.").Because(err)
	}
	switch {
	case len(in.Context) > 0:
		return nil, stoa.Errorf(stoa.CodeUnsupported, "The agent has its own instructions and files. Leave \"context\" out, or put it into the message.").At("context")
	case !empty(in.State):
		return nil, stoa.Errorf(stoa.CodeUnsupported, "An agent shares no state with its front end. Leave \"state\" out, or send an empty object.").At("state")
	}
	for i, raw := range in.Messages {
		m := message{index: i}
		if err := jsonx.Unmarshal(raw, &m); err != nil {
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "The message cannot be read. Compare it with the protocol.").At(fmt.Sprintf("messages[%d]", i)).Because(err)
		}
		switch m.Role {
		case "system", "developer":
			return nil, stoa.Errorf(stoa.CodeUnsupported, "The agent has its own instructions. Leave system and developer messages out; change the agent in the console or with PATCH /api/v1/api-agents/{id}.").At(m.at(".role"))
		case "activity", "reasoning": // of the front end, or of another agent
		default:
			in.list = append(in.list, m)
		}
	}
	return in, nil
}

// empty reports whether a value is absent, null or an empty object, which clients send for nothing.
func empty(v jsonx.Value) bool {
	text := bytes.TrimSpace(v)
	return len(text) == 0 || string(text) == "null" || text[0] == '{' && len(bytes.TrimSpace(text[1:len(text)-1])) == 0
}

// Ignored returns the names of the members without effect.
func (in *Input) Ignored() (names []string) {
	if !empty(in.ForwardedProps) {
		names = append(names, "forwardedProps")
	}
	if in.ParentRunID != "" {
		names = append(names, "parentRunId")
	}
	return names
}

func (m *message) at(member string) string { return fmt.Sprintf("messages[%d]%s", m.index, member) }

// A Message is the user's message of a run, with the texts of the earlier messages, the oldest first.
type Message struct {
	Text    string
	Files   []*stoa.Media
	History []stoa.SessionMessage
}

// Role returns the role of the last message; empty if there is none.
func (in *Input) Role() string {
	if len(in.list) == 0 {
		return ""
	}
	return in.list[len(in.list)-1].Role
}

// Message returns the user's message at the end of the request.
func (in *Input) Message() (out Message, err error) {
	if in.Role() != string(stoa.RoleUser) {
		return out, stoa.Errorf(stoa.CodeInvalidValue, "The last message must be a new one of the user, or the output of a tool call that the session waits for, because the agent answers it.").At("messages")
	}
	for i := range in.list {
		m := &in.list[i]
		last := i == len(in.list)-1
		text, files, err := m.read(last)
		switch {
		case err != nil:
			return out, err
		case last && text == "":
			return out, stoa.Errorf(stoa.CodeInvalidValue, "The message has no text.").At(m.at(".content"))
		case last:
			out.Text, out.Files = text, files
		case text != "" && m.Role != "tool":
			out.History = append(out.History, stoa.SessionMessage{Role: stoa.Role(m.Role), Text: text})
		}
	}
	return out, nil
}

// read returns the text and the files of a message. Of an earlier one only the text counts.
func (m *message) read(last bool) (text string, files []*stoa.Media, err error) {
	if empty(m.Content) || jsonx.Unmarshal(m.Content, &text) == nil {
		return text, nil, nil
	}
	var parts []part
	if err := jsonx.Unmarshal(m.Content, &parts); err != nil {
		return "", nil, stoa.Errorf(stoa.CodeInvalidValue, "The content must be a text or a list of parts.").At(m.at(".content"))
	}
	var texts []string
	for i, p := range parts {
		at := m.at(fmt.Sprintf(".content[%d]", i))
		switch {
		case p.Type == "text":
			texts = append(texts, p.Text)
		case !last:
			texts = append(texts, "[a file of an earlier message]")
		case m.Role != string(stoa.RoleUser) || p.Type != "image" && p.Type != "document":
			return "", nil, stoa.Errorf(stoa.CodeUnsupportedValue, "An agent accepts the parts text, image and document of a user, and text of a tool; this is %q.", p.Type).At(at + ".type")
		case p.Source.Type != "data":
			return "", nil, stoa.Errorf(stoa.CodeUnsupportedValue, "An agent does not fetch files from addresses or providers. Send the content itself, as a source of the type \"data\".").At(at + ".source")
		default:
			var meta struct {
				Filename string `json:"filename"`
			}
			name := ""
			if jsonx.Unmarshal(p.Metadata, &meta) == nil { // it may be any value
				name = meta.Filename
			}
			if name == "" {
				name = fmt.Sprintf("%s-%d.%s", p.Type, len(files)+1, extension(p.Source.MimeType))
			}
			files = append(files, &stoa.Media{Type: p.Source.MimeType, Base64: p.Source.Value, Name: name})
		}
	}
	return strings.Join(texts, "\n\n"), files, nil
}

var simpleType = regexp.MustCompile(`^[a-z0-9]{1,8}$`)

// extension returns the usual end of the names of files of a type, from which the service derives the type again.
func extension(mimeType string) string {
	_, sub, _ := strings.Cut(mimeType, "/")
	if special, ok := map[string]string{
		"plain": "txt", "markdown": "md",
		"vnd.openxmlformats-officedocument.wordprocessingml.document":   "docx",
		"vnd.openxmlformats-officedocument.spreadsheetml.sheet":         "xlsx",
		"vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
	}[sub]; ok {
		return special
	}
	if !simpleType.MatchString(sub) {
		return "bin"
	}
	return sub
}

// Output returns the newest output of a tool call in the request; ok is false if it has none.
func (in *Input) Output(callID string) (text string, isError, ok bool, err error) {
	for _, m := range slices.Backward(in.list) {
		if m.Role == "tool" && m.ToolCallID == callID {
			text, _, err = m.read(true)
			if m.Error != "" && text == "" {
				text = m.Error
			}
			return text, m.Error != "", true, err
		}
	}
	return "", false, false, nil
}

// Answer returns the text that answers the interrupt.
func (r *Resume) Answer() (text string, err error) {
	var object struct {
		Answer string `json:"answer"`
	}
	if jsonx.Unmarshal(r.Payload, &text) == nil || jsonx.Unmarshal(r.Payload, &object) == nil {
		text += object.Answer
	}
	if text == "" {
		err = stoa.Errorf(stoa.CodeInvalidValue, "The payload must be the text of the answer, or an object with the text \"answer\".").At("resume[0].payload")
	}
	return text, err
}

// Without returns the messages of the request without those that the run itself has produced, because the client would
// append their texts and arguments to those that it has.
func (in *Input) Without(produced map[string]bool) []jsonx.Value {
	list := []jsonx.Value{}
	for _, raw := range in.Messages {
		var m message
		if jsonx.Unmarshal(raw, &m) == nil && !produced[m.ID] {
			list = append(list, raw)
		}
	}
	return list
}
