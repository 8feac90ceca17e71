package stoa

import (
	"fmt"
	"log/slog"
	"time"
)

// A Model is an identifier that callers may request, with everything needed to
// serve and price it. Models are data (package catalog), never code. The JSON
// names are those of the shipped list.
type Model struct {
	ID                string   `json:"id"`
	Family            string   `json:"family"` // alpha, beta, gamma, delta, or a family of the operator
	Gated             bool     `json:"gated"`
	Aliases           []string `json:"aliases"`
	DeprecatedAliases []string `json:"deprecatedAliases"` // accepted, but a newer name is better
	ContextTokens     int64    `json:"contextTokens"`     // input and output together; 0: unknown
	MaxOutput         int64    `json:"maxOutput"`         // upper limit of one reply in tokens; 0: unknown
	DefaultOutput     int64    `json:"defaultOutput"`     // limit of a call that sets none; 0: [DefaultOutput]
	Price             Price    `json:"price"`
	PriceAssumed      bool     `json:"priceAssumed"` // the shipped price is a guess at the vendor's
	Traits            Traits   `json:"traits"`       // on the wire of its own vendor
	Routes            []Route  `json:"-"`            // in order of preference; empty: no provider
}

// DefaultOutput is the limit in output tokens of a call that sets none, where
// the model has no default of its own.
const DefaultOutput = 8192

// A ModelChange is what the operator's settings say about a model: a change of
// a shipped one, or the description of a new one. Zero members leave the model
// as it is.
type ModelChange struct {
	Family            string   `yaml:"family,omitempty"`
	Gated             *bool    `yaml:"gated,omitempty"`
	Aliases           []string `yaml:"aliases,omitempty"` // added to the shipped ones, as the next
	DeprecatedAliases []string `yaml:"deprecatedAliases,omitempty"`
	ContextTokens     int64    `yaml:"contextTokens,omitempty"`
	MaxOutput         int64    `yaml:"maxOutput,omitempty"`
	DefaultOutput     int64    `yaml:"defaultOutput,omitempty"`
	Price             *Price   `yaml:"price,omitempty"`
	Routes            []Route  `yaml:"routes,omitempty"` // in place of the family's
}

// A Route is one way to serve a model: a provider and the name of the model
// there. Settings give the members that have a YAML name; package catalog fills
// in the others.
type Route struct {
	Provider string  `yaml:"provider"`         // a [Provider]'s Name
	Model    string  `yaml:"model,omitempty"`  // upstream name; empty in settings: the usual one
	Override *Traits `yaml:"traits,omitempty"` // replaces what is known of the model; nil: as known
	Wire     string  `yaml:"-"`                // the provider's
	Dialect  string  `yaml:"-"`                // the provider's
	Traits   Traits  `yaml:"-"`                // in force
	// Fingerprint stands for the provider's address and credential. State belongs to
	// one of them; see [State.Fits].
	Fingerprint string `yaml:"-"`
}

// Traits are what a codec must know about an upstream model. The zero value is
// a model that accepts everything its wire can express.
type Traits struct {
	// Sampling: "" sends temperature and top_p as they are; "one" sends at most
	// one of them (temperature wins) and no temperature above 1; "none" drops
	// both; "unless_thinking" drops both unless the effort is "none".
	Sampling string `json:"sampling,omitempty" yaml:"sampling"`
	// Efforts are the reasoning efforts that the model accepts, least first; a
	// call's effort is mapped to the nearest one. Empty: none is ever sent.
	Efforts []string `json:"efforts,omitempty" yaml:"efforts"`
	// ThinkingOff is how the wire expresses the effort "none" where it has a
	// special form: "disabled", "between_tools". Empty: the least effort is sent.
	ThinkingOff string `json:"thinkingOff,omitempty" yaml:"thinkingOff"`
	// NoPrefill: a conversation must end with a user turn.
	NoPrefill bool `json:"noPrefill,omitempty" yaml:"noPrefill"`
	// Verbosity: text.verbosity is passed on.
	Verbosity bool `json:"verbosity,omitempty" yaml:"verbosity"`

	// What follows is about the extensions tools, formats, images and files.

	// NoTools: the model cannot call tools.
	NoTools bool `json:"noTools,omitempty" yaml:"noTools"`
	// ForcedTools: "" accepts a choice that forces a call; "no" does not;
	// "unless_thinking" does with the effort "none".
	ForcedTools string `json:"forcedTools,omitempty" yaml:"forcedTools"`
	// ParallelSwitch: of the wire chat, parallel_tool_calls is passed on.
	ParallelSwitch bool `json:"parallelSwitch,omitempty" yaml:"parallelSwitch"`
	// StrictTools: a tool's strict is passed on where its schema fits.
	StrictTools bool `json:"strictTools,omitempty" yaml:"strictTools"`
	// Schema is what the model does with a format: "native" takes a JSON schema,
	// "json" only the order to write JSON, "" neither.
	Schema string `json:"schema,omitempty" yaml:"schema"`
	// MidSystem: a system message may stand between others.
	MidSystem bool `json:"midSystem,omitempty" yaml:"midSystem"`
	// Binding: of the wire messages, thinking is bound to what came before it.
	Binding bool `json:"binding,omitempty" yaml:"binding"`
	// Vision: images are accepted; ImageURL: also as an address.
	Vision   bool `json:"vision,omitempty" yaml:"vision"`
	ImageURL bool `json:"imageURL,omitempty" yaml:"imageURL"`
	// ImageTokens is the most that one image takes; 0: [ImageTokens].
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
	MaxInFlight int    // calls at the same time; 0: 16,384
	// WholeReplies says which calls of callers without a stream are made without
	// one: auto, always or never; empty: auto.
	WholeReplies string
	Timeouts     Timeouts
}

// Timeouts of one upstream call. Zero means the default in brackets.
type Timeouts struct {
	FirstByte time.Duration `yaml:"firstByte"` // until the reply's headers [60 s]
	Idle      time.Duration `yaml:"idle"`      // between two bytes of the reply [60 s]
	Whole     time.Duration `yaml:"whole"`     // in place of these two, of a reply in one piece [60 s]
	Total     time.Duration `yaml:"total"`     // of the whole call [15 min]
}

// Format implements [fmt.Formatter]. Whatever the verb, it prints only the name,
// so that the key is never written.
func (p Provider) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "provider %q", p.Name) }

// LogValue implements [slog.LogValuer] and leaves the key out.
func (p Provider) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", p.Name), slog.String("wire", p.Wire), slog.String("baseURL", p.BaseURL))
}
