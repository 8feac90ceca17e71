package api_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// exposed are the settings of an agent that can be called as a model.
var exposed = map[string]any{"description": "Answers questions.", "expose": []string{"responses"}}

// askAgent calls an agent as a model in the Responses format.
func askAgent(c *apitest.Client, input any, more map[string]any) (contract.Response, *apitest.Reply) {
	call := map[string]any{"model": "agent/Helper", "input": input}
	for k, v := range more {
		call[k] = v
	}
	var out contract.Response
	r := c.Want(200, "POST", "/api/v1/responses", call).JSON(&out)
	return out, r
}

// sums adds up the receipts of a session.
func sums(c *apitest.Client, agent, session string) (u contract.ResponseUsage, micro int64) {
	var list contract.ReceiptList
	c.Want(200, "GET", agent+"/sessions/"+session+"/receipts?limit=100", nil).JSON(&list)
	for _, r := range list.Data {
		u.InputTokens += r.Usage.InputTokens
		u.OutputTokens += r.Usage.OutputTokens
		u.TotalTokens += r.Usage.TotalTokens
		u.InputTokensDetails.CachedTokens += r.Usage.CachedInputTokens
		u.InputTokensDetails.CacheWriteTokens += r.Usage.CacheWriteTokens
		u.OutputTokensDetails.ReasoningTokens += r.Usage.ReasoningTokens
		micro += r.CreditsMicro
	}
	return u, micro
}

func TestAnAgentIsAModel(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	a.file("docs/prices.md", "# Prices\n\nA ticket to the stoa costs seven drachmas.\n")

	var models contract.ModelObjectList
	a.Want(200, "GET", "/api/v1/models", nil).JSON(&models)
	if !slices.ContainsFunc(models.Data, func(m contract.ModelObject) bool { return m.ID == "agent/Helper" }) {
		t.Errorf("the models are %+v", models.Data)
	}
	a.Want(200, "GET", "/api/v1/models/agent%2FHelper", nil)

	out, r := askAgent(a.Client, "What does a ticket cost?", map[string]any{"temperature": 0.5, "user": "u-1", "metadata": map[string]string{"order": "7"}})
	session := r.Header.Get("Stoa-Session")
	if !strings.Contains(r.Text(), "seven drachmas") || out.Model != "agent/Helper" || out.Status != "completed" {
		t.Errorf("the reply is %s", r.Body)
	}
	if got := r.Header.Get("Stoa-Ignored"); got != "temperature" {
		t.Errorf("ignored: %q", got)
	}
	want, micro := sums(a.Client, a.agent, session)
	if *out.Usage != want || r.Header.Get("Stoa-Charge-Micro") != fmt.Sprint(micro) || want.InputTokens == 0 {
		t.Errorf("usage %+v, charge %s; the receipts have %+v, %d", *out.Usage, r.Header.Get("Stoa-Charge-Micro"), want, micro)
	}
	var s contract.Session
	a.Want(200, "GET", a.agent+"/sessions/"+session, nil).JSON(&s)
	if s.Trigger.Type != "responses" || orNone(s.ExternalUserID) != "u-1" || s.Metadata["order"] != "7" || s.Usage.Steps < 2 {
		t.Errorf("the session is %+v", s)
	}
	var again contract.Response
	a.Want(200, "GET", "/api/v1/responses/"+out.ID, nil).JSON(&again)
	if *again.Usage != want || again.Output[0].Content[0].Text != out.Output[0].Content[0].Text || *again.CompletedAt < again.CreatedAt {
		t.Errorf("read again: %+v", again)
	}
	a.WantError(stoa.CodeNotFound, "GET", "/api/v1/responses/resp_06h2h2r071v632d1vtn30qbm2s", nil)
	a.WantError(stoa.CodeNotFound, "GET", "/api/v1/responses/"+out.ID+"0000", nil)
}

// TestAnAgentAnswersInEveryFormat sends the same question in each format, whole and as a stream.
func TestAnAgentAnswersInEveryFormat(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	user := map[string]any{"role": "user", "content": "say: Yes, at dawn."}
	for path, call := range map[string]map[string]any{
		"/api/v1/responses":        {"input": []any{user}},
		"/api/v1/chat/completions": {"messages": []any{user}},
		"/api/v1/messages":         {"messages": []any{user}, "max_tokens": 100},
	} {
		for _, stream := range []bool{false, true} {
			call["model"], call["stream"] = "agent/Helper", stream
			r := a.Want(200, "POST", path, call)
			if session := r.Header.Get("Stoa-Session"); !strings.Contains(string(r.Body), "Yes, at dawn.") || session == "" {
				t.Errorf("%s, stream %t: session %q, %s", path, stream, session, r.Body)
			}
		}
		a.With("stoa-session", "ses_none").Want(404, "POST", path, call)
	}
}

func TestAnAgentReadsTheHistoryOfItsCaller(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	var input []any
	for i := range 103 {
		input = append(input, map[string]any{"role": []string{"user", "assistant"}[i%2], "content": fmt.Sprintf("message %d", i)})
	}
	input[102] = map[string]any{"role": "user", "content": "go on"}
	out, r := askAgent(a.Client, input, nil)
	if left := r.Header.Get("Stoa-History-Left-Out"); left != "2" {
		t.Errorf("%s messages were left out, want 2", left)
	}
	var list contract.MessageList
	session := a.agent + "/sessions/" + out.Conversation.ID
	a.Want(200, "GET", session+"/messages?limit=100", nil).JSON(&list)
	if first := list.Data[0]; len(list.Data) != 100 || first.Kind != "history" || first.Text != "message 2" || !first.Turn.IsNull() {
		t.Errorf("%d messages, the first is %+v", len(list.Data), first)
	}
	// The sandbox counts the user's messages: the service's two, 50 of the history and the last one.
	if want := "message 52 of yours"; !strings.Contains(r.Text(), want) {
		t.Errorf("the reply does not say %q: %s", want, r.Text())
	}

	next, r := askAgent(a.Client, []any{input[0], input[1], input[102]}, map[string]any{"conversation": map[string]any{"id": out.Conversation.ID}})
	if next.Conversation.ID != out.Conversation.ID || !strings.Contains(r.Text(), "message 53 of yours") {
		t.Errorf("the next reply of %s is %s", next.Conversation.ID, r.Text())
	}
	chat := a.With("stoa-session", out.Conversation.ID).Want(200, "POST", "/api/v1/chat/completions", map[string]any{"model": "agent/Helper", "messages": []any{input[102]}})
	if chat.Header.Get("Stoa-Session") != out.Conversation.ID || !strings.Contains(string(chat.Body), "message 54 of yours") {
		t.Errorf("the reply in chat is %s", chat.Body)
	}
}

func TestACallerOfAModelAnswersAQuestion(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	out, r := askAgent(a.Client, "ask: Which day? | Monday | Friday", nil)
	if out.Status != "completed" || r.Text() != "Which day?\n- Monday\n- Friday" {
		t.Errorf("%s: %q", out.Status, r.Text())
	}
	first, _ := sums(a.Client, a.agent, out.Conversation.ID)
	next, r := askAgent(a.Client, "Friday", map[string]any{"conversation": out.Conversation.ID, "stream": false})
	all, _ := sums(a.Client, a.agent, out.Conversation.ID)
	if !strings.Contains(r.Text(), "Friday") || *out.Usage != first || next.Usage.TotalTokens != all.TotalTokens-first.TotalTokens {
		t.Errorf("%q; usage %+v of %+v", r.Text(), *next.Usage, all)
	}
	var s contract.Session
	a.Want(200, "GET", a.agent+"/sessions/"+out.Conversation.ID, nil).JSON(&s)
	if s.Turn.Number != 1 || s.Status != "completed" {
		t.Errorf("the answer began another turn: %+v", s)
	}
}

func TestAnAgentReceivesFilesOfAModelCall(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	out, _ := askAgent(a.Client, []any{map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "input_text", "text": "What is this?"}, map[string]any{"type": "input_image", "image_url": picture(t)},
	}}}, nil)
	var list contract.SessionAttachmentList
	a.Want(200, "GET", a.agent+"/sessions/"+out.Conversation.ID+"/attachments", nil).JSON(&list)
	if len(list.Data) != 1 || list.Data[0].Name != "image-1.png" {
		t.Errorf("the attachments are %+v", list.Data)
	}
	a.WantError(stoa.CodeUnsupportedValue, "POST", "/api/v1/responses", map[string]any{"model": "agent/Helper", "input": []any{map[string]any{"role": "user", "content": []any{
		map[string]any{"type": "input_text", "text": "What is this?"}, map[string]any{"type": "input_image", "image_url": "https://example.com/a.png"},
	}}}})
}

func TestACallOfAnAgentIsChecked(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	a.WantError(stoa.CodeMissingParameter, "PATCH", a.agent, map[string]any{"description": nil})
	for param, call := range map[string]map[string]any{
		"instructions": {"input": "x", "instructions": "Be long."},
		"input":        {"input": []any{map[string]any{"role": "developer", "content": "Be long."}, map[string]any{"role": "user", "content": "x"}}},
		"tools":        {"input": "x", "tools": []any{map[string]any{"type": "function", "name": "f", "parameters": map[string]any{"type": "object"}}}},
		"text":         {"input": "x", "text": map[string]any{"format": map[string]any{"type": "json_object"}}},
		"stream":       {"input": "x", "background": true, "stream": true},
	} {
		call["model"] = "agent/Helper"
		if e := h.Client(t).Do("POST", "/api/v1/responses", call).Error(); e.Param == nil || *e.Param != param {
			t.Errorf("%s: the error is %+v", param, e)
		}
	}
	ask := func(c *apitest.Client, code stoa.Code, call map[string]any) {
		t.Helper()
		c.WantError(code, "POST", "/api/v1/responses", call)
	}
	ask(a.Client, stoa.CodeModelNotFound, map[string]any{"model": "agent/Other", "input": "x"})
	ask(a.Client, stoa.CodeSessionNotFound, map[string]any{"model": "agent/Helper", "input": "x", "conversation": "ses_none"})
	ask(a.Client, stoa.CodeUnsupported, map[string]any{"model": "auto", "input": "x", "conversation": "ses_none"})
	ask(a.Client, stoa.CodeUnsupported, map[string]any{"model": "auto", "input": "x", "background": true})

	plain, _ := h.NewKey(h.Account.ID, "responses")
	ask(h.ClientWith(t, plain), stoa.CodeScope, map[string]any{"model": "agent/Helper", "input": "x"})
	other, _ := h.NewKeyLike(stoa.Key{AccountID: h.Account.ID, Scopes: []string{"responses", "sessions:write"}, Models: []string{"beta*"}})
	ask(h.ClientWith(t, other), stoa.CodeModelNotAllowed, map[string]any{"model": "agent/Helper", "input": "x"})
	only, _ := h.NewKeyLike(stoa.Key{AccountID: h.Account.ID, Scopes: []string{"responses", "sessions:write"}, Models: []string{"agent/Helper"}})
	if _, r := askAgent(h.ClientWith(t, only), "say: allowed", nil); r.Text() != "allowed" {
		t.Errorf("the key of the agent alone: %s", r.Body)
	}
	byKey, _ := h.NewKeyLike(stoa.Key{AccountID: h.Account.ID, Scopes: []string{"responses", "sessions:write"}, Models: []string{"agent/" + a.agent[strings.LastIndex(a.agent, "/")+1:]}})
	if _, r := askAgent(h.ClientWith(t, byKey), "say: by its id", nil); r.Text() != "by its id" { // for names with spaces, which keys cannot list
		t.Errorf("the key of the agent's id: %s", r.Body)
	}
	stranger := h.ClientWith(t, foreignKey(t, h))
	ask(stranger, stoa.CodeModelNotFound, map[string]any{"model": "agent/Helper", "input": "x"})

	newAuthor(t, h, a.Client, exposed)
	ask(a.Client, stoa.CodeModelNotFound, map[string]any{"model": "agent/Helper", "input": "x"}) // two have the name
	byID := "agent/" + a.agent[strings.LastIndex(a.agent, "/")+1:]
	if _, r := askAgent(a.Client, "say: by id", map[string]any{"model": byID}); r.Text() != "by id" {
		t.Errorf("by its id: %s", r.Body)
	}
	a.Want(200, "PATCH", a.agent, map[string]any{"expose": []string{}})
	ask(a.Client, stoa.CodeModelNotFound, map[string]any{"model": byID, "input": "x"})
}

// foreignKey returns a key of another account.
func foreignKey(t *testing.T, h *apitest.Service) string {
	t.Helper()
	other := storetest.Account(t, h.Server.Store, stoa.Credit)
	secret, _ := h.NewKey(other.ID, "responses", "sessions:write", "sessions:read", "agents:write")
	return secret
}

func TestABackgroundCallOfAnAgentIsReadLater(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	out, _ := askAgent(a.Client, "wait: 10m", map[string]any{"background": true})
	if out.Status != "queued" || !out.Background || out.Usage != nil {
		t.Errorf("the first reply is %+v", out)
	}
	var got contract.Response
	a.Want(200, "POST", "/api/v1/responses/"+out.ID+"/cancel", nil).JSON(&got)
	a.until(t, a.agent+"/sessions/"+out.Conversation.ID, "cancelled")
	a.Want(200, "GET", "/api/v1/responses/"+out.ID, nil).JSON(&got)
	if got.Status != "cancelled" {
		t.Errorf("the cancelled reply is %+v", got)
	}
	h.ClientWith(t, foreignKey(t, h)).WantError(stoa.CodeNotFound, "GET", "/api/v1/responses/"+out.ID, nil)
	plain, _ := h.NewKey(h.Account.ID, "responses")
	h.ClientWith(t, plain).WantError(stoa.CodeScope, "GET", "/api/v1/responses/"+out.ID, nil)
	reader, _ := h.NewKey(h.Account.ID, "responses", "sessions:read")
	h.ClientWith(t, reader).Want(200, "GET", "/api/v1/responses/"+out.ID, nil)
	h.ClientWith(t, reader).WantError(stoa.CodeScope, "POST", "/api/v1/responses/"+out.ID+"/cancel", nil)

	out, _ = askAgent(a.Client, "say: done", map[string]any{"background": true})
	a.until(t, a.agent+"/sessions/"+out.Conversation.ID, "completed")
	a.Want(200, "GET", "/api/v1/responses/"+out.ID, nil).JSON(&got)
	if got.Status != "completed" || got.Output[0].Content[0].Text != "done" || got.Usage.TotalTokens == 0 {
		t.Errorf("the finished reply is %+v", got)
	}
}

func TestADisconnectCancelsTheTurn(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	var session contract.Session
	running := func() {
		for session.Status != "running" || session.Turn.StartedAt.IsNull() {
			var list contract.SessionList
			a.Want(200, "GET", a.agent+"/sessions", nil).JSON(&list)
			if len(list.Data) > 0 {
				session = list.Data[0]
			}
		}
	}
	breakOff(t, h, "/api/v1/responses", "", body{"model": "agent/Helper", "input": "wait: 10m"}, running)
	a.until(t, a.agent+"/sessions/"+session.ID, "cancelled")
}

// TestACallOfAnAgentFails compares the errors of failed turns.
func TestACallOfAnAgentFails(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	r := a.Do("POST", "/api/v1/responses", map[string]any{"model": "agent/Helper", "input": "fail: 400"})
	if e := r.Error(); r.Status != http.StatusBadRequest || e.Code != string(stoa.CodeInvalidPrompt) || r.Header.Get("Stoa-Session") == "" {
		t.Errorf("%d %+v", r.Status, e)
	}

	// A turn that is cancelled elsewhere was charged for its first step, so that clients must not repeat it by themselves.
	a.file("a.txt", "text")
	ended := make(chan *apitest.Reply)
	go func() {
		ended <- a.Do("POST", "/api/v1/responses", map[string]any{"model": "agent/Helper", "input": "call: drive_list {}\nwait: 1s\nrepeat"})
	}()
	var list contract.SessionList
	for len(list.Data) < 2 || list.Data[0].Usage.Steps == 0 {
		a.Want(200, "GET", a.agent+"/sessions", nil).JSON(&list)
	}
	a.Want(200, "POST", a.agent+"/sessions/"+list.Data[0].ID+"/cancel", nil)
	if r := <-ended; r.Status != http.StatusConflict || r.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("a turn that was charged and cancelled: %d %s", r.Status, r.Body)
	}
}

// TestARetryContinuesTheTurn interrupts a call as the stop of a service does. The same request continues its turn.
func TestARetryContinuesTheTurn(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	call := map[string]any{"model": "agent/Helper", "input": "wait: 500ms\nsay: once"}
	first := make(chan *apitest.Reply)
	go func() { first <- a.With("Idempotency-Key", "k").Do("POST", "/api/v1/responses", call) }()
	var list contract.SessionList
	for len(list.Data) == 0 {
		a.Want(200, "GET", a.agent+"/sessions", nil).JSON(&list)
	}
	a.With("Idempotency-Key", "k").WantError(stoa.CodeIdempotencyRunning, "POST", "/api/v1/responses", call)
	h.Server.Interrupt()
	if r := <-first; r.Status != http.StatusServiceUnavailable || r.Header.Get("X-Should-Retry") != "false" || !strings.Contains(r.Error().Message, "continues") {
		t.Errorf("the interrupted call answers %d %s", r.Status, r.Body)
	}
	again := func(call map[string]any) (r *apitest.Reply) {
		for r == nil || r.Status == http.StatusConflict { // until the first one has left its key
			r = a.With("Idempotency-Key", "k").Do("POST", "/api/v1/responses", call)
		}
		return r
	}
	if r := again(map[string]any{"model": "agent/Helper", "input": "say: twice"}); r.Error().Code != string(stoa.CodeIdempotencyReused) {
		t.Errorf("another body: %d %s", r.Status, r.Body)
	}
	for range 2 {
		if r := again(call); r.Status != 200 || r.Text() != "once" || r.Header.Get("Stoa-Session") != list.Data[0].ID || r.Header.Get("Stoa-Charge-Micro") == "0" {
			t.Errorf("%d, session %s: %s", r.Status, r.Header.Get("Stoa-Session"), r.Body)
		}
	}
	a.Want(200, "GET", a.agent+"/sessions", nil).JSON(&list)
	if len(list.Data) != 1 || list.Data[0].Usage.Steps != 1 {
		t.Errorf("%d sessions: %+v", len(list.Data), list.Data)
	}
}

// TestAFailedTurnFreesItsKey repeats a call whose turn has failed.
func TestAFailedTurnFreesItsKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	call := map[string]any{"model": "agent/Helper", "input": "fail: 400"}
	first := a.With("Idempotency-Key", "k").Do("POST", "/api/v1/responses", call)
	second := a.With("Idempotency-Key", "k").Do("POST", "/api/v1/responses", call)
	if first.Status != http.StatusBadRequest || second.Status != http.StatusBadRequest || first.Header.Get("Stoa-Session") == second.Header.Get("Stoa-Session") {
		t.Errorf("%d in session %s, then %d in %s", first.Status, first.Header.Get("Stoa-Session"), second.Status, second.Header.Get("Stoa-Session"))
	}
}

var agentCalls = flag.Int("agent-calls", 20, "random calls of an agent in each format")

// TestUsageOfAnAgentIsThatOfItsReceipts makes random calls in each format and compares the usage with the receipts.
func TestUsageOfAnAgentIsThatOfItsReceipts(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Grant: 1_000_000 * stoa.Credit})
	a := newAuthor(t, h, h.Client(t), exposed)
	a.file("docs/prices.md", "# Prices\n\nA ticket to the stoa costs seven drachmas.\n")
	random := func() string {
		text := fmt.Sprintf("tokens: %d\n", 1+rand.IntN(50))
		for range rand.IntN(4) {
			text += []string{"call: drive_list {}\n", "call: drive_read {\"path\":\"docs/prices.md\"}\n", "call: drive_search {\"query\":\"ticket\"}\n", "think: 40\n", "stop: length\n"}[rand.IntN(5)]
		}
		return text + fmt.Sprintf("What does ticket %d cost?", rand.Int())
	}
	session := ""
	for i := range *agentCalls {
		for path, list := range map[string]string{"/api/v1/responses": "input", "/api/v1/chat/completions": "messages", "/api/v1/messages": "messages"} {
			call := map[string]any{"model": "agent/Helper", list: []any{map[string]any{"role": "user", "content": random()}}, "max_tokens": 1000, "stream": rand.IntN(2) == 0}
			if call["stream"] == true && path == "/api/v1/chat/completions" {
				call["stream_options"] = map[string]any{"include_usage": true}
			}
			c, before := a.Client, contract.ResponseUsage{}
			if session != "" && rand.IntN(2) == 0 {
				c = a.With("stoa-session", session)
				before, _ = sums(a.Client, a.agent, session)
			}
			r := c.Want(200, "POST", path, call)
			session = r.Header.Get("Stoa-Session")
			after, _ := sums(a.Client, a.agent, session)
			numbers := regexp.MustCompile(`"(?:output_tokens|completion_tokens)":(\d+)`).FindAllStringSubmatch(string(r.Body), -1)
			inputs := regexp.MustCompile(`"(?:input_tokens|prompt_tokens)":(\d+)`).FindAllStringSubmatch(string(r.Body), -1)
			if len(numbers) == 0 || len(inputs) == 0 {
				t.Fatalf("%s: no usage in %s", path, r.Body)
			}
			out, in := numbers[len(numbers)-1][1], inputs[len(inputs)-1][1]
			if out != fmt.Sprint(after.OutputTokens-before.OutputTokens) || in != fmt.Sprint(after.InputTokens-before.InputTokens) {
				t.Fatalf("call %d at %s: usage %s and %s, the receipts have %+v after %+v", i, path, in, out, after, before)
			}
		}
	}
}

func TestAModelSaysThatItsAgentWaitsForAnApproval(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), map[string]any{"description": "Writes.", "expose": []string{"responses", "mcp"}, "driveAccess": "read_write", "tools": []any{map[string]any{"type": "drive", "name": "drive_write", "approval": "always"}}})
	out, r := askAgent(a.Client, "call: drive_write {\"path\":\"a.md\",\"content\":\"x\"}\nsay: written", nil)
	if out.Status != "completed" || !strings.Contains(r.Text(), "/console#/tool-calls") || !strings.Contains(r.Text(), out.Conversation.ID) {
		t.Errorf("%s: %q", out.Status, r.Text())
	}
	s := a.until(t, a.agent+"/sessions/"+out.Conversation.ID, "waiting_for_input")
	a.Want(202, "POST", a.agent+"/sessions/"+s.ID+"/input", map[string]any{"inputId": orNone(s.PendingInput).ID, "decision": "approve"})
	a.until(t, a.agent+"/sessions/"+s.ID, "completed")
	if _, r := askAgent(a.Client, "say: next", map[string]any{"conversation": s.ID}); r.Text() != "next" {
		t.Errorf("after the approval: %s", r.Body)
	}
}

// TestChatProgramsCallAnAgent sends the requests of Open WebUI (commit 004a45f5) and LibreChat: its
// routers/openai.py drops "metadata" and puts images into data URLs; LibreChat sends the user's id and its own settings.
func TestChatProgramsCallAnAgent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), exposed)
	image := map[string]any{"type": "image_url", "image_url": map[string]any{"url": picture(t)}}
	text := func(s string) any { return map[string]any{"type": "text", "text": s} }
	said := func(role string, content any) any { return map[string]any{"role": role, "content": content} }
	for name, call := range map[string]map[string]any{
		"Open WebUI, the first message":  {"stream": true, "messages": []any{said("user", "say: yes")}},
		"Open WebUI, a picture":          {"stream": true, "messages": []any{said("user", []any{text("say: yes"), image})}},
		"Open WebUI, an earlier picture": {"stream": true, "stream_options": map[string]any{"include_usage": true}, "messages": []any{said("user", []any{text("What is this?"), image}), said("assistant", "A pixel."), said("user", "say: yes")}},
		"Open WebUI, a title":            {"stream": false, "messages": []any{said("user", "### Task:\nGenerate a title.\nsay: yes")}, "max_completion_tokens": 1000},
		"LibreChat":                      {"stream": true, "stream_options": map[string]any{"include_usage": true}, "user": "66f0c0ffee", "temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "messages": []any{said("user", "one"), said("assistant", "two"), said("user", "say: yes")}},
	} {
		call["model"] = "agent/Helper"
		if r := a.Want(200, "POST", "/api/v1/chat/completions", call); !strings.Contains(string(r.Body), "yes") {
			t.Errorf("%s: %s", name, r.Body)
		}
	}
}
