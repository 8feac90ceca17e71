package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"stoa/internal/testkit/fakeup"
)

// A proxy is a program in front of the service with the configuration that docs/proxy.md prints.
type proxy struct {
	program  string
	language string // of the block on the page
	version  []string
	// config adapts the printed block to a test: without TLS, at a port, before a service.
	config func(block string, port int, service, dir string) string
	// compression is the language of the block that compresses replies without holding streams back;
	// empty if the page has none.
	compression string
	args        func(file string) []string
}

var proxies = []proxy{
	{
		program: "nginx", language: "nginx", version: []string{"-v"},
		config: func(block string, port int, service, dir string) string {
			block = strings.NewReplacer("listen 443 ssl;", fmt.Sprintf("listen 127.0.0.1:%d;", port), "127.0.0.1:8080", service).Replace(block)
			return fmt.Sprintf("daemon off; pid %[1]s/nginx.pid; events {} http { access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;\n%[2]s}\n", dir, block)
		},
		args: func(file string) []string {
			return []string{"-c", file, "-p", filepath.Dir(file) + "/", "-e", "stderr"}
		},
	},
	{
		program: "caddy", language: "caddyfile", compression: "caddyfile-encode", version: []string{"version"},
		config: func(block string, port int, service, _ string) string {
			block = strings.NewReplacer("stoa.example.com {", fmt.Sprintf("http://127.0.0.1:%d {", port), "127.0.0.1:8080", service).Replace(block)
			return "{\n\tadmin off\n\tauto_https off\n}\n" + block
		},
		args: func(file string) []string { return []string{"run", "--adapter", "caddyfile", "--config", file} },
	},
	{
		program: "haproxy", language: "haproxy", version: []string{"-v"},
		config: func(block string, port int, service, _ string) string {
			return strings.NewReplacer("bind :443 ssl crt /etc/haproxy/stoa.pem alpn h2,http/1.1", fmt.Sprintf("bind 127.0.0.1:%d", port), "127.0.0.1:8080", service).Replace(block)
		},
		args: func(file string) []string { return []string{"-db", "-f", file} },
	},
}

// before starts the proxy in front of a service and returns a server with its address.
func (p proxy) before(t *testing.T, h *server, vendor string) *server {
	t.Helper()
	program, err := exec.LookPath(p.program)
	if err != nil {
		if program = "/usr/sbin/" + p.program; exec.Command(program, p.version...).Run() != nil {
			t.Skipf("%s is not installed", p.program)
		}
	}
	said, _ := exec.Command(program, p.version...).CombinedOutput()
	t.Logf("%s", strings.SplitN(string(said), "\n", 2)[0])
	page, err := os.ReadFile("../docs/proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	printed := func(language string) string {
		block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
		if block == nil {
			t.Fatalf("docs/proxy.md has no block %q", language)
		}
		return string(block[1])
	}
	port, dir := freePort(t), t.TempDir()
	service := strings.TrimPrefix(h.url, "http://")
	config := p.config(printed(p.language), port, service, dir)
	if p.compression != "" {
		config = strings.Replace(config, "\treverse_proxy", printed(p.compression)+"\treverse_proxy", 1)
	}
	if !strings.Contains(config, fmt.Sprint(port)) || !strings.Contains(config, service) {
		t.Fatalf("the configuration of the page was not adapted:\n%s", config)
	}
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, p.args(file)...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	front := newServer(t, vendor, "")
	front.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	close(front.up)
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	for {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, front.url+"/api/v1/health", nil)
		req.Host = "stoa.example.com"
		if res, err := front.http.Do(req); err == nil {
			res.Body.Close()
			return front
		}
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("%s ended: %v\n%s", p.program, err, text)
		case <-ctx.Done():
			t.Fatalf("%s does not answer", p.program)
		default:
			pass(ctx, 20*time.Millisecond)
		}
	}
}

// compressed is a transport whose requests accept gzip and which does not decompress.
type compressed struct{ next http.RoundTripper }

func (c compressed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "gzip")
	return c.next.RoundTrip(r)
}

// TestNeighbourProxiesPassCallsOn runs the configurations of docs/proxy.md: deltas arrive one by one, a
// caller who disconnects ends the vendor's call whatever it waits for, an upgrade is refused in the way
// on which clients fall back, and a large body arrives.
func TestNeighbourProxiesPassCallsOn(t *testing.T) {
	t.Parallel()
	for _, p := range proxies {
		t.Run(p.program, func(t *testing.T) {
			t.Parallel()
			vendor := fakeup.Start(t)
			// The vendor's silence does not end a call, only the caller does.
			h := newServer(t, vendor.URL, "publicUrl: http://stoa.example.com\n")
			text, err := os.ReadFile(h.config)
			if err != nil {
				t.Fatal(err)
			}
			patient := strings.ReplaceAll(string(text), "apiKey: "+fakeup.Key+"}", "apiKey: "+fakeup.Key+", timeouts: {firstByte: 1h, idle: 1h, whole: 1h, total: 1h}}")
			if patient == string(text) {
				t.Fatalf("the settings have no provider to be patient with: %s", text)
			}
			if err := os.WriteFile(h.config, []byte(patient), 0o600); err != nil {
				t.Fatal(err)
			}
			h.start()
			front := p.before(t, h, vendor.URL)
			calls := 0
			// leave makes a call, waits until its reply has begun, disconnects, and waits until the
			// vendor's call has ended.
			leave := func(what string, stream bool, orders string) {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun, left := make(chan struct{}), make(chan struct{})
				body := object{"model": "alpha-haiku-4-5", "stream": stream, "input": fmt.Sprintf("mark: %s %s\n%s", p.program, strings.ReplaceAll(what, " ", "-"), orders)}
				go func() {
					defer close(left)
					front.ask(ctx, ownerKey, "", body, func(n int) {
						if n == 1 {
							close(begun)
						}
					})
				}()
				if stream {
					wait(t, what+" begins", begun)
				} else {
					vendor.Wait(t, what, func(all []fakeup.Served) bool { return len(all) > calls })
				}
				cancel()
				wait(t, what+" is left", left)
				calls++
				vendor.WaitEnded(t, calls)
			}
			leave("a whole reply", false, "fault: hang")
			front.http.Transport = compressed{front.http.Transport} // as browsers and some clients ask
			leave("a stream with a pause", true, "tokens: 9\nfault: hang-body after 2")
			leave("a stream of deltas", true, "tokens: 100000\nslow: 5ms")
			front.http.Transport = front.http.Transport.(compressed).next
			if s := front.ask(t.Context(), ownerKey, "", object{"model": "alpha-sonnet-5-5", "input": "mark: " + strings.Repeat("x", 3<<20) + "\nsay: done"}, nil); s.text != "done" {
				t.Errorf("a large body: %+v", s)
			}
			for header, want := range map[string]int{"dGhlIHNhbXBsZSBub25jZQ==": http.StatusUpgradeRequired, "": http.StatusMethodNotAllowed} {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, front.url+"/api/v1/responses", nil)
				if req.Header.Set("Authorization", "Bearer "+ownerKey); header != "" {
					req.Header.Set("Connection", "Upgrade")
					req.Header.Set("Upgrade", "websocket")
					req.Header.Set("Sec-WebSocket-Version", "13")
					req.Header.Set("Sec-WebSocket-Key", header)
				}
				res, err := front.http.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if res.Body.Close(); res.StatusCode != want {
					t.Errorf("a GET with the key %q is answered %d, want %d", header, res.StatusCode, want)
				}
			}
		})
	}
}
