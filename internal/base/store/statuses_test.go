package store_test

import (
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestDatabasesHaveTheStatusesOfSessions compares the statuses in the conditions of tables and
// partial indexes with the lists of package stoa: they are literals, and released migrations do
// not change.
func TestDatabasesHaveTheStatusesOfSessions(t *testing.T) {
	t.Parallel()
	all := slices.Concat(stoa.ActiveStatuses, stoa.EndedStatuses)
	want := map[string][]stoa.SessionStatus{
		"sessions":         all,
		"task_runs":        append(slices.Clone(all), stoa.RunSkipped),
		"sessions_queued":  {stoa.SessionQueued},
		"sessions_waking":  {stoa.SessionQueued},
		"sessions_running": {stoa.SessionRunning},
		"task_runs_active": stoa.ActiveStatuses,
	}
	condition := regexp.MustCompile(`\bstatus (?:IN \([^)]*\)|= ANY \(+ARRAY\[[^\]]*\]|= '[a-z_]+')`) // as written, and as PostgreSQL writes it
	word := regexp.MustCompile(`'([a-z_]+)'`)
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		query := `SELECT name, sql FROM sqlite_master WHERE tbl_name IN ('sessions', 'task_runs') AND sql IS NOT NULL`
		if st.Postgres() {
			query = `SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c' AND conrelid IN ('sessions'::regclass, 'task_runs'::regclass)
				UNION ALL SELECT indexname::text, indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename IN ('sessions', 'task_runs')`
		}
		got := map[string][]stoa.SessionStatus{}
		read(t, st, func(tx *store.Tx) error {
			return tx.Query(ctx, func(rows *sql.Rows) error {
				var name, text string
				if err := rows.Scan(&name, &text); err != nil {
					return err
				}
				for _, m := range word.FindAllStringSubmatch(strings.Join(condition.FindAllString(text, -1), " "), -1) {
					got[name] = append(got[name], stoa.SessionStatus(m[1]))
				}
				return nil
			}, query)
		})
		for name := range got {
			if want[name] == nil {
				t.Errorf("%s has a condition with the statuses %q: add it to this test, with the list of package stoa that it means", name, got[name])
			}
		}
		for name, list := range want {
			if diff := cmp.Diff(slices.Sorted(slices.Values(list)), slices.Sorted(slices.Values(got[name]))); diff != "" {
				how := "drops the index " + name + " and creates it with the statuses of package stoa"
				if name == "sessions" || name == "task_runs" {
					how = "creates the table " + name + " with another CHECK of its column status, and copies the rows"
				}
				t.Errorf("%s does not have the statuses of package stoa (-stoa +database):\n%sWrite a migration that %s.", name, diff, how)
			}
		}
	})
}
