package httptool

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"stoa/internal/agents/remote"
)

// large returns a document with n operations of two tags, and schemas that only some of them
// reference. Each has a text of about 10 kB.
func large(n int) string {
	var paths, schemas []string
	text := strings.Repeat("long ", 2000)
	for i := range n {
		paths = append(paths, fmt.Sprintf(`"/%s/%d":{"parameters":[{"$ref":"#/components/parameters/q"}],"post":{"operationId":"op%d","tags":["%s"],"summary":"Does %d","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/s%d"}}}}}}`,
			[]string{"issues", "pulls"}[i%2], i, i, []string{"issue", "pull"}[i%2], i, i))
		schemas = append(schemas, fmt.Sprintf(`"s%d":{"type":"object","properties":{"next":{"$ref":"#/components/schemas/t"}},"x-text":%q}`, i, text))
	}
	return `{"openapi":"3.0.3","info":{"title":"Forge"},"servers":[{"url":"https://a.example.com"}],"paths":{` + strings.Join(paths, ",") + `},"components":{"parameters":{"q":{"name":"q","in":"query","schema":{"type":"string"}}},"schemas":{"t":{"type":"object","properties":{"again":{"$ref":"#/components/schemas/t"}}},` + strings.Join(schemas, ",") + `}}}`
}

// TestAFilterSelectsOperations has a document that is too large, and has too many operations:
// a part of it can be imported, from its address and from a file.
func TestAFilterSelectsOperations(t *testing.T) {
	t.Parallel()
	text := large(900)
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	f.DocumentURL, f.ReadWith = f.URL, f.Endpoint
	for name, c := range map[string]struct {
		filter *Filter
		want   string // names, or an error if it begins with !
	}{
		"none":            {nil, "!more than 500 operations: 900 of its 900 are selected. Select those that agents need with a filter (tags, paths or search). Tags of it are: issue, pull."},
		"a tag":           {&Filter{Tags: []string{"none", "issue"}, Search: "does 12"}, "op12 op112 op120 op122 op124 op126 op128 op212 op312 op412 op512 op612 op712 op812"},
		"a path":          {&Filter{Paths: []string{"/issues/10", "/pulls/7"}, Search: "POST Does 7"}, "op7 op71 op73 op75 op77 op79 op701 op703 op705 op707 op709 op711 op713 op715 op717 op719 op721 op723 op725 op727 op729 op731 op733 op735 op737 op739 op741 op743 op745 op747 op749 op751 op753 op755 op757 op759 op761 op763 op765 op767 op769 op771 op773 op775 op777 op779 op781 op783 op785 op787 op789 op791 op793 op795 op797 op799"},
		"nothing":         {&Filter{Tags: []string{"none"}}, "!selects no operation of the document. Tags of it are: issue, pull."},
		"too many":        {&Filter{Paths: []string{"/"}}, "!more than 500 operations: 900 of its 900 are selected."},
		"nothing by path": {&Filter{Paths: []string{"/none"}}, "!selects no operation of the document."},
	} {
		f.Filter = c.filter
		want, isError := strings.CutPrefix(c.want, "!")
		wanted := strings.Fields(want)
		slices.Sort(wanted)
		got, err := f.Catalog(t.Context())
		if isError != (err != nil) || isError && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if !isError && err == nil {
			if names := names(got.Tools); !slices.Equal(names, wanted) {
				t.Errorf("%s: %q", name, names)
			}
		}
		if c.filter == nil {
			continue
		}
		reduced, err := Reduce(t.Context(), text, *c.filter)
		if isError != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if isError {
			continue
		}
		all := read(t, reduced)
		if len(reduced) > MaxDocument || !slices.Equal(slices.Sorted(maps.Keys(all)), wanted) || strings.Contains(reduced, `"s800"`) {
			t.Errorf("%s: %d bytes, %q", name, len(reduced), slices.Sorted(maps.Keys(all)))
		}
		at := slices.IndexFunc(got.Tools, func(t remote.Tool) bool { return t.Name == wanted[0] })
		if got.Tools[at] != all[wanted[0]] || !json.Valid([]byte(reduced)) {
			t.Errorf("%s: %+v, want %+v", name, all[wanted[0]], got.Tools[at])
		}
	}
	f.Filter = nil
	f.ReadWith.Credential = remote.Credential{Header: "X-Key", Value: "secret-token"}
	if _, err := f.Catalog(t.Context()); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("with a secret: %v", err)
	}
}

func names(tools []remote.Tool) (all []string) {
	for _, t := range tools {
		all = append(all, t.Name+t.Problem)
	}
	slices.Sort(all)
	return all
}
