package tool

import (
	"encoding/json"
	"slices"
	"strings"

	"stoa/internal/agents/remote"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/schema"
)

// checkArgument checks that the argument configured to carry the id of a call can do so: it
// is a property of the arguments' schema, of type string, and accepts such an id. Otherwise every
// call would fail.
func checkArgument(row store.ConnectionTool) *stoa.Error {
	name := row.IdempotencyArgument
	if name == "" {
		return nil
	}
	wrong := func(format string, args ...any) *stoa.Error {
		return stoa.Errorf(stoa.CodeInvalidValue, format, args...)
	}
	if stoa.Effects(row.Effects) == stoa.EffectsRead {
		return wrong("A call of %q is read-only, so its id would not prevent anything from being done twice. Leave the argument out, or review other effects.", short(row.Name))
	}
	d := remote.Parse(row.ApprovedDefinition)
	properties, _ := d.InputSchema["properties"].(map[string]any)
	property, ok := properties[name].(map[string]any)
	if !ok {
		return wrong("The tool %q has no argument %q: name a property of its inputSchema.", short(row.Name), short(name))
	}
	if kind, _ := property["type"].(string); kind != "string" {
		return wrong("The argument %q of %q does not have the type string, which the id of a call needs.", short(name), short(row.Name))
	}
	if format, ok := property["format"].(string); ok {
		return wrong("The argument %q of %q has the format %q, which the id of a call does not have.", short(name), short(row.Name), short(format))
	}
	if slices.Contains(row.PublicFields, "/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name)) {
		return wrong("The argument %q is one of the publicFields: visitors would be shown an id instead of the model's value. Remove it there.", short(name))
	}
	alone := map[string]any{"type": "object", "properties": map[string]any{name: property}}
	for _, shared := range []string{"$defs", "definitions"} { // because the property may reference them
		if v := d.InputSchema[shared]; v != nil {
			alone[shared] = v
		}
	}
	text, err := json.Marshal(alone)
	if err != nil {
		return wrong("The schema of the argument %q cannot be read.", short(name))
	}
	parameters, err := schema.ReadParameters(string(text))
	if err == nil {
		err = parameters.Check(jsonx.WithMember("", name, stoa.NewID("cal")))
	}
	if err != nil {
		return wrong("The argument %q of %q does not accept the id of a call, such as %s: %v.", short(name), short(row.Name), stoa.NewID("cal"), err)
	}
	return nil
}

func leaveOut(schema map[string]any, name string) {
	properties, _ := schema["properties"].(map[string]any)
	if _, there := properties[name]; !there || name == "" {
		return
	}
	delete(properties, name)
	required, _ := schema["required"].([]any)
	if required = slices.DeleteFunc(required, func(v any) bool { return v == name }); len(required) > 0 {
		schema["required"] = required
	} else {
		delete(schema, "required")
	}
}

func switchedOff() error {
	return stoa.Errorf(stoa.CodeConnectionDisabled, "The connection is disabled, so its server is not called. Enable it first (enabled: true).")
}
