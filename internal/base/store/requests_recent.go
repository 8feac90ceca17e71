package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A RecentCall contains the columns that [Operations.RecentCalls] reads from the request log.
type RecentCall struct {
	ID, Provider, Model string // Model: the one that served, else the requested one
	Status              int
	Code                stoa.Code
	Duration            time.Duration
	CreatedAt           time.Time
}

// RecentCalls passes the latest rows of the request log, of all accounts, that were
// written since that time to each: at most most, newest first. It is for operators.
func (tx Operations) RecentCalls(ctx context.Context, since time.Time, most int, each func(RecentCall)) error {
	return tx.Query(ctx, func(rows *sql.Rows) error {
		var c RecentCall
		var asked, code string
		var status, duration, created int64 // as the driver returns them, because database/sql converts other types by reflection and text
		err := rows.Scan(&c.ID, &c.Provider, &c.Model, &asked, &status, &code, &duration, &created)
		if c.Model == "" {
			c.Model = asked
		}
		c.Status, c.Code, c.Duration, c.CreatedAt = int(status), stoa.Code(code), time.Duration(duration)*time.Microsecond, db.Time(created)
		each(c)
		return err
	}, `SELECT id, provider, served, asked, status, code, duration, created_at FROM requests WHERE created_at >= $1 ORDER BY created_at DESC LIMIT $2`,
		db.Micros(since), most)
}
