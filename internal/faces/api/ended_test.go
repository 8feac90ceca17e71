package api_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

// ends collects what [rest.Base.Ended] gets.
type ends struct {
	mu   sync.Mutex
	all  []stoa.Request
	more chan struct{}
}

func (e *ends) server(s *api.Server) {
	e.more = make(chan struct{}, 100)
	s.Ended = func(r *stoa.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, *r)
		e.more <- struct{}{}
	}
}

// next waits for the end of another request and returns it.
func (e *ends) next() stoa.Request {
	<-e.more
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all[len(e.all)-1]
}

// TestTheEndOfARequestSaysWhatItWas makes requests of each kind and checks their fields
// at their end.
func TestTheEndOfARequestSaysWhatItWas(t *testing.T) {
	t.Parallel()
	var e ends
	h := start(t, apitest.Config{Server: e.server})
	const route = "POST " + responses
	secret, key := h.NewKey(h.Account.ID, "*")
	known := stoa.Request{Route: route, AccountID: h.Account.ID, KeyID: key.ID}
	for _, c := range []struct {
		name   string
		method string
		path   string
		body   any
		want   func(*stoa.Request)
	}{
		{"a whole reply", "POST", responses, body{"model": "auto", "input": "say: yes"}, func(r *stoa.Request) {
			r.Status, r.Asked, r.Served, r.Provider, r.Attempts, r.Charged = 200, "auto", "beta-3.8-flash", "sandbox", 1, true
		}},
		{"a failure at the provider", "POST", responses, body{"model": "beta-3.8-flash", "input": "fail: 529"}, func(r *stoa.Request) {
			r.Status, r.Asked, r.Served, r.Provider, r.Attempts, r.Code = 503, "beta-3.8-flash", "beta-3.8-flash", "sandbox", 1, stoa.CodeOverloaded
		}},
		{"a stream that breaks", "POST", responses, body{"model": "beta-3.8-flash", "input": "tokens: 9\nfail: 500 after 3", "stream": true}, func(r *stoa.Request) {
			r.Status, r.Asked, r.Served, r.Provider, r.Attempts, r.Code, r.Stream = 200, "beta-3.8-flash", "beta-3.8-flash", "sandbox", 1, stoa.CodeUpstream, true
		}},
		{"an unknown model", "POST", responses, body{"model": "none", "input": "x"}, func(r *stoa.Request) {
			r.Status, r.Asked, r.Code, r.Param = 400, "none", stoa.CodeModelNotFound, "model"
		}},
		{"a refused body", "POST", responses, body{"model": "auto"}, func(r *stoa.Request) {
			r.Status, r.Code, r.Param = 400, stoa.CodeMissingParameter, "input"
		}},
		{"a read", "GET", "/api/v1/credits", nil, func(r *stoa.Request) { r.Route, r.Status = "GET /api/v1/credits", 200 }},
		{"no path", "GET", "/api/v1/nothing", nil, func(r *stoa.Request) {
			*r = stoa.Request{Status: 404, Code: stoa.CodeNotFound}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := known
			c.want(&want)
			reply := h.ClientWith(t, secret).Do(c.method, c.path, c.body)
			got := e.next()
			want.ID = reply.Header.Get("x-request-id")
			measured := cmpopts.IgnoreFields(stoa.Request{}, "StartedAt", "Duration", "FirstToken", "Usage", "Amount", "ResponseID", "Estimated")
			if diff := cmp.Diff(want, got, measured); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got.StartedAt.IsZero() || got.Duration <= 0 || got.Charged != (got.FirstToken > 0 && got.Code == "") || got.Charged != (got.Usage.Total() > 0) {
				t.Errorf("%+v", got)
			}
			if wants := got.Status == 200 && got.Route == route; wants != (got.ResponseID != "") {
				t.Errorf("the reply's id is %q", got.ResponseID)
			}
		})
	}
}
