package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
)

var (
	free = stoa.Plan{ID: "free"}
	pro  = stoa.Plan{ID: "pro", GatedModels: true}
)

// vendorProviders returns the providers that the keys of the four vendors enable.
func vendorProviders() []stoa.Provider {
	return []stoa.Provider{
		{Name: "anthropic", Wire: "messages"},
		{Name: "gemini", Wire: "gemini"},
		{Name: "openai", Wire: "responses"},
		{Name: "deepseek", Wire: "chat", Dialect: "deepseek"},
		{Name: "local", Wire: "chat", Dialect: "compatible"},
	}
}

// served returns options with every family at its own vendor.
func served() Options {
	return Options{Providers: vendorProviders(), Families: map[string][]stoa.Route{
		"alpha": {{Provider: "anthropic"}}, "beta": {{Provider: "gemini"}}, "gamma": {{Provider: "openai"}}, "delta": {{Provider: "deepseek"}},
	}}
}

func build(t *testing.T, opts Options) *Catalog {
	t.Helper()
	c, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// find returns the model that an identifier resolves to on an unlimited plan.
func find(t *testing.T, c *Catalog, id string) stoa.Model {
	t.Helper()
	res, err := c.Resolve(id, pro, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.Models[0]
}

func ids(models []stoa.Model) []string {
	var list []string
	for _, m := range models {
		list = append(list, m.ID)
	}
	return list
}

// TestTheShippedModels compares the shipped list with the documented table of
// identifiers.
func TestTheShippedModels(t *testing.T) {
	t.Parallel()
	want := []string{
		"alpha-haiku-4-5 alpha open", "alpha-sonnet-5-5 alpha open alpha-sonnet-5", "alpha-opus-5-5 alpha gated (alpha-opus-5)", "alpha-fable-5-1 alpha gated",
		"beta-3.1-pro beta open", "beta-3.1-flash beta open", "beta-3.7-flash beta open", "beta-3.8-flash beta open",
		"gamma-6.1-sol gamma gated (gamma-5.6-sol) (gamma-5.6-terra)", "gamma-6-luna gamma open (gamma-5.6-luna)",
		"delta-v4-flash delta gated", "delta-v4-pro delta gated",
	}
	var got []string
	for _, m := range build(t, Options{}).Models() {
		line := m.ID + " " + m.Family + " open"
		if m.Gated {
			line = m.ID + " " + m.Family + " gated"
		}
		for _, alias := range m.Aliases {
			line += " " + alias
		}
		for _, alias := range m.DeprecatedAliases {
			line += " (" + alias + ")"
		}
		got = append(got, line)
		if m.Price.Version == "" || m.Price.Input <= 0 || m.Price.Output <= m.Price.Input || m.Price.CachedInput <= 0 || m.Price.CachedInput > m.Price.Input || m.Price.Output > stoa.MaxRate {
			t.Errorf("%s: price %+v cannot be right", m.ID, m.Price)
		}
		if m.MaxOutput <= 0 || m.ContextTokens < m.MaxOutput || len(m.Routes) == 0 {
			t.Errorf("%s: %+v cannot be right", m.ID, m)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	auto := []string{"beta-3.8-flash", "gamma-6-luna", "alpha-haiku-4-5"}
	for _, tt := range []struct {
		name, asked string
		plan        stoa.Plan
		unhealthy   string
		models      []string
		reason      string
		requested   string
	}{
		{"an identifier", "alpha-haiku-4-5", free, "", []string{"alpha-haiku-4-5"}, "", "alpha-haiku-4-5"},
		{"an identifier that is not healthy", "alpha-haiku-4-5", free, "alpha", []string{"alpha-haiku-4-5"}, "", "alpha-haiku-4-5"},
		{"an alias", "alpha-sonnet-5", free, "", []string{"alpha-sonnet-5-5"}, "alias", "alpha-sonnet-5-5"},
		{"a deprecated name", "gamma-5.6-luna", free, "", []string{"gamma-6-luna"}, "alias", "gamma-6-luna"},
		{"a deprecated name of a gated model, with the plan", "gamma-5.6-terra", pro, "", []string{"gamma-6.1-sol"}, "alias", "gamma-6.1-sol"},
		{"a deprecated name of a gated model, without the plan", "alpha-opus-5", free, "", auto, "plan", "alpha-opus-5-5"},
		{"a gated model, with the plan", "delta-v4-pro", pro, "", []string{"delta-v4-pro"}, "", "delta-v4-pro"},
		{"a gated model, without the plan", "delta-v4-pro", free, "", auto, "plan", "delta-v4-pro"},
		{"auto", "auto", free, "", auto, "auto", ""},
		{"auto, its first choice not healthy", "auto", free, "beta", []string{"gamma-6-luna", "alpha-haiku-4-5", "beta-3.8-flash"}, "auto", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := build(t, served()).Resolve(tt.asked, tt.plan, func(m stoa.Model) bool { return m.Family != tt.unhealthy })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.models, ids(res.Models)); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
			if res.Asked != tt.asked || res.Reason != tt.reason || res.Requested.ID != tt.requested {
				t.Errorf("got asked %q, reason %q, requested %q", res.Asked, res.Reason, res.Requested.ID)
			}
			if tt.requested != "" && res.Requested.Price.Output == 0 {
				t.Error("the requested model has no price to cap the charge")
			}
		})
	}
}

func TestResolveRejectsUnknownNames(t *testing.T) {
	t.Parallel()
	c := build(t, served())
	for _, tt := range []struct{ name, asked, want string }{
		{"a slip", "alpha-sonet-5-5", `There is no model "alpha-sonet-5-5"; did you mean "alpha-sonnet-5-5"? The models are auto, `},
		{"other case", "Alpha-Haiku-4-5", `did you mean "alpha-haiku-4-5"?`},
		{"a vendor's name", "claude-opus-5-5", `did you mean "alpha-opus-5-5"?`},
		{"a vendor's name with its owner", "openai/gpt-6-luna", `did you mean "gamma-6-luna"?`},
		{"nothing alike", "llama", `There is no model "llama". The models are auto, alpha-haiku-4-5, `},
		{"space around", " auto", `did you mean "auto"?`},
		{"nothing", "", `There is no model "". The models are auto`},
		{"a novel", strings.Repeat("é", 5000), "…\". The models are auto"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.Resolve(tt.asked, pro, nil)
			e := stoa.AsError(err)
			if e.Code != stoa.CodeModelNotFound || e.Param != "model" || !strings.Contains(e.Message, tt.want) || len(e.Message) > 600 {
				t.Errorf("got %s (param %q), want %q", e.Message, e.Param, tt.want)
			}
		})
	}
}

func TestAFamilyWithoutAProviderIsUnavailable(t *testing.T) {
	t.Parallel()
	opts := Options{Providers: vendorProviders(), Families: map[string][]stoa.Route{"delta": {{Provider: "deepseek"}}}}
	c := build(t, opts)
	for _, asked := range []string{"alpha-haiku-4-5", "alpha-opus-5-5", "auto"} {
		_, err := c.Resolve(asked, pro, nil)
		if e := stoa.AsError(err); e.Code != stoa.CodeModelUnavailable || e.Param != "model" {
			t.Errorf("%s: got %v", asked, err)
		}
	}
	if got := ids([]stoa.Model{find(t, c, "delta-v4-pro")}); got[0] != "delta-v4-pro" {
		t.Errorf("the family that has one: got %v", got)
	}
	if got := c.DefaultModel(pro); got != "" {
		t.Errorf("default model: got %q", got)
	}
	for _, m := range c.Models() {
		if (len(m.Routes) > 0) != (m.Family == "delta") {
			t.Errorf("%s: available is %t", m.ID, (len(m.Routes) > 0))
		}
	}
}

func TestRoutesHaveUpstreamNamesAndTraits(t *testing.T) {
	t.Parallel()
	opts := served()
	opts.Families["alpha"] = []stoa.Route{{Provider: "anthropic"}, {Provider: "local", Model: "llama3.2"}, {Provider: "anthropic", Model: "claude-haiku-4-5"}, {Provider: "local", Model: "x", Override: &stoa.Traits{Sampling: "one"}}, {Provider: "local", Model: "claude-sonnet-5-5"}, {Provider: "local", Model: "deepseek-v4-pro"}, {Provider: "anthropic", Model: "deepseek-v4-pro"}}
	c := build(t, opts)
	sonnet := stoa.Traits{
		Sampling: "none", Efforts: []string{"low", "medium", "high", "xhigh", "max"}, ThinkingOff: "between_tools", NoPrefill: true,
		ForcedTools: "no", StrictTools: true, Schema: "native", MidSystem: true, Binding: true, Vision: true, ImageURL: true, ImageTokens: 4784, PDF: true,
	}
	haiku := stoa.Traits{Sampling: "one", StrictTools: true, Schema: "native", Vision: true, ImageURL: true, ImageTokens: 1600, PDF: true}
	want := []stoa.Route{
		{Provider: "anthropic", Model: "claude-sonnet-5-5", Wire: "messages", Traits: sonnet},
		{Provider: "local", Model: "llama3.2", Wire: "chat", Dialect: "compatible", Traits: stoa.Traits{Schema: "native"}},           // another wire: its traits are unknown
		{Provider: "anthropic", Model: "claude-haiku-4-5", Wire: "messages", Traits: haiku},                                          // another model of the vendor
		{Provider: "local", Model: "x", Wire: "chat", Dialect: "compatible", Traits: stoa.Traits{Sampling: "one", Schema: "native"}}, // the operator's setting applies
		{Provider: "local", Model: "claude-sonnet-5-5", Wire: "chat", Dialect: "compatible", Traits: stoa.Traits{Schema: "native"}},  // the vendor's model behind a third-party proxy
		{Provider: "local", Model: "deepseek-v4-pro", Wire: "chat", Dialect: "compatible", Traits: stoa.Traits{Schema: "native"}},    // the same wire, another dialect
		{Provider: "anthropic", Model: "deepseek-v4-pro", Wire: "messages"},                                                          // another vendor's model on this family's wire
	}
	if diff := cmp.Diff(want, find(t, c, "alpha-sonnet-5-5").Routes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for id, name := range map[string]string{"beta-3.1-pro": "gemini-3.1-pro", "gamma-6.1-sol": "gpt-6.1-sol", "delta-v4-pro": "deepseek-v4-pro"} {
		if got := find(t, c, id).Routes[0].Model; got != name {
			t.Errorf("%s: got %q, want %q", id, got, name)
		}
	}
}

func TestCompatibleServersTakeASchema(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wire, dialect string
		traits        *stoa.Traits
		want          string
	}{
		{"chat", "compatible", nil, "native"},
		{"chat", "", nil, "native"},
		{"chat", "compatible", &stoa.Traits{Vision: true}, "native"},
		{"chat", "compatible", &stoa.Traits{Schema: "json"}, "json"},
		{"chat", "compatible", &stoa.Traits{Schema: "none"}, ""},
		{"chat", "openai", nil, ""},
		{"responses", "", nil, ""}, // llama.cpp ignores it there
		{"messages", "", nil, ""},
	} {
		c := build(t, Options{
			Providers: []stoa.Provider{{Name: "p", Wire: tt.wire, Dialect: tt.dialect}},
			Families:  map[string][]stoa.Route{"local": {{Provider: "p", Model: "llama3.2", Override: tt.traits}}},
			Models:    map[string]stoa.ModelChange{"local-1": {Family: "local", Price: &stoa.Tariff{}}},
		})
		if got := find(t, c, "local-1").Routes[0].Traits.Schema; got != tt.want {
			t.Errorf("%s/%s with %+v: schema %q, want %q", tt.wire, tt.dialect, tt.traits, got, tt.want)
		}
	}
}

func TestTheSandboxServesOnlyAloneOrAlways(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		opts Options
		want string // provider of alpha-haiku-4-5; empty means unavailable
	}{
		{"no provider", Options{}, "sandbox"},
		{"no provider, off", Options{Sandbox: "off"}, ""},
		{"providers", served(), "anthropic"},
		{"providers, always", func() Options { o := served(); o.Sandbox = "always"; return o }(), "sandbox"},
		{"a provider of another family", Options{Providers: vendorProviders(), Families: map[string][]stoa.Route{"beta": {{Provider: "gemini"}}}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := build(t, tt.opts).Resolve("alpha-haiku-4-5", free, nil)
			if tt.want == "" {
				if stoa.CodeOf(err) != stoa.CodeModelUnavailable {
					t.Fatalf("got %v, %v", res, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			routes := res.Models[0].Routes
			if len(routes) != 1 || routes[0].Provider != tt.want {
				t.Errorf("routes: got %+v, want %s alone", routes, tt.want)
			}
			if tt.want == "sandbox" && (routes[0].Wire != "sandbox" || routes[0].Model != "alpha-haiku-4-5") {
				t.Errorf("sandbox route: got %+v", routes[0])
			}
		})
	}
}

func TestSettingsChangeAndAddModels(t *testing.T) {
	t.Parallel()
	opts := served()
	opts.Families["local"] = []stoa.Route{{Provider: "local", Model: "llama3.2"}}
	opts.Models = map[string]stoa.ModelChange{
		"delta-v4-flash":  {Gated: new(false), Price: &stoa.Tariff{Input: 7, CachedInput: 7, Output: 9}},
		"alpha-haiku-4-5": {MaxOutput: 4096, Routes: []stoa.Route{{Provider: "anthropic", Model: "claude-haiku-4-5-20251001"}}},
		"ours":            {Family: "local", Price: &stoa.Tariff{Input: 10, CachedInput: 2, Output: 20}, Aliases: []string{"our-own"}, ContextTokens: 8192},
		"alpha-latest":    {Family: "alpha", Price: &stoa.Tariff{}, Routes: []stoa.Route{{Provider: "anthropic", Model: "claude-opus-5-5"}}},
	}
	opts.Auto = []string{"ours", "delta-v4-flash"}
	c := build(t, opts)

	flash := find(t, c, "delta-v4-flash")
	if flash.Gated || flash.Price.Input != 7 || flash.Price.CachedInput != 7 || !strings.HasPrefix(flash.Price.Version, "own-") {
		t.Errorf("a changed model: %+v", flash)
	}
	haiku := find(t, c, "alpha-haiku-4-5")
	if haiku.MaxOutput != 4096 || haiku.DefaultOutput != 4096 || haiku.Routes[0].Model != "claude-haiku-4-5-20251001" || haiku.Routes[0].Traits.Sampling != "one" || haiku.Price.Input != 1_000_000 {
		t.Errorf("a dated snapshot: %+v", haiku)
	}
	ours := find(t, c, "our-own")
	if ours.ID != "ours" || ours.Price.CachedInput != 2 || ours.Routes[0].Model != "llama3.2" || ours.ContextTokens != 8192 {
		t.Errorf("an own model: %+v", ours)
	}
	if latest := find(t, c, "alpha-latest"); !latest.Routes[0].Traits.NoPrefill || latest.Price.Output != 0 {
		t.Errorf("an own name of a vendor's model: %+v", latest)
	}
	if got := find(t, c, "auto"); got.ID != "ours" || c.DefaultModel(free) != "ours" {
		t.Errorf("auto: got %s, default %s", got.ID, c.DefaultModel(free))
	}
}

func TestProblemsOfSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"auto with an unknown model", func(o *Options) { o.Auto = []string{"gamma-6-lune"} }, `auto[0]: there is no model "gamma-6-lune"; did you mean "gamma-6-luna"?`},
		{"auto with a gated model", func(o *Options) { o.Auto = []string{"gamma-6-luna", "alpha-opus-5"} }, `auto[1]: alpha-opus-5-5 is gated, and auto must not contain a gated model, because every plan may request it; remove it or set models.alpha-opus-5-5.gated: false`},
		{"auto with a model twice", func(o *Options) { o.Auto = []string{"gamma-6-luna", "gamma-5.6-luna"} }, `auto[1]: gamma-6-luna is in the list twice`},
		{"a model of the shipped auto gated", func(o *Options) { o.Models = map[string]stoa.ModelChange{"gamma-6-luna": {Gated: new(true)}} }, `models.gamma-6-luna.gated: gamma-6-luna is in the shipped list auto, which must not contain a gated model; set auto as well`},
		{"an own model without a price", func(o *Options) { o.Models = map[string]stoa.ModelChange{"mine": {Family: "local"}} }, `models.mine.price: a model without a price is not served; set price: {input: …, output: …} in micro-credits per million tokens (0 for free)`},
		{"an own model without a family", func(o *Options) { o.Models = map[string]stoa.ModelChange{"mine": {Price: &stoa.Tariff{}}} }, `models.mine.family: your own model needs a family; any word will do, such as "local"`},
		{"an own model nobody knows upstream", func(o *Options) {
			o.Models = map[string]stoa.ModelChange{"mine": {Family: "local", Price: &stoa.Tariff{}, Routes: []stoa.Route{{Provider: "local"}}}}
		}, `models.mine.routes[0].model: set the model of local that serves mine, for instance model: llama3.2`},
		{"an identifier with a space", func(o *Options) {
			o.Models = map[string]stoa.ModelChange{"my model": {Family: "x", Price: &stoa.Tariff{}}}
		}, `models.my model: an identifier begins with a letter or digit and has letters, digits and . _ : / - only, at most 128`},
		{"an alias rule for an unknown model", func(o *Options) { o.Aliases = []stoa.AliasRule{{Match: "x-*", Model: "gamma-6-lune"}} }, `aliases[0].model: there is no model "gamma-6-lune"; did you mean "gamma-6-luna"?`},
		{"an alias rule that is no pattern", func(o *Options) { o.Aliases = []stoa.AliasRule{{Match: "x?", Model: "auto"}} }, `aliases[0].match: "x?" is not a pattern: it has letters, digits and . _ : / - and * only, at most 128`},
		{"too many alias rules", func(o *Options) { o.Aliases = slices.Repeat([]stoa.AliasRule{{Match: "x", Model: "auto"}}, maxRules+1) }, `aliases: 101 are too many; use up to 100`},
		{"an unknown alias set", func(o *Options) { o.AliasSets = []string{"openai", "google"} }, `aliasSets[1]: there is no set "google"; the sets are anthropic, openai`},
		{"a model named auto", func(o *Options) { o.Models = map[string]stoa.ModelChange{"auto": {Family: "x", Price: &stoa.Tariff{}}} }, `models.auto: "auto" is the service's own choice; set the list auto instead`},
		{"a price below zero", func(o *Options) {
			o.Models = map[string]stoa.ModelChange{"gamma-6-luna": {Price: &stoa.Tariff{Input: -1, CachedInput: -1}}}
		}, `models.gamma-6-luna.price.input: -1 micro-credits per million tokens is not a price; use 0 to 1000000000
models.gamma-6-luna.price.cachedInput: -1 micro-credits per million tokens is not a price; use 0 to 1000000000`},
		{"a cache that costs more", func(o *Options) {
			o.Models = map[string]stoa.ModelChange{"gamma-6-luna": {Price: &stoa.Tariff{Input: 1, CachedInput: 2}}}
		}, `models.gamma-6-luna.price.cachedInput: cached input costs more (2) than input (1); a cache may only make it cheaper`},
		{"cache writes below input", func(o *Options) {
			o.Models = map[string]stoa.ModelChange{"gamma-6-luna": {Price: &stoa.Tariff{Input: 5, CacheWrite: 4, CacheWriteLong: 4}}}
		}, `models.gamma-6-luna.price.cacheWrite: writing to the cache costs less (4) than input (5); use at least the rate of input, or leave it out
models.gamma-6-luna.price.cacheWriteLong: writing to the cache for a long life costs less (4) than for a short one (5); use at least that, or leave it out`},
		{"rules without rates", func(o *Options) {
			o.Models = map[string]stoa.ModelChange{"gamma-6-luna": {Price: &stoa.Tariff{Above: &stoa.LongInput{Tokens: 5, Input: 2, Output: 1}}}}
		}, `models.gamma-6-luna.price: has rules, but no rates to which they apply; set input and output, since a price replaces the shipped one`},
		{"an alias that is a model", func(o *Options) {
			o.Models = map[string]stoa.ModelChange{"gamma-6-luna": {Aliases: []string{"beta-3.1-pro"}}}
		}, `models.gamma-6-luna.aliases: "beta-3.1-pro" is the name of a model; choose another name for the alias`},
		{"an alias of two models", func(o *Options) {
			o.Models = map[string]stoa.ModelChange{"gamma-6-luna": {Aliases: []string{"alpha-opus-5"}}}
		}, `models.gamma-6-luna.aliases: "alpha-opus-5" is an alias of alpha-opus-5-5 already`},
		{"a default above the ceiling", func(o *Options) { o.Models = map[string]stoa.ModelChange{"alpha-haiku-4-5": {DefaultOutput: 70_000}} }, `models.alpha-haiku-4-5.defaultOutput: 70000 is more than maxOutput (64000)`},
		{"a family of nobody", func(o *Options) { o.Families["beta"] = []stoa.Route{{Provider: "nobody"}} }, `families.beta[0].provider: there is no provider named "nobody"`},
		{"a model of nobody", func(o *Options) {
			o.Models = map[string]stoa.ModelChange{"gamma-6-luna": {Routes: []stoa.Route{{Provider: "nobody"}}}}
		}, `models.gamma-6-luna.routes[0].provider: there is no provider named "nobody"`},
		{"a provider named sandbox", func(o *Options) { o.Providers = append(o.Providers, stoa.Provider{Name: "sandbox"}) }, `providers[5].name: "sandbox" is the built-in model's own name; choose another`},
		{"a provider twice", func(o *Options) { o.Providers = append(o.Providers, stoa.Provider{Name: "local"}) }, `providers[5].name: there are two providers named "local"; rename one`},
		{"an unknown sandbox mode", func(o *Options) { o.Sandbox = "maybe" }, `sandbox: "maybe" must be auto, always or off`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := served()
			tt.change(&opts)
			_, err := New(opts)
			if err == nil {
				t.Fatal("no error")
			}
			if err.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

func TestServingListsProviders(t *testing.T) {
	t.Parallel()
	withOwn := served()
	delete(withOwn.Families, "delta")
	withOwn.Families["alpha"] = append(withOwn.Families["alpha"], stoa.Route{Provider: "local", Model: "llama3.2"})
	withOwn.Models = map[string]stoa.ModelChange{"ours": {Family: "local", Price: &stoa.Tariff{}, Routes: []stoa.Route{{Provider: "local", Model: "qwen"}}}}
	for _, tt := range []struct {
		name string
		opts Options
		want []string
	}{
		{"the sandbox", Options{}, []string{"alpha, beta, gamma, delta: the built-in sandbox; to connect a vendor, set ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENAI_API_KEY, DEEPSEEK_API_KEY or STOA_UPSTREAM"}},
		{"vendors", withOwn, []string{
			"alpha: anthropic (messages), then local (chat, llama3.2)", "beta: gemini (gemini)", "gamma: openai (responses)",
			"delta: no provider, so its models answer 503; set DEEPSEEK_API_KEY or families.delta", "ours: local as qwen",
			"auto: beta-3.8-flash, then gamma-6-luna, then alpha-haiku-4-5",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, build(t, tt.opts).Serving()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	nothing := build(t, Options{Sandbox: "off"}).Serving()
	if !slices.ContainsFunc(nothing, func(s string) bool { return strings.HasPrefix(s, "auto: none of its models has a provider") }) {
		t.Errorf("nothing served: got %q", nothing)
	}
}

func TestAChangedPriceHasAnotherVersion(t *testing.T) {
	t.Parallel()
	version := func(p stoa.Tariff) string {
		return find(t, build(t, Options{Models: map[string]stoa.ModelChange{"gamma-6-luna": {Price: &p}}}), "gamma-6-luna").Price.Version
	}
	plain := stoa.Tariff{Input: 1, Output: 2}
	for name, other := range map[string]stoa.Tariff{
		"longer prompts": {Input: 1, Output: 2, Above: &stoa.LongInput{Tokens: 5, Input: 2, Output: 1}},
		"hours":          {Input: 1, Output: 2, Hours: []stoa.PriceHours{{Zone: "UTC", From: "09:00", To: "12:00", Factor: 2}}},
	} {
		if version(other) == version(plain) {
			t.Errorf("a price with %s has the version of one without", name)
		}
	}
	a, b := version(plain), version(stoa.Tariff{Input: 1, Output: 3})
	if a == b || a != version(stoa.Tariff{Input: 1, Output: 2}) {
		t.Errorf("versions: %q and %q", a, b)
	}
}

// TestShippedPrices compares the shipped rates with the vendors' price lists of
// November 2026: input, cached input, cache write, long cache write and output, in
// micro-credits per million tokens.
func TestShippedPrices(t *testing.T) {
	t.Parallel()
	long := func(tokens int64) *stoa.LongInput { return &stoa.LongInput{Tokens: tokens, Input: 2, Output: 1.5} }
	peak := []stoa.PriceHours{{Zone: "Asia/Shanghai", From: "09:00", To: "12:00", Factor: 2}, {Zone: "Asia/Shanghai", From: "14:00", To: "18:00", Factor: 2}}
	want := map[string]stoa.Tariff{
		"alpha-haiku-4-5":  {Input: 1_000_000, CachedInput: 100_000, CacheWrite: 1_250_000, CacheWriteLong: 2_000_000, Output: 5_000_000},
		"alpha-sonnet-5-5": {Input: 2_000_000, CachedInput: 100_000, CacheWrite: 2_500_000, CacheWriteLong: 4_000_000, Output: 10_000_000},
		"alpha-opus-5-5":   {Input: 4_000_000, CachedInput: 200_000, CacheWrite: 5_000_000, CacheWriteLong: 8_000_000, Output: 20_000_000},
		"alpha-fable-5-1":  {Input: 10_000_000, CachedInput: 250_000, CacheWrite: 12_500_000, CacheWriteLong: 20_000_000, Output: 50_000_000},
		"beta-3.1-pro":     {Input: 2_000_000, CachedInput: 200_000, CacheWrite: 2_000_000, CacheWriteLong: 2_000_000, Output: 12_000_000, Above: long(200_000)},
		"beta-3.1-flash":   {Input: 500_000, CachedInput: 50_000, CacheWrite: 500_000, CacheWriteLong: 500_000, Output: 3_000_000},
		"beta-3.7-flash":   {Input: 1_500_000, CachedInput: 150_000, CacheWrite: 1_500_000, CacheWriteLong: 1_500_000, Output: 7_500_000},
		"beta-3.8-flash":   {Input: 1_500_000, CachedInput: 150_000, CacheWrite: 1_500_000, CacheWriteLong: 1_500_000, Output: 7_500_000},
		"gamma-6.1-sol":    {Input: 2_000_000, CachedInput: 100_000, CacheWrite: 2_500_000, CacheWriteLong: 2_500_000, Output: 10_000_000, Above: long(272_000)},
		"gamma-6-luna":     {Input: 100_000, CachedInput: 10_000, CacheWrite: 125_000, CacheWriteLong: 125_000, Output: 500_000, Above: long(272_000)},
		"delta-v4-flash":   {Input: 150_000, CachedInput: 3_000, CacheWrite: 150_000, CacheWriteLong: 150_000, Output: 600_000, Hours: peak},
		"delta-v4-pro":     {Input: 660_000, CachedInput: 22_000, CacheWrite: 660_000, CacheWriteLong: 660_000, Output: 1_980_000, Hours: peak},
	}
	got := map[string]stoa.Tariff{}
	for _, m := range build(t, served()).Models() {
		m.Price.Version = ""
		got[m.ID] = m.Price
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCacheWritesDefaultToTheWiresRate(t *testing.T) {
	t.Parallel()
	opts := Options{
		Providers: []stoa.Provider{{Name: "m", Wire: "messages"}, {Name: "r", Wire: "responses"}, {Name: "g", Wire: "gemini"}, {Name: "c", Wire: "chat", Dialect: "compatible"}, {Name: "o", Wire: "chat", Dialect: "openai"}},
		Models:    map[string]stoa.ModelChange{},
	}
	want := map[string][2]stoa.Credits{}
	own := func(id string, price stoa.Tariff, short, long stoa.Credits, providers ...string) {
		routes := []stoa.Route{}
		for _, p := range providers {
			routes = append(routes, stoa.Route{Provider: p, Model: "x"})
		}
		opts.Models[id] = stoa.ModelChange{Family: "own", Price: &price, Routes: routes}
		want[id] = [2]stoa.Credits{short, long}
	}
	plain := stoa.Tariff{Input: 1001, CachedInput: 1001, Output: 1}
	own("messages", plain, 1252, 2002, "m")
	own("responses", plain, 1252, 1252, "r")
	own("gemini", plain, 1001, 1001, "g")
	own("compatible", plain, 1001, 1001, "c")
	own("openai", plain, 1252, 1252, "o")
	own("several", plain, 1252, 2002, "c", "m", "o")
	own("free", stoa.Tariff{}, 0, 0, "m")
	own("set", stoa.Tariff{Input: 1000, CacheWrite: 1000, CacheWriteLong: 1100}, 1000, 1100, "m")
	own("one-set", stoa.Tariff{Input: 1000, CacheWrite: 1900}, 1900, 1900, "o")
	c := build(t, opts)
	for id, want := range want {
		if p := find(t, c, id).Price; p.CacheWrite != want[0] || p.CacheWriteLong != want[1] {
			t.Errorf("%s: got %d and %d, want %d", id, p.CacheWrite, p.CacheWriteLong, want)
		}
	}
	if a, b := find(t, c, "messages").Price.Version, find(t, c, "gemini").Price.Version; a == b {
		t.Errorf("two prices have the version %s", a)
	}
}

func BenchmarkResolve(b *testing.B) {
	c, err := New(served())
	if err != nil {
		b.Fatal(err)
	}
	for _, asked := range []string{"alpha-haiku-4-5", "auto"} {
		b.Run(asked, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Resolve(asked, free, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestTraitsHoldOnBothWiresOfAVendor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wire, dialect, sampling string
	}{
		{"responses", "", "unless_thinking"},
		{"chat", "openai", "unless_thinking"},
		{"chat", "compatible", ""}, // another server that uses the name
	} {
		cat, err := New(Options{
			Providers: []stoa.Provider{{Name: "p", Wire: c.wire, Dialect: c.dialect}},
			Families:  map[string][]stoa.Route{"gamma": {{Provider: "p"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := cat.Resolve("gamma-6-luna", stoa.Plan{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Models[0].Routes[0].Traits.Sampling; got != c.sampling {
			t.Errorf("%s/%s: sampling %q, want %q", c.wire, c.dialect, got, c.sampling)
		}
	}
}

// TestShippedModelsSayWhatExtensionsTheyTake lists the models that differ: those that
// cannot be forced to call a tool, that accept no media, or whose system text may be
// extended.
func TestShippedModelsSayWhatExtensionsTheyTake(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]stoa.Traits{
		"alpha-haiku-4-5":  {Schema: "native", StrictTools: true, Vision: true, ImageURL: true, PDF: true, ImageTokens: 1600},
		"alpha-sonnet-5-5": {ForcedTools: "no", Schema: "native", StrictTools: true, MidSystem: true, Binding: true, Vision: true, ImageURL: true, PDF: true, ImageTokens: 4784},
		"alpha-opus-5-5":   {ForcedTools: "no", Schema: "native", StrictTools: true, MidSystem: true, Binding: true, Vision: true, ImageURL: true, PDF: true, ImageTokens: 4784},
		"alpha-fable-5-1":  {ForcedTools: "no", Schema: "native", StrictTools: true, MidSystem: true, Binding: true, Vision: true, ImageURL: true, PDF: true, ImageTokens: 4784},
		"beta-3.1-pro":     {Schema: "native", StrictTools: true, Vision: true, ImageURL: true, PDF: true, ImageTokens: 2240},
		"beta-3.1-flash":   {Schema: "native", StrictTools: true, Vision: true, ImageURL: true, PDF: true, ImageTokens: 2240},
		"beta-3.7-flash":   {Schema: "native", StrictTools: true, Vision: true, ImageURL: true, PDF: true, ImageTokens: 2240},
		"beta-3.8-flash":   {Schema: "native", StrictTools: true, Vision: true, ImageURL: true, PDF: true, ImageTokens: 2240},
		"gamma-6.1-sol":    {ParallelSwitch: true, CustomTools: true, Schema: "native", StrictTools: true, MidSystem: true, PaidCache: true, Vision: true, ImageURL: true, PDF: true, ImageTokens: 3000},
		"gamma-6-luna":     {ParallelSwitch: true, CustomTools: true, Schema: "native", StrictTools: true, MidSystem: true, PaidCache: true, Vision: true, ImageURL: true, PDF: true, ImageTokens: 3000},
		"delta-v4-flash":   {ForcedTools: "unless_thinking", Schema: "json"},
		"delta-v4-pro":     {ForcedTools: "unless_thinking", Schema: "json"},
	} {
		got := find(t, build(t, served()), id).Traits
		got.Sampling, got.Efforts, got.ThinkingOff, got.NoPrefill, got.Verbosity = "", nil, "", false, false
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// A disabled provider keeps its routes in the settings, gets no call, and changes no price.
func TestADisabledProviderServesNothing(t *testing.T) {
	t.Parallel()
	opts := served()
	opts.Families["alpha"] = []stoa.Route{{Provider: "anthropic"}, {Provider: "local", Model: "llama"}}
	before := build(t, opts)
	opts.Providers[0].Disabled, opts.Providers[3].Disabled = true, true
	opts.Providers[4].Discover.On, opts.Providers[4].Disabled = true, false
	c := build(t, opts)
	m := find(t, c, "alpha-haiku-4-5")
	if len(m.Routes) != 1 || m.Routes[0].Provider != "local" || m.Price.Version != find(t, before, "alpha-haiku-4-5").Price.Version {
		t.Errorf("with another provider: %+v", m)
	}
	if _, err := c.Resolve("delta-v4-pro", pro, nil); stoa.CodeOf(err) != stoa.CodeModelUnavailable {
		t.Errorf("without another provider: %v", err)
	}
	if got := c.Stopped(); !slices.Contains(got, "delta-v4-pro") || slices.Contains(got, "alpha-haiku-4-5") {
		t.Errorf("stopped: %q", got)
	}
	if !c.Disabled("anthropic#eu") || c.Disabled("local") {
		t.Error("the wrong provider is disabled")
	}
	if got := strings.Join(c.Serving(), "\n"); !strings.Contains(got, "anthropic (messages, disabled)") {
		t.Errorf("serving: %s", got)
	}
	opts.Providers[4].Disabled = true
	if got := build(t, opts).Discovering(); len(got) != 0 {
		t.Errorf("the lists of %v are read", got)
	}
	for i := range opts.Providers {
		opts.Providers[i].Disabled = true
	}
	if got := len(build(t, opts).Offered(pro)); got != 0 {
		t.Errorf("with all providers disabled, %d models are offered", got)
	}
}
