package api

import (
	"context"
	"net/http"
	"unicode/utf8"

	"stoa/internal/base/audit"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// maxEndUser is the maximum length of the name of an end user, in characters, which is that of safety_identifier.
const maxEndUser = 512

type endUser struct {
	ExternalUserID string `path:"externalUserId"`
}

// deleteAccount serves DELETE /api/v1/accounts/{id}.
func (s *People) deleteAccount(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Erasure], error) {
	owner, err := tx.People().OwnerAccount(ctx)
	if err != nil {
		return rest.Reply[contract.Erasure]{}, err
	}
	if in.Params.ID == owner || in.Params.ID == in.Caller.Account.ID {
		return rest.Reply[contract.Erasure]{}, stoa.Errorf(stoa.CodeInvalidValue, "This is the account of the service's operator, or of the key in use, which cannot be deleted.").At("id")
	}
	s.Keys.ForgetAfter(tx)
	if err := tx.Books().DeleteAccount(ctx, in.Params.ID); err != nil {
		return rest.Reply[contract.Erasure]{}, err
	}
	return s.beginErasure(ctx, tx, stoa.Erasure{AccountID: in.Caller.Account.ID, Kind: stoa.EraseAccount, Target: in.Params.ID})
}

// eraseEndUser serves DELETE /api/v1/end-users/{externalUserId}. It writes its own entry of the audit log, because the object of the
// rule for operations would be the name of a person.
func (s *People) eraseEndUser(ctx context.Context, tx *store.Tx, in rest.Request[endUser, rest.None]) (rest.Reply[contract.Erasure], error) {
	account, user := in.Caller.Account.ID, in.Params.ExternalUserID
	if n := utf8.RuneCountInString(user); n == 0 || n > maxEndUser {
		return rest.Reply[contract.Erasure]{}, stoa.Errorf(stoa.CodeInvalidValue, "The id of an end user has 1 to %d characters.", maxEndUser).At("externalUserId")
	}
	notes, err := tx.Work().EraseMemories(ctx, account, user)
	if err != nil {
		return rest.Reply[contract.Erasure]{}, err
	}
	reply, err := s.beginErasure(ctx, tx, stoa.Erasure{AccountID: account, Kind: stoa.EraseEndUser, Target: account, Subject: user, Replacement: stoa.NewID("user"), Removed: notes})
	if err == nil {
		tx.Audit(audit.Entry{AccountID: account, Actor: in.Caller.Key.ID, Action: "eraseEndUser", Object: reply.Body.ID, RequestID: in.Log.ID, Address: s.LoggedAddress(in.HTTP)})
	}
	return reply, err
}

func (s *People) beginErasure(ctx context.Context, tx *store.Tx, e stoa.Erasure) (rest.Reply[contract.Erasure], error) {
	e, err := tx.Operations().InsertErasure(ctx, e)
	tx.AfterCommit(s.Erasures.Wake)
	return rest.Reply[contract.Erasure]{Status: http.StatusAccepted, Location: rest.Prefix + "/erasures/" + e.ID, Body: contractErasure(e)}, err
}

func (s *People) listErasures(ctx context.Context, in rest.Request[contract.ListErasuresParams, rest.None]) (rest.Reply[rest.Page[contract.Erasure]], error) {
	account, q := in.Caller.Account.ID, in.Params
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "erasures", account)
	return rest.ReadPage(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.Erasure, bool, error) {
		return tx.Operations().Erasures(ctx, account, p.Page)
	}, contractErasure, func(e stoa.Erasure) store.Cursor { return store.Cursor{At: e.CreatedAt, ID: e.ID} })
}

func (s *People) getErasure(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Erasure], error) {
	e, err := tx.Operations().Erasure(ctx, in.Caller.Account.ID, in.Params.ID)
	return rest.Reply[contract.Erasure]{Body: contractErasure(e)}, err
}

func contractErasure(e stoa.Erasure) contract.Erasure {
	out := contract.Erasure{
		ID: e.ID, Kind: string(e.Kind), AccountID: e.Target, Status: "running", ReplacementID: nullIfZero(e.Replacement),
		CreatedAt: contract.Time(e.CreatedAt), CompletedAt: nullIfNever(e.CompletedAt),
		Backups: "Backups and copies made before the erasure is completed still contain the data: archives of stoa backup, dumps and the log archive of PostgreSQL, and copies of the bucket. Delete them when they are no longer needed, or repeat the erasure after a restore.",
	}
	if !e.CompletedAt.IsZero() {
		out.Status = "completed"
	}
	out.Removed.Sessions, out.Removed.Drives, out.Removed.Rows = e.Sessions, e.Drives, e.Removed
	out.Changed.Receipts, out.Changed.AuditEntries = e.Receipts, e.AuditEntries
	return out
}
