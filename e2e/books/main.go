//go:build unix

// Command books tests the books of a gateway for language models: whether each complete reply is billed
// once, at its price, and nothing past the budget of its key, while callers crowd, the vendor fails, the
// database goes away and the gateway is killed. A small adapter file tells it how to use a gateway; see
// README.md.
//
// It contains its own vendor, so that it knows which replies were served, and its own callers, so that it
// knows which were delivered. It compares both with the gateway's books. It connects to loopback
// addresses only.
//
// Start at main; scenarios.go makes the calls, judge.go compares.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// options are the flags.
type options struct {
	adapter string
	dir     string
	only    []string // scenarios; empty means all
	size    size
	vendor  string // its address
	limit   time.Duration
	asJSON  bool
}

// errFound is the result of a run whose figures are not what they must be.
var errFound = errors.New("the books are not right")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errFound):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "books:", err)
		os.Exit(2)
	}
}

func command(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o := options{size: fullSize}
	f := flag.NewFlagSet("books", flag.ContinueOnError)
	f.SetOutput(progress)
	f.StringVar(&o.adapter, "adapter", "", "the adapter of the gateway, a JSON file; adapters has some")
	only := f.String("scenarios", "", "some scenarios, with commas: crowd, long, faults, database, kill, customers (default: all)")
	short := f.Bool("short", false, "small numbers: a minute instead of several")
	f.DurationVar(&o.limit, "limit", 20*time.Minute, "end of everything")
	f.StringVar(&o.vendor, "vendor", "127.0.0.1:0", "address of the vendor, for a gateway that runs already")
	f.StringVar(&o.dir, "dir", "", "directory for the gateway's files and its log, kept (default: a temporary one)")
	f.BoolVar(&o.asJSON, "json", false, "print the result as JSON")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || o.adapter == "" {
		return errors.New("usage: books -adapter FILE; books -help lists the flags")
	}
	if *short {
		o.size = shortSize
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, name := range o.only {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
			return fmt.Errorf("unknown scenario %q", name)
		}
	}
	a, err := readAdapter(o.adapter)
	if err != nil {
		return err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "books-"); err != nil {
			return err
		}
		defer os.RemoveAll(o.dir)
	} else if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	report, err := test(ctx, a, o, progress)
	if err != nil {
		return err
	}
	if o.asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(report)
	} else {
		err = report.print(out)
	}
	if err == nil && !report.Passed {
		err = errFound
	}
	return err
}

// A report is the result of a run.
type report struct {
	Gateway   string    `json:"gateway"`
	Version   string    `json:"version,omitempty"`
	Scenarios []verdict `json:"scenarios"`
	Seconds   float64   `json:"seconds"`
	Passed    bool      `json:"passed"`
}

// test runs the scenarios against a gateway that it starts and ends.
func test(ctx context.Context, a *adapter, o options, progress io.Writer) (rep report, err error) {
	began := time.Now()
	note := func(format string, args ...any) {
		fmt.Fprintf(progress, "%7.1fs "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
	}
	dir, err1 := filepath.Abs(o.dir)
	file, err2 := filepath.Abs(o.adapter)
	if err := errors.Join(err1, err2); err != nil {
		return rep, err
	}
	if err := isLoopback("http://" + o.vendor); err != nil {
		return rep, err
	}
	if a.ContextTokens == 0 {
		a.ContextTokens = 100_000
	}
	v, err := newVendor(o.vendor, a.ContextTokens)
	if err != nil {
		return rep, err
	}
	defer v.server.Close()
	port, err := freePort()
	if err != nil {
		return rep, err
	}
	g := &gateway{
		adapter: a, dir: dir, log: filepath.Join(dir, "gateway.log"), http: client(), note: note,
		vars: map[string]string{"vendor": v.url, "dir": dir, "adapter": filepath.Dir(file), "port": fmt.Sprint(port)},
	}
	r := &run{size: o.size, gateway: g, vendor: v, rich: 1_000_000_000}
	// The clean-up has its own time limit, because the context may have ended.
	defer func() {
		g.stop()
		if g.relay != nil {
			g.relay.listener.Close()
		}
		if a.Database != nil && g.vars["databaseName"] != "" {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err = errors.Join(err, g.commands(ctx, a.Database.Remove))
		}
	}()
	note("%s: prepare", a.Name)
	if err := g.prepare(ctx); err != nil {
		return rep, err
	}
	rep = report{Gateway: a.Name, Passed: true}
	if len(a.Version) > 0 {
		out, err := g.command(ctx, a.Version, nil)
		if err != nil {
			return rep, err
		}
		rep.Version = strings.TrimSpace(string(out))
	}
	if err := g.start(ctx); err != nil {
		return rep, err
	}
	for _, s := range a.Setup {
		if _, err := g.do(ctx, s, g.vars); err != nil {
			return rep, fmt.Errorf("set up: %w", err)
		}
	}
	for _, s := range scenarios {
		if len(o.only) > 0 && !slices.Contains(o.only, s.name) {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		note("%s: %s", s.name, s.about)
		v := r.perform(ctx, s)
		rep.Scenarios = append(rep.Scenarios, v)
		rep.Passed = rep.Passed && v.Passed
		if v.Error != "" {
			note("%s: %s; the last lines of the gateway:\n%s", s.name, v.Error, g.tail())
		}
	}
	rep.Seconds = time.Since(began).Seconds()
	return rep, ctx.Err()
}

// print writes the report as a table, with what was found below it.
func (rep report) print(out io.Writer) error {
	fmt.Fprintf(out, "%s %s\n\n", rep.Gateway, rep.Version)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenario\tcalls\tdelivered\trefused\tfailed\toverrun\tlost\tdoubled\tfree\tseconds\t")
	for _, v := range rep.Scenarios {
		if v.NotRun != "" {
			fmt.Fprintf(w, "%s\tnot run\t\t\t\t\t\t\t\t\t\n", v.Scenario)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t", v.Scenario, v.Sent, v.Delivered, v.Refused, v.Failed)
		for _, name := range names {
			f := *v.all()[name]
			if f == (figure{}) {
				fmt.Fprint(w, "0\t")
			} else {
				fmt.Fprintf(w, "%d (%d)\t", f.Calls, f.Micro)
			}
		}
		fmt.Fprintf(w, "%.0f\t\n", v.Seconds)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nA figure is a number of calls, with their money in micro-units in parentheses.")
	measured := map[string]bool{}
	for _, v := range rep.Scenarios {
		if v.Measured != "" {
			measured[v.Measured] = true
		}
	}
	for _, text := range slices.Sorted(maps.Keys(measured)) {
		fmt.Fprintf(out, "Measured by %s.\n", text)
	}
	for _, v := range rep.Scenarios {
		if v.NotRun != "" {
			fmt.Fprintf(out, "%s: not run: %s\n", v.Scenario, v.NotRun)
		}
		if v.Error != "" {
			fmt.Fprintf(out, "%s: ERROR: %s\n", v.Scenario, v.Error)
		}
		if v.Partial.Calls > 0 {
			fmt.Fprintf(out, "%s: %d calls without a complete reply were billed (%d)\n", v.Scenario, v.Partial.Calls, v.Partial.Micro)
		}
		if v.Unended.Calls > 0 {
			fmt.Fprintf(out, "%s: %d replies (%d) arrived with all their text but without their end\n", v.Scenario, v.Unended.Calls, v.Unended.Micro)
		}
		if v.Short > 0 {
			fmt.Fprintf(out, "%s: %d replies ended as if complete, with less text than the vendor's\n", v.Scenario, v.Short)
		}
		for _, text := range slices.Concat(v.Notes, v.Examples[:min(3, len(v.Examples))]) {
			fmt.Fprintf(out, "%s: %s\n", v.Scenario, text)
		}
	}
	verdict := "passed"
	if !rep.Passed {
		verdict = "FAILED"
	}
	_, err := fmt.Fprintf(out, "\n%s in %.0f s\n", verdict, rep.Seconds)
	return err
}
