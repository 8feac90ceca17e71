package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakesmtp"
)

// A secretWriter hands over the first line that is written to it.
type secretWriter struct{ line chan string }

func (w secretWriter) Write(b []byte) (int, error) {
	select {
	case w.line <- strings.TrimSpace(string(b)):
	default:
	}
	return len(b), nil
}

// TestEventsAreForwardedToThisMachine has a session end while a person listens, and
// checks the signature with the published library and with our own command.
func TestEventsAreForwardedToThisMachine(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	p.runs(0, "", "agents", "create", "--name", "desk", "-i", "Answer.")
	type got struct {
		header http.Header
		body   []byte
	}
	requests := make(chan got, 10)
	local := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- got{r.Header, body}
	}))
	defer local.Close()
	ctx, stop := context.WithCancel(t.Context())
	out, ended := secretWriter{make(chan string, 1)}, make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"webhooks", "listen", local.URL, "--event", "session.completed"}, p.environ, nil, strings.NewReader(""), out, io.Discard)
	}()
	secret := <-out.line
	p.runs(0, "", "sessions", "start", "desk", "say: hello")
	r := <-requests
	w, err := standardwebhooks.NewWebhook(secret)
	if err == nil {
		err = w.Verify(r.body, r.header)
	}
	if err != nil || !strings.Contains(string(r.body), `"type":"session.completed"`) {
		t.Errorf("%v: %s", err, r.body)
	}
	if agent := r.header.Get("User-Agent"); agent != userAgent() || !strings.HasPrefix(agent, "stoa/") {
		t.Errorf("the request is from %q", agent)
	}
	verify := []string{"webhooks", "verify", "--id", r.header.Get("webhook-id"), "--timestamp", r.header.Get("webhook-timestamp"), "--signature", r.header.Get("webhook-signature")}
	q := newPerson(t, "STOA_WEBHOOK_SECRET="+secret)
	if said := q.runs(0, string(r.body), verify...); !strings.Contains(said, "The signature is valid.") {
		t.Error(said)
	}
	q.runs(1, string(r.body)+" ", verify...)
	q.runs(2, "", "webhooks", "verify")
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("it exits with %d", code)
	}
	if said := p.runs(0, "", "webhooks", "list", "--json"); strings.Contains(said, "whk_") {
		t.Errorf("the webhook is left behind: %s", said)
	}
}

func TestAWebhookIsManagedByCommands(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Allow: []string{"127.0.0.0/8"}})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	asked := make(chan struct{}, 10)
	local := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer local.Close()
	var out, said bytes.Buffer
	if code := Main(t.Context(), []string{"webhooks", "add", local.URL}, p.environ, nil, strings.NewReader(""), &out, &said); code != 0 || !strings.HasPrefix(out.String(), "whsec_") || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%d %q %q", code, out.String(), said.String())
	}
	id := strings.TrimSpace(p.runs(0, "", "webhooks", "list", "--jq", ".[0].id"))
	delivery := strings.TrimSpace(p.runs(0, "", "webhooks", "test", id, "--jq", ".id"))
	<-asked
	// What is being sent is not sent again: its end is recorded after the request.
	for strings.TrimSpace(p.runs(0, "", "webhooks", "delivery", id, delivery, "--jq", ".status")) != "delivered" {
	}
	p.runs(0, "", "webhooks", "redeliver", id, delivery)
	<-asked
	for want, args := range map[string][]string{
		"webhook.test":          {"deliveries", id},
		"evt_":                  {"delivery", id, delivery},
		"whsec_":                {"rotate", id, "--overlap", "1h"},
		"session.failed":        {"update", id, "--event", "session.failed", "--credits-low", "5"},
		"0 deliveries are sent": {"recover", id, "--since", "1h"},
		"enabled":               {"enable", id},
	} {
		if said := p.runs(0, "", append([]string{"webhooks"}, args...)...); !strings.Contains(said, want) {
			t.Errorf("%v says %q", args, said)
		}
	}
	p.runs(2, "", "webhooks", "recover", id)
	p.runs(2, "", "webhooks", "rotate", id, "--overlap", "")
	p.runs(1, "", "webhooks", "add", "")
	p.runs(2, "", "webhooks", "update", id)
	p.runs(1, "", "webhooks", "add", "http://10.0.0.1/")
	p.runs(0, "", "webhooks", "remove", id, "--yes")
	p.runs(1, "", "webhooks", "get", id)
}

// TestTheGuideToWebhooksWorks runs the commands of docs/webhooks.md, in their order, and
// compares the request that the page shows with one that came.
func TestTheGuideToWebhooksWorks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	mails := fakesmtp.New(t, true)
	h := apitest.Start(t, apitest.Config{
		Allow: []string{"127.0.0.0/8"}, Mail: config.Mail{SMTP: config.SMTP{Host: mails.Host, Port: mails.Port, From: "stoa@example.com", TLS: config.MailPlain}},
	})
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		ada, err := tx.People().PersonOf(t.Context(), stoa.Person{Issuer: "https://id.example.com/", Subject: "ada", Email: "ada@example.com"})
		if err != nil {
			return err
		}
		return tx.People().InsertMember(t.Context(), stoa.Member{AccountID: h.Account.ID, PersonID: ada.ID, Role: stoa.RoleOwner, KeyID: "key_1"})
	}); err != nil {
		t.Fatal(err)
	}
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	type request struct {
		header http.Header
		body   []byte
	}
	requests := make(chan request, 10)
	local := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- request{r.Header, body}
	}))
	defer local.Close()
	var hook, delivery, secret string
	ran := 0
	for _, found := range regexp.MustCompile("(?m)(?:^    |`)stoa webhooks ([^`\n]+)").FindAllStringSubmatch(page, -1) {
		command := strings.NewReplacer("https://example.com/hooks/stoa", local.URL, "whk_…", hook, "dlv_…", delivery).Replace(found[1])
		if fields := strings.Fields(command); len(fields) == 1 || fields[0] == "listen" { // the name of a command alone, and one that goes on
			continue
		}
		ran++
		out := p.runs(0, "", append([]string{"webhooks"}, words(command)...)...)
		switch {
		case strings.HasPrefix(command, "create mailto:"): // the other commands are about the one before
		case strings.HasPrefix(command, "create"):
			secret = regexp.MustCompile(`whsec_\S+`).FindString(out)
			hook = strings.TrimSpace(p.runs(0, "", "webhooks", "list", "--jq", ".[0].id"))
		case strings.HasPrefix(command, "test"):
			got := <-requests
			w, err := standardwebhooks.NewWebhook(secret)
			if err == nil {
				err = w.Verify(got.body, got.header)
			}
			if err != nil {
				t.Error(err)
			}
			delivery = strings.TrimSpace(p.runs(0, "", "webhooks", "deliveries", hook, "--jq", ".[0].id"))
		}
	}
	if ran != 9 {
		t.Errorf("%d commands were run", ran)
	}

	p.runs(0, "", "agents", "create", "--name", "desk", "-i", "Answer.")
	p.runs(0, "", "sessions", "start", "desk", "say: hello")
	got := <-requests
	for strings.Contains(string(got.body), "webhook.test") { // was sent again
		got = <-requests
	}
	shown := regexp.MustCompile(`(?s)    POST /hooks/stoa\n(.*?)\n\n(    \{.*?\}\})\n`).FindStringSubmatch(page)
	if shown == nil {
		t.Fatal("the page shows no request")
	}
	for line := range strings.Lines(shown[1]) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), ":"); got.header.Get(name) == "" {
			t.Errorf("no header %s came", name)
		}
	}
	if is, want := members(t, got.body), members(t, []byte(shown[2])); is != want {
		t.Errorf("the page shows\n%s, and there came\n%s", want, is)
	}
}

// members are the names in an event and in its data.
func members(t *testing.T, body []byte) string {
	t.Helper()
	var event map[string]any
	if err := json.Unmarshal(body, &event); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	data, _ := event["data"].(map[string]any)
	return fmt.Sprint(slices.Sorted(maps.Keys(event)), slices.Sorted(maps.Keys(data)))
}
