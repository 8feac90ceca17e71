package api_test

import (
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/vault"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestANodeThatCannotTakeAVersionIsNotReady gives a node other keys for secrets: it keeps the former
// version, until one without a key is applied.
func TestANodeThatCannotTakeAVersionIsNotReady(t *testing.T) {
	t.Parallel()
	home := storetest.Postgres(t)
	home.Config.Observe = nil
	good := apitest.Start(t, apitest.Config{Home: &home, Idle: true})
	other, err := vault.Open([]seal.MasterKey{{ID: "other", Key: []byte(strings.Repeat("x", 32))}}, "")
	if err != nil {
		t.Fatal(err)
	}
	bad := apitest.Start(t, apitest.Config{Home: &home, Idle: true, Vault: other})
	c, elsewhere := good.Client(t), bad.Client(t)
	applied(t, c, object{"plans": object{"team": object{"name": "Team"}}})
	inForce(elsewhere, 1)
	applied(t, c, object{"providers": []object{managedVendor(t, "claude", "a-key")}, "families": object{"alpha": []object{{"provider": "claude"}}}})
	var now contract.Config
	for now.Problem.IsNull() || !now.Problem.IsSpecified() {
		elsewhere.Want(200, "GET", configPath, nil).JSON(&now)
	}
	if now.Version != 1 || now.LatestVersion != 2 || !strings.Contains(now.Problem.MustGet(), "cannot be decrypted") {
		t.Errorf("the node has %d of %d: %v", now.Version, now.LatestVersion, now.Problem)
	}
	if r := bad.Readiness(t.Context()); r.Status != "unavailable" || !strings.Contains(r.Reason, "Version 2") {
		t.Errorf("it is %+v", r)
	}
	if r := good.Readiness(t.Context()); r.Status != "ok" {
		t.Errorf("the other one is %+v", r)
	}
	refused := 0
	for refused == 0 {
		var nodes contract.NodeList
		c.Want(200, "GET", "/api/v1/nodes", nil).JSON(&nodes)
		for _, n := range nodes.Data {
			if !n.ConfigProblem.IsNull() {
				refused++
				if n.ConfigVersion != 1 {
					t.Errorf("a node is %+v", n)
				}
			}
		}
	}
	applied(t, elsewhere, object{"plans": object{"team": object{"name": "Group"}}})
	if r := bad.Readiness(t.Context()); r.Status != "ok" {
		t.Errorf("with version 3 it is %+v", r)
	}
	if e := elsewhere.WantError(stoa.CodeInvalidValue, "POST", configPath+"/versions/2/restore", nil); !strings.Contains(e.Message, "cannot be decrypted") {
		t.Errorf("the restore of version 2: %s", e.Message)
	}
}
