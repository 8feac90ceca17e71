package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

const orderTools = `[{"type":"client","name":"lookup_order","description":"Finds an order.","effects":"read",
	"parameters":{"type":"object","properties":{"orderId":{"type":"string"}},"required":["orderId"],"additionalProperties":false}}]`

// TestAProgramCarriesOutCalls runs a shell script for the calls of an agent: one that
// works, and one that fails.
func TestAProgramCarriesOutCalls(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	h := apitest.Start(t, apitest.Config{})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key, "PATH="+os.Getenv("PATH"))
	p.runs(0, "", "agents", "create", "--name", "desk", "-i", "Answer.", "--tools", orderTools)
	script := filepath.Join(t.TempDir(), "lookup.sh")
	if err := os.WriteFile(script, []byte("read -r arguments\ncase $arguments in *A-1*) echo \"$STOA_TOOL found $arguments\" ;; *) echo 'no such order' >&2; exit 3 ;; esac\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for order, want := range map[string]string{"A-1": `lookup_order found {\"orderId\":\"A-1\"}`, "B-2": `The program failed: exit status 3.\nno such order`} {
		id := strings.TrimSpace(p.runs(0, "", "sessions", "start", "desk", `call: lookup_order {"orderId":"`+order+`"}`, "--jq", ".id"))
		said := p.runs(0, "", "tools", "run", "--agent", "desk", "--once", "--", "sh", script)
		if !strings.Contains(said, map[string]string{"A-1": "lookup_order: done", "B-2": "lookup_order: failed"}[order]) {
			t.Errorf("it says %q", said)
		}
		p.runs(0, "", "sessions", "wait", "desk", id)
		calls := p.runs(0, "", "tools", "calls", "--jq", ".[] | select(.sessionId == \""+id+"\") | [.outcome, .attempts, .resultText] | tojson")
		if !strings.Contains(calls, want) || !strings.Contains(calls, ",1,") {
			t.Errorf("the call of %s is %s", order, calls)
		}
	}
}

func TestACallIsAnsweredAndResolvedByHand(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	p.runs(0, "", "agents", "create", "--name", "desk", "-i", "Answer.", "--tools", orderTools)
	id := strings.TrimSpace(p.runs(0, "", "sessions", "start", "desk", `call: lookup_order {"orderId":"A-1"}`, "--jq", ".id"))
	if said := p.runs(0, "", "sessions", "wait", "desk", id); !strings.Contains(said, "stoa tools run --agent desk -- PROGRAM") {
		t.Errorf("it says %q", said)
	}
	call := strings.TrimSpace(p.runs(0, "", "tools", "inputs", "--unclaimed", "--jq", ".[0].calls[0].callId"))
	p.runs(0, "", "tools", "output", call, "It was shipped.")
	p.runs(0, "", "tools", "output", call, "It was shipped.")
	if said := p.runs(1, "", "tools", "output", call, "It was lost."); !strings.Contains(said, "output_already_given") && !strings.Contains(said, "A different output") {
		t.Errorf("it says %q", said)
	}
	if said := p.runs(0, "", "sessions", "wait", "desk", id); !strings.Contains(said, "It was shipped.") {
		t.Errorf("the reply is %q", said)
	}
	p.runs(0, "", "tools", "resolve", call, "done", "--note", "seen")
	if said := p.runs(0, "", "tools", "show", call); !strings.Contains(said, "It was shipped.") || !strings.Contains(said, "seen") {
		t.Errorf("it shows %q", said)
	}
	p.runs(1, "", "agents", "update", "desk", "--tools", `[{"type":"client"}]`)
	p.runs(2, "", "agents", "update", "desk", "--tools", `[`)
	p.runs(2, "", "tools", "run", "--", "true")
}
