package gateway

import (
	"testing"

	"stoa/internal/base/stoa"
)

// TestThreadsAreConversations compares the threads of calls with that of one call.
func TestThreadsAreConversations(t *testing.T) {
	t.Parallel()
	text, user, system := stoa.TextMessage, stoa.RoleUser, stoa.RoleSystem
	first := Request{Model: "m", Call: stoa.Call{Instructions: "i", Tools: []stoa.Tool{{Name: "f"}}, Messages: []stoa.Message{text(user, "a")}}}
	change := func(edit func(*Request)) Request {
		r := first
		edit(&r)
		return r
	}
	for name, test := range map[string]struct {
		a, b Request
		same bool
	}{
		"a next call": {first, change(func(r *Request) {
			r.Call.Messages = append(r.Call.Messages, text(stoa.RoleAssistant, "b"), text(user, "c"))
		}), true},
		"another first message": {first, change(func(r *Request) { r.Call.Messages = []stoa.Message{text(user, "b")} }), false},
		"other instructions":    {first, change(func(r *Request) { r.Call.Instructions = "j" }), false},
		"another system message": {first, change(func(r *Request) {
			r.Call.Messages = []stoa.Message{text(system, "s"), text(user, "a")}
		}), false},
		"other tools":             {first, change(func(r *Request) { r.Call.Tools = []stoa.Tool{{Name: "g"}} }), false},
		"another model":           {first, change(func(r *Request) { r.Model = "n" }), false},
		"a key":                   {first, change(func(r *Request) { r.CacheKey = "k" }), false},
		"one key, other input":    {Request{CacheKey: "k"}, change(func(r *Request) { r.CacheKey = "k" }), true},
		"one client session":      {Request{ClientSession: "k"}, change(func(r *Request) { r.ClientSession = "k" }), true},
		"one agent session":       {Request{SessionID: "k", CacheKey: "x"}, change(func(r *Request) { r.SessionID = "k" }), true},
		"a key and a session":     {Request{CacheKey: "k"}, Request{ClientSession: "k"}, false},
		"texts in two ways apart": {Request{Call: stoa.Call{Instructions: "ab"}}, Request{Model: "a", Call: stoa.Call{Instructions: "b"}}, false},
	} {
		if same := thread("acc_1", &test.a) == thread("acc_1", &test.b); same != test.same {
			t.Errorf("%s: the same thread %v, want %v", name, same, test.same)
		}
		if thread("acc_1", &test.a) == thread("acc_2", &test.a) {
			t.Errorf("%s: two accounts have the same thread", name)
		}
	}
}
