package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stoa/internal/base/contract"
)

// Every command of a table has an operation of the contract, and its flags set
// members or parameters that the operation has, of their type.
func TestEveryFlagIsInTheContract(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	every((&env{}).root(), func(c *cobra.Command) {
		op := c.Annotations[opNote]
		if op == "" {
			return
		}
		method, path, _ := strings.Cut(op, " ")
		item := doc.Paths.Find("/api/v1" + path)
		if item == nil || item.GetOperation(method) == nil {
			t.Errorf("%s: the contract has no operation %s", c.CommandPath(), op)
			return
		}
		operation := item.GetOperation(method)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, name := range f.Annotations[memberNote] {
				checked++
				found := sentBy(operation, name)
				if found == nil {
					t.Errorf("%s --%s: %s has no %s", c.CommandPath(), f.Name, op, name)
					continue
				}
				want := map[string]string{"bool": "boolean", "int": "integer", "stringSlice": "array"}[f.Value.Type()]
				if want != "" && !found.Type.Is(want) && found.Type != nil {
					t.Errorf("%s --%s: %s of %s is %v", c.CommandPath(), f.Name, name, op, found.Type.Slice())
				}
			}
		})
	})
	if checked < 100 {
		t.Errorf("%d flags were checked", checked)
	}
}

// sentBy returns the schema of a member of the body or of a parameter of the query.
func sentBy(o *openapi3.Operation, name string) *openapi3.Schema {
	if i := slices.IndexFunc(o.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.In == "query" && p.Value.Name == name }); i >= 0 {
		return o.Parameters[i].Value.Schema.Value
	}
	if o.RequestBody == nil {
		return nil
	}
	return member(o.RequestBody.Value.Content.Get("application/json").Schema.Value, strings.Split(name, "."))
}
