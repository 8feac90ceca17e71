package cli

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/httptool"
	"stoa/internal/agents/mcp"
	"stoa/internal/agents/oauth"
	"stoa/internal/agents/tool"
	"stoa/internal/base/contract"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

// reviewed contains the reviews of docs/connections.md by connection, with their
// hashes.
var reviewed = map[string]struct{ tool, text, hash string }{
	"notes":  {"search_notes", "Finds the notes that hold a word.", "1f2e3d4c5b6a"},
	"shop":   {"read_note", `Request: {"arguments":{"name":{"in":"path"`, "2b3c4d5e6f70"},
	"orders": {"get_note", `"result":{"maxItems":50,"pointer":"/data"}`, "3c4d5e6f7081"},
}

// authorizeAs opens the address where a person authorizes a connection, and brings the
// answer back.
func authorizeAs(t *testing.T, tools *tool.Tools, address string) {
	t.Helper()
	l := tools.Land(t.Context(), broughtBack(t, address))
	if l.Question == nil {
		t.Fatalf("%+v", l)
	}
	if l := tools.Confirm(t.Context(), l.Question.Token, true); !l.Authorized {
		t.Errorf("%+v", l)
	}
}

// broughtBack returns what a person brings back from an address.
func broughtBack(t *testing.T, address string) url.Values {
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
	return to.Query()
}

// TestAnAuthorizationThatFailsEnds has the command wait for a person who signs in, who
// cancels, who is refused, and for another one that begins meanwhile: it ends with each.
func TestAnAuthorizationThatFailsEnds(t *testing.T) {
	t.Parallel()
	demo := &oauth.Demo{Life: time.Hour, Next: mcp.Demo(false)}
	behind := httptest.NewServer(demo)
	defer behind.Close()
	demo.Origin = behind.URL
	var tools *tool.Tools
	h := apitest.Start(t, apitest.Config{Allow: []string{"127.0.0.1"}, Server: func(s *api.Server) {
		tools = s.Agents.Tools
		tools.PublicURL = "http://127.0.0.1:1"
	}})
	if out, errOut, code := run(t, h, "", "connections", "create", "private", behind.URL, "--oauth"); code != exitDone {
		t.Fatalf("%s %s", out, errOut)
	}
	confirm := func(connect bool) func(string) {
		return func(address string) {
			tools.Confirm(t.Context(), tools.Land(t.Context(), broughtBack(t, address)).Question.Token, connect)
		}
	}
	for _, c := range []struct {
		name, want string
		code       int
		person     func(address string)
	}{
		{"cancelled", "was cancelled. The person who signed in", exitFailed, confirm(false)},
		{"authorized", "The connection is authorized.", exitDone, confirm(true)},
		{"cancelled, of one that is authorized", "was cancelled. The person who signed in", exitFailed, confirm(false)},
		{"refused", "was not authorized. The authorization server did not authorize the connection. It says: access_denied", exitFailed, func(address string) {
			answer := broughtBack(t, address)
			answer.Del("code")
			answer.Set("error", "access_denied")
			tools.Land(t.Context(), answer)
		}},
		{"deauthorized", "was cancelled. The connection was deauthorized", exitFailed, func(string) { run(t, h, "", "connections", "deauthorize", "private") }},
		{"begun anew", "another authorization", exitFailed, func(string) { run(t, h, "", "connections", "authorize", "private", "--wait", "0") }},
	} {
		read, write := io.Pipe()
		var errOut bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			code := Main(t.Context(), []string{"connections", "authorize", "private"}, []string{"STOA_BASE_URL=" + h.URL, "STOA_API_KEY=" + h.Key}, nil, strings.NewReader(""), write, &errOut)
			write.Close()
			ended <- code
		}()
		lines := bufio.NewScanner(read)
		if !lines.Scan() {
			t.Fatalf("%s: %s", c.name, &errOut)
		}
		c.person(lines.Text())
		rest, _ := io.ReadAll(read)
		if code := <-ended; code != c.code || !strings.Contains(errOut.String()+string(rest), c.want) {
			t.Errorf("%s: %d %s %s", c.name, code, rest, &errOut)
		}
	}
}

// TestTheGuideToConnectionsWorks runs the commands of the guides to connections against the
// demo server, in their order, with the server's address and hashes instead of those of
// the page.
func TestTheGuideToConnectionsWorks(t *testing.T) {
	t.Parallel()
	var page string
	for _, name := range []string{"http-tools", "connection-secrets", "connections"} {
		text, err := os.ReadFile("../../../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		page += string(text)
	}
	server := httptest.NewServer(httptool.Demo(mcp.Demo(false)))
	defer server.Close()
	private := &oauth.Demo{Life: time.Hour, Next: mcp.Demo(false)}
	behind := httptest.NewServer(private)
	defer behind.Close()
	private.Origin = behind.URL
	var tools *tool.Tools
	h := apitest.Start(t, apitest.Config{Allow: []string{"127.0.0.1"}, Server: func(s *api.Server) {
		tools = s.Agents.Tools
		tools.PublicURL = "http://127.0.0.1:1"
	}})
	operations := filepath.Join(t.TempDir(), "operations.json")
	_, block, _ := strings.Cut(page, "```json\n")
	block, _, _ = strings.Cut(block, "```")
	if err := os.WriteFile(operations, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	hashes, ran := map[string]string{}, 0 // by those of the page
	for line := range strings.Lines(page) {
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
			found := regexp.MustCompile(of.tool + `@([0-9a-f]{32})  new`).FindStringSubmatch(out)
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
	if ran != 25 {
		t.Errorf("%d commands were run", ran)
	}

	var list contract.ConnectionList
	h.Client(t).Want(200, "GET", "/api/v1/connections", nil).JSON(&list)
	for _, c := range list.Data {
		var catalog contract.ConnectionToolList
		if h.Client(t).Want(200, "GET", "/api/v1/connections/"+c.ID+"/tools", nil).JSON(&catalog); c.Name != "orders" {
			continue
		}
		if got := catalog.Data[0]; got.Name != "get_note" || got.Visitors != "confirm" || got.VisitorTitle != "Read a note" || !slices.Equal(got.PublicFields, []string{"/name"}) {
			t.Errorf("visitors confirm %+v", got)
		}
	}

	// What goes wrong is said, and in the exit code.
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"connections", "review", "notes", "--approve", "append_note"}, exitUsage, "has no hash"},
		{[]string{"connections", "review", "notes", "--approve", "append_note@000000000000"}, exitFailed, "does not have that hash"},
		{[]string{"connections", "test", "notes", "append_note"}, exitFailed, "Review it first"},
		{[]string{"connections", "review", "notes", "--approve", "append_note@000000000000", "--visitors", "--public", "/text"}, exitUsage, "--visitors=confirm"},
		{[]string{"connections", "test", "notes", "search_notes", "[1]"}, exitUsage, "not a JSON object"},
		{[]string{"secrets", "set", "github-token", "--origin", "https://elsewhere.example.com"}, exitUsage, "origin and kind cannot change"},
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

// TestCommandsGiveCredentials: of a session, of a task, of a link, of a token and of a
// script tag; and they are shown, as ids.
func TestCommandsGiveCredentials(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(mcp.Demo(false))
	defer server.Close()
	h := apitest.Start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	must := func(args ...string) string {
		t.Helper()
		out, errOut, code := run(t, h, "a-token-of-twenty-one\n", args...)
		if code != exitDone {
			t.Fatalf("%v: %d %s %s", args, code, out, errOut)
		}
		return strings.TrimSpace(out)
	}
	must("connections", "create", "notes", server.URL, "--credentials-per-session", "optional")
	connection := must("connections", "get", "notes", "--jq", ".id")
	secret := must("secrets", "set", "anns", "--origin", server.URL, "--jq", ".id")
	must("agents", "create", "--name", "librarian", "--instructions", "x")
	want := `{"` + connection + `":"` + secret + `"}`
	own := []string{"--credential", "notes=anns"}
	of := func(base []string, id string) string {
		return must(append(base, "librarian", id, "--jq", ".credentials")...)
	}
	for name, c := range map[string]struct{ create, get, change []string }{
		"a session": {[]string{"sessions", "start", "librarian", "hello", "--no-watch", "--jq", ".id"}, []string{"sessions", "get"}, nil},
		"a task":    {[]string{"tasks", "create", "librarian", "--name", "x", "--message", "x", "--every", "1h", "--jq", ".id"}, []string{"tasks", "get"}, []string{"tasks", "update"}},
		"a link":    {[]string{"embeds", "create", "librarian", "--origin", "https://www.example.com", "--jq", ".id"}, []string{"embeds", "get"}, nil},
		"a token":   {[]string{"embeds", "create", "librarian", "--token", "--origin", "https://www.example.com", "--jq", ".id"}, []string{"embeds", "get"}, nil},
		"a tag":     {[]string{"embeds", "tags", "create", "librarian", "--origin", "https://www.example.com", "--jq", ".id"}, []string{"embeds", "tags", "get"}, []string{"embeds", "tags", "update"}},
	} {
		id := must(append(c.create, own...)...)
		if got := of(c.get, id); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if c.change == nil {
			continue
		}
		for _, step := range []struct{ credential, want string }{{"", "{}"}, {"notes=anns", want}} {
			must(append(c.change, "librarian", id, "--credential", step.credential)...)
			if got := of(c.get, id); got != step.want {
				t.Errorf("%s with %q: %s", name, step.credential, got)
			}
		}
	}
	if out, errOut, code := run(t, h, "", "tasks", "create", "librarian", "--name", "x", "--message", "x", "--every", "1h", "--credential", "notes"); code != exitUsage {
		t.Errorf("%d %s %s", code, out, errOut)
	}
}
