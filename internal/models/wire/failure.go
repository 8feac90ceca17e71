package wire

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// maxDetail is the maximum size of a vendor's message in the log, in bytes.
const maxDetail = 600

// A complaint is a vendor's error in a neutral form.
type complaint struct {
	kind      string // "type" or "status", an identifier
	code      string // an optional second identifier
	number    int    // "code" as an HTTP status, if it is a number
	message   string
	param     string
	reason    string // the first reason among the details
	delay     time.Duration
	requestID string
}

// parseComplaint reads an error body or event: {"error": {…}}, {"error": "…"}, a flat object,
// or a list of one. It reports false for any other form.
func parseComplaint(data []byte) (p complaint, ok bool) {
	c := jsonx.NewReplyCursor(data)
	if c.Kind() == '[' {
		if c.Array(); !c.Element() {
			return p, false
		}
	}
	if !c.Object() {
		return p, false
	}
	flat := complaint{}
	for c.Member() {
		switch string(c.Key) {
		case "error":
			if c.Kind() == '"' {
				p.message, _ = c.Text()
				ok = true
			} else if c.Kind() == '{' {
				for ok := c.Object(); ok && c.Member(); {
					p.member(&c)
				}
				ok = true
			}
		case "detail": // FastAPI's: a text, or a list of objects
			if c.Kind() == '"' {
				flat.message, _ = c.Text()
			} else if c.Kind() == '[' {
				flat.invalid(&c)
			}
		case "request_id":
			flat.requestID, _ = c.Text()
		default:
			flat.member(&c)
		}
	}
	p.requestID = flat.requestID
	if !ok && (flat.message != "" || flat.code != "") {
		return flat, true
	}
	if p.kind == "" && p.code == "" { // {"code": "…", "error": "…"}, as xAI has it
		p.kind, p.code = flat.kind, flat.code
	}
	return p, ok
}

// invalid reads FastAPI's list of invalid values and keeps the first.
func (p *complaint) invalid(c *jsonx.Cursor) {
	for ok := c.Array(); ok && c.Element(); {
		var at []string
		message := ""
		for ok := c.Object(); ok && c.Member(); {
			switch string(c.Key) {
			case "loc":
				if c.Kind() != '[' {
					continue
				}
				for ok := c.Array(); ok && c.Element(); {
					if s, ok := c.Text(); ok {
						at = append(at, s)
					} else if n, ok := c.Int(); ok {
						at = append(at, strconv.FormatInt(n, 10))
					}
				}
			case "msg":
				message, _ = c.Text()
			}
		}
		if p.message == "" && message != "" {
			p.message = strings.Join(append(compact(strings.Join(at, ".")), message), ": ")
		}
	}
}

func (p *complaint) member(c *jsonx.Cursor) {
	switch string(c.Key) {
	case "type", "status":
		if s, ok := c.Text(); ok && (p.kind == "" || p.kind == "error") {
			p.kind = s
		}
	case "code":
		if c.Kind() == '"' {
			p.code, _ = c.Text()
			p.number, _ = strconv.Atoi(p.code)
		} else if n, ok := c.Int(); ok && n >= 100 && n < 600 {
			p.number = int(n)
		}
	case "message":
		p.message, _ = c.Text()
	case "param":
		p.param, _ = c.Text()
	case "details":
		if c.Kind() == '[' {
			for ok := c.Array(); ok && c.Element(); {
				p.detail(c)
			}
		} else {
			p.detail(c)
		}
	}
}

func (p *complaint) detail(c *jsonx.Cursor) {
	for ok := c.Object(); ok && c.Member(); {
		switch string(c.Key) {
		case "reason", "error_code":
			if s, ok := c.Text(); ok && p.reason == "" {
				p.reason = s
			}
		case "retryDelay":
			s, _ := c.Text()
			if d, err := time.ParseDuration(s); err == nil {
				p.delay = d
			}
		}
	}
}

// decodeError is the [Codec.DecodeError] of every wire, because vendors use different words for the
// same few meanings.
func decodeError(status int, h http.Header, body []byte) *Failure {
	p, _ := parseComplaint(body)
	if p.message == "" && p.kind == "" && p.code == "" {
		p.message = string(body[:min(len(body), maxDetail)])
	}
	if d, ok := retryAfter(h); ok {
		p.delay = d
	}
	for _, name := range []string{"request-id", "x-request-id", "x-goog-request-id", "cf-ray"} {
		if p.requestID != "" {
			break
		}
		p.requestID = h.Get(name)
	}
	f := p.failure(status)
	f.Status = status
	return f
}

// streamError returns the failure of an error that arrived inside a reply.
func streamError(data []byte) *Failure {
	p, _ := parseComplaint(data)
	return p.failure(p.number)
}

// The words that vendors use, by meaning: identifiers (…Words) are compared whole,
// messages (…Texts) by substring, both in lower case.
var (
	billWords   = []string{"insufficient_quota", "credit_balance_exhausted", "billing_error", "billing_hard_limit_reached", "billing_not_active", "enforced_spend_limit_reached", "account_deactivated", "insufficient_balance", "arrearage"}
	keyWords    = []string{"authentication_error", "permission_error", "invalid_api_key", "unauthenticated", "permission_denied", "api_key_invalid", "api_key_expired", "api_key_service_blocked"}
	modelWords  = []string{"model_not_found", "model_not_exist", "failed_precondition"}
	loadWords   = []string{"overloaded_error", "rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "unavailable", "slow_down", "server_is_overloaded", "engine_overloaded", "too_many_requests"}
	timeWords   = []string{"timeout_error", "deadline_exceeded", "timeout"}
	lengthWords = []string{"context_length_exceeded", "string_above_max_length", "request_too_large", "exceed_context_size_error", "too_many_prompt_tokens"}
	promptWords = []string{"invalid_prompt", "content_policy_violation", "content_filter", "data_inspection_failed"}
	wrongWords  = []string{"invalid_request_error", "invalid_argument", "failed_precondition", "bad_request"}
	belowWords  = []string{"integer_below_min_value"}

	reasoningWords = []string{"invalid_encrypted_content"}
	reasoningTexts = []string{"encrypted content", "encrypted_content", "`signature` in `thinking`", "signature in thinking", "thought signature", "thought_signature", "thoughtsignature", "'reasoning_content'", "'reasoning'"}

	// callIDTexts are Mistral's and those of servers with its tokenizer, such as vLLM.
	callIDTexts = []string{"must be a-z, a-z, 0-9, with a length of 9"}

	billTexts   = []string{"credit balance is too low", "insufficient balance"}
	keyTexts    = []string{"incorrect api key", "invalid api key", "api key not valid"}
	modelTexts  = []string{"model not exist"}
	lengthTexts = []string{
		"prompt is too long", "context length", "context window", "context limit", "context_length", "exceeds the maximum number of tokens",
		"input token count", "too many tokens", "too many input tokens", "maximum input length", "input is too long", "prompt too long", "string too long", "reduce the length",
		"available context size",               // llama.cpp
		"messages is too long",                 // Perplexity
		"maximum prompt length",                // xAI
		"`inputs` tokens + `max_new_tokens`",   // text-generation-inference
		"model token limit",                    // Moonshot
		"maximum allowed input length",         // Together
		"prompt exceeds max length",            // Z.ai
		"range of input length",                // Alibaba
		"max_tokens must be at least 1, got -", // vLLM: the rest of its context
		"greater than the context", "longer than the model's context",
	}
	promptTexts = []string{
		"content exists risk", "content filtering policy", "violating our usage policy", "flagged as potentially violating", "content management policy",
		"flagged by moderation", "input was flagged", // OpenRouter
		"content violates usage guidelines", // xAI
	}
	// requestTexts mean that the request is at fault even if the status is 500.
	requestTexts = []string{
		"image input is not supported", "audio input is not supported", "failed to parse tool call arguments", "jinja exception", "conversation roles must alternate", // llama.cpp
		"missing data required for image input", // Ollama
	}
	limitNames = []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "maxoutputtokens"}
	limitTexts = []string{">", "at most", "maximum", "exceed", "too large", "less than", "range"}
	// aboveTexts mean that the limit is too high even if the message also names the context.
	aboveTexts = []string{
		"'max_output_tokens': integer above", "'max_completion_tokens': integer above", "'max_tokens': integer above",
		"'max_completion_tokens' is too large", "'max_tokens' is too large", "max_tokens is too large", "max_completion_tokens is too large",
	}
)

// failure returns the meaning of a complaint. Words are read before the status, because one
// status has causes that need different answers; without known words the status decides. The
// order is: bill, credentials, configuration, time, length, content, output limit, load,
// Stoa's own request, the rest. One function serves all wires, because vendors copy each
// other's formats and compatible servers mix them. An unpaid bill is model_unavailable and not an
// overload, because waiting does not help, and the operator is warned. The vendor's text goes,
// bounded and without keys, into [Failure.Detail]. The caller receives fixed sentences, unless the
// vendor rejects the request for a reason that is not in these lists, because then only the
// vendor's own sentence helps.
func (p *complaint) failure(status int) *Failure {
	words := []string{strings.ToLower(p.kind), strings.ToLower(p.code), strings.ToLower(p.reason)}
	said := func(list []string) bool {
		for _, w := range words {
			for _, l := range list {
				if w == l {
					return true
				}
			}
		}
		return false
	}
	message := strings.ToLower(p.message)
	wrote := func(list []string) bool {
		for _, l := range list {
			if strings.Contains(message, l) {
				return true
			}
		}
		return false
	}
	is := func(list ...int) bool {
		for _, s := range list {
			if status == s {
				return true
			}
		}
		return false
	}
	faulty := is(400, 413, 422) || status == 0 && said(wrongWords) || is(500) && wrote(requestTexts)

	f := &Failure{RetryAfter: p.delay, RequestID: word(p.requestID, 128)}
	f.Detail = bounded(strings.Join(compact(p.kind, p.code, p.reason, p.param, p.message), " | "))
	switch {
	case is(402) || said(billWords) || (faulty || is(403, 429)) && wrote(billTexts):
		f.Ours, f.RetryAfter = true, 0
		f.Err = stoa.Errorf(stoa.CodeModelUnavailable, "This model is not available at the moment. Use another one, or try again later.").At("model")
	case is(403) && (said(promptWords) || wrote(promptTexts)):
		f.prompt()
	case is(401, 403) || said(keyWords) || faulty && wrote(keyTexts):
		f.Ours = true
		f.Err = stoa.Errorf(stoa.CodeUpstream, "The model's provider rejected the service's credentials. The operator has to repair that: use another model, or try again later.")
	case is(404, 405) || status >= 300 && status < 400 || faulty && (said(modelWords) || wrote(modelTexts)):
		f.Ours = true
		f.Err = stoa.Errorf(stoa.CodeUpstream, "The model's provider does not serve this model as configured. Use another model, or try again later.")
	case is(408, 504, 522, 524) || said(timeWords):
		f.Retry = true
		f.Err = stoa.Errorf(stoa.CodeUpstreamTimeout, "The model's provider took too long. Try again.")
	case faulty && (said(belowWords) && wrote(limitNames)):
		f.Caller = true
		f.Err = stoa.Errorf(stoa.CodeInvalidValue, "This model's output limit cannot be that low%s. Raise max_output_tokens.", quoted(p.message)).At("max_output_tokens")
	case faulty && wrote(aboveTexts):
		f.limit()
	case is(413) || said(lengthWords) || (faulty || is(500)) && wrote(lengthTexts):
		f.Caller = true
		f.Err = stoa.Errorf(stoa.CodeContextLength, "The input is too long for this model. Shorten it, or use a model with a larger context.").At("input")
	case said(promptWords) || faulty && wrote(promptTexts):
		f.prompt()
	case faulty && wrote(limitNames) && wrote(limitTexts) && !said([]string{"unsupported_parameter"}):
		f.limit()
	case is(429, 503, 529) || said(loadWords):
		f.Retry = true
		// The caller waits for 1 to 5 s only, because client libraries wait for that time, and another route may be available earlier.
		wait := max(time.Second, min(5*time.Second, f.RetryAfter.Round(time.Second)))
		f.Err = stoa.Errorf(stoa.CodeOverloaded, "The model's provider is overloaded. Try again in a moment.").After(wait)
	case faulty:
		f.Neutral = true
		f.Reasoning = said(reasoningWords) || wrote(reasoningTexts)
		f.CallIDs = wrote(callIDTexts)
		f.Err = stoa.Errorf(stoa.CodeInvalidValue, "The model's provider rejected the request%s. Change it, or use another model.", quoted(p.message))
	default:
		f.Retry = status < 400 || status >= 500 || is(409, 425, 499)
		f.Err = stoa.Errorf(stoa.CodeUpstream, "The model's provider failed. Try again.")
	}
	return f
}

func (f *Failure) prompt() {
	f.Caller = true
	f.Err = stoa.Errorf(stoa.CodeInvalidPrompt, "The model's provider refused the input because of its content. Change it and try again.").At("input")
}

// limit makes f the failure of a limit above the model's maximum output.
func (f *Failure) limit() {
	f.Caller = true
	f.Err = stoa.Errorf(stoa.CodeInvalidValue, "This model cannot write that many tokens in one reply. Lower max_output_tokens.").At("max_output_tokens")
}

// maxWait is the longest Retry-After of a vendor that is honoured.
const maxWait = 24 * time.Hour

// retryAfter reads a vendor's Retry-After. A date is relative to the reply's own
// Date header, so that clock differences do not matter.
func retryAfter(h http.Header) (time.Duration, bool) {
	for _, v := range []struct {
		name string
		unit time.Duration
	}{{"retry-after-ms", time.Millisecond}, {"retry-after", time.Second}} {
		s := strings.TrimSpace(h.Get(v.name))
		if n, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(n) && n >= 0 {
			return time.Duration(min(n, float64(maxWait/v.unit)) * float64(v.unit)), true
		}
		if at, err := http.ParseTime(s); err == nil {
			if now, err := http.ParseTime(h.Get("Date")); err == nil {
				return max(0, min(maxWait, at.Sub(now))), true
			}
		}
	}
	return 0, false
}

func compact(parts ...string) (out []string) {
	for _, p := range parts {
		if p != "" && (len(out) == 0 || out[len(out)-1] != p) {
			out = append(out, p)
		}
	}
	return out
}

// bounded prepares a vendor's message for the log: one line of valid UTF-8, at most
// [maxDetail] bytes, without anything that looks like an API key.
func bounded(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), 2*maxDetail)], "\ufffd")
	fields := strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
	for i, w := range fields {
		if i > 0 && strings.EqualFold(fields[i-1], "bearer") {
			fields[i] = "…"
			continue
		}
		for _, mark := range []string{"sk-", "sk_", "AIza", "gsk_", "xai-", "key-"} {
			at := strings.Index(w, mark)
			if at < 0 || len(w)-at < 12 {
				continue
			}
			fields[i] = w[:at+len(mark)] + "…"
		}
	}
	s = strings.Join(fields, " ")
	if len(s) > maxDetail {
		s = strings.ToValidUTF8(s[:maxDetail], "")
	}
	return s
}

const maxQuote = 300 // bytes of a vendor's sentence in an error

// secretWords are addresses and the vendor's names of accounts. They are not quoted, because they
// belong to the operator.
var secretWords = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://\S+|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\b(?:org|proj|acct|user)[-_][a-z0-9]{6,}\b|[\w.+-]+@[\w.-]+\w`)

// quoted returns a vendor's message to follow a sentence: ": …", without keys,
// addresses and names of accounts. It is empty where there is nothing to quote.
func quoted(message string) string {
	s := secretWords.ReplaceAllString(bounded(message), "…")
	if len(s) > maxQuote {
		s = strings.ToValidUTF8(s[:maxQuote], "") + "…"
	}
	if s = strings.TrimRight(s, ". "); s == "" {
		return ""
	}
	return ": " + s
}

// word returns s if it is printable ASCII without spaces of at most limit bytes, otherwise an
// empty string.
func word(s string, limit int) string {
	if len(s) > limit {
		return ""
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return ""
		}
	}
	return s
}
