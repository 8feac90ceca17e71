//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"stoa/e2e/bench/internal/proc"
)

// A gateway is a program between the callers and the vendor.
type gateway struct {
	name  string // as it is printed: proxy, stoa/full, base/full
	base  string // name of the gateway of the older binary for comparison; may be empty
	isOld bool   // the older binary
	wires []string
	start func(vendor string, env ...string) (*running, error) // before a vendor of allVendors
}

// A running gateway accepts requests.
type running struct {
	*proc.Process
	address string // host:port
	home    string // directory of a service; empty for other programs
	log     string // its log
	path    string // of a model call
	key     string
	model   func(wire string) string

	postmaster int // process id of the service's PostgreSQL; 0 if it is not on this machine

	others []*running   // nodes of the same store
	turn   atomic.Int64 // index of the next node
}

// node returns the nodes of the service in turn.
func (r *running) node() *running {
	n := int(r.turn.Add(1)-1) % (len(r.others) + 1)
	if n == 0 {
		return r
	}
	return r.others[n-1]
}

// Usage returns the resources used by all nodes.
func (r *running) Usage() (sum proc.Usage, err error) {
	sum, err = r.Process.Usage()
	for _, o := range r.others {
		u, err := o.Usage()
		if err != nil {
			return sum, err
		}
		sum.CPU += u.CPU
		sum.Calls += u.Calls
	}
	return sum, err
}

// Stop ends all nodes.
func (r *running) Stop() error {
	err := r.Process.Stop()
	for _, o := range r.others {
		err = errors.Join(err, o.Stop())
	}
	return err
}

// ownerKey is the first key of every service here.
const ownerKey = "sk_bench_0123456789abcdefghijklmnopqrstuvwxyz"

var allWires = []string{"chat", "responses", "messages", "gemini"}

// self starts a command of this program.
func (d *driver) self(args ...string) (*proc.Process, string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	return proc.Start(proc.Command{Path: path, Args: args, Env: append(os.Environ(), d.trust), Log: filepath.Join(d.dir, args[0]+".log"), Ready: listens})
}

// stoaConfig has a provider and a model per wire, and no limit that a measurement could
// reach: a call is measured, not its refusal.
const stoaConfig = `
providers:
  - {name: null-chat, wire: chat, dialect: openai, baseURL: "%[1]s/v1", apiKey: k, maxInFlight: 100000}
  - {name: null-responses, wire: responses, baseURL: "%[1]s/v1", apiKey: k, maxInFlight: 100000}
  - {name: null-messages, wire: messages, baseURL: "%[1]s", apiKey: k, maxInFlight: 100000}
  - {name: null-gemini, wire: gemini, baseURL: "%[1]s", apiKey: k, maxInFlight: 100000}
families:
  chat: [{provider: null-chat, model: "null"}]
  responses: [{provider: null-responses, model: "null"}]
  messages: [{provider: null-messages, model: "null"}]
  gemini: [{provider: null-gemini, model: "null"}]
models:
  bench-chat: {family: chat, contextTokens: 1000000, maxOutput: 100000, price: {input: 1000000, output: 5000000}}
  bench-responses: {family: responses, contextTokens: 1000000, maxOutput: 100000, price: {input: 1000000, output: 5000000}}
  bench-messages: {family: messages, contextTokens: 1000000, maxOutput: 100000, price: {input: 1000000, output: 5000000}}
  bench-gemini: {family: gemini, contextTokens: 1000000, maxOutput: 100000, price: {input: 1000000, output: 5000000}}
auto: [bench-chat]
rateLimits: off
firstGrantMicro: 1000000000000000
plans:
  free: {gatedModels: true, requestsPerMinute: 0, requestsPerMinutePerAccount: 0, concurrentPerKey: 0, concurrentPerAccount: 0, activeSessions: 0}
limits: {connections: 100000, connectionsPerAddress: 100000, bodiesInFlight: 1GiB, queuedSessions: 100000, eventStreamsPerKey: 100000, eventStreamsPerAccount: 100000}
`

// isListening reads the line that stoa serve prints.
func isListening(line string) (string, bool) {
	_, after, ok := strings.Cut(line, " is listening on ")
	return strings.TrimPrefix(strings.TrimSpace(after), "http://"), ok
}

// stoa returns the gateway for a service of a binary on a store: full and process are
// durabilities of SQLite. Its store is kept from one round to the next. On PostgreSQL it may
// have several nodes; its usage is then the sum of all, and its memory that of one. Each call
// counts for that many budgets of its account, which no call reaches.
func (d *driver) stoa(name, binary, store string, nodes, budgets int) (*gateway, error) {
	home := filepath.Join(d.dir, strings.ReplaceAll(name, "/", "-"))
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(home, "stoa.yaml")
	args := []string{"serve", "--listen", "127.0.0.1:0", "--config", config}
	postmaster := 0
	switch store {
	case "full", "process":
		args = append(args, "--data", filepath.Join(home, "data"), "--durability", store)
	case "postgres":
		database, err := d.database(strings.NewReplacer("/", "_", "-", "_").Replace(name))
		if err != nil {
			return nil, err
		}
		args = append(args, "--database", database)
		postmaster = d.postmaster()
	default:
		return nil, fmt.Errorf("no store is called %q; the stores are full, process and postgres", store)
	}
	logFile := filepath.Join(home, "log")
	one := func(env []string) (*running, error) {
		p, address, err := proc.Start(proc.Command{
			Path: binary, Args: args, Log: logFile, Ready: isListening,
			Env: slices.Concat([]string{d.trust, "STOA_ADMIN_LISTEN=127.0.0.1:0", "STOA_BOOTSTRAP_KEY=" + ownerKey, "PATH=" + os.Getenv("PATH")}, d.stoaEnv, env),
		})
		if err != nil {
			return nil, err
		}
		return &running{Process: p, address: address, home: home, log: logFile, postmaster: postmaster, path: "/api/v1/responses", key: ownerKey, model: func(wire string) string { return "bench-" + wire }}, nil
	}
	return &gateway{name: name, wires: d.wires, start: func(vendor string, env ...string) (*running, error) {
		if err := os.WriteFile(config, fmt.Appendf(nil, stoaConfig, d.vendorURL[vendor]), 0o600); err != nil {
			return nil, err
		}
		r, err := one(env)
		if err != nil {
			return nil, err
		}
		for range nodes - 1 {
			o, err := one(env)
			if err != nil {
				return nil, errors.Join(err, r.Stop())
			}
			r.others = append(r.others, o)
		}
		for _, period := range budgetPeriods[:budgets] {
			if err := r.addBudget(period); err != nil {
				return nil, errors.Join(err, r.Stop())
			}
		}
		return r, nil
	}}, nil
}

// budgetPeriods are the periods of the budgets, one each.
var budgetPeriods = []string{"day", "month", "total", "week"}

// addBudget creates a budget of the account, unless an earlier round has.
func (r *running) addBudget(period string) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+r.address+"/api/v1/budgets", strings.NewReader(`{"scope":"account","period":"`+period+`","limitMicro":1000000000000000}`))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusConflict {
		return fmt.Errorf("create a budget: %d %s", resp.StatusCode, text)
	}
	return nil
}

// build compiles the service of the repository around this module.
func (d *driver) build(ctx context.Context) (string, error) {
	binary := filepath.Join(d.dir, "stoa")
	cmd := exec.CommandContext(ctx, "go", "build", "-C", "../..", "-trimpath", "-o", binary, "./cmd/stoa")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build stoa: %w\n%s", err, out)
	}
	return binary, nil
}
