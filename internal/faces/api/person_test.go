package api_test

import (
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

// TestAVisitorAsksForAPerson has one webhook delivery and one event of the session in ten minutes, however often the visitor asks.
func TestAVisitorAsksForAPerson(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, object{"externalUserId": "ada", "contact": true})
	v.WantError(stoa.CodeNotFound, "POST", v.chat+"/person", nil) // it has not begun
	hook := newHook(t, a.Client, object{"events": []string{"chat.person_requested"}})
	v.say("say: ten euros")
	if chat := v.until(t, "completed"); !chat.Contact || !chat.PersonRequestedAt.IsNull() {
		t.Errorf("%+v", chat)
	}
	session := a.agent + "/sessions/" + v.embed.ChatSessionID
	ask := func() time.Time {
		t.Helper()
		var got contract.RequestedPerson
		v.Want(200, "POST", v.chat+"/person", nil).JSON(&got)
		return time.Time(got.RequestedAt)
	}
	told := func() []contract.Delivery {
		t.Helper()
		var deliveries page[contract.Delivery]
		a.Want(200, "GET", hooks+"/"+hook.ID+"/deliveries", nil).JSON(&deliveries)
		return deliveries.Data
	}
	first := ask()
	if again := ask(); !again.Equal(first) || len(told()) != 1 {
		t.Errorf("told at %v and %v, %d deliveries", first, again, len(told()))
	}
	if chat := v.until(t, "completed"); chat.PersonRequestedAt.IsNull() {
		t.Error("the chat does not say that a person was asked")
	}
	if types, list := notices(t, a.Client); types != "chat.person_requested" || list.Data[0].ConsolePath != strings.TrimPrefix(strings.Replace(session, "api-agents", "agents", 1), "/api/v1/") {
		t.Errorf("the notices are %+v", list.Data)
	}
	one := string(a.Want(200, "GET", hooks+"/"+hook.ID+"/deliveries/"+told()[0].ID, nil).Body)
	for _, want := range []string{v.embed.ChatSessionID, "ada", "msg_"} {
		if !strings.Contains(one, want) {
			t.Errorf("%s lacks %s", one, want)
		}
	}
	events := func(c *apitest.Client, path string) int {
		t.Helper()
		return strings.Count(string(c.Want(200, "GET", path+"/events", nil).Body), "person.requested")
	}
	if n := events(a.Client, session); n != 1 {
		t.Errorf("%d events", n)
	}
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE sessions SET person_requested_at = $1 WHERE id = $2`, db.Micros(first.Add(-11*time.Minute)), v.embed.ChatSessionID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if ask(); len(told()) != 2 || events(a.Client, session) != 2 {
		t.Errorf("%d deliveries after the pause", len(told()))
	}
	a.Want(204, "DELETE", session, nil)
	v.WantError(stoa.CodeSessionNotFound, "POST", v.chat+"/person", nil)

	quiet := newVisit(t, a, nil)
	quiet.say("say: ten euros")
	if chat := quiet.until(t, "completed"); chat.Contact {
		t.Error("a chat offers a person although its owner did not say so")
	}
	quiet.WantError(stoa.CodeScope, "POST", quiet.chat+"/person", nil)
}
