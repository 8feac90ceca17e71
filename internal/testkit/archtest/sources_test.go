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
	"sync"
	"testing"
)

// root is the repository. Files are read through os.DirFS, so that the test
// cache sees each of them and a change is never missed.
var root = os.DirFS("../../..")

// A source is one parsed Go file.
type source struct {
	path  string // from the repository's root, with slashes
	dir   string // cmd, internal or e2e
	area  string // base for internal/base/db/dbtest/x.go; empty elsewhere
	pkg   string // db for that file; elsewhere the directory below dir
	file  *ast.File
	fset  *token.FileSet
	text  string
	lines int
	code  int  // lines that are neither blank nor a comment
	test  bool // a _test.go file, or one of a package for tests such as dbtest
	own   bool // written by hand
}

// sources returns every Go file of cmd, internal and e2e, in the order of their
// paths.
func sources(t *testing.T) []source {
	t.Helper()
	out, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d files found: the walk is broken", len(out))
	}
	return out
}

// parsed parses the sources once for all tests.
var parsed = sync.OnceValues(func() ([]source, error) {
	all, err := files("cmd", "internal", "e2e")
	if err != nil {
		return nil, err
	}
	var out []source
	for p, text := range all {
		if path.Ext(p) != ".go" {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		dir, below, _ := strings.Cut(p, "/")
		area := ""
		if dir == "internal" {
			area, below, _ = strings.Cut(below, "/")
		}
		pkg, _, nested := strings.Cut(below, "/")
		if !nested {
			pkg = dir
		}
		out = append(out, source{
			path: p, dir: dir, area: area, pkg: pkg, file: f, fset: fset, text: text,
			lines: strings.Count(text, "\n"),
			code:  codeLines(text),
			test:  strings.HasSuffix(p, "_test.go") || strings.Contains(p, "test/"),
			own:   !ast.IsGenerated(f),
		})
	}
	slices.SortFunc(out, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return out, nil
})

// files reads every file below the given directories of the repository, except third-party
// files and build results.
func files(dirs ...string) (map[string]string, error) {
	out := map[string]string{}
	for _, dir := range dirs {
		err := fs.WalkDir(root, dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && slices.Contains([]string{"testdata", "node_modules", "static", "vendor"}, d.Name()) {
				return fs.SkipDir
			}
			if d.IsDir() || !slices.Contains([]string{".go", ".ts", ".tsx", ".css", ".md", ".yaml", ".html"}, path.Ext(p)) {
				return nil
			}
			text, err := fs.ReadFile(root, p)
			out[p] = string(text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func codeLines(text string) (n int) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// read returns the text of one file of the repository.
func read(t *testing.T, p string) string {
	t.Helper()
	text, err := fs.ReadFile(root, p)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// at returns the position of a node as file:line:column.
func (s source) at(n ast.Node) string { return fmt.Sprint(s.fset.Position(n.Pos())) }

func (s source) imports(path string) bool {
	return slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(path) })
}

// selector returns "pkg.Name" for a selector on a plain identifier, otherwise "".
func selector(n ast.Node) string {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + sel.Sel.Name
}
