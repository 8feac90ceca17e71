package api

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"
	"golang.org/x/sync/errgroup"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
	"stoa/internal/operate/managed"
)

func (s *Providers) getConfig(ctx context.Context, _ rest.Request[rest.None, rest.None]) (rest.Reply[contract.Config], error) {
	state := s.Managed.InForce()
	latest, err := managed.Latest(ctx, s.Store)
	if err != nil {
		return rest.Reply[contract.Config]{}, err
	}
	items, err := state.Config.Items()
	if err != nil {
		return rest.Reply[contract.Config]{}, err
	}
	out := contract.Config{Version: state.Version, LatestVersion: latest, Problem: nullIfZero(state.Problem), Data: []contract.ConfigItem{}}
	add := func(kind, singular, name, where string, value map[string]any) {
		source := sourceOf(where)
		if source == "managed" || source == "shipped" {
			where = ""
		}
		path := strings.TrimSuffix(kind+"."+name, ".")
		out.Data = append(out.Data, contract.ConfigItem{
			Kind: singular, Name: orElse(name, singular), Source: source, Where: nullIfZero(where), Value: value,
			Shadowed: slices.ContainsFunc(state.Shadowed, func(s config.Shadowed) bool { return s.Path == path }),
		})
	}
	singular := map[string]string{"providers": "provider", "families": "family", "aliases": "alias", "auto": "auto", "plans": "plan"}
	for _, i := range items {
		add(i.Kind, singular[i.Kind], i.Name, i.Where, i.Value)
	}
	for _, m := range s.Catalog.Load().Models() {
		value := map[string]any{"family": m.Family, "gated": m.Gated, "contextTokens": m.ContextTokens, "maxOutput": m.MaxOutput, "defaultOutput": m.DefaultOutput, "aliases": m.Aliases, "price": contractRates(&m.Price).MustGet()}
		routes := []map[string]any{}
		for _, r := range m.Routes {
			routes = append(routes, map[string]any{"provider": r.Provider, "model": r.Model})
		}
		value["routes"] = routes
		add("models", "model", m.ID, state.Config.ModelSource(m.ID), value)
	}
	return rest.Reply[contract.Config]{Body: out}, nil
}

func sourceOf(where string) string {
	switch {
	case where == "":
		return "shipped"
	case where == config.ManagedSource:
		return "managed"
	case strings.Contains(where, ":"):
		return "file"
	}
	return "environment"
}

func contractRates(p *stoa.Tariff) nullable.Nullable[contract.ConfigPrice] {
	return nullIfNil(p, func(p stoa.Tariff) contract.ConfigPrice {
		return contract.ConfigPrice{
			Input: int64(p.Input), CachedInput: int64(p.CachedInput), CacheWrite: int64(p.CacheWrite), CacheWriteLong: int64(p.CacheWriteLong), Output: int64(p.Output),
			Above: contractLongInput(p.Above), Hours: contractHours(p.Hours),
		}
	})
}

func draftReply(d store.ConfigDraft, err error) (rest.Reply[contract.ConfigDraft], error) {
	if err != nil {
		return rest.Reply[contract.ConfigDraft]{}, err
	}
	settings, err := managed.Masked(d.Body)
	return rest.Reply[contract.ConfigDraft]{ETag: revisionETag(d.Revision), Body: contract.ConfigDraft{
		Settings: settings, Exists: d.Revision > 0, BaseVersion: d.Base, Author: nullIfZero(d.Author), UpdatedAt: nullIfNever(d.UpdatedAt),
	}}, err
}

func (s *Providers) getConfigDraft(ctx context.Context, _ rest.Request[rest.None, rest.None]) (rest.Reply[contract.ConfigDraft], error) {
	return draftReply(s.Managed.Draft(ctx))
}

func (s *Providers) setConfigDraft(ctx context.Context, in rest.Request[contract.SetConfigDraftParams, contract.SetConfigDraft]) (rest.Reply[contract.ConfigDraft], error) {
	return draftReply(s.Managed.SetDraft(ctx, in.Caller.Key.ID, in.Body.Settings, func(revision int64) error { return ifCurrent(in.Params.IfMatch, revision) }))
}

func (s *Providers) deleteConfigDraft(ctx context.Context, in rest.Request[contract.DeleteConfigDraftParams, rest.None]) (rest.Reply[rest.None], error) {
	return rest.NoContent(), s.Managed.DropDraft(ctx, func(revision int64) error { return ifCurrent(in.Params.IfMatch, revision) })
}

func (s *Providers) checkConfigDraft(ctx context.Context, in rest.Request[rest.None, rest.None]) (rest.Reply[contract.ConfigCheck], error) {
	r, err := s.Managed.Check(ctx)
	if err != nil {
		return rest.Reply[contract.ConfigCheck]{}, err
	}
	out := contract.ConfigCheck{
		Ok: r.Applicable() == nil, BaseVersion: r.Draft.Base, Problems: []contract.ConfigProblem{}, Warnings: append([]string{}, r.Warnings...),
		Changes: []contract.ConfigChange{}, Prices: []contract.PriceChange{},
	}
	for _, p := range r.Problems {
		out.Problems = append(out.Problems, contract.ConfigProblem{Path: p.Path, Message: p.Message, Where: nullIfZero(p.Where)})
	}
	if out.Effects, err = s.effects(ctx, in.Caller.Account.ID, r); err != nil {
		return rest.Reply[contract.ConfigCheck]{}, err
	}
	shown := func(v contract.ConfigValue) nullable.Nullable[contract.ConfigValue] { return nullUnless(v != nil, v) }
	for _, c := range r.Changes {
		out.Changes = append(out.Changes, contract.ConfigChange{Path: c.Path, Before: shown(c.Before), After: shown(c.After)})
	}
	for _, p := range r.Prices {
		out.Prices = append(out.Prices, contract.PriceChange{Model: p.Model, Before: contractRates(p.Before), After: contractRates(p.After)})
	}
	return rest.Reply[contract.ConfigCheck]{Body: out}, nil
}

func (s *Providers) testConfigDraft(ctx context.Context, in rest.Request[rest.None, contract.TestConfigDraft]) (rest.Reply[contract.ProviderTest], error) {
	r, err := s.Managed.Check(ctx)
	if err == nil && len(r.Problems) > 0 {
		err = r.Applicable()
	}
	if err != nil {
		return rest.Reply[contract.ProviderTest]{}, err
	}
	name := in.Body.Provider
	if !slices.ContainsFunc(r.Config.Upstreams(), func(p stoa.Provider) bool { return p.Name == name || p.Ref() == name }) {
		return rest.Reply[contract.ProviderTest]{}, stoa.Errorf(stoa.CodeNotFound, "The draft has no provider %q.", rest.ShortName(name)).At("provider")
	}
	cat, err := managed.Catalog(r.Config, s.Prepare(r.Config.Upstreams()).Handle)
	if err != nil {
		return rest.Reply[contract.ProviderTest]{}, err
	}
	out, err := s.tryProvider(ctx, in.Caller.Account.ID, cat, name)
	return rest.Reply[contract.ProviderTest]{Body: out}, err
}

// beforeApply checks the draft to apply. The transaction reports the result, so that a repeated request receives the
// stored reply.
func (s *Providers) beforeApply(ctx context.Context, _ rest.Request[contract.ApplyConfigDraftParams, contract.ApplyConfig]) (managed.Report, error) {
	return s.Managed.Check(ctx)
}

func (s *Providers) applyConfig(ctx context.Context, tx *store.Tx, in rest.Request[contract.ApplyConfigDraftParams, contract.ApplyConfig], r managed.Report) (rest.Reply[contract.ConfigVersion], error) {
	if err := ifCurrent(in.Params.IfMatch, r.Draft.Revision); err != nil {
		return rest.Reply[contract.ConfigVersion]{}, err
	}
	return s.addVersion(ctx, tx, in.Caller, r, in.Body.Note)
}

type restoreParams struct {
	byVersion
	contract.RestoreConfigVersionParams
}

type byVersion struct {
	Version string `path:"version"`
}

// number returns the number of the version; 0 for a text that is not one, because no version has it.
func (v byVersion) number() int64 {
	if n, err := strconv.ParseInt(v.Version, 10, 64); err == nil && n > 0 {
		return n
	}
	return -1
}

func (s *Providers) beforeRestore(ctx context.Context, in rest.Request[restoreParams, contract.ApplyConfig]) (managed.Report, error) {
	return s.Managed.CheckVersion(ctx, in.Params.number())
}

func (s *Providers) restoreConfig(ctx context.Context, tx *store.Tx, in rest.Request[restoreParams, contract.ApplyConfig], r managed.Report) (rest.Reply[contract.ConfigVersion], error) {
	return s.addVersion(ctx, tx, in.Caller, r, in.Body.Note)
}

func (s *Providers) addVersion(ctx context.Context, tx *store.Tx, c stoa.Caller, r managed.Report, note nullable.Nullable[string]) (rest.Reply[contract.ConfigVersion], error) {
	if err := r.Applicable(); err != nil {
		return rest.Reply[contract.ConfigVersion]{}, err
	}
	v, err := s.Managed.Apply(ctx, tx, r, c.Key.ID, orZero(note))
	if err != nil {
		return rest.Reply[contract.ConfigVersion]{}, err
	}
	tx.AfterCommit(s.Applied)
	return rest.Created(rest.Prefix+"/config/versions/"+strconv.FormatInt(v.N, 10), contractConfigVersion(v)), nil
}

func contractConfigVersion(v store.ConfigVersion) contract.ConfigVersion {
	return contract.ConfigVersion{
		ID: "cfg_" + strconv.FormatInt(v.N, 10), Version: v.N, Author: v.Author, Note: nullIfZero(v.Note),
		Changes: append([]string{}, v.Changes...), CreatedAt: contract.Time(v.CreatedAt),
	}
}

func (s *Providers) listConfigVersions(ctx context.Context, in rest.Request[contract.ListConfigVersionsParams, rest.None]) (rest.Reply[rest.Page[contract.ConfigVersion]], error) {
	p := rest.NewPager(in.Params.Limit, in.Params.Cursor, "", "config versions")
	n := namesOf("")
	return rest.ReadPage(ctx, s.Store, p, func(tx *store.Tx) ([]store.ConfigVersion, bool, error) {
		before := int64(math.MaxInt64)
		if p.Page.After.ID != "" {
			before, _ = strconv.ParseInt(p.Page.After.ID, 10, 64)
		}
		list, err := tx.Operations().ConfigVersions(ctx, before, p.Page.Limit+1)
		for _, v := range list {
			n.add(store.NamedKeys, v.Author)
		}
		err = n.read(ctx, tx, err)
		more := len(list) > p.Page.Limit
		return list[:min(len(list), p.Page.Limit)], more, err
	}, func(v store.ConfigVersion) contract.ConfigVersion {
		out := contractConfigVersion(v)
		out.AuthorName = n.of(store.NamedKeys, v.Author)
		return out
	}, func(v store.ConfigVersion) store.Cursor {
		return store.Cursor{At: v.CreatedAt, ID: strconv.FormatInt(v.N, 10)}
	})
}

func (s *Providers) getConfigVersion(ctx context.Context, tx *store.Tx, in rest.Request[byVersion, rest.None]) (rest.Reply[contract.ConfigVersionDetail], error) {
	v, err := tx.Operations().ConfigVersion(ctx, in.Params.number())
	if err != nil {
		return rest.Reply[contract.ConfigVersionDetail]{}, err
	}
	settings, err := managed.Masked(v.Body)
	c := contractConfigVersion(v)
	return rest.Reply[contract.ConfigVersionDetail]{Body: contract.ConfigVersionDetail{
		ID: c.ID, Version: c.Version, Author: c.Author, Note: c.Note, Changes: c.Changes, CreatedAt: c.CreatedAt, Settings: settings,
	}}, err
}

const (
	effectListTime  = 3 * time.Second // maximum for the lists of all servers together
	maxEffectLists  = 20              // servers whose lists are read
	maxEffectNames  = 8               // models that a text names
	maxEffectPrices = 50              // models whose prices change
)

// effects returns what a draft ends for callers and agents. It reads the lists of models of the draft's servers, because
// the settings do not contain them.
func (s *Providers) effects(ctx context.Context, accountID string, r managed.Report) ([]contract.ConfigEffect, error) {
	out := []contract.ConfigEffect{}
	add := func(e contract.ConfigEffect) {
		e.Models = append([]string{}, e.Models...)
		out = append(out, e)
	}
	if len(r.Problems) > 0 || len(r.Changes) == 0 {
		return out, nil
	}
	before := s.Catalog.Load()
	after, err := managed.Catalog(r.Config, s.Prepare(r.Config.Upstreams()).Handle)
	if err != nil {
		return out, err
	}
	after, unread := s.withLists(ctx, after)

	var ends []string
	fromSandbox := false
	for _, m := range before.Models() {
		if len(m.Routes) > 0 && !serves(after, m.ID) {
			ends = append(ends, m.ID)
			fromSandbox = fromSandbox || m.Routes[0].Provider == catalog.SandboxProvider
		}
	}
	if len(ends) > 0 {
		now, names := "", strings.Join(ends[:min(len(ends), maxEffectNames)], ", ")
		if fromSandbox {
			now = ", which the sandbox answers now"
		}
		if len(ends) > maxEffectNames {
			names += ", …"
		}
		add(contract.ConfigEffect{Kind: "models_stop", Models: ends, Text: fmt.Sprintf("%s%s: the draft has no provider for %s", counted(len(ends), "model stops", "models stop"), now, names)})
	}
	was, is := before.DefaultModel(stoa.Plan{}), after.DefaultModel(stoa.Plan{})
	switch {
	case is == "":
		add(contract.ConfigEffect{Kind: "auto_stops", Confirm: true, Text: "`auto` will have no model: calls and agents that use it are answered 503. Set auto to models that are served, or give a family a provider."})
	case was == "":
		add(contract.ConfigEffect{Kind: "auto_changes", Text: fmt.Sprintf("`auto` will be %s.", is)})
	case was != is:
		add(contract.ConfigEffect{Kind: "auto_changes", Text: fmt.Sprintf("`auto` will be %s instead of %s.", is, was)})
	}
	for _, problem := range unread {
		add(contract.ConfigEffect{Kind: "list_unread", Text: problem})
	}
	agents, err := report(ctx, &s.core, accountID, func(ctx context.Context, tx *store.Tx) (n int64, err error) {
		byModel, err := tx.Setup().AgentsByModel(ctx)
		for model, count := range byModel {
			if serves(before, model) && !serves(after, model) {
				n += count
			}
		}
		return n, err
	})
	if agents > 0 {
		add(contract.ConfigEffect{Kind: "agents_stop", Agents: agents, Text: counted(int(agents), "agent stops", "agents stop") + ": the draft has no provider for their model."})
	}
	if err != nil {
		return out, err
	}
	for _, text := range s.priceEffects(ctx, accountID, r.Prices, after) {
		add(contract.ConfigEffect{Kind: "prices_change", Text: text})
	}
	for _, c := range r.Changes {
		plan, isPlan := strings.CutPrefix(c.Path, "plans.")
		if !isPlan {
			continue
		}
		n, err := store.Read(ctx, s.Store, func(tx *store.Tx) (int, error) { return tx.Books().AccountsOnPlan(ctx, plan) })
		if err != nil {
			return out, err
		}
		if text := "whose limits or models change."; n > 0 {
			if c.After == nil {
				text = "which the draft removes."
			}
			add(contract.ConfigEffect{Kind: "plans_change", Text: fmt.Sprintf("%s on the plan `%s`, %s", counted(n, "account is", "accounts are"), plan, text)})
		}
	}
	return out, nil
}

// priceEffects says for each changed price by how much it changes, and what the calls of a month would have cost: the last
// month, or the present one if no account used the model then. Sums that cannot be read in time are left out.
func (s *Providers) priceEffects(ctx context.Context, accountID string, changes []managed.PriceChange, after *catalog.Catalog) (texts []string) {
	if len(changes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, effectListTime)
	defer cancel()
	type sum struct {
		accounts map[string]bool
		more     stoa.Credits
	}
	price := pricing(after, s.Catalog.Load())
	sums := func(month stoa.Month) map[string]sum {
		rows, err := report(ctx, &s.core, accountID, func(ctx context.Context, tx *store.Tx) ([]store.PreviewRow, error) {
			return tx.Books().PreviewCharges(ctx, month, store.PreviewGroups{Account: true, Model: true}, price)
		})
		byModel := map[string]sum{}
		for _, r := range rows {
			of := byModel[r.Model]
			if of.accounts == nil {
				of.accounts = map[string]bool{}
			}
			of.accounts[r.AccountID] = true
			of.more += r.New - r.Charged
			byModel[r.Model] = of
		}
		if err != nil {
			return nil
		}
		return byModel
	}
	now := stoa.MonthOf(time.Now())
	last := stoa.MonthOf(now.Start().Add(-time.Hour))
	lastMonth, thisMonth := sums(last), sums(now)
	for _, c := range changes {
		if c.Before == nil || c.After == nil || len(texts) == maxEffectPrices {
			continue
		}
		var parts []string
		for _, rate := range []struct {
			name    string
			was, is stoa.Credits
		}{{"input", c.Before.Input, c.After.Input}, {"cached input", c.Before.CachedInput, c.After.CachedInput}, {"output", c.Before.Output, c.After.Output}} {
			switch {
			case rate.was == rate.is:
			case rate.was == 0:
				parts = append(parts, rate.name+" is no longer free")
			default:
				parts = append(parts, fmt.Sprintf("%s %+.0f %%", rate.name, 100*float64(rate.is-rate.was)/float64(rate.was)))
			}
		}
		if len(parts) == 0 {
			parts = []string{"other rates change"}
		}
		text := fmt.Sprintf("`%s`: %s.", c.Model, strings.Join(parts, ", "))
		month, used := last, lastMonth[c.Model]
		if len(used.accounts) == 0 {
			month, used = now, thisMonth[c.Model]
		}
		if n := len(used.accounts); n > 0 {
			text += fmt.Sprintf(" In %s %s used it; its calls would have cost %s credits.", month, counted(n, "account", "accounts"), signed(used.more))
		}
		texts = append(texts, text)
	}
	return texts
}

// signed writes a difference of credits, in more places if it is small.
func signed(c stoa.Credits) string {
	if c > -10_000 && c < 10_000 {
		return fmt.Sprintf("%+.6f", float64(c)/1e6)
	}
	return fmt.Sprintf("%+.2f", float64(c)/1e6)
}

func serves(cat *catalog.Catalog, name string) bool {
	if name == catalog.Auto {
		return cat.DefaultModel(stoa.Plan{}) != ""
	}
	m, found := cat.Model(cat.Identifier(name))
	return found && len(m.Routes) > 0
}

func (s *Providers) withLists(ctx context.Context, cat *catalog.Catalog) (*catalog.Catalog, []string) {
	of := cat.Discovering()
	if of = of[:min(len(of), maxEffectLists)]; len(of) == 0 || s.ListModels == nil {
		return cat, nil
	}
	ctx, cancel := context.WithTimeout(ctx, effectListTime)
	defer cancel()
	lists, problems := make([]catalog.Listing, len(of)), make([]string, len(of))
	var reads errgroup.Group
	for i, p := range of {
		reads.Go(func() error {
			l := catalog.Listing{Of: p}
			var err error
			switch l.Models, l.Local, err = s.ListModels(ctx, p); {
			case err != nil:
				problems[i] = fmt.Sprintf("The list of models of %s could not be read: %v. Its models can be called once it can be read.", p.Name, err)
				return nil
			case l.Unpriced():
				problems[i] = fmt.Sprintf("The %d models of %s cannot be called: its address is not a private one, and it has no price.", len(l.Models), p.Name)
			}
			lists[i] = l
			return nil
		})
	}
	_ = reads.Wait() // ignored, because no read returns an error
	found := map[string]catalog.Listing{}
	for _, l := range lists {
		if l.Of.Name != "" {
			found[l.Of.Name] = l
		}
	}
	return cat.WithListings(found), slices.DeleteFunc(problems, func(p string) bool { return p == "" })
}
