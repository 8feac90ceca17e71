package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"stoa/internal/base/stoa"
)

// TestRefusedReasoningIsLeftOut has a vendor refuse the reasoning of an earlier reply,
// in the words of three vendors: the request is sent once more without it, and the
// trail says so.
func TestRefusedReasoningIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{
		"a code":       `{"error":{"type":"invalid_request_error","code":"invalid_encrypted_content","message":"It could not be verified."}}`,
		"Anthropic's":  "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\"}}",
		"Gemini's":     `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"Thought signature is not valid."}}`,
		"without code": `{"error":{"type":"invalid_request_error","message":"The encrypted content for item rs_1 could not be verified."}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent.Add(1)
				if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "thinking") {
					w.WriteHeader(http.StatusBadRequest)
					io.WriteString(w, refusal)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\n"+
					"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\ndata: {\"type\":\"message_stop\"}\n\n")
			}))
			t.Cleanup(vendor.Close)
			pr := stoa.Provider{Name: "a", Wire: "messages", BaseURL: vendor.URL, APIKey: "secret-1234567890"}
			call := ask("hi")
			call.Trail = new(stoa.Trail)
			call.Messages = append(call.Messages, stoa.Message{Role: stoa.RoleAssistant, Parts: []stoa.Part{
				{Kind: stoa.PartReasoning, State: stoa.State{Wire: "messages", Model: "claude-sonnet-5-5", Data: `{"after":"","block":{"type":"thinking","thinking":"","signature":"s"}}`}},
				{Kind: stoa.PartText, Text: "hello"},
			}}, stoa.TextMessage(stoa.RoleUser, "and?"))
			cfg := quick(pr)
			cfg.Retries = -1 // the repeat is not one of the retries
			r := collect(t.Context(), open(t, cfg), at("claude-sonnet-5-5", pr), call)
			r.expect(t, "")
			if r.text != "a" || sent.Load() != 2 || !call.Trail.LeftOut {
				t.Errorf("%q after %d requests, left out: %t", r.text, sent.Load(), call.Trail.LeftOut)
			}
		})
	}
}

// TestARejectionQuotesTheVendor answers 400 with a message that no list knows: the
// caller gets the vendor's sentence, without the key and addresses, and nothing is
// repeated.
func TestARejectionQuotesTheVendor(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				sent.Add(1)
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"error":{"message":"Invalid schema for function 'f' (key secret-1234567890, org-AbCdEf123456, see https://10.0.0.7:8080/docs, mail a@b.example).","type":"invalid_request_error","param":null,"code":null}}`)
			}))
			t.Cleanup(vendor.Close)
			pr := stoa.Provider{Name: "a", Wire: w.name, BaseURL: vendor.URL + "/v1", APIKey: "secret-1234567890"}
			if w.name == "deepseek" {
				pr.Wire, pr.Dialect = "chat", w.name
			}
			r := collect(t.Context(), open(t, quick(pr)), at(w.model, pr), ask("hi"))
			want := "The model's provider rejected the request: Invalid schema for function 'f' (key [key], …, see … mail …). Change it, or use another model."
			if e := stoa.AsError(r.err); e.Code != stoa.CodeInvalidValue || e.Message != want || sent.Load() != 1 {
				t.Errorf("after %d requests: %s %q", sent.Load(), e.Code, e.Message)
			}
		})
	}
}
