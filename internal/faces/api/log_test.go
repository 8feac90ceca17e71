package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakemcp"
)

// TestFaultsOfToolServersRaiseNoAlarm: a slow, broken or missing server of a tenant is
// reported to the tenant, and is not a fault of the service.
func TestFaultsOfToolServersRaiseNoAlarm(t *testing.T) {
	t.Parallel()
	slow := fakemcp.Start(t)
	slow.Always("server/discover", "hang")
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(broken.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	log, logger := capture()
	h := start(t, apitest.Config{Idle: true, Allow: toLoopback, Logger: logger, Server: func(s *api.Server) { s.Agents.Tools.PublicURL = "https://stoa.example.com" }})
	c := h.Client(t)
	ask := func(name, url, verb string, auth object, code stoa.Code) {
		t.Helper()
		var made contract.Connection
		c.Want(201, "POST", "/api/v1/connections", object{"kind": "mcp", "name": name, "url": url, "auth": auth}).JSON(&made)
		path := "/api/v1/connections/" + made.ID + "/" + verb
		c.WantError(code, "POST", path, nil)
		lines := 0
		for line := range strings.Lines(log.text()) {
			if strings.Contains(line, "path="+path) {
				lines++
				if !strings.Contains(line, "level=INFO") || !strings.Contains(line, "code="+string(code)) {
					t.Errorf("%s", line)
				}
			}
		}
		if lines != 1 {
			t.Errorf("%s has %d lines", path, lines)
		}
	}
	none, oauth := object{"type": "none"}, object{"type": "oauth"}
	ask("broken", broken.URL, "refresh", none, stoa.CodeToolServer)
	ask("gone", gone.URL, "refresh", none, stoa.CodeToolServer)
	ask("private", broken.URL, "authorize", oauth, stoa.CodeToolServer)
	h.Server.Agents.Tools.Refreshes = time.Millisecond
	ask("slow", slow.URL, "refresh", none, stoa.CodeToolServerTimeout)
	if text := log.text(); strings.Contains(text, "level=ERROR") || strings.Contains(text, "level=WARN") {
		t.Errorf("%s", text)
	}
}

// TestTheLogHasTheBytesOfAStream compares the bytes of the log line with those that came:
// a stream does not write them to its ResponseWriter, except for HTTP/1.0.
func TestTheLogHasTheBytesOfAStream(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
		log, logger := capture()
		h := start(t, apitest.Config{Idle: true, Logger: logger})
		c, err := net.Dial("tcp", h.HTTP.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		const call = `{"model": "alpha-haiku-4-5", "stream": true, "input": "tokens: 300"}`
		if _, err := fmt.Fprintf(c, "POST /api/v1/responses %s\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", version, h.Key, len(call), call); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || !bytes.HasSuffix(body, []byte("data: [DONE]\n\n")) {
			t.Errorf("%s: %v\n%s", version, err, body)
		}
		h.HTTP.Close() // waits for the handler
		if text := log.text(); !strings.Contains(text, fmt.Sprintf(" bytes=%d ", len(body))) {
			t.Errorf("%s: %d bytes came\n%s", version, len(body), text)
		}
	}
}
