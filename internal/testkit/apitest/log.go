package apitest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// A LogEvent is one event of a session's log, with the most common data.
type LogEvent struct {
	Seq       int64  `json:"seq"`
	Type      string `json:"type"`
	CreatedAt string `json:"createdAt"`
	MessageID string `json:"messageId"`
	Kind      string `json:"kind"`
	Offset    int    `json:"offset"`
	Text      string `json:"text"`
	Status    string `json:"status"`
	Turn      int64  `json:"turn"`
}

// checkLog reads a stream of a session's events strictly: framing, schema and
// number of every event. Numbers may have gaps if some events are left out.
func (r *Reply) checkLog(schema *openapi3.Schema, gaps bool) error {
	text := string(r.Body)
	if text != "" && !strings.HasSuffix(text, "\n\n") {
		return fmt.Errorf("the stream ends within an event: …%s", tail(text))
	}
	for block := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		if block == "" || strings.HasPrefix(block, ":") && !strings.Contains(block, "\n") {
			continue
		}
		ev, err := ReadLogEvent(block)
		if err != nil {
			return err
		}
		if n := len(r.Log); n > 0 && (ev.Seq <= r.Log[n-1].Seq || !gaps && ev.Seq != r.Log[n-1].Seq+1) {
			return fmt.Errorf("event %d follows %d", ev.Seq, r.Log[n-1].Seq)
		}
		if err := visitText(schema, block[strings.Index(block, "\ndata: ")+7:]); err != nil {
			return fmt.Errorf("event %d: %w in %q", ev.Seq, err, block)
		}
		r.Log = append(r.Log, ev)
	}
	return nil
}

// checkMessages reads a stream of messages of JSON-RPC.
func (r *Reply) checkMessages(schema *openapi3.Schema) error {
	n := 0
	for line := range strings.SplitSeq(string(r.Body), "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			n++
			if err := visitText(schema, data); err != nil {
				return fmt.Errorf("%w in %q", err, data)
			}
		}
	}
	if n == 0 {
		return fmt.Errorf("the stream has no message: %q", r.Body)
	}
	return nil
}

// ReadLogEvent reads one block of a stream of a session's events: an id, an
// event and a data line that agree.
func ReadLogEvent(block string) (LogEvent, error) {
	var ev LogEvent
	lines := strings.Split(block, "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "id: ") || !strings.HasPrefix(lines[1], "event: ") || !strings.HasPrefix(lines[2], "data: ") {
		return ev, fmt.Errorf("not an event of three lines: %q", block)
	}
	if err := json.Unmarshal([]byte(lines[2][6:]), &ev); err != nil {
		return ev, fmt.Errorf("the data is not JSON: %w in %q", err, block)
	}
	if lines[0][4:] != strconv.FormatInt(ev.Seq, 10) || lines[1][7:] != ev.Type {
		return ev, fmt.Errorf("the lines belong to different events: %q", block)
	}
	return ev, nil
}

func visitText(s *openapi3.Schema, text string) error {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	return visit(s, v)
}

// Join assembles a message's text from its deltas according to the contract: a piece whose
// offset is below the length of the text first truncates it.
func Join(events []LogEvent, messageID string) string {
	var text []rune
	for _, e := range events {
		if e.Type == "message.delta" && e.MessageID == messageID {
			text = append(text[:min(len(text), e.Offset)], []rune(e.Text)...)
		}
	}
	return string(text)
}
