package wire

import (
	"regexp"
	"slices"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A VendorTool is a type of tools that a vendor has defined and the caller runs. Its vendor receives
// the tool as it is, because its models were trained with it; all others receive a function.
type VendorTool struct {
	Name        string // of the function that stands for it, and of its calls
	Description string // of that function, as its schema
	Parameters  string

	// What follows is about tools of OpenAI's Responses format, whose calls are items of their own
	// type. The calls of Anthropic's tools have a name and an input like those of functions.

	Call   string // the type of the item
	Output string // the type of the item with its result
	// Member is the member of the item that has the arguments. If it is empty, the arguments have
	// the members of the item.
	Member   string
	defaults string // members of the arguments that clients require, as JSON
	members  string // the same of the item
}

// OpenAI's tools, by type.
var openAITools = map[string]*VendorTool{
	"apply_patch": {
		Name: "apply_patch", Call: "apply_patch_call", Output: "apply_patch_call_output", Member: "operation",
		Description: "Creates, updates or deletes one file. The diff of an update has hunks in the V4A format: a line \"@@\" with an optional line of context, then lines that begin with a space (unchanged), \"-\" (removed) or \"+\" (added), without line numbers. In the diff of a new file every line begins with \"+\".",
		Parameters:  `{"type":"object","properties":{"type":{"type":"string","enum":["create_file","update_file","delete_file"]},"path":{"type":"string","description":"The path of the file."},"diff":{"type":"string","description":"Required to create or update a file."}},"required":["type","path"]}`,
	},
	"shell": {
		Name: "shell", Call: "shell_call", Output: "shell_call_output", Member: "action",
		Description: "Runs commands of a shell and returns their output.",
		Parameters:  `{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"},"description":"The commands, which run in this order."},"timeout_ms":{"type":"integer","description":"The maximum duration, in milliseconds."},"max_output_length":{"type":"integer","description":"The maximum length of the output, in characters."}},"required":["commands"]}`,
		defaults:    `{"commands":[],"timeout_ms":null,"max_output_length":null}`,
		members:     `{"environment":{"type":"local"}}`,
	},
	"local_shell": {
		Name: "local_shell", Call: "local_shell_call", Output: "local_shell_call_output", Member: "action",
		Description: "Runs a command and returns its output.",
		Parameters:  `{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},"description":"The program and its arguments."},"env":{"type":"object","additionalProperties":{"type":"string"},"description":"Variables of the environment."},"timeout_ms":{"type":"integer","description":"The maximum duration, in milliseconds."},"working_directory":{"type":"string"}},"required":["command"]}`,
		defaults:    `{"type":"exec","command":[],"env":{}}`,
	},
	"computer": {
		Name: "computer", Call: "computer_call", Output: "computer_call_output",
		Description: "Uses a computer with a screen, a mouse and a keyboard. The actions are done in order; the result is a screenshot.",
		Parameters:  `{"type":"object","properties":{"actions":{"type":"array","items":` + computerAction + `}},"required":["actions"]}`,
		members:     `{"pending_safety_checks":[]}`,
	},
	"computer_use_preview": {
		Name: "computer", Call: "computer_call", Output: "computer_call_output",
		Description: "Uses a computer with a screen, a mouse and a keyboard. The result is a screenshot.",
		Parameters:  `{"type":"object","properties":{"action":` + computerAction + `},"required":["action"]}`,
		members:     `{"pending_safety_checks":[]}`,
	},
	"tool_search": {
		Name: "tool_search", Call: "tool_search_call", Output: "tool_search_output", Member: "arguments",
		Description: "Searches for tools. Those that are found can be called afterwards.",
		Parameters:  `{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`,
		members:     `{"execution":"client"}`,
	},
}

const computerAction = `{"type":"object","properties":{"type":{"type":"string","enum":["click","double_click","drag","keypress","move","screenshot","scroll","type","wait"]},"x":{"type":"integer"},"y":{"type":"integer"},"button":{"type":"string","enum":["left","right","wheel","back","forward"]},"path":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x","y"]}},"keys":{"type":"array","items":{"type":"string"}},"scroll_x":{"type":"integer"},"scroll_y":{"type":"integer"},"text":{"type":"string"}},"required":["type"]}`

// Anthropic's tools, by type without its date.
var anthropicTools = map[string]*VendorTool{
	"bash": {
		Name:        "bash",
		Description: "Runs a command in a bash session that is kept between calls.",
		Parameters:  `{"type":"object","properties":{"command":{"type":"string","description":"The command; required unless the session is restarted."},"restart":{"type":"boolean","description":"Restarts the session."}}}`,
	},
	"text_editor": {
		Name:        "str_replace_based_edit_tool",
		Description: "Views and edits text files. \"view\" needs a path and may have a range of lines; \"create\" needs file_text; \"str_replace\" needs old_str, which must occur exactly once, and new_str; \"insert\" needs insert_line, after which insert_text is inserted.",
		Parameters:  `{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"},"description":"The first and the last line; -1 means the end."},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"}},"required":["command","path"]}`,
	},
	"memory": {
		Name:        "memory",
		Description: "Keeps notes in files below /memories that last beyond the conversation. View /memories before a task, and note progress during it. \"view\" needs a path; \"create\" also file_text; \"str_replace\" old_str and new_str; \"insert\" insert_line and insert_text; \"delete\" a path; \"rename\" old_path and new_path.",
		Parameters:  `{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},"path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"}},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"},"old_path":{"type":"string"},"new_path":{"type":"string"}},"required":["command"]}`,
	},
	"computer": {
		Name:        "computer",
		Description: "Uses a computer with a screen, a mouse and a keyboard. Coordinates are pixels from the top left corner.",
		Parameters:  `{"type":"object","properties":{"action":{"type":"string","enum":["screenshot","left_click","right_click","middle_click","double_click","triple_click","left_click_drag","left_mouse_down","left_mouse_up","mouse_move","cursor_position","key","hold_key","type","scroll","wait","zoom"]},"coordinate":{"type":"array","items":{"type":"integer"}},"start_coordinate":{"type":"array","items":{"type":"integer"}},"text":{"type":"string"},"duration":{"type":"number","description":"In seconds."},"scroll_direction":{"type":"string","enum":["up","down","left","right"]},"scroll_amount":{"type":"integer"},"region":{"type":"array","items":{"type":"integer"}}},"required":["action"]}`,
	},
}

var dated = regexp.MustCompile(`^([a-z_]+)_([0-9]{8})$`)

// OpenAITool returns the tool of a type; nil if the type is unknown or not the caller's to run.
func OpenAITool(kind string) *VendorTool { return openAITools[kind] }

// AnthropicTool returns the tool of a type, which ends in a date; nil if the type is unknown or not
// the caller's to run.
func AnthropicTool(kind string) *VendorTool {
	if m := dated.FindStringSubmatch(kind); m != nil {
		return anthropicTools[m[1]]
	}
	return nil
}

// ToolOfItem returns the type and the tool of an item of OpenAI's Responses format: of a call, or
// of an output of one. It returns nil for other items.
func ToolOfItem(item string) (kind string, t *VendorTool, output bool) {
	if item == "computer_call" || item == "computer_call_output" { // of two types of tools
		return "computer", openAITools["computer"], item == "computer_call_output"
	}
	for kind, t := range openAITools {
		if item == t.Call || item == t.Output {
			return kind, t, item == t.Output
		}
	}
	return "", nil, false
}

// Members returns the members of a call's item in which it differs from others, a JSON object, and
// reports whether the arguments that the model wrote are an object.
func (t *VendorTool) Members(arguments string) (members string, ok bool) {
	ok = strings.TrimSpace(arguments) != "" && isWholeObject([]byte(arguments))
	arguments = WithMembers(string(appendObject(nil, arguments)), t.defaults)
	if t.Member != "" {
		arguments = `{"` + t.Member + `":` + arguments + `}`
	}
	return WithMembers(arguments, t.members), ok
}

// Arguments returns the arguments of the function in the members of a call's item.
func (t *VendorTool) Arguments(members string) string {
	if t.Member == "" {
		return Without(members, "pending_safety_checks")
	}
	return string(appendObject(nil, Member(members, t.Member)))
}

// Member returns the JSON of a member of an object; empty if it is missing or null.
func Member(object, name string) (value string) {
	c := jsonx.NewReplyCursor([]byte(object))
	for ok := c.Object(); ok && c.Member(); {
		if string(c.Key) == name && c.Kind() != 'n' {
			value = string(c.Raw())
		}
	}
	return value
}

// WithMembers returns an object with those members of another one that it lacks.
func WithMembers(object, more string) string {
	c := jsonx.NewReplyCursor([]byte(more))
	for ok := c.Object(); ok && c.Member(); {
		if name := string(c.Key); !hasMember(object, name) {
			object = strings.TrimRight(object, " \t\r\n")
			w := builder{b: []byte(strings.TrimRight(object[:len(object)-1], " \t\r\n"))}
			w.key(name).raw(string(c.Raw()))
			object = string(append(w.b, '}'))
		}
	}
	return object
}

func hasMember(object, name string) bool {
	c := jsonx.NewReplyCursor([]byte(object))
	for ok := c.Object(); ok && c.Member(); {
		if string(c.Key) == name {
			return true
		}
	}
	return false
}

// Without returns an object without the named members, and without white space around the others.
func Without(object string, names ...string) string {
	w := builder{b: []byte{'{'}}
	c := jsonx.NewReplyCursor([]byte(object))
	for ok := c.Object(); ok && c.Member(); {
		if name := string(c.Key); !slices.Contains(names, name) {
			w.comma()
			w.b = append(jsonx.AppendString(w.b, name), ':')
			w.raw(string(c.Raw()))
		}
	}
	return string(append(w.b, '}'))
}

// members writes the members of an object into the object that was opened last.
func (w *builder) members(object string) {
	if inner := strings.TrimSpace(object); len(inner) > 2 {
		w.raw(inner[1 : len(inner)-1])
	}
}

// The versions of Anthropic's API that a request's settings and tools need.
const (
	contextBeta   = "context-management-2025-06-27"
	computer2024  = "computer-use-2024-10-22"
	computer2025  = "computer-use-2025-01-24"
	computer2025b = "computer-use-2025-11-24"
)

// toolBetas are the versions for types of tools. The others need none.
var toolBetas = map[string]string{
	"bash_20241022": computer2024, "text_editor_20241022": computer2024, "computer_20241022": computer2024,
	"computer_20250124": computer2025, "computer_20251124": computer2025b,
}

// messagesBetas returns the header that names the versions for a call; empty if it needs none.
func messagesBetas(call *stoa.Call, bound bool) string {
	var list []string
	add := func(beta string) {
		if beta != "" && !slices.Contains(list, beta) {
			list = append(list, beta)
		}
	}
	if bound {
		add(bindingBeta)
	}
	if call.VendorSettings().ContextManagement != "" {
		add(contextBeta)
	}
	for i := range call.Tools {
		add(toolBetas[form(call.Tools[i].Form).Kind])
	}
	return strings.Join(list, ",")
}
