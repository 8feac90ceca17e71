package store

import (
	"cmp"
	"context"
	"database/sql"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// MaxConnections is the maximum number of connections of a space.
const MaxConnections = 50

// MaxCatalog is the maximum number of tools in a catalog: the current ones, and as many approved
// ones that are gone, since those stay for their approval.
const MaxCatalog = 1000

var (
	connections     = newTable[Connection]("connections")
	connectionTools = newTable[ConnectionTool]("connection_tools")
)

// InsertConnection adds a connection to a space. It sets ID, times and revision, and
// defaults for omitted fields. It fails with CodeConflict if the space has a connection of
// that name.
func (tx Setup) InsertConnection(ctx context.Context, c Connection) (Connection, error) {
	if _, err := tx.space(ctx, c.AccountID, c.SpaceID, tx.ForShare()); err != nil {
		return c, err
	}
	err := tx.within(ctx, MaxConnections, "", c.AccountID, c.SpaceID, "connections in this space", `connections WHERE account_id = $3 AND space_id = $2`, c.AccountID)
	if err != nil {
		return c, err
	}
	c.ID, c.CreatedAt, c.UpdatedAt, c.Revision = stoa.NewID("con"), tx.Now, tx.Now, 1
	c.OnChange, c.PerSession, c.Sessions = cmp.Or(c.OnChange, OnChangeBlock), cmp.Or(c.PerSession, PerSessionOff), cmp.Or(c.Sessions, SessionsTurn)
	if c.Limits == (ConnectionLimits{}) {
		c.Limits = DefaultConnectionLimits
	}
	n, err := connections.insert(ctx, tx.Tx, &c, ` ON CONFLICT (account_id, space_id, name) DO NOTHING`)
	if err == nil && n == 0 {
		err = stoa.Errorf(stoa.CodeConflict, "The space has a connection named %q already.", c.Name).At("name")
	}
	return c, err
}

// Connection returns an account's connection with the numbers of its tools, or
// CodeConnectionNotFound.
func (tx Setup) Connection(ctx context.Context, accountID, id string) (Connection, error) {
	return tx.connection(ctx, accountID, id, "")
}

func (tx Setup) connection(ctx context.Context, accountID, id, lock string) (Connection, error) {
	missing := stoa.Errorf(stoa.CodeConnectionNotFound, "There is no such connection.").At("connectionId")
	c, err := connections.one(ctx, tx.Tx, missing, `account_id = $1 AND id = $2`+lock, accountID, id)
	if err != nil {
		return c, err
	}
	return c, tx.countTools(ctx, accountID, &c)
}

// countTools fills in the numbers of a connection's tools, whether it has tokens, and the
// outcome of its newest authorization.
func (tx Setup) countTools(ctx context.Context, accountID string, c *Connection) (err error) {
	if c.Authorized = false; c.OAuth != nil {
		var id string
		if c.Authorized, err = tx.Get(ctx, `SELECT id FROM connection_tokens WHERE account_id = $1 AND id = $2`, []any{accountID, c.ID}, &id); err != nil {
			return err
		}
		if c.Authorization, err = tx.Authorization(ctx, accountID, c.ID); err != nil {
			return err
		}
	}
	c.Tools = map[ToolState]int{}
	return tx.Query(ctx, func(rows *sql.Rows) error {
		var state ToolState
		var n int
		err := rows.Scan(&state, &n)
		c.Tools[state] = n
		return err
	}, `SELECT state, COUNT(*) FROM connection_tools WHERE account_id = $1 AND connection_id = $2 GROUP BY state LIMIT 10`, accountID, c.ID)
}

// Connections lists an account's connections; a space narrows it, and so does a text in the name,
// the address or the id (see [Setup.Agents]).
func (tx Setup) Connections(ctx context.Context, accountID, spaceID, text string, p Page) ([]Connection, Cursor, error) {
	args, cond := narrow([]any{accountID}, "space_id", spaceID)
	all, next, err := connections.search(ctx, tx.Tx, p, filtered{from: `FROM connections WHERE account_id = $1` + cond, args: args, search: textSearch{text, []string{"name", "url", "id"}}})
	for i := range all {
		if err == nil {
			err = tx.countTools(ctx, accountID, &all[i])
		}
	}
	return all, next, err
}

// EditConnection lets fn change a connection and writes the result. It locks the connection while fn
// runs, so that fn can compare revisions. If fn fails, it returns the error and writes nothing. fn
// must not change ids, kind, name and times of creation.
func (tx Setup) EditConnection(ctx context.Context, accountID, id string, fn func(*Connection) error) (Connection, error) {
	c, err := tx.connection(ctx, accountID, id, tx.ForUpdate())
	if err == nil {
		c, err = connections.edit(ctx, tx.Tx, accountID, id, c, fn)
	}
	if err != nil {
		return c, err
	}
	return c, tx.countTools(ctx, accountID, &c)
}

// DeleteConnection removes a connection with its catalog. A missing connection is not an error.
func (tx Setup) DeleteConnection(ctx context.Context, accountID, id string) error {
	for _, table := range []string{"connection_tools", "connection_sources", "own_credentials"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE account_id = $1 AND connection_id = $2`, accountID, id); err != nil {
			return err
		}
	}
	if err := tx.ForgetTokens(ctx, accountID, id); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM authorizations WHERE account_id = $1 AND connection_id = $2`, accountID, id); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM connections WHERE account_id = $1 AND id = $2`, accountID, id)
	return err
}

func (tx Setup) deleteConnectionsOf(ctx context.Context, accountID, spaceID string) error {
	for _, table := range []string{"connection_tools", "connection_sources"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE account_id = $1
			AND connection_id IN (SELECT id FROM connections WHERE account_id = $1 AND space_id = $2)`, accountID, spaceID); err != nil {
			return err
		}
	}
	for _, t := range []struct{ table, column string }{{"connection_tokens", "id"}, {"oauth_states", "connection_id"}, {"own_credentials", "connection_id"}, {"authorizations", "connection_id"}} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+t.table+` WHERE account_id = $1
			AND `+t.column+` IN (SELECT id FROM connections WHERE account_id = $1 AND space_id = $2)`, accountID, spaceID); err != nil {
			return err
		}
	}
	if err := tx.wipeSecrets(ctx, `space_id = $2`, accountID, spaceID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM connections WHERE account_id = $1 AND space_id = $2`, accountID, spaceID)
	return err
}

// ConnectionSource returns the source of a connection's tools: the operations of a
// connection of the kind http, or an OpenAPI document; it is empty if there is none.
func (tx Setup) ConnectionSource(ctx context.Context, accountID, id string) (text string, err error) {
	_, err = tx.Get(ctx, `SELECT source FROM connection_sources WHERE account_id = $1 AND connection_id = $2`, []any{accountID, id}, &text)
	return text, err
}

// SetConnectionSource stores the source of a connection's tools; an empty one removes it.
func (tx Setup) SetConnectionSource(ctx context.Context, accountID, id, text string) error {
	if text == "" {
		_, err := tx.Exec(ctx, `DELETE FROM connection_sources WHERE account_id = $1 AND connection_id = $2`, accountID, id)
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO connection_sources (account_id, connection_id, source) VALUES ($1, $2, $3)
		ON CONFLICT (account_id, connection_id) DO UPDATE SET source = EXCLUDED.source`, accountID, id, text)
	return err
}

// AgentsUsing returns the names of up to limit agents with tools of a connection.
func (tx Setup) AgentsUsing(ctx context.Context, c Connection, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT name FROM agents WHERE account_id = $1 AND space_id = $2 AND deleted_at = 0 AND tools LIKE $3 ESCAPE '!' ORDER BY created_at, id LIMIT $4`,
		c.AccountID, c.SpaceID, `%"`+strings.ReplaceAll(c.ID, "_", "!_")+`"%`, limit)
}

// ClaimRefreshes returns up to limit enabled connections, of any account, whose catalogs
// are due for a refresh, and postpones each to the time that next returns, so that no other
// node claims it before.
func (tx Setup) ClaimRefreshes(ctx context.Context, limit int, next func() time.Time) ([]Connection, error) {
	due, err := list(ctx, tx.Tx, connections.scan, `SELECT `+connections.columns+` FROM connections WHERE refresh_at <= $1 AND checked_at <> 0 AND kind <> '`+KindHTTP+`' AND enabled = 1
		ORDER BY refresh_at, id LIMIT $2`, db.Micros(tx.Now), limit)
	var claimed []Connection
	for _, c := range due {
		if err != nil {
			return nil, err
		}
		var n int64
		n, err = tx.Exec(ctx, `UPDATE connections SET refresh_at = $3 WHERE account_id = $1 AND id = $2 AND refresh_at <= $4`, c.AccountID, c.ID, db.Micros(next()), db.Micros(tx.Now))
		if n > 0 {
			claimed = append(claimed, c)
		}
	}
	return claimed, err
}

// RefreshSoon schedules a refresh of a connection by the next node that polls, but not
// earlier than after its last refresh.
func (tx Setup) RefreshSoon(ctx context.Context, c Connection, after time.Duration) error {
	_, err := tx.Exec(ctx, `UPDATE connections SET refresh_at = CASE WHEN checked_at + $4 > $3 THEN checked_at + $4 ELSE $3 END
		WHERE account_id = $1 AND id = $2 AND refresh_at > CASE WHEN checked_at + $4 > $3 THEN checked_at + $4 ELSE $3 END`,
		c.AccountID, c.ID, db.Micros(tx.Now), after.Microseconds())
	return err
}

// PlanRefresh sets when a connection is refreshed again.
func (tx Setup) PlanRefresh(ctx context.Context, c Connection, at time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE connections SET refresh_at = $3 WHERE account_id = $1 AND id = $2`, c.AccountID, c.ID, db.Micros(at))
	return err
}

// HasConnections reports whether a space has connections.
func (tx Setup) HasConnections(ctx context.Context, accountID, spaceID string) (bool, error) {
	var id string
	return tx.Get(ctx, `SELECT id FROM connections WHERE account_id = $1 AND space_id = $2 LIMIT 1`, []any{accountID, spaceID}, &id)
}

// ConnectionTools returns the catalog of an account's connection, by name.
func (tx Setup) ConnectionTools(ctx context.Context, accountID, connectionID string) ([]ConnectionTool, error) {
	return list(ctx, tx.Tx, connectionTools.scan, `SELECT `+connectionTools.columns+` FROM connection_tools WHERE account_id = $1 AND connection_id = $2 ORDER BY name LIMIT $3`, accountID, connectionID, MaxCatalog)
}

// PutConnectionTool writes a tool of a catalog, replacing the one of that name, with the
// resulting state.
func (tx Setup) PutConnectionTool(ctx context.Context, t ConnectionTool) error {
	t.Judge()
	t.Visitors = cmp.Or(t.Visitors, VisitorsNo)
	_, err := connectionTools.insert(ctx, tx.Tx, &t, ` ON CONFLICT (account_id, connection_id, name) DO UPDATE SET `+connectionTools.excluded())
	return err
}

// DeleteConnectionTool removes a tool from a catalog.
func (tx Setup) DeleteConnectionTool(ctx context.Context, accountID, connectionID, name string) error {
	_, err := tx.Exec(ctx, `DELETE FROM connection_tools WHERE account_id = $1 AND connection_id = $2 AND name = $3`, accountID, connectionID, name)
	return err
}
