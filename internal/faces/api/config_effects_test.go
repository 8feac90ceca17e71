package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// TestADraftSaysWhatItEnds adds the first vendor to a service that the sandbox answers: a server that
// lists its models, and one whose list cannot be read.
func TestADraftSaysWhatItEnds(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var space struct{ ID string }
	c.Want(201, "POST", "/api/v1/spaces", object{"name": "desk"}).JSON(&space)
	for i, model := range []string{"auto", "alpha-haiku-4-5", "alpha-haiku-4-5"} {
		c.Want(201, "POST", "/api/v1/api-agents", object{"spaceId": space.ID, "name": fmt.Sprint("agent ", i), "instructions": "Help.", "model": model})
	}
	lists := &lister{models: []string{"llama3.2:latest", "qwen3:4b"}}
	url := lists.serve(t).BaseURL
	silent := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(silent.Close)
	provider := func(url string) object {
		return object{"providers": []object{{"name": "mine", "wire": "chat", "dialect": "compatible", "baseURL": url, "apiKey": fakeup.Key, "discover": true}}}
	}
	var meta contract.Meta
	c.Want(200, "GET", "/api/v1/meta", nil).JSON(&meta)
	for _, tt := range []struct {
		name, url string
		kinds     []string
		texts     []string
		agents    int64
		confirm   bool
	}{
		{"a list", url, []string{"models_stop", "auto_changes", "agents_stop"}, []string{fmt.Sprintf("%d models stop, which the sandbox answers now", len(meta.Models)), "`auto` will be llama3.2:latest instead of ", "2 agents stop"}, 2, false},
		{"no list", silent.URL + "/v1", []string{"models_stop", "auto_stops", "list_unread", "agents_stop"}, []string{"models stop", "`auto` will have no model", "status 404", "3 agents stop"}, 3, true},
	} {
		c.Want(200, "PUT", configPath+"/draft", object{"settings": provider(tt.url)})
		var check contract.ConfigCheck
		c.Want(200, "POST", configPath+"/draft/check", nil).JSON(&check)
		var kinds []string
		confirm, agents := false, int64(0)
		for i, e := range check.Effects {
			kinds = append(kinds, string(e.Kind))
			confirm, agents = confirm || e.Confirm, agents+e.Agents
			if i < len(tt.texts) && !strings.Contains(e.Text, tt.texts[i]) {
				t.Errorf("%s: %q, without %q", tt.name, e.Text, tt.texts[i])
			}
		}
		if !slices.Equal(kinds, tt.kinds) || confirm != tt.confirm || agents != tt.agents || !check.Ok {
			t.Errorf("%s: %+v", tt.name, check)
		}
	}
	c.Want(200, "PUT", configPath+"/draft", object{"settings": object{}})
	var check contract.ConfigCheck
	if c.Want(200, "POST", configPath+"/draft/check", nil).JSON(&check); len(check.Effects) != 0 {
		t.Errorf("a draft without changes: %+v", check.Effects)
	}
}

// TestADraftSaysWhomPricesConcern changes the price of a model that was used, and a plan that an account is on.
func TestADraftSaysWhomPricesConcern(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	c := h.Client(t)
	c.Want(200, "POST", responses, object{"model": "alpha-haiku-4-5", "input": "say: one"})
	c.Want(200, "PUT", configPath+"/draft", object{"settings": object{
		"models": object{"alpha-haiku-4-5": object{"price": object{"input": 20_000_000, "output": 20_000_000}}},
		"plans":  object{h.Account.Plan: object{"name": "Other", "requestsPerMinute": 7}},
	}})
	var check contract.ConfigCheck
	c.Want(200, "POST", configPath+"/draft/check", nil).JSON(&check)
	texts := map[string]string{}
	for _, e := range check.Effects {
		texts[string(e.Kind)] += e.Text
	}
	if got := texts["prices_change"]; !strings.HasPrefix(got, "`alpha-haiku-4-5`: input +1900 %, ") || !strings.Contains(got, "1 account used it; its calls would have cost +") {
		t.Errorf("%q of %+v", got, check)
	}
	if got, want := texts["plans_change"], "1 account is on the plan `"+h.Account.Plan+"`, whose limits or models change."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestADraftOfAListIsTested tests a provider that offers the models that its server lists, before it
// is in force.
func TestADraftOfAListIsTested(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	lists := &lister{models: []string{"llama3.2:latest", "qwen3:4b"}}
	url := lists.serve(t).BaseURL
	silent := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(silent.Close)
	for _, tt := range []struct {
		name, url, key, text string
		ok                   bool
	}{
		{"a right key", url, fakeup.Key, "The server lists 2 models: llama3.2:latest, qwen3:4b. It responded.", true},
		{"a wrong key", url, "sk-wrong", "The server lists 2 models: llama3.2:latest, qwen3:4b. The provider rejects the key", false},
		{"another server", silent.URL + "/v1", fakeup.Key, "status 404", false},
	} {
		c.Want(200, "PUT", configPath+"/draft", object{"settings": object{"providers": []object{{"name": "mine", "wire": "chat", "dialect": "compatible", "baseURL": tt.url, "apiKey": tt.key, "discover": true}}}})
		var tried contract.ProviderTest
		c.Want(200, "POST", configPath+"/draft/test", object{"provider": "mine"}).JSON(&tried)
		if tried.Ok != tt.ok || !strings.Contains(tried.Text, tt.text) || strings.Contains(tt.text, "lists") == tried.Model.IsNull() {
			t.Errorf("%s: %+v", tt.name, tried)
		}
	}
}

// TestAnUnreadListIsShown applies a provider whose list of models cannot be read, and calls the models
// that it should have.
func TestAnUnreadListIsShown(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(silent.Close)
	h := start(t, apitest.Config{Providers: []stoa.Provider{{Name: "mine", Wire: "chat", Dialect: "compatible", BaseURL: silent.URL + "/v1", APIKey: "x", Discover: stoa.Discovery{On: true}}}})
	c := h.Client(t)
	h.Discovery.Read(t.Context())
	for range 3 {
		c.WantError(stoa.CodeModelUnavailable, "POST", responses, object{"model": "auto", "input": "hi"})
	}
	var list contract.ProviderList
	c.Want(200, "GET", "/api/v1/providers", nil).JSON(&list)
	for _, p := range list.Data {
		switch {
		case p.Name == "mine" && (p.ListProblem.IsNull() || !strings.Contains(p.ListProblem.MustGet(), "status 404")):
			t.Errorf("%+v", p)
		case p.Name == "sandbox" && !p.Disabled:
			t.Error("the sandbox serves nothing, and is not disabled")
		}
	}
	if recent := recently(t, h); recent.Unserved.Hour != 3 || recent.Unserved.Day != 3 {
		t.Errorf("%+v", recent.Unserved)
	}
	var d contract.Diagnosis
	c.Want(200, "GET", "/api/v1/doctor", nil).JSON(&d)
	for _, check := range d.Checks {
		if check.Name == "providers" && (check.Status != "attention" || !strings.Contains(check.Summary, "`auto`")) {
			t.Errorf("%+v", check)
		}
	}
}
