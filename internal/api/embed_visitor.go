package api

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"stoa/internal/auth"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// What a visitor's page may do, beside the embed's own caps.
const (
	embedRequests = 300 // with one embed, in a minute
	embedStreams  = 10  // of one embed, at a time
	embedRefusals = 60  // of one embed that are counted, in a minute
	agentMessages = 300 // to one agent, of all its visitors, in a minute
	preflightKept = "600"

	embedPrefix = prefix + "/embed"
	noOrigin    = "(none)"
)

// visitor finds out who shows a token and checks that this page may show it
// here: the token is good for one chat, and for the pages of its embed.
func (s *Server) visitor(w http.ResponseWriter, r *http.Request) (auth.Embedded, error) {
	s.shareWith(w, r, r.PathValue("chatId"))
	headers := r.Header["Authorization"]
	if len(headers) != 1 { // two tokens are no token
		headers = []string{""}
	}
	who, err := s.embeds().Verify(r.Context(), headers[0])
	if err != nil {
		return who, err
	}
	if id := r.PathValue("chatId"); id != "" && id != who.Embed.ChatID {
		return who, stoa.Errorf(stoa.CodeUnauthorized, "The embed token is missing or not valid. Send it as: Authorization: Bearer est_…")
	}
	if !s.fromRightPage(r, who.Embed) {
		s.refuseOrigin(r, who.Embed.ID)
		w.Header().Del("Access-Control-Allow-Origin")
		return who, wrongOrigin()
	}
	if s.limitsOff() {
		return who, nil
	}
	if wait, ok := s.limits.rates.Take(who.Embed.ID, embedRequests, time.Now()); !ok {
		return who, stoa.Errorf(stoa.CodeRateLimit, "This chat may make %d requests in a minute and has made them. Try again in %d seconds.", embedRequests, wait/time.Second).After(wait)
	}
	return who, nil
}

// admitVisitor counts a message against what an agent takes from all its visitors
// together, so that a page that hands out embeds to anybody cannot be used to
// flood the account.
func (s *Server) admitVisitor(e store.Embed) error {
	if s.limitsOff() {
		return nil
	}
	if wait, ok := s.limits.rates.Take("visitors of "+e.AgentID, agentMessages, time.Now()); !ok {
		return stoa.Errorf(stoa.CodeEmbedLimit, "Too many people talk to this agent at the moment. Try again in %d seconds.", wait/time.Second).After(wait)
	}
	return nil
}

func wrongOrigin() error {
	return stoa.Errorf(stoa.CodeOriginNotAllowed, "This page may not show the agent. Its owner can list the page's origin when the embed is made: allowedOrigins.")
}

// fromRightPage reports whether the page that asks is one of the embed: for a
// token of a link, our own chat page; for one of an embed session, a listed
// origin, which browsers name with every request.
func (s *Server) fromRightPage(r *http.Request, e store.Embed) bool {
	if e.Kind == store.EmbedURL {
		return s.fromOurPage(r)
	}
	origins := r.Header["Origin"]
	return len(origins) == 1 && auth.Lists(e.Origins, origins[0])
}

// fromOurPage reports whether a request comes from a page of this service, or from
// no page at all. The Host header says nothing: whoever asks has written it.
func (s *Server) fromOurPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	origins := r.Header["Origin"]
	return len(origins) == 0 || len(origins) == 1 && origins[0] == s.ownOrigin()
}

// ownOrigin is the service's own, as a browser writes it.
func (s *Server) ownOrigin() string {
	u, err := url.Parse(s.PublicURL)
	if err != nil || u.Host == "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	if u.Scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	} else if u.Scheme == "http" {
		host = strings.TrimSuffix(host, ":80")
	}
	return u.Scheme + "://" + host
}

// shareWith lets the page that asks read the reply, whatever it is, if it is a
// page of the chat (or, where the path names none, of any).
func (s *Server) shareWith(w http.ResponseWriter, r *http.Request, chatID string) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origins := r.Header["Origin"]
	if len(origins) != 1 {
		return false
	}
	patterns := auth.Patterns(origins[0])
	if len(patterns) == 0 {
		return false
	}
	found := false
	err := s.Store.Read(r.Context(), func(tx *store.Tx) (err error) {
		_, found, err = tx.EmbedListing(r.Context(), chatID, patterns)
		return err
	})
	if err != nil || !found {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Access-Control-Expose-Headers", "x-request-id, Retry-After, Idempotency-Replayed, x-should-retry")
	return true
}

// preflight answers a browser that asks whether a page may send a request. It
// carries no token: the chat in its path has to be one that the page may show.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request) error {
	rest, _ := strings.CutPrefix(r.URL.Path, embedPrefix)
	chatID, inChat := strings.CutPrefix(rest, "/chat-sessions/")
	chatID, _, _ = strings.Cut(chatID, "/")
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Method")
	h.Add("Vary", "Access-Control-Request-Headers")
	if rest != "/refresh" && (!inChat || chatID == "") || !s.shareWith(w, r, chatID) {
		if inChat && chatID != "" {
			s.refuseOriginOfChat(r, chatID)
		}
		return wrongOrigin()
	}
	h.Del("Access-Control-Expose-Headers")
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID")
	h.Set("Access-Control-Max-Age", preflightKept)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// isPreflight reports whether a browser asks in advance about the embed paths.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && under(r.URL.Path, embedPrefix) && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

func (s *Server) refuseOriginOfChat(r *http.Request, chatID string) {
	var id string
	var found bool
	err := s.Store.Read(r.Context(), func(tx *store.Tx) (err error) {
		id, found, err = tx.EmbedOfChat(r.Context(), chatID)
		return err
	})
	if err == nil && found {
		s.refuseOrigin(r, id)
	}
}

// refuseOrigin notes for the owner which page asked. Nobody's request fails
// because that cannot be noted.
func (s *Server) refuseOrigin(r *http.Request, embedID string) {
	if _, ok := s.limits.rates.Take("refused by "+embedID, embedRefusals, time.Now()); !ok {
		return
	}
	origin := noOrigin
	if origins := r.Header["Origin"]; len(origins) > 0 {
		origin = origins[0]
		if len(auth.Patterns(origin)) == 0 || !isText(origin) {
			origin = "(not an origin)"
		}
	}
	err := s.Store.Write(r.Context(), func(tx *store.Tx) error { return tx.RefuseOrigin(r.Context(), embedID, origin) })
	if err != nil {
		s.Logger.Warn("a refused origin was not noted", "embed", embedID, "error", err)
	}
}
