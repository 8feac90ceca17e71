package agent_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/fakeup"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// fixedText is a text of some 24,000 tokens: the instructions of an agent.
var fixedText = strings.Repeat("Answer the customer politely and name the paragraph. ", 1_850)

// rateOf returns the part of the full rate of input that a vendor asks for the input of
// requests.
func rateOf(price stoa.Price, served []fakeup.Served) float64 {
	asked, full := stoa.Credits(0), stoa.Credits(0)
	for _, s := range served {
		u := stoa.Usage{InputTokens: s.Usage.Input, CachedTokens: s.Usage.Cached, CacheWriteTokens: s.Usage.Written, CacheWriteLongTokens: s.Usage.Long}
		asked += price.Cost(u)
		full += price.Cost(stoa.Usage{InputTokens: u.InputTokens})
	}
	return float64(asked) / float64(full)
}

// TestAnAgentPaysForItsPrefixOnce has an agent with long instructions take ten steps before a
// vendor with a cache, then begin a second session. Each charge equals the vendor's price.
func TestAnAgentPaysForItsPrefixOnce(t *testing.T) {
	t.Parallel()
	const model = "alpha-sonnet-5-5"
	h, vendor := onVendor(t, "messages")
	a := h.Agent(func(a *stoa.Agent) {
		a.Model, a.Instructions, a.DriveAccess, a.Limits.MaxSteps = model, fixedText, stoa.DriveReadWrite, 10
	})
	h.File(a, "long.md", strings.Repeat("A row of a table with some figures.\n", 66)) // 600 tokens
	r := h.Service()
	sessiontest.Run(t, r)
	price := priceOf(t, h, model)
	run := func() []fakeup.Served {
		t.Helper()
		before := len(vendor.Served())
		s := h.Until(r, h.Begin(r, a, "rounds: 9\ncall: drive_read {\"path\":\"long.md\"}\nsay: done"), stoa.SessionCompleted)
		served := vendor.Served()[before:]
		if len(served) != 10 {
			t.Fatalf("%d steps", len(served))
		}
		charges := chargesOf(t, h, r, s)
		for i, got := range served {
			u := got.Usage
			want := price.Cost(stoa.Usage{InputTokens: u.Input, CachedTokens: u.Cached, CacheWriteTokens: u.Written, CacheWriteLongTokens: u.Long, OutputTokens: u.Output})
			if charges[i] != want {
				t.Errorf("step %d is charged %d, and the vendor asks %d (%+v)", i+1, charges[i], want, u)
			}
		}
		return served
	}
	first, second := run(), run()
	checkAccepted(t, vendor)
	if got := rateOf(price, first); got > 0.25 {
		t.Errorf("ten steps pay %.3f of the full rate", got)
	}
	if got := rateOf(price, second); got > 0.15 {
		t.Errorf("ten steps of a second session pay %.3f of the full rate", got)
	}
	t.Logf("first %.3f, second %.3f", rateOf(price, first), rateOf(price, second))
}

// TestARequestBeginsWithTheOneBefore has sessions of several turns with calls before vendors of
// all formats: every request begins with the instructions, tools and messages of the one before.
func TestARequestBeginsWithTheOneBefore(t *testing.T) {
	t.Parallel()
	for name, tt := range vendors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, vendor := onVendor(t, name)
			a := h.Agent(func(a *stoa.Agent) { a.Model, a.DriveAccess = tt.model, stoa.DriveReadWrite })
			h.File(a, "a.md", "The handbook.\n")
			r := h.Service()
			stop := sessiontest.Run(t, r)
			s := h.Until(r, h.Begin(r, a, "think: 40\ncall: drive_list {}\nsay: first"), stoa.SessionCompleted)
			for i, message := range []string{"say: second", "call: drive_read {\"path\":\"a.md\"}\ncall: drive_read {\"path\":\"none\"}\nsay: third", "rounds: 2\nthink: 60\ncall: nonsense {}\nsay: fourth", "say: fifth"} {
				if i == 2 { // a restart changes nothing
					stop()
					r = h.Service()
					sessiontest.Run(t, r)
				}
				if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message}); err != nil {
					t.Fatal(err)
				}
				h.Until(r, s, stoa.SessionCompleted)
			}
			checkAccepted(t, vendor)
			checkPrefixes(t, vendor.Served())
		})
	}
}

// checkPrefixes fails unless every request begins with the one before.
func checkPrefixes(t *testing.T, served []fakeup.Served) {
	t.Helper()
	var before []string
	for i, s := range served {
		now := blocksOf(t, s.Body)
		for j, block := range before {
			if j >= len(now) || now[j] != block {
				t.Fatalf("request %d differs from the one before in block %d: %.300s\nbefore: %.300s", i+1, j, append(now, "missing")[min(j, len(now))], block)
			}
		}
		before = now
	}
}

var prefixSessions = flag.Int("prefix.sessions", 20, "the number of random sessions of the prefix test, over all formats")

// findOrders are calls of models that search their tools.
var findOrders = []string{
	"call: tool_find {\"query\":\"list the archive\"}", "call: tool_find {\"query\":\"far__read\"}", "call: tool_call {\"name\":\"far__read\",\"arguments\":{\"key\":\"a\"}}",
	"call: tool_call {\"name\":\"far__put\",\"arguments\":{\"none\":1}}", "call: tool_call {\"name\":\"far__none\",\"arguments\":{}}", "call: far__read {\"key\":\"b\"}",
}

// TestRandomSessionsKeepTheirPrefix has random sessions with calls of all kinds, files, reasoning,
// questions, changed files and restarts: every request begins with the one before.
func TestRandomSessionsKeepTheirPrefix(t *testing.T) {
	t.Parallel()
	for name, tt := range vendors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, vendor := onVendor(t, name)
			f := fakemcp.Start(t)
			names := crowd(f, 40)
			c := connect(h, f, "far")
			r := h.Service()
			stop := sessiontest.Run(t, r)
			random := rand.New(rand.NewPCG(uint64(len(name)), 35))
			orders := []string{
				"call: drive_list {}", "call: drive_read {\"path\":\"a.md\"}", "call: drive_read {\"path\":\"missing.md\"}", "call: drive_search {\"query\":\"handbook\"}",
				"call: drive_write {\"path\":\"own.md\",\"content\":\"a note\"}", "call: memory_read {}", "call: memory_write {\"name\":\"own\",\"content\":\"a note\"}", "call: memory_write {\"name\":\"own\",\"content\":\"\"}", "call: nonsense {}", "call: drive_read {\"path\":\"notes.txt\",\"attached\":true}", "think: 40", "think: 90", "rounds: 3", "interleave", "call: skill_read {\"name\":\"refunds\"}", "call: ask_user {\"question\":\"Sure?\"}",
			}
			for n := range *prefixSessions / len(vendors) {
				change, orders := []func(*stoa.Agent){func(a *stoa.Agent) { a.Model, a.DriveAccess, a.Limits.MaxSteps = tt.model, stoa.DriveReadWrite, 12 }}, orders
				if n%2 == 1 {
					change, orders = append(change, searching(c, names)), append(slices.Clone(orders), findOrders...)
				}
				a := skilled(h, append(change, remembers)...)
				h.File(a, "a.md", "The handbook.\n")
				before := len(vendor.Served())
				var s stoa.Session
				said := ""
				attaches := random.IntN(2) == 0
				for turn := range 2 + random.IntN(4) {
					message := ""
					for range random.IntN(4) {
						message += orders[random.IntN(len(orders))] + "\n"
					}
					said += message
					message += fmt.Sprintf("say: turn %d", turn)
					switch random.IntN(6) {
					case 5:
						h.File(a, "skills/refunds/SKILL.md", planted)
					case 0:
						h.File(a, "a.md", fmt.Sprintf("The handbook, %d.\n", random.IntN(3)))
					case 1:
						h.File(a, fmt.Sprintf("new%d.md", turn), "Something new.\n")
					case 2:
						if turn == 0 { // the worker may not have begun
							break
						}
						stop()
						r = h.Service()
						stop = sessiontest.Run(t, r)
					}
					if random.IntN(3) == 0 { // by another session
						note(h, a, "ada", "diet", []string{"", "no nuts", "nuts"}[random.IntN(3)])
					}
					var files session.Uploads
					if attaches && (turn == 0 || random.IntN(2) == 0) { // the first file adds an argument to tools
						files.IDs = append(files.IDs, upload(t, h, a, "scan.png", "", []byte(picture(t, 30, 20, 0))), upload(t, h, a, "notes.txt", "", []byte(strings.Repeat("One of the notes.\n", random.IntN(3_000)))))
					}
					if turn == 0 {
						s = h.Begin(r, a, message, of("ada"), func(req *session.StartRequest) { req.Uploads = files })
					} else if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message, Uploads: files}); err != nil {
						t.Fatal(err)
					}
					for {
						if s = h.Stopped(r, s); s.Status != stoa.SessionWaiting {
							break
						}
						if _, err := r.Answer(t.Context(), h.Caller(), a.ID, s.ID, session.AnswerRequest{InputID: s.Pending.ID, Answer: "yes"}); err != nil {
							t.Fatal(err)
						}
					}
					if s.Status != stoa.SessionCompleted {
						t.Fatalf("session %d is %s after\n%s\n%s", n, s.Status, said, h.Log(r, s))
					}
				}
				checkPrefixes(t, vendor.Served()[before:])
				var bodies [][]byte
				for _, served := range vendor.Served()[before:] {
					if strings.Contains(string(served.Body), planted) {
						t.Errorf("session %d has a changed skill: %s", n, served.Body)
					}
					bodies = append(bodies, served.Body)
				}
				checkSent(t, h, r, s, bodies)
			}
			checkAccepted(t, vendor)
		})
	}
}

// blocksOf returns what a vendor caches of a request, in its order: the tools, the system text,
// and each part of each message, without marks.
func blocksOf(t *testing.T, body []byte) (list []string) {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(body, &o); err != nil {
		t.Fatal(err)
	}
	add := func(role, v any) {
		if o, ok := v.(map[string]any); ok {
			delete(o, "cache_control")
			if o["type"] == "text" && len(o) == 2 {
				v = o["text"]
			}
		}
		text, _ := json.Marshal([]any{role, v})
		list = append(list, string(text))
	}
	each := func(role, v any) {
		parts, ok := v.([]any)
		if !ok {
			parts = []any{v}
		}
		for _, p := range parts {
			add(role, p)
		}
	}
	for _, name := range []string{"tools", "instructions", "system", "systemInstruction"} {
		if o[name] != nil {
			each(name, o[name])
		}
	}
	for _, name := range []string{"messages", "contents", "input"} {
		messages, _ := o[name].([]any)
		for _, m := range messages {
			o, _ := m.(map[string]any)
			content := o["content"]
			if content == nil {
				content = o["parts"]
			}
			delete(o, "content")
			delete(o, "parts")
			add(o["role"], o)
			each(o["role"], content)
		}
	}
	return list
}

// TestALongSessionStaysAffordable has a session of 200 turns fill its window several times, with
// summaries and without: a late turn costs about as much as an early one.
func TestALongSessionStaysAffordable(t *testing.T) {
	t.Parallel()
	for name, compactAt := range map[string]int{"summaries": 70, "none": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkAffordable(t, compactAt)
		})
	}
}

func checkAffordable(t *testing.T, compactAt int) {
	const model, turns = "alpha-sonnet-5-5", 200
	h, vendor := onVendor(t, "messages", func(o *catalog.Options) {
		o.Models = map[string]stoa.ModelChange{model: {ContextTokens: 32_000, DefaultOutput: 1_000}}
	})
	a := skilled(h, func(a *stoa.Agent) { a.Model = model })
	r := h.Service(func(c *sessiontest.Config) { c.CompactAt = compactAt })
	sessiontest.Run(t, r)
	message := func(n int) string {
		return fmt.Sprintf("mark: %d %s\ntokens: 40", n, strings.Repeat("another detail of the case, ", 30))
	}
	s := h.Until(r, h.Begin(r, a, message(1)), stoa.SessionCompleted)
	for n := 2; n <= turns; n++ {
		if n == 5 { // it keeps the skill, also in its summaries
			h.File(a, "skills/refunds/SKILL.md", planted)
		}
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message(n)}); err != nil {
			t.Fatal(err)
		}
		h.Until(r, s, stoa.SessionCompleted)
	}
	checkAccepted(t, vendor)
	price, served, number := priceOf(t, h, model), vendor.Served(), 0
	turnOf := make([]int, len(served)) // of each request; a summary belongs to the turn after it
	for i, s := range served {
		if text := string(s.Body); !strings.Contains(text, "- refunds: Pays refunds.") || strings.Contains(text, planted) {
			t.Errorf("request %d does not have the skill as it was reviewed", i+1)
		}
		if blocks := blocksOf(t, s.Body); !strings.Contains(blocks[len(blocks)-1], "Summarize the conversation up to here") {
			number++
			turnOf[i] = number
			continue
		}
		turnOf[i] = number + 1
	}
	if number != turns || compactAt == 0 && len(served) > turns {
		t.Fatalf("%d requests for %d turns", len(served), number)
	}
	cost := func(from, through int) (sum float64) {
		for i, s := range served {
			if turnOf[i] < from || turnOf[i] > through {
				continue
			}
			u := s.Usage
			sum += float64(price.Cost(stoa.Usage{InputTokens: u.Input, CachedTokens: u.Cached, CacheWriteTokens: u.Written, OutputTokens: u.Output}))
		}
		return sum
	}
	early, late := cost(61, 90), cost(161, 190)
	if late > 1.3*early {
		t.Errorf("turns 161 to 190 cost %.0f micro-credits, turns 61 to 90 %.0f", late, early)
	}
	broken := 0
	for _, s := range served[30:] {
		if s.Usage.Cached == 0 {
			broken++
		}
	}
	if broken > turns/10 {
		t.Errorf("%d of %d requests read nothing from the cache", broken, len(served))
	}
	t.Logf("turns 61 to 90 cost %.0f micro-credits, turns 161 to 190 %.0f; %d summaries, %d prefixes broke", early, late, len(served)-turns, broken)
}

// priceOf returns the price of a model.
func priceOf(t *testing.T, h *sessiontest.Fixture, model string) stoa.Price {
	t.Helper()
	res, err := h.Gateway.Catalog.Load().Resolve(model, h.Caller().Plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.Models[0].Price.At(0, time.Now())
}

// chargesOf returns the charges of the steps of a session's first turn.
func chargesOf(t *testing.T, h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session) (list []stoa.Credits) {
	t.Helper()
	if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		for n := int64(1); ; n++ {
			c, found, err := tx.Books().ChargeByID(t.Context(), stoa.StepID(s.ID, 1, n))
			if err != nil || !found {
				return err
			}
			list = append(list, c.Amount)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal(fmt.Sprint("no charges: ", h.Log(r, s)))
	}
	return list
}

// TestAChangedFileIsSentOnce replaces and adds files between the turns of a session: its prompts
// keep the files with which it began and are sent the new ones once. A deleted file is gone from
// the next prompt on.
func TestAChangedFileIsSentOnce(t *testing.T) {
	t.Parallel()
	var calls []stoa.Call
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		calls = append(calls, call)
		sessiontest.Say(yield, "noted")
	}))
	a := h.Agent()
	h.File(a, "a.md", "first\n")
	h.File(a, "b.md", "second\n")
	r := h.Service()
	stop := sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "one"), stoa.SessionCompleted)
	say := func(message string) (call stoa.Call, all string) {
		t.Helper()
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message}); err != nil {
			t.Fatal(err)
		}
		h.Until(r, s, stoa.SessionCompleted)
		call = calls[len(calls)-1]
		return call, strings.Join(texts(call), "\n")
	}
	begins := func(call, before stoa.Call) {
		t.Helper()
		if diff := gocmp.Diff(texts(before), texts(call)[:len(before.Messages)]); diff != "" || call.Instructions != before.Instructions || !gocmp.Equal(call.Tools, before.Tools) {
			t.Errorf("a call begins differently from the one before (-before +got):\n%s", diff)
		}
	}
	h.File(a, "a.md", "changed\n")
	h.File(a, "c.md", "third\n")
	two, all := say("two")
	begins(two, calls[0])
	if n := len(two.Messages); !strings.Contains(texts(two)[n-2], "changed") || !strings.Contains(texts(two)[n-2], "third") || strings.Count(all, "second") != 1 {
		t.Errorf("the second call: %s", all)
	}
	stop()
	r = h.Service()
	sessiontest.Run(t, r)
	h.File(a, "a.md", "again\n")
	three, all := say("three")
	begins(three, two)
	if strings.Count(all, "again") != 1 || strings.Count(all, "third") != 1 {
		t.Errorf("the third call: %s", all)
	}
	four, _ := say("four")
	begins(four, three)
	sources, err := r.Sources(t.Context(), h.Account.ID, a.ID, s.ID, 4, 4, 10)
	if err != nil || len(sources) != 3 {
		t.Errorf("the sources of the fourth turn: %+v, %v", sources, err)
	}
	path, err := drive.ParsePath("b.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Drives.Delete(t.Context(), drive.Owner{AccountID: h.Account.ID, AgentID: a.ID}, path, drive.Condition{}); err != nil {
		t.Fatal(err)
	}
	five, all := say("five")
	if strings.Contains(all, "second") || strings.Contains(all, "first") || strings.Count(all, "again") != 1 {
		t.Errorf("the fifth call: %s", all)
	}
	h.File(a, "d.md", strings.Repeat("a long text\n", 800))
	six, all := say("six")
	if strings.Contains(strings.Join(texts(six)[1:], ""), "a long text") || !strings.Contains(texts(six)[0], "a long text") || !strings.Contains(all, "five") {
		t.Errorf("the sixth call does not begin with the new file")
	}
	if six.Instructions != five.Instructions || !gocmp.Equal(six.Tools, five.Tools) {
		t.Error("the sixth call has other instructions or tools")
	}
}

// TestReceiptsSayWhyThePrefixBroke changes the parts of a session's calls one after the other, and
// has the vendor read nothing.
func TestReceiptsSayWhyThePrefixBroke(t *testing.T) {
	t.Parallel()
	cached := int64(4_000)
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		yield(&stoa.Event{Kind: stoa.Started, Provider: "test"}, nil)
		call.Trail.MarkedBy = stoa.MarkedByVendor
		yield(&stoa.Event{Kind: stoa.Delta, Text: "noted"}, nil)
		yield(&stoa.Event{Kind: stoa.Finished, Stop: stoa.StopEnd, HasUsage: true, Usage: stoa.Usage{InputTokens: 5_000, CachedTokens: cached, OutputTokens: 2}}, nil)
	}))
	a := h.Agent()
	h.File(a, "a.md", "first\n")
	r := h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, strings.Repeat("one ", 2_000)), stoa.SessionCompleted)
	say := func(message string) {
		t.Helper()
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message}); err != nil {
			t.Fatal(err)
		}
		h.Until(r, s, stoa.SessionCompleted)
	}
	upgrade := func(fn func(a *stoa.Agent)) {
		t.Helper()
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Setup().EditAgent(ctx, h.Account.ID, a.ID, func(a *stoa.Agent) error { fn(a); return nil })
			if err == nil {
				_, err = r.Upgrade(ctx, tx, h.Caller(), a.ID, s.ID)
			}
			return err
		})
	}
	say("two")
	upgrade(func(a *stoa.Agent) { a.Instructions += " Be brief." })
	say("three")
	upgrade(func(a *stoa.Agent) {
		a.Tools = []stoa.AgentTool{{Type: stoa.ToolClient, Name: "look", Description: "Looks.", Parameters: `{"type":"object"}`, Effects: stoa.EffectsRead, TimeoutSeconds: 60}}
	})
	say("four")
	h.File(a, "b.md", strings.Repeat("a long text\n", 800))
	say("five")
	cached = 0
	say("six")
	list, _, err := r.Receipts(t.Context(), h.Account.ID, a.ID, s.ID, store.Page{Limit: 10, Asc: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []stoa.Broke
	for _, c := range list {
		got = append(got, c.Broke)
	}
	want := []stoa.Broke{"", "", stoa.BrokeInstructions, stoa.BrokeTools, stoa.BrokeKnowledge, stoa.BrokeExpired}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// TestReceiptsSayThatAnotherModelOrRouteServed moves a session to another model, and then to another
// provider. Each reads nothing from its cache.
func TestReceiptsSayThatAnotherModelOrRouteServed(t *testing.T) {
	t.Parallel()
	provider, cached := "one", int64(4_000)
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		yield(&stoa.Event{Kind: stoa.Started, Provider: provider}, nil)
		call.Trail.MarkedBy = stoa.MarkedByVendor
		yield(&stoa.Event{Kind: stoa.Delta, Text: "noted"}, nil)
		yield(&stoa.Event{Kind: stoa.Finished, Stop: stoa.StopEnd, HasUsage: true, Usage: stoa.Usage{InputTokens: 5_000, CachedTokens: cached, OutputTokens: 2}}, nil)
	}))
	a := h.Agent(func(a *stoa.Agent) { a.Model = "alpha-haiku-4-5" })
	r := h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, strings.Repeat("one ", 2_000)), stoa.SessionCompleted)
	say := func(message string) {
		t.Helper()
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message}); err != nil {
			t.Fatal(err)
		}
		h.Until(r, s, stoa.SessionCompleted)
	}
	say("nothing differs")
	provider = "two"
	say("another provider, with the input in its cache")
	provider, cached = "three", 0
	say("another provider")
	say("the same provider")
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Setup().EditAgent(ctx, h.Account.ID, a.ID, func(a *stoa.Agent) error { a.Model = "gamma-6-luna"; return nil })
		if err == nil {
			_, err = r.Upgrade(ctx, tx, h.Caller(), a.ID, s.ID)
		}
		return err
	})
	say("another model")
	say("the same model")
	list, _, err := r.Receipts(t.Context(), h.Account.ID, a.ID, s.ID, store.Page{Limit: 10, Asc: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []stoa.Broke
	for _, c := range list {
		got = append(got, c.Broke)
	}
	want := []stoa.Broke{"", "", "", stoa.BrokeRoute, stoa.BrokeExpired, stoa.BrokeModel, stoa.BrokeExpired}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}
