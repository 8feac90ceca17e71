package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"stoa/internal/testkit/fakeup"
)

// slowTurn adds turns of that time, which has to be longer than a call of a tool waits: almost a minute.
var slowTurn = flag.Duration("slow-turn", 0, "let agents of the service also work for this time, such as 55s or 3m")

const (
	guideInstructions = "Answer from the plan of the museum."
	guideAnswer       = "We open at dawn."
)

// TestCodingAgentsCallAnAgent lets programs call an agent of the service as a tool. They are configured by the commands of
// docs/call-an-agent.md.
func TestCodingAgentsCallAnAgent(t *testing.T) {
	t.Parallel()
	packages := os.Getenv(agentPackages)
	if packages == "" {
		t.Skip(agentPackages + " is not set: .ci/check clients installs the packages")
	}
	turns := map[string]string{"short": "say: "}
	if *slowTurn > 0 {
		// No vendor may be silent for so long before its first text, nor between two of them.
		const begins, word = 55 * time.Second, 10 * time.Second
		turns["slow"] = fmt.Sprintf("wait: %s\nslow: %s\nsay: %s", begins, word, strings.Repeat("well, ", int(max(0, *slowTurn-begins)/word)))
	}
	for _, a := range agents() {
		switch a.name {
		case "Codex":
			a.mcp = ""
		case "ClaudeCode":
			a.command = []string{"claude", "-p", "--allowedTools", "mcp__guide__Guide", "--"}
		default:
			continue
		}
		for name, orders := range turns {
			t.Run(a.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				askGuide(t, a, filepath.Join(packages, "node_modules/.bin"), orders)
			})
		}
	}
}

// askGuide lets a program ask an agent. orders begin the orders for the reply of its model. If the turn is slow, the program calls the tool again
// with the id of the session.
func askGuide(t *testing.T, a codingAgent, bin, orders string) {
	const tool = "mcp__guide__Guide"
	session := regexp.MustCompile(`ses_[0-9a-z]+`)
	offered := regexp.MustCompile(`"name":"(mcp__guide__)?Guide"`)
	isGuide := func(body []byte) bool { return bytes.Contains(body, []byte(guideInstructions)) }
	vendor := fakeup.Start(t, fakeup.Options{Script: func(body []byte) string {
		results := 0
		for _, mark := range resultMarks {
			results += bytes.Count(body, []byte(mark))
		}
		id := session.Find(body)
		switch {
		case isGuide(body):
			return orders + guideAnswer
		case !bytes.Contains(body, []byte(tool)) && !offered.Match(body):
			return "say: Opening" // a title is requested
		case bytes.Contains(body, []byte(guideAnswer)):
			return "say: The guide says: " + guideAnswer
		case results > 8:
			return "say: The guide does not answer."
		case id != nil:
			return "rounds: 100\n" + call(tool, map[string]any{"sessionId": string(id)})
		case a.searches > results:
			return "rounds: 100\n" + call("ToolSearch", map[string]any{"query": "select:" + tool, "max_results": 5})
		}
		return "rounds: 100\n" + call(tool, map[string]any{"message": "When do you open?"})
	}})
	h := a.server(t, vendor.URL, "messages")
	owner := &account{key: ownerKey}
	h.newAgent(t, owner)
	agent := "/api-agents/" + owner.agent
	change := object{"name": "Guide", "description": "Knows the museum.", "instructions": guideInstructions, "expose": []string{"mcp"}}
	if _, err := h.call(t.Context(), http.MethodPatch, ownerKey, agent, change, nil); err != nil {
		t.Fatal(err)
	}

	cmd := a.run(t, bin, t.TempDir(), t.TempDir(), h.url, ownerKey, "Ask the guide when the museum opens.")
	page, err := os.ReadFile("../docs/call-an-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	add := exec.CommandContext(t.Context(), "sh", "-c", string(regexp.MustCompile(`(?m)^    `+a.command[0]+` mcp add .*`).Find(page)))
	add.Dir, add.Env = cmd.Dir, append(cmd.Env, "STOA_BASE_URL="+h.url)
	if out, err := add.CombinedOutput(); err != nil || len(out) == 0 {
		t.Fatalf("%s: %v\n%s", add, err, out)
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("The guide says: "+guideAnswer)) {
		t.Errorf("%v; it wrote\n%s", err, out)
	}

	turns, working := 0, false
	for _, s := range vendor.Served() {
		if isGuide(s.Body) {
			turns++
		}
		working = working || bytes.Contains(s.Body, []byte("The agent is still working."))
		if s.Status != 200 {
			t.Errorf("the vendor answered with %d: %s", s.Status, s.Refused)
		}
	}
	if turns != 1 || working != strings.HasPrefix(orders, "wait") {
		t.Errorf("the agent's model was called %d times; the program received the status working: %v", turns, working)
	}
	var sessions struct{ Data []struct{ ID, Status string } }
	if h.get(t, ownerKey, agent+"/sessions", &sessions); len(sessions.Data) != 1 {
		t.Fatalf("the program began %d sessions", len(sessions.Data))
	}
	var messages struct{ Data []struct{ Role string } }
	h.get(t, ownerKey, agent+"/sessions/"+sessions.Data[0].ID+"/messages", &messages)
	var roles []string
	for _, m := range messages.Data {
		roles = append(roles, m.Role)
	}
	if got := strings.Join(roles, " "); got != "user assistant" && got != "assistant user" {
		t.Errorf("the session has messages of %s", got)
	}
}
