package api_test

import (
	"fmt"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// TestConversationsStayAtAProvider makes calls of several conversations to two equal providers, until
// one of them is gone.
func TestConversationsStayAtAProvider(t *testing.T) {
	t.Parallel()
	one, two := fakeup.Start(t), fakeup.Start(t)
	fakes := map[string]*fakeup.Server{"one": one, "two": two}
	cfg := apitest.Config{Families: map[string][]stoa.Route{}}
	for _, name := range []string{"one", "two"} {
		p := fakes[name].Provider("messages")
		p.Name = name
		cfg.Providers = append(cfg.Providers, p)
		cfg.Families["alpha"] = append(cfg.Families["alpha"], stoa.Route{Provider: name, Weight: 1})
		cfg.Families["beta"] = append(cfg.Families["beta"], stoa.Route{Provider: name, Model: "claude-haiku-4-5"})
	}
	h := start(t, cfg)
	c := h.Client(t)
	routeOf := func(c *apitest.Client, path string, call body) (string, string) {
		var reply struct{ ID string }
		c.Want(200, "POST", path, call).JSON(&reply)
		var r contract.Receipt
		c.Want(200, "GET", "/api/v1/receipts/resp_"+reply.ID[len(reply.ID)-26:], nil).JSON(&r)
		return r.Route.Provider, orNone(r.Route.Reason)
	}
	if name, reason := routeOf(c, responses, body{"model": "beta-3.8-flash", "input": "say: x"}); name != "one" || reason != "order" {
		t.Errorf("without weights %s serves by %s", name, reason)
	}
	at := map[string]string{} // the provider of each conversation
	counts := map[string]int{}
	for i := range 24 {
		client, path, call := c, responses, body{"model": "alpha-haiku-4-5", "input": "say: x"}
		switch i % 4 {
		case 0:
			client = c.With("X-Claude-Code-Session-Id", fmt.Sprint(i))
			path, call = "/api/v1/messages", body{"model": "alpha-haiku-4-5", "max_tokens": 10, "messages": []body{{"role": "user", "content": "say: x"}}}
		case 1:
			client = c.With("Session-Id", fmt.Sprint(i))
		case 2:
			call["prompt_cache_key"] = fmt.Sprint(i)
		default:
			call["instructions"] = fmt.Sprint(i)
		}
		name, reason := routeOf(client, path, call)
		if again, _ := routeOf(client, path, call); again != name || reason != "cache" {
			t.Errorf("conversation %d is at %s by %s, then at %s", i, name, reason, again)
		}
		counts[name]++
		if i%4 == 2 {
			at[fmt.Sprint(i)] = name
		}
	}
	if counts["one"] < 4 || counts["two"] < 4 {
		t.Errorf("the conversations are at %v", counts)
	}
	one.Close()
	for key, before := range at {
		name, reason := routeOf(c, responses, body{"model": "alpha-haiku-4-5", "input": "say: x", "prompt_cache_key": key})
		want := "cache"
		if before == "one" {
			want = "failover"
		}
		if name != "two" || reason != want {
			t.Errorf("a conversation of %s is at %s by %s, want %s", before, name, reason, want)
		}
	}
}

// TestReasoningKeepsItsProvider sends reasoning back to equal providers: the one that made it serves.
func TestReasoningKeepsItsProvider(t *testing.T) {
	t.Parallel()
	cfg := apitest.Config{Families: map[string][]stoa.Route{}}
	for _, name := range []string{"one", "two"} {
		p := fakeup.Start(t).Provider("messages")
		p.Name = name
		cfg.Providers = append(cfg.Providers, p)
		cfg.Families["alpha"] = append(cfg.Families["alpha"], stoa.Route{Provider: name, Weight: 1})
	}
	c := start(t, cfg).Client(t)
	for i := range 8 {
		user := body{"role": "user", "content": "think: 60\ncall: f {}"}
		tools := []body{{"type": "function", "name": "f"}}
		var made struct {
			ID     string
			Output []body
		}
		c.Want(200, "POST", responses, body{"model": "alpha-sonnet-5-5", "input": []body{user}, "tools": tools, "prompt_cache_key": fmt.Sprint(i)}).JSON(&made)
		input := append([]body{user}, made.Output...)
		input = append(input, body{"type": "function_call_output", "call_id": made.Output[len(made.Output)-1]["call_id"], "output": "x"})
		var next struct{ ID string }
		c.Want(200, "POST", responses, body{"model": "alpha-sonnet-5-5", "input": input, "tools": tools, "prompt_cache_key": fmt.Sprint("other ", i)}).JSON(&next)
		var a, b contract.Receipt
		c.Want(200, "GET", "/api/v1/receipts/"+made.ID, nil).JSON(&a)
		c.Want(200, "GET", "/api/v1/receipts/"+next.ID, nil).JSON(&b)
		if a.Route.Provider != b.Route.Provider || orNone(b.Route.Reason) != "reasoning" {
			t.Errorf("made at %s, served at %s by %s", a.Route.Provider, b.Route.Provider, orNone(b.Route.Reason))
		}
	}
}
