//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"stoa/e2e/bench/internal/null"
	"stoa/e2e/bench/internal/proc"
	"stoa/e2e/bench/internal/raw"
	"stoa/internal/cli"
)

var update = flag.Bool("update", false, "rewrite testdata/baseline.json from what is measured")

const baselineFile = "testdata/baseline.json"

// A cost is what one call takes, of the service with its caller and its vendor.
// These are counts: a busy machine does not change them.
type cost struct {
	Allocations float64 `json:"allocations"`
	Bytes       float64 `json:"bytes"`       // allocated
	SystemCalls float64 `json:"systemCalls"` // reads and writes, of sockets and files
}

// slackOf returns by what share a call may cost more than its baseline. Counts
// differ a little from run to run: pools are filled by chance, and a commit of the
// store takes what waits. Outside streams nobody waits for the other side, so two
// writes may be one read or two; a session also looks for work by the clock.
func slackOf(name string) cost {
	switch kind, _, _ := strings.Cut(name, "/"); kind {
	case "stream":
		return cost{Allocations: 0.10, Bytes: 0.20, SystemCalls: 0.12}
	case "session":
		// So little that one without tools costs less than before there were connections.
		return cost{Allocations: 0.05, Bytes: 0.08, SystemCalls: 0.35}
	default:
		return cost{Allocations: 0.10, Bytes: 0.20, SystemCalls: 0.35}
	}
}

// TestACallCostsNoMoreThanTheBaseline makes calls through the service as it is
// started by stoa serve, one at a time, and compares what one takes with what was
// saved. A stream's next delta is sent when the one before has arrived, so that
// the number of reads and writes does not depend on who is faster.
func TestACallCostsNoMoreThanTheBaseline(t *testing.T) {
	if testing.Short() {
		t.Skip("the counts mean nothing under the race detector, which runs the short tests")
	}
	step := make(chan struct{}, 1)
	var inStep atomic.Bool // else deltas follow each other at once
	r := inProcess(t, &null.Vendor{Step: func() {
		if inStep.Load() {
			<-step
		}
	}})
	measured := map[string]cost{}
	for _, wire := range allWires {
		for _, stream := range []bool{false, true} {
			c, err := newCaller(r, wire, null.Plan{Deltas: 20, Bytes: 400}, stream, 16<<10)
			if err != nil {
				t.Fatal(err)
			}
			inStep.Store(stream)
			call, name := c.call, "whole/"+wire
			if stream {
				name = "stream/" + wire
				c.check.OnDelta = func(int) { step <- struct{}{} }
				call = func() error {
					step <- struct{}{} // the first delta
					err := c.call()
					<-step // the last one had no successor
					return err
				}
			}
			measured[name] = costOf(t, call)
			c.conn.Close()
		}
	}
	list := raw.Request("GET", r.address, "/api/v1/receipts", r.key, nil)
	p, err := newPlane(r)
	if err != nil {
		t.Fatal(err)
	}
	defer p.conn.Close()
	measured["list/receipts"] = costOf(t, func() error { return p.ask(list, 200) })
	agent, err := p.newAgent("bench-chat")
	if err != nil {
		t.Fatal(err)
	}
	inStep.Store(false)
	plan := null.Plan{Deltas: 20, Bytes: 400}
	measured["session/chat"] = costOf(t, func() error { return p.session(agent, null.Prompt(plan), null.Text(plan.Bytes)) })
	if *update {
		text, err := json.MarshalIndent(measured, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(baselineFile, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, complaint := range compare(t, readBaseline(t), measured) {
		t.Error(complaint)
	}
}

// compare returns what costs more than the baseline allows, and logs what costs
// so much less that the baseline ought to follow.
func compare(t *testing.T, baseline, measured map[string]cost) (complaints []string) {
	t.Helper()
	const how = "if that is meant, rewrite the baseline with go test ./e2e/bench -run Baseline -update and say in the commit why a call costs more"
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		slack := slackOf(name)
		want, ok := baseline[name]
		if !ok {
			complaints = append(complaints, fmt.Sprintf("%s has no baseline; %s", name, how))
			continue
		}
		for _, c := range []struct {
			what      string
			got, want float64
			slack     float64
		}{
			{"allocations", measured[name].Allocations, want.Allocations, slack.Allocations},
			{"bytes allocated", measured[name].Bytes, want.Bytes, slack.Bytes},
			{"reads and writes", measured[name].SystemCalls, want.SystemCalls, slack.SystemCalls},
		} {
			switch {
			case c.got > c.want*(1+c.slack):
				complaints = append(complaints, fmt.Sprintf("%s: %.1f %s per call, the baseline is %.1f and %.0f %% more are allowed; %s", name, c.got, c.what, c.want, 100*c.slack, how))
			case c.got < c.want*(1-c.slack):
				t.Logf("%s: only %.1f %s per call, the baseline is %.1f: let it follow (-update)", name, c.got, c.what, c.want)
			}
		}
	}
	for name := range baseline {
		if _, ok := measured[name]; !ok {
			complaints = append(complaints, fmt.Sprintf("the baseline has %s, which is not measured; %s", name, how))
		}
	}
	return complaints
}

func TestTheBaselineRefusesWhatCostsMore(t *testing.T) {
	baseline := map[string]cost{"stream/a": {100, 1000, 10}}
	for _, c := range []struct {
		measured   map[string]cost
		complaints int
	}{
		{map[string]cost{"stream/a": {100, 1000, 10}}, 0},
		{map[string]cost{"stream/a": {50, 500, 5}}, 0},
		{map[string]cost{"stream/a": {115, 1000, 10}}, 1},
		{map[string]cost{"stream/a": {115, 1300, 12}}, 3},
		{map[string]cost{"b": {1, 1, 1}}, 2},
	} {
		if got := compare(t, baseline, c.measured); len(got) != c.complaints {
			t.Errorf("%v: %d complaints: %q", c.measured, len(got), got)
		}
	}
}

func readBaseline(t *testing.T) (out map[string]cost) {
	t.Helper()
	text, err := os.ReadFile(baselineFile)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatalf("%s: %v", baselineFile, err)
	}
	return out
}

// costOf returns what one call takes: the least of some batches, since what
// happens beside the calls, such as a sweep of the store, only adds.
func costOf(t *testing.T, call func() error) cost {
	t.Helper()
	const warmUp, batches, calls = 100, 15, 50
	for range warmUp {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	// A collection empties the pools; between two batches it does no harm.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	least := cost{math.Inf(1), math.Inf(1), math.Inf(1)}
	for range batches {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		callsBefore, err1 := proc.Calls("self")
		for range calls {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
		callsAfter, err2 := proc.Calls("self")
		runtime.ReadMemStats(&after)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		least.Allocations = min(least.Allocations, float64(after.Mallocs-before.Mallocs)/calls)
		least.Bytes = min(least.Bytes, float64(after.TotalAlloc-before.TotalAlloc)/calls)
		least.SystemCalls = min(least.SystemCalls, float64(callsAfter-callsBefore)/calls)
	}
	return cost{math.Round(10*least.Allocations) / 10, math.Round(least.Bytes), math.Round(10*least.SystemCalls) / 10}
}

// inProcess starts stoa serve in this process, before a vendor.
func inProcess(t *testing.T, vendor *null.Vendor) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		if err := vendor.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	config := filepath.Join(dir, "stoa.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, stoaConfig, l.Addr()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	out := &addressWriter{found: make(chan string, 1)}
	ended := make(chan int, 1)
	go func() {
		args := []string{"serve", "--listen", "127.0.0.1:0", "--config", config, "--data", filepath.Join(dir, "data"), "--durability", "process"}
		ended <- cli.Main(ctx, args, []string{"STOA_ADMIN_LISTEN=127.0.0.1:0", "STOA_BOOTSTRAP_KEY=" + ownerKey}, nil, strings.NewReader(""), out, io.Discard)
	}()
	percent := debug.SetGCPercent(100) // serve changes it
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("stoa serve ended with %d", code)
		}
		debug.SetGCPercent(percent)
	})
	select {
	case address := <-out.found:
		return &running{address: address, path: "/api/v1/responses", key: ownerKey, model: func(wire string) string { return "bench-" + wire }}
	case code := <-ended:
		ended <- code
		t.Fatalf("stoa serve ended at its start with %d", code)
		return nil
	}
}

// An addressWriter finds the address in what stoa serve prints.
type addressWriter struct {
	text  strings.Builder
	found chan string
}

func (w *addressWriter) Write(p []byte) (int, error) {
	w.text.Write(p)
	for line := range strings.Lines(w.text.String()) {
		if address, ok := isListening(line); ok && strings.HasSuffix(line, "\n") {
			select {
			case w.found <- address:
			default:
			}
		}
	}
	return len(p), nil
}
