package api

import (
	"net/http"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/models/catalog"
	"stoa/internal/models/responses"
)

type geminiParams struct {
	Model string `path:"model"`
}

type geminiStreamParams struct {
	geminiParams
	Alt string `form:"alt"` // sse for events
}

func (p geminiParams) parser(stream bool) callParser {
	return responses.ParseGemini(p.Model, stream, false)
}

func (p geminiStreamParams) parser(stream bool) callParser {
	return responses.ParseGemini(p.Model, stream, p.Alt != "sse")
}

func geminiCall[P interface{ parser(stream bool) callParser }](s *Calls, stream bool) func(http.ResponseWriter, *rest.Request[P, rest.None]) error {
	return func(w http.ResponseWriter, in *rest.Request[P, rest.None]) error {
		return s.modelCall(in.Params.parser(stream))(w, withoutParams(in))
	}
}

func withoutParams[P any](in *rest.Request[P, rest.None]) *rest.Request[rest.None, rest.None] {
	return &rest.Request[rest.None, rest.None]{Caller: in.Caller, Input: rest.Input[rest.None, rest.None]{HTTP: in.HTTP, Log: in.Log}}
}

func (s *Calls) countContent(w http.ResponseWriter, in *rest.Request[geminiParams, rest.None]) error {
	tokens, err := s.countInput(w, withoutParams(in), responses.ParseGeminiCount(in.Params.Model))
	if err != nil {
		return err
	}
	return rest.Answer(w, rest.Reply[totalTokens]{Body: totalTokens{tokens}}, nil)
}

type totalTokens struct {
	TotalTokens int64 `json:"totalTokens"`
}

func (s *Calls) wantsGemini(r *http.Request) bool {
	return s.Extensions.Gemini && (r.Header.Get("X-Goog-Api-Key") != "" || !rest.Under(r.URL.Path, rest.Prefix))
}

func geminiModel(cat *catalog.Catalog, id string) contract.GeminiModelInfo {
	info := contract.GeminiModelInfo{
		Name: "models/" + id, DisplayName: id, Version: cat.Created().Format("2006-01-02"),
		SupportedGenerationMethods: []string{"generateContent", "countTokens"},
	}
	if m, ok := cat.Model(id); ok { // because auto is not a model
		info.InputTokenLimit, info.OutputTokenLimit = m.ContextTokens, m.MaxOutput
	}
	return info
}

func noModels() error {
	return stoa.Errorf(stoa.CodeNotFound, "There is no list of models in this format. GET /api/v1/meta names the models; the operator can enable the extension \"models\".")
}
