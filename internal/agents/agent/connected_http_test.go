package agent_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// A seller is an HTTP server that accepts orders, and answers with the configured status.
type seller struct {
	url      string
	mu       sync.Mutex
	changed  *sync.Cond
	status   int // of its replies
	together int // requests that must arrive before any is answered
	asked    int // since the last check
	most     int // maximum number of requests on one connection
}

type requestsKey struct{}

// shop starts a seller. closes makes it close each idle connection.
func shop(t *testing.T, closes bool) *seller {
	s := &seller{status: http.StatusOK}
	s.changed = sync.NewCond(&s.mu)
	server := httptest.NewUnstartedServer(s)
	server.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if closes && state == http.StateIdle {
			c.Close()
		}
	}
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, requestsKey{}, new(int))
	}
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// ServeHTTP accepts an order.
func (s *seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := r.Context().Value(requestsKey{}).(*int)
	*n++
	s.most = max(s.most, *n)
	s.asked++
	s.changed.Broadcast()
	for s.asked < s.together {
		s.changed.Wait()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, `{"taken":true}`)
}

// answer sets the status of the next replies, and the number of requests that must arrive
// before any is answered.
func (s *seller) answer(status, together int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.together = status, together
}

// seen returns the number of requests since the last call, and the maximum on one connection.
func (s *seller) seen() (n, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, s.asked = s.asked, 0
	return n, s.most
}

// connect adds a connection of a kind to the seller, with its tool order approved without
// questions and as one that may be called once.
func (s *seller) connect(h *sessiontest.Fixture, kind string) store.Connection {
	h.T.Helper()
	c := store.Connection{AccountID: h.Account.ID, SpaceID: h.Space(), Kind: kind, Name: kind, URL: s.url, OnChange: store.OnChangeBlock, Limits: store.DefaultConnectionLimits}
	h.Write(func(ctx context.Context, tx *store.Tx) (err error) {
		if c, err = tx.Setup().InsertConnection(ctx, c); err != nil {
			return err
		}
		if kind == store.KindOpenAPI {
			return tx.Setup().SetConnectionSource(ctx, c.AccountID, c.ID, `{"openapi":"3.1.0","paths":{"/orders":{"post":{"operationId":"order"}}}}`)
		}
		return tool.Describe(ctx, tx, &c, `[{"name":"order","method":"POST","path":"/orders"}]`)
	})
	if _, err := h.Tools.Refresh(h.T.Context(), h.Account.ID, c.ID); err != nil {
		h.T.Fatal(err)
	}
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Setup().ConnectionTools(ctx, c.AccountID, c.ID)
		if err != nil {
			return err
		}
		return tool.Review(ctx, tx, c.AccountID, c.ID, []tool.Decision{{Name: "order", SHA256: rows[0].SHA256, Approve: true, Approval: "never", Effects: "once"}})
	})
	return c
}

// ordering gives an agent the tool order of connections.
func ordering(connections ...store.Connection) func(*stoa.Agent) {
	return func(a *stoa.Agent) {
		for _, c := range connections {
			a.Tools = append(a.Tools, stoa.AgentTool{Type: stoa.ToolConnection, ConnectionID: c.ID, Allow: []string{"order"}})
		}
	}
}

// hooked adds a webhook for all events, and returns the types of the connection events that
// it received.
func hooked(h *sessiontest.Fixture) (events func() []string) {
	var hook stoa.Webhook
	h.Write(func(ctx context.Context, tx *store.Tx) (err error) {
		hook, err = tx.Operations().InsertWebhook(ctx, stoa.Webhook{AccountID: h.Account.ID, Events: []string{"*"}})
		return err
	})
	return func() (types []string) {
		err := h.Store.Read(h.T.Context(), func(tx *store.Tx) error {
			list, _, err := tx.Operations().Deliveries(h.T.Context(), h.Account.ID, hook.ID, store.DeliveryFilter{}, store.Page{Limit: 100, Asc: true})
			for _, d := range list {
				if strings.HasPrefix(d.Type, "connection.") {
					types = append(types, d.Type)
				}
			}
			return err
		})
		if err != nil {
			h.T.Fatal(err)
		}
		return types
	}
}

// A server without a tool protocol that rejects the secret (401) needs authorization: its
// tools are withheld from the next turn on, and a webhook reports it once. A server that
// rejects a single request (403) does not.
func TestARefusedSecretOfHTTPIsWrittenDown(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{store.KindHTTP, store.KindOpenAPI} {
		t.Run(kind, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, home storetest.Database) {
				var results told
				h := sessiontest.Build(t, home, callers(&results, func(string) []stoa.ToolCall {
					return []stoa.ToolCall{{ID: "1", Name: kind + "__order", Arguments: `{}`}, {ID: "2", Name: kind + "__order", Arguments: `{}`}}
				}))
				site := shop(t, false)
				c := site.connect(h, kind)
				events := hooked(h)
				a, r := h.Agent(ordering(c)), h.Service()
				sessiontest.Run(t, r)
				turn := func(message string, status int) (rows []stoa.ExternalCall, s stoa.Session, asked int) {
					t.Helper()
					site.answer(status, 0)
					s = h.Until(r, h.Begin(r, a, message), stoa.SessionCompleted)
					asked, _ = site.seen()
					return callsOf(h, r, s), s, asked
				}
				code := func() string {
					t.Helper()
					var now store.Connection
					h.Write(func(ctx context.Context, tx *store.Tx) (err error) {
						now, err = tx.Setup().Connection(ctx, h.Account.ID, c.ID)
						return err
					})
					return now.ErrorCode
				}
				rows, s, asked := turn("forbidden", http.StatusForbidden)
				if len(rows) != 2 || rows[1].Outcome != stoa.OutcomeError || asked != 2 || len(s.Withheld) != 0 || code() != "" || len(events()) != 0 {
					t.Errorf("after 403: %+v, %d requests, withheld %+v, %q, %q", rows, asked, s.Withheld, code(), events())
				}
				for round := 1; round <= 2; round++ {
					site.answer(http.StatusUnauthorized, 3)
					var refused []stoa.Session // at the same moment
					for i := range 3 {
						refused = append(refused, h.Begin(r, a, fmt.Sprint("refused ", round, i)))
					}
					for _, s := range refused {
						s = h.Until(r, s, stoa.SessionCompleted)
						rows := callsOf(h, r, s)
						if len(rows) != 2 || rows[0].Outcome != stoa.OutcomeError || rows[0].Attempts != 1 || rows[1].Attempts != 0 || !strings.Contains(rows[1].Result, "refuses its credentials") || len(s.Withheld) != 0 {
							t.Errorf("after 401: withheld %+v: %+v", s.Withheld, rows)
						}
					}
					if asked, _ = site.seen(); asked != 3 {
						t.Errorf("%d requests of 3 sessions", asked)
					}
					for n := range 2 {
						rows, s, asked = turn(fmt.Sprint("withheld ", round, n), http.StatusOK)
						if len(rows) != 0 || asked != 0 || len(s.Withheld) != 1 || s.Withheld[0] != (stoa.Withheld{Tool: kind + "__order", Reason: stoa.WithheldUnauthorized}) || strings.Count(h.Log(r, s), "tools.withheld") != 1 {
							t.Errorf("in the next turn: %d requests, withheld %+v: %+v", asked, s.Withheld, rows)
						}
					}
					if got := events(); len(got) != round || slices.ContainsFunc(got, func(e string) bool { return e != "connection.needs_authorization" }) || code() != tool.NeedsAuthorization {
						t.Errorf("the webhook got %q, the connection says %q", got, code())
					}
					if _, err := h.Tools.Refresh(t.Context(), h.Account.ID, c.ID); err != nil {
						t.Fatal(err)
					}
					if rows, s, asked = turn(fmt.Sprint("again ", round), http.StatusOK); len(rows) != 2 || rows[0].Outcome != stoa.OutcomeOK || asked != 2 || len(s.Withheld) != 0 || code() != "" {
						t.Errorf("after a refresh: %d requests, withheld %+v: %+v", asked, s.Withheld, rows)
					}
				}
			})
		})
	}
}
