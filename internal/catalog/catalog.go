// Package catalog knows the models: their identifiers, aliases, families,
// gates, prices and routes, and what "auto" means. It resolves the name a
// caller wrote to the models that may serve the call.
//
// The shipped list is data (models.json); an operator's settings change it or
// add to it through [Options]. The package never opens a socket, reads a file
// or knows how healthy a route is: it is told. A Catalog does not change once
// made; new settings make a new one. Start at [New] and [Catalog.Resolve].
package catalog

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

//go:embed models.json
var shippedJSON []byte

// Auto is the identifier that leaves the choice of a model to the service.
const Auto = "auto"

// The name of the built-in model as a provider, and of its wire. No configured
// provider may have it, so the sandbox never becomes a failover target.
const (
	SandboxProvider = "sandbox"
	SandboxWire     = "sandbox"
)

// Options are what an operator may change. The zero value is the shipped
// catalog, served by the sandbox.
type Options struct {
	Providers []stoa.Provider
	Families  map[string][]Route // who serves a family, in order of preference
	Models    map[string]Model   // changes to shipped identifiers, and an operator's own
	Auto      []string           // empty: the shipped order
	Sandbox   string             // auto (also ""), always or off
}

// A Route is an operator's wish: this provider, under that name.
type Route struct {
	Provider string
	Model    string       // upstream name; empty: the usual one of the identifier
	Traits   *stoa.Traits // nil: those known of the upstream name, else of the model on its own vendor's wire
}

// A Model changes a shipped identifier, or describes an operator's own. Zero
// members leave what is there.
type Model struct {
	Family            string
	Gated             *bool
	Aliases           []string // added to the shipped ones
	DeprecatedAliases []string
	ContextTokens     int64
	MaxOutput         int64
	DefaultOutput     int64
	Price             *Price
	Routes            []Route // instead of the family's
}

// A Price is what a million tokens cost, in micro-credits.
type Price struct {
	Input       stoa.Credits
	CachedInput *stoa.Credits // nil: the input rate
	Output      stoa.Credits
}

// A Problem is a setting that cannot work. Its path has the form of the
// configuration file: "auto[1]", "models.my-model.price".
type Problem struct {
	Path    string
	Message string
}

func (p *Problem) Error() string { return p.Path + ": " + p.Message }

// SettingPath names the setting at fault, for whoever knows its line.
func (p *Problem) SettingPath() string { return p.Path }

// A Catalog holds every model that may be asked for. It is safe for use by
// several goroutines.
type Catalog struct {
	models    []entry           // shipped order, then the operator's own by identifier
	byID      map[string]int    // identifier → index in models
	aliases   map[string]string // alias → identifier
	auto      []int             // indexes in models
	families  []family
	providers map[string]stoa.Provider
	famRoutes map[string][]Route
	sandbox   bool
}

// entry is a model with what only the catalog needs of it.
type entry struct {
	stoa.Model
	aliases    []string
	deprecated []string
	assumed    bool // the price is an assumption
	ownRoutes  bool
	traits     stoa.Traits
}

// family is a vendor line as shipped, or an operator's own (all but the name empty).
type family struct {
	Name           string `json:"name"`
	Wire           string `json:"wire"`
	Dialect        string `json:"dialect"`
	UpstreamPrefix string `json:"upstreamPrefix"`
	Switch         string `json:"switch"` // the variable that switches it on
}

// shipped is the form of models.json.
type shipped struct {
	PriceVersion string   `json:"priceVersion"`
	Families     []family `json:"families"`
	Models       []struct {
		ID                string   `json:"id"`
		Family            string   `json:"family"`
		Gated             bool     `json:"gated"`
		Aliases           []string `json:"aliases"`
		DeprecatedAliases []string `json:"deprecatedAliases"`
		ContextTokens     int64    `json:"contextTokens"`
		MaxOutput         int64    `json:"maxOutput"`
		DefaultOutput     int64    `json:"defaultOutput"`
		Price             struct {
			Input       stoa.Credits `json:"input"`
			CachedInput stoa.Credits `json:"cachedInput"`
			Output      stoa.Credits `json:"output"`
			Assumption  bool         `json:"assumption"`
		} `json:"price"`
		Note   string      `json:"note"`
		Traits stoa.Traits `json:"traits"`
	} `json:"models"`
	Auto []string `json:"auto"`
}

// load reads the shipped catalog.
func load() (shipped, error) {
	var s shipped
	if err := jsonx.UnmarshalKnown(shippedJSON, &s); err != nil {
		return s, fmt.Errorf("read the shipped models: %w", err)
	}
	return s, nil
}

// Info is a model as it is published.
type Info struct {
	ID                string
	Family            string
	Gated             bool
	Aliases           []string // in force; never nil
	DeprecatedAliases []string // accepted, but a newer name is better; never nil
	ContextTokens     int64    // 0: unknown
	MaxOutput         int64    // 0: unknown
	Price             stoa.Price
	PriceAssumed      bool // the shipped price is a guess at the vendor's
	Available         bool // something serves it
}

// Models lists every identifier in a fixed order, for /meta. "auto" is not among them.
func (c *Catalog) Models() []Info {
	infos := make([]Info, 0, len(c.models))
	for _, m := range c.models {
		infos = append(infos, Info{
			ID: m.ID, Family: m.Family, Gated: m.Gated,
			Aliases:           append([]string{}, m.aliases...),
			DeprecatedAliases: append([]string{}, m.deprecated...),
			ContextTokens:     m.ContextTokens, MaxOutput: m.MaxOutput,
			Price: m.Price, PriceAssumed: m.assumed, Available: len(m.Routes) > 0,
		})
	}
	return infos
}

// DefaultModel is what "auto" stands for while everything is healthy: the first
// of its list that is served; empty when there is none. The list holds no gated
// model, so it is the same on every plan.
func (c *Catalog) DefaultModel(stoa.Plan) string {
	for _, i := range c.auto {
		if m := c.models[i]; len(m.Routes) > 0 {
			return m.ID
		}
	}
	return ""
}

// Serving says in one line each which family is served by what, for start-up.
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
	var auto []string
	for _, i := range c.auto {
		if len(c.models[i].Routes) > 0 {
			auto = append(auto, c.models[i].ID)
		}
	}
	if len(auto) == 0 {
		return append(lines, "auto: none of its models has a provider, so it answers 503; set auto to identifiers that are served and not gated")
	}
	return append(lines, "auto: "+strings.Join(auto, ", then "))
}

// describe names the providers of routes and their wires.
func (c *Catalog) describe(routes []Route) string {
	var names []string
	for _, r := range routes {
		text := r.Provider + " (" + c.providers[r.Provider].Wire
		if r.Model != "" {
			text += ", " + r.Model
		}
		names = append(names, text+")")
	}
	return strings.Join(names, ", then ")
}
