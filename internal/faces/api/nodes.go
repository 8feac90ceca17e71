package api

import (
	"context"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/store"
)

func (s *Doctor) listNodes(ctx context.Context, tx *store.Tx, _ rest.Request[rest.None, rest.None]) (rest.Reply[contract.NodeList], error) {
	nodes, err := tx.Operations().Nodes(ctx)
	if err != nil {
		return rest.Reply[contract.NodeList]{}, err
	}
	out := contract.NodeList{Data: []contract.Node{}, SameConfig: true, Database: "sqlite"}
	if s.Store.Postgres() {
		out.Database = "postgresql"
	}
	for _, n := range nodes {
		c := contract.Node{
			ID: n.ID, Version: n.Version, Address: n.Address, StartedAt: contract.Time(n.StartedAt), SeenAt: contract.Time(n.SeenAt),
			Calls: n.Calls, Sessions: n.Sessions, ConfigHash: n.ConfigHash, ConfigVersion: n.ConfigVersion, ConfigProblem: nullIfZero(n.ConfigProblem), Self: n.ID == s.Store.Node(),
		}
		if c.Self && s.Gateway != nil {
			c.Calls = s.Gateway.Active()
		}
		out.SameConfig = out.SameConfig && n.ConfigHash == nodes[0].ConfigHash
		out.Data = append(out.Data, c)
	}
	return rest.Reply[contract.NodeList]{Body: out}, nil
}
