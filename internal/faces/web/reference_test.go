package web

import (
	"os/exec"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
)

func layOut(t *testing.T, doc string) (*reference, error) {
	t.Helper()
	v, err := parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return newReference(v)
}

func TestTheReferenceNamesEverythingInTheContract(t *testing.T) {
	t.Parallel()
	pages := referenceOf(t, config.AllExtensions().Names()...)
	index := pages[referenceRoot]
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			tag := referenceRoot + "/" + op.Tags[0]
			if !strings.Contains(pages[tag], `id="`+op.OperationID+`"`) || !strings.Contains(index, `href="`+tag+`#`+op.OperationID+`"`) {
				t.Errorf("%s %s has no place, or no way to it", method, path)
			}
		}
	}
	for name := range doc.Components.Schemas {
		if !strings.Contains(pages[referenceRoot+"/schemas/"+name], `id="schema-`+name+`"`) || !strings.Contains(index, `href="/docs/api-openapi/schemas/`+name+`"`) {
			t.Errorf("the schema %s has no place, or no way to it", name)
		}
	}
	for _, c := range contract.Codes() {
		if !strings.Contains(pages[referenceRoot+"/errors"], `id="error-`+string(c.Code)+`"`) {
			t.Errorf("the code %s has no place", c.Code)
		}
	}
	for address, body := range referenceOf(t) {
		if strings.Contains(body, "listModels") || strings.Contains(body, "ModelObject") {
			t.Errorf("without extensions %s shows one", address)
		}
	}
	events := pages[referenceRoot+"/events"]
	tables := 0
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, answer := range op.Responses.Map() {
				stream := answer.Value.Content["text/event-stream"]
				if stream == nil || stream.Schema.Value.Discriminator == nil {
					continue
				}
				tables++
				for event := range stream.Schema.Value.Discriminator.Mapping {
					if !strings.Contains(events, "<summary><code>"+event+"</code>") {
						t.Errorf("the event %s of %s is not in a table", event, op.OperationID)
					}
				}
			}
		}
	}
	if tables == 0 || strings.Count(events, `id="events-`) != tables {
		t.Errorf("%d streams, %d tables", tables, strings.Count(events, `id="events-`))
	}
}

const small = `{"openapi":"3.0.3","info":{"title":"T","version":"1","description":"A <script>alert(1)</script> **word** [x](javascript:alert(1))"},
"tags":[{"name":"things"}],"security":[{"bearer":[]}],
"paths":{"/things/{thingId}":{"parameters":[{"name":"thingId","in":"path","required":true,"schema":{"type":"string"}}],
"get":{"operationId":"getThing","tags":["things"],"summary":"Read a thing","security":[],"parameters":[{"name":"q","in":"query","required":true,"schema":{"type":"string"},"example":"it's"}],"responses":{"200":{"description":"It.","content":{"application/json":{"schema":{"$ref":"#/components/schemas/Tree"}}}}}},
"put":{"operationId":"putThing","tags":["things"],"summary":"Write","requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Tree"}}}},"responses":{"204":{"description":"Done."}}}}},
"components":{"schemas":{"Tree":{"type":"object","required":["name"],"properties":{"name":{"type":"string","minLength":1,"maxLength":8,"example":"it's"},"children":{"type":"array","items":{"$ref":"#/components/schemas/Tree"}},"size":{"type":"integer","minimum":0,"nullable":true}}}}}}`

func TestTheLayoutOfASmallContract(t *testing.T) {
	t.Parallel()
	ref, err := layOut(t, small)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(ref.Description); strings.Contains(got, "<script") || strings.Contains(got, "javascript:") || !strings.Contains(got, "<strong>word</strong>") {
		t.Errorf("the description became %q", got)
	}
	if len(ref.Groups) != 1 || len(ref.Groups[0].Operations) != 2 {
		t.Fatalf("groups: %+v", ref.Groups)
	}
	get, put := ref.Groups[0].Operations[0], ref.Groups[0].Operations[1]
	if get.Secret != "" || put.Secret != "API key" {
		t.Error("who needs a key is turned around")
	}
	if len(get.Parameters) != 2 || get.Parameters[0].Name != "thingId" {
		t.Errorf("parameters: %+v", get.Parameters)
	}
	tree := put.Bodies[0].Schema
	if tree.Type != "Tree" || len(tree.Members) != 3 || !tree.Members[0].Required || tree.Members[1].Schema.Link != "/docs/api-openapi/schemas/Tree" || tree.Members[1].Schema.Type != "array of Tree" {
		t.Errorf("the schema: %+v", tree)
	}
	if rules := strings.Join(tree.Members[0].Schema.Rules, "; "); rules != "1 to 8 characters" {
		t.Errorf("rules of a name: %q", rules)
	}
	if !tree.Members[2].Schema.Nullable {
		t.Error("a size may be null")
	}
	if got, want := get.Samples[0].Text, `curl "$STOA_BASE_URL/things/$THING_ID?q=it's"`; got != want {
		t.Errorf("curl of a GET:\n%s\nwant\n%s", got, want)
	}
	if got, want := put.Samples[0].Text, "curl --request PUT \"$STOA_BASE_URL/things/$THING_ID\" \\\n  --header \"Authorization: Bearer $STOA_API_KEY\" \\\n  --json '{\"name\": \"it'\\''s\"}'"; got != want {
		t.Errorf("curl of a PUT:\n%s\nwant\n%s", got, want)
	}
}

func TestSamplesAreValidShell(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	ref, err := layOut(t, string(contract.JSON()))
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	named := commands()
	for _, g := range ref.Groups {
		for _, o := range g.Operations {
			delete(named, o.ID)
			for _, s := range o.Samples {
				if strings.Contains(s.Text, "$PATH") {
					t.Errorf("%s: the sample needs $PATH, which is the shell's", o.ID)
				}
				if strings.Contains(s.Text, "stoa api") && strings.Contains(o.Samples[0].Text, "--data-binary") && !strings.Contains(s.Text, " --input ") {
					t.Errorf("%s: the sample sends no file: %s", o.ID, s.Text)
				}
				script.WriteString(s.Text + "\n")
			}
		}
	}
	for id := range named {
		t.Errorf("there is a command for %s, which is not in the contract", id)
	}
	check := exec.Command(sh, "-n")
	check.Stdin = strings.NewReader(script.String())
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestADanglingReferenceIsAnError(t *testing.T) {
	t.Parallel()
	broken := strings.ReplaceAll(small, `"$ref":"#/components/schemas/Tree"}}}},"responses"`, `"$ref":"#/components/schemas/Shrub"}}}},"responses"`)
	if _, err := layOut(t, broken); err == nil || !strings.Contains(err.Error(), "Shrub") {
		t.Errorf("error %v", err)
	}
	if _, err := parse([]byte(`{"paths":`)); err == nil {
		t.Error("half a document was read")
	}
}
