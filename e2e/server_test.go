// Package e2e tests the whole service from outside: the real program as a separate process,
// real HTTP, and a fake provider behind it. The process is killed, stopped and reconfigured,
// and afterwards its books are compared with the records of the provider and of the callers.
//
// Nothing here reads the state of the process. Start with crash_test.go for the load,
// books_test.go for the invariants; server_test.go runs the process.
//
// # How crashes are judged
//
// The promise is exact books through kill -9, and a test that looks into the process would
// share its mistakes. The test binary runs itself as the real program, in front of a fake
// provider that keeps its own books, and callers of every kind record their results. The
// server is killed at random moments, some of them during its start. Afterwards three books
// are compared: the provider's, the callers', and the receipts that the service returns over
// its API; finally, stoa ledger verify reads the rows. Each call has a mark that occurs in
// all three: an order in the prompt, and the member user that the receipt repeats.
//
// Crash points inside the code were rejected, since they only test the known places; so was a
// simulated disk, since SQLite's durability is not in doubt here. Reconsider this if a
// customer ever finds a double charge that a thousand kills did not.
package e2e

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stoa/internal/base/extract/extracttest"
	"stoa/internal/faces/cli"
	"stoa/internal/testkit/fakeup"
)

// asProgram is the variable that makes the test binary the program itself.
const asProgram = "STOA_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if code, ran := extracttest.Child(); ran {
		os.Exit(code)
	}
	if os.Getenv(asProgram) != "" {
		os.Exit(program())
	}
	os.Exit(m.Run())
}

// program is cmd/stoa's main. A server started by a test also ends when the
// test does: its standard input is closed then.
func program() int {
	if os.Getenv(asProgram) == "attacker" {
		return attack(os.Args[1], os.Args[2], os.Args[3])
	}
	if os.Getenv(asProgram) == "conform" {
		return conform(os.Args[1])
	}
	// All servers share the compiled PDF reader, since compiling it takes seconds.
	os.Setenv("XDG_CACHE_HOME", filepath.Join(os.TempDir(), "stoa-test-cache"))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	if os.Getenv(asProgram) == "server" {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			os.Exit(99)
		}()
	}
	return cli.Main(ctx, os.Args[1:], os.Environ(), hangup, os.Stdin, os.Stdout, os.Stderr)
}

// run runs one command line to its end.
func run(t testing.TB, args ...string) (out, errOut string, code int) {
	t.Helper()
	return runWith(t, nil, args...)
}

// runWith is run with additional environment variables.
func runWith(t testing.TB, env []string, args ...string) (out, errOut string, code int) {
	t.Helper()
	cmd := exec.Command(self(t), args...)
	cmd.Env = append([]string{asProgram + "=command", "PATH=" + os.Getenv("PATH")}, env...)
	var o, e strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok {
		return o.String(), e.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatalf("stoa %s: %v", strings.Join(args, " "), err)
	}
	return o.String(), e.String(), 0
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ownerKey is the first key of every server here.
const ownerKey = "sk_test_0123456789abcdefghijklmnopqrstuvwxyz"

// A server is a stoa process that can be killed and started again at one address.
type server struct {
	t        testing.TB
	url      string // without a path
	data     string
	postgres string   // its URL; empty means SQLite in data
	config   string   // the file
	program  string   // empty means this version's, which is the test binary
	maxFile  int      // maximum size of a file of the next process, in KiB; 0 means no limit
	env      []string // of the next process, in addition to the common ones
	log      *witness // receives the logs of processes; may be nil
	http     *http.Client

	port int

	mu      sync.Mutex
	process *process
	up      chan struct{} // closed while a process accepts requests
}

// A process is one run of the server.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer // open as long as the process should run
	ready chan struct{}
	ended chan struct{} // closed after the process is gone
	state *os.ProcessState

	mu    sync.Mutex
	lines []string
	watch map[string]chan struct{}
}

// settings is the configuration of a server with four providers that are one fake.
const settings = `
providers:
  - {name: v-messages, wire: messages, baseURL: "%[1]s", apiKey: %[2]s}
  - {name: v-gemini, wire: gemini, baseURL: "%[1]s", apiKey: %[2]s}
  - {name: v-responses, wire: responses, baseURL: "%[1]s/v1", apiKey: %[2]s}
  - {name: v-chat, wire: chat, dialect: deepseek, baseURL: "%[1]s", apiKey: %[2]s}
families:
  alpha: [{provider: v-messages}, {provider: v-chat, model: spare}]
  beta: [{provider: v-gemini}]
  gamma: [{provider: v-responses}]
  delta: [{provider: v-chat}]
rateLimits: off
firstGrantMicro: 1000000000000
`

// newServer returns a server, not started, whose providers are at vendorURL; more is YAML to
// append to its settings.
func newServer(t testing.TB, vendorURL, more string) *server {
	t.Helper()
	h := &server{t: t, data: filepath.Join(t.TempDir(), "data"), config: filepath.Join(t.TempDir(), "stoa.yaml"), up: make(chan struct{})}
	h.configure(vendorURL, more)
	h.port = freePort(t)
	h.url = fmt.Sprintf("http://127.0.0.1:%d", h.port)
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}
	h.http = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if l := h.current(); l != nil {
			l.cmd.Process.Kill()
			<-l.ended
		}
		if t.Failed() {
			if l := h.current(); l != nil {
				t.Logf("the last lines of the server:\n%s", strings.Join(l.tail(12), "\n"))
			}
		}
	})
	return h
}

func (h *server) configure(vendorURL, more string) {
	h.t.Helper()
	text := fmt.Sprintf(settings, vendorURL, fakeup.Key) + more
	if err := os.WriteFile(h.config, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// givenPorts are the ports of the tests: the port of a killed server is free for a moment.
var givenPorts sync.Map

// freePort returns a port below those that the system assigns, so that no other program uses
// it while the server is down.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(10_000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		l.Close()
		if _, other := givenPorts.LoadOrStore(port, true); !other {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func (h *server) current() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.process
}

// spawn starts a process and does not wait for it.
func (h *server) spawn() *process {
	h.t.Helper()
	args := []string{"serve", "--listen", fmt.Sprintf("127.0.0.1:%d", h.port), "--config", h.config}
	if h.postgres != "" {
		args = append(args, "--database", h.postgres)
	} else {
		args = append(args, "--data", h.data)
	}
	program := cmp.Or(h.program, self(h.t))
	cmd := exec.Command(program, args...)
	if h.maxFile > 0 {
		cmd = exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -f %d && exec "$0" "$@"`, 2*h.maxFile), program}, args...)...)
	}
	l := &process{cmd: cmd, ready: make(chan struct{}), ended: make(chan struct{}), watch: map[string]chan struct{}{}}
	l.cmd.Env = []string{asProgram + "=server", "STOA_ADMIN_LISTEN=off", "STOA_BOOTSTRAP_KEY=" + ownerKey}
	l.cmd.Env = append(l.cmd.Env, h.env...)
	stdin, err := l.cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	l.stdin = stdin
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	errOut, err := l.cmd.StderrPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	h.process = l
	h.down()
	up := h.up
	h.mu.Unlock()
	var reading sync.WaitGroup
	reading.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "is listening on") {
				close(l.ready)
				close(up)
			}
		}
	})
	reading.Go(func() {
		lines := bufio.NewScanner(errOut)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			l.note(lines.Text())
			if h.log != nil {
				fmt.Fprintln(h.log, lines.Text())
			}
		}
	})
	go func() {
		reading.Wait()
		l.cmd.Wait()
		l.state = l.cmd.ProcessState
		close(l.ended)
	}()
	return l
}

// start starts a process and waits until it accepts requests. On PostgreSQL the lock of a
// killed process may outlive it for a moment; then it is started again, as a supervisor
// would.
func (h *server) start() *process {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), safetyNet)
	defer cancel()
	for {
		l := h.spawn()
		select {
		case <-l.ready:
			return l
		case <-l.ended:
			if !strings.Contains(strings.Join(l.tail(5), "\n"), "another stoa process is using it") || h.postgres == "" {
				h.t.Fatalf("the server did not start (%v):\n%s", l.state, strings.Join(l.tail(40), "\n"))
			}
		case <-ctx.Done():
			h.t.Fatalf("the server does not start:\n%s", strings.Join(l.tail(40), "\n"))
		}
		if ctx.Err() != nil {
			h.t.Fatal("the lock on the database was never freed")
		}
	}
}

// down records that no process accepts requests. The caller must hold mu.
func (h *server) down() {
	select {
	case <-h.up:
		h.up = make(chan struct{})
	default: // waiters keep waiting
	}
}

// await blocks until a process accepts requests, or ctx ends.
func (h *server) await(ctx context.Context) {
	h.mu.Lock()
	up := h.up
	h.mu.Unlock()
	select {
	case <-up:
	case <-ctx.Done():
	}
}

// kill ends the process by SIGKILL.
func (h *server) kill() {
	l := h.current()
	h.mu.Lock()
	h.down()
	h.mu.Unlock()
	l.cmd.Process.Kill()
	<-l.ended
}

// stop ends the process by SIGTERM and returns its exit code.
func (h *server) stop(t testing.TB) int {
	t.Helper()
	l := h.current()
	h.mu.Lock()
	h.down()
	h.mu.Unlock()
	h.http.CloseIdleConnections() // an unused one would delay the stop by five seconds
	l.signal(t, syscall.SIGTERM)
	return l.exit(t)
}

func (l *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := l.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (l *process) exit(t testing.TB) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), safetyNet)
	defer cancel()
	select {
	case <-l.ended:
	case <-ctx.Done():
		t.Fatalf("the server does not stop:\n%s", strings.Join(l.tail(40), "\n"))
	}
	return l.state.ExitCode()
}

func (l *process) note(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) > 2000 {
		l.lines = l.lines[1000:]
	}
	l.lines = append(l.lines, line)
	for text, seen := range l.watch {
		if strings.Contains(line, text) {
			close(seen)
			delete(l.watch, text)
		}
	}
}

// logs returns a channel that is closed when a line with that text is logged from
// now on.
func (l *process) logs(text string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make(chan struct{})
	l.watch[text] = seen
	return seen
}

func (l *process) tail(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines[max(0, len(l.lines)-n):]...)
}

// safetyNet ends tests that hang. No test measures it: tests wait for events.
const safetyNet = 3 * time.Minute

// wait blocks until an event.
func wait(t testing.TB, what string, event <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	select {
	case <-event:
	case <-ctx.Done():
		t.Fatalf("%s never came", what)
	}
}
