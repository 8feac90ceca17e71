package api_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

// TestRequestsOfCodingAgentsAreServed replays what Codex 0.171.0 (with a model that it does not know,
// and with its default), Claude Code 2.1.332, opencode 1.18.33, Gemini CLI 0.61.0 and Qwen Code 0.24.4
// send: a request of each form, with shortened texts. A change that refuses one of them would stop the agent. To record them again:
//
//	STOA_TEST_AGENTS=DIR go test ./e2e -run CodingAgents -args -record-agents ../internal/faces/api/testdata/clients
func TestRequestsOfCodingAgentsAreServed(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	files, err := filepath.Glob("testdata/clients/*.jsonl")
	if err != nil || len(files) != 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		lines, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(lines) {
			var r struct {
				Path string `json:"path"`
				Body body   `json:"body"`
			}
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(file, err)
			}
			for _, model := range []string{"alpha-sonnet-5-5", "alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
				path := r.Path
				if before, method, ok := strings.Cut(path, ":"); ok { // Gemini's has the model
					path = before[:strings.LastIndexByte(before, '/')+1] + model + ":" + method
				} else {
					r.Body["model"] = model
				}
				reply := h.Client(t).Do("POST", path, r.Body)
				if reply.Status != 200 {
					t.Errorf("%s on %s: %d %s", file, model, reply.Status, reply.Body)
					continue
				}
				// The setting of Claude Code needs thinking, which the older model does without.
				if sent := lastBody(f); strings.Contains(string(line), "clear_thinking") && strings.Contains(sent, "clear_thinking") != (model == "alpha-sonnet-5-5") {
					t.Errorf("%s on %s: the vendor was sent %s", file, model, sent)
				}
			}
		}
	}
	quiet(t, h)
}
