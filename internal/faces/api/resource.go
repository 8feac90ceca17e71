package api

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Helpers that spaces, agents and sessions share.

func revisionTag(revision int64) string { return "r" + strconv.FormatInt(revision, 10) }

func revisionETag(revision int64) string { return `"` + revisionTag(revision) + `"` }

func unlessCurrent[R any](ifNoneMatch, tag string, body R) rest.Reply[R] {
	reply := rest.Reply[R]{ETag: `"` + tag + `"`, Body: body}
	if hasTag(ifNoneMatch, tag) {
		reply.Status = http.StatusNotModified
	}
	return reply
}

type (
	byID struct {
		ID string `path:"id"`
	}
	bySessionID struct {
		byID
		SessionID string `path:"sessionId"`
	}
	byTaskID struct {
		byID
		TaskID string `path:"taskId"`
	}
	byEmbedID struct {
		byID
		EmbedID string `path:"embedId"`
	}
	byTagID struct {
		byID
		TagID string `path:"tagId"`
	}
	byHookID struct {
		byID
		HookID string `path:"hookId"`
	}
	bySetID struct {
		byID
		SetID string `path:"setId"`
	}
	byRunID struct {
		bySetID
		RunID string `path:"runId"`
	}
	byDeliveryID struct {
		byID
		DeliveryID string `path:"deliveryId"`
	}
	byChatID struct {
		ChatID string `path:"chatId"`
	}
)

// Parameters in the path with those of the contract's type Query: in the query and in headers.
type (
	idAnd[Query any] struct {
		byID
		Query Query
	}
	sessionAnd[Query any] struct {
		bySessionID
		Query Query
	}
	taskAnd[Query any] struct {
		byTaskID
		Query Query
	}
	hookAnd[Query any] struct {
		byHookID
		Query Query
	}
	setAnd[Query any] struct {
		bySetID
		Query Query
	}
	tagAnd[Query any] struct {
		byTagID
		Query Query
	}
	chatAnd[Query any] struct {
		byChatID
		Query Query
	}
)

func ifCurrent(header string, revision int64) error {
	want := matching(header)
	if want == nil || slices.Contains(want, "*") || slices.Contains(want, revisionTag(revision)) {
		return nil
	}
	return stoa.Errorf(stoa.CodePrecondition, "It has changed since: its ETag is now %s. Read it again before you change it.", revisionETag(revision)).At("If-Match")
}

type lengthLimit struct {
	member, text string
	most         int
}

func checkLengths(texts ...lengthLimit) error {
	for _, t := range texts {
		if n := utf8.RuneCountInString(t.text); n > t.most {
			return stoa.Errorf(stoa.CodeInvalidValue, "%q must have at most %d characters; it has %d.", t.member, t.most, n).At(t.member)
		}
	}
	return nil
}

// Limits of metadata; a key's length is in characters.
const (
	maxMetadata    = 16
	maxMetadataKey = 64
)

func checkMetadata(m map[string]string) error {
	if len(m) > maxMetadata {
		return stoa.Errorf(stoa.CodeInvalidValue, "The metadata would have %d members; the maximum is %d.", len(m), maxMetadata).At("metadata")
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if n := utf8.RuneCountInString(name); n == 0 || n > maxMetadataKey {
			return stoa.Errorf(stoa.CodeInvalidValue, "A name in the metadata has %d characters; it must have 1 to %d.", n, maxMetadataKey).At("metadata")
		}
	}
	return nil
}

// mergeMetadata applies a PATCH to metadata: null removes a member, and null instead of
// the object removes all of them.
func mergeMetadata(into *map[string]string, changes nullable.Nullable[map[string]*string]) error {
	if !changes.IsSpecified() {
		return nil
	}
	merged := map[string]string{}
	if !changes.IsNull() {
		maps.Copy(merged, *into)
	}
	for name, value := range orZero(changes) {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = *value
		}
	}
	*into = merged
	return checkMetadata(merged)
}

// extend returns an object of the contract with the members of the object that it extends. The models
// do not embed each other, because the document repeats the members, and replies order them by name.
// A member of another type is left out.
func extend[T any](of any) (object T) {
	from, into := reflect.ValueOf(of), reflect.ValueOf(&object).Elem()
	for i := range from.NumField() {
		if member := into.FieldByName(from.Type().Field(i).Name); member.IsValid() && member.Type() == from.Field(i).Type() {
			member.Set(from.Field(i))
		}
	}
	return object
}

func contractMetadata(m map[string]string) contract.Metadata {
	if m == nil {
		return contract.Metadata{}
	}
	return m
}

// mergeLimits applies changes of limits: absent limits do not change, null removes a
// limit.
func (s *Agents) mergeLimits(into *stoa.TurnLimits, changes nullable.Nullable[contract.SetTurnLimits]) error {
	if changes.IsNull() {
		*into = stoa.TurnLimits{}
	}
	set := orZero(changes)
	patch(&into.MaxCredits, set.MaxCreditsMicro, func(n int64) stoa.Credits { return stoa.Credits(n) })
	patch(&into.Timeout, set.TimeoutSeconds, func(n int64) time.Duration { return time.Duration(n) * time.Second })
	patch(&into.MaxSteps, set.MaxSteps, func(n int) int { return n })
	most := s.Sessions.Limits()
	switch {
	case into.Timeout > most.TurnTime:
		return stoa.Errorf(stoa.CodeInvalidValue, "The maximum duration of a turn is %d seconds; this limit can only be lower.", most.TurnTime/time.Second).At("limits.timeoutSeconds")
	case into.MaxSteps > most.Steps:
		return stoa.Errorf(stoa.CodeInvalidValue, "The maximum number of steps of a turn is %d; this limit can only be lower.", most.Steps).At("limits.maxSteps")
	}
	return nil
}

func contractLimits(l stoa.TurnLimits) contract.TurnLimits {
	return contract.TurnLimits{
		MaxCreditsMicro: nullIfZero(int64(l.MaxCredits)), TimeoutSeconds: nullIfZero(int64(l.Timeout / time.Second)), MaxSteps: nullIfZero(l.MaxSteps),
	}
}

// checkModelExists rejects an unknown model. It accepts a model that the plan does not include, or
// that has no provider at the moment, because that may change.
func (s *Agents) checkModelExists(name string) error {
	_, err := s.Catalog.Load().Resolve(name, stoa.Plan{GatedModels: true}, nil)
	if stoa.CodeOf(err) == stoa.CodeModelNotFound {
		return err
	}
	return nil
}

// defaultSpace returns the id of the account's default space, which is created on first
// use. It is empty while the disk is full, because a caller must still be able to read.
func (s *core) defaultSpace(ctx context.Context, log *rest.Fields, accountID string) (string, error) {
	var id string
	err := s.Store.Read(ctx, func(tx *store.Tx) error {
		a, err := tx.Books().Account(ctx, accountID)
		id = a.DefaultSpaceID
		return err
	})
	if err != nil || id != "" {
		return id, err
	}
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		space, err := tx.Setup().DefaultSpace(ctx, accountID)
		id = space.ID
		return err
	})
	if stoa.CodeOf(err) == stoa.CodeStorageFull {
		log.Failed(err)
		return "", nil
	}
	return id, err
}

// nullIfZero returns null for zero, because that means "none" or "unknown" in the packages below.
func nullIfZero[T comparable](v T) nullable.Nullable[T] {
	var zero T
	return nullUnless(v != zero, v)
}

func nullUnless[T any](known bool, v T) nullable.Nullable[T] {
	if !known {
		return nullable.NewNullNullable[T]()
	}
	return nullable.NewNullableWithValue(v)
}

func nullIfNil[T, U any](v *T, convert func(T) U) nullable.Nullable[U] {
	if v == nil {
		return nullable.NewNullNullable[U]()
	}
	return nullable.NewNullableWithValue(convert(*v))
}

func nullIfNever(t time.Time) nullable.Nullable[contract.Time] {
	return nullUnless(!t.IsZero(), contract.Time(t))
}

func orZero[T any](n nullable.Nullable[T]) T {
	v, err := n.Get()
	if err != nil {
		var zero T
		return zero
	}
	return v
}

// patch applies a member of a PATCH: a value sets it, null clears it, an absent member
// does not change it.
func patch[T, U any](into *U, n nullable.Nullable[T], convert func(T) U) {
	var zero U
	patchOr(into, n, zero, convert)
}

// patchOr is like patch for a member of which null means another value than zero.
func patchOr[T, U any](into *U, n nullable.Nullable[T], other U, convert func(T) U) {
	if !n.IsSpecified() {
		return
	}
	*into = other
	if v, err := n.Get(); err == nil {
		*into = convert(v)
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// names finds the names of the objects whose ids a reply contains. It collects them first, so that one query reads each
// kind of object.
type names struct {
	accountID string              // whose objects they are; empty means of any, for operators
	operator  bool                // the caller is an operator
	ids       map[string][]string // by kind; see [store.NamedAgents]
	found     map[string]map[string]string
}

func namesOf(accountID string) *names { return &names{accountID: accountID} }

// add adds an id. Without an id, or a kind that has names, it does nothing.
func (n *names) add(kind, id string) {
	if kind == "" || id == "" {
		return
	}
	if n.ids == nil {
		n.ids = map[string][]string{}
	}
	n.ids[kind] = append(n.ids[kind], id)
}

// read finds the names of the ids that were added. It does nothing after an error of the
// transaction, which it returns.
func (n *names) read(ctx context.Context, tx *store.Tx, err error) error {
	n.found = map[string]map[string]string{}
	for kind, ids := range n.ids {
		if err == nil {
			n.found[kind], err = tx.Work().Names(ctx, n.accountID, kind, ids)
		}
	}
	return err
}

func (n *names) load(ctx context.Context, st *store.Store, err error) error {
	if err != nil {
		return err
	}
	return st.Read(ctx, func(tx *store.Tx) error { return n.read(ctx, tx, nil) })
}

func (n *names) of(kind, id string) string { return n.found[kind][id] }
