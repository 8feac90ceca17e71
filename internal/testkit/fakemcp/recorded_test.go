package fakemcp

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stoa/internal/testkit/shape"
)

var failed = regexp.MustCompile(`"error": ?\{`)

// replies makes the requests of a session of the legacy era, and some that are refused. Each is made twice, and
// named by the form of its reply: servers answer with JSON or a stream, and with an error or a result. The calls
// are the parameters of calls of tools by the name of their reply.
func replies(t *testing.T, at string, calls map[string]string) (all []shape.Reply) {
	session := ""
	send := func(name, method, body string, change func(http.Header)) {
		for range 4 {
			req, err := http.NewRequest(method, at, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				req.Header.Set("Mcp-Session-Id", session)
				req.Header.Set("Mcp-Protocol-Version", Legacy)
			}
			if change != nil {
				change(req.Header)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			r := shape.HTTP(t, name, res, "Mcp-Session-Id", "Cache-Control")
			r.Name += fmt.Sprint(": ", res.StatusCode)
			if res.StatusCode == http.StatusOK && method == http.MethodPost {
				form := "JSON"
				if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
					form = "stream"
				}
				r.Name += " " + form
				if strings.Contains(r.Text, `"isError"`) || failed.MatchString(r.Text) {
					r.Name += map[bool]string{true: " isError", false: " error"}[strings.Contains(r.Text, `"isError"`)]
				}
			}
			all = append(all, r)
			if name == "initialize" {
				session = res.Header.Get("Mcp-Session-Id")
				return
			}
		}
	}
	post := func(name, method, params string) {
		send(name, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, nil)
	}
	post("initialize", "initialize", `{"protocolVersion":"`+Legacy+`","capabilities":{},"clientInfo":{"name":"stoa","version":"1"}}`)
	send("notification", http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
	post("list", "tools/list", `{}`)
	post("ping", "ping", `{}`)
	post("unknown method", "odd", `{}`)
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		post(name, "tools/call", calls[name])
	}
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	send("not JSON", http.MethodPost, `{`, nil)
	send("wrong Accept", http.MethodPost, ping, func(h http.Header) { h.Del("Accept") })
	send("unknown session", http.MethodPost, ping, func(h http.Header) { h.Set("Mcp-Session-Id", "unknown") })
	send("no session", http.MethodPost, ping, func(h http.Header) { h.Del("Mcp-Session-Id") })
	send("end", http.MethodDelete, "", nil)
	return all
}

func TestRecordedServers(t *testing.T) {
	t.Parallel()
	params := func(tool, arguments string) string { return `{"name":"` + tool + `","arguments":` + arguments + `}` }
	f := Start(t, Options{Legacy: true})
	fake := replies(t, f.URL, map[string]string{
		"text": params(Read, `{}`), "structured": params(Read, `{"order":"structured"}`), "image": params(Read, `{"order":"photo"}`),
		"links": params(Read, `{"order":"link"}`), "failed": params(Read, `{"order":"error"}`), "unknown tool": params("none", `{}`),
	})
	shape.Recording{
		File: "server-everything.txtar",
		Record: func(t *testing.T, programs string) (string, []shape.Reply) {
			port := shape.Run(t, programs, nil, "node", "node_modules/.bin/mcp-server-everything", "streamableHttp")
			return shape.NPM(t, programs, "@modelcontextprotocol/server-everything"), replies(t, "http://127.0.0.1:"+port+"/mcp", map[string]string{
				"text": params("echo", `{"message":"hello"}`), "structured": params("get-structured-content", `{"location":"New York"}`),
				"image": params("get-tiny-image", `{}`), "links": params("get-resource-links", `{"count":1}`), "failed": params("echo", `{"message":7}`), "unknown tool": params("none", `{}`),
			})
		},
		Random: map[string]string{
			`id: [0-9a-f-]{36}`:              "id: random",
			`Session-Id: [0-9a-f-]{36}`:      "Session-Id: random",
			`"instructions":"(\\.|[^"\\])*"`: `"instructions":"words"`,
			`[A-Za-z0-9+/=]{100,}`:           "iVBORw0KGgo=",
		},
		OnPurpose: map[string]string{
			`.*: 200 JSON.*: no reply of the real program`:                        "many servers answer with JSON, which the protocol allows as well",
			`unknown tool: 200 .* error: no reply of the real program`:            "many servers answer with the error that the protocol defines",
			`(unknown session|end): 404: no reply of the real program`:            "many servers answer with the status that the protocol defines",
			`list: .*\.tools\[\]\.(title|annotations|execution).* absent, not .*`: "tools may lack what is optional",
			`list: .*\.(inputSchema\.(properties|required)|outputSchema)\b.*`:     "each server has its own tools",
		},
	}.Compare(t, fake)
}
