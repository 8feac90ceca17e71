package api_test

import (
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestAnswersAreRated has a visitor and the account rate the same answer: both ratings are at the message, in the list, in the filter of
// sessions and in the export, and are gone with the session.
func TestAnswersAreRated(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, object{"externalUserId": "ada"})
	v.WantError(stoa.CodeNotFound, "PUT", v.chat+"/messages/msg_none/feedback", object{"rating": "up"}) // it has not begun
	hook := newHook(t, a.Client, object{"events": []string{"message.feedback"}})
	v.say("say: ten euros")
	chat := v.until(t, "completed")
	asked, answer := chat.Messages[0].ID, chat.Messages[1].ID
	session := a.agent + "/sessions/" + v.embed.ChatSessionID
	of := func(prefix, message string) string { return prefix + "/messages/" + message + "/feedback" }
	if !chat.Feedback {
		t.Errorf("the chat has no ratings: %+v", chat)
	}

	v.Want(200, "PUT", of(v.chat, answer), object{"rating": "up"})
	v.Want(200, "PUT", of(v.chat, answer), object{"rating": "down", "comment": "=That was last year."})
	v.Want(200, "PUT", of(v.chat, answer), object{"rating": "down", "comment": "=That was last year."}) // changes nothing
	a.Want(200, "PUT", of(session, answer), object{"rating": "up", "comment": nil})
	if got := v.until(t, "completed").Messages[1].Feedback; got.Rating != "down" || orNone(got.Comment) != "=That was last year." {
		t.Errorf("the visitor sees %+v", got)
	}
	var messages contract.MessageList
	a.Want(200, "GET", session+"/messages", nil).JSON(&messages)
	if got := messages.Data[1].Feedback; len(got) != 2 || got[0].By != "visitor" || got[0].Rating != "down" || got[1].By != "account" || got[1].Rating != "up" || len(messages.Data[0].Feedback) != 0 {
		t.Errorf("the messages are %+v", messages.Data)
	}
	list := func(query string) []contract.Feedback {
		t.Helper()
		var got contract.FeedbackList
		a.Want(200, "GET", "/api/v1/feedback?"+query, nil).JSON(&got)
		return got.Data
	}
	all := list("")
	if len(all) != 2 || all[0].By != "account" || orNone(all[0].KeyID) == "" || orNone(all[1].KeyID) != "" {
		t.Errorf("the feedback is %+v", all)
	}
	if r := all[1]; r.Rating != "down" || r.Reply != "ten euros" || r.MessageID != answer || r.SessionID != v.embed.ChatSessionID || orNone(r.ExternalUserID) != "ada" || r.AgentName == "" || r.Turn != 1 {
		t.Errorf("the visitor's is %+v", r)
	}
	for query, want := range map[string]int{"rating=up": 1, "rating=down&by=visitor": 1, "by=visitor&rating=up": 0, "sessionId=" + v.embed.ChatSessionID: 2, "sessionId=none": 0, "agentId=" + a.agent[len("/api/v1/api-agents/"):]: 2} {
		if got := list(query); len(got) != want {
			t.Errorf("%s lists %d", query, len(got))
		}
	}
	a.WantError(stoa.CodeAgentNotFound, "GET", "/api/v1/feedback?agentId=none", nil)
	_, otherPath := a.begin(t, "say: fine", nil)
	a.until(t, otherPath, "completed")
	for _, path := range []string{"/api/v1/sessions", a.agent + "/sessions"} {
		for rating, want := range map[string]string{"up": v.embed.ChatSessionID, "down": v.embed.ChatSessionID} {
			var got contract.SessionList
			a.Want(200, "GET", path+"?feedback="+rating, nil).JSON(&got)
			if len(got.Data) != 1 || got.Data[0].ID != want {
				t.Errorf("%s?feedback=%s lists %+v", path, rating, got.Data)
			}
		}
	}
	for format, want := range map[string]string{"jsonl": `"feedback":[{"by":"visitor","rating":"down","comment":"=That was last year.","updatedAt":`, "markdown": "Rated down by the visitor: =That was last year."} {
		if got := string(a.Want(200, "GET", session+"/export?format="+format, nil).Body); !strings.Contains(got, want) {
			t.Errorf("the export is %s", got)
		}
	}

	a.WantError(stoa.CodeNotFound, "PUT", of(session, asked), object{"rating": "up"})
	a.WantError(stoa.CodeNotFound, "PUT", of(otherPath, answer), object{"rating": "up"}) // of another session
	v.WantError(stoa.CodeNotFound, "PUT", of(v.chat, asked), object{"rating": "up"})
	a.WantError(stoa.CodeInvalidValue, "PUT", of(session, answer), object{"rating": "fine"})
	a.WantError(stoa.CodeInvalidValue, "PUT", of(session, answer), object{"rating": "up", "comment": strings.Repeat("x", stoa.MaxFeedbackComment+1)})
	_, waitingPath := a.begin(t, "call: ask_user {\"question\":\"Sure?\"}", nil)
	a.until(t, waitingPath, "waiting_for_input")
	var open contract.MessageList
	a.Want(200, "GET", waitingPath+"/messages", nil).JSON(&open)
	a.WantError(stoa.CodeNotFound, "PUT", of(waitingPath, open.Data[1].ID), object{"rating": "up"})

	a.Want(204, "DELETE", of(session, answer), nil)
	a.Want(204, "DELETE", of(session, answer), nil)
	a.WantError(stoa.CodeNotFound, "DELETE", of(otherPath, answer), nil)
	v.Want(204, "DELETE", of(v.chat, answer), nil)
	v.Want(200, "PUT", of(v.chat, answer), object{"rating": "up"})
	var deliveries page[contract.Delivery]
	a.Want(200, "GET", hooks+"/"+hook.ID+"/deliveries", nil).JSON(&deliveries)
	if len(deliveries.Data) != 6 {
		t.Errorf("there are %d deliveries: %+v", len(deliveries.Data), deliveries.Data)
	}
	a.Want(204, "DELETE", session, nil)
	if got := list(""); len(got) != 0 {
		t.Errorf("the feedback of a deleted session is %+v", got)
	}
	v.WantError(stoa.CodeSessionNotFound, "PUT", of(v.chat, answer), object{"rating": "up"})
	v.WantError(stoa.CodeSessionNotFound, "DELETE", of(v.chat, answer), nil)
	a.WantError(stoa.CodeSessionNotFound, "DELETE", of(session, answer), nil)
	a.WantError(stoa.CodeSessionNotFound, "PUT", of(session, answer), object{"rating": "up"})
}

// TestAnOwnerSwitchesRatingsOff has chats without ratings: of embeds that were created without, and of a script tag that was changed.
func TestAnOwnerSwitchesRatingsOff(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, object{"feedback": false})
	if v.embed.Feedback {
		t.Errorf("the embed is %+v", v.embed)
	}
	v.say("say: hi")
	chat := v.until(t, "completed")
	if chat.Feedback {
		t.Errorf("the chat is %+v", chat)
	}
	for _, method := range []string{"PUT", "DELETE"} {
		var body any
		if method == "PUT" {
			body = object{"rating": "up"}
		}
		v.WantError(stoa.CodeScope, method, v.chat+"/messages/"+chat.Messages[1].ID+"/feedback", body)
	}
	var tag contract.EmbedTag
	tags := a.agent + "/embed-tags"
	a.Want(201, "POST", tags, object{"allowedOrigins": []string{site}}).JSON(&tag)
	for _, step := range []struct {
		set  any
		want bool
	}{{true, true}, {false, false}, {nil, true}} {
		a.Want(200, "PATCH", tags+"/"+tag.ID, object{"feedback": step.set}).JSON(&tag)
		if tag.Feedback != step.want {
			t.Errorf("with %v the tag has %v", step.set, tag.Feedback)
		}
	}
}
