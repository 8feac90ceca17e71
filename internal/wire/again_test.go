package wire

import (
	"bytes"
	"io"
	"iter"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/jsonx"
	"stoa/internal/sse"
	"stoa/internal/stoa"
)

// formats begin the replies of the codecs.
var formats = map[string]func(*reply, stoa.Route) format{
	"chat":      func(r *reply, route stoa.Route) format { return &chatReply{reply: r, route: route} },
	"responses": func(r *reply, route stoa.Route) format { return &responsesReply{reply: r, route: route} },
	"messages":  func(r *reply, route stoa.Route) format { return &messagesReply{reply: r, route: route} },
	"gemini":    func(r *reply, route stoa.Route) format { return &geminiReply{reply: r, route: route} },
}

// A parser is a format that parses every event, as if none were like another. Unless
// it forgets, it counts those that were recognised.
type parser struct {
	format
	r          *reply
	forgets    bool
	recognised *int
}

func (p parser) event(ev sse.Event) error {
	err := p.format.event(ev)
	if p.forgets {
		p.r.like = jsonx.Pattern{}
	}
	return err
}

func (p parser) again() error {
	*p.recognised++
	return p.format.again()
}

// parsed decodes body, with every event parsed or with those recognised that are like
// others; these are counted.
func parsed(body io.Reader, route stoa.Route, want Want, all bool) (events iter.Seq2[*stoa.Event, error], recognised *int) {
	recognised = new(int)
	return read(body, want, route.Wire == "gemini", func(r *reply) format {
		return parser{formats[route.Wire](r, route), r, all, recognised}
	}), recognised
}

// checkAlike checks that a reply is the same whether or not events are recognised,
// and returns how many were.
func checkAlike(t testing.TB, body []byte, route stoa.Route, want Want) int {
	t.Helper()
	every, _ := parsed(bytes.NewReader(body), route, want, true)
	some, recognised := parsed(bytes.NewReader(body), route, want, false)
	if diff := cmp.Diff(collect(t, every).lines, collect(t, some).lines); diff != "" {
		t.Fatalf("with %d events recognised (-every event parsed):\n%s", *recognised, diff)
	}
	return *recognised
}

// TestEventsAlikeAreReadAlike reads streams whose events repeat more than a text: what
// else they bring counts as often as it comes.
func TestEventsAlikeAreReadAlike(t *testing.T) {
	t.Parallel()
	const (
		chatHead    = `{"id":"x","created":1,"choices":[{"index":0,"delta":`
		chatEnd     = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n"
		textDelta   = `{"type":"response.output_text.delta","sequence_number":NUMBER,"item_id":"i","delta":TEXT,"logprobs":[],"obfuscation":"PADDING"}`
		textEnd     = "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}\n\n"
		item        = "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"all\"}]}}\n\n"
		signed      = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"}}\n\n"
		blockStart  = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
		blockEnd    = "data: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\ndata: {\"type\":\"message_stop\"}\n\n"
		geminiEnd   = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}]},\"finishReason\":\"STOP\"}]}\n\n"
		geminiUsage = `,"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":NUMBER,"totalTokenCount":NUMBER,"promptTokensDetails":[{"modality":"M","tokenCount":3}]},"responseId":"r"}`
	)
	// Each text is a JSON string, and the number differs from event to event. Strings
	// are cut inside a character.
	texts := []string{`"one"`, `" two"`, `"\ud83d"`, `"\ude00 \"three\""`, `""`, `"four\u0000"`, "\"\xf0\x9f\"", "\"\x98\x80\"", `"five"`}
	counts := []string{"1", "2", "null", "4", "1.5", "6", `"7"`, "8", "9"}
	for _, test := range []struct {
		name, wire, begin, event, end string
		recognised                    int // at least so many of the events
	}{
		{"plain", "chat", "", chatHead + `{"content":TEXT},"finish_reason":null}]}`, chatEnd, 8},
		{"usage", "chat", "", chatHead + `{"content":TEXT}}],"usage":{"prompt_tokens":3,"completion_tokens":NUMBER}}`, chatEnd, 8},
		{"a list of parts", "chat", "", chatHead + `{"content":[{"type":"text","text":TEXT}]}}]}`, chatEnd, 8},
		{"two texts", "chat", "", chatHead + `{"content":TEXT,"refusal":"no"}}]}`, chatEnd, 0},
		{"text and reasoning", "chat", "", chatHead + `{"reasoning_content":"hm","content":TEXT}}]}`, chatEnd, 0},
		{"text and a call", "chat", "", chatHead + `{"content":TEXT,"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}}]}`, chatEnd, 0},
		{"with a reason to stop", "chat", "", chatHead + `{"content":TEXT},"finish_reason":"length"}]}`, chatEnd, 8},
		{"plain", "responses", "", textDelta, textEnd, 8},
		{"two items", "responses", "data: " + textDelta + "\n\n" + item, textDelta, item + textEnd, 8},
		{"a refusal", "responses", "", strings.Replace(textDelta, "output_text", "refusal", 1), textEnd, 8},
		{"reasoning", "responses", "", strings.Replace(textDelta, "output_text", "reasoning_text", 1), textEnd, 0},
		{"two texts", "responses", "", strings.Replace(textDelta, `"logprobs"`, `"delta":"more","logprobs"`, 1), textEnd, 0},
		{"plain", "messages", blockStart, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":TEXT}}`, blockEnd, 8},
		{"with a state", "messages", signed + blockStart, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":TEXT}}`, blockEnd, 8},
		{"the type last", "messages", blockStart, `{"type":"content_block_delta","index":0,"delta":{"text":TEXT,"type":"text_delta"}}`, blockEnd, 8},
		{"text and thinking", "messages", blockStart, `{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"},"delta":{"type":"text_delta","text":TEXT}}`, blockEnd, 0},
		{"text and a signature", "messages", strings.Replace(blockStart, "text", "thinking", 2), `{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"s"},"delta":{"type":"text_delta","text":TEXT}}`, blockEnd, 0},
		{"plain", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":TEXT}],"role":"model"}}]}`, geminiEnd, 8},
		{"usage", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":TEXT}],"role":"model"}}]` + geminiUsage, geminiEnd, 8},
		{"usage and then none", "gemini", "data: {\"usageMetadata\":{\"promptTokenCount\":3}}\n\n", `{"candidates":[{"content":{"parts":[{"text":TEXT}]}}]}` + "\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":NUMBER}}", geminiEnd, 8},
		{"a bad usage now and then", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":TEXT}]}}]}` + "\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":NUMBER,\"thoughtsTokenCount\":\"none\"}}", geminiEnd, 8},
		{"usage now and then", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":TEXT}]}}]}` + "\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":NUMBER}}", geminiEnd, 8},
		{"usage here and there", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":TEXT}]}}]` + geminiUsage + "\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":NUMBER,\"candidatesTokenCount\":1}}", geminiEnd, 8},
		{"counts that are none", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":TEXT}]}}],"usageMetadata":{"candidatesTokenCount":COUNT}}`, geminiEnd, 3},
		{"a bad count", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":TEXT}]}}],"usageMetadata":{"candidatesTokenCount":COUNT,"promptTokenCount":"none"}}`, geminiEnd, 3},
		{"two usages", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":TEXT}]}}],"usageMetadata":{"promptTokenCount":9},"usageMetadata":{}}` + "\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":NUMBER}}", geminiEnd, 0},
		{"two texts", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":TEXT},{"text":"more"}],"role":"model"}}]}`, geminiEnd, 0},
		{"a thought", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":TEXT,"thought":true}],"role":"model"}}]}`, geminiEnd, 0},
		{"text and a thought", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":TEXT}],"role":"model"}}]}`, geminiEnd, 0},
		{"text and a signature", "gemini", "", `{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"s"},{"text":TEXT}],"role":"model"}}]}`, geminiEnd, 0},
		{"text and a call", "gemini", "", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}},{"text":TEXT}],"role":"model"}}]}`, geminiEnd, 0},
	} {
		t.Run(test.wire+"/"+test.name, func(t *testing.T) {
			var body strings.Builder
			body.WriteString(strings.NewReplacer("TEXT", `"zero"`, "NUMBER", "9").Replace(test.begin))
			for i, text := range texts {
				event := strings.NewReplacer("TEXT", text, "NUMBER", strconv.Itoa(i), "COUNT", counts[i], "PADDING", strings.Repeat("x", i))
				body.WriteString("data: " + event.Replace(test.event) + "\n\n")
			}
			body.WriteString(test.end)
			n := checkAlike(t, []byte(body.String()), stoa.Route{Wire: test.wire, Model: "m", Dialect: "deepseek"}, Want{Tools: true})
			if n < test.recognised || test.recognised == 0 && n > 0 {
				t.Errorf("%d of %d events were recognised, %d were to be", n, len(texts), test.recognised)
			}
		})
	}
}
