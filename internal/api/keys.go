package api

import (
	"context"
	"slices"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/auth"
	"stoa/internal/contract"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// defaultOverlap is how long a rotated key lives on.
const defaultOverlap = time.Hour

// CreateKey serves POST /api/v1/keys.
func (s *Server) CreateKey(ctx context.Context, in contract.CreateKeyRequestObject) (contract.CreateKeyResponseObject, error) {
	c := caller(ctx)
	k, err := newKey(c.Account.ID, in.Body, c.Key)
	if err != nil {
		return nil, err
	}
	if err := auth.Within(c.Key, k); err != nil {
		return nil, err
	}
	secret := auth.Mint()
	return makeOnce(ctx, s, true, contract.CreateKeyResponseObject.VisitCreateKeyResponse, func(tx *store.Tx) (contract.CreateKeyResponseObject, error) {
		k, err := s.Keys.Create(ctx, tx, k, secret)
		return contract.CreateKey201JSONResponse{
			Headers: contract.CreateKey201ResponseHeaders{Location: prefix + "/keys/" + k.ID},
			Body:    keyWithSecret(k, secret),
		}, err
	})
}

// newKey reads a key's description. What it leaves open is as wide as from is.
func newKey(accountID string, in *contract.CreateKey, from stoa.Key) (stoa.Key, error) {
	k := stoa.Key{
		AccountID: accountID, Name: in.Name, Scopes: orZero(in.Scopes),
		RequestsPerMinute: orZero(in.RequestsPerMinute), MaxCreditsPerDay: stoa.Credits(orZero(in.MaxCreditsMicroPerDay)),
		ExpiresAt: orZero(in.ExpiresAt).Time(),
	}
	if k.Scopes == nil {
		k.Scopes = slices.DeleteFunc(slices.Clone(from.Scopes), func(scope string) bool { return scope == stoa.ScopeOperator })
		if len(k.Scopes) == 0 {
			return k, stoa.Errorf(stoa.CodeMissingParameter, "Say what the key may do: \"scopes\" is missing, and this key has none to pass on but \"operator\".").At("scopes")
		}
	}
	if k.RequestsPerMinute == 0 {
		k.RequestsPerMinute = from.RequestsPerMinute
	}
	if k.MaxCreditsPerDay == 0 {
		k.MaxCreditsPerDay = from.MaxCreditsPerDay
	}
	if k.ExpiresAt.IsZero() {
		k.ExpiresAt = from.ExpiresAt
	}
	return k, nil
}

// ListKeys serves GET /api/v1/keys.
func (s *Server) ListKeys(ctx context.Context, in contract.ListKeysRequestObject) (contract.ListKeysResponseObject, error) {
	accountID := caller(ctx).Account.ID
	p, err := newPager(in.Params.Limit, in.Params.Cursor, in.Params.Order, "keys", accountID)
	if err != nil {
		return nil, err
	}
	out := contract.ListKeys200JSONResponse{Data: []contract.Key{}, NextCursor: noCursor()}
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		keys, more, err := s.Keys.List(ctx, tx, accountID, p.page)
		for _, k := range keys {
			out.Data = append(out.Data, contractKey(k))
			out.NextCursor = p.next(more, k.CreatedAt, k.ID)
		}
		out.HasMore = more
		return err
	})
	return out, err
}

// GetKey serves GET /api/v1/keys/{id}.
func (s *Server) GetKey(ctx context.Context, in contract.GetKeyRequestObject) (contract.GetKeyResponseObject, error) {
	var k stoa.Key
	err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		k, err = s.Keys.Get(ctx, tx, caller(ctx).Account.ID, in.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return contract.GetKey200JSONResponse(contractKey(k)), nil
}

// UpdateKey serves PATCH /api/v1/keys/{id}.
func (s *Server) UpdateKey(ctx context.Context, in contract.UpdateKeyRequestObject) (contract.UpdateKeyResponseObject, error) {
	c := caller(ctx)
	p := auth.Patch{Scopes: in.Body.Scopes}
	if in.Body.Name != "" {
		p.Name = &in.Body.Name
	}
	if n := in.Body.RequestsPerMinute; n.IsSpecified() {
		p.RequestsPerMinute = new(orZero(n))
	}
	if n := in.Body.MaxCreditsMicroPerDay; n.IsSpecified() {
		p.MaxCreditsPerDay = new(stoa.Credits(orZero(n)))
	}
	if n := in.Body.ExpiresAt; n.IsSpecified() {
		p.ExpiresAt = new(orZero(n).Time())
	}
	var k stoa.Key
	err := s.Store.Write(ctx, func(tx *store.Tx) (err error) {
		k, err = s.Keys.Patch(ctx, tx, c.Key, c.Account.ID, in.ID, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return contract.UpdateKey200JSONResponse(contractKey(k)), nil
}

// RevokeKey serves DELETE /api/v1/keys/{id}. A key may revoke any of its
// account's, also one that may do more: that only ever takes away.
func (s *Server) RevokeKey(ctx context.Context, in contract.RevokeKeyRequestObject) (contract.RevokeKeyResponseObject, error) {
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := s.Keys.Revoke(ctx, tx, caller(ctx).Account.ID, in.ID)
		return err
	})
	if err != nil && stoa.CodeOf(err) != stoa.CodeNotFound {
		return nil, err
	}
	return contract.RevokeKey204Response{}, nil
}

// RotateKey serves POST /api/v1/keys/{id}/rotate.
func (s *Server) RotateKey(ctx context.Context, in contract.RotateKeyRequestObject) (contract.RotateKeyResponseObject, error) {
	c := caller(ctx)
	overlap := defaultOverlap
	if in.Body != nil {
		if seconds, err := in.Body.OverlapSeconds.Get(); err == nil {
			overlap = time.Duration(seconds) * time.Second
		}
	}
	return makeOnce(ctx, s, true, contract.RotateKeyResponseObject.VisitRotateKeyResponse, func(tx *store.Tx) (contract.RotateKeyResponseObject, error) {
		k, secret, err := s.Keys.Rotate(ctx, tx, c.Key, c.Account.ID, in.ID, overlap)
		if err != nil {
			return nil, err
		}
		old, err := tx.Key(ctx, c.Account.ID, in.ID)
		body := keyWithSecret(k, secret)
		body.Replaces = nullable.NewNullableWithValue(contract.ReplacedKey{ID: old.ID, EndsAt: contract.Time(old.RevokedAt)})
		return contract.RotateKey201JSONResponse{
			Headers: contract.RotateKey201ResponseHeaders{Location: prefix + "/keys/" + k.ID},
			Body:    body,
		}, err
	})
}

// The statuses of a key.
const (
	keyActive  = "active"
	keyExpired = "expired"
	keyRevoked = "revoked"
)

func keyStatus(k stoa.Key, now time.Time) string {
	switch {
	case !k.RevokedAt.IsZero() && !k.RevokedAt.After(now):
		return keyRevoked
	case !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(now):
		return keyExpired
	}
	return keyActive
}

func contractKey(k stoa.Key) contract.Key {
	return contract.Key{
		ID: k.ID, Name: k.Name, Hint: k.Hint, Status: keyStatus(k, time.Now()), Scopes: append([]string{}, k.Scopes...),
		ExpiresAt: unlessNever(k.ExpiresAt), RevokedAt: unlessNever(k.RevokedAt), LastUsedAt: unlessNever(k.LastUsedAt),
		RequestsPerMinute: unlessZero(k.RequestsPerMinute), MaxCreditsMicroPerDay: unlessZero(int64(k.MaxCreditsPerDay)),
		CreatedAt: contract.Time(k.CreatedAt),
	}
}

func keyWithSecret(k stoa.Key, secret string) contract.KeyWithSecret {
	c := contractKey(k)
	return contract.KeyWithSecret{
		ID: c.ID, Name: c.Name, Hint: c.Hint, Status: c.Status, Scopes: c.Scopes, ExpiresAt: c.ExpiresAt, RevokedAt: c.RevokedAt,
		LastUsedAt: c.LastUsedAt, RequestsPerMinute: c.RequestsPerMinute, MaxCreditsMicroPerDay: c.MaxCreditsMicroPerDay,
		CreatedAt: c.CreatedAt, Secret: secret, Replaces: nullable.NewNullNullable[contract.ReplacedKey](),
	}
}
