package archtest

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// calledByOthers are methods that the standard library or a library calls through an
// interface.
var calledByOthers = map[string]bool{
	"Error": true, "GoString": true, "ExportSpans": true, "NewIDs": true, "NewSpanID": true, "Unwrap": true, "Is": true, "As": true, "String": true, "Format": true, "LogValue": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "MarshalJSONTo": true, "UnmarshalJSONFrom": true, "MarshalText": true, "UnmarshalText": true, "MarshalYAML": true, "UnmarshalYAML": true,
	"ServeHTTP": true, "RoundTrip": true, "Read": true, "Write": true, "Close": true, "ReadAt": true, "Seek": true, "ReadFrom": true, "WriteTo": true,
	"Describe": true, "Collect": true, "Enabled": true, "Handle": true, "WithAttrs": true, "WithGroup": true, "Scan": true, "Value": true,
	"FlushError": true, "Deadline": true, "Done": true, "Err": true, "Len": true, "Less": true, "Swap": true, "Accept": true, "Addr": true,
	"LocalAddr": true, "RemoteAddr": true, "SetDeadline": true, "SetReadDeadline": true, "SetWriteDeadline": true, "Set": true, "Type": true,
	"WindowInverse": true, "WindowValue": true,
}

// testKits are packages for tests alone.
var testKits = map[string]bool{"apitest": true, "fakeup": true, "fakemcp": true, "fakeidp": true, "fakesmtp": true, "fakestripe": true, "shape": true, "bench": true}

// TestExportedNamesAreUsed finds exported functions, methods and types that no program uses,
// by their names: CI's check for dead code counts each method of a type that becomes an
// interface value as used, since templates call methods by name.
func TestExportedNamesAreUsed(t *testing.T) {
	t.Parallel()
	used := map[string]int{}
	for _, s := range sources(t) {
		if s.test || testKits[s.pkg] {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.IsExported() {
				used[id.Name]++
			}
			return true
		})
	}
	templates, err := files("internal/faces/web/templates")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources(t) {
		if s.test || !s.own || testKits[s.pkg] {
			continue
		}
		report := func(id *ast.Ident, kind string) {
			if !id.IsExported() || used[id.Name] > 1 || calledByOthers[id.Name] {
				return
			}
			for _, text := range templates {
				if strings.Contains(text, "."+id.Name) {
					return
				}
			}
			t.Errorf("%s: no program uses the %s %s: delete it, or move it to the tests that use it", s.at(id), kind, id.Name)
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				report(d.Name, "function")
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						report(spec.Name, "type")
					case *ast.ValueSpec:
						for _, id := range spec.Names {
							if d.Tok == token.VAR { // constants may list all values of a type
								report(id, "variable")
							}
						}
					}
				}
			}
		}
	}
}
