package httptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	yaml "github.com/oasdiff/yaml3"

	"stoa/internal/agents/remote"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/ratelimit"
)

// Limits of a document.
const (
	MaxDocument   = remote.MaxCatalog // bytes, if it is sent with the connection, or in YAML
	MaxJSON       = 16 << 20          // bytes, if it is fetched in JSON; higher, because only parts of JSON are read
	maxValues     = 500_000
	maxNested     = 100 // nested values in YAML; the limit for JSON is [jsonx.MaxDepth]
	maxReferences = 20  // chained references, because they may be circular
)

// maxReading is the maximum number of documents read at the same time, half of them of one
// account, because each may use a hundred times its size.
const maxReading = 2

var reading ratelimit.Turns

// readDocument makes the tools of an OpenAPI document. Its server counts only if the connection
// has no address, so that a later document cannot redirect the calls.
func (s Server) readDocument(ctx context.Context, text []byte) (*remote.Catalog, error) {
	base := s.URL
	release, err := reading.Acquire(ctx, s.Account, maxReading, maxReading/2)
	if err != nil {
		return nil, &remote.Error{Class: remote.NotSent, Message: "The time was over before the document was read.", Err: err}
	}
	defer release()
	left := maxValues
	tree, err := parseDocument(text, &left)
	if err != nil {
		return nil, remote.Against("The document cannot be read: " + err.Error() + ".")
	}
	d := document{ctx: ctx, root: tree, left: &left, from: s.DocumentURL, filter: s.Filter}
	version, _ := tree["openapi"].(string)
	switch {
	case strings.HasPrefix(version, "3.0"):
		d.old = true
	case texts(tree["swagger"]) == "2.0":
		d.old, d.swagger = true, true
	case !strings.HasPrefix(version, "3.1"):
		return nil, remote.Against("The document is not one of OpenAPI 3.0, 3.1 or Swagger 2.0.")
	}
	info := object(tree["info"])
	out := &remote.Catalog{Name: texts(info["title"]), Version: texts(info["version"]), Instructions: texts(info["description"])}
	own, err := d.server()
	switch {
	case base != "":
	case err != nil:
		return nil, remote.Against(remote.Sentence(err.Error()))
	default:
		base = own
	}
	d.own, d.base, out.URL = own, base, base
	out.Tools, err = d.tools()
	if err != nil {
		return nil, remote.Against(remote.Sentence(err.Error()))
	}
	return out, nil
}

// parseDocument reads JSON or YAML. Numbers keep their spelling, because a float64 would round.
func parseDocument(text []byte, left *int) (map[string]any, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var v any
	var err error
	nested := jsonx.MaxDepth
	switch {
	case len(text) > MaxJSON:
		return nil, fmt.Errorf("it has more than %d MiB", MaxJSON>>20)
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		v, err = outline(text, left)
	case len(text) > MaxDocument:
		return nil, fmt.Errorf("it has more than %d MiB, in YAML. Use one in JSON, of at most %d MiB", MaxDocument>>20, MaxJSON>>20)
	default:
		nested = maxNested
		v, err = parseYAML(text)
	}
	if errors.Is(err, jsonx.ErrTooMany) {
		return nil, fmt.Errorf("it has more than %d values, or more than %d levels of nesting", maxValues, nested)
	}
	if err != nil {
		return nil, errors.New("it is neither valid JSON nor valid YAML (" + remote.Visible(remote.Cut(strings.ReplaceAll(err.Error(), "\n", " "), 200)) + ")")
	}
	tree, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	return tree, nil
}

func parseYAML(text []byte) (any, error) {
	// Each value has its own line, comma or colon, so their number limits the parser's memory
	// before anything else can.
	if bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte(","))+bytes.Count(text, []byte(":"))+bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > maxValues {
		return nil, jsonx.ErrTooMany
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	y := yamlReader{left: maxValues, aliased: map[*yaml.Node]any{}}
	return y.value(&root, 0)
}

// A yamlReader turns nodes into values. The target of an alias is never copied, because a few
// nested aliases would otherwise become billions of values; an alias inside its own target
// counts as nested too deeply.
type yamlReader struct {
	left    int
	aliased map[*yaml.Node]any
}

func (y *yamlReader) value(n *yaml.Node, depth int) (any, error) {
	if y.left--; y.left < 0 || depth > maxNested {
		return nil, jsonx.ErrTooMany
	}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) != 1 {
			return nil, errors.New("it is empty")
		}
		return y.value(n.Content[0], depth+1)
	case yaml.AliasNode:
		if v, ok := y.aliased[n.Alias]; ok {
			return v, nil
		}
		v, err := y.value(n.Alias, depth+1)
		y.aliased[n.Alias] = v
		return v, err
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			v, err := y.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		members := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := y.value(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			members[n.Content[i].Value] = v
		}
		return members, nil
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value), nil
		}
	}
	return n.Value, nil
}

// An unread is a part of a document that is read when it is needed.
type unread []byte

// parts are the members of a document whose members are read only when they are needed, by
// their depth, because the operations of a filter need a small part of a large document.
var parts = map[string]int{"paths": 1, "components": 2, "definitions": 1, "parameters": 1, "responses": 1}

// outline reads a document in JSON without these parts.
func outline(text []byte, left *int) (any, error) {
	members, err := membersOf(text)
	if err != nil {
		return nil, err
	}
	root := map[string]any{}
	for name, part := range members {
		if root[name], err = outlined(part, parts[name], left); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// outlined reads a value, except for what is below a depth; 0 reads everything.
func outlined(text []byte, depth int, left *int) (any, error) {
	if depth == 0 || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return jsonx.TreeOf(text, left)
	}
	members, err := membersOf(text)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for name, part := range members {
		if *left--; *left < 0 {
			return nil, jsonx.ErrTooMany
		}
		if depth == 1 {
			all[name] = unread(part)
		} else if all[name], err = outlined(part, depth-1, left); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// membersOf returns the members of an object. They are not copied, because the document is large.
func membersOf(text []byte) (map[string]jsonx.Value, error) {
	var members map[string]jsonx.Value
	err := jsonx.Unmarshal(text, &members)
	return members, err
}

// read returns a value that may be unread.
func (d *document) read(v any) (any, error) {
	part, ok := v.(unread)
	if !ok {
		return v, nil
	}
	v, err := jsonx.TreeOf(part, d.left)
	if errors.Is(err, jsonx.ErrTooMany) {
		return nil, fmt.Errorf("its operations have more than %d values, or more than %d levels of nesting: select fewer with a filter", maxValues, jsonx.MaxDepth)
	}
	return v, err
}

// object returns a value as an object; an empty one if it is not an object.
func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// texts returns a value as a text; empty if it is not a text.
func texts(v any) string {
	s, _ := v.(string)
	return s
}
