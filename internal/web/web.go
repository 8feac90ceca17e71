// Package web serves the pages that people look at: the landing page, the
// explorer at /api/v1/doc, the endpoint reference at /docs/api-openapi, the
// console at /console, the chat at /embed/{id}, and the styles and scripts they
// share. Everything is embedded; no page asks another host for anything.
//
// It never reads the database, calls a model or checks a key: the console is a
// client of the public API like any other. The sources of scripts and styles
// are in ui/ and are bundled into static/ by go generate, without Node.
//
// Start reading at [Site.Routes]. The reference page is laid out by
// [newReference] from the contract document.
package web

import (
	"bytes"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"stoa/internal/contract"
	"stoa/internal/stoa"
)

//go:generate go run ./ui/build

//go:embed templates/*.html
var templateFiles embed.FS

// Config says what the pages tell of the service. The zero value works.
type Config struct {
	Version string // of the program, shown at the foot of pages; "": none
	Embeds  Embeds // for the chat page at /embed/{id}; nil: there is none
}

// A Site serves the pages. It is safe for concurrent use and never changes
// after [New].
type Site struct {
	assets    assets
	embeds    Embeds
	templates *template.Template
	shell     shell
	landing   *file
	console   *file
	lost      *file
	reference func() (*file, error) // laid out when it is first asked for
}

// A shell is what every page's frame is filled with.
type shell struct {
	Title, Summary, Here string
	Version              string
	Full                 bool // the bar reaches from edge to edge
	Page                 any
	Operations           string // what the contract offers, separated by spaces
	Nonce                string
	Sample               string
}

// New renders the pages, but for the reference, which takes longer than all the
// others and waits for its first reader. It fails only if the contract or a
// template is broken, which a test would have shown.
func New(cfg Config) (*Site, error) {
	s := &Site{shell: shell{Version: cfg.Version}, embeds: cfg.Embeds}
	var err error
	if s.assets, err = loadAssets(); err != nil {
		return nil, err
	}
	s.templates, err = template.New("").Funcs(template.FuncMap{"asset": s.assets.url}).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse the templates: %w", err)
	}
	doc, err := parse(contract.JSON())
	if err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	s.reference = sync.OnceValues(func() (*file, error) { return s.layOut(doc) })
	for _, page := range []struct {
		to   **file
		name string
		with shell
	}{
		{&s.landing, "landing", shell{Title: "Stoa", Summary: "Models and hosted agents behind one API key.", Sample: firstCall}},
		{&s.console, "console", shell{Title: "Stoa console", Here: "console", Full: true, Operations: strings.Join(operations(doc), " ")}},
		{&s.lost, "lost", shell{Title: "No such page · Stoa"}},
	} {
		if *page.to, err = s.render(page.name, page.with); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// render fills a template.
func (s *Site) render(name string, with shell) (*file, error) {
	with.Version = s.shell.Version
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, name, with); err != nil {
		return nil, fmt.Errorf("render the page %q: %w", name, err)
	}
	return newFile(name+".html", out.Bytes()), nil
}

// layOut makes the reference page.
func (s *Site) layOut(doc *value) (*file, error) {
	ref, err := newReference(doc)
	if err != nil {
		return nil, err
	}
	return s.render("reference", shell{Title: ref.Title + " API reference", Summary: "Endpoints, schemas, events and error codes.", Here: "reference", Page: ref})
}

const firstCall = `curl "$STOA_BASE_URL/api/v1/responses" \
  --header "Authorization: Bearer $STOA_API_KEY" \
  --json '{"model": "auto", "input": "Why is the sky blue?"}'`

// Routes mounts every page, and "/" for whatever is left: addresses that lead
// nowhere get a page in a browser and the error envelope elsewhere. The API
// keeps /api/v1/ for itself, but for the explorer at GET /api/v1/doc.
func (s *Site) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/doc", s.explorer)
	mux.Handle("/embed/{id}", s.only(s.embed))
	mux.Handle("/static/{name}", s.only(s.asset))
	mux.Handle("/docs/api-openapi", s.only(func(w http.ResponseWriter, r *http.Request) {
		f, err := s.reference()
		if err != nil {
			s.refuse(w, stoa.Errorf(stoa.CodeInternal, "the reference could not be laid out"))
			return
		}
		s.page(f, "")(w, r)
	}))
	mux.Handle("/console", s.only(s.page(s.console, "dompurify")))
	mux.Handle("/favicon.ico", s.only(func(w http.ResponseWriter, r *http.Request) { s.assets["icon.svg"].serve(w, r, revalidate) }))
	for from, to := range map[string]string{"/docs": "/docs/api-openapi", "/docs/{$}": "/docs/api-openapi", "/console/{$}": "/console"} {
		mux.Handle(from, s.only(func(w http.ResponseWriter, r *http.Request) {
			guard(w, pagePolicy(""))
			http.Redirect(w, r, to, http.StatusPermanentRedirect)
		}))
	}
	mux.Handle("/{$}", s.only(s.page(s.landing, "")))
	mux.HandleFunc("/", s.nowhere)
}

// Handler serves the pages alone.
func (s *Site) Handler() http.Handler {
	mux := http.NewServeMux()
	s.Routes(mux)
	return mux
}

// page serves a rendered page. Types names the Trusted Types policies that its
// scripts may make.
func (s *Site) page(f *file, types string) http.HandlerFunc {
	policy := pagePolicy(types)
	return func(w http.ResponseWriter, r *http.Request) {
		guard(w, policy)
		f.serve(w, r, revalidate)
	}
}

// explorer serves the page of the explorer. Its script sets styles of its own,
// which the policy lets in by a number used once.
func (s *Site) explorer(w http.ResponseWriter, r *http.Request) {
	var raw [16]byte
	rand.Read(raw[:]) // never fails
	nonce := base64.RawURLEncoding.EncodeToString(raw[:])
	with := s.shell
	with.Title, with.Summary, with.Here, with.Full, with.Nonce = "Stoa API explorer", "Every operation with a form to call it.", "explorer", true, nonce
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, "explorer", with); err != nil {
		http.Error(w, "the explorer could not be rendered", http.StatusInternalServerError)
		return
	}
	guard(w, explorerPolicy(nonce))
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", fmt.Sprint(out.Len()))
	if r.Method != http.MethodHead {
		w.Write(out.Bytes())
	}
}

// asset serves a script, a style or a text. An address with the digest of the
// content may be kept for good.
func (s *Site) asset(w http.ResponseWriter, r *http.Request) {
	f := s.assets[r.PathValue("name")]
	if f == nil {
		s.nowhere(w, r)
		return
	}
	guard(w, "default-src 'none'; frame-ancestors 'none'; sandbox")
	keep := revalidate
	if r.URL.Query().Get("v") == f.digest {
		keep = "public, max-age=31536000, immutable"
	}
	f.serve(w, r, keep)
}
