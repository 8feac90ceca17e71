package session

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/telemetry"
)

// TestMetricsKnowTheCodesOfTurns compares this package's codes of failed turns with the codes
// that have their own metric label.
func TestMetricsKnowTheCodesOfTurns(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "transition.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []stoa.Code
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := v.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Code" {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, stoa.Code(text))
		}
		return true
	})
	known := slices.Sorted(slices.Values(telemetry.TurnCodes))
	if slices.Sort(codes); len(codes) == 0 || !slices.Equal(codes, known) {
		t.Errorf("this package has the codes %v, metrics %v", codes, known)
	}
}
