package drive_test

import (
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
		put(t, d, "t.txt", "text\n")
		_, _, err := d.RowLines(t.Context(), who, path(t, "t.txt"), "", 1, 1)
		wantCode(t, err, stoa.CodeInvalidValue)
	})
}
