package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/audit"
	"stoa/internal/base/cluster"
	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/operate/managed"
)

// configEvery is the polling interval for newer managed settings on PostgreSQL, because hints can be lost.
const configEvery = time.Second

// reload applies a configuration that was read again, with the managed settings. Parts that are not created for
// each call (address, data, database) stay unchanged, and a call keeps its original settings. A configuration with
// an error changes nothing, so that a mistake does not stop the service.
func (s *Service) reload(ctx context.Context, read func() (config.Config, error)) {
	if read == nil {
		return
	}
	cfg, err := read()
	if err == nil {
		err = s.rebase(ctx, cfg)
	}
	if err != nil {
		s.log.Error("the configuration could not be reloaded; the old one stays in force", "error", err)
		s.alertRefused(ctx, err)
	}
}

// alertRefused opens the alert about a configuration that this node cannot use.
func (s *Service) alertRefused(ctx context.Context, refusal error) {
	setting, where := "", ""
	if problem, ok := errors.AsType[*config.Problem](refusal); ok { // the first one
		setting, where = problem.Path, problem.Where
	}
	if err := s.Alerts.Refused(ctx, setting, where); err != nil {
		s.log.Error("the alert of a refused configuration could not be stored", "error", err)
	}
}

// alertAccepted closes the alert of [Service.alertRefused].
func (s *Service) alertAccepted(ctx context.Context) {
	if err := s.Alerts.Accepted(ctx); err != nil {
		s.log.Error("the alert of a refused configuration could not be closed", "error", err)
	}
}

// rebase applies the settings of a file that was read again.
func (s *Service) rebase(ctx context.Context, cfg config.Config) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	n, err := managed.Latest(ctx, s.Store)
	if err != nil {
		return err
	}
	state, err := managed.Load(ctx, s.Store, s.Vault, cfg, n)
	if err == nil {
		err = s.install(state)
	}
	if err != nil {
		return err
	}
	s.keep.Store(&cfg.Retention)
	s.Store.SetConfigHash(cfg.Hash())
	s.logs.Store(&cfg.Requests)
	for _, w := range cfg.Warnings {
		s.log.Warn("the configuration may not have the intended effect", "warning", w)
	}
	s.auditReload(cfg.Hash())
	s.alertAccepted(ctx)
	s.log.Info("configuration reloaded")
	return s.reportConfig(ctx)
}

// auditReload records a reload of the configuration in the audit log of the service.
func (s *Service) auditReload(hash string) {
	err := s.Store.Write(context.Background(), func(tx *store.Tx) error {
		tx.Audit(audit.Entry{AccountID: audit.Service, Actor: audit.Service, Action: "configuration.reloaded", Object: s.Store.Node(), After: `{"configHash":"` + hash + `"}`})
		return nil
	})
	if err != nil {
		s.log.Error("the reload of the configuration could not be recorded in the audit log", "error", err)
	}
}

// install builds the providers and the catalog of a state before it applies both. The routes of a catalog lead to the
// providers that were built with it, so that a call uses the prices and the providers of one state. An invalid
// state changes nothing. The caller must hold s.applying.
func (s *Service) install(state *managed.State) error {
	set := s.pool.Prepare(state.Config.Upstreams())
	cat, err := state.Build(set.Handle)
	if err != nil {
		return state.Config.Explain(err)
	}
	s.pool.Use(set)
	s.Discovery.rebase(cat)
	s.plans.Store(new(state.Config.AccountPlans()))
	s.limited.Store(state.Config.RateLimited())
	s.state.Store(state)
	s.Keys.Forget() // because callers include their plan
	for _, shadowed := range state.Shadowed {
		s.log.Warn("a managed setting has no effect, because the configuration file sets the same name", "setting", shadowed.Path, "source", shadowed.Where)
	}
	return nil
}

// applied makes all nodes apply the newest version of the managed settings.
func (s *Service) applied() {
	s.kickConfig()
	s.Store.Hint(cluster.HintConfig, "", "")
}

func (s *Service) kickConfig() {
	select {
	case s.newer <- struct{}{}:
	default:
	}
}

// FollowConfig applies new versions of the managed settings until ctx ends.
func (s *Service) FollowConfig(ctx context.Context) error {
	var look <-chan time.Time
	if s.shared() {
		ticker := time.NewTicker(configEvery)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.newer:
		case <-look:
		}
		if err := s.takeConfig(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "the managed settings could not be read; they are read again", "error", err)
			if !s.shared() {
				s.kickConfig()
			}
		}
	}
}

// takeConfig applies the newest version of the managed settings. If this node cannot use it, the previous version
// stays in effect, and the node is not ready. Its error is one of the database.
func (s *Service) takeConfig(ctx context.Context) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	now := s.state.Load()
	n, err := managed.Latest(ctx, s.Store)
	if err != nil || n == now.Version || n == now.Refused {
		return err
	}
	state, err := managed.Load(ctx, s.Store, s.Vault, now.Base, n)
	if err != nil {
		return err
	}
	if err := s.install(state); err != nil {
		kept := *now
		kept.Refused, kept.Problem = n, fmt.Sprintf("Version %d of the managed settings cannot be used: %v", n, err)
		s.state.Store(&kept)
		s.log.ErrorContext(ctx, "a version of the managed settings cannot be used; the former one stays in force", "configVersion", n, "error", err)
		s.alertRefused(ctx, err)
	} else {
		if now.Refused != 0 {
			s.alertAccepted(ctx)
		}
		s.log.InfoContext(ctx, "managed settings applied", "configVersion", n)
	}
	return s.reportConfig(ctx)
}

// reportConfig records the state of this node for the list of nodes.
func (s *Service) reportConfig(ctx context.Context) error {
	state := s.state.Load()
	problem := state.Problem
	const most = 1000 // bytes
	if len(problem) > most {
		problem = strings.ToValidUTF8(problem[:most], "")
	}
	return s.Store.Write(ctx, func(tx *store.Tx) error { return tx.Operations().ReportConfig(ctx, state.Version, problem) })
}

// planList returns every plan in a stable order.
func (s *Service) planList() []stoa.Plan {
	plans := *s.plans.Load()
	var out []stoa.Plan
	for _, id := range slices.Sorted(maps.Keys(plans)) {
		out = append(out, plans[id])
	}
	return out
}

// Check returns the errors of a configuration that reading it does not find, such as inconsistent models, routes and
// prices, because only package catalog can check those.
func Check(cfg config.Config) error {
	_, err := managed.Catalog(cfg, nil)
	return err
}
