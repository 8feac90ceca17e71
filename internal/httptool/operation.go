package httptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"stoa/internal/remote"
	"stoa/internal/schema"
)

// Limits of the operations of a connection.
const (
	MaxOperations     = 100
	MaxOperationsText = 256 << 10 // bytes of JSON of all of them
	MaxItems          = 1000      // that a result may keep of a list
	defaultItems      = 50
)

// An Operation is a request that the owner of a connection describes.
type Operation struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Method      string         `json:"method"`
	Path        string         `json:"path"`
	Parameters  map[string]any `json:"parameters"`
	Effects     string         `json:"effects"` // empty: as the method has it
	Result      struct {
		Pointer  string `json:"pointer"`
		MaxItems int    `json:"maxItems"`
	} `json:"result"`
}

var operationName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)

// methods are those that requests may have, with what a repetition does.
var methods = map[string]string{"GET": "read", "HEAD": "read", "PUT": "idempotent", "DELETE": "idempotent", "POST": "once", "PATCH": "once"}

// An OperationError says which operation is wrong, and why.
type OperationError struct {
	Index  int
	Member string // of the operation
	Err    error
}

// Error names the operation by its place.
func (e *OperationError) Error() string { return fmt.Sprintf("operation %d: %v", e.Index+1, e.Err) }

// ErrHeader is what is wrong with an operation whose argument goes into a header that
// cannot be set.
var ErrHeader = errors.New("not the name of a header that can be set")

// Unwrap returns what is wrong.
func (e *OperationError) Unwrap() error { return e.Err }

// FromOperations makes tools from a list of operations in JSON. Its errors are
// [*OperationError] where one of them is wrong.
func FromOperations(text string) ([]remote.Tool, error) {
	var list []Operation
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if len(text) > MaxOperationsText || d.Decode(&list) != nil {
		return nil, fmt.Errorf("the operations cannot be read, or have more than %d KiB", MaxOperationsText>>10)
	}
	if len(list) == 0 || len(list) > MaxOperations {
		return nil, fmt.Errorf("a connection has between one operation and %d", MaxOperations)
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

// tool returns the tool of an operation, or the member that is wrong.
func (o Operation) tool() (t remote.Tool, member string, err error) {
	effects, ok := methods[o.Method]
	switch {
	case !operationName.MatchString(o.Name):
		return t, "name", errors.New("a name has letters, digits, _ and -, at most 64, and begins with a letter")
	case !ok:
		return t, "method", errors.New("the method is GET, HEAD, POST, PUT, PATCH or DELETE")
	case o.Result.MaxItems < 0 || o.Result.MaxItems > MaxItems:
		return t, "result.maxItems", fmt.Errorf("a result keeps at most %d entries of a list", MaxItems)
	}
	if err := pathProblem(o.Path); err != nil {
		return t, "path", err
	}
	if err := pointerProblem(o.Result.Pointer); err != nil {
		return t, "result.pointer", err
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

// places takes the places of the arguments out of their schema.
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
		return nil, errors.New("the properties are no object")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		property, ok := given[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the schema of %q is no object", name)
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
				return nil, fmt.Errorf("a request with %s has no body, and %q is in it", p.Method, name)
			}
		default:
			return nil, fmt.Errorf(`%q says where it goes: "in" is path, query, header or body`, name)
		}
		if in == "path" && !slices.Contains(placeholders(p.Path), name) {
			return nil, fmt.Errorf("the path has no {%s}", name)
		}
		p.Arguments[name] = place{In: in, Name: name}
	}
	required, _ := parameters["required"].([]any)
	for _, name := range placeholders(p.Path) {
		if p.Arguments[name].In != "path" {
			return nil, fmt.Errorf(`{%s} in the path needs a parameter of that name with "in": "path"`, name)
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

// tool returns the tool of a plan.
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
