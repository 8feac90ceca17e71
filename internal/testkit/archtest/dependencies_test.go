package archtest

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestDependenciesAreExplained compares the rows of docs/dependencies.md with the direct
// requirements and tools in the go.mod files of all modules.
func TestDependenciesAreExplained(t *testing.T) {
	t.Parallel()
	used := map[string]string{} // go.mod by module or package of a tool
	n := 0
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "node_modules" {
			return cmp.Or(err, fs.SkipDir)
		}
		if d.Name() != "go.mod" {
			return nil
		}
		n++
		text, err := fs.ReadFile(root, p)
		for _, dep := range direct(string(text)) {
			if dep != "stoa" { // a test module requires the program
				used[dep] = p
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 3 || len(used) < 10 {
		t.Fatalf("%d modules with %d dependencies found: the walk is broken", n, len(used))
	}
	page, err := files("docs")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(page["docs/dependencies.md"]) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 2 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		module := strings.Trim(cells[1], " `")
		if rows[module] {
			t.Errorf("docs/dependencies.md has %s twice", module)
		}
		rows[module] = true
		if len(cells) != 6 || slices.ContainsFunc(cells[2:5], func(c string) bool { return strings.TrimSpace(c) == "" }) {
			t.Errorf("docs/dependencies.md: the row of %s does not say what for, why this one and what was rejected", module)
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(used)), func(dep string) bool { return within(dep, module) }) {
			t.Errorf("docs/dependencies.md has %s, which no go.mod requires directly", module)
		}
	}
	for dep, mod := range used {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(rows)), func(module string) bool { return within(dep, module) }) {
			t.Errorf("docs/dependencies.md has no row for %s of %s: what for, why this one, what was rejected", dep, mod)
		}
	}
}

// direct returns the modules that a go.mod requires without "// indirect", and
// the packages of its tools.
func direct(text string) (list []string) {
	block := ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block == "":
			block, words = words[0], words[1:]
		}
		if len(words) > 0 && (block == "tool" || block == "require" && !strings.Contains(line, "// indirect")) {
			list = append(list, words[0])
		}
		if !strings.HasPrefix(line, "\t") {
			block = ""
		}
	}
	return list
}

// within reports whether a package is in a module, or is it.
func within(pkg, module string) bool { return pkg == module || strings.HasPrefix(pkg, module+"/") }
