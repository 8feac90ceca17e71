// Package archtest holds the rules of the house as tests: which room may use
// which, what every room owes its reader, and what nobody does. It changes
// nothing and ships nothing.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors is the plan of the house: a room may import rooms on lower floors
// only. A room that is not here does not exist.
var floors = map[string]int{
	"stoa": 0, "sse": 0, "jsonx": 0, "near": 0,
	"config": 1, "contract": 1, "db": 1, "wire": 1, "sandbox": 1, "catalog": 1, "ratelimit": 1, "schedule": 1,
	"store": 2, "upstream": 2, "client": 2,
	"auth": 3, "billing": 3, "drive": 3,
	"gateway": 4,
	"runner":  5,
	"api":     6, "web": 6,
	"app": 7,
	"cli": 8,
}

// testRooms may be imported by tests alone, and may import anything.
var testRooms = []string{"fakeup", "apitest", "archtest"}

const (
	maxLines       = 800 // of a file, by law
	maxVocabulary  = 800 // lines of code, comments and blank lines aside
	moduleInternal = "stoa/internal/"
)

// A source is one parsed Go file of the house.
type source struct {
	path  string // from internal/, with slashes
	room  string
	file  *ast.File
	fset  *token.FileSet
	lines int
	code  int // lines that are neither blank nor a comment
	test  bool
	own   bool // written by hand
}

// sources parses every Go file below internal/. It reads them through os.DirFS,
// so that the test cache sees each file and a change is never missed.
func sources(t *testing.T) []source {
	t.Helper()
	house := os.DirFS("..")
	var out []source
	err := fs.WalkDir(house, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(p) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(house, p)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, text, parser.ParseComments)
		if err != nil {
			return err
		}
		room, _, _ := strings.Cut(p, "/")
		out = append(out, source{
			path: p, room: room, file: f, fset: fset,
			lines: strings.Count(string(text), "\n"),
			code:  codeLines(string(text)),
			test:  strings.HasSuffix(p, "_test.go") || strings.Contains(p, "test/"),
			own:   !ast.IsGenerated(f),
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d files found: the walk is broken", len(out))
	}
	return out
}

func codeLines(text string) (n int) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

func TestARoomUsesOnlyLowerFloors(t *testing.T) {
	for _, s := range sources(t) {
		floor, known := floors[s.room]
		isTestRoom := slices.Contains(testRooms, s.room)
		if !known && !isTestRoom {
			t.Errorf("%s: the room %q has no floor; give it one in this test and a line in ARCHITECTURE.md", s.path, s.room)
			continue
		}
		for _, imp := range s.file.Imports {
			name, _ := strconv.Unquote(imp.Path.Value)
			rest, ok := strings.CutPrefix(name, moduleInternal)
			if !ok {
				continue
			}
			target, _, _ := strings.Cut(rest, "/")
			if target == s.room || s.test || isTestRoom {
				continue
			}
			if slices.Contains(testRooms, target) || strings.HasSuffix(rest, "test") {
				t.Errorf("%s imports %s: that room is for tests alone", s.path, rest)
			} else if floors[target] >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d): a room uses lower floors only", s.path, floor, target, floors[target])
			}
		}
	}
}

func TestTheVocabularyImportsTheStandardLibraryOnly(t *testing.T) {
	total := 0
	for _, s := range sources(t) {
		if s.room != "stoa" || s.test {
			continue
		}
		total += s.code
		for _, imp := range s.file.Imports {
			if name, _ := strconv.Unquote(imp.Path.Value); strings.Contains(name, ".") || strings.HasPrefix(name, "stoa/") {
				t.Errorf("%s imports %s: the vocabulary has no dependencies", s.path, name)
			}
		}
	}
	if total > maxVocabulary {
		t.Errorf("the vocabulary has %d lines of code; at most %d keep it a vocabulary: move what needs a clock, a database or a socket upstairs", total, maxVocabulary)
	}
}

func TestFilesCanBeRead(t *testing.T) {
	for _, s := range sources(t) {
		if s.own && s.lines > maxLines {
			t.Errorf("%s has %d lines; the law is %d: split it by noun or verb", s.path, s.lines, maxLines)
		}
	}
}

func TestEveryRoomIntroducesItself(t *testing.T) {
	said := map[string]bool{}
	for _, s := range sources(t) {
		if _, ok := said[s.room]; !ok {
			said[s.room] = false
		}
		if s.file.Doc != nil && strings.HasPrefix(s.file.Doc.Text(), "Package ") {
			said[s.room] = true
		}
	}
	for room, ok := range said {
		if !ok {
			t.Errorf("package %s has no package comment: say what it does, what it never does, and where to start reading", room)
		}
	}
}

func TestNobodyRegistersSleepsOrExits(t *testing.T) {
	for _, s := range sources(t) {
		if !s.own {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: has an init function; wire things up where they are used", s.path)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch name := pkg.Name + "." + sel.Sel.Name; name {
			case "time.Sleep":
				if s.test && !imports(s.file, "testing/synctest") { // in a bubble a sleep takes no time
					t.Errorf("%s: time.Sleep in a test; wait for the event, or use synctest", s.fset.Position(n.Pos()))
				}
			case "os.Exit", "log.Fatal", "log.Fatalf":
				if !s.test && !strings.Contains(s.path, "/cmd/") {
					t.Errorf("%s: %s; return an error to main", s.fset.Position(n.Pos()), name)
				}
			case "os.Getenv", "os.LookupEnv", "os.Environ":
				if !s.test {
					t.Errorf("%s: %s; the environment is read once, by main, and passed down", s.fset.Position(n.Pos()), name)
				}
			}
			return true
		})
	}
}

func imports(f *ast.File, path string) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(path) })
}

func TestTheArchitecturePageNamesEveryRoom(t *testing.T) {
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "\n"); n > 160 {
		t.Errorf("ARCHITECTURE.md has %d lines; one page is at most 160", n)
	}
	rooms := map[string]bool{}
	for _, s := range sources(t) {
		rooms[s.room] = true
	}
	for room := range rooms {
		if !strings.Contains(string(page), fmt.Sprintf("`%s`", room)) {
			t.Errorf("ARCHITECTURE.md does not name the room `%s`", room)
		}
	}
}
