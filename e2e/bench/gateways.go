//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"stoa/e2e/bench/internal/null"
	"stoa/e2e/bench/internal/proc"
)

// A gateway is a program between the callers and the vendor.
type gateway struct {
	name  string // as it is printed: proxy, nginx, stoa/full, base/full
	base  string // name of the gateway of the older binary that it is compared with; empty: none
	isOld bool   // the older binary
	wires []string
	start func(env ...string) (*running, error)
}

// A running gateway takes requests.
type running struct {
	*proc.Process
	address string // host:port
	home    string // directory of a service; empty: no service
	log     string // its log
	path    string // of a model call
	key     string
	model   func(wire string) string

	postmaster int // process id of the service's PostgreSQL; 0: none on this machine

	others []*running   // nodes of the same store
	turn   atomic.Int64 // which node is next
}

// node returns the nodes of the service in turn.
func (r *running) node() *running {
	n := int(r.turn.Add(1)-1) % (len(r.others) + 1)
	if n == 0 {
		return r
	}
	return r.others[n-1]
}

// Usage returns what all nodes have used.
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

// listens reads the line that the commands vendor and proxy print.
func listens(line string) (string, bool) { return strings.CutPrefix(line, "listening on ") }

// self starts a command of this program.
func (d *driver) self(args ...string) (*proc.Process, string, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	return proc.Start(proc.Command{Path: path, Args: args, Env: os.Environ(), Log: filepath.Join(d.dir, args[0]+".log"), Ready: listens})
}

// runVendor is the command vendor.
func runVendor() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	return (&null.Vendor{}).Serve(l)
}

// runProxy is the command proxy: Go's ReverseProxy as it comes, with connections
// to the vendor that are kept.
func runProxy(vendor string) error {
	target, err := url.Parse("http://" + vendor)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1<<20
	transport.DisableCompression = true
	p := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		ErrorLog:  log.New(os.Stderr, "", 0),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	// Without this the server closes the request's body when the response begins,
	// which cuts the stream of a vendor that answers before the transport has read
	// the body's end.
	duplex := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p.ServeHTTP(w, r)
	})
	return (&http.Server{Handler: duplex, ReadHeaderTimeout: time.Minute}).Serve(l)
}

// plainModel is what a proxy is asked for: the vendor looks at no model.
func plainModel(string) string { return "null" }

func (d *driver) proxy() *gateway {
	return &gateway{name: "proxy", wires: []string{"responses"}, start: func(...string) (*running, error) {
		p, address, err := d.self("proxy", d.vendor)
		if err != nil {
			return nil, err
		}
		return &running{Process: p, address: address, path: "/v1/responses", key: ownerKey, model: plainModel}, nil
	}}
}

const nginxConfig = `daemon off;
master_process on;
worker_processes auto;
worker_rlimit_nofile %[1]d;
pid %[2]s/nginx.pid;
error_log %[2]s/nginx.log warn;
events { worker_connections %[1]d; }
http {
  access_log off;
  client_body_temp_path %[2]s/nginx-body;
  proxy_temp_path %[2]s/nginx-proxy;
  fastcgi_temp_path %[2]s/nginx-fastcgi;
  uwsgi_temp_path %[2]s/nginx-uwsgi;
  scgi_temp_path %[2]s/nginx-scgi;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  upstream vendor { server %[3]s; keepalive 1024; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:%[4]d backlog=4096;
    location / {
      proxy_pass http://vendor;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 1h;
    }
  }
}
`

func (d *driver) nginx() *gateway {
	return &gateway{name: "nginx", wires: []string{"responses"}, start: func(...string) (*running, error) {
		path, err := exec.LookPath("nginx")
		if err != nil {
			return nil, err
		}
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		config := filepath.Join(d.dir, "nginx.conf")
		text := fmt.Sprintf(nginxConfig, d.files, d.dir, d.vendor, port)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, err
		}
		p, _, err := proc.Start(proc.Command{
			Path: path, Args: []string{"-c", config, "-p", d.dir, "-e", filepath.Join(d.dir, "nginx.log")}, Env: os.Environ(),
			Log: filepath.Join(d.dir, "nginx.log"), Grace: syscall.SIGTERM, // the workers of a killed one live on
		})
		if err != nil {
			return nil, err
		}
		r := &running{Process: p, address: fmt.Sprintf("127.0.0.1:%d", port), path: "/v1/responses", key: ownerKey, model: plainModel}
		return r, d.await(r, filepath.Join(d.dir, "nginx.log"))
	}}
}

// await returns when something accepts connections at the gateway's address.
func (d *driver) await(r *running, log string) error {
	for range 500 {
		c, err := net.Dial("tcp", r.address)
		if err == nil {
			return c.Close()
		}
		if r.Ended() {
			return fmt.Errorf("nginx ended: %s", proc.Tail(log))
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.Join(errors.New("nginx does not listen"), r.Stop())
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// stoaConfig has a provider and a model per wire, and no limit that a measurement
// could meet: what is measured is a call, not its refusal.
const stoaConfig = `
providers:
  - {name: null-chat, wire: chat, dialect: openai, baseURL: "http://%[1]s/v1", apiKey: k, maxInFlight: 100000}
  - {name: null-responses, wire: responses, baseURL: "http://%[1]s/v1", apiKey: k, maxInFlight: 100000}
  - {name: null-messages, wire: messages, baseURL: "http://%[1]s", apiKey: k, maxInFlight: 100000}
  - {name: null-gemini, wire: gemini, baseURL: "http://%[1]s", apiKey: k, maxInFlight: 100000}
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
limits: {connections: 100000, connectionsPerAddress: 100000, bodiesInFlight: 1GiB, queuedSessions: 100000}
`

// isListening reads the line that stoa serve prints.
func isListening(line string) (string, bool) {
	_, after, ok := strings.Cut(line, " is listening on ")
	return strings.TrimPrefix(strings.TrimSpace(after), "http://"), ok
}

// stoa is a service of a binary on a store: full and process are durabilities of
// SQLite. Its store is kept from one round to the next. On PostgreSQL it may have
// several nodes; then what it has used is the sum of all, and its memory that of one.
func (d *driver) stoa(name, binary, store string, nodes int) (*gateway, error) {
	home := filepath.Join(d.dir, strings.ReplaceAll(name, "/", "-"))
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(home, "stoa.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, stoaConfig, d.vendor), 0o600); err != nil {
		return nil, err
	}
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
			Env: slices.Concat(d.stoaEnv, env, []string{"STOA_ADMIN_LISTEN=127.0.0.1:0", "STOA_BOOTSTRAP_KEY=" + ownerKey, "PATH=" + os.Getenv("PATH")}),
		})
		if err != nil {
			return nil, err
		}
		return &running{Process: p, address: address, home: home, log: logFile, postmaster: postmaster, path: "/api/v1/responses", key: ownerKey, model: func(wire string) string { return "bench-" + wire }}, nil
	}
	return &gateway{name: name, wires: d.wires, start: func(env ...string) (*running, error) {
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
		return r, nil
	}}, nil
}

// build compiles the service of the repository that the working directory is in.
func (d *driver) build(ctx context.Context) (string, error) {
	binary := filepath.Join(d.dir, "stoa")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "stoa/cmd/stoa")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build stoa: %w\n%s", err, out)
	}
	return binary, nil
}
