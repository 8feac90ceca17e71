package web

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/stoa"
)

// A ChatPage contains the data of an embed URL's chat page that is shown before its script runs.
type ChatPage struct {
	Origins []string // origins that may frame it
	Theme   string   // light, dark or auto
	Accent  string   // colour, #rrggbb; empty means the default
	Logo    string   // address of the only picture that it shows; empty if none
	OfTag   bool     // created by a script tag, so that the preview page may frame it too
}

// Embeds returns the chat page of an embed URL; found is false if the embed does not exist.
type Embeds func(r *http.Request, id string) (page ChatPage, found bool, err error)

// embedPolicy is the content policy of the chat page. It differs from [pagePolicy] in the frame ancestors, and
// allows no picture except the logo.
func embedPolicy(origins []string, logo string) string {
	ancestors := "'none'"
	if len(origins) > 0 {
		ancestors = strings.Join(origins, " ")
	}
	pictures := ""
	if logo != "" {
		pictures = "img-src " + logo + "; "
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; " + pictures +
		"base-uri 'none'; form-action 'none'; frame-ancestors " + ancestors + "; " +
		"require-trusted-types-for 'script'; trusted-types dompurify"
}

// embed serves the chat page of an embed URL. The page is the same for unused, used and expired links, because its
// script reads the state, so that only origins that may frame the page can see it.
func (s *Site) embed(w http.ResponseWriter, r *http.Request) {
	if s.embeds == nil {
		s.notFound(w, r)
		return
	}
	id := r.PathValue("id")
	if stoa.IsID("pub", id) {
		s.write(w, r, "preview", struct{ ID string }{id}, func() {
			guard(w, previewPolicy)
			w.Header().Set("Cache-Control", "no-store")
		})
		return
	}
	if !stoa.IsID("emu", id) {
		s.notFound(w, r)
		return
	}
	page, found, err := s.embeds(r, id)
	if err != nil {
		s.refuse(w, stoa.Errorf(stoa.CodeOverloaded, "the chat cannot be opened at the moment"))
		return
	}
	if !found {
		s.notFound(w, r)
		return
	}
	if page.Theme == "auto" {
		page.Theme = ""
	}
	framers := page.Origins
	if page.OfTag {
		framers = append(slices.Clone(framers), "'self'")
	}
	s.write(w, r, "embed", struct {
		ChatPage
		ID, Listed string
	}{page, id, strings.Join(page.Origins, " ")}, func() {
		guard(w, embedPolicy(framers, page.Logo))
		h := w.Header()
		h.Del("X-Frame-Options") // removed, because it does not support lists; frame-ancestors does
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		h.Set("Cache-Control", "no-store")
	})
}

// write executes a separate template and sends it with the headers that guard sets.
func (s *Site) write(w http.ResponseWriter, r *http.Request, name string, with any, guard func()) {
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, name, with); err != nil {
		s.refuse(w, stoa.Errorf(stoa.CodeInternal, "the page could not be rendered"))
		return
	}
	guard()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	if r.Method != http.MethodHead {
		w.Write(out.Bytes())
	}
}

// previewPolicy is the content policy of the preview, which contains the launcher and the chat page.
const previewPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// launcher serves the script that pages of any origin include.
func (s *Site) launcher(w http.ResponseWriter, r *http.Request) {
	guard(w, "default-src 'none'; frame-ancestors 'none'; sandbox")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	s.assets["launcher.js"].serve(w, r, "public, max-age=3600")
}
