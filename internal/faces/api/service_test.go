package api_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

func TestHealthHasTwoMembers(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	var health map[string]any
	h.ClientWith(t, "").Want(200, "GET", "/api/v1/health", nil).JSON(&health)
	if len(health) != 2 || health["status"] != "ok" || health["timestamp"] == nil {
		t.Errorf("health is %v", health)
	}
}

func TestMetaTellsModelsPlansAndLimits(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) { s.PublicURL = "https://stoa.example/"; s.Status.Version = "1.2.3" }})
	var meta contract.Meta
	h.ClientWith(t, "").Want(200, "GET", "/api/v1/meta", nil).JSON(&meta)
	i := slices.IndexFunc(meta.Models, func(m contract.Model) bool { return m.ID == "alpha-sonnet-5-5" })
	if i < 0 || !slices.Contains(meta.Models[i].Aliases, "alpha-sonnet-5") || !meta.Models[i].Available || meta.Models[i].Price.OutputMicroPerMillion <= 0 {
		t.Errorf("alpha-sonnet-5-5 is not as it should be in %+v", meta.Models)
	}
	i = slices.IndexFunc(meta.Models, func(m contract.Model) bool { return m.ID == "alpha-opus-5-5" })
	if i < 0 || !meta.Models[i].Gated || !slices.Contains(meta.Models[i].DeprecatedAliases, "alpha-opus-5") {
		t.Errorf("alpha-opus-5-5 is not as it should be in %+v", meta.Models)
	}
	if meta.Version != "1.2.3" || meta.DefaultModel == "" || len(meta.Plans) != 2 || meta.Limits.MaxBodyBytes != 16<<20 ||
		meta.Docs.Explorer != "https://stoa.example/api/v1/doc" {
		t.Errorf("meta is %+v", meta)
	}
}

func TestTheDescriptionIsServedWholePackedOrNotAtAll(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Version1: true})
	c := h.ClientWith(t, "")
	plain := c.Want(200, "GET", "/api/v1/openapi.json", nil)
	if !bytes.Equal(plain.Body, contract.For().JSON()) {
		t.Error("the description served is not the contract")
	}
	packed := c.With("Accept-Encoding", "br, gzip;q=0.5").Want(200, "GET", "/api/v1/openapi.json", nil)
	z, err := gzip.NewReader(bytes.NewReader(packed.Body))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, contract.For().JSON()) {
		t.Errorf("unpacked it is not the contract (%v)", err)
	}
	if refused := c.With("Accept-Encoding", "gzip;q=0").Want(200, "GET", "/api/v1/openapi.json", nil); refused.Header.Get("Content-Encoding") != "" {
		t.Error("packed for a client that refuses it")
	}
	tag := plain.Header.Get("ETag")
	if tag == packed.Header.Get("ETag") {
		t.Error("two forms share a strong ETag")
	}
	for _, value := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		c.With("If-None-Match", value).Want(304, "GET", "/api/v1/openapi.json", nil)
	}
	c.With("If-None-Match", `"x"`).Want(200, "GET", "/api/v1/openapi.json", nil)
}

func TestMetaNamesTheContactAndTheSandbox(t *testing.T) {
	t.Parallel()
	meta := func(h *apitest.Service) (m contract.Meta) {
		t.Helper()
		h.ClientWith(t, "").Want(200, "GET", "/api/v1/meta", nil).JSON(&m)
		return m
	}
	m := meta(start(t, apitest.Config{}))
	if !m.Contact.URL.IsNull() || !m.Contact.Email.IsNull() {
		t.Errorf("without a contact: %+v", m.Contact)
	}
	for _, model := range m.Models {
		if !model.Sandbox || !model.Available {
			t.Errorf("%s is served by the sandbox, and is %+v", model.ID, model)
		}
	}
	f := fakeup.Start(t)
	m = meta(start(t, apitest.Config{
		Providers: []stoa.Provider{f.Provider("messages")}, Families: map[string][]stoa.Route{"alpha": {{Provider: "messages"}}},
		Server: func(s *api.Server) {
			s.Status.Contact = config.Contact{URL: "https://example.com/top-up", Email: "help@example.com"}
		},
	}))
	if m.Contact.URL.MustGet() != "https://example.com/top-up" || m.Contact.Email.MustGet() != "help@example.com" {
		t.Errorf("%+v", m.Contact)
	}
	for _, model := range m.Models {
		if model.Sandbox || model.Available != (model.Family == "alpha") {
			t.Errorf("%s: %+v", model.ID, model)
		}
	}
}

func TestAKeyIsToldWhatIsLeftOfItsDay(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	me := func(c *apitest.Client) contract.KeyOfCaller {
		t.Helper()
		var u contract.User
		c.Want(200, "GET", "/api/v1/users/me", nil).JSON(&u)
		return u.Key
	}
	if k := me(c); !k.MaxCreditsMicroPerDay.IsNull() || !k.SpentTodayMicro.IsNull() {
		t.Errorf("without a cap: %+v", k)
	}
	var made contract.KeyWithSecret
	c.Want(201, "POST", "/api/v1/keys", object{"name": "capped", "scopes": []string{"responses"}, "maxCreditsMicroPerDay": 1_000_000}).JSON(&made)
	capped := h.ClientWith(t, made.Secret)
	if k := me(capped); k.MaxCreditsMicroPerDay.MustGet() != 1_000_000 || k.SpentTodayMicro.MustGet() != 0 {
		t.Errorf("before a call: %+v", k)
	}
	c.Want(200, "POST", "/api/v1/responses", hello)
	capped.Want(200, "POST", "/api/v1/responses", hello)
	all := receipts(t, h)
	if k := me(capped); len(all) != 2 || k.SpentTodayMicro.MustGet() != int64(all[0].Amount) || all[0].KeyID != made.ID {
		t.Errorf("after a call: %+v, the receipts are %+v", k, all)
	}
}
