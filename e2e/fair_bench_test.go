//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// BenchmarkCallsUnderAttack measures how long the calls of two tenants take while the server
// is attacked, excluding the processor time of the attacker on the same machine. Each round
// has four phases of the same calls:
//
//	quiet      nothing else happens
//	burning    a process of the lowest priority burns every processor
//	elsewhere  a second server, which the tenants do not call, is attacked
//	attacked   the server that they call is attacked
//
// The attacker is a process of the lowest priority and repeats its attack until the phase is
// over. The difference between attacked and elsewhere is caused inside the server. It reports
// the 99th percentile of each phase in milliseconds and the ratios of the last three to
// quiet; run it with -benchtime=5x for five rounds, with its temporary directory in memory,
// and on a machine with other work, in a separate session whose group has priority:
//
//	setsid -w sh -c 'echo -20 >/proc/self/autogroup; TMPDIR=/dev/shm go test -run=- -bench=UnderAttack -benchtime=5x ./e2e'
func BenchmarkCallsUnderAttack(b *testing.B) {
	v := newVendor(b, nil)
	h, other := newServer(b, v.url, ""), newServer(b, v.url, "")
	h.start()
	other.start()
	tenants := []*account{h.newAccount(b, "pro", 1_000_000_000_000), h.newAccount(b, "pro", 1_000_000_000_000)}
	key, otherKey := h.newAccount(b, "pro", 1_000_000).key, other.newAccount(b, "pro", 1_000_000).key
	const calls = 200
	h.tenantCalls(b, tenants, calls) // warm
	for _, a := range attacks {
		b.Run(strings.ReplaceAll(a.name, " ", "-"), func(b *testing.B) {
			phases := []struct {
				name string
				args []string
			}{
				{"quiet", nil},
				{"burning", []string{"", "", ""}},
				{"elsewhere", []string{strings.TrimPrefix(other.url, "http://"), otherKey, a.name}},
				{"attacked", []string{strings.TrimPrefix(h.url, "http://"), key, a.name}},
			}
			took := make([][]time.Duration, len(phases))
			for b.Loop() {
				for i, p := range phases {
					end := func() {}
					if p.args != nil {
						end = attackBeside(b, p.args...)
					}
					took[i] = append(took[i], h.tenantCalls(b, tenants, calls)...)
					end()
					h.tenantCalls(b, tenants, calls/4) // the rest of the attack must not affect the next phase
				}
			}
			ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
			for i, p := range phases {
				b.ReportMetric(ms(p99(took[i])), p.name+"-p99-ms")
				if i > 0 {
					b.ReportMetric(float64(p99(took[i]))/float64(p99(took[0])), p.name+"/quiet")
				}
			}
			b.ReportMetric(float64(h.memory(b, "VmHWM")), "MiB")
		})
	}
}

// attackBeside starts this program as an attacker of the lowest priority; see [attack]. The
// returned function ends it.
func attackBeside(b *testing.B, args ...string) (end func()) {
	b.Helper()
	cmd := exec.Command("nice", append([]string{"-n", "19", self(b)}, args...)...)
	cmd.Env = []string{asProgram + "=attacker", "PATH=" + os.Getenv("PATH")}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has begun
		b.Fatal(err)
	}
	return func() {
		in.Close()
		_ = cmd.Wait()
	}
}
