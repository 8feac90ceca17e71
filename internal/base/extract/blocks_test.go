package extract_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"

	"stoa/internal/base/extract"
)

// TestTablesOfOneSheet: empty rows and a head divide the tables of a sheet, and empty columns do so if the tables do not end
// together. Groups of rows, titles, notes and empty columns within a table do not.
func TestTablesOfOneSheet(t *testing.T) {
	t.Parallel()
	s := service(extract.Config{})
	for name, c := range map[string]struct{ text, want string }{
		"two tables":                 {"Region,Sales\nNorth,5\nSouth,6\n\nName,Hours,Rate\nAda,7,1.5\nBob,8,2\n", "t rows 2–3 Region Sales; t__2 rows 6–7 Name Hours Rate"},
		"titles":                     {"Sales,\nRegion,Sales\nNorth,5\n,\nHours,\n,\nName,Hours\nAda,7\n", "t rows 3–3 Region Sales; t__2 rows 8–8 Name Hours"},
		"groups of rows":             {"Region,Sales\nNorth,5\n\nSouth,6\nWest,7\n\nEast,n/a\nAll,18\n", "t rows 2–8 Region Sales"},
		"texts only, other values":   {"Region,Sales\nNorth,5\n\nName,Town\nAda,Oslo\nBob,Bern\n", "t rows 2–2 Region Sales; t__2 rows 5–6 Name Town"},
		"texts only, a column more":  {"Name,Town\nAda,Oslo\n\nBook,Author,Shelf\nEmma,Austen,A\n", "t rows 2–2 Name Town; t__2 rows 5–5 Book Author Shelf"},
		"texts only, not to be told": {"Name,Town\nAda,Oslo\n\nBob,Bern\nEve,Rome\n", "t rows 2–5 Name Town"},
		"a remark":                   {"Region,2023,2024\nNorth,5,6\n\nSouth,7,8\nSource: the office,,\n", "t rows 2–5 Region 2023 2024"},
		"pairs above a table":        {"Invoice,17\nCustomer,Acme\nDate,2024-03-01\n\nArticle,Count,Price\nPen,3,1.5\nCup,1,4\n", "t__1 rows 1–3 column A column B; t rows 6–7 Article Count Price"},
		"years as a head":            {"Region,Sales\nNorth,5\n\nRegion,2023,2024\nNorth,1,2\n", "t rows 2–2 Region Sales; t__2 rows 5–5 Region 2023 2024"},
		"the same head":              {"Region,Sales\nNorth,5\n\nRegion,Sales\nSouth,6\n", "t rows 2–2 Region Sales; t__2 rows 5–5 Region Sales"},
		"side by side":               {"Region,Sales,,Name,Hours\nNorth,5,,Ada,7\nSouth,6,,,\n", "t rows 2–3 Region Sales; t__2 rows 2–2 Name Hours"},
		"side by side and below":     {"Region,Sales,,Name,Hours\nNorth,5,,Ada,7\n,,,Bob,8\nTown,Size,,Eve,9\nOslo,4,,Joe,1\n,,,Kim,2\n", "t rows 2–2 Region Sales; t__2 rows 5–5 Town Size; t__3 rows 2–6 Name Hours"},
		"an empty column":            {"Region,Sales,,Name,Hours\nNorth,5,,Ada,7\nSouth,6,,Bob,8\n", "t rows 2–3 Region Sales Name Hours"},
		"a row with line ends":       {"Name,Text\nAda,\"one\n\ntwo\"\nBob,x\n\n\nRegion,Sales\nNorth,5\n", "t__1 rows 2–3 Name Text; t rows 7–7 Region Sales"},
	} {
		var got []string
		for _, table := range ask(t, s, "", labelledTable{name: "t.csv", data: []byte(c.text)}).Tables {
			text := fmt.Sprintf("%s rows %d–%d", table.Name, table.FirstRow, table.LastRow)
			for _, column := range table.Columns[1:] {
				text += " " + column.Name
			}
			got = append(got, text)
		}
		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// TestTablesOfASheetAreQueried asks for a second table by its name, and reads the sheet as text.
func TestTablesOfASheetAreQueried(t *testing.T) {
	t.Parallel()
	book := workbookOf(t, func(f *excelize.File) {
		setRow(f, "Sheet1", 1, "Region", "Sales")
		setRow(f, "Sheet1", 2, "North", 5)
		setRow(f, "Sheet1", 3, "South", 6)
		setRow(f, "Sheet1", 6, "Hours of the team")
		setRow(f, "Sheet1", 7, "Name", "Hours")
		setRow(f, "Sheet1", 8, "Ada", 7.5)
		setRow(f, "Sheet1", 9, "Bob", 8)
	})
	hidden := workbookOf(t, func(f *excelize.File) {
		_, err := f.NewSheet("Notes")
		if err = errors.Join(err, f.SetSheetVisible("Notes", false)); err != nil {
			t.Fatal(err)
		}
		setRow(f, "Notes", 1, "draft")
	})
	if r := read(t, extract.Document{Name: "h.xlsx"}, string(hidden)); !strings.Contains(string(r.Text), "[sheet Notes]\n[row 1; columns: A text; a hidden sheet]\ndraft\n") {
		t.Errorf("%q", r.Text)
	}
	file := labelledTable{name: "b.xlsx", data: book}
	s := service(extract.Config{})
	a := ask(t, s, "SELECT sum(Hours) FROM b__2", file)
	rows, _ := json.Marshal(a.Rows)
	if string(rows) != "[[15.5]]" || len(a.Sources) != 1 || a.Sources[0].Place() != "sheet Sheet1, rows 8–9" || len(a.Notes) > 0 {
		t.Errorf("%s %s %+v %q", rows, a.Error, a.Sources, a.Notes)
	}
	if list, err := s.Tables(t.Context(), extract.TableQuery{Prefix: "b__2", Output: 1000, Files: []extract.TableFile{{Base: "b", Document: extract.Document{Size: int64(len(book)), Content: strings.NewReader(string(book))}}}}); err != nil || len(list.Tables) != 1 || list.Tables[0].Notes[0] != "Table 2 of 2 in this sheet." {
		t.Errorf("%+v, %v", list.Tables, err)
	}
	r := read(t, extract.Document{Name: "b.xlsx"}, string(book))
	if want := "[rows 1 to 9; columns: A text, B numbers; 2 tables, from the rows 1, 6]\nRegion | Sales\n"; !strings.Contains(string(r.Text), want) {
		t.Errorf("%q", r.Text)
	}
	if p := r.Places[len(r.Places)-1]; p.Row != 6 || !p.Table || p.Line != 8 {
		t.Errorf("%+v", r.Places)
	}
}

func TestRecordLines(t *testing.T) {
	t.Parallel()
	const text = "name;text\r\nAda;\"one\r\n\r\n\"\"two\"\"\"\nBob;5\" pipe\n\n\"Eve\";\"x\";\n\"open\nend"
	for _, c := range [][5]int64{{1, 1, 1, 1, 1}, {2, 2, 2, 4, 2}, {2, 3, 2, 5, 3}, {4, 5, 6, 7, 5}, {6, 0, 8, 9, 6}, {7, 0, 0, 0, 6}} {
		if first, last, rows, err := extract.RecordLines(strings.NewReader(text), c[0], c[1]); first != c[2] || last != c[3] || rows != c[4] || err != nil {
			t.Errorf("rows %d to %d: lines %d to %d, %d rows, %v", c[0], c[1], first, last, rows, err)
		}
	}
}
