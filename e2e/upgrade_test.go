//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stoa/internal/testkit/storetest"
)

// earlier builds the program of the time before the newest migration. The test is skipped
// without the history of the repository, or without Go.
func earlier(t *testing.T) (program string) {
	t.Helper()
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", ".."}, args...)...).Output()
		if err != nil {
			t.Skipf("the history of the repository is not here: git %s: %v", args[0], err)
		}
		return strings.TrimSpace(string(out))
	}
	// With the first parents, a merge adds the migrations of its branch.
	newest := git("log", "-1", "--first-parent", "--diff-merges=first-parent", "--no-patch", "--format=%H", "--diff-filter=A", "--", "internal/base/store/migrations", "internal/agents/drive/migrations")
	if newest == "" {
		t.Skip("the history of the repository has no migration")
	}
	before := git("rev-parse", "--verify", newest+"^")
	dir := t.TempDir()
	archive := filepath.Join(dir, "source.tar")
	git("archive", "--output="+archive, before)
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-C", source, "-xf", archive).CombinedOutput(); err != nil {
		t.Skipf("tar: %v\n%s", err, out)
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("Go is not installed")
	}
	program = filepath.Join(dir, "stoa")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./cmd/stoa")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("the program of %s cannot be built here: %v\n%s", before[:7], err, out)
	}
	t.Logf("the earlier program is that of %s", before[:7])
	return program
}

// A frontEnd passes requests on to nodes: nginx with the settings of deploy/, or the test's
// own balancer if nginx is not installed.
type frontEnd struct {
	t     *testing.T
	nodes []*server
	out   map[*server]bool // nodes taken out

	balancer *balancer // nil for nginx
	nginx    *exec.Cmd
	file     string
	port     int
}

// newFrontEnd returns the address of a front end as a server without a process.
func newFrontEnd(t *testing.T, vendorURL string, nodes []*server) (*server, *frontEnd) {
	t.Helper()
	f := &frontEnd{t: t, nodes: nodes, out: map[*server]bool{}}
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Log("nginx is not installed: the test's own balancer stands in for it")
		var front *server
		front, f.balancer = newBalancer(t, vendorURL, nodes)
		return front, f
	}
	f.port, f.file = freePort(t), filepath.Join(t.TempDir(), "nginx.conf")
	f.write()
	f.nginx = exec.Command(program, "-c", f.file, "-p", filepath.Dir(f.file)+"/", "-e", "stderr")
	var log bytes.Buffer
	f.nginx.Stderr = &log
	if err := f.nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.nginx.Process.Signal(syscall.SIGTERM)
		f.nginx.Wait()
		if t.Failed() {
			t.Logf("nginx says:\n%s", log.String())
		}
	})
	front := newServer(t, vendorURL, "")
	front.postgres, front.url = nodes[0].postgres, fmt.Sprintf("http://127.0.0.1:%d", f.port)
	close(front.up)
	return front, f
}

// write writes deploy/nginx.conf with the addresses of the nodes.
func (f *frontEnd) write() {
	f.t.Helper()
	text, err := os.ReadFile("../deploy/nginx.conf")
	if err != nil {
		f.t.Fatal(err)
	}
	dir := filepath.Dir(f.file)
	change := []string{
		"worker_processes auto;", "worker_processes 2; daemon off; pid " + dir + "/nginx.pid;",
		"listen 8080;", fmt.Sprintf("listen 127.0.0.1:%d;", f.port),
		"access_log off;", fmt.Sprintf("access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;", dir),
	}
	for i, n := range f.nodes {
		address := strings.TrimPrefix(n.url, "http://")
		if f.out[n] {
			address += " down"
		}
		change = append(change, fmt.Sprintf("server node%d:8080", i+1), "server "+address)
	}
	config := string(text)
	for i := 0; i < len(change); i += 2 {
		if strings.Count(config, change[i]) != 1 {
			f.t.Fatalf("deploy/nginx.conf does not say %q once", change[i])
		}
		config = strings.Replace(config, change[i], change[i+1], 1)
	}
	if err := os.WriteFile(f.file, []byte(config), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// workers returns the nginx processes that accept requests.
func (f *frontEnd) workers() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", f.nginx.Process.Pid))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// switchOut removes a node, or adds it again, and waits until that has taken effect.
func (f *frontEnd) switchOut(n *server, out bool) {
	f.t.Helper()
	f.out[n] = out
	if f.balancer != nil {
		f.balancer.pause(n, out)
		return
	}
	f.write()
	before := strings.Fields(f.workers())
	f.nginx.Process.Signal(syscall.SIGHUP)
	ctx, cancel := context.WithTimeout(f.t.Context(), safetyNet)
	defer cancel()
	for ctx.Err() == nil { // the old workers finish their requests
		now := strings.Fields(f.workers())
		left := len(now) == 0
		for _, pid := range before {
			for _, other := range now {
				left = left || pid == other
			}
		}
		if !left {
			return
		}
		pass(ctx, 20*time.Millisecond)
	}
	f.t.Fatal("nginx does not take the new settings")
}

// TestNodesOfTwoVersionsServeTogether replaces two nodes of the program before the newest
// migration one after another, as docs/nodes.md describes: the first new one migrates the
// tables while the other old one serves. Callers and sessions continue in the meantime, and
// none fails.
func TestNodesOfTwoVersionsServeTogether(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds an earlier version")
	}
	database := storetest.EmptyPostgres(t)
	old := earlier(t)
	v := newVendor(t, nil)
	nodes := []*server{newServer(t, v.url, ""), newServer(t, v.url, "")}
	for _, n := range nodes {
		n.program, n.postgres = old, database.Config.PostgresURL
		n.start()
	}
	front, f := newFrontEnd(t, v.url, nodes)
	front.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // each call may come to another node
	a := nodes[0].newAccount(t, "pro", 500_000_000)
	nodes[0].newAgent(t, a)
	if f.nginx != nil {
		for front.ask(t.Context(), a.key, "", object{"model": "auto", "input": "tokens: 1"}, nil).refused { // it starts
			pass(t.Context(), 20*time.Millisecond)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	var calls, sessions atomic.Int64
	for i := range 6 {
		calling.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s := front.ask(t.Context(), a.key, "", object{"model": "auto", "stream": (n+i)%2 == 0, "input": "slow: 5ms\ntokens: 20"}, nil)
				calls.Add(1)
				if !s.done() {
					t.Errorf("a call failed: %+v", s)
				}
			}
		})
	}
	path := "/api-agents/" + a.agent + "/sessions"
	calling.Go(func() {
		for ctx.Err() == nil {
			var s struct{ ID, Status string }
			_, err := front.call(t.Context(), http.MethodPost, a.key, path, object{"message": "slow: 20ms\ntokens: 30", "mode": "once"}, &s)
			for err == nil && (s.Status == "queued" || s.Status == "running") {
				_, err = front.call(t.Context(), http.MethodGet, a.key, path+"/"+s.ID+"?waitSeconds=1", nil, &s)
			}
			sessions.Add(1)
			if err != nil || s.Status != "completed" {
				t.Errorf("a session: %v, %+v", err, s)
			}
		}
	})
	served := func(n *server) {
		t.Helper()
		calls.Add(1)
		if s := n.ask(t.Context(), a.key, "", object{"model": "auto", "input": "tokens: 2"}, nil); !s.done() {
			t.Errorf("a node did not serve: %+v", s)
		}
	}
	more := func(n int64) {
		for before := calls.Load(); calls.Load() < before+n && !t.Failed(); {
			pass(t.Context(), 20*time.Millisecond)
		}
	}
	more(20)
	for _, n := range nodes {
		f.switchOut(n, true)
		if code := n.stop(t); code != 0 {
			t.Errorf("a node exits with %d: %q", code, n.current().tail(5))
		}
		n.program = ""
		n.start()
		f.switchOut(n, false)
		for _, n := range nodes { // of both versions, the first time
			served(n)
		}
		more(50)
	}
	stop()
	calling.Wait()
	all := nodes[0].checkConservation(t, a)
	want := int(calls.Load() + sessions.Load())
	if f.nginx != nil {
		want++ // the first one
	}
	if len(all) != want {
		t.Errorf("%d calls and %d sessions have %d charges", calls.Load(), sessions.Load(), len(all))
	}
	nodes[0].stoppedOnce(t, a, a.agent)
	t.Logf("%d calls and %d sessions", calls.Load(), sessions.Load())
	for _, n := range nodes {
		if code := n.stop(t); code != 0 {
			t.Errorf("a node exits with %d", code)
		}
	}
	nodes[0].verify(t)
}
