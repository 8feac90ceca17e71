package responses

import (
	"stoa/internal/base/stoa"
)

// formatMembers are the members of text.format while it is parsed.
type formatMembers struct {
	place
	stoa.Format
	kind      string
	described *string
	hasName   bool
}

func (p *parser) newFormatMembers(l place) *formatMembers {
	f := &formatMembers{place: l}
	if !p.opts.Formats {
		f.kind = "text" // which is all that is supported
	}
	return f
}

func (p *parser) formatMember(f *formatMembers, name, path string) (err error) {
	switch {
	case p.dec.PeekKind() == 'n':
	case name == "type":
		f.kind, err = p.text(path)
		return err
	case !p.opts.Formats:
	case name == "name":
		f.hasName = true
		f.Name, err = p.short(path, stoa.MaxName)
		return err
	case name == "description":
		f.Description, err = p.text(path)
		f.described = &f.Description
		return err
	case name == "schema":
		f.Schema, err = p.raw(path, "a JSON Schema, an object", '{')
		return err
	case name == "strict":
		b, err := p.boolean(path)
		f.Strict = &b
		return err
	}
	return p.skip()
}

func (p *parser) setFormat(in *formatMembers) error {
	f, kind, described, hasName := in.Format, in.kind, in.described, in.hasName
	p.rename("text.format", in.path)
	p.rename("text.format.type", in.at("type"))
	p.rename("text.format.schema", in.at("schema"))
	if !p.opts.Formats && kind != "text" {
		return unsupportedValue(in.at("type"), "Structured output is switched off: the operator can enable the extension \"formats\". Send {\"type\":\"text\"} or leave \"text.format\" out.")
	}
	if hasName && !stoa.IsName(f.Name) {
		return stoa.Errorf(stoa.CodeInvalidValue, "A format's name must have 1 to %d of the characters a-z, A-Z, 0-9, _ and -.", stoa.MaxName).At(in.at("name"))
	}
	switch kind {
	case "text":
		return nil
	case "json_object":
		f = stoa.Format{Kind: stoa.FormatObject}
	case "json_schema":
		switch {
		case !hasName && f.Schema == "": // accepted, because some clients send this for any JSON
			f = stoa.Format{Kind: stoa.FormatObject}
		case f.Schema == "":
			return stoa.Errorf(stoa.CodeMissingParameter, "The format has no \"schema\".").At(in.at("schema"))
		case !hasName:
			return stoa.Errorf(stoa.CodeMissingParameter, "The format has no \"name\".").At(in.at("name"))
		default:
			f.Kind = stoa.FormatSchema
		}
	case "":
		return stoa.Errorf(stoa.CodeMissingParameter, "The format has no \"type\".").At(in.at("type"))
	default:
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must be one of %s.", in.at("type"), quoted([]string{"text", "json_object", "json_schema"})).At(in.at("type"))
	}
	p.req.call.Format = &f
	if f.Kind == stoa.FormatObject {
		p.req.echo.format = `{"type":"json_object"}`
		return nil
	}
	e := appendText([]byte(`{"type":"json_schema","name":`), f.Name)
	e = append(e, `,"description":`...)
	e = appendTextOrNull(e, described)
	e = append(append(e, `,"schema":`...), f.Schema...)
	switch {
	case f.Strict != nil && *f.Strict:
		e = append(e, `,"strict":true}`...)
	default:
		e = append(e, `,"strict":false}`...)
	}
	p.req.echo.format = string(e)
	return nil
}
