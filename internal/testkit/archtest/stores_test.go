package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// opensStore are the functions with which a test opens a store.
var opensStore = []string{
	"store.Open", "drive.Open", "db.Open", "app.New", "apitest.Start", "sessiontest.Build", "sessiontest.Open",
	"storetest.New", "storetest.SQLite", "storetest.Postgres",
}

// chooses are packages whose tests open a store and do not run twice, with the reason.
var chooses = map[string]string{
	"e2e":                            "its tests start processes and choose for themselves: what counts money and stops runs on both",
	"internal/testkit/apitest/plans": "its tests plan on both",
	"internal/faces/cli":             "one of its tests has a store, and is on both",
	"internal/base/db":               "it is what knows two databases: its tests name them",
	"internal/faces/web":             "its tests are of pages in a browser; what they ask is tested in api",
}

// ofFiles are test files about the files of SQLite, with the reason.
var ofFiles = map[string]string{
	"internal/agents/drive/bench_test.go":      "benchmarks, which are run on SQLite",
	"internal/operate/backup/copy_test.go":     "what is copied is a directory",
	"internal/operate/backup/identity_test.go": "which two files are one store",
}

// TestStoresAreTestedOnBothDatabases checks that a package whose tests open a store runs on
// SQLite and on PostgreSQL, and that tests that only run on SQLite give the reason.
func TestStoresAreTestedOnBothDatabases(t *testing.T) {
	t.Parallel()
	opens, both := map[string]string{}, map[string]bool{}
	for _, s := range sources(t) {
		if !strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		dir := path.Dir(s.path)
		reasons := map[int]bool{} // lines with a comment
		for _, c := range s.file.Comments {
			reasons[s.fset.Position(c.Pos()).Line] = true
		}
		says := func(n ast.Node) bool { return reasons[s.fset.Position(n.Pos()).Line] }
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				name := selector(n.Fun)
				if slices.Contains(opensStore, name) && opens[dir] == "" {
					opens[dir] = s.at(n)
				}
				switch name {
				case "storetest.Both":
					both[dir] = true
				case "storetest.SQLite", "storetest.OnlySQLite":
					if !says(n) && !s.imports("testing/synctest") { // in a bubble nothing waits for a server
						t.Errorf("%s: %s without a comment that says why", s.at(n), name)
					}
				}
			case *ast.CompositeLit:
				if onlyFiles(n) && !says(n) && chooses[dir] == "" && ofFiles[s.path] == "" {
					t.Errorf("%s: a store on SQLite alone; use storetest.New, or say why in a comment", s.at(n))
				}
			}
			return true
		})
	}
	for dir, at := range opens {
		if !both[dir] && chooses[dir] == "" {
			t.Errorf("%s: the tests of %s have a store: call storetest.Both in its TestMain, or say why not in chooses", at, dir)
		}
	}
	for dir := range chooses {
		if opens[dir] == "" || both[dir] {
			t.Errorf("chooses has %s, which has no store or runs on both", dir)
		}
	}
}

// onlyFiles reports whether an expression is the configuration of a store with a directory
// that cannot have an address of PostgreSQL.
func onlyFiles(lit *ast.CompositeLit) bool {
	if name := selector(lit.Type); name != "db.Config" && name != "store.Config" {
		return false
	}
	var keys []string
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok {
				keys = append(keys, key.Name)
			}
		}
	}
	return slices.Contains(keys, "Dir") && !slices.Contains(keys, "PostgresURL")
}
