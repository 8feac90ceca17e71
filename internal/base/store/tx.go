package store

import (
	"context"

	"stoa/internal/base/audit"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A Tx is a running transaction. Its statements are the methods of five types by area, so that nobody meets all of them in
// one list. [Store.Write] lists the rules for closures.
type Tx struct {
	*db.Tx
	s     *Store
	audit []audit.Entry // see [Tx.Audit]
}

type (
	// Books contains the statements about money: accounts, charges, leases, budgets, payments.
	Books struct{ *Tx }
	// People contains the statements about keys, members, sign-in and the audit log.
	People struct{ *Tx }
	// Setup contains the statements about spaces, agents, connections, secrets and embeds.
	Setup struct{ *Tx }
	// Work contains the statements about sessions, tool calls, uploads and tasks.
	Work struct{ *Tx }
	// Operations contains the statements about nodes, settings, alerts, webhooks and the request log.
	Operations struct{ *Tx }
)

// Books returns the statements about money.
func (tx *Tx) Books() Books { return Books{tx} }

// People returns the statements about people and their keys.
func (tx *Tx) People() People { return People{tx} }

// Setup returns the statements about what owners set up.
func (tx *Tx) Setup() Setup { return Setup{tx} }

// Work returns the statements about what agents do.
func (tx *Tx) Work() Work { return Work{tx} }

// Operations returns the statements about the service.
func (tx *Tx) Operations() Operations { return Operations{tx} }

// Audit appends a row to the audit log at the end of the transaction, so that no other lock is acquired
// after that of the chain. The row receives its number, time and hashes then.
func (tx *Tx) Audit(e audit.Entry) { tx.audit = append(tx.audit, e) }

// AuditAutomatic appends a row for a change that the service made for a reason, such as the end
// of a webhook. action contains a dot, so that it differs from those of operations.
func (tx *Tx) AuditAutomatic(accountID, action, object, reason string) {
	after, err := jsonText(map[string]string{"id": object, "reason": reason})
	if err != nil {
		panic(err) // texts can always be written
	}
	tx.Audit(audit.Entry{AccountID: accountID, Actor: audit.Service, Action: action, Object: object, After: after})
}

// Savepoint is [db.Tx.Savepoint]. It also drops the audit rows of fn if that is rolled back, because they
// record changes that did not happen.
func (tx *Tx) Savepoint(ctx context.Context, fn func() error) error {
	rows := len(tx.audit)
	err := tx.Tx.Savepoint(ctx, fn)
	if err != nil {
		tx.audit = tx.audit[:rows]
	}
	return err
}

// lockText makes other transactions that lock the same text wait until this one ends. On SQLite it does
// nothing, since there is one writer.
func (tx *Tx) lockText(ctx context.Context, text string) error {
	if !tx.Postgres() {
		return nil
	}
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, text)
	return err
}

// within returns CodeLimitReached if a query, which counts up to $1 rows for the owner $2, finds the
// maximum. setting names the setting that an operator can raise, if there is one. It serializes creations
// of an account, so that concurrent ones cannot exceed the limit together.
func (tx *Tx) within(ctx context.Context, limit int, setting, accountID, owner, what, query string, args ...any) error {
	full, err := tx.full(ctx, limit, accountID, owner, query, args...)
	if err != nil || !full {
		return err
	}
	raise := ""
	if setting != "" {
		raise = ", or ask the operator to raise " + setting
	}
	return stoa.Errorf(stoa.CodeLimitReached, "There are %d %s, which is the limit of this service. Delete one that is no longer needed%s.", limit, what, raise)
}

// full reports whether the maximum is reached; see [Tx.within].
func (tx *Tx) full(ctx context.Context, limit int, accountID, owner, query string, args ...any) (bool, error) {
	if limit <= 0 {
		return false, nil
	}
	if tx.Postgres() {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "quota "+accountID); err != nil {
			return false, err
		}
	}
	var n int
	_, err := tx.Get(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM `+query+` LIMIT $1) found`, append([]any{limit, owner}, args...), &n)
	return n >= limit, err
}
