package stoa

import (
	"fmt"
	"log/slog"
	"time"
)

// A Model is an identifier that callers may use, with all that is needed to
// serve and to price it. Models are data (the catalog), never code.
type Model struct {
	ID            string
	Family        string // alpha, beta, gamma, delta, or an operator's own word
	Gated         bool
	Price         Price
	ContextTokens int64   // input and output together; 0: unknown
	MaxOutput     int64   // ceiling of one reply in tokens; 0: unknown
	DefaultOutput int64   // cap of a call that names none; 0: 8,192
	Routes        []Route // in order of preference; empty: no provider
}

// A Route is a way to serve a model: a provider, the name the model has there,
// and what the model there will not take.
type Route struct {
	Provider string // a [Provider]'s Name
	Model    string // the upstream name
	Wire     string // the provider's
	Dialect  string // the provider's
	Traits   Traits
}

// Traits are what a codec must know of an upstream model. The zero value is a
// model that takes everything its wire can say.
type Traits struct {
	// Sampling: "" sends temperature and top_p as they are; "one" sends at most
	// one of them (temperature wins) and no temperature above 1; "none" drops
	// both; "unless_thinking" drops both unless the effort is "none".
	Sampling string `json:"sampling,omitempty" yaml:"sampling"`
	// Efforts are the reasoning efforts that the model takes, least first; a
	// call's effort is moved to the nearest one. Empty: none is ever sent.
	Efforts []string `json:"efforts,omitempty" yaml:"efforts"`
	// ThinkingOff is what the wire says for the effort "none" where it has a
	// way of its own: "disabled", "between_tools". Empty: treated as the least effort.
	ThinkingOff string `json:"thinkingOff,omitempty" yaml:"thinkingOff"`
	// NoPrefill: a conversation must end with a user turn.
	NoPrefill bool `json:"noPrefill,omitempty" yaml:"noPrefill"`
	// Verbosity: text.verbosity is passed on.
	Verbosity bool `json:"verbosity,omitempty" yaml:"verbosity"`
}

// A Provider is a configured endpoint with its credentials.
type Provider struct {
	Name        string
	Wire        string // messages, gemini, responses, chat, or sandbox
	Dialect     string // of chat: openai, deepseek, compatible
	BaseURL     string
	APIKey      string // secret; never logged
	MaxInFlight int    // 0: 512
	Timeouts    Timeouts
}

// Timeouts of one upstream call. Zero means the default in brackets.
type Timeouts struct {
	FirstByte time.Duration // until the reply's headers [60 s]
	Idle      time.Duration // between two bytes of the reply [60 s]
	Total     time.Duration // of the whole call [15 min]
}

// Format keeps the key out of text, whatever the verb: only the name is printed.
func (p Provider) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "provider %q", p.Name) }

// LogValue keeps the key out of logs.
func (p Provider) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", p.Name), slog.String("wire", p.Wire), slog.String("baseURL", p.BaseURL))
}
