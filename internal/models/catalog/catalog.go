// Package catalog defines the models: their identifiers, aliases, families, gates, prices
// and routes, and the list behind "auto". It resolves the name in a request to the models
// that may serve the call.
//
// The shipped list is data (models.json); the operator's settings change it or add to it
// through [Options]. The package never opens a socket, never reads a file and does not
// track the health of routes: its caller passes that in. A Catalog is immutable; new
// settings need a new one. Start at [New] and [Catalog.Resolve].
package catalog

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/stoa"
)

//go:embed models.json
var shippedJSON []byte

// Auto is the identifier with which a caller leaves the choice to the service.
const Auto = "auto"

// The provider name and the wire of the built-in model. No configured provider may use that name,
// so that the sandbox is never a failover target.
const (
	SandboxProvider = "sandbox"
	SandboxWire     = "sandbox"
)

// Options are the settings of the operator. The zero value is the shipped
// catalog, served by the sandbox.
type Options struct {
	Providers []stoa.Provider
	Families  map[string][]stoa.Route     // which providers serve a family, in order of preference
	Models    map[string]stoa.ModelChange // changes of shipped models, and models of the operator
	Auto      []string                    // empty means the shipped order
	Aliases   []stoa.AliasRule            // in order
	AliasSets []string                    // names of shipped lists of rules, which follow Aliases
	Sandbox   string                      // auto (also ""), always or off
	// Handle returns the handle of a provider for its routes, by [stoa.Provider.Ref]; nil means
	// that routes have none.
	Handle func(ref string) any
}

// A Problem is an invalid setting. Its path is that of the configuration file: "auto[1]",
// "models.my-model.price".
type Problem struct {
	Path    string
	Message string
}

// Error returns the path of the setting and the message.
func (p *Problem) Error() string { return p.Path + ": " + p.Message }

// SettingPath returns the path of the setting, so that package config can add
// the line of the file to the message.
func (p *Problem) SettingPath() string { return p.Path }

// A Catalog contains every model that may be requested. It is safe for concurrent use.
type Catalog struct {
	models    []entry           // in the shipped order, then the operator's models by identifier
	byID      map[string]int    // identifier → index in models
	aliases   map[string]string // alias → identifier
	rules     []aliasRule
	anthropic bool  // the alias set of this name is on
	auto      []int // indexes in models
	families  []family
	providers map[string]stoa.Provider
	keys      map[string][]stoa.Provider // by provider, one for each of several keys
	famRoutes map[string][]stoa.Route
	sandbox   bool
	created   time.Time
	upstream  map[string]known // by upstream name
	ownAuto   bool             // auto is the operator's list
	handle    func(ref string) any
	discover  []string // providers whose servers list their models, in order
	unread    []string // of these, without a list; see [Catalog.WithListings]
	stopped   []string // models with routes to disabled providers only

	priceVersion string // of the shipped prices
}

// Created returns the creation time of the shipped list of models.
func (c *Catalog) Created() time.Time { return c.created }

type entry struct {
	stoa.Model
	ownRoutes bool // its routes differ from those of its family
}

// family is a shipped family, or one of the operator (all but the name empty).
type family struct {
	Name           string `json:"name"`
	Wire           string `json:"wire"`
	Dialect        string `json:"dialect"`
	UpstreamPrefix string `json:"upstreamPrefix"`
	Switch         string `json:"switch"` // the environment variable that enables it
}

// shipped is the form of models.json.
type shipped struct {
	PriceVersion string   `json:"priceVersion"`
	Created      int64    `json:"created"` // of the list, in Unix seconds
	Families     []family `json:"families"`
	Models       []struct {
		stoa.Model
		Note string `json:"note"` // for readers of the file
	} `json:"models"`
	Auto []string `json:"auto"`
	// AliasSets are lists of rules for the names that the clients of a vendor use.
	AliasSets map[string][]stoa.AliasRule `json:"aliasSets"`
}

// Models returns every model except "auto" in a fixed order. The lists of aliases are copies and
// never nil.
func (c *Catalog) Models() []stoa.Model {
	models := make([]stoa.Model, 0, len(c.models))
	for _, m := range c.models {
		m.Aliases, m.DeprecatedAliases = append([]string{}, m.Aliases...), append([]string{}, m.DeprecatedAliases...)
		models = append(models, m.Model)
	}
	return models
}

// Model returns the model with an identifier.
func (c *Catalog) Model(id string) (stoa.Model, bool) {
	i, ok := c.byID[id]
	if !ok {
		return stoa.Model{}, false
	}
	return c.models[i].Model, true
}

// InDollars reports whether a credit of the model's price is a US dollar, as in the shipped
// prices. Operators may define their own prices in another unit.
func (c *Catalog) InDollars(m stoa.Model) bool { return m.Price.Version == c.priceVersion }

// Disabled reports whether a provider is disabled; ref may have the id of a key.
func (c *Catalog) Disabled(ref string) bool {
	name, _, _ := strings.Cut(ref, "#")
	return c.providers[name].Disabled
}

// Stopped returns the identifiers of the models whose providers are all disabled.
func (c *Catalog) Stopped() []string { return c.stopped }

// Offered returns the identifiers that a plan may request and that a provider serves:
// "auto" first, then by name.
func (c *Catalog) Offered(plan stoa.Plan) []string {
	var ids []string
	for _, m := range c.models {
		if len(m.Routes) > 0 && plan.Allows(m.Model) {
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	if c.DefaultModel(plan) != "" {
		ids = slices.Insert(ids, 0, Auto)
	}
	return ids
}

// Identifier returns the identifier of an alias; other names are returned unchanged.
func (c *Catalog) Identifier(name string) string { return cmp.Or(c.alias(name), name) }

// DefaultModel returns the model that "auto" resolves to while everything is healthy: the first
// of its list with a route, or "". The result is the same for every plan, because the list
// contains no gated model.
func (c *Catalog) DefaultModel(stoa.Plan) string {
	for _, i := range c.auto {
		if m := c.models[i]; len(m.Routes) > 0 {
			return m.ID
		}
	}
	return ""
}

// Serving returns one line per family that names its providers, for operators.
func (c *Catalog) Serving() []string {
	var lines []string
	if c.sandbox {
		var names, switches []string
		for _, f := range c.families {
			names = append(names, f.Name)
			if f.Switch != "" {
				switches = append(switches, f.Switch)
			}
		}
		return append(lines, fmt.Sprintf("%s: the built-in sandbox; to connect a vendor, set %s or STOA_UPSTREAM",
			strings.Join(names, ", "), strings.Join(switches, ", ")))
	}
	for _, f := range c.families {
		if routes := c.famRoutes[f.Name]; len(routes) > 0 {
			lines = append(lines, f.Name+": "+c.describe(routes))
			continue
		}
		hint := "families." + f.Name
		if f.Switch != "" {
			hint = f.Switch + " or " + hint
		}
		if slices.ContainsFunc(c.models, func(m entry) bool { return m.Family == f.Name && !m.ownRoutes }) {
			lines = append(lines, fmt.Sprintf("%s: no provider, so its models answer 503; set %s", f.Name, hint))
		}
	}
	for _, m := range c.models {
		if m.ownRoutes {
			var names []string
			for _, r := range m.Routes {
				names = append(names, r.Provider+" as "+r.Model)
			}
			lines = append(lines, m.ID+": "+strings.Join(names, ", then "))
		}
	}
	for _, name := range c.discover {
		lines = append(lines, name+": all models of its server, by their names there")
	}
	var auto []string
	for _, i := range c.auto {
		if len(c.models[i].Routes) > 0 {
			auto = append(auto, c.models[i].ID)
		}
	}
	if len(auto) == 0 && len(c.discover) > 0 && !c.ownAuto {
		return append(lines, "auto: the first model of "+c.discover[0]+"'s list")
	}
	if len(auto) == 0 {
		return append(lines, "auto: none of its models has a provider, so it answers 503; set auto to identifiers that are served and not gated")
	}
	return append(lines, "auto: "+strings.Join(auto, ", then "))
}

func (c *Catalog) describe(routes []stoa.Route) string {
	var names []string
	for _, r := range routes {
		text := r.Provider + " (" + c.providers[r.Provider].Wire
		if r.Model != "" {
			text += ", " + r.Model
		}
		if c.providers[r.Provider].Disabled {
			text += ", disabled"
		}
		names = append(names, text+")")
	}
	return strings.Join(names, ", then ")
}
