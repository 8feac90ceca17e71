package tool

import (
	"cmp"
	"context"

	"stoa/internal/remote"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// Credentials are the secrets that a session has of its own: ids of secrets by those of
// connections. Nil: none.
type Credentials map[string]string

// credential returns what requests of a connection carry: the secret that a session has
// for it, or else that of the connection. It is for one request, and is kept nowhere.
func (t *Tools) credential(ctx context.Context, c store.Connection, own Credentials) (remote.Credential, error) {
	none := remote.Credential{}
	id := cmp.Or(own[c.ID], c.SecretID)
	if id == "" {
		return none, nil
	}
	var s store.Secret
	err := t.Store.Read(ctx, func(tx *store.Tx) (err error) {
		s, err = tx.Secret(ctx, c.AccountID, id)
		return err
	})
	if err != nil {
		return none, err
	}
	if s.Origin != Origin(c.URL, false) { // which nothing lets happen
		return none, stoa.Errorf(stoa.CodeSecretOrigin, "The secret is for another origin.")
	}
	value, err := t.Vault.Open(ref(s), s.Sealed)
	if err != nil {
		return none, stoa.Errorf(stoa.CodeSecretsKeyMissing, "The secret of the connection cannot be read any more. Set its value again.").Because(err)
	}
	if s.Kind == store.SecretBearer {
		return remote.Credential{Header: "Authorization", Value: "Bearer " + string(value)}, nil
	}
	return remote.Credential{Header: s.HeaderName, Value: string(value)}, nil
}
