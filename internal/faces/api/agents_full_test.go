package api_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestAFullDiskIsToldToAgentsToo fills the store and then tries every write of
// spaces, agents and sessions. Reads go on.
func TestAFullDiskIsToldToAgentsToo(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	_, asked := a.begin(t, "ask: Which?", nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Worker.Run(ctx) }()
	a.until(t, asked, "waiting_for_input")
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 500)
	newcomer := h.ClientWith(t, newCustomer(t, h).Key)
	spaces, full, sessions := []string{}, []string{}, []string{}
	for range 30 {
		spaces = append(spaces, "/api/v1/spaces/"+newSpace(t, a.Client, object{"name": "s"}).ID)
		s := newSpace(t, a.Client, object{"name": "s"})
		b := newAuthor(t, h, a.Client, object{"spaceId": s.ID})
		b.begin(t, "say: x", nil)
		full = append(full, "/api/v1/spaces/"+s.ID)
		_, path := a.begin(t, "say: x", nil)
		sessions = append(sessions, path)
	}
	var agents []string
	for range 30 {
		b := newAuthor(t, h, a.Client, nil)
		b.begin(t, "say: x", nil)
		agents = append(agents, b.agent)
	}
	a.Want(200, "PATCH", a.agent, object{"instructions": "Be long."})
	for _, path := range sessions[:10] {
		a.Want(200, "POST", path+"/cancel", nil)
	}
	for _, path := range sessions[21:] { // whose cancel has much to tell
		a.Want(202, "POST", path+"/messages", object{"message": strings.Repeat(long, 40)})
	}
	var sets, runs []string
	for range 30 {
		var set contract.TestSet
		q := object{"message": long}
		a.Want(201, "POST", a.agent+"/test-sets", testSet("s", q, q, q, q)).JSON(&set)
		sets = append(sets, a.agent+"/test-sets/"+set.ID)
		var run contract.TestRun
		a.Want(202, "POST", sets[len(sets)-1]+"/runs", object{"maxCreditsMicro": 1_000_000}).JSON(&run)
		runs = append(runs, sets[len(sets)-1]+"/runs/"+run.ID)
	}
	if _, err := h.Tests.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh := newTestSet(t, a, object{"message": strings.Repeat(long, 16)}, object{"message": strings.Repeat(long, 16)}, object{"message": strings.Repeat(long, 16)})
	newAuthor(t, h, a.Client, exposed)
	front := newAuthor(t, h, a.Client, forFrontEnds())
	skilled := newAuthor(t, h, a.Client, nil)
	for i := range 30 {
		name := fmt.Sprintf("skill-%d", i)
		skilled.file("skills/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: "+long[:200]+"\n---\n")
		skilled.reviewSkill(t, name)
	}
	var responses []string
	for range 30 {
		out, _ := askAgent(a.Client, strings.Repeat(long, 40), map[string]any{"background": true})
		responses = append(responses, "/api/v1/responses/"+out.ID)
	}
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error { // no page more than there are
		return tx.Query(t.Context(), func(*sql.Rows) error { return nil }, "PRAGMA max_page_count = 1")
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		operation string
		ask       func(i int) *apitest.Reply
	}{
		{"createSession", func(int) *apitest.Reply { return a.Do("POST", a.agent+"/sessions", object{"message": long}) }},
		{"runAgent", func(i int) *apitest.Reply { // too long for the rest of the disk, because without a worker a run would never end
			return front.Do("POST", front.agent+"/ag-ui", runInput("t", fmt.Sprint(i), strings.Repeat(long, 100)))
		}},
		{"createSpace", func(int) *apitest.Reply {
			return a.Do("POST", "/api/v1/spaces", object{"name": "x", "description": long})
		}},
		{"createAgent", func(int) *apitest.Reply {
			return a.Do("POST", "/api/v1/api-agents", object{"spaceId": strings.TrimPrefix(spaces[0], "/api/v1/spaces/"), "name": "x", "instructions": long})
		}},
		{"duplicateAgent", func(int) *apitest.Reply { return a.Do("POST", a.agent+"/duplicate", nil) }},
		{"rollbackAgent", func(i int) *apitest.Reply { return a.Do("POST", a.agent+"/rollback", object{"version": 1 + i%2}) }},
		{"updateAgent", func(i int) *apitest.Reply { return a.Do("PATCH", a.agent, object{"instructions": fmt.Sprint(i, long)}) }},
		{"updateSpace", func(i int) *apitest.Reply {
			return a.Do("PATCH", spaces[i%len(spaces)], object{"description": strings.Repeat(long, 4)})
		}},
		{"updateSession", func(i int) *apitest.Reply {
			return a.Do("PATCH", sessions[i%len(sessions)], object{"metadata": object{"a": long, "b": long, "c": long}})
		}},
		{"sendMessage", func(i int) *apitest.Reply {
			return a.Do("POST", sessions[11+i%10]+"/messages", object{"message": long})
		}},
		{"upgradeSession", func(i int) *apitest.Reply { return a.Do("POST", sessions[i%10]+"/upgrade", nil) }},
		{"retrySession", func(i int) *apitest.Reply { return a.Do("POST", sessions[i%10]+"/retry", nil) }},
		{"answerInput", func(int) *apitest.Reply {
			var s contract.Session
			a.Want(200, "GET", asked, nil).JSON(&s)
			return a.Do("POST", asked+"/input", object{"inputId": orNone(s.PendingInput).ID, "answer": strings.Repeat(long, 20)})
		}},
		{"cancelSession", func(i int) *apitest.Reply { return a.Do("POST", sessions[11+i%10]+"/cancel", nil) }},
		{"cancelResponse", func(i int) *apitest.Reply { return a.Do("POST", responses[i%len(responses)]+"/cancel", nil) }},
		{"deleteSession", func(i int) *apitest.Reply { return a.Do("DELETE", sessions[21+i%9], nil) }},
		{"createTestSet", func(int) *apitest.Reply {
			return a.Do("POST", a.agent+"/test-sets", testSet("s", object{"message": strings.Repeat(long, 10)}))
		}},
		{"updateTestSet", func(i int) *apitest.Reply {
			return a.Do("PATCH", sets[i%10], object{"questions": []any{object{"message": strings.Repeat(long, 10)}}})
		}},
		{"runTestSet", func(int) *apitest.Reply {
			return a.Do("POST", fresh+"/runs", object{"maxCreditsMicro": 1})
		}},
		{"cancelTestRun", func(i int) *apitest.Reply { return a.Do("POST", runs[10+i%10]+"/cancel", nil) }},
		{"deleteTestSet", func(i int) *apitest.Reply { return a.Do("DELETE", sets[20+i%10], nil) }},
		{"reviewSkill", func(i int) *apitest.Reply {
			skilled.Want([]int{201, 200}[min(i, 1)], "PUT", skilled.agent+"/drive/files", object{"path": "skills/skill-0/n.md", "content": fmt.Sprint(i)})
			return skilled.Do("PUT", skilled.agent+"/skills/skill-0", object{"digest": orNone(skilled.skill(t, "skill-0").Digest)})
		}},
		{"setMemoryNote", func(i int) *apitest.Reply {
			return a.Do("PUT", a.agent+"/memory/notes", object{"externalUserId": fmt.Sprint("user-", i), "name": "n", "text": strings.Repeat(long, 10)})
		}},
		{"removeSkill", func(i int) *apitest.Reply {
			return skilled.Do("DELETE", skilled.agent+fmt.Sprintf("/skills/skill-%d", i%30), nil)
		}},
		{"deleteAgent", func(i int) *apitest.Reply { return a.Do("DELETE", agents[i%len(agents)], nil) }},
		{"deleteSpace", func(i int) *apitest.Reply { return a.Do("DELETE", full[i%len(full)]+"?force=true", nil) }},
	} {
		t.Run(test.operation, func(t *testing.T) {
			for i := range 300 {
				if r := test.ask(i); r.Status == 507 {
					if r.Error().Retryable != (r.Header.Get("Retry-After") != "") {
						t.Error("a full disk is worth a retry only when the reply says when")
					}
					return
				}
			}
			t.Error("the disk never became full")
		})
	}
	a.Want(200, "GET", a.agent, nil)
	a.Want(200, "GET", asked, nil)
	newcomer.Want(200, "GET", "/api/v1/users/me", nil)
	newcomer.Want(200, "GET", "/api/v1/spaces", nil)
}
