package catalog

import (
	"slices"
	"testing"

	"stoa/internal/base/stoa"
)

func TestPatternsMatchAsTheyRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"claude-*sonnet*", "claude-sonnet-5-5", true},
		{"claude-*sonnet*", "claude-3-7-sonnet", true},
		{"claude-*sonnet*", "xclaude-sonnet", false},
		{"claude-*sonnet*", "Claude-Sonnet", false},
		{"*-mini", "gpt-6-mini", true},
		{"*-mini", "gpt-6-mini-x", false},
		{"a*a", "a", false}, // the parts do not overlap
		{"a*a", "aa", true},
		{"a*b*c", "acb", false},
		{"*", "anything", true},
		{"exact.name", "exact.name", true},
		{"exact.name", "exactxname", false}, // only * is special
	} {
		opts := served()
		opts.Aliases = []stoa.AliasRule{{Match: c.pattern, Model: "alpha-sonnet-5"}}
		res, err := build(t, opts).Resolve(c.name, free, nil)
		if got := err == nil && res.Requested.ID == "alpha-sonnet-5-5" && res.Reason == ReasonAlias && res.Asked == c.name; got != c.want {
			t.Errorf("%s matches %s: %v, %v", c.pattern, c.name, got, err)
		}
	}
}

func TestExactNamesComeBeforeRules(t *testing.T) {
	t.Parallel()
	opts := served()
	opts.Models = map[string]stoa.ModelChange{"alpha-haiku-4-5": {Aliases: []string{"claude-small"}}}
	opts.Aliases = []stoa.AliasRule{{Match: "*small", Model: "alpha-sonnet-5-5"}, {Match: "*sonnet*", Model: "gamma-6-luna"}, {Match: "*5*", Model: "auto"}}
	opts.AliasSets = []string{"anthropic", "openai"}
	c := build(t, opts)
	for _, want := range []struct {
		asked string
		plan  stoa.Plan
		model string
		why   string
	}{
		{"claude-small", free, "alpha-haiku-4-5", ReasonAlias},
		{"other-small", free, "alpha-sonnet-5-5", ReasonAlias},
		{"alpha-sonnet-5-5", free, "alpha-sonnet-5-5", ""},
		{"claude-sonnet-5-5", free, "gamma-6-luna", ReasonAlias}, // rules of the operator come before sets
		{"gpt-5", free, "beta-3.8-flash", ReasonAuto},
		{"claude-opus-4", pro, "alpha-opus-5-5", ReasonAlias},
		{"claude-opus-4", free, "beta-3.8-flash", ReasonPlan}, // the gate of the target holds
		{"gpt-6-luna", free, "gamma-6-luna", ReasonAlias},
		{"gpt-4o-mini", free, "gamma-6-luna", ReasonAlias},
		{"gpt-6-codex", pro, "gamma-6.1-sol", ReasonAlias},
	} {
		res, err := c.Resolve(want.asked, want.plan, nil)
		if err != nil || res.Models[0].ID != want.model || res.Reason != want.why {
			t.Errorf("%s: %v, %q, %v; want %s, %q", want.asked, ids(res.Models), res.Reason, err, want.model, want.why)
		}
	}
	for _, unknown := range []string{"claude-x\nopus", "claude-öopus", "claude-4", "Gpt"} {
		if res, err := c.Resolve(unknown, pro, nil); err == nil {
			t.Errorf("%q is %s", unknown, res.Models[0].ID)
		}
	}
	if _, err := build(t, served()).Resolve("claude-sonnet-5-5", pro, nil); stoa.CodeOf(err) != stoa.CodeModelNotFound {
		t.Errorf("the sets are not off: %v", err)
	}
}

func TestVendorNamesAreThoseThatResolve(t *testing.T) {
	t.Parallel()
	opts := served()
	if got := build(t, opts).VendorNames(pro); got != nil {
		t.Errorf("without the set: %v", got)
	}
	opts.AliasSets = []string{"anthropic"}
	opts.Aliases = []stoa.AliasRule{{Match: "claude-haiku-*", Model: "auto"}}
	if got, want := build(t, opts).VendorNames(free), []string{"claude-sonnet-5-5"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := build(t, opts).VendorNames(pro), []string{"claude-fable-5-1", "claude-opus-5-5", "claude-sonnet-5-5"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
