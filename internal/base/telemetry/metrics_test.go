package telemetry

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"stoa/internal/base/stoa"
)

func counted(context.Context) (map[string]int64, error) {
	return map[string]int64{"queued": 3}, nil
}

func sample() *Metrics {
	m := NewMetrics(MetricsConfig{
		Codes: []stoa.Code{stoa.CodeInternal, stoa.CodeModelNotFound}, Routes: []string{"POST /api/v1/responses"}, Accounts: 2,
	})
	m.Learn([]Route{{"alpha", "p"}})
	return m
}

// TestLabelsAreBounded counts ten thousand models, providers, codes, routes, tools and
// accounts: the number of series stays the same.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := sample()
	touch := func(n int) {
		name := fmt.Sprint("strange-", n)
		m.Call(&Call{Model: name, Provider: name, Account: name, Code: stoa.Code(name), State: name})
		m.Call(&Call{Model: "alpha", Provider: name, Account: name, FirstText: 1, State: "completed"})
		m.Request(&stoa.Request{Route: name, Code: stoa.Code(name), Status: n % 700, Asked: name, AccountID: name, KeyID: name})
		m.Tool(name, n%2 == 0)
		m.Became(stoa.SessionStatus(name), stoa.Code(name))
		m.Became(stoa.SessionFailed, stoa.Code(name))
	}
	for n := range 3 { // both accounts, and the rest
		touch(n)
	}
	before, err := testutil.GatherAndCount(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10_000 {
		touch(n)
	}
	after, err := testutil.GatherAndCount(m.registry)
	if err != nil || after != before {
		t.Errorf("there were %d series and are %d (%v)", before, after, err)
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "stoa_account_calls_total" && strings.Contains(f.String(), "strange-") && !strings.HasPrefix(f.GetName(), "stoa_account_") {
			t.Errorf("%s has a name that a caller made up", f.GetName())
		}
	}
	if n := testutil.CollectAndCount(m.accounts.calls); n != 3 {
		t.Errorf("%d accounts have metrics, want 2 and the rest", n)
	}
}

// TestCountingAllocatesNothing checks that a call, a request, a commit and a transition cause
// no allocation, with metrics enabled and disabled.
func TestCountingAllocatesNothing(t *testing.T) {
	on := sample()
	on.Call(&Call{Model: "alpha", Provider: "p", Account: "a"})
	for name, m := range map[string]*Metrics{"on": on, "off": nil} {
		if got := testing.AllocsPerRun(100, func() { count(m) }); got != 0 {
			t.Errorf("%s: counting a call takes %v allocations", name, got)
		}
	}
	var tracer *Tracer
	ctx := t.Context()
	if got := testing.AllocsPerRun(100, func() {
		_, a := tracer.Attempt(ctx, "p", "h", "m", "u")
		a.SetParent(nil)
		a.End("")
		tracer.Request(ctx, nil)
		_, s := tracer.Step(ctx, 1)
		s.End("")
	}); got != 0 {
		t.Errorf("tracing that is off takes %v allocations", got)
	}
}

// count counts a streamed call as the packages do.
func count(m *Metrics) {
	m.Call(&Call{
		Model: "alpha", Provider: "p", Account: "a", Duration: time.Second, FirstText: time.Millisecond, State: "completed",
		Usage: stoa.Usage{InputTokens: 100, OutputTokens: 1000}, Amount: 12345,
	})
	m.Request(&stoa.Request{Route: "POST /api/v1/responses", Status: 200})
	m.Committed(3, time.Millisecond)
	m.Became(stoa.SessionRunning, "")
}

func BenchmarkCountingACall(b *testing.B) {
	m := sample()
	b.ReportAllocs()
	for b.Loop() {
		count(m)
	}
}

// TestRowsAreCountedSeldom checks that frequent scrapes do not read the rows often, and that
// a failure leaves a gap.
func TestRowsAreCountedSeldom(t *testing.T) {
	t.Parallel()
	asked := 0
	fail := false
	inputs := 0
	c := newCollector(Sources{Waiting: func(context.Context) (map[string]Waiting, error) {
		inputs++
		return map[string]Waiting{"question": {Count: 2, Age: time.Minute}}, nil
	}, Sessions: func(context.Context) (map[string]int64, error) {
		if asked++; fail {
			return map[string]int64{"queued": 1}, stoa.Errorf(stoa.CodeOverloaded, "no")
		}
		return map[string]int64{"queued": 1}, nil
	}})
	for range 5 {
		if n := testutil.CollectAndCount(c, "stoa_sessions"); n != 1 {
			t.Errorf("%d series, want 1", n)
		}
	}
	if asked != 1 || inputs != 1 {
		t.Errorf("the rows were read %d and %d times", asked, inputs)
	}
	const aged = "# HELP stoa_input_age_seconds For how long the oldest of them has been waited for, by its kind.\n# TYPE stoa_input_age_seconds gauge\nstoa_input_age_seconds{kind=\"question\"} 60\n"
	if err := testutil.CollectAndCompare(c, strings.NewReader(aged), "stoa_input_age_seconds"); err != nil {
		t.Error(err)
	}
	c.at, fail = c.at.Add(-countAgain), true
	if n := testutil.CollectAndCount(c, "stoa_sessions"); n != 0 || asked != 2 {
		t.Errorf("%d series after a failure, want none; read %d times", n, asked)
	}
}
