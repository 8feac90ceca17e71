package upstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// TestWhatAVendorDroppedIsLogged serves a reply that reports dropped reasoning: the log
// contains the report, without the key, and the caller receives the reply. A call that is
// sent without reasoning has nothing to drop.
func TestWhatAVendorDroppedIsLogged(t *testing.T) {
	t.Parallel()
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"type\":\"message_start\",\"message\":{\"input_transformations\":[{\"type\":\"thinking_dropped\",\"of\":\"secret-1234567890\"}]}}\n\n"+
			"data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\n"+
			"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\ndata: {\"type\":\"message_stop\"}\n\n")
	}))
	t.Cleanup(vendor.Close)
	pr := stoa.Provider{Name: "a", Wire: "messages", BaseURL: vendor.URL, APIKey: "secret-1234567890"}
	for _, reasons := range []bool{true, false} {
		var out testLog
		cfg := quick(pr)
		cfg.Logger = out.logger()
		call := ask("hi")
		if reasons {
			call.Messages = append(call.Messages, stoa.Message{Role: stoa.RoleAssistant, Parts: []stoa.Part{
				{Kind: stoa.PartReasoning, State: stoa.State{Wire: "messages", Model: "claude-sonnet-5-5", Data: `{"after":"","block":{"type":"thinking","thinking":"","signature":"s"}}`}},
				{Kind: stoa.PartText, Text: "hello"},
			}})
		}
		r := collect(t.Context(), open(t, cfg), at("claude-sonnet-5-5", pr), call)
		r.expect(t, "")
		log := out.String()
		if r.text != "a" || strings.Contains(log, "thinking_dropped") != reasons || strings.Contains(log, "secret") {
			t.Errorf("reasoning %t: %q, and the log is %s", reasons, r.text, log)
		}
	}
}
