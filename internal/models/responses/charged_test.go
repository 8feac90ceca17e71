package responses

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"testing"
)

// TestNothingReturnsBetweenAReplyAndItsCharge reads call.go: a block that handles the end of a
// reply may return only after it called settle, also with an error of settle itself.
func TestNothingReturnsBetweenAReplyAndItsCharge(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	file, err := goparser.ParseFile(set, "call.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	isFinished := func(e ast.Expr) bool {
		found := false
		ast.Inspect(e, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && id.Name == "Finished"
			return !found
		})
		return found
	}
	blocks := 0
	ast.Inspect(file, func(n ast.Node) bool {
		branch, ok := n.(*ast.IfStmt)
		if !ok || !isFinished(branch.Cond) {
			return true
		}
		blocks++
		settled := token.Pos(0)
		ast.Inspect(branch.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "settle" {
					settled = n.Pos()
				}
			case *ast.ReturnStmt:
				if settled == 0 {
					t.Errorf("%s: returns before the reply is charged", set.Position(n.Pos()))
				}
			}
			return true
		})
		if settled == 0 {
			t.Errorf("%s: a reply is not charged", set.Position(branch.Pos()))
		}
		return true
	})
	if blocks != 2 { // whole and streamed
		t.Errorf("%d blocks handle the end of a reply, want 2: change the test with call.go", blocks)
	}
}
