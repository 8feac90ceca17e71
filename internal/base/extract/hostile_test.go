package extract_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"stoa/internal/base/extract"
)

// repeated returns a reader of a text n times.
func repeated(s string, n int) io.Reader {
	return io.LimitReader(&endless{s: s}, int64(len(s)*n))
}

// An endless reader repeats a text.
type endless struct {
	s  string
	at int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(p[n:], e.s[e.at:])
		n, e.at = n+k, (e.at+k)%len(e.s)
	}
	return n, nil
}

// pdfOf returns a file of raw objects; the first one is the catalog.
func pdfOf(objects ...string) string {
	p := &pdfFile{}
	for _, o := range objects {
		p.add("%s", o)
	}
	return string(p.bytes(1))
}

// pdfPage returns a file with one page, whose content is the fourth object.
func pdfPage(content string, more ...string) string {
	return pdfOf(append([]string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> /XObject << /X 6 0 R >> >> >>",
		content, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 7 0 R >>",
	}, more...)...)
}

func rawStream(dict string, data []byte) string {
	return fmt.Sprintf("<< %s /Length %d >>\nstream\n%s\nendstream", dict, len(data), data)
}

// docxOf returns a document with a body.
func docxOf(body string) string {
	return string(makeZip(
		entry{"_rels/.rels", rels("officeDocument", "word/document.xml")},
		entry{"word/document.xml", body},
	))
}

// xlsxOf returns a workbook with one sheet.
func xlsxOf(sheet, strs string) string {
	const main = ` xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"`
	return string(makeZip(
		entry{"[Content_Types].xml", xmlHead + `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>`},
		entry{"_rels/.rels", rels("officeDocument", "xl/workbook.xml")},
		entry{"xl/_rels/workbook.xml.rels", rels("worksheet", "worksheets/sheet1.xml", "sharedStrings", "sharedStrings.xml")},
		entry{"xl/workbook.xml", xmlHead + `<workbook` + main + ` xmlns:r="` + relationTypes + `"><sheets><sheet name="A" sheetId="1" r:id="rId1"/></sheets></workbook>`},
		entry{"xl/sharedStrings.xml", xmlHead + "<sst" + main + ">" + strs + "</sst>"},
		entry{"xl/worksheets/sheet1.xml", xmlHead + "<worksheet" + main + "><sheetData>" + sheet + "</sheetData></worksheet>"},
	))
}

// lying returns an archive whose directory declares that the entries are short.
func lying(archive string) string {
	b := []byte(archive)
	for i := 0; ; {
		n := bytes.Index(b[i:], []byte("PK\x01\x02"))
		if n < 0 {
			return string(b)
		}
		i += n
		binary.LittleEndian.PutUint32(b[i+24:], 10)
		i += 4
	}
}

// overlapping returns an archive whose directory names its first entry n times.
func overlapping(archive string, n int) string {
	end := strings.LastIndex(archive, "PK\x05\x06")
	start := strings.Index(archive, "PK\x01\x02")
	next := strings.Index(archive[start+4:], "PK\x01\x02")
	first := archive[start:end]
	if next >= 0 {
		first = archive[start : start+4+next]
	}
	tail := []byte(archive[end:])
	binary.LittleEndian.PutUint16(tail[8:], uint16(n))
	binary.LittleEndian.PutUint16(tail[10:], uint16(n))
	binary.LittleEndian.PutUint32(tail[12:], uint32(n*len(first)))
	return archive[:start] + strings.Repeat(first, n) + string(tail)
}

// A threat is a document that is made to harm its reader.
type threat struct {
	name    string
	content io.Reader
	want    string // the possible statuses
}

func threats(t *testing.T) (list []threat) {
	addReader := func(name string, content io.Reader, want string) {
		list = append(list, threat{name, content, want})
	}
	add := func(name, content, want string) { addReader(name, strings.NewReader(content), want) }
	const mb = 1 << 20
	spaces := deflated(bytes.Repeat([]byte(" "), 128*mb))
	show := deflated([]byte("BT /F1 10 Tf 10 10 Td " + strings.Repeat("(0123456789) Tj ", 4*mb) + "ET"))

	add("loop of pages.pdf", pdfOf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 3 /Kids [2 0 R 2 0 R] >>"), "broken empty")
	add("many pages declared.pdf", strings.Replace(pdfPage(rawStream("", []byte("BT ET"))), "/Count 1 ", "/Count 2147483647 ", 1), "broken empty partial timeout")
	add("negative number of pages.pdf", strings.Replace(pdfPage(rawStream("", []byte("BT ET"))), "/Count 1 ", "/Count -5 ", 1), "broken empty")
	add("loop of tables.pdf", "%PDF-1.4\n1 0 obj << /Type /Catalog >> endobj\nxref\n0 1\n0000000000 65535 f \ntrailer << /Size 2 /Root 1 0 R /Prev 54 >>\nstartxref\n54\n%%EOF", "broken empty")
	add("spaces of 128 MB.pdf", pdfPage(rawStream("/Filter /FlateDecode", spaces)), "empty broken timeout")
	add("compressed twice.pdf", pdfPage(rawStream("/Filter [/FlateDecode /FlateDecode]", deflated(spaces))), "empty broken timeout")
	add("letters of 64 MB.pdf", pdfPage(rawStream("/Filter /FlateDecode", show)), "partial ready broken timeout")
	add("form within itself.pdf", pdfPage(rawStream("", []byte("/X Do")), rawStream("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>", []byte(strings.Repeat("/X Do ", 1000)))), "empty timeout")
	add("deep arrays.pdf", pdfPage(rawStream("", []byte(strings.Repeat("[", 2*mb)))), "empty broken timeout")
	add("deep dictionaries.pdf", pdfOf(strings.Repeat("<< /A ", mb)), "broken timeout")
	add("deep states.pdf", pdfPage(rawStream("", []byte(strings.Repeat("q ", 2*mb)))), "empty broken timeout")
	add("font that grows.pdf", pdfPage(rawStream("", []byte("BT /F1 9 Tf (a) Tj ET")), "null", rawStream("/Filter /FlateDecode", deflated([]byte("begincmap 1 begincodespacerange <00> <ff> endcodespacerange\n"+strings.Repeat("1 beginbfrange <00000000> <ffffffff> <0041> endbfrange\n", 100_000))))), "ready empty broken timeout")
	add("object of itself.pdf", pdfOf("<< /Type /Catalog /Pages 2 0 R >>", "2 0 R"), "broken")
	add("stream without an end.pdf", "%PDF-1.4\n1 0 obj << /Length 99999999999 >> stream\n", "broken")
	add("half.pdf", string(makePDF(pdfForm{objects: true}, [][]string{{"one"}, {"two"}}))[:700], "broken empty")
	add("noise.pdf", "%PDF-1.7\n"+noise(mb), "broken")
	big, _ := pages(western, 1, 1500, 4, "")
	add("1500 pages.pdf", string(makePDF(pdfForm{flate: true}, big)), "partial")
	addReader("without an end.pdf", &endless{s: "%PDF-1.7\n1 0 obj\n"}, "timeout")

	add("bomb.docx", docxOf("<document><body><p><r><t>"+strings.Repeat("x", 80*mb)+"</t></r></p></body></document>"), "timeout partial")
	add("bomb of tags.docx", docxOf("<document>"+strings.Repeat("<p/>", 30*mb)), "timeout broken")
	add("lie.docx", lying(docxOf("<document><body><p><r><t>"+strings.Repeat("x", 80*mb)+"</t></r></p></body></document>")), "timeout partial broken")
	add("laughs.docx", docxOf(`<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><document><p><r><t>&b;</t></r></p></document>`), "broken")
	add("outside.docx", docxOf(`<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]><document><p><r><t>&a;</t></r></p></document>`), "broken")
	add("path.docx", string(makeZip(entry{"_rels/.rels", rels("officeDocument", "../../../../etc/passwd")})), "none")
	add("deep.docx", docxOf("<document>"+strings.Repeat("<tbl><tr><tc><p>", mb)), "timeout broken")
	add("long attribute.docx", docxOf(`<document a="`+strings.Repeat("x", 60*mb)+`">`), "timeout broken")
	entries := make([]entry, 2500)
	for i := range entries {
		entries[i].name = fmt.Sprint("a", i)
	}
	add("2500 entries.docx", string(makeZip(entries...)), "timeout")
	add("overlap.docx", overlapping(docxOf("<document>"), 1900), "none broken")
	inner := docxOf("<document/>")
	for range 20 {
		inner = string(makeZip(entry{"inner.docx", inner}))
	}
	add("nested.docx", inner, "none")
	add("half.docx", inner[:len(inner)/2], "broken")
	add("slide of itself.pptx", string(makeZip(entry{"_rels/.rels", rels("officeDocument", "ppt/presentation.xml")}, entry{"ppt/_rels/presentation.xml.rels", rels("slide", "presentation.xml")},
		entry{"ppt/presentation.xml", `<presentation xmlns:r="x"><sldIdLst>` + strings.Repeat(`<sldId r:id="rId1"/>`, 100_000) + "</sldIdLst></presentation>"})), "empty")

	add("bomb.xlsx", xlsxOf(strings.Repeat(`<row><c t="inlineStr"><is><t>x</t></is></c></row>`, 3*mb), ""), "timeout")
	add("far cells.xlsx", xlsxOf(strings.Repeat(`<row><c r="XFD1"><v>1</v></c></row>`, 100_000), ""), "partial timeout")
	add("far rows.xlsx", xlsxOf(`<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="A1048576"><v>2</v></c></row>`, ""), "ready")
	add("far numbers.xlsx", xlsxOf(`<row r="999999999999"><c r="ZZZZZZ9"><v>2</v></c></row>`, ""), "ready partial broken empty timeout")
	add("strings.xlsx", xlsxOf(`<row r="1"><c r="A1" t="s"><v>0</v></c></row>`, strings.Repeat("<si><t/></si>", 4*mb)), "timeout empty partial")
	add("lie.xlsx", lying(xlsxOf(strings.Repeat(`<row><c><v>1</v></c></row>`, 3*mb), "")), "timeout broken partial")
	add("encrypted.xlsx", encryptedBook(t), "encrypted")
	add("noise.doc", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"+noise(mb), "unsupported")

	add("deep.html", strings.Repeat("<div>", mb)+"x", "ready")
	add("crossed.html", strings.Repeat("<a><b><i></a>", 200_000), "empty")
	add("comment.html", "<!--"+strings.Repeat("x", 30*mb), "empty timeout")
	add("attribute.html", "<p "+strings.Repeat("a=1 b=2 ", 4*mb)+">x", "ready timeout empty")
	add("table.html", "<table>"+strings.Repeat("<tr><td>x", 2*mb), "partial timeout")

	add("deep.eml", nestedMail(2000), "partial ready broken")
	add("many parts.eml", "Content-Type: multipart/mixed; boundary=a\r\n\r\n"+strings.Repeat("--a\r\n\r\nx\r\n", 100_000), "partial")
	add("long header.eml", "Subject: "+strings.Repeat("=?utf-8?q?x?= ", 4*mb)+"\r\n\r\nx", "ready partial timeout broken")
	add("base64.eml", "Content-Transfer-Encoding: base64\r\n\r\n"+strings.Repeat("QUFB\r\n", 8*mb), "partial timeout")

	add("noise.txt", noise(4*mb), "none unknown_encoding")
	addReader("60 MB.txt", repeated("\xff", 60*mb), "none unknown_encoding")
	addReader("70 MB.txt", repeated("abc\xe4 ", 14*mb), "timeout")
	addReader("without an end.txt", &endless{s: "Gr\xf6\xdfe "}, "timeout")
	add("half a unit.txt", "\xff\xfe"+strings.Repeat("a\x00b\x00", 9)+"c", "ready")
	add("deep.json", strings.Repeat(`["\u00e4`, 2*mb), "partial")
	add("program.docx", "MZ\x90\x00"+noise(10_000), "none unknown_encoding")
	add("picture.pdf", "\x89PNG\r\n\x1a\n"+noise(10_000), "none")
	add("page.docx", "<!DOCTYPE html><p>Not what its name says", "ready")
	add("nothing.pdf", "", "empty")
	return list
}

func noise(n int) string {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	r.Read(b)
	return string(b)
}

func nestedMail(depth int) string {
	var b strings.Builder
	for i := range depth {
		fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n", i, i)
	}
	return b.String() + "\r\nx"
}

func encryptedBook(t *testing.T) string {
	var b bytes.Buffer
	if err := excelize.NewFile().Write(&b, excelize.Options{Password: "x"}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHostile reads documents that are made to harm. Each has a status within the limit of
// time, and the process of the service allocates little. It runs alone, since it measures the
// allocations of this process.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector has no limit of memory")
	}
	// What never ends gets three seconds; what ends may take long on a busy machine.
	hasty, s := service(extract.Config{Timeout: 3 * time.Second}), service(extract.Config{Timeout: time.Minute})
	for _, s := range []*extract.Service{hasty, s} {
		if err := s.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	list := threats(t)
	if len(list) < 40 {
		t.Errorf("%d documents, 40 are promised", len(list))
	}
	for _, d := range list {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		by := s
		if strings.Contains(d.want, string(extract.Timeout)) {
			by = hasty
		}
		r, err := by.Read(t.Context(), extract.Document{Name: d.name, Content: d.content})
		runtime.ReadMemStats(&after)
		grown := after.TotalAlloc - before.TotalAlloc
		t.Logf("%-30s %-10s %5d ms %5d kB %s", d.name, r.Status, time.Since(start).Milliseconds(), grown/1024, r.Note)
		if err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		if !strings.Contains(" "+d.want+" ", " "+string(r.Status)+" ") {
			t.Errorf("%s: %s %s, not %s", d.name, r.Status, r.Note, d.want)
		}
		if grown > 32<<20 {
			t.Errorf("%s: the service allocated %d bytes", d.name, grown)
		}
		if len(r.Text) > extract.MaxText {
			t.Errorf("%s: %d bytes of text", d.name, len(r.Text))
		}
	}
}
