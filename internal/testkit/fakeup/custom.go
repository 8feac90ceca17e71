package fakeup

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// A declared is a tool of OpenAI's Responses format.
type declared struct {
	namespace, name string
	custom          bool   // its input is a text
	kind            string // the type of one of OpenAI's own tools
}

// ownTools are OpenAI's tools that callers run: the names, the types of their calls and the members
// of these that have the arguments.
var ownTools = map[any][3]string{
	"apply_patch": {"apply_patch", "apply_patch_call", "operation"}, "shell": {"shell", "shell_call", "action"}, "local_shell": {"local_shell", "local_shell_call", "action"},
	"computer": {"computer", "computer_call"}, "computer_use_preview": {"computer", "computer_call"}, "tool_search": {"tool_search", "tool_search_call", "arguments"},
}

// matches reports whether an object of the request names the tool.
func (d declared) matches(o object) bool {
	namespace, _ := o["namespace"].(string)
	if d.kind != "" {
		return o["type"] == d.kind
	}
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
		d := declared{namespace: namespace, name: name, custom: o["type"] == "custom"}
		if own, is := ownTools[o["type"]]; is {
			if name != "" {
				return bad("Unknown parameter: '%s[%d].name'.", path, i)
			}
			d.name, d.kind = own[0], o["type"].(string)
			a.declared = append(a.declared, d)
			continue
		}
		if name == "" {
			return bad("Missing required parameter: '%s[%d].name'.", path, i)
		}
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
		if own := ownTools[d.kind]; d.kind != "" {
			members, _ := raw(c.arguments).(json.RawMessage)
			item = object{"id": "own_" + c.id, "type": own[1], "status": status, "call_id": c.id, own[2]: members, "created_by": "model"}
			if d.kind == "tool_search" {
				item["execution"] = "client"
			}
			if own[2] == "" {
				delete(item, "")
				maps.Copy(item, readObject(members))
			}
			return item
		}
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

func readObject(text json.RawMessage) (o object) {
	_ = json.Unmarshal(text, &o)
	return o
}
