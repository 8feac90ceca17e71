package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"stoa/internal/stoa"
)

// A LandingPage is what a person reads who comes back from an authorization server.
type LandingPage struct {
	Authorized bool
	Message    string
	Console    string // the address of the connection in the console; empty: it is not known
}

// authorized serves the page where people come back from authorization servers. What
// they bring is used up by it, so that HEAD does nothing.
func (s *Site) authorized(w http.ResponseWriter, r *http.Request) {
	guard(w, pagePolicy(""))
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead || s.land == nil {
		s.notFound(w, r)
		return
	}
	page := s.land(r)
	with := s.common
	with.Title, with.Page = "Not authorized · Stoa", page
	status := http.StatusBadRequest
	if page.Authorized {
		with.Title, status = "Authorized · Stoa", http.StatusOK
	}
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, "authorized", with); err != nil {
		s.refuse(w, stoa.Errorf(stoa.CodeInternal, "the page could not be rendered"))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", fmt.Sprint(out.Len()))
	w.WriteHeader(status)
	w.Write(out.Bytes())
}

// client serves what the service says of itself to authorization servers.
func (s *Site) client(w http.ResponseWriter, r *http.Request) {
	guard(w, "default-src 'none'; frame-ancestors 'none'; sandbox")
	if s.clientDocument == nil {
		s.notFound(w, r)
		return
	}
	d, err := s.clientDocument()
	if err != nil {
		s.notFound(w, r)
		return
	}
	text, err := json.Marshal(d)
	if err != nil {
		s.refuse(w, stoa.Errorf(stoa.CodeInternal, "the document could not be written"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	if r.Method != http.MethodHead {
		w.Write(text)
	}
}
