package stoa

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"time"
)

// A Call is one model call, independent of the format of any provider.
type Call struct {
	Instructions    string // system text before all messages
	Messages        []Message
	Tools           []Tool
	Choice          *Choice         // restriction of the tools; nil means the model decides. See [Call.ToolChoice].
	NoParallel      bool            // maximum of one tool call in a reply
	Format          *Format         // form of the reply's text; nil means plain text. See [Call.TextFormat].
	Summary         bool            // a summary of the reasoning is requested
	MaxOutputTokens int64           // reasoning included; 0 means the default of the wire
	Temperature     *float64        // 0 to 2; nil if not set
	TopP            *float64        // 0 to 1; nil if not set
	TopK            int64           // the number of most likely tokens to choose from; 0 if not set
	Stops           []string        // the text ends before the first of them; a wire that cannot pass one omits it
	Effort          string          // none, minimal, low, medium, high, xhigh, max; empty if not set
	Verbosity       string          // low, medium, high; empty if not set
	Vendor          *VendorSettings // nil: none. See [Call.VendorSettings].
	// Stateful means that the reply is sent back in later calls, with its reasoning. So the
	// vendor is asked for the data that it needs to continue, and earlier messages are
	// sent unchanged, each separately and in its place.
	Stateful bool

	// CacheKey identifies the conversations that share a prefix. It differs between accounts, so that
	// no account profits from the cache of another; see [CacheKey].
	CacheKey string
	// Caching says where the service marks the input for the vendor's cache. It has no effect on a
	// call with marks of the caller, because those take precedence; see [Call.Marks].
	Caching Caching
	// Frugal asks the vendor not to write input to its cache that will probably not be sent again,
	// because such writes may cost more than input.
	Frugal     bool
	MarkedOnly bool

	// The following fields are never sent to a vendor.
	Account      string
	LimitDefault bool   // MaxOutputTokens is Stoa's default: a wire may leave it to the vendor
	Buffered     bool   // no text is visible before Finished, so that the call may restart after its first text
	KeepsParts   bool   // the caller keeps, and pays for, what arrived before it read too slowly
	Whole        bool   // the vendor is asked for the whole reply instead of a stream
	Thread       uint64 // hash of the account and the conversation, so that a conversation keeps its route among equal ones
	Prefer       *State // without its data: its route is tried first; nil means the configured order
	Trail        *Trail // records the attempts of the call; may be nil
}

// VendorSettings are settings that only one vendor knows: strings of OpenAI, and Anthropic's object
// as JSON. Other vendors do not receive them, because they would reject them.
type VendorSettings struct {
	ReasoningContext, ReasoningMode, ContextManagement string
}

// VendorSettings returns the settings that only one vendor has.
func (c *Call) VendorSettings() VendorSettings {
	if c.Vendor == nil {
		return VendorSettings{}
	}
	return *c.Vendor
}

// ToolChoice returns the choice of the tools, or the zero value if the model decides.
func (c *Call) ToolChoice() Choice {
	if c.Choice == nil {
		return Choice{}
	}
	return *c.Choice
}

// TextFormat returns the format of the reply's text; the zero value for plain text.
func (c *Call) TextFormat() Format {
	if c.Format == nil {
		return Format{}
	}
	return *c.Format
}

// A RouteReason says why a route served a call.
type RouteReason string

// The reasons.
const (
	RouteByOrder     RouteReason = "order"
	RouteByReasoning RouteReason = "reasoning" // it created the reasoning in the input, which no other route can read
	RouteByCache     RouteReason = "cache"     // its cache contains the conversation, so that it is cheaper than the equal routes
	RouteByFailover  RouteReason = "failover"  // another route failed, was full or had an open circuit
)

// A Trail records the attempts of a call.
type Trail struct {
	Provider string // provider of the latest attempt
	Key      string // id of the provider's key; empty if there is only one
	Reason   RouteReason
	Attempts int
	Sent     time.Time
	// Void means that the latest request failed because of its provider, so that its outcome
	// does not count.
	Void bool
	// Unpaid is called when a request fails free of charge after its provider received it. It
	// reports whether another request may follow. Nil means that it always may.
	Unpaid func() bool
	// Cut is [ReplyCut] if the service ended the reply, so that the received part is the whole
	// reply; 0 if its provider ended it.
	Cut        Adjustments
	EndUnknown bool
	// LeftOut means that the provider received less reasoning than the call contains, because it
	// cannot read the reasoning of others.
	LeftOut bool
	// MarkedBy names the party that marked the input for the cache; empty if the provider has no
	// format. MarksChanged means that a mark of the caller was dropped, moved or shortened.
	MarkedBy     MarkedBy
	MarksChanged bool
	// Described means that a part of a tool's schema was put into a description, because the
	// provider does not accept it.
	Described bool
	// InWords means that the format was requested in words.
	InWords bool
}

// Forget releases the input of a call that will not be repeated, because it may be megabytes and
// the reply may take minutes.
func (c *Call) Forget() {
	c.Instructions, c.Messages, c.Tools, c.Choice, c.Format = "", nil, nil, nil, nil
}

// A Choice restricts the tools that a model may call, and says whether it must call one.
type Choice struct {
	Mode ChoiceMode
	Only []string // names of the permitted tools; nil means all
	// Named means that the caller requested the one function in Only instead of a set of allowed
	// tools, because vendors have separate forms for the two. Mode is then [ChoiceRequired].
	Named bool
}

// A ChoiceMode says whether a model calls tools.
type ChoiceMode string

// The modes.
const (
	ChoiceAuto     ChoiceMode = "" // the model decides
	ChoiceNone     ChoiceMode = "none"
	ChoiceRequired ChoiceMode = "required"
)

// A Format is the required form of a reply's text.
type Format struct {
	Kind        FormatKind
	Name        string // name of a schema; may be empty
	Description string // description of a schema; may be empty
	Schema      string // JSON Schema, as text; only if Kind is FormatSchema
	Strict      *bool
	// Relaxed means that the format is requested in words where the provider cannot enforce it, or not together with tools.
	Relaxed bool
	// Refused means that a provider has refused the relaxed format, so that it is requested in words.
	Refused bool
}

// A FormatKind is a kind of [Format].
type FormatKind string

// The kinds.
const (
	FormatText   FormatKind = ""
	FormatObject FormatKind = "json_object"
	FormatSchema FormatKind = "json_schema"
)

// A Role is the author of a message.
type Role string

// The roles of a message. RoleSystem also stands for "developer".
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// A Message is one message of a call's input.
type Message struct {
	Role  Role
	Parts []Part
	// Tools are added by a system message without parts. The call's Tools include them too.
	Tools []Tool `json:",omitzero"`
}

// TextMessage returns a message that is one text.
func TextMessage(role Role, text string) Message {
	return Message{Role: role, Parts: []Part{{Kind: PartText, Text: text}}}
}

// Text returns the texts of the message, joined by blank lines.
func (m *Message) Text() string {
	text, more := "", []string(nil)
	for i := range m.Parts {
		switch s := m.Parts[i].Text; {
		case s == "":
		case text == "":
			text = s
		default:
			more = append(more, s)
		}
	}
	if more == nil {
		return text
	}
	return text + "\n\n" + strings.Join(more, "\n\n")
}

// A Part is one piece of the content of a message, or of a tool's result. Which
// members are set depends on Kind.
type Part struct {
	Kind   PartKind
	Text   string      // PartText
	Phase  string      // vendor's name of an assistant's text, which has to be sent back; may be empty
	Media  *Media      // PartImage, PartFile
	State  State       // PartReasoning: one segment, in its place
	Call   *ToolCall   // PartCall
	Result *ToolResult // PartResult
	Mark   Mark        // request to cache the input up to here
}

// A Mark is a request to cache the input up to a place, because it will be sent again.
type Mark uint8

// The marks. Vendors keep the input marked with MarkLong for an hour instead of minutes, so
// that writing it costs more.
const (
	MarkNone Mark = iota
	MarkShort
	MarkLong
)

// Caching is where the service marks the input of a call.
type Caching int8

// The places.
const (
	CacheOff          Caching = iota - 1 // nowhere, not even where the caller marks it
	CacheNothing                         // the input will probably not be sent again
	CacheInstructions                    // other calls of the account contained the same tools and instructions
	CacheConversation                    // the conversation will probably continue
)

// Broke names the first part of a session's call that differs from the call before. A vendor
// cannot read what follows it from its cache, because caches match prefixes.
type Broke string

// The parts, in the order in which vendors read them.
const (
	BrokeModel        Broke = "model" // another model served, whose cache is separate
	BrokeTools        Broke = "tools"
	BrokeInstructions Broke = "instructions"
	BrokeKnowledge    Broke = "knowledge" // the files of the drive were read again
	BrokeCompacted    Broke = "compacted"
	BrokeRoute        Broke = "route"   // no part differs, and another provider or key served
	BrokeExpired      Broke = "expired" // no part differs, and the vendor read nothing
)

// MarkedBy names the party that marked the input of a call for the vendor's cache.
type MarkedBy string

// The parties.
const (
	MarkedByNone   MarkedBy = "none"   // the input is not marked, and the vendor caches marked input only
	MarkedByCaller MarkedBy = "caller" // only the caller's marks were sent
	MarkedByStoa   MarkedBy = "stoa"
	MarkedByVendor MarkedBy = "vendor" // the vendor caches by itself
)

// Marks returns the number of the caller's marks for the vendor's cache, and reports whether one
// is long.
func (c *Call) Marks() (n int, long bool) {
	see := func(m Mark) {
		if m != MarkNone {
			n++
		}
		long = long || m == MarkLong
	}
	for i := range c.Tools {
		see(c.Tools[i].Mark)
	}
	for i := range c.Messages {
		for j := range c.Messages[i].Parts {
			see(c.Messages[i].Parts[j].Mark)
		}
	}
	return n, long
}

// CacheKey returns the key of an account's conversations for a vendor. It is a hash with the
// account, so that two accounts never share a key and the vendor learns neither of the two values.
func CacheKey(account, key string) string {
	sum := sha256.Sum256([]byte(account + "\x00" + key))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// A PartKind is a kind of [Part].
type PartKind uint8

// The kinds of parts. An assistant's message has texts, reasoning and calls. A user's
// message has results, which answer the calls of the preceding assistant's message and come
// first, then texts, images and files. A system message has texts.
const (
	PartText PartKind = iota + 1
	PartImage
	PartFile
	PartReasoning
	PartCall
	PartResult
)

// Media is an image or a file, either in the request or at an address that the
// vendor reads. It is checked when the request is read.
type Media struct {
	Type   string // image/png, image/jpeg, image/webp, image/gif, application/pdf; empty for a URL
	Base64 string // content; empty for a URL
	URL    string // https; empty for data
	Name   string // name of a file: one with content ends in .pdf, because vendors derive its type from that; empty for a URL without a name
	Detail string // resolution of an image: low, high, auto, original; empty if not set
	Tokens int64  // estimate; 0 means the model's trait
	Pages  int64  // estimated pages of a PDF; 0 if unknown
	Width  int64  // pixels of an image; 0 if unknown, as for a URL
	Height int64
	// UploadID is the upload of an image of a session whose bytes are not loaded yet.
	UploadID string
}

// A Tool is a function that an agent's model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  string // a JSON Schema, as text
	Strict      *bool  // the arguments must match the schema; nil if not set
	Mark        Mark   // request to cache the tools up to this one
	// Form is the form of a tool that is not a function outside of namespaces; nil for others.
	Form *ToolForm
}

// A ToolForm is a form of tools that only one vendor's format supports. The fields of the [Tool]
// or [ToolCall] describe an equivalent function, so that all other formats can ignore the form.
type ToolForm struct {
	Namespace string // may be empty
	Name      string // in the namespace; see [FlatName]
	Custom    bool   // the input is a text; the function gets it as {"input": …}
	Kind      string // type of a tool that a vendor has defined and the caller runs, such as apply_patch; empty for others
	Native    string // JSON object of the vendor's other members of a tool or a call with a Kind

	// The following fields describe declared tools, not calls.

	Description string
	Format      string // JSON format of a custom tool; empty for any text
	About       string
	Added       bool // an item of the input declares the tool; see [Message]
	Deferred    bool // the model finds the tool by a search that the caller runs
}

// A ToolCall is a tool invocation requested by the model.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string    // JSON as written by the model; it may be invalid
	Form      *ToolForm `json:",omitzero"` // form in the input of a call; see [Tool]
	Through   bool      `json:",omitzero"` // a call of [CallTool] that stands for the call of a tool; see [ToolCall.Meant]
}

// A ToolResult answers the call with that ID.
type ToolResult struct {
	CallID  string
	Name    string
	Content string
	Parts   []Part // instead of Content: texts, images and files
	Images  []ResultImage
	IsError bool
	Custom  bool `json:",omitzero"` // answer to a custom tool; see [ToolForm]
	// Kind and Native are those of the call's [ToolForm], with the members of the output's item.
	Kind, Native string `json:",omitzero"`
}

// A ResultImage is an image in the stored result of a tool, without its content.
type ResultImage struct {
	Step                 int64
	Place                int // index of the call in the step, from 0
	Number               int // index in the result, from 0
	Type                 string
	Width, Height, Bytes int64
}

// State is data that a provider expects back unchanged with its own message
// (signed thinking, encrypted reasoning). It is opaque, belongs to one wire, one
// upstream model and one credential, and is dropped for any other.
// See docs/decisions/0045-return-reasoning-by-segment.md.
type State struct {
	Wire     string
	Model    string
	Provider string // [Route.Fingerprint] of the route that created it; empty if unknown
	Data     string
	Tokens   int64 // vendor's count, or an estimate
}

// SealedPrefix is the prefix of a state that was sealed for a caller; see package seal.
const SealedPrefix = "stoa1."

// Fits reports whether the state may be sent on a route. Only the model and credential that
// created it can read it.
func (s State) Fits(r Route) bool {
	return s.Wire == r.Wire && s.Model == r.Model && (s.Provider == "" || s.Provider == r.Fingerprint)
}

// System returns the whole system text of the call: the instructions, then every
// system message in order, joined by blank lines.
func (c Call) System() string {
	var parts []string
	if c.Instructions != "" {
		parts = append(parts, c.Instructions)
	}
	for i := range c.Messages {
		if m := &c.Messages[i]; m.Role == RoleSystem {
			if text := m.Text(); text != "" {
				parts = append(parts, text)
			}
		}
	}
	return strings.Join(parts, "\n\n")
}

// Tokens that are added to the bytes of a call, because vendors charge for their own text around
// tools, formats and media.
const (
	toolsTokens  = 500 // once, if there is any tool
	toolTokens   = 16  // for each tool
	formatTokens = 300
	// ImageTokens is the estimate of an image without a trait of the model. PageTokens is that of
	// the text of a PDF page, which is added because vendors also read the page as an image.
	ImageTokens = 4096
	PageTokens  = 3000
	// MaxPages is the largest number of pages that a vendor accepts in a request (Gemini's). A
	// PDF with unknown pages counts as MaxPages, so that it is never held for too little.
	MaxPages = 1_000
)

// EstimateInput returns the estimated number of input tokens of the call.
func (c Call) EstimateInput() int64 {
	var bytes, messages int
	var tokens int64
	if c.Instructions != "" {
		bytes, messages = len(c.Instructions), 1
	}
	for _, m := range c.Messages {
		messages++
		b, n := sizeOf(m.Parts)
		bytes, tokens = bytes+b, tokens+n
	}
	for _, t := range c.Tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	if len(c.Tools) > 0 {
		tokens += toolsTokens + int64(len(c.Tools))*toolTokens
	}
	if f := c.TextFormat(); f.Kind != FormatText {
		bytes += len(f.Schema)
		tokens += formatTokens
	}
	return EstimateTokens(bytes) + int64(messages)*TokensPerMessage + tokens
}

// sizeOf returns the text bytes of the parts, and the tokens of other content.
func sizeOf(parts []Part) (bytes int, tokens int64) {
	for _, p := range parts {
		switch p.Kind {
		case PartText:
			bytes += len(p.Text)
		case PartImage, PartFile:
			tokens += p.Media.tokens()
		case PartReasoning:
			n := EstimateTokens(len(p.State.Data))
			if p.State.Tokens > 0 {
				n = min(n, p.State.Tokens+16)
			}
			tokens += n
		case PartCall:
			bytes += len(p.Call.Name) + len(p.Call.Arguments)
		case PartResult:
			b, n := sizeOf(p.Result.Parts)
			bytes, tokens = bytes+len(p.Result.Content)+b, tokens+n
		}
	}
	return bytes, tokens
}

// Estimate returns the maximum number of tokens of an image or, with file, of a file, for a
// model with the traits.
func (m *Media) Estimate(t Traits, file bool) int64 {
	image := t.ImageTokens
	if image == 0 {
		image = ImageTokens
	}
	switch {
	case file && m.Pages > 0:
		return m.Pages * (PageTokens + image)
	case file:
		return MaxPages * (PageTokens + image)
	case m.Detail == "original" && m.Width > 0:
		return max(image, min(10_000, ((m.Width+31)/32)*((m.Height+31)/32)))
	}
	return image
}

func (m *Media) tokens() int64 {
	switch {
	case m.Tokens > 0:
		return m.Tokens
	case m.Type == "application/pdf" || m.URL != "" && m.Type == "":
		pages := m.Pages
		if pages == 0 {
			pages = MaxPages
		}
		return pages * (PageTokens + ImageTokens)
	}
	return ImageTokens
}

// Reasoning returns the number of reasoning segments in the call's parts.
func (c *Call) Reasoning() (n int) {
	for i := range c.Messages {
		for j := range c.Messages[i].Parts {
			if p := &c.Messages[i].Parts[j]; p.Kind == PartReasoning && p.State.Data != "" {
				n++
			}
		}
	}
	return n
}

// WithoutReasoning returns copies of the messages without the reasoning of earlier replies.
func (c *Call) WithoutReasoning() []Message {
	list := slices.Clone(c.Messages)
	for i := range list {
		list[i].Parts = slices.DeleteFunc(slices.Clone(list[i].Parts), func(p Part) bool { return p.Kind == PartReasoning })
	}
	return slices.DeleteFunc(list, func(m Message) bool { return len(m.Parts) == 0 })
}

// Media reports whether the call contains images or files, and whether it contains files.
func (c *Call) Media() (any, files bool) {
	for i := range c.Messages {
		images, pdfs := mediaIn(c.Messages[i].Parts)
		any, files = any || images, files || pdfs
	}
	return any, files
}

func mediaIn(parts []Part) (any, files bool) {
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case PartImage:
			any = true
		case PartFile:
			any, files = true, true
		case PartResult:
			images, pdfs := mediaIn(p.Result.Parts)
			any, files = any || images, files || pdfs
		}
	}
	return any, files
}

// An OperationFilter selects operations of an OpenAPI document.
type OperationFilter struct {
	Tags   []string `json:"tags,omitempty"`   // the operation has one of them
	Paths  []string `json:"paths,omitempty"`  // one of them is a prefix of the path
	Search string   `json:"search,omitempty"` // words that all have to occur
}
