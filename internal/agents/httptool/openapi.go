package httptool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"stoa/internal/agents/remote"
)

// A document is an OpenAPI document that is being read.
type document struct {
	ctx       context.Context
	root      map[string]any
	left      *int // number of values that may still be read
	filter    *Filter
	from      string // address of the document; may be empty
	own, base string // addresses of its server and of the connection
	old       bool   // 3.0 or Swagger, whose schemas differ from JSON Schema
	swagger   bool
}

var errNoServer = errors.New("the document does not name its server: set the url of the connection")

// server returns the server's address in the document: the first of its servers, or else the
// one that all paths have.
func (d *document) server() (string, error) {
	if d.swagger {
		return d.serverOf(d.swaggerServers())
	}
	if servers, _ := d.root["servers"].([]any); len(servers) > 0 {
		return d.serverOf(servers)
	}
	same := ""
	for _, v := range object(d.root["paths"]) {
		v, err := d.read(v)
		if err != nil {
			return "", err
		}
		servers, _ := object(v)["servers"].([]any)
		if len(servers) == 0 || same != "" && same != texts(object(servers[0])["url"]) {
			return d.serverOf([]any{map[string]any{"url": "/"}})
		}
		same = texts(object(servers[0])["url"])
	}
	if same == "" {
		same = "/"
	}
	return d.serverOf([]any{map[string]any{"url": same}})
}

// serverOf returns the address of the first of several servers.
func (d *document) serverOf(servers []any) (string, error) {
	first := object(servers[0])
	address := texts(first["url"])
	for name, v := range object(first["variables"]) {
		address = strings.ReplaceAll(address, "{"+name+"}", texts(object(v)["default"]))
	}
	u, err := url.Parse(address)
	if err != nil || strings.ContainsAny(address, "{}") {
		return "", errNoServer
	}
	if !u.IsAbs() {
		base, err := url.Parse(d.from)
		if err != nil || base.Host == "" {
			return "", errNoServer
		}
		u = base.ResolveReference(u)
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Opaque != "" {
		return "", errNoServer
	}
	u.Fragment, u.RawFragment = "", ""
	if len(u.String()) > 2048 {
		return "", errNoServer
	}
	return u.String(), nil
}

// elsewhere returns the path that replaces that of the connection's address for an operation
// with its own servers; empty if it is the same. The server must have the same origin, because
// the connection's secret is for one origin.
func (d *document) elsewhere(servers []any) (path string, err error) {
	errElsewhere := errors.New("it has its own server, but a connection has only one")
	address, err := d.serverOf(servers)
	if err != nil {
		return "", errElsewhere
	}
	if address == d.own || address == d.base {
		return "", nil
	}
	u, err := url.Parse(address)
	base, err2 := url.Parse(d.base)
	if err != nil || err2 != nil || u.Scheme != base.Scheme || !strings.EqualFold(u.Host, base.Host) || u.RawQuery != "" {
		return "", errElsewhere
	}
	return "/" + strings.Trim(u.EscapedPath(), "/"), pathProblem("/" + strings.Trim(u.EscapedPath(), "/"))
}

// verbs are the members of a path that are operations, in order.
var verbs = []string{"get", "head", "post", "put", "patch", "delete", "options", "trace"}

// A found is an operation of a document.
type found struct {
	name            string // empty if it has no valid operationId
	method, path    string
	item, operation map[string]any
	problem         error
}

// operations returns all operations of the document, in order.
func (d *document) operations() (all []found, err error) {
	paths := object(d.root["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if d.ctx.Err() != nil {
			return nil, errors.New("the document took too long to read")
		}
		begins := func(prefix string) bool { return strings.HasPrefix(path, prefix) }
		if d.filter != nil && len(d.filter.Paths) > 0 && !slices.ContainsFunc(d.filter.Paths, begins) {
			continue // before it is read, so that the limit on values applies to the selected operations only
		}
		v, err := d.read(paths[path])
		if err != nil {
			return nil, err
		}
		if v, err = d.resolve(v); err != nil {
			all = append(all, found{method: "path", path: path, problem: err})
			continue
		}
		item := object(v)
		for _, verb := range verbs {
			operation, ok := item[verb].(map[string]any)
			if !ok {
				continue
			}
			o := found{name: texts(operation["operationId"]), method: strings.ToUpper(verb), path: path, item: item, operation: operation}
			if utf8.RuneCountInString(o.name) > 128 || remote.Visible(o.name) != o.name || strings.TrimSpace(o.name) != o.name {
				o.name = "" // not a valid name of a tool
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// tools makes a tool of each operation. An invalid one becomes an invalid tool, so that no
// operation is left out without a reason.
func (d *document) tools() ([]remote.Tool, error) {
	all, err := d.selected()
	if err != nil {
		return nil, err
	}
	var tools []remote.Tool
	at, named := map[string]int{}, map[string]bool{}
	for _, o := range all {
		named[o.name] = true
	}
	bytes := 0
	for _, o := range all {
		if d.ctx.Err() != nil {
			return nil, errors.New("the document took too long to read")
		}
		if o.name == "" {
			o.name = o.fallback(named)
			named[o.name] = true
		}
		if first, twice := at[o.name]; twice {
			tools[first].Problem = "The document has two operations with this id."
			continue
		}
		at[o.name] = len(tools)
		t := d.tool(o)
		if bytes += len(t.Definition); bytes > remote.MaxCatalog {
			return nil, fmt.Errorf("the operations exceed %d MiB", remote.MaxCatalog>>20)
		}
		tools = append(tools, t)
	}
	return tools, nil
}

// maxFallback is the maximum length of a name that is made of a path, without the hash that
// distinguishes it from another.
const maxFallback = 100

// fallback returns the name of an operation without an id, such as get_orders_id. It differs
// from the taken names.
func (o found) fallback(taken map[string]bool) string {
	words := strings.FieldsFunc(o.path, func(r rune) bool { return r >= 0x80 || !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	name := strings.Join(append([]string{strings.ToLower(o.method)}, words...), "_")
	if len(name) <= maxFallback && !taken[name] {
		return name
	}
	sum := sha256.Sum256([]byte(o.method + " " + o.path))
	return name[:min(len(name), maxFallback)] + "_" + hex.EncodeToString(sum[:4])
}

func (d *document) tool(o found) remote.Tool {
	p := &plan{Method: o.method, Path: o.path, Arguments: map[string]place{}, Effects: methods[o.method]}
	r := &operationReader{d: d, p: p, properties: map[string]any{}, schemas: schemaCopier{d: d, left: maxSchemaValues, names: map[string]string{}, defs: map[string]any{}}}
	description := texts(o.operation["description"])
	if description == "" {
		description = texts(o.operation["summary"])
	}
	err := o.problem
	switch {
	case err != nil:
	case p.Effects == "":
		err = fmt.Errorf("the method %s is not supported", o.method)
	default:
		err = r.read(o.item, o.operation)
	}
	if err != nil {
		return remote.New(o.name, map[string]any{"name": o.name, "description": remote.Cut(description, 4000), "request": map[string]any{"method": o.method, "path": remote.Cut(o.path, 1024)}}, remote.Sentence(err.Error()))
	}
	parameters := map[string]any{"type": "object", "properties": r.properties}
	if len(r.required) > 0 {
		parameters["required"] = r.required
	}
	if len(r.schemas.defs) > 0 {
		parameters["$defs"] = r.schemas.defs
	}
	return p.fitting(o.name, texts(o.operation["summary"]), description, parameters)
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
		in := object(v)
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		member, ok := in[name]
		if part, is := member.(unread); is {
			var err error
			if member, err = d.read(part); err != nil {
				return nil, err
			}
			in[name] = member
		}
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

const maxParameters = 200 // of an operation

func (r *operationReader) read(item, operation map[string]any) error {
	if err := pathProblem(r.p.Path); err != nil {
		return err
	}
	for _, of := range []map[string]any{item, operation} {
		if servers, _ := of["servers"].([]any); len(servers) > 0 {
			var err error
			if r.p.Server, err = r.d.elsewhere(servers); err != nil {
				return err
			}
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
	if r.d.swagger {
		if err := r.swaggerParameters(all, operation); err != nil {
			return err
		}
		all = nil
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

func (r *operationReader) parameter(q map[string]any) error {
	name, in := texts(q["name"]), texts(q["in"])
	required, _ := q["required"].(bool)
	style, explode := texts(q["style"]), in == "query"
	if v, ok := q["explode"].(bool); ok {
		explode = v
	}
	lower, deep := strings.ToLower(name), in == "query" && style == "deepObject"
	switch {
	case in == "cookie":
		return fmt.Errorf("it requires a cookie (%s)", shown(name))
	case in == "header" && (lower == "accept" || lower == "content-type" || lower == "authorization"):
		return nil // because OpenAPI requires that such parameters are ignored
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
	case style != "" && !deep && style != map[string]string{"query": "form", "path": "simple", "header": "simple"}[in]:
		return fmt.Errorf("the parameter %s has the style %s, which is not supported", shown(name), shown(style))
	case q["schema"] == nil && q["content"] != nil:
		return fmt.Errorf("the parameter %s contains a document, which is not supported", shown(name))
	}
	schema, err := r.schemas.copy(q["schema"], 0)
	if err != nil {
		return err
	}
	if property, ok := schema.(map[string]any); ok {
		if kind, _ := property["type"].(string); kind == "object" && !deep {
			return fmt.Errorf("the parameter %s is an object, which is not supported", shown(name))
		}
		if about := texts(q["description"]); about != "" && property["description"] == nil && property["$ref"] == nil {
			property["description"] = about
		}
	}
	r.add(name, in, schema, required || in == "path", place{In: in, Name: name, Joined: !explode && !deep, Deep: deep})
	return nil
}

// add adds an argument. A second one of a name gets its place as a prefix, because OpenAPI allows
// one name in several places.
func (r *operationReader) add(name, in string, schema any, required bool, to place) {
	for _, taken := r.properties[name]; taken; _, taken = r.properties[name] {
		name = in + "_" + name
	}
	r.properties[name], r.p.Arguments[name] = schema, to
	if required {
		r.required = append(r.required, name)
	}
}

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
	if r.p.Method == "GET" || r.p.Method == "HEAD" {
		if required {
			return fmt.Errorf("a request with %s cannot have a body", r.p.Method)
		}
		return nil
	}
	kinds := slices.Sorted(maps.Keys(content))
	for _, form := range []bool{false, true} {
		for _, kind := range kinds {
			media := object(content[kind])
			switch name, _, err := mime.ParseMediaType(kind); {
			case err != nil:
			case !form && isJSON(name):
				return r.addBody(media["schema"], required, "", nil)
			case form && name == formType:
				return r.addBody(media["schema"], required, formType, formLists(media))
			}
		}
	}
	return fmt.Errorf("it requires a body of the type %s; only JSON and forms are supported", shown(kinds[0]))
}

func isJSON(kind string) bool { return kind == "application/json" }

// addBody adds the argument for the body. kind is the type of a body that is not JSON.
func (r *operationReader) addBody(schema any, required bool, kind string, lists map[string]string) error {
	copied, err := r.schemas.copy(schema, 0)
	if err != nil {
		return err
	}
	r.p.Form, r.p.Lists = kind == formType, lists
	r.add("body", "request", copied, required, place{In: "body"})
	return nil
}

// shown returns a text of a document in the form that an error quotes.
func shown(text string) string { return remote.Visible(remote.Cut(text, 80)) }
