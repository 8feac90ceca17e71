package archtest

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pageFolders are the folders of the pages' TypeScript sources, with the folders that each
// may import besides itself. The folder "." contains the entries of the small pages.
var pageFolders = map[string][]string{
	"lib":           nil,
	"console/parts": {"lib"},
	"console/pages": {"lib", "console/parts"},
	"console":       {"lib", "console/parts", "console/pages"},
	"embed":         {"lib", "console/parts"},
	".":             {"lib"},
}

// importedModule finds the relative path of an import or a re-export.
var importedModule = regexp.MustCompile(`(?m)^(?:import|export)\b[^"';=(]*"(\.[^"]+)"`)

// pageModules returns the TypeScript modules by their paths without extension, with the
// modules that each imports.
func pageModules(t *testing.T) map[string][]string {
	t.Helper()
	all, err := files("internal/faces/web/ui/src")
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string][]string{}
	for p, text := range all {
		name, typescript := strings.CutSuffix(strings.TrimSuffix(strings.TrimPrefix(p, "internal/faces/web/ui/src/"), "x"), ".ts")
		if !typescript {
			continue
		}
		modules[name] = nil
		for _, m := range importedModule.FindAllStringSubmatch(text, -1) {
			modules[name] = append(modules[name], path.Join(path.Dir(name), m[1]))
		}
	}
	if len(modules) < 50 {
		t.Fatalf("only %d modules found: the walk is broken", len(modules))
	}
	return modules
}

func TestPageImportsPointDownwards(t *testing.T) {
	t.Parallel()
	modules := pageModules(t)
	for name, imports := range modules {
		from := path.Dir(name)
		allowed, known := pageFolders[from]
		if !known {
			t.Errorf("%s: the folder %q is missing in pageFolders", name, from)
		}
		for _, to := range imports {
			if _, exists := modules[to]; !exists {
				t.Errorf("%s imports %s, which does not exist", name, to)
			} else if folder := path.Dir(to); folder != from && !slices.Contains(allowed, folder) {
				t.Errorf("%s imports %s: modules of %s may import %v only", name, to, from, allowed)
			}
		}
	}
}

func TestPageImportsHaveNoCircles(t *testing.T) {
	t.Parallel()
	modules := pageModules(t)
	done := map[string]bool{}
	var visit func(name string, from []string)
	visit = func(name string, from []string) {
		if at := slices.Index(from, name); at >= 0 {
			t.Errorf("modules import each other in a circle: %s", strings.Join(append(from[at:], name), " → "))
		}
		if done[name] {
			return
		}
		done[name] = true
		for _, to := range modules[name] {
			visit(to, append(slices.Clip(from), name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		visit(name, nil)
	}
}
