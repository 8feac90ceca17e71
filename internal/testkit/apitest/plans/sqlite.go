package plans

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/store"
)

var (
	placeholders = regexp.MustCompile(`\$\d+`)
	driveTable   = regexp.MustCompile(`(?i)\b(?:FROM|JOIN|UPDATE|INTO)\s+drive_`)
	named        = regexp.MustCompile(`(?i)\b(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)(?:\s+(?:AS\s+)?(\w+))?`)
	scans        = regexp.MustCompile(`^SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?`)
)

// checkSQLite explains statements in a new store and drives in a directory.
func checkSQLite(ctx context.Context, dir string, queries []string) (problems []string, err error) {
	st, err := store.Open(ctx, store.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	drives, err := drive.Open(ctx, db.Config{Dir: dir}, drive.Limits{})
	if err != nil {
		return nil, err
	}
	defer drives.Close()
	for _, query := range queries {
		var found []string
		read := func(tx *db.Tx) error {
			found, err = explain(ctx, tx, query)
			return err
		}
		if driveTable.MatchString(query) {
			err = drives.DB().Read(ctx, read)
		} else {
			err = st.Read(ctx, func(tx *store.Tx) error { return read(tx.Tx) })
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		if line, is := problem("SQLite", query, found); is {
			problems = append(problems, line)
		}
	}
	return problems, nil
}

// explain returns the problems in the plan of a statement on SQLite.
func explain(ctx context.Context, tx *db.Tx, query string) (found []string, err error) {
	partial, exists := map[string]bool{}, map[string]bool{}
	if err := tx.Query(ctx, func(rows *sql.Rows) error {
		var name, kind string
		var part bool
		err := rows.Scan(&name, &kind, &part)
		partial[name], exists[name] = kind == "index" && part, kind == "table"
		return err
	}, `SELECT name, type, COALESCE(sql, '') LIKE '% WHERE %' FROM sqlite_master`); err != nil {
		return nil, err
	}
	tables := map[string]string{}
	for _, m := range named.FindAllStringSubmatch(query, -1) {
		if exists[m[1]] {
			tables[m[1]], tables[m[2]] = m[1], m[1]
		}
	}
	err = tx.Query(ctx, func(rows *sql.Rows) error {
		var detail string
		var skip int
		if err := rows.Scan(&skip, &skip, &skip, &detail); err != nil {
			return err
		}
		if m := scans.FindStringSubmatch(detail); m != nil {
			table := tables[m[1]]
			if strings.Contains(query, ") "+m[1]+" ") || strings.Contains(detail, "VIRTUAL TABLE") {
				table = "" // rows of a subquery, which has its own line, or of the full-text index
			}
			ordered := m[2] != "" && (partial[m[2]] || strings.Contains(query, "LIMIT"))
			if table != "" && !few[table] && !ordered {
				found = append(found, detail)
			}
		}
		if strings.HasPrefix(detail, "USE TEMP B-TREE") && !strings.Contains(detail, "LAST") {
			found = append(found, detail)
		}
		return nil
	}, "EXPLAIN QUERY PLAN "+placeholders.ReplaceAllString(query, "'1'"))
	return found, err
}
