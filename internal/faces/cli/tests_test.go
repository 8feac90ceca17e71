package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

// TestTestSetsDecideTheExitCode creates a test set from a file, and runs it as a pipeline does.
func TestTestSetsDecideTheExitCode(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	p.runs(0, "", "agents", "create", "--name", "Desk", "-i", "Name the paragraph.")
	questions := file("questions.yaml", "- message: 'say: within 30 days'\n  facts: [30 days]\n- message: 'say: never'\n  absent: [always]\n")
	set := strings.TrimSpace(p.runs(0, "", "tests", "create", "Desk", "--name", "Returns", "--file", questions, "--jq", ".id"))
	if said := p.runs(0, "", "tests", "list", "Desk"); !strings.Contains(said, set) || !strings.Contains(said, "Returns") {
		t.Errorf("the list is %s", said)
	}
	if said := p.runs(0, "", "tests", "run", "Desk", set, "--wait"); strings.Count(said, "\tpass\t") != 2 {
		t.Errorf("the results are %s", said)
	}
	draft := file("draft.json", `{"instructions": "Be kind."}`)
	p.runs(0, "", "tests", "update", "Desk", set, "--file", file("questions.json", `[{"message": "say: within 14 days", "facts": ["30 days"]}]`))
	said := p.runs(1, "", "tests", "run", "Desk", set, "--draft-file", draft, "--max-credits", "2", "--wait")
	if strings.Count(said, "\tfail\t") != 2 || !strings.Contains(said, "misses: 30 days") {
		t.Errorf("the results are %s", said)
	}
	run := strings.TrimSpace(p.runs(0, "", "tests", "runs", "Desk", set, "--jq", ".[0].id"))
	if again := p.runs(0, "", "tests", "results", "Desk", set, run); !strings.HasPrefix(said, again) {
		t.Errorf("again the results are %s, not %s", again, said)
	}
	p.runs(0, "", "tests", "cancel", "Desk", set, run)
	p.runs(1, "", "tests", "run", "Desk", set, "--version", "9")
	p.runs(2, "", "tests", "create", "Desk", "--name", "x", "--file", file("bad.yaml", "a: [\n"))
	p.runs(0, "", "tests", "delete", "Desk", set, "--yes")
	p.runs(1, "", "tests", "get", "Desk", set)
}
