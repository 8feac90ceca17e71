package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// newTag makes a script tag of an agent. page is a client as its page: without a key.
func newTag(t *testing.T, a author, more object) (tag contract.EmbedTag, path string, page *apitest.Client) {
	t.Helper()
	body := object{"allowedOrigins": []string{site}}
	for k, v := range more {
		body[k] = v
	}
	r := a.Want(201, "POST", a.agent+"/embed-tags", body).JSON(&tag)
	if path = a.agent + "/embed-tags/" + tag.ID; r.Header.Get("Location") != path {
		t.Errorf("it is at %q", r.Header.Get("Location"))
	}
	return tag, path, a.h.ClientWith(t, "").With("Origin", site)
}

// shows is the public path of a tag.
func shows(tag contract.EmbedTag) string { return "/api/v1/embed/tags/" + tag.ID }

// A tagVisit is a chat that a tag opened.
type tagVisit struct {
	visit
	ticket contract.EmbedTicket
	token  contract.EmbedToken
}

// visitTag opens a visitor's chat as the launcher and the chat page do.
func visitTag(t *testing.T, a author, tag contract.EmbedTag, page *apitest.Client, visitorToken string) (v tagVisit) {
	t.Helper()
	body := object{}
	if visitorToken != "" {
		body["visitorToken"] = visitorToken
	}
	page.Want(200, "POST", shows(tag)+"/tickets", body).JSON(&v.ticket)
	v.token = exchange(t, a.h, v.ticket, 200)
	v.visit = visit{Client: a.h.ClientWith(t, v.token.Token), author: a, chat: "/api/v1/embed/chat-sessions/" + v.token.ChatSessionID}
	return v
}

func exchange(t *testing.T, h *apitest.Service, ticket contract.EmbedTicket, status int) (token contract.EmbedToken) {
	t.Helper()
	address, secret, _ := strings.Cut(ticket.URL, "#t=")
	r := h.ClientWith(t, "").Want(status, "POST", "/api/v1/embed/exchange", object{"embedUrlId": address[strings.LastIndex(address, "/")+1:], "ticket": secret})
	if status == 200 {
		r.JSON(&token)
	}
	return token
}

func TestAScriptTagIsKept(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), object{"name": "Guide"})
	tag, path, _ := newTag(t, a, nil)
	if !tag.Enabled || tag.Theme != "auto" || tag.Position != "right" || tag.Language != "auto" || tag.ChatsPerDay != 200 || tag.MaxCreditsMicro != 5_000_000 ||
		tag.Snippet != `<script src="`+h.URL+`/embed.js" data-embed="`+tag.ID+`" async></script>` || tag.PreviewURL != h.URL+"/embed/"+tag.ID {
		t.Errorf("it is %+v", tag)
	}
	more := object{
		"theme": "dark", "accentColor": "#1A7f5a", "position": "left", "language": "de", "greeting": "Hallo.", "maxCreditsMicro": 7, "chatsPerDay": 3, "enabled": false,
		"allowedOrigins": []string{"https://*.Example.com", "http://localhost:3000"},
	}
	r := a.Want(200, "PATCH", path, more).JSON(&tag)
	if tag.Enabled || orNone(tag.DisabledReason) != "user" || tag.Theme != "dark" || orNone(tag.AccentColor) != "#1a7f5a" || tag.Position != "left" || tag.Language != "de" ||
		orNone(tag.Greeting) != "Hallo." || tag.MaxCreditsMicro != 7 || tag.ChatsPerDay != 3 || strings.Join(tag.AllowedOrigins, " ") != "https://*.example.com http://localhost:3000" {
		t.Errorf("it is %+v", tag)
	}
	var read contract.EmbedTag
	if got := a.Want(200, "GET", path, nil).JSON(&read); got.Header.Get("ETag") != r.Header.Get("ETag") || read.Snippet != tag.Snippet || orNone(read.AccentColor) != "#1a7f5a" {
		t.Errorf("%v %+v", got.Header, read)
	}
	a.With("If-Match", `"r1"`).WantError(stoa.CodePrecondition, "PATCH", path, object{"theme": "light"})
	a.With("If-Match", `"r1"`).WantError(stoa.CodePrecondition, "DELETE", path, nil)
	a.Want(200, "PATCH", path, object{"accentColor": nil, "enabled": nil, "maxCreditsMicro": nil, "chatsPerDay": nil, "theme": nil, "greeting": nil}).JSON(&tag)
	if !tag.Enabled || !tag.AccentColor.IsNull() || !tag.DisabledReason.IsNull() || tag.MaxCreditsMicro != 5_000_000 || tag.ChatsPerDay != 200 || tag.Theme != "auto" || !tag.Greeting.IsNull() {
		t.Errorf("with the defaults it is %+v", tag)
	}
	for member, wrong := range map[string]any{"accentColor": "red", "position": "top", "theme": "blue", "language": "xx", "chatsPerDay": 0, "maxCreditsMicro": -1} {
		for _, try := range [][2]string{{"POST", a.agent + "/embed-tags"}, {"PATCH", path}} {
			if e := a.WantError(stoa.CodeInvalidValue, try[0], try[1], object{"allowedOrigins": []string{site}, member: wrong}); e.Param == nil || *e.Param != member {
				t.Errorf("%s %s: it names %+v", try[0], member, e)
			}
		}
	}
	a.WantError(stoa.CodeOriginsRequired, "POST", a.agent+"/embed-tags", object{})
	a.WantError(stoa.CodeOriginsRequired, "PATCH", path, object{"allowedOrigins": nil})
	a.WantError(stoa.CodeInvalidValue, "PATCH", path, object{"allowedOrigins": []string{"http://example.com"}})
	a.WantError(stoa.CodeNotFound, "GET", a.agent+"/embed-tags/pub_x", nil)
	a.WantError(stoa.CodeNotFound, "PATCH", a.agent+"/embed-tags/pub_x", object{})
	a.WantError(stoa.CodeNotFound, "DELETE", a.agent+"/embed-tags/pub_x", nil)
	a.With("If-Match", `"r1"`).WantError(stoa.CodeNotFound, "DELETE", a.agent+"/embed-tags/pub_x", nil)
	once := a.With("Idempotency-Key", "tag")
	once.Want(201, "POST", a.agent+"/embed-tags", object{"allowedOrigins": []string{site}})
	once.WantError(stoa.CodeIdempotencyReused, "POST", a.agent+"/embed-tags", object{"allowedOrigins": []string{"https://b.example"}})
	for range 18 {
		newTag(t, a, nil)
	}
	a.WantError(stoa.CodeLimitReached, "POST", a.agent+"/embed-tags", object{"allowedOrigins": []string{site}})
	a.Want(204, "DELETE", path, nil)
	a.WantError(stoa.CodeNotFound, "GET", path, nil)
	newTag(t, a, nil)
	a.Want(200, "PATCH", a.agent, object{"embedEnabled": false})
	a.WantError(stoa.CodeEmbedDisabled, "POST", a.agent+"/embed-tags", object{"allowedOrigins": []string{site}})
}

func TestAStaticPageTalksToTheAgent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"name": "Guide"})
	tag, path, page := newTag(t, a, object{"accentColor": "#1a7f5a", "greeting": "Hello."})
	var look contract.EmbedLauncher
	r := page.Want(200, "GET", shows(tag), nil).JSON(&look)
	if look.Agent.Name != "Guide" || orNone(look.AccentColor) != "#1a7f5a" || look.Position != "right" || r.Header.Get("Access-Control-Allow-Origin") != site {
		t.Errorf("%v %+v", r.Header, look)
	}
	// The service's own preview needs no place in the list.
	h.ClientWith(t, "").With("Sec-Fetch-Site", "same-origin").Want(200, "GET", shows(tag), nil)
	h.ClientWith(t, "").With("Origin", h.URL).Want(200, "POST", shows(tag)+"/tickets", nil)

	v := visitTag(t, a, tag, page, "")
	v.say("say: first")
	chat := v.until(t, "completed")
	if len(chat.Messages) != 2 || orNone(chat.Greeting) != "Hello." {
		t.Fatalf("the chat is %+v", chat)
	}
	exchange(t, h, v.ticket, 409) // a ticket works once

	// A reload goes on with it, and so does another tab at the same time.
	again := visitTag(t, a, tag, page, v.ticket.VisitorToken)
	other := visitTag(t, a, tag, page, v.ticket.VisitorToken)
	for _, w := range []tagVisit{again, other} {
		if w.token.ChatSessionID != v.token.ChatSessionID || w.ticket.VisitorToken != v.ticket.VisitorToken {
			t.Errorf("it is another chat: %+v", w.ticket)
		}
		w.Want(200, "GET", w.chat, nil)
	}
	again.say("say: second")
	if chat := v.until(t, "completed"); len(chat.Messages) != 4 || chat.Remaining.Messages != 48 {
		t.Errorf("the chat is %+v", chat)
	}
	// Another visitor, and one with a guessed token, get separate chats.
	for _, token := range []string{"", "evt_guess", "est_x", strings.Repeat("x", 200)} {
		if w := visitTag(t, a, tag, page, token); w.token.ChatSessionID == v.token.ChatSessionID {
			t.Errorf("with %q it is the same chat", token)
		}
	}
	// A token of one tag opens nothing of another.
	second, _, _ := newTag(t, a, nil)
	if w := visitTag(t, a, second, page, v.ticket.VisitorToken); w.token.ChatSessionID == v.token.ChatSessionID {
		t.Error("another tag opens the same chat")
	}
	var s contract.Session
	a.Want(200, "GET", a.agent+"/sessions/"+v.token.ChatSessionID, nil).JSON(&s)
	var embed contract.EmbedURL
	a.Want(200, "GET", a.agent+"/embed-urls/"+orNone(s.Trigger.ID), nil).JSON(&embed)
	if s.Trigger.Type != "embed" || embed.TagID != tag.ID || embed.Status != "active" || embed.MessagesSent != 2 {
		t.Errorf("its owner sees %+v and %+v", s.Trigger, embed)
	}
	// What its owner says of a chat that is revoked or deleted: the visitor's next is another.
	a.Want(204, "DELETE", a.agent+"/embed-urls/"+embed.ID, nil)
	v.WantError(stoa.CodeUnauthorized, "GET", v.chat, nil)
	third := visitTag(t, a, tag, page, v.ticket.VisitorToken)
	if third.token.ChatSessionID == v.token.ChatSessionID {
		t.Error("a revoked chat goes on")
	}
	third.say("say: third")
	third.until(t, "completed")
	a.Want(204, "DELETE", a.agent+"/sessions/"+third.token.ChatSessionID, nil)
	fourth := visitTag(t, a, tag, page, third.ticket.VisitorToken)
	if fourth.token.ChatSessionID == third.token.ChatSessionID {
		t.Error("a deleted chat goes on")
	}
	// A change is for open chats too; disabling stops them, deletion ends them.
	a.Want(200, "PATCH", path, object{"greeting": "Welcome back."})
	if fourth.Want(200, "GET", fourth.chat, nil).JSON(&chat); orNone(chat.Greeting) != "Welcome back." {
		t.Errorf("the greeting is %v", chat.Greeting)
	}
	var waiting contract.EmbedTicket
	page.Want(200, "POST", shows(tag)+"/tickets", nil).JSON(&waiting)
	a.Want(200, "PATCH", path, object{"enabled": false})
	fourth.WantError(stoa.CodeEmbedDisabled, "GET", fourth.chat, nil)
	exchange(t, h, waiting, 403)
	page.WantError(stoa.CodeEmbedDisabled, "GET", shows(tag), nil)
	page.WantError(stoa.CodeEmbedDisabled, "POST", shows(tag)+"/tickets", nil)
	a.Want(200, "PATCH", path, object{"enabled": true})
	fourth.Want(200, "GET", fourth.chat, nil)
	exchange(t, h, waiting, 200)
	a.Want(204, "DELETE", path, nil)
	fourth.WantError(stoa.CodeUnauthorized, "GET", fourth.chat, nil)
	page.WantError(stoa.CodeOriginNotAllowed, "GET", shows(tag), nil)
}

func TestWrongPagesOfATagAreTold(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	tag, path, page := newTag(t, a, nil)
	const evil = "https://evil.example"
	wrong := page.With("Origin", evil)
	for _, test := range []struct{ method, path string }{{"GET", shows(tag)}, {"POST", shows(tag) + "/tickets"}} {
		r := wrong.Do(test.method, test.path, nil)
		if e := r.Error(); r.Status != 403 || e.Code != "origin_not_allowed" || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%d %v %+v", r.Status, r.Header, e)
		}
		page.With("Origin", "").WantError(stoa.CodeOriginNotAllowed, test.method, test.path, nil)
		page.With("Origin", "null").With("Sec-Fetch-Site", "cross-site").WantError(stoa.CodeOriginNotAllowed, test.method, test.path, nil)
		// Other pages cannot find out whether the tag exists.
		page.WantError(stoa.CodeOriginNotAllowed, test.method, strings.Replace(test.path, tag.ID, stoa.NewID("pub"), 1), nil)
		page.WantError(stoa.CodeNotFound, test.method, strings.Replace(test.path, tag.ID, "x", 1), nil)
	}
	preflight := func(origin string) *http.Response {
		req := httptest.NewRequest("OPTIONS", h.URL+shows(tag)+"/tickets", nil)
		req.Header.Set("Origin", origin)
		req.Header.Set("Access-Control-Request-Method", "POST")
		w := httptest.NewRecorder()
		h.Server.Handler().ServeHTTP(w, req)
		return w.Result()
	}
	if r := preflight(site); r.StatusCode != 204 || r.Header.Get("Access-Control-Allow-Origin") != site || r.Header.Get("Access-Control-Allow-Headers") != "Content-Type" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	if r := preflight(evil); r.StatusCode != 403 || r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	var list contract.EmbedTagList
	a.Want(200, "GET", a.agent+"/embed-tags", nil).JSON(&list)
	a.Want(200, "GET", path, nil).JSON(&tag)
	for _, got := range []contract.EmbedTag{tag, list.Data[0]} {
		times := map[string]int64{}
		for _, o := range got.RefusedOrigins {
			times[o.Origin] = o.Times
		}
		if got.RefusedRequests != 7 || times[evil] != 3 || times["(none)"] != 2 || times["(not an origin)"] != 2 {
			t.Errorf("its owner sees %d of %v", got.RefusedRequests, times)
		}
	}
}

func TestATagHasCaps(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	tag, path, page := newTag(t, a, object{"chatsPerDay": 2, "maxCreditsMicro": 500})
	v := visitTag(t, a, tag, page, "")
	v.say("tokens: 10")
	v.until(t, "completed")
	v = visitTag(t, a, tag, page, v.ticket.VisitorToken) // which lifts no cap
	for range 3 {                                        // a few may still be paid; then it is over
		if r := v.Do("POST", v.chat+"/messages", object{"message": "tokens: 2000"}); r.Status != 202 {
			break
		}
		v.With("Accept", "text/event-stream").Want(200, "GET", v.chat+"/events", nil)
	}
	var s contract.Session
	if a.Want(200, "GET", a.agent+"/sessions/"+v.token.ChatSessionID, nil).JSON(&s); s.Usage.CreditsMicro > 500 || s.Usage.CreditsMicro == 0 {
		t.Errorf("the chat came to %d", s.Usage.CreditsMicro)
	}
	// A reload starts another chat, because this one accepts no messages; the cap still
	// applies, so a third one is rejected.
	next := visitTag(t, a, tag, page, v.ticket.VisitorToken)
	if next.token.ChatSessionID == v.token.ChatSessionID {
		t.Error("a chat that has reached its limit goes on")
	}
	visitTag(t, a, tag, page, next.ticket.VisitorToken)
	page.Want(200, "POST", shows(tag)+"/tickets", nil) // a chat counts from its first message
	next.say("say: second")
	r := page.Do("POST", shows(tag)+"/tickets", nil)
	if e := r.Error(); r.Status != 429 || e.Code != "embed_limit_reached" || r.Header.Get("Retry-After") != "60" {
		t.Errorf("%d %v %s", r.Status, r.Header, r.Body)
	}
	a.Want(200, "PATCH", path, object{"chatsPerDay": 3})
	page.Want(200, "POST", shows(tag)+"/tickets", nil)
}

func TestATagTakesOnlySoManyRequests(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	tag, _, page := newTag(t, a, nil)
	count := func(c *apitest.Client, method, path string) (n int) {
		for range 3100 {
			r := c.Do(method, path, nil)
			if r.Status != 200 {
				if e := r.Error(); e.Code != "rate_limit_exceeded" || r.Header.Get("Retry-After") == "" {
					t.Fatalf("%d %v %s", r.Status, r.Header, r.Body)
				}
				return n
			}
			n++
		}
		return n
	}
	one, two := page.With("X-Forwarded-For", "198.51.100.1"), page.With("X-Forwarded-For", "198.51.101.2")
	for _, test := range []struct {
		c    *apitest.Client
		want int
	}{{one, 20}, {two, 20}} {
		if got := count(test.c, "POST", shows(tag)+"/tickets"); got != test.want {
			t.Errorf("%d tickets for one address, want %d", got, test.want)
		}
	}
	if got := count(one, "GET", shows(tag)); got != 120 {
		t.Errorf("%d requests of one address, want 120", got)
	}
	if got := count(page, "GET", shows(tag)); got != 3000-120 {
		t.Errorf("%d requests of all, want %d", got, 3000-120)
	}
	other, _, _ := newTag(t, a, nil)
	two.Want(200, "POST", shows(other)+"/tickets", nil)
}

func TestATagEndsWithItsKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	owner := newAuthor(t, h, h.Client(t), nil)
	secret, key := h.NewKey(h.Account.ID, "embeds:write", "agents:read")
	maker := author{h.ClientWith(t, secret), h, owner.agent}
	tag, path, page := newTag(t, maker, nil)
	v := visitTag(t, owner, tag, page, "")
	owner.Want(204, "DELETE", "/api/v1/keys/"+key.ID, nil)
	v.WantError(stoa.CodeUnauthorized, "GET", v.chat, nil)
	page.WantError(stoa.CodeEmbedDisabled, "GET", shows(tag), nil)
	owner.Want(200, "GET", path, nil).JSON(&tag)
	if tag.Enabled || orNone(tag.DisabledReason) != "key_revoked" {
		t.Errorf("it is %+v", tag)
	}
	// Enabled again it belongs to the other key.
	owner.Want(200, "PATCH", path, object{"enabled": true})
	if next := visitTag(t, owner, tag, page, v.ticket.VisitorToken); next.token.ChatSessionID == v.token.ChatSessionID {
		t.Error("the chat of the revoked key goes on")
	}
	// Unless the revoking request keeps it.
	secret, key = h.NewKey(h.Account.ID, "embeds:write", "agents:read")
	kept, _, _ := newTag(t, author{h.ClientWith(t, secret), h, owner.agent}, nil)
	owner.Want(204, "DELETE", "/api/v1/keys/"+key.ID+"?revokeMade=false", nil)
	page.Want(200, "GET", shows(kept), nil)
	owner.Want(204, "DELETE", owner.agent, nil)
	page.WantError(stoa.CodeEmbedDisabled, "GET", shows(kept), nil)
	owner.WantError(stoa.CodeAgentNotFound, "GET", path, nil)
	owner.WantError(stoa.CodeAgentNotFound, "PATCH", path, object{})
	owner.WantError(stoa.CodeAgentNotFound, "GET", owner.agent+"/embed-tags", nil)
}

// TestTicketsOfATagExpire checks the bounds of time, by moving what is stored into the
// past.
func TestTicketsOfATagExpire(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	tag, _, page := newTag(t, a, nil)
	v := visitTag(t, a, tag, page, "")
	if left := time.Until(v.ticket.VisitorExpiresAt.Time()); left < 29*24*time.Hour || left > 31*24*time.Hour {
		t.Errorf("the visitor's token is good for %v", left)
	}
	var late contract.EmbedTicket
	page.Want(200, "POST", shows(tag)+"/tickets", object{"visitorToken": v.ticket.VisitorToken}).JSON(&late)
	past := func(sql string) {
		t.Helper()
		if err := h.Store.Write(t.Context(), func(tx *store.Tx) error { _, err := tx.Exec(t.Context(), sql); return err }); err != nil {
			t.Fatal(err)
		}
	}
	past(`UPDATE embed_tickets SET expires_at = 1 WHERE used_at = 0`)
	exchange(t, h, late, 410)
	past(`UPDATE embeds SET created_at = created_at - 2678400000000`) // 31 days
	if next := visitTag(t, a, tag, page, v.ticket.VisitorToken); next.token.ChatSessionID == v.token.ChatSessionID {
		t.Error("a chat of 31 days ago goes on")
	}
}

func TestAStoreThatIsGoneIsToldToPages(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // on PostgreSQL it is a node that has ended
	h := start(t, apitest.Config{Idle: true})
	tag, _, page := newTag(t, newAuthor(t, h, h.Client(t), nil), nil)
	if err := h.Store.Close(); err != nil {
		t.Fatal(err)
	}
	page.WantError(stoa.CodeInternal, "GET", shows(tag), nil)
	page.WantError(stoa.CodeInternal, "GET", "/api/v1/embed/logos/"+stoa.NewID("lgo"), nil)
	page.WantError(stoa.CodeInternal, "POST", shows(tag)+"/tickets", nil)
}
