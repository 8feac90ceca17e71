package api

import (
	"context"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// memoryNone is the setting of an agent that remembers nobody.
const memoryNone = "none"

// checkMemory rejects a tool of a program whose name is that of a tool for the memory.
func checkMemory(a stoa.Agent) error {
	if a.CallSettings().Memory == "" {
		return nil
	}
	for _, t := range a.Tools {
		if t.Type == stoa.ToolClient && (t.Name == stoa.MemoryRead || t.Name == stoa.MemoryWrite) {
			return stoa.Errorf(stoa.CodeInvalidValue, "An agent with a memory has a tool %q of the service. Rename the one of your programs.", t.Name).At("memory")
		}
	}
	return nil
}

func (s *Agents) listMemories(ctx context.Context, in rest.Request[idAnd[contract.ListMemoriesParams], rest.None]) (rest.Reply[rest.Page[contract.Memory]], error) {
	accountID, id, q := in.Caller.Account.ID, in.Params.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, string(q.Order), "memories", accountID, id)
	return rest.ReadPage(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.Memory, bool, error) {
		if _, err := tx.Setup().Agent(ctx, accountID, id); err != nil {
			return nil, false, err
		}
		return tx.Work().Memories(ctx, accountID, id, p.Page)
	}, func(m stoa.Memory) contract.Memory {
		return contract.Memory{ExternalUserID: m.UserID, Notes: int(m.Notes), Bytes: m.Bytes, CreatedAt: contract.Time(m.CreatedAt), UpdatedAt: contract.Time(m.UpdatedAt)}
	}, func(m stoa.Memory) store.Cursor { return store.Cursor{At: m.CreatedAt, ID: m.ID} })
}

func (s *Agents) listMemoryNotes(ctx context.Context, in rest.Request[idAnd[contract.ListMemoryNotesParams], rest.None]) (rest.Reply[rest.Page[contract.MemoryNote]], error) {
	q := in.Params.Query
	of := stoa.MemoryOwner{AccountID: in.Caller.Account.ID, AgentID: in.Params.ID, UserID: q.ExternalUserID}
	p := rest.NewPager(q.Limit, q.Cursor, string(q.Order), "memory", of.AccountID, of.AgentID, of.UserID, q.Name)
	return rest.ReadPage(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.MemoryNote, bool, error) {
		if _, err := tx.Setup().Agent(ctx, of.AccountID, of.AgentID); err != nil {
			return nil, false, err
		}
		return tx.Work().MemoryNotes(ctx, of, q.Name, p.Page)
	}, contractNote, func(n stoa.MemoryNote) store.Cursor { return store.Cursor{At: n.CreatedAt, ID: n.ID} })
}

// setMemoryNote serves PUT /api/v1/api-agents/{id}/memory/notes. The agent is locked, so that no note is left after its deletion.
func (s *Agents) setMemoryNote(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.SetMemoryNote]) (rest.Reply[contract.MemoryNote], error) {
	b := in.Body
	if _, err := tx.Setup().AgentForShare(ctx, in.Caller.Account.ID, in.Params.ID); err != nil {
		return rest.Reply[contract.MemoryNote]{}, err
	}
	c, err := tx.Work().PutMemoryNote(ctx, stoa.MemoryOwner{AccountID: in.Caller.Account.ID, AgentID: in.Params.ID, UserID: b.ExternalUserID}, b.Name, b.Text)
	return rest.Reply[contract.MemoryNote]{Body: contractNote(c.Note)}, err
}

func (s *Agents) deleteMemoryNotes(ctx context.Context, tx *store.Tx, in rest.Request[idAnd[contract.DeleteMemoryNotesParams], rest.None]) (rest.Reply[rest.None], error) {
	q := in.Params.Query
	of := stoa.MemoryOwner{AccountID: in.Caller.Account.ID, AgentID: in.Params.ID, UserID: q.ExternalUserID}
	if _, err := tx.Setup().Agent(ctx, of.AccountID, of.AgentID); err != nil {
		return rest.NoContent(), err
	}
	switch {
	case q.Name != "" && q.All:
		return rest.NoContent(), stoa.Errorf(stoa.CodeInvalidValue, "Send either name, for one note, or all=true, for all notes about the end user.").At("all")
	case q.All:
		return rest.NoContent(), tx.Work().DeleteMemory(ctx, of)
	case q.Name == "":
		return rest.NoContent(), stoa.Errorf(stoa.CodeMissingParameter, "Send the name of the note, or all=true to delete all notes about the end user.").At("name")
	}
	_, err := tx.Work().PutMemoryNote(ctx, of, q.Name, "")
	return rest.NoContent(), err
}

func contractNote(n stoa.MemoryNote) contract.MemoryNote {
	return contract.MemoryNote{Name: n.Name, Text: n.Text, Bytes: n.Bytes, CreatedAt: contract.Time(n.CreatedAt), UpdatedAt: contract.Time(n.UpdatedAt)}
}
