package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
)

// pagePolicy is the content policy of the service's own pages: scripts, styles and calls of this origin only, nothing
// inline, and text becomes HTML only through the named Trusted Types policies ("" for none). So injected text cannot
// run.
func pagePolicy(types string) string {
	if types == "" {
		types = "'none'"
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types " + types
}

func guard(w http.ResponseWriter, policy string) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}

// only rejects methods other than GET, HEAD and more.
func (s *Site) only(next http.HandlerFunc, more ...string) http.Handler {
	allowed := append([]string{http.MethodGet, http.MethodHead}, more...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(allowed, r.Method) {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			s.refuse(w, stoa.Errorf(stoa.CodeMethodNotAllowed, "%s accepts only %s", r.URL.Path, strings.Join(allowed, " and ")))
			return
		}
		next(w, r)
	})
}

// notFound serves 404: a page to a browser, and the error envelope to any other client, because programs parse it.
func (s *Site) notFound(w http.ResponseWriter, r *http.Request) {
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	if stoa.IsGemini(r.URL.Path) {
		s.refuse(w, stoa.Errorf(stoa.CodeNotFound, "There is nothing at %s. Set the base URL of a client of Gemini's API to this address followed by /api; the operator can enable the extension \"gemini\".", r.URL.Path))
		return
	}
	if !reading || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.refuse(w, stoa.Errorf(stoa.CodeNotFound, "There is nothing at %s. The paths of the API begin with /api/v1.", r.URL.Path))
		return
	}
	guard(w, pagePolicy(""))
	w.Header().Set("Content-Type", s.missing.kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNotFound)
	if r.Method != http.MethodHead {
		w.Write(s.missing.plain())
	}
}

// refuse writes the service's error envelope. The request id is in the header x-request-id, because the
// outer handler has set it.
func (s *Site) refuse(w http.ResponseWriter, e *stoa.Error) {
	info := contract.Code(e.Code)
	guard(w, "default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(info.Status)
	_ = json.NewEncoder(w).Encode(contract.ErrorEnvelope{Error: contract.ErrorBody{ // an error is ignored, because the caller may have disconnected
		Message: e.Message, Type: info.Type, Code: string(info.Code),
		RequestID: w.Header().Get("x-request-id"), Retryable: info.Retryable,
	}})
}

// Message serves a page with a title and a text.
func (s *Site) Message(w http.ResponseWriter, status int, title, text string) {
	with := s.common
	with.Title = title + " · Stoa"
	with.Page = struct{ Title, Text string }{title, text}
	s.dynamic(w, status, "message", with, pagePolicy(""))
}

// dynamic serves a page that is rendered for one request.
func (s *Site) dynamic(w http.ResponseWriter, status int, name string, with pageData, policy string) {
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, name, with); err != nil {
		s.refuse(w, stoa.Errorf(stoa.CodeInternal, "the page could not be rendered"))
		return
	}
	guard(w, policy)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", fmt.Sprint(out.Len()))
	w.WriteHeader(status)
	w.Write(out.Bytes())
}
