package e2e

import (
	"os"
	"os/exec"
	"testing"

	"stoa/internal/testkit/fakeup"
)

// The official JavaScript client, against version 1 of the API. Its Go sibling is in
// e2e/openai-go.
func TestTheOfficialJavaScriptClient(t *testing.T) { drive(t, "client.test.mjs", "") }

// allExtensions are settings that switch all of them on.
const allExtensions = "extensions: {tools: true, formats: true, images: true, files: true, models: true, inputTokens: true, v1Alias: true, chatCompletions: true, messages: true, gemini: true}\n"

// Clients of the Responses format that call tools and request JSON.
func TestClientsCallTools(t *testing.T) { drive(t, "extensions.test.mjs", allExtensions) }

// Clients of chat completions and of Messages.
func TestClientsOfOtherFormats(t *testing.T) { drive(t, "compat.test.mjs", allExtensions) }

// Clients that run tools which a vendor has defined.
func TestClientsRunVendorTools(t *testing.T) { drive(t, "vendortools.test.mjs", allExtensions) }

// Clients of all formats that call an agent as a model.
func TestClientsCallAnAgent(t *testing.T) { drive(t, "agent.test.mjs", allExtensions) }

// The client of AG-UI, with an agent for front ends.
func TestTheOfficialAGUIClient(t *testing.T) { drive(t, "agui.test.mjs", "") }

// Google's library, with Gemini's format.
func TestTheOfficialGoogleClient(t *testing.T) { drive(t, "gemini.test.mjs", allExtensions) }

// drive runs a test file of openai-js against a server with these settings. It requires Node,
// and packages that "npm ci" in e2e/openai-js installs.
func drive(t *testing.T, file, settings string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat("openai-js/node_modules/@google/genai"); err != nil {
		t.Skip("run npm ci in e2e/openai-js first")
	}
	f := fakeup.Start(t)
	h := newServer(t, f.URL, settings)
	h.start()
	poor := h.newAccount(t, "free", 0)
	cmd := exec.CommandContext(t.Context(), node, "--test", file)
	cmd.Dir = "openai-js"
	cmd.Env = append(os.Environ(), "STOA_URL="+h.url, "STOA_API_KEY="+ownerKey, "STOA_POOR_KEY="+poor.key)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
