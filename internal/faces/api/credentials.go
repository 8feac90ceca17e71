package api

import (
	"context"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// checkCredentialScope checks that a key can give sessions their own secrets, because otherwise a key
// that can start sessions could use any secret of the account.
func checkCredentialScope(c stoa.Caller, given nullable.Nullable[map[string]string]) error {
	if len(orZero(given)) > 0 && !c.Key.Has("secrets:write") {
		return stoa.Errorf(stoa.CodeScope, "\"credentials\" also requires the scope \"secrets:write\". Omit \"credentials\", or use another key.").At("credentials")
	}
	return nil
}

// keepCredentials checks and stores the sessions' own secrets of a task, a script tag
// or a link. If none are sent, it keeps the earlier ones.
func keepCredentials(ctx context.Context, tx *store.Tx, c stoa.Caller, ownerID, externalUserID string, given nullable.Nullable[map[string]string]) error {
	if !given.IsSpecified() {
		return nil
	}
	if err := checkCredentialScope(c, given); err != nil {
		return err
	}
	own := orZero(given)
	if err := tool.CheckCredentials(ctx, tx, c.Account.ID, externalUserID, own); err != nil {
		return err
	}
	return tx.Setup().SetOwnCredentials(ctx, c.Account.ID, ownerID, own)
}

func (s *core) ownCredentials(ctx context.Context, c stoa.Caller, ownerID string) (nullable.Nullable[map[string]string], error) {
	own, err := store.Read(ctx, s.Store, func(tx *store.Tx) (map[string]string, error) {
		return tx.Setup().OwnCredentials(ctx, c.Account.ID, ownerID)
	})
	if own == nil {
		own = map[string]string{}
	}
	return nullable.NewNullableWithValue(own), err
}
