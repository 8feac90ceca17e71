//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// A customer is a key with a budget.
type customer struct {
	name  string
	cap   int64
	vars  map[string]string // what the gateway said of it, with "key"
	calls []*call
}

// A call is one request of a customer and what the caller received.
type call struct {
	mark    string
	words   int // of the reply
	pace    time.Duration
	fault   string
	padding int // bytes of the prompt
	stream  bool

	status int
	ended  bool   // the reply came to its end as if it were complete
	id     string // of the reply
	got    int    // words that arrived
	err    string
}

func (c *call) prompt() string {
	text := fmt.Sprintf("mark:%s words:%d pace:%dms fault:%s ", c.mark, c.words, c.pace.Milliseconds(), c.fault)
	return text + strings.Repeat("and on ", c.padding/len("and on "))
}

// input returns the tokens of the prompt as the vendor counts them.
func (c *call) input() int { return (len(c.prompt()) + 3) / 4 }

// body returns the request. The limit of the output is the length of the reply, so that a call costs
// exactly the most that it can.
func (c *call) body(t target) []byte {
	b := object{"model": t.Model, "stream": c.stream, "user": c.mark}
	if t.Wire == "responses" {
		b["input"], b["max_output_tokens"] = c.prompt(), c.words
	} else {
		b["messages"], b["max_tokens"] = []any{object{"role": "user", "content": c.prompt()}}, c.words
		if c.stream {
			b["stream_options"] = object{"include_usage": true}
		}
	}
	maps.Copy(b, t.Body)
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // only strings and numbers
	}
	return text
}

// make sends the call and reads its reply to the end.
func (c *call) make(ctx context.Context, g *gateway, customer *customer, deadline time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := c.send(ctx, g, customer); err != nil {
		c.err = err.Error()
	}
}

func (c *call) send(ctx context.Context, g *gateway, customer *customer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fill(g.Call.URL, customer.vars, g.vars), bytes.NewReader(c.body(g.Call)))
	if err != nil {
		return err
	}
	req.GetBody = nil // the transport must not repeat it
	req.Header.Set("Content-Type", "application/json")
	for name, value := range g.Call.Headers {
		req.Header.Set(name, fill(value, customer.vars, g.vars))
	}
	res, err := g.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	c.status = res.StatusCode
	body := io.LimitReader(res.Body, maxAnswer)
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(body)
		return fmt.Errorf("status %d: %.600s", res.StatusCode, text)
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return c.events(body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var r frame
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	c.take(r)
	for _, item := range r.Output {
		for _, part := range item.Content {
			c.got += strings.Count(part.Text, "word")
		}
	}
	c.ended = c.ended || r.Status == "completed" || r.Status == "incomplete"
	return nil
}

// A frame is the checked part of a reply or an event of either format.
type frame struct {
	ID      string
	Type    string
	Choices []struct {
		Message, Delta struct{ Content string }
		FinishReason   string `json:"finish_reason"`
	}
	Delta    json.RawMessage // a text in Responses
	Response struct{ ID string }
	Status   string
	Output   []struct{ Content []struct{ Text string } }
	Error    json.RawMessage
}

func (c *call) take(f frame) {
	if c.id == "" {
		c.id = f.ID + f.Response.ID // one of them
	}
	for _, choice := range f.Choices {
		c.got += strings.Count(choice.Message.Content, "word") + strings.Count(choice.Delta.Content, "word")
		c.ended = c.ended || choice.FinishReason == "stop" || choice.FinishReason == "length"
	}
	switch f.Type {
	case "response.output_text.delta":
		c.got += bytes.Count(f.Delta, []byte("word"))
	case "response.completed", "response.incomplete":
		c.ended = true
	}
}

// events reads a stream. A reply has ended if its last event says so: for chat completions also [DONE] is
// needed.
func (c *call) events(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	done := false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if data = strings.TrimSpace(data); !ok || data == "" {
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var f frame
		if err := json.Unmarshal([]byte(data), &f); err != nil {
			return fmt.Errorf("an event is not JSON: %w", err)
		}
		if len(f.Error) > 0 && string(f.Error) != "null" {
			c.ended = false
			return fmt.Errorf("the stream ends with an error: %.200s", f.Error)
		}
		c.take(f)
		done = done || f.Type != "" && c.ended
	}
	c.ended = c.ended && done
	return lines.Err()
}
