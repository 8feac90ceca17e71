package api

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/auth"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// defaultOverlap is the time for which a rotated key stays valid, so that programs can change it without failed calls.
const defaultOverlap = time.Hour

func (s *People) createKey(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.CreateKey]) (rest.Reply[contract.KeyWithSecret], error) {
	k, err := newKey(in.Caller.Account.ID, &in.Body, in.Caller.Key)
	if err != nil {
		return rest.Reply[contract.KeyWithSecret]{}, err
	}
	return s.insertKey(ctx, tx, in.Caller.Key, k)
}

func (s *People) insertKey(ctx context.Context, tx *store.Tx, by, k stoa.Key) (rest.Reply[contract.KeyWithSecret], error) {
	secret := auth.Mint()
	k, err := s.Keys.CreateWith(ctx, tx, by, k, secret)
	return createdKey(s.keyWithSecret(k, secret)), err
}

func createdKey(k contract.KeyWithSecret) rest.Reply[contract.KeyWithSecret] {
	reply := rest.Created(rest.Prefix+"/keys/"+k.ID, k)
	reply.Secret = true
	return reply
}

// newKey parses the settings of a key. Omitted settings are copied from from.
func newKey(accountID string, in *contract.CreateKey, from stoa.Key) (stoa.Key, error) {
	k := stoa.Key{
		AccountID: accountID, Name: in.Name, Scopes: orZero(in.Scopes),
		RequestsPerMinute: orZero(in.RequestsPerMinute), MaxCreditsPerDay: stoa.Credits(orZero(in.MaxCreditsMicroPerDay)),
		ExpiresAt: orZero(in.ExpiresAt).Time(),
		Models:    orZero(in.Models), Networks: orZero(in.Networks), RequireEndUser: orZero(in.RequireEndUser) || from.RequireEndUser,
	}
	if len(k.Models) == 0 {
		k.Models = from.Models
	}
	if len(k.Networks) == 0 {
		k.Networks = from.Networks
	}
	if k.Scopes == nil {
		k.Scopes = slices.DeleteFunc(slices.Clone(from.Scopes), stoa.OfService)
		if len(k.Scopes) == 0 {
			return k, stoa.Errorf(stoa.CodeMissingParameter, "\"scopes\" is missing, and this key has no scope to pass on except those of operators. Send the scopes of the new key.").At("scopes")
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

func (s *People) listKeys(ctx context.Context, in rest.Request[contract.ListKeysParams, rest.None]) (rest.Reply[rest.Page[contract.Key]], error) {
	accountID, err := s.requestedAccount(ctx, in.Caller, in.Params.AccountID)
	if err != nil {
		return rest.Reply[rest.Page[contract.Key]]{}, err
	}
	q := in.Params
	f := store.KeyFilter{Text: q.Q, Unrevoked: q.Unrevoked}
	if by := in.Caller.Key; accountID == by.AccountID && !by.Manages(stoa.Key{}) {
		f.MemberID = by.MemberID
	}
	p := rest.NewSortedPager(q.Limit, q.Cursor, string(q.Sort), string(q.Order), "keys", accountID, f.MemberID, f.Text, strconv.FormatBool(f.Unrevoked))
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.Key, store.Cursor, error) {
		return s.Keys.List(ctx, tx, accountID, f, p.Page)
	}, s.contractKey)
}

func (s *People) getKey(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Key], error) {
	k, err := keyOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperatorRead)
	if err != nil {
		return rest.Reply[contract.Key]{}, err
	}
	k, err = s.Keys.Get(ctx, tx, k.AccountID, k.ID)
	return rest.Reply[contract.Key]{Body: s.contractKey(k)}, err
}

// keyOf returns the key that the caller names: of its own account, or with the given scope of
// any. A key that the caller may not see is CodeNotFound. So are those through which members act,
// because they change with the member.
func keyOf(ctx context.Context, tx *store.Tx, c stoa.Caller, id, foreign string) (k stoa.Key, err error) {
	accountID := c.Account.ID
	if c.Key.Has(foreign) {
		if accountID, err = tx.People().AccountOfKey(ctx, id); err != nil {
			return k, err
		}
	}
	k, err = tx.People().Key(ctx, accountID, id)
	if err == nil && (k.Kind == stoa.KeyOfMember || accountID == c.Account.ID && !c.Key.Manages(k)) {
		return stoa.Key{}, store.NoKey(id)
	}
	return k, err
}

func (s *People) updateKey(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.UpdateKey]) (rest.Reply[contract.Key], error) {
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
	if n := in.Body.Models; n.IsSpecified() {
		p.Models = new(orZero(n))
	}
	if n := in.Body.Networks; n.IsSpecified() {
		p.Networks = new(orZero(n))
	}
	if n := in.Body.RequireEndUser; n.IsSpecified() {
		p.RequireEndUser = new(orZero(n))
	}
	if n := in.Body.ExpiresAt; n.IsSpecified() {
		p.ExpiresAt = new(orZero(n).Time())
	}
	k, err := keyOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperator)
	if err != nil {
		return rest.Reply[contract.Key]{}, err
	}
	k, err = s.Keys.Patch(ctx, tx, in.Caller.Key, k.AccountID, k.ID, p)
	return rest.Reply[contract.Key]{Body: s.contractKey(k)}, err
}

// revokeKey serves DELETE /api/v1/keys/{id}. A key can revoke itself, and keys of its
// account without further permissions; an operator's key can also revoke keys of other
// accounts.
func (s *People) revokeKey(ctx context.Context, in rest.Request[idAnd[contract.RevokeKeyParams], rest.None]) (rest.Reply[rest.None], error) {
	which := store.KeyObjects{Made: in.Params.Query.RevokeMade != "false", Changed: in.Params.Query.PauseChanged, Keys: in.Params.Query.RevokeMade == "all"}
	accountID, err := store.Write(ctx, s.Store, func(tx *store.Tx) (string, error) {
		k, err := keyOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperator)
		if err == nil {
			_, err = s.Keys.Revoke(ctx, tx, in.Caller.Key, k.AccountID, k.ID)
		}
		if err == nil {
			err = tx.People().KeepMade(ctx, k.AccountID, k.ID, !which.Made)
		}
		if err == nil {
			err = tx.People().SetEnding(ctx, k.AccountID, k.ID, which)
		}
		return k.AccountID, err
	})
	if err == nil && which != (store.KeyObjects{}) {
		err = s.EndObjects(ctx, accountID, in.Params.ID)
	}
	return rest.NoContent(), err
}

// endBatch limits the objects that one transaction ends, so that other writes do not wait long for it.
const endBatch = 100

// EndObjects ends the objects of a revoked key that [store.People.SetEnding] recorded: it revokes its
// embeds, disables its script tags and webhooks, pauses its tasks, and switches off connections that
// it changed. Of the keys that it created and that end too, it ends the objects as well. Each part
// runs in batches, and everything can be repeated; [People.RunEnds] continues after a crash.
func (s *People) EndObjects(ctx context.Context, accountID, keyID string) error {
	for ids := []string{keyID}; len(ids) > 0; ids = ids[1:] {
		var which store.KeyObjects
		for n := endBatch; n == endBatch; {
			made, err := store.Write(ctx, s.Store, func(tx *store.Tx) (made []string, err error) {
				if which, err = tx.People().Ending(ctx, accountID, ids[0]); err == nil {
					n, made, err = s.endSome(ctx, tx, accountID, ids[0], which)
				}
				return made, err
			})
			if err != nil {
				return err
			}
			ids = append(ids, made...)
		}
		if which == (store.KeyObjects{}) {
			continue
		}
		if err := s.Scheduler.PauseOf(ctx, accountID, ids[0], which); err != nil {
			return err
		}
		if err := s.Store.Write(ctx, func(tx *store.Tx) error { return tx.People().Ended(ctx, accountID, ids[0], which) }); err != nil {
			return err
		}
	}
	return nil
}

const endEvery = time.Minute

// RunEnds calls [People.EndRest] at the start and each minute until ctx ends.
func (s *People) RunEnds(ctx context.Context) error {
	again := time.NewTicker(endEvery)
	defer again.Stop()
	for {
		if err := s.EndRest(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Error("objects of a revoked key could not be ended; it is tried again", "error", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// EndRest ends what remains of the objects of revoked keys because a process died or an end failed.
func (s *People) EndRest(ctx context.Context) error {
	var failed error
	for after, n := "", endBatch; n == endBatch; {
		keys, err := store.Read(ctx, s.Store, func(tx *store.Tx) ([]store.Ref, error) { return tx.People().KeysEnding(ctx, after, endBatch) })
		if err != nil {
			return err
		}
		for _, k := range keys {
			after = k.ID
			failed = cmp.Or(failed, s.EndObjects(ctx, k.AccountID, k.ID))
		}
		n = len(keys)
	}
	return failed
}

// endSome ends up to endBatch objects of each kind that which selects. It returns the largest number
// of one kind, and the keys that it revoked, because the right to revoke a key includes those that it
// created.
func (s *People) endSome(ctx context.Context, tx *store.Tx, accountID, keyID string, which store.KeyObjects) (most int, made []string, err error) {
	count := func(n int, e error) {
		most, err = max(most, n), cmp.Or(err, e)
	}
	if which.Made {
		count(tx.People().RevokeEmbedsMadeBy(ctx, accountID, keyID, endBatch))
	}
	if which.Changed {
		count(tx.People().DisableConnectionsChangedBy(ctx, accountID, keyID, endBatch))
	}
	if which.Made || which.Changed {
		count(tx.People().DisableTagsOf(ctx, accountID, keyID, which, endBatch))
		count(tx.People().DisableHooksOf(ctx, accountID, keyID, which, endBatch))
		count(tx.Operations().DisableWebhooksOf(ctx, accountID, keyID, which, endBatch))
	}
	if err != nil || !which.Keys {
		return most, nil, err
	}
	everything := stoa.Key{Scopes: []string{stoa.ScopeAll, stoa.ScopeOperator}}
	made, err = tx.People().KeysMadeBy(ctx, accountID, keyID, endBatch)
	for _, id := range made {
		if err == nil {
			_, err = s.Keys.Revoke(ctx, tx, everything, accountID, id)
		}
		if err == nil {
			err = tx.People().SetEnding(ctx, accountID, id, which)
		}
		tx.AuditAutomatic(accountID, "key.revoked", id, "key_revoked")
	}
	return max(most, len(made)), made, err
}

func (s *People) rotateKey(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.RotateKey]) (rest.Reply[contract.KeyWithSecret], error) {
	overlap := defaultOverlap
	if seconds, err := in.Body.OverlapSeconds.Get(); err == nil {
		overlap = time.Duration(seconds) * time.Second
	}
	old, err := keyOf(ctx, tx, in.Caller, in.Params.ID, stoa.ScopeOperator)
	if err != nil {
		return rest.Reply[contract.KeyWithSecret]{}, err
	}
	k, secret, err := s.Keys.Rotate(ctx, tx, in.Caller.Key, old.AccountID, old.ID, overlap)
	if err != nil {
		return rest.Reply[contract.KeyWithSecret]{}, err
	}
	old, err = tx.People().Key(ctx, old.AccountID, old.ID)
	body := s.keyWithSecret(k, secret)
	body.Replaces = nullable.NewNullableWithValue(contract.ReplacedKey{ID: old.ID, EndsAt: contract.Time(old.RevokedAt)})
	return createdKey(body), err
}

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

func (s *People) contractKey(k stoa.Key) contract.Key {
	return contract.Key{
		ID: k.ID, Name: k.Name, Hint: k.Hint, Status: keyStatus(k, time.Now()), Scopes: append([]string{}, k.Scopes...),
		ExpiresAt: nullIfNever(k.ExpiresAt), RevokedAt: nullIfNever(k.RevokedAt), LastUsedAt: nullIfNever(k.LastUsedAt),
		RequestsPerMinute: nullIfZero(k.RequestsPerMinute), MaxCreditsMicroPerDay: nullIfZero(int64(k.MaxCreditsPerDay)),
		Models: nullIfEmpty(k.Models), Networks: nullIfEmpty(k.Networks), RequireEndUser: k.RequireEndUser,
		CreatedAt: contract.Time(k.CreatedAt), MemberID: nullIfZero(k.MemberID),
		PausesAt: nullIfNever(k.PausesAt(s.Keys.PauseAfter)),
	}
}

func nullIfEmpty[L ~[]E, E any](list L) nullable.Nullable[L] {
	return nullUnless(len(list) > 0, list)
}

func (s *People) keyWithSecret(k stoa.Key, secret string) contract.KeyWithSecret {
	c := extend[contract.KeyWithSecret](s.contractKey(k))
	c.Secret, c.Replaces = secret, nullable.NewNullNullable[contract.ReplacedKey]()
	return c
}
