package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// rolesOfScopes is the table of roles: who may call the operations that require a scope. The
// operator roles are those of members who are also viewers.
var rolesOfScopes = map[string]string{
	"":                  "owner member viewer",
	"agents:read":       "owner member viewer",
	"sessions:read":     "owner member viewer",
	"drive:read":        "owner member viewer",
	"schedules:read":    "owner member viewer",
	"connections:read":  "owner member viewer",
	"webhooks:read":     "owner member viewer",
	"usage:read":        "owner member viewer",
	"responses":         "owner member",
	"agents:write":      "owner member",
	"sessions:write":    "owner member",
	"drive:write":       "owner member",
	"schedules:write":   "owner member",
	"embeds:write":      "owner member",
	"approvals:write":   "owner member",
	"keys:write":        "owner member",
	"connections:write": "owner",
	"secrets:write":     "owner",
	"webhooks:write":    "owner",
	"account:read":      "owner admin",
	"account:write":     "owner admin",
	"operator:read":     "admin support billing",
	"operator:billing":  "admin billing",
	"operator":          "admin",
}

// TestRolesOfEveryOperation calls each operation as a member with each role.
func TestRolesOfEveryOperation(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	clients := map[string]*apitest.Client{}
	for _, role := range append(slices.Clone(stoa.Roles), stoa.OperatorRoles...) {
		base, operator := role, ""
		if slices.Contains(stoa.OperatorRoles, role) {
			base, operator = stoa.RoleViewer, role
		}
		clients[role] = asMember(t, h, h.NewMember(h.Account.ID, base, operator).PersonID)
	}
	for _, scope := range append(slices.Clone(stoa.Scopes), stoa.ScopeOperator) {
		if rolesOfScopes[scope] == "" {
			t.Errorf("the scope %q is not in the table", scope)
		}
	}
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		if op.Security != nil {
			return // it requires no key
		}
		scope, _ := op.Extensions["x-scope"].(string)
		allowed, ok := rolesOfScopes[scope]
		if !ok {
			t.Fatalf("the scope %q is not in the table", scope)
		}
		for role, c := range clients {
			may := slices.Contains(strings.Fields(allowed), role)
			if slices.Contains(stoa.OperatorRoles, role) {
				may = may || strings.Contains(allowed, stoa.RoleViewer)
			}
			r := c.Send(op.Sample("x"))
			if refused := r.Status == http.StatusForbidden && strings.Contains(string(r.Body), "This key does not have the scope"); refused == may {
				t.Errorf("%s: %d %.300s", role, r.Status, r.Body)
			}
		}
	})
}
