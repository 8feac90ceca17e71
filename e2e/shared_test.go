package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stoa/internal/base/sse"
	"stoa/internal/testkit/storetest"
)

// shared are three nodes of one database.
type shared struct {
	nodes []*server
	price int64 // of a call with three hundred tokens, in micro-credits

	repeating sync.Mutex // callers repeat their calls one after the other: there is no hurry
	again     int        // number of repeated calls
}

// TestThreeNodesAreOneService checks that an action on one node takes effect on all of them,
// with notices between them and, later, when every notice is lost.
func TestThreeNodesAreOneService(t *testing.T) {
	for name, settings := range map[string]struct {
		lost           bool
		calls, callers int
	}{
		"with notices":     {false, 12, 200},
		"all notices lost": {true, 3, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShared(t, settings.lost)
			s.nearZero(t, settings.calls)
			s.crowd(t, settings.callers)
			s.grants(t)
			s.keys(t)
			s.events(t)
			s.looks(t)
			t.Logf("%d calls were repeated", s.again)
			for i, n := range s.nodes {
				if code := n.stop(t); code != 0 {
					t.Errorf("node %d exits with %d", i, code)
				}
			}
			s.nodes[0].verify(t)
		})
	}
}

// newShared starts the nodes. With lost they listen in another database, so that they receive
// no notices.
func newShared(t *testing.T, lost bool) *shared {
	t.Helper()
	v := newVendor(t, nil)
	database := storetest.Postgres(t)
	more := ""
	if lost {
		more = fmt.Sprintf("databaseListen: %q\n", storetest.Postgres(t).Config.PostgresURL)
	}
	s := &shared{}
	for range 3 {
		n := newServer(t, v.url, more)
		n.postgres = database.Config.PostgresURL
		n.start()
		s.nodes = append(s.nodes, n)
	}
	sample := s.ask(0, s.nodes[0].newAccount(t, "pro", 1_000_000_000).key, "sample")
	if !sample.done() || sample.charge <= 0 {
		t.Fatalf("the sample: %+v", sample)
	}
	s.price = sample.charge
	return s
}

// ask makes a call at a node, and repeats it while the answer says that another node has not
// yet returned credits.
func (s *shared) ask(node int, key, mark string) seen {
	call := func() seen {
		return s.nodes[node%len(s.nodes)].ask(context.Background(), key, "", object{
			"model": "alpha-haiku-4-5", "user": mark, "stream": false,
			"max_output_tokens": 300, "input": "mark: " + mark + "\ntokens: 300",
		}, nil)
	}
	got := call()
	if got.status == http.StatusServiceUnavailable {
		s.repeating.Lock()
		defer s.repeating.Unlock()
	}
	for got.status == http.StatusServiceUnavailable {
		s.again++
		got = call()
	}
	return got
}

// newAccount creates an account with credits for the given number of calls. A call holds a
// little more than it costs.
func (s *shared) newAccount(t *testing.T, calls int) *account {
	t.Helper()
	return s.nodes[0].newAccount(t, "pro", s.price*int64(calls)+s.price/5)
}

// spent checks that an account has the given number of charges and nothing is missing.
func (s *shared) spent(t *testing.T, a *account, calls int) {
	t.Helper()
	if list := s.nodes[1].checkConservation(t, a); len(list) != calls {
		t.Errorf("%d charges for %d calls", len(list), calls)
	}
}

func refused(s seen) bool { return s.status == 429 && s.code == "insufficient_quota" }

// nearZero lets two accounts call the nodes in turn until their last credit.
func (s *shared) nearZero(t *testing.T, calls int) {
	t.Helper()
	list := []*account{s.newAccount(t, calls), s.newAccount(t, calls)}
	for i := range calls {
		for j, a := range list {
			if got := s.ask(i+j, a.key, fmt.Sprintf("zero-%d-%d", j, i)); !got.done() {
				t.Fatalf("call %d of account %d, with credits for %d: %+v", i+1, j, calls-i, got)
			}
		}
	}
	for _, a := range list {
		for n := range s.nodes {
			if got := s.ask(n, a.key, "beyond"); !refused(got) {
				t.Errorf("beyond the credits, at node %d: %+v", n, got)
			}
		}
		s.spent(t, a, calls)
	}
}

// crowd starts many callers of one account, with credits for five calls, at all nodes at the
// same time.
func (s *shared) crowd(t *testing.T, callers int) {
	t.Helper()
	a := s.newAccount(t, 5)
	var served atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			switch got := s.ask(i, a.key, fmt.Sprintf("crowd-%d", i)); {
			case got.done():
				served.Add(1)
			case !refused(got):
				t.Errorf("caller %d: %+v", i, got)
			}
		})
	}
	all.Wait()
	if served.Load() != 5 {
		t.Errorf("%d of %d callers were served, with credits for five", served.Load(), callers)
	}
	s.spent(t, a, 5)
}

// grants tops an account up at one node and spends it at the others, which had reported that
// nothing is left.
func (s *shared) grants(t *testing.T) {
	t.Helper()
	a := s.newAccount(t, 0)
	for n := range s.nodes {
		if got := s.ask(n, a.key, "poor"); !refused(got) {
			t.Fatalf("without credits, at node %d: %+v", n, got)
		}
	}
	if err := s.nodes[0].grant(t.Context(), a, 3*s.price, "top-up"); err != nil {
		t.Fatal(err)
	}
	a.granted += 3 * s.price
	for n := range s.nodes {
		for { // the refusal is cached for less than a second
			got := s.ask(n, a.key, fmt.Sprintf("rich-%d", n))
			if got.done() {
				break
			}
			if !refused(got) {
				t.Fatalf("with new credits, at node %d: %+v", n, got)
			}
		}
	}
	s.spent(t, a, 3)
}

// keys creates a key at one node, uses it at all, and revokes it at another.
func (s *shared) keys(t *testing.T) {
	t.Helper()
	a := s.newAccount(t, 3)
	var made struct{ ID, Secret string }
	if _, err := s.nodes[0].call(t.Context(), http.MethodPost, a.key, "/keys", object{"name": "second"}, &made); err != nil {
		t.Fatal(err)
	}
	var me struct{ ID string }
	for _, n := range s.nodes {
		n.get(t, made.Secret, "/users/me", &me)
	}
	if _, err := s.nodes[1].call(t.Context(), http.MethodDelete, a.key, "/keys/"+made.ID, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.nodes {
		for status := 0; status != http.StatusUnauthorized; { // it is cached for less than a second
			var err error
			if status, err = n.call(t.Context(), http.MethodGet, made.Secret, "/users/me", nil, &me); status != http.StatusOK && status != http.StatusUnauthorized {
				t.Fatalf("a revoked key: %d %v", status, err)
			}
		}
	}
}

// events follows a session at every node while one of them runs it.
func (s *shared) events(t *testing.T) {
	t.Helper()
	a := s.nodes[0].newAccount(t, "pro", 100_000_000)
	s.nodes[0].newAgent(t, a)
	sessions := "/api-agents/" + a.agent + "/sessions"
	var made struct{ ID string }
	if _, err := s.nodes[0].call(t.Context(), http.MethodPost, a.key, sessions, object{"message": "slow: 20ms\ntokens: 40", "mode": "once"}, &made); err != nil {
		t.Fatal(err)
	}
	logs := make([]string, len(s.nodes))
	var all sync.WaitGroup
	for i, n := range s.nodes {
		all.Go(func() { logs[i] = n.follow(t, a.key, sessions+"/"+made.ID+"/events") })
	}
	all.Wait()
	for i, log := range logs {
		if log != logs[0] || log == "" {
			t.Errorf("node %d tells\n%s\nand the first one\n%s", i, log, logs[0])
		}
	}
}

// looks queries every node for the list of nodes, and for a request that another node has
// answered.
func (s *shared) looks(t *testing.T) {
	t.Helper()
	got := s.ask(0, s.nodes[0].newAccount(t, "pro", 1_000_000_000).key, "looked-for")
	if !got.done() {
		t.Fatalf("a call: %+v", got)
	}
	for i, n := range s.nodes {
		var list struct {
			Data       []struct{ ID, Address string }
			SameConfig bool
		}
		n.get(t, ownerKey, "/nodes", &list)
		if len(list.Data) != len(s.nodes) || !list.SameConfig {
			t.Errorf("node %d has the nodes %+v", i, list)
		}
		table := n.command(t, "nodes")
		for _, other := range s.nodes {
			if address := strings.TrimPrefix(other.url, "http://"); !strings.Contains(table, address) {
				t.Errorf("node %d shows no %s:\n%s", i, address, table)
			}
		}
		for logs := ""; !strings.Contains(logs, got.id); { // it is written within a second
			logs = n.command(t, "logs", "--account", "*", "--json")
		}
	}
}

// command runs a command of the client as the owner and returns what it prints.
func (h *server) command(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(self(t), args...)
	cmd.Env = []string{asProgram + "=command", "HOME=" + t.TempDir(), "STOA_BASE_URL=" + h.url, "STOA_API_KEY=" + ownerKey}
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil || errOut.Len() > 0 {
		t.Fatalf("stoa %s: %v %s", strings.Join(args, " "), err, errOut.String())
	}
	return out.String()
}

// follow reads the events of a session to the end and returns their numbers and types.
func (h *server) follow(t *testing.T, key, path string) (log string) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/api/v1"+path, nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", "text/event-stream")
	res, err := h.http.Do(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	events := sse.NewReader(res.Body, 0)
	for {
		ev, err := events.Next()
		if errors.Is(err, io.EOF) {
			return log
		}
		var e struct {
			Seq  int64
			Type string
		}
		if err == nil {
			err = json.Unmarshal(ev.Data, &e)
		}
		if err != nil {
			t.Errorf("the stream of %s: %v", h.url, err)
			return log
		}
		log += fmt.Sprintf("%d %s\n", e.Seq, e.Type)
	}
}
