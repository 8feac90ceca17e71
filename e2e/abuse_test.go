//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// abuseMemory is the maximum memory (VmHWM, in MiB) of the process after every attack of this
// file. docs/capacity.md promises it for the default limits; without limits the attacks
// used 2,400 to 10,300 MiB.
const abuseMemory = 1024

// TestAbuseLeavesOthersAlone attacks the service in the ways that once used gigabytes of
// memory, from a separate address, while two tenants call. The tenants never get an error and
// the memory of the process stays bounded. Latencies are logged, not checked: they depend on
// the machine too.
func TestAbuseLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	h := newServer(t, v.url, "extensions: {files: true}\n")
	h.start()
	tenants := []*account{h.newAccount(t, "pro", 1_000_000_000), h.newAccount(t, "pro", 1_000_000_000)}
	key := h.newAccount(t, "pro", 1_000_000).key

	calls := 400
	if testing.Short() {
		calls = 100
	}
	quiet := h.tenantCalls(t, tenants, calls)
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			stop, end := context.WithCancel(context.Background())
			var attacking sync.WaitGroup
			attacking.Go(func() { a.run(attacker{addr: strings.TrimPrefix(h.url, "http://"), key: key}, stop) })
			during := h.tenantCalls(t, tenants, calls)
			end()
			attacking.Wait()
			peak := h.memory(t, "VmHWM")
			t.Logf("p99 of tenants: quiet %v, attacked %v (%.1f times); memory at most %d MiB, now %d MiB",
				p99(quiet), p99(during), float64(p99(during))/float64(p99(quiet)), peak, h.memory(t, "VmRSS"))
			if peak > abuseMemory {
				t.Errorf("the process used %d MiB; at most %d are promised", peak, abuseMemory)
			}
		})
	}
}

// tenantCalls makes n calls for each tenant, whole and streamed in turn, and returns their
// durations. A call without a complete reply is an error.
func (h *server) tenantCalls(t testing.TB, tenants []*account, n int) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for _, a := range tenants {
		all.Go(func() {
			for i := range n {
				began := time.Now()
				s := h.ask(context.Background(), a.key, "", object{
					"model": "alpha-haiku-4-5", "stream": i%2 == 1, "max_output_tokens": 100, "input": "tokens: 5",
				}, nil)
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
				if s.end != "completed" {
					t.Errorf("a tenant's call was not completed: %+v", s)
				}
			}
		})
	}
	all.Wait()
	return took
}

// memory returns a figure of /proc/PID/status in MiB.
func (h *server) memory(t testing.TB, name string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.current().cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return kib >> 10
		}
	}
	t.Fatalf("no %s in /proc", name)
	return 0
}

func p99(took []time.Duration) time.Duration {
	sorted := slices.Clone(took)
	slices.Sort(sorted)
	return sorted[len(sorted)*99/100]
}
