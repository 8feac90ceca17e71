package managed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/models/catalog"
)

// A Manager changes the managed settings. All fields are required.
type Manager struct {
	Store *store.Store
	Vault *vault.Vault
	// InForce returns the state of this node.
	InForce func() *State
}

// Draft returns the draft. Without one it returns the newest version with the revision 0.
func (m *Manager) Draft(ctx context.Context) (store.ConfigDraft, error) {
	return store.Read(ctx, m.Store, func(tx *store.Tx) (store.ConfigDraft, error) { return draft(ctx, tx) })
}

func draft(ctx context.Context, tx *store.Tx) (store.ConfigDraft, error) {
	d, found, err := tx.Operations().ConfigDraft(ctx)
	if err != nil || found {
		return d, err
	}
	if d.Base, err = tx.Operations().LatestConfig(ctx); err != nil {
		return d, err
	}
	v, err := tx.Operations().ConfigVersion(ctx, d.Base)
	d.Body = v.Body
	return d, err
}

// SetDraft replaces the draft. A provider's key that equals [config.Masked] means the stored one, because keys are
// never returned. current checks the revision of the previous draft; 0 if there is none. An invalid document is
// CodeInvalidValue, and a change of a name that the file sets is CodeSetInFile.
func (m *Manager) SetDraft(ctx context.Context, author string, settings []byte, current func(revision int64) error) (d store.ConfigDraft, err error) {
	doc, err := decode(settings)
	if err != nil {
		return d, err
	}
	parsed, err := config.ParseManaged(encode(doc))
	if err != nil {
		return d, invalid(problems(err, config.Config{}))
	}
	err = m.Store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.Operations().LockConfig(ctx); err != nil {
			return err
		}
		old, err := draft(ctx, tx)
		if err != nil {
			return err
		}
		if err := current(old.Revision); err != nil {
			return err
		}
		version, err := tx.Operations().ConfigVersion(ctx, old.Base)
		if err != nil {
			return err
		}
		doc, err := decode(settings) // decoded again, because sealKeys changes it and fn may run again
		if err == nil {
			err = m.sealKeys(ctx, tx, doc, parsed, old.Body, version.Body)
		}
		if err != nil {
			return err
		}
		body := string(encode(doc))
		if err := m.setInFile(version.Body, body); err != nil {
			return err
		}
		d, err = tx.Operations().SetConfigDraft(ctx, store.ConfigDraft{Body: body, Base: old.Base, Author: author})
		return err
	})
	return d, err
}

// sealKeys replaces the keys in a document by the ids of their encrypted forms. before are documents with the
// keys that a mask means. The mask of an unknown key means the provider's apiKey, so that a single key can become one
// of several; it is then stored again under the new id.
func (m *Manager) sealKeys(ctx context.Context, tx *store.Tx, doc map[string]any, parsed config.Managed, before ...string) error {
	for _, slot := range slots(doc) {
		provider := parsed.Providers[slot.provider]
		switch text := slot.text(); text {
		case "":
			delete(slot.in, slot.member)
		case config.Masked:
			s, err := tx.Operations().ConfigSecret(ctx, storedKey(slot, before))
			single := slot
			single.key = ""
			moved := stoa.CodeOf(err) == stoa.CodeNotFound && slot.key != ""
			if moved { // a single key becomes one of several
				s, err = tx.Operations().ConfigSecret(ctx, storedKey(single, before))
			}
			if stoa.CodeOf(err) == stoa.CodeNotFound {
				return stoa.Errorf(stoa.CodeInvalidValue, "There is no stored key of the provider %q here. Send its key instead of the mask.", slot.name).At(slot.path)
			}
			if err != nil {
				return err
			}
			if s.Origin != provider.Origin() {
				return stoa.Errorf(stoa.CodeInvalidValue, "The stored key of %q can only be sent to %s. Send the key again to use it with %s.", slot.name, s.Origin, cmp.Or(provider.Origin(), "another server")).At(slot.path)
			}
			slot.in[slot.member] = s.ID
			if moved {
				key, err := m.Vault.Open(ref(s.ID, provider, ""), s.Sealed)
				if err == nil {
					err = m.sealKey(ctx, tx, slot, provider, key)
				}
				if err != nil {
					return err
				}
			}
		default:
			if err := m.sealKey(ctx, tx, slot, provider, []byte(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Manager) sealKey(ctx context.Context, tx *store.Tx, slot slot, p config.Provider, key []byte) (err error) {
	s := store.ConfigSecret{ID: stoa.NewID("pky"), Provider: keyRef(slot.name, slot.key), Origin: p.Origin()}
	if s.Sealed, err = m.Vault.Seal(ref(s.ID, p, slot.key), key); err != nil {
		return err
	}
	slot.in[slot.member] = s.ID
	return tx.Operations().InsertConfigSecret(ctx, s)
}

func storedKey(of slot, bodies []string) string {
	for _, body := range bodies {
		doc, err := decode([]byte(body))
		if err != nil {
			continue
		}
		for _, s := range slots(doc) {
			if s.name == of.name && s.key == of.key && s.text() != "" {
				return s.text()
			}
		}
	}
	return ""
}

// setInFile fails if a document differs from the previous one in a name that the file sets.
func (m *Manager) setInFile(before, after string) error {
	changes, err := diff(before, after)
	if err != nil {
		return err
	}
	base := m.InForce().Base
	for _, c := range changes {
		if where := base.InFile(c.kind, c.name); where != "" && c.After != nil {
			return stoa.Errorf(stoa.CodeSetInFile, "%s is set in %s, which takes precedence. Change it there, or remove it there first.", c.Path, where).At("settings." + c.kind)
		}
	}
	return nil
}

// DropDraft removes the draft, if there is one; current is as in [Manager.SetDraft].
func (m *Manager) DropDraft(ctx context.Context, current func(revision int64) error) error {
	return m.Store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.Operations().LockConfig(ctx); err != nil {
			return err
		}
		d, _, err := tx.Operations().ConfigDraft(ctx)
		if err == nil {
			err = current(d.Revision)
		}
		if err != nil {
			return err
		}
		return tx.Operations().DeleteConfigDraft(ctx)
	})
}

// A Change is a difference between two documents.
type Change struct {
	Path          string          // "providers.claude", "models.local-1", "auto"
	Before, After json.RawMessage // objects with masked keys; nil if there is none

	kind, name string
}

// String returns the path and the kind of change.
func (c Change) String() string {
	switch {
	case c.Before == nil:
		return c.Path + " added"
	case c.After == nil:
		return c.Path + " removed"
	}
	return c.Path + " changed"
}

func diff(before, after string) ([]Change, error) {
	a, err := named(before)
	if err != nil {
		return nil, err
	}
	b, err := named(after)
	if err != nil {
		return nil, err
	}
	var list []Change
	paths := maps.Clone(a)
	maps.Copy(paths, b)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		was, is := a[path], b[path]
		if string(was.stored) == string(is.stored) {
			continue
		}
		of := paths[path]
		list = append(list, Change{Path: path, Before: was.shown, After: is.shown, kind: of.kind, name: of.name})
	}
	return list, nil
}

type value struct {
	kind, name    string
	stored, shown json.RawMessage
}

func named(body string) (map[string]value, error) {
	doc, err := decode([]byte(body))
	if err != nil {
		return nil, err
	}
	out := map[string]value{}
	add := func(kind, name string, v any) {
		stored := encode(v)
		switch kind {
		case "providers":
			maskKeys(map[string]any{kind: []any{v}})
		case "families":
			v = map[string]any{"routes": v}
		case "auto":
			v = map[string]any{"models": v}
		}
		out[strings.TrimSuffix(kind+"."+name, ".")] = value{kind, name, stored, encode(v)}
	}
	for kind, v := range doc {
		switch v := v.(type) {
		case map[string]any:
			for name, item := range v {
				add(kind, name, item)
			}
		case []any:
			if kind == "auto" {
				if len(v) > 0 {
					add(kind, "", v)
				}
				continue
			}
			for _, item := range v {
				if p, ok := item.(map[string]any); ok {
					name, _ := p[map[string]string{"providers": "name", "aliases": "match"}[kind]].(string)
					add(kind, name, p)
				}
			}
		}
	}
	return out, nil
}

// A PriceChange is a changed price of a model; nil means that the model is not offered.
type PriceChange struct {
	Model         string
	Before, After *stoa.Tariff
}

// A Report is the result of a check.
type Report struct {
	Draft    store.ConfigDraft
	Problems []config.Problem
	Warnings []string
	Changes  []Change
	Prices   []PriceChange
	Config   config.Config // settings with the draft

	latest int64
}

// Check compares the draft with the newest version, and reports its problems.
func (m *Manager) Check(ctx context.Context) (Report, error) {
	return m.report(ctx, draft)
}

// CheckVersion is like [Manager.Check] for an earlier version, so that it can be restored.
func (m *Manager) CheckVersion(ctx context.Context, n int64) (Report, error) {
	return m.report(ctx, func(ctx context.Context, tx *store.Tx) (store.ConfigDraft, error) {
		v, err := tx.Operations().ConfigVersion(ctx, n)
		if err == nil {
			v.N, err = tx.Operations().LatestConfig(ctx)
		}
		return store.ConfigDraft{Body: v.Body, Base: v.N}, err
	})
}

func (m *Manager) report(ctx context.Context, read func(context.Context, *store.Tx) (store.ConfigDraft, error)) (r Report, err error) {
	base := m.InForce().Base
	var now config.Config // settings with the newest version
	var invalidNow, invalidDraft error
	var shadowed []config.Shadowed
	err = m.Store.Read(ctx, func(tx *store.Tx) error {
		if r.Draft, err = read(ctx, tx); err != nil {
			return err
		}
		if r.latest, err = tx.Operations().LatestConfig(ctx); err != nil {
			return err
		}
		version, err := tx.Operations().ConfigVersion(ctx, r.latest)
		if err != nil {
			return err
		}
		if r.Changes, err = diff(version.Body, r.Draft.Body); err != nil {
			return err
		}
		if now, _, invalidNow, err = combine(ctx, tx, m.Vault, base, version.Body); err != nil {
			return err
		}
		r.Config, shadowed, invalidDraft, err = combine(ctx, tx, m.Vault, base, r.Draft.Body)
		return err
	})
	if err != nil {
		return r, err
	}
	if r.Draft.Base != r.latest {
		r.Problems = append(r.Problems, config.Problem{Message: fmt.Sprintf("version %d was applied after this draft was begun from version %d; drop the draft, and repeat the change", r.latest, r.Draft.Base)})
	}
	cat, err := build(r.Config, nil)
	if err = r.Config.Together(invalidDraft, r.Config.Confirm(err)); err != nil {
		r.Problems = append(r.Problems, problems(err, r.Config)...)
		return r, nil
	}
	for _, s := range shadowed {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s has no effect, because it is set in %s", s.Path, s.Where))
	}
	if old, err := build(now, nil); invalidNow == nil && err == nil {
		r.Prices = prices(old, cat)
	}
	return r, nil
}

// Priced returns the current catalog with the model prices of settings, which use the form of managed settings. It
// ignores everything else in them. Invalid settings are CodeInvalidValue.
func (m *Manager) Priced(settings []byte) (*catalog.Catalog, error) {
	parsed, err := config.ParseManaged(settings)
	cfg := m.InForce().Config
	if err != nil {
		return nil, invalid(problems(err, cfg))
	}
	changed := maps.Clone(cfg.Models)
	if changed == nil {
		changed = map[string]stoa.ModelChange{}
	}
	for id, c := range parsed.Models {
		if c.Price != nil {
			of := changed[id]
			of.Price = c.Price
			changed[id] = of
		}
	}
	cfg.Models = changed
	cat, err := build(cfg, nil)
	if err != nil { // caused by a price of the request, which has no position in the file
		return nil, invalid(problems(err, config.Config{}))
	}
	return cat, nil
}

func prices(before, after *catalog.Catalog) (list []PriceChange) {
	all := map[string]*PriceChange{}
	of := func(id string) *PriceChange {
		if all[id] == nil {
			all[id] = &PriceChange{Model: id}
		}
		return all[id]
	}
	for _, m := range before.Models() {
		of(m.ID).Before = &m.Price
	}
	for _, m := range after.Models() {
		of(m.ID).After = &m.Price
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if c := all[id]; c.Before == nil || c.After == nil || c.Before.Version != c.After.Version {
			list = append(list, *c)
		}
	}
	return list
}

// problems returns the problems of joined errors, with paths in the document.
func problems(err error, cfg config.Config) (list []config.Problem) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			list = append(list, problems(e, cfg)...)
		}
		return list
	}
	if p, ok := errors.AsType[*config.Problem](err); ok {
		return []config.Problem{{Where: place(p.Where), Path: cfg.ManagedPath(p.Path), Message: p.Message}}
	}
	if p, ok := errors.AsType[*catalog.Problem](err); ok {
		return []config.Problem{{Where: place(cfg.Where(p.Path)), Path: cfg.ManagedPath(p.Path), Message: p.Message}}
	}
	return []config.Problem{{Message: stoa.AsError(err).Message}}
}

// place returns the source of a setting, unless the document itself is the source.
func place(where string) string {
	if where == config.ManagedSource {
		return ""
	}
	return where
}

func invalid(list []config.Problem) error {
	first := list[0]
	text := first.Path + ": " + first.Message
	if first.Where != "" {
		text = first.Where + ": " + text
	}
	if more := len(list) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return stoa.Errorf(stoa.CodeInvalidValue, "The settings are invalid: %s.", strings.TrimPrefix(text, ": ")).At(strings.TrimSuffix("settings."+first.Path, "."))
}

// Applicable returns the error for a report that cannot be applied, or nil.
func (r Report) Applicable() error {
	switch {
	case r.Draft.Base != r.latest:
		return stoa.Errorf(stoa.CodeConflict, "Version %d was applied after this draft was started. Discard the draft and repeat the change.", r.latest)
	case len(r.Problems) > 0:
		return invalid(r.Problems)
	case len(r.Changes) == 0:
		return stoa.Errorf(stoa.CodeConflict, "The settings do not differ from version %d, so there is nothing to apply.", r.latest)
	}
	return nil
}

// Apply adds the settings of a report as the next version, and removes the draft. It fails with CodeConflict
// or CodePrecondition if the newest version or the draft has changed since the check, because the result would be
// unchecked.
func (m *Manager) Apply(ctx context.Context, tx *store.Tx, r Report, author, note string) (store.ConfigVersion, error) {
	if err := tx.Operations().LockConfig(ctx); err != nil {
		return store.ConfigVersion{}, err
	}
	if d, _, err := tx.Operations().ConfigDraft(ctx); err != nil {
		return store.ConfigVersion{}, err
	} else if r.Draft.Revision != 0 && d.Revision != r.Draft.Revision {
		return store.ConfigVersion{}, stoa.Errorf(stoa.CodePrecondition, "The draft has changed since it was checked. Check it again.")
	}
	changes := []string{}
	for _, c := range r.Changes {
		changes = append(changes, c.String())
	}
	return tx.Operations().InsertConfig(ctx, r.latest, store.ConfigVersion{Body: r.Draft.Body, Changes: changes, Author: author, Note: note})
}
