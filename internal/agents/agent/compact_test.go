package agent_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"stoa/internal/agents/agent"
	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// summarized reports whether a call asks for a summary.
func summarized(call stoa.Call) bool {
	return strings.HasPrefix(call.Messages[len(call.Messages)-1].Text(), "Summarize the conversation")
}

// A narrow is a model with a window of 8,000 tokens, of which 7,000 are for the input.
type narrow struct {
	*sessiontest.Fixture
	mu    sync.Mutex
	calls []stoa.Call // in order
}

const narrowModel = "alpha-sonnet-5-5"

// onNarrow returns a fixture whose model answers with reply, or with summary when it is asked
// for one.
func onNarrow(t *testing.T, summary string, reply sessiontest.Script) *narrow {
	t.Helper()
	n := &narrow{}
	n.Fixture = sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(ctx context.Context, m stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		n.mu.Lock()
		n.calls = append(n.calls, call)
		n.mu.Unlock()
		if summarized(call) {
			sessiontest.Say(yield, summary)
			return
		}
		reply(ctx, m, call, yield)
	}))
	n.Gateway.Catalog.Store(narrowCatalog())
	return n
}

// narrowCatalog returns a catalog in which narrowModel has a window of 8,000 tokens.
func narrowCatalog() *catalog.Catalog {
	cat, err := catalog.New(catalog.Options{Sandbox: "always", Models: map[string]stoa.ModelChange{narrowModel: {ContextTokens: 8_000, DefaultOutput: 1_000}}})
	if err != nil {
		panic(err)
	}
	return cat
}

// compacting is the configuration of a service that summarizes at 70 percent.
func compacting(c *sessiontest.Config) { c.CompactAt = 70 }

// made returns the calls, and how many of them asked for a summary.
func (n *narrow) made() (calls []stoa.Call, summaries int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.calls {
		if summarized(c) {
			summaries++
		}
	}
	return n.calls, summaries
}

// texts returns the messages of a call as texts.
func texts(call stoa.Call) (list []string) {
	for _, m := range call.Messages {
		text := string(m.Role) + ": " + m.Text()
		for _, p := range m.Parts {
			if p.Call != nil {
				text += fmt.Sprintf("%+v", *p.Call)
			}
			if p.Result != nil {
				text += fmt.Sprintf("%+v", *p.Result)
			}
		}
		list = append(list, text)
	}
	return list
}

// sayAgain continues a session with messages of 600 tokens, from the turn first on.
func (n *narrow) sayAgain(t *testing.T, r *sessiontest.Service, a stoa.Agent, s stoa.Session, first, last int) {
	t.Helper()
	for i := first; i <= last; i++ {
		if _, err := r.Send(t.Context(), n.Caller(), a.ID, s.ID, session.SendRequest{Message: longMessage(i)}); err != nil {
			t.Fatal(err)
		}
		n.Until(r, s, stoa.SessionCompleted)
	}
}

func longMessage(i int) string {
	return fmt.Sprintf("Detail %d.%s", i, strings.Repeat(" and more", 200))
}

func short(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
	sessiontest.Say(yield, "noted")
}

// TestASessionIsSummarized fills the window of a model: the beginning of the session is replaced
// by a summary, which stays the same over later turns and a restart.
func TestASessionIsSummarized(t *testing.T) {
	t.Parallel()
	n := onNarrow(t, "The user has listed details.", func(ctx context.Context, m stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		last := call.Messages[len(call.Messages)-1]
		if strings.HasPrefix(last.Text(), "Detail 2.") {
			sessiontest.Say(yield, "", stoa.ToolCall{ID: "c2", Name: "drive_list", Arguments: `{"prefix":"docs/"}`})
			return
		}
		short(ctx, m, call, yield)
	})
	a := n.Agent(func(a *stoa.Agent) { a.Model, a.DriveAccess = narrowModel, stoa.DriveReadWrite })
	r := n.Service(compacting)
	stop := sessiontest.Run(t, r)
	s := n.Until(r, n.Begin(r, a, longMessage(1)), stoa.SessionCompleted)
	n.sayAgain(t, r, a, s, 2, 6)
	calls, summaries := n.made()
	if summaries != 1 {
		t.Fatalf("%d summaries in 6 turns", summaries)
	}
	at := 0
	for !summarized(calls[at]) {
		at++
	}
	before, order := calls[at-1], calls[at]
	if diff := gocmp.Diff(before.Tools, order.Tools); diff != "" || order.Instructions != before.Instructions {
		t.Errorf("the call for the summary begins differently: %s", diff)
	}
	kept := texts(order)[:len(order.Messages)-1]
	if diff := gocmp.Diff(texts(before)[:len(kept)], kept); diff != "" {
		t.Errorf("the call for the summary (-before +got):\n%s", diff)
	}
	if order.MaxOutputTokens != 4096 {
		t.Errorf("the summary may have %d tokens", order.MaxOutputTokens)
	}
	after := calls[at+1]
	first := after.Messages[0].Text()
	if !strings.Contains(first, "The user has listed details.") || !strings.Contains(first, `turn 2: drive_list {"prefix":"docs/"} → `) || strings.Contains(fmt.Sprint(texts(after)), "Detail 1.") {
		t.Errorf("the next call begins with %q", first)
	}
	if len(after.Messages) != 6 { // the summary, two turns, the message
		t.Errorf("the next call has %d messages", len(after.Messages))
	}
	stop()
	r = n.Service(compacting)
	sessiontest.Run(t, r)
	n.sayAgain(t, r, a, s, 7, 8)
	calls, _ = n.made()
	for _, c := range calls[at+2:] {
		if diff := gocmp.Diff(texts(after), texts(c)[:len(after.Messages)]); diff != "" {
			t.Errorf("a later call begins differently (-before +got):\n%s", diff)
		}
	}
	var events []session.CompactedData
	for _, e := range n.Events(r, s) {
		if e.Type == session.EventCompacted {
			events = append(events, sessiontest.Decode[session.CompactedData](t, e))
		}
	}
	got, err := r.Get(t.Context(), n.Account.ID, a.ID, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	receipts, _, err := r.Receipts(t.Context(), n.Account.ID, a.ID, s.ID, store.Page{Limit: 20, Asc: true})
	for i, c := range receipts {
		want := stoa.Broke("")
		if i == at+1 {
			want = stoa.BrokeCompacted
		}
		if c.Broke != want {
			t.Errorf("receipt %s says %q", c.ID, c.Broke)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	turn := int64(at) // each turn made one call, the second turn two
	want := []session.CompactedData{{
		Turn: turn, FromTurn: turn - 2, FromStep: 1, Used: true, Text: "The user has listed details.",
		TokensBefore: events[0].TokensBefore, TokensAfter: events[0].TokensAfter, ReceiptID: stoa.StepID(s.ID, turn, 0), CreditsMicro: events[0].CreditsMicro,
	}}
	if diff := gocmp.Diff(want, events); diff != "" || events[0].TokensAfter > events[0].TokensBefore*8/10 || events[0].CreditsMicro == 0 {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	n.CheckBooks(r, got)
	all := checkSent(t, n.Fixture, r, got, nil)
	if summary := all[len(all)-1].Parts; !slices.ContainsFunc(summary, func(p agent.RequestPart) bool {
		return p.Kind == agent.PartSummary && strings.Contains(p.Text, "The user has listed details.")
	}) {
		t.Errorf("the last call has no summary: %+v", summary)
	}
}

// TestUselessSummariesAreNotRepeated has a model that summarizes nothing: the oldest turns are
// left out, and the next summary is asked for after the session has grown again.
func TestUselessSummariesAreNotRepeated(t *testing.T) {
	t.Parallel()
	for name, summary := range map[string]string{"empty": "", "long": strings.Repeat("and so on ", 2_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := onNarrow(t, summary, short)
			a := n.Agent(func(a *stoa.Agent) { a.Model = narrowModel })
			r := n.Service(compacting)
			sessiontest.Run(t, r)
			s := n.Until(r, n.Begin(r, a, longMessage(1)), stoa.SessionCompleted)
			n.sayAgain(t, r, a, s, 2, 20)
			calls, summaries := n.made()
			if summaries < 2 || summaries > 7 {
				t.Errorf("%d summaries in 20 turns", summaries)
			}
			for _, c := range calls {
				if size := c.EstimateInput(); size > 7_000 {
					t.Errorf("a call has %d tokens", size)
				}
			}
			last := fmt.Sprint(texts(calls[len(calls)-1]))
			if !strings.Contains(last, "Detail 19.") || !strings.Contains(last, "no longer fits") || strings.Contains(last, "A summary replaces") {
				t.Errorf("the last call: %.500s", last)
			}
			got, err := r.Get(t.Context(), n.Account.ID, a.ID, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			n.CheckBooks(r, got)
		})
	}
}

// TestALongTurnIsSummarizedOnce has one turn of many steps with long results.
func TestALongTurnIsSummarizedOnce(t *testing.T) {
	t.Parallel()
	steps := 0
	n := onNarrow(t, "Lists were read.", func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
		if steps++; steps >= 20 {
			sessiontest.Say(yield, "done")
			return
		}
		sessiontest.Say(yield, "", stoa.ToolCall{ID: fmt.Sprint("c", steps), Name: "drive_read", Arguments: fmt.Sprintf(`{"path":"long.md","fromLine":%d,"toLine":%d}`, steps, steps+30)})
	})
	a := n.Agent(func(a *stoa.Agent) { a.Model = narrowModel })
	n.File(a, "long.md", strings.Repeat("A row of a table with some figures.\n", 200))
	r := n.Service(compacting)
	sessiontest.Run(t, r)
	s := n.Until(r, n.Begin(r, a, "Read it."), stoa.SessionCompleted)
	calls, summaries := n.made()
	if summaries != 1 || s.Steps != 20 {
		t.Errorf("%d summaries, %d steps: %v", summaries, s.Steps, n.Log(r, s))
	}
	for i, c := range calls {
		if size := c.EstimateInput(); size > 7_000 {
			t.Errorf("call %d has %d tokens", i, size)
		}
		if i > 0 && summarized(calls[i-1]) {
			list := texts(c)
			if len(list) != 6 || !strings.Contains(list[0], "Lists were read.") || !strings.Contains(list[1], "Read it.") {
				t.Errorf("the call after the summary: %.2000s", fmt.Sprint(list))
			}
		}
	}
	n.CheckBooks(r, s)
	n.sayAgain(t, r, a, s, 1, 1)
	calls, _ = n.made()
	list := texts(calls[len(calls)-1])
	if len(list) != 2 || !strings.Contains(list[0], "Lists were read.") || strings.Count(list[0], "→") != 19 || !strings.Contains(list[1], "Detail 1.") {
		t.Errorf("the next turn: %.2000s", fmt.Sprint(list))
	}
}

// TestSummariesAreASetting has agents that override the operator's setting.
func TestSummariesAreASetting(t *testing.T) {
	t.Parallel()
	n := onNarrow(t, "Details.", short)
	run := func(compactAt int, change ...func(*sessiontest.Config)) (summaries int) {
		t.Helper()
		a := n.Agent(func(a *stoa.Agent) { a.Model, a.CompactAt = narrowModel, compactAt })
		r := n.Service(change...)
		stop := sessiontest.Run(t, r)
		defer stop()
		_, before := n.made()
		s := n.Until(r, n.Begin(r, a, longMessage(1)), stoa.SessionCompleted)
		n.sayAgain(t, r, a, s, 2, 8)
		_, after := n.made()
		return after - before
	}
	got := []int{run(0), run(-1, compacting), run(0, compacting), run(70), run(30)}
	if diff := gocmp.Diff([]int{0, 0, 1, 1, 2}, got); diff != "" {
		t.Errorf("summaries (-want +got):\n%s", diff)
	}
}

// TestAFixedPartThatIsTooLargeIsFree has an agent with more definitions of tools than its model
// accepts: the turn fails without a call, and names the sizes.
func TestAFixedPartThatIsTooLargeIsFree(t *testing.T) {
	t.Parallel()
	n := onNarrow(t, "", short)
	a := n.Agent(func(a *stoa.Agent) {
		a.Model = narrowModel
		for i := range 64 {
			a.Tools = append(a.Tools, stoa.AgentTool{Type: stoa.ToolClient, Name: fmt.Sprintf("tool_%d", i), Description: strings.Repeat("long ", 90), Parameters: `{"type":"object"}`, Effects: stoa.EffectsRead, TimeoutSeconds: 60})
		}
	})
	r := n.Service(compacting)
	sessiontest.Run(t, r)
	s := n.Until(r, n.Begin(r, a, "Hello"), stoa.SessionFailed)
	if calls, _ := n.made(); len(calls) != 0 || s.Spent != 0 {
		t.Errorf("%d calls for %d", len(calls), s.Spent)
	}
	f := s.Turn.Failure
	if f == nil || f.Code != stoa.CodeContextLength || f.Retryable || !strings.Contains(f.Message, "66 tools") || !strings.Contains(f.Message, "7,000") {
		t.Errorf("the failure is %+v", f)
	}
}

// TestASummaryThatFailsIsFree has a provider that fails only for summaries: the oldest turns are
// left out.
func TestASummaryThatFailsIsFree(t *testing.T) {
	t.Parallel()
	n := onNarrow(t, "", short)
	n.Gateway.Pool = sessiontest.Script(func(ctx context.Context, m stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		if summarized(call) {
			yield(nil, stoa.Errorf(stoa.CodeUpstream, "The provider failed."))
			return
		}
		short(ctx, m, call, yield)
	})
	a := n.Agent(func(a *stoa.Agent) { a.Model = narrowModel })
	r := n.Service(compacting)
	sessiontest.Run(t, r)
	s := n.Until(r, n.Begin(r, a, longMessage(1)), stoa.SessionCompleted)
	n.sayAgain(t, r, a, s, 2, 12)
	got, err := r.Get(t.Context(), n.Account.ID, a.ID, s.ID)
	if err != nil || got.Steps != 12 {
		t.Fatalf("%+v, %v", got, err)
	}
	n.CheckBooks(r, got)
}

// crashSummaries makes the children of the crash test run long turns that are summarized.
const crashSummaries = "STOA_RUNNER_CRASH_SUMMARIES"

// crashSummaryModel reads twenty parts of a file, one in each step, and then answers.
func crashSummaryModel(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
	fmt.Println("call")
	if summarized(call) {
		sessiontest.Say(yield, "Parts were read.")
		return
	}
	next := 1
	for _, m := range call.Messages {
		for _, p := range m.Parts {
			if p.Call != nil {
				fmt.Sscanf(p.Call.ID, "c%d", &next)
				next++
			}
		}
	}
	if next > 20 {
		sessiontest.Say(yield, "done")
		return
	}
	sessiontest.Say(yield, "", stoa.ToolCall{ID: fmt.Sprint("c", next), Name: "drive_read", Arguments: fmt.Sprintf(`{"path":"long.md","fromLine":%d,"toLine":%d}`, next, next+30)})
}

// TestASummaryIsChargedOnceThroughKills kills processes at random moments while sessions take a
// turn of twenty long steps: each has one summary with one receipt, and continues after it.
func TestASummaryIsChargedOnceThroughKills(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts processes")
	}
	const sessions = 8
	home := storetest.New(t)
	dir := cmp.Or(home.Config.Dir, t.TempDir())
	h, err := sessiontest.Open(home.Config, sessiontest.Script(nil))
	if err != nil {
		t.Fatal(err)
	}
	h.T = t
	h.Account = storetest.Account(t, h.Store, 1_000_000*stoa.Credit)
	a := h.Agent(func(a *stoa.Agent) { a.Model = narrowModel })
	h.File(a, "long.md", strings.Repeat("A row of a table with some figures.\n", 200))
	all := startMany(h, h.Service(), a, 0, sessions)
	account := h.Account
	h.Close()
	kills := 0
	for !runAndKill(t.Context(), t, home, dir, 1+rand.IntN(40), crashSummaries+"=1", nil) {
		kills++
	}
	if h, err = sessiontest.Open(home.Config, sessiontest.Script(nil)); err != nil {
		t.Fatal(err)
	}
	h.T, h.Account = t, account
	defer h.Close()
	r := h.Service()
	lost := 0
	for _, s := range all {
		got, err := r.Get(t.Context(), account.ID, a.ID, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		h.CheckBooks(r, got)
		if got.Turn.Reason == "worker_lost" {
			lost++
		} else if n := strings.Count(h.Log(r, s), session.EventCompacted); n != 1 || got.Status != stoa.SessionCompleted || got.Steps != 21 {
			t.Errorf("%d summaries, %s after %d steps", n, got.Status, got.Steps)
		}
	}
	if lost > sessions/2 || kills < 3 {
		t.Errorf("%d sessions were given up, %d kills", lost, kills)
	}
	if differences, err := h.Ledger.Verify(t.Context()); err != nil || len(differences) > 0 {
		t.Errorf("the books differ: %+v, %v", differences, err)
	}
}

// TestASummaryIsNoAnswer has a session with a reply schema that is summarized: the summary is a text, and the answers after it fit.
func TestASummaryIsNoAnswer(t *testing.T) {
	t.Parallel()
	n := onNarrow(t, "They asked for cities.", func(_ context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
		sessiontest.Say(yield, `{"city":"Athens"}`)
	})
	r := n.Service(compacting)
	sessiontest.Run(t, r)
	a := n.Agent(replies(citySchema), func(a *stoa.Agent) { a.Model = narrowModel })
	s := n.Until(r, n.Begin(r, a, strings.Repeat("Where is it? ", 300)), stoa.SessionCompleted)
	for range 6 {
		if _, err := r.Send(t.Context(), n.Caller(), a.ID, s.ID, session.SendRequest{Message: strings.Repeat("And now? ", 400)}); err != nil {
			t.Fatal(err)
		}
		s = n.Until(r, s, stoa.SessionCompleted)
	}
	calls, summaries := n.made()
	if summaries == 0 {
		t.Error("there is no summary")
	}
	for i, c := range calls {
		if (c.Format == nil) != summarized(c) {
			t.Errorf("call %d has the format %+v", i+1, c.Format)
		}
	}
	n.CheckBooks(r, s)
}
