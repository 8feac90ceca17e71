package agent_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"stoa/internal/agents/agent"
	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
)

// stepsOf returns the recorded steps of a session, in order.
func stepsOf(t *testing.T, h *sessiontest.Fixture, s stoa.Session) (list []stoa.Step) {
	t.Helper()
	if err := h.Store.Read(t.Context(), func(tx *store.Tx) (err error) {
		list, err = tx.Work().StepsOf(t.Context(), s.ID, 1, 1<<40)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// checkSent fails unless each call of a session can be built again exactly, with the texts that the vendor received; bodies are the
// requests that it received, in their order, or nil.
func checkSent(t *testing.T, h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session, bodies [][]byte) (all []*agent.Request) {
	t.Helper()
	steps := stepsOf(t, h, s)
	if bodies != nil && len(bodies) != len(steps) {
		t.Fatalf("%d steps and %d requests", len(steps), len(bodies))
	}
	for i, st := range steps {
		got, err := r.Sent(t.Context(), s.AccountID, s.AgentID, s.ID, st.Turn, st.Number)
		if err != nil || got == nil {
			t.Fatalf("step %d.%d: %v %v", st.Turn, st.Number, got, err)
		}
		if !got.Exact || got.Note != "" || len(got.Differs) > 0 {
			t.Fatalf("step %d.%d is not what was sent: %s %v\n%+v", st.Turn, st.Number, got.Note, got.Differs, got.Parts)
		}
		if !slices.ContainsFunc(got.Parts, func(p agent.RequestPart) bool { return p.New }) {
			t.Errorf("step %d.%d has no new part: %+v", st.Turn, st.Number, got.Parts)
		}
		if bodies != nil {
			checkTexts(t, bodies[i], got.Parts)
		}
		all = append(all, got)
	}
	return all
}

// checkTexts fails unless the texts of a request are those of the parts, and no others.
func checkTexts(t *testing.T, body []byte, parts []agent.RequestPart) {
	t.Helper()
	var request map[string]any
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	var texts []string
	var collect func(key string, v any)
	collect = func(key string, v any) {
		switch v := v.(type) {
		case string:
			switch key {
			case "text", "content", "output", "result", "instructions", "system", "error":
				texts = append(texts, v)
			}
		case []any:
			for _, one := range v {
				collect(key, one)
			}
		case map[string]any:
			for name, one := range v {
				if v["type"] == "reasoning" || v["type"] == "thinking" || v["thought"] == true {
					continue
				}
				if name != "input" && name != "args" || key == "" { // of a call
					collect(name, one)
				}
			}
		}
	}
	delete(request, "tools")
	delete(request, "text")
	for _, name := range []string{"messages", "contents", "input", "system", "instructions", "systemInstruction"} {
		collect("", map[string]any{name: request[name]})
	}
	have, replies := map[string]bool{}, map[string]bool{}
	for _, p := range parts {
		if p.Text != "" && p.Type != "tool" && p.Kind != agent.PartFormat && p.Type != "image" && p.Type != "call" {
			have[p.Text], replies[p.Text] = false, p.Role == "assistant"
		}
	}
	longest := slices.SortedFunc(maps.Keys(have), func(a, b string) int { return len(b) - len(a) })
	slices.SortStableFunc(longest, func(a, b string) int { return cmp.Compare(fmt.Sprint(replies[a]), fmt.Sprint(replies[b])) }) // the fake's replies repeat a part of the message
	for _, text := range texts {
		rest := strings.TrimPrefix(text, "Error: ") // of results, in formats without a member for it
		if _, ok := have[rest]; ok {
			have[rest] = true
			continue
		}
		for _, known := range longest {
			if strings.Contains(text, known) {
				have[known] = true
				rest = strings.ReplaceAll(rest, known, "")
			}
		}
		if strings.TrimSpace(rest) != "" {
			t.Errorf("no part has the text %q", rest)
		}
	}
	for text, found := range have {
		if !found {
			t.Errorf("the request does not have %q\n%s", text, body)
		}
	}
}

// TestACallIsShownAsItWasSent has sessions with answers of a schema, with a summary, and with a changed drive: each call can be built
// again, also the early ones after the session and its agent have changed.
func TestACallIsShownAsItWasSent(t *testing.T) {
	t.Parallel()
	h, vendor := onVendor(t, "messages")
	a := h.Agent(func(a *stoa.Agent) {
		a.Model, a.Instructions, a.DriveAccess = vendors["messages"].model, "Answer from the handbook.", stoa.DriveReadWrite
		a.Calls = &stoa.CallSettings{ReplySchema: `{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`}
	})
	h.File(a, "handbook.md", "Refunds take fourteen days.\n")
	r := h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "call: drive_read {\"path\":\"handbook.md\"}\nsay: {\"answer\":\"one\"}")
	h.Until(r, s, stoa.SessionCompleted)
	h.File(a, "handbook.md", "Refunds take seven days.\n")
	if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "say: {\"answer\":\"two\"}"}); err != nil {
		t.Fatal(err)
	}
	s = h.Until(r, s, stoa.SessionCompleted)
	var bodies [][]byte
	for _, served := range vendor.Served() {
		bodies = append(bodies, served.Body)
	}
	all := checkSent(t, h, r, s, bodies)
	kinds := func(r *agent.Request) (list []string) {
		for _, p := range r.Parts {
			if len(list) == 0 || list[len(list)-1] != p.Kind {
				list = append(list, p.Kind)
			}
		}
		return list
	}
	if got := strings.Join(kinds(all[0]), " "); got != "tools instructions service format files message note" {
		t.Errorf("the first call is %s", got)
	}
	if got := strings.Join(kinds(all[len(all)-1]), " "); got != "tools instructions service format files history note message note" {
		t.Errorf("the last call is %s", got)
	}
	first, last := all[0], all[len(all)-1]
	text := func(r *agent.Request, kind string) (all string) {
		for _, p := range r.Parts {
			if p.Kind == kind {
				all += p.Text
			}
		}
		return all
	}
	if got := text(first, agent.PartFiles); !strings.Contains(got, "fourteen days") || strings.Contains(got, "seven") {
		t.Errorf("the files of the first call are %q", got)
	}
	if got := text(last, agent.PartNote); !strings.Contains(got, "seven days") {
		t.Errorf("the notes of the last call are %q", got)
	}
	for _, p := range first.Parts {
		if p.Kind == agent.PartFiles && (len(p.Files) != 1 || p.Files[0].Path != "handbook.md" || p.Missing) {
			t.Errorf("the files are %+v", p)
		}
	}
	last.Scale(1_000, 400)
	tokens, cached := int64(0), int64(0)
	for i, p := range last.Parts {
		tokens, cached = tokens+p.Tokens, cached+p.Cached
		if p.Cached < p.Tokens && i+1 < len(last.Parts) && last.Parts[i+1].Cached > 0 {
			t.Errorf("the cache has part %d and not all of the one before", i+1)
		}
	}
	if tokens != 1_000 || cached != 400 {
		t.Errorf("%d tokens, %d cached", tokens, cached)
	}
	if err := h.Drives.Remove(t.Context(), drive.Owner{AccountID: a.AccountID, AgentID: a.ID}); err != nil {
		t.Fatal(err)
	}
	gone, err := r.Sent(t.Context(), s.AccountID, a.ID, s.ID, 1, 1)
	if err != nil || gone.Exact || !strings.Contains(gone.Note, "deleted") || !slices.Equal(gone.Differs, []string{agent.PartFiles}) {
		t.Fatalf("without its drive the first call is %+v, %v", gone, err)
	}
	for _, p := range gone.Parts {
		if p.Missing != (p.Kind == agent.PartFiles) || p.Missing && (p.Text != "" || p.Files[0].Path != "handbook.md") {
			t.Errorf("without its drive, a part is %+v", p)
		}
	}
}
