package openaigo

import (
	"strings"
	"testing"

	"google.golang.org/genai"
)

// TestAChatOfGooglesLibrary has a reply that pauses for longer than keepAlive, and a call whose result continues the
// chat: the library for Go fails on comments in a stream and sends the history of a chat only if each piece of it is valid.
func TestAChatOfGooglesLibrary(t *testing.T) {
	t.Parallel()
	c, err := genai.NewClient(t.Context(), &genai.ClientConfig{APIKey: key, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: strings.TrimSuffix(base, "/v1")}})
	if err != nil {
		t.Fatal(err)
	}
	city := &genai.FunctionDeclaration{Name: "weather", Parameters: &genai.Schema{Type: genai.TypeObject, Properties: map[string]*genai.Schema{"city": {Type: genai.TypeString}}}}
	chat, err := c.Chats.Create(t.Context(), "alpha-haiku-4-5", &genai.GenerateContentConfig{Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{city}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	send := func(parts ...genai.Part) (text string, calls []*genai.FunctionCall) {
		t.Helper()
		for r, err := range chat.SendMessageStream(t.Context(), parts...) {
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Candidates[0].Content.Parts {
				if text += p.Text; p.FunctionCall != nil {
					calls = append(calls, p.FunctionCall)
				}
			}
		}
		return text, calls
	}
	if text, _ := send(genai.Part{Text: "slow: 1200ms\nsay: One pause"}); text != "One pause" {
		t.Errorf("with a pause: %q", text)
	}
	_, calls := send(genai.Part{Text: "think: 40\ncall: weather {\"city\":\"Oslo\"}\ncall: weather {\"city\":\"Rome\"}\nsay: Both are sunny"})
	if len(calls) != 2 || calls[0].Args["city"] != "Oslo" || calls[1].Args["city"] != "Rome" {
		t.Fatalf("calls %+v", calls)
	}
	var results []genai.Part
	for _, call := range calls {
		results = append(results, genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: map[string]any{"output": "sunny"}}})
	}
	if text, calls := send(results...); text != "Both are sunny" || len(calls) != 0 {
		t.Errorf("after the results: %q %+v", text, calls)
	}
	if text, _ := send(genai.Part{Text: "say: And tomorrow?"}); text != "And tomorrow?" || len(chat.History(true)) != len(chat.History(false))-4 {
		t.Errorf("%q, %d of %d contents are sent", text, len(chat.History(true)), len(chat.History(false)))
	}
}
