package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var consoleSessions = newTable[stoa.ConsoleSession]("console_sessions")

// InsertConsoleSession adds a session, and deletes the oldest ones of its person or key so that
// at most limit of them remain.
func (tx People) InsertConsoleSession(ctx context.Context, s stoa.ConsoleSession, limit int) error {
	// The lock is needed because two sign-ins together would both keep the same others.
	if err := tx.lockText(ctx, "console session "+s.PersonID+s.KeyID); err != nil {
		return err
	}
	of, id := "person_id", s.PersonID
	if id == "" {
		of, id = "key_id", s.KeyID
	}
	if _, err := tx.Exec(ctx, `DELETE FROM console_sessions WHERE hash IN (SELECT hash FROM console_sessions
		WHERE `+of+` = $1 AND `+of+` <> '' ORDER BY created_at DESC, hash LIMIT 1000 OFFSET $2)`, id, limit-1); err != nil {
		return err
	}
	_, err := consoleSessions.insert(ctx, tx.Tx, &s, "")
	return err
}

// ConsoleSession returns the session whose secret has that hash.
func (tx People) ConsoleSession(ctx context.Context, hash string) (s stoa.ConsoleSession, found bool, err error) {
	return consoleSessions.first(ctx, tx.Tx, `hash = $1`, hash)
}

// KeyByConsoleSession returns the key through which a session acts in an account, and the
// account: the key that was pasted, or the key of the person's membership.
func (tx People) KeyByConsoleSession(ctx context.Context, s stoa.ConsoleSession, accountID string) (k stoa.Key, a stoa.Account, found bool, err error) {
	of, id := `k.id = $2`, s.KeyID
	if s.PersonID != "" {
		of, id = `k.id = (SELECT key_id FROM members WHERE account_id = $1 AND person_id = $2)`, s.PersonID
	}
	found, err = tx.Get(ctx, `SELECT `+keys.columnsOf("k.")+`, `+accounts.columnsOf("a.")+`
		FROM keys k JOIN accounts a ON a.id = k.account_id WHERE k.account_id = $1 AND `+of, []any{accountID, id}, append(keys.dest(&k), accounts.dest(&a)...)...)
	return k, a, found, err
}

// A ConsoleAccount is an account that a person may use in the console.
type ConsoleAccount struct{ ID, Name, Role string }

// ConsoleAccounts returns the accounts of a person, at most limit, by name.
func (tx People) ConsoleAccounts(ctx context.Context, personID string, limit int) ([]ConsoleAccount, error) {
	scan := func(rows *sql.Rows) (a ConsoleAccount, err error) {
		err = rows.Scan(&a.ID, &a.Name, &a.Role)
		return a, err
	}
	return list(ctx, tx.Tx, scan, `SELECT a.id, a.name, m.role FROM members m JOIN accounts a ON a.id = m.account_id WHERE m.person_id = $1 ORDER BY a.name, a.id LIMIT $2`, personID, limit)
}

// Person returns the person with that id, or CodeNotFound.
func (tx People) Person(ctx context.Context, id string) (stoa.Person, error) {
	return people.one(ctx, tx.Tx, noMember(id), `id = $1`, id)
}

// TouchConsoleSession records that a session was used at that time, unless a later use is recorded,
// since nodes write in any order.
func (tx People) TouchConsoleSession(ctx context.Context, hash string, at time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE console_sessions SET seen_at = $2 WHERE hash = $1 AND seen_at < $2`, hash, db.Micros(at))
	return err
}

// DeleteConsoleSession deletes the session whose secret has that hash, if there is one.
func (tx People) DeleteConsoleSession(ctx context.Context, hash string) error {
	_, err := tx.Exec(ctx, `DELETE FROM console_sessions WHERE hash = $1`, hash)
	return err
}

// DeleteConsoleSessionsOf deletes the sessions of a person.
func (tx People) DeleteConsoleSessionsOf(ctx context.Context, personID string) error {
	_, err := tx.Exec(ctx, `DELETE FROM console_sessions WHERE person_id = $1 AND person_id <> ''`, personID)
	return err
}

// PurgeConsoleSessions deletes up to limit sessions that have expired, and returns their number.
func (tx People) PurgeConsoleSessions(ctx context.Context, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM console_sessions WHERE hash IN (SELECT hash FROM console_sessions WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)`,
		db.Micros(tx.Now), limit)
}
