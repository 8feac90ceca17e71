package cli

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

const approvedTools = `[{"type":"client","name":"refund","description":"Refunds an order.","approval":"always",
	"parameters":{"type":"object","properties":{"orderId":{"type":"string"}},"required":["orderId"],"additionalProperties":false}}]`

func TestCallsAreApprovedByHand(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	p.runs(0, "", "agents", "create", "--name", "desk", "-i", "Answer.", "--tools", approvedTools)
	p.runs(0, "", "tools", "approvals")
	begin := func(text string) (session, call string) {
		t.Helper()
		id := strings.TrimSpace(p.runs(0, "", "sessions", "start", "desk", text, "--jq", ".id"))
		said := p.runs(0, "", "sessions", "wait", "desk", id)
		_, call, _ = strings.Cut(said, "stoa tools approve ")
		if call, _, _ = strings.Cut(call, "\n"); !strings.HasPrefix(call, "cal_") {
			t.Fatalf("it says %q", said)
		}
		return id, call
	}
	id, call := begin(`call: refund {"orderId":"A-1"}`)
	if said := p.runs(0, "", "tools", "approvals"); !strings.Contains(said, call) || !strings.Contains(said, "A-1") {
		t.Errorf("it lists %q", said)
	}
	if got := strings.TrimSpace(p.runs(0, "", "tools", "approvals", "--jq", ".[].id")); got != call {
		t.Errorf("it lists %q", got)
	}
	p.runs(2, "", "tools", "approve", call, "--remember", "ever")
	for range 2 {
		p.runs(0, "", "tools", "approve", call, "--remember", "session")
	}
	if said := p.runs(1, "", "tools", "reject", call); !strings.Contains(said, "Another decision") {
		t.Errorf("it says %q", said)
	}
	p.runs(1, "", "tools", "approve", stoa.NewID("cal"))
	p.runs(0, "", "tools", "run", "--agent", "desk", "--once", "--", "echo", "refunded")
	if said := p.runs(0, "", "sessions", "wait", "desk", id); !strings.Contains(said, "refunded") {
		t.Errorf("the reply is %q", said)
	}
	other, call := begin(`call: refund {"orderId":"B-2"}`)
	p.runs(0, "", "tools", "reject", call, "--comment", "Use the staging system.")
	if said := p.runs(0, "", "sessions", "wait", "desk", other); !strings.Contains(said, "Use the staging system.") {
		t.Errorf("the reply is %q", said)
	}
	if said := p.runs(0, "", "tools", "show", call); !strings.Contains(said, "reject") || !strings.Contains(said, "denied") || !strings.Contains(said, "staging") {
		t.Errorf("it shows %q", said)
	}
}

func TestOnlyAPlainYesApproves(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"yes": "approve map[]", "Y": "approve map[]", "session": "approve map[remember:session]", "S.": "approve map[remember:session]",
		"no": "reject map[]", "n": "reject map[]", "no, use staging": "reject map[comment:use staging]",
		"yes but not now": "none", "approve": "none", "sessions": "none", "ok": "none", `{"decision":"approve"}`: "none", "1": "none", "nope": "none",
	} {
		d, about, ok := readDecision(line)
		got := fmt.Sprint(d, " ", about)
		if !ok {
			got = "none"
		}
		if got != want {
			t.Errorf("%q is %s, want %s", line, got, want)
		}
	}
}

func TestNothingHidesInArguments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"to":"a` + "\u202e" + `b"}`: `{"to":"a\u202eb"}`, "a\u200bb\x1b[2J\u2028": `a\u200bb\u001b[2J\u2028`, "\U000e0041é日": `\U000e0041é日`, "plain {}": "plain {}",
	} {
		if got := visible(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
