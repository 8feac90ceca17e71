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
	"testing"
	"time"

	"stoa/internal/testkit/fakeup"
)

// A proxy is a program in front of the service with the configuration that docs/proxy.md prints.
type proxy struct {
	program  string
	nightly  bool   // it is not part of the daily run
	language string // of the block on the page
	version  []string
	// config adapts the printed block to a test: without TLS, at a port, before a service.
	config func(block string, port int, service, dir string) string
	// compression is the language of the block that compresses replies without holding streams back;
	// empty if the page has none.
	compression string
	args        func(block, file string, port int) []string
	late        bool // it notices that a caller has left only when it writes to the caller

	// What the table of the page says; see TestNightlyProxyLimits.
	name    string
	silence limit
	body    limit
}

var proxies = []proxy{
	{
		program: "nginx", language: "nginx", version: []string{"-v"},
		config: func(block string, port int, service, dir string) string {
			block = strings.NewReplacer("listen 443 ssl;", fmt.Sprintf("listen 127.0.0.1:%d;", port), "127.0.0.1:8080", service).Replace(block)
			return fmt.Sprintf("daemon off; pid %[1]s/nginx.pid; events {} http { access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;\n%[2]s}\n", dir, block)
		},
		args: func(_, file string, _ int) []string {
			return []string{"-c", file, "-p", filepath.Dir(file) + "/", "-e", "stderr"}
		},
		name:    "nginx 1.22",
		silence: limit{bare: 60, status: 504, setting: "proxy_read_timeout", printed: "proxy_read_timeout 16m;", short: "proxy_read_timeout 2s;"},
		body:    limit{bare: 1 << 20, status: 413, setting: "client_max_body_size", set: 16 << 20, printed: "client_max_body_size 16m;"},
	},
	{
		program: "caddy", language: "caddyfile", compression: "caddyfile-encode", version: []string{"version"},
		config: func(block string, port int, service, _ string) string {
			block = strings.NewReplacer("stoa.example.com {", fmt.Sprintf("http://127.0.0.1:%d {", port), "127.0.0.1:8080", service).Replace(block)
			return "{\n\tadmin off\n\tauto_https off\n}\n" + block
		},
		args: func(_, file string, _ int) []string {
			return []string{"run", "--adapter", "caddyfile", "--config", file}
		},
		name: "Caddy 2.6",
	},
	{
		program: "haproxy", language: "haproxy", version: []string{"-v"},
		config: func(block string, port int, service, _ string) string {
			return strings.NewReplacer("bind :443 ssl crt /etc/haproxy/stoa.pem alpn h2,http/1.1", fmt.Sprintf("bind 127.0.0.1:%d", port), "127.0.0.1:8080", service).Replace(block)
		},
		args:    func(_, file string, _ int) []string { return []string{"-db", "-f", file} },
		name:    "HAProxy 2.6",
		silence: limit{status: 504, setting: "timeout server", printed: "timeout server 16m", short: "timeout server 2s"},
	},
	{
		program: "varnishd", nightly: true, language: "vcl", version: []string{"-V"},
		config: func(block string, _ int, service, _ string) string {
			host, port, _ := strings.Cut(service, ":")
			return strings.NewReplacer(`.host = "127.0.0.1"`, fmt.Sprintf(".host = %q", host), `.port = "8080"`, fmt.Sprintf(".port = %q", port)).Replace(block)
		},
		args: func(block, file string, port int) []string {
			more := strings.Fields(regexp.MustCompile(`varnishd .*-f \S+ (.*)`).FindStringSubmatch(block)[1])
			return append([]string{"-F", "-j", "none", "-n", filepath.Dir(file) + "/varnish", "-a", fmt.Sprintf("127.0.0.1:%d", port), "-f", file}, more...)
		},
		name:    "Varnish 7.1",
		silence: limit{bare: 60, setting: "pipe_timeout", printed: "-p pipe_timeout=960", short: "-p pipe_timeout=2"},
	},
	{
		program: "apache2", nightly: true, language: "apache", version: []string{"-v"},
		config: func(block string, port int, service, dir string) string {
			block = strings.NewReplacer("*:443", fmt.Sprintf("127.0.0.1:%d", port), "127.0.0.1:8080", service, "    SSLEngine on\n", "", "    SSLCertificateFile /etc/apache2/stoa.pem\n", "").Replace(block)
			modules := ""
			for _, m := range []string{"mpm_event", "authz_core", "proxy", "proxy_http"} {
				modules += fmt.Sprintf("LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n", m, m)
			}
			return fmt.Sprintf("%sServerName localhost\nUser www-data\nGroup www-data\nServerRoot %[2]s\nDefaultRuntimeDir %[2]s\nPidFile %[2]s/pid\nErrorLog /dev/stderr\nListen 127.0.0.1:%[3]d\n%[4]s", modules, dir, port, block)
		},
		args:    func(_, file string, _ int) []string { return []string{"-D", "FOREGROUND", "-f", file} },
		late:    true,
		name:    "Apache 2.4",
		silence: limit{bare: 60, status: 502, setting: "ProxyTimeout", printed: "ProxyTimeout 960", short: "ProxyTimeout 2"},
	},
}

// page returns the block of docs/proxy.md in a language.
func (p proxy) page(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatalf("docs/proxy.md has no block %q", language)
	}
	return string(block[1])
}

// before starts the proxy with a block in front of an address and returns its own.
func (p proxy) before(t *testing.T, block, service string) (address string) {
	t.Helper()
	find := installed
	if p.nightly {
		find = nightly
	}
	program := find(t, p.program)
	said, _ := exec.Command(program, p.version...).CombinedOutput()
	t.Logf("%s", strings.SplitN(string(said), "\n", 2)[0])
	port, dir := freePort(t), t.TempDir()
	config, file := p.config(block, port, service, dir), filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, at, _ := strings.Cut(service, ":"); !strings.Contains(config, at) {
		t.Fatalf("the configuration of the page was not adapted:\n%s", config)
	}
	cmd := exec.Command(program, p.args(block, file, port)...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	address = fmt.Sprintf("127.0.0.1:%d", port)
	beside(t, cmd, address)
	return address
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
		if !p.nightly {
			t.Run(p.program, func(t *testing.T) {
				t.Parallel()
				passesCallsOn(t, p)
			})
		}
	}
}

func passesCallsOn(t *testing.T, p proxy) {
	vendor := fakeup.Start(t)
	// Neither the vendor's silence nor a comment that cannot be written ends a call, only the caller does.
	keepAlive := "10m"
	if p.late {
		keepAlive = "1s"
	}
	h := newServer(t, vendor.URL, "publicUrl: http://stoa.example.com\nkeepAlive: "+keepAlive+"\n")
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
	block := p.page(t, p.language)
	if p.compression != "" {
		block = strings.Replace(block, "\treverse_proxy", p.page(t, p.compression)+"\treverse_proxy", 1)
	}
	front := newServer(t, vendor.URL, "")
	front.url = "http://" + p.before(t, block, strings.TrimPrefix(h.url, "http://"))
	close(front.up)
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
		if p.late && !stream {
			pass(t.Context(), 3*time.Second)
			if all := vendor.Served(); !all[len(all)-1].EndedAt.IsZero() {
				t.Errorf("%s: %s notices that the caller has left: say so in docs/proxy.md", what, p.program)
			}
			return
		}
		at := time.Now()
		vendor.WaitEnded(t, calls)
		t.Logf("%s: the vendor's call ended after %v", what, time.Since(at).Round(time.Millisecond))
	}
	transport := front.http.Transport
	front.http.Transport = compressed{transport} // as browsers and some clients ask
	leave("a stream with a pause", true, "tokens: 9\nfault: hang-body after 2")
	leave("a stream of deltas", true, "tokens: 100000\nslow: 5ms")
	front.http.Transport = transport
	leave("a whole reply", false, "fault: hang")
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
}
