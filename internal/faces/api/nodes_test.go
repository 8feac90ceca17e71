package api_test

import (
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

func TestAnOperatorSeesTheNodes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		if home.Config.PostgresURL != "" {
			home.Config.Observe = nil // the plans of statements are those of SQLite
		}
		services := []*apitest.Service{apitest.Start(t, apitest.Config{Home: &home})}
		if home.Config.PostgresURL != "" {
			home.Config.Node.ConfigHash = "other"
			services = append(services, apitest.Start(t, apitest.Config{Home: &home}))
		}
		for i, h := range services {
			c := h.Client(t)
			var list contract.NodeList
			c.Want(200, "GET", "/api/v1/nodes", nil).JSON(&list)
			if len(list.Data) != len(services) || list.SameConfig != (len(services) == 1) {
				t.Fatalf("%d services have the nodes %+v", len(services), list)
			}
			if want := map[bool]string{false: "sqlite", true: "postgresql"}[h.Store.Postgres()]; list.Database != want {
				t.Errorf("the database is %q, want %q", list.Database, want)
			}
			for j, n := range list.Data {
				if n.Self != (i == j) || n.ID != services[j].Store.Node() || n.StartedAt.IsZero() || n.SeenAt.IsZero() || n.Calls != 0 || n.Sessions != 0 {
					t.Errorf("asked of node %d, node %d is %+v", i, j, n)
				}
			}
		}
		h := services[0]
		c := h.Client(t)
		sessions := "/api/v1/api-agents/" + newAgent(t, h, h.Account.ID) + "/sessions"
		var session contract.Session
		c.Want(202, "POST", sessions, object{"message": "tokens: 400\nslow: 50ms"}).JSON(&session)
		for running := false; !running; { // as soon as it has been claimed and has called the model
			var list contract.NodeList
			c.Want(200, "GET", "/api/v1/nodes", nil).JSON(&list)
			running = list.Data[0].Sessions == 1 && list.Data[0].Calls == 1 || len(list.Data) == 2 && list.Data[1].Sessions == 1 && list.Data[1].Calls == 1
		}
		c.Want(200, "POST", sessions+"/"+session.ID+"/cancel", nil)
		key, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
		h.ClientWith(t, key).WantError(stoa.CodeScope, "GET", "/api/v1/nodes", nil)
		h.ClientWith(t, "").WantError(stoa.CodeUnauthorized, "GET", "/api/v1/nodes", nil)
	})
}
