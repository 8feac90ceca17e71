package agent_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// The id of a call replaces the model's value of an argument: the same id in each attempt,
// including those of other processes, and a different one for each call.
func TestACallCarriesItsIDInAnArgument(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		var offered []string
		script := callers(&results, func(string) []stoa.ToolCall {
			return []stoa.ToolCall{call("1", fakemcp.Put, `{"text":"x","key":"mine"}`), call("2", fakemcp.Put, ``)}
		})
		h := sessiontest.Build(t, home, sessiontest.Script(func(ctx context.Context, m stoa.Model, c stoa.Call, yield func(*stoa.Event, error) bool) {
			for _, o := range c.Tools {
				if o.Name == "far__put" {
					offered = append(offered, o.Parameters)
				}
			}
			script(ctx, m, c, yield)
		}))
		f := fakemcp.Start(t)
		// The schema requires the argument, and does not allow others.
		f.Change(`{"type":"object","properties":{`, `{"type":"object","required":["key"],"additionalProperties":false,"properties":{`)
		c := connect(h, f, "far")
		reviewed(h, c, fakemcp.Put, func(d *tool.Decision) { d.IdempotencyArgument, d.Approval = "key", stoa.ApprovalAlways })
		a := h.Agent(using(c))
		first, second := h.Service(shared), h.Service(shared)
		stop := sessiontest.Run(t, first)
		f.Next("tools/call", "500", "hold")
		s := h.Until(first, h.Begin(first, a, "go"), stoa.SessionWaiting)
		asked := s.Pending.Calls
		decideAll(h, first, s, "approve")
		calledTimes(f, fakemcp.Put, 2)
		h.Write(endRunners)
		sessiontest.Run(t, second)
		s = h.Until(second, s, stoa.SessionWaiting) // it may have been carried out
		if len(s.Pending.Calls) != 1 || s.Pending.Calls[0].ID != asked[0].ID {
			t.Fatalf("it waits for %+v", s.Pending)
		}
		decideAll(h, second, s, "approve")
		got := h.Until(second, s, stoa.SessionCompleted)
		f.Release()
		stop()
		h.CheckBooks(second, got)
		rows := callsOf(h, second, s)
		want := []string{`{"text":"x","key":"` + rows[0].ID + `"}`, `{"key":"` + rows[1].ID + `"}`}
		var sent []string
		for _, call := range f.Calls() {
			sent = append(sent, string(call.Arguments))
		}
		if !slices.Equal(sent, []string{want[0], want[0], want[0], want[1]}) {
			t.Errorf("the server got %q, want %q", sent, want)
		}
		for i, row := range rows {
			if row.Arguments != want[i] || asked[i].Arguments != want[i] || row.Outcome != stoa.OutcomeOK {
				t.Errorf("approved was %s, written is %+v", asked[i].Arguments, row)
			}
		}
		if f.EffectsByKey()[rows[0].ID] != 1 || !strings.Contains(h.Log(second, s), rows[0].ID+`\"}`) {
			t.Errorf("effects are %v\n%s", f.EffectsByKey(), h.Log(second, s))
		}
		if len(offered) == 0 || strings.Contains(offered[0], `"key"`) || !strings.Contains(offered[0], `"text"`) || strings.Contains(offered[0], "required") {
			t.Errorf("the model was offered %s", offered)
		}
	})
}

// orders is a document with an operation that accepts a reference of its caller.
const orders = `{"openapi":"3.1.0","info":{"title":"Orders"},"paths":{"/orders":{"post":{"operationId":"put","parameters":[
	{"name":"reference","in":"query","required":true,"schema":{"type":"string"}},{"name":"text","in":"query","schema":{"type":"string"}}]}}}}`

// Requests described by an owner or a document contain the id in the configured argument.
func TestARequestCarriesTheIDOfItsCall(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		for _, kind := range []string{store.KindHTTP, store.KindOpenAPI} {
			t.Run(kind, func(t *testing.T) {
				var results told
				h := sessiontest.Build(t, home, callers(&results, func(string) []stoa.ToolCall {
					return []stoa.ToolCall{call("1", fakemcp.Put, `{"reference":"mine","text":"x"}`), call("2", fakemcp.Put, `{"text":"y"}`)}
				}))
				var mu sync.Mutex
				var sent []string
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					body, _ := io.ReadAll(r.Body)
					sent = append(sent, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
					if len(sent) == 1 {
						w.WriteHeader(500)
					}
				}))
				t.Cleanup(server.Close)
				c := store.Connection{AccountID: h.Account.ID, SpaceID: h.Space(), Kind: kind, Name: "far", URL: server.URL}
				h.Write(func(ctx context.Context, tx *store.Tx) (err error) {
					if c, err = tx.Setup().InsertConnection(ctx, c); err != nil {
						return err
					}
					if kind == store.KindOpenAPI {
						return tx.Setup().SetConnectionSource(ctx, c.AccountID, c.ID, orders)
					}
					_, err = tx.Setup().EditConnection(ctx, c.AccountID, c.ID, func(c *store.Connection) error {
						return tool.Describe(ctx, tx, c, `[{"name":"put","method":"PUT","path":"/orders/{reference}","parameters":{"properties":{"reference":{"type":"string","in":"path"},"text":{"type":"string","in":"body"}}}}]`)
					})
					return err
				})
				if kind == store.KindOpenAPI {
					if _, err := h.Tools.Refresh(t.Context(), c.AccountID, c.ID); err != nil {
						t.Fatal(err)
					}
				}
				reviewed(h, c, fakemcp.Put, func(d *tool.Decision) { d.IdempotencyArgument = "reference" })
				a, r := h.Agent(func(a *stoa.Agent) {
					a.Tools = []stoa.AgentTool{{Type: stoa.ToolConnection, ConnectionID: c.ID, Allow: []string{fakemcp.Put}}}
				}), h.Service()
				sessiontest.Run(t, r)
				s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionCompleted)
				rows := callsOf(h, r, s)
				form := map[string]string{store.KindHTTP: `PUT /orders/%s {"text":"%s"}`, store.KindOpenAPI: "POST /orders?reference=%s&text=%s"}[kind]
				first, second := fmt.Sprintf(form, rows[0].ID, "x"), fmt.Sprintf(form, rows[1].ID, "y")
				mu.Lock()
				defer mu.Unlock()
				if want := []string{first, first, second}; !slices.Equal(sent, want) || rows[0].Outcome != stoa.OutcomeOK || rows[0].Attempts != 2 {
					t.Errorf("sent was %q, want %q; the first call is %+v", sent, want, rows[0])
				}
			})
		}
	})
}
