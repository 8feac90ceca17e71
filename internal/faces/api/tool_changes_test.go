package api_test

import (
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestMessagesChangesTools has system messages that add tools and remove them, as the tool runners of Anthropic's libraries
// (1.14 for TypeScript, 1.84 for Go) send them after addTools and removeTools.
func TestMessagesChangesTools(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	tool := func(name, description string) body {
		return body{"name": name, "description": description, "input_schema": body{"type": "object"}}
	}
	change := func(kind string, tool body) body { return body{"type": kind, "tool": tool} }
	by := func(name string) body { return body{"type": "tool_reference", "name": name} }
	define := func(tool body) body { return body{"type": "tool_definition", "definition": tool} }
	call := func(model string, changes ...body) body {
		return body{"model": model, "max_tokens": 900, "tools": []body{tool("first", "of the request")}, "messages": []body{
			{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "say: x"}, {"role": "system", "content": changes},
		}}
	}
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
		for _, k := range []struct {
			changes []body
			want    []string // descriptions of the tools
		}{
			{[]body{change("tool_addition", define(tool("second", "is new")))}, []string{"of the request", "is new"}},
			{[]body{change("tool_addition", define(tool("second", "is new"))), change("tool_addition", define(tool("second", "is newer")))}, []string{"of the request", "is newer"}},
			{[]body{change("tool_addition", define(tool("first", "replaces it")))}, []string{"replaces it"}},
			{[]body{change("tool_addition", define(tool("second", "is new"))), change("tool_removal", by("first"))}, []string{"is new"}},
			{[]body{change("tool_addition", define(tool("second", "is new"))), change("tool_removal", by("second"))}, []string{"of the request"}},
			{[]body{change("tool_removal", by("first")), change("tool_addition", by("first")), {"type": "text", "text": "It is back."}}, []string{"of the request"}},
			{[]body{change("tool_addition", by("first"))}, []string{"of the request"}},
		} {
			c.Want(200, "POST", messagesPath, call(model, k.changes...))
			sent := lastBody(f)
			for _, description := range []string{"of the request", "is new", "is newer", "replaces it"} {
				if n := strings.Count(sent, `"`+description+`"`); n > 1 || (n == 1) != slices.Contains(k.want, description) {
					t.Errorf("%s, %v: %q is %d times in %s", model, k.changes, description, n, sent)
				}
			}
		}
	}
	for param, changes := range map[string][]body{
		"messages[3].content[0].tool.name":                    {change("tool_removal", by("other"))},
		"messages[3].content[1].tool.name":                    {change("tool_removal", by("first")), change("tool_addition", by("other"))},
		"messages[3].content[0].tool.type":                    {change("tool_addition", body{"type": "mcp_tool_reference", "server_name": "s", "name": "x"})},
		"messages[3].content[0].tool.definition":              {change("tool_addition", body{"type": "tool_definition"})},
		"messages[3].content[0].tool.definition.name":         {change("tool_addition", define(body{"input_schema": body{"type": "object"}}))},
		"messages[3].content[0].tool.definition.input_schema": {change("tool_addition", define(body{"name": "a", "input_schema": body{"type": "array"}}))},
	} {
		r := c.Want(400, "POST", messagesPath, call("alpha-haiku-4-5", changes...))
		if e := r.Error(); e.Param == nil || *e.Param != param {
			t.Errorf("want %s: %s", param, r.Body)
		}
	}
	if r := c.Want(400, "POST", messagesPath, body{"model": "auto", "max_tokens": 9, "messages": []body{{"role": "user", "content": []body{change("tool_removal", by("first"))}}}}); stoa.Code(r.Error().Code) != stoa.CodeUnsupportedValue {
		t.Errorf("in a message of the user: %s", r.Body)
	}
}
