package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/testkit/fakeup"
)

// online returns the problems that "stoa config check --online" finds with the settings of the server, except that
// the fake vendor has no lists of models.
func (h *server) online(t *testing.T) string {
	t.Helper()
	_, says, _ := runWith(t, h.env, "config", "check", "--online", "--config", h.config)
	problems := slices.DeleteFunc(strings.Split(says, "\n"), func(line string) bool { return line == "" || strings.Contains(line, "providers[") })
	return strings.Join(problems, "\n")
}

// TestNightlyIdentityProvider signs a person in with the example server of zitadel/oidc, whose ID tokens have
// neither name nor email: both are at userinfo.
func TestNightlyIdentityProvider(t *testing.T) {
	t.Parallel()
	program := nightly(t, "zitadel-oidc")
	vendor, port := fakeup.Start(t), freePort(t)
	h := newServer(t, vendor.URL, "")
	h.configure(vendor.URL, fmt.Sprintf("publicUrl: %s\nsignIn: {oidc: [{name: corp, issuer: \"http://localhost:%d/\", clientId: web, clientSecretEnv: OIDC_SECRET, newAccounts: {plan: free}}]}\n", h.url, port))
	h.env = []string{"OIDC_SECRET=secret"}
	cmd := exec.Command(program)
	cmd.Env = []string{fmt.Sprintf("PORT=%d", port), "REDIRECT_URI=" + h.url + "/signin/corp/callback"}
	beside(t, cmd, fmt.Sprintf("localhost:%d", port))
	if says := h.online(t); says != "" {
		t.Errorf("config check --online: %s", says)
	}
	h.start()
	browser, status, at := h.signIn(t, port, "test-user@localhost", "verysecure")
	if status != http.StatusOK || at != "/console" {
		t.Errorf("the person ends at %s with %d", at, status)
	}
	var accounts struct{ Data []struct{ ID, Name string } }
	h.get(t, ownerKey, "/accounts", &accounts)
	i := slices.IndexFunc(accounts.Data, func(a struct{ ID, Name string }) bool { return a.Name == "Test User" })
	if i < 0 {
		t.Fatalf("no account has the person's name: %+v", accounts)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/api/v1/members", nil)
	req.Header.Set("Stoa-Account", accounts.Data[i].ID)
	res, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var members struct {
		Data []struct{ Name, Email, Role string }
	}
	if err := json.NewDecoder(res.Body).Decode(&members); err != nil || len(members.Data) != 1 {
		t.Fatalf("%d %v %+v", res.StatusCode, err, members)
	}
	if m := members.Data[0]; m.Name != "Test User" || m.Email != "test-user@zitadel.ch" || m.Role != "owner" {
		t.Errorf("the member is %+v", m)
	}
}

// TestNightlyBucket stores a large file in versitygw and reads it back. A wrong key and a missing bucket are named
// by "stoa config check --online" and by the log of a start.
func TestNightlyBucket(t *testing.T) {
	t.Parallel()
	program := nightly(t, "versitygw")
	said, _ := exec.Command(program, "--version").CombinedOutput()
	t.Logf("versitygw %s", said)
	vendor, port, dir := fakeup.Start(t), freePort(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "stoa-files"), 0o755); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	beside(t, exec.Command(program, "--port", address, "--access", "key", "--secret", "secret", "posix", dir), address)
	with := func(bucket, key, secret string) *server {
		return newServer(t, vendor.URL, fmt.Sprintf("drive: {store: {s3: {endpoint: \"http://%s\", bucket: %s, prefix: stoa/, accessKey: %s, secretKey: %s}}}\n", address, bucket, key, secret))
	}
	h := with("stoa-files", "key", "secret")
	if says := h.online(t); says != "" {
		t.Errorf("config check --online: %s", says)
	}
	h.storesLarge(t, dir)
	for name, c := range map[string]struct {
		h    *server
		says string
	}{
		"a missing bucket": {with("other", "key", "secret"), "drive.store.s3.bucket"},
		"a wrong key":      {with("stoa-files", "other", "secret"), "drive.store.s3.accessKey"},
		"a wrong secret":   {with("stoa-files", "key", "other"), "drive.store.s3.secretKey"},
	} {
		says := c.h.online(t)
		if !strings.Contains(says, c.says) {
			t.Errorf("%s: config check --online: %s", name, says)
		}
		if log := strings.Join(c.h.start().tail(100), "\n"); !strings.Contains(log, c.says) {
			t.Errorf("%s: the log of the start lacks %s:\n%s", name, c.says, log)
		}
	}
}

// stripeMock starts stripe-mock and returns an address that leads to it. It compares requests with Stripe's own
// description of its API; its replies are examples, to which the metadata of the request is added.
func stripeMock(t *testing.T) (url string, accepted *atomic.Int32) {
	t.Helper()
	program := nightly(t, "stripe-mock")
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	printed := beside(t, exec.Command(program, "-http-addr", address, "-https-addr", fmt.Sprintf("127.0.0.1:%d", freePort(t))), address)
	t.Log(strings.SplitN(printed(), "\n", 2)[0])
	accepted = &atomic.Int32{}
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := neturl.ParseQuery(string(body))
		r2 := r.Clone(r.Context())
		r2.RequestURI, r2.URL.Scheme, r2.URL.Host, r2.Body = "", "http", address, io.NopCloser(bytes.NewReader(body))
		res, err := http.DefaultTransport.RoundTrip(r2)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		var reply object
		if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
			t.Errorf("%s %s: %d %v", r.Method, r.URL, res.StatusCode, err)
		}
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s %s %s: %d %v", r.Method, r.URL, body, res.StatusCode, reply)
		} else if r.Method == http.MethodPost {
			accepted.Add(1)
			reply["metadata"] = object{"payment": form.Get("metadata[payment]")}
		}
		w.WriteHeader(res.StatusCode)
		_ = json.NewEncoder(w).Encode(reply)
	}))
	t.Cleanup(relay.Close)
	return relay.URL, accepted
}

// TestNightlyStripe buys two packs with stripe-mock.
func TestNightlyStripe(t *testing.T) {
	t.Parallel()
	api, accepted := stripeMock(t)
	vendor := fakeup.Start(t)
	h := newServer(t, vendor.URL, fmt.Sprintf(`publicUrl: http://stoa.example.com
payments:
  stripe: {keyEnv: STRIPE_KEY, webhookSecrets: [{env: STRIPE_WEBHOOK_SECRET}], api: %q}
  packs:
    small: {name: 20 credits, price: 2000, currency: eur, creditsMicro: 20000000}
    large: {name: 110 credits, price: 10000, currency: eur, creditsMicro: 110000000}
`, api))
	h.env = []string{"STRIPE_KEY=sk_test_123", "STRIPE_WEBHOOK_SECRET=whsec_c2VjcmV0"}
	if says := h.online(t); says != "" {
		t.Errorf("config check --online: %s", says)
	}
	h.start()
	for _, pack := range []string{"small", "large"} {
		var made struct{ CheckoutURL string }
		if status, err := h.call(t.Context(), http.MethodPost, ownerKey, "/payments", object{"pack": pack}, &made); status != http.StatusCreated || !strings.HasPrefix(made.CheckoutURL, "https://checkout.stripe.com/") {
			t.Errorf("pack %s: %d %v %+v", pack, status, err, made)
		}
	}
	if n := accepted.Load(); n != 2 {
		t.Errorf("the mock has accepted %d sessions of two", n)
	}
}

// TestNightlyTraces sends spans to the OpenTelemetry Collector: a call's arrives, none of a health check does.
func TestNightlyTraces(t *testing.T) {
	t.Parallel()
	program := nightly(t, "collector")
	said, _ := exec.Command(program, "--version").CombinedOutput()
	t.Logf("%s", said)
	vendor, port := fakeup.Start(t), freePort(t)
	address, file := fmt.Sprintf("127.0.0.1:%d", port), filepath.Join(t.TempDir(), "collector.yaml")
	config := fmt.Sprintf(`receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
`, address)
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	printed := beside(t, exec.Command(program, "--config", file), address)
	h := newServer(t, vendor.URL, "")
	h.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + address}
	h.start()
	for range 3 {
		h.get(t, ownerKey, "/health", nil)
	}
	if s := h.ask(t.Context(), ownerKey, "", object{"model": "alpha-haiku-4-5", "input": "say: done"}, nil); s.text != "done" {
		t.Errorf("%+v", s)
	}
	if code := h.stop(t); code != 0 { // which sends what is left
		t.Errorf("the server exits with %d", code)
	}
	await(t, "the spans", func() bool { return strings.Contains(printed(), "POST /api/v1/responses") })
	if all := printed(); strings.Contains(all, "/health") || !strings.Contains(all, "service.name: Str(stoa)") {
		t.Errorf("the collector has:\n%s", all)
	}
}

// await returns when a condition is true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	for !is() {
		if ctx.Err() != nil {
			t.Fatalf("%s: not within %v", what, safetyNet)
		}
		pass(ctx, 20*time.Millisecond)
	}
}

// postfix starts Postfix, which refuses a HELO without a domain: on one port as it does by default, with the
// recipient, and on the other with the HELO. It returns the folder of the received mails.
func postfix(t *testing.T, usual, strict int) (mails string) {
	t.Helper()
	program := nightly(t, "postfix")
	if os.Getuid() != 0 {
		t.Skip("postfix starts as root only")
	}
	said, _ := exec.Command("/usr/sbin/postconf", "-h", "mail_version").Output()
	t.Logf("Postfix %s", said)
	owner, err := user.Lookup("postfix")
	if err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "stoa-postfix-") // not in a folder that other users cannot enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range []string{"", "config", "queue", "data", "mail"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"data", "mail"} {
		if err := exec.Command("chown", owner.Uid, filepath.Join(dir, d)).Run(); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{
		"main.cf": fmt.Sprintf(`compatibility_level = 3.6
queue_directory = %[1]s/queue
data_directory = %[1]s/data
maillog_file = %[1]s/maillog
maillog_file_prefixes = %[1]s
myhostname = mail.example.com
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtpd_helo_required = yes
smtpd_helo_restrictions = reject_invalid_helo_hostname, reject_non_fqdn_helo_hostname
smtpd_recipient_restrictions = reject_unauth_destination
virtual_mailbox_domains = example.com
virtual_mailbox_base = %[1]s/mail
virtual_mailbox_maps = static:team/
virtual_uid_maps = static:%[2]s
virtual_gid_maps = static:%[3]s
`, dir, owner.Uid, owner.Gid),
		"master.cf": fmt.Sprintf(`127.0.0.1:%d inet n - n - - smtpd
127.0.0.1:%d inet n - n - - smtpd -o smtpd_delay_reject=no
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
proxymap unix - - n - - proxymap
postlog unix-dgram n - n - 1 postlogd
`, usual, strict),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, "config", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "config")
	beside(t, exec.Command(program, "-c", config, "start-fg"), fmt.Sprintf("127.0.0.1:%d", usual))
	// The program is a script, whose end does not end the server that it has started.
	t.Cleanup(func() { _ = exec.Command(program, "-c", config, "stop").Run() })
	return filepath.Join(dir, "mail", "team", "new", "*")
}

// TestNightlyPostfix sends a webhook's mail to Postfix with a HELO that it refuses. The refusal concerns a setting, so
// that the same delivery is tried again and arrives after the setting is right.
func TestNightlyPostfix(t *testing.T) {
	t.Parallel()
	usual, strict := freePort(t), freePort(t)
	mails, vendor := postfix(t, usual, strict), fakeup.Start(t)
	h := newServer(t, vendor.URL, "")
	configure := func(port int, helo string) {
		h.configure(vendor.URL, fmt.Sprintf("mail: {smtp: {host: 127.0.0.1, port: %d, from: Stoa <stoa@example.com>, helo: %s, tls: none}, addresses: [team@example.com]}\n", port, helo))
	}
	configure(strict, "stoa")
	if says := h.online(t); !strings.Contains(says, "(see mail.smtp.helo)") {
		t.Errorf("config check --online: %s", says)
	}
	configure(usual, "stoa")
	h.start()
	var hook, session struct{ ID string }
	if status, err := h.call(t.Context(), "POST", ownerKey, "/webhooks", object{"url": "mailto:team@example.com", "events": []string{"session.completed"}}, &hook); status != http.StatusCreated {
		t.Fatal(status, err)
	}
	a := &account{key: ownerKey}
	h.newAgent(t, a)
	if status, err := h.call(t.Context(), "POST", ownerKey, "/api-agents/"+a.agent+"/sessions", object{"message": "say: done", "mode": "once"}, &session); status != http.StatusAccepted {
		t.Fatal(status, err)
	}
	type delivery struct {
		Status                   string
		AttemptCount, LastStatus int
	}
	last := func() (d delivery) {
		var list struct{ Data []delivery }
		if h.get(t, ownerKey, "/webhooks/"+hook.ID+"/deliveries", &list); len(list.Data) > 0 {
			d = list.Data[0]
		}
		return d
	}
	await(t, "a refused attempt", func() bool { return last().AttemptCount > 0 })
	if d := last(); d.Status != "pending" || d.LastStatus != 504 {
		t.Fatalf("a delivery whose HELO was refused is %+v", d)
	}
	h.stop(t)
	configure(usual, "stoa.example.com")
	if says := h.online(t); says != "" {
		t.Errorf("config check --online: %s", says)
	}
	h.start()
	await(t, "the mail", func() bool { return last().Status == "delivered" })
	var files []string
	await(t, "the file of the mail", func() bool { files, _ = filepath.Glob(mails); return len(files) > 0 })
	mail, err := os.ReadFile(files[0])
	if err != nil || len(files) != 1 || !strings.Contains(string(mail), "from stoa.example.com (") || !strings.Contains(string(mail), session.ID) {
		t.Errorf("%v, %d mails, the first is\n%s", err, len(files), mail)
	}
}
