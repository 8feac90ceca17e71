//go:build linux

package e2e

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The first start on a terminal prints a newcomer's next steps, ready to paste: a link that
// signs in to the console, the login of the command line, and a call.
func TestTheFirstStartSaysWhereToGo(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, nil, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--data", filepath.Join(t.TempDir(), "data"))
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	said := strings.ReplaceAll(s.until(`"input":"Hello"`), "\r\n", "\n")
	link := regexp.MustCompile(`(?m)^  (http://127\.0\.0\.1:\d+)/console#key=(sk_\w+)$`).FindStringSubmatch(said)
	if link == nil || !strings.Contains(said, "\n  stoa login "+link[1]+"\n") || !strings.Contains(said, "\n  console  "+link[1]+"/console\n") {
		t.Fatalf("the first start does not say where to go:\n%s", said)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", link[1]+"/api/v1/users/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+link[2])
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("the key of the link answers %d", res.StatusCode)
	}
}
