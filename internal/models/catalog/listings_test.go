package catalog

import (
	"fmt"
	"slices"
	"testing"

	"stoa/internal/base/stoa"
)

// discovering returns a provider whose server lists its models, and a listing of it.
func discovering(name string, local bool, models ...string) (stoa.Provider, Listing) {
	p := stoa.Provider{Name: name, Wire: "chat", Dialect: "compatible", Discover: stoa.Discovery{On: true}}
	l := Listing{Of: p, Local: local}
	for _, m := range models {
		l.Models = append(l.Models, stoa.ListedModel{ID: m, ContextTokens: 4096})
	}
	return p, l
}

func TestListedModelsKeepTheirNames(t *testing.T) {
	t.Parallel()
	a, inA := discovering("a", true, "qwen3:4b", "org/m-GGUF:Q4", "mine", "alpha-sonnet-5", "old-x", "gpt-oss:20b", "auto", "alpha-haiku-4-5", "/m/x.gguf", "", "shared", "shared", "llama3.2:latest", "both:latest", "both", "old-z:latest")
	b, inB := discovering("b", true, "shared", "only-b")
	base := build(t, Options{
		Providers: []stoa.Provider{a, b},
		Families:  map[string][]stoa.Route{"alpha": {{Provider: "a", Model: "qwen3:4b"}}, "own": {{Provider: "b", Model: "x"}}},
		Models:    map[string]stoa.ModelChange{"mine": {Family: "own", Price: &stoa.Tariff{Input: 7, Output: 9}}},
		Aliases:   []stoa.AliasRule{{Match: "old-*", Model: "mine"}}, AliasSets: []string{"openai"},
	})
	cat := base.WithListings(map[string]Listing{"a": inA, "b": inB})
	for name, want := range map[string]string{
		"qwen3:4b": "a qwen3:4b 0", "org/m-GGUF:Q4": "a org/m-GGUF:Q4 0", "shared": "a shared 0", "only-b": "b only-b 0",
		"gpt-oss:20b": "a gpt-oss:20b 0", // a shipped pattern does not hide it
		"llama3.2":    "a llama3.2:latest 0", "both": "a both 0", "both:latest": "a both:latest 0",
		"mine": "b x 7", "old-x": "b x 7", "old-z": "b x 7", "old-z:latest": "b x 7",
		"alpha-haiku-4-5": "a qwen3:4b 1000000", "alpha-sonnet-5": "a qwen3:4b 2000000", "auto": "a qwen3:4b 1000000",
	} {
		m := find(t, cat, name)
		if got := fmt.Sprint(m.Routes[0].Provider, " ", m.Routes[0].Model, " ", int64(m.Price.Input)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if m := find(t, cat, "shared"); m.Family != "a" || m.ContextTokens != 4096 || m.Price.Version == "" || m.Routes[0].Traits.Schema != "native" || m.Gated {
		t.Errorf("%+v", m)
	}
	for _, name := range []string{"/m/x.gguf", "", "gamma-nothing"} {
		if _, err := cat.Resolve(name, pro, nil); stoa.CodeOf(err) != stoa.CodeModelNotFound {
			t.Errorf("%q: %v", name, err)
		}
	}
	inA.Models[0].Vision = true
	if m := find(t, base.WithListings(map[string]Listing{"a": inA}), "qwen3:4b"); !m.Routes[0].Traits.Vision {
		t.Error("a model that is listed with images does not accept them")
	}
	if _, listed := cat.Model("alpha-sonnet-5"); listed {
		t.Error("a listed name that is an alias is a model too")
	}
	if got := cat.Offered(pro); !slices.Contains(got, "qwen3:4b") || slices.Contains(got, "/m/x.gguf") {
		t.Errorf("offered: %v", got)
	}
}

func TestListedModelsHaveAPrice(t *testing.T) {
	t.Parallel()
	paid := stoa.Tariff{Input: 100, CachedInput: 50, Output: 300}
	for _, tt := range []struct {
		name          string
		local, priced bool
		want          string
	}{
		{"a private address", true, false, "0 0"},
		{"a private address with a price", true, true, "100 300"},
		{"a public address", false, false, "model_not_found"},
		{"a public address with a price", false, true, "100 300"},
	} {
		p, l := discovering("a", tt.local, "m")
		if tt.priced {
			p.Discover.Priced, p.Discover.Price = true, paid
		}
		l.Of = p
		cat := build(t, Options{Providers: []stoa.Provider{p}}).WithListings(map[string]Listing{"a": l})
		res, err := cat.Resolve("m", pro, nil)
		got := string(stoa.CodeOf(err))
		if err == nil {
			got = fmt.Sprint(int64(res.Models[0].Price.Input), " ", int64(res.Models[0].Price.Output))
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	p, _ := discovering("a", true)
	p.Discover.Price.Input = -1
	if _, err := New(Options{Providers: []stoa.Provider{p}}); err == nil {
		t.Error("a negative price was accepted")
	}
}

func TestAnUnreadListIsNotAnEmptyOne(t *testing.T) {
	t.Parallel()
	p, l := discovering("a", true, "m")
	base := build(t, Options{Providers: []stoa.Provider{p}})
	code := func(c *Catalog, name string) stoa.Code {
		_, err := c.Resolve(name, pro, nil)
		return stoa.CodeOf(err)
	}
	unread := base.WithListings(nil)
	if got := code(unread, "m"); got != stoa.CodeModelUnavailable {
		t.Errorf("before the list is read: %s", got)
	}
	if got := code(unread, "no such name"); got != stoa.CodeModelNotFound {
		t.Errorf("an impossible name: %s", got)
	}
	moved := p
	moved.BaseURL = "http://elsewhere.example/v1"
	for name, cat := range map[string]*Catalog{
		"another address": build(t, Options{Providers: []stoa.Provider{moved}}).WithListings(map[string]Listing{"a": l}),
	} {
		if got := code(cat, "m"); got != stoa.CodeModelUnavailable {
			t.Errorf("%s: %s", name, got)
		}
	}
	read := base.WithListings(map[string]Listing{"a": l})
	if got := code(read, "auto"); got != "" || read.DefaultModel(pro) != "m" {
		t.Errorf("auto: %s, the default is %q", got, read.DefaultModel(pro))
	}
	if got := code(base.WithListings(map[string]Listing{"a": {Of: p}}), "m"); got != stoa.CodeModelNotFound {
		t.Errorf("after the model is gone: %s", got)
	}
	own := build(t, Options{Providers: []stoa.Provider{p}, Auto: []string{"beta-3.8-flash"}}).WithListings(map[string]Listing{"a": l})
	if got := code(own, "auto"); got != stoa.CodeModelUnavailable {
		t.Errorf("an operator's auto: %s", got)
	}
}

func TestLongListsAreCut(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range MaxListed + 5 {
		names = append(names, fmt.Sprintf("m%d", i))
	}
	p, l := discovering("a", true, names...)
	base := build(t, Options{Providers: []stoa.Provider{p}})
	if got := len(base.WithListings(map[string]Listing{"a": l}).Models()) - len(base.Models()); got != MaxListed {
		t.Errorf("%d are served, want %d", got, MaxListed)
	}
	opts, all := Options{}, map[string]Listing{}
	for i := range 10 {
		names = names[:0]
		for j := range MaxListed {
			names = append(names, fmt.Sprintf("p%d-m%d", i, j))
		}
		p, l := discovering(fmt.Sprintf("p%d", i), true, names...)
		opts.Providers, all[p.Name] = append(opts.Providers, p), l
	}
	if got := len(build(t, opts).WithListings(all).Models()); got != maxModels {
		t.Errorf("there are %d models, want %d", got, maxModels)
	}
}
