package tool

import (
	"cmp"
	"context"

	"stoa/internal/agents/mcp"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Skills reads skills of a connection's server; see [mcp.Server.Skills]. It stores nothing.
func (t *Tools) Skills(ctx context.Context, accountID, id string, wanted []string, most int) (c store.Connection, list []mcp.RemoteSkill, err error) {
	if c, err = t.connection(ctx, accountID, id); err != nil {
		return c, nil, err
	}
	switch {
	case c.Disabled:
		return c, nil, switchedOff()
	case c.Kind != store.KindMCP:
		return c, nil, stoa.Errorf(stoa.CodeInvalidValue, "Only servers of the Model Context Protocol can offer skills.").At("connectionId")
	}
	done, err := t.enter(accountID)
	if err != nil {
		return c, nil, err
	}
	defer done()
	made, err := t.server(ctx, c, nil)
	if err != nil {
		return c, nil, err
	}
	if r, ok := made.(renewing); ok {
		made = r.Server
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(t.Refreshes, RefreshTime))
	defer cancel()
	switch s := made.(type) {
	case mcp.Server:
		list, err = s.Skills(ctx, wanted, most)
	case unasked:
		err = s.err
	}
	if failed := failureOf(err); failed != nil {
		err = failed.answer
	}
	return c, list, err
}
