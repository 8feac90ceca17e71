package wire

import (
	"net/http"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// ModelsRequest builds the GET request for the models that a server lists; it has no body. ok
// is false for a wire without lists.
func ModelsRequest(wire, apiKey string) (req Request, ok bool) {
	w := stoa.WireNamed(wire)
	switch {
	case !w.Lists:
		return Request{}, false
	case w.Versioned:
		return Request{Path: "/v1/models?limit=1000", Header: http.Header{"Anthropic-Version": {anthropicVersion}, "X-Api-Key": {apiKey}}}, true
	}
	return Request{Path: "/models", Header: bearer(stoa.Call{}, apiKey)}, true
}

// DecodeModels reads a list of models, with their context where vLLM
// (max_model_len), llama.cpp (meta.n_ctx) or OpenRouter (context_length) say it; ok is false if
// the body has none.
func DecodeModels(body []byte) (models []stoa.ListedModel, ok bool) {
	c := jsonx.NewReplyCursor(body)
	for more := c.Object(); more && c.Member(); {
		if string(c.Key) != "data" {
			continue
		}
		ok = c.Array()
		for ok && c.Element() {
			models = append(models, listedModel(&c))
		}
	}
	return models, ok && c.Done()
}

func listedModel(c *jsonx.Cursor) (m stoa.ListedModel) {
	for more := c.Object(); more && c.Member(); {
		switch string(c.Key) {
		case "id":
			m.ID, _ = c.Text()
		case "max_model_len", "context_length":
			m.ContextTokens, _ = c.Int()
		case "meta":
			for more := c.Object(); more && c.Member(); {
				if string(c.Key) == "n_ctx" {
					m.ContextTokens, _ = c.Int()
				}
			}
		}
	}
	return m
}
