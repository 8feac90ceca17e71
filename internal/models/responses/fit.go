package responses

import (
	"context"
	"slices"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// Policy is the operator's choice for calls that a model cannot make as requested. The zero
// value rejects them.
type Policy struct {
	AnyChoice  bool // treat a choice that forces a call as auto if the model cannot be forced
	BestEffort bool // request JSON in words if the vendor has no setting for it
}

// fit checks the call against a model before credits are held: it excludes routes that cannot
// make the call, and fails if none can. It records what will be enforced.
func (r *run) fit(ctx context.Context, m *stoa.Model, call *stoa.Call) error {
	r.enforced = enforced{}
	if err := r.readFiles(ctx, m, call); err != nil {
		return err
	}
	r.leaveOutMedia(m, call)
	var kept []stoa.Route
	var refused error
	for _, route := range m.Routes {
		if err := r.fits(route, call); err == nil {
			kept = append(kept, route)
		} else if refused == nil {
			refused = err
		}
	}
	if c := call.ToolChoice(); kept == nil && c.Mode == stoa.ChoiceRequired && r.s.Policy.AnyChoice {
		c.Mode = stoa.ChoiceAuto
		call.Choice = &c
		if c.Named {
			call.Choice = nil
		}
		if err := r.fit(ctx, m, call); err != nil {
			return err
		}
		r.enforced.anyChoice = true
		r.enforced.adjusted |= stoa.ChoiceAsAuto
		return nil
	}
	if kept == nil {
		return refused
	}
	if len(kept) < len(m.Routes) {
		m.Routes = kept
	}
	r.sizeMedia(m)
	r.enforced.note(m.Routes[0], call)
	return nil
}

func (e *enforced) note(route stoa.Route, call *stoa.Call) {
	sandbox := route.Wire == "sandbox"
	limit := stoa.WireNamed(route.Wire).StrictTools
	for _, t := range call.Tools {
		if t.Form != nil && t.Form.Format != "" && !route.Traits.CustomTools && !sandbox {
			e.adjusted |= stoa.GrammarInWords
		}
		if t.Strict == nil || !*t.Strict {
			continue // because the encoding of the call records whether a part went into its description
		}
		if sandbox {
			e.strict = append(e.strict, t.Name)
			continue
		}
		parameters, strict, err := wire.FitTool(t, route)
		switch {
		case err != nil: // the call fails when it is encoded
			continue
		case !strict || limit > 0 && len(e.strict) == limit:
			e.adjusted |= stoa.StrictDropped
			continue
		case parameters != t.Parameters:
			e.adjusted |= stoa.SchemaRewritten
		}
		e.strict = append(e.strict, t.Name)
	}
	f := call.TextFormat()
	switch {
	case f.Kind == stoa.FormatText, sandbox:
	case inWords(f, route):
		e.adjusted |= stoa.FormatInWords
	case f.Kind == stoa.FormatSchema:
		if fitted, err := wire.FitFormat(f, route); err == nil && fitted != f.Schema {
			e.adjusted |= stoa.SchemaRewritten
		}
	}
}

func inWords(f stoa.Format, route stoa.Route) bool {
	t := route.Traits
	if f.Kind == stoa.FormatObject {
		return t.Schema == "" || t.Schema == "native" && route.Wire == "messages"
	}
	return t.Schema != "native"
}

func (r *run) fits(route stoa.Route, call *stoa.Call) error {
	t := route.Traits
	if route.Wire == "sandbox" {
		return nil
	}
	if err := r.fitsMedia(route); err != nil {
		return err
	}
	if len(call.Tools) > 0 && t.NoTools {
		return unsupportedValue("tools", "This model cannot call tools. Choose another one, or leave \"tools\" out.")
	}
	if call.ToolChoice().Mode == stoa.ChoiceRequired && len(call.Tools) > 0 && !t.Forces(call.Effort) {
		if t.Forces("none") {
			return unsupportedValue("tool_choice", "This model cannot be forced to call a tool while it reasons. Send \"auto\", or set \"reasoning.effort\" to \"none\"."+forcedSetting)
		}
		return unsupportedValue("tool_choice", "This model cannot be forced to call a tool. Send \"auto\", or choose another model."+forcedSetting)
	}
	if err := wire.CheckFormat(call, route); err != nil {
		return err
	}
	return r.fitsFormat(route, call)
}

// The operator's settings that errors name.
const (
	forcedSetting = " The operator can set extensionOptions.tools.forced to auto, so that the model decides instead."
	wordsSetting  = " The operator can enable extensionOptions.formats.bestEffort, which requests the format in words."
)

// fitsFormat returns an error if the model on a route does not support a format. It only
// recommends another format that the model supports.
func (r *run) fitsFormat(route stoa.Route, call *stoa.Call) error {
	f, t := call.TextFormat(), route.Traits
	if f.Kind == stoa.FormatText {
		return nil
	}
	if inWords(f, route) && !r.s.Policy.BestEffort {
		lacks, advice := "this format", "Ask for JSON in the text, or choose another model."
		if f.Kind == stoa.FormatSchema {
			lacks = "a schema for its reply"
		}
		switch t.Schema {
		case "native":
			advice = "Send a \"json_schema\", or ask for JSON in the text."
		case "json":
			advice = "Choose another model, or send \"json_object\" and describe the form in the text."
		}
		return unsupportedValue("text.format.type", "This model does not support "+lacks+". "+advice+wordsSetting)
	}
	if f.Kind == stoa.FormatSchema && t.Schema == "native" {
		_, err := wire.FitFormat(f, route)
		return err
	}
	return nil
}

// prefers returns the newest state of an open tool loop, without its data; nil if no loop is
// open.
func prefers(messages []stoa.Message) *stoa.State {
	s, open := openLoop(messages)
	if !open || slices.Contains([]string{"", "sandbox"}, s.Wire) {
		return nil
	}
	return &stoa.State{Wire: s.Wire, Model: s.Model, Provider: s.Provider}
}
