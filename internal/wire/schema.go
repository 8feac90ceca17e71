package wire

import (
	"strings"

	"stoa/internal/schema"
	"stoa/internal/stoa"
)

// vendorOf returns whose subset of JSON Schema the schemas for a route have to fit.
func vendorOf(route stoa.Route) schema.Vendor {
	switch {
	case route.Wire == "messages":
		return schema.Anthropic
	case route.Wire == "gemini":
		return schema.GeminiTools
	case route.Wire == "responses", route.Dialect == "openai":
		return schema.OpenAI
	case route.Dialect == "deepseek":
		return schema.DeepSeek
	}
	return schema.Compatible
}

// FitTool returns the parameters of a tool as the vendor of a route takes them, and
// whether the vendor is to enforce them: the caller asked for it, the model can, and
// the whole schema can be expressed. Otherwise what the vendor refuses is described.
func FitTool(t stoa.Tool, route stoa.Route) (parameters string, strict bool) {
	parameters = strings.TrimSpace(t.Parameters)
	if parameters == "" {
		parameters = noParameters
	}
	if t.Strict != nil && *t.Strict && route.Traits.StrictTools {
		if out, misfit := schema.Fit(parameters, vendorOf(route), true); misfit == nil {
			return out, true
		}
	}
	parameters, _ = schema.Fit(parameters, vendorOf(route), false)
	return parameters, false
}

// fitted writes a tool's parameters as the vendor of the route takes them, and returns
// whether the vendor is to enforce them.
func (w *builder) fitted(t stoa.Tool, route stoa.Route) (strict bool) {
	parameters, strict := FitTool(t, route)
	w.raw(parameters)
	return strict
}
