package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"stoa/internal/base/stoa"
)

// A LandingPage is the page for a person who returns from an authorization server.
type LandingPage struct {
	Authorized bool
	Cancelled  bool
	Message    string
	Said       string           // message of the authorization server; may be empty
	Console    string           // address of the connection in the console; empty if unknown
	Question   *LandingQuestion // nil if the authorization has ended
}

// A LandingQuestion is the confirmation before anything is authorized.
type LandingQuestion struct {
	Token                      string // one-time token, sent with the answer
	Connection, Origin, Issuer string
	SignIn, TokenFrom          string // origins of the person's sign-in and of the token
	Account, AccountID, Space  string
	Scopes                     []string
	ExpiresAt                  time.Time
}

// maxAnswer is the maximum size of the answer to a [LandingQuestion], in bytes.
const maxAnswer = 4 << 10

// landingPolicy is the content policy of the page, which contains a form.
var landingPolicy = strings.Replace(pagePolicy(""), "form-action 'none'", "form-action 'self'", 1)

// callback serves the page to which authorization servers redirect people: GET shows the question, POST accepts the
// answer. HEAD does nothing, because GET consumes the code.
func (s *Site) callback(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodHead || s.land == nil || s.confirm == nil:
		s.notFound(w, r)
	case r.Method == http.MethodPost:
		s.confirmed(w, r)
	default:
		s.showLanding(w, s.land(r))
	}
}

// confirmed accepts the answer to the question only from its own page, because another site could send it.
func (s *Site) confirmed(w http.ResponseWriter, r *http.Request) {
	if http.NewCrossOriginProtection().Check(r) != nil {
		s.refuse(w, stoa.Errorf(stoa.CodeOriginNotAllowed, "An authorization can only be confirmed on the page of this service that requested it."))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxAnswer)
	decision := r.PostFormValue("decision")
	if err := r.ParseForm(); err != nil || decision != "connect" && decision != "cancel" {
		s.refuse(w, stoa.Errorf(stoa.CodeInvalidValue, "The answer must contain a token, and connect or cancel as its decision.").At("decision"))
		return
	}
	s.showLanding(w, s.confirm(r, r.PostFormValue("token"), decision == "connect"))
}

func (s *Site) showLanding(w http.ResponseWriter, page LandingPage) {
	with := s.common
	status := http.StatusOK
	switch {
	case page.Question != nil:
		with.Title = "Connect " + page.Question.Connection + "? · Stoa"
	case page.Authorized:
		with.Title = "Authorized · Stoa"
	case page.Cancelled:
		with.Title = "Cancelled · Stoa"
	default:
		with.Title, status = "Not authorized · Stoa", http.StatusBadRequest
	}
	with.Page = page
	s.dynamic(w, status, "authorized", with, landingPolicy)
}

// client serves the service's OAuth client document for authorization servers.
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
