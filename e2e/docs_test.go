package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"

	"stoa/internal/testkit/fakeup"
)

// A snippet is a fenced block of a page. Indented blocks are not run.
type snippet struct{ language, text string }

// snippets reads a page of docs, or the README.
func snippets(t *testing.T, page string) []snippet {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", page))
	if err != nil {
		t.Fatal(err)
	}
	var all []snippet
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		all = append(all, snippet{m[1], m[2]})
	}
	return all
}

// A shell is the environment for snippets: a directory, and variables with the address of a
// running server and a key.
type shell struct {
	url string
	env []string
	dir string
}

func newShell(t *testing.T, url string) *shell {
	t.Helper()
	d := &shell{url: url, dir: t.TempDir()}
	bin := filepath.Join(d.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self(t), filepath.Join(bin, "stoa")); err != nil {
		t.Fatal(err)
	}
	d.env = append(os.Environ(), asProgram+"=command", "STOA_BASE_URL="+url, "STOA_API_KEY="+ownerKey,
		"HOME="+d.dir, "XDG_CONFIG_HOME="+d.dir, "DBUS_SESSION_BUS_ADDRESS=", // no keyring
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return d
}

// sandboxShell returns a shell for a new server with the sandbox; args are further arguments
// of its command line.
func sandboxShell(t *testing.T, args ...string) *shell {
	t.Helper()
	url, stop, err := sandboxServer(self(t), filepath.Join(t.TempDir(), "data"), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return newShell(t, url)
}

// try runs a program in a directory and returns its output.
func (d *shell) try(t *testing.T, dir, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // a net, since a snippet in Go may compile its library first
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, d.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run is try for a program that must succeed and print something.
func (d *shell) run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	out, err := d.try(t, dir, program, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.TrimSpace(out) == "" {
		t.Error("it printed nothing")
	}
	return out
}

// tool skips the test if a program is not installed.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: its snippets were not run", name)
	}
	return path
}

func (d *shell) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (d *shell) bash(t *testing.T, text string) string {
	t.Helper()
	bash := tool(t, "bash")
	if strings.Contains(text, "curl") {
		tool(t, "curl")
	}
	return d.run(t, d.dir, bash, "-euo", "pipefail", "-c", text)
}

// node runs a module next to the packages of e2e/openai-js. The module is in a folder there,
// because packages are resolved from the module's own location upward.
func (d *shell) node(t *testing.T, text string) (string, error) {
	t.Helper()
	program := tool(t, "node")
	for _, m := range regexp.MustCompile(`from "((?:@[\w-]+/)?[\w-]+)`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("openai-js", "node_modules", m[1])); err != nil {
			t.Skipf("%s is not installed: run npm ci in e2e/openai-js", m[1])
		}
	}
	dir, err := os.MkdirTemp("openai-js", "snippet-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "main.mjs"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return d.try(t, dir, program, "main.mjs")
}

// golang runs a program in the module of e2e/openai-go, which has the library.
func (d *shell) golang(t *testing.T, text string) string {
	t.Helper()
	program := tool(t, "go")
	list := exec.CommandContext(t.Context(), program, "list", "github.com/openai/openai-go/v3")
	list.Dir, list.Env = "openai-go", append(os.Environ(), "GOPROXY=off")
	if out, err := list.CombinedOutput(); err != nil {
		t.Skipf("the library for Go is not in the module cache: run go mod download in e2e/openai-go\n%s", out)
	}
	// The caches of go, and what decides whether they have the library compiled.
	d.env = append(d.env, "HOME="+os.Getenv("HOME"), "GOFLAGS="+os.Getenv("GOFLAGS"), "CGO_ENABLED="+os.Getenv("CGO_ENABLED"))
	return d.run(t, "openai-go", program, "run", d.file(t, "main.go", text))
}

// snippet runs a snippet in any language and returns its output.
func (d *shell) snippet(t *testing.T, s snippet) string {
	t.Helper()
	switch s.language {
	case "sh":
		return d.bash(t, s.text)
	case "go":
		return d.golang(t, s.text)
	case "js":
		out, err := d.node(t, s.text)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return out
	case "python":
		d.run(t, d.dir, tool(t, "python3"), "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read()); print('reads well')", d.file(t, "main.py", s.text))
		if _, err := d.try(t, d.dir, tool(t, "python3"), "-c", "import openai"); err != nil {
			t.Skip("the library for Python is not installed: the snippet was read, not run")
		}
		return d.run(t, d.dir, tool(t, "python3"), d.file(t, "main.py", s.text))
	}
	t.Fatalf("a snippet is in %q, which this test cannot run", s.language)
	return ""
}

func TestDocsClients(t *testing.T) {
	t.Parallel()
	all := snippets(t, "docs/clients.md")
	if len(all) < 9 {
		t.Fatalf("the page has %d snippets; the test reads it wrongly", len(all))
	}
	for _, s := range all {
		name := s.language
		if lib := regexp.MustCompile(`from "(.+?)"`).FindStringSubmatch(s.text); lib != nil && s.language == "js" {
			name += " with " + lib[1]
		}
		t.Run(name, func(t *testing.T) {
			var flags []string
			if strings.Contains(s.text, "@google/genai") { // the section names it
				flags = []string{"--extensions", "gemini"}
			}
			d := sandboxShell(t, flags...)
			out := d.snippet(t, s)
			// The sandbox quotes the last message, so the last question is in the reply.
			asked := regexp.MustCompile(`Why is the sky blue\?|And at dusk\?`).FindAllString(s.text, -1)
			if last := asked[len(asked)-1]; !strings.Contains(strings.Join(deltas(out), ""), last) {
				t.Errorf("no reply to %q came:\n%s", last, out)
			}
		})
	}
}

// The first snippet of the page offers the agent that the programs call. The shell's other snippets run in
// internal/faces/api.
func TestDocsCallAnAgent(t *testing.T) {
	t.Parallel()
	d := sandboxShell(t, "--extensions", "models")
	ran := map[string]bool{}
	for i, s := range snippets(t, "docs/call-an-agent.md") {
		switch {
		case i == 0:
			if out := d.bash(t, s.text); !strings.Contains(out, `"agent/Guide"`) {
				t.Fatalf("the agent is not offered:\n%s", out)
			}
			id := d.bash(t, `stoa agents expose Guide --as responses,mcp,agui | grep -o 'agt_[0-9a-z]*' | head -1`)
			d.env = append(d.env, "AGENT_ID="+strings.TrimSpace(id))
		case s.language != "sh" && s.language != "text":
			ran[s.language] = true
			t.Run(s.language, func(t *testing.T) {
				if out := d.snippet(t, s); !strings.Contains(out, "When do you open?") { // the sandbox quotes the message
					t.Errorf("no reply came:\n%s", out)
				}
			})
		}
	}
	if len(ran) != 3 {
		t.Errorf("the page has programs in %v; the test reads it wrongly", ran)
	}
}

// sdkTests is the variable that lets the test install the generators of docs/sdks.md; see .ci/check.
const sdkTests = "STOA_TEST_SDKS"

// The clients that the page generates from the API's document are compiled, and list agents and start sessions.
func TestDocsSDKs(t *testing.T) {
	t.Parallel()
	if os.Getenv(sdkTests) == "" {
		t.Skip(sdkTests + " is not set: .ci/check nightly installs the generators")
	}
	commands := map[string]string{} // by the language of the program that follows
	programs := map[string]string{}
	before := ""
	for _, s := range snippets(t, "docs/sdks.md") {
		if s.language == "sh" {
			before = s.text
			continue
		}
		commands[s.language], programs[s.language] = before, s.text
	}
	for _, c := range []struct{ language, installer, reach, file, run string }{
		{"go", "go", "go list -m github.com/oapi-codegen/runtime@latest", "main.go", "go run ."},
		{"ts", "npm", "npm view openapi-fetch name", "main.mts", "npx tsc --strict --module nodenext --target es2022 main.mts\nnode main.mjs"},
	} {
		t.Run(c.language, func(t *testing.T) {
			t.Parallel()
			tool(t, c.installer)
			h := newServer(t, fakeup.Start(t).URL, allExtensions) // the document describes them, too
			h.start()
			owner := &account{key: ownerKey}
			h.newAgent(t, owner)
			d := newShell(t, h.url)
			d.env = append(d.env, "HOME="+os.Getenv("HOME"), "GOFLAGS=", "GOWORK=off") // the settings and caches of the installers
			if out, err := d.try(t, d.dir, "bash", "-c", c.reach); err != nil {
				t.Skipf("the registry cannot be reached: %v\n%s", err, out)
			}
			d.file(t, c.file, programs[c.language])
			out := d.bash(t, commands[c.language]+c.run)
			var sessions struct{ Data []struct{ ID string } }
			h.get(t, ownerKey, "/api-agents/"+owner.agent+"/sessions", &sessions)
			if len(sessions.Data) != 1 || !strings.Contains(out, "agent "+sessions.Data[0].ID+" queued") {
				t.Errorf("there are the sessions %v; the program wrote\n%s", sessions.Data, out)
			}
		})
	}
}

// deltas returns the output and the joined texts of its events, so that a reply can be found
// in a stream too.
func deltas(out string) []string {
	parts := []string{out}
	for _, m := range regexp.MustCompile(`"delta":"((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(out, -1) {
		parts = append(parts, m[1])
	}
	return parts
}

// The note on the AI SDK says what happens without its option.
func TestStoredReplyReferencesAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range snippets(t, "docs/clients.md") {
		if !strings.Contains(s.text, "store: false") {
			continue
		}
		out, err := sandboxShell(t).node(t, strings.Replace(s.text, "store: false", "store: true", 1))
		if !strings.Contains(out, "Items are not stored here") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	t.Error("no snippet says store: false")
}

func TestDocsQuickstart(t *testing.T) {
	t.Parallel()
	d := sandboxShell(t)
	var script strings.Builder
	n := 0
	for _, s := range snippets(t, "docs/quickstart.md") {
		if s.language != "sh" {
			t.Fatalf("a snippet is in %q, which this test cannot run", s.language)
		}
		script.WriteString(s.text)
		n++
	}
	if n < 4 {
		t.Fatalf("the page has %d snippets; the test reads it wrongly", n)
	}
	out := d.bash(t, script.String())
	for _, want := range []string{`"object":"response"`, "Why is the sky blue?", "resp_", "Available", "Balanced", "Hello"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q was not printed:\n%s", want, out)
		}
	}
}

func TestDocsConnectAVendor(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	h := newServer(t, f.URL, "")
	h.start()
	d := newShell(t, h.url)
	d.env = append(d.env, "ANTHROPIC_API_KEY=a-key", "GEMINI_API_KEY=a-key", "OTHER_API_KEY=a-key")
	var out strings.Builder
	n := 0
	for _, s := range snippets(t, "docs/connect-a-vendor.md") {
		n++
		switch s.language {
		case "yaml":
			d.run(t, d.dir, self(t), "config", "check", "--config", d.file(t, "stoa.yaml", s.text))
		case "sh":
			out.WriteString(d.bash(t, s.text))
		default:
			t.Fatalf("a snippet is in %q, which this test cannot run", s.language)
		}
	}
	if n < 4 {
		t.Fatalf("the page has %d snippets; the test reads it wrongly", n)
	}
	for _, want := range []string{"wire: messages", "alpha-haiku-4-5", "v-messages"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q was not printed:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "your-key") {
		t.Error("a key was printed")
	}
}

// The README shows the JavaScript client at the default address of a server.
func TestReadme(t *testing.T) {
	t.Parallel()
	d := sandboxShell(t)
	for _, s := range snippets(t, "README.md") {
		if s.language != "js" {
			continue
		}
		out, err := d.node(t, strings.ReplaceAll(s.text, "http://127.0.0.1:8080", d.url))
		if err != nil || !strings.Contains(out, "Hello") {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// The code that the console copies runs unchanged.
func TestConsoleSnippetsRun(t *testing.T) {
	t.Parallel()
	bundle := api.Build(api.BuildOptions{
		EntryPoints: []string{"../internal/faces/web/ui/src/lib/snippets.ts"}, Bundle: true, Format: api.FormatESModule, LogLevel: api.LogLevelSilent,
	})
	if len(bundle.Errors) > 0 {
		t.Fatalf("%+v", bundle.Errors)
	}
	calls := map[string]string{
		"one question":   `{model: "auto", input: [{role: "user", content: "say: it's \"me\" & $HOME"}]}`,
		"a conversation": `{model: "auto", instructions: "Be brief.", max_output_tokens: 100, temperature: 0.5, reasoning: {effort: "low"}, input: [{role: "user", content: "Hi"}, {role: "assistant", content: "Hello"}, {role: "user", content: "say: it's \"me\" & $HOME"}]}`,
	}
	for name, call := range calls {
		for _, kind := range []string{"curl", "go", "javascript"} {
			t.Run(name+" as "+kind, func(t *testing.T) {
				d := sandboxShell(t)
				write := string(bundle.OutputFiles[0].Contents) + "\nprocess.stdout.write(" + kind + "(" + call + ", " + `"` + d.url + `"));`
				text, err := d.node(t, write)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				var out string
				switch kind {
				case "curl":
					out = strings.ReplaceAll(d.bash(t, text), `\"`, `"`)
				case "go":
					out = d.golang(t, text)
				case "javascript":
					if out, err = d.node(t, text); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
				}
				if !strings.Contains(out, `it's "me" & $HOME`) {
					t.Errorf("the reply did not come:\n%s\n\n%s", out, text)
				}
			})
		}
	}
}

// The snippets of the guide to extensions, against a server with all extensions.
func TestDocsExtensions(t *testing.T) {
	t.Parallel()
	d := sandboxShell(t, "--extensions", "all")
	wants := map[string]string{
		"/models\"":               `"auto"`,
		"input_tokens":            `"response.input_tokens"`,
		"responses/compact":       `"response.compaction"`,
		`"input": "call: `:        `"function_call"`,
		"json_schema":             `"country`,
		"picture.png":             "image/png",
		"chat/completions":        `"chat.completion"`,
		"/api/v1/messages\"":      `"type":"message"`,
		"auto:generateContent":    `"finishReason":"STOP"`,
		"client.responses.create": "sunny",
	}
	for _, s := range snippets(t, "docs/extensions.md") {
		name, _, _ := strings.Cut(strings.TrimSpace(s.text), "\n")
		t.Run(s.language+" "+name, func(t *testing.T) {
			var out string
			if s.language == "bash" {
				out = d.bash(t, s.text)
			} else {
				var err error
				if out, err = d.node(t, s.text); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			found := false
			for of, want := range wants {
				if strings.Contains(s.text, of) {
					found = true
					if !strings.Contains(out, want) {
						t.Errorf("it printed no %s:\n%s", want, out)
					}
				}
			}
			if !found {
				t.Error("the test does not know what this snippet prints")
			}
		})
	}
}

// TestTheConsolesTestsOfHooksRun creates a hook of each kind and runs the command that the console
// shows for it.
func TestTheConsolesTestsOfHooksRun(t *testing.T) {
	t.Parallel()
	tool(t, "openssl")
	bundle := api.Build(api.BuildOptions{
		EntryPoints: []string{"../internal/faces/web/ui/src/lib/hooks.ts"}, Bundle: true, Format: api.FormatESModule, LogLevel: api.LogLevelSilent,
	})
	if len(bundle.Errors) > 0 {
		t.Fatalf("%+v", bundle.Errors)
	}
	d := sandboxShell(t)
	d.bash(t, "stoa agents create --name support -i 'You help.'")
	for _, flags := range []string{
		"standard", "github", "slack --secret 8f742231b10e8888abcd99yyyzzz85a5", "hmac --header X-Sum --prefix v1=", "hmac --header X-Sum --algorithm sha512 --encoding base64",
	} {
		made := strings.TrimSpace(d.bash(t, "stoa hooks create support --name x --json --signature "+flags))
		text, err := d.node(t, string(bundle.OutputFiles[0].Contents)+"\nconst hook = "+made+";\nprocess.stdout.write(testOf(hook).replace(\"SECRET=…\", \"SECRET=\" + hook.secret));")
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if out := d.bash(t, text); !strings.Contains(out, `"sessionId":"ses_`) {
			t.Errorf("%s: %s\n%s", flags, out, text)
		}
	}
}

// TestDocsSlack follows the guide to an agent in Slack, with a server in the place of Slack that checks
// the token.
func TestDocsSlack(t *testing.T) {
	t.Parallel()
	posted := make(chan string, 1)
	slack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/api/chat.postMessage" || r.Header.Get("Authorization") != "Bearer xoxb-the-token" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true,"channel":"C1","ts":"1.3"}`)
		posted <- string(body)
	}))
	t.Cleanup(slack.Close)
	allow := filepath.Join(t.TempDir(), "stoa.yaml")
	if err := os.WriteFile(allow, []byte("outbound:\n  allow: [\""+strings.TrimPrefix(slack.URL, "http://")+"\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := sandboxShell(t, "--config", allow)
	const secret = "8f742231b10e8888abcd99yyyzzz85a5"
	d.file(t, "signing-secret", secret+"\n")
	d.file(t, "bot-token", "xoxb-the-token\n")
	var out strings.Builder
	for _, s := range snippets(t, "docs/slack.md") {
		switch s.language {
		case "yaml": // the manifest
		case "json":
			d.file(t, "operations.json", s.text)
		case "sh":
			out.WriteString(d.bash(t, strings.ReplaceAll(s.text, "https://slack.com", slack.URL)))
		default:
			t.Fatalf("a snippet is in %q, which this test cannot run", s.language)
		}
	}
	hook := regexp.MustCompile(`http://\S+/api/v1/hooks/(hok_\w+)`).FindStringSubmatch(out.String())
	if hook == nil || !strings.Contains(out.String(), secret) {
		t.Fatalf("no hook was made:\n%s", out.String())
	}
	send := func(body string) string {
		at := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte("v0:" + at + ":" + body))
		req, err := http.NewRequestWithContext(t.Context(), "POST", hook[0], strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Slack-Request-Timestamp", at)
		req.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%d %v %s", res.StatusCode, err, text)
		}
		return string(text)
	}
	if text := send(`{"type": "url_verification", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}`); !strings.Contains(text, `"challenge":"3eZbrw1aBm2r`) {
		t.Errorf("the challenge: %s", text)
	}
	send(`{"type": "event_callback", "event_id": "Ev1", "event": {"type": "app_mention", "channel": "C1", "user": "U1", "ts": "1.2", "text": "hello"}}`)
	// The sandbox calls a tool by an order, which the whole event is not.
	d.bash(t, "stoa hooks update slack-support "+hook[1]+" --message /event/text")
	send(`{"type": "event_callback", "event_id": "Ev2", "event": {"type": "app_mention", "channel": "C2", "user": "U1", "ts": "1.2", "text": "call: slack__post_message {\"channel\": \"C2\", \"text\": \"Nine to five.\", \"thread_ts\": \"1.2\"}"}}`)
	select {
	case body := <-posted:
		if !strings.Contains(body, `"text":"Nine to five."`) || !strings.Contains(body, `"thread_ts":"1.2"`) {
			t.Errorf("posted: %s", body)
		}
	case <-t.Context().Done():
		t.Fatal("nothing was posted")
	}
}

// TestTheSkillThatOperatesStoa runs every command of skills/operate-stoa in one shell, as a coding agent would, and compares what they print.
func TestTheSkillThatOperatesStoa(t *testing.T) {
	t.Parallel()
	d := sandboxShell(t)
	folder, err := filepath.Abs("../skills")
	if err != nil {
		t.Fatal(err)
	}
	if got := d.run(t, d.dir, self(t), "skills", "check", folder); !strings.Contains(got, "operate-stoa: valid") {
		t.Errorf("the check says %s", got)
	}
	var script strings.Builder
	var want []string
	for _, s := range snippets(t, "skills/operate-stoa/SKILL.md") {
		switch s.language {
		case "sh":
			script.WriteString("echo '== '\n" + s.text)
		case "text":
			want = append(want, s.text)
		}
	}
	got := strings.Split(d.bash(t, script.String()), "== \n")[1:]
	if len(got) < 7 || len(got) != len(want) {
		t.Fatalf("%d commands ran, %d replies are expected", len(got), len(want))
	}
	for i := range want {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(want[i]), "…", ".*")
		if !regexp.MustCompile("^" + pattern + "$").MatchString(got[i]) {
			t.Errorf("it prints\n%s\nand not\n%s", got[i], want[i])
		}
	}
}
