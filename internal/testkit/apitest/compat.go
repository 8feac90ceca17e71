package apitest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
)

// checkChunks reads a stream of chat completions strictly: framing, the schema of each chunk,
// one end, and only the usage and [DONE] after it.
func (r *Reply) checkChunks(schema *openapi3.Schema) error {
	text := string(r.Body)
	if !strings.HasSuffix(text, "\n\n") {
		return fmt.Errorf("the stream ends within an event: …%s", tail(text))
	}
	id, state := "", "begin"
	for i, block := range strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		if strings.HasPrefix(block, ":") {
			continue
		}
		data, ok := strings.CutPrefix(block, "data: ")
		if !ok || strings.ContainsAny(data, "\n\r") {
			return fmt.Errorf("block %d is no event of one line: %q", i, block)
		}
		if state == "failed" || state == "done" {
			return fmt.Errorf("block %d comes after the end: %q", i, block)
		}
		if data == "[DONE]" {
			if state != "ended" && state != "counted" {
				return fmt.Errorf("[DONE] comes in the state %s", state)
			}
			state = "done"
			continue
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return fmt.Errorf("block %d: not JSON: %w", i, err)
		}
		if v["error"] != nil {
			state = "failed"
			continue
		}
		if err := visit(schema, v); err != nil {
			return fmt.Errorf("block %d: %w in %.600s", i, err, data)
		}
		if id == "" {
			id = v["id"].(string)
		}
		choices := v["choices"].([]any)
		switch {
		case v["id"] != id:
			return fmt.Errorf("block %d has the id %v, the first had %s", i, v["id"], id)
		case len(choices) == 0 && state != "ended":
			return fmt.Errorf("block %d: the usage comes in the state %s", i, state)
		case len(choices) == 0:
			state = "counted"
		case state != "begin" && state != "in":
			return fmt.Errorf("block %d: a chunk comes in the state %s", i, state)
		case choices[0].(map[string]any)["finish_reason"] != nil:
			state = "ended"
		default:
			if role := choices[0].(map[string]any)["delta"].(map[string]any)["role"]; (role != nil) != (state == "begin") {
				return fmt.Errorf("block %d: the role %v in the state %s", i, role, state)
			}
			state = "in"
		}
	}
	if state != "done" && state != "failed" {
		return fmt.Errorf("the stream ends in the state %s", state)
	}
	return nil
}

// blocks is the grammar of a stream of Messages, one letter per event.
var blocks = regexp.MustCompile(`^MP(SD*E)*(AZ|(SD*)?X)$`)

// checkBlocks reads a stream of Messages strictly: framing, the schema of each event,
// the order, and numbers of blocks without gaps.
func (r *Reply) checkBlocks(schema *openapi3.Schema) error {
	letters := map[string]string{
		"message_start": "M", "ping": "P", "content_block_start": "S", "content_block_delta": "D", "content_block_stop": "E",
		"message_delta": "A", "message_stop": "Z", "error": "X",
	}
	text := string(r.Body)
	if !strings.HasSuffix(text, "\n\n") {
		return fmt.Errorf("the stream ends within an event: …%s", tail(text))
	}
	word, begun := "", -1.0
	for i, block := range strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		if strings.HasPrefix(block, ":") {
			continue
		}
		kind, data, ok := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		if !ok || !strings.HasPrefix(block, "event: ") || strings.ContainsAny(data, "\n\r") {
			return fmt.Errorf("block %d is no event of one line: %q", i, block)
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return fmt.Errorf("%s: not JSON: %w", kind, err)
		}
		if err := visit(schema, v); err != nil {
			return fmt.Errorf("%s: %w in %.600s", kind, err, data)
		}
		if v["type"] != kind {
			return fmt.Errorf("the event %s has the type %v", kind, v["type"])
		}
		letter := letters[kind]
		if letter == "S" {
			begun++
		}
		if strings.Contains("SDE", letter) && v["index"] != begun {
			return fmt.Errorf("%s has the index %v, the block is %v", kind, v["index"], begun)
		}
		word += letter
	}
	if !blocks.MatchString(word) {
		return fmt.Errorf("the events come in the wrong order: %s", word)
	}
	return nil
}

// checkMessagesError checks an error in the Messages format.
func (c *Client) checkMessagesError(r *Reply, documented []any) error {
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		return fmt.Errorf("%d: an error of the type %q: %.200s", r.Status, got, r.Body)
	}
	var e struct {
		Error struct {
			Type string `json:"type"`
		} `json:"error"`
		RequestID string `json:"request_id"`
	}
	var v any
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return fmt.Errorf("%d: an error that is not JSON: %.200s", r.Status, r.Body)
	}
	if err := visit(Document().Components.Schemas["MessageError"].Value, v); err != nil {
		return fmt.Errorf("%d: %w: %s", r.Status, err, r.Body)
	}
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return err
	}
	if id := r.Header.Get("request-id"); e.RequestID != id || id != r.Header.Get("x-request-id") {
		return fmt.Errorf("%d: the body has the request id %s, the header %s", r.Status, e.RequestID, id)
	}
	code := r.Error().Code
	if status, kind := contract.Code(stoa.Code(code)).MessagesForm(); status != r.Status || kind != e.Error.Type || !slices.Contains(documented, any(code)) {
		return fmt.Errorf("%q came as %d %s, the table says %d %s, documented are %v", code, r.Status, e.Error.Type, status, kind, documented)
	}
	return nil
}

// checkObjects reads a stream of Gemini's objects strictly: framing, the schema of each, and one
// end, which has the usage.
func (r *Reply) checkObjects(schema *openapi3.Schema) error {
	text := string(r.Body)
	if !strings.HasSuffix(text, "\n\n") {
		return fmt.Errorf("the stream ends within an event: …%s", tail(text))
	}
	ended := false
	for i, block := range strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		if block == "" { // a pause; Google's libraries for Go and Python fail on a comment
			continue
		}
		data, ok := strings.CutPrefix(block, "data: ")
		if !ok || ended || strings.ContainsAny(data, "\n\r") {
			return fmt.Errorf("block %d is no event of one line, or comes after the end: %q", i, block)
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return fmt.Errorf("block %d: not JSON: %w", i, err)
		}
		if v["error"] != nil {
			schema = Document().Components.Schemas["GeminiError"].Value
			ended = true
		}
		if err := visit(schema, v); err != nil {
			return fmt.Errorf("block %d: %w in %.600s", i, err, data)
		}
		ended = ended || v["usageMetadata"] != nil
	}
	if !ended {
		return fmt.Errorf("the stream has no end: …%s", tail(text))
	}
	return nil
}

// geminiErrorOf reads an error in the format of Google's APIs; its fields are empty if it is not one.
func geminiErrorOf(body []byte) contract.ErrorBody {
	var e struct {
		Error struct {
			Message string `json:"message"`
			Status  string `json:"status"`
			Details []struct {
				Metadata struct {
					Code      string `json:"code"`
					Param     string `json:"param"`
					RequestID string `json:"requestId"`
					Retryable string `json:"retryable"`
				} `json:"metadata"`
			} `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil || len(e.Error.Details) == 0 {
		return contract.ErrorBody{}
	}
	of := e.Error.Details[0].Metadata
	out := contract.ErrorBody{Message: e.Error.Message, Type: e.Error.Status, Code: of.Code, RequestID: of.RequestID, Retryable: of.Retryable == "true"}
	if of.Param != "" {
		out.Param = &of.Param
	}
	return out
}

// checkGeminiError checks an error in the format of Google's APIs.
func (c *Client) checkGeminiError(r *Reply, documented []any) error {
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		return fmt.Errorf("%d: an error of the type %q: %.200s", r.Status, got, r.Body)
	}
	var v any
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return fmt.Errorf("%d: an error that is not JSON: %.200s", r.Status, r.Body)
	}
	if err := visit(Document().Components.Schemas["GeminiError"].Value, v); err != nil {
		return fmt.Errorf("%d: %w: %s", r.Status, err, r.Body)
	}
	e := geminiErrorOf(r.Body)
	if e.RequestID != r.Header.Get("x-request-id") {
		return fmt.Errorf("%d: the body has the request id %s", r.Status, e.RequestID)
	}
	if status, word := contract.Code(stoa.Code(e.Code)).GeminiForm(); status != r.Status || word != e.Type || !slices.Contains(documented, any(e.Code)) {
		return fmt.Errorf("%q came as %d %s, the table says %d %s, documented are %v", e.Code, r.Status, e.Type, status, word, documented)
	}
	return nil
}
