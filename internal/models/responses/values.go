package responses

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// The methods below parse one value each. A value of the wrong JSON type is an error that
// names the value's path.

func (p *parser) skip() error {
	if err := p.dec.SkipValue(); err != nil {
		return badJSON(err)
	}
	return nil
}

func (p *parser) want(path, what string, kinds ...jsonx.Kind) error {
	k := p.dec.PeekKind()
	if slices.Contains(kinds, k) {
		return nil
	}
	if err := p.skip(); err != nil {
		return err
	}
	return stoa.Errorf(stoa.CodeInvalidType, "%q must be %s, not %s.", path, what, kindName(k)).At(path)
}

// text reads a string member of any length. A string with a NUL character is
// CodeInvalidValue.
func (p *parser) text(path string) (string, error) {
	if err := p.want(path, "a string", '"'); err != nil {
		return "", err
	}
	t, err := p.dec.ReadToken()
	if err != nil {
		return "", badJSON(err)
	}
	s := t.String()
	if err := checkText(s, path, 0); err != nil {
		return "", err
	}
	return s, nil
}

// checkText returns an error for a text that contains a NUL character or more than most characters;
// 0 means any number.
func checkText(s, path string, most int) error {
	switch {
	case strings.Contains(s, "\x00"): // because not every database can store it, and providers refuse it
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must not contain a NUL character.", path).At(path)
	case most > 0 && len(s) > most && utf8.RuneCountInString(s) > most:
		return tooLong(path, most)
	}
	return nil
}

// short is text with at most the given number of characters. It refuses a much longer string without
// reading to its end; [parser.soft] does so for a caller that continues.
func (p *parser) short(path string, most int) (string, error) {
	if p.dec.PeekKind() == '"' && endless(p.dec.UnreadBuffer(), most) {
		p.unread = true
		return "", tooLong(path, most)
	}
	s, err := p.text(path)
	if err == nil && utf8.RuneCountInString(s) > most {
		err = tooLong(path, most)
	}
	return s, err
}

func tooLong(path string, most int) error {
	return stoa.Errorf(stoa.CodeInvalidValue, "%q can have at most %d characters.", path, most).At(path)
}

const maxEscaped = 12 // JSON bytes per character: two \uXXXX

// endless reports whether the next string certainly contains more than most characters. It judges by
// the bytes, so that nothing is decoded.
func endless(unread []byte, most int) bool {
	from := bytes.IndexByte(unread, '"') // in the unread bytes only a separator and spaces precede it
	window := unread[from+1:]
	if len(window) <= maxEscaped*most {
		return false
	}
	window = window[:maxEscaped*most+1]
	for i := 0; i < len(window); i++ {
		switch window[i] {
		case '"':
			return false
		case '\\':
			i++
		}
	}
	return true
}

func (p *parser) choice(path string, of ...string) (string, error) {
	s, err := p.text(path)
	if err == nil && !slices.Contains(of, s) {
		err = stoa.Errorf(stoa.CodeInvalidValue, "%q must be one of %s.", path, quoted(of)).At(path)
	}
	return s, err
}

func (p *parser) boolean(path string) (bool, error) {
	if err := p.want(path, "true or false", 't', 'f'); err != nil {
		return false, err
	}
	t, err := p.dec.ReadToken()
	if err != nil {
		return false, badJSON(err)
	}
	return t.Bool(), nil
}

func (p *parser) integer(path string, least, most int64) (int64, error) {
	if err := p.want(path, "an integer", '0'); err != nil {
		return 0, err
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return 0, badJSON(err)
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return 0, stoa.Errorf(stoa.CodeInvalidType, "%q must be an integer.", path).At(path)
	}
	if err != nil || n < least || n > most {
		return 0, stoa.Errorf(stoa.CodeInvalidValue, "%q must be an integer from %d to %d.", path, least, most).At(path)
	}
	return n, nil
}

func (p *parser) number(path string, least, most float64) (float64, error) {
	if err := p.want(path, "a number", '0'); err != nil {
		return 0, err
	}
	v, err := p.dec.ReadValue()
	if err != nil {
		return 0, badJSON(err)
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < least || f > most {
		return 0, stoa.Errorf(stoa.CodeInvalidValue, "%q must be a number from %g to %g.", path, least, most).At(path)
	}
	return f, nil
}

// object reads an object and calls member for each of its members. member must read the value. An
// empty path means the body itself.
func (p *parser) object(path string, member func(name string) error) error {
	if path != "" {
		if err := p.want(path, "an object", '{'); err != nil {
			return err
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return badJSON(err)
	}
	for n := 0; ; n++ {
		t, err := p.dec.ReadToken()
		if err != nil {
			return badJSON(err)
		}
		if t.Kind() == '}' {
			return nil
		}
		if n == maxMembers {
			return stoa.Errorf(stoa.CodeInvalidValue, "%s has more than %d members.", stoa.Subject(path), maxMembers).At(path)
		}
		if err := member(t.String()); err != nil {
			return err
		}
	}
}

func (p *parser) array(path string, most int, element func(i int) error) error {
	if err := p.want(path, "an array", '['); err != nil {
		return err
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return badJSON(err)
	}
	for i := 0; p.dec.PeekKind() != ']'; i++ {
		if p.dec.PeekKind() == jsonx.KindInvalid {
			break // ReadToken below returns the error
		}
		if i == most {
			return tooMany(path, most)
		}
		if err := element(i); err != nil {
			return err
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return badJSON(err)
	}
	return nil
}

func tooMany(path string, most int) error {
	return stoa.Errorf(stoa.CodeInvalidValue, "%q has more than %d elements.", path, most).At(path)
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func unsupported(path, advice string) error {
	return stoa.Errorf(stoa.CodeUnsupported, "%s", advice).At(path)
}

func unsupportedValue(path, advice string) error {
	return stoa.Errorf(stoa.CodeUnsupportedValue, "%s", advice).At(path)
}

func badJSON(err error) error {
	what := "is not valid JSON"
	switch {
	case errors.Is(err, jsonx.ErrDuplicateName):
		what = "names a member twice"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return stoa.Errorf(stoa.CodeInvalidJSON, "The body ends before its JSON does. Send one complete JSON object.").Because(err)
	}
	if s, ok := errors.AsType[*jsonx.SyntacticError](err); ok {
		return stoa.Errorf(stoa.CodeInvalidJSON, "The body %s at byte %d. Send one JSON object in UTF-8, with double quotes around names and strings.", what, s.ByteOffset).Because(err)
	}
	return stoa.Errorf(stoa.CodeInvalidJSON, "The body %s. Send one JSON object in UTF-8.", what).Because(err)
}

func kindName(k jsonx.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "invalid JSON"
}

func quoted(words []string) string {
	var b []byte
	for i, w := range words {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "%q", w)
	}
	return string(b)
}
