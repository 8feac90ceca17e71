package contract

import (
	"encoding/json"
	"strings"
)

// The objects of POST /api/v1/responses. They are written by hand, because the route is excluded from
// generation and its writer encodes them without reflection. Tests check both against the
// schemas of openapi.yaml.

// A CreateResponse is a model call as a client sends it. Nil or empty members are omitted, since the server treats
// null as absent.
type CreateResponse struct {
	Model           string            `json:"model"`
	Input           any               `json:"input"` // a string or []InputMessage
	Instructions    string            `json:"instructions,omitzero"`
	Stream          bool              `json:"stream,omitzero"`
	MaxOutputTokens int64             `json:"max_output_tokens,omitzero"`
	Temperature     *float64          `json:"temperature,omitzero"` // 0 to 2
	TopP            *float64          `json:"top_p,omitzero"`       // 0 to 1
	Reasoning       *Reasoning        `json:"reasoning,omitzero"`
	Metadata        map[string]string `json:"metadata,omitzero"`
	User            string            `json:"user,omitzero"`
	StrictModel     bool              `json:"strict_model,omitzero"`
}

// An InputMessage is one turn of the conversation. Role is user, assistant, system or
// developer.
type InputMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A Response is a reply. Every member is always written, because clients of the format expect all of them.
type Response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`   // seconds
	CompletedAt        *int64             `json:"completed_at"` // seconds; only when completed
	Status             ResponseStatus     `json:"status"`
	Background         bool               `json:"background"`
	Conversation       *Conversation      `json:"conversation,omitzero"` // only of agents
	Error              *ResponseError     `json:"error"`
	IncompleteDetails  *IncompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	MaxOutputTokens    *int64             `json:"max_output_tokens"`
	MaxToolCalls       *int64             `json:"max_tool_calls"`
	Model              string             `json:"model"`
	Output             []OutputItem       `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	PromptCacheKey     *string            `json:"prompt_cache_key"`
	SafetyIdentifier   *string            `json:"safety_identifier"`
	Reasoning          *Reasoning         `json:"reasoning"`
	ServiceTier        string             `json:"service_tier"`
	Store              bool               `json:"store"`
	Temperature        float64            `json:"temperature"`
	TopP               float64            `json:"top_p"`
	PresencePenalty    float64            `json:"presence_penalty"`
	FrequencyPenalty   float64            `json:"frequency_penalty"`
	Text               TextSettings       `json:"text"`
	ToolChoice         any                `json:"tool_choice"` // a string, or an object
	Tools              []FunctionTool     `json:"tools"`
	TopLogprobs        int                `json:"top_logprobs"`
	Truncation         string             `json:"truncation"`
	Usage              *ResponseUsage     `json:"usage"` // nil until the reply ends
	User               *string            `json:"user"`
	Metadata           map[string]string  `json:"metadata"`
}

// OutputText returns the text of the whole reply.
func (r *Response) OutputText() string {
	var text string
	for _, item := range r.Output {
		for _, part := range item.Content {
			text += part.Text
		}
	}
	return text
}

// ResponseStatus is the status of a reply.
type ResponseStatus string

// The statuses; all but the first are final.
const (
	ResponseInProgress ResponseStatus = "in_progress"
	ResponseCompleted  ResponseStatus = "completed"
	ResponseIncomplete ResponseStatus = "incomplete"
	ResponseFailed     ResponseStatus = "failed"
)

// A ResponseError is the reason why a reply failed.
type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// IncompleteDetails is the reason why a reply is incomplete: max_output_tokens, calls_dropped or
// content_filter.
type IncompleteDetails struct {
	Reason string `json:"reason"`
}

// Reasoning is the reasoning effort: none, minimal, low, medium, high, xhigh, max.
type Reasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// TextSettings describe the form of the text.
type TextSettings struct {
	Format    TextFormat `json:"format"`
	Verbosity string     `json:"verbosity,omitzero"` // low, medium, high
}

// A TextFormat is of type text, or with an extension json_object or json_schema.
type TextFormat struct {
	Type        string  `json:"type"`
	Name        string  `json:"name,omitzero"` // name of a schema, which the members below describe as well
	Description *string `json:"description,omitzero"`
	Schema      any     `json:"schema,omitzero"`
	Strict      bool    `json:"strict,omitzero"`
}

// An OutputItem is one item of a reply's output: a message, or with extensions also reasoning or a function
// call.
type OutputItem struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Status  string       `json:"status,omitzero"`
	Role    string       `json:"role,omitzero"`    // only of a message
	Phase   string       `json:"phase,omitzero"`   // only of a message, with extensions
	Content []OutputText `json:"content,omitzero"` // only of a message

	CallID    string `json:"call_id,omitzero"` // id of a call, which the members below describe
	Namespace string `json:"namespace,omitzero"`
	Name      string `json:"name,omitzero"`
	Arguments string `json:"arguments,omitzero"` // arguments of a function
	Input     string `json:"input,omitzero"`     // input of a custom tool
	// Members is a JSON object with the other members of a call of a vendor's tool, such as shell_call,
	// besides id, type, status and call id. It is empty for other items.
	Members string `json:"-"`

	Summary          []SummaryText `json:"summary,omitzero"` // only of reasoning
	EncryptedContent string        `json:"encrypted_content,omitzero"`
}

// UnmarshalJSON reads an item of any type.
func (it *OutputItem) UnmarshalJSON(data []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	var kind string
	_ = json.Unmarshal(members["type"], &kind)
	type plain OutputItem
	if !strings.HasSuffix(kind, "_call") || kind == "function_call" || kind == "custom_tool_call" {
		return json.Unmarshal(data, (*plain)(it))
	}
	for name, into := range map[string]*string{"id": &it.ID, "type": &it.Type, "status": &it.Status, "call_id": &it.CallID} {
		if members[name] != nil {
			if err := json.Unmarshal(members[name], into); err != nil {
				return err
			}
		}
		delete(members, name)
	}
	rest, err := json.Marshal(members)
	it.Members = string(rest)
	return err
}

// MarshalJSON writes the item in the form that [OutputItem.UnmarshalJSON] reads.
func (it OutputItem) MarshalJSON() ([]byte, error) {
	type plain OutputItem
	b, err := json.Marshal(plain(it))
	if err != nil || it.Members == "" || it.Members == "{}" {
		return b, err
	}
	return append(append(b[:len(b)-1], ','), it.Members[1:]...), nil
}

// An OutputText is a part of a message: a text, or with an extension a refusal.
type OutputText struct {
	Type        string     `json:"type"`
	Text        string     `json:"text"`
	Refusal     string     `json:"refusal,omitzero"`
	Annotations []struct{} `json:"annotations"`
	Logprobs    []struct{} `json:"logprobs"`
}

// A SummaryText is a model's summary of its reasoning.
type SummaryText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// A FunctionTool is a tool in the form in which a reply repeats it.
type FunctionTool struct {
	Type        string  `json:"type"`
	Name        string  `json:"name"`
	Description *string `json:"description"`
	Parameters  any     `json:"parameters"`
	Strict      bool    `json:"strict"`
}

// A Conversation is the session of an agent.
type Conversation struct {
	ID string `json:"id"`
}

// ResponseUsage counts tokens; TotalTokens is the sum of the two others.
type ResponseUsage struct {
	InputTokens         int64               `json:"input_tokens"`
	InputTokensDetails  InputTokensDetails  `json:"input_tokens_details"`
	OutputTokens        int64               `json:"output_tokens"`
	OutputTokensDetails OutputTokensDetails `json:"output_tokens_details"`
	TotalTokens         int64               `json:"total_tokens"`
}

// InputTokensDetails are parts of the input tokens.
type InputTokensDetails struct {
	CachedTokens     int64 `json:"cached_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
}

// OutputTokensDetails are parts of the output tokens.
type OutputTokensDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// The types of the events of a stream, in their order.
const (
	EventCreated          = "response.created"
	EventInProgress       = "response.in_progress"
	EventOutputItemAdded  = "response.output_item.added"
	EventContentPartAdded = "response.content_part.added"
	EventOutputTextDelta  = "response.output_text.delta"
	EventOutputTextDone   = "response.output_text.done"
	EventContentPartDone  = "response.content_part.done"
	EventOutputItemDone   = "response.output_item.done"
	EventSummaryAdded     = "response.reasoning_summary_part.added"
	EventSummaryDelta     = "response.reasoning_summary_text.delta"
	EventSummaryTextDone  = "response.reasoning_summary_text.done"
	EventSummaryDone      = "response.reasoning_summary_part.done"
	EventArgumentsDelta   = "response.function_call_arguments.delta"
	EventArgumentsDone    = "response.function_call_arguments.done"
	EventInputDelta       = "response.custom_tool_call_input.delta"
	EventInputDone        = "response.custom_tool_call_input.done"
	EventRefusalDelta     = "response.refusal.delta"
	EventRefusalDone      = "response.refusal.done"
	EventCompleted        = "response.completed"
	EventIncomplete       = "response.incomplete"
	EventFailed           = "response.failed"
	EventError            = "error"
)

// A ResponseEvent is one event of a stream as a client reads it. It contains the members of all types, because
// the type is known only after decoding.
type ResponseEvent struct {
	Type           string      `json:"type"`
	SequenceNumber int64       `json:"sequence_number"`
	Response       *Response   `json:"response,omitzero"` // created, in_progress, completed, incomplete, failed
	OutputIndex    int         `json:"output_index,omitzero"`
	ContentIndex   int         `json:"content_index,omitzero"`
	ItemID         string      `json:"item_id,omitzero"`
	Item           *OutputItem `json:"item,omitzero"`
	Part           *OutputText `json:"part,omitzero"`
	Delta          string      `json:"delta,omitzero"`
	Text           string      `json:"text,omitzero"`
	Refusal        string      `json:"refusal,omitzero"`
	Name           string      `json:"name,omitzero"` // name of a function, whose arguments follow
	Arguments      string      `json:"arguments,omitzero"`
	Input          string      `json:"input,omitzero"`   // input of a custom tool
	Code           string      `json:"code,omitzero"`    // error
	Message        string      `json:"message,omitzero"` // error
	Param          *string     `json:"param,omitzero"`   // error
}

// An ErrorEnvelope is the body of every failure.
type ErrorEnvelope struct {
	Error ErrorBody `json:"error"`
}

// An ErrorBody describes a failure. Every member is always written.
type ErrorBody struct {
	Message   string  `json:"message"`
	Type      string  `json:"type"`
	Param     *string `json:"param"`
	Code      string  `json:"code"`
	RequestID string  `json:"requestId"`
	Retryable bool    `json:"retryable"`
}
