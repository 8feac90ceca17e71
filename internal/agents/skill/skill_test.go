package skill_test

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/agents/skill"
)

// A verdict is that of skills-ref validate (github.com/agentskills/agentskills, commit 69ef37e) about a skill. Unknown reports that its
// only error is about unknown fields, which are warnings here.
type verdict struct {
	Folder, Text string
	Errors       int
	Unknown      bool
}

func (v verdict) check(t *testing.T, folder string, text []byte) {
	t.Helper()
	got := skill.Read(folder, text)
	switch {
	case v.Unknown && (len(got.Errors) > 0 || len(got.Warnings) == 0):
		t.Errorf("%s: errors %q, warnings %q; want a warning about the unknown fields", folder, got.Errors, got.Warnings)
	case !v.Unknown && (v.Errors == 0) != (len(got.Errors) == 0):
		t.Errorf("%s: errors %q, want %d, of %.300q", folder, got.Errors, v.Errors, text)
	}
}

// TestRules compares the verdicts about skills that each break or keep one rule. The recorded ones are those of skills-ref.
func TestRules(t *testing.T) {
	data, err := os.ReadFile("testdata/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []verdict
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		v.check(t, v.Folder, []byte(v.Text))
	}
}

// TestPublicSkills compares the verdicts about public skills. Their texts are not in this repository: STOA_TEST_SKILLS is a folder with
// checkouts of the repositories that testdata/public.json names, as OWNER__NAME.
func TestPublicSkills(t *testing.T) {
	root := os.Getenv("STOA_TEST_SKILLS")
	if root == "" {
		t.Skip("STOA_TEST_SKILLS is not set")
	}
	data, err := os.ReadFile("testdata/public.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Repository, Commit, Path, SHA256 string
		verdict
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, v := range list {
		text, err := os.ReadFile(filepath.Join(root, strings.Replace(v.Repository, "/", "__", 1), v.Path, skill.Main))
		if err != nil || skill.Sum(text) != v.SHA256 {
			t.Errorf("%s, %s: not the recorded file (%v)", v.Repository, v.Path, err)
			continue
		}
		v.check(t, path.Base(v.Path), text)
		compared++
	}
	if compared < 60 {
		t.Errorf("only %d skills were compared", compared)
	}
}

func TestRead(t *testing.T) {
	s := skill.Read("pdf", []byte("---\nname: pdf\ndescription: >\n  Read\n  PDF.\nlicense: MIT\ncompatibility: Needs git\nallowed-tools: Bash(git:*) Read\nmetadata:\n  author: example\n  version: 1.0\nkind: 7\n---\n# Text"))
	if s.Name != "pdf" || s.Description != "Read PDF." || s.License != "MIT" || s.Compatibility != "Needs git" || s.AllowedTools != "Bash(git:*) Read" ||
		s.Metadata["author"] != "example" || s.Metadata["version"] != "1.0" || len(s.Errors) > 0 || len(s.Warnings) != 1 {
		t.Errorf("read %+v", s)
	}
	const front = `{"allowed-tools":"Bash(git:*) Read","compatibility":"Needs git","description":"Read PDF.\n","kind":7,"license":"MIT","metadata":{"author":"example","version":1.0},"name":"pdf"}`
	if string(s.Front) != front {
		t.Errorf("front matter %s", s.Front)
	}
}

func TestWhatAReviewerCannotSeeIsAWarning(t *testing.T) {
	for text, want := range map[string]int{"Text. \u26a0\ufe0f\r\n": 0, "Text\U000e0041": 1, "Te\u200bxt": 1, "\u202etxeT": 1, "\x1b[2J": 1} {
		if s := skill.Read("a", []byte("---\nname: a\ndescription: b\n---\n"+text)); len(s.Warnings) != want || len(s.Errors) != 0 {
			t.Errorf("%q: warnings %q, errors %q", text, s.Warnings, s.Errors)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("---\nname: a\ndescription: b\n---\n"))
	f.Add([]byte("---\na: &x [*x]\n---\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := skill.Read("a", text)
		if len(s.Errors) == 0 && (s.Name != "a" || s.Description == "" || !json.Valid(s.Front)) {
			t.Errorf("accepted %q as %+v", text, s)
		}
	})
}
