package contract_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
)

// marks are the names of extensions in the document.
var marks = regexp.MustCompile(`"x-extension":"([^"]*)"`)

func TestEveryExtensionHasASwitch(t *testing.T) {
	t.Parallel()
	known := config.AllExtensions().Names()
	seen := map[string]bool{}
	for _, m := range marks.FindAllSubmatch(contract.JSON(), -1) {
		for name := range strings.FieldsSeq(string(m[1])) {
			seen[name] = true
			if !slices.Contains(known, name) {
				t.Errorf("the document has the extension %q, which cannot be switched on", name)
			}
		}
	}
	for _, name := range known {
		if !seen[name] {
			t.Errorf("the document says nothing of the extension %q", name)
		}
	}
}

// TestEditionsAreWhole takes the sets of extensions with at most two on, and those with
// at most one off: each edition is valid, mentions no extension that is off, refers to
// nothing that is cut and holds no component that only a cut part used. A part is there
// when one of its extensions is on, so what is wrong with any set is wrong with one of
// these.
func TestEditionsAreWhole(t *testing.T) {
	t.Parallel()
	known := config.AllExtensions().Names()
	for set := range 1 << len(known) {
		var on, off []string
		for i, name := range known {
			if set>>i&1 == 1 {
				on = append(on, name)
			} else {
				off = append(off, name)
			}
		}
		if len(on) > 2 && len(off) > 1 {
			continue
		}
		edition := contract.For(on...)
		if !json.Valid(edition.JSON()) {
			t.Fatalf("%v: the edition is not JSON", on)
		}
		doc, err := openapi3.NewLoader().LoadFromData(edition.JSON())
		if err != nil {
			t.Fatalf("%v: %v", on, err)
		}
		if err := doc.Validate(t.Context()); err != nil {
			t.Errorf("%v: %v", on, err)
		}
		for _, m := range marks.FindAllSubmatch(edition.JSON(), -1) {
			if !slices.ContainsFunc(strings.Fields(string(m[1])), func(n string) bool { return slices.Contains(on, n) }) {
				t.Errorf("%v: a part of %s is left, and %v are off", on, m[1], off)
			}
		}
		used := map[string]bool{}
		for _, m := range regexp.MustCompile(`"#/components/([^"]+)"`).FindAllSubmatch(edition.JSON(), -1) {
			used[string(m[1])] = true
		}
		for name := range doc.Components.Schemas {
			if !used["schemas/"+name] && usedSomewhere("schemas/"+name) {
				t.Errorf("%v: nothing refers to the schema %s any more; mark it with x-extension", on, name)
			}
		}
		for name := range doc.Components.Parameters {
			if !used["parameters/"+name] {
				t.Errorf("%v: nothing refers to the parameter %s; mark it with x-extension", on, name)
			}
		}
		for path, item := range doc.Paths.Map() {
			if len(item.Operations()) == 0 {
				t.Errorf("%v: %s has no operation", on, path)
			}
		}
	}
}

func usedSomewhere(component string) bool {
	return bytes.Contains(contract.JSON(), []byte(`"#/components/`+component+`"`))
}

func TestAnEditionIsParsedOnce(t *testing.T) {
	t.Parallel()
	edition := contract.For("tools")
	one, err := edition.Requests()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := edition.Requests(); err != nil || again != one {
		t.Errorf("the document is parsed anew while it is held (%v)", err)
	}
	runtime.KeepAlive(one)
}

func TestAnEditionIsMadeOnce(t *testing.T) {
	t.Parallel()
	all := contract.For(config.AllExtensions().Names()...)
	if !bytes.Equal(all.JSON(), contract.JSON()) {
		t.Error("the edition with all extensions is not the whole document")
	}
	one, again := contract.For(), contract.For()
	if one != again || one.ETag() == all.ETag() {
		t.Error("editions are made anew, or share their tag")
	}
}

// TestAStartParsesOnlyRequests protects the time and the memory of a start.
func TestAStartParsesOnlyRequests(t *testing.T) {
	t.Parallel()
	doc, err := contract.For("tools", "files").Requests()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := openapi3.NewLoader().LoadFromData(contract.For("tools", "files").JSON())
	if err != nil {
		t.Fatal(err)
	}
	if n, all := len(doc.Components.Schemas), len(whole.Components.Schemas); n == 0 || n > all/2 || len(doc.Components.Responses) > 0 {
		t.Errorf("it parses %d of %d schemas, and %d responses", n, all, len(doc.Components.Responses))
	}
	for path, item := range whole.Paths.Map() {
		for method, op := range item.Operations() {
			of := doc.Paths.Value(path).GetOperation(method)
			if of.Responses.Len() > 0 {
				t.Errorf("%s %s: it parses the responses", method, path)
			}
			for _, pair := range [][2]any{{of.Parameters, op.Parameters}, {of.RequestBody, op.RequestBody}, {of.Security, op.Security}, {of.Extensions, op.Extensions}, {of.OperationID, op.OperationID}} {
				got, err := json.Marshal(pair[0])
				if err != nil {
					t.Fatal(err)
				}
				if want, err := json.Marshal(pair[1]); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s %s: %s, not %s (%v)", method, path, got, want, err)
				}
			}
		}
	}
	for name, ref := range doc.Components.Schemas {
		got, err := json.Marshal(ref)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := json.Marshal(whole.Components.Schemas[name]); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the schema %s differs (%v)", name, err)
		}
	}
}
