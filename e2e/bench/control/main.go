// Command control measures the lists and gets of a service whose store is large:
// by default 1,000,000 receipts, 100,000 sessions, 100,000 files and a drive with
// 80 MB of text, seven tenths of them in one account. It fills an empty store with
// statements of many rows, and sends requests to a service that somebody else has
// started on it:
//
//	go run ./e2e/bench/control -seed -data DIR        (or -database URL as well)
//	stoa serve --data DIR --config FILE               (with rateLimits: off)
//	go run ./e2e/bench/control -url http://HOST:PORT -pid PID
//
// Each operation runs alone first, with its processor time; then all but those
// that sum run together at a rate, and a request's time begins when it was due.
// Beside them a request that reads nothing of the store is sent at a tenth of the
// rate: what its time has in common with theirs is the machine's.
// Start at load.go; seed.go is what the store holds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "control:", err)
		os.Exit(1)
	}
}

func run() error {
	var z size
	dir := flag.String("data", "", "data directory to fill")
	postgres := flag.String("database", "", "PostgreSQL to fill")
	fill := flag.Bool("seed", false, "fill the store and end")
	flag.IntVar(&z.receipts, "receipts", 1_000_000, "of the store")
	flag.IntVar(&z.sessions, "sessions", 100_000, "of the store")
	flag.IntVar(&z.files, "files", 100_000, "of the store")
	flag.IntVar(&z.text, "text", 80, "MB in one drive")
	url := flag.String("url", "", "of the service")
	pid := flag.Int("pid", 0, "of the service's process; 0: no processor time is shown")
	rate := flag.Int("rate", 1000, "requests per second together; 0: each alone only")
	seconds := flag.Int("seconds", 20, "of the run together")
	only := flag.String("only", "", "operations whose name holds this")
	alone := flag.Bool("alone", true, "each operation alone first")
	all := flag.Bool("all", false, "those that read many rows as well, each alone")
	flag.Parse()
	begin := time.Now()
	if *fill {
		if err := seed(context.Background(), *dir, *postgres, z); err != nil {
			return err
		}
		fmt.Println("filled in", time.Since(begin).Round(time.Second))
		return nil
	}
	return load(*url, *pid, *rate, *seconds, *only, *alone, *all, z)
}
