package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stoa/internal/testkit/fakeup"
)

// neighbour runs a script of e2e/neighbours until the test ends, and returns the lines that it prints
// after the one that means that it is ready. The channel is closed when the script ends.
func neighbour(t *testing.T, script string, args ...string) <-chan string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	if _, err := os.Stat("neighbours/node_modules"); err != nil {
		t.Skip("run npm ci in e2e/neighbours")
	}
	cmd := exec.Command(node, append([]string{script}, args...)...)
	cmd.Dir = "neighbours"
	var problems bytes.Buffer // complete when the script has ended
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		in := bufio.NewScanner(out)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			lines <- in.Text()
		}
		_ = cmd.Wait()
		close(lines)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	var said []string
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("%s ended before it was ready: %q\n%s", script, said, &problems)
			}
			if line == "ready" {
				return lines
			}
			said = append(said, line)
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			<-ended
			t.Fatalf("%s is not ready: %q\n%s", script, said, &problems)
		}
	}
}

var (
	formAction  = regexp.MustCompile(`<form[^>]*action="([^"]+)"`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// signIn goes through the pages of an identity provider on the port as a browser does, and returns the browser and
// the final reply.
func (h *server) signIn(t *testing.T, port int, person, password string) (browser *http.Client, status int, at string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser = &http.Client{Jar: jar}
	res, err := browser.Get(h.url + "/signin/corp")
	for range 5 {
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(res.Body)
		res.Body.Close()
		action := formAction.FindSubmatch(page)
		if action == nil || res.Request.URL.Port() != fmt.Sprint(port) {
			break
		}
		values := url.Values{"login": {person}, "username": {person}, "password": {password}}
		for _, f := range hiddenField.FindAllSubmatch(page, -1) {
			values.Set(string(f[1]), html.UnescapeString(string(f[2])))
		}
		to, _ := res.Request.URL.Parse(html.UnescapeString(string(action[1])))
		res, err = browser.PostForm(to.String(), values)
	}
	return browser, res.StatusCode, res.Request.URL.Path
}

// TestNeighbourIdentityProvider signs people in with panva's oidc-provider at its defaults, whose ID tokens
// have neither name nor groups.
func TestNeighbourIdentityProvider(t *testing.T) {
	t.Parallel()
	vendor, port := fakeup.Start(t), freePort(t)
	h := newServer(t, vendor.URL, "")
	issuer := fmt.Sprintf("http://localhost:%d", port)
	h.configure(vendor.URL, fmt.Sprintf("publicUrl: %s\nsignIn: {oidc: [{name: corp, issuer: %q, clientId: stoa, clientSecretEnv: OIDC_SECRET, groups: [{group: operators, role: owner, operator: admin}]}]}\n", h.url, issuer))
	h.env = []string{"OIDC_SECRET=the-secret-of-the-client"}
	neighbour(t, "identity.mjs", fmt.Sprint(port), h.url+"/signin/corp/callback")
	h.start()
	if _, status, at := h.signIn(t, port, "ada", "any"); status != http.StatusOK || at != "/console" {
		t.Errorf("ada of the group ends at %s with %d", at, status)
	}
	if _, status, _ := h.signIn(t, port, "bob", "any"); status != http.StatusForbidden {
		t.Errorf("bob without a group is answered %d", status)
	}
	var members struct {
		Data []struct {
			Name, Email, Role, OperatorRole string
		}
	}
	if h.get(t, ownerKey, "/members", &members); len(members.Data) != 1 {
		t.Fatalf("%+v", members)
	}
	if m := members.Data[0]; m.Name != "ada of the Tests" || m.Email != "ada@example.com" || m.Role != "owner" || m.OperatorRole != "admin" {
		t.Errorf("the member is %+v", m)
	}
}

// TestNeighbourMailServer has a webhook's test mailed through nodemailer's smtp-server, with a login.
func TestNeighbourMailServer(t *testing.T) {
	t.Parallel()
	vendor, port := fakeup.Start(t), freePort(t)
	mails := neighbour(t, "mail.mjs", fmt.Sprint(port))
	h := newServer(t, vendor.URL, fmt.Sprintf("mail: {smtp: {host: 127.0.0.1, port: %d, user: stoa, passwordEnv: MAIL_PASSWORD, from: Stoa <stoa@example.com>, tls: none}, addresses: [team@example.com]}\n", port))
	h.env = []string{"MAIL_PASSWORD=pässword"}
	h.start()
	var hook struct{ ID string }
	if status, err := h.call(t.Context(), "POST", ownerKey, "/webhooks", object{"url": "mailto:team@example.com", "events": []string{"session.completed"}}, &hook); status != http.StatusCreated {
		t.Fatal(status, err)
	}
	if status, err := h.call(t.Context(), "POST", ownerKey, "/webhooks/"+hook.ID+"/test", nil, nil); err != nil {
		t.Fatal(status, err)
	}
	var mail struct {
		From, Text string
		To         []string
	}
	line, ok := <-mails
	if !ok {
		t.Fatal("the mail server ended without a mail")
	}
	if err := json.Unmarshal([]byte(line), &mail); err != nil {
		t.Fatal(err)
	}
	if mail.From != "stoa@example.com" || len(mail.To) != 1 || mail.To[0] != "team@example.com" || !strings.Contains(mail.Text, "Auto-Submitted: auto-generated") {
		t.Errorf("the mail is %+v", mail)
	}
}

// storesLarge starts the server, and stores a file in its bucket, which is in a directory, and reads it back.
func (h *server) storesLarge(t *testing.T, dir string) {
	t.Helper()
	h.start()
	a := h.newAccount(t, "pro", 1_000_000)
	h.newAgent(t, a)
	large := "\x00" + strings.Repeat("bytes", 200_000)
	h.put(t, a, "large.bin", large)
	if got := h.text(t, a.key, contentOf(a, "large.bin")); got != large {
		t.Errorf("the file has %d bytes of %d", len(got), len(large))
	}
	stored, err := filepath.Glob(filepath.Join(dir, "stoa-files", "stoa", fmt.Sprintf("%x-*", sha256.Sum256([]byte(large)))))
	if err != nil || len(stored) == 0 {
		t.Errorf("the bucket has %v, %v", stored, err)
	}
}

// TestNeighbourBucket stores a large file in s3rver and reads it back.
func TestNeighbourBucket(t *testing.T) {
	t.Parallel()
	vendor, port, dir := fakeup.Start(t), freePort(t), t.TempDir()
	neighbour(t, "bucket.mjs", fmt.Sprint(port), dir)
	h := newServer(t, vendor.URL, fmt.Sprintf("drive: {store: {s3: {endpoint: \"http://127.0.0.1:%d\", bucket: stoa-files, prefix: stoa/, accessKey: S3RVER, secretKey: S3RVER}}}\n", port))
	h.storesLarge(t, dir)
}
