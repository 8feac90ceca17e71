// Package schema rewrites the JSON Schemas of callers into what a vendor accepts.
// Every vendor has its own subset; see the table in rules.go. What a subset cannot
// express is moved into the descriptions, where the model reads it.
//
// It also checks the arguments of tool calls by the schema of the tool.
//
// It never follows an address, and never changes the order of properties. The same
// schema always gives the same bytes, and its own output is left as it is. Work and
// output are bounded whatever a schema holds.
//
// Start with [Fit], and with [ReadParameters] for arguments.
package schema

// A Vendor is whose subset of JSON Schema a schema has to fit.
type Vendor uint8

// The vendors. Compatible servers differ too much for a subset: they get everything.
const (
	Compatible  Vendor = iota
	OpenAI             // the wire responses, and chat of the same vendor
	Anthropic          // input_schema, and the schema of a format
	Gemini             // responseJsonSchema
	GeminiTools        // parametersJsonSchema
	DeepSeek
)

// A Misfit is a part of a schema that a vendor cannot express.
type Misfit struct {
	Pointer string // JSON pointer to the schema that has the keyword; empty: the whole schema
	Keyword string // empty: the text is no schema, or beyond the limits of this package
	// Hard: even without the keyword the schema does not fit, since it is the number
	// or the depth of what it has that the vendor limits.
	Hard bool
}

// Limits of a schema. What vendors limit is in rules.go.
const (
	MaxBytes  = 512 << 10
	maxDepth  = 96      // levels of values in values
	maxNodes  = 100_000 // values
	maxGrown  = 1 << 20 // bytes that rewriting may add by copies and notes
	maxNote   = 400     // bytes of a keyword's value in a description
	maxNotes  = 2_000   // bytes of all of them in one description
	maxPasses = 6       // until nothing is left to rewrite: one rewrite may make another possible
)

// nothing is the schema of a text that cannot be read as one.
const nothing = `{"type":"object"}`

// Fit rewrites a schema for a vendor. strict says that the vendor enforces it: then
// out keeps within what it enforces, and misfit is the first part that had to leave.
// Otherwise out keeps within what it accepts, and misfit is set only for a text that
// is no schema, or beyond the limits of this package.
func Fit(schema string, v Vendor, strict bool) (out string, misfit *Misfit) {
	out, misfit, ok := fit(schema, v, strict)
	for range maxPasses {
		if !ok {
			break
		}
		again, more, same := fit(out, v, strict)
		if misfit == nil {
			misfit = more
		}
		if same && again == out {
			return out, misfit
		}
		out, ok = again, same
	}
	out, _, _ = fit(nothing, v, strict)
	return out, &Misfit{Hard: true}
}

// fit is [Fit]; ok is false for what cannot be read, before or after.
func fit(schema string, v Vendor, strict bool) (out string, misfit *Misfit, ok bool) {
	root, ok := parse(schema)
	if !ok {
		return "", nil, false
	}
	f := &fitter{rules: rulesFor(v, strict), vendor: v, strict: strict, root: root, force: map[*node]bool{}, budget: maxGrown}
	f.run()
	if !strict {
		f.misfit = nil
	}
	b := f.root.append(make([]byte, 0, len(schema)+len(schema)/4))
	if f.root.deep(0) > maxDepth || len(b) > MaxBytes+maxGrown {
		return "", nil, false
	}
	return string(b), f.misfit, true
}
