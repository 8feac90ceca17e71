//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A vendor serves chat completions and Responses and records what it has served. Words of the
// prompt direct it:
//
//	mark:NAME   the name under which it records the reply
//	words:N     the length of the reply; the limit of the request may be lower
//	pace:Nms    the pause before each word
//	fault:NAME  what goes wrong: cut, cut-once, stall, twice
//
// A word of a reply is a token; four bytes of the prompt are one.
type vendor struct {
	url           string
	contextTokens int // longer prompts are refused with 400
	server        *http.Server

	mu     sync.Mutex
	served map[string][]reply // by mark, one per attempt of the gateway
}

// A reply records what the vendor served for one request.
type reply struct {
	input, output int  // tokens of the whole reply, even if less of it was sent
	complete      bool // all of it was sent
}

func newVendor(address string, contextTokens int) (*vendor, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	v := &vendor{url: "http://" + l.Addr().String(), contextTokens: contextTokens, served: map[string][]reply{}}
	v.server = &http.Server{Handler: v, ReadHeaderTimeout: 30 * time.Second}
	go v.server.Serve(l)
	return v, nil
}

// of returns what was served under a mark: of several attempts the last complete one.
func (v *vendor) of(mark string) (last reply, attempts int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.served[mark] {
		if r.complete || !last.complete {
			last = r
		}
	}
	return last, len(v.served[mark])
}

var (
	markWord  = regexp.MustCompile(`mark:([a-z0-9-]+)`)
	countWord = regexp.MustCompile(`words:(\d+)`)
	paceWord  = regexp.MustCompile(`pace:(\d+)ms`)
	faultWord = regexp.MustCompile(`fault:([a-z-]+)`)
)

func word(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// texts appends all strings of a JSON value: gateways send a content as a text or in parts.
func texts(b *strings.Builder, value any) {
	switch value := value.(type) {
	case string:
		b.WriteString(value)
	case []any:
		for _, v := range value {
			texts(b, v)
		}
	case map[string]any:
		for _, name := range []string{"content", "text"} {
			texts(b, value[name])
		}
	}
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	responses := strings.HasSuffix(r.URL.Path, "/responses")
	if !responses && !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"object":"list","data":[{"id":"books","object":"model","created":1,"owned_by":"books"}]}`)
		return
	}
	var request struct {
		Messages, Input     any
		Stream              bool
		MaxTokens           int `json:"max_tokens"`
		MaxCompletionTokens int `json:"max_completion_tokens"`
		MaxOutputTokens     int `json:"max_output_tokens"`
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 64<<20)).Decode(&request); err != nil {
		http.Error(w, `{"error":{"message":"not JSON","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	var b strings.Builder
	texts(&b, request.Messages)
	texts(&b, request.Input)
	prompt := b.String()
	words, _ := strconv.Atoi(word(countWord, prompt))
	pace, _ := strconv.Atoi(word(paceWord, prompt))
	a := answer{
		w: w, done: r.Context().Done(), input: (len(prompt) + 3) / 4, words: max(words, 1), finish: "stop",
		pace: time.Duration(pace) * time.Millisecond, fault: word(faultWord, prompt), responses: responses, usage: request.StreamOptions.IncludeUsage || responses,
	}
	if limit := max(request.MaxTokens, request.MaxCompletionTokens, request.MaxOutputTokens); limit > 0 && limit < a.words {
		a.words, a.finish = limit, "length"
	}
	if a.input > v.contextTokens {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, v.contextTokens, a.input)
		return
	}
	mark := word(markWord, prompt)
	v.mu.Lock()
	n := len(v.served[mark])
	v.served[mark] = append(v.served[mark], reply{input: a.input, output: a.words})
	v.mu.Unlock()
	a.id = fmt.Sprintf("%s-%d", mark, n+1)
	if a.fault == "cut-once" {
		a.fault = "cut"
		if n > 0 {
			a.fault = ""
		}
	}
	var whole bool
	if request.Stream {
		whole = a.stream()
	} else {
		whole = a.whole()
	}
	v.mu.Lock()
	v.served[mark][n].complete = whole
	v.mu.Unlock()
	if !whole {
		panic(http.ErrAbortHandler) // closes the connection in the middle of the reply
	}
}

// An answer is one reply on its way.
type answer struct {
	w             http.ResponseWriter
	done          <-chan struct{} // the gateway has left
	id            string
	input, words  int
	finish, fault string
	pace          time.Duration
	responses     bool
	usage         bool // the stream ends with its usage
}

// maxStall ends a stalled reply if the gateway waits for ever.
const maxStall = 2 * time.Minute

// wait reports whether the gateway is still there after a time.
func (a *answer) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-a.done:
		return false
	case <-t.C:
		return true
	}
}

type object = map[string]any

// usageOf returns the usage in the names of a format.
func (a *answer) usageOf() object {
	if a.responses {
		return object{
			"input_tokens": a.input, "output_tokens": a.words, "total_tokens": a.input + a.words,
			"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0},
		}
	}
	return object{"prompt_tokens": a.input, "completion_tokens": a.words, "total_tokens": a.input + a.words}
}

// response returns the response object of Responses.
func (a *answer) response(status string, output []any) object {
	o := object{"id": "resp_" + a.id, "object": "response", "created_at": time.Now().Unix(), "model": "books", "status": status, "output": output}
	if status != "in_progress" {
		o["usage"] = a.usageOf()
	}
	if status == "incomplete" {
		o["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	return o
}

func (a *answer) status() string {
	if a.finish == "length" {
		return "incomplete"
	}
	return "completed"
}

func (a *answer) item(text string) object {
	return object{"id": "msg_" + a.id, "type": "message", "role": "assistant", "status": "completed", "content": []any{object{"type": "output_text", "text": text, "annotations": []any{}}}}
}

// whole sends the reply as one JSON text and reports whether it sent all.
func (a *answer) whole() bool {
	text := strings.Repeat("word ", a.words)
	var body object
	if a.responses {
		body = a.response(a.status(), []any{a.item(text)})
	} else {
		body = object{
			"id": "chatcmpl-" + a.id, "object": "chat.completion", "created": time.Now().Unix(), "model": "books", "usage": a.usageOf(),
			"choices": []any{object{"index": 0, "message": object{"role": "assistant", "content": text}, "finish_reason": a.finish}},
		}
	}
	out, err := json.Marshal(body)
	if err != nil {
		panic(err) // only strings and numbers
	}
	if a.fault == "twice" {
		out = append(out, out...)
	}
	if !a.wait(a.pace * time.Duration(a.words)) {
		return false
	}
	a.w.Header().Set("Content-Type", "application/json")
	a.w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	if a.fault == "cut" || a.fault == "stall" {
		a.w.Write(out[:len(out)/2])
		http.NewResponseController(a.w).Flush()
		if a.fault == "stall" {
			a.wait(maxStall)
		}
		return false
	}
	_, err = a.w.Write(out)
	return err == nil
}

// stream sends the reply as events and reports whether it sent all.
func (a *answer) stream() bool {
	a.w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(a.w).Flush
	number := 0
	send := func(event string, data object) bool {
		if event != "" {
			data["type"], data["sequence_number"] = event, number
			number++
			fmt.Fprintf(a.w, "event: %s\n", event)
		}
		out, err := json.Marshal(data)
		if err != nil {
			panic(err) // only strings and numbers
		}
		fmt.Fprintf(a.w, "data: %s\n\n", out)
		return flush() == nil
	}
	chunk := func(delta object, finish, usage any) {
		o := object{"id": "chatcmpl-" + a.id, "object": "chat.completion.chunk", "created": time.Now().Unix(), "model": "books", "choices": []any{}}
		if delta != nil {
			o["choices"] = []any{object{"index": 0, "delta": delta, "finish_reason": finish}}
		}
		if usage != nil {
			o["usage"] = usage
		}
		send("", o)
	}
	times := 1
	if a.fault == "twice" {
		times = 2
	}
	ok := false
	for range times {
		part := object{"item_id": "msg_" + a.id, "output_index": 0, "content_index": 0}
		with := func(name string, value any) object {
			o := object{name: value}
			for k, v := range part {
				o[k] = v
			}
			return o
		}
		if a.responses {
			send("response.created", object{"response": a.response("in_progress", []any{})})
			send("response.output_item.added", object{"output_index": 0, "item": object{"id": "msg_" + a.id, "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}})
			send("response.content_part.added", with("part", object{"type": "output_text", "text": "", "annotations": []any{}}))
		} else {
			chunk(object{"role": "assistant", "content": ""}, nil, nil)
		}
		for i := range a.words {
			if i == a.words/2 && (a.fault == "cut" || a.fault == "stall") {
				if a.fault == "stall" {
					a.wait(maxStall)
				}
				return false
			}
			if !a.wait(a.pace) {
				return false
			}
			if a.responses {
				send("response.output_text.delta", with("delta", "word "))
			} else {
				chunk(object{"content": "word "}, nil, nil)
			}
		}
		if a.responses {
			text := strings.Repeat("word ", a.words)
			send("response.output_text.done", with("text", text))
			send("response.content_part.done", with("part", object{"type": "output_text", "text": text, "annotations": []any{}}))
			send("response.output_item.done", object{"output_index": 0, "item": a.item(text)})
			ok = send("response."+a.status(), object{"response": a.response(a.status(), []any{a.item(text)})})
			continue
		}
		chunk(object{}, a.finish, nil)
		if a.usage {
			chunk(nil, nil, a.usageOf())
		}
		io.WriteString(a.w, "data: [DONE]\n\n")
		ok = flush() == nil // a connection that broke before fails here, too
	}
	return ok
}
