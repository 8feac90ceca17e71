package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A budget is a budget as the API shows it.
type budget struct {
	ID, Scope, Subject                              string
	LimitMicro, SpentMicro, HeldMicro, OpeningMicro int64
}

// TestBudgetsAreExactOnNodes calls every endpoint at three nodes with 64 callers until the budgets
// of the account, a key, an agent, the embeds and the end users are used up. Meanwhile a node is killed and
// started again. No budget is exceeded, each has spent the sum of its receipts, and what is left in
// the end can be spent.
func TestBudgetsAreExactOnNodes(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	_, servers := nodes(t, v.url, 3, "extensions: {chatCompletions: true, messages: true}\n")
	h := servers[0]
	a := h.newAccount(t, "pro", 1_000_000_000)
	h.newAgent(t, a)
	var admin, second struct{ ID, Secret string }
	for _, made := range []any{&admin, &second} {
		if _, err := h.call(t.Context(), http.MethodPost, ownerKey, "/accounts/"+a.id+"/keys",
			object{"name": "k", "scopes": []string{"*", "account:read", "account:write"}}, made); err != nil {
			t.Fatal(err)
		}
	}
	const whole, ofKey, ofAgent, each, ofEmbed = 160_000, 15_000, 12_000, 45_000, 3_000
	budgets := map[string]*budget{}
	for name, body := range map[string]object{
		"account":  {"scope": "account", "period": "total", "limitMicro": whole, "notifyAt": []int{50, 100}},
		"key":      {"scope": "key", "subject": second.ID, "period": "total", "limitMicro": ofKey, "atCap": "refuse"},
		"agent":    {"scope": "agent", "subject": a.agent, "period": "total", "limitMicro": ofAgent},
		"embed":    {"scope": "embed", "subject": "*", "period": "day", "limitMicro": ofEmbed},
		"end_user": {"scope": "end_user", "subject": "*", "period": "month", "timeZone": "Europe/Vienna", "limitMicro": each},
	} {
		b := &budget{}
		if _, err := h.call(t.Context(), http.MethodPost, admin.Secret, "/budgets", body, b); err != nil {
			t.Fatal(err)
		}
		budgets[name] = b
	}
	// A later budget, of another account: a node that refuses its calls knows the earlier ones, too.
	probe := h.newAccount(t, "pro", 100_000_000)
	var prober struct{ Secret string }
	if _, err := h.call(t.Context(), http.MethodPost, ownerKey, "/accounts/"+probe.id+"/keys", object{"name": "k", "scopes": []string{"*", "account:write"}}, &prober); err != nil {
		t.Fatal(err)
	}
	if _, err := h.call(t.Context(), http.MethodPost, prober.Secret, "/budgets", object{"scope": "account", "period": "total", "limitMicro": 1}, nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		for refused := false; !refused; {
			refused = s.ask(t.Context(), probe.key, "", object{"model": "beta-3.8-flash", "input": "hi"}, nil).code == "budget_exceeded"
		}
	}

	var calls, refusals, overloaded atomic.Int64
	killed := make(chan struct{})
	var once sync.Once
	var callers sync.WaitGroup
	for w := range 64 {
		callers.Go(func() {
			for i, refused := 0, 0; refused < 6; i++ {
				s := servers[(w+i)%3]
				key, user := a.key, fmt.Sprint("user ", w%4)
				if w%3 == 0 {
					key = second.Secret
				}
				text := fmt.Sprintf("tokens: %d", 5+(w+i)%40)
				var code string
				var status int
				switch i % 5 {
				case 0:
					r := s.ask(context.Background(), key, "", object{"model": "beta-3.8-flash", "input": text, "user": user, "max_output_tokens": 300, "stream": w%2 == 0}, nil)
					code, status = r.code, r.status
				case 1:
					status, code = s.codeOf(key, "/chat/completions", object{"model": "delta-v4-flash", "user": user, "max_tokens": 300, "messages": []object{{"role": "user", "content": text}}})
				case 2:
					status, code = s.codeOf(key, "/messages", object{"model": "alpha-haiku-4-5", "max_tokens": 300, "metadata": object{"user_id": user}, "messages": []object{{"role": "user", "content": text}}})
				case 3:
					status, code = s.visit(key, a.agent, user)
				default:
					status, code = s.codeOf(key, "/api-agents/"+a.agent+"/sessions", object{"message": text, "mode": "once", "externalUserId": user})
				}
				switch {
				case code == "budget_exceeded" || status == http.StatusPaymentRequired:
					refused++
					refusals.Add(1)
				case status == http.StatusServiceUnavailable:
					overloaded.Add(1)
				case status >= 400 && code != "too_many_active_sessions":
					t.Errorf("a call was answered %d %s", status, code)
					return
				}
				if calls.Add(1) == 150 {
					once.Do(func() {
						servers[2].kill()
						close(killed)
						servers[2].start()
					})
				}
			}
		})
	}
	callers.Wait()
	<-killed
	h.quiet(t, a)

	read := func(b *budget) *budget {
		got := &budget{}
		h.get(t, admin.Secret, "/budgets/"+b.ID, got)
		return got
	}
	for read(budgets["account"]).HeldMicro > 0 { // until the node that was killed is declared dead
	}
	// What is left can be spent, to the last micro-credit that covers a call.
	for i := 0; ; i++ {
		left := whole - read(budgets["account"]).SpentMicro
		r := servers[i%3].ask(t.Context(), a.key, "", object{"model": "beta-3.8-flash", "input": "tokens: 1", "max_output_tokens": 1}, nil)
		if r.code == "budget_exceeded" {
			if left >= 50 {
				t.Errorf("a call was refused with %d left", left)
			}
			break
		}
		if !r.done() {
			t.Fatalf("the rest: %+v", r)
		}
	}

	type entry struct {
		CreditsMicro              int64
		KeyID                     string
		EndUser, AgentID, EmbedID string
	}
	sums := map[string]int64{}
	for cursor := ""; ; {
		var page struct {
			Data       []entry
			NextCursor string
		}
		h.get(t, a.key, "/receipts?limit=100&cursor="+url.QueryEscape(cursor), &page)
		for _, r := range page.Data {
			sums["account"] += r.CreditsMicro
			sums["user "+r.EndUser] += r.CreditsMicro
			sums["embed "+r.EmbedID] += r.CreditsMicro
			if r.KeyID == second.ID {
				sums["key"] += r.CreditsMicro
			}
			if r.AgentID != "" {
				sums["agent"] += r.CreditsMicro
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	for _, name := range []string{"account", "key", "agent"} {
		b := read(budgets[name])
		t.Logf("%s: %d of %d spent", name, b.SpentMicro, b.LimitMicro)
		if b.SpentMicro != sums[name] || b.SpentMicro > b.LimitMicro || b.HeldMicro != 0 {
			t.Errorf("the budget of the %s is %+v, its receipts have %d", name, b, sums[name])
		}
	}
	var windows struct{ Data []budget }
	h.get(t, admin.Secret, "/budgets/"+budgets["end_user"].ID+"/windows?limit=100", &windows)
	if len(windows.Data) != 4 {
		t.Errorf("the end users have %d windows", len(windows.Data))
	}
	for _, w := range windows.Data {
		if w.SpentMicro != sums["user "+w.Subject] || w.SpentMicro > each {
			t.Errorf("the window of %s is %+v, its receipts have %d", w.Subject, w, sums["user "+w.Subject])
		}
	}
	full := 0
	for cursor := ""; ; {
		var page struct {
			Data       []budget
			NextCursor string
		}
		h.get(t, admin.Secret, "/budgets/"+budgets["embed"].ID+"/windows?limit=100&cursor="+url.QueryEscape(cursor), &page)
		for _, w := range page.Data {
			if w.SpentMicro != sums["embed "+w.Subject] || w.SpentMicro > ofEmbed || w.HeldMicro != 0 {
				t.Errorf("the window of the embed %s is %+v, its receipts have %d", w.Subject, w, sums["embed "+w.Subject])
			}
			if w.SpentMicro > 0 {
				full++
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if t.Logf("%d embeds have spent", full); full == 0 {
		t.Error("no embed has spent anything")
	}
	t.Logf("%d calls, %d refused, %d told to try again", calls.Load(), refusals.Load(), overloaded.Load())
	h.verify(t)
}

// codeOf makes a request and returns its status and the code of its error.
func (h *server) codeOf(key, path string, body object) (status int, code string) {
	status, err := h.call(context.Background(), http.MethodPost, key, path, body, nil)
	return status, codeIn(status, err)
}

// codeIn returns the code of the error of a request: one of those that budgets cause, or its text.
func codeIn(status int, err error) string {
	if err == nil || status == 0 {
		return ""
	}
	for _, known := range []string{"budget_exceeded", "too_many_active_sessions"} {
		if strings.Contains(err.Error(), known) {
			return known
		}
	}
	return err.Error()
}

// visit makes an embed for one visitor, who sends a message.
func (h *server) visit(key, agent, user string) (status int, code string) {
	const origin = "http://localhost:3000"
	var embed struct{ Token, ChatSessionID string }
	status, err := h.call(context.Background(), http.MethodPost, key, "/api-agents/"+agent+"/embed-sessions", object{"allowedOrigins": []string{origin}, "externalUserId": user}, &embed)
	if err == nil {
		status, err = h.request(context.Background(), http.MethodPost, embed.Token, "", "/embed/chat-sessions/"+embed.ChatSessionID+"/messages", origin, object{"message": "tokens: 900"}, nil)
	}
	return status, codeIn(status, err)
}
