package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/storetest"
)

// actingKey is the first master key of a server of [newActingServer].
const actingKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// newActingServer returns a server, not started, with the [actingSettings]; more is YAML to
// append, and postgres the URL of its database; empty means SQLite.
func newActingServer(t testing.TB, postgres, more string) (*server, *vendor) {
	t.Helper()
	v := newVendor(t, nil)
	h := newServer(t, v.url, actingSettings(t, more))
	h.postgres = postgres
	return h, v
}

// actingSettings returns settings of a server that may call servers on this machine and
// has a master key for secrets.
func actingSettings(t testing.TB, more string) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(actingKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("outbound: {allow: [127.0.0.0/8]}\nsecrets: {keys: [{id: a, file: %q}]}\n", key) + more
}

// aPostgres returns the URL of a new PostgreSQL database. Without a PostgreSQL server the
// test is skipped.
func aPostgres(t testing.TB) string {
	t.Helper()
	if os.Getenv(storetest.Env) == "" {
		t.Skip(storetest.Env + " is not set")
	}
	return storetest.Postgres(t).Config.PostgresURL
}

// newToolAgent creates an agent that may call tools of a server. With the approval never no call
// needs an approval.
func (h *server) newToolAgent(t *testing.T, a *account, far *fakemcp.Server, approval string) (id string) {
	t.Helper()
	must := func(path string, body, into any) {
		t.Helper()
		if _, err := h.call(t.Context(), "POST", a.key, path, body, into); err != nil {
			t.Fatal(err)
		}
	}
	var made struct{ ID, SpaceID string }
	must("/connections", object{"kind": "mcp", "name": "far", "url": far.URL}, &made)
	must("/connections/"+made.ID+"/refresh", nil, nil)
	var catalog struct {
		Data []struct{ Name, Sha256 string }
	}
	h.get(t, a.key, "/connections/"+made.ID+"/tools", &catalog)
	var decisions []object
	for _, tool := range catalog.Data {
		effects := "once"
		if tool.Name == fakemcp.Put {
			effects = "idempotent"
		}
		decisions = append(decisions, object{"name": tool.Name, "sha256": tool.Sha256, "decision": "approve", "approval": approval, "effects": effects})
	}
	must("/connections/"+made.ID+"/tools/review", object{"tools": decisions}, nil)
	allow := []object{{"type": "connection", "connectionId": made.ID, "allow": []string{fakemcp.Act, fakemcp.Put}}}
	var agent struct{ ID string }
	must("/api-agents", object{"spaceId": made.SpaceID, "name": "acts", "instructions": "Do as you are told.", "model": "alpha-haiku-4-5", "tools": allow}, &agent)
	return agent.ID
}
