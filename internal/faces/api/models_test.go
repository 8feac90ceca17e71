package api_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

func TestModelsAreListedAsClientsDo(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Plans: []stoa.Plan{{ID: "pro", Name: "Without gated models"}}})
	c := h.Client(t)
	var list contract.ModelObjectList
	c.Want(200, "GET", "/api/v1/models?client_version=1", nil).JSON(&list)
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
		if m.Object != "model" || m.OwnedBy != "stoa" || m.Created != list.Data[0].Created || m.Created < 1_700_000_000 {
			t.Errorf("a model is %+v", m)
		}
	}
	if list.Object != "list" || !slices.Contains(ids, "beta-3.8-flash") || ids[0] != "auto" || !slices.IsSorted(ids[1:]) {
		t.Errorf("%s of %v", list.Object, ids)
	}
	if slices.Contains(ids, "alpha-opus-5-5") {
		t.Errorf("models that the plan does not include are listed: %v", ids)
	}
	var one contract.ModelObject
	c.Want(200, "GET", "/api/v1/models/alpha-sonnet-5", nil).JSON(&one)
	if one.ID != "alpha-sonnet-5-5" {
		t.Errorf("the alias is answered with %+v", one)
	}
	for _, id := range []string{"nope", "alpha-opus-5-5", "a%2Fb"} {
		c.WantError(stoa.CodeNotFound, "GET", "/api/v1/models/"+id, nil)
	}
	var meta contract.Meta
	c.Want(200, "GET", "/api/v1/meta", nil).JSON(&meta)
	if !slices.Equal(meta.Extensions, config.AllExtensions().Names()) {
		t.Errorf("meta says %v", meta.Extensions)
	}
}

func TestModelsHaveTheFormOfAnthropicsClients(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.ClientWith(t, "").With("X-Api-Key", h.Key).With("anthropic-version", "2023-06-01")
	var list contract.ModelInfoList
	c.Want(200, "GET", "/api/v1/models?limit=1000", nil).JSON(&list)
	if len(list.Data) < 10 || list.HasMore || list.FirstID != list.Data[0].ID || list.LastID != list.Data[len(list.Data)-1].ID {
		t.Errorf("the list is %+v", list)
	}
	var one contract.ModelInfo
	c.Want(200, "GET", "/api/v1/models/auto", nil).JSON(&one)
	if one.Type != "model" || one.ID != "auto" || one.DisplayName != "auto" || one.CreatedAt.Time().IsZero() {
		t.Errorf("auto is %+v", one)
	}
	// This header is a key only on these clients' paths, and never together with the
	// other.
	c.WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
	c.With("Authorization", "Bearer sk_x").WantError(stoa.CodeUnauthorized, "GET", "/api/v1/models", nil)
}

func TestWithoutExtensionsNothingShowsThem(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Version1: true})
	owner := h.Key
	for _, path := range []string{"/api/v1/models", "/api/v1/models/auto", "/v1/responses", "/v1/models"} {
		for _, h.Key = range []string{"", owner} {
			status, text := plainly(t, h, "GET", path, "")
			if status != http.StatusNotFound || strings.HasPrefix(path, "/api") && !strings.Contains(text, `"code":"not_found"`) {
				t.Errorf("%s answers %d %s", path, status, text)
			}
		}
	}
	var meta map[string]any
	h.Client(t).Want(200, "GET", "/api/v1/meta", nil).JSON(&meta)
	if _, there := meta["extensions"]; there {
		t.Errorf("meta has extensions: %v", meta["extensions"])
	}
}

func TestTheAliasOfVersion1AnswersAlike(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	if status, text := plainly(t, h, "POST", "/v1/responses", `{"model": "auto", "input": "say: yes"}`); status != 200 || !strings.Contains(text, `"text":"yes"`) {
		t.Errorf("a call is answered with %d %s", status, text)
	}
	receipt(t, h)
	for _, path := range []string{"/models", "/models/auto", "/credits", "/openapi.json"} {
		status, text := plainly(t, h, "GET", "/v1"+path, "")
		if _, want := plainly(t, h, "GET", "/api/v1"+path, ""); status != 200 || text != want {
			t.Errorf("/v1%s answers %d %s", path, status, text)
		}
	}
	if status, text := plainly(t, h, "GET", "/v1/models/a%2Fb", ""); status != 404 || !strings.Contains(text, "no such model") {
		t.Errorf("an escaped path answers %d %s", status, text)
	}
	if status, text := plainly(t, h, "GET", "/v1x", ""); status != 404 {
		t.Errorf("a path beside it answers %d %s", status, text)
	}
}

// plainly sends a request without holding the reply against the contract.
func plainly(t *testing.T, h *apitest.Service, method, path, text string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(reply)
}

// TestAliasSetsServeClientsDefaultNames calls with names that Claude Code and Codex send, and
// reads the list that Claude Code shows.
func TestAliasSetsServeClientsDefaultNames(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{AliasSets: []string{"anthropic", "openai"}, Plans: []stoa.Plan{{ID: "pro", Name: "Without gated models"}}})
	c := h.Client(t)
	for asked, want := range map[string]string{"claude-sonnet-5-5": "alpha-sonnet-5-5", "claude-haiku-4-5-20251001": "alpha-haiku-4-5", "gpt-6-luna": "gamma-6-luna", "claude-opus-5-5": "beta-3.8-flash"} {
		var reply contract.Response
		c.Want(200, "POST", responses, body{"model": asked, "input": "Hi"}).JSON(&reply)
		if reply.Model != want {
			t.Errorf("%s is served by %s, want %s", asked, reply.Model, want)
		}
	}
	c.WantError(stoa.CodeModelNotInPlan, "POST", responses, body{"model": "claude-opus-5-5", "input": "Hi", "strict_model": true})
	var list contract.ModelInfoList
	c.With("anthropic-version", "2023-06-01").Want(200, "GET", "/api/v1/models", nil).JSON(&list)
	var ids []string
	for _, m := range list.Data {
		if strings.HasPrefix(m.ID, "claude-") {
			ids = append(ids, m.ID)
		}
	}
	if !slices.Equal(ids, []string{"claude-haiku-4-5", "claude-sonnet-5-5"}) || list.LastID != "claude-sonnet-5-5" {
		t.Errorf("the list has %v and ends with %s", ids, list.LastID)
	}
	var one contract.ModelInfo
	c.With("anthropic-version", "2023-06-01").Want(200, "GET", "/api/v1/models/claude-haiku-4-5", nil).JSON(&one)
	if one.ID != "alpha-haiku-4-5" {
		t.Errorf("one entry is %+v", one)
	}
}

// TestModelsSayWhatTheyAcceptAndCost reads the members that clients of OpenRouter read.
func TestModelsSayWhatTheyAcceptAndCost(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	var list contract.ModelObjectList
	raw := c.Want(200, "GET", "/api/v1/models", nil)
	raw.JSON(&list)
	models := map[string]contract.ModelObject{}
	for _, m := range list.Data {
		models[m.ID] = m
	}
	haiku := models["alpha-haiku-4-5"]
	want := contract.ModelObject{
		ID: "alpha-haiku-4-5", Object: "model", Created: haiku.Created, OwnedBy: "stoa", Name: "alpha-haiku-4-5", ContextLength: 200_000,
		TopProvider:         contract.ModelTopProvider{MaxCompletionTokens: 64_000},
		Architecture:        contract.ModelArchitecture{InputModalities: []string{"text", "image", "file"}, OutputModalities: []string{"text"}},
		Pricing:             contract.ModelPricing{Prompt: "0.000001", Completion: "0.000005", InputCacheRead: "0.0000001", InputCacheWrite: "0.00000125"},
		SupportedParameters: []string{"max_tokens", "stop", "temperature", "top_p", "top_k", "tools", "tool_choice", "parallel_tool_calls", "response_format", "structured_outputs"},
	}
	if diff := cmp.Diff(want, haiku); diff != "" {
		t.Errorf("a model (-want +got):\n%s", diff)
	}
	for id, has := range map[string]string{
		"alpha-opus-5-5": "max_tokens stop reasoning tools tool_choice parallel_tool_calls response_format structured_outputs",
		"gamma-6.1-sol":  "max_tokens stop reasoning verbosity tools tool_choice parallel_tool_calls response_format structured_outputs",
		"delta-v4-flash": "max_tokens stop temperature top_p reasoning tools tool_choice parallel_tool_calls response_format",
	} {
		if got := strings.Join(models[id].SupportedParameters, " "); got != has {
			t.Errorf("%s supports %s, want %s", id, got, has)
		}
	}
	if got := models["delta-v4-flash"].Architecture.InputModalities; !slices.Equal(got, []string{"text"}) {
		t.Errorf("a model without images accepts %v", got)
	}
	if auto := models["auto"]; auto.Name != "auto" || auto.SupportedParameters != nil || auto.ContextLength != 0 || !strings.Contains(string(raw.Body), `"name":"auto","object":"model","owned_by":"stoa"}`) {
		t.Errorf("auto is %+v in %.300s", auto, raw.Body)
	}
	var one contract.ModelObject
	c.Want(200, "GET", "/api/v1/models/alpha-haiku-4-5", nil).JSON(&one)
	if diff := cmp.Diff(haiku, one); diff != "" {
		t.Errorf("alone it differs: %s", diff)
	}
}

// TestPricesOfOneOwnAreNotDollars has an operator whose credit may be anything.
func TestPricesOfOneOwnAreNotDollars(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Models: map[string]stoa.ModelChange{"gamma-6-luna": {Price: &stoa.Tariff{Input: 7, Output: 9}}}})
	var own, shipped contract.ModelObject
	h.Client(t).Want(200, "GET", "/api/v1/models/gamma-6-luna", nil).JSON(&own)
	h.Client(t).Want(200, "GET", "/api/v1/models/alpha-haiku-4-5", nil).JSON(&shipped)
	if own.Pricing != (contract.ModelPricing{}) || own.ContextLength == 0 || shipped.Pricing.Prompt == "" {
		t.Errorf("own %+v, shipped %+v", own, shipped)
	}
}
