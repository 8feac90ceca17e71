package tool

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/store"
)

// TestDefinitionsAreReadOnce reads a definition with and without the argument that the service sets, and keeps a bounded number of them.
func TestDefinitionsAreReadOnce(t *testing.T) {
	t.Parallel()
	const definition = `{"name":"pay","description":"Pays.\u200b","inputSchema":{"type":"object","properties":{"key":{"type":"string"},"to":{"type":"string"}}}}`
	for range 2 {
		for argument, want := range map[string]string{"": `"key"`, "key": ""} {
			e := entry{tool: &store.ConnectionTool{IdempotencyArgument: argument}}
			_, description, parameters, err := e.definition(definition)
			if err != nil || description != "Pays." || !strings.Contains(parameters, `"to"`) || strings.Contains(parameters, `"key"`) != (want != "") {
				t.Errorf("with the argument %q: %s %s, %v", argument, description, parameters, err)
			}
		}
	}
	if _, ok := known.get(definitionKey{definition, "key"}); !ok {
		t.Error("the definition would be read again")
	}
	var d definitions
	for i := range 100 {
		d.put(definitionKey{definition: fmt.Sprint(i)}, shownDefinition{parameters: strings.Repeat("x", 1<<20)})
		if len(d.all) > maxKnown>>20+1 {
			t.Fatalf("it keeps %d definitions of 1 MiB", len(d.all))
		}
	}
}
