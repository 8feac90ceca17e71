package extract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/xuri/excelize/v2"

	"stoa/internal/base/extract"
)

// described writes a table as its columns with their types, its rows and its notes.
func described(table extract.Table) string {
	var b strings.Builder
	for i, c := range table.Columns {
		if i > 0 {
			fmt.Fprintf(&b, "%s %s, ", c.Name, c.Type)
		}
	}
	text, _ := json.Marshal(table.First)
	fmt.Fprintf(&b, "%s", text)
	for _, c := range table.Columns {
		if c.Note != "" {
			b.WriteString(" " + c.Name + ": " + c.Note)
		}
	}
	for _, n := range table.Notes {
		b.WriteString(" " + n)
	}
	return b.String()
}

// TestTypesOfColumns lists tables whose heads and types are easily taken for others.
func TestTypesOfColumns(t *testing.T) {
	t.Parallel()
	s := service(extract.Config{})
	for name, c := range map[string]struct{ text, want string }{
		"a point in a German file":           {"a;b\n1.234;x\n950;y\n", `a text, b text, [[2,"1.234","x"],[3,"950","y"]] a: It is not certain whether these are decimals or thousands, so that they are texts.`},
		"a point beside decimal commas":      {"a;b\n1.234;1,5\n950;2,25\n", `a integer, b real, [[2,1234,1.5],[3,950,2.25]]`},
		"a point in a file of programs":      {"a,b\n1.234,x\n950,y\n", `a real, b text, [[2,1.234,"x"],[3,950,"y"]]`},
		"a comma in a German file":           {"a;b\n1,234;x\n", `a real, b text, [[2,1.234,"x"]]`},
		"a comma in an English file":         {"a,b\n\"1,234\",x\n", `a integer, b text, [[2,1234,"x"]]`},
		"a comma beside decimal points":      {"a;b\n1,234;1.5\n", `a integer, b real, [[2,1234,1.5]]`},
		"blanks between thousands":           {"a;b\n1 234;1 234 567,5\n", `a integer, b real, [[2,1234,1234567.5]]`},
		"Swiss thousands":                    {"a;b\n1'234.50;1’234\n", `a real, b integer, [[2,1234.5,1234]]`},
		"decimal comma and point in one":     {"a;b\n1,5;x\n1.5;y\n", `a text, b text, [[2,"1,5","x"],[3,"1.5","y"]] a: The numbers are written in different ways or have different units, so that they are texts.`},
		"two currencies":                     {"a;b\n5 €;x\n5 $;y\n", `a text, b text, [[2,"5 €","x"],[3,"5 $","y"]] a: The numbers are written in different ways or have different units, so that they are texts.`},
		"codes with zeros":                   {"a,b\n007,1\n012,2\n", `a text, b integer, [[2,"007",1],[3,"012",2]]`},
		"numbers of 19 digits":               {"a,b\n1234567890123456789,1\n", `a text, b integer, [[2,"1234567890123456789",1]]`},
		"minus signs":                        {"a,b,c\n-1,−2,(3)\n+4,5,6-\n", `a integer, b integer, c integer, [[2,-1,-2,-3],[3,4,5,-6]]`},
		"powers of ten":                      {"a,b\n1.5e3,2.5E-2\n", `a real, b real, [[2,1500,0.025]]`},
		"marks of missing values":            {"a,b\n1,n/a\n-,2\n3,\n", `a integer, b integer, [[2,1,null],[3,null,2],[4,3,null]] a: 1 cells such as "-" are NULL. b: 1 cells such as "n/a" are NULL.`},
		"a text among numbers":               {"a,b\n1,x\n2,y\nabout 3,z\n", `a text, b text, [[2,"1","x"],[3,"2","y"],[4,"about 3","z"]] a: 2 of 3 cells are numbers; the first other is "about 3" in row 4, so that all are texts.`},
		"booleans":                           {"a,b\nTRUE,true\nFalse,yes\n", `a boolean, b text, [[2,1,"true"],[3,0,"yes"]]`},
		"a day or a month":                   {"a,b\n03/04/2024,x\n", `a text, b text, [[2,"03/04/2024","x"]] a: It is not certain which number is the day and which the month, so that they are texts.`},
		"a day or a month beside a sure one": {"a,b\n03/04/2024,25/12/2024\n", `a date, b date, [[2,"2024-04-03","2024-12-25"]]`},
		"American dates":                     {"a,b\n3/4/2024,x\n3/14/2024 8:05,y\n", `a datetime, b text, [[2,"2024-03-04 00:00:00","x"],[3,"2024-03-14 08:05:00","y"]]`},
		"times of programs":                  {"a,b,c\n2024-03-01T10:00:00.25Z,2024-03-01T10:00:00Z,2024-03-01T10:00:00+01:00\n2024-03-02T10:00:00Z,2024-03-02 10:00,x\n", `a datetime, b text, c text, [[2,"2024-03-01 10:00:00.25","2024-03-01T10:00:00Z","2024-03-01T10:00:00+01:00"],[3,"2024-03-02 10:00:00","2024-03-02 10:00","x"]] a: Times in UTC. b: Only some times are in UTC, so that they are texts.`},
		"short German dates":                 {"a;b\n01.02.24;x\n31.12.99;y\n", `a date, b text, [[2,"2024-02-01","x"],[3,"1999-12-31","y"]]`},
		"months with names":                  {"a,b,c,d\n3 Mar 2025,12-Jan-24,\"March 3, 2025\",\"Mon, 3rd March 2025 14:30\"\n14 Sept 2024,05-DEC-99,\"May 31, 2024\",2024-Feb-29\n", `a date, b date, c date, d datetime, [[2,"2025-03-03","2024-01-12","2025-03-03","2025-03-03 14:30:00"],[3,"2024-09-14","1999-12-05","2024-05-31","2024-02-29 00:00:00"]]`},
		"months of other languages":          {"a;b;c;d\n3. März 2025;3 de marzo de 2025;3 марта 2025;2025年3月1日\n1. Dez. 24;12 juil. 2024;1 янв. 2024;2025年12月31日\n", `a date, b date, c date, d date, [[2,"2025-03-03","2025-03-03","2025-03-03","2025-03-01"],[3,"2024-12-01","2024-07-12","2024-01-01","2025-12-31"]]`},
		"months that are not certain":        {"a,b,c,d,e\n3 listopada 2024,12 jui 2024,Mar 2025,31 Apr 2024,24-Jan\n", `a text, b text, c text, d text, e text, [[2,"3 listopada 2024","12 jui 2024","Mar 2025","31 Apr 2024","24-Jan"]]`},
		"a name beside a day or a month":     {"a,b\n3 Mar 2025,x\n03/04/2025,y\n", `a text, b text, [[2,"3 Mar 2025","x"],[3,"03/04/2025","y"]] a: It is not certain which number is the day and which the month, so that they are texts.`},
		"no such day":                        {"a,b\n2023-02-29,x\n", `a text, b text, [[2,"2023-02-29","x"]]`},
		"no head":                            {"Ada,12\nBob,13\n", `column A text, column B integer, [[1,"Ada",12],[2,"Bob",13]]`},
		"years as a head":                    {"Region,2021,2022\nNorth,5,6\n", `Region text, 2021 integer, 2022 integer, [[2,"North",5,6]]`},
		"years as data":                      {"Ada,1999\nBob,2004\n", `column A text, column B integer, [[1,"Ada",1999],[2,"Bob",2004]]`},
		"a title":                            {"Sales of the year;;\n\nRegion;Day;Amount\nNorth;1.3.2024;5\n", `Region text, Day date, Amount integer, [[4,"North","2024-03-01",5]]`},
		"a head of two rows":                 {"Region,2023,,2024,\n,Plan,Actual,Plan,Actual\nNorth,1,2,3,4\n", `Region text, 2023 Plan integer, 2023 Actual integer, 2024 Plan integer, 2024 Actual integer, [[3,"North",1,2,3,4]]`},
		"an empty name above a text":         {"name,,n\nAda,x,1\nBob,y,2\n", `name text, column B text, n integer, [[2,"Ada","x",1],[3,"Bob","y",2]]`},
		"names that repeat":                  {"a,A,row_,\"say \"\"x\"\"\"\n1,2,3,4\n", `a integer, A_2 integer, row__2 integer, say 'x' integer, [[2,1,2,3,4]]`},
		"one column":                         {"n\n1\n2\n", `n integer, [[2,1],[3,2]]`},
		"a line that names the separator":    {"sep=|\na|b\n1|2\n", `a integer, b integer, [[3,1,2]]`},
		"an open quote":                      {"a,b\n\"x,1\ny,2\n", `a text, b text, [[2,"x,1\ny,2",null]] The quotes of line 3 are not closed as CSV requires: compare the rows from there on with the file.`},
		"a quote within a field":             {"a,b\n5\" pipe,1\n", `a text, b integer, [[2,"5\" pipe",1]] The quotes of line 2 are not closed as CSV requires: compare the rows from there on with the file.`},
		"commas in texts":                    {"a;b\n\"x, y, z\";1\n\"p, q, r\";2\n", `a text, b integer, [[2,"x, y, z",1],[3,"p, q, r",2]]`},
		"rows of different widths":           {"a,b\n1\n2,3,4\n", `a integer, b integer, column C integer, [[2,1,null,null],[3,2,3,4]]`},
		"a column without values":            {"a,b,\n1,,\n", `a integer, b text, [[2,1,null]]`},
		"only a head":                        {"a,b\n", `a text, b text, null`},
		"not text":                           {"\x89PNG\r\n\x1a\n0000", `null It is neither CSV nor XLSX.`},
		"a broken workbook":                  {"PK\x03\x04broken", `null The content is damaged: it cannot be read as a document or an archive.`},
	} {
		a := ask(t, s, "", labelledTable{name: "t.csv", data: []byte(c.text)})
		if len(a.Tables) != 1 || a.Error != "" {
			t.Errorf("%s: %d tables, %s", name, len(a.Tables), a.Error)
			continue
		}
		if got := described(a.Tables[0]); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// TestMixedColumnsOfSheets lists and queries a sheet whose cells do not agree.
func TestMixedColumnsOfSheets(t *testing.T) {
	t.Parallel()
	book := workbookOf(t, func(f *excelize.File) {
		setRow(f, "Sheet1", 1, "Item", "Amount", "Code", "Rate")
		setRow(f, "Sheet1", 2, "a", 1.5, "007", "#N/A")
		setRow(f, "Sheet1", 3, "b", "open", "012", 0.25)
		setRow(f, "Sheet1", 4, "c", 2, "9", 0.5)
		_ = f.SetCellFormula("Sheet1", "D5", "D4*2")
		setRow(f, "Sheet1", 5, "d", 3, "1")
	})
	file := labelledTable{name: "m.xlsx", data: book}
	s := service(extract.Config{})
	if diff := cmp.Diff(`Item text, Amount mixed, Code text, Rate mixed, [[2,"a",1.5,"007","#N/A"],[3,"b","open","012",0.25],[4,"c",2,"9",0.5]]`+
		` Amount: Cells of several types: 1 texts, 3 numbers. The first text is "open" in row 3. avg and sum count texts as 0.`+
		` Rate: Cells of several types: 1 texts, 2 numbers. The first text is "=D4*2" in row 5. avg and sum count texts as 0. 1 formulas have no stored results and are texts.`,
		described(ask(t, s, "", file).Tables[0])); diff != "" {
		t.Error(diff)
	}
	a := ask(t, s, `SELECT sum(Amount), (SELECT count(*) FROM m WHERE Amount > 1) FROM m WHERE typeof(Amount) <> 'text'`, file)
	if got, _ := json.Marshal(a.Rows); string(got) != `[[6.5,4]]` || len(a.Notes) != 2 || !strings.Contains(a.Notes[1], `"open" in row 3`) {
		t.Errorf("%s %q %s", got, a.Notes, a.Error)
	}
}

// TestSourcesOfResults cites the rows on which results rest.
func TestSourcesOfResults(t *testing.T) {
	t.Parallel()
	s := service(extract.Config{})
	var b strings.Builder
	b.WriteString("k,n\n")
	for i := range 50 {
		fmt.Fprintf(&b, "%c,%d\n", 'a'+i/10, i)
	}
	one, two := labelledTable{name: "one.csv", data: []byte(b.String())}, labelledTable{name: "two.csv", data: []byte("k,v\na,1\nb,2\n")}
	for sql, want := range map[string]string{
		`SELECT sum(n) FROM one`:               "one rows 2–51",
		`SELECT sum(n) FROM one WHERE k = 'b'`: "one rows 12–21",
		`SELECT k, sum(n) FROM one AS o WHERE o.k IN ('b', 'c') GROUP BY k LIMIT 1`: "one rows 12–31",
		`select N from ONE where n = 7;`:                                            "one row 9",
		`SELECT row_, n FROM one ORDER BY n DESC LIMIT 2`:                           "one rows 50–51",
		`SELECT row_, max(n) FROM one WHERE k = 'b'`:                                "one rows 12–21",
		`SELECT row_, k FROM one GROUP BY k`:                                        "one rows 2–51",
		`SELECT row_ FROM one WHERE n = (SELECT max(n) FROM one WHERE k = 'a')`:     "one row 11",
		`SELECT count(*) FROM one WHERE n > 100`:                                    "one rows 2–51",
		`SELECT sum(n) x FROM one WHERE x > 1`:                                      "misuse of aggregate: sum()",
		`SELECT sum(n) FROM one JOIN two USING (k) WHERE v = 2`:                     "one rows 2–51, two rows 2–3",
		`SELECT o.row_, t.v FROM one o JOIN two t USING (k) WHERE n = 13`:           "one row 15, two rows 2–3",
		`WITH x AS (SELECT * FROM two WHERE v = 2) SELECT v FROM x`:                 "two rows 2–3",
		`SELECT sum(n) FROM one WHERE k IN (SELECT k FROM two WHERE v = 2)`:         "one rows 12–21, two rows 2–3",
		`SELECT n FROM one WHERE n = 3 UNION SELECT v FROM two`:                     "one rows 2–51, two rows 2–3",
		`SELECT 1`: "",
	} {
		a := ask(t, s, sql, one, two)
		var cited []string
		for _, source := range a.Sources {
			cited = append(cited, source.Base+" "+source.Place())
		}
		if got := a.Error + strings.Join(cited, ", "); got != want {
			t.Errorf("%s cites %q, not %q", sql, got, want)
		}
	}
}

// TestTooMuchForAQuery sends more cells and bytes than a query may have, and more tables than a list.
func TestTooMuchForAQuery(t *testing.T) {
	t.Parallel()
	s := service(extract.Config{})
	wide := labelledTable{name: "wide.csv", data: []byte("a" + strings.Repeat(",a", 199) + "\n" + strings.Repeat(strings.Repeat("1,", 199)+"1\n", 10_001))}
	if a := ask(t, s, "SELECT count(*) FROM wide", wide); a.Error != "The tables of the query have together more than 2000000 cells." {
		t.Errorf("%q", a.Error)
	}
	small := labelledTable{name: "a.csv", data: []byte("n\n1\n")}
	if a := ask(t, s, "", small, wide); len(a.Tables) != 1 || len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "ends at wide") {
		t.Errorf("%d tables, %q", len(a.Tables), a.Notes)
	}
	huge := extract.TableFile{Base: "huge", Document: extract.Document{Name: "huge.csv", Size: 65 << 20, Content: strings.NewReader("")}}
	for sql, want := range map[string]string{"SELECT 1 FROM huge": "more than 64 MB", "": ""} {
		a, err := s.Tables(t.Context(), extract.TableQuery{SQL: sql, Output: 1000, Files: []extract.TableFile{huge}})
		if err != nil || !strings.Contains(a.Error, want) || (want == "" && len(a.Notes) != 1) {
			t.Errorf("%q: %+v, %v", sql, a, err)
		}
	}
	columns := make([]string, 800)
	for i := range columns {
		columns[i] = fmt.Sprintf("name of column %d", i)
	}
	broad := labelledTable{name: "broad.csv", data: []byte(strings.Join(columns, ",") + "\n" + strings.Repeat("1,", 799) + "1\n")}
	if a := ask(t, s, "", broad); len(a.Tables) != 1 || len(a.Tables[0].Columns) != 50 || len(a.Tables[0].First[0]) != 50 || a.Tables[0].Notes[0] != "Cut: there are 801 columns." {
		t.Errorf("%+v", a.Tables)
	}
	if a := ask(t, s, "SELECT * FROM broad", broad); a.Error != "the result has too many columns" {
		t.Errorf("%q", a.Error)
	}
	// A table that is not mentioned is not loaded, whatever its name.
	if a := ask(t, s, "SELECT n AS wid FROM a", small, labelledTable{name: "wi.csv", data: wide.data}, labelledTable{name: "n.csv", data: []byte("PK\x03\x04")}); a.Error != "" || len(a.Rows) != 1 {
		t.Errorf("%q", a.Error)
	}
	if a := ask(t, s, "SELECT * FROM n", labelledTable{name: "n.csv", data: []byte("PK\x03\x04")}); a.Error != "no such table: n. The file of n cannot be read: The content is damaged: it cannot be read as a document or an archive." {
		t.Errorf("%q", a.Error)
	}
	var many []labelledTable
	for i := range 300 {
		many = append(many, labelledTable{name: fmt.Sprintf("dir/table %03d.csv", i), data: []byte("a,b,c\n1,2,3\n")})
	}
	a := ask(t, s, "", many...)
	text, _ := json.Marshal(a.Tables)
	if len(text) > 30<<10 || len(a.Tables) < 40 || len(a.Tables[0].Columns) != 4 || len(a.Notes) == 0 {
		t.Errorf("%d tables in %d bytes, %q", len(a.Tables), len(text), a.Notes)
	}
}

func TestNamesOfTables(t *testing.T) {
	t.Parallel()
	got := extract.TableBases([]string{"Umsätze 2024.csv", "q1/order.csv", "order.csv", "2024.csv", "a-b.csv", "a b.xlsx", "a_b_2.csv", "__.csv", "数据.csv", strings.Repeat("long ", 40) + ".csv"})
	want := []string{"umsätze_2024", "q1_order", "order_table", "t_2024", "a_b", "a_b_2", "a_b_2_2", "t", "数据", "long_long_long_long_long_long_long_long_long_long_long_long"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDecodedTables reads a file in an encoding that its owner states, and one that is too large for that.
func TestDecodedTables(t *testing.T) {
	t.Parallel()
	s := service(extract.Config{})
	read := func(data []byte, encoding string) extract.TableAnswer {
		a, err := s.Tables(t.Context(), extract.TableQuery{SQL: "SELECT * FROM t", Output: 1000, Files: []extract.TableFile{{Base: "t", Document: extract.Document{Name: "t.csv", Encoding: encoding, Size: int64(len(data)), Content: bytes.NewReader(data)}}}})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := read([]byte("a,b\n\xb3\xf3d\xbc,1\n"), "iso-8859-2"); len(a.Rows) != 1 || string(a.Rows[0][1]) != `"łódź"` {
		t.Errorf("%+v", a)
	}
	if a := read([]byte("a,b\n"+strings.Repeat("\xe4,1\n", 5<<20)), "windows-1252"); !strings.Contains(a.Error, "can have 16 MB") {
		t.Errorf("%+v", a.Error)
	}
}

// TestAFailingSourceOfATable reports the fault of the store, not of the query.
func TestAFailingSourceOfATable(t *testing.T) {
	t.Parallel()
	s := service(extract.Config{})
	_, err := s.Tables(t.Context(), extract.TableQuery{SQL: "SELECT * FROM t", Files: []extract.TableFile{{Base: "t", Document: extract.Document{Size: 10, Content: io.MultiReader(strings.NewReader("a"), goneDisk{})}}}})
	if err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("%v", err)
	}
}

type goneDisk struct{}

func (goneDisk) Read([]byte) (int, error) { return 0, fmt.Errorf("the disk is gone") }
