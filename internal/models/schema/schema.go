// Package schema rewrites the JSON Schemas of callers into the form that a vendor accepts.
// Every vendor has its own subset; see the table in rules.go. Parts that a subset cannot
// express are moved into the descriptions, where the model reads them.
//
// It also checks the arguments of tool calls against the schema of the tool.
//
// It never follows an address, and never changes the order of properties. The same schema
// always yields the same bytes, and its own output is not changed again. Work and output are
// bounded for any schema.
//
// Start with [Fit], and with [ReadParameters] for arguments.
package schema

// A Vendor identifies a vendor's subset of JSON Schema.
type Vendor uint8

// The vendors. Compatible servers receive the whole schema, because they differ too much for a
// common subset.
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
	Pointer string // JSON pointer to the schema with the keyword; empty means the whole schema
	Keyword string // empty if the text is not a schema, or exceeds the limits of this package
	// Hard means that the schema does not fit even without the keyword, because the vendor
	// limits the number or the depth of its parts.
	Hard bool
}

// Limits of a schema. The limits of vendors are in rules.go.
const (
	MaxBytes  = 512 << 10
	maxDepth  = 96      // levels of nesting
	maxNodes  = 100_000 // values
	maxGrown  = 1 << 20 // bytes that rewriting may add by copies and notes
	maxNote   = 400     // bytes of a keyword's value in a description
	maxNotes  = 2_000   // bytes of all of them in one description
	maxPasses = 6       // passes, because one rewrite may enable another
)

const nothing = `{"type":"object"}`

// Fit rewrites a schema for a vendor. strict means that the vendor enforces it: then out is
// limited to what the vendor enforces, and misfit is the first part that had to be removed.
// Otherwise out is limited to what the vendor accepts, and misfit is only set if the text is
// not a schema, or exceeds the limits of this package.
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

// fit is [Fit]; ok is false if the text cannot be read before or after rewriting.
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
