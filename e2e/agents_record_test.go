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
	"slices"
	"strings"
	"sync"
	"testing"
)

// recordAgents is the folder in which TestCodingAgents writes the requests of the agents to the
// model that has their own format, for the tests of internal/faces/api, which replay them.
var recordAgents = flag.String("record-agents", "", "write the requests of the coding agents to this folder")

// compareAgents is a folder with such requests. Other members, tools and headers fail the test: a
// newer version of the agent sends them.
var compareAgents = flag.String("compare-agents", "", "compare the requests of the coding agents with those in this folder")

// A recordedRequest is a line of a recording.
type recordedRequest struct {
	Path    string   `json:"path"`
	Headers []string `json:"headers"` // the names, and of a list of beta features the features
	Body    any      `json:"body"`
}

// recorded returns the address of a proxy in front of the service that records an agent's requests;
// without -record-agents and -compare-agents, the address of the service.
func recorded(t *testing.T, service, agent, wire, home, dir string) string {
	own := map[string]string{"Codex": "responses", "CodexDefault": "responses", "ClaudeCode": "messages", "opencode": "chat", "GeminiCLI": "gemini", "QwenCode": "gemini"}
	if *recordAgents+*compareAgents == "" || own[agent] != wire {
		return service
	}
	target, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var lines bytes.Buffer
	sent := map[string]bool{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var v any
		if r.Method == "POST" && json.Unmarshal(body, &v) == nil {
			request := recordedRequest{r.URL.Path, headersOf(r.Header), anonymous(v, strings.NewReplacer(home, "/home/user", dir, "/work/project"))}
			text, _ := json.Marshal(request)
			mu.Lock()
			if before := len(sent); addFeatures(sent, request) > before { // one with something new
				lines.Write(append(text, '\n'))
			}
			mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		if *compareAgents != "" {
			compareFeatures(t, filepath.Join(*compareAgents, agent+".jsonl"), sent)
		}
		if *recordAgents == "" {
			return
		}
		if err := os.WriteFile(filepath.Join(*recordAgents, agent+".jsonl"), lines.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

// headersOf returns the names of the headers that a program chooses.
func headersOf(h http.Header) (list []string) {
	for name, values := range h {
		switch name {
		case "Content-Length", "Accept-Encoding", "Connection":
		case "Anthropic-Beta":
			for feature := range strings.SplitSeq(strings.Join(values, ","), ",") {
				list = append(list, name+": "+strings.TrimSpace(feature))
			}
		default:
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// addFeatures adds what a request has, its headers, members, types and tools, and returns the number of all.
func addFeatures(to map[string]bool, r recordedRequest) int {
	for _, h := range r.Headers {
		to["header "+h] = true
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(path+"[]", e)
			}
		case map[string]any:
			if kind, ok := v["type"].(string); ok {
				to["type "+path+" "+kind] = true
			}
			if name, ok := v["name"].(string); ok && (strings.HasSuffix(path, "ools[]") || strings.HasSuffix(path, ".function") || strings.HasSuffix(path, "eclarations[]")) {
				to["tool "+name] = true
			}
			for name, e := range v {
				to["member "+path+"."+name] = true
				switch name {
				case "parameters", "parametersJsonSchema", "input_schema", "schema", "input", "args", "response", "metadata", "client_metadata": // what tools and servers choose
					if path != "" || name != "input" {
						continue
					}
				}
				walk(path+"."+name, e)
			}
		}
	}
	walk("", r.Body)
	return len(to)
}

// compareFeatures reports what is in a recording and was not sent, and the opposite.
func compareFeatures(t *testing.T, file string, sent map[string]bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	before := map[string]bool{}
	for line := range bytes.Lines(text) {
		var r recordedRequest
		if err := json.Unmarshal(line, &r); err != nil {
			t.Error(err)
		}
		addFeatures(before, r)
	}
	var changes []string
	for feature := range sent {
		if !before[feature] {
			changes = append(changes, "+ "+feature)
		}
	}
	for feature := range before {
		if !sent[feature] {
			changes = append(changes, "- "+feature)
		}
	}
	if slices.Sort(changes); len(changes) > 0 {
		t.Errorf("the requests differ from %s:\n%s", filepath.Base(file), strings.Join(changes, "\n"))
	}
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
