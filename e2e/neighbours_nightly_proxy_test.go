package e2e

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// A limit of a proxy, in seconds or bytes.
type limit struct {
	bare, set      int64  // without and with the settings of the page; 0: none. Silence is tried with short instead
	status         int    // of the reply when it is exceeded; 0: the connection is closed without one
	setting        string // its name on the page; empty if the page has none
	printed, short string // the setting as the page prints it, and with 2 s
}

// TestNightlyProxiesPassCallsOn is TestNeighbourProxiesPassCallsOn with proxies that only a nightly run installs.
func TestNightlyProxiesPassCallsOn(t *testing.T) {
	t.Parallel()
	for _, p := range proxies {
		if p.nightly {
			t.Run(p.program, func(t *testing.T) {
				t.Parallel()
				passesCallsOn(t, p)
			})
		}
	}
}

// TestNightlyProxyLimits measures the limits of the table in docs/proxy.md: how long a server behind each proxy
// may be silent, and how large a body may be, without the settings of the page and with them.
func TestNightlyProxyLimits(t *testing.T) {
	t.Parallel()
	onlyNightly(t)
	page, err := os.ReadFile("../docs/proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range proxies {
		t.Run(p.program, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(string(page), p.row()) {
				t.Errorf("docs/proxy.md lacks the row\n%s", p.row())
			}
			arrived, end := make(chan struct{}), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/body" {
					select {
					case arrived <- struct{}{}:
					case <-r.Context().Done():
					}
					return
				}
				select {
				case <-r.Context().Done():
				case <-end:
				}
			}))
			t.Cleanup(server.Close)
			t.Cleanup(func() { close(end) })
			service, block := strings.TrimPrefix(server.URL, "http://"), p.page(t, p.language)
			// without returns the block without the line of a setting, or without the option.
			without := func(block string, l limit) string {
				lines := strings.Split(block, "\n")
				for i, line := range lines {
					if l.printed == "" || !strings.Contains(line, l.printed) {
						continue
					}
					if lines[i] = ""; strings.HasPrefix(line, "#") {
						lines[i] = strings.Replace(line, l.printed, "", 1)
					}
				}
				return strings.Join(lines, "\n")
			}
			silent := func(t *testing.T, block string, limit int64) {
				t.Helper()
				c := request(t, p.before(t, block, service), "/silent", 2)
				if limit > 0 {
					if status := replyTo(c, time.Duration(limit)*time.Second-500*time.Millisecond); status != stillOpen {
						t.Errorf("a silence ends before %d s with %d", limit, status)
					}
				}
				want := stillOpen
				if limit > 0 {
					want = p.silence.status
				}
				if status := replyTo(c, 75*time.Second); status != want {
					t.Errorf("a silence ends with %d, want %d", status, want)
				}
			}
			t.Run("silence", func(t *testing.T) {
				t.Parallel()
				silent(t, without(block, p.silence), p.silence.bare)
			})
			t.Run("silence with the setting", func(t *testing.T) {
				t.Parallel()
				if p.silence.printed != "" {
					silent(t, strings.Replace(block, p.silence.printed, p.silence.short, 1), 2)
				}
			})
			// reaches sends the beginning of a request with a body of n bytes, and reports whether it reaches
			// the server. Otherwise it returns the status of the reply.
			reaches := func(address string, n int64) (ok bool, status int) {
				t.Helper()
				c, replied := request(t, address, "/body", n), make(chan int, 1)
				defer c.Close()
				go func() { replied <- replyTo(c, safetyNet) }()
				select {
				case <-arrived:
					return true, 0
				case status = <-replied:
					return false, status
				}
			}
			for block, limit := range map[string]int64{without(block, p.body): p.body.bare, block: p.body.set} {
				address := p.before(t, block, service)
				largest := cmp.Or(limit, 1<<40)
				if ok, status := reaches(address, largest); !ok {
					t.Errorf("a body of %d bytes is answered %d", largest, status)
				}
				if limit > 0 {
					if ok, status := reaches(address, limit+1); ok || status != p.body.status {
						t.Errorf("a body of %d bytes arrives (%v) or is answered %d", limit+1, ok, status)
					}
				}
			}
		})
	}
}

// request sends a request with a body of n bytes, or its beginning.
func request(t *testing.T, address, path string, n int64) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		// Proxies may read the first blocks of a body before they pass a request on.
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", path, address, n, strings.Repeat("x", int(min(n, 100_000))))
	}()
	return c
}

const stillOpen = -1

// replyTo returns the status of a reply, 0 if the connection is closed without one, or stillOpen after that time.
func replyTo(c net.Conn, atMost time.Duration) (status int) {
	_ = c.SetReadDeadline(time.Now().Add(atMost))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	switch {
	case err == nil:
		res.Body.Close()
		return res.StatusCode
	case errors.Is(err, os.ErrDeadlineExceeded):
		return stillOpen
	}
	return 0
}

// row returns the proxy's row of the table.
func (p proxy) row() string {
	cell := func(l limit, unit int64, name string) string {
		text := "none"
		if l.bare > 0 {
			text = fmt.Sprintf("%d %s", l.bare/unit, name)
		}
		switch {
		case l.setting == "":
			return text
		case l.status == 0:
			return fmt.Sprintf("%s (`%s`), then closed", text, l.setting)
		}
		return fmt.Sprintf("%s (`%s`), then %d", text, l.setting, l.status)
	}
	left := "at once | at once | at once"
	if p.late {
		left = "never | after the next comments | at once"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", p.name, cell(p.silence, 1, "s"), cell(p.body, 1<<20, "MiB"), left)
}
