package web_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/faces/web"
)

func ask(t *testing.T, h http.Handler, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func newHandler(t *testing.T) http.Handler {
	t.Helper()
	site, err := web.New(web.Config{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return site.Handler()
}

func pagePaths() []string {
	return []string{"/", "/console", "/docs", "/docs/api-openapi", "/docs/api-openapi/responses", "/docs/api-openapi/responses/createResponse", "/docs/api-openapi/errors", "/docs/api-openapi/schemas/Error", "/api/v1/doc"}
}

func TestPagesLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	address := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for _, path := range pagePaths() {
		r := ask(t, h, "GET", path, "Accept", "text/html")
		body := bodyOf(t, r)
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.Header.Get("Content-Type"))
		}
		policy := r.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %q", path, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy %q is not strict", path, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if strings.Contains(body, "<script>") || strings.Contains(body, "<style") || strings.Contains(body, " style=") || regexp.MustCompile(` on[a-z]+="`).MatchString(body) {
			t.Errorf("%s: something is inline", path)
		}
		if len(r.Cookies()) > 0 {
			t.Errorf("%s: sets a cookie", path)
		}
		for _, m := range address.FindAllStringSubmatch(body, -1) {
			if !strings.HasPrefix(m[1], "/") && !strings.HasPrefix(m[1], "#") {
				t.Errorf("%s: leads to %q", path, m[1])
			}
		}
	}
}

func TestEveryLinkOnThePagesResolves(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	outside := map[string]bool{"/api/v1/openapi.json": true, "/api/v1/health": true} // the API's own
	checked := map[string]bool{}
	for _, path := range append(pagePaths(), "/nowhere") {
		body := bodyOf(t, ask(t, h, "GET", path, "Accept", "text/html"))
		ids := map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if ids[m[1]] {
				t.Errorf("%s: the id %q occurs twice", path, m[1])
			}
			ids[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if anchor, ok := strings.CutPrefix(m[1], "#"); ok {
				if !ids[anchor] {
					t.Errorf("%s: there is no %q on the page", path, m[1])
				}
			} else if page, _, _ := strings.Cut(m[1], "#"); !outside[page] && !checked[m[1]] {
				checked[m[1]] = true
				if r := ask(t, h, "GET", page); r.StatusCode != 200 {
					t.Errorf("%s: %s answers %d", path, m[1], r.StatusCode)
				}
			}
		}
	}
}

func TestFilesAreServedGzippedPlainOr304(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	for _, path := range []string{"/static/console.js", "/static/stoa.css", "/docs/api-openapi", "/"} {
		packed := ask(t, h, "GET", path, "Accept-Encoding", "br, gzip;q=0.8")
		if packed.Header.Get("Content-Encoding") != "gzip" || !strings.Contains(packed.Header.Get("Vary"), "Accept-Encoding") {
			t.Errorf("%s: not packed: %v", path, packed.Header)
		}
		z, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		for _, refusing := range []string{"", "gzip;q=0", "identity"} {
			plain := ask(t, h, "GET", path, "Accept-Encoding", refusing)
			if got := bodyOf(t, plain); plain.Header.Get("Content-Encoding") != "" || got != string(unpacked) {
				t.Errorf("%s with %q: the plain form differs from the packed one", path, refusing)
			}
			if plain.Header.Get("ETag") == packed.Header.Get("ETag") {
				t.Errorf("%s: two forms have one strong tag", path)
			}
		}
		etag := packed.Header.Get("ETag")
		if strings.HasPrefix(etag, "W/") || len(etag) < 10 {
			t.Errorf("%s: the tag %q is not a strong one", path, etag)
		}
		again := ask(t, h, "GET", path, "Accept-Encoding", "gzip", "If-None-Match", `"other", `+etag)
		if again.StatusCode != http.StatusNotModified || bodyOf(t, again) != "" || again.Header.Get("ETag") != etag {
			t.Errorf("%s: %d for a copy at hand", path, again.StatusCode)
		}
		head := ask(t, h, "HEAD", path, "Accept-Encoding", "gzip")
		if head.StatusCode != 200 || bodyOf(t, head) != "" || head.Header.Get("Content-Length") != packed.Header.Get("Content-Length") {
			t.Errorf("%s: HEAD answers %d with length %q", path, head.StatusCode, head.Header.Get("Content-Length"))
		}
	}
}

// discard is a client that takes a reply without keeping it.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// All clients that want a file plain share its content: they need no key, and it is large.
func TestPlainFilesShareOneCopy(t *testing.T) {
	h := newHandler(t)
	get := func() {
		h.ServeHTTP(discard{http.Header{}}, httptest.NewRequest("GET", "/static/console.js", nil))
	}
	get()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		get()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 20; each > 64<<10 {
		t.Errorf("each request allocates %d bytes", each)
	}
}

func TestAnAddressWithTheDigestMayBeKept(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	address := regexp.MustCompile(`/static/stoa\.css\?[^"]+`).FindString(bodyOf(t, ask(t, h, "GET", "/", "Accept", "text/html")))
	if address == "" {
		t.Fatal("the page does not name the style sheet with its digest")
	}
	if got := ask(t, h, "GET", address).Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("%s: %q", address, got)
	}
	for _, other := range []string{"/static/stoa.css", "/static/stoa.css?v=0123"} {
		if got := ask(t, h, "GET", other).Header.Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%s: %q", other, got)
		}
	}
}

func TestNotFoundIsHTMLOrTheEnvelope(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	page := ask(t, h, "GET", "/nowhere", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if body := bodyOf(t, page); page.StatusCode != 404 || !strings.Contains(body, "Page not found") {
		t.Errorf("a browser gets %d", page.StatusCode)
	}
	for _, c := range []struct {
		method, path, accept string
		status               int
		code                 string
	}{
		{"GET", "/nowhere", "application/json", 404, "not_found"},
		{"GET", "/static/none.js", "*/*", 404, "not_found"},
		{"POST", "/nowhere", "text/html", 404, "not_found"},
		{"POST", "/api/v1beta/models/gemini-3:generateContent", "", 404, "not_found"},
		{"POST", "/console", "", 405, "method_not_allowed"},
		{"DELETE", "/", "", 405, "method_not_allowed"},
	} {
		r := ask(t, h, c.method, c.path, "Accept", c.accept)
		var body contract.ErrorEnvelope
		if err := json.Unmarshal([]byte(bodyOf(t, r)), &body); err != nil {
			t.Fatalf("%s %s: %v", c.method, c.path, err)
		}
		if r.StatusCode != c.status || body.Error.Code != c.code || body.Error.Message == "" || body.Error.Type == "" {
			t.Errorf("%s %s: %d %+v", c.method, c.path, r.StatusCode, body.Error)
		}
		if c.status == 405 && r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, r.Header.Get("Allow"))
		}
	}
}

func TestOldAddressesRedirect(t *testing.T) {
	t.Parallel()
	h := newHandler(t)
	for from, to := range map[string]string{"/docs/": "/docs", "/console/": "/console", "/docs/api-openapi/": "/docs/api-openapi"} {
		if r := ask(t, h, "GET", from); r.StatusCode != http.StatusPermanentRedirect || r.Header.Get("Location") != to {
			t.Errorf("%s: %d to %q", from, r.StatusCode, r.Header.Get("Location"))
		}
	}
}

func TestTheRoutesLeaveTheAPIAlone(t *testing.T) {
	t.Parallel()
	site, err := web.New(web.Config{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	site.Routes(mux)
	mux.HandleFunc("/api/v1/", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for path, want := range map[string]int{"/api/v1/health": 418, "/api/v1/docs": 418, "/api/v1/doc": 200, "/api/v2": 404} {
		if r := ask(t, mux, "GET", path); r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
	if r := ask(t, mux, "POST", "/api/v1/doc"); r.StatusCode != 418 {
		t.Errorf("POST /api/v1/doc: %d: the API answers what the explorer does not", r.StatusCode)
	}
}

// Every library of the pages is named with its version in NOTICE, and its licence is
// served.
func TestTheLicencesOfOthersAreServed(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var pkg struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal([]byte(read("ui/package.json")), &pkg); err != nil {
		t.Fatal(err)
	}
	if len(pkg.Dependencies) < 3 {
		t.Fatalf("package.json has the libraries %v", pkg.Dependencies)
	}
	served := bodyOf(t, ask(t, newHandler(t), "GET", "/static/licenses.txt"))
	notice := read("../../../NOTICE")
	for name, version := range pkg.Dependencies {
		if !regexp.MustCompile(`(?mi)^` + name + ` ` + regexp.QuoteMeta(version) + ` - .*Copyright \(c\)`).MatchString(notice) {
			t.Errorf("NOTICE does not name %s %s with its copyright", name, version)
		}
		first, _, _ := strings.Cut(name, " ")
		_, licence, found := strings.Cut(strings.ToLower(served), strings.ToLower(first)+"\n===")
		if !found || !strings.Contains(licence, "copyright") {
			t.Errorf("the licence of %s is not served", name)
		}
	}
}

func BenchmarkReference(b *testing.B) {
	site, err := web.New(web.Config{})
	if err != nil {
		b.Fatal(err)
	}
	h := site.Handler()
	r := httptest.NewRequest("GET", "/docs/api-openapi", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := web.New(web.Config{}); err != nil {
			b.Fatal(err)
		}
	}
}
