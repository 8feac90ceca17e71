package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"stoa/internal/base/stoa"
)

// Managed are the settings that operators change while the service runs. The file takes precedence
// over them, name by name, so that a deployment can pin a setting.
type Managed struct {
	Providers []Provider                  `yaml:"providers"`
	Families  map[string][]stoa.Route     `yaml:"families"`
	Models    map[string]stoa.ModelChange `yaml:"models"`
	Auto      []string                    `yaml:"auto"`
	Aliases   []stoa.AliasRule            `yaml:"aliases"`
	Plans     map[string]Plan             `yaml:"plans"`

	paths map[string]bool // paths of the contained settings
}

// ManagedSource is the source of managed settings; see [Config.Where].
const ManagedSource = "managed settings"

// ParseManaged reads managed settings from JSON with the file's decoder, so that both follow the same
// rules. Its error joins one [*Problem] for each invalid setting.
func ParseManaged(text []byte) (Managed, error) {
	var m Managed
	sources := map[string]string{}
	r := newReader("", sources)
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return m, &Problem{Message: "the settings are not JSON"}
	}
	for _, doc := range tree.Docs {
		if doc.Body != nil {
			r.value(doc.Body, reflect.ValueOf(&m).Elem(), "")
		}
	}
	for _, err := range r.errs {
		if p, ok := errors.AsType[*Problem](err); ok {
			p.Where = "" // no position, because a program wrote the text and its lines mean nothing to people
		}
	}
	for i, p := range m.Providers {
		for name, value := range map[string]string{"apiKeyEnv": p.APIKeyEnv, "apiKeyFile": p.APIKeyFile} {
			if value != "" {
				r.errs = append(r.errs, &Problem{Path: fmt.Sprintf("providers[%d].%s", i, name), Message: "only the configuration file can name a variable or a file with a key; use apiKey, which is stored encrypted"})
			}
		}
		for j, k := range p.Keys {
			if k.Env != "" || k.File != "" {
				r.errs = append(r.errs, &Problem{Path: fmt.Sprintf("providers[%d].keys[%d]", i, j), Message: "only the configuration file can name a variable or a file with a key; use secret, which is stored encrypted"})
			}
		}
	}
	m.paths = map[string]bool{}
	for path := range sources {
		m.paths[path] = true
	}
	c := Config{Providers: m.Providers, Models: m.Models, sources: sources}
	c.priceCachedInput()
	return m, errors.Join(r.errs...)
}

// A Shadowed is a managed setting without effect, because the file or the environment sets the
// same name.
type Shadowed struct {
	Path  string // "providers.claude", "plans.team", "auto"
	Where string // line of the file, or the variable
}

// InFile returns the source of a named setting in the file or the environment, or "". kind is a
// member of [Managed]; auto needs no name.
func (c Config) InFile(kind, name string) string {
	path := kind + "." + name
	switch kind {
	case "providers":
		path = fmt.Sprintf("providers[%d]", slices.IndexFunc(c.Providers, func(p Provider) bool { return p.Name == name }))
	case "aliases":
		path = fmt.Sprintf("aliases[%d]", slices.IndexFunc(c.Aliases, func(a stoa.AliasRule) bool { return a.Match == name }))
	case "auto":
		path = kind
	}
	if where := c.sources[path]; where != ManagedSource {
		return where
	}
	return ""
}

// With returns the settings merged with managed ones, unchecked, and the managed settings that the file
// shadows. key returns a provider's key from its id (empty for apiKey) and its stored form; its error becomes a
// problem of the provider. The maps of the result are copies, so that c stays unchanged.
func (c Config) With(m Managed, key func(p Provider, id, stored string) (string, error)) (out Config, shadowed []Shadowed, err error) {
	out = c
	out.sources = maps.Clone(c.sources)
	if out.sources == nil {
		out.sources = map[string]string{}
	}
	var problems []error
	at := map[string]string{} // maps paths of list items in m to those in out
	out.managedAt = map[string]string{}
	adds := func(kind string, from, to int) {
		old, new := fmt.Sprintf("%s[%d]", kind, from), fmt.Sprintf("%s[%d]", kind, to)
		at[old], out.managedAt[new] = new, old
	}
	takes := func(kind, name string) bool {
		if where := c.InFile(kind, name); where != "" {
			path := strings.TrimSuffix(kind+"."+name, ".")
			shadowed = append(shadowed, Shadowed{path, where})
			return false
		}
		return true
	}
	out.Providers = slices.Clone(c.Providers)
	for i, p := range m.Providers {
		if !takes("providers", p.Name) {
			continue
		}
		adds("providers", i, len(out.Providers))
		path := fmt.Sprintf("providers[%d]", len(out.Providers))
		read := func(id string, stored Secret, at string) *string {
			secret, err := key(p, id, string(stored))
			if err != nil {
				problems = append(problems, &Problem{Where: ManagedSource, Path: path + at, Message: err.Error()})
			}
			return &secret
		}
		p.key = read("", p.APIKey, ".apiKey")
		p.Keys = slices.Clone(p.Keys)
		for j, k := range p.Keys {
			p.Keys[j].key = read(k.ID, k.Secret, fmt.Sprintf(".keys[%d].secret", j))
		}
		out.Providers = append(out.Providers, p)
	}
	out.Aliases = slices.Clone(c.Aliases)
	for i, a := range m.Aliases {
		if takes("aliases", a.Match) {
			adds("aliases", i, len(out.Aliases))
			out.Aliases = append(out.Aliases, a)
		}
	}
	out.Families = added(c.Families, m.Families, func(name string) bool { return takes("families", name) })
	out.Models = added(c.Models, m.Models, func(name string) bool { return takes("models", name) })
	kept := maps.Clone(m.Plans)
	maps.DeleteFunc(kept, func(name string, _ Plan) bool { return !takes("plans", name) })
	out.Plans = mergePlans(c.Plans, kept)
	if len(m.Auto) > 0 && takes("auto", "") {
		out.Auto = m.Auto
	}
	for path := range m.paths {
		item := listItem.FindString(path)
		switch to, ok := at[item]; {
		case ok:
			out.sources[to+path[len(item):]] = ManagedSource
		case item == "" && (path == "auto" || strings.Contains(path, ".")) && c.sources[path] == "":
			out.sources[path] = ManagedSource
		}
	}
	slices.SortFunc(shadowed, func(a, b Shadowed) int { return strings.Compare(a.Path, b.Path) })
	return out, shadowed, errors.Join(problems...)
}

// listItem matches an item of a list whose items are named.
var listItem = regexp.MustCompile(`^(providers|aliases)\[\d+\]`)

// added returns base together with the entries of more whose names takes accepts.
func added[T any](base, more map[string]T, takes func(name string) bool) map[string]T {
	if len(more) == 0 {
		return base
	}
	out := maps.Clone(base)
	if out == nil {
		out = map[string]T{}
	}
	for name, v := range more {
		if takes(name) {
			out[name] = v
		}
	}
	return out
}

// ManagedPath returns the path of a setting in the managed settings, because an item has another index there than
// in the lists of [Config.With]. It returns other paths unchanged.
func (c Config) ManagedPath(path string) string {
	item := listItem.FindString(path)
	if from, ok := c.managedAt[item]; ok {
		return from + path[len(item):]
	}
	return path
}

// Confirm returns all problems of merged settings: those of [Config.Check] together with further.
func (c Config) Confirm(further error) error {
	var list []error
	for _, p := range c.Check() {
		list = append(list, p)
	}
	return c.Together(errors.Join(list...), further)
}

// Origin returns the scheme and host of the provider's server; empty if its URL is invalid.
func (p Provider) Origin() string {
	u, err := url.Parse(p.baseURL())
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// An Item is an effective named setting.
type Item struct {
	Kind, Name string         // Kind is a member of [Managed]; auto has no name
	Where      string         // line of the file, variable, [ManagedSource], or "" for the shipped value
	Value      map[string]any // form of the file, with masked keys; a list is the member routes or models
}

// Items returns the effective providers, families, aliases, auto and plans, in this order; maps are
// sorted by name, so that the result is stable.
func (c Config) Items() (list []Item, err error) {
	add := func(kind, name, path string, v any) {
		text, failed := yaml.MarshalWithOptions(v, yaml.JSON(),
			yaml.CustomMarshaler(func(s Secret) ([]byte, error) { return strconv.AppendQuote(nil, s.String()), nil }),
			yaml.CustomMarshaler(func(d time.Duration) ([]byte, error) { return strconv.AppendQuote(nil, durationText(d)), nil }))
		item := Item{Kind: kind, Name: name, Where: c.sources[path]}
		if failed == nil {
			failed = json.Unmarshal(text, &item.Value)
		}
		list, err = append(list, item), errors.Join(err, failed)
	}
	for i, p := range c.Providers {
		p.Dialect, p.BaseURL = p.dialect(), p.baseURL()
		add("providers", p.Name, fmt.Sprintf("providers[%d]", i), p)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Families)) {
		add("families", name, "families."+name, map[string]any{"routes": c.Families[name]})
	}
	for i, a := range c.Aliases {
		add("aliases", a.Match, fmt.Sprintf("aliases[%d]", i), a)
	}
	if len(c.Auto) > 0 {
		add("auto", "", "auto", map[string]any{"models": c.Auto})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Plans)) {
		add("plans", name, "plans."+name, c.Plans[name])
	}
	return list, err
}

// ModelSource returns the source of a model's settings in the form of Item.Where.
func (c Config) ModelSource(id string) string { return c.sources["models."+id] }
