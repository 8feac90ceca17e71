package api_test

import (
	"strings"
	"testing"

	"stoa/internal/apitest"
	"stoa/internal/contract"
	"stoa/internal/stoa"
)

// An author works with one agent through the API.
type author struct {
	*apitest.Client
	h     *apitest.House
	agent string // path
}

// newAuthor makes an agent in the account's default space.
func newAuthor(t *testing.T, h *apitest.House, c *apitest.Client, more map[string]any) author {
	t.Helper()
	var me contract.User
	c.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	body := map[string]any{"spaceId": orNone(me.DefaultSpaceID), "name": "Helper", "instructions": "Be brief."}
	for k, v := range more {
		body[k] = v
	}
	var agent contract.Agent
	c.Want(201, "POST", "/api/v1/api-agents", body).JSON(&agent)
	return author{c, h, "/api/v1/api-agents/" + agent.ID}
}

type getter[T any] interface{ Get() (T, error) }

func orNone[T any](n getter[T]) T {
	v, err := n.Get()
	if err != nil {
		var none T
		return none
	}
	return v
}

func (a author) file(path, content string) {
	a.Want(201, "PUT", a.agent+"/drive/files", map[string]any{"path": path, "content": content})
}

// begin starts a session and gives its path.
func (a author) begin(t *testing.T, message string, more map[string]any) (contract.Session, string) {
	t.Helper()
	body := map[string]any{"message": message}
	for k, v := range more {
		body[k] = v
	}
	var s contract.Session
	r := a.Want(202, "POST", a.agent+"/sessions", body).JSON(&s)
	if want := a.agent + "/sessions/" + s.ID; r.Header.Get("Location") != want || r.Header.Get("Retry-After") != "1" {
		t.Errorf("Location %q, Retry-After %q; want %q and 1", r.Header.Get("Location"), r.Header.Get("Retry-After"), want)
	}
	if s.Status != "queued" || s.Object != "session" || s.LastEventSeq == 0 {
		t.Errorf("a new session is %+v", s)
	}
	return s, a.agent + "/sessions/" + s.ID
}

// until waits for a session to stop with that status.
func (a author) until(t *testing.T, path, status string) contract.Session {
	t.Helper()
	var s contract.Session
	a.Want(200, "GET", path+"?waitSeconds=30", nil).JSON(&s)
	if s.Status != status {
		t.Fatalf("the session is %s, want %s: %+v\n%s", s.Status, status, s, a.Do("GET", path+"/events?limit=1000", nil).Body)
	}
	return s
}

func TestASessionAnswersFromItsFiles(t *testing.T) {
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	a.file("docs/prices.md", "# Prices\n\nA ticket to the stoa costs seven drachmas.\n")
	a.file("docs/hours.md", "The stoa opens at dawn.\n")
	_, path := a.begin(t, "What does a ticket cost?", map[string]any{"mode": "chat"})
	got := a.until(t, path, "completed")
	if reply := orNone(got.Reply); !strings.Contains(reply, "docs/prices.md") || !strings.Contains(reply, "seven drachmas") {
		t.Errorf("the reply is %q", reply)
	}
	var messages contract.MessageList
	a.Want(200, "GET", path+"/messages", nil).JSON(&messages)
	last := messages.Data[len(messages.Data)-1]
	if last.Kind != "reply" || last.Text != orNone(got.Reply) || len(last.Sources) == 0 {
		t.Errorf("the last message is %+v", last)
	}
	var receipts contract.ReceiptList
	a.Want(200, "GET", path+"/receipts", nil).JSON(&receipts)
	var sum int64
	for _, r := range receipts.Data {
		sum += r.CreditsMicro
	}
	if len(receipts.Data) != got.Usage.Steps || sum != got.Usage.CreditsMicro || sum == 0 {
		t.Errorf("%d receipts of %d credits; the session says %+v", len(receipts.Data), sum, got.Usage)
	}
	a.WantError(stoa.CodeSessionNotFound, "GET", a.agent+"/sessions/"+stoa.NewID("ses"), nil)
	log := a.With("Accept", "text/event-stream").Want(200, "GET", path+"/events", nil).Log
	if int64(len(log)) != got.LastEventSeq || apitest.Join(log, last.ID) != last.Text {
		t.Errorf("%d events of %d; joined %q", len(log), got.LastEventSeq, apitest.Join(log, last.ID))
	}
}
