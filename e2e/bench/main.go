//go:build linux

// Command bench measures the cost of a call through Stoa, next to Go's ReverseProxy
// before the same vendor in the same run. Each program is a separate process: a
// vendor that does as little as possible, the gateway, and this one, which makes
// the calls. It prints the processor time and memory of the gateway alone.
//
// The vendor speaks HTTP/2 over TLS, as the public vendors do, HTTP/1.1 over TLS,
// and plain HTTP, and HTTP/2 over TLS through nginx, if that is installed. Its certificate comes from an authority that is created for the
// run; gateways trust it through SSL_CERT_FILE.
//
// Rounds are interleaved: each round measures every gateway once, in a new process,
// so that a machine that is busy for a while disturbs all of them. A ratio is the
// median of the ratios of the rounds. Every reply is checked; a wrong one ends the
// run. docs/performance.md has results and explains them.
//
// Start at main; gateways.go starts what is measured, calls.go measures it.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"stoa/e2e/bench/internal/proc"
)

// A driver is the state of one run.
type driver struct {
	modes    []string
	vendors  []string
	targets  []string
	wires    []string
	stores   []string
	nodes    []int // on PostgreSQL
	budgets  []int // of the account
	rounds   int
	binary   string // of Stoa; empty means built
	compare  string // an older one; may be empty
	asJSON   bool
	postgres string
	stoaEnv  []string

	time, warmUp, settle time.Duration
	connections          int
	deltas, bytes        int
	streams              int
	slowDelay            time.Duration
	idleConnections      int

	profiles  string            // directory for profiles; empty means none
	dir       string            // for all files written
	files     int               // limit of open files
	vendorURL map[string]string // of each of allVendors
	trust     string            // environment variable with the vendor's authority
	cleanUp   []func()
	out       io.Writer
	note      io.Writer
}

const usage = `usage: bench [flags]      measure
       bench vendor DIR   be the null vendor, with the certificate in DIR
       bench proxy URL    be Go's ReverseProxy before URL

From the root of the repository: go run ./e2e/bench [flags], or make bench.
The default takes six minutes. Some runs:

  go run ./e2e/bench -compare /tmp/stoa-before          this tree and an older binary
  go run ./e2e/bench -modes whole -vendors h2 -rounds 9  one number, well
  go run ./e2e/bench -wires chat,responses,messages,gemini
  go run ./e2e/bench -vendors nginx -wires messages,responses   before a vendor behind nginx
  go run ./e2e/bench -stores full,process,postgres       all stores; PostgreSQL needs STOA_TEST_POSTGRES
  go run ./e2e/bench -stores postgres -nodes 1,2,3       nodes of one PostgreSQL, side by side
  go run ./e2e/bench -targets stoa -modes whole -budgets 0,3   what three budgets cost a call
  go run ./e2e/bench -modes slow -streams 9900           many streams; needs twice the open files
  go run ./e2e/bench -modes sessions -targets stoa       sessions from their start to their answer

Flags:
`

func main() {
	runtime.LockOSThread() // the system ends the processes of a thread with it
	if err := command(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	files, err := proc.RaiseFileLimit()
	if err != nil {
		return err
	}
	// The vendor and the proxy end on SIGTERM; only the driver has to clean up.
	if len(args) == 2 && args[0] == "vendor" {
		return runVendor(args[1])
	}
	if len(args) == 2 && args[0] == "proxy" {
		return runProxy(args[1])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, args, files)
}

func run(ctx context.Context, args []string, files int) (err error) {
	d := &driver{files: files, postgres: os.Getenv("STOA_TEST_POSTGRES"), out: os.Stdout, note: os.Stderr}
	if err := d.flags(args); err != nil {
		return err
	}
	if d.dir == "" {
		if d.dir, err = os.MkdirTemp("", "stoa-bench-"); err != nil {
			return err
		}
		d.cleanUp = append(d.cleanUp, func() { os.RemoveAll(d.dir) })
	} else if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return err
	}
	defer func() {
		for _, f := range slices.Backward(d.cleanUp) {
			f()
		}
	}()
	load := proc.Load()
	fmt.Fprintln(d.note, "bench: the load of the machine is", load)
	stop, err := d.startVendor()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	gateways, err := d.gateways(ctx)
	if err != nil {
		return err
	}
	samples, err := d.measure(ctx, gateways)
	if err != nil {
		return err
	}
	if d.asJSON {
		e := json.NewEncoder(d.out)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"loadBefore": load, "loadAfter": proc.Load(), "samples": samples, "results": results(samples, gateways)})
	}
	if err := d.print(results(samples, gateways)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(d.out, "(load of the machine, which includes the bench itself from its start on: %s before, %s after)\n", load, proc.Load())
	return err
}

// allModes are the modes, in order of execution.
var allModes = []string{"whole", "stream", "slow", "idle", "sessions"}

func (d *driver) flags(args []string) error {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	list := func(into *[]string, name, value, usage string) {
		*into = strings.Split(value, ",")
		f.Func(name, usage+" (default "+value+")", func(s string) error {
			*into = strings.Split(s, ",")
			return nil
		})
	}
	list(&d.modes, "modes", "whole,stream,slow,idle", "what is measured, with commas; also sessions, of an agent on the sandbox model")
	list(&d.vendors, "vendors", strings.Join(allVendors, ","), "protocols of the vendor: HTTP/2 over TLS, HTTP/1.1 over TLS, plain HTTP, nginx with HTTP/2 over TLS before it; idle and sessions use the first")
	list(&d.targets, "targets", "proxy,stoa", "which gateways: proxy is Go's ReverseProxy, the base of all ratios")
	list(&d.wires, "wires", "chat", "formats of the vendor behind Stoa, of "+strings.Join(allWires, ", ")+"; slow and idle use the first")
	list(&d.stores, "stores", "full", "stores of Stoa: full and process are SQLite's durabilities, postgres needs STOA_TEST_POSTGRES")
	numbers := func(into *[]int, name, usage string, least, most int) {
		*into = []int{least}
		f.Func(name, fmt.Sprintf("%s, with commas (default %d)", usage, least), func(s string) error {
			*into = nil
			for text := range strings.SplitSeq(s, ",") {
				n, err := strconv.Atoi(text)
				if err != nil || n < least || n > most {
					return fmt.Errorf("a number is from %d to %d", least, most)
				}
				*into = append(*into, n)
			}
			return nil
		})
	}
	numbers(&d.nodes, "nodes", "how many nodes Stoa has on PostgreSQL", 1, 16)
	numbers(&d.budgets, "budgets", "how many budgets of its account each call counts for; the first number is the base of the others", 0, len(budgetPeriods))
	f.IntVar(&d.rounds, "rounds", 2, "rounds; each measures every gateway once")
	f.StringVar(&d.binary, "stoa", "", "binary of Stoa (default: built from this repository)")
	f.StringVar(&d.compare, "compare", "", "an older binary of Stoa, measured in the same rounds as base")
	f.BoolVar(&d.asJSON, "json", false, "print all samples and results as JSON")
	f.DurationVar(&d.time, "time", 1500*time.Millisecond, "measured time of each sample; up to ten times as much on a busy machine")
	f.DurationVar(&d.warmUp, "warm-up", 500*time.Millisecond, "time before it, of whole and stream")
	f.DurationVar(&d.settle, "settle", 2*time.Second, "wait before memory of an idle process is read")
	f.IntVar(&d.connections, "connections", 64, "callers at a time, of whole and stream")
	f.IntVar(&d.deltas, "deltas", 100, "deltas of a reply")
	f.IntVar(&d.bytes, "bytes", 1024, "text of a reply in bytes")
	f.IntVar(&d.streams, "streams", 1000, "slow streams at a time")
	f.DurationVar(&d.slowDelay, "delay", 0, "between two deltas of a slow stream (default: 10,000 deltas a second in all)")
	f.IntVar(&d.idleConnections, "idle", 10000, "idle connections")
	f.StringVar(&d.profiles, "profiles", "", "directory for processor profiles of Stoa, one for each sample of whole and stream; they add to what is measured")
	f.StringVar(&d.dir, "dir", "", "directory for stores and logs, kept (default: a temporary one)")
	env := f.String("env", "", "environment of Stoa, with commas: GOGC=200,GODEBUG=…")
	f.Usage = func() {
		fmt.Fprint(d.note, usage)
		f.SetOutput(d.note)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q is not a flag; see bench -help", f.Arg(0))
	}
	if *env != "" {
		d.stoaEnv = strings.Split(*env, ",")
	}
	for _, c := range []struct {
		what       string
		given, all []string
	}{{"modes", d.modes, allModes}, {"vendors", d.vendors, allVendors}, {"wires", d.wires, allWires}} {
		for _, g := range c.given {
			if !slices.Contains(c.all, g) {
				return fmt.Errorf("%q is not one of the %s %s", g, c.what, strings.Join(c.all, ", "))
			}
		}
	}
	const spare = 200
	if most := (d.files - spare) / 2; d.streams > most {
		fmt.Fprintf(d.note, "bench: a process may open %d files, so there are %d slow streams, not %d\n", d.files, most, d.streams)
		d.streams = most
	}
	if most := d.files - spare - 2*d.connections; d.idleConnections > most {
		fmt.Fprintf(d.note, "bench: a process may open %d files, so there are %d idle connections, not %d\n", d.files, most, d.idleConnections)
		d.idleConnections = most
	}
	return nil
}

// gateways returns the gateways to measure, in the order of a round: a binary and the one for
// comparison are neighbours.
func (d *driver) gateways(ctx context.Context) (out []*gateway, err error) {
	for _, t := range d.targets {
		switch t {
		case "proxy":
			out = append(out, d.proxy())
		case "stoa":
			if d.binary == "" {
				if d.binary, err = d.build(ctx); err != nil {
					return nil, err
				}
			}
			for _, store := range d.stores {
				if store == "postgres" && d.postgres == "" {
					fmt.Fprintln(d.note, "bench: skipped: PostgreSQL, since STOA_TEST_POSTGRES is not set")
					continue
				}
				nodes := []int{1}
				if store == "postgres" {
					nodes = d.nodes
				}
				for _, n := range nodes {
					var first *gateway // the base of those with other numbers of budgets
					for _, budgets := range d.budgets {
						name := store
						if n > 1 {
							name += fmt.Sprint("-", n)
						}
						if budgets > 0 {
							name += fmt.Sprint("-", budgets, "-budgets")
						}
						g, err := d.stoa("stoa/"+name, d.binary, store, n, budgets)
						if err != nil {
							return nil, err
						}
						switch {
						case first != nil:
							g.base = first.name
						case d.compare != "":
							old, err := d.stoa("base/"+name, d.compare, store, n, budgets)
							if err != nil {
								return nil, err
							}
							g.base, old.isOld = old.name, true
							out = append(out, old)
						}
						first = cmp.Or(first, g)
						out = append(out, g)
					}
				}
			}
		default:
			return nil, fmt.Errorf("no target is called %q; the targets are proxy and stoa", t)
		}
	}
	return out, nil
}

// database creates a schema for this run and returns its URL.
func (d *driver) database(name string) (string, error) {
	schema := fmt.Sprintf("bench_%d_%s", os.Getpid(), name)
	exec := func(statement string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err := pgx.Connect(ctx, d.postgres)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		_, err = c.Exec(ctx, statement)
		return err
	}
	if err := exec("CREATE SCHEMA " + schema); err != nil {
		return "", err
	}
	d.cleanUp = append(d.cleanUp, func() {
		if err := exec("DROP SCHEMA " + schema + " CASCADE"); err != nil {
			fmt.Fprintln(d.note, "bench:", err)
		}
	})
	separator := "?"
	if strings.Contains(d.postgres, "?") {
		separator = "&"
	}
	return d.postgres + separator + "search_path=" + schema, nil
}

// postmaster returns the process id of the PostgreSQL that STOA_TEST_POSTGRES names; 0 if it
// is not on this machine, or unknown.
func (d *driver) postmaster() int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, d.postgres)
	if err != nil {
		return 0
	}
	defer c.Close(ctx)
	var text string
	// The first line of postmaster.pid is the process id.
	if err := c.QueryRow(ctx, "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)").Scan(&text); err != nil {
		return 0
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil || !strings.HasPrefix(string(name), "postgres") {
		return 0
	}
	return pid
}

// measure runs all rounds.
func (d *driver) measure(ctx context.Context, gateways []*gateway) (all []sample, err error) {
	for _, mode := range d.modes {
		vendors := d.vendors
		if mode == "idle" || mode == "sessions" {
			vendors = vendors[:1]
		}
		for round := range d.rounds {
			for _, vendor := range vendors {
				order := slices.Clone(gateways)
				if round%2 == 1 { // the first one has cold caches: alternate
					slices.Reverse(order)
				}
				for _, g := range order {
					wires := g.wires
					if mode == "sessions" && g.name == "proxy" {
						continue
					}
					if mode != "whole" && mode != "stream" {
						wires = wires[:1]
					}
					for _, wire := range wires {
						if err := ctx.Err(); err != nil {
							return all, err
						}
						s, err := d.sample(g, mode, vendor, wire)
						if err != nil {
							return all, fmt.Errorf("%s of %s on %s over %s, round %d: %w", mode, g.name, wire, vendor, round+1, err)
						}
						s.Mode, s.Gateway, s.Vendor, s.Wire, s.Round = mode, g.name, vendor, wire, round+1
						all = append(all, s)
						fmt.Fprintf(d.note, "%-7s round %d  %-5s %-10s %-10s %s\n", mode, round+1, vendor, g.name, wire, s.line())
					}
				}
			}
		}
	}
	return all, nil
}

// sample measures a gateway once, in a new process.
func (d *driver) sample(g *gateway, mode, vendor, wire string) (s sample, err error) {
	var env []string
	if mode == "sessions" {
		env = []string{"STOA_SANDBOX=always"}
	}
	admin := ""
	if d.profiles != "" && g.name != "proxy" {
		if admin, err = freeAddress(); err != nil {
			return s, err
		}
		env = append(env, "STOA_PROFILES=true", "STOA_ADMIN_LISTEN="+admin)
	}
	r, err := g.start(vendor, env...)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	if g.name != "proxy" {
		r.WaitAlone()
		for _, o := range r.others {
			o.WaitAlone()
		}
	}
	if admin != "" {
		saved := make(chan error, 1)
		name := strings.NewReplacer("/", "-").Replace(strings.Join([]string{mode, vendor, g.name, wire}, "-")) + ".pprof"
		go func() { saved <- saveProfile(admin, filepath.Join(d.profiles, name), d.warmUp, d.time) }()
		defer func() { err = errors.Join(err, <-saved) }()
	}
	switch mode {
	case "whole":
		return d.fast(r, wire, false)
	case "stream":
		return d.fast(r, wire, true)
	case "slow":
		return d.slow(r, wire)
	case "idle":
		return d.idle(r, wire)
	default:
		return d.sessions(r)
	}
}

// saveProfile writes a processor profile of a service, from the end of the warm-up on.
func saveProfile(admin, file string, warmUp, duration time.Duration) error {
	time.Sleep(warmUp)
	resp, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, max(1, int(duration.Seconds()))))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	profile, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the profile: %d %.300s", resp.StatusCode, profile)
	}
	return errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, profile, 0o600))
}

// settled returns the memory of a process after a pause.
func (r *running) settled(t time.Duration) (int64, error) {
	time.Sleep(t)
	return r.Memory()
}
