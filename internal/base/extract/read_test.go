package extract_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/htmlindex"

	"stoa/internal/base/extract"
	"stoa/internal/base/extract/extracttest"
)

func read(t *testing.T, d extract.Document, content string) extract.Result {
	t.Helper()
	d.Content = strings.NewReader(content)
	r, err := extracttest.Direct{}.Read(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	const ole = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
	wide := func(s string) string { return ole + strings.Join(strings.Split(s, ""), "\x00") + "\x00" }
	for _, c := range []struct{ name, content, want string }{
		{"a.pdf", string(makePDF(pdfForm{password: "x"}, [][]string{{"text"}})), "encrypted"},
		{"scan.pdf", pdfPage(rawStream("", []byte("0 0 9 9 re f"))), "empty"},
		{"a.doc", wide("WordDocument"), "unsupported"},
		{"a.xls", wide("Workbook"), "unsupported"},
		{"a.ppt", wide("PowerPoint Document"), "unsupported"},
		{"a.msg", wide("__properties_version1.0"), "unsupported"},
		{"a.docx", wide("EncryptedPackage"), "encrypted"},
		{"a.rtf", `{\rtf1 text}`, "unsupported"},
		{"a.odt", string(makeZip(entry{"mimetype", "application/vnd.oasis.opendocument.text"})), "unsupported"},
		{"a.epub", string(makeZip(entry{"mimetype", "application/epub+zip"})), "unsupported"},
		{"a.xlsb", string(makeZip(entry{"xl/workbook.bin", ""})), "unsupported"},
		{"a.zip", string(makeZip(entry{"a.txt", "text"})), "none"},
		{"a.docx", docxOf("<document><body><p/></body></document>"), "empty"},
		{"a.docx", docxOf("<document><body><p><r><t>text</t></r></p>"), "partial"},
		{"a.txt", " \n", "empty"},
		{"a.gz", "\x1f\x8b\x08\x00\x00\x00", "none"},
		{"a.csv", "a;b\x8a\x9a\x8e\x81\x90\x9d;c", "unknown_encoding"},
	} {
		if r := read(t, extract.Document{Name: c.name}, c.content); string(r.Status) != c.want {
			t.Errorf("%s: %s %s, not %s", c.name, r.Status, r.Note, c.want)
		} else if r.Status != extract.None && r.Note == "" {
			t.Errorf("%s: %s without a note", c.name, r.Status)
		}
	}
}

// TestTextAroundInnerTexts reads documents in which a table or a text box follows a text at the
// same place, and texts follow it.
func TestTextAroundInnerTexts(t *testing.T) {
	t.Parallel()
	word := func(s string) string { return "<r><t>" + s + "</t></r>" }
	p := func(s string) string { return "<p>" + s + "</p>" }
	row := func(cells ...string) string {
		return "<tbl><tr><tc>" + strings.Join(cells, "</tc><tc>") + "</tc></tr></tbl>"
	}
	box := func(s string) string { return "<r><txbx><txbxContent>" + s + "</txbxContent></txbx></r>" }
	for _, c := range []struct{ name, body string }{
		{"a table in a cell", row(p(word("one")), p(word("two"))+row(p(word("three")), p(word("four")))+p(word("five")))},
		{"a table three deep", row(p(word("one")) + row(p(word("two"))+row(p(word("three")))+p(word("four"))) + p(word("five")))},
		{"a text box in a paragraph", p(word("one") + box(p(word("two"))) + word("three") + box(p(word("four"))) + word("five"))},
		{"a text box three deep", p(word("one") + box(p(word("two")+box(p(word("three")))+word("four"))) + word("five"))},
		{"a table in a text box in a cell", row(p(word("one")), p(word("two")+box(row(p(word("three"))))+word("four"))+p(word("five")))},
	} {
		r := read(t, extract.Document{Name: "a.docx"}, docxOf("<document><body>"+c.body+"</body></document>"))
		if r.Status != extract.Ready {
			t.Errorf("%s: %s %s", c.name, r.Status, r.Note)
			continue
		}
		for _, w := range []string{"one", "two", "three", "four", "five"} {
			if strings.Count(string(r.Text), w) != 1 {
				t.Errorf("%s: %q is not once in %q", c.name, w, r.Text)
			}
		}
	}
}

// TestDividedWordsAreJoined reads a PDF file with hyphens at the ends of its lines.
func TestDividedWordsAreJoined(t *testing.T) {
	t.Parallel()
	show := ""
	for i, line := range []string{"A long manip-", "ulation of COVID-", "19 by Anglo-", "Americans."} {
		show += fmt.Sprintf("BT /F1 10 Tf 50 %d Td (%s) Tj ET ", 700-12*i, line)
	}
	r := read(t, extract.Document{Name: "a.pdf"}, pdfPage(rawStream("", []byte(show))))
	if want := "[page 1]\nA long manipulation of COVID-19 by Anglo-Americans.\n"; string(r.Text) != want {
		t.Errorf("%q", r.Text)
	}
}

// TestFormsArePartOfTheText reads the value of a field and a text that was typed onto a page.
func TestFormsArePartOfTheText(t *testing.T) {
	t.Parallel()
	annotation := func(kind string, stream int) string {
		return fmt.Sprintf("<< /Type /Annot /Subtype %s /F 4 /Rect [100 600 400 620] /AP << /N %d 0 R >> >>", kind, stream)
	}
	appearance := func(text string) string {
		return rawStream("/Type /XObject /Subtype /Form /BBox [0 0 300 20] /Resources << /Font << /F1 5 0 R >> >>", []byte("BT /F1 10 Tf 5 5 Td ("+text+") Tj ET"))
	}
	pdf := pdfOf("<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [6 0 R] >> >>", "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Annots [6 0 R 7 0 R] /Resources << /Font << /F1 5 0 R >> >> >>",
		rawStream("", []byte("BT /F1 10 Tf 50 700 Td (Name:) Tj ET")), "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
		annotation("/Widget /FT /Tx /T (name) /V (Ada Lovelace)", 8), annotation("/FreeText /Contents (Approved)", 9), appearance("Ada Lovelace"), appearance("Approved"))
	r := read(t, extract.Document{Name: "form.pdf"}, pdf)
	for _, want := range []string{"Name:", "Ada Lovelace", "Approved"} {
		if strings.Count(string(r.Text), want) != 1 {
			t.Errorf("%s: %q", want, r.Text)
		}
	}
}

// TestDeclaredInTheContent reads documents that declare their encoding themselves, and mails
// in the encodings of Japan and China.
func TestDeclaredInTheContent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, encoding, before, text string }{
		{"a.html", "windows-1251", `<html><head><meta charset="windows-1251"></head><p>`, "Склад"},
		{"a.htm", "shift_jis", `<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS"><p>`, "倉庫"},
		{"a.xml", "iso-8859-2", `<?xml version="1.0" encoding="ISO-8859-2"?><a>`, "źródło"},
		{"a.eml", "iso-2022-jp", "Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n", "倉庫は荷物を受け取りました"},
		{"a.eml", "gb18030", "Content-Type: text/plain; charset=\"gb2312\"\r\n\r\n", "仓库收到了包裹"},
		{"a.eml", "windows-1252", "Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\r\n", "Größe"},
	} {
		e, err := htmlindex.Get(c.encoding)
		if err != nil {
			t.Fatal(err)
		}
		text, err := e.NewEncoder().String(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if r := read(t, extract.Document{Name: c.name}, c.before+text); !strings.Contains(string(r.Text), c.text) {
			t.Errorf("%s in %s: %s %q", c.name, c.encoding, r.Status, r.Text)
		}
	}
}

func TestDamagedTexts(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("A line of a log in München.\n", 200)
	for _, c := range []struct {
		name, content, want string
		note                string
	}{
		{"one bad byte", lines + "x\xffy", lines + "x\ufffdy", "1 damaged bytes"},
		{"one NUL", lines + "x\x00y", lines + "x\ufffdy", "1 damaged bytes"},
		{"a surrogate", lines + "x\xed\xa0\xbdy", lines + "x\ufffd\ufffd\ufffdy", "3 damaged bytes"},
		{"ASCII with one bad byte", strings.Repeat("plain ", 100) + "\xff", strings.Repeat("plain ", 100) + "\ufffd", "1 damaged bytes"},
		{"one letter of Windows-1252", strings.Repeat("plain ", 100) + "Gr\xf6\xdfe", strings.Repeat("plain ", 100) + "Größe", ""},
		{"a mark", "\xef\xbb\xbftext", "text", ""},
		{"UTF-16", "\xff\xfeT\x00\xe4\x00", "Tä", ""},
	} {
		r := read(t, extract.Document{Name: "a.log"}, c.content)
		if r.Status != extract.Ready || string(r.Text) != c.want || !strings.HasPrefix(r.Note, c.note) {
			t.Errorf("%s: %s %q %.80q", c.name, r.Status, r.Note, r.Text)
		}
	}
}

func TestEscapedJSON(t *testing.T) {
	t.Parallel()
	in := `{"a": "\u65e5\u672c \u00e4\n\u000a\u0022\\u00e4 \ud83d\ude00 \ud83d x",` + "\n" + `"b": "\u12"}`
	want := `{"a": "日本 ä\n\u000a\u0022\\u00e4 😀 \ud83d x",` + "\n" + `"b": "\u12"}`
	for _, d := range []extract.Document{{Name: "a.json"}, {Name: "a", MediaType: "application/ld+json; charset=utf-8"}} {
		if r := read(t, d, in); string(r.Text) != want {
			t.Errorf("%s", r.Text)
		}
	}
	if r := read(t, extract.Document{Name: "a.go"}, in); string(r.Text) != in {
		t.Errorf("%s", r.Text)
	}
}

func TestMarkdownOfHTML(t *testing.T) {
	t.Parallel()
	in := `<html><head><title>T</title></head><body><h1>One <b>two</b></h1><p>a
	b <i>c</i>d&nbsp;e<br>f</p><ul><li><p>x</p><ul><li>y</ul><li>z</ul><table><tr><th>k|l<th>m<tr><td>1<p>2<td></table><pre>p
  q</pre>end <img alt="picture"></body>`
	want := "T\n\n# One two\n\na b cd\u00a0e\nf\n\n- x\n  - y\n- z\n\n| k\\|l | m |\n| 1 2 |  |\n\np\n  q\n\nend picture"
	if r := read(t, extract.Document{Name: "a.html"}, in); string(r.Text) != want {
		t.Errorf("%q\n%q", r.Text, want)
	}
}

// TestDeepHTMLIsUnescapedOnce reads a document whose elements are nested too deeply for a tree.
func TestDeepHTMLIsUnescapedOnce(t *testing.T) {
	t.Parallel()
	r := read(t, extract.Document{Name: "a.html"}, strings.Repeat("<div>", 100_000)+"write &amp;lt; for &lt;")
	if r.Status != extract.Ready || !strings.Contains(string(r.Text), "write &lt; for <") {
		t.Errorf("%s %.80q", r.Status, r.Text)
	}
}

// TestAlternativesAfterAText reads a mail with a text before the alternatives, of which one is
// part of the text.
func TestAlternativesAfterAText(t *testing.T) {
	t.Parallel()
	part := func(kind, text string) string { return "Content-Type: " + kind + "\r\n\r\n" + text + "\r\n" }
	mail := part("multipart/mixed; boundary=a", "--a\r\n"+part("text/plain", "Forwarded.")+
		"--a\r\n"+part("multipart/alternative; boundary=b", "--b\r\n"+part("text/plain", "The offer.")+"--b\r\n"+part("text/html", "<p>The offer.</p>")+"--b--")+"--a--")
	r := read(t, extract.Document{Name: "a.eml"}, mail)
	if r.Status != extract.Ready || string(r.Text) != "\nForwarded.\n\nThe offer.\n" {
		t.Errorf("%s %q %q", r.Status, r.Note, r.Text)
	}
}

// TestAttachmentsAreRead reads a mail with a workbook, an image and a mail that contains a text.
func TestAttachmentsAreRead(t *testing.T) {
	t.Parallel()
	part := func(kind, text string) string { return "Content-Type: " + kind + "\r\n\r\n" + text + "\r\n" }
	attached := func(name, content string) string {
		return "Content-Disposition: attachment; filename=" + name + "\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.StdEncoding.EncodeToString([]byte(content)) + "\r\n"
	}
	inner := "Subject: Inner\r\n" + part("multipart/mixed; boundary=b", "--b\r\n"+part("text/plain", "See the file.")+"--b\r\n"+attached("terms.txt", "Net 30 days.\n")+"--b--")
	mail := "Subject: Outer\r\n" + part("multipart/mixed; boundary=a", "--a\r\n"+part("text/html", "<p>Hello</p>")+
		"--a\r\n"+attached("prices.xlsx", xlsxOf(`<row r="3"><c r="A3" t="inlineStr"><is><t>Cable, 4 EUR</t></is></c></row>`, ""))+
		"--a\r\n"+attached("photo.png", "\x89PNG\r\n\x1a\n")+"--a\r\n"+part("message/rfc822", inner)+"--a--")
	r := read(t, extract.Document{Name: "a.eml"}, mail)
	want := "Subject: Outer\n\nHello\n\nAttachments: prices.xlsx, photo.png, message/rfc822\n" +
		"\n[attachment prices.xlsx]\n[sheet A]\n[row 3; columns: A text]\nCable, 4 EUR\n" +
		"\n[attachment message/rfc822]\nSubject: Inner\n\nSee the file.\n\nAttachments: terms.txt\n\n[attachment terms.txt]\nNet 30 days.\n"
	if r.Status != extract.Ready || string(r.Text) != want || r.Note != "Attachments that were not read: photo.png." {
		t.Errorf("%s %q %q\nwant %q", r.Status, r.Note, r.Text, want)
	}
	places := fmt.Sprint(r.Places)
	if want := "[{7 attachment prices.xlsx 1 0 false} {8 prices.xlsx, sheet A 1 0 false} {10 prices.xlsx, sheet A 1 3 true} {12 attachment message/rfc822 3 0 false} {19 message/rfc822, attachment terms.txt 1 0 false}]"; places != want {
		t.Errorf("the places are %s, want %s", places, want)
	}
}

// TestMessagesWithinMessagesEnd reads a mail in a mail and so on: attachments of the fourth
// are named only.
func TestMessagesWithinMessagesEnd(t *testing.T) {
	t.Parallel()
	mail := "Subject: 0\r\n\r\nThe innermost."
	for i := range 10 {
		mail = fmt.Sprintf("Subject: %d\r\nContent-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\nContent-Type: message/rfc822\r\n\r\n%s\r\n--b%d--", i+1, i, i, mail, i)
	}
	r := read(t, extract.Document{Name: "a.eml"}, mail)
	if text := string(r.Text); r.Status != extract.Ready || !strings.Contains(text, "Subject: 7\n") || strings.Contains(text, "Subject: 6\n") {
		t.Errorf("%s %q %q", r.Status, r.Note, text)
	}
}

// TestCommentsOfWorkbooksAreRead reads a comment with its cell, after the rows of its sheet.
func TestCommentsOfWorkbooksAreRead(t *testing.T) {
	t.Parallel()
	book := excelize.NewFile()
	if err := errors.Join(book.SetCellValue("Sheet1", "B2", "120"), book.AddComment("Sheet1", excelize.Comment{Cell: "B2", Author: "Ada", Text: "Too high?"})); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := book.Write(&b); err != nil {
		t.Fatal(err)
	}
	r := read(t, extract.Document{Name: "a.xlsx"}, b.String())
	if want := "[sheet Sheet1]\n[row 2; columns: B text]\n | 120\nComment on B2: Too high?\n\n"; string(r.Text) != want {
		t.Errorf("the text is %q, want %q", r.Text, want)
	}
}

// TestNumbersOfParagraphs reads a contract whose numbers Word computes: of headings by their
// style, of clauses, of letters that begin again below the next clause, and of a list that
// overrides its first number.
func TestNumbersOfParagraphs(t *testing.T) {
	t.Parallel()
	const space = ` xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"`
	lvl := func(i int, format, text, more string) string {
		return fmt.Sprintf(`<w:lvl w:ilvl="%d"><w:start w:val="1"/><w:numFmt w:val="%s"/>%s<w:lvlText w:val="%s"/></w:lvl>`, i, format, more, text)
	}
	numbering := xmlHead + "<w:numbering" + space + `><w:abstractNum w:abstractNumId="7">` + lvl(0, "upperRoman", "Article %1.", `<w:pStyle w:val="Heading1"/>`) +
		lvl(1, "decimal", "%1.%2", `<w:isLgl/>`) + lvl(2, "lowerLetter", "(%3)", "") + lvl(3, "bullet", "\uf0b7", "") + `</w:abstractNum><w:abstractNum w:abstractNumId="8">` + lvl(0, "decimalZero", "%1)", "") + `</w:abstractNum>` +
		`<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="8"/></w:num>` +
		`<w:num w:numId="3"><w:abstractNumId w:val="8"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="9"/></w:lvlOverride></w:num></w:numbering>`
	styles := xmlHead + "<w:styles" + space + `><w:style w:styleId="Heading1"><w:name w:val="heading 1"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>` +
		`<w:style w:styleId="Clause"><w:name w:val="Clause"/><w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr></w:pPr></w:style>` +
		`<w:style w:styleId="Sub"><w:name w:val="Sub"/><w:basedOn w:val="Clause"/></w:style></w:styles>`
	body := ""
	for _, p := range [][3]string{
		{"Heading1", "", "Supply"},
		{"Clause", "", "The goods"},
		{"", "1/2", "cables"},
		{"", "1/2", ""},
		{"", "1/2", "plugs"},
		{"", "1/3", "red"},
		{"Sub", "", "Delivery"},
		{"", "1/2", "by road"},
		{"Clause", "0/0", "Not numbered"},
		{"Heading1", "", "Payment"},
		{"Clause", "", "Net 30 days"},
		{"", "2/0", "first"},
		{"", "2/0", "second"},
		{"", "3/0", "ninth"},
		{"", "2/0", "tenth"},
		{"", "4/0", "unknown"},
	} {
		properties := ""
		if p[0] != "" {
			properties = `<w:pStyle w:val="` + p[0] + `"/>`
		}
		if id, level, ok := strings.Cut(p[1], "/"); ok {
			properties += `<w:numPr><w:ilvl w:val="` + level + `"/><w:numId w:val="` + id + `"/></w:numPr>`
		}
		body += "<w:p><w:pPr>" + properties + "</w:pPr><w:r><w:t>" + p[2] + "</w:t></w:r></w:p>"
	}
	body += `<w:p><w:r><w:t>Agreed</w:t></w:r><w:r><w:commentReference w:id="4"/></w:r></w:p>`
	r := read(t, extract.Document{Name: "a.docx"}, string(makeZip(
		entry{"_rels/.rels", rels("officeDocument", "word/document.xml")},
		entry{"word/_rels/document.xml.rels", rels("styles", "styles.xml", "numbering", "numbering.xml", "comments", "comments.xml")},
		entry{"word/styles.xml", styles}, entry{"word/numbering.xml", numbering},
		entry{"word/comments.xml", xmlHead + "<w:comments" + space + `><w:comment w:id="4" w:author="Ada L."><w:p><w:r><w:t>By whom?</w:t></w:r></w:p></w:comment></w:comments>`},
		entry{"word/document.xml", xmlHead + "<w:document" + space + "><w:body>" + body + "</w:body></w:document>"})))
	want := `# Article I. Supply

  1.1 The goods
    (a) cables
    (c) plugs
      - red
  1.2 Delivery
    (a) by road

Not numbered

# Article II. Payment

  2.1 Net 30 days
01) first
02) second
09) ninth
10) tenth
- unknown

Agreed[^c4]

[^c4]: Ada L.: By whom?

`
	if string(r.Text) != want {
		t.Errorf("the text is\n%s\nwant\n%s", r.Text, want)
	}
}

// TestChartsAreTables reads a chart of a slide and of a document: two series, of which one has
// no value for a category, and a name of an axis, which is not the title.
func TestChartsAreTables(t *testing.T) {
	t.Parallel()
	points := func(texts ...string) string {
		s := ""
		for i, text := range texts {
			if text != "" {
				s += fmt.Sprintf(`<c:pt idx="%d"><c:v>%s</c:v></c:pt>`, i, text)
			}
		}
		return s
	}
	ser := func(name string, values ...string) string {
		return `<c:ser><c:idx val="0"/><c:tx><c:strRef><c:f>Sheet1!$B$1</c:f><c:strCache><c:ptCount val="1"/>` + points(name) + `</c:strCache></c:strRef></c:tx>` +
			`<c:cat><c:strRef><c:strCache>` + points("2024", "2025") + `</c:strCache></c:strRef></c:cat><c:val><c:numRef><c:numCache><c:formatCode>General</c:formatCode>` + points(values...) + `</c:numCache></c:numRef></c:val></c:ser>`
	}
	title := func(text string) string {
		return `<c:title><c:tx><c:rich><a:p><a:r><a:t>` + text + `</a:t></a:r></a:p></c:rich></c:tx></c:title>`
	}
	chart := xmlHead + `<c:chartSpace xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><c:chart>` + title("Revenue") +
		`<c:plotArea><c:barChart>` + ser("Europe", "4.5", "6") + ser("Asia", "", "2") + `</c:barChart><c:valAx>` + title("DELETED axis") + `</c:valAx></c:plotArea></c:chart></c:chartSpace>`
	table := "[chart Revenue]\n|  | Europe | Asia |\n| 2024 | 4.5 |  |\n| 2025 | 6 | 2 |\n\n"
	for _, c := range []struct{ name, main, part, root, want string }{
		{"a.docx", "word/document.xml", "document", "<document><body><p><r><t>See below.</t></r></p></body></document>", "See below.\n\n" + table},
		{"a.docx", "word/document.xml", "document", "<document/>", table},
		{"a.pptx", "ppt/slides/slide1.xml", "slide1", "<sld><sp><ph type='title'/><txBody><p><r><t>Year</t></r></p></txBody></sp></sld>", "[slide 1]\n# Year\n\n" + table},
	} {
		dir := strings.TrimSuffix(c.main, c.part+".xml")
		r := read(t, extract.Document{Name: c.name}, string(makeZip(entry{c.main, c.root}, entry{dir + "_rels/" + c.part + ".xml.rels", rels("chart", "charts/chart1.xml")}, entry{dir + "charts/chart1.xml", chart},
			entry{"ppt/presentation.xml", "<presentation xmlns:r='x'><sldIdLst><sldId r:id='rId1'/></sldIdLst></presentation>"}, entry{"ppt/_rels/presentation.xml.rels", rels("slide", "slides/slide1.xml")})))
		if r.Status != extract.Ready || string(r.Text) != c.want {
			t.Errorf("%s: %s %q, want %q", c.name, r.Status, r.Text, c.want)
		}
	}
}

func TestMarkdownOfDOCX(t *testing.T) {
	t.Parallel()
	r := read(t, extract.Document{Name: "a.docx"}, string(makeDOCX(docxForm{lists: true}, [][]string{{"Head", "one", "two"}, {"Next"}})))
	if want := "# Head\n\n- one\n  - two\n\n## Next\n\n"; string(r.Text) != want {
		t.Errorf("%q", r.Text)
	}
	r = read(t, extract.Document{Name: "a.docx"}, string(makeDOCX(docxForm{table: true}, [][]string{{"Head", "a|b"}})))
	if want := "# Head\n\n| a\\|b |  | other cell |\n\n"; string(r.Text) != want {
		t.Errorf("%q", r.Text)
	}
	r = read(t, extract.Document{Name: "a.docx"}, string(makeDOCX(docxForm{box: true}, [][]string{{"Head", "once"}})))
	if want := "# Head\n\nonce\n\n"; string(r.Text) != want {
		t.Errorf("%q", r.Text)
	}
	r = read(t, extract.Document{Name: "a.docx"}, string(makeDOCX(docxForm{notes: true}, [][]string{{"Head", "a"}})))
	if want := "# Head\n\nSee the note.[^f1]\n\n[^f1]: a\n\n"; string(r.Text) != want {
		t.Errorf("%q", r.Text)
	}
}

// TestHeadersAndFootersAreRead reads a document whose pages have two different headers, one of
// them twice, and a footer.
func TestHeadersAndFootersAreRead(t *testing.T) {
	t.Parallel()
	part := func(name, text string) string {
		return xmlHead + `<w:` + name + ` xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:p><w:r><w:t>` + text + `</w:t></w:r></w:p></w:` + name + `>`
	}
	content := makeZip(
		entry{"_rels/.rels", rels("officeDocument", "word/document.xml")},
		entry{"word/_rels/document.xml.rels", rels("header", "header1.xml", "header", "header2.xml", "footer", "footer1.xml", "header", "header3.xml")},
		entry{"word/document.xml", xmlHead + `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>The body.</w:t></w:r></w:p></w:body></w:document>`},
		entry{"word/header1.xml", part("hdr", "Acme Corporation")}, entry{"word/header2.xml", part("hdr", "Acme Corporation")},
		entry{"word/header3.xml", part("hdr", "Confidential")}, entry{"word/footer1.xml", part("ftr", "Vienna 1010")},
	)
	got := read(t, extract.Document{Name: "a.docx"}, string(content))
	if want := "The body.\n\n\nHeader: Acme Corporation\n\nFooter: Vienna 1010\n\nHeader: Confidential\n"; string(got.Text) != want {
		t.Errorf("the text is %q, want %q", got.Text, want)
	}
}

// TestRowsHavePlaces checks that the row of each line of a sheet follows from its place.
func TestRowsHavePlaces(t *testing.T) {
	t.Parallel()
	row := func(n int) string {
		return fmt.Sprintf(`<row r="%d"><c r="A%d" t="inlineStr"><is><t>row %d</t></is></c></row>`, n, n, n)
	}
	r := read(t, extract.Document{Name: "a.xlsx"}, xlsxOf(row(3)+row(4)+row(9)+row(500), ""))
	lines := strings.Split(string(r.Text), "\n")
	seen := 0
	for i, line := range lines {
		if !strings.HasPrefix(line, "row ") {
			continue
		}
		var at extract.Place
		for _, p := range r.Places {
			if p.Line <= int64(i+1) {
				at = p
			}
		}
		if got := fmt.Sprintf("row %d", at.Row+int64(i+1)-at.Line); got != line || at.Name != "sheet A" {
			t.Errorf("line %d is %q, but its place says %q", i+1, line, got)
		}
		seen++
	}
	if seen != 4 {
		t.Errorf("%d rows: %q", seen, r.Text)
	}
}

func TestSniff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, mediaType, head string
		utf8                  bool
		want                  extract.Kind
	}{
		{"a.txt", "text/plain", "text", true, extract.Plain},
		{"a.csv", "application/vnd.ms-excel", "a;b", true, extract.Plain},
		{"a.ts", "video/mp2t", "let x = 1", true, extract.Plain},
		{"a.svg", "image/svg+xml", "<svg>", true, extract.Plain},
		{"", "", "", true, extract.Plain},
		{"a.txt", "text/plain", "Gr\xf6\xdfe", false, extract.Readable},
		{"BMW.txt", "", "BMW f\xe4hrt", false, extract.Readable},
		{"a.html", "", "<p>", true, extract.Readable},
		{"a", "text/html; charset=utf-8", "<p>", true, extract.Readable},
		{"page.txt", "", "\n<!DOCTYPE html><p>", true, extract.Readable},
		{"page.php", "", "<!DOCTYPE html><?php", true, extract.Plain},
		{"a.json", "", "{}", true, extract.Readable},
		{"a.eml", "", "From: a", true, extract.Readable},
		{"a.rtf", "", `{\rtf1`, true, extract.Readable},
		{"a.png", "image/png", "%PDF-1.7", false, extract.Readable},
		{"a.docx", "", "PK\x03\x04", false, extract.Readable},
		{"a.html", "text/html", "\x89PNG\r\n\x1a\n", false, extract.Unreadable},
		{"a.pdf", "application/pdf", "\xff\xd8\xff\xe0", false, extract.Unreadable},
		{"a.tar.gz", "", "\x1f\x8b\x08", false, extract.Unreadable},
		{"a.bmp", "", "BM\x36\x00\x00\x00\x00\x00\x00\x00\x36\x00", false, extract.Unreadable},
	} {
		if got := extract.Sniff(c.name, c.mediaType, []byte(c.head), c.utf8); got != c.want {
			t.Errorf("%s %s %q: %s, not %s", c.name, c.mediaType, c.head, got, c.want)
		}
	}
}

func TestKindOfJSON(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]extract.Kind{
		`{"a": "ä"}`:              extract.Plain,
		`{"a": "\u00e4"}`:         extract.Readable,
		`{"a": "` + "\xe4" + `"}`: extract.Readable,
	} {
		if got := extract.KindOf("a.json", "application/json", []byte(content)); got != want {
			t.Errorf("%q: %s, not %s", content, got, want)
		}
	}
	if got := extract.KindOf("a.html", "", []byte("<p>")); got != extract.Readable {
		t.Error(got)
	}
}

func FuzzDOCX(f *testing.F) {
	f.Add("<document><body><p><pPr><pStyle val='a'/></pPr><r><t>x</t></r></p><tbl><tr><tc><p/></tc></tr></tbl></body></document>", "")
	f.Add("</p></tr></tc></tbl><tc></tc><tr></tr>", "<num numId='1'/><lvl ilvl='-1'/>")
	f.Add("<document><p><pPr><numPr><ilvl val='8'/><numId val='1'/></numPr></pPr><r><t>x</t></r></p></document>",
		"<numbering><abstractNum abstractNumId='0'><lvl ilvl='8'><start val='-1'/><numFmt val='upperRoman'/><lvlText val='%1.%9'/></lvl></abstractNum><num numId='1'><abstractNumId val='0'/><lvlOverride ilvl='9'><startOverride val='4000'/></lvlOverride></num></numbering>")
	f.Fuzz(func(t *testing.T, body, numbering string) {
		sound(t, "a.docx", string(makeZip(entry{"word/document.xml", body}, entry{"word/numbering.xml", numbering}, entry{"word/_rels/document.xml.rels", rels("numbering", "numbering.xml")})))
	})
}

func FuzzPPTX(f *testing.F) {
	f.Add("<sld><sp><ph type='title'/><txBody><p><r><t>x</t></r></p></txBody></sp></sld>", "<presentation xmlns:r='x'><sldIdLst><sldId r:id='rId1'/></sldIdLst></presentation>")
	f.Add("<sld><ser><tx><v>a</v></tx><val><pt idx='-1'><v>1</v></pt><pt idx='999'><v>2</v></pt></val></ser></sld>", "<presentation xmlns:r='x'><sldIdLst><sldId r:id='rId1'/></sldIdLst></presentation>")
	f.Fuzz(func(t *testing.T, slide, main string) {
		sound(t, "a.pptx", string(makeZip(entry{"ppt/presentation.xml", main}, entry{"ppt/slide.xml", slide}, entry{"ppt/_rels/presentation.xml.rels", rels("slide", "slide.xml")},
			entry{"ppt/_rels/slide.xml.rels", rels("chart", "slide.xml")})))
	})
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"text", "\xff\xfea\x00", "Gr\xf6\xdfe", `{"a":"\ud83d\ude00"}`, "<p>a<table><tr><td>b</table>", "Subject: =?utf-8?q?x?=\r\n\r\n--a"} {
		f.Add("a.txt", "text/plain; charset=x", s)
		f.Add("a.html", "", s)
		f.Add("a.json", "", s)
		f.Add("a.eml", "", s)
	}
	f.Fuzz(func(t *testing.T, name, mediaType, content string) { sound(t, name+"", content, mediaType) })
}

// sound reads a document and checks what holds for each result.
func sound(t *testing.T, name, content string, mediaType ...string) {
	if strings.Contains(content[:min(len(content), 1024)], "%PDF-") {
		return // compiling the reader takes long under the fuzzer
	}
	r := read(t, extract.Document{Name: name, MediaType: strings.Join(mediaType, "")}, content)
	text := string(r.Text)
	lines := int64(strings.Count(text, "\n")) + 1
	for _, p := range r.Places {
		if p.Line < 1 || p.Line > lines || p.Page < 1 {
			t.Errorf("the place %+v is not in %d lines", p, lines)
		}
	}
	readable := r.Status == extract.Ready || r.Status == extract.Partial
	if !readable && len(r.Text) > 0 || r.Status == extract.Pending || r.Status == "" || r.Status == extract.Failed || strings.Contains(r.Note, "reader failed") {
		t.Errorf("%+v", r)
	}
	if len(text) > extract.MaxText || strings.ToValidUTF8(text, "") != text || strings.Contains(text, "\x00") {
		t.Errorf("%d bytes of text: %.100q", len(text), text)
	}
}
