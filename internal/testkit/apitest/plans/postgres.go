package plans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// settings make PostgreSQL show whether there is an index for a statement: its tables are
// empty, so it would otherwise read and sort them whole, regardless of the indexes. If there
// is no other way it does so despite the settings.
const settings = `SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_sort = off;
	SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off`

// checkPostgres explains statements in a separate schema.
func checkPostgres(ctx context.Context, address string, queries []string) (problems []string, err error) {
	address, drop, err := storetest.Schema(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	st, err := store.Open(ctx, store.Config{PostgresURL: address})
	if err != nil {
		return nil, err
	}
	st.Close()
	drives, err := drive.Open(ctx, db.Config{PostgresURL: address}, drive.Limits{})
	if err != nil {
		return nil, err
	}
	drives.Close()
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, settings); err != nil {
		return nil, err
	}
	x, err := indexesOf(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, query := range queries {
		plan, err := planOf(ctx, c, query)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		x.limited = strings.Contains(query, "LIMIT")
		x.listed = x.limited && strings.Contains(query, "ORDER BY")
		if line, is := problem("PostgreSQL", query, x.reads(plan)); is {
			problems = append(problems, line)
		}
	}
	return problems, nil
}

// A reader checks plans.
type reader struct {
	partial, unique map[string]bool // of all indexes
	limited, listed bool            // the statement has a limit, and an order
}

func indexesOf(ctx context.Context, c *pgx.Conn) (reader, error) {
	x := reader{partial: map[string]bool{}, unique: map[string]bool{}}
	rows, err := c.Query(ctx, `SELECT indexrelid::regclass::text, indpred IS NOT NULL, indisunique FROM pg_index`)
	if err != nil {
		return x, err
	}
	var name string
	var partial, unique bool
	_, err = pgx.ForEachRow(rows, []any{&name, &partial, &unique}, func() error {
		x.partial[name], x.unique[name] = partial, unique
		return nil
	})
	return x, err
}

// A node is a part of a plan of PostgreSQL.
type node struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Cond     string `json:"Index Cond"`
	Filter   string `json:"Filter"`
	Plans    []node `json:"Plans"`
}

// planOf returns the generic plan of a statement.
func planOf(ctx context.Context, c *pgx.Conn, query string) (node, error) {
	const name = "explained"
	st, err := c.Prepare(ctx, name, query)
	if err != nil {
		return node{}, err
	}
	execute := "EXECUTE " + name
	if n := len(st.ParamOIDs); n > 0 {
		execute += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", n), ", ") + ")"
	}
	var text []byte
	if err := c.QueryRow(ctx, "EXPLAIN (FORMAT JSON) "+execute, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		return node{}, err
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal(text, &plans); err != nil {
		return node{}, err
	}
	if len(plans) != 1 {
		return node{}, fmt.Errorf("%d plans", len(plans))
	}
	return plans[0].Plan, c.Deallocate(ctx, name)
}

// reads returns the parts of a plan that read or sort all rows of a table, or more
// than a page of a list.
func (x reader) reads(n node) (found []string) {
	switch n.Type {
	case "Seq Scan":
		if !few[n.Relation] {
			found = append(found, strings.TrimSpace("Seq Scan on "+n.Relation+" "+n.Filter))
		}
	case "Index Scan", "Index Only Scan", "Bitmap Index Scan":
		switch {
		case few[n.Relation]:
		case n.Cond == "" && !x.partial[n.Index] && !x.limited:
			found = append(found, "all of index "+n.Index)
		case x.listed && !x.unique[n.Index] && accountFilter.MatchString(n.Filter):
			// With rows in its tables PostgreSQL would expect hardly any of the rows that the
			// index finds to be the account's, and read and sort all of them.
			found = append(found, "index "+n.Index+" does not have the account of a list")
		}
	case "Sort": // an incremental sort only sorts rows with equal prefixes
		found = append(found, n.Type)
	}
	for _, part := range n.Plans {
		found = append(found, x.reads(part)...)
	}
	return found
}

var accountFilter = regexp.MustCompile(`\baccount_id = \$`)
