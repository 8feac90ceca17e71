package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/mcp"
	"stoa/internal/agents/oauth"
	"stoa/internal/agents/tool"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestTwoServicesRefreshATokenOnce has 50 calls need a token that has expired, on two
// services of one PostgreSQL database.
func TestTwoServicesRefreshATokenOnce(t *testing.T) {
	t.Parallel()
	if os.Getenv(storetest.Env) == "" {
		t.Skip(storetest.Env + " is not set")
	}
	demo := &oauth.Demo{Life: time.Hour, Next: mcp.Demo(false)}
	far := httptest.NewServer(demo)
	t.Cleanup(far.Close)
	demo.Origin = far.URL
	home := storetest.Postgres(t)
	home.Config.Observe = nil // the plans of statements are those of SQLite
	var services []*apitest.Service
	for range 2 {
		services = append(services, apitest.Start(t, apitest.Config{Home: &home, Allow: []string{"127.0.0.1"}, Server: func(s *api.Server) { s.Agents.Tools.PublicURL = "http://127.0.0.1:1" }}))
	}
	h, c := services[0], services[0].Client(t)
	var made contract.Connection
	c.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": "private", "url": far.URL, "auth": object{"type": "oauth"}}).JSON(&made)
	path := "/api/v1/connections/" + made.ID
	var begun contract.AuthorizationStart
	c.Want(200, "POST", path+"/authorize", nil).JSON(&begun)
	l := h.Server.Agents.Tools.Land(t.Context(), cameBack(t, begun.AuthorizeURL))
	if l.Question == nil || !services[1].Server.Agents.Tools.Confirm(t.Context(), l.Question.Token, true).Authorized { // on the other service
		t.Fatalf("%+v", l)
	}
	c.Want(200, "POST", path+"/refresh", nil)
	review(t, c, path, "search_notes")
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE connection_tokens SET expires_at = 1`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	offer := offered(t, h, made)
	var group sync.WaitGroup
	replies := make(chan tool.Reply, 50)
	for i := range 50 {
		group.Go(func() {
			tools := services[i%2].Server.Agents.Tools
			turn := tools.Turn(tool.Credentials{})
			defer turn.Close()
			replies <- turn.Call(context.Background(), offer, "cal_1", `{"word":"welcome"}`, 30*time.Second)
		})
	}
	group.Wait()
	close(replies)
	for r := range replies {
		if r.Class != tool.Answered {
			t.Errorf("%+v", r)
		}
	}
	if n := demo.Asked("refresh_token"); n != 1 {
		t.Errorf("%d requests for a refresh", n)
	}
}

// cameBack returns what a person brings back from an authorization server.
func cameBack(t *testing.T, address string) url.Values {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	return to.Query()
}

// offered returns where calls of the tool of a connection go.
func offered(t *testing.T, h *apitest.Service, c contract.Connection) (to tool.Target) {
	t.Helper()
	err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		who := tool.Audience{AccountID: h.Account.ID, SpaceID: c.SpaceID, Own: tool.Credentials{}}
		all, withheld, err := tool.Offer(t.Context(), tx, who, []stoa.AgentTool{{Type: stoa.ToolConnection, ConnectionID: c.ID, Allow: []string{"search_notes"}}}, nil)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, withheld %+v: %v", all, withheld, err)
		}
		var refused *tool.Refusal
		to, refused, err = h.Server.Agents.Tools.Target(t.Context(), tx, who, all[0], stoa.ExternalCall{DefinitionSHA256: all[0].SHA256, Approval: all[0].Approval, Effects: all[0].Effects})
		if refused != nil {
			t.Errorf("%+v", refused)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}
