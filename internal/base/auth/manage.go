package auth

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	maxName      = 200
	minBootstrap = 32 // characters of a secret chosen by the operator
	// MaxOverlap is the longest time that a rotated key stays valid.
	MaxOverlap = 30 * 24 * time.Hour
)

// Create stores a key with the given secret. AccountID and Scopes must be set; ID and Hint
// are filled in. It does not check the caller's rights: see [Within].
func (k *Keys) Create(ctx context.Context, tx *store.Tx, key stoa.Key, secret string) (stoa.Key, error) {
	if err := check(key, tx.Now); err != nil {
		return stoa.Key{}, err
	}
	key.Hint = stoa.Hint(secret)
	key.Scopes, key.Models, key.Networks = tidy(key.Scopes), tidy(key.Models), tidy(key.Networks)
	return tx.People().InsertKey(ctx, key, Hash(secret))
}

// CreateWith creates a key on behalf of the holder of the key by. It must be [Within] that
// key, and shares its book if that key has limits (see [stoa.Key.Root]). With the scope
// operator a key may create keys of other accounts with any scope, but its own limits and
// expiry bind a new operator key.
func (k *Keys) CreateWith(ctx context.Context, tx *store.Tx, by, key stoa.Key, secret string) (stoa.Key, error) {
	if err := Within(by, key); err != nil {
		return stoa.Key{}, err
	}
	if by.AccountID == key.AccountID && by.Limited() {
		key.RootID = by.Root()
	}
	if by.AccountID == key.AccountID {
		key.MadeBy, key.MemberID, key.SignedInAt = by.ID, by.MemberID, by.SignedInAt
	}
	return k.Create(ctx, tx, key, secret)
}

// check rejects a key with invalid members, naming the member.
func check(key stoa.Key, now time.Time) error {
	if len([]rune(key.Name)) > maxName {
		return stoa.Errorf(stoa.CodeInvalidValue, "The name can have %d characters.", maxName).At("name")
	}
	if len(key.Scopes) == 0 {
		return stoa.Errorf(stoa.CodeInvalidValue, "A key needs at least one scope.").At("scopes")
	}
	for _, s := range key.Scopes {
		if s != stoa.ScopeAll && s != stoa.ScopeOperator && !slices.Contains(stoa.Scopes, s) {
			return stoa.Errorf(stoa.CodeInvalidValue, "There is no scope %q; the scopes are %s, %s and %s.", s, strings.Join(stoa.Scopes, ", "), stoa.ScopeAll, stoa.ScopeOperator).At("scopes")
		}
	}
	if key.RequestsPerMinute < 0 {
		return stoa.Errorf(stoa.CodeInvalidValue, "requestsPerMinute cannot be negative; 0 means no limit of the key's own.").At("requestsPerMinute")
	}
	if key.MaxCreditsPerDay < 0 {
		return stoa.Errorf(stoa.CodeInvalidValue, "maxCreditsMicroPerDay cannot be negative; 0 means no limit of the key's own.").At("maxCreditsMicroPerDay")
	}
	if len(key.Models) > stoa.MaxKeyModels || len(key.Networks) > stoa.MaxKeyNetworks {
		return stoa.Errorf(stoa.CodeInvalidValue, "A key can list %d models and %d networks.", stoa.MaxKeyModels, stoa.MaxKeyNetworks).At("models")
	}
	for i, m := range key.Models {
		if m == "" || strings.ContainsAny(strings.TrimSuffix(m, "*"), "* \t\r\n") {
			return stoa.Errorf(stoa.CodeInvalidValue, "%q is neither the id of a model nor a pattern such as alpha-*.", m).At(fmt.Sprintf("models[%d]", i))
		}
	}
	if err := CheckNetworks(key.Networks); err != nil {
		return err
	}
	if !key.ExpiresAt.IsZero() && !key.ExpiresAt.After(now) {
		return stoa.Errorf(stoa.CodeInvalidValue, "expiresAt must be in the future.").At("expiresAt")
	}
	return nil
}

// CheckNetworks returns CodeInvalidValue at an entry of "networks" that is not a CIDR block.
func CheckNetworks(networks []string) error {
	for i, text := range networks {
		if block, err := netip.ParsePrefix(text); err != nil || block != block.Masked() || block.Addr().Is4In6() {
			return stoa.Errorf(stoa.CodeInvalidValue, "%q is not a network. Write one such as 203.0.113.0/24 or 2001:db8::/48; a single IPv4 address is a /32.", text).At(fmt.Sprintf("networks[%d]", i))
		}
	}
	return nil
}

func tidy(list []string) []string {
	s := slices.Clone(list)
	slices.Sort(s)
	return slices.Compact(s)
}

// Within returns CodeScope if key could do more than by, the key that requests it: if it
// has a scope that by lacks, a higher limit, wider lists or a later expiry. An operator may create
// any key of another account without rights in the service.
func Within(by, key stoa.Key) error {
	if by.Has(stoa.ScopeOperator) && key.AccountID != by.AccountID && !slices.ContainsFunc(key.Scopes, stoa.OfService) {
		return nil
	}
	for _, s := range key.Scopes {
		if !by.MayGrant(s) {
			return stoa.Errorf(stoa.CodeScope, "Your key does not have the scope %q and cannot hand it out.", s).At("scopes")
		}
	}
	if by.RequestsPerMinute > 0 && (key.RequestsPerMinute == 0 || key.RequestsPerMinute > by.RequestsPerMinute) {
		return stoa.Errorf(stoa.CodeScope, "Your key is limited to %d requests a minute; a key created with it needs requestsPerMinute of at most that.", by.RequestsPerMinute).At("requestsPerMinute")
	}
	if by.MaxCreditsPerDay > 0 && (key.MaxCreditsPerDay == 0 || key.MaxCreditsPerDay > by.MaxCreditsPerDay) {
		return stoa.Errorf(stoa.CodeScope, "Your key is limited to %s credits a day; a key created with it needs maxCreditsMicroPerDay of at most %d.", by.MaxCreditsPerDay, int64(by.MaxCreditsPerDay)).At("maxCreditsMicroPerDay")
	}
	if !key.ModelsWithin(by) {
		return stoa.Errorf(stoa.CodeScope, "Your key can only use the models %s; a key created with it needs models within these.", strings.Join(by.Models, ", ")).At("models")
	}
	if !key.NetworksWithin(by) {
		return stoa.Errorf(stoa.CodeScope, "Your key can only be used from %s; a key created with it needs networks within these.", strings.Join(by.Networks, ", ")).At("networks")
	}
	if by.RequireEndUser && !key.RequireEndUser {
		return stoa.Errorf(stoa.CodeScope, "Your key requires the end user of each call; so must a key created with it.").At("requireEndUser")
	}
	if !by.ExpiresAt.IsZero() && (key.ExpiresAt.IsZero() || key.ExpiresAt.After(by.ExpiresAt)) {
		return stoa.Errorf(stoa.CodeScope, "Your key expires at %s; a key created with it needs expiresAt of at most that.", by.ExpiresAt.Format(time.RFC3339)).At("expiresAt")
	}
	return nil
}

// Get returns a key of the account, or CodeNotFound.
func (k *Keys) Get(ctx context.Context, tx *store.Tx, accountID, id string) (stoa.Key, error) {
	key, err := tx.People().Key(ctx, accountID, id)
	return k.lastUsed(key), err
}

// List returns the keys of an account, including revoked and expired ones, and the cursor of
// the next page; see [store.People.Keys].
func (k *Keys) List(ctx context.Context, tx *store.Tx, accountID string, f store.KeyFilter, p store.Page) ([]stoa.Key, store.Cursor, error) {
	list, next, err := tx.People().Keys(ctx, accountID, f, p)
	for i := range list {
		list[i] = k.lastUsed(list[i])
	}
	return list, next, err
}

// A Patch changes a key. A nil field changes nothing.
type Patch struct {
	Name              *string
	Scopes            []string
	RequestsPerMinute *int
	MaxCreditsPerDay  *stoa.Credits
	ExpiresAt         *time.Time // the zero time means never
	Models, Networks  *[]string  // an empty list means all
	RequireEndUser    *bool
}

// Patch changes a key and returns it. Both the old and the new state must be [Within] by,
// the key of the caller; a key may also narrow itself. The change takes effect immediately.
func (k *Keys) Patch(ctx context.Context, tx *store.Tx, by stoa.Key, accountID, id string, p Patch) (stoa.Key, error) {
	key, err := tx.People().Key(ctx, accountID, id)
	if err != nil {
		return key, err
	}
	before := key
	if p.Name != nil {
		key.Name = *p.Name
	}
	if p.Scopes != nil {
		key.Scopes = tidy(p.Scopes)
	}
	if p.RequestsPerMinute != nil {
		key.RequestsPerMinute = *p.RequestsPerMinute
	}
	if p.MaxCreditsPerDay != nil {
		key.MaxCreditsPerDay = *p.MaxCreditsPerDay
	}
	expired := key.ExpiresAt
	if p.ExpiresAt != nil {
		key.ExpiresAt = *p.ExpiresAt
	}
	if p.Models != nil {
		key.Models = tidy(*p.Models)
	}
	if p.Networks != nil {
		key.Networks = tidy(*p.Networks)
	}
	if p.RequireEndUser != nil {
		key.RequireEndUser = *p.RequireEndUser
	}
	asNew := key
	if p.ExpiresAt == nil || expired.Equal(key.ExpiresAt) {
		asNew.ExpiresAt = time.Time{} // because an unchanged one may be in the past
	}
	if err := check(asNew, tx.Now); err != nil {
		return key, err
	}
	if err := mayChange(by, before); err != nil {
		return before, err
	}
	if onlyName := (Patch{Name: p.Name}); !reflect.DeepEqual(p, onlyName) {
		if err := Within(by, key); err != nil {
			return key, err
		}
	}
	if err := tx.People().UpdateKey(ctx, key); err != nil {
		return key, err
	}
	k.ForgetAfter(tx)
	return k.lastUsed(key), nil
}

// mayChange returns CodeScope if key is wider than by, because the holder of a narrow key must not
// be able to revoke or narrow a wider one. A key may change itself.
func mayChange(by, key stoa.Key) error {
	if by.ID == key.ID {
		return nil
	}
	if err := Within(by, key); err != nil {
		return stoa.Errorf(stoa.CodeScope, "The key %q has scopes that yours lacks, so yours cannot change or revoke it. Use a key with the same scopes.", key.ID).Because(err)
	}
	return nil
}

// Revoke revokes a key now. It must be [Within] by, the key of the caller, or that key
// itself. A key that is already revoked stays unchanged.
func (k *Keys) Revoke(ctx context.Context, tx *store.Tx, by stoa.Key, accountID, id string) (stoa.Key, error) {
	key, err := tx.People().Key(ctx, accountID, id)
	if err != nil {
		return key, err
	}
	if err := mayChange(by, key); err != nil {
		return key, err
	}
	return k.end(ctx, tx, accountID, id, tx.Now)
}

// end sets the time from which a key is revoked, unless it is revoked earlier.
func (k *Keys) end(ctx context.Context, tx *store.Tx, accountID, id string, at time.Time) (stoa.Key, error) {
	key, err := tx.People().Key(ctx, accountID, id)
	if err != nil {
		return key, err
	}
	if key.RevokedAt.IsZero() || key.RevokedAt.After(at) {
		key.RevokedAt = at
		if err := tx.People().UpdateKey(ctx, key); err != nil {
			return key, err
		}
		k.ForgetAfter(tx)
	}
	return k.lastUsed(key), nil
}

// Rotate creates a key with the members of an old one and a new secret. The old
// one stays valid for overlap, and both share one book. A key that is revoked or
// expired is CodeConflict; one that is not [Within] by is CodeScope.
func (k *Keys) Rotate(ctx context.Context, tx *store.Tx, by stoa.Key, accountID, id string, overlap time.Duration) (key stoa.Key, secret string, err error) {
	if overlap < 0 || overlap > MaxOverlap {
		return key, "", stoa.Errorf(stoa.CodeInvalidValue, "overlapSeconds is between 0 and %d.", int64(MaxOverlap/time.Second)).At("overlapSeconds")
	}
	old, err := tx.People().Key(ctx, accountID, id)
	if err != nil {
		return key, "", err
	}
	if !InForce(old, tx.Now) || !old.RevokedAt.IsZero() {
		return key, "", stoa.Errorf(stoa.CodeConflict, "The key %q is no longer in force or is being replaced already. Create a new key.", id)
	}
	if err := Within(by, old); err != nil {
		return key, "", err
	}
	if _, err := k.end(ctx, tx, accountID, id, tx.Now.Add(overlap)); err != nil {
		return key, "", err
	}
	secret = Mint()
	key = old
	key.ID, key.LastUsedAt, key.RootID = "", time.Time{}, old.Root()
	if key, err = k.Create(ctx, tx, key, secret); err != nil {
		return key, "", err
	}
	return key, secret, tx.People().SetKeySuccessor(ctx, accountID, id, key.ID)
}

// maxSuccessors is the maximum number of rotations that [EndsWithKey] follows.
const maxSuccessors = 100

// EndsWithKey reports whether the objects that a key created have ended with it: the key is
// revoked or expired, and so is every key that it was rotated to, unless the revocation
// excluded them. A key that no longer exists counts as revoked.
func EndsWithKey(ctx context.Context, tx *store.Tx, accountID, id string, at time.Time) (bool, error) {
	for range maxSuccessors {
		key, err := tx.People().Key(ctx, accountID, id)
		if stoa.CodeOf(err) == stoa.CodeNotFound {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if InForce(key, at) || key.KeepsMade {
			return false, nil
		}
		if id, err = tx.People().KeySuccessor(ctx, accountID, id); err != nil || id == "" {
			return true, err
		}
	}
	return true, nil
}

// Bootstrap creates the owner account of an empty store, with the given plan and grant, and
// a first key with every scope. The key has the given secret, or a new one if that is
// empty; printedSecret must be shown once. If the store already has an account it does
// nothing, and created is false.
func (k *Keys) Bootstrap(ctx context.Context, secret string, grant stoa.Credits, plan string) (account stoa.Account, key stoa.Key, printedSecret string, created bool, err error) {
	err = k.st.Write(ctx, func(tx *store.Tx) error {
		account, key, printedSecret, created = stoa.Account{}, stoa.Key{}, "", false
		if any, err := tx.Books().HasAccounts(ctx); err != nil || any {
			return err
		}
		if err := tx.Books().LockAccounts(ctx); err != nil {
			return err
		}
		if any, err := tx.Books().HasAccounts(ctx); err != nil || any { // another node was faster
			return err
		}
		var err error
		s := secret
		if s == "" {
			s = Mint()
		} else if err := CheckBootstrap(s); err != nil {
			return err
		}
		if account, err = tx.Books().InsertAccount(ctx, stoa.Account{Name: "owner", Plan: plan}); err != nil {
			return err
		}
		if grant > 0 {
			if _, _, err := tx.Books().InsertGrant(ctx, stoa.Grant{AccountID: account.ID, Amount: grant, Reason: "first start"}); err != nil {
				return err
			}
		}
		tx.AuditAutomatic(account.ID, "account.created", account.ID, "first_start")
		key, err = k.Create(ctx, tx, stoa.Key{AccountID: account.ID, Name: "first key", Scopes: []string{stoa.ScopeAll, stoa.ScopeOperator}}, s)
		printedSecret, created = s, true
		return err
	})
	if err != nil {
		return stoa.Account{}, stoa.Key{}, "", false, err
	}
	return account, key, printedSecret, created, nil
}

// CheckBootstrap checks a secret chosen by the operator: it begins with sk_ and
// has 32 to 512 visible ASCII characters.
func CheckBootstrap(secret string) error {
	if !strings.HasPrefix(secret, prefix) || len(secret) < minBootstrap || len(secret) > maxSecret {
		return stoa.Errorf(stoa.CodeInvalidValue, "The first key must begin with %q and have %d to %d characters.", prefix, minBootstrap, maxSecret)
	}
	for _, c := range []byte(secret) {
		if c <= ' ' || c > '~' {
			return stoa.Errorf(stoa.CodeInvalidValue, "The first key can only have visible ASCII characters.")
		}
	}
	return nil
}
