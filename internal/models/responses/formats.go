package responses

import (
	"stoa/internal/base/stoa"
)

// format parses text.format.
func (p *parser) format() error {
	const path = "text.format"
	var f stoa.Format
	var kind string
	var described *string
	hasName := false
	err := p.object(path, func(name string) (err error) {
		switch {
		case p.dec.PeekKind() == 'n':
		case name == "type":
			kind, err = p.text(path + ".type")
			return err
		case name == "name":
			hasName = true
			f.Name, err = p.short(path+".name", stoa.MaxName)
			return err
		case name == "description":
			f.Description, err = p.text(path + ".description")
			described = &f.Description
			return err
		case name == "schema":
			f.Schema, err = p.raw(path+".schema", "a JSON Schema, an object", '{')
			return err
		case name == "strict":
			b, err := p.boolean(path + ".strict")
			f.Strict = &b
			return err
		}
		return p.skip()
	})
	if err != nil {
		return err
	}
	if hasName && !stoa.IsName(f.Name) {
		return stoa.Errorf(stoa.CodeInvalidValue, "A format's name must have 1 to %d of the characters a-z, A-Z, 0-9, _ and -.", stoa.MaxName).At(path + ".name")
	}
	switch kind {
	case "text":
		return nil
	case "json_object":
		f = stoa.Format{Kind: stoa.FormatObject}
	case "json_schema":
		switch {
		case !hasName && f.Schema == "": // some clients send this for any JSON
			f = stoa.Format{Kind: stoa.FormatObject}
		case f.Schema == "":
			return stoa.Errorf(stoa.CodeMissingParameter, "The format has no \"schema\".").At(path + ".schema")
		case !hasName:
			return stoa.Errorf(stoa.CodeMissingParameter, "The format has no \"name\".").At(path + ".name")
		default:
			f.Kind = stoa.FormatSchema
		}
	case "":
		return stoa.Errorf(stoa.CodeMissingParameter, "The format has no \"type\".").At(path + ".type")
	default:
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must be one of %s.", path+".type", quoted([]string{"text", "json_object", "json_schema"})).At(path + ".type")
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
