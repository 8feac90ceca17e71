package apitest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"stoa/internal/db"
	"stoa/internal/drive"
	"stoa/internal/store"
)

// Plans records the statements that services run, and checks how SQLite would run
// each: whether an index finds the rows, however many there are.
type Plans struct {
	mu   sync.Mutex
	seen map[string]bool
}

// Note records a statement.
func (p *Plans) Note(query string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.seen[query] = true
}

// few are tables that have few rows, however much is stored.
var few = map[string]bool{"nodes": true, "runners": true, "store_probe": true, "drive_vocabulary": true}

// planned are statements that read all rows of a table or sort them, by a part of
// their text, with the reason why they may.
var planned = map[string]string{
	`SUM(written_off), 0) AS BIGINT)`:                  "usage: a report",
	`GROUP BY lease_id, account_id`:                    "the check of the books: a report",
	`UNION ALL SELECT * FROM (SELECT id, 'charge'`:     "three parts of a page, and one row for each lease with purged charges",
	`FROM keys WHERE account_id = $1 AND made_by = $2`: "the keys of an account are bounded",
	`FROM tasks WHERE account_id = $1`:                 "the tasks of an account are bounded",
	`FROM task_runs r WHERE r.task_id = $1 AND r.`:     "those that a partial index has are few",
	`FROM embed_refusals WHERE embed_id = $1`:          "a bounded number for each embed",
	`bm25(drive_index`:                                 "at most 5,000 passages get a score, within a limit of time",
	`FROM drive_versions WHERE drive_id = $1 AND path`: "a bounded number for each path",
	`SUM(dropped), 0) AS BIGINT)`:                      "accounts whose requests were dropped lately, for operators",
	`FROM embed_tokens WHERE hash LIKE`:                "a test looks for a secret in the rows",
	`DELETE FROM idempotency WHERE state = 'running'`:  "when a node dies",
	`FROM nodes WHERE alive = 1`:                       "the nodes that live are few, those that have lived one for each start",
}

var (
	placeholders = regexp.MustCompile(`\$\d+`)
	driveTable   = regexp.MustCompile(`(?i)\b(?:FROM|JOIN|UPDATE|INTO)\s+drive_`)
	named        = regexp.MustCompile(`(?i)\b(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)(?:\s+(?:AS\s+)?(\w+))?`)
	scans        = regexp.MustCompile(`^SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?`)
)

// Check explains the recorded statements and returns one line for each that reads
// more than its rows, and how many it explained.
func (p *Plans) Check(ctx context.Context) (problems []string, explained int, err error) {
	dir, err := os.MkdirTemp("", "plans")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(dir)
	st, err := store.Open(ctx, store.Config{Dir: dir})
	if err != nil {
		return nil, 0, err
	}
	defer st.Close()
	drives, err := drive.Open(ctx, db.Config{Dir: dir}, drive.Limits{})
	if err != nil {
		return nil, 0, err
	}
	defer drives.Close()
	used := map[string]bool{}
	for query := range p.seen {
		verb, _, _ := strings.Cut(strings.TrimSpace(query), " ")
		if !strings.Contains(" SELECT INSERT UPDATE DELETE WITH ", " "+verb+" ") || strings.Contains(query, "set_config(") {
			continue
		}
		explained++
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
			return nil, explained, fmt.Errorf("%s: %w", query, err)
		}
		if len(found) == 0 {
			continue
		}
		allowed := false
		for part := range planned {
			if strings.Contains(query, part) {
				allowed, used[part] = true, true
			}
		}
		if !allowed {
			problems = append(problems, fmt.Sprintf("%s\n\t%s", query, strings.Join(found, "\n\t")))
		}
	}
	return problems, explained, errors.Join(err)
}

// explain returns what is wrong with the plan of a statement on SQLite.
func explain(ctx context.Context, tx *db.Tx, query string) (found []string, err error) {
	partial := map[string]bool{}
	if err := tx.Query(ctx, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		partial[name] = true
		return err
	}, `SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'`); err != nil {
		return nil, err
	}
	tables := map[string]string{}
	for _, m := range named.FindAllStringSubmatch(query, -1) {
		tables[m[1]], tables[m[2]] = m[1], m[1]
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
				table = "" // rows of a subquery, which has a line of its own, or of the full-text index
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
