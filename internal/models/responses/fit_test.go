package responses

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

func TestALargeSchemaLeavesOutARoute(t *testing.T) {
	t.Parallel()
	var optional []string // more optional members than the vendor of messages accepts, enforced or not
	for i := range 25 {
		optional = append(optional, fmt.Sprintf(`"m%d":{"type":"string"}`, i))
	}
	call := &stoa.Call{Format: &stoa.Format{Kind: stoa.FormatSchema, Name: "f", Schema: `{"type":"object","properties":{` + strings.Join(optional, ",") + `}}`}}
	r := &run{Call: &Call{Request: &Request{}}, s: &Service{}}
	messages := stoa.Route{Wire: "messages", Traits: stoa.Traits{Schema: "native"}}
	other := stoa.Route{Wire: "responses", Traits: stoa.Traits{Schema: "native"}}

	m := &stoa.Model{Routes: []stoa.Route{messages, other}}
	if err := r.fit(t.Context(), m, call); err != nil || len(m.Routes) != 1 || m.Routes[0].Wire != "responses" {
		t.Errorf("kept %v, %v; want the route that takes the schema", m.Routes, err)
	}
	err := r.fit(t.Context(), &stoa.Model{Routes: []stoa.Route{messages}}, call)
	if e := stoa.AsError(err); e == nil || e.Code != stoa.CodeUnsupportedValue || e.Param != "text.format.schema" {
		t.Errorf("%v, want unsupported_value of text.format.schema", err)
	}
}
