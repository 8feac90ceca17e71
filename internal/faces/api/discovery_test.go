package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// A lister is a model server with the fake vendor's formats and a list of models.
type lister struct {
	*fakeup.Handler
	mu     sync.Mutex
	models []string // nil: 503
	reads  int
}

func (l *lister) serve(t *testing.T) stoa.Provider {
	t.Helper()
	l.Handler = fakeup.NewHandler(fakeup.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/models" {
			l.ServeHTTP(w, r)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reads++
		if l.models == nil {
			http.Error(w, "loading", http.StatusServiceUnavailable)
			return
		}
		list := []body{}
		for _, id := range l.models {
			list = append(list, body{"id": id, "object": "model", "max_model_len": 8192})
		}
		_ = json.NewEncoder(w).Encode(body{"object": "list", "data": list})
	}))
	t.Cleanup(server.Close)
	return stoa.Provider{Name: "upstream", Wire: "chat", Dialect: "compatible", BaseURL: server.URL + "/v1", APIKey: fakeup.Key, Discover: stoa.Discovery{On: true}}
}

func (l *lister) set(models ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.models = models
}

func (l *lister) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

// TestTheModelsOfAServerHaveTheirNames calls the models of STOA_UPSTREAM next to the families.
func TestTheModelsOfAServerHaveTheirNames(t *testing.T) {
	t.Parallel()
	l := &lister{}
	l.set("qwen3:4b", "org/other", "/not/an/id")
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{l.serve(t)}, Families: map[string][]stoa.Route{"alpha": {{Provider: "upstream", Model: "qwen3:4b"}}},
		Models: map[string]stoa.ModelChange{"org/other": {Family: "alpha", Price: &stoa.Tariff{Input: 5_000_000, CachedInput: 5_000_000, Output: 5_000_000}, Routes: []stoa.Route{{Provider: "upstream", Model: "org/other"}}}},
	})
	c := h.Client(t)
	for _, name := range []string{"qwen3:4b", "alpha-haiku-4-5", "org/other"} {
		var r struct {
			ID, Model string
			Receipt   contract.Receipt
		}
		reply := c.Want(200, "POST", responses, body{"model": name, "input": "say: hi"})
		reply.JSON(&r)
		c.Want(200, "GET", "/api/v1/receipts/"+r.ID, nil).JSON(&r.Receipt)
		if free := r.Receipt.CreditsMicro == 0; r.Model != name || reply.Text() != "hi" || free != (name == "qwen3:4b") {
			t.Errorf("%s: %s served %q for %d", name, r.Model, reply.Text(), r.Receipt.CreditsMicro)
		}
	}
	var list contract.ModelObjectList
	c.Want(200, "GET", "/api/v1/models", nil).JSON(&list)
	i := slices.IndexFunc(list.Data, func(m contract.ModelObject) bool { return m.ID == "qwen3:4b" })
	if i < 0 || list.Data[i].ContextLength != 8192 {
		t.Errorf("the list is %+v", list.Data)
	}
	reads := l.count()
	c.WantError(stoa.CodeModelNotFound, "POST", responses, body{"model": "/not/an/id", "input": "Hi"})
	c.WantError(stoa.CodeModelNotFound, "POST", responses, body{"model": "newer", "input": "Hi"})
	c.WantError(stoa.CodeModelNotFound, "POST", responses, body{"model": "newer", "input": "Hi"})
	if n := l.count(); n != reads {
		t.Errorf("%d reads of the list for unknown names within ten seconds of the last", n-reads)
	}
	// The next read of the list changes what can be called.
	l.set("newer")
	h.Discovery.Read(t.Context())
	c.Want(200, "POST", responses, body{"model": "newer", "input": "say: hi"})
	c.WantError(stoa.CodeModelNotFound, "POST", responses, body{"model": "qwen3:4b", "input": "Hi"})
	// A failed one does not.
	l.set()
	l.models = nil
	h.Discovery.Read(t.Context())
	c.Want(200, "POST", responses, body{"model": "newer", "input": "say: hi"})
	if d := modelsCheck(c); d.Status != "attention" || len(d.Items) != 1 || orNone(d.Items[0].ID) != "upstream" || !strings.Contains(d.Items[0].Detail, "status 503") {
		t.Errorf("%+v", d)
	}
	quiet(t, h)
}

// TestAServerIsDownAtTheStart starts before the server is ready.
func TestAServerIsDownAtTheStart(t *testing.T) {
	t.Parallel()
	l := &lister{}
	h := start(t, apitest.Config{Providers: []stoa.Provider{l.serve(t)}, Families: map[string][]stoa.Route{}})
	c := h.Client(t)
	for _, name := range []string{"m", "auto"} {
		c.WantError(stoa.CodeModelUnavailable, "POST", responses, body{"model": name, "input": "Hi"})
	}
	l.set("m", "n")
	h.Discovery.Read(t.Context())
	for name, served := range map[string]string{"n": "n", "auto": "m"} {
		var r struct{ Model string }
		if c.Want(200, "POST", responses, body{"model": name, "input": "say: hi"}).JSON(&r); r.Model != served {
			t.Errorf("%s: %s", name, r.Model)
		}
	}
	if d := modelsCheck(c); d.Status != "ok" {
		t.Errorf("%+v", d)
	}
	quiet(t, h)
}

// TestModelsWithoutAPriceAreNotOffered reports models at a public address.
func TestModelsWithoutAPriceAreNotOffered(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) {
		s.Doctor.Listings = func() []store.Finding { return []store.Finding{{ID: "upstream", Detail: "Set price."}} }
	}})
	if d := modelsCheck(h.Client(t)); d.Status != "attention" || d.Count != 1 || d.Items[0].Detail != "Set price." {
		t.Errorf("%+v", d)
	}
}

func modelsCheck(c *apitest.Client) (check contract.DiagnosisCheck) {
	var d contract.Diagnosis
	c.Want(200, "GET", "/api/v1/doctor", nil).JSON(&d)
	for _, check = range d.Checks {
		if check.Name == "models" {
			break
		}
	}
	return check
}
