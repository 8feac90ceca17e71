package web

import (
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
)

// referenceOf returns all pages of the reference by their addresses, and the explorer.
func referenceOf(t *testing.T, extensions ...string) map[string]string {
	t.Helper()
	site, err := New(Config{Version: "1.2.3", Contract: contract.For(extensions...)})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := site.reference()
	if err != nil {
		t.Fatal(err)
	}
	h := site.Handler()
	out := map[string]string{}
	for name := range pages.files {
		address := strings.TrimSuffix(referenceRoot+"/"+name, "/")
		if name == explorerPage {
			address = "/api/v1/doc"
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", address, nil))
		if w.Code != 200 || w.Header().Get("Content-Security-Policy") != pagePolicy("") {
			t.Fatalf("%s: %d with the policy %q", address, w.Code, w.Header().Get("Content-Security-Policy"))
		}
		out[address] = w.Body.String()
	}
	return out
}

// Browsers lay out a page of a few thousand elements at once; one of a hundred thousand takes half a minute.
func TestPagesOfTheReferenceAreSmall(t *testing.T) {
	t.Parallel()
	element := regexp.MustCompile(`<[a-z]`)
	most, where := 0, ""
	for address, body := range referenceOf(t, config.AllExtensions().Names()...) {
		elements := len(element.FindAllString(body, -1)) + strings.Count(body, "data-copy") // the script adds a button to each
		if elements > 3000 {
			t.Errorf("%s has %d elements and %d bytes", address, elements, len(body))
		}
		if elements > most {
			most, where = elements, address
		}
	}
	t.Logf("the largest page is %s with %d elements", where, most)
}

// Addresses of the time when the reference was one page, such as /docs/api-openapi#createKey, lead to their
// places: the index has them, or links with their ids, which reference.ts follows.
func TestOldAnchorsLeadToTheirPlaces(t *testing.T) {
	t.Parallel()
	pages := referenceOf(t, config.AllExtensions().Names()...)
	anchors, err := os.ReadFile("testdata/anchors.txt")
	if err != nil {
		t.Fatal(err)
	}
	index := pages[referenceRoot]
	for id := range strings.FieldsSeq(string(anchors)) {
		if !strings.Contains(index, ` id="`+id+`"`) {
			t.Errorf("#%s is not on the index", id)
			continue
		}
		link := regexp.MustCompile(`<a id="` + regexp.QuoteMeta(id) + `" href="([^"#]*)`).FindStringSubmatch(index)
		if link == nil {
			continue // the place itself
		}
		if !strings.Contains(pages[link[1]], ` id="`+id+`"`) {
			t.Errorf("#%s leads to %s, which lacks it", id, link[1])
		}
	}
}

// Every link of the reference leads to a page, and to a place on it.
func TestLinksOfTheReferenceResolve(t *testing.T) {
	t.Parallel()
	pages := referenceOf(t, config.AllExtensions().Names()...)
	ids := map[string]bool{}
	for address, body := range pages {
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if ids[address+"#"+m[1]] {
				t.Errorf("%s has %q twice", address, m[1])
			}
			ids[address+"#"+m[1]] = true
		}
	}
	for address, body := range pages {
		for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			page, fragment, _ := strings.Cut(m[1], "#")
			if page == "" {
				page = address
			}
			target, ours := pages[page]
			if strings.HasPrefix(page, referenceRoot) && !ours || ours && target != "" && fragment != "" && !ids[page+"#"+fragment] {
				t.Errorf("%s leads to %s, which does not exist", address, m[1])
			}
		}
	}
}

// Each operation has a form with a field for each parameter, and the body of the contract's example.
func TestEveryOperationHasAForm(t *testing.T) {
	t.Parallel()
	pages := referenceOf(t, config.AllExtensions().Names()...)
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			body := pages[referenceRoot+"/"+op.Tags[0]+"/"+op.OperationID]
			if !strings.Contains(body, `data-method="`+method+`" data-path="`+path+`"`) {
				t.Errorf("%s %s has no form", method, path)
			}
			for _, p := range append(item.Parameters, op.Parameters...) {
				if !strings.Contains(body, ` name="`+p.Value.Name+`" data-in="`+p.Value.In+`"`) {
					t.Errorf("%s: the parameter %s has no field", op.OperationID, p.Value.Name)
				}
			}
			if op.RequestBody == nil {
				continue
			}
			if op.RequestBody.Value.Content["application/json"] == nil {
				if !strings.Contains(body, `data-in="file"`) {
					t.Errorf("%s: the body has no field", op.OperationID)
				}
			} else if regexp.MustCompile(`data-in="body"[^>]*></textarea>`).MatchString(body) || !strings.Contains(body, `data-in="body"`) {
				t.Errorf("%s: the field of the body is empty", op.OperationID)
			}
		}
	}
}
