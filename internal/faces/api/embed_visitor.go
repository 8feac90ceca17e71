package api

import (
	"context"
	"net/http"
	"strings"

	"stoa/internal/agents/embed"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	embedPrefix = rest.Prefix + "/embed"
	// preflightKept is the time in seconds for which a browser caches the answer, to avoid a preflight per request.
	preflightKept = "600"
)

func (s *Embeds) pageFrom(r *http.Request) embed.Page {
	return embed.Page{Origins: r.Header["Origin"], Site: r.Header.Get("Sec-Fetch-Site"), Address: s.ClientAddress(r)}
}

func (s *Embeds) visitor(w http.ResponseWriter, r *http.Request) (embed.Visitor, error) {
	chatID := r.PathValue("chatId")
	s.shareWith(w, r, chatID)
	headers := r.Header["Authorization"]
	if len(headers) != 1 { // because two tokens are rejected like none
		headers = []string{""}
	}
	who, err := s.embeds.Authenticate(r.Context(), headers[0], chatID, s.pageFrom(r))
	if stoa.CodeOf(err) == stoa.CodeOriginNotAllowed {
		w.Header().Del("Access-Control-Allow-Origin")
	}
	return who, err
}

// shareWith lets the page that sends the request read any reply, if it may read replies of the chat,
// and reports whether it does; see [embed.Embeds.MayRead].
func (s *Embeds) shareWith(w http.ResponseWriter, r *http.Request, chatID string) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := s.embeds.MayRead(r.Context(), chatID, s.pageFrom(r))
	if origin == "" {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "x-request-id, Retry-After, Idempotency-Replayed, x-should-retry")
	return true
}

// preflight reports whether the request is a preflight of the embed paths, and answers it. The page
// must be allowed for the chat in its path, because a preflight carries no token.
func (s *Embeds) preflight(w http.ResponseWriter, r *http.Request) (bool, error) {
	if !isPreflight(r) {
		return false, nil
	}
	rest, _ := strings.CutPrefix(r.URL.Path, embedPrefix)
	if tag, ok := strings.CutPrefix(rest, "/tags/"); ok {
		return true, s.preflightOfTag(w, r, strings.TrimSuffix(tag, "/tickets"))
	}
	chatID, inChat := strings.CutPrefix(rest, "/chat-sessions/")
	chatID, _, _ = strings.Cut(chatID, "/")
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Method")
	h.Add("Vary", "Access-Control-Request-Headers")
	if rest != "/refresh" && (!inChat || chatID == "") || !s.shareWith(w, r, chatID) {
		if inChat && chatID != "" {
			s.embeds.RefuseForChat(r.Context(), chatID, s.pageFrom(r))
		}
		return true, embed.ErrOrigin()
	}
	h.Del("Access-Control-Expose-Headers")
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID")
	h.Set("Access-Control-Max-Age", preflightKept)
	w.WriteHeader(http.StatusNoContent)
	return true, nil
}

func (s *Embeds) preflightOfTag(w http.ResponseWriter, r *http.Request, id string) error {
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Method")
	h.Add("Vary", "Access-Control-Request-Headers")
	if !s.shareTagWith(w, r, id) {
		s.embeds.RefuseForTag(r.Context(), id, s.pageFrom(r))
		return embed.ErrOrigin()
	}
	h.Del("Access-Control-Expose-Headers")
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Content-Type")
	h.Set("Access-Control-Max-Age", preflightKept)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && rest.Under(r.URL.Path, embedPrefix) && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// VisitorRequest is one validated request of a page with the token of an embed.
type VisitorRequest[P, B any] struct {
	Visitor embed.Visitor // never empty
	rest.Input[P, B]
}

func visitorUpdate[P, B, R any](e *Embeds, pattern string, h func(context.Context, VisitorRequest[P, B]) (rest.Reply[R], error)) rest.Route {
	return visiting(e, pattern, func(x *rest.Exchange, in VisitorRequest[P, B]) error {
		reply, err := h(x.Context(), in)
		return rest.Answer(x, reply, err)
	})
}

func visitorCreate[P, B, R any](e *Embeds, pattern string, h func(context.Context, *store.Tx, VisitorRequest[P, B]) (rest.Reply[R], error)) rest.Route {
	return visiting(e, pattern, func(x *rest.Exchange, in VisitorRequest[P, B]) error {
		return rest.Once(e.Base, x, in.Visitor.Caller, func(tx *store.Tx) (rest.Reply[R], error) {
			return h(x.Context(), tx, in)
		})
	})
}

func visitorStream[P any](e *Embeds, pattern string, h func(http.ResponseWriter, VisitorRequest[P, rest.None]) error) rest.Route {
	rt := visiting(e, pattern, func(x *rest.Exchange, in VisitorRequest[P, rest.None]) error { return h(x, in) })
	return rt.WithOwnBody()
}

// visiting authenticates with the token of an embed before it parses the input.
func visiting[P, B any](e *Embeds, pattern string, do func(*rest.Exchange, VisitorRequest[P, B]) error) rest.Route {
	return rest.Custom(pattern, func(x *rest.Exchange, read func() (rest.Input[P, B], error)) error {
		who, err := e.visitor(x, x.HTTP)
		x.Log.Caller = who.Caller
		if err != nil {
			return e.WrongKey(x.HTTP, err)
		}
		in, err := read()
		if err != nil {
			return err
		}
		return do(x, VisitorRequest[P, B]{Visitor: who, Input: in})
	})
}
