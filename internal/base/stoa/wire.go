package stoa

import "slices"

// A WireInfo contains the properties of a providers' format that are needed outside its codec in
// package wire.
type WireInfo struct {
	Name string
	// Dialects are the variants of the format. Dialect is the default.
	Dialects []string
	Dialect  string
	// Versioned means that the codec's paths contain the version of the API, so that a base
	// URL omits it. Other formats require it there, except the dialects of Unversioned.
	Versioned   bool
	Unversioned []string
	Lists       bool     // its servers list their models at the path /models, or /v1/models if Versioned
	Endpoints   []string // last parts of its endpoints' paths; no base URL may end with them
	BaseEnds    []string // redundant ends of base URLs, which are dropped; the longest first, because others are parts of it
	StrictTools int      // maximum number of tools of a call whose schemas the vendor enforces; 0 means no limit
	// CacheWrite and CacheWriteLong are the vendor's rates, in percent of its rate of input, for
	// input that it writes to its cache for a short and for a long lifetime; 0 means 100.
	CacheWrite, CacheWriteLong int64
	// OtherVendor maps a dialect to the wire of the same vendor, because one vendor can have two wires.
	OtherVendor map[string]string
}

// wires are the formats. Anthropic's price list has 125 and 200 percent for writes to its
// caches; OpenAI's has 125 since GPT-5.6, whose caches write every prompt of 1,024 tokens
// or more.
var wires = []WireInfo{
	{
		Name: "messages", Versioned: true, Lists: true, Endpoints: []string{"messages"}, BaseEnds: []string{"/v1/messages", "/v1"},
		StrictTools: 20, CacheWrite: 125, CacheWriteLong: 200,
	},
	{Name: "gemini", Versioned: true, BaseEnds: []string{"/v1beta/models", "/v1/models", "/v1beta", "/v1alpha", "/v1"}},
	{Name: "responses", Lists: true, Endpoints: []string{"responses"}, BaseEnds: []string{"/responses"}, CacheWrite: 125, CacheWriteLong: 125},
	{
		Name: "chat", Lists: true, Dialects: []string{"openai", "deepseek", "compatible"}, Dialect: "compatible", Unversioned: []string{"deepseek"},
		Endpoints: []string{"completions", "chat"}, BaseEnds: []string{"/chat/completions"}, OtherVendor: map[string]string{"openai": "responses"},
	},
}

// Wires returns the formats of providers.
func Wires() []WireInfo { return slices.Clone(wires) }

// WireNamed returns the format of that name, or the zero value.
func WireNamed(name string) WireInfo {
	for _, w := range wires {
		if w.Name == name {
			return w
		}
	}
	return WireInfo{}
}

// Vendor returns the name of the vendor of the wire with a dialect.
func (w WireInfo) Vendor(dialect string) string {
	switch other := w.OtherVendor[dialect]; {
	case other != "":
		return other
	case len(w.Dialects) > 0:
		return w.Name + "/" + dialect
	}
	return w.Name
}
