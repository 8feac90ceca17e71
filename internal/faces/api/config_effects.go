package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
	"stoa/internal/operate/managed"
)

const (
	effectListTime = 3 * time.Second // maximum for the lists of all servers together
	maxEffectLists = 20              // servers whose lists are read
	maxEffectNames = 8               // models that a text names
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
	return out, err
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
