package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stoa/internal/testkit/fakeup"
)

// agentPackages is the variable with the folder in which the coding agents are installed; see
// .ci/check.
const agentPackages = "STOA_TEST_AGENTS"

// A codingAgent is configured as docs/clients.md says.
type codingAgent struct {
	name             string
	model            string                       // of this service, which its model is an alias of
	config, settings string                       // a file in its home
	command          []string                     // a task is to follow
	mcp              string                       // settings of an MCP server, in the same file
	searches         int                          // requests that add a tool, which was found by a search, to those that the cache has
	steps            func(file string) [][]string // calls of the model; then it answers
}

func call(name string, arguments map[string]any) string {
	text, _ := json.Marshal(arguments)
	return "call: " + name + " " + string(text)
}

func agents() []codingAgent {
	shell := func(name, member, command string) string {
		return call(name, map[string]any{member: command, "description": "Run the test"})
	}
	codex := []string{"codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}
	const provider = `model_provider = "stoa"

[model_providers.stoa]
name = "Stoa"
base_url = "http://127.0.0.1:8080/api/v1"
env_key = "STOA_API_KEY"
wire_api = "responses"
supports_websockets = false
`
	const mcp = `
[mcp_servers.everything]
command = "mcp-server-everything"
`
	echo := map[string]any{"message": heard}
	program := func(text string) string { return call("functions__exec", map[string]any{"input": text}) }
	return []codingAgent{{
		name: "Codex", model: "beta-3.8-flash", command: codex, config: ".codex/config.toml", settings: "model = \"auto\"\n" + provider, mcp: mcp,
		steps: func(string) [][]string {
			return [][]string{
				{shell("exec_command", "cmd", "cat add.sh"), shell("exec_command", "cmd", "sh test.sh")},
				{shell("exec_command", "cmd", "sed -i s/-/+/ add.sh"), call("mcp__everything__echo", echo)},
				{shell("exec_command", "cmd", "sh test.sh")},
			}
		},
	}, {
		// With its default model, its tools are programs in JavaScript, in a namespace.
		name: "CodexDefault", model: "gamma-6.1-sol", command: codex, config: ".codex/config.toml", settings: provider, mcp: mcp,
		steps: func(string) [][]string {
			return [][]string{
				{program(`text((await tools.exec_command({cmd: "cat add.sh"})).output)`), program(`text((await tools.exec_command({cmd: "sh test.sh"})).output)`)},
				{program(`text(await tools.apply_patch("*** Begin Patch\n*** Update File: add.sh\n@@\n-echo $(($1 - $2))\n+echo $(($1 + $2))\n*** End Patch\n"))`)},
				{program(`text((await tools.mcp__everything__echo({message: "` + heard + `"})).content[0].text)`)},
				{program(`text((await tools.exec_command({cmd: "sh test.sh"})).output)`)},
			}
		},
	}, {
		name: "ClaudeCode", model: "alpha-opus-5-5",
		command: []string{
			"claude", "-p", "--allowedTools", "Read,Edit,Bash,mcp__everything__echo",
			"--mcp-config", `{"mcpServers": {"everything": {"command": "mcp-server-everything"}}}`, "--",
		},
		searches: 1,
		steps: func(file string) [][]string {
			return [][]string{
				{call("Read", map[string]any{"file_path": file}), shell("Bash", "command", "sh test.sh"), call("ToolSearch", map[string]any{"query": "select:mcp__everything__echo", "max_results": 5})},
				{call("Edit", map[string]any{"file_path": file, "old_string": "$1 - $2", "new_string": "$1 + $2"}), call("mcp__everything__echo", echo)},
				{shell("Bash", "command", "sh test.sh")},
			}
		},
	}, {
		name: "opencode", model: "alpha-sonnet-5-5",
		command: []string{"opencode", "run", "-m", "stoa/alpha-sonnet-5-5"},
		config:  ".config/opencode/opencode.json",
		settings: `{
  "provider": {
    "stoa": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "Stoa",
      "options": {"baseURL": "http://127.0.0.1:8080/api/v1", "apiKey": "{env:STOA_API_KEY}"},
      "models": {"alpha-sonnet-5-5": {"name": "Sonnet"}}
    }
  }
}`,
		steps: func(file string) [][]string {
			return [][]string{
				{call("read", map[string]any{"filePath": file}), shell("bash", "command", "sh test.sh")},
				{call("edit", map[string]any{"filePath": file, "oldString": "$1 - $2", "newString": "$1 + $2"})},
				{shell("bash", "command", "sh test.sh")},
			}
		},
	}, {
		name: "GeminiCLI", model: "beta-3.8-flash",
		command:  []string{"gemini", "-m", "beta-3.8-flash", "--approval-mode", "yolo", "--skip-trust", "-p"},
		config:   ".gemini/settings.json",
		settings: `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`,
		steps: func(file string) [][]string {
			return [][]string{
				{call("read_file", map[string]any{"file_path": file}), shell("run_shell_command", "command", "sh test.sh")},
				{call("replace", map[string]any{"file_path": file, "instruction": "Add.", "old_string": "$1 - $2", "new_string": "$1 + $2"})},
				{shell("run_shell_command", "command", "sh test.sh")},
			}
		},
	}, {
		name: "QwenCode", model: "beta-3.8-flash",
		command: []string{"qwen", "--auth-type", "gemini", "-m", "beta-3.8-flash", "--approval-mode", "yolo", "-p"},
		steps: func(file string) [][]string {
			return [][]string{
				{call("read_file", map[string]any{"file_path": file}), shell("run_shell_command", "command", "sh test.sh")},
				{call("edit", map[string]any{"file_path": file, "old_string": "$1 - $2", "new_string": "$1 + $2"})},
				{shell("run_shell_command", "command", "sh test.sh")},
			}
		},
	}}
}

// TestTheDocsConfigureAgents compares the settings here with those of the page.
func TestTheDocsConfigureAgents(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents() {
		for line := range strings.Lines(a.settings) {
			if !bytes.Contains(page, []byte("    "+strings.TrimRight(line, "\n"))) {
				t.Errorf("docs/clients.md lacks the line of %s: %s", a.name, line)
			}
		}
	}
}

// TestCodingAgents lets each agent repair a program whose test fails, with a scripted vendor on
// each wire, and with the names of the agent's vendor for the models.
func TestCodingAgents(t *testing.T) {
	t.Parallel()
	packages := os.Getenv(agentPackages)
	if packages == "" {
		t.Skip(agentPackages + " is not set: .ci/check clients installs the packages")
	}
	for wire := range upstreamNames {
		for _, a := range agents() {
			t.Run(a.name+"/"+wire, func(t *testing.T) {
				t.Parallel()
				repair(t, a, filepath.Join(packages, "node_modules/.bin"), wire)
			})
		}
	}
}

// upstreamNames are the models behind the agents, by wire.
var upstreamNames = map[string]string{"messages": "claude-opus-5-5", "responses": "gpt-6.1-sol", "gemini": "gemini-3.8-flash", "chat": "deepseek-v4-pro"}

// resultMarks begin a tool's result in each format.
var resultMarks = []string{`"type":"tool_result"`, `"type":"function_call_output"`, `"type":"custom_tool_call_output"`, `"functionResponse":`, `"role":"tool"`}

// heard is what an agent sends to the tool echo of an MCP server.
const heard = "is the server there?"

const fixed = "The test passes."

// script returns the orders of a request of an agent: the calls of the first step without
// results, or the last text.
func script(steps [][]string) func(body []byte) string {
	namespace, tool, _ := strings.Cut(strings.Fields(steps[0][0])[1], "__")
	return func(body []byte) string {
		if !bytes.Contains(body, []byte(`"`+namespace)) || !bytes.Contains(body, []byte(tool+`"`)) {
			return "say: Repair" // a title is requested
		}
		done := 0
		for _, mark := range resultMarks {
			done += bytes.Count(body, []byte(mark))
		}
		for _, step := range steps {
			if done <= 0 {
				return "rounds: 100\n" + strings.Join(step, "\n")
			}
			done -= len(step)
		}
		return "say: " + fixed
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// broken writes a program whose test fails.
func broken(t *testing.T, dir string) {
	writeFile(t, filepath.Join(dir, "add.sh"), "echo $(($1 - $2))\n")
	writeFile(t, filepath.Join(dir, "test.sh"), `[ "$(sh add.sh 2 3)" = 5 ] && echo ok`+"\n")
}

// run returns the agent's program with a task, not started.
func (a codingAgent) run(t *testing.T, bin, home, dir, url, key, task string) *exec.Cmd {
	if a.config != "" {
		writeFile(t, filepath.Join(home, a.config), strings.ReplaceAll(a.settings, "http://127.0.0.1:8080", url)+a.mcp)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, a.command[0]), append(slices.Clone(a.command[1:]), task)...)
	cmd.Dir = dir
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"),
		"STOA_API_KEY=" + key, "ANTHROPIC_BASE_URL=" + url + "/api", "ANTHROPIC_AUTH_TOKEN=" + key,
		"GEMINI_API_KEY=" + key, "GOOGLE_GEMINI_BASE_URL=" + url + "/api",
		// They do without the network.
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"MCP_CONNECTION_NONBLOCKING=0", // the script calls the MCP server at once
	}
	return cmd
}

// server starts a server on which the agent's model is one of the vendor, on a wire.
func (a codingAgent) server(t *testing.T, vendorURL, wire string) *server {
	h := newServer(t, vendorURL, fmt.Sprintf(`
extensions: {models: true, inputTokens: true, chatCompletions: true, messages: true, gemini: true, tools: true, formats: true, images: true, files: true}
aliasSets: [anthropic, openai]
auto: [beta-3.8-flash]
models:
  %s: {maxOutput: 65536, routes: [{provider: v-%s, model: %s}]}
`, a.model, wire, upstreamNames[wire]))
	h.start()
	return h
}

func repair(t *testing.T, a codingAgent, bin, wire string) {
	home, dir := t.TempDir(), t.TempDir()
	broken(t, dir)
	vendor := fakeup.Start(t, fakeup.Options{Cache: true, Script: script(a.steps(filepath.Join(dir, "add.sh")))})
	h := a.server(t, vendor.URL, wire)
	url := recorded(t, h.url, a.name, wire, home, dir)
	out, err := a.run(t, bin, home, dir, url, ownerKey, "Run sh test.sh and repair add.sh.").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(fixed)) {
		t.Errorf("%v; it wrote\n%s", err, out)
	}
	test := exec.Command("sh", "test.sh")
	test.Dir = dir
	if err := test.Run(); err != nil {
		t.Errorf("the test still fails: %v", err)
	}
	var repeated []fakeup.Usage
	first, echoed := true, false
	for i, s := range vendor.Served() {
		if s.Status != 200 || s.Model != upstreamNames[wire] {
			t.Errorf("the vendor answered request %d for %s with %d: %s", i, s.Model, s.Status, s.Refused)
		}
		echoed = echoed || bytes.Contains(s.Body, []byte("Echo: "+heard))
		if u := s.Usage; u.Input > 4096 { // not the title
			if !first {
				repeated = append(repeated, u)
			}
			first = false
		}
	}
	if usesMCP := bytes.Contains(fmt.Append(nil, a.mcp, a.command), []byte("mcp-server-everything")); echoed != usesMCP {
		t.Errorf("the MCP server was called: %v", echoed)
	}
	slices.SortFunc(repeated, func(a, b fakeup.Usage) int { return cmp.Compare(a.Cached*b.Input, b.Cached*a.Input) })
	var input, cached int64
	for _, u := range repeated[min(a.searches, len(repeated)):] {
		input, cached = input+u.Input, cached+u.Cached
	}
	if 100*cached < 85*input {
		t.Errorf("from the second request on, %d of %d input tokens were read from the cache", cached, input)
	}
}
