package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// recordAgents is the folder in which TestCodingAgents writes the requests of the agents to the
// model that has their own format, for the tests of internal/faces/api, which replay them.
var recordAgents = flag.String("record-agents", "", "write the requests of the coding agents to this folder")

// recorded returns the address of a proxy in front of the service that records an agent's requests;
// without -record-agents, the address of the service.
func recorded(t *testing.T, service, agent, wire, home, dir string) string {
	own := map[string]string{"Codex": "responses", "CodexDefault": "responses", "ClaudeCode": "messages", "opencode": "chat"}
	if *recordAgents == "" || own[agent] != wire {
		return service
	}
	target, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var lines bytes.Buffer
	seen := map[string]bool{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var v any
		if r.Method == "POST" && json.Unmarshal(body, &v) == nil {
			text, _ := json.Marshal(map[string]any{"path": r.URL.Path, "body": anonymous(v, strings.NewReplacer(home, "/home/user", dir, "/work/project"))})
			mu.Lock()
			if shape := shapeOf(v); !seen[shape] { // a request of each form
				seen[shape] = true
				lines.Write(append(text, '\n'))
			}
			mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		if err := os.WriteFile(filepath.Join(*recordAgents, agent+".jsonl"), lines.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

// longText is the length from which the texts of a recording are cut: a replay checks the form.
const longText = 80

var personal = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32,}|/tmp/[^ "\n]*`)

// anonymous returns a JSON value without the paths, ids and long texts of the machine.
func anonymous(v any, paths *strings.Replacer) any {
	switch v := v.(type) {
	case string:
		v = personal.ReplaceAllString(paths.Replace(v), "x")
		if r := []rune(v); len(r) > longText && !strings.HasPrefix(v, "{") {
			v = string(r[:longText])
		}
		return v
	case []any:
		for i := range v {
			v[i] = anonymous(v[i], paths)
		}
	case map[string]any:
		for name := range v {
			v[name] = anonymous(v[name], paths)
		}
	}
	return v
}

// shapeOf returns the members of a request and the types of its items, blocks and tools, each once.
func shapeOf(v any) string {
	kinds := map[string]bool{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if kind, ok := v["type"].(string); ok {
				kinds[kind] = true
			}
			for name, e := range v {
				if name != "parameters" && name != "input_schema" {
					walk(e)
				}
			}
		}
	}
	walk(v)
	if o, ok := v.(map[string]any); ok {
		for name := range o {
			kinds["."+name] = true
		}
	}
	text, _ := json.Marshal(kinds) // sorted
	return string(text)
}
