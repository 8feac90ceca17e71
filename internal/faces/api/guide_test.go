package api_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

// TestTheGuideDoesWhatItSays pastes the commands of docs/agents.md into one
// shell, against a service with default settings, and compares what they print.
func TestTheGuideDoesWhatItSays(t *testing.T) { pasteGuide(t, "agents.md") }

// TestTheGuideToSchedulesDoesWhatItSays does the same with docs/schedules.md.
func TestTheGuideToSchedulesDoesWhatItSays(t *testing.T) { pasteGuide(t, "schedules.md") }

// TestTheGuideToToolsDoesWhatItSays does the same with docs/tools.md.
func TestTheGuideToToolsDoesWhatItSays(t *testing.T) { pasteGuide(t, "tools.md") }

// TestTheGuideToApprovalsDoesWhatItSays does the same with docs/approvals.md.
func TestTheGuideToApprovalsDoesWhatItSays(t *testing.T) { pasteGuide(t, "approvals.md") }

// TestTheGuideToCallsOfAgentsDoesWhatItSays does the same with docs/call-an-agent.md.
func TestTheGuideToCallsOfAgentsDoesWhatItSays(t *testing.T) { pasteGuide(t, "call-an-agent.md") }

// TestTheGuideToHooksDoesWhatItSays does the same with docs/hooks.md.
func TestTheGuideToHooksDoesWhatItSays(t *testing.T) { pasteGuide(t, "hooks.md") }

// TestTheGuideToTestSetsDoesWhatItSays does the same with docs/test-sets.md.
func TestTheGuideToTestSetsDoesWhatItSays(t *testing.T) { pasteGuide(t, "test-sets.md") }

// TestTheGuideToMemoryDoesWhatItSays does the same with docs/memory.md.
func TestTheGuideToMemoryDoesWhatItSays(t *testing.T) { pasteGuide(t, "memory.md") }

// TestTheGuideToSkillsDoesWhatItSays does the same with docs/skills.md.
func TestTheGuideToSkillsDoesWhatItSays(t *testing.T) { pasteGuide(t, "skills.md") }

// TestTheGuideToPythonDoesWhatItSays does the same with the program of docs/python.md.
func TestTheGuideToPythonDoesWhatItSays(t *testing.T) {
	pasteBlocks(t, "python.md", "python", "python3", "print('== %d', flush=True)\n%s\n")
}

func pasteGuide(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	pasteBlocks(t, name, "sh", "bash", "echo '== %d'\n%s\n")
}

// pasteBlocks runs the blocks of a language as one script. mark prints the number of a block before it.
func pasteBlocks(t *testing.T, name, language, program, mark string) {
	t.Helper()
	program, err := exec.LookPath(program)
	if err != nil {
		t.Skip("there is no", program)
	}
	text, err := os.ReadFile("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```\n(?:```text\n(.*?)^```\n)?").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 5 {
		t.Fatalf("the guide has %d commands; the test reads it wrongly", len(blocks))
	}
	var script strings.Builder
	if language == "sh" {
		script.WriteString("set -u\n")
	}
	for i, b := range blocks {
		fmt.Fprintf(&script, mark, i, b[1])
	}
	h := start(t, apitest.Config{})
	cmd := exec.CommandContext(t.Context(), program, "-c", script.String())
	cmd.Env = append(os.Environ(), "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed := regexp.MustCompile(`(?m)^== \d+\n`).Split(string(out), -1)[1:]
	if len(printed) != len(blocks) {
		t.Fatalf("%d of %d commands ran:\n%s", len(printed), len(blocks), out)
	}
	for i, b := range blocks {
		got, want := strings.Split(strings.TrimSpace(printed[i]), "\n"), strings.Split(strings.TrimSpace(b[2]), "\n")
		same := len(got) >= len(want)
		for j := range want {
			begin, cut := strings.CutSuffix(want[j], "…")
			same = same && (got[j] == want[j] || cut && strings.HasPrefix(got[j], begin))
		}
		if last, _ := strings.CutSuffix(want[len(want)-1], "…"); last == want[len(want)-1] {
			same = same && len(got) == len(want)
		}
		if !same {
			t.Errorf("this prints\n%s\nand not\n%s\n%s", b[1], b[2], printed[i])
		}
	}
}
