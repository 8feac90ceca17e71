package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/models/catalog"
)

// listModels serves GET /api/v1/models, in the format of the client's vendor.
func (s *Calls) listModels(ctx context.Context, in rest.Request[contract.ListModelsParams, rest.None]) (rest.Reply[any], error) {
	cat := s.Catalog.Load()
	ids := offered(cat, in.Caller, cat.Offered(in.Caller.Plan))
	agents, err := s.agentModels(ctx, in.Caller)
	if err != nil {
		return rest.Reply[any]{}, err
	}
	if s.wantsGemini(in.HTTP) {
		list := contract.GeminiModelList{Models: []contract.GeminiModelInfo{}}
		for _, id := range ids {
			list.Models = append(list.Models, geminiModel(cat, id))
		}
		return rest.Reply[any]{Body: list}, nil
	}
	if !s.Extensions.Models {
		return rest.Reply[any]{}, noModels()
	}
	if in.Params.AnthropicVersion == "" {
		list := contract.ModelObjectList{Object: "list", Data: []contract.ModelObject{}}
		for _, id := range append(slices.Clip(ids), agents...) {
			list.Data = append(list.Data, s.modelObject(cat, id))
		}
		return rest.Reply[any]{Body: list}, nil
	}
	ids = slices.Concat(ids, agents, offered(cat, in.Caller, cat.VendorNames(in.Caller.Plan)))
	list := contract.ModelInfoList{Data: []contract.ModelInfo{}}
	for _, id := range ids {
		list.Data = append(list.Data, modelInfo(cat, id))
	}
	if len(ids) > 0 {
		list.FirstID, list.LastID = ids[0], ids[len(ids)-1]
	}
	return rest.Reply[any]{Body: list}, nil
}

func offered(cat *catalog.Catalog, c stoa.Caller, names []string) []string {
	if len(c.Key.Models) == 0 {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return name != catalog.Auto && !c.Key.AllowsModel(cat.Identifier(name))
	})
}

func (s *Calls) getModel(ctx context.Context, in rest.Request[idAnd[contract.GetModelParams], rest.None]) (rest.Reply[any], error) {
	cat := s.Catalog.Load()
	id := cat.Identifier(in.Params.ID)
	ids := offered(cat, in.Caller, cat.Offered(in.Caller.Plan))
	if strings.HasPrefix(id, stoa.AgentModel) {
		var err error
		if ids, err = s.agentModels(ctx, in.Caller); err != nil {
			return rest.Reply[any]{}, err
		}
	}
	switch {
	case !slices.Contains(ids, id):
		return rest.Reply[any]{}, stoa.Errorf(stoa.CodeNotFound, "This account has no such model. GET /api/v1/models lists the models.").At("id")
	case s.wantsGemini(in.HTTP):
		return rest.Reply[any]{Body: geminiModel(cat, id)}, nil
	case !s.Extensions.Models:
		return rest.Reply[any]{}, noModels()
	case in.Params.Query.AnthropicVersion == "":
		return rest.Reply[any]{Body: s.modelObject(cat, id)}, nil
	}
	return rest.Reply[any]{Body: modelInfo(cat, id)}, nil
}

// modelObject returns a model as OpenAI lists it, with the members that OpenRouter adds.
func (s *Calls) modelObject(cat *catalog.Catalog, id string) contract.ModelObject {
	o := contract.ModelObject{ID: id, Object: "model", Created: cat.Created().Unix(), OwnedBy: "stoa", Name: id}
	m, ok := cat.Model(id)
	if !ok { // because auto is not a model
		return o
	}
	o.ContextLength, o.TopProvider.MaxCompletionTokens = m.ContextTokens, m.MaxOutput
	o.Architecture.OutputModalities = []string{"text"}
	o.Architecture.InputModalities, o.SupportedParameters = s.accepted(m)
	if cat.InDollars(m) {
		o.Pricing = contract.ModelPricing{
			Prompt: perToken(m.Price.Input), Completion: perToken(m.Price.Output),
			InputCacheRead: perToken(m.Price.CachedInput), InputCacheWrite: perToken(m.Price.CacheWrite),
		}
	}
	return o
}

func (s *Calls) accepted(m stoa.Model) (modalities, parameters []string) {
	has := func(is func(r stoa.Route) bool) bool { return slices.ContainsFunc(m.Routes, is) }
	samples := func(r stoa.Route) bool { return r.Traits.Sampling != "none" }
	ext := s.Extensions
	formats := ext.ChatCompletions || ext.Messages || ext.Gemini
	add := func(list *[]string, on bool, names ...string) {
		if on {
			*list = append(*list, names...)
		}
	}
	add(&modalities, true, "text")
	add(&modalities, ext.Images && has(func(r stoa.Route) bool { return r.Traits.Vision }), "image")
	add(&modalities, ext.Files && has(func(r stoa.Route) bool { return r.Traits.PDF }), "file")
	add(&parameters, true, "max_tokens")
	add(&parameters, formats, "stop")
	add(&parameters, has(samples), "temperature", "top_p")
	add(&parameters, (ext.Messages || ext.Gemini) && has(func(r stoa.Route) bool { return samples(r) && (r.Wire == "messages" || r.Wire == "gemini") }), "top_k")
	add(&parameters, has(func(r stoa.Route) bool { return len(r.Traits.Efforts) > 0 || r.Traits.ThinkingOff != "" }), "reasoning")
	add(&parameters, has(func(r stoa.Route) bool { return r.Traits.Verbosity }), "verbosity")
	add(&parameters, ext.Tools && has(func(r stoa.Route) bool { return !r.Traits.NoTools }), "tools", "tool_choice", "parallel_tool_calls")
	add(&parameters, ext.Formats && has(func(r stoa.Route) bool { return r.Traits.Schema != "" }), "response_format")
	add(&parameters, ext.Formats && has(func(r stoa.Route) bool { return r.Traits.Schema == "native" }), "structured_outputs")
	return modalities, parameters
}

// perToken returns a rate, in micro-credits per million tokens, as credits per token.
func perToken(rate stoa.Credits) string {
	const unit = 1_000_000_000_000
	s := fmt.Sprintf("%d.%012d", rate/unit, rate%unit)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func modelInfo(cat *catalog.Catalog, id string) contract.ModelInfo {
	return contract.ModelInfo{Type: "model", ID: id, DisplayName: id, CreatedAt: contract.Time(cat.Created())}
}
