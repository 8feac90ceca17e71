package web

import (
	"bytes"
	"fmt"
	"net/http"

	"stoa/internal/base/stoa"
)

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
