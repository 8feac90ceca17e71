package null

import (
	"fmt"
	"strconv"
	"strings"
)

// A reply is the prepared body for one kind of request. A stream has one flush per delta; the
// events before the first and after the last are sent with it.
type reply struct {
	whole  []byte
	before []byte
	deltas [][]byte
	after  []byte
}

// Text returns the text of a reply of n bytes: it needs no JSON escapes, and any two
// neighbouring pieces of it differ.
func Text(n int) string {
	var b strings.Builder
	b.Grow(n + 8)
	for i := 0; b.Len() < n; i++ {
		b.WriteString("w" + strconv.Itoa(i%1000) + " ")
	}
	return b.String()[:n]
}

// piece returns the range of the ith of n deltas in a text of size bytes.
func piece(i, n, size int) (from, to int) { return i * size / n, (i + 1) * size / n }

const id = "0123456789abcdef0123456789abcdef"

// events are the events of a stream, each with its framing.
type events struct {
	before, after []string
	delta         func(i int, text string) string
	whole         string
}

// event is an event of the formats that name their events.
func event(kind, data string) string { return "event: " + kind + "\ndata: " + data + "\n\n" }

// wires are the four formats, as their vendors send them.
var wires = map[string]func(text string, deltas int) events{
	"chat":      chat,
	"responses": responses,
	"messages":  messages,
	"gemini":    gemini,
}

// newReply prepares the reply of a wire.
func newReply(wire string, deltas, size int) *reply {
	text := Text(size)
	e := wires[wire](text, deltas)
	r := &reply{whole: []byte(e.whole), before: []byte(strings.Join(e.before, "")), after: []byte(strings.Join(e.after, ""))}
	for i := range deltas {
		from, to := piece(i, deltas, size)
		r.deltas = append(r.deltas, []byte(e.delta(i, text[from:to])))
	}
	return r
}

func chat(text string, deltas int) events {
	head := `{"id":"chatcmpl-` + id + `","object":"chat.completion.chunk","created":1790000000,"model":"null","system_fingerprint":"fp_0","choices":[`
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":10,"completion_tokens":%[1]d,"total_tokens":%[2]d,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`, deltas, 10+deltas)
	choice := func(delta, finish string) string {
		return `{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}`
	}
	data := func(s string) string { return "data: " + s + "\n\n" }
	return events{
		before: []string{data(head + choice(`{"role":"assistant","content":""}`, "null") + "]}")},
		delta:  func(_ int, s string) string { return data(head + choice(`{"content":"`+s+`"}`, "null") + "]}") },
		after: []string{
			data(head + choice("{}", `"stop"`) + "]}"), data(head + "]," + usage + "}"), data("[DONE]"),
		},
		whole: `{"id":"chatcmpl-` + id + `","object":"chat.completion","created":1790000000,"model":"null","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],` + usage + `,"service_tier":"default","system_fingerprint":"fp_0"}`,
	}
}

func responses(text string, deltas int) events {
	seq := 0
	next := func(kind, members string) string {
		s := event(kind, `{"type":"`+kind+`","sequence_number":`+strconv.Itoa(seq)+","+members+"}")
		seq++
		return s
	}
	object := func(status, output, usage string) string {
		return `{"id":"resp_` + id + `","object":"response","created_at":1790000000,"status":"` + status + `","background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"null","output":[` + output + `],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"service_tier":"default","store":false,"temperature":1,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_p":1,"truncation":"disabled","usage":` + usage + `,"user":null,"metadata":{}}`
	}
	part := func(s string) string {
		return `{"type":"output_text","annotations":[],"logprobs":[],"text":"` + s + `"}`
	}
	item := func(status, content string) string {
		return `{"id":"msg_` + id + `","type":"message","status":"` + status + `","content":[` + content + `],"role":"assistant"}`
	}
	usage := fmt.Sprintf(`{"input_tokens":10,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`, deltas, 10+deltas)
	at := `"item_id":"msg_` + id + `","output_index":0,"content_index":0,`
	done := object("completed", item("completed", part(text)), usage)
	e := events{whole: done}
	e.before = []string{
		next("response.created", `"response":`+object("in_progress", "", "null")),
		next("response.in_progress", `"response":`+object("in_progress", "", "null")),
		next("response.output_item.added", `"output_index":0,"item":`+item("in_progress", "")),
		next("response.content_part.added", at+`"part":`+part("")),
	}
	e.delta = func(i int, s string) string {
		return event("response.output_text.delta", `{"type":"response.output_text.delta","sequence_number":`+strconv.Itoa(4+i)+","+at+`"delta":"`+s+`","logprobs":[],"obfuscation":"x7Kp2Qm9"}`)
	}
	seq += deltas
	e.after = []string{
		next("response.output_text.done", at+`"text":"`+text+`","logprobs":[]`),
		next("response.content_part.done", at+`"part":`+part(text)),
		next("response.output_item.done", `"output_index":0,"item":`+item("completed", part(text))),
		next("response.completed", `"response":`+done),
	}
	return e
}

func messages(text string, deltas int) events {
	usage := func(output int) string {
		return fmt.Sprintf(`{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":%d,"service_tier":"standard"}`, output)
	}
	message := func(content, stop string, output int) string {
		return `{"id":"msg_` + id + `","type":"message","role":"assistant","model":"null","content":[` + content + `],"stop_reason":` + stop + `,"stop_sequence":null,"usage":` + usage(output) + `}`
	}
	return events{
		before: []string{
			event("message_start", `{"type":"message_start","message":`+message("", "null", 1)+`}`),
			event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
			event("ping", `{"type":"ping"}`),
		},
		delta: func(_ int, s string) string {
			return event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+s+`"}}`)
		},
		after: []string{
			event("content_block_stop", `{"type":"content_block_stop","index":0}`),
			event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":`+usage(deltas)+`}`),
			event("message_stop", `{"type":"message_stop"}`),
		},
		whole: message(`{"type":"text","text":"`+text+`"}`, `"end_turn"`, deltas),
	}
}

func gemini(text string, deltas int) events {
	object := func(s, finish string, output int) string {
		return fmt.Sprintf(`{"candidates":[{"content":{"parts":[{"text":"%s"}],"role":"model"}%s,"index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":%d,"totalTokenCount":%d},"modelVersion":"null","responseId":"%s"}`, s, finish, output, 10+output, id)
	}
	const stop = `,"finishReason":"STOP"`
	return events{
		delta: func(i int, s string) string { return "data: " + object(s, "", i+1) + "\r\n\r\n" },
		after: []string{"data: " + object("", stop, deltas) + "\r\n\r\n"},
		whole: object(text, stop, deltas),
	}
}
