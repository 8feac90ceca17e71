package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"stoa/internal/agents/tool"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Agents) createSecret(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.CreateSecret]) (rest.Reply[contract.Secret], error) {
	b := in.Body
	secret := store.Secret{
		ID: stoa.NewID("sec"), AccountID: in.Caller.Account.ID, Name: b.Name, Kind: b.Kind, HeaderName: orZero(b.HeaderName),
		Origin: tool.Origin(b.Origin, true), Version: 1, SpaceID: orZero(b.SpaceID), ExternalUserID: orZero(b.ExternalUserID), ExpiresAt: time.Time(orZero(b.ExpiresAt)),
	}
	parameter := orZero(b.ParameterName)
	err := checkSecretValue(secret.Kind, b.Value)
	switch {
	case err != nil:
	case secret.Origin == "":
		err = stoa.Errorf(stoa.CodeInvalidValue, "The origin must consist of scheme, host and port, such as https://mcp.example.com.").At("origin")
	case secret.Kind == store.SecretHeader && secret.HeaderName == "":
		err = stoa.Errorf(stoa.CodeMissingParameter, "A secret of the kind header requires the name of the header.").At("headerName")
	case secret.Kind != store.SecretHeader && secret.HeaderName != "":
		err = stoa.Errorf(stoa.CodeInvalidValue, "The name of a header is only allowed for a secret of the kind header.").At("headerName")
	case secret.Kind == store.SecretQuery && parameter == "":
		err = stoa.Errorf(stoa.CodeMissingParameter, "A secret of the kind query requires the name of the parameter.").At("parameterName")
	case secret.Kind != store.SecretQuery && parameter != "":
		err = stoa.Errorf(stoa.CodeInvalidValue, "The name of a parameter is only allowed for a secret of the kind query.").At("parameterName")
	case parameter != "":
		secret.HeaderName = parameter
	case secret.HeaderName != "":
		err = checkHeaderName(secret.HeaderName, "headerName")
	}
	if err == nil {
		err = s.Tools.Seal(&secret, b.Value)
	}
	if err != nil {
		return rest.Reply[contract.Secret]{}, err
	}
	made, err := tx.Setup().InsertSecret(ctx, secret)
	return rest.Created(rest.Prefix+"/secrets/"+made.ID, s.contractSecret(made, nil)), err
}

// checkSecretValue rejects a value that cannot be sent in a header.
func checkSecretValue(kind, value string) error {
	if kind == store.SecretBasic && !strings.Contains(value, ":") {
		return stoa.Errorf(stoa.CodeInvalidValue, "The value of the kind basic must have the form user:password.").At("value")
	}
	if strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return stoa.Errorf(stoa.CodeInvalidValue, "The value must consist of printable ASCII characters, without a space at either end.").At("value")
	}
	return nil
}

func (s *Agents) listSecrets(ctx context.Context, in rest.Request[contract.ListSecretsParams, rest.None]) (rest.Reply[rest.Page[contract.Secret]], error) {
	accountID, q := in.Caller.Account.ID, in.Params
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "secrets", accountID, q.Q)
	n, users := namesOf(accountID), map[string][]store.SecretUser{}
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]store.Secret, store.Cursor, error) {
		all, next, err := tx.Setup().Secrets(ctx, accountID, q.Q, p.Page)
		for _, secret := range all {
			if err == nil {
				users[secret.ID], err = tx.Setup().SecretUsers(ctx, accountID, secret.ID, maxSecretUsers)
			}
			n.add(store.NamedSpaces, secret.SpaceID)
			for _, u := range users[secret.ID] {
				n.add(store.NamedConnections, u.ConnectionID)
			}
		}
		return all, next, n.read(ctx, tx, err)
	}, func(secret store.Secret) contract.Secret {
		out := s.contractSecret(secret, users[secret.ID])
		out.SpaceName = n.of(store.NamedSpaces, secret.SpaceID)
		for i, u := range out.UsedBy {
			out.UsedBy[i].ConnectionName = n.of(store.NamedConnections, u.ConnectionID)
		}
		return out
	})
}

const maxSecretUsers = 100

func (s *Agents) getSecret(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Secret], error) {
	secret, err := tx.Setup().AnySecret(ctx, in.Caller.Account.ID, in.Params.ID)
	if err != nil {
		return rest.Reply[contract.Secret]{}, err
	}
	users, err := tx.Setup().SecretUsers(ctx, in.Caller.Account.ID, in.Params.ID, maxSecretUsers)
	return rest.Reply[contract.Secret]{Body: s.contractSecret(secret, users)}, err
}

func (s *Agents) deleteSecret(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[rest.None], error) {
	return rest.NoContent(), tx.Setup().DeleteSecret(ctx, in.Caller.Account.ID, in.Params.ID)
}

func (s *Agents) setSecretValue(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.SetSecretValue]) (rest.Reply[contract.Secret], error) {
	secret, err := tx.Setup().SetSecret(ctx, in.Caller.Account.ID, in.Params.ID, func(secret *store.Secret) error {
		if err := checkSecretValue(secret.Kind, in.Body.Value); err != nil {
			return err
		}
		secret.ExpiresAt = time.Time(orZero(in.Body.ExpiresAt))
		return s.Tools.Seal(secret, in.Body.Value)
	})
	if err != nil {
		return rest.Reply[contract.Secret]{}, err
	}
	users, err := tx.Setup().SecretUsers(ctx, in.Caller.Account.ID, in.Params.ID, maxSecretUsers)
	return rest.Reply[contract.Secret]{Body: s.contractSecret(secret, users)}, err
}

func (s *Agents) contractSecret(secret store.Secret, users []store.SecretUser) contract.Secret {
	out := contract.Secret{
		ID: secret.ID, Name: secret.Name, Kind: secret.Kind, Origin: secret.Origin,
		HeaderName: nullUnless(secret.Kind != store.SecretQuery && secret.HeaderName != "", secret.HeaderName), ParameterName: nullUnless(secret.Kind == store.SecretQuery && secret.HeaderName != "", secret.HeaderName),
		SpaceID: nullIfZero(secret.SpaceID), ExternalUserID: nullIfZero(secret.ExternalUserID), Hint: nullIfZero(secret.Hint), Version: secret.Version,
		ConnectionIds: []string{}, UsedBy: []contract.SecretUser{}, LastUsedAt: nullIfNever(secret.LastUsedAt), ExpiresAt: nullIfNever(secret.ExpiresAt),
		Unreadable: secret.DeletedAt.IsZero() && s.Tools.Unreadable(secret), CreatedAt: contract.Time(secret.CreatedAt), UpdatedAt: contract.Time(secret.UpdatedAt),
	}
	if !secret.DeletedAt.IsZero() {
		out.DeletedAt = nullIfNever(secret.DeletedAt)
	}
	for _, u := range users {
		use := "requests"
		if u.Client {
			use = "oauth_client"
		}
		out.UsedBy = append(out.UsedBy, contract.SecretUser{ConnectionID: u.ConnectionID, Use: use})
		if !slices.Contains(out.ConnectionIds, u.ConnectionID) {
			out.ConnectionIds = append(out.ConnectionIds, u.ConnectionID)
		}
	}
	return out
}
