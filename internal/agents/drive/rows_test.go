package drive_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
)

// TestRowsOfSheetsAreRead asks for rows by the name of a sheet, and gets the names of the columns with them.
func TestRowsOfSheetsAreRead(t *testing.T) {
	t.Parallel()
	sheets := []extract.Place{
		{Line: 1, Name: "sheet Stock", Page: 1},
		{Line: 3, Name: "sheet Stock", Page: 1, Row: 2},
		{Line: 12, Name: "sheet Stock", Page: 1, Row: 500},
		{Line: 14, Name: "sheet Stock, comments", Page: 1},
		{Line: 15, Name: "sheet Größe", Page: 2},
		{Line: 17, Name: "sheet Größe", Page: 2, Row: 1},
	}
	text := "[sheet Stock]\n[rows 2 to 501]\nStock of 2026\nPart | Oslo | Oslo\n | old | new\nrow 5\nrow 6\nrow 7\nrow 8\nrow 9\nrow 10\nrow 500\nrow 501\nComment on A1: x\n[sheet Größe]\n[rows 1 to 2]\nName | Size\nrow 2\n"
	eachReading(t, drive.Limits{}, func(t *testing.T, d *drive.Drives, r *reader) {
		r.sheets = &extract.Result{Status: extract.Ready, Text: []byte(text), Pages: 2, Places: sheets}
		put(t, d, "a.xlsx", "PK\x03\x04 a workbook")
		for _, c := range []struct {
			sheet, want, head string
			from, to          int64
		}{
			{"", "row 7\nrow 8\n", "Part | Oslo | Oslo\n | old | new", 7, 8},
			{"Stock", "row 9\nrow 10\nrow 500\n", "Part | Oslo | Oslo\n | old | new", 9, 500},
			{"Stock", "row 500\nrow 501\n", "Part | Oslo | Oslo\n | old | new", 100, 0},
			{"Größe", "row 2\n", "Name | Size", 2, 40},
			{"Größe", "Name | Size\nrow 2\n", "", 0, 0},
		} {
			first, last, err := d.RowLines(t.Context(), who, path(t, "a.xlsx"), c.sheet, c.from, c.to)
			if err != nil {
				t.Fatal(err)
			}
			if lines, err := d.Read(t.Context(), who, path(t, "a.xlsx"), first, last); err != nil || lines.Text != c.want || lines.Header != c.head {
				t.Errorf("%+v: %q under %q, %v", c, lines.Text, lines.Header, err)
			}
		}
		for _, c := range []struct {
			sheet    string
			from, to int64
		}{{"Lager", 1, 2}, {"Stock", 502, 0}, {"Stock", 50, 60}} {
			_, _, err := d.RowLines(t.Context(), who, path(t, "a.xlsx"), c.sheet, c.from, c.to)
			wantCode(t, err, stoa.CodeInvalidValue)
		}
		put(t, d, "t.csv", "name,amount\na,1\nb,2\nc,3\n")
		if first, last, err := d.RowLines(t.Context(), who, path(t, "t.csv"), "", 3, 9); err != nil || first != 3 || last != 4 {
			t.Errorf("lines %d to %d, %v", first, last, err)
		}
		put(t, d, "lines.csv", "name,text\na,\"one\n\ntwo\"\nb,x\n")
		if first, last, err := d.RowLines(t.Context(), who, path(t, "lines.csv"), "", 3, 3); err != nil || first != 5 || last != 5 {
			t.Errorf("lines %d to %d, %v", first, last, err)
		}
		put(t, d, "t.txt", "text\n")
		for _, c := range []struct {
			file, sheet string
			from, to    int64
			want        string
		}{
			{"t.txt", "", 1, 1, `The file "t.txt" has no sheets, and only spreadsheets and CSV files have rows. Use fromLine and toLine; it has 1 lines.`},
			{"a.xlsx", "Lager", 1, 2, `The file "a.xlsx" has no sheet "Lager" with rows. Its sheets are ["Stock" "Größe"].`},
			{"a.xlsx", "", 502, 0, `The sheet "Stock" has the rows 2 to 501, and no row 502.`},
			{"a.xlsx", "Stock", 50, 60, `The sheet "Stock" has the rows 2 to 501, and none from 50 to 60.`},
			{"t.csv", "", 9, 12, `The file has the rows 1 to 4, and no row 9.`},
			{"t.csv", "", 3, 2, `Row 3 is after row 2. Use a toRow that is not less than fromRow.`},
		} {
			_, _, err := d.RowLines(t.Context(), who, path(t, c.file), c.sheet, c.from, c.to)
			if wantCode(t, err, stoa.CodeInvalidValue); stoa.AsError(err).Message != c.want {
				t.Errorf("%q", stoa.AsError(err).Message)
			}
		}
	})
}

// TestHeadsOfSeveralTables: a hit has the names of the columns of its own table.
func TestHeadsOfSeveralTables(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("Stock of 2026,\nPart,Oslo\n")
	for i := range 600 {
		fmt.Fprintf(&b, "part%d,%d\n", i, i)
	}
	b.WriteString("\nName,Hours\nAda,7\n")
	for i := range 20 {
		fmt.Fprintf(&b, "worker%d,%d\n", i, i)
	}
	b.WriteString("\nBob,8\n")
	sheet := []extract.Place{
		{Line: 1, Name: "sheet A", Page: 1},
		{Line: 3, Name: "sheet A", Page: 1, Row: 1, Table: true},
		{Line: 6, Name: "sheet A", Page: 1, Row: 4, Table: true},
		{Line: 9, Name: "sheet A", Page: 1, Row: 400},
	}
	eachReading(t, drive.Limits{}, func(t *testing.T, d *drive.Drives, r *reader) {
		r.sheets = &extract.Result{Status: extract.Ready, Text: []byte("[sheet A]\n[rows 1 to 400]\nPart | Oslo\npen | 1\n\nThe team\nName | Hours\nAda | 7\nBob | 8\n"), Pages: 1, Places: sheet}
		put(t, d, "a.xlsx", "PK\x03\x04 a workbook")
		put(t, d, "t.csv", b.String())
		put(t, d, "bare.csv", "Ada,7\nBob,8\nEve,9\n")
		for _, c := range []struct {
			file string
			line int64
			want string
		}{
			{"a.xlsx", 4, "Part | Oslo"},
			{"a.xlsx", 6, ""},
			{"a.xlsx", 7, ""},
			{"a.xlsx", 8, "Name | Hours"},
			{"a.xlsx", 9, "Name | Hours"},
			{"t.csv", 2, ""},
			{"t.csv", 4, "Part,Oslo"},
			{"t.csv", 590, "Part,Oslo"},
			{"t.csv", 604, ""},
			{"t.csv", 605, "Name,Hours"},
			{"t.csv", 620, "Name,Hours"},
			{"t.csv", 627, "Name,Hours"},
			{"bare.csv", 3, ""},
		} {
			if lines, err := d.Read(t.Context(), who, path(t, c.file), c.line, c.line); err != nil || lines.Header != c.want {
				t.Errorf("line %d of %s, %q, is under %q, not %q: %v", c.line, c.file, lines.Text, lines.Header, c.want, err)
			}
		}
	})
}
