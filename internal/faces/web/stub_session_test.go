package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

const (
	stubAccount  = "acc_01k9zqd3m8w5x7y2c4b6n8p0ra"
	otherAccount = "acc_01k9zqd3m8w5x7y2c4b6n8p0rb"
	stubPerson   = "per_01k9zqd3m8w5x7y2c4b6n8p0ra"
)

// session serves /console/session: a key signs in for as long as it is good.
func (s *stub) session(w http.ResponseWriter, r *http.Request) {
	if s.cut.Load() {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("x-request-id", "req_01k9zqd3m8w5x7y2c4b6n8p0rc")
	switch r.Method {
	case http.MethodPost:
		var body struct{ Key string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			s.t.Error(err)
		}
		if s.refuse.Load() || body.Key != goodKey && body.Key != freeKey {
			s.fail(w, "Unauthorized", "There is no such API key.")
			return
		}
		s.begin(w, body.Key)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "{}")
	case http.MethodDelete:
		if c, err := r.Cookie("stoa-session"); err == nil {
			s.mu.Lock()
			delete(s.sessions, c.Value)
			s.mu.Unlock()
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		s.json(w, 200, s.signedIn(r))
	}
}

// begin sets the cookie of a new session of a key.
func (s *stub) begin(w http.ResponseWriter, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil {
		s.sessions = map[string]string{}
	}
	secret := fmt.Sprintf("secret%d", len(s.sessions))
	s.sessions[secret] = key
	if !s.cookieless {
		http.SetCookie(w, &http.Cookie{Name: "stoa-session", Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	}
}

// keyOf returns the key of a request with the cookie; empty if its session has ended.
func (s *stub) keyOf(r *http.Request) string {
	c, err := r.Cookie("stoa-session")
	if err != nil || s.refuse.Load() {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[c.Value]
}

func (s *stub) signedIn(r *http.Request) string {
	s.mu.Lock()
	person, signIn := s.person, s.signIn
	s.mu.Unlock()
	if signIn == "" {
		signIn = "[]"
	}
	account := `{"id":"` + stubAccount + `","name":"Ada's workshop","role":null}`
	switch {
	case s.keyOf(r) == "":
		return `{"signedIn":false,"person":null,"accounts":[],"keyId":null,"expiresAt":null,"signIn":` + signIn + `}`
	case person:
		account = strings.Replace(account, "null", `"owner"`, 1)
		return `{"signedIn":true,"person":{"id":"` + stubPerson + `","name":"Ada Lovelace","email":"ada@example.com"},"accounts":[` + account + `,{"id":"` + otherAccount + `","name":"Charity","role":"viewer"}],"keyId":null,"expiresAt":"2026-11-20T23:57:00.000Z","signIn":` + signIn + `}`
	}
	return `{"signedIn":true,"person":null,"accounts":[` + account + `],"keyId":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","expiresAt":"2026-11-20T23:57:00.000Z","signIn":` + signIn + `}`
}

// join serves /console/join for the links inv_good, which needs a provider if there is one, and
// inv_signin of a member.
func (s *stub) join(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("x-request-id", "req_01k9zqd3m8w5x7y2c4b6n8p0rc")
	var body struct {
		Token, SignIn string
		Look          bool
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	s.asked = append(s.asked, fmt.Sprint(r.Method, " ", r.URL.Path, " look ", body.Look))
	providers := "[]"
	if s.signIn != "" {
		providers = `["corp"]`
	}
	s.mu.Unlock()
	const more = `"accountId":"` + otherAccount + `","accountName":"Charity","operatorRole":null,"expiresAt":"2026-11-27T11:58:00.000Z",`
	switch {
	case r.Method != http.MethodPost || body.Token != "inv_good" && body.Token != "inv_signin":
		s.fail(w, "invitation_ended", "This link was used, was revoked or has expired.")
	case body.Look && body.Token == "inv_signin":
		s.json(w, 200, `{"kind":"signIn",`+more+`"role":"viewer","personName":"Ada Lovelace","signIn":[]}`)
	case body.Look:
		s.json(w, 200, `{"kind":"invitation",`+more+`"role":"owner","personName":null,"signIn":`+providers+`}`)
	case body.SignIn != "":
		s.json(w, 200, `{"accountId":null,"location":"/docs?signIn=`+body.SignIn+`"}`)
	default:
		s.begin(w, goodKey)
		s.json(w, 200, `{"accountId":"`+otherAccount+`","location":null}`)
	}
}
