package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/testkit/fakeup"
)

// mcpPackages is the variable with the folder in which the newest versions of the protocol's
// conformance suite and of its reference server are installed; see .ci/check.
const mcpPackages = "STOA_TEST_MCP"

// leftOut lists the scenarios of the suite that the service does not pass by decision; see
// docs/connection-calls.md.
var leftOut = []string{
	"auth/client-credentials-jwt", "auth/enterprise-managed-authorization", "auth/dpop", "auth/dpop-nonce", "auth/wif-jwt-bearer", // other ways to authorize
	"elicitation-sep1034-client-defaults",                                                                                               // answers questions to people with their defaults
	"sep-2640-client-no-prefetch", "sep-2640-client-verify-digest", "sep-2640-client-verify-size", "sep-2640-client-verify-frontmatter", // skills
}

// packagesOf returns the folder of packages and the program that runs them.
func packagesOf(t *testing.T) (dir, node string) {
	t.Helper()
	dir = os.Getenv(mcpPackages)
	if dir == "" {
		t.Skip(mcpPackages + " is not set: .ci/check clients installs the packages")
	}
	node = filepath.Join(dir, "node_modules/.bin/node")
	if _, err := os.Stat(node); err != nil {
		node = "node"
	}
	return filepath.Join(dir, "node_modules/@modelcontextprotocol"), node
}

// newMCPServer returns a running service that may call servers on this machine.
func newMCPServer(t *testing.T) *server {
	t.Helper()
	h := newServer(t, fakeup.Start(t).URL, strings.Replace(actingSettings(t, ""), "127.0.0.0/8", "127.0.0.0/8, localhost", 1))
	h.start()
	return h
}

// TestTheMCPConformanceSuite runs the client scenarios of the official suite. The test binary
// is the client: see [conform].
func TestTheMCPConformanceSuite(t *testing.T) {
	dir, node := packagesOf(t)
	suite := filepath.Join(dir, "conformance/dist/index.js")
	list, err := exec.CommandContext(t.Context(), node, suite, "list", "--client").Output()
	if err != nil {
		t.Fatal(err)
	}
	h := newMCPServer(t)
	n := 0
	lines := bufio.NewScanner(bytes.NewReader(list))
	for clients := false; lines.Scan(); {
		name, ok := strings.CutPrefix(lines.Text(), "  - ")
		if !ok {
			clients = clients && lines.Text() == "" || strings.HasPrefix(lines.Text(), "Client scenarios")
			continue
		}
		if name, _, _ = strings.Cut(name, " "); !clients || slices.Contains(leftOut, name) {
			continue
		}
		n++
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), node, suite, "client", "--command", self(t), "--scenario", name, "--timeout", "60000")
			cmd.Env = append(os.Environ(), asProgram+"=conform", "STOA_URL="+h.url, "STOA_API_KEY="+ownerKey)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if n < 30 {
		t.Errorf("only %d scenarios were found:\n%s", n, list)
	}
}

// serverScenarios are the server scenarios of the suite that the endpoint of agents claims. The others call tools of the
// suite's own server (server-stateless and http-custom-header-server-validation too, for a part of their checks), or are about what the endpoint does not have: prompts,
// resources, sampling, logging and sessions.
var serverScenarios = []string{"server-initialize", "ping", "tools-list", "dns-rebinding-protection", "http-header-validation", "caching"}

// TestTheMCPServerScenarios runs those scenarios of the official suite against the agents of a running service. The suite
// sends no key, so that a proxy adds it.
func TestTheMCPServerScenarios(t *testing.T) {
	dir, node := packagesOf(t)
	suite := filepath.Join(dir, "conformance/dist/index.js")
	list, err := exec.CommandContext(t.Context(), node, suite, "list", "--server").Output()
	if err != nil {
		t.Fatal(err)
	}
	h := newMCPServer(t)
	a := h.newAccount(t, "pro", 500_000_000)
	h.newAgent(t, a)
	if _, err := h.call(t.Context(), http.MethodPatch, a.key, "/api-agents/"+a.agent, object{"description": "Repeats.", "expose": []string{"mcp"}}, nil); err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+a.key)
	}})
	defer proxy.Close()
	n := 0
	for _, name := range serverScenarios {
		if !strings.Contains(string(list), "  - "+name+" ") {
			continue // of another version of the suite
		}
		n++
		t.Run(name, func(t *testing.T) {
			if out, err := exec.CommandContext(t.Context(), node, suite, "server", "--url", proxy.URL+"/api/v1/mcp", "--scenario", name).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if n < 4 {
		t.Errorf("only %d scenarios were found:\n%s", n, list)
	}
}

// TestTheMCPReferenceServer calls the tools of the protocol's reference server.
func TestTheMCPReferenceServer(t *testing.T) {
	dir, node := packagesOf(t)
	port := freePort(t)
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(dir, "server-everything/dist/index.js"), "streamableHttp")
	cmd.Env = append(os.Environ(), fmt.Sprint("PORT=", port))
	errOut, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	for lines := bufio.NewScanner(errOut); lines.Scan() && !strings.Contains(lines.Text(), "listening"); {
	}
	go io.Copy(io.Discard, errOut)
	h := newMCPServer(t)
	c := conformer{ctx: t.Context(), api: h, key: ownerKey}
	c.connect(fmt.Sprintf("http://127.0.0.1:%d/mcp", port), object{"type": "none"})
	tools := c.catalog()
	for name, arguments := range map[string]object{"echo": {"message": "hello"}, "get-sum": {"a": 2, "b": 3}, "get-tiny-image": {}, "get-structured-content": {"location": "New York"}} {
		out := c.try(name, arguments)
		if !strings.Contains(out.Text, map[string]string{"echo": "hello", "get-sum": "5", "get-tiny-image": "image/png", "get-structured-content": "temperature"}[name]) || out.Outcome != "ok" {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if c.err != nil || len(tools) < 10 {
		t.Errorf("%d tools, %v", len(tools), c.err)
	}
}

// conform is the client of a scenario: it connects the suite's server to the service as an
// owner does, signs in where that is required, and calls its tools. It returns the exit code.
func conform(address string) int {
	c := conformer{ctx: context.Background(), api: &server{url: os.Getenv("STOA_URL"), http: http.DefaultClient}, key: os.Getenv("STOA_API_KEY")}
	var with struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		ToolCalls    []struct {
			Name      string
			Arguments object
		}
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &with) // absent for most scenarios
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	auth := object{"type": "none"}
	if strings.HasPrefix(scenario, "auth/") {
		if auth = (object{"type": "oauth"}); scenario == "auth/basic-cimd" {
			auth["clientId"] = "https://conformance-test.local/client-metadata.json"
		}
		if with.ClientID != "" {
			auth["clientId"], auth["clientSecretId"] = with.ClientID, c.clientSecret(address, with.ClientSecret)
		}
		if strings.Contains(scenario, "client-credentials") {
			auth["grant"] = "client_credentials"
		}
	}
	c.connect(address, auth)
	for range 2 { // a server may require another authorization
		if auth["type"] == "oauth" && auth["grant"] == nil {
			c.authorize()
		}
		done := true
		tools := c.catalog()
		for _, tool := range tools {
			if !slices.ContainsFunc(with.ToolCalls, func(call struct {
				Name      string
				Arguments object
			},
			) bool {
				return call.Name == tool.Name
			}) {
				done = c.try(tool.Name, tool.example(tools[0])).Outcome == "ok" && done
			}
		}
		for _, call := range with.ToolCalls {
			done = c.try(call.Name, call.Arguments).Outcome == "ok" && done
		}
		if done && c.refreshed {
			break
		}
	}
	c.must("DELETE", "/connections/"+c.id, nil, nil)
	fmt.Println(c.err)
	return 0 // the suite judges the requests
}

// A conformer is an owner of one connection. It keeps its first error.
type conformer struct {
	ctx       context.Context
	api       *server
	key, id   string
	refreshed bool // the last refresh succeeded
	err       error
}

// A listed is a tool as the API lists it.
type listed struct {
	Name, Sha256, State string
	InputSchema         object
}

// example returns arguments for the tool. An object is the schema of the first tool: the suite
// compares it.
func (l listed) example(first listed) object {
	all := object{}
	properties, _ := l.InputSchema["properties"].(map[string]any)
	for name, p := range properties {
		p, _ := p.(map[string]any)
		switch p["type"] {
		case "object":
			all[name] = first.InputSchema
		case "string":
			all[name] = "text"
		case "number", "integer":
			all[name] = 5
		case "boolean":
			all[name] = true
		}
	}
	return all
}

// A tried is the outcome of a test call.
type tried struct {
	Outcome, Message, Text string
}

func (c *conformer) must(method, path string, body, into any) bool {
	_, err := c.api.call(c.ctx, method, c.key, path, body, into)
	c.err = cmp.Or(c.err, err)
	return err == nil
}

func (c *conformer) connect(address string, auth object) {
	var made struct{ ID string }
	c.must("POST", "/connections", object{"kind": "mcp", "name": fmt.Sprintf("c%d", time.Now().UnixNano()%1e12), "url": address, "auth": auth}, &made)
	c.id = made.ID
}

// catalog refreshes the connection, approves all usable tools, and returns them.
func (c *conformer) catalog() (tools []listed) {
	var catalog struct{ Data []listed }
	if c.refreshed = c.must("POST", "/connections/"+c.id+"/refresh", nil, nil); !c.refreshed || !c.must("GET", "/connections/"+c.id+"/tools", nil, &catalog) {
		return nil
	}
	var decisions []object
	for _, tool := range catalog.Data {
		if tool.State == "invalid" {
			continue
		}
		tools = append(tools, tool)
		decisions = append(decisions, object{"name": tool.Name, "sha256": tool.Sha256, "decision": "approve", "approval": "never", "effects": "once"})
	}
	if len(decisions) > 0 {
		c.must("POST", "/connections/"+c.id+"/tools/review", object{"tools": decisions}, nil)
	}
	return tools
}

func (c *conformer) try(tool string, arguments object) (out tried) {
	c.must("POST", "/connections/"+c.id+"/tools/test", object{"name": tool, "arguments": arguments, "confirm": true}, &out)
	fmt.Println(tool, out)
	return out
}

var landingAnswer = regexp.MustCompile(`name="token" value="([^"]+)"`)

// authorize does what a person does in a browser.
func (c *conformer) authorize() {
	var begun struct{ AuthorizeURL string }
	if !c.must("POST", "/connections/"+c.id+"/authorize", nil, &begun) {
		return
	}
	resp, err := http.Get(begun.AuthorizeURL) // the suite redirects immediately
	if err != nil {
		c.err = cmp.Or(c.err, err)
		return
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	token := landingAnswer.FindSubmatch(page)
	if err != nil || token == nil {
		c.err = cmp.Or(c.err, fmt.Errorf("the page has the status %d: %v", resp.StatusCode, err))
		return
	}
	resp, err = http.PostForm(c.api.url+"/oauth/callback", url.Values{"token": {string(token[1])}, "decision": {"connect"}})
	if c.err = cmp.Or(c.err, err); err == nil {
		resp.Body.Close()
	}
}

// clientSecret stores the secret of a client for the authorization server of an address.
func (c *conformer) clientSecret(address, value string) string {
	u, err := url.Parse(address)
	if err != nil {
		c.err = err
		return ""
	}
	var about struct {
		Servers []string `json:"authorization_servers"`
	}
	if resp, err := http.Get("http://" + u.Host + "/.well-known/oauth-protected-resource" + u.Path); err == nil {
		_ = json.NewDecoder(resp.Body).Decode(&about)
		resp.Body.Close()
	}
	origin := "http://" + u.Host
	if len(about.Servers) > 0 {
		if at, err := url.Parse(about.Servers[0]); err == nil {
			origin = "http://" + at.Host
		}
	}
	var made struct{ ID string }
	c.must("POST", "/secrets", object{"name": fmt.Sprintf("s%d", time.Now().UnixNano()%1e12), "kind": "token", "origin": origin, "value": value}, &made)
	return made.ID
}
