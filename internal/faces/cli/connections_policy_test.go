package cli

import (
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakemcp"
)

// TestAReviewAndASwitchFromTheTerminal reviews a tool with both settings for unknown
// outcomes, gives it to an agent, and switches its connection off and on.
func TestAReviewAndASwitchFromTheTerminal(t *testing.T) {
	t.Parallel()
	f := fakemcp.Start(t)
	h := apitest.Start(t, apitest.Config{Allow: []string{"127.0.0.1"}})
	does := func(want string, args ...string) string {
		t.Helper()
		out, errOut, code := run(t, h, "", args...)
		if code != exitDone || !strings.Contains(out+errOut, want) {
			t.Fatalf("%v: %d, without %q:\n%s%s", args, code, want, out, errOut)
		}
		return out
	}
	fails := func(want string, args ...string) {
		t.Helper()
		if out, errOut, code := run(t, h, "", args...); code != exitFailed || !strings.Contains(errOut, want) {
			t.Errorf("%v: %d, without %q:\n%s%s", args, code, want, out, errOut)
		}
	}
	does("4 tools are new", "connections", "create", "shop", f.URL)
	_, hash, _ := strings.Cut(does("put@", "connections", "review", "shop"), "put@")
	put := "put@" + hash[:hashShown]
	fails("has no argument", "connections", "review", "shop", "--approve", put, "--idempotency-argument", "other")
	fails("--on-unknown", "connections", "review", "shop", "--approve", put, "--on-unknown", "ask")
	does("Approved 1", "connections", "review", "shop", "--approve", put, "--idempotency-argument", "key", "--on-unknown", "fail")
	if out := does(`"name": "put"`, "connections", "tools", "shop", "--json"); !strings.Contains(out, `"idempotencyArgument": "key"`) || !strings.Contains(out, `"onUnknown": "fail"`) {
		t.Errorf("the catalog is %s", out)
	}
	does("fail", "connections", "tools", "shop")
	does("puts", "agents", "create", "--name", "puts", "--instructions", "Put.", "--connection", "shop=put")
	if out := does(`"toolSearch": true`, "agents", "create", "--name", "all", "--instructions", "All.", "--connection", "shop=*", "--tool-search", "--json"); !strings.Contains(strings.Join(strings.Fields(out), ""), `"allow":["put"]`) {
		t.Errorf("the agent is %s", out)
	}
	does("Searches tools\tfalse", "agents", "update", "all", "--tool-search=false")
	does("", "agents", "update", "all", "--tools", `[{"type":"drive","name":"drive_write","approval":"always"}]`)
	for _, c := range []struct{ want, tools string }{{"drive_write,shop", ""}, {"shop", "[]"}} { // an approval does not end by the way
		args := []string{"agents", "update", "all", "--connection", "shop=put", "--jq", `[.tools[] | if .type == "drive" then .name else "shop" end] | "<" + join(",") + ">"`}
		if c.tools != "" {
			args = append(args, "--tools", c.tools)
		}
		does("<"+c.want+">", args...)
	}
	does("", "connections", "create", "empty", f.URL)
	fails("has no approved tools", "agents", "update", "all", "--connection", "empty=*")
	does("", "agents", "delete", "all", "--yes")
	does("", "connections", "delete", "empty", "--yes")

	out, errOut, code := run(t, h, "", "connections", "disable", "shop")
	if code != exitDone || !strings.Contains(out, "disabled") || !strings.Contains(errOut, "Its tools are withheld from: puts.") {
		t.Errorf("%d %s%s", code, out, errOut)
	}
	fails("is disabled", "connections", "refresh", "shop")
	fails("is disabled", "connections", "test", "shop", "put", "--confirm")
	does("disabled", "connections", "list")
	before := len(f.Requests())
	out, errOut, code = run(t, h, "", "connections", "enable", "shop")
	if code != exitDone || strings.Contains(out+errOut, "withheld") || !strings.Contains(out, "review_needed") || len(f.Requests()) != before {
		t.Errorf("%d %s%s", code, out, errOut)
	}
	does("", "connections", "test", "shop", "put", `{"key":"mine"}`, "--confirm")
	if calls := f.Calls(); len(calls) != 1 || !strings.HasPrefix(calls[0].Key, "cal_") || calls[0].Key != calls[0].ID {
		t.Errorf("the server got %+v", calls)
	}
}
