package tool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/agents/remote"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// Limits of the data shown to visitors who have to confirm a call.
const (
	MaxPublic       = 8   // fields
	MaxVisitorTitle = 200 // characters
	maxPointer      = 200 // characters
	maxPointerSteps = 8
	maxFieldName    = 100   // characters
	maxFieldValue   = 1_000 // characters
	maxValues       = 10_000
)

// publicFields returns the members of a tool's arguments that JSON Pointers name. Each must
// be a string, a number or a boolean described in the schema of the arguments. place is the
// index of the pointer that the error is about.
func publicFields(inputSchema map[string]any, pointers []string) (fields []stoa.PublicField, place int, err error) {
	for i, pointer := range pointers {
		if slices.Contains(pointers[:i], pointer) {
			return nil, i, errors.New("it is listed twice")
		}
		path, err := jsonx.ParsePointer(pointer, maxPointerSteps)
		if err != nil {
			return nil, i, err
		}
		name, err := fieldName(inputSchema, path)
		if err != nil {
			return nil, i, err
		}
		fields = append(fields, stoa.PublicField{Path: path, Name: name})
	}
	return fields, 0, nil
}

var plainTypes = []string{"string", "number", "integer", "boolean", "null"}

func fieldName(inputSchema map[string]any, path []string) (string, error) {
	at := inputSchema
	for i, step := range path {
		properties, _ := at["properties"].(map[string]any)
		member, ok := properties[step].(map[string]any)
		if !ok {
			return "", fmt.Errorf("the schema of the arguments has no property %q there", short(step))
		}
		if i == len(path)-1 && !isPlain(member) {
			return "", fmt.Errorf("the property %q is not described as a string, a number or a boolean, and other types are not shown", short(step))
		}
		at = member
	}
	title, _ := at["title"].(string)
	return cmp.Or(remote.Strip(title, maxFieldName), remote.Strip(path[len(path)-1], maxFieldName), "—"), nil
}

func isPlain(member map[string]any) bool {
	switch t := member["type"].(type) {
	case string:
		return slices.Contains(plainTypes, t)
	case []any:
		return len(t) > 0 && !slices.ContainsFunc(t, func(v any) bool {
			s, ok := v.(string)
			return !ok || !slices.Contains(plainTypes, s)
		})
	}
	return false
}

// checkConfirmation checks whether visitors can be asked about the calls of a tool as a
// review specifies. The error names the member of the decision that is at fault.
func checkConfirmation(i int, definition string, d Decision) error {
	if len(d.PublicFields) > MaxPublic {
		return stoa.Errorf(stoa.CodeInvalidValue, "There are %d public fields; the maximum is %d.", len(d.PublicFields), MaxPublic).At(member(i, "publicFields"))
	}
	parsed := remote.Parse(definition)
	for j, pointer := range d.PublicFields {
		if len([]rune(pointer)) > maxPointer {
			return stoa.Errorf(stoa.CodeInvalidValue, "A pointer can have at most %d characters.", maxPointer).At(fmt.Sprintf("%s[%d]", member(i, "publicFields"), j))
		}
	}
	if _, j, err := publicFields(parsed.InputSchema, d.PublicFields); err != nil {
		return stoa.Errorf(stoa.CodeInvalidValue, "The pointer %q is invalid: %v.", short(d.PublicFields[j]), err).At(fmt.Sprintf("%s[%d]", member(i, "publicFields"), j))
	}
	if len([]rune(d.VisitorTitle)) > MaxVisitorTitle {
		return stoa.Errorf(stoa.CodeInvalidValue, "The title can have at most %d characters.", MaxVisitorTitle).At(member(i, "visitorTitle"))
	}
	if titleFor(d.VisitorTitle, parsed.Title) == "" {
		return stoa.Errorf(stoa.CodeMissingParameter, "The tool %q has no title. Set visitorTitle to what visitors are asked to confirm, such as \"Cancel an order\".", short(d.Name)).At(member(i, "visitorTitle"))
	}
	return nil
}

func titleFor(reviewed, own string) string {
	return cmp.Or(strings.TrimSpace(remote.Strip(reviewed, MaxVisitorTitle)), strings.TrimSpace(remote.Strip(own, MaxVisitorTitle)))
}

// ask returns how visitors are asked about the calls of the tool, as it was approved; nil if
// the definition no longer allows it.
func (e entry) ask() *stoa.Ask {
	d := remote.Parse(e.tool.ApprovedDefinition)
	public, _, err := publicFields(d.InputSchema, e.tool.PublicFields)
	if err != nil {
		return nil
	}
	return &stoa.Ask{Title: titleFor(e.tool.VisitorTitle, d.Title), Public: public}
}

// Confirmation returns the data shown to a visitor about a call with the model's arguments;
// nil if the visitor is not asked. A member that is not a string, a number or a boolean is
// left out.
func Confirmation(ask *stoa.Ask, arguments string) *stoa.Confirmation {
	if ask == nil {
		return nil
	}
	out := &stoa.Confirmation{Title: ask.Title, Fields: []stoa.ShownField{}}
	all, err := jsonx.Tree([]byte(arguments), maxValues)
	if err != nil {
		return out // since they do not fit the schema, and the call is not made
	}
	for _, f := range ask.Public {
		value, ok := all, true
		for _, step := range f.Path {
			members, _ := value.(map[string]any)
			if value, ok = members[step]; !ok {
				break
			}
		}
		text := ""
		switch v := value.(type) {
		case string:
			text = v
		case json.Number:
			text = v.String()
		case bool:
			text = fmt.Sprint(v)
		default:
			ok = false
		}
		if !ok {
			continue
		}
		shown := stoa.ShownField{Name: f.Name, Value: remote.Visible(text)}
		if cut := remote.Cut(shown.Value, maxFieldValue); cut != shown.Value {
			shown.Value, shown.Cut = cut, true
		}
		out.Fields = append(out.Fields, shown)
	}
	return out
}
