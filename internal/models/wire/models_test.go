package wire

import (
	"fmt"
	"testing"
)

func TestDecodeModels(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, want string }{
		{"Ollama", `{"object":"list","data":[{"id":"llama3.2:latest","object":"model","created":1,"owned_by":"library"},{"id":"qwen3:4b"}]}`, "[{llama3.2:latest 0 false} {qwen3:4b 0 false}] true"},
		{"vLLM", `{"object":"list","data":[{"id":"Qwen/Qwen3-4B","max_model_len":32768,"permission":[{"id":"modelperm-1"}]}]}`, "[{Qwen/Qwen3-4B 32768 false}] true"},
		{"Anthropic", `{"data":[{"type":"model","id":"claude-haiku-4-5","display_name":"H"}],"has_more":false}`, "[{claude-haiku-4-5 0 false}] true"},
		{"llama.cpp", `{"models":[{"name":"chain","capabilities":["completion"]}],"object":"list","data":[{"id":"chain","aliases":["chain"],"tags":[],"object":"model","architecture":{"input_modalities":["text"],"output_modalities":["text"]},"created":1795708983,"owned_by":"llamacpp","meta":{"vocab_type":1,"n_ctx":2048,"n_ctx_train":8192}}]}`, "[{chain 2048 false}] true"},
		{"llama.cpp's router", `{"data":[{"id":"seeing","object":"model","status":{"value":"loaded","args":["--ctx-size","4096"]},"architecture":{"input_modalities":["text","image"],"output_modalities":["text"]},"meta":{"n_ctx":2048},"context_length":8192}]}`, "[{seeing 2048 true}] true"},
		{"OpenRouter", `{"data":[{"id":"z/glm","context_length":131072}]}`, "[{z/glm 131072 false}] true"},
		{"none", `{"data":[]}`, "[] true"},
		{"odd entries", `{"data":[1,{"id":7,"max_model_len":"x"},{"id":"a","meta":null}]}`, "[{ 0 false} { 0 false} {a 0 false}] true"},
		{"no list", `{"error":"no"}`, "[] false"},
		{"a list in full", `[{"id":"a"}]`, "[] false"},
		{"cut off", `{"data":[{"id":"a"}`, "[{a 0 false}] false"},
		{"null", `{"data":null}`, "[] false"},
	} {
		models, ok := DecodeModels([]byte(tt.body))
		if got := fmt.Sprint(models, " ", ok); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
