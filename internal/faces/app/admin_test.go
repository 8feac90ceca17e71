package app

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/testkit/storetest"
)

// A lockedBuffer is a log that may be read while it is written to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// loaded returns settings that set the admin listener in the file, or do not set it.
func loaded(t *testing.T, file string) config.Config {
	t.Helper()
	cfg, err := config.Load(config.Flags{Config: "stoa.yaml"}, func(string) string { return "" }, func(string) ([]byte, error) { return []byte(file + "\n"), nil })
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen, cfg.Durability, cfg.BootstrapKey = "127.0.0.1:0", "process", testKey
	return in(storetest.New(t), cfg)
}

// operate runs a service until the test ends. admin is empty if there is no listener.
func operate(t *testing.T, cfg config.Config) (url, admin string, log *lockedBuffer) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan string, 1)
	log = &lockedBuffer{}
	go func() {
		ended <- Run(ctx, Options{
			Config: cfg, Version: "v9", Logger: slog.New(slog.NewTextHandler(log, nil)),
			Ready: func(u string) { ready <- u }, AdminReady: func(u string) { admin = u },
		})
	}()
	select {
	case url = <-ready:
	case err := <-ended:
		t.Fatalf("it did not start: %v", err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
		if admin != "" {
			if _, err := http.Get(admin + "/livez"); err == nil {
				t.Error("the admin listener is still there")
			}
		}
	})
	return url, admin, log
}

func status(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestOperatorsHaveTheirOwnListener checks that the pages for operators exist on that
// listener only, and that profiles are disabled.
func TestOperatorsHaveTheirOwnListener(t *testing.T) {
	t.Parallel()
	url, admin, log := operate(t, loaded(t, "adminListen: 127.0.0.1:0"))
	for _, tt := range []struct {
		path string
		want int
		has  string
	}{
		{"/metrics", 200, `stoa_build_info{commit="",version="v9"} 1`},
		{"/metrics", 200, "stoa_connections "},
		{"/metrics", 200, "go_goroutines "},
		{"/livez", 200, `{"status":"ok"}`},
		{"/readyz", 200, `{"status":"ok"}`},
		{"/debug/pprof/", 404, ""},
		{"/debug/pprof/heap", 404, ""},
		{"/api/v1/health", 404, ""},
		{"/", 404, ""},
	} {
		if got, text := status(t, admin+tt.path); got != tt.want || !strings.Contains(text, tt.has) {
			t.Errorf("%s answers %d, want %d with %q: %.300s", tt.path, got, tt.want, tt.has, text)
		}
		if strings.HasPrefix(tt.path, "/api") || tt.path == "/" {
			continue
		}
		if got, text := status(t, url+tt.path); got != 404 {
			t.Errorf("the listener of callers answers %s with %d: %.300s", tt.path, got, text)
		}
	}
	if strings.Contains(log.String(), "admin listener") {
		t.Errorf("the log warns: %s", log)
	}
	res, err := http.Post(admin+"/metrics", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 405 {
		t.Errorf("POST answers %d, want 405", res.StatusCode)
	}
}

func TestProfilesAreThereWhenAskedFor(t *testing.T) {
	t.Parallel()
	_, admin, _ := operate(t, loaded(t, "adminListen: 127.0.0.1:0\ntelemetry: {profiles: true}"))
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/symbol"} {
		if got, text := status(t, admin+path); got != 200 {
			t.Errorf("%s answers %d: %.200s", path, got, text)
		}
	}
	if got, text := status(t, admin+"/debug/pprof/profile?seconds=3600"); got != 400 {
		t.Errorf("a profile of an hour answers %d: %.200s", got, text)
	}
}

// TestATakenAdminPort checks that a taken default port causes a warning, a taken configured
// port an error, and that no port is opened when disabled.
func TestATakenAdminPort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()

	byDefault := loaded(t, "")
	byDefault.AdminListen = address // as if it were the default: it was not set
	url, admin, log := operate(t, byDefault)
	if got, _ := status(t, url+"/api/v1/health"); got != 200 || admin != "" || strings.Count(log.String(), "the admin listener is disabled") != 1 || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("health answers %d, the admin listener is at %q, the log is %s", got, admin, log)
	}
	err = Run(t.Context(), Options{Config: loaded(t, "adminListen: "+address)})
	if err == nil || !strings.Contains(err.Error(), "--admin-listen") {
		t.Errorf("with a chosen address that is taken it ends with %v", err)
	}
	for _, off := range []string{`adminListen: ""`, "adminListen: off"} {
		if _, admin, log := operate(t, loaded(t, off)); admin != "" || strings.Contains(log.String(), "admin listener") {
			t.Errorf("%s: the admin listener is at %q; the log is %s", off, admin, log)
		}
	}
}
