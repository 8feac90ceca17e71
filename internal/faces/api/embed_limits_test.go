package api_test

import (
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestEmbedsOfSessionsNeedTheirScope checks that a key with embeds:write alone
// cannot read or continue a session that no embed started.
func TestEmbedsOfSessionsNeedTheirScope(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	s, _ := a.begin(t, "say: private", nil)
	body := object{"allowedOrigins": []string{site}, "chatSessionId": s.ID}
	secret, _ := h.NewKey(h.Account.ID, "embeds:write")
	narrow := a
	narrow.Client = h.ClientWith(t, secret)
	for _, kind := range []string{"/embed-sessions", "/embed-urls"} {
		if e := narrow.WantError(stoa.CodeScope, "POST", a.agent+kind, body); deref(e.Param) != "chatSessionId" {
			t.Errorf("param is %q", deref(e.Param))
		}
	}
	secret, _ = h.NewKey(h.Account.ID, "embeds:write", "sessions:write")
	h.ClientWith(t, secret).Want(201, "POST", a.agent+"/embed-sessions", body)

	// A chat that an embed started may be continued by any embed of the account.
	v := newVisit(t, narrow, nil)
	v.say("say: hello")
	v.until(t, "completed")
	newVisit(t, narrow, object{"chatSessionId": v.embed.ChatSessionID})
}

func TestEmbedsHaveADefaultCreditCap(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	for _, given := range []object{nil, {"maxCreditsMicro": nil}} {
		if got := newVisit(t, a, given).embed.MaxCreditsMicro; orNone(got) != 5_000_000 {
			t.Errorf("with %v the cap is %v", given, got)
		}
	}
	var url contract.EmbedURL
	a.Want(201, "POST", a.agent+"/embed-urls", object{"allowedOrigins": []string{site}, "maxCreditsMicro": 7}).JSON(&url)
	if orNone(url.MaxCreditsMicro) != 7 {
		t.Errorf("a cap of 7 is %v", url.MaxCreditsMicro)
	}
}

// TestEmbedsEndWithTheirKey checks that a revoked key leaves no token behind, and
// that a rotated one does.
func TestEmbedsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	owner := newAuthor(t, h, h.Client(t), nil)
	minted := func() (string, author) {
		var key contract.KeyWithSecret
		owner.Want(201, "POST", "/api/v1/keys", object{"name": "site", "scopes": []string{"embeds:write"}}).JSON(&key)
		a := owner
		a.Client = h.ClientWith(t, key.Secret)
		return key.ID, a
	}
	id, a := minted()
	v := newVisit(t, a, nil)
	_, exchange := link(t, a, nil)
	v.say("say: hello")
	var next contract.KeyWithSecret
	owner.Want(201, "POST", "/api/v1/keys/"+id+"/rotate", object{"overlapSeconds": 0}).JSON(&next)
	a.WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
	v.Want(200, "GET", v.chat, nil)
	v.say("say: still here")
	owner.Want(204, "DELETE", "/api/v1/keys/"+next.ID, nil)
	v.WantError(stoa.CodeUnauthorized, "GET", v.chat, nil)
	v.WantError(stoa.CodeUnauthorized, "POST", v.chat+"/messages", object{"message": "say: no more"})
	v.WantError(stoa.CodeUnauthorized, "POST", "/api/v1/embed/refresh", nil)
	h.ClientWith(t, "").WantError(stoa.CodeUnauthorized, "POST", "/api/v1/embed/exchange", exchange)

	id, a = minted()
	v = newVisit(t, a, nil)
	owner.Want(204, "DELETE", "/api/v1/keys/"+id, nil)
	v.WantError(stoa.CodeUnauthorized, "GET", v.chat, nil)
}
