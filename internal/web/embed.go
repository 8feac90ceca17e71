package web

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"stoa/internal/stoa"
)

// Embeds returns for an embed URL the origins that may frame its chat page and
// its theme: light, dark or auto. found is false if there is no such embed.
type Embeds func(r *http.Request, id string) (origins []string, theme string, found bool, err error)

// embedPolicy is the content policy of the chat page. It differs from
// [pagePolicy] in who may frame it, and it shows no pictures at all.
func embedPolicy(origins []string) string {
	ancestors := "'none'"
	if len(origins) > 0 {
		ancestors = strings.Join(origins, " ")
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors " + ancestors + "; " +
		"require-trusted-types-for 'script'; trusted-types dompurify"
}

// guardEmbed sets the headers of the chat page. Those of [guard] would forbid
// every frame.
func guardEmbed(w http.ResponseWriter, origins []string) {
	guard(w, embedPolicy(origins))
	h := w.Header()
	h.Del("X-Frame-Options") // it knows no lists; frame-ancestors does
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Cache-Control", "no-store")
}

// embed serves the chat page of an embed URL. The page is the same whether the
// link is unused, used or expired: its script finds out, so that only origins
// that may frame the page see it.
func (s *Site) embed(w http.ResponseWriter, r *http.Request) {
	if s.embeds == nil {
		s.notFound(w, r)
		return
	}
	id := r.PathValue("id")
	if !stoa.IsID("emu", id) {
		s.notFound(w, r)
		return
	}
	origins, theme, found, err := s.embeds(r, id)
	if err != nil {
		s.refuse(w, stoa.Errorf(stoa.CodeOverloaded, "the chat cannot be opened at the moment"))
		return
	}
	if !found {
		s.notFound(w, r)
		return
	}
	if theme == "auto" {
		theme = ""
	}
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, "embed", struct{ ID, Theme, Origins string }{id, theme, strings.Join(origins, " ")}); err != nil {
		s.refuse(w, stoa.Errorf(stoa.CodeInternal, "the chat could not be laid out"))
		return
	}
	guardEmbed(w, origins)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	if r.Method != http.MethodHead {
		w.Write(out.Bytes())
	}
}
