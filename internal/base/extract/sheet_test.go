package extract_test

import (
	"strings"
	"testing"

	"stoa/internal/base/extract"
)

// bookOf returns a workbook with one sheet: its rows, what follows them, and the format codes of the styles from 1.
func bookOf(rows, after string, from1904 bool, codes ...string) string {
	const main = ` xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"`
	var list, styles strings.Builder
	for i, code := range codes {
		id := string(rune('0' + i))
		list.WriteString(`<numFmt numFmtId="20` + id + `" formatCode="` + esc(code) + `"/>`)
		styles.WriteString(`<xf numFmtId="20` + id + `"/>`)
	}
	properties := ""
	if from1904 {
		properties = `<workbookPr date1904="1"/>`
	}
	return string(makeZip(
		entry{"_rels/.rels", rels("officeDocument", "xl/workbook.xml")},
		entry{"xl/_rels/workbook.xml.rels", rels("worksheet", "worksheets/sheet1.xml", "styles", "styles.xml")},
		entry{"xl/workbook.xml", xmlHead + `<workbook` + main + ` xmlns:r="` + relationTypes + `">` + properties + `<sheets><sheet name="A" sheetId="1" r:id="rId1"/></sheets></workbook>`},
		entry{"xl/styles.xml", xmlHead + "<styleSheet" + main + "><numFmts>" + list.String() + `</numFmts><cellStyleXfs><xf numFmtId="9"/></cellStyleXfs><cellXfs><xf numFmtId="0"/>` + styles.String() + "</cellXfs></styleSheet>"},
		entry{"xl/worksheets/sheet1.xml", xmlHead + "<worksheet" + main + "><sheetData>" + rows + "</sheetData>" + after + "</worksheet>"},
	))
}

func inline(cell, text string) string {
	return `<c r="` + cell + `" t="inlineStr"><is><t>` + esc(text) + `</t></is></c>`
}

// TestMergedCellsCarryTheirValue: a label that a sheet shows once for several cells is in each of their rows and
// columns; what a program has stored under it is not read, and a title is not repeated.
func TestMergedCellsCarryTheirValue(t *testing.T) {
	t.Parallel()
	rows := `<row r="1">` + inline("A1", "Rates of 2026") + inline("B1", "hidden") + `</row>` +
		`<row r="2">` + inline("A2", "Region") + inline("C2", "2025") + inline("E2", "2026") + `</row>` +
		`<row r="3">` + inline("A3", "Shanxi") + inline("B3", "Taiyuan") + inline("C3", "Managers") + `<c r="D3"><v>500</v></c></row>` +
		`<row r="4">` + inline("B4", "covered") + inline("C4", "Other personnel") + `<c r="D4"><v>350</v></c></row>` +
		`<row r="6">` + inline("C6", "Visitors") + `</row>`
	merges := `<mergeCells count="5"><mergeCell ref="A1:F1"/><mergeCell ref="C2:D2"/><mergeCell ref="E2:F2"/><mergeCell ref="A3:A6"/><mergeCell ref="B3:B4"/></mergeCells>`
	want := "[sheet A]\n[rows 1 to 6; columns: A–C text, D numbers, E–F text]\nRates of 2026\nRegion |  | 2025 | 2025 | 2026 | 2026\n" +
		"Shanxi | Taiyuan | Managers | 500\nShanxi | Taiyuan | Other personnel | 350\n\nShanxi |  | Visitors\n\n"
	if r := read(t, extract.Document{Name: "a.xlsx"}, bookOf(rows, merges, false)); string(r.Text) != want || r.Status != extract.Ready {
		t.Errorf("%s %s\n%s\nwant\n%s", r.Status, r.Note, r.Text, want)
	}
}

// TestFormulasWithoutResults reads what programs store that do not calculate: the totals are not silently missing.
func TestFormulasWithoutResults(t *testing.T) {
	t.Parallel()
	rows := `<row><c><v>20</v></c><c><f t="shared" ref="B1:B3" si="0">A1*$A$2+SUM(A$1:$B1)&amp;"A1"&amp;'A1'!C3+A1B</f></c></row>` +
		`<row><c><v>40</v></c><c><f t="shared" si="0"/><v></v></c></row>` +
		`<row><c><f>SUM(A1:A2)</f><v>60</v></c><c t="str"><f>IF(A1,"","x")</f><v></v></c><c t="b"><v>1</v></c><c t="e"><v>#N/A</v></c></row>`
	r := read(t, extract.Document{Name: "a.xlsx"}, bookOf(rows, "", false))
	want := "20 | =A1*$A$2+SUM(A$1:$B1)&\"A1\"&'A1'!C3+A1B\n40 | =A2*$A$2+SUM(A$1:$B2)&\"A1\"&'A1'!C4+A1B\n60 |  | TRUE | #N/A\n"
	if !strings.Contains(string(r.Text), want) || r.Note != "2 formulas have no stored results and are shown as written." || r.Status != extract.Ready {
		t.Errorf("%s %q\n%s\nwant\n%s", r.Status, r.Note, r.Text, want)
	}
}

// TestWhatProgramsWriteIsRead: cells and rows in any order, characters by their numbers, another encoding, numbers that
// are none, many empty cells.
func TestWhatProgramsWriteIsRead(t *testing.T) {
	t.Parallel()
	rows := `<row r="2">` + inline("B2", "second") + inline("A2", "first_x000D_ and_x0041_nd") + `</row><row r="1">` + inline("A1", "head") + `<c r="C1"><v>inf</v></c></row>`
	if r := read(t, extract.Document{Name: "a.xlsx"}, bookOf(rows, "", false)); !strings.Contains(string(r.Text), "\nhead |  | inf\nfirst andAnd | second\n") || r.Status != extract.Ready {
		t.Errorf("%s %q", r.Status, r.Text)
	}
	var many strings.Builder
	for range 20_000 {
		many.WriteString(`<row>` + `<c><v>1</v></c>` + strings.Repeat(`<c s="0"/>`, 60) + `</row>`)
	}
	if r := read(t, extract.Document{Name: "a.xlsx"}, bookOf(many.String(), "", false)); r.Status != extract.Ready || strings.Count(string(r.Text), "\n1") != 20_000 {
		t.Errorf("%s %s, %d rows", r.Status, r.Note, strings.Count(string(r.Text), "\n1"))
	}
}

// TestCellsAreShownByTheirFormat: a status is never its opposite, a long number stays whole, and the dates of a
// workbook count from its first day.
func TestCellsAreShownByTheirFormat(t *testing.T) {
	t.Parallel()
	rows := `<row r="1"><c s="1"><v>0</v></c><c s="1"><v>1</v></c><c s="2"><v>1.25</v></c><c s="3"><v>0.270833334</v></c><c s="4"><v>5</v></c><c><v>123456789012345678</v></c><c><v>0.30000000000000004</v></c><c s="9"><v>7</v></c></row>`
	r := read(t, extract.Document{Name: "a.xlsx"}, bookOf(rows, "", true, `"Yes";"Yes";"No"`, "[h]:mm:ss", "yyyy-mm-dd hh:mm", `[=1]"on";[=0]"off"`))
	want := "[row 1; columns: A–B numbers, C–D dates, E–H numbers; the dates of this workbook count from 1904]\nNo | Yes | 30:00:00 | 1904-01-01 06:30 | 5 | 123456789012345678 | 0.3 | 7\n"
	if !strings.Contains(string(r.Text), want) {
		t.Errorf("%s %q\n%s\nwant\n%s", r.Status, r.Note, r.Text, want)
	}
}
