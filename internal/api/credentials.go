package api

import (
	"context"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/tool"
)

// mayGive reports whether a key may give sessions secrets of their own: otherwise one
// that may start sessions could use any secret of the account.
func mayGive(c stoa.Caller, given nullable.Nullable[map[string]string]) error {
	if len(orZero(given)) > 0 && !c.Key.Has("secrets:write") {
		return stoa.Errorf(stoa.CodeScope, "To give a session secrets of its own takes the scope \"secrets:write\" as well. Leave \"credentials\" out, or use another key.").At("credentials")
	}
	return nil
}

// keepCredentials checks the secrets that the sessions of a task, a script tag or a link
// have of their own, and keeps them; where none are given, it keeps those of before.
func keepCredentials(ctx context.Context, tx *store.Tx, c stoa.Caller, ownerID, externalUserID string, given nullable.Nullable[map[string]string]) error {
	if !given.IsSpecified() {
		return nil
	}
	if err := mayGive(c, given); err != nil {
		return err
	}
	own := orZero(given)
	if err := tool.CheckCredentials(ctx, tx, c.Account.ID, externalUserID, own); err != nil {
		return err
	}
	return tx.SetOwnCredentials(ctx, c.Account.ID, ownerID, own)
}

// ownCredentials returns the secrets that a session, or what makes sessions, has of its
// own: ids, never values.
func (s *Server) ownCredentials(ctx context.Context, c stoa.Caller, ownerID string) (nullable.Nullable[map[string]string], error) {
	own, err := read(ctx, s, func(tx *store.Tx) (map[string]string, error) { return tx.OwnCredentials(ctx, c.Account.ID, ownerID) })
	if own == nil {
		own = map[string]string{}
	}
	return nullable.NewNullableWithValue(own), err
}
