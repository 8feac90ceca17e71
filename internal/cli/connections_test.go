package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/api"
	"stoa/internal/apitest"
	"stoa/internal/httptool"
	"stoa/internal/mcp"
	"stoa/internal/oauth"
	"stoa/internal/tool"
)

// reviewed is what the reviews of docs/connections.md show, by the connection, and the
// hash that stands there.
var reviewed = map[string]struct{ tool, text, hash string }{
	"notes":  {"search_notes", "Finds the notes that hold a word.", "1f2e3d4c5b6a"},
	"shop":   {"read_note", `Request: {"arguments":{"name":{"in":"path"`, "2b3c4d5e6f70"},
	"orders": {"get_note", `"result":{"maxItems":50,"pointer":"/data"}`, "3c4d5e6f7081"},
}

// authorizeAs opens the address where a person authorizes a connection, and brings the
// answer back.
func authorizeAs(t *testing.T, tools *tool.Tools, address string) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	l := tools.Land(t.Context(), to.Query())
	if l.Question == nil {
		t.Fatalf("%+v", l)
	}
	if l := tools.Confirm(t.Context(), l.Question.Token, true); !l.Authorized {
		t.Errorf("%+v", l)
	}
}

// TestTheGuideToConnectionsWorks runs the commands of docs/connections.md against the
// demo server, in their order, with its address and hash in place of those of the page.
func TestTheGuideToConnectionsWorks(t *testing.T) {
	page, err := os.ReadFile("../../docs/connections.md")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(httptool.Demo(mcp.Demo(false)))
	defer server.Close()
	private := &oauth.Demo{Life: time.Hour, Next: mcp.Demo(false)}
	behind := httptest.NewServer(private)
	defer behind.Close()
	private.Origin = behind.URL
	var tools *tool.Tools
	h := apitest.Start(t, apitest.Config{Allow: []string{"127.0.0.1"}, Server: func(s *api.Server) {
		tools = s.Tools
		tools.PublicURL = "http://127.0.0.1:1"
	}})
	operations := filepath.Join(t.TempDir(), "operations.json")
	_, block, _ := strings.Cut(string(page), "```json\n")
	block, _, _ = strings.Cut(block, "```")
	if err := os.WriteFile(operations, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	hashes, ran := map[string]string{}, 0 // by those of the page
	for line := range strings.Lines(string(page)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "stoa ")
		verb, _, _ := strings.Cut(command, " ")
		if !ok || !slices.Contains([]string{"connections", "secrets", "agents", "sessions", "tools"}, verb) {
			continue
		}
		command, _, _ = strings.Cut(command, " < ")
		for _, was := range []string{"http://127.0.0.1:8099", "https://mcp.example.com/mcp", "https://mcp.example.com"} {
			command = strings.ReplaceAll(command, was, server.URL)
		}
		command = strings.ReplaceAll(command, "http://127.0.0.1:8098", behind.URL)
		if strings.HasPrefix(command, "connections authorize") {
			command += " --wait 0"
		}
		for was, now := range hashes {
			command = strings.ReplaceAll(command, was, now)
		}
		command = strings.ReplaceAll(command, "operations.json", operations)
		out, errOut, code := run(t, h, "a-token-of-twenty-one\n", words(command)...)
		ran++
		switch {
		case code != exitDone:
			t.Errorf("stoa %s: %d %s %s", command, code, out, errOut)
		case strings.HasPrefix(command, "connections authorize"):
			authorizeAs(t, tools, strings.TrimSpace(out))
		case strings.HasPrefix(command, "connections review") && !strings.Contains(command, "--approve"):
			of := reviewed[words(command)[2]]
			found := regexp.MustCompile(of.tool + `@([0-9a-f]{12})  new`).FindStringSubmatch(out)
			if found == nil || !strings.Contains(out, of.text) || !strings.Contains(out, "Suggested: approval never, effects read") {
				t.Fatalf("the review shows %s", out)
			}
			hashes[of.hash] = found[1]
		case strings.HasPrefix(command, "connections test") && !strings.Contains(out, "This is a note of the demo server."):
			t.Errorf("the tool says %s", out)
		case verb == "sessions" && !strings.Contains(out, "This is a note of the demo server."):
			t.Errorf("the session says %s", out)
		case verb == "tools" && !strings.Contains(out, "notes__search_notes"):
			t.Errorf("the calls are %s", out)
		case strings.Contains(out+errOut, "a-token-of-twenty"):
			t.Errorf("the value is shown: %s %s", out, errOut)
		}
	}
	if ran != 21 {
		t.Errorf("%d commands were run", ran)
	}

	// What goes wrong is said, and in the exit code.
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"connections", "review", "notes", "--approve", "append_note"}, exitUsage, "has no hash"},
		{[]string{"connections", "review", "notes", "--approve", "append_note@000000000000"}, exitFailed, "another definition"},
		{[]string{"connections", "test", "notes", "append_note"}, exitFailed, "Review it first"},
		{[]string{"connections", "test", "notes", "search_notes", "[1]"}, exitUsage, "no JSON object"},
		{[]string{"secrets", "set", "github-token", "--origin", "https://elsewhere.example.com"}, exitUsage, "never change"},
		{[]string{"secrets", "delete", "github-token", "--yes"}, exitFailed, "use the secret"},
	} {
		if out, errOut, code := run(t, h, "value", c.args...); code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: %d %s %s", c.args, code, out, errOut)
		}
	}
}

// words splits a line as a shell does that has single quotes alone.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// run runs a command against a service.
func run(t *testing.T, h *apitest.Service, in string, args ...string) (out, errOut string, code int) {
	var stdout, stderr bytes.Buffer
	code = Main(t.Context(), args, []string{"STOA_BASE_URL=" + h.URL, "STOA_API_KEY=" + h.Key}, nil, strings.NewReader(in), &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}
