package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/agents/remote"
)

const headed = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"all":{"type":"boolean","x-mcp-header":"All"},` +
	`"scope":{"type":"object","properties":{"depth":{"type":"integer","x-mcp-header":"Depth"}}},"note":{"type":"string"}}}`

// The SDK's server refuses a call whose headers do not match its arguments.
func TestArgumentsGoIntoHeaders(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		server := sdk.NewServer(&sdk.Implementation{Name: "headed", Version: "1"}, nil)
		server.AddTool(&sdk.Tool{Name: "look", InputSchema: json.RawMessage(headed)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "seen"}}}, nil
		})
		handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: !legacy, JSONResponse: true})
		var sent []string
		f := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name, values := range r.Header {
				if strings.HasPrefix(name, argumentPrefix) || name == "X" {
					sent = append(sent, name+": "+values[0])
				}
			}
			handler.ServeHTTP(w, r)
		}))
		got, err := f.Catalog(t.Context())
		if err != nil || len(got.Tools) != 1 || got.Tools[0].Problem != "" {
			t.Fatalf("%+v, %v", got, err)
		}
		f.Protocol = got.Protocol
		for arguments, want := range map[string]string{
			`{}`: "", `{"region":null,"note":"n"}`: "",
			`{"region":"eu west","all":true,"scope":{"depth":3.0}}`: "Mcp-Param-All: true, Mcp-Param-Depth: 3, Mcp-Param-Region: eu west",
			`{"region":""}`:                "Mcp-Param-Region: =?base64??=",
			`{"region":"größe"}`:           "Mcp-Param-Region: =?base64?Z3LDtsOfZQ==?=",
			`{"region":"a\r\nX: y"}`:       "Mcp-Param-Region: =?base64?YQ0KWDogeQ==?=",
			`{"region":" a"}`:              "Mcp-Param-Region: =?base64?IGE=?=",
			`{"region":"=?base64?YQ==?="}`: "Mcp-Param-Region: =?base64?PT9iYXNlNjQ/WVE9PT89?=",
			`{"scope":{"depth":-7}}`:       "Mcp-Param-Depth: -7",
		} {
			sent = nil
			result, err := f.Call(t.Context(), remote.Call{ID: "cal_1", Tool: "look", Definition: got.Tools[0].Definition, Arguments: json.RawMessage(arguments)})
			if err != nil || result.Text != "seen" {
				t.Errorf("%s: %+v, %v", arguments, result, err)
			}
			if legacy {
				want = ""
			}
			if slices.Sort(sent); strings.Join(sent, ", ") != want {
				t.Errorf("%s: sent %q, want %q", arguments, sent, want)
			}
		}
	}
}

func TestWrongHeadersMakeAToolInvalid(t *testing.T) {
	t.Parallel()
	many := make([]string, maxHeaders+1)
	for i := range many {
		many[i] = `"p` + strings.Repeat("x", i) + `":{"type":"string","x-mcp-header":"P` + strings.Repeat("x", i) + `"}`
	}
	var entries []string
	wrong := map[string]string{
		`"a":{"type":"number","x-mcp-header":"A"}`:                                                               "The property a has an x-mcp-header, and is not a string, integer or boolean.",
		`"a":{"type":"string","x-mcp-header":""}`:                                                                "The x-mcp-header of the property a is not a valid header name.",
		`"a":{"type":"string","x-mcp-header":"A:B"}`:                                                             "The x-mcp-header of the property a is not a valid header name.",
		`"a":{"type":"string","x-mcp-header":7}`:                                                                 "The x-mcp-header of the property a is not a valid header name.",
		`"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"a"}}}`: "Two properties have the x-mcp-header a.",
		`"a":{"properties":{"b":{"type":"object","x-mcp-header":"A"}}}`:                                          "The property a.b has an x-mcp-header, and is not a string, integer or boolean.",
		strings.Join(many, ","):                                                                                  "More than 32 properties have an x-mcp-header.",
		`"a":{"type":"string","properties":7,"x-mcp-header":"A"}`:                                                "The x-mcp-header of a property cannot be read.",
	}
	problems := map[string]string{"good": ""}
	for properties, problem := range wrong {
		name := fmt.Sprintf("tool_%d", len(entries))
		problems[name] = problem
		entries = append(entries, `{"name":"`+name+`","inputSchema":{"type":"object","properties":{`+properties+`}}}`)
	}
	entries = append(entries, `{"name":"good","inputSchema":`+headed+`}`)
	f := serve(t, modern(func(w http.ResponseWriter, _ *http.Request, id, _ string, _ json.RawMessage) {
		result(w, id, `{"resultType":"complete","tools":[`+strings.Join(entries, ",")+`]}`)
	}))
	got, err := f.Catalog(t.Context())
	if err != nil || len(got.Tools) != len(entries) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, tool := range got.Tools {
		if want, ok := problems[tool.Name]; !ok || tool.Problem != want {
			t.Errorf("%s: %q, want %q", tool.Name, tool.Problem, want)
		}
	}
}
