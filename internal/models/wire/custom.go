package wire

import (
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

const customCall = "custom_tool_call"

// isCall reports whether an output item of that type is a call that the caller runs.
func isCall(kind string) bool {
	_, t, output := ToolOfItem(kind)
	return kind == "function_call" || kind == customCall || t != nil && !output
}

// customBegin begins the arguments of a function that stands for a custom tool.
const customBegin = `{"input":"`

// escaped returns a piece of the input in those arguments.
func escaped(s string) string {
	b := jsonx.AppendString(nil, s)
	return string(b[1 : len(b)-1])
}

// CustomArguments returns the input of a custom tool as the arguments of the function that
// stands for it.
func CustomArguments(input string) string {
	return customBegin + escaped(input) + `"}`
}

// CustomInput returns the input in the arguments of such a function, and reports whether they
// have one.
func CustomInput(arguments string) (input string, ok bool) {
	c := jsonx.NewReplyCursor([]byte(arguments))
	for more := c.Object(); more && c.Member(); {
		if string(c.Key) == "input" {
			input, ok = c.Text()
		}
	}
	return input, ok && c.Done()
}

// hasCustomTools reports whether a route's vendor has custom tools and namespaces.
func hasCustomTools(route stoa.Route) bool { return route.Traits.CustomTools }

// form returns the form of a tool or a call for a vendor that has custom tools and namespaces;
// the zero value for a function outside of namespaces.
func form(f *stoa.ToolForm) stoa.ToolForm {
	if f == nil {
		return stoa.ToolForm{}
	}
	return *f
}
