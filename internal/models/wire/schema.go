package wire

import (
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/models/schema"
)

// fitting is a codec whose vendors accept a subset of JSON Schema.
type fitting interface {
	vendor(route stoa.Route) schema.Vendor
}

// vendorOf returns the vendor whose subset of JSON Schema the schemas for a route must fit.
func vendorOf(route stoa.Route) schema.Vendor {
	if f, ok := codecs[route.Wire].(fitting); ok {
		return f.vendor(route)
	}
	return schema.Compatible
}

// FitTool returns the parameters of a tool in the form that the vendor of a route accepts,
// and whether the vendor enforces them: the caller asked for it, the model supports it, and
// the whole schema can be expressed. Otherwise the unsupported parts are put into
// descriptions. It fails with unsupported_value for a schema that is too deep or too large to
// be rewritten.
func FitTool(t stoa.Tool, route stoa.Route) (parameters string, strict bool, err error) {
	parameters = strings.TrimSpace(t.Parameters)
	switch {
	case parameters == "":
		parameters = noParameters
	case parameters[0] != '{', !jsonx.Valid([]byte(parameters)):
		return "", false, stoa.Errorf(stoa.CodeInternal, "the parameters of tool %q are not a JSON object", t.Name)
	}
	if t.Strict != nil && *t.Strict && route.Traits.StrictTools {
		if out, misfit := schema.Fit(parameters, vendorOf(route), true); misfit == nil {
			return out, true, nil
		}
	}
	parameters, misfit := schema.Fit(parameters, vendorOf(route), false)
	if misfit != nil {
		return "", false, stoa.Errorf(stoa.CodeUnsupportedValue, "The parameters of the tool %q are nested too deeply or are too large for the model's provider. Make them simpler.", t.Name).At("tools")
	}
	if vendorOf(route) == schema.Compatible {
		parameters = withProperties(parameters)
	}
	return parameters, false, nil
}

// withProperties adds the member properties to a schema of parameters that lacks it, because Ollama
// sends null in its place, which llama.cpp refuses.
func withProperties(parameters string) string {
	c := jsonx.NewReplyCursor([]byte(parameters))
	has, members := false, 0
	for more := c.Object(); more && c.Member(); {
		members++
		has = has || string(c.Key) == "properties"
	}
	if has || !c.Done() {
		return parameters
	}
	parameters = strings.TrimRight(parameters[:len(parameters)-1], " \t\r\n")
	if members > 0 {
		parameters += ","
	}
	return parameters + `"properties":{}}`
}

// fit is [FitTool]; it records whether a part of the schema went into a description.
func (w *builder) fit(t stoa.Tool, route stoa.Route) (parameters string, strict bool, err error) {
	parameters, strict, err = FitTool(t, route)
	w.described = w.described || strings.Count(parameters, schema.Moved) > strings.Count(t.Parameters, schema.Moved)
	return parameters, strict, err
}

// fitted writes a tool's parameters in the form that the vendor of the route accepts, and
// returns whether the vendor enforces them.
func (w *builder) fitted(t stoa.Tool, route stoa.Route) (strict bool, err error) {
	parameters, strict, err := w.fit(t, route)
	w.raw(parameters)
	return strict, err
}

// FitFormat returns the schema of a format in the form that the vendor of a route accepts. It
// fails with unsupported_value if the caller requires enforcement and the schema cannot be
// expressed, or if it exceeds the vendor's limits.
func FitFormat(f stoa.Format, route stoa.Route) (string, error) {
	v := vendorOf(route)
	strict := f.Strict != nil && *f.Strict
	enforced := strict
	switch v {
	case schema.Anthropic:
		enforced = true
	case schema.GeminiTools:
		v, enforced = schema.Gemini, true
	}
	out, misfit := schema.Fit(f.Schema, v, enforced)
	if misfit != nil && (strict || misfit.Hard) {
		return "", misfitError(misfit)
	}
	return out, nil
}

// CheckFormat fails with unsupported_value for a format that the model of a route does not
// accept together with the tools of the call.
func CheckFormat(call *stoa.Call, route stoa.Route) error {
	c, ok := codecs[route.Wire].(interface{ eitherFormatOrTools(stoa.Route) bool })
	if !ok || call.TextFormat().Kind == stoa.FormatText || len(call.Tools) == 0 || !c.eitherFormatOrTools(route) {
		return nil
	}
	return stoa.Errorf(stoa.CodeUnsupportedValue, "This model cannot answer in a format while it has tools. Leave out one of them, or use another model.").At("text.format")
}

// Relax returns a call for a route with its relaxed format, see [stoa.Format], as strictly as the provider can enforce it. It
// reports whether that is in words.
func Relax(call stoa.Call, route stoa.Route) (relaxed stoa.Call, inWordsOnly bool) {
	if call.Format == nil || !call.Format.Relaxed {
		return call, false
	}
	f := *call.Format
	f.Relaxed = false
	if !f.Refused && (route.Traits.Schema == "native" || route.Wire == "chat" && acceptsSchema(route)) && CheckFormat(&call, route) == nil {
		strict := f
		strict.Strict = new(true)
		if _, err := FitFormat(strict, route); err == nil {
			call.Format = &strict
			return call, false
		}
		tried := f
		if v := vendorOf(route); v != schema.OpenAI && v != schema.Compatible {
			// These enforce what is left of a schema that they cannot express, which may refuse answers that fit it,
			// unless only limits of values are missing.
			tried = strict
			tried.Schema = schema.WithoutLimits(f.Schema)
		}
		if _, err := FitFormat(tried, route); err == nil {
			call.Format = &f
			return call, false
		}
	}
	call.Instructions = strings.TrimPrefix(call.Instructions+"\n\n"+inWords(f), "\n\n")
	call.Format = nil
	return call, true
}

// Dropped returns the settings of a call that a provider does not receive, because its model does not have them, as the paths
// of an agent's members.
func Dropped(call stoa.Call, route stoa.Route) (paths []string) {
	if route.Wire == "sandbox" {
		return nil
	}
	if off, effort := thinking(call, route.Traits); call.Effort != "" && !off && effort == "" {
		paths = append(paths, "reasoning.effort")
	}
	if call.Temperature != nil && !samples(call, route.Traits) {
		paths = append(paths, "temperature")
	}
	return paths
}

func misfitError(m *schema.Misfit) error {
	const path = "text.format.schema"
	switch {
	case m.Keyword == "":
		return stoa.Errorf(stoa.CodeUnsupportedValue, "The schema is not a JSON object with distinct names, is nested too deeply or is too large.").At(path)
	case m.Hard:
		return stoa.Errorf(stoa.CodeUnsupportedValue, "The schema exceeds the provider's limit, counted by its %q. Use a smaller one.", m.Keyword).At(path)
	}
	return stoa.Errorf(stoa.CodeUnsupportedValue, "The provider of this model cannot enforce %q at %q of the schema. Leave it out, or send \"strict\": false: then it is only described to the model.", m.Keyword, "#"+m.Pointer).At(path)
}
