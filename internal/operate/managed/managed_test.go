package managed_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/operate/managed"
	"stoa/internal/testkit/storetest"
)

type object = map[string]any

// A node is a manager with the state that it has in force.
type node struct {
	*managed.Manager
	t     *testing.T
	state *managed.State
}

func openVault(t *testing.T, key string) *vault.Vault {
	t.Helper()
	v, err := vault.Open([]seal.MasterKey{{ID: "first", Key: []byte(strings.Repeat(key, 32))}}, "")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// newNode returns a node with a configuration file, which may be empty.
func newNode(t *testing.T, st *store.Store, v *vault.Vault, file string) *node {
	t.Helper()
	base, err := config.Load(config.Flags{Config: "stoa.yaml"}, func(string) string { return "" }, func(string) ([]byte, error) { return []byte(file), nil })
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, state: &managed.State{Base: base, Config: base}}
	n.Manager = &managed.Manager{Store: st, Vault: v, InForce: func() *managed.State { return n.state }}
	return n
}

func start(t *testing.T, file string) *node {
	t.Helper()
	return newNode(t, storetest.New(t).Open(), openVault(t, "k"), file)
}

// set replaces the draft, whatever its revision.
func (n *node) set(settings object) error {
	n.t.Helper()
	text, err := json.Marshal(settings)
	if err != nil {
		n.t.Fatal(err)
	}
	_, err = n.SetDraft(n.t.Context(), "key_1", text, func(int64) error { return nil })
	return err
}

func (n *node) report(r managed.Report, err error) managed.Report {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

// add applies a report and takes the version, as a service does.
func (n *node) add(r managed.Report) (v store.ConfigVersion) {
	n.t.Helper()
	err := r.Applicable()
	if err == nil {
		err = n.Store.Write(n.t.Context(), func(tx *store.Tx) (err error) {
			v, err = n.Apply(n.t.Context(), tx, r, "key_1", "")
			return err
		})
	}
	if err == nil {
		err = n.take(v.N)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return v
}

// take puts a version in force, unless the node cannot use it.
func (n *node) take(version int64) error {
	s, err := managed.Load(n.t.Context(), n.Store, n.Vault, n.state.Base, version)
	if err == nil {
		if _, err = s.Build(nil); err == nil {
			n.state = s
		}
	}
	return err
}

func (n *node) apply(settings object) store.ConfigVersion {
	n.t.Helper()
	if err := n.set(settings); err != nil {
		n.t.Fatal(err)
	}
	return n.add(n.report(n.Check(n.t.Context())))
}

// secrets returns the number of stored keys of providers.
func (n *node) secrets() (count int) {
	n.t.Helper()
	err := n.Store.Read(n.t.Context(), func(tx *store.Tx) error {
		_, err := tx.Get(n.t.Context(), `SELECT COUNT(*) FROM config_secrets`, nil, &count)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return count
}

// keys returns the keys of the providers in force, by provider and id.
func (n *node) keys() string {
	var list []string
	for _, p := range n.state.Config.Upstreams() {
		list = append(list, p.Ref()+"="+p.APIKey)
	}
	return strings.Join(list, " ")
}

func vendor(name string, more object) object {
	p := object{"name": name, "wire": "messages", "baseURL": "https://one.example"}
	for k, v := range more {
		p[k] = v
	}
	return p
}

func TestADraftIsSharedAndBuiltOnTheNewestVersion(t *testing.T) {
	t.Parallel()
	n := start(t, "")
	ctx := t.Context()
	n.apply(object{"plans": object{"team": object{"name": "Team"}}})
	d, err := n.Draft(ctx)
	if err != nil || d.Revision != 0 || d.Base != 1 || !strings.Contains(d.Body, "Team") {
		t.Fatalf("without a draft: %+v %v", d, err)
	}
	if err := n.set(object{"plans": object{"team": object{"name": "Crew"}}, "auto": []string{"alpha-haiku-4-5"}}); err != nil {
		t.Fatal(err)
	}
	checked := n.report(n.Check(ctx))
	if fmt.Sprint(checked.Changes[0], checked.Changes[1]) != "auto added plans.team changed" || len(checked.Problems) != 0 {
		t.Errorf("the check is %+v", checked)
	}
	// Another operator changes the draft between the check and its use.
	if err := n.set(object{"plans": object{}}); err != nil {
		t.Fatal(err)
	}
	err = n.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := n.Apply(ctx, tx, checked, "key_1", "")
		return err
	})
	if stoa.CodeOf(err) != stoa.CodePrecondition {
		t.Errorf("a draft that has changed: %v", err)
	}
	refused := stoa.Errorf(stoa.CodePrecondition, "no")
	if err := n.DropDraft(ctx, func(int64) error { return refused }); err != refused {
		t.Errorf("a draft of another revision: %v", err)
	}
	// A version that is applied meanwhile makes the draft unusable.
	n.add(n.report(n.CheckVersion(ctx, 0)))
	if err := n.set(object{"plans": object{"team": object{"name": "Crew"}}}); err != nil {
		t.Fatal(err)
	}
	stale := n.report(n.Check(ctx))
	n.add(n.report(n.CheckVersion(ctx, 1)))
	err = n.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := n.Apply(ctx, tx, stale, "key_1", "")
		return err
	})
	if err == nil {
		t.Error("a draft of an earlier version was applied")
	}
}

func TestTheFileTakesPrecedence(t *testing.T) {
	t.Parallel()
	const file = "providers:\n  - {name: claude, wire: messages}\nfamilies:\n  alpha: [{provider: claude}]\n"
	n := start(t, file)
	for name, settings := range map[string]object{
		"a provider": {"providers": []object{vendor("claude", nil)}},
		"a family":   {"families": object{"alpha": []object{{"provider": "claude"}}}},
	} {
		if err := n.set(settings); stoa.CodeOf(err) != stoa.CodeSetInFile || !strings.Contains(err.Error(), "stoa.yaml:") {
			t.Errorf("%s that the file sets: %v", name, err)
		}
	}
	n.apply(object{"families": object{"gamma": []object{{"provider": "claude", "model": "m"}}}, "aliases": []object{{"match": "gpt-4o", "model": "gamma-6-luna"}}})

	// The file names the managed family later: the managed one has no effect.
	later := newNode(t, n.Store, n.Vault, file+"  gamma: [{provider: claude, model: other}]\n")
	if err := later.take(1); err != nil {
		t.Fatal(err)
	}
	s := later.state
	if len(s.Shadowed) != 1 || s.Shadowed[0].Path != "families.gamma" || !strings.Contains(s.Shadowed[0].Where, "stoa.yaml:5") || s.Config.Families["gamma"][0].Model != "other" {
		t.Errorf("shadowed: %+v, in force: %+v", s.Shadowed, s.Config.Families)
	}
	// It may be removed from the draft, but not changed.
	if err := later.set(object{"families": object{"gamma": []object{{"provider": "claude", "model": "n"}}}}); stoa.CodeOf(err) != stoa.CodeSetInFile {
		t.Errorf("a change of a shadowed family: %v", err)
	}
	if err := later.set(object{"plans": object{"team": object{"name": "Team"}}}); err != nil {
		t.Fatal(err)
	}
	later.add(later.report(later.Check(t.Context())))
	if len(later.state.Shadowed) != 0 {
		t.Errorf("after it was removed: %+v", later.state.Shadowed)
	}
}

func TestAMistakeInPreviewedPricesIsNotSoughtInTheFile(t *testing.T) {
	t.Parallel()
	n := start(t, "models:\n  alpha-haiku-4-5: {price: {input: 1, output: 2}}\n")
	for _, id := range []string{"alpha-haiku-4-5", "beta-3.1-pro"} {
		_, err := n.Priced([]byte(`{"models":{"` + id + `":{"price":{"input":1,"cachedInput":2,"output":2}}}}`))
		if err == nil || strings.Contains(err.Error(), "stoa.yaml") || stoa.AsError(err).Param != "settings.models."+id+".price.cachedInput" {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestKeysAreAddedReplacedAndRemoved(t *testing.T) {
	t.Parallel()
	n := start(t, "")
	n.apply(object{"providers": []object{vendor("claude", object{"apiKey": "one"})}})
	two := []object{{"id": "a", "secret": config.Masked}, {"id": "b", "secret": "two", "weight": 3}}
	n.apply(object{"providers": []object{vendor("claude", object{"keys": two})}})
	if got := n.keys(); got != "claude#a=one claude#b=two" { // apiKey became the first of them
		t.Errorf("the keys are %s", got)
	}
	two[0]["secret"], two[1]["secret"] = "three", config.Masked
	n.apply(object{"providers": []object{vendor("claude", object{"keys": two})}})
	if got := n.keys(); got != "claude#a=three claude#b=two" {
		t.Errorf("with another key: %s", got)
	}
	for name, p := range map[string]object{
		"another server":          {"keys": two[1:], "baseURL": "https://two.example"},
		"an id without a key":     {"keys": []object{{"id": "c", "secret": config.Masked}}},
		"a key for another one":   {"apiKey": config.Masked},
		"a provider without keys": {"name": "other", "keys": two[1:]},
	} {
		if err := n.set(object{"providers": []object{vendor("claude", p)}}); stoa.CodeOf(err) != stoa.CodeInvalidValue {
			t.Errorf("the mask with %s: %v", name, err)
		}
	}
	n.apply(object{"providers": []object{vendor("claude", object{"keys": two[1:], "disabled": true})}})
	if got := n.keys(); got != "claude#b=two" {
		t.Errorf("without the first key: %s", got)
	}
	if p := n.state.Config.Upstreams()[0]; !p.Disabled {
		t.Errorf("the provider is not disabled: %+v", p.Name)
	}
	n.add(n.report(n.CheckVersion(t.Context(), 1)))
	if got := n.keys(); got != "claude=one" {
		t.Errorf("restored: %s", got)
	}
}

// TestANodeRefusesAVersion gives a node other keys of stored secrets.
func TestANodeRefusesAVersion(t *testing.T) {
	t.Parallel()
	n := start(t, "")
	n.apply(object{"plans": object{"team": object{"name": "Team"}}})
	n.apply(object{"providers": []object{vendor("claude", object{"apiKey": "one"})}, "families": object{"alpha": []object{{"provider": "claude"}}}})
	other := newNode(t, n.Store, openVault(t, "x"), "")
	if err := other.take(1); err != nil {
		t.Fatal(err)
	}
	if err := other.take(2); err == nil || !strings.Contains(err.Error(), "cannot be decrypted") || other.state.Version != 1 {
		t.Errorf("version 2: %v, in force: %d", err, other.state.Version)
	}
	if r := other.report(other.CheckVersion(t.Context(), 2)); len(r.Problems) == 0 || r.Problems[0].Path != "providers[0].apiKey" {
		t.Errorf("its check there is %+v", r.Problems)
	}
	if err := other.take(9); stoa.CodeOf(err) != stoa.CodeNotFound {
		t.Errorf("a version that does not exist: %v", err)
	}
}

// TestStoredKeysEndWithTheirLastVersion applies so many versions that the first one is removed.
func TestStoredKeysEndWithTheirLastVersion(t *testing.T) {
	t.Parallel()
	n := start(t, "")
	ctx := t.Context()
	one := vendor("claude", object{"apiKey": "one"})
	n.apply(object{"providers": []object{one, vendor("other", object{"apiKey": "other"})}})
	one["apiKey"] = config.Masked
	n.apply(object{"providers": []object{one}})
	if got := n.secrets(); got != 2 {
		t.Fatalf("%d keys are stored", got)
	}
	// The keys of a draft that a restored version drops end with it.
	one["apiKey"] = "dropped"
	if err := n.set(object{"providers": []object{one}}); err != nil {
		t.Fatal(err)
	}
	if got := n.secrets(); got != 3 {
		t.Fatalf("%d keys are stored with the draft", got)
	}
	n.add(n.report(n.CheckVersion(ctx, 0)))
	if got := n.secrets(); got != 2 {
		t.Errorf("%d keys are stored after the draft", got)
	}
	n.add(n.report(n.CheckVersion(ctx, 2)))
	version := n.state.Version
	err := n.Store.Write(ctx, func(tx *store.Tx) error {
		latest := version
		for latest < store.MaxConfigVersions {
			v, err := tx.Operations().InsertConfig(ctx, latest, store.ConfigVersion{Body: "{}", Changes: []string{}})
			if err != nil {
				return err
			}
			latest = v.N
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := n.secrets(); got != 2 {
		t.Fatalf("%d keys are stored with all versions", got)
	}
	n.apply(object{"plans": object{"team": object{"name": "Team"}}}) // version 1 ends, and with it the key of the other provider
	if got := n.secrets(); got != 1 {
		t.Errorf("%d keys are stored", got)
	}
	n.add(n.report(n.CheckVersion(ctx, version)))
	if got := n.keys(); got != "claude=one" {
		t.Errorf("a kept version has %s", got)
	}
}
