package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"stoa/internal/agents/remote"
)

// FuzzResults uses any text as the result of a call: the model receives something, marked as
// carried out, and nothing that is not in the text.
func FuzzResults(f *testing.F) {
	f.Add(`{"content":[{"type":"text","text":"done"}],"isError":false}`)
	f.Add(`{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"resource","resource":{"uri":"file:///a","text":"x"}},{"type":"resource_link","name":"n","uri":"u"},null,7,{"type":"hologram"}]}`)
	f.Add(`{"structuredContent":{"id":1915883588174806058,"x":1.0},"content":[]}`)
	f.Add(`{"structuredContent":null,"content":{},"isError":"yes"}`)
	f.Add(`{"content":[{"type":"text","text":"\ud800"}]}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		out := resultOf(json.RawMessage(text))
		if out.Text == "" && !strings.Contains(text, "text") || out.Bytes != len(text) {
			t.Fatalf("%+v", out)
		}
		if len(out.Text) > 4*len(text)+200*(1+strings.Count(text, ",")) {
			t.Fatalf("%d bytes of %d", len(out.Text), len(text))
		}
		var plain struct{ IsError bool }
		if utf8.ValidString(text) && json.Unmarshal([]byte(text), &plain) == nil && plain.IsError != out.IsError && strings.Count(strings.ToLower(text), "iserror") == 1 && strings.Contains(text, `"isError"`) {
			t.Fatalf("isError is %v", out.IsError)
		}
	})
}

// FuzzReplies uses any text as the reply to a request, and as a catalog: a reply to another
// request does not count, and a usable tool has a name and a schema.
func FuzzReplies(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}`)
	f.Add(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`)
	f.Add(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`)
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{"tools":[null,{"name":"a\u200b"},{"name":"a","inputSchema":{"type":"object","properties":{"h":{"type":"string","x-mcp-header":"A"}}}}],"nextCursor":7,"ttlMs":1e9}}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, neutral := range []bool{false, true} {
			r := &reply{w: &wire{}, into: &slot{}, id: json.RawMessage("1"), neutral: neutral}
			out, is := r.accept([]byte(text))
			if !is {
				if r.x.result != nil || r.x.code != 0 {
					t.Fatalf("what is no reply left %+v", r.x)
				}
				continue
			}
			var m map[string]json.RawMessage
			if err := json.Unmarshal([]byte(text), &m); err != nil || strings.TrimSpace(idOf(m)) != "1" {
				t.Fatalf("the reply to another request is taken: %v", err)
			}
			if (r.x.result == nil) == (r.x.code == 0 && r.x.err == nil) || !json.Valid(out) {
				t.Fatalf("%+v, %s", r.x, out)
			}
			var listed struct{ Tools []json.RawMessage }
			if json.Unmarshal(r.x.result, &listed) != nil {
				continue
			}
			for _, tool := range remote.ParseTools(listed.Tools) {
				d := remote.Parse(tool.Definition)
				if tool.Problem == "" && (tool.Name == "" || d.InputSchema["type"] != "object" || remote.Visible(tool.Name) != tool.Name) || !json.Valid([]byte(tool.Definition)) {
					t.Fatalf("%+v", tool)
				}
			}
		}
	})
}

// idOf returns the id of a message; its member name is matched without regard to case.
func idOf(m map[string]json.RawMessage) (id string) {
	for name, v := range m {
		if strings.EqualFold(name, "id") && (id == "" || strings.TrimSpace(string(v)) == "1") {
			id = string(v)
		}
	}
	return id
}
