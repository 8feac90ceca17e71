package store

import (
	"context"
	"database/sql"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

const accountColumns = `id, name, email, plan, suspended, default_space_id, created_at`

func scanAccount(rows *sql.Rows) (stoa.Account, error) {
	var a stoa.Account
	var created int64
	err := rows.Scan(&a.ID, &a.Name, &a.Email, &a.Plan, &a.Suspended, &a.DefaultSpaceID, &created)
	a.CreatedAt = db.Time(created)
	return a, err
}

// InsertAccount adds an account without credits. An empty ID is filled in;
// CreatedAt is the transaction's time.
func (tx *Tx) InsertAccount(ctx context.Context, a stoa.Account) (stoa.Account, error) {
	if a.ID == "" {
		a.ID = stoa.NewID("acc")
	}
	a.CreatedAt = tx.Now
	_, err := tx.Exec(ctx, `INSERT INTO accounts (id, name, email, plan, suspended, default_space_id, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7)`,
		a.ID, a.Name, a.Email, a.Plan, db.Bit(a.Suspended), a.DefaultSpaceID, db.Micros(a.CreatedAt))
	return a, err
}

// Account returns the account with that id; CodeNotFound where there is none.
func (tx *Tx) Account(ctx context.Context, id string) (stoa.Account, error) {
	var a stoa.Account
	a, found, err := first(ctx, tx, scanAccount, `SELECT `+accountColumns+` FROM accounts WHERE id = $1`, id)
	if err == nil && !found {
		err = noAccount(id)
	}
	return a, err
}

func noAccount(id string) error { return stoa.Errorf(stoa.CodeNotFound, "There is no account %q.", id) }

// Accounts lists accounts.
func (tx *Tx) Accounts(ctx context.Context, p Page) ([]stoa.Account, bool, error) {
	return page(ctx, tx, p, scanAccount, `SELECT `+accountColumns+` FROM accounts WHERE 1 = 1`)
}

// HasAccounts reports whether there is any account; a store without one is new.
func (tx *Tx) HasAccounts(ctx context.Context) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM accounts LIMIT 1`, nil, &one)
}

// LockAccounts makes other nodes wait until the commit before they create or change
// accounts; on SQLite, which has one writer, nobody can meanwhile.
func (tx *Tx) LockAccounts(ctx context.Context) error {
	if !tx.Postgres() {
		return nil
	}
	_, err := tx.Exec(ctx, `LOCK TABLE accounts IN SHARE ROW EXCLUSIVE MODE`)
	return err
}

// UpdateAccount writes an account's name, email, plan, suspension and default
// space; CodeNotFound where there is none.
func (tx *Tx) UpdateAccount(ctx context.Context, a stoa.Account) error {
	n, err := tx.Exec(ctx, `UPDATE accounts SET name = $2, email = $3, plan = $4, suspended = $5, default_space_id = $6, updated_at = $7 WHERE id = $1`,
		a.ID, a.Name, a.Email, a.Plan, db.Bit(a.Suspended), a.DefaultSpaceID, db.Micros(tx.Now))
	if err == nil && n == 0 {
		err = noAccount(a.ID)
	}
	return err
}
