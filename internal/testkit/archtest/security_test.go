package archtest

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// TestPromisesAreTested compares docs/security.md with the code: every row of
// its tables names tests, and every test that it names exists.
func TestPromisesAreTested(t *testing.T) {
	t.Parallel()
	page := pages(t)["docs/security.md"]
	exists := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				exists[f.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	promises := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Promise |") {
			continue
		}
		promises++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("a promise without a test: %s", line)
		}
		for _, m := range tests {
			if !exists[m[1]] {
				t.Errorf("docs/security.md names %s, which does not exist", m[1])
			}
		}
	}
	if promises < 30 {
		t.Errorf("only %d promises were found", promises)
	}
}
