package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
)

// A SealedRow is a row with an encrypted secret, and the data that the secret is bound to;
// see package vault.
type SealedRow struct {
	AccountID, ID, Kind, Origin string
	Version                     int64
	Sealed                      string
}

// sealedTables maps the tables with encrypted secrets to the query that lists their rows, with the
// columns of [SealedRow] in its order, and to the statement that writes a row. The statement compares
// the old value, so that it does not overwrite a secret that was set in the meantime.
var sealedTables = map[string]struct{ list, update string }{
	"secrets": {
		list:   `SELECT account_id, id, kind, origin, version, sealed FROM secrets WHERE id > $1 AND deleted_at = 0 ORDER BY id LIMIT $2`,
		update: `UPDATE secrets SET sealed = $3 WHERE account_id = $1 AND id = $2 AND sealed = $4`,
	},
	"config_secrets": {
		list:   `SELECT 'service', id, 'provider ' || provider, origin, 1, sealed FROM config_secrets WHERE id > $1 ORDER BY id LIMIT $2`,
		update: `UPDATE config_secrets SET sealed = $3 WHERE $1 = 'service' AND id = $2 AND sealed = $4`,
	},
	"connection_tokens": {
		list:   `SELECT account_id, id, 'oauth', issuer || ' ' || resource, version, sealed FROM connection_tokens WHERE id > $1 ORDER BY id LIMIT $2`,
		update: `UPDATE connection_tokens SET sealed = $3 WHERE account_id = $1 AND id = $2 AND sealed = $4`,
	},
	"oauth_clients": {
		list:   `SELECT account_id, id, 'oauth_client', issuer, version, sealed FROM oauth_clients WHERE id > $1 ORDER BY id LIMIT $2`,
		update: `UPDATE oauth_clients SET sealed = $3 WHERE account_id = $1 AND id = $2 AND sealed = $4`,
	},
	"oauth_states": {
		list:   `SELECT account_id, id, 'oauth_state', '', 1, sealed FROM oauth_states WHERE id > $1 ORDER BY id LIMIT $2`,
		update: `UPDATE oauth_states SET sealed = $3 WHERE account_id = $1 AND id = $2 AND sealed = $4`,
	},
	"link_mails": {
		list:   `SELECT account_id, id, 'link', '', 1, sealed FROM link_mails WHERE id > $1 AND sealed <> '' ORDER BY id LIMIT $2`,
		update: `UPDATE link_mails SET sealed = $3 WHERE account_id = $1 AND id = $2 AND sealed = $4`,
	},
	"hooks": {
		list:   `SELECT account_id, id, 'hook', '', secret_version, sealed FROM hooks WHERE id > $1 ORDER BY id LIMIT $2`,
		update: `UPDATE hooks SET sealed = $3 WHERE account_id = $1 AND id = $2 AND sealed = $4`,
	},
	"webhooks": {
		list:   `SELECT account_id, id, 'webhook', '', secret_version, sealed FROM webhooks WHERE id > $1 ORDER BY id LIMIT $2`,
		update: `UPDATE webhooks SET sealed = $3 WHERE account_id = $1 AND id = $2 AND sealed = $4`,
	},
}

// SealedTables returns the tables that have encrypted secrets.
func SealedTables() []string { return slices.Sorted(maps.Keys(sealedTables)) }

// SealedRows returns rows of a table that has encrypted secrets, of all accounts, by
// their ids after one.
func (tx *Tx) SealedRows(ctx context.Context, table, after string, limit int) ([]SealedRow, error) {
	return list(ctx, tx, func(rows *sql.Rows) (r SealedRow, err error) {
		err = rows.Scan(&r.AccountID, &r.ID, &r.Kind, &r.Origin, &r.Version, &r.Sealed)
		return r, err
	}, sealedTables[table].list, after, limit)
}

// Reseal replaces the encrypted secret of a row, unless that was changed since it was read. It reports
// whether it did.
func (tx *Tx) Reseal(ctx context.Context, table string, r SealedRow, sealed string) (bool, error) {
	n, err := tx.Exec(ctx, sealedTables[table].update, r.AccountID, r.ID, sealed, r.Sealed)
	return n > 0, err
}
