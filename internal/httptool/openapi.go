package httptool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"stoa/internal/remote"
)

// A document is an OpenAPI document that is being read.
type document struct {
	ctx  context.Context
	root map[string]any
	old  bool // 3.0, whose schemas differ from JSON Schema
}

// server returns the server's address in the document.
func (d *document) server(from string) (string, error) {
	wanted := errors.New("the document does not name its server: give the connection a url")
	servers, _ := d.root["servers"].([]any)
	address := "/"
	if len(servers) > 0 {
		first := object(servers[0])
		address = texts(first["url"])
		for name, v := range object(first["variables"]) {
			address = strings.ReplaceAll(address, "{"+name+"}", texts(object(v)["default"]))
		}
	}
	u, err := url.Parse(address)
	if err != nil || strings.ContainsAny(address, "{}") {
		return "", wanted
	}
	if !u.IsAbs() {
		base, err := url.Parse(from)
		if err != nil || base.Host == "" {
			return "", wanted
		}
		u = base.ResolveReference(u)
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Opaque != "" {
		return "", wanted
	}
	u.Fragment, u.RawFragment = "", ""
	if len(u.String()) > 2048 {
		return "", wanted
	}
	return u.String(), nil
}

// verbs are the members of a path that are operations, in order.
var verbs = []string{"get", "head", "post", "put", "patch", "delete"}

// tools makes a tool of each operation that has a name; an invalid one does not affect the
// others.
func (d *document) tools() ([]remote.Tool, error) {
	var tools []remote.Tool
	at := map[string]int{}
	bytes := 0
	paths := object(d.root["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, _ := d.resolve(paths[path])
		for _, verb := range verbs {
			if d.ctx.Err() != nil {
				return nil, errors.New("the document took too long to read")
			}
			operation, ok := object(item)[verb].(map[string]any)
			id := texts(operation["operationId"])
			if !ok || id == "" {
				continue
			}
			if utf8.RuneCountInString(id) > 128 || remote.Visible(id) != id || strings.TrimSpace(id) != id {
				continue // not a valid name of a tool
			}
			if first, twice := at[id]; twice {
				tools[first].Problem = "The document has two operations with this id."
				continue
			}
			if len(tools) == remote.MaxTools {
				return nil, fmt.Errorf("the document has more than %d operations with an operationId: keep only those that agents need", remote.MaxTools)
			}
			at[id] = len(tools)
			t := d.tool(id, strings.ToUpper(verb), path, object(item), operation)
			if bytes += len(t.Definition); bytes > remote.MaxCatalog {
				return nil, fmt.Errorf("the operations exceed %d MiB", remote.MaxCatalog>>20)
			}
			tools = append(tools, t)
		}
	}
	return tools, nil
}

// tool makes the tool of an operation.
func (d *document) tool(id, method, path string, item, operation map[string]any) remote.Tool {
	p := &plan{Method: method, Path: path, Arguments: map[string]place{}, Effects: methods[method]}
	r := &operationReader{d: d, p: p, properties: map[string]any{}, schemas: schemaCopier{d: d, left: maxSchemaValues, names: map[string]string{}, defs: map[string]any{}}}
	description := texts(operation["description"])
	if description == "" {
		description = texts(operation["summary"])
	}
	if err := r.read(item, operation); err != nil {
		return remote.New(id, map[string]any{"name": id, "description": remote.Cut(description, 4000), "request": map[string]any{"method": method, "path": remote.Cut(path, 1024)}}, remote.Sentence(err.Error()))
	}
	parameters := map[string]any{"type": "object", "properties": r.properties}
	if len(r.required) > 0 {
		parameters["required"] = r.required
	}
	if len(r.schemas.defs) > 0 {
		parameters["$defs"] = r.schemas.defs
	}
	return p.tool(id, texts(operation["summary"]), description, parameters)
}

// resolve follows the references of a value within the document.
func (d *document) resolve(v any) (any, error) {
	for range maxReferences {
		to, ok := object(v)["$ref"].(string)
		if !ok {
			return v, nil
		}
		var err error
		if v, err = d.at(to); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("a reference leads to too many other references")
}

// at returns the target of a reference.
func (d *document) at(to string) (any, error) {
	if !strings.HasPrefix(to, "#/") {
		return nil, fmt.Errorf("it references another document (%s), which is never fetched", remote.Visible(remote.Cut(to, 100)))
	}
	var v any = d.root
	for _, step := range strings.Split(to[2:], "/") {
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
		member, ok := object(v)[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		if !ok {
			return nil, fmt.Errorf("it references %s, which is not in the document", remote.Visible(remote.Cut(to, 100)))
		}
		v = member
	}
	return v, nil
}

// An operationReader reads one operation.
type operationReader struct {
	d          *document
	p          *plan
	schemas    schemaCopier
	properties map[string]any
	required   []any
}

// maxParameters is the maximum number of parameters of an operation.
const maxParameters = 200

func (r *operationReader) read(item, operation map[string]any) error {
	if err := pathProblem(r.p.Path); err != nil {
		return err
	}
	for _, of := range []map[string]any{item, operation} {
		if servers, _ := of["servers"].([]any); len(servers) > 0 {
			return errors.New("it has its own server, but a connection has only one")
		}
	}
	if len(object(operation["callbacks"])) > 0 {
		return errors.New("it has callbacks, which this service does not receive")
	}
	shared, _ := item["parameters"].([]any)
	own, _ := operation["parameters"].([]any)
	if len(shared)+len(own) > maxParameters {
		return fmt.Errorf("it has more than %d parameters", maxParameters)
	}
	var all []map[string]any
	for _, v := range slices.Concat(shared, own) {
		v, err := r.d.resolve(v)
		if err != nil {
			return err
		}
		q := object(v)
		all = slices.DeleteFunc(all, func(was map[string]any) bool {
			return texts(was["name"]) == texts(q["name"]) && texts(was["in"]) == texts(q["in"])
		})
		all = append(all, q)
	}
	for _, q := range all {
		if err := r.parameter(q); err != nil {
			return err
		}
	}
	for _, name := range placeholders(r.p.Path) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(r.p.Arguments)), func(to place) bool { return to.In == "path" && to.Name == name }) {
			return fmt.Errorf("its path requires a parameter %q", name)
		}
	}
	return r.body(operation["requestBody"])
}

// parameter reads one parameter.
func (r *operationReader) parameter(q map[string]any) error {
	name, in := texts(q["name"]), texts(q["in"])
	required, _ := q["required"].(bool)
	style, explode := texts(q["style"]), in == "query"
	if v, ok := q["explode"].(bool); ok {
		explode = v
	}
	lower := strings.ToLower(name)
	switch {
	case in == "cookie":
		return fmt.Errorf("it requires a cookie (%s)", shown(name))
	case in == "header" && (lower == "accept" || lower == "content-type" || lower == "authorization"):
		return nil // as the specification requires
	case in == "header" && lower == "idempotency-key":
		r.p.IdempotencyKey = true
		if r.p.Effects == "once" {
			r.p.Effects = "idempotent"
		}
		return nil
	case in == "header" && !remote.HeaderName(name):
		return fmt.Errorf("it requires the header %s, which cannot be set", shown(name))
	case in != "path" && in != "query" && in != "header" || name == "" || len(name) > 200:
		return errors.New("it has a parameter without a name or place")
	case in == "path" && !slices.Contains(placeholders(r.p.Path), name):
		return fmt.Errorf("its path does not contain {%s}", shown(name))
	case style != "" && style != map[string]string{"query": "form", "path": "simple", "header": "simple"}[in]:
		return fmt.Errorf("the parameter %s has the style %s, which is not supported", shown(name), shown(style))
	case q["schema"] == nil && q["content"] != nil:
		return fmt.Errorf("the parameter %s contains a document, which is not supported", shown(name))
	}
	schema, err := r.schemas.copy(q["schema"], 0)
	if err != nil {
		return err
	}
	if property, ok := schema.(map[string]any); ok {
		if kind, _ := property["type"].(string); kind == "object" {
			return fmt.Errorf("the parameter %s is an object, which is not supported", shown(name))
		}
		if about := texts(q["description"]); about != "" && property["description"] == nil && property["$ref"] == nil {
			property["description"] = about
		}
	}
	r.add(name, in, schema, required || in == "path", place{In: in, Name: name, Joined: !explode})
	return nil
}

// add adds an argument, under another name if its own is already used.
func (r *operationReader) add(name, in string, schema any, required bool, to place) {
	for _, taken := r.properties[name]; taken; _, taken = r.properties[name] {
		name = in + "_" + name
	}
	r.properties[name], r.p.Arguments[name] = schema, to
	if required {
		r.required = append(r.required, name)
	}
}

// body reads the description of the request's body.
func (r *operationReader) body(v any) error {
	v, err := r.d.resolve(v)
	if err != nil {
		return err
	}
	body := object(v)
	required, _ := body["required"].(bool)
	content := object(body["content"])
	if len(content) == 0 {
		return nil
	}
	for _, kind := range slices.Sorted(maps.Keys(content)) {
		name, _, err := mime.ParseMediaType(kind)
		if err != nil || name != "application/json" {
			continue
		}
		if r.p.Method == "GET" || r.p.Method == "HEAD" {
			if required {
				return fmt.Errorf("a request with %s cannot have a body", r.p.Method)
			}
			return nil
		}
		schema, err := r.schemas.copy(object(content[kind])["schema"], 0)
		if err != nil {
			return err
		}
		r.add("body", "request", schema, required, place{In: "body"})
		return nil
	}
	if required {
		return fmt.Errorf("it requires a body of the type %s; only JSON is supported", shown(slices.Sorted(maps.Keys(content))[0]))
	}
	return nil
}

// shown returns a text of a document in the form that an error quotes.
func shown(text string) string { return remote.Visible(remote.Cut(text, 80)) }
