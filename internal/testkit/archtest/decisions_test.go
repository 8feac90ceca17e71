package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

const decisions = "docs/decisions"

// notePath is the form in which code and pages refer to a note.
var notePath = regexp.MustCompile(decisions + `/([\w.-]+)`)

// TestDecisionNotes checks that each note has its number and title, that the index
// lists it, and that references in comments name notes that exist.
func TestDecisionNotes(t *testing.T) {
	t.Parallel()
	all, err := files(decisions)
	if err != nil {
		t.Fatal(err)
	}
	index := all[decisions+"/README.md"]
	delete(all, decisions+"/README.md")
	if len(all) < 10 {
		t.Fatalf("only %d notes found: the walk is broken", len(all))
	}
	for _, s := range sources(t) {
		for _, c := range s.file.Comments {
			for _, m := range notePath.FindAllStringSubmatch(strings.ReplaceAll(c.Text(), "\n", " "), -1) {
				name := strings.TrimRight(m[1], ".")
				if _, ok := all[decisions+"/"+name]; !ok {
					t.Errorf("%s: there is no note %s", s.at(c), name)
				}
			}
		}
	}
	for p, text := range all {
		name := path.Base(p)
		number, _, _ := strings.Cut(name, "-")
		line, _, _ := strings.Cut(text, "\n")
		title, ok := strings.CutPrefix(line, "# "+number+" ")
		if !ok {
			t.Errorf("%s begins with %q; its first line is \"# %s TITLE\"", p, line, number)
		}
		if row := fmt.Sprintf("| %s | [%s](%s) |", number, title, name); strings.Count(index, row) != 1 {
			t.Errorf("%s/README.md needs one row %s …", decisions, row)
		}
	}
	if rows := strings.Count(index, "\n| 0"); rows != len(all) {
		t.Errorf("the index has %d rows for %d notes", rows, len(all))
	}
}

// codeName is an exported name of a package in a page: `db.Write`.
var codeName = regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*)(?:\\.(\\w+))?(?:\\(\\))?`")

// TestNotesNameWhatExists checks names such as `db.Write` in the notes and in
// ARCHITECTURE.md against the packages' declarations.
func TestNotesNameWhatExists(t *testing.T) {
	t.Parallel()
	all := pages(t)
	declared := declarations(t)
	for p, text := range all {
		if !strings.HasPrefix(p, decisions) && p != "ARCHITECTURE.md" {
			continue
		}
		for _, m := range codeName.FindAllStringSubmatch(text, -1) {
			names := declared["internal/"+m[1]]
			if names == nil {
				continue // the standard library's
			}
			name := m[2]
			if m[3] != "" {
				name += "." + m[3]
			}
			if !names[name] && !hasMember(names, name) {
				t.Errorf("%s names %s, which package %s does not declare", p, m[0], m[1])
			}
		}
	}
}

// hasMember reports whether any type has a member of that name: notes write
// `db.Write` for a method of DB.
func hasMember(names map[string]bool, name string) bool {
	for n := range names {
		if strings.HasSuffix(n, "."+name) {
			return true
		}
	}
	return false
}

// markdownLink finds the target of an inline link.
var markdownLink = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)

// TestLinksLeadSomewhere checks the relative links of all pages.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for p, text := range pages(t) {
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			if _, err := fs.Stat(root, path.Join(path.Dir(p), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", p, m[1])
			}
		}
	}
}

// pages reads every Markdown page of the repository's root and of docs.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all, err := files("docs")
	if err != nil {
		t.Fatal(err)
	}
	for p := range all {
		if path.Ext(p) != ".md" {
			delete(all, p)
		}
	}
	top, err := fs.Glob(root, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range top {
		text, err := fs.ReadFile(root, p)
		if err != nil {
			t.Fatal(err)
		}
		all[p] = string(text)
	}
	return all
}
