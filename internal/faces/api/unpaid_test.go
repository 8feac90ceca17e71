package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// A miser makes calls whose input its provider bills, and tries not to pay it.
type miser struct {
	h      *apitest.Service
	f      *fakeup.Server
	author author
	calls  int
}

// misersGrant is the amount that an account of this file has: it covers the input of four
// of its calls.
const misersGrant = 50_000

// prompt returns an input of some 30 KB with orders for the provider.
func (m *miser) prompt(orders string) string {
	m.calls++
	return fmt.Sprintf("mark: %d\n%s\nmark: %s", m.calls, orders, strings.Repeat("x", 30_000))
}

// hangUp makes a call and disconnects when the provider has received another request, or has
// sent deltas of it. It returns the code of a refusal; empty if none came before.
func (m *miser) hangUp(t *testing.T, orders string, more body, deltas int, key string) stoa.Code {
	t.Helper()
	seen := len(m.f.Served())
	text, err := json.Marshal(with(body{"model": "alpha-haiku-4-5", "max_output_tokens": 300, "input": m.prompt(orders)}, more))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", m.h.URL+responses, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+m.h.Key)
	if key != "" {
		req.Header.Set("Idempotency-Key", fmt.Sprint(key, m.calls))
	}
	answered := make(chan struct{})
	go func() {
		defer cancel()
		m.f.Wait(t, "a request", func(all []fakeup.Served) bool {
			select {
			case <-answered:
				return true
			default:
			}
			return len(all) > seen && all[len(all)-1].Attempt > 0 && all[len(all)-1].Deltas >= deltas
		})
	}()
	res, err := http.DefaultClient.Do(req)
	if err == nil && res.StatusCode == 200 {
		var b bytes.Buffer
		_, _ = b.ReadFrom(res.Body) // until the other side hangs up
	}
	close(answered)
	m.f.Wake()
	<-ctx.Done()
	if err != nil || res.StatusCode == 200 {
		if key == "" {
			m.f.WaitEnded(t, seen+1)
		}
		return ""
	}
	defer res.Body.Close()
	var e struct{ Error struct{ Code string } }
	if err := json.NewDecoder(res.Body).Decode(&e); err != nil {
		t.Fatal(err)
	}
	return stoa.Code(e.Error.Code)
}

// fail makes a call that fails.
func (m *miser) fail(orders string, stream bool) func(t *testing.T) stoa.Code {
	return func(t *testing.T) stoa.Code {
		t.Helper()
		r := m.h.Client(t).Do("POST", responses, body{"model": "alpha-haiku-4-5", "max_output_tokens": 300, "stream": stream, "input": m.prompt(orders)})
		if r.Status == 200 {
			return ""
		}
		return stoa.Code(r.Error().Code)
	}
}

// cancel cancels a session before the first event of its reply.
func (m *miser) cancel(t *testing.T) stoa.Code {
	t.Helper()
	seen := len(m.f.Served())
	r := m.author.Do("POST", m.author.agent+"/sessions", body{"message": m.prompt("fault: hang")})
	if r.Status != 202 {
		return stoa.Code(r.Error().Code)
	}
	var s contract.Session
	r.JSON(&s)
	path := m.author.agent + "/sessions/" + s.ID
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		m.h.Client(t).Try(ctx, "GET", path+"?waitSeconds=60", nil) // it may not fit its credits
		m.f.Wake()
	}()
	m.f.Wait(t, "the request of a session", func(all []fakeup.Served) bool { return len(all) > seen && all[len(all)-1].Attempt > 0 })
	m.author.Want(200, "POST", path+"/cancel", nil)
	m.f.WaitEnded(t, seen+1)
	return ""
}

// bill is the price of the input that the provider received and did not refuse: a
// micro-credit per token.
func (m *miser) bill() (sum stoa.Credits) {
	for _, s := range m.f.Served() {
		if s.Status < 300 {
			sum += stoa.Credits(len(s.Body)+3) / 4
		}
	}
	return sum
}

// TestUnpaidInputIsBounded has accounts with few credits try every way of not paying the
// input of a call, until they are refused. Their provider bills all input that it received.
func TestUnpaidInputIsBounded(t *testing.T) {
	t.Parallel()
	stream, whole := body{"stream": true}, body{"stream": false}
	ways := map[string]func(m *miser) func(*testing.T) stoa.Code{
		"hang up before the headers": func(m *miser) func(*testing.T) stoa.Code {
			return func(t *testing.T) stoa.Code { return m.hangUp(t, "fault: hang", stream, 0, "") }
		},
		"hang up before a whole reply": func(m *miser) func(*testing.T) stoa.Code {
			return func(t *testing.T) stoa.Code { return m.hangUp(t, "fault: hang", whole, 0, "") }
		},
		"hang up after some text": func(m *miser) func(*testing.T) stoa.Code {
			return func(t *testing.T) stoa.Code { return m.hangUp(t, "fault: hang-body after 2", stream, 2, "") }
		},
		"hang up under a key": func(m *miser) func(*testing.T) stoa.Code {
			return func(t *testing.T) stoa.Code { return m.hangUp(t, "fault: hang", stream, 0, "k") }
		},
		"cancel a session":       func(m *miser) func(*testing.T) stoa.Code { return m.cancel },
		"a slow provider":        func(m *miser) func(*testing.T) stoa.Code { return m.fail("mark: slow\nfault: hang-body", true) },
		"a slow provider, whole": func(m *miser) func(*testing.T) stoa.Code { return m.fail("fault: hang-body after 2\ntokens: 9", false) },
		"a broken connection":    func(m *miser) func(*testing.T) stoa.Code { return m.fail("fault: close", true) },
		"no end":                 func(m *miser) func(*testing.T) stoa.Code { return m.fail("cut: 0", true) },
		"no end after some text": func(m *miser) func(*testing.T) stoa.Code { return m.fail("cut: 3\ntokens: 9", true) },
		"an error event":         func(m *miser) func(*testing.T) stoa.Code { return m.fail("fault: error-in-stream", false) },
		"invalid events":         func(m *miser) func(*testing.T) stoa.Code { return m.fail("fault: malformed after 2\ntokens: 9", false) },
	}
	all := func(m *miser) []func(*testing.T) stoa.Code {
		var list []func(*testing.T) stoa.Code
		for name, way := range ways {
			if !strings.Contains(name, "key") { // these hang on until the end
				list = append(list, way(m))
			}
		}
		return list
	}
	try := func(t *testing.T, firstByte time.Duration, of func(m *miser) []func(*testing.T) stoa.Code) {
		f := fakeup.Start(t)
		cfg := apitest.Config{Grant: misersGrant, Families: map[string][]stoa.Route{}}
		for _, wire := range []string{"messages", "chat"} { // the second one serves after the first
			pr := f.Provider(wire)
			pr.Timeouts = stoa.Timeouts{FirstByte: firstByte, Idle: 50 * time.Millisecond}
			cfg.Providers, cfg.Families["alpha"] = append(cfg.Providers, pr), append(cfg.Families["alpha"], stoa.Route{Provider: wire})
		}
		h := start(t, cfg)
		m := &miser{h: h, f: f, author: newAuthor(t, h, h.Client(t), body{"model": "alpha-haiku-4-5"})}
		refused := 0
		ways := of(m)
		for i := 0; refused < len(ways); i++ {
			if i == 100 {
				t.Fatal("the account is never refused")
			}
			if code := ways[i%len(ways)](t); code == stoa.CodeQuota {
				refused++
			} else {
				refused = 0
			}
		}
		if bill := m.bill(); bill > misersGrant || bill < misersGrant/5 {
			t.Errorf("an account with %d micro-credits has cost %d", misersGrant, bill)
		}
		h.Server.Stop() // some calls under a key hang for ever otherwise
		h.HTTP.Close()
		for held := stoa.Credits(1); held > 0; { // until the turn of a cancelled session is charged
			b, err := h.Ledger.Balance(t.Context(), h.Account.ID)
			if err != nil {
				t.Fatal(err)
			}
			held = b.Held
		}
		t.Logf("%d calls, billed %d, charged %d", m.calls, m.bill(), quiet(t, h).Spent)
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, 0, func(m *miser) []func(*testing.T) stoa.Code { return []func(*testing.T) stoa.Code{way(m)} })
		})
	}
	t.Run("no headers", func(t *testing.T) {
		t.Parallel()
		try(t, 50*time.Millisecond, func(m *miser) []func(*testing.T) stoa.Code {
			return []func(*testing.T) stoa.Code{m.fail("fault: hang", true)}
		})
	})
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		try(t, 0, all)
	})
}
