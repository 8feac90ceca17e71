package wire

import (
	"fmt"
	"testing"
)

func TestDecodeModels(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, want string }{
		{"Ollama", `{"object":"list","data":[{"id":"llama3.2:latest","object":"model","created":1,"owned_by":"library"},{"id":"qwen3:4b"}]}`, "[{llama3.2:latest 0} {qwen3:4b 0}] true"},
		{"vLLM", `{"object":"list","data":[{"id":"Qwen/Qwen3-4B","max_model_len":32768,"permission":[{"id":"modelperm-1"}]}]}`, "[{Qwen/Qwen3-4B 32768}] true"},
		{"Anthropic", `{"data":[{"type":"model","id":"claude-haiku-4-5","display_name":"H"}],"has_more":false}`, "[{claude-haiku-4-5 0}] true"},
		{"OpenRouter", `{"data":[{"id":"z/glm","context_length":131072}]}`, "[{z/glm 131072}] true"},
		{"none", `{"data":[]}`, "[] true"},
		{"odd entries", `{"data":[1,{"id":7,"max_model_len":"x"},{"id":"a","meta":null}]}`, "[{ 0} { 0} {a 0}] true"},
		{"no list", `{"error":"no"}`, "[] false"},
		{"a list in full", `[{"id":"a"}]`, "[] false"},
		{"cut off", `{"data":[{"id":"a"}`, "[{a 0}] false"},
		{"null", `{"data":null}`, "[] false"},
	} {
		models, ok := DecodeModels([]byte(tt.body))
		if got := fmt.Sprint(models, " ", ok); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
