package e2e

import (
	"os"
	"os/exec"
	"testing"

	"stoa/internal/fakeup"
)

// The official JavaScript client needs Node, and its packages, which
// "npm ci" in e2e/openai-js fetches. Its Go sibling is in e2e/openai-go.
func TestTheOfficialJavaScriptClient(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat("openai-js/node_modules/openai"); err != nil {
		t.Skip("run npm ci in e2e/openai-js first")
	}
	f := fakeup.Start(t)
	h := newServer(t, f.URL, "")
	h.start()
	poor := h.newAccount(t, "free", 0)
	cmd := exec.CommandContext(t.Context(), node, "--test", "client.test.mjs")
	cmd.Dir = "openai-js"
	cmd.Env = append(os.Environ(), "STOA_BASE_URL="+h.url+"/api/v1", "STOA_API_KEY="+ownerKey, "STOA_POOR_KEY="+poor.key)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// allExtensions are settings that switch all of them on.
const allExtensions = "extensions: {tools: true, formats: true, images: true, files: true, models: true, inputTokens: true, v1Alias: true, chatCompletions: true, messages: true}\n"

// Clients of the Responses format that call tools and want JSON.
func TestClientsCallTools(t *testing.T) { drive(t, "extensions.test.mjs") }

// Clients of chat completions and of Messages.
func TestClientsOfOtherFormats(t *testing.T) { drive(t, "compat.test.mjs") }

// drive runs a file of tests of openai-js against a server with all extensions.
func drive(t *testing.T, file string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat("openai-js/node_modules/@anthropic-ai/sdk"); err != nil {
		t.Skip("run npm ci in e2e/openai-js first")
	}
	f := fakeup.Start(t)
	h := newServer(t, f.URL, allExtensions)
	h.start()
	poor := h.newAccount(t, "free", 0)
	cmd := exec.CommandContext(t.Context(), node, "--test", file)
	cmd.Dir = "openai-js"
	cmd.Env = append(os.Environ(), "STOA_URL="+h.url, "STOA_API_KEY="+ownerKey, "STOA_POOR_KEY="+poor.key)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
