package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
	"stoa/internal/testkit/storetest"
)

// from returns a client at an address.
func from(c *apitest.Client, address string) *apitest.Client {
	return c.With("X-Forwarded-For", address)
}

// visitFrom is [visitTag] for a visitor at an address.
func visitFrom(t *testing.T, a author, tag contract.EmbedTag, page *apitest.Client, address string) tagVisit {
	t.Helper()
	v := visitTag(t, a, tag, from(page, address), "")
	v.Client = from(v.Client, address)
	return v
}

// TestTicketsUseUpNothing has strangers request more tickets than a tag allows chats, and say
// nothing: visitors go on, as does the owner with links.
func TestTicketsUseUpNothing(t *testing.T) {
	t.Parallel()
	home := storetest.New(t)
	home.Config.Quota = store.Quota{Embeds: 30}
	h := start(t, apitest.Config{Home: &home, Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	tag, _, page := newTag(t, a, object{"chatsPerDay": 40})
	for i := range 60 {
		visitFrom(t, a, tag, page, fmt.Sprintf("203.0.%d.1", i)) // networks, each of which gets a tenth of the tickets
	}
	late := visitFrom(t, a, tag, page, "198.51.200.1")
	for i := range 30 { // up to the quota of the agent's embeds
		visitFrom(t, a, tag, page, fmt.Sprintf("198.51.%d.1", i)).say("say: hello")
	}
	late.WantError(stoa.CodeEmbedLimit, "POST", late.chat+"/messages", object{"message": "say: hello"})
	for range 30 {
		a.Want(201, "POST", a.agent+"/embed-urls", object{"allowedOrigins": []string{site}})
	}
	a.WantError(stoa.CodeLimitReached, "POST", a.agent+"/embed-urls", object{"allowedOrigins": []string{site}})

	// Those who said nothing are gone when they can say nothing more.
	embeds := func() (n int) {
		if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Get(t.Context(), `SELECT COUNT(*) FROM embeds WHERE tag_id <> ''`, nil, &n)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := embeds(); n != 91 {
		t.Errorf("%d embeds", n)
	}
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		for _, sql := range []string{`UPDATE embed_tokens SET expires_at = 1`, `UPDATE embeds SET created_at = created_at - 3600000000`} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		visitFrom(t, a, tag, page, fmt.Sprintf("203.0.114.%d", i))
	}
	if n := embeds(); n != 34 {
		t.Errorf("%d embeds are left", n)
	}
}

// TestANetworkBeginsATenthOfTheChats has strangers of one network begin chats.
func TestANetworkBeginsATenthOfTheChats(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	for first, test := range map[string]struct{ same, other string }{
		"203.0.113.1":     {"203.0.113.250", "203.0.114.1"},
		"2001:db8:1:1::1": {"2001:db8:1:ff00::1", "2001:db8:2:1::1"},
	} {
		tag, path, page := newTag(t, a, object{"chatsPerDay": 20})
		early := visitFrom(t, a, tag, page, test.same)
		visitFrom(t, a, tag, page, first).say("say: one")
		v := visitFrom(t, a, tag, page, test.same)
		v.say("say: two")
		early.WantError(stoa.CodeEmbedLimit, "POST", early.chat+"/messages", object{"message": "say: three"})
		r := from(page, first).Do("POST", shows(tag)+"/tickets", nil)
		if e := r.Error(); r.Status != 429 || e.Code != string(stoa.CodeEmbedLimit) || e.Message != "No more chats can begin today from your network. Try again later." {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		v.say("say: what has begun goes on")
		visitTag(t, a, tag, from(page, first), v.ticket.VisitorToken)
		visitFrom(t, a, tag, page, test.other).say("say: hello")
		visitTag(t, a, tag, page, "").say("say: from an unknown address")
		if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE embeds SET begun_at = begun_at - $1 WHERE begun_at > 0`, (25 * time.Hour).Microseconds())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		early.say("say: a day later")
		a.Want(200, "PATCH", path, object{"chatsPerDay": 1})
		early.say("say: goes on")
		from(page, test.other).WantError(stoa.CodeEmbedLimit, "POST", shows(tag)+"/tickets", nil)
	}
}

// TestVisitorsLeaveTurnsForTheOwner has the visitors of a tag keep the agent busy and fill
// the queue: a session of the owner runs, and so does a visitor of another tag.
func TestVisitorsLeaveTurnsForTheOwner(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{f.Provider("messages")}, Families: map[string][]stoa.Route{"alpha": {{Provider: "messages"}}},
		Plans:    []stoa.Plan{{ID: "pro", GatedModels: true, ActiveSessions: 4}},
		Sessions: func(c *session.Config) { c.Limits.Queued = 20 },
	})
	a := newAuthor(t, h, h.Client(t), object{"model": "alpha-haiku-4-5"})
	other := newAuthor(t, h, h.Client(t), object{"model": "alpha-haiku-4-5"})
	tag, _, page := newTag(t, a, nil)
	said := 0
	say := func() int { // returns the status
		v := visitFrom(t, a, tag, page, fmt.Sprintf("198.51.%d.1", said))
		said++
		return v.Do("POST", v.chat+"/messages", object{"message": fmt.Sprintf("mark: %d\nfault: hang", said)}).Status
	}
	for range 2 {
		say()
	}
	f.Wait(t, "two turns", func(all []fakeup.Served) bool { return len(all) == 2 })
	for range 5 { // a quarter of the queue
		if got := say(); got != 202 {
			t.Errorf("%d", got)
		}
	}
	if got := say(); got != 429 {
		t.Errorf("more than a quarter of the queue is the tag's: %d", got)
	}
	_, path := other.begin(t, "say: at once", nil)
	var s contract.Session
	if other.Want(200, "GET", path+"?waitSeconds=60", nil).JSON(&s); s.Status != "completed" {
		t.Errorf("the owner's session is %s", s.Status)
	}
	if n := len(f.Served()); n != 3 {
		t.Errorf("%d requests to the provider", n)
	}
	// The next free place of visitors is for another tag.
	second, _, _ := newTag(t, other, nil)
	v := visitFrom(t, other, second, page, "203.0.113.1")
	v.say("say: next")
	var list contract.SessionList
	a.Want(200, "GET", a.agent+"/sessions?status=running", nil).JSON(&list)
	a.Want(200, "POST", a.agent+"/sessions/"+list.Data[0].ID+"/cancel", nil)
	v.until(t, "completed")
}

// TestVisitorsLeaveCreditsOfTheirKey has visitors spend the daily credits of the key that
// created their tag.
func TestVisitorsLeaveCreditsOfTheirKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	owner := newAuthor(t, h, h.Client(t), nil)
	var key contract.KeyWithSecret
	const most = 40_000
	owner.Want(201, "POST", "/api/v1/keys", object{"name": "site", "scopes": []string{"embeds:write", "responses"}, "maxCreditsMicroPerDay": most}).JSON(&key)
	a := owner
	a.Client = h.ClientWith(t, key.Secret)
	tag, _, page := newTag(t, a, nil)
	v := visitFrom(t, a, tag, page, "203.0.113.1")
	for range 5 {
		r := v.Do("POST", v.chat+"/messages", object{"message": "tokens: 2000"})
		if r.Status != 202 {
			break
		}
		v.With("Accept", "text/event-stream").Want(200, "GET", v.chat+"/events", nil)
	}
	var me contract.User
	a.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	if spent := orNone(me.Key.SpentTodayMicro); spent > most/2 || spent < most/10 {
		t.Errorf("visitors have spent %d of %d", spent, most)
	}
	a.Want(200, "POST", responses, object{"model": "auto", "input": "say: the owner goes on", "max_output_tokens": 300})
}

// TestStreamsOfTagsLeavePlaces has strangers open the streams of chats without a message:
// begun chats of the tag, another tag, and links have places of their own.
func TestStreamsOfTagsLeavePlaces(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Server: func(s *api.Server) {
		s.Limits = config.Defaults().Limits
		s.Limits.VisitorStreamsPerAccount = 16
	}})
	a := newAuthor(t, h, h.Client(t), nil)
	tag, _, page := newTag(t, a, nil)
	other, _, _ := newTag(t, a, nil)
	visits := 0
	visit := func(tag contract.EmbedTag, says bool) tagVisit {
		visits++
		v := visitFrom(t, a, tag, page, fmt.Sprintf("198.51.%d.1", visits))
		if says {
			v.say("say: hello")
		}
		return v
	}
	opened := func(v tagVisit) *logStream {
		return openWith(t, h, v.chat+"/events?follow=true", http.Header{"Authorization": {"Bearer " + v.token.Token}})
	}
	refused := func(v tagVisit) {
		t.Helper()
		v.With("Accept", "text/event-stream").WantError(stoa.CodeRateLimit, "GET", v.chat+"/events?follow=true", nil)
	}
	first := visit(tag, false)
	stream := opened(first)
	refused(first) // one of a chat
	opened(visit(tag, false))
	refused(visit(tag, false)) // an eighth of all
	begun := visit(tag, true)
	opened(begun)
	first.say("say: hello")
	for block := range stream.blocks() {
		if strings.Contains(block, "message.created") {
			break // it has begun, and no longer counts as silent
		}
	}
	opened(visit(tag, false))
	refused(begun) // a quarter of all
	for range 2 {
		opened(visit(other, false))
	}
	busy := visit(other, true)
	for range 2 {
		opened(busy)
	}
	third, _, _ := newTag(t, a, nil)
	refused(visit(third, true)) // half of all
	for range 8 {
		v := newVisit(t, a, nil)
		openWith(t, h, v.chat+"/events?follow=true", http.Header{"Authorization": {"Bearer " + v.embed.Token}, "Origin": {site}})
	}
	stream.close()
}

// TestMessagesAreCountedByLine has the visitors of a tag send as many messages as they may
// within a minute.
func TestMessagesAreCountedByLine(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	tag, _, page := newTag(t, a, nil)
	other, _, _ := newTag(t, a, nil)
	for range 30 {
		v := visitTag(t, a, tag, page, "")
		for range 10 {
			v.Want(202, "POST", v.chat+"/messages", object{"message": "say: x"})
		}
	}
	v := visitTag(t, a, tag, page, "")
	v.WantError(stoa.CodeEmbedLimit, "POST", v.chat+"/messages", object{"message": "say: x"})
	visitTag(t, a, other, page, "").say("say: by another tag")
	newVisit(t, a, nil).say("say: by a link")
}
