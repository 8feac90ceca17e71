package extract_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/extract"
)

// TestHostileQueriesEnd sends forty statements that would never end, use up the memory, write, or leave the tables. Each is
// ended by a limit of the service or refused.
func TestHostileQueriesEnd(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("a,b\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "%d,text %d\n", i, i)
	}
	file := labelledTable{name: "t.csv", data: []byte(b.String())}
	const (
		endless = "took longer than"
		memory  = "MB of memory|takes too much memory" // of SQLite or, while it copies what grows, of the process
		large   = "makes a text of more than"
		refused = "Not allowed: "
		rule    = "A query is one SELECT or WITH statement."
	)
	quick, usual := service(extract.Config{Timeout: time.Second}), service(extract.Config{})
	cases := []struct{ sql, want string }{
		{`WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c`, endless},
		{`WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT 1 FROM c) SELECT max(x) FROM c`, endless},
		{`WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT x + 1 FROM c) SELECT count(*) FROM c`, endless + "|" + memory},
		{`WITH RECURSIVE c(x, s) AS (SELECT 1, zeroblob(500000) UNION ALL SELECT x + 1, s FROM c ORDER BY 1) SELECT count(*) FROM c`, endless + "|" + memory},
		{`WITH RECURSIVE c(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM c) SELECT max(length(s)) FROM c`, large},
		{`SELECT hex(zeroblob(250000)), a FROM t ORDER BY -a`, memory},
		{`SELECT count(*) FROM t x, t y, t z`, endless},
		{`SELECT sum(x.a * y.a * z.a) FROM t x JOIN t y JOIN t z`, endless},
		{`SELECT x.b || y.b FROM t x, t y ORDER BY 1 DESC`, endless + "|" + memory},
		{`SELECT DISTINCT x.a * 20000 + y.a FROM t x, t y ORDER BY 1`, endless + "|" + memory},
		{`SELECT max(c) FROM (SELECT count(*) c FROM t x, t y GROUP BY x.a * 20000 + y.a)`, endless + "|" + memory},
		{`SELECT median(x.a) FROM t x, t y`, "median of more than"},
		{`SELECT count(*) FROM t x WHERE EXISTS (SELECT 1 FROM t y, t z WHERE y.a + z.a = -x.a)`, endless},
		{`SELECT sum(n) OVER (ORDER BY n) FROM (SELECT x.a * y.a n FROM t x, t y) LIMIT 1 OFFSET 300000000`, endless + "|" + memory},
		{`SELECT count(*) FROM t x, t y WHERE x.b LIKE '%' || y.b || '%t%e%x%t%'`, endless},
		{`SELECT sum(length(randomblob(1000000))) FROM t x, t y`, endless},
		{`SELECT max(median(x.a)) OVER () FROM t x, t y GROUP BY x.row_`, endless},
		{`SELECT group_concat(b) FROM t x, (SELECT a FROM t LIMIT 100)`, large},
		{`SELECT group_concat(hex(zeroblob(100000))) FROM t`, large},
		{`SELECT printf('%.*c', 2000000000, 'x')`, large},
		{`SELECT zeroblob(2000000000)`, large},
		{`SELECT randomblob(2000000000)`, large},
		{`SELECT replace(hex(zeroblob(400000)), '0', 'xxxxxxxxxxxxxxxx')`, large},
		{`SELECT json_group_array(b) FROM t, (SELECT 1 FROM t LIMIT 1000)`, large + "|" + endless},
		{`SELECT ` + strings.Repeat("(", 3000) + "1" + strings.Repeat(")", 3000), "Recursion limit"},
		{`SELECT ` + strings.Repeat("1+", 5000) + "1", "Expression tree is too large"},
		{`SELECT 1 ` + strings.Repeat("UNION ALL SELECT 1 ", 500), "too many terms in compound SELECT"},
		{`SELECT 1` + strings.Repeat(",1", 8000), "too many columns"},
		{`SELECT '` + strings.Repeat("x", 17<<10) + `'`, "longer than 16384 bytes"},
		{`ATTACH DATABASE '/tmp/stolen.db' AS stolen`, rule},
		{`PRAGMA hard_heap_limit = 0`, rule},
		{`SELECT * FROM pragma_database_list`, refused},
		{`SELECT load_extension('/tmp/evil.so')`, refused + "the function load_extension"},
		{`INSERT INTO t (a) VALUES (1)`, rule},
		{`WITH n AS (SELECT 1 a) INSERT INTO t (a) SELECT a FROM n`, refused},
		{`WITH n AS (SELECT 1) DELETE FROM t`, refused},
		{`SELECT 1; DROP TABLE t`, rule + " There are several."},
		{"SELECT 1 /* ; */ -- ;\n; SELECT 2", rule + " There are several."},
		{`SELECT * FROM sqlite_schema`, refused + "reading sqlite_"},
		{`SELECT count(*) FROM json_each('[1,2]')`, refused + "reading json_each"},
		{`SELECT * FROM sqlite_dbpage`, refused},
		{`EXPLAIN SELECT * FROM t`, rule},
		{`VACUUM INTO '/tmp/copy.db'`, rule},
		{`SELECT fts3_tokenizer('simple')`, refused + "the function fts3_tokenizer|no such function"},
	}
	ended := 0
	for _, c := range cases {
		s := usual
		if strings.Contains(c.want, endless) {
			s = quick
		}
		a := ask(t, s, c.sql, file)
		ok := false
		for want := range strings.SplitSeq(c.want, "|") {
			ok = ok || strings.Contains(a.Error, want)
		}
		if !ok || a.Rows != nil {
			t.Errorf("%.120s: %.300q, %d rows", c.sql, a.Error, len(a.Rows))
			continue
		}
		ended++
	}
	if ended < 40 {
		t.Errorf("%d of %d were ended", ended, len(cases))
	}
	// A result that is too long is cut, and says so.
	a := ask(t, usual, `SELECT row_, b FROM t`, file)
	if len(a.Rows) != 200 || len(a.Notes) != 1 || !strings.HasPrefix(a.Notes[0], "Cut: there are more rows than these 200.") {
		t.Errorf("%d rows, %q", len(a.Rows), a.Notes)
	}
	a = ask(t, usual, `SELECT printf('%.*c', 900000, 'x'), a FROM t LIMIT 100`, file)
	size := 0
	for _, row := range a.Rows {
		size += len(row[0])
	}
	if size > 16<<10 || len(a.Rows) == 0 || len(a.Notes) != 2 {
		t.Errorf("%d bytes, %q, %s", size, a.Notes, a.Error)
	}
}
