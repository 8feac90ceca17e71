//go:build linux

package e2e

import (
	"context"
	"net/http"
	"runtime"
	"testing"
)

// TestAnIdleServerTakesLittleMemory limits the memory of an idle process that accepts
// requests: memory that only the start needed was released. It uses 19 MB, of
// which the tables of the readers of documents need 2.
func TestAnIdleServerTakesLittleMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	h := newServer(t, "http://127.0.0.1:9", "")
	h.start()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, h.url+"/api/v1/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := h.memory(t, "RssAnon"); got > 24 {
		t.Errorf("an idle server has %d MiB of its own", got)
	} else {
		t.Logf("%d MiB of its own, %d with the program's pages", got, h.memory(t, "VmRSS"))
	}
}
