package wire

import (
	"net/http"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// ModelsRequest builds the GET request for the models that a server lists; it has no body. ok
// is false for a wire without lists.
func ModelsRequest(wire, apiKey string) (req Request, ok bool) {
	w := stoa.WireNamed(wire)
	switch {
	case !w.Lists:
		return Request{}, false
	case w.Versioned:
		return Request{Path: "/v1/models?limit=1000", Header: http.Header{"Anthropic-Version": {"2023-06-01"}, "X-Api-Key": {apiKey}}}, true
	}
	return Request{Path: "/models", Header: bearer(stoa.Call{}, apiKey)}, true
}

// DecodeModels reads a list of models; ok is false if the body has none. The context is that of
// vLLM (max_model_len), OpenRouter and llama.cpp (context_length) or, if it is less, of
// llama.cpp's loaded model (meta.n_ctx).
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
			m.ContextTokens = least(m.ContextTokens, c)
		case "meta":
			for more := c.Object(); more && c.Member(); {
				if string(c.Key) == "n_ctx" {
					m.ContextTokens = least(m.ContextTokens, c)
				}
			}
		case "architecture":
			for more := c.Object(); more && c.Member(); {
				if string(c.Key) == "input_modalities" {
					for more := c.Array(); more && c.Element(); {
						m.Vision = c.Is("image") || m.Vision
					}
				}
			}
		}
	}
	return m
}

// least returns the smaller of n and the next value, if both are known.
func least(n int64, c *jsonx.Cursor) int64 {
	if v, ok := c.Int(); ok && v > 0 && (n == 0 || v < n) {
		return v
	}
	return n
}
