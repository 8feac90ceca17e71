package api

import (
	"context"
	"slices"

	"stoa/internal/catalog"
	"stoa/internal/contract"
	"stoa/internal/rest"
	"stoa/internal/stoa"
)

// listModels serves GET /api/v1/models, in the format of the client's vendor.
func (s *Server) listModels(_ context.Context, in rest.Request[contract.ListModelsParams, rest.None]) (rest.Reply[any], error) {
	cat := s.Catalog.Load()
	ids := cat.Offered(in.Caller.Plan)
	if in.Params.AnthropicVersion == "" {
		list := contract.ModelObjectList{Object: "list", Data: []contract.ModelObject{}}
		for _, id := range ids {
			list.Data = append(list.Data, modelObject(cat, id))
		}
		return rest.Reply[any]{Body: list}, nil
	}
	ids = append(ids, cat.VendorNames(in.Caller.Plan)...)
	list := contract.ModelInfoList{Data: []contract.ModelInfo{}}
	for _, id := range ids {
		list.Data = append(list.Data, modelInfo(cat, id))
	}
	if len(ids) > 0 {
		list.FirstID, list.LastID = ids[0], ids[len(ids)-1]
	}
	return rest.Reply[any]{Body: list}, nil
}

// getModel serves GET /api/v1/models/{id}.
func (s *Server) getModel(_ context.Context, in rest.Request[getModelParams, rest.None]) (rest.Reply[any], error) {
	cat := s.Catalog.Load()
	id := cat.Identifier(in.Params.ID)
	switch {
	case !slices.Contains(cat.Offered(in.Caller.Plan), id):
		return rest.Reply[any]{}, stoa.Errorf(stoa.CodeNotFound, "This account has no such model. GET /api/v1/models lists the models.").At("id")
	case in.Params.AnthropicVersion == "":
		return rest.Reply[any]{Body: modelObject(cat, id)}, nil
	}
	return rest.Reply[any]{Body: modelInfo(cat, id)}, nil
}

type getModelParams struct {
	byID
	contract.GetModelParams
}

func modelObject(cat *catalog.Catalog, id string) contract.ModelObject {
	return contract.ModelObject{ID: id, Object: "model", Created: cat.Created().Unix(), OwnedBy: "stoa"}
}

func modelInfo(cat *catalog.Catalog, id string) contract.ModelInfo {
	return contract.ModelInfo{Type: "model", ID: id, DisplayName: id, CreatedAt: contract.Time(cat.Created())}
}
