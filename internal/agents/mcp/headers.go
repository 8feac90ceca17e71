package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/agents/remote"
)

// The headers with arguments of a call, as the protocol defines them: a property of a tool's
// schema names its header in x-mcp-header, so that a proxy in front of a server can decide by
// it without reading the body.
const (
	argumentMember = "x-mcp-header"
	argumentPrefix = "Mcp-Param-"
	maxHeaders     = 32
	maxHeaderBytes = 16 << 10  // of the values in a request
	safeInteger    = 1<<53 - 1 // the largest one that a float64 represents exactly
)

type property struct {
	Type       any                 `json:"type"`
	Header     json.RawMessage     `json:"x-mcp-header"`
	Properties map[string]property `json:"properties"`
}

// An argument is an argument that is also sent as a header.
type argument struct {
	path   []string // names of members, from the outermost
	kind   string   // string, integer or boolean
	header string
}

// argumentsOf returns the arguments of a tool that are sent as headers. problem says why the
// tool cannot be used; empty if it can.
func argumentsOf(definition string) (list []argument, problem string) {
	if !strings.Contains(definition, argumentMember) {
		return nil, ""
	}
	var d struct {
		InputSchema property `json:"inputSchema"`
	}
	if json.Unmarshal([]byte(definition), &d) != nil {
		return nil, "The " + argumentMember + " of a property cannot be read."
	}
	taken := map[string]bool{}
	var collect func(properties map[string]property, path []string) string
	collect = func(properties map[string]property, path []string) string {
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			p, at := properties[name], append(path[:len(path):len(path)], name)
			if p.Header != nil {
				var header string
				kind, _ := p.Type.(string)
				switch err := json.Unmarshal(p.Header, &header); {
				case kind != "string" && kind != "integer" && kind != "boolean":
					return fmt.Sprintf("The property %s has an %s, and is not a string, integer or boolean.", shown(at), argumentMember)
				case err != nil || !isToken(header):
					return fmt.Sprintf("The %s of the property %s is not a valid header name.", argumentMember, shown(at))
				case taken[strings.ToLower(header)]:
					return fmt.Sprintf("Two properties have the %s %s.", argumentMember, header)
				case len(list) == maxHeaders:
					return fmt.Sprintf("More than %d properties have an %s.", maxHeaders, argumentMember)
				}
				taken[strings.ToLower(header)] = true
				list = append(list, argument{at, kind, header})
			}
			if problem := collect(p.Properties, at); problem != "" {
				return problem
			}
		}
		return ""
	}
	if problem := collect(d.InputSchema.Properties, nil); problem != "" {
		return nil, problem
	}
	return list, ""
}

func shown(path []string) string { return remote.Visible(remote.Cut(strings.Join(path, "."), 200)) }

// isToken reports whether a text can be the name of a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

func headersOf(definition string, arguments json.RawMessage) http.Header {
	list, _ := argumentsOf(definition)
	if len(list) == 0 {
		return nil
	}
	headers, bytes := http.Header{}, 0
	for _, a := range list {
		value, ok := a.value(arguments)
		if !ok {
			continue
		}
		if bytes += len(value); bytes > maxHeaderBytes { // the server reports missing headers
			break
		}
		headers.Set(argumentPrefix+a.header, value)
	}
	return headers
}

// value returns the header value of an argument of the right kind.
func (a argument) value(arguments json.RawMessage) (string, bool) {
	for _, name := range a.path {
		var members map[string]json.RawMessage
		if json.Unmarshal(arguments, &members) != nil {
			return "", false
		}
		arguments = members[name]
	}
	switch text := string(arguments); a.kind {
	case "boolean":
		return text, text == "true" || text == "false"
	case "integer":
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n != float64(int64(n)) || n > safeInteger || n < -safeInteger {
			return "", false
		}
		return strconv.FormatInt(int64(n), 10), true
	}
	var s *string
	if json.Unmarshal(arguments, &s) != nil || s == nil {
		return "", false
	}
	return headerText(*s), true
}

// headerText returns a text as the value of a header: in base64 if it could not be a header
// value, would be read as base64, or is empty, since many programs drop an empty header.
func headerText(s string) string {
	plain := s != "" && strings.Trim(s, " \t") == s && !strings.HasPrefix(s, "=?base64?")
	for _, c := range []byte(s) {
		plain = plain && c >= ' ' && c < 0x7f
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}
