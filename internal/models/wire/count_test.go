package wire

import (
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

func TestCountersAreAskedInTheirForm(t *testing.T) {
	t.Parallel()
	half := 0.5
	call := stoa.Call{
		Instructions: "Be brief.", Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "Hi")}, MaxOutputTokens: 5, Temperature: &half,
		Tools: []stoa.Tool{{Name: "f", Parameters: `{"type":"object"}`}}, Stateful: true,
	}
	for wire, c := range map[string]struct{ path, body string }{
		"messages": {"/v1/messages/count_tokens", `{"model":"m","system":"Be brief.","messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"f","description":"","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto"}}`},
		"gemini": {"/v1beta/models/m:countTokens", `{"generateContentRequest":{"model":"models/m","systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{"text":"Hi"}]}],` +
			`"tools":[{"functionDeclarations":[{"name":"f","description":"","parametersJsonSchema":{"type":"object"}}]}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}}}`},
		"responses": {"/responses/input_tokens", `{"model":"m","instructions":"Be brief.","input":[{"type":"message","role":"user","content":"Hi"}],"tools":[{"type":"function","name":"f","description":"","parameters":{"type":"object"}}],"tool_choice":"auto"}`},
	} {
		req, ok, err := CountRequest(call, stoa.Route{Wire: wire, Model: "m"}, "key")
		if err != nil || !ok || req.Path != c.path || string(req.Body) != c.body || req.Header.Get("Accept") != "application/json" {
			t.Errorf("%s: %s %s, %v, %v; want %s %s", wire, req.Path, req.Body, ok, err, c.path, c.body)
		}
	}
	for model, path := range map[string]string{"models/m": "m:countTokens", "m:tuned": "m:tuned:countTokens", "a/b": "a%2Fb:countTokens"} {
		req, _, err := CountRequest(call, stoa.Route{Wire: "gemini", Model: model}, "key")
		want := `{"generateContentRequest":{"model":"models/` + strings.TrimPrefix(model, "models/") + `",`
		if err != nil || req.Path != "/v1beta/models/"+path || !strings.HasPrefix(string(req.Body), want) {
			t.Errorf("%s: %s %s, %v; want %s %s", model, req.Path, req.Body, err, path, want)
		}
	}
	for _, wire := range []string{"chat", "sandbox"} {
		if _, ok, err := CountRequest(call, stoa.Route{Wire: wire}, "key"); ok || err != nil {
			t.Errorf("%s counts: %v", wire, err)
		}
	}
	call.Tools[0].Parameters = "no JSON"
	if _, ok, err := CountRequest(call, stoa.Route{Wire: "messages"}, "key"); ok || err == nil {
		t.Error("a call that cannot be expressed is counted")
	}
}

func TestCountsAreRead(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int64{
		`{"input_tokens":14}`: 14, `{"object":"response.input_tokens","input_tokens":14}`: 14, `{"input_tokens":0}`: 0, `{"input_tokens":-1}`: 0,
		`{"input_tokens":"14"}`: 0, `{"input_tokens":14`: 0, `[]`: 0, ``: 0, `{"totalTokens":14}`: 0, `{"input_tokens":9223372036854775807}`: 0,
	} {
		if n, ok := DecodeCount("messages", []byte(body)); ok != (want > 0) || ok && n != want {
			t.Errorf("%s: %d, %v", body, n, ok)
		}
	}
	if n, ok := DecodeCount("gemini", []byte(`{"totalTokens":3,"promptTokensDetails":[]}`)); n != 3 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
}

// TestEveryCodecHasItsEntry compares the codecs with the entries of package stoa.
func TestEveryCodecHasItsEntry(t *testing.T) {
	t.Parallel()
	for _, w := range stoa.Wires() {
		if _, ok := For(w.Name); !ok {
			t.Errorf("the wire %s has no codec", w.Name)
		}
	}
	for name := range codecs {
		if stoa.WireNamed(name).Name == "" {
			t.Errorf("the codec %s has no entry in stoa.Wires", name)
		}
	}
}
