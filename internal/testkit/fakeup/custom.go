package fakeup

import (
	"encoding/json"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// A declared is a tool of OpenAI's Responses format.
type declared struct {
	namespace, name string
	custom          bool // its input is a text
}

// matches reports whether an object of the request names the tool.
func (d declared) matches(o object) bool {
	namespace, _ := o["namespace"].(string)
	return namespace == d.namespace && o["name"] == d.name && (o["type"] == "custom") == d.custom
}

// declare checks a list of tools and adds them. namespace is the one that the list is in.
func (a *ask) declare(path string, list any, namespace string) *refusal {
	tools, _ := list.([]any)
	if len(tools) == 0 {
		return bad("Invalid '%s': empty array.", path)
	}
	for i, t := range tools {
		o, _ := t.(object)
		name, _ := o["name"].(string)
		if name == "" {
			return bad("Missing required parameter: '%s[%d].name'.", path, i)
		}
		d := declared{namespace, name, o["type"] == "custom"}
		switch o["type"] {
		case "function":
			if o["parameters"] == nil {
				return bad("Missing required parameter: '%s[%d].parameters'.", path, i)
			}
			if what := openAIStrict.misfit(o["parameters"], "parameters"); o["strict"] == true && what != "" {
				return bad("Invalid schema for function '%v': %s.", name, what)
			}
		case "custom":
			if f, has := o["format"].(object); has && f["type"] == "grammar" && (f["syntax"] == nil || f["definition"] == nil) {
				return bad("Missing required parameter: '%s[%d].format.definition'.", path, i)
			}
		case "namespace":
			if namespace != "" || o["description"] == nil {
				return bad("Missing required parameter: '%s[%d].description'.", path, i)
			}
			if no := a.declare(path+"[].tools", o["tools"], name); no != nil {
				return no
			}
			continue
		default:
			return bad("Invalid value: '%v'. This fake sells no such tool at '%s[%d].type'.", o["type"], path, i)
		}
		if slices.Contains(a.declared, d) {
			return bad("Duplicate tool '%s'.", name)
		}
		a.declared = append(a.declared, d)
	}
	a.tools = true
	return nil
}

// item returns the output item of a call.
func (c toolCall) item(tools []declared, status string) object {
	for _, d := range tools {
		if stoa.FlatName(d.namespace, d.name) != c.name {
			continue
		}
		item := object{"id": "fc_" + c.id, "type": "function_call", "status": status, "call_id": c.id, "name": d.name, "arguments": c.arguments}
		if d.namespace != "" {
			item["namespace"] = d.namespace
		}
		if d.custom {
			var of struct {
				Input string `json:"input"`
			}
			if json.Unmarshal([]byte(c.arguments), &of) != nil { // it is cut off
				of.Input = strings.TrimPrefix(c.arguments, `{"input":"`)
			}
			delete(item, "arguments")
			item["id"], item["type"], item["input"] = "ctc_"+c.id, "custom_tool_call", of.Input
		}
		return item
	}
	return object{"id": "fc_" + c.id, "type": "function_call", "status": status, "call_id": c.id, "name": c.name, "arguments": c.arguments}
}
