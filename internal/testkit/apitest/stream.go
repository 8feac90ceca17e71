package apitest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"stoa/internal/base/contract"
)

// order is the grammar of a stream, one letter per event: items one after another, of which
// only the last may be unfinished, in a failed stream.
var order = regexp.MustCompile(`^CP(` + anItem + `)*((I(A[DR]*([TU]QA[DR]*)?|GS*|N*|V?)?)?EF|[KX])$`)

// anItem is a whole message, reasoning or function call. The arguments of a call that a limit
// cut off are not finished.
const anItem = `I(A(D*T|R*U)Q(A(D*T|R*U)Q)?|(GS+YZ)?|N*J?|V?W?)M`

var letters = map[string]string{
	contract.EventCreated: "C", contract.EventInProgress: "P", contract.EventOutputItemAdded: "I", contract.EventContentPartAdded: "A",
	contract.EventOutputTextDelta: "D", contract.EventOutputTextDone: "T", contract.EventContentPartDone: "Q", contract.EventOutputItemDone: "M",
	contract.EventCompleted: "K", contract.EventIncomplete: "X", contract.EventError: "E", contract.EventFailed: "F",
	contract.EventSummaryAdded: "G", contract.EventSummaryDelta: "S", contract.EventSummaryTextDone: "Y", contract.EventSummaryDone: "Z",
	contract.EventInputDelta: "V", contract.EventInputDone: "W",
	contract.EventArgumentsDelta: "N", contract.EventArgumentsDone: "J", contract.EventRefusalDelta: "R", contract.EventRefusalDone: "U",
}

// checkStream reads a stream strictly: framing, schema of every event, order, numbers, and
// consistency of all events.
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

// checkStory checks the consistency of the events: the items that were added, their pieces
// and ends, and the final output.
func checkStory(events []contract.ResponseEvent) error {
	var items []contract.OutputItem // in their final state
	var open *contract.OutputItem
	var pieces string // of the open part or arguments
	first := events[0].Response
	for i, ev := range events {
		if r := ev.Response; r != nil {
			if r.ID != first.ID || r.Model != first.Model {
				return fmt.Errorf("event %d is of %s by %s, the stream of %s by %s", i, r.ID, r.Model, first.ID, first.Model)
			}
			if i < len(events)-1 {
				if r.Status != contract.ResponseInProgress || len(r.Output) > 0 || r.Usage != nil {
					return fmt.Errorf("%s is not a response that just began", ev.Type)
				}
			} else if err := checkEnd(ev, items); err != nil {
				return err
			}
			continue
		}
		if ev.Type == contract.EventError {
			continue
		}
		if ev.OutputIndex != len(items) {
			return fmt.Errorf("event %d is about the item %d, and %d are done", i, ev.OutputIndex, len(items))
		}
		if id := ev.ItemID; id != "" && (open == nil || id != open.ID) {
			return fmt.Errorf("event %d is about the item %s, and %+v is open", i, id, open)
		}
		whole := ""
		switch ev.Type {
		case contract.EventOutputItemAdded:
			open, pieces = ev.Item, ""
			if ev.Item.Arguments+ev.Item.Input != "" || len(ev.Item.Content)+len(ev.Item.Summary) > 0 {
				return fmt.Errorf("event %d adds an item that is not empty", i)
			}
			if ev.Item.Status != "in_progress" && ev.Item.Type != "reasoning" && ev.Item.Type != "compaction" {
				return fmt.Errorf("event %d adds an item that is %s", i, ev.Item.Status)
			}
			continue
		case contract.EventContentPartAdded, contract.EventSummaryAdded:
			pieces = ""
			continue
		case contract.EventOutputTextDelta, contract.EventRefusalDelta, contract.EventSummaryDelta, contract.EventArgumentsDelta, contract.EventInputDelta:
			pieces += ev.Delta
			continue
		case contract.EventOutputItemDone:
			if ev.Item.ID != open.ID || ev.Item.Type != open.Type || ev.Item.CallID != open.CallID || ev.Item.Name != open.Name || ev.Item.Namespace != open.Namespace {
				return fmt.Errorf("event %d ends %+v, and %+v is open", i, ev.Item, open)
			}
			items = append(items, *ev.Item)
			if open = nil; ev.Item.CallID == "" {
				continue
			}
			whole = ev.Item.Arguments + ev.Item.Input
		case contract.EventArgumentsDone:
			if whole = ev.Arguments; ev.Name != open.Name || whole == "" {
				return fmt.Errorf("event %d ends a call of %s with %q", i, open.Name, whole)
			}
		case contract.EventInputDone:
			whole = ev.Input
		case contract.EventContentPartDone, contract.EventSummaryDone:
			whole = ev.Part.Text + ev.Part.Refusal
		default:
			whole = ev.Text + ev.Refusal
		}
		if whole != pieces {
			return fmt.Errorf("%s has %q, the pieces were %q", ev.Type, whole, pieces)
		}
	}
	return nil
}

// checkEnd checks the last event against the items.
func checkEnd(ev contract.ResponseEvent, items []contract.OutputItem) error {
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
	if !reflect.DeepEqual(r.Output, items) && len(r.Output)+len(items) > 0 {
		return fmt.Errorf("the output is %+v, the items were %+v", r.Output, items)
	}
	plain := len(r.Tools) == 0 && r.Text.Format.Type == "text" && r.Reasoning.Summary == nil
	if plain && (len(items) == 0 || len(items) == 1 && items[0].Type != "message" && items[0].Type != "compaction") {
		return fmt.Errorf("a plain reply has the items %+v, not one message", items)
	}
	if u := r.Usage; u == nil || u.TotalTokens != u.InputTokens+u.OutputTokens {
		return fmt.Errorf("the usage does not add up: %+v", u)
	}
	return nil
}

func tail(s string) string { return s[max(0, len(s)-200):] }

// Text returns the text of a reply, whole or streamed.
func (r *Reply) Text() string {
	r.t.Helper()
	if n := len(r.Events); n > 0 {
		return r.Events[n-1].Response.OutputText()
	}
	var whole contract.Response
	r.JSON(&whole)
	return whole.OutputText()
}
