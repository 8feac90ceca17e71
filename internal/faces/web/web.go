// Package web serves the pages for people: the landing page, the explorer at
// /api/v1/doc, the guides at /docs, the endpoint reference at /docs/api-openapi, the
// console at /console, the page of invitations at /join, the chat at /embed/{id}, and the
// styles and scripts they share.
// Everything is embedded; no page loads anything from another host.
//
// It never reads the database, calls a model or checks a key, because the console is an
// ordinary client of the public API. The sources of scripts and styles are in ui/ and
// are bundled into static/ by go generate, without Node.
//
// Start reading at [Site.Routes]. The reference is laid out by [newReference] from the contract
// document. The explorer is its index, with a form at each operation.
//
// See docs/decisions/0019-build-the-pages-without-node.md.
//
// The console is a client of the public API. Package console signs it in: a session in a cookie
// that scripts cannot read replaces the key, and counts only with a header that pages of other
// origins cannot send. An attribute of its page lists the operations of the contract, so that it
// shows a page only if its operation exists. Streams are read with fetch. Trusted Types are
// required: text becomes HTML only through DOMPurify. The cost of a streamed reply is first
// computed from the price list and then replaced by the receipt. That is found in the list of receipts,
// because a missing receipt is not an error there.
package web

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"sync"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
)

//go:generate go run ./ui/build

//go:embed templates/*.html
var templateFiles embed.FS

// Config contains the data about the service for the pages. The zero value is valid.
type Config struct {
	Version  string                                                        // version at the foot of pages; may be empty
	Contract *contract.Edition                                             // contract that the service serves; nil means without extensions
	Origin   string                                                        // public address for the commands of the landing page
	Land     func(*http.Request) LandingPage                               // accepts the redirects of authorization servers; may be nil
	Confirm  func(r *http.Request, token string, connect bool) LandingPage // accepts the answers to the landing page's question; may be nil
	Client   func() (map[string]any, error)                                // OAuth client document of the service; may be nil
	Embeds   Embeds                                                        // chat page at /embed/{id}; nil if there is none
}

// A Site serves the pages. It is safe for concurrent use, because it never changes after [New].
type Site struct {
	contract       *contract.Edition
	assets         assets
	embeds         Embeds
	land           func(*http.Request) LandingPage
	confirm        func(*http.Request, string, bool) LandingPage
	clientDocument func() (map[string]any, error)
	templates      *template.Template
	common         pageData
	landing        *file
	join           *file
	missing        *file
	reference      func() (*referencePages, error) // rendered on first use
	console        func() (*file, error)           // rendered on first use
	guides         func() (*guides, error)         // rendered on first use
}

// pageData is the data for the frame of every page.
type pageData struct {
	Title, Summary, Here string
	Version              string
	Full                 bool // the bar spans the whole width
	Page                 any
	Operations           string // operations of the contract, separated by spaces
	Sample               string
}

// New renders the landing page and the page for unknown paths. The others are rendered on first use, because they take
// longer. It fails only if a template is broken, which a test would have found.
func New(cfg Config) (*Site, error) {
	if cfg.Contract == nil {
		cfg.Contract = contract.For()
	}
	s := &Site{contract: cfg.Contract, common: pageData{Version: cfg.Version}, embeds: cfg.Embeds, land: cfg.Land, confirm: cfg.Confirm, clientDocument: cfg.Client}
	var err error
	if s.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	s.templates, err = template.New("").Funcs(template.FuncMap{"asset": s.assets.url, "font": s.assets.font}).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse the templates: %w", err)
	}
	s.reference, s.guides, s.console = sync.OnceValues(s.layReference), sync.OnceValues(s.renderGuides), sync.OnceValues(s.renderConsole)
	for _, page := range []struct {
		to   **file
		name string
		with pageData
	}{
		{&s.landing, "landing", pageData{Title: "Stoa", Summary: "Models and hosted agents behind one API key.", Sample: firstCall(cfg.Origin)}},
		{&s.join, "join", pageData{Title: "Join · Stoa"}},
		{&s.missing, "notfound", pageData{Title: "No such page · Stoa"}},
	} {
		if *page.to, err = s.render(page.name, page.with); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Site) render(name string, with pageData) (*file, error) {
	with.Version = s.common.Version
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, name, with); err != nil {
		return nil, fmt.Errorf("render the page %q: %w", name, err)
	}
	return newFile(name+".html", out.Bytes), nil
}

// renderConsole renders the page of the console. Like [Site.layReference], it parses the contract itself, because the
// parsed contract takes megabytes that most processes never need.
func (s *Site) renderConsole() (*file, error) {
	doc, err := parse(s.contract.JSON())
	if err != nil {
		return nil, err
	}
	// The console shows only features with operations in this service's contract, because others would fail.
	var out []string
	for _, path := range doc.all("paths") {
		for _, m := range path.value.members {
			if id := m.value.str("operationId"); id != "" {
				out = append(out, id)
			}
		}
	}
	return s.render("console", pageData{Title: "Stoa console", Here: "console", Full: true, Operations: strings.Join(out, " ")})
}

// firstCall returns a call to paste. It reads the key from STOA_API_KEY.
func firstCall(origin string) string {
	return fmt.Sprintf(`curl %s/api/v1/responses \
  -H "Authorization: Bearer $STOA_API_KEY" \
  -H 'Content-Type: application/json' \
  -d '{"model": "auto", "input": "Why is the sky blue?"}'`, cmp.Or(origin, "http://127.0.0.1:8080"))
}

// Routes mounts every page, and "/" for every other path: 404 as a page in a browser and as the error envelope
// elsewhere. The API serves /api/v1/, except the explorer at GET /api/v1/doc.
func (s *Site) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/doc", s.explorer)
	mux.Handle("/embed/{id}", s.only(s.embed))
	mux.Handle("/embed.js", s.only(s.launcher))
	mux.Handle("/static/{name}", s.only(s.asset))
	mux.Handle(referenceRoot, s.only(s.referencePage))
	mux.Handle(referenceRoot+"/{page...}", s.only(s.referencePage))
	mux.Handle("/console", s.only(s.rendered(s.console, "dompurify")))
	mux.Handle("/join", s.only(s.page(s.join, "")))
	mux.Handle("/favicon.ico", s.only(func(w http.ResponseWriter, r *http.Request) { s.assets["icon.svg"].serve(w, r, revalidate) }))
	mux.Handle("/oauth/callback", s.only(s.callback, http.MethodPost))
	mux.Handle("/oauth/client.json", s.only(s.client))
	mux.Handle("/docs", s.only(s.guideList))
	mux.Handle("/docs/{guide}", s.only(s.guide))
	for from, to := range map[string]string{"/docs/{$}": "/docs", "/console/{$}": "/console", referenceRoot + "/{$}": referenceRoot} {
		mux.Handle(from, s.only(func(w http.ResponseWriter, r *http.Request) {
			guard(w, pagePolicy(""))
			http.Redirect(w, r, to, http.StatusPermanentRedirect)
		}))
	}
	mux.Handle("/{$}", s.only(s.page(s.landing, "")))
	mux.HandleFunc("/", s.notFound)
}

// Handler returns a handler for the pages alone.
func (s *Site) Handler() http.Handler {
	mux := http.NewServeMux()
	s.Routes(mux)
	return mux
}

// page serves a rendered page. types are the Trusted Types policies that its scripts may create.
func (s *Site) page(f *file, types string) http.HandlerFunc {
	policy := pagePolicy(types)
	return func(w http.ResponseWriter, r *http.Request) {
		guard(w, policy)
		f.serve(w, r, revalidate)
	}
}

// rendered is [Site.page] for a page that is rendered on first use.
func (s *Site) rendered(render func() (*file, error), types string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, err := render()
		if err != nil {
			s.refuse(w, stoa.Errorf(stoa.CodeInternal, "the page could not be rendered"))
			return
		}
		s.page(f, types)(w, r)
	}
}

// asset serves a script, a style, a font or a text. An address with the digest of the content can be cached for ever; so
// can fonts, because their names, which styles refer to, contain one.
func (s *Site) asset(w http.ResponseWriter, r *http.Request) {
	f := s.assets[r.PathValue("name")]
	if f == nil {
		s.notFound(w, r)
		return
	}
	guard(w, "default-src 'none'; frame-ancestors 'none'; sandbox")
	keep := revalidate
	if r.URL.Query().Get("v") == f.digest() || path.Ext(r.PathValue("name")) == fontExtension {
		keep = "public, max-age=31536000, immutable"
	}
	f.serve(w, r, keep)
}
