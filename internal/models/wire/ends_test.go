package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// TestEveryEndHasItsMeaning ends replies of both formats, streamed and whole, with each word of their
// servers, with a text before it and with nothing.
func TestEveryEndHasItsMeaning(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"stop": "end", "end_turn": "end", "stop_sequence": "end", "pause_turn": "end", "eos": "end", "eos_token": "end", "COMPLETE": "end", "load": "end",
		"length": "length", "max_tokens": "length", "model_length": "length", "model_context_window_exceeded": "length", "repetition": "length",
		"content_filter": "content_filter", "refusal": "content_filter", "sensitive": "content_filter", "guardrail_intervened": "content_filter",
		"error": "", "abort": "", "network_error": "", "insufficient_system_resource": "",
		"brand_new": "end", "stop\u0007": "end",
	}
	for word, stop := range want {
		for _, text := range []string{"Half of the ans", ""} {
			for name, body := range map[string]string{
				"chat stream": fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%[2]q}]}\n\ndata: [DONE]\n\n", text, word),
				"chat whole":  fmt.Sprintf(`{"choices":[{"index":0,"message":{"content":%q},"finish_reason":%q}]}`, text, word),
				"messages stream": fmt.Sprintf("data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":%q}}\n\n"+
					"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":%q}}\n\ndata: {\"type\":\"message_stop\"}\n\n", text, word),
				"messages whole": fmt.Sprintf(`{"type":"message","content":[{"type":"text","text":%q}],"stop_reason":%q}`, text, word),
			} {
				if strings.Contains(word, "\u0007") {
					body = strings.ReplaceAll(body, `\a`, `\u0007`)
				}
				wire, _, _ := strings.Cut(name, " ")
				unknown := ""
				got, fail := stoa.Stop(""), (*Failure)(nil)
				for ev, err := range codecs[wire].Decode(strings.NewReader(body), stoa.Route{Wire: wire}, Want{Unknown: func(word string) { unknown += word }}) {
					if err != nil {
						errors.As(err, &fail)
					} else if ev.Kind == stoa.Finished {
						got = ev.Stop
					}
				}
				if got != stoa.Stop(stop) || (fail != nil) != (stop == "") {
					t.Errorf("%s, %q after %q: ends %q, %v", name, word, text, got, fail)
				}
				if fail != nil && (!fail.Retry || fail.Caller || strings.Contains(fail.Err.Message, "broken reply") != (text != "")) {
					t.Errorf("%s, %q after %q: %+v", name, word, text, fail)
				}
				if known := !strings.HasPrefix(word, "brand") && !strings.HasPrefix(word, "stop\u0007"); known != (unknown == "") {
					t.Errorf("%s, %q: reported as unknown: %q", name, word, unknown)
				}
			}
		}
	}
}
