package extract_test

import (
	"strings"
	"testing"

	"stoa/internal/base/extract"
)

// tableText is one table with a head of two rows, and a cell that covers two rows: each figure stands in its column.
const tableText = "| Region | 2025 |  | 2026 |  |\n|  | Q1 | Q2 | Q1 | Q2 |\n| North | 10 | 11 | 12 | 13 |\n|  | 20 | 21 | 22 | 23 |\n| South | none |  | 32 | 33 |\n"

func TestTablesKeepTheirColumns(t *testing.T) {
	t.Parallel()
	page := `<table><thead><tr><th rowspan=2>Region<th colspan=2>2025<th colspan=2>2026<tr><th>Q1<th>Q2<th>Q1<th>Q2</thead>
<tbody><tr><td rowspan="2">North<td>10<td>11<td>12<td>13<tr><td>20<td>21<td>22<td>23<tr><td>South<td colspan=2>none<td>32<td>33</table>`
	cell := func(text, properties string) string {
		return "<w:tc><w:tcPr><w:tcW w:w=\"900\"/>" + properties + "</w:tcPr><w:p><w:r><w:t>" + text + "</w:t></w:r></w:p></w:tc>"
	}
	const two, begin, again = `<w:gridSpan w:val="2"/>`, `<w:vMerge w:val="restart"/>`, `<w:vMerge/>`
	row := func(cells ...string) string { return "<w:tr>" + strings.Join(cells, "") + "</w:tr>" }
	document := docxOf(`<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:tbl>` +
		row(cell("Region", begin), cell("2025", two), cell("2026", two)) + row(cell("", again), cell("Q1", ""), cell("Q2", ""), cell("Q1", ""), cell("Q2", "")) +
		row(cell("North", ""), cell("10", ""), cell("11", ""), cell("12", ""), cell("13", "")) +
		row(`<w:trPr><w:gridBefore w:val="1"/><w:trPrChange><w:trPr><w:gridBefore w:val="3"/></w:trPr></w:trPrChange></w:trPr>`, cell("20", ""), cell("21", ""), cell("22", ""), cell("23", "")) +
		row(cell("South", ""), cell("none", two+`<w:tcPrChange><w:tcPr><w:gridSpan w:val="4"/></w:tcPr></w:tcPrChange>`), cell("32", ""), cell("33", "")) +
		"</w:tbl></w:body></w:document>")
	for name, content := range map[string]string{"a.html": page, "a.docx": document} {
		if r := read(t, extract.Document{Name: name}, content); strings.TrimSpace(string(r.Text)) != strings.TrimSpace(tableText) {
			t.Errorf("%s: %s\n%s", name, r.Status, r.Text)
		}
	}
	for name, c := range map[string]struct{ page, want string }{
		"to the end of the group":  {`<table><tbody><tr><td rowspan=0>a<td>b<tr><td>c<tbody><tr><td>d<td>e</table>`, "| a | b |\n|  | c |\n| d | e |"},
		"more rows than there are": {`<table><tr><td rowspan=3>a<td>b<tr><td>c</table><table><tr><td>d<td>e</table>`, "| a | b |\n|  | c |\n\n| d | e |"},
		"a head cut in two":        {`<table><thead><tr><th rowspan=2>a<th colspan=2>b</thead><tbody><tr><th>c<th>d<tr><td>1<td>2<td>3</table>`, "| a | b |  |\n|  | c | d |\n| 1 | 2 | 3 |"},
		"a head over a body":       {`<table><thead><tr><th rowspan=2>a<th>b</thead><tbody><tr><td>1<td>2</table>`, "| a | b |\n| 1 | 2 |"},
		"covered in the middle":    {`<table><tr><td>a<td rowspan=2>b<td>c<tr><td>d<td>e</table>`, "| a | b | c |\n| d |  | e |"},
		"too many columns":         {`<table><tr><td colspan=99999999>a<td>b</table>`, "| a |" + strings.Repeat("  |", 99) + " b |"},
		"a table in a cell":        {`<table><tr><td>a<table><tr><td colspan=2>b<td>c</table><td>d</table>`, `| a \| b \| c \| | d |`},
		"blocks in cells":          {`<table><tr><th>a<th>b<th>c<tr><td><div>1</div><div>2</div><td><h3>h</h3><ul><li>x<li>y</ul><td>3</table>`, "| a | b | c |\n| 1 2 | h - x - y | 3 |"},
		"rows in a cell":           {`<table><tr><td>a<td>x<table><tr><td>1<td>2<tr><td>3<td>4</table>y<td>5<tr><td>b<td>c<td>6</table>`, "| a | x \\| 1 \\| 2 \\| \\| 3 \\| 4 \\| y | 5 |\n| b | c | 6 |"},
		"a page in a cell":         {`<table><tr><td><h2>h</h2><p>p</p><table><tr><th>a<th>b<tr><td>1<td>2</table><ul><li>x</ul></table>`, "## h\n\np\n\n| a | b |\n| 1 | 2 |\n\n- x"},
		"a page beside a margin":   {`<table><tr><td>&nbsp;<td>t<table><tr><th>a<th>b<tr><td>1<td>2</table><td></table>`, "t\n\n| a | b |\n| 1 | 2 |"},
		"parts of a page":          {`<table><tr><td>menu<td><table><tr><th>a<th>b<tr><td>1<td>2</table></table>`, "menu\n\n| a | b |\n| 1 | 2 |"},
	} {
		if r := read(t, extract.Document{Name: "a.html"}, c.page); string(r.Text) != c.want {
			t.Errorf("%s: %s\n%s\nwant\n%s", name, r.Status, r.Text, c.want)
		}
	}
}

// TestTextsAreReadAsShown: readings follow the whole word, and what a browser never shows is left out.
func TestTextsAreReadAsShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, content, want string }{
		{"a.html", `<p>この<ruby>図<rp>(</rp><rt>と</rt><rp>)</rp>書<rt>しょ</rt>館<rt>かん</rt></ruby>で`, "この図書館(としょかん)で"},
		{"a.html", `<p>この<ruby><rb>図<rt>と</ruby><ruby>書<rt>しょ</ruby><ruby>館<rt>かん</ruby>で`, "この図書館(としょかん)で"},
		{"a.html", `<p>one <video>VIDEO</video><audio>AUDIO</audio><canvas>CANVAS</canvas>two <math><semantics><mi>x</mi><annotation encoding="application/x-tex">TEX</annotation></semantics></math> three<noembed>NO</noembed>`, "one two x three"},
		{"a.docx", docxOf(`<document><body><p><r><t>in </t></r><r><ruby><rubyPr/><rt><r><t>とう</t></r></rt><rubyBase><r><t>東</t></r></rubyBase></ruby></r><r><ruby><rt><r><t>きょう</t></r></rt><rubyBase><r><t>京</t></r></rubyBase></ruby></r><r><t> live</t></r></p></body></document>`), "in 東京(とうきょう) live"},
		{"a.docx", docxOf(`<document><body><p><r><ruby><rt><r><t>と</t></r></rt><rubyBase><r><t>都</t></r></rubyBase></ruby></r></p><p><r><t>x</t></r></p></body></document>`), "都(と)\n\nx"},
	} {
		if r := read(t, extract.Document{Name: c.name}, c.content); strings.TrimSpace(string(r.Text)) != c.want {
			t.Errorf("%s: %s %q, want %q", c.content, r.Status, r.Text, c.want)
		}
	}
	const main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
	headed := string(makeZip(
		entry{"_rels/.rels", rels("officeDocument", "word/document.xml")},
		entry{"word/_rels/document.xml.rels", rels("header", "header1.xml", "styles", "styles.xml")},
		entry{"word/styles.xml", `<w:styles xmlns:w="` + main + `"><w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style></w:styles>`},
		entry{"word/document.xml", `<w:document xmlns:w="` + main + `"><w:body><w:p><w:r><w:t>Body</w:t></w:r></w:p></w:body></w:document>`},
		entry{"word/header1.xml", `<w:hdr xmlns:w="` + main + `"><w:p><w:pPr><w:pStyle w:val="H1"/></w:pPr><w:r><w:t>Acme</w:t></w:r></w:p></w:hdr>`},
	))
	if r := read(t, extract.Document{Name: "a.docx"}, headed); !strings.Contains(string(r.Text), "Header: Acme") {
		t.Errorf("%q", r.Text)
	}
}
