package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

func TestSkillsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	p.runs(0, "", "agents", "create", "--name", "desk", "-i", "Answer.")
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("repo/README.md", "Not a part of a skill.")
	write("repo/skills/refunds/SKILL.md", "---\nname: refunds\ndescription: Pays refunds.\nkind: 7\n---\nOne.\nTwo.\nThree.\n")
	write("repo/skills/refunds/references/limits.md", "Up to 50.\n")
	write("repo/skills/Bad/SKILL.md", "---\nname: Bad\n---\n")
	repo := filepath.Join(root, "repo")
	said := p.runs(1, "", "skills", "check", repo)
	for _, want := range []string{"repo/skills/refunds: valid\n  warning: unknown fields: kind\n", "repo/skills/Bad: invalid\n", `the name "Bad" must be lower case`, "the field description is missing", "1 of 2 skills are invalid"} {
		if !strings.Contains(said, want) {
			t.Errorf("check does not say %q: %s", want, said)
		}
	}
	if said := p.runs(0, "", "skills", "check", filepath.Join(repo, "skills", "refunds")); !strings.HasPrefix(said, "refunds: valid\n") {
		t.Errorf("check says %q", said)
	}
	if said := p.runs(1, "", "skills", "import", "desk", repo); !strings.Contains(said, "lower case") {
		t.Errorf("import says %q", said)
	}
	if err := os.RemoveAll(filepath.Join(repo, "skills", "Bad")); err != nil {
		t.Fatal(err)
	}
	if said := p.runs(0, "", "skills", "import", "desk", repo); !strings.Contains(said, "refunds\tnew") {
		t.Errorf("import says %q", said)
	}
	if files := p.runs(0, "", "drive", "ls", "desk", "-r"); !strings.Contains(files, "skills/refunds/references/limits.md") || strings.Contains(files, "README") {
		t.Errorf("the drive has %s", files)
	}
	write(".agents/skills/dotted/SKILL.md", "---\nname: dotted\ndescription: From a hidden folder.\n---\n")
	if said := p.runs(0, "", "skills", "import", "desk", filepath.Join(root, ".agents")); !strings.Contains(said, "dotted\tnew") {
		t.Errorf("import says %q", said)
	}
	p.runs(0, "", "drive", "rm", "desk", "skills/dotted/", "-r", "--yes")
	said = p.runs(0, "", "skills", "review", "desk", "refunds")
	_, digest, _ := strings.Cut(strings.TrimSpace(said), "--accept ")
	if !strings.Contains(said, "+ Up to 50.") || len(digest) != hashShown {
		t.Errorf("review says %q", said)
	}
	p.runs(2, "", "skills", "review", "desk", "refunds", "--accept", "abc")
	p.runs(2, "", "skills", "review", "desk", "refunds", "--accept", "") // as of a variable that is not set
	p.runs(1, "", "skills", "review", "desk", "refunds", "--accept", strings.Repeat("0", hashShown))
	if said := p.runs(0, "", "skills", "review", "desk", "refunds", "--accept", digest); !strings.Contains(said, "active") || !strings.Contains(said, "Files\tSKILL.md, references/limits.md\n") {
		t.Errorf("review says %q", said)
	}
	write("repo/skills/refunds/SKILL.md", "---\nname: refunds\ndescription: Pays refunds.\n---\nOne.\n2.\nThree.\n")
	p.runs(0, "", "skills", "import", "desk", filepath.Join(repo, "skills", "refunds"))
	if said := p.runs(0, "", "skills", "review", "desk", "refunds"); !strings.Contains(said, "SKILL.md  changed") || !strings.Contains(said, "- Two.\n") || !strings.Contains(said, "+ 2.\n") || strings.Contains(said, "Three.") || strings.Contains(said, "limits.md") {
		t.Errorf("review says %q", said)
	}
	// A change cannot hide in a text that is not shown, or in characters that are not seen.
	write("repo/skills/refunds/references/limits.md", "Up to 5,000.\n"+strings.Repeat(" \n", 40_000))
	write("repo/skills/refunds/more.md", "Read\tall.\U000e0041\r\n")
	p.runs(0, "", "skills", "import", "desk", filepath.Join(repo, "skills", "refunds"))
	if said := p.runs(0, "", "skills", "review", "desk", "refunds"); strings.Contains(said, "- Up to 50.") || !strings.Contains(said, "limits.md  changed  78.1 KiB\n  (its text is not shown: it is not a text, or large)\n") ||
		!strings.Contains(said, "+ Read\tall.\\u{e0041}\n") || !strings.Contains(said, "Warning: files with characters that cannot be seen: more.md\n") {
		t.Errorf("review says %q", said)
	}
	if got := strings.TrimSpace(p.runs(0, "", "skills", "list", "desk", "--jq", ".[0].state")); got != "changed" {
		t.Errorf("the state is %q", got)
	}
	p.runs(0, "", "sessions", "start", "desk", "say: Yes.", "--wait")
	session := strings.TrimSpace(p.runs(0, "", "sessions", "list", "--jq", ".[0].id"))
	if said := p.runs(0, "", "sessions", "get", session); !strings.Contains(said, "Skills withheld\trefunds\n") {
		t.Errorf("the session is %s", said)
	}
	if said := p.runs(0, "", "agents", "get", "desk"); !strings.Contains(said, "Skills\trefunds\n") {
		t.Errorf("the agent is %s", said)
	}
	for command, missing := range map[string]string{"skills import": "AGENT", "connections create": "NAME", "connections test crm": "TOOL"} {
		if said := p.runs(2, "", strings.Fields(command)...); !strings.Contains(said, missing+" is missing; the form is") {
			t.Errorf("%s says %q", command, said)
		}
	}
	p.runs(2, "", "skills", "import", "desk")
	p.runs(2, "", "skills", "import", "desk", repo, "--connection", "crm")
	if said := p.runs(1, "", "connections", "create", "crm", "http://127.0.0.1:1/mcp"); !strings.Contains(said, "The connection was created, without tools.") {
		t.Errorf("create says %q", said)
	}
	if said := p.runs(1, "", "skills", "import", "desk", "--connection", "crm"); !strings.Contains(said, "not be accessed from this service") {
		t.Errorf("import says %q", said)
	}
	if said := p.runs(0, "", "skills", "delete", "desk", "refunds", "--yes"); said != "No longer used: refunds.\n" {
		t.Errorf("delete says %q", said)
	}
	if got := strings.TrimSpace(p.runs(0, "", "skills", "list", "desk", "--jq", ".[0].state")); got != "new" {
		t.Errorf("the state is %q", got)
	}
}
