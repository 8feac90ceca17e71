// Package archtest holds the rules of the repository as tests: which package
// may import which, what every package documents, how tests wait, and that the
// pages in docs agree with the code. It leaves style to people. It reads sources as
// text and syntax trees; it changes nothing and is in no build.
//
// Start with layers in this file. sources_test.go reads the files,
// waiting_test.go has the rules for tests, docs_test.go the
// pages, decisions_test.go the decision notes.
package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers assigns each package below internal/ its layer: a package may import packages on
// lower layers only. A missing package fails the test. See
// docs/decisions/0001-packages-import-lower-layers-only.md.
var layers = map[string]int{
	"stoa": 0, "sse": 0, "jsonx": 0, "outbound": 0, "logwriter": 0,
	"config": 1, "db": 1, "schema": 1, "media": 1, "seal": 1, "sandbox": 1, "catalog": 1, "ratelimit": 1, "listen": 1, "schedule": 1, "telemetry": 1, "remote": 1, "oauth": 1, "audit": 1,
	"cluster": 2, "contract": 2, "extract": 2, "wire": 2, "mail": 2, "mcp": 2, "httptool": 2,
	"store": 3, "client": 3,
	"upstream": 4, "auth": 4, "billing": 4, "drive": 4, "peers": 4, "requestlog": 4, "vault": 4,
	"gateway": 5, "backup": 5, "managed": 5, "member": 5, "payment": 5, "tool": 5, "webhook": 5, "skill": 5,
	"alert": 6, "session": 6,
	"agent": 7, "agui": 7, "scheduler": 7, "embed": 7, "hook": 7, "testset": 7, "retention": 7, "erasure": 7,
	"responses": 8,
	"rest":      9, "web": 9,
	"api": 10, "console": 10, "signin": 10,
	"app": 11,
	"cli": 12,
}

// testPackages may be imported by tests and by the packages after them in this list, and may
// import anything below api.
var testPackages = []string{"shape", "sessiontest", "apitest", "archtest", "fakeup", "fakemcp", "fakeidp", "fakesmtp", "fakestripe", "storetest", "browsertest"}

// areas are the folders below internal/: a package may import packages of its own area and of
// those before it. Tests may import testkit.
var areas = []string{"base", "models", "agents", "operate", "faces", "testkit"}

const maxLines = 800 // of a file written by hand; 400 is the habit

func TestImportsPointDownwards(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.dir != "internal" {
			continue
		}
		layer, known := layers[s.pkg]
		isTestPackage := slices.Contains(testPackages, s.pkg)
		if !slices.Contains(areas, s.area) || isTestPackage != (s.area == "testkit") {
			t.Errorf("%s: %q is not an area for it; the areas are %v, and packages for tests only are in testkit", s.path, s.area, areas)
		}
		if !known && !isTestPackage {
			t.Errorf("%s: package %q has no layer; add it to layers in this test and to the table of ARCHITECTURE.md", s.path, s.pkg)
			continue
		}
		for _, imp := range s.file.Imports {
			name, _ := strconv.Unquote(imp.Path.Value)
			below, ok := strings.CutPrefix(name, "stoa/internal/")
			if !ok {
				continue
			}
			area, below, _ := strings.Cut(below, "/")
			if !s.test && slices.Index(areas, area) > slices.Index(areas, s.area) {
				t.Errorf("%s imports %s of the area %s: an area imports itself and those before it in %v", s.path, below, area, areas)
			}
			target, _, _ := strings.Cut(below, "/")
			switch {
			case target == s.pkg:
			case slices.Contains(testPackages, target) || strings.HasSuffix(below, "test"):
				if !s.test && !isTestPackage {
					t.Errorf("%s imports %s, which is for tests alone", s.path, below)
				}
			case !isTestPackage && layers[target] >= layer:
				t.Errorf("%s (layer %d) imports %s (layer %d): a package and its tests import lower layers only", s.path, layer, target, layers[target])
			}
		}
	}
}

func TestVocabularyHasNoDependencies(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.dir != "internal" || s.pkg != "stoa" || s.test {
			continue
		}
		for _, imp := range s.file.Imports {
			if name, _ := strconv.Unquote(imp.Path.Value); strings.Contains(name, ".") || strings.HasPrefix(name, "stoa/") {
				t.Errorf("%s imports %s; package stoa uses the standard library only", s.path, name)
			}
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.own && s.lines > maxLines {
			t.Errorf("%s has %d lines, at most %d are allowed: split it by noun or verb", s.path, s.lines, maxLines)
		}
	}
}

func TestPackagesHaveComments(t *testing.T) {
	t.Parallel()
	has := map[string]bool{}
	for _, s := range sources(t) {
		if s.dir != "internal" {
			continue
		}
		has[s.pkg] = has[s.pkg] || s.file.Doc != nil && strings.HasPrefix(s.file.Doc.Text(), "Package ")
	}
	for pkg, ok := range has {
		if !ok {
			t.Errorf("package %s has no package comment: say what it does, what it never does, and where to start reading", pkg)
		}
	}
}

func TestNoInitExitOrEnvironment(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.own {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function; wire things up where they are used", s.path)
			}
		}
		if s.test || s.dir != "internal" || s.file.Name.Name == "main" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch name := selector(n); name {
			case "os.Exit", "log.Fatal", "log.Fatalf":
				t.Errorf("%s: %s; return an error to main", s.at(n), name)
			case "os.Getenv", "os.LookupEnv", "os.Environ":
				t.Errorf("%s: %s; main reads the environment once and passes it down", s.at(n), name)
			}
			return true
		})
	}
}

func TestArchitectureNamesEveryPackage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	exists := map[string]bool{}
	for _, s := range sources(t) {
		if s.dir != "internal" || exists[s.pkg] {
			continue
		}
		exists[s.pkg] = true
		row := fmt.Sprintf("| %d | `%s` |", layers[s.pkg], s.pkg)
		if slices.Contains(testPackages, s.pkg) {
			row = fmt.Sprintf("`%s`", s.pkg)
		}
		if !strings.Contains(page, row) {
			t.Errorf("ARCHITECTURE.md has no %s", row)
		}
	}
	for pkg := range layers {
		if !exists[pkg] {
			t.Errorf("layers has %q, which does not exist", pkg)
		}
	}
}
