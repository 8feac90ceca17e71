package wire

import (
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// TestWritesWithoutALifeAreLong reads Anthropic's usage with and without the split of the writes by
// life: what the split lacks is long if the request had a long mark, since that costs more.
func TestWritesWithoutALifeAreLong(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		usage string
		long  bool // a long mark was sent
		want  int64
	}{
		{`"cache_creation_input_tokens":300`, true, 300},
		{`"cache_creation_input_tokens":300`, false, 0},
		{`"cache_creation_input_tokens":300,"cache_creation":{}`, true, 300},
		{`"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":300,"ephemeral_1h_input_tokens":0}`, true, 0},
		{`"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200}`, false, 200},
		{`"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":100}`, true, 200},
		{`"cache_creation":{"ephemeral_5m_input_tokens":100},"cache_creation_input_tokens":300`, true, 200},
		{`"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":50}`, true, 200},
		{`"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":400}`, true, 0},
	} {
		for _, early := range []bool{false, true} {
			usage := `{"input_tokens":5,` + test.usage + `,"output_tokens":1}`
			start, end := `{"input_tokens":5,"output_tokens":1}`, usage
			if early { // the end repeats the sum only
				start, end = usage, `{"input_tokens":5,"cache_creation_input_tokens":300,"output_tokens":1}`
			}
			body := `data: {"type":"message_start","message":{"usage":` + start + `}}` + "\n\n" +
				`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}` + "\n\n" +
				`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + end + `}` + "\n\n" +
				`data: {"type":"message_stop"}` + "\n\n"
			var got stoa.Usage
			for ev, err := range codecs["messages"].Decode(strings.NewReader(body), stoa.Route{Wire: "messages"}, Want{Long: test.long}) {
				if err != nil {
					t.Fatal(err)
				}
				if ev.Kind == stoa.Finished {
					got = ev.Usage
				}
			}
			if got.CacheWriteLongTokens != test.want || got.CacheWriteTokens != 300 || got.InputTokens != 305 {
				t.Errorf("%s, early %v, long mark %v: %+v, want %d", test.usage, early, test.long, got, test.want)
			}
		}
	}
}
