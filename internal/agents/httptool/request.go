package httptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/agents/remote"
	"stoa/internal/models/schema"
)

// Limits of one request, in bytes.
const (
	maxURL         = 8 << 10
	maxHeaderValue = 4 << 10
)

// A plan describes how to build a request from arguments. It is the member request of a
// definition, so that an approval covers the request too.
type plan struct {
	Method         string           `json:"method"`
	Path           string           `json:"path"` // contains {names} of arguments
	Arguments      map[string]place `json:"arguments"`
	Effects        string           `json:"effects"`
	IdempotencyKey bool             `json:"idempotencyKey"` // send the id of the call as that header
	Result         selection        `json:"result"`

	Server string            `json:"server,omitempty"` // path that replaces that of the connection's address
	Form   bool              `json:"form,omitempty"`
	Lists  map[string]string `json:"lists,omitempty"` // encodings of lists in a form, by member
}

// A place is the position of an argument in a request.
type place struct {
	In     string `json:"in"`             // path, query, header or body
	Name   string `json:"name"`           // name in that position; empty if the argument is the whole body
	Joined bool   `json:"joined"`         // a list is sent as one value with commas
	Deep   bool   `json:"deep,omitempty"` // in a query: members and entries are in brackets, as in a form
}

func planOf(d remote.Definition) (*plan, error) {
	text, err := json.Marshal(d.Request)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, err
	}
	if p.Method == "" || !strings.HasPrefix(p.Path, "/") {
		return nil, errors.New("the definition has no request")
	}
	return p, nil
}

// A made request is ready to be sent.
type made struct {
	url     string
	headers map[string]string
	body    []byte
}

// request builds a request from arguments. Its errors are for the model that wrote them.
func (p *plan) request(d remote.Definition, base string, arguments json.RawMessage) (*made, error) {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if err := checkArguments(d, arguments); err != nil {
		return nil, err
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &given); err != nil {
		return nil, errors.New("the arguments are not a JSON object")
	}
	out := &made{headers: map[string]string{}}
	inPath, query, members := map[string]string{}, []string{}, map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		to, known := p.Arguments[name]
		if !known {
			return nil, fmt.Errorf("the tool has no argument %q", remote.Cut(remote.Visible(name), 64))
		}
		raw := bytes.TrimSpace(given[name])
		if to.In == "body" {
			if to.Name == "" {
				out.body = raw
			} else {
				members[to.Name] = raw
			}
			continue
		}
		if to.Deep {
			pairs, err := formPairs(to.Name, raw, deepList)
			if err != nil {
				return nil, fmt.Errorf("the argument %q %w", name, err)
			}
			query = append(query, pairs...)
			continue
		}
		values, err := plainValues(raw)
		if err != nil {
			return nil, fmt.Errorf("the argument %q %w", name, err)
		}
		if values == nil { // null
			continue
		}
		switch to.In {
		case "query":
			if to.Joined {
				values = []string{strings.Join(escapeAll(values), ",")}
			} else {
				values = escapeAll(values)
			}
			for _, v := range values {
				query = append(query, escape(to.Name)+"="+v)
			}
		case "header":
			v := strings.Join(values, ",")
			if len(v) > maxHeaderValue || !remote.HeaderValue(v) {
				return nil, fmt.Errorf("the argument %q is sent in a header: it can have only printable ASCII, no spaces at its ends, and at most %d characters", name, maxHeaderValue)
			}
			out.headers[to.Name] = v
		case "path":
			for _, v := range values {
				if v == "" || strings.ContainsAny(v, `/\`) || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
					return nil, fmt.Errorf("the argument %q is part of the path: it is not empty and has no slash, no backslash and no control character", name)
				}
			}
			inPath[to.Name] = strings.Join(escapeAll(values), ",")
		}
	}
	if len(members) > 0 {
		text, err := encodeMembers(members)
		if err != nil {
			return nil, err
		}
		out.body = text
	} else if out.body == nil && slices.ContainsFunc(slices.Collect(maps.Values(p.Arguments)), func(to place) bool { return to.In == "body" && to.Name != "" }) {
		out.body = []byte("{}")
	}
	var err error
	if p.Form && out.body != nil {
		if out.body, err = encodeForm(out.body, p.Lists); err != nil {
			return nil, fmt.Errorf("the body cannot be sent as a form: %w", err)
		}
	}
	out.url, err = p.address(base, inPath, query)
	return out, err
}

// checkArguments checks arguments against the schema of a definition.
func checkArguments(d remote.Definition, arguments json.RawMessage) error {
	text, err := json.Marshal(d.InputSchema)
	if err != nil {
		return err
	}
	parameters, err := schema.ReadParameters(string(text))
	if err != nil {
		return fmt.Errorf("the schema of the arguments cannot be used: %w", err)
	}
	if err := parameters.Check(string(arguments)); err != nil {
		return fmt.Errorf("the arguments do not match the schema of the tool: %w", err)
	}
	return nil
}

// plainValues returns the values of an argument as they are written into an address or a
// header; nil for null.
func plainValues(raw json.RawMessage) ([]string, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case raw[0] == '{':
		return nil, errors.New("is an object, which has no place there")
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, errors.New("is not a text")
		}
		return []string{text}, nil
	case raw[0] != '[':
		return []string{string(raw)}, nil // numbers keep their spelling
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("is not a list")
	}
	all := []string{}
	for _, item := range list {
		item = bytes.TrimSpace(item)
		if len(item) > 0 && item[0] == '[' {
			return nil, errors.New("is a list of lists, which has no place there")
		}
		one, err := plainValues(item)
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// encodeMembers writes the body from its members without changing them, because json.Marshal
// would compact and escape them.
func encodeMembers(members map[string]json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(members)) {
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		text, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		b.Write(text)
		b.WriteByte(':')
		b.Write(members[name])
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// escape encodes a text as a single value in a path or query.
func escape(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func escapeAll(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = escape(v)
	}
	return out
}

// address returns the address of a request: the connection's address followed by the path and
// the query.
func (p *plan) address(base string, inPath map[string]string, query []string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "", errors.New("the connection has no address yet: refresh it")
	}
	path := u.EscapedPath()
	if p.Server != "" {
		path = p.Server
	}
	path = strings.TrimRight(path, "/") + p.Path
	for _, name := range placeholders(p.Path) {
		value, ok := inPath[name]
		if !ok {
			return "", fmt.Errorf("the path needs a value for %q", name)
		}
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	if err := plainPath(path); err != nil {
		return "", err
	}
	if u.RawQuery != "" {
		query = append([]string{u.RawQuery}, query...)
	}
	text := u.Scheme + "://" + u.Host + path
	if len(query) > 0 {
		text += "?" + strings.Join(query, "&")
	}
	if len(text) > maxURL {
		return "", errors.New("the address of the request would exceed " + strconv.Itoa(maxURL) + " bytes")
	}
	now, err := url.Parse(text)
	if err != nil || now.Host != u.Host || now.Scheme != u.Scheme || now.EscapedPath() != path || now.Fragment != "" {
		return "", errors.New("the values do not form a valid address")
	}
	return text, nil
}

// plainPath refuses a path that a server may normalize to another one, so that a value cannot
// change the other segments.
func plainPath(path string) error {
	for _, segment := range strings.Split(path, "/") {
		plain, err := url.PathUnescape(segment)
		if err != nil || plain == "." || plain == ".." || strings.ContainsAny(plain, `/\`) {
			return errors.New(`a part of the path is "." or "..", or contains a slash`)
		}
	}
	return nil
}

// placeholders returns the names in a path, in order.
func placeholders(path string) (names []string) {
	for {
		_, rest, ok := strings.Cut(path, "{")
		if !ok {
			return names
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			return names
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		path = after
	}
}

// pathProblem returns why a text cannot be the path of an operation; nil if it can.
func pathProblem(path string) error {
	if !strings.HasPrefix(path, "/") || len(path) > 1024 || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("?#\\\"<>^`|", r) }) {
		return errors.New(`the path must begin with a slash, have at most 1024 ASCII characters, and no query`)
	}
	filled := path
	for _, name := range placeholders(path) {
		if name == "" || strings.ContainsAny(name, "{/") {
			return fmt.Errorf("the path has an invalid name %q in braces", name)
		}
		filled = strings.ReplaceAll(filled, "{"+name+"}", "x")
	}
	if strings.ContainsAny(filled, "{}") {
		return errors.New("the path has an unmatched brace")
	}
	if strings.Contains(strings.TrimSuffix(filled, "/"), "//") {
		return errors.New("the path has an empty part")
	}
	return plainPath(filled)
}
