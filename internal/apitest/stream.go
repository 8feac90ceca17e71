package apitest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"stoa/internal/contract"
)

// order is the grammar of a stream, one letter per event.
var order = regexp.MustCompile(`^(CP(IAD*)?EF|CP(IAD*)TQM[KX])$`)

var letters = map[string]string{
	contract.EventCreated: "C", contract.EventInProgress: "P", contract.EventOutputItemAdded: "I", contract.EventContentPartAdded: "A",
	contract.EventOutputTextDelta: "D", contract.EventOutputTextDone: "T", contract.EventContentPartDone: "Q", contract.EventOutputItemDone: "M",
	contract.EventCompleted: "K", contract.EventIncomplete: "X", contract.EventError: "E", contract.EventFailed: "F",
}

// checkStream reads a stream strictly: framing, schema of every event, order,
// numbers, and that all events tell the same story.
func (r *Reply) checkStream() error {
	text := string(r.Body)
	if !strings.HasSuffix(text, "\n\ndata: [DONE]\n\n") {
		return fmt.Errorf("the stream does not end with [DONE]: …%s", tail(text))
	}
	blocks := strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n")
	word := ""
	for i, block := range blocks[:len(blocks)-1] {
		if strings.HasPrefix(block, ":") {
			if strings.Contains(block, "\n") {
				return fmt.Errorf("block %d mixes a comment with an event: %q", i, block)
			}
			continue
		}
		kind, rest, ok := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		if !ok || !strings.HasPrefix(block, "event: ") || strings.ContainsAny(rest, "\n\r") {
			return fmt.Errorf("block %d is no event of one line: %q", i, block)
		}
		ev, err := checkEvent(kind, rest)
		if err != nil {
			return fmt.Errorf("event %d: %w", len(r.Events), err)
		}
		if ev.SequenceNumber != int64(len(r.Events)) {
			return fmt.Errorf("event %d has the number %d", len(r.Events), ev.SequenceNumber)
		}
		word += letters[kind]
		r.Events = append(r.Events, ev)
	}
	if !order.MatchString(word) {
		return fmt.Errorf("the events come in the wrong order: %s", word)
	}
	return checkStory(r.Events)
}

func checkEvent(kind, data string) (contract.ResponseEvent, error) {
	var ev contract.ResponseEvent
	var v any
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		return ev, fmt.Errorf("%s: not JSON: %w", kind, err)
	}
	union := Document().Components.Schemas["ResponseStreamEvent"].Value
	mapped, ok := union.Discriminator.Mapping[kind]
	if !ok {
		return ev, fmt.Errorf("%s is no type of the contract", kind)
	}
	name := mapped.Ref[strings.LastIndex(mapped.Ref, "/")+1:]
	if err := visit(Document().Components.Schemas[name].Value, v); err != nil {
		return ev, fmt.Errorf("%s: %w in %.600s", kind, err, data)
	}
	if members, _ := v.(map[string]any); kind != contract.EventError && members["error"] != nil {
		return ev, fmt.Errorf("%s has a top-level error", kind)
	}
	return ev, json.Unmarshal([]byte(data), &ev)
}

// checkStory holds the events against each other.
func checkStory(events []contract.ResponseEvent) error {
	var response, item, text, done string
	for i, ev := range events {
		if r := ev.Response; r != nil {
			if response == "" {
				response = r.ID
			}
			if r.ID != response || r.Model != events[0].Response.Model {
				return fmt.Errorf("event %d is of %s by %s, the stream of %s by %s", i, r.ID, r.Model, response, events[0].Response.Model)
			}
			final := i == len(events)-1
			if !final && (r.Status != contract.ResponseInProgress || len(r.Output) > 0 || r.Usage != nil) {
				return fmt.Errorf("%s is not a response that just began", ev.Type)
			}
			if final {
				if err := checkEnd(ev, done); err != nil {
					return err
				}
			}
		}
		id := ev.ItemID
		if ev.Item != nil {
			id = ev.Item.ID
		}
		if id != "" && item == "" {
			item = id
		}
		if id != "" && id != item {
			return fmt.Errorf("event %d is about the item %s, the stream about %s", i, id, item)
		}
		switch ev.Type {
		case contract.EventOutputTextDelta:
			text += ev.Delta
		case contract.EventOutputTextDone:
			if done = ev.Text; done != text {
				return fmt.Errorf("the text is %q, the pieces were %q", done, text)
			}
		case contract.EventContentPartDone:
			if ev.Part.Text != text {
				return fmt.Errorf("the part is %q, the pieces were %q", ev.Part.Text, text)
			}
		}
	}
	return nil
}

// checkEnd holds the last event against the text.
func checkEnd(ev contract.ResponseEvent, text string) error {
	r := ev.Response
	if "response."+string(r.Status) != ev.Type {
		return fmt.Errorf("%s carries the status %s", ev.Type, r.Status)
	}
	if (r.Status == contract.ResponseCompleted) != (r.CompletedAt != nil) || (r.Status == contract.ResponseFailed) != (r.Error != nil) ||
		(r.Status == contract.ResponseIncomplete) != (r.IncompleteDetails != nil) {
		return fmt.Errorf("a %s response with completed_at %v, error %v, incomplete_details %v", r.Status, r.CompletedAt, r.Error, r.IncompleteDetails)
	}
	if r.Status == contract.ResponseFailed {
		return nil
	}
	if len(r.Output) != 1 || r.OutputText() != text {
		return fmt.Errorf("the final text is %q, the stream's was %q", r.OutputText(), text)
	}
	if u := r.Usage; u == nil || u.TotalTokens != u.InputTokens+u.OutputTokens {
		return fmt.Errorf("the usage does not add up: %+v", u)
	}
	return nil
}

func tail(s string) string { return s[max(0, len(s)-200):] }

// Text is the text of a reply, whole or streamed.
func (r *Reply) Text() string {
	r.t.Helper()
	if n := len(r.Events); n > 0 {
		return r.Events[n-1].Response.OutputText()
	}
	var whole contract.Response
	r.JSON(&whole)
	return whole.OutputText()
}
