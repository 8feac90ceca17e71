package stoa

import (
	"fmt"
	"log/slog"
	"time"
)

// A Model is an identifier that callers may request, with all data for serving and pricing
// it. Models are data (package catalog), never code. The JSON names are those of the
// shipped list.
type Model struct {
	ID                string   `json:"id"`
	Family            string   `json:"family"` // alpha, beta, gamma, delta, or a family of the operator
	Gated             bool     `json:"gated"`
	Aliases           []string `json:"aliases"`
	DeprecatedAliases []string `json:"deprecatedAliases"` // accepted, but a newer name is better
	ContextTokens     int64    `json:"contextTokens"`     // input and output together; 0 if unknown
	MaxOutput         int64    `json:"maxOutput"`         // upper limit of one reply in tokens; 0 if unknown
	DefaultOutput     int64    `json:"defaultOutput"`     // limit of a call that sets none; 0 means [DefaultOutput]. Plenty of credits raise it
	LimitSet          bool     `json:"-"`                 // the operator has set DefaultOutput, so that credits do not raise it
	Price             Tariff   `json:"price"`
	PriceAssumed      bool     `json:"priceAssumed"` // the vendor's price is unknown, so that the shipped price is a guess
	Traits            Traits   `json:"traits"`       // on the wire of its vendor
	Routes            []Route  `json:"-"`            // by preference; empty means no provider
}

// DefaultOutput is the output limit in tokens of a call that sets none, if its model has no default.
const DefaultOutput = 8192

// A ModelChange is an operator's setting for a model: a change of a shipped one, or the
// description of a new one. Zero fields leave the model unchanged.
type ModelChange struct {
	Family            string   `yaml:"family,omitempty"`
	Gated             *bool    `yaml:"gated,omitempty"`
	Aliases           []string `yaml:"aliases,omitempty"` // additional to the shipped ones, like DeprecatedAliases
	DeprecatedAliases []string `yaml:"deprecatedAliases,omitempty"`
	ContextTokens     int64    `yaml:"contextTokens,omitempty"`
	MaxOutput         int64    `yaml:"maxOutput,omitempty"`
	DefaultOutput     int64    `yaml:"defaultOutput,omitempty"`
	Price             *Tariff  `yaml:"price,omitempty"`
	Routes            []Route  `yaml:"routes,omitempty"`
}

// An AliasRule is an operator's setting: names that match are aliases of the model.
type AliasRule struct {
	Match string `yaml:"match" json:"match"` // a name in which each * stands for any characters, or none
	Model string `yaml:"model" json:"model"` // an identifier, an alias or auto
}

// A Route is one way to serve a model: a provider and its name for the model. Settings
// contain the fields that have a YAML name; package catalog fills in the others.
type Route struct {
	Provider string `yaml:"provider"`
	Model    string `yaml:"model,omitempty"` // upstream name; empty in settings: the usual one
	// Weight is the route's share of the calls among adjacent routes with a weight; 0 means that
	// it precedes or follows them.
	Weight   int64   `yaml:"weight,omitempty"`
	Override *Traits `yaml:"traits,omitempty"` // replacement of the known traits; nil means the known ones
	Wire     string  `yaml:"-"`                // copy of the provider's
	Dialect  string  `yaml:"-"`                // copy of the provider's
	Traits   Traits  `yaml:"-"`
	// Fingerprint identifies the provider's address and credential, because a state belongs to one
	// of them; see [State.Fits].
	Fingerprint string `yaml:"-"`
	// Key is the id of the provider's key, if it has several. Group distinguishes the keys of one
	// route from the weighted routes next to it.
	Key   string `yaml:"-"`
	Group int    `yaml:"-"`
	// Handle is the provider in package upstream with the settings of this route, so that a call
	// keeps them while other settings are applied. Nil means the provider that has the name when
	// the call is made.
	Handle any `yaml:"-"`
}

// Ref returns the name of the route's provider, with the id of the key if there are several.
func (r *Route) Ref() string { return providerRef(r.Provider, r.Key) }

// Ref returns the name of the provider as [Route.Ref] does.
func (p *Provider) Ref() string { return providerRef(p.Name, p.Key) }

func providerRef(name, key string) string {
	if key == "" {
		return name
	}
	return name + "#" + key // unique, because names have no #
}

// Traits are the properties of an upstream model that a codec needs. The zero value is a
// model that accepts everything its wire can express.
type Traits struct {
	// Sampling: "" sends temperature and top_p as they are; "one" sends at most
	// one of them (temperature wins) and no temperature above 1; "none" drops
	// both; "unless_thinking" drops both unless the effort is "none".
	Sampling string `json:"sampling,omitempty" yaml:"sampling"`
	// Efforts are the reasoning efforts that the model accepts, lowest first; a call's
	// effort is mapped to the nearest one. If it is empty, none is ever sent.
	Efforts []string `json:"efforts,omitempty" yaml:"efforts"`
	// ThinkingOff is the wire's special form of the effort "none", if any: "disabled",
	// "between_tools". If it is empty, the lowest effort is sent.
	ThinkingOff string `json:"thinkingOff,omitempty" yaml:"thinkingOff"`
	// NoPrefill: a conversation must end with a user turn, because the model rejects others.
	NoPrefill bool `json:"noPrefill,omitempty" yaml:"noPrefill"`
	Verbosity bool `json:"verbosity,omitempty" yaml:"verbosity"`

	// The following traits are about the extensions tools, formats, images and files.

	// NoTools: the model cannot call tools.
	NoTools bool `json:"noTools,omitempty" yaml:"noTools"`
	// ForcedTools: "" accepts a choice that forces a call; "no" does not;
	// "unless_thinking" does with the effort "none".
	ForcedTools string `json:"forcedTools,omitempty" yaml:"forcedTools"`
	// ParallelSwitch: of the wire chat, parallel_tool_calls is passed on.
	ParallelSwitch bool `json:"parallelSwitch,omitempty" yaml:"parallelSwitch"`
	// CallIDs: "" accepts the ids of calls from elsewhere; "nine" means that an id has nine
	// letters and digits, because Mistral's models require it.
	CallIDs string `json:"callIDs,omitempty" yaml:"callIDs"`
	// StrictTools: a tool's strict is passed on where its schema fits.
	StrictTools bool `json:"strictTools,omitempty" yaml:"strictTools"`
	// Schema is the model's support for formats: "native" accepts a JSON schema, "json"
	// only a request for JSON, "" neither. In settings "none" means neither, and ""
	// means native for the dialect compatible of chat.
	Schema string `json:"schema,omitempty" yaml:"schema"`
	// CustomTools: on the wire responses, custom tools and namespaces are passed on. Other models
	// get functions instead.
	CustomTools bool `json:"customTools,omitempty" yaml:"customTools"`
	// MidSystem means that a system message may be between others.
	MidSystem bool `json:"midSystem,omitempty" yaml:"midSystem"`
	// Binding means that, on the wire messages, thinking is bound to the content before it.
	Binding bool `json:"binding,omitempty" yaml:"binding"`
	// PaidCache: on the wire responses, the vendor's cache writes cost more than input, and breakpoints
	// for its cache are accepted.
	PaidCache bool `json:"paidCache,omitempty" yaml:"paidCache"`
	// Vision: images are accepted; ImageURL: also as an address.
	Vision   bool `json:"vision,omitempty" yaml:"vision"`
	ImageURL bool `json:"imageURL,omitempty" yaml:"imageURL"`
	// ImageTokens is the maximum number of tokens of one image; 0 means [ImageTokens].
	ImageTokens int64 `json:"imageTokens,omitempty" yaml:"imageTokens"`
	// PDF: PDF files are accepted.
	PDF bool `json:"pdf,omitempty" yaml:"pdf"`
}

// Forces reports whether a call with that effort can make the model call a tool.
func (t Traits) Forces(effort string) bool {
	return t.ForcedTools == "" || t.ForcedTools == "unless_thinking" && effort == "none"
}

// A Provider is a configured endpoint with its credentials.
type Provider struct {
	Name        string
	Wire        string // messages, gemini, responses, chat, or sandbox
	Dialect     string // of chat: openai, deepseek, compatible
	BaseURL     string
	APIKey      string // secret; never logged
	Key         string // the id of APIKey, if the provider has several: each is a Provider of its own with the same name
	KeyWeight   int64  // the share of the key among those of the provider
	MaxInFlight int    // calls at the same time; 0 means 16,384
	// WholeReplies selects the calls that are not streamed at the vendor if the caller does
	// not stream: auto, always or never; empty means auto.
	WholeReplies string
	// Caching says whose marks for the vendor's cache are sent: auto (the caller's, or else the
	// service's), frugal, caller or off; empty means auto. See [Call.Frugal].
	Caching  string
	Timeouts Timeouts
	Discover Discovery
	Disabled bool // no route leads to it
}

// A ListedModel is a model in the list of a server.
type ListedModel struct {
	ID            string
	ContextTokens int64 // 0 if unknown
	Vision        bool
}

// A Discovery says whether the models that a server lists can be called by their names there.
type Discovery struct {
	On bool
	// Priced means that Price is the price of each of these models. Without it they are free
	// at a loopback or private address, and not served elsewhere.
	Priced bool
	Price  Tariff
}

// Timeouts of one upstream call. Zero means the default in brackets.
type Timeouts struct {
	FirstByte time.Duration `yaml:"firstByte"` // until the reply's headers [60 s]
	Idle      time.Duration `yaml:"idle"`      // between two bytes of the reply [60 s]
	Whole     time.Duration `yaml:"whole"`     // instead of these two, for a reply that is not streamed [60 s]
	Total     time.Duration `yaml:"total"`     // of the whole call [15 min]
}

// Format implements [fmt.Formatter]. Whatever the verb, it prints only the name,
// so that the key is never written.
func (p Provider) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "provider %q", p.Name) }

// LogValue implements [slog.LogValuer] without the key, so that no log contains it.
func (p Provider) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", p.Name), slog.String("wire", p.Wire), slog.String("baseURL", p.BaseURL))
}
