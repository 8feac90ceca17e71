package app

import (
	"net/http"

	"stoa/internal/agents/tool"
	"stoa/internal/faces/web"
)

// land processes a person's return from an authorization server.
func (s *Service) land(r *http.Request) web.LandingPage {
	return landingPage(s.Tools.Land(r.Context(), r.URL.Query()))
}

// confirm processes a person's answer to the question on the landing page.
func (s *Service) confirm(r *http.Request, token string, connect bool) web.LandingPage {
	return landingPage(s.Tools.Confirm(r.Context(), token, connect))
}

func landingPage(l tool.Landing) web.LandingPage {
	page := web.LandingPage{Authorized: l.Authorized, Cancelled: l.Cancelled, Message: l.Message, Said: l.Said}
	if q := l.Question; q != nil {
		page.Question = &web.LandingQuestion{
			Token: q.Token, Connection: q.Connection, Origin: q.Origin, Space: q.SpaceName, Account: q.AccountName, AccountID: q.AccountID, Issuer: q.Issuer, Scopes: q.Scopes,
			SignIn: q.SignIn, TokenFrom: q.TokenFrom, ExpiresAt: q.ExpiresAt,
		}
	} else if l.ConnectionID != "" {
		page.Console = "/console#connections/" + l.ConnectionID
	}
	return page
}
