package httptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/agents/remote"
	"stoa/internal/models/schema"
)

// Limits of the operations of a connection.
const (
	MaxOperations     = 100
	MaxOperationsText = 256 << 10 // bytes of JSON of all of them
	MaxItems          = 1000      // entries of a list that a result may keep
	defaultItems      = 50
)

// An Operation is a request that the owner of a connection describes.
type Operation struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Method      string         `json:"method"`
	Path        string         `json:"path"`
	Parameters  map[string]any `json:"parameters"`
	Effects     string         `json:"effects"` // empty means the method's
	Result      struct {
		Pointer  string `json:"pointer"`
		MaxItems int    `json:"maxItems"`
	} `json:"result"`
}

var operationName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)

// methods maps the allowed methods to the effects of a repetition, because RFC 9110 defines which
// of them are safe or idempotent.
var methods = map[string]string{"GET": "read", "HEAD": "read", "PUT": "idempotent", "DELETE": "idempotent", "POST": "once", "PATCH": "once"}

// An OperationError is the error of one operation in a list.
type OperationError struct {
	Index  int
	Member string // of the operation
	Err    error
}

// Error names the operation by its position.
func (e *OperationError) Error() string { return fmt.Sprintf("operation %d: %v", e.Index+1, e.Err) }

// ErrHeader is the error of an operation whose argument is sent in a header that cannot be
// set.
var ErrHeader = errors.New("not the name of a header that can be set")

// Unwrap returns the cause.
func (e *OperationError) Unwrap() error { return e.Err }

// FromOperations makes tools from a list of operations in JSON. The error of a single
// operation is an [*OperationError].
func FromOperations(text string) ([]remote.Tool, error) {
	var list []Operation
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if len(text) > MaxOperationsText || d.Decode(&list) != nil {
		return nil, fmt.Errorf("the operations cannot be read, or have more than %d KiB", MaxOperationsText>>10)
	}
	if len(list) == 0 || len(list) > MaxOperations {
		return nil, fmt.Errorf("a connection must have 1 to %d operations", MaxOperations)
	}
	var tools []remote.Tool
	seen := map[string]bool{}
	for i, o := range list {
		t, member, err := o.tool()
		if err == nil && seen[o.Name] {
			member, err = "name", fmt.Errorf("there are two operations named %q", o.Name)
		}
		if err != nil {
			return nil, &OperationError{i, member, err}
		}
		seen[o.Name] = true
		tools = append(tools, t)
	}
	return tools, nil
}

// tool returns the tool of an operation, or the invalid member.
func (o Operation) tool() (t remote.Tool, member string, err error) {
	effects, ok := methods[o.Method]
	switch {
	case !operationName.MatchString(o.Name):
		return t, "name", errors.New("a name must have letters, digits, _ and -, at most 64, and begin with a letter")
	case !ok:
		return t, "method", errors.New("the method must be GET, HEAD, POST, PUT, PATCH or DELETE")
	case o.Result.MaxItems < 0 || o.Result.MaxItems > MaxItems:
		return t, "result.maxItems", fmt.Errorf("a result can keep at most %d entries of a list", MaxItems)
	}
	if err := pathProblem(o.Path); err != nil {
		return t, "path", err
	}
	if p := o.Result.Pointer; p != "" && !strings.HasPrefix(p, "/") || strings.Count(p, "/") > maxPointer || len(p) > 512 {
		return t, "result.pointer", fmt.Errorf("the pointer must have the form /data/items, with at most %d steps", maxPointer)
	}
	if o.Effects != "" {
		effects = o.Effects
	}
	p := plan{Method: o.Method, Path: o.Path, Arguments: map[string]place{}, Effects: effects, IdempotencyKey: effects == "idempotent"}
	p.Result = selection{Pointer: o.Result.Pointer, MaxItems: o.Result.MaxItems}
	if p.Result.MaxItems == 0 {
		p.Result.MaxItems = defaultItems
	}
	parameters, err := o.places(&p)
	if err != nil {
		return t, "parameters", err
	}
	t = p.tool(o.Name, "", o.Description, parameters)
	if t.Problem != "" {
		return t, "parameters", errors.New(t.Problem)
	}
	return t, "", nil
}

// places moves the places of the arguments from their schema to the plan.
func (o Operation) places(p *plan) (map[string]any, error) {
	parameters := maps.Clone(o.Parameters)
	if parameters == nil {
		parameters = map[string]any{}
	}
	if _, ok := parameters["type"]; !ok {
		parameters["type"] = "object"
	}
	properties := map[string]any{}
	given, ok := parameters["properties"].(map[string]any)
	if !ok && parameters["properties"] != nil {
		return nil, errors.New("the properties are not an object")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		property, ok := given[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the schema of %q is not an object", name)
		}
		property = maps.Clone(property)
		in, _ := property["in"].(string)
		delete(property, "in")
		properties[name] = property
		switch in {
		case "path", "query":
		case "header":
			if !remote.HeaderName(name) {
				return nil, fmt.Errorf("%q is %w", name, ErrHeader)
			}
		case "body":
			if p.Method == "GET" || p.Method == "HEAD" {
				return nil, fmt.Errorf("a request with %s cannot have a body, but %q is in it", p.Method, name)
			}
		default:
			return nil, fmt.Errorf(`%q must have "in": path, query, header or body`, name)
		}
		if in == "path" && !slices.Contains(placeholders(p.Path), name) {
			return nil, fmt.Errorf("the path does not contain {%s}", name)
		}
		p.Arguments[name] = place{In: in, Name: name}
	}
	required, _ := parameters["required"].([]any)
	for _, name := range placeholders(p.Path) {
		if p.Arguments[name].In != "path" {
			return nil, fmt.Errorf(`{%s} in the path requires a parameter of that name with "in": "path"`, name)
		}
		if !slices.Contains(required, any(name)) {
			required = append(slices.Clone(required), name)
		}
	}
	if len(required) > 0 {
		parameters["required"] = required
	}
	parameters["properties"] = properties
	return parameters, nil
}

// fitting returns the tool of a plan. If its definition is too large, its texts and then its
// innermost schemas are left out, because otherwise the operation would be refused.
func (p *plan) fitting(name, title, description string, parameters map[string]any) remote.Tool {
	first := p.tool(name, title, description, parameters)
	for _, s := range []shortening{{300, allLevels}, {100, allLevels}, {0, allLevels}, {0, 6}, {0, 3}} {
		if first.Problem == "" {
			break
		}
		if t := p.tool(name, title, remote.Cut(description, 1000), s.parameters(parameters)); t.Problem == "" {
			return t
		}
	}
	return first
}

func (p *plan) tool(name, title, description string, parameters map[string]any) remote.Tool {
	if _, ok := parameters["additionalProperties"]; !ok {
		parameters["additionalProperties"] = false
	}
	problem := ""
	if text, err := json.Marshal(parameters); err != nil {
		problem = "The schema of the arguments cannot be read."
	} else if _, err := schema.ReadParameters(string(text)); err != nil {
		problem = "The schema of the arguments cannot be used: " + err.Error() + "."
	}
	d := map[string]any{"name": name, "description": description, "inputSchema": parameters, "request": p}
	if title != "" {
		d["title"] = title
	}
	return remote.New(name, d, problem)
}

const formType = "application/x-www-form-urlencoded"

// Encodings of a member of a form whose value is a list. Without one each entry is a member
// of the same name.
const (
	deepList   = "deep"   // a[0]=x, as in the style deepObject
	joinedList = "joined" // a=x,y
)

// encodeForm writes an object as a form. Members of objects are in brackets: a[b]=c.
func encodeForm(object json.RawMessage, lists map[string]string) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		more, err := formPairs(name, members[name], lists[name])
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, more...)
	}
	return []byte(strings.Join(pairs, "&")), nil
}

// formPairs returns the pairs of a value; none for null.
func formPairs(name string, raw json.RawMessage, list string) (pairs []string, err error) {
	raw = bytes.TrimSpace(raw)
	var entries []json.RawMessage
	switch {
	case len(raw) > 0 && raw[0] == '{':
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, err
		}
		for _, member := range slices.Sorted(maps.Keys(members)) {
			more, err := formPairs(name+"["+member+"]", members[member], list)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, more...)
		}
		return pairs, nil
	case len(raw) > 0 && raw[0] == '[' && list != joinedList:
		if err := json.Unmarshal(raw, &entries); err != nil {
			return nil, err
		}
		for i, entry := range entries {
			of := name
			if entry = bytes.TrimSpace(entry); list == deepList || len(entry) > 0 && (entry[0] == '{' || entry[0] == '[') {
				of += "[" + strconv.Itoa(i) + "]"
			}
			more, err := formPairs(of, entry, list)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, more...)
		}
		return pairs, nil
	}
	values, err := plainValues(raw)
	if err != nil || values == nil {
		return nil, err
	}
	return []string{escape(name) + "=" + escape(strings.Join(values, ","))}, nil
}

// formLists returns the encodings of the lists in a form, from its description.
func formLists(media map[string]any) map[string]string {
	lists := map[string]string{}
	for name, v := range object(media["encoding"]) {
		e := object(v)
		explode, stated := e["explode"].(bool)
		switch {
		case texts(e["style"]) == "deepObject":
			lists[name] = deepList
		case stated && !explode:
			lists[name] = joinedList
		}
	}
	if len(lists) == 0 {
		return nil
	}
	return lists
}
