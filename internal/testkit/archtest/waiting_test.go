package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// clocks are the functions that wait for the real clock. A test waits for the event itself
// instead: a channel, a log line, a row. Inside a synctest bubble the clock is not real, so
// files that import testing/synctest may use all of them. A context with a deadline of
// minutes is a fair safety net and not listed.
var clocks = []string{"time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick"}

func TestNoTestWaitsForTheClock(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.test || s.imports("testing/synctest") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if name := selector(n); slices.Contains(clocks, name) {
				t.Errorf("%s: %s in a test; wait for the event itself, or use testing/synctest", s.at(n), name)
			}
			return true
		})
	}
}

// TestNoTestBoundsWallTime refuses comparisons of time.Since and of time.Now
// with a deadline: on a busy machine they fail without a mistake in the code.
func TestNoTestBoundsWallTime(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.test || s.imports("testing/synctest") {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			measured := map[string]bool{} // variables that hold a duration measured by the real clock
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for i, right := range n.Rhs {
						if name, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && measures(right, measured) {
							measured[name.Name] = true
						}
					}
				case *ast.BinaryExpr:
					if slices.Contains([]token.Token{token.LSS, token.GTR, token.LEQ, token.GEQ}, n.Op) && (measures(n.X, measured) || measures(n.Y, measured)) {
						t.Errorf("%s: a bound on wall time; count events, use testing/synctest, or write a benchmark", s.at(n))
					}
				case *ast.CallExpr:
					sel, ok := n.Fun.(*ast.SelectorExpr)
					if ok && (sel.Sel.Name == "After" || sel.Sel.Name == "Before") && len(n.Args) == 1 && (isNow(sel.X) || isNow(n.Args[0])) {
						t.Errorf("%s: a comparison with the real clock; wait for the event itself", s.at(n))
					}
				}
				return true
			})
		}
	}
}

// measures reports whether an expression has the value of time.Since or of a
// variable that was set from it.
func measures(e ast.Expr, measured map[string]bool) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && measured[id.Name] {
			found = true
		}
		found = found || selector(n) == "time.Since"
		return !found
	})
	return found
}

func isNow(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && selector(call.Fun) == "time.Now"
}
