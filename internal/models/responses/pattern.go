package responses

import (
	"regexp"
	"regexp/syntax"

	"stoa/internal/base/jsonx"
)

// Limits of the check of an input against a regular expression, because its time is proportional to
// the size of both.
const (
	maxPattern = 2 << 10  // bytes
	maxMatch   = 64 << 20 // instructions of the expression × bytes of the input
)

// fitsFormat reports whether the input of a custom tool matches its format. It checks only regular
// expressions, and not those that are too large or that Go does not support.
func fitsFormat(format, input string) bool {
	var f struct {
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	}
	if format == "" || jsonx.Unmarshal([]byte(format), &f) != nil || f.Syntax != "regex" || len(f.Definition) > maxPattern {
		return true
	}
	whole := `\A(?:` + f.Definition + `)\z`
	parsed, err := syntax.Parse(whole, syntax.Perl)
	if err != nil {
		return true
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst)*(len(input)+1) > maxMatch {
		return true
	}
	pattern, err := regexp.Compile(whole)
	return err != nil || pattern.MatchString(input)
}
