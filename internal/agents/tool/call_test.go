package tool

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
)

// target returns the target of a call of a tool.
func (b *bench) target(name string) (to Target) {
	b.t.Helper()
	offered, _ := b.offer(name)
	if len(offered) != 1 {
		b.t.Fatalf("%s is not offered", name)
	}
	b.write(func(ctx context.Context, tx *store.Tx) (err error) {
		var refused *Refusal
		if to, refused, err = b.Target(ctx, tx, Audience{AccountID: b.account, SpaceID: b.space}, offered[0], plannedBy(offered[0])); refused != nil {
			b.t.Errorf("%s: %+v", name, refused)
		}
		return err
	})
	return to
}

// plannedBy returns a call of a tool as it was offered.
func plannedBy(o stoa.OfferedTool) stoa.ExternalCall {
	return stoa.ExternalCall{DefinitionSHA256: o.SHA256, Approval: o.Approval, Effects: o.Effects, OnUnknown: o.OnUnknown, IdempotencyArgument: o.IdempotencyArgument}
}

// TestAStricterReviewStopsWhatIsPlanned has a person review a tool again while calls of it
// are planned: calls that rely on the laxer review are not sent.
func TestAStricterReviewStopsWhatIsPlanned(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.approve(fakemcp.Act)
	sum := b.rows()[fakemcp.Act].SHA256
	review := func(approval string, effects stoa.Effects, onUnknown, argument string) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			return Review(ctx, tx, b.account, b.connection, []Decision{{
				Name: fakemcp.Act, SHA256: sum, Approve: true, Approval: approval, Effects: string(effects), OnUnknown: onUnknown, IdempotencyArgument: argument,
			}})
		})
	}
	review(stoa.ApprovalNever, stoa.EffectsIdempotent, "", "")
	offered, _ := b.offer(fakemcp.Act)
	for _, c := range []struct {
		approval            string
		effects             stoa.Effects
		onUnknown, argument string
		leaves              bool
	}{
		{stoa.ApprovalNever, stoa.EffectsIdempotent, "", "", true},
		{stoa.ApprovalAlways, stoa.EffectsIdempotent, "", "", false},
		{stoa.ApprovalNever, stoa.EffectsOnce, "", "", false},
		{stoa.ApprovalNever, stoa.EffectsRead, "", "", true},
		{stoa.ApprovalNever, stoa.EffectsIdempotent, stoa.UnknownTells, "", true},
		{stoa.ApprovalNever, stoa.EffectsIdempotent, stoa.UnknownFails, "", false},
		{stoa.ApprovalNever, stoa.EffectsIdempotent, "", "key", false},
	} {
		review(c.approval, c.effects, c.onUnknown, c.argument)
		b.write(func(ctx context.Context, tx *store.Tx) error {
			_, refused, err := b.Target(ctx, tx, Audience{AccountID: b.account, SpaceID: b.space}, offered[0], plannedBy(offered[0]))
			if (refused == nil) != c.leaves {
				t.Errorf("reviewed as %+v: %+v", c, refused)
			}
			return err
		})
	}
}

// TestATurnHasItsOwnSession lets two turns call a server of the era with sessions at the same
// time: each has its own session, also when the server drops it, and ends it.
func TestATurnHasItsOwnSession(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{Legacy: true})
	b.approve(fakemcp.Act)
	to := b.target(fakemcp.Act)
	before, _ := b.f.Sessions()
	turns := []*Turn{b.Turn(nil), b.Turn(nil)}
	round := func(n int) {
		var all sync.WaitGroup
		for i, turn := range turns {
			for j := range 3 {
				all.Go(func() {
					id := fmt.Sprintf("cal_%d.%d.%d", n, i, j)
					if r := turn.Call(t.Context(), to, id, fmt.Sprintf(`{"key":"turn %d"}`, i), time.Minute); r.Class != Answered || b.f.Effects(id) != 1 {
						t.Errorf("%s: %+v, %d effects", id, r, b.f.Effects(id))
					}
				})
			}
		}
		all.Wait()
	}
	of := func() map[string]string {
		owner := map[string]string{} // by session
		for _, c := range b.f.Calls() {
			if o := owner[c.Session]; o != "" && o != c.Key {
				t.Errorf("the session %s is that of %s and of %s", c.Session, o, c.Key)
			}
			owner[c.Session] = c.Key
		}
		return owner
	}
	round(1)
	if opened, _ := b.f.Sessions(); opened-before != 2 || len(of()) != 2 {
		t.Errorf("%d sessions were opened for %v", opened-before, of())
	}
	b.f.Forget()
	round(2)
	of()
	for _, turn := range turns {
		turn.Close()
	}
	if _, open := b.f.Sessions(); open != 0 {
		t.Errorf("%d sessions are open", open)
	}
}

// TestRepliesHaveAClass checks the classes of the replies to a session's calls, and which are
// worth another attempt.
func TestRepliesHaveAClass(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.approve(fakemcp.Act)
	to := b.target(fakemcp.Act)
	for order, want := range map[string]Reply{
		"":       {Class: Answered},
		"error":  {Class: Answered, IsError: true},
		"input":  {Class: Refused, Hopeless: true},
		"401":    {Class: Refused, Hopeless: true, Unauthorized: true},
		"429":    {Class: Refused, Hopeless: true, Wait: 2 * time.Second},
		"-32602": {Class: Refused, Hopeless: true},
		"307":    {Class: Unknown, Hopeless: true},
		"503":    {Class: Unknown},
		"reset":  {Class: Unknown},
	} {
		turn := b.Turn(nil)
		got := turn.Call(t.Context(), to, stoa.NewID("cal"), fmt.Sprintf(`{"order":%q}`, order), time.Minute)
		turn.Close()
		if got.Text == "" {
			t.Errorf("%s: the model is told nothing", order)
		}
		if got.Text = ""; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", order, got, want)
		}
		b.gates.count(to, "", Answered, time.Now()) // so that the breaker stays closed
	}
	b.f.Always("tools/call", "reset")
	turn := b.Turn(nil)
	defer turn.Close()
	for range breakAfter {
		turn.Call(t.Context(), to, stoa.NewID("cal"), `{}`, time.Minute)
	}
	before := len(b.f.Calls())
	if got := turn.Call(t.Context(), to, stoa.NewID("cal"), `{}`, time.Minute); got.Class != NotSent || len(b.f.Calls()) != before || b.Broken() != 1 {
		t.Errorf("after %d failures: %+v, %d broken", breakAfter, got, b.Broken())
	}
	if _, refused, err := b.Enter(t.Context(), to); refused == "" || err != nil {
		t.Errorf("a call may be made: %v", err)
	}
}

// TestABreakerIsOfATool checks that a tool whose calls fail affects no other tool, that the
// attempts of a call count once, and that a server which calls of several tools did not reach
// is not called.
func TestABreakerIsOfATool(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.approve(fakemcp.Act)
	b.approve(fakemcp.Read)
	act, read := b.target(fakemcp.Act), b.target(fakemcp.Read)
	turn := b.Turn(nil)
	defer turn.Close()
	call := func(to Target, id, order string) Class {
		return turn.Call(t.Context(), to, id, fmt.Sprintf(`{"order":%q}`, order), time.Minute).Class
	}
	for range 2 * breakAfter { // attempts of one call
		if got := call(act, "cal_same", "503"); got != Unknown {
			t.Fatal(got)
		}
	}
	for range breakAfter {
		if got := call(act, stoa.NewID("cal"), "large"); got != Answered {
			t.Errorf("a result that is cut: %s", got)
		}
	}
	for range breakAfter {
		call(act, stoa.NewID("cal"), "503")
	}
	if got := call(act, stoa.NewID("cal"), ""); got != NotSent {
		t.Errorf("a tool that fails: %s", got)
	}
	if got := call(read, stoa.NewID("cal"), ""); got != Answered {
		t.Errorf("another tool: %s", got)
	}
	b.f.Stop()
	b.gates.count(act, "", Answered, time.Now())
	for _, to := range []Target{act, act, read} {
		if why := b.gates.forbids(to, time.Now()); why != "" {
			t.Error(why)
		}
		call(to, stoa.NewID("cal"), "")
	}
	for _, to := range []Target{act, read} {
		if why := b.gates.forbids(to, time.Now()); why != unavailable {
			t.Errorf("a server that is not there: %q", why)
		}
	}
}

// TestACallLogsTheEraOfItsServer checks that the log line of a call contains the protocol
// version of its server, and nothing of the content sent.
func TestACallLogsTheEraOfItsServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.approve(fakemcp.Act)
	to := b.target(fakemcp.Act)
	var log bytes.Buffer
	b.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, era := range []string{"modern", "legacy"} {
		b.f.SetLegacy(era == "legacy")
		log.Reset()
		turn := b.Turn(nil)
		turn.Call(t.Context(), to, "cal_1", `{"key":"zeal"}`, time.Minute)
		turn.Close()
		line := log.String()
		for _, want := range []string{"call=cal_1", "connection=" + b.connection, "tool=fake__act", "outcome=answered", "era=" + era} {
			if !strings.Contains(line, want) {
				t.Errorf("%s: no %s in %s", era, want, line)
			}
		}
		if strings.Contains(line, "zeal") {
			t.Errorf("the arguments are in %s", line)
		}
	}
}

// TestSlowServersLeavePlaces fills the places of calls to slow servers: calls to a server
// that was quick go on.
func TestSlowServersLeavePlaces(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	b.approve(fakemcp.Act)
	to := b.target(fakemcp.Act)
	g := &b.gates
	// fill has accounts with slow or quick servers make calls until none can begin.
	fill := func(name string, quick bool) (calls int) {
		for i := range 20 {
			c := store.Connection{ID: fmt.Sprint("connection ", name, i), AccountID: fmt.Sprint("account ", name, i)}
			c.Limits.MaxConcurrent = CallsAccount
			if quick {
				g.took(c.ID, slowCall, false)
			}
			of := 0
			for ready := true; ready; {
				if ready, _ = g.enter(g.bounds(Target{connection: c})); ready {
					of++
				}
			}
			if calls += of; of > CallsAccount {
				t.Errorf("an account has %d calls", of)
			}
		}
		return calls
	}
	if n := fill("slow", false); n != callsSlow {
		t.Errorf("slow servers have %d calls, want %d", n, callsSlow)
	}
	enters := func() bool {
		bounds := g.bounds(to)
		ready, _ := g.enter(bounds)
		if ready {
			g.leave(bounds)
		}
		return ready
	}
	call := func(arguments string) {
		turn := b.Turn(nil)
		defer turn.Close()
		turn.Call(t.Context(), to, stoa.NewID("cal"), arguments, time.Minute)
	}
	if enters() {
		t.Error("a server that was never called has a place")
	}
	if call(`{}`); !enters() {
		t.Error("a quick server has no place")
	}
	if call(`{"order":"reset"}`); enters() {
		t.Error("a server that failed has a place")
	}
	call(`{}`)
	if n := fill("quick", true); n != CallsProcess-callsSlow || enters() {
		t.Errorf("quick servers have %d calls, want %d", n, CallsProcess-callsSlow)
	}
}

// TestVisitorsLeaveCallsForTheOwner has the sessions of visitors make as many calls as they
// may, within a minute and at the same time.
func TestVisitorsLeaveCallsForTheOwner(t *testing.T) {
	t.Parallel()
	b := newBench(t, fakemcp.Options{})
	to := Target{connection: store.Connection{ID: "c", AccountID: b.account}}
	to.connection.Limits.MaxConcurrent, to.connection.Limits.CallsPerMinute = 1000, 10_000
	visitors := to
	visitors.visitor = true
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	enter := func(to Target) (leave func(), refused string) {
		t.Helper()
		leave, refused, err := b.Enter(gone, to) // does not wait
		if err == nil && refused == "" {
			return leave, ""
		}
		return nil, cmp.Or(refused, "busy")
	}
	var running []func()
	for range CallsAccount / 2 {
		leave, refused := enter(visitors)
		if refused != "" {
			t.Fatal(refused)
		}
		running = append(running, leave)
	}
	if _, refused := enter(visitors); refused != "busy" {
		t.Errorf("visitors have more than half of the calls: %q", refused)
	}
	if leave, refused := enter(to); refused != "" {
		t.Error(refused)
	} else {
		leave()
	}
	for _, leave := range running {
		leave()
	}
	made := CallsAccount/2 + 1
	for ; made < CallsPerMinute/2; made++ {
		leave, refused := enter(visitors)
		if refused != "" {
			t.Fatalf("after %d calls: %s", made, refused)
		}
		leave()
	}
	if _, refused := enter(visitors); !strings.Contains(refused, "300 calls") {
		t.Errorf("after %d calls: %q", made, refused)
	}
	if leave, refused := enter(to); refused != "" {
		t.Error(refused)
	} else {
		leave()
	}
}
