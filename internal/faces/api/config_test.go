package api_test

import (
	"cmp"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

const configPath = "/api/v1/config"

// managedVendor starts a provider, and returns it in the form of the settings.
func managedVendor(t *testing.T, name, key string) object {
	t.Helper()
	up := fakeup.Start(t, fakeup.Options{Key: cmp.Or(key, fakeup.Key)})
	return object{"name": name, "wire": "messages", "baseURL": up.URL, "apiKey": key}
}

// applied applies settings and waits until they are in force.
func applied(t *testing.T, c *apitest.Client, settings object) (v contract.ConfigVersion) {
	t.Helper()
	c.Want(200, "PUT", configPath+"/draft", object{"settings": settings})
	c.Want(201, "POST", configPath+"/draft/apply", object{"note": "a test"}).JSON(&v)
	inForce(c, v.Version)
	return v
}

// inForce waits until a version is in force, and returns the settings.
func inForce(c *apitest.Client, version int64) (now contract.Config) {
	for now.Version != version {
		c.Want(200, "GET", configPath, nil).JSON(&now)
	}
	return now
}

func TestALifeOfManagedSettings(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	call := func() string {
		t.Helper()
		r := c.Do("POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "hi"})
		if r.Status != 200 {
			return string(r.Error().Code)
		}
		return receipts(t, h)[0].Price.Version
	}
	shipped := call()

	var d contract.ConfigDraft
	r := c.Want(200, "GET", configPath+"/draft", nil)
	r.JSON(&d)
	if d.Exists || string(d.Settings) != "{}" || d.BaseVersion != 0 {
		t.Errorf("without a draft: %+v", d)
	}
	const secret = "sk-vendor-4711"
	provider := managedVendor(t, "claude", secret)
	settings := object{
		"providers": []object{provider}, "families": object{"alpha": []object{{"provider": "claude"}}},
		"models": object{"alpha-haiku-4-5": object{"price": object{"input": 3_000_000, "output": 6_000_000}}},
		"plans":  object{"team": object{"name": "Team"}}, "aliases": []object{{"match": "small-*", "model": "alpha-haiku-4-5"}}, "auto": []string{"alpha-haiku-4-5"},
	}
	r = c.Want(200, "PUT", configPath+"/draft", object{"settings": settings})
	r.JSON(&d)
	if !d.Exists || strings.Contains(string(d.Settings), secret) || !strings.Contains(string(d.Settings), config.Masked) {
		t.Errorf("the draft is %s", d.Settings)
	}
	var check contract.ConfigCheck
	c.Want(200, "POST", configPath+"/draft/check", nil).JSON(&check)
	if !check.Ok || len(check.Changes) != 6 || len(check.Problems) != 0 || len(check.Prices) != 1 || check.Prices[0].After.MustGet().Input != 3_000_000 {
		t.Errorf("the check is %+v", check)
	}
	var tried contract.ProviderTest
	c.Want(200, "POST", configPath+"/draft/test", object{"provider": "claude"}).JSON(&tried)
	if !tried.Ok || tried.Attempts != 1 {
		t.Errorf("the test of the draft is %+v", tried)
	}
	if got := call(); got != shipped {
		t.Errorf("before it is applied, the price is %s", got)
	}
	stale := c.With("If-Match", `"r1"`)
	stale.WantError(stoa.CodePrecondition, "POST", configPath+"/draft/apply", nil)
	stale.WantError(stoa.CodePrecondition, "PUT", configPath+"/draft", object{"settings": settings})
	stale.WantError(stoa.CodePrecondition, "DELETE", configPath+"/draft", nil)
	once := c.With("If-Match", r.Header.Get("ETag")).With("Idempotency-Key", "apply-1")
	var v contract.ConfigVersion
	once.Want(201, "POST", configPath+"/draft/apply", object{"note": "first"}).JSON(&v)
	once.Want(201, "POST", configPath+"/draft/apply", object{"note": "first"})
	if v.Version != 1 || v.Note.MustGet() != "first" || len(v.Changes) != 6 || v.Author == "" {
		t.Errorf("the version is %+v", v)
	}
	now := inForce(c, 1)
	sources := map[string]contract.ConfigItem{}
	for _, i := range now.Data {
		sources[i.Kind+" "+i.Name] = i
	}
	for name, source := range map[string]string{
		"provider claude": "managed", "family alpha": "managed", "model alpha-haiku-4-5": "managed", "model alpha-sonnet-5-5": "shipped", "plan team": "managed",
		"plan free": "shipped", "alias small-*": "managed", "auto auto": "managed",
	} {
		if got := sources[name]; got.Source != source || !got.Where.IsNull() || got.Shadowed {
			t.Errorf("the source of %s is %+v", name, got)
		}
	}
	if text := string(c.Want(200, "GET", configPath, nil).Body); strings.Contains(text, secret) || strings.Contains(text, "pky_") {
		t.Errorf("the settings in force show the key: %s", text)
	}
	first := call()
	if first == shipped || !strings.HasPrefix(first, "own-") {
		t.Errorf("after it was applied, the price is %s", first)
	}
	c.Want(200, "POST", "/api/v1/responses", object{"model": "small-one", "input": "hi"})
	c.WantError(stoa.CodeConflict, "POST", configPath+"/draft/apply", nil)

	// The mask keeps the key, for the same server only.
	provider["apiKey"] = config.Masked
	settings["models"] = object{"alpha-haiku-4-5": object{"price": object{"input": 4_000_000, "output": 6_000_000}}}
	second := applied(t, c, settings)
	if len(second.Changes) != 1 || second.Changes[0] != "models.alpha-haiku-4-5 changed" {
		t.Errorf("the second version has %q", second.Changes)
	}
	if got := call(); got == first || !strings.HasPrefix(got, "own-") {
		t.Errorf("the second price is %s", got)
	}
	other := managedVendor(t, "claude", config.Masked)
	if e := c.WantError(stoa.CodeInvalidValue, "PUT", configPath+"/draft", object{"settings": object{"providers": []object{other}}}); *e.Param != "settings.providers[0].apiKey" {
		t.Errorf("the mask with another server: %+v", e)
	}
	other["name"] = "new"
	c.WantError(stoa.CodeInvalidValue, "PUT", configPath+"/draft", object{"settings": object{"providers": []object{other}}})

	var restored contract.ConfigVersion
	c.Want(201, "POST", configPath+"/versions/1/restore", nil).JSON(&restored)
	inForce(c, 3)
	if got := call(); restored.Version != 3 || got != first {
		t.Errorf("restored as %+v, the price is %s", restored, got)
	}
	c.WantError(stoa.CodeConflict, "POST", configPath+"/versions/1/restore", nil)
	for _, n := range []string{"0", "9", "x"} {
		c.WantError(stoa.CodeNotFound, "GET", configPath+"/versions/"+n, nil)
		c.WantError(stoa.CodeNotFound, "POST", configPath+"/versions/"+n+"/restore", nil)
	}
	var list page[contract.ConfigVersion]
	c.Want(200, "GET", configPath+"/versions?limit=2", nil).JSON(&list)
	if name := list.Data[0].AuthorName; name == "" {
		t.Errorf("the author of %+v has no name", list.Data[0])
	}
	if len(list.Data) != 2 || list.Data[0].Version != 3 || !list.HasMore {
		t.Errorf("the versions are %+v", list)
	}
	c.Want(200, "GET", configPath+"/versions?limit=2&cursor="+*list.NextCursor, nil).JSON(&list)
	if len(list.Data) != 1 || list.Data[0].Version != 1 || list.HasMore {
		t.Errorf("the next page is %+v", list)
	}
	var detail contract.ConfigVersionDetail
	c.Want(200, "GET", configPath+"/versions/1", nil).JSON(&detail)
	if !strings.Contains(string(detail.Settings), config.Masked) || strings.Contains(string(detail.Settings), "pky_") {
		t.Errorf("version 1 has %s", detail.Settings)
	}
	var nodes contract.NodeList
	for len(nodes.Data) == 0 || nodes.Data[0].ConfigVersion != 3 { // reported after it is in force
		c.Want(200, "GET", "/api/v1/nodes", nil).JSON(&nodes)
	}
	var entries page[contract.AuditEntry]
	c.Want(200, "GET", "/api/v1/audit?accountId=service", nil).JSON(&entries)
	if len(entries.Data) != 3 || entries.Data[0].Action != "restoreConfigVersion" || entries.Data[2].Object != "cfg_1" {
		t.Errorf("the audit log has %+v", entries.Data)
	}
	c.Want(200, "PUT", configPath+"/draft", object{"settings": object{}})
	c.Want(204, "DELETE", configPath+"/draft", nil)
	c.Want(204, "DELETE", configPath+"/draft", nil)
}

func TestDraftsAreChecked(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	for name, test := range map[string]struct {
		settings any
		param    string
	}{
		"an unknown name":    {object{"provider": []object{}}, "settings.provider"},
		"another type":       {object{"providers": object{}}, "settings.providers"},
		"a key's variable":   {object{"providers": []object{{"name": "a", "wire": "chat", "apiKeyEnv": "PATH"}}}, "settings.providers[0].apiKeyEnv"},
		"a key's file":       {object{"providers": []object{{"name": "a", "wire": "chat", "apiKeyFile": "/etc/passwd"}}}, "settings.providers[0].apiKeyFile"},
		"a price in words":   {object{"models": object{"m": object{"price": object{"input": "much"}}}}, "settings.models.m.price.input"},
		"a setting not here": {object{"listen": ":80"}, "settings.listen"},
	} {
		if e := c.WantError(stoa.CodeInvalidValue, "PUT", configPath+"/draft", object{"settings": test.settings}); *e.Param != test.param {
			t.Errorf("%s: %+v", name, e)
		}
	}
	c.WantError(stoa.CodeInvalidType, "PUT", configPath+"/draft", object{"settings": 5})
	settings := object{
		"providers": []object{{"name": "a", "wire": "chat", "baseURL": "http://127.0.0.1:1/v1"}, {"name": "b", "wire": "fax"}},
		"families":  object{"alpha": []object{{"provider": "c"}}}, "models": object{"m": object{"family": "own"}}, "aliases": []object{{"match": "x", "model": "nothing"}},
	}
	c.Want(200, "PUT", configPath+"/draft", object{"settings": settings})
	var check contract.ConfigCheck
	c.Want(200, "POST", configPath+"/draft/check", nil).JSON(&check)
	var paths []string
	for _, p := range check.Problems {
		paths = append(paths, p.Path)
		if p.Message == "" || !p.Where.IsNull() {
			t.Errorf("a problem is %+v", p)
		}
	}
	for _, want := range []string{"providers[1].wire", "families.alpha[0].provider", "models.m.price", "aliases[0].model"} {
		if !strings.Contains(strings.Join(paths, " "), want) {
			t.Errorf("the problems are at %q, without %s", paths, want)
		}
	}
	if e := c.WantError(stoa.CodeInvalidValue, "POST", configPath+"/draft/apply", nil); check.Ok || !strings.HasPrefix(*e.Param, "settings.") {
		t.Errorf("the check is %v, the error %+v", check.Ok, e)
	}
	c.WantError(stoa.CodeInvalidValue, "POST", configPath+"/draft/test", object{"provider": "a"})
	c.Want(200, "PUT", configPath+"/draft", object{"settings": object{"providers": settings["providers"].([]object)[:1]}})
	c.WantError(stoa.CodeNotFound, "POST", configPath+"/draft/test", object{"provider": "b"})
	var tried contract.ProviderTest
	c.Want(200, "POST", configPath+"/draft/test", object{"provider": "a"}).JSON(&tried)
	if tried.Ok || !tried.Model.IsNull() {
		t.Errorf("the test of a provider without models is %+v", tried)
	}
	key, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	h.ClientWith(t, key).WantError(stoa.CodeScope, "GET", configPath, nil)
	reader, _ := h.NewKey(h.Account.ID, stoa.ScopeOperatorRead)
	h.ClientWith(t, reader).Want(200, "POST", configPath+"/draft/check", nil)
	h.ClientWith(t, reader).WantError(stoa.CodeScope, "POST", configPath+"/draft/apply", nil)
}

// TestTheFileTakesPrecedence begins with managed settings, and then with a file that has the same
// names.
func TestTheFileTakesPrecedence(t *testing.T) {
	t.Parallel()
	file, err := config.Load(config.Flags{Config: "stoa.yaml"}, func(name string) string {
		return map[string]string{"GEMINI_API_KEY": "key"}[name]
	}, func(string) ([]byte, error) {
		return []byte("plans:\n  team: {name: File}\nproviders:\n  - {name: gpu, wire: chat, baseURL: \"http://127.0.0.1:1/v1\", discover: true}\nauto: [alpha-haiku-4-5]\naliases:\n  - {match: x, model: auto}\n"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, apitest.Config{File: &file, Idle: true})
	c := h.Client(t)
	for path, test := range map[string]struct {
		settings object
		where    string
	}{
		"plans.team":       {object{"plans": object{"team": object{"name": "Other"}}}, "stoa.yaml:2"},
		"providers.gpu":    {object{"providers": []object{{"name": "gpu", "wire": "messages"}}}, "stoa.yaml:4"},
		"providers.gemini": {object{"providers": []object{{"name": "gemini", "wire": "gemini"}}}, "GEMINI_API_KEY"},
		"families.beta":    {object{"families": object{"beta": []object{{"provider": "gpu"}}}}, "GEMINI_API_KEY"},
		"auto":             {object{"auto": []string{"beta-3.8-flash"}}, "stoa.yaml:5"},
		"aliases.x":        {object{"aliases": []object{{"match": "x", "model": "beta-3.8-flash"}}}, "stoa.yaml:7"},
	} {
		e := c.WantError(stoa.CodeSetInFile, "PUT", configPath+"/draft", object{"settings": test.settings})
		if !strings.Contains(e.Message, path+" is set in "+test.where) {
			t.Errorf("%s: %s", path, e.Message)
		}
	}
	applied(t, c, object{"plans": object{"free": object{"requestsPerMinute": 7}}, "families": object{"alpha": []object{{"provider": "gpu", "model": "x"}}}})
	for _, i := range inForce(c, 1).Data {
		if i.Kind == "plan" && i.Name == "team" && (i.Source != "file" || !strings.HasPrefix(i.Where.MustGet(), "stoa.yaml:2")) ||
			i.Kind == "family" && i.Name == "beta" && (i.Source != "environment" || i.Where.MustGet() != "GEMINI_API_KEY") {
			t.Errorf("%+v", i)
		}
	}
}

// TestAProviderHasSeveralKeys gives a provider a key that the vendor accepts and one that it
// refuses: calls are spread over them, and the other key serves what one cannot.
func TestAProviderHasSeveralKeys(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	p := managedVendor(t, "claude", "")
	delete(p, "apiKey")
	p["keys"] = []object{{"id": "old", "secret": "refused"}, {"id": "new", "secret": fakeup.Key, "weight": 3}}
	settings := object{"providers": []object{p}, "families": object{"alpha": []object{{"provider": "claude"}}}}
	applied(t, c, settings)
	reasons := map[string]bool{}
	for i := 0; i < 12 || i < 200 && !reasons["failover"]; i++ { // the account's id is random, and so is which key is the first
		c.Want(200, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "hi", "prompt_cache_key": string(rune('a' + i))})
		r := receipts(t, h)[0]
		reasons[string(r.Route)] = true
		if r.RouteKey != "new" || r.Provider != "claude" {
			t.Errorf("call %d was served by %s, %s", i, r.Provider, r.RouteKey)
		}
	}
	if !reasons["cache"] || !reasons["failover"] {
		t.Errorf("the reasons were %v", reasons)
	}
	var list page[contract.Receipt]
	c.Want(200, "GET", "/api/v1/receipts", nil).JSON(&list)
	if list.Data[0].Route.Key.MustGet() != "new" {
		t.Errorf("a receipt has %+v", list.Data[0].Route)
	}
	var providers contract.ProviderList
	c.Want(200, "GET", "/api/v1/providers", nil).JSON(&providers)
	if len(providers.Data) != 3 || providers.Data[0].Name != "claude#new" || len(providers.Data[0].Models) == 0 {
		t.Errorf("the providers are %+v", providers.Data)
	}
	c.Want(200, "POST", "/api/v1/providers/claude/test", nil)
	var tried contract.ProviderTest
	c.Want(200, "POST", "/api/v1/providers/claude%23old/test", nil).JSON(&tried)
	if tried.Ok || tried.Status.MustGet() != 401 {
		t.Errorf("the old key is %+v", tried)
	}
	// The mask keeps each key; one that has another id needs its text.
	keys := p["keys"].([]object)
	keys[0]["secret"], keys[1]["secret"], keys[1]["weight"] = config.Masked, config.Masked, 1
	applied(t, c, settings)
	c.Want(200, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "hi"})
	keys[0]["id"] = "other"
	if e := c.WantError(stoa.CodeInvalidValue, "PUT", configPath+"/draft", object{"settings": settings}); *e.Param != "settings.providers[0].keys[0].secret" {
		t.Errorf("the mask with another id: %+v", e)
	}
	keys[0] = object{"id": "new", "env": "PATH"}
	c.WantError(stoa.CodeInvalidValue, "PUT", configPath+"/draft", object{"settings": settings})
	keys[0] = object{"id": "new", "secret": "x"}
	c.Want(200, "PUT", configPath+"/draft", object{"settings": settings})
	c.WantError(stoa.CodeInvalidValue, "POST", configPath+"/draft/apply", nil) // two keys with one id
}

// A provider that is disabled keeps its settings and gets no call.
func TestAProviderIsDisabled(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	p := managedVendor(t, "claude", "a-key")
	settings := object{"providers": []object{p}, "families": object{"alpha": []object{{"provider": "claude"}}}}
	applied(t, c, settings)
	p["apiKey"], p["disabled"] = config.Masked, true
	applied(t, c, settings)
	c.WantError(stoa.CodeModelUnavailable, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "hi"})
	var list contract.ProviderList
	c.Want(200, "GET", "/api/v1/providers", nil).JSON(&list)
	if list.Data[0].Name != "claude" || !list.Data[0].Disabled || len(list.Data[0].Models) != 0 {
		t.Errorf("the providers are %+v", list.Data)
	}
	var tried contract.ProviderTest
	c.Want(200, "POST", "/api/v1/providers/claude/test", nil).JSON(&tried)
	if tried.Ok || tried.Attempts != 0 || !strings.Contains(tried.Text, "disabled") {
		t.Errorf("the test is %+v", tried)
	}
	var d contract.Diagnosis
	c.Want(200, "GET", "/api/v1/doctor", nil).JSON(&d)
	for _, check := range d.Checks {
		if check.Name == "providers" && (check.Status != "attention" || check.Count == 0 || check.Items[0].ID.MustGet() != "claude") {
			t.Errorf("the doctor has %+v", check)
		}
	}
	delete(p, "disabled")
	applied(t, c, settings)
	c.Want(200, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "hi"})
}
