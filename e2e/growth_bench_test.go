//go:build linux

package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"stoa/internal/testkit/storetest"
)

// growthCharges is the number of charges of the smaller store; the other one contains ten times as many.
const growthCharges = 100_000

// BenchmarkGrowth compares a store of 100,000 charges, 10,000 sessions and 1,000 accounts with one of ten
// times as many: the time of each read, the check of the books, the processor time of a call, and the bytes of a
// charge. STOA_GROWTH is another number of charges. Rows are copies of real ones, over the last 30 days; one
// account owns a twentieth. Run it with -benchtime=1x.
func BenchmarkGrowth(b *testing.B) {
	few := growthCharges
	if text := os.Getenv("STOA_GROWTH"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		few = n
	}
	databases := map[string]func() string{"sqlite": func() string { return "" }}
	if os.Getenv(storetest.Env) != "" {
		databases["postgres"] = func() string { return storetest.EmptyPostgres(b).Config.PostgresURL }
	}
	for _, name := range []string{"sqlite", "postgres"} {
		if databases[name] == nil {
			continue
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				empty := measureGrowth(b, databases[name](), 0)
				before := measureGrowth(b, databases[name](), few)
				after := measureGrowth(b, databases[name](), 10*few)
				fmt.Printf("\n%s, %d charges, then %d\n", name, few, 10*few)
				for i, f := range after {
					fmt.Printf("%-62s %10.2f %10.2f %10.2f   × %.2f\n", f.name, empty[i].value, before[i].value, f.value, f.value/before[i].value)
				}
			}
		})
	}
}

type figure struct {
	name  string
	value float64
}

// measureGrowth fills a store with n charges and reads it.
func measureGrowth(b *testing.B, postgres string, n int) (all []figure) {
	v := newVendor(b, nil)
	h := newServer(b, v.url, "requestLog: {keep: 8760h}\n")
	h.postgres = postgres
	h.start()
	a := h.newAccount(b, "pro", 1_000_000_000)
	call := func(model string) {
		if s := h.ask(context.Background(), a.key, "", object{"model": model, "input": "tokens: 20", "stream": false}, nil); !s.done() {
			b.Fatalf("%+v", s)
		}
	}
	call("alpha-haiku-4-5")
	call("delta-v4-pro")
	h.newAgent(b, a)
	var session struct{ ID string }
	if _, err := h.call(context.Background(), http.MethodPost, a.key, "/api-agents/"+a.agent+"/sessions", object{"message": "tokens: 5"}, &session); err != nil {
		b.Fatal(err)
	}
	h.quiet(b, a)
	h.stop(b)
	empty := h.storeBytes(b)
	h.multiply(b, a, n)
	perCharge := func(name string, from int64) (size int64) {
		size = h.storeBytes(b)
		all = append(all, figure{name, float64(size-from) / float64(max(n, 1))})
		return size
	}
	filled := perCharge("bytes of a charge with its request and a tenth of a session", empty)
	began := time.Now()
	h.start()
	all = append(all, figure{"start, ms", ms(time.Since(began))})
	h.summed(b)
	all = append(all, figure{"sums of all hours, ms", ms(time.Since(began))})
	perCharge("bytes of its sums, in an hour in which the account has no other", filled)
	if n > 0 { // the statements of the last final month have been stored, which reads all of its charges
		last := time.Now().UTC().AddDate(0, 0, -4)
		h.until(b, `SELECT COUNT(*) > 0 FROM statement_months WHERE month = $1`, last.AddDate(0, 0, -last.Day()).Format("2006-01"))
	}
	month := time.Now().UTC().Format("2006-01")
	for _, path := range []string{
		"/usage?accountId=*&groupBy=account", "/usage?accountId=*&groupBy=model", "/usage?accountId=*&groupBy=day,provider", "/statements/" + month + "?accountId=*&limit=50",
		"/requests/summary?accountId=*", "/providers/recent", "/requests?accountId=*", "/accounts", "/audit",
	} {
		all = append(all, h.timed(b, ownerKey, path))
	}
	for _, path := range []string{"/usage?groupBy=model", "/usage?groupBy=day,key", "/receipts/summary", "/statements/" + month, "/receipts", "/sessions", "/credits", "/usage/reconcile"} {
		all = append(all, h.timed(b, a.key, path))
	}
	const calls = 300
	used := h.processor(b)
	for range calls {
		call("alpha-haiku-4-5")
	}
	all = append(all, figure{"a call, processor µs", float64((h.processor(b) - used).Microseconds()) / calls})
	h.stop(b)
	where := []string{"--data", h.data}
	if postgres != "" {
		where = []string{"--database", postgres}
	}
	verify := func(name string, more ...string) {
		began := time.Now()
		out, errOut, code := run(b, append(append([]string{"ledger", "verify"}, where...), more...)...)
		if code != 0 {
			b.Fatalf("verify: %d\n%s%s", code, out, errOut)
		}
		all = append(all, figure{name, ms(time.Since(began))})
	}
	since := filepath.Join(b.TempDir(), "verified.json")
	verify("ledger verify --since, the first time, ms", "--since", since)
	h.start()
	for range 1000 * n / growthCharges {
		call("alpha-haiku-4-5")
	}
	h.stop(b)
	verify("ledger verify --since, after new calls, ms", "--since", since)
	return all
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// timed returns the median of seven reads.
func (h *server) timed(b *testing.B, key, path string) figure {
	b.Helper()
	h.text(b, key, path)
	var took []time.Duration
	for range 7 {
		began := time.Now()
		h.text(b, key, path)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return figure{path + ", ms", ms(took[len(took)/2])}
}

// processor returns the processor time of the server so far.
func (h *server) processor(b *testing.B) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.current().cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func (h *server) sql(b *testing.B) *sql.DB {
	b.Helper()
	driver, source := "sqlite", filepath.Join(h.data, "core.db")
	if h.postgres != "" {
		driver, source = "pgx", h.postgres
	}
	d, err := sql.Open(driver, source)
	if err != nil {
		b.Fatal(err)
	}
	d.SetMaxOpenConns(1)
	b.Cleanup(func() { d.Close() })
	return d
}

func (h *server) storeBytes(b *testing.B) (size int64) {
	b.Helper()
	d := h.sql(b)
	defer d.Close()
	query := `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`
	if h.postgres != "" {
		query = `SELECT SUM(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace`
	}
	if err := d.QueryRow(query).Scan(&size); err != nil {
		b.Fatal(err)
	}
	return size
}

// summed waits until the sums of hours contain all charges.
func (h *server) summed(b *testing.B) {
	b.Helper()
	h.until(b, `SELECT COUNT(*) = 0 FROM charge_hours_fill WHERE filled_at = 0`)
}

// until waits until a query answers true.
func (h *server) until(b *testing.B, query string, args ...any) {
	b.Helper()
	d := h.sql(b)
	defer d.Close()
	for done := false; !done; {
		if err := d.QueryRow(query, args...).Scan(&done); err != nil {
			b.Fatal(err)
		}
	}
}

// multiply copies the rows of the account's two calls and of its session, n charges and requests in all, to new accounts.
func (h *server) multiply(b *testing.B, a *account, n int) {
	b.Helper()
	if n == 0 {
		return
	}
	d := h.sql(b)
	defer d.Close()
	exec := func(statement string, args ...any) {
		b.Helper()
		if _, err := d.Exec(statement, args...); err != nil {
			b.Fatalf("%.200s: %v", statement, err)
		}
	}
	accounts := n/100 - 10
	now := time.Now().UnixMicro()
	owner := fmt.Sprintf(`CASE WHEN i %% 20 = 0 THEN '%s' ELSE 'acc_g' || (i %% %d) END`, a.id, accounts)
	at := fmt.Sprintf(`%d - (%d - i) * %d`, now-60_000_000, n, 30*24*time.Hour.Microseconds()/int64(n))
	// copies inserts n copies of the rows of a table that match, with some columns computed from i, from 1 to n.
	copies := func(table, where string, first, n, step int, change map[string]string) {
		b.Helper()
		rows, err := d.Query(`SELECT * FROM ` + table + ` LIMIT 0`)
		if err != nil {
			b.Fatal(err)
		}
		columns, err := rows.Columns()
		rows.Close()
		if err != nil {
			b.Fatal(err)
		}
		values := make([]string, len(columns))
		for i, c := range columns {
			if values[i] = change[c]; values[i] == "" {
				values[i] = "t." + c
			}
		}
		exec(fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT CAST(%d AS BIGINT) UNION ALL SELECT i + %d FROM n WHERE i + %d <= %d)
			INSERT INTO %s (%s) SELECT %s FROM n, (SELECT * FROM %s WHERE %s LIMIT 1) t`, first, step, step, n, table, strings.Join(columns, ", "), strings.Join(values, ", "), table, where))
	}
	copies("accounts", "id = '"+a.id+"'", 0, accounts, 1, map[string]string{"id": `'acc_g' || i`, "granted": "0", "balance": "0", "name": `'customer ' || i`, "created_at": fmt.Sprintf("%d + i", now-40*24*time.Hour.Microseconds())})
	for i, model := range []string{"alpha-haiku-4-5", "delta-v4-pro"} {
		where := "account_id = '" + a.id + "' AND session_id = '' AND served = '" + model + "'"
		copies("charges", where, i+1, n, 2, map[string]string{"id": `'resp_growth' || (100000000 + i)`, "account_id": owner, "lease_id": `'lea_' || (` + owner + `)`, "created_at": at, "started_at": at})
		copies("requests", "account_id = '"+a.id+"' AND served = '"+model+"'", i+1, n, 2, map[string]string{"id": `'req_growth' || (100000000 + i)`, "account_id": owner, "created_at": at, "started_at": at})
	}
	copies("sessions", "account_id = '"+a.id+"' AND status = 'completed'", 1, n/10, 1, map[string]string{"id": `'ses_growth' || (100000000 + i)`, "account_id": owner, "created_at": fmt.Sprintf("%d + i", now-24*time.Hour.Microseconds())})
	exec(`INSERT INTO leases (id, account_id, node_id, amount, spent, is_open, created_at, closed_at)
		SELECT lease_id, account_id, MIN(node_id), CAST(SUM(amount) AS BIGINT), CAST(SUM(amount) AS BIGINT), 0, MIN(created_at), MAX(created_at) FROM charges WHERE lease_id LIKE 'lea\_acc%' ESCAPE '\' GROUP BY lease_id, account_id`)
	exec(`INSERT INTO grants (id, account_id, amount, reason, created_at) SELECT 'gra_' || id, account_id, amount, 'growth', created_at FROM leases WHERE id LIKE 'lea\_acc%' ESCAPE '\'`)
	exec(`UPDATE accounts SET granted = (SELECT CAST(SUM(amount) AS BIGINT) FROM grants WHERE account_id = accounts.id) WHERE EXISTS (SELECT 1 FROM grants WHERE account_id = accounts.id)`)
	exec(`DELETE FROM charge_days`)
	exec(`INSERT INTO charge_days (account_id, day, node_id, amount)
		SELECT account_id, created_at / 86400000000, node_id, CAST(SUM(amount) AS BIGINT) FROM charges GROUP BY 1, 2, 3`)
	exec(`DELETE FROM request_counts`)
	exec(`INSERT INTO request_counts (account_id, kept) SELECT account_id, COUNT(*) FROM requests GROUP BY account_id`)
	exec(`DELETE FROM charge_hours`)
	exec(`INSERT INTO charge_hours_fill (id, begun_at, filled_at, account_id, hour) VALUES (1, 0, 0, '', 0) ON CONFLICT (id) DO UPDATE SET begun_at = 0, filled_at = 0, account_id = '', hour = 0`)
	if h.postgres != "" {
		exec(`ANALYZE`)
	}
}
