package extract_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/htmlindex"

	"stoa/internal/base/extract"
	"stoa/internal/base/extract/extracttest"
)

// A planted sentence of a document, and the place where it must be found.
type planted struct{ text, place string }

// A sample is a document of the corpus.
type sample struct {
	name      string
	content   []byte
	sentences []planted
	absent    string // must not be in the text
}

// western are sentences whose letters are in Windows-1252; %d makes them unique.
var western = []string{
	"The warehouse in Oslo received %d parcels before noon.",
	"Die Größe des Gebäudes in Köln beträgt %d Quadratmeter.",
	"Le café près de la forêt a vendu %d pâtisseries à midi.",
	"El señor Muñoz compró %d camiones en la ciudad de Cádiz.",
	"A ação da câmara rendeu %d euros à associação no verão.",
	"Försäljningen ökade med %d enheter på väg till Malmö.",
}

// others are sentences in other scripts and alphabets.
var others = []string{
	"Склад в Новосибирске получил %d посылок до полудня.",
	"Η αποθήκη στην Αθήνα παρέλαβε %d δέματα πριν το μεσημέρι.",
	"仓库在中午之前收到了%d个包裹并且全部登记入库。",
	"倉庫は正午までに%d個の荷物を受け取りました。",
	"창고는 정오 전에 소포 %d개를 받았습니다.",
	"Magazyn w Łodzi przyjął %d paczek przed południem, źródło: dział łączności.",
	"Depo öğleden önce İstanbul'da %d koli teslim aldı, şoför geç kaldı.",
	"Kho hàng ở Đà Nẵng đã nhận %d kiện hàng trước buổi trưa.",
}

// sentences returns the i-th set of n sentences.
func sentences(list []string, i, n int) (out []string) {
	for j := range n {
		out = append(out, fmt.Sprintf(list[(i+j)%len(list)], 10_000+100*i+j))
	}
	return out
}

// pages returns the sentences of pages, and what has to be found where.
func pages(list []string, i, pages, each int, place string) (out [][]string, found []planted) {
	for p := range pages {
		texts := sentences(list, i*7+p, each)
		for j := range texts { // unique within the document
			texts[j] = strings.ReplaceAll(texts[j], fmt.Sprint(10_000+100*(i*7+p)+j), fmt.Sprint(100_000+i*1000+p*50+j))
		}
		out = append(out, texts)
		for _, s := range texts {
			where := ""
			if place != "" {
				where = fmt.Sprintf(place, p+1)
			}
			found = append(found, planted{s, where})
		}
	}
	return out, found
}

// corpus returns the documents of the corpus.
func corpus(t *testing.T) (list []sample) {
	add := func(s sample) { list = append(list, s) }
	all := append(append([]string{}, western...), others...)
	forms := []pdfForm{
		{},
		{flate: true},
		{objects: true},
		{flate: true, font: "differences"},
		{font: "mapped"},
		{flate: true, font: "cid"},
		{objects: true, font: "cid"},
		{columns: true},
		{columns: true, flate: true, font: "cid"},
		{kerning: true},
		{kerning: true, font: "cid", flate: true},
		{hex: true, xobject: true},
		{xobject: true, font: "cid", objects: true},
		{rotate: 90},
		{tree: true, flate: true},
		{password: "-"},
		{password: "-", flate: true, font: "cid"},
		{width: 30},
		{font: "mapped", flate: true, tree: true},
		{rotate: 90, font: "cid"},
	}
	for i, form := range forms {
		for _, n := range []int{2, 7} {
			texts := western
			if form.font == "cid" {
				texts = all
			}
			in, found := pages(texts, len(list), n, 5, "p. %d")
			add(sample{name: fmt.Sprintf("%d-%d.pdf", i, n), content: makePDF(form, in), sentences: found})
		}
	}
	for i, form := range []docxForm{{}, {runs: true}, {lists: true}, {table: true}, {nested: true}, {notes: true}, {box: true}, {tracked: true}, {controls: true}, {table: true, runs: true}, {notes: true, runs: true}, {lists: true, runs: true}} {
		for _, n := range []int{1, 4} {
			in, found := pages(all, len(list), n, 6, "")
			add(sample{name: fmt.Sprintf("%d-%d.docx", i, n), content: makeDOCX(form, in), sentences: found, absent: "DELETED"})
		}
	}
	for i, form := range []pptxForm{{}, {notes: true}, {table: true}, {group: true}, {order: true}, {notes: true, order: true, group: true}, {table: true, order: true}, {smart: true}} {
		for _, n := range []int{3, 12} {
			in, found := pages(all, len(list), n, 4, "slide %d")
			add(sample{name: fmt.Sprintf("%d-%d.pptx", i, n), content: makePPTX(form, in), sentences: found, absent: "DELETED"})
		}
	}
	for i := range 14 {
		in, found := pages(all, len(list), 3, 6, "sheet Table %d")
		content, more := makeXLSX(t, in, i)
		add(sample{name: fmt.Sprintf("%d.xlsx", i), content: content, sentences: append(found, more...)})
	}
	for i := range 12 {
		in, found := pages(all, len(list), 1, 6, "")
		add(sample{name: fmt.Sprintf("%d.html", i), content: makeHTML(in[0], i), sentences: found, absent: "DELETED"})
	}
	for i := range 12 {
		in, found := pages(all, len(list), 1, 4, "")
		add(sample{name: fmt.Sprintf("%d.eml", i), content: makeEML(in[0], i), sentences: found, absent: "DELETED"})
	}
	for i := range 4 {
		in, found := pages(all, len(list), 1, 8, "")
		var b strings.Builder
		b.WriteString("{\"list\": [\n")
		for _, s := range in[0] {
			b.WriteString("  \"")
			for _, r := range s {
				if r < 0x80 {
					b.WriteRune(r)
				} else {
					fmt.Fprintf(&b, `\u%04x`, r)
				}
			}
			b.WriteString("\",\n")
		}
		add(sample{name: fmt.Sprintf("%d.json", i), content: []byte(b.String() + "null]}"), sentences: found})
	}
	return list
}

// makeXLSX returns a workbook. Further sentences are the forms in which dates and numbers are
// shown.
func makeXLSX(t *testing.T, sheets [][]string, i int) (content []byte, shown []planted) {
	book := excelize.NewFile()
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	date, err := book.NewStyle(&excelize.Style{CustomNumFmt: new("yyyy-mm-dd")})
	check(err)
	money, err := book.NewStyle(&excelize.Style{NumFmt: 4})
	check(err)
	for s, texts := range sheets {
		name := fmt.Sprintf("Table %d", s+1)
		_, err := book.NewSheet(name)
		check(err)
		for r, text := range texts {
			row := 1 + r*(1+i%3) // with gaps in most workbooks
			if i%5 == 4 {
				row += r * 500
			}
			check(book.SetCellStr(name, fmt.Sprintf("B%d", row), text))
			check(book.SetCellInt(name, fmt.Sprintf("A%d", row), int64(row)))
		}
		day := time.Date(2026, 3, 1+s, 0, 0, 0, 0, time.UTC)
		check(book.SetCellValue(name, "D1", day))
		check(book.SetCellStyle(name, "D1", "D1", date))
		check(book.SetCellFloat(name, "E1", 12345.5, 2, 64))
		check(book.SetCellStyle(name, "E1", "E1", money))
		shown = append(shown, planted{day.Format(time.DateOnly), "sheet " + name}, planted{"12,345.50", "sheet " + name})
	}
	check(book.DeleteSheet("Sheet1"))
	var b bytes.Buffer
	check(book.Write(&b))
	return b.Bytes(), shown
}

func makeHTML(texts []string, i int) []byte {
	wrap := []string{"<p>%s</p>", "<div><span>%s</span></div>", "<ul><li>%s</ul>", "<table><tr><td>%s<td>x</table>", "<h2>%s</h2>", "<pre>%s</pre>", "<blockquote>%s"}
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><html><head><title>Stock</title><style>p{color:DELETED}</style><script>var a='DELETED'</script></head><body><nav>DELETED menu</nav>")
	for j, s := range texts {
		if i%2 == 1 { // markup within words, and entities
			r := []rune(s)
			s = string(r[:1]) + "<i>" + string(r[1:2]) + "</i>" + string(r[2:])
			s = strings.NewReplacer("ö", "&ouml;", "é", "&eacute;", " ", " <b></b>").Replace(s)
		}
		fmt.Fprintf(&b, wrap[(i+j)%len(wrap)], s)
	}
	b.WriteString("<template>DELETED</template><p hidden>DELETED</p></body></html>")
	return []byte(b.String())
}

func makeEML(texts []string, i int) []byte {
	subject, body := texts[0], strings.Join(texts[1:], "\r\n\r\n")
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: =?utf-8?q?J=C3=B6rg?= <joerg@example.org>\r\nTo: you@example.org\r\nSubject: %s\r\nMIME-Version: 1.0\r\n", mime.BEncoding.Encode("utf-8", subject))
	part := func(kind, text, encoding string) {
		fmt.Fprintf(&b, "Content-Type: %s; charset=utf-8\r\nContent-Transfer-Encoding: %s\r\n\r\n", kind, encoding)
		switch encoding {
		case "base64":
			b.WriteString(base64.StdEncoding.EncodeToString([]byte(text)))
		case "quoted-printable":
			w := quotedprintable.NewWriter(&b)
			w.Write([]byte(text))
			w.Close()
		default:
			b.WriteString(text)
		}
		b.WriteString("\r\n")
	}
	encoding := []string{"8bit", "base64", "quoted-printable"}[i%3]
	switch i % 4 {
	case 0:
		part("text/plain", body, encoding)
	case 1:
		part("text/html", string(makeHTML(texts[1:], i)), encoding)
	case 2: // both forms
		b.WriteString("Content-Type: multipart/alternative; boundary=xx\r\n\r\n--xx\r\n")
		part("text/plain", body, encoding)
		b.WriteString("--xx\r\n")
		part("text/html", "<p>DELETED, the other form</p>", encoding)
		b.WriteString("--xx--\r\n")
	case 3: // with an attachment
		b.WriteString("Content-Type: multipart/mixed; boundary=\"y y\"\r\n\r\n--y y\r\n")
		part("text/plain", body, encoding)
		b.WriteString("--y y\r\nContent-Type: image/png; name=a.png\r\nContent-Disposition: attachment; filename*=utf-8''R%C3%A9sum%C3%A9.png\r\n\r\n\x89PNG\r\n\x1a\nDELETED\r\n--y y--\r\n")
	}
	return b.Bytes()
}

// plain collapses white space, which lines and cells change. Scripts without spaces lose all
// of it.
func plain(s string) string { return strings.Join(strings.Fields(s), " ") }

func dense(s string) string { return strings.Join(strings.Fields(s), "") }

// textAt returns the text at a place, or all of it.
func textAt(r extract.Result, place string) string {
	text := string(r.Text)
	if place == "" {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	text = ""
	for i, at := range r.Places {
		if at.Name != place {
			continue
		}
		to := len(lines)
		if i+1 < len(r.Places) {
			to = int(r.Places[i+1].Line) - 1
		}
		text += strings.Join(lines[at.Line-1:to], "")
	}
	return text
}

// found reports whether a sentence is in a text at its place.
func found(r extract.Result, p planted) bool {
	text := textAt(r, p.place)
	return strings.Contains(plain(text), plain(p.text)) || strings.ContainsAny(p.text, "中包倉") && strings.Contains(dense(text), dense(p.text))
}

// TestCorpus reads documents with known sentences. At least 98 of 100 sentences must be found
// at their places.
func TestCorpus(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the readers share nothing")
	}
	s := service(extract.Config{})
	if err := s.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	docs := corpus(t)
	if len(docs) < 120 {
		t.Errorf("%d documents, 120 are promised", len(docs))
	}
	total, hits := 0, 0
	for i, d := range docs {
		var reader extract.Reader = s
		if i%4 != 0 && !strings.HasSuffix(d.name, ".pdf") { // each start of a child costs time
			reader = extracttest.Direct{}
		}
		r, err := reader.Read(t.Context(), extract.Document{Name: d.name, Content: bytes.NewReader(d.content)})
		if err != nil || r.Status != extract.Ready {
			t.Errorf("%s: %v %s %s", d.name, err, r.Status, r.Note)
			continue
		}
		for _, p := range d.sentences {
			total++
			if found(r, p) {
				hits++
			} else {
				t.Logf("%s: not found: %q at %q", d.name, p.text, p.place)
			}
		}
		if d.absent != "" && bytes.Contains(r.Text, []byte(d.absent)) {
			t.Errorf("%s: a text that is not part of the document was read:\n%s", d.name, r.Text)
		}
	}
	t.Logf("%d documents, %d of %d sentences", len(docs), hits, total)
	if hits*100 < total*98 {
		t.Errorf("%d of %d sentences were found", hits, total)
	}
}

// TestEncodings reads texts in 16 encodings, of which only those in some byte orders and
// alphabets are certain without a declaration.
func TestEncodings(t *testing.T) {
	t.Parallel()
	texts := map[string]string{"en": western[0], "de": western[1], "fr": western[2], "es": western[3], "pt": western[4], "sv": western[5], "ru": others[0], "el": others[1], "zh": others[2], "ja": others[3], "ko": others[4], "pl": others[5], "tr": others[6]}
	total, hits := 0, 0
	for _, c := range []struct{ encoding, languages string }{
		{"utf-8", "en de fr ru el zh ja ko pl tr"},
		{"utf-16le", "en de ru el zh ja ko pl"},
		{"utf-16be", "en de ru el zh ja ko pl"},
		{"windows-1252", "en de fr es pt sv"},
		{"iso-8859-15", "de fr es pt"},
		{"windows-1250", "pl de"},
		{"iso-8859-2", "pl"},
		{"windows-1251", "ru"},
		{"koi8-r", "ru"},
		{"windows-1253", "el"},
		{"windows-1254", "tr"},
		{"gb18030", "zh en"},
		{"big5", "tw"},
		{"shift_jis", "ja"},
		{"euc-jp", "ja"},
		{"euc-kr", "ko"},
	} {
		e, err := htmlindex.Get(c.encoding)
		if err != nil {
			t.Fatal(err)
		}
		for lang := range strings.FieldsSeq(c.languages) {
			pattern := texts[lang]
			if lang == "tw" {
				pattern = "倉庫在中午之前收到了%d個包裹並且全部登記入庫。"
			}
			var b strings.Builder
			var want []planted
			for i := range 20 {
				s := fmt.Sprintf(pattern, 7000+i)
				b.WriteString(s + "\n")
				want = append(want, planted{s, ""})
			}
			content, err := e.NewEncoder().String(b.String())
			if err != nil {
				t.Fatal(c.encoding, lang, err)
			}
			for how, d := range map[string]extract.Document{
				"declared": {Name: "a.csv", MediaType: "text/csv; charset=" + c.encoding},
				"owner":    {Name: "a.txt", MediaType: "text/plain; charset=us-ascii", Encoding: c.encoding},
				"guessed":  {Name: "a.txt", MediaType: "text/plain"},
			} {
				d.Content = strings.NewReader(content)
				r, err := extracttest.Direct{}.Read(t.Context(), d)
				if err != nil {
					t.Fatal(err)
				}
				if how == "guessed" && r.Status == extract.UnknownEncoding {
					t.Logf("%s %s is not certain", c.encoding, lang)
					continue // as it should be said
				}
				for _, p := range want {
					total++
					if found(r, p) {
						hits++
					}
				}
				if !found(r, want[0]) {
					t.Logf("%s %s %s: %s %s %s %.100s", c.encoding, lang, how, r.Status, r.Encoding, r.Note, r.Text)
				}
			}
		}
	}
	t.Logf("%d of %d sentences", hits, total)
	if hits*100 < total*98 {
		t.Errorf("%d of %d sentences were found", hits, total)
	}
}

// TestCorpusOfLibreOffice reads files that LibreOffice 7.4 has written: the .fod? files in
// testdata/libreoffice are their sources.
func TestCorpusOfLibreOffice(t *testing.T) {
	t.Parallel()
	text := []planted{
		{"The warehouse in Oslo received 70001 parcels before noon.", "p. 1"},
		{"Die Größe des Gebäudes in Köln beträgt 70002 Quadratmeter.", "p. 1"},
		{"Le café près de la forêt a vendu 70003 pâtisseries à midi.", "p. 1"},
		{"Склад в Новосибирске получил 70004 посылок до полудня.", "p. 1"},
		{"Η αποθήκη στην Αθήνα παρέλαβε 70005 δέματα πριν το μεσημέρι.", "p. 1"},
		{"Magazyn w Łodzi przyjął 70006 paczek przed południem, źródło: dział łączności.", "p. 2"},
		{"The office staff filed difficult affidavits about 70007 offices and flows.", "p. 2"},
	}
	slides := []planted{
		{"The warehouse in Oslo received 71001 parcels before noon.", "slide 1"},
		{"Die Größe des Gebäudes in Köln beträgt 71002 Quadratmeter.", "slide 1"},
		{"Notes: Le café près de la forêt a vendu 71003 pâtisseries à midi.", "slide 1"},
		{"Склад в Новосибирске получил 71004 посылок до полудня.", "slide 2"},
		{"El señor Muñoz compró 71005 camiones en la ciudad de Cádiz.", "slide 2"},
	}
	placed := func(list []planted, change func(p *planted)) (out []planted) {
		for _, p := range list {
			change(&p)
			out = append(out, p)
		}
		return out
	}
	nowhere := func(p *planted) { p.place = "" }
	for name, list := range map[string][]planted{
		"real.pdf":  text,
		"real.docx": append(placed(text, nowhere), planted{"# Report of the warehouse", ""}, planted{"- Second item", ""}),
		"real.html": append(placed(text, nowhere), planted{"# Report of the warehouse", ""}, planted{"- Second item", ""}),
		"real.pptx": slides,
		"slides.pdf": placed(append(slides[:2:2], slides[3:]...), func(p *planted) {
			p.place = strings.Replace(p.place, "slide", "p.", 1)
		}),
		"real.xlsx": {
			{"The warehouse in Oslo received 72001 parcels before noon. | 17.03.2026 | 2 | 42", "sheet Stock"},
			{"Die Größe des Gebäudes in Köln beträgt 72002 Quadratmeter.", "sheet Größe"},
		},
	} {
		content, err := os.ReadFile(filepath.Join("testdata/libreoffice", name))
		if err != nil {
			t.Fatal(err)
		}
		r, err := extracttest.Direct{}.Read(t.Context(), extract.Document{Name: name, Content: bytes.NewReader(content)})
		if err != nil || r.Status != extract.Ready {
			t.Errorf("%s: %v %s %s", name, err, r.Status, r.Note)
		}
		for _, p := range list {
			if !found(r, p) {
				t.Errorf("%s: %q at %q:\n%s", name, p.text, p.place, r.Text)
			}
		}
	}
}

// TestGuessedEncodings checks that a guess is right, and that no guess is made for encodings
// of the Latin alphabet that would decode the text with other letters.
func TestGuessedEncodings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ encoding, text, want string }{
		{"windows-1252", "Le café près de la forêt a vendu des pâtisseries à midi.", "windows-1252"},
		{"windows-1252", "Perché la città è così bella? Il lunedì non c’è più nessuno.", "windows-1252"},
		{"windows-1252", "Die Straße – „schön“ – kostet 20 €.", "windows-1252"},
		{"windows-1252", "Blåbærgrød er godt på søndag, og det er ikke dyrt.", "windows-1252"},
		{"windows-1250", "Die Straße ist schön.", "windows-1252"}, // the same bytes
		{"macintosh", "Die Straße ist schön.", ""},
		{"windows-1250", "A nagy ház mellett egy öreg fa állt, mert az őszi szél fújt.", ""},
		{"iso-8859-2", "Gdzie są pieniądze? Zażółć gęślą jaźń.", ""},
		{"windows-1250", "Příliš žluťoučký kůň úpěl ďábelské ódy.", ""},
		{"windows-1254", "Çünkü öğretmen güneşli günlerde bahçeye çıkmayı severdi.", ""},
		{"iso-8859-16", "Țara are mulți oameni și o capitală frumoasă.", ""},
		{"windows-1256", "استلم المستودع الطرود قبل الظهر وكان الجميع متعبين.", "windows-1256"},
		{"iso-8859-6", "استلم المستودع الطرود قبل الظهر وكان الجميع متعبين.", "iso-8859-6"},
		{"koi8-u", "Склад отримав посилки до полудня, і всі були втомлені, її та інші.", "koi8-u"},
		{"iso-2022-jp", "倉庫は正午までに荷物を受け取りました。", "iso-2022-jp"},
		{"windows-1255", "המחסן קיבל את החבילות לפני הצהריים. כולם היו עייפים.", "windows-1255"},
		{"windows-874", "คลังสินค้าได้รับพัสดุก่อนเที่ยงวัน และทุกคนเหนื่อยมาก", "windows-874"},
		{"ibm866", others[0], "ibm866"},
		{"big5", strings.Repeat("倉庫在中午之前收到了包裹並且全部登記入庫。", 10), "big5"},
	} {
		e, err := htmlindex.Get(c.encoding)
		if err != nil {
			t.Fatal(err)
		}
		content, err := e.NewEncoder().String(c.text)
		if err != nil {
			t.Fatal(c.encoding, err)
		}
		r := read(t, extract.Document{Name: "a.txt"}, content)
		switch {
		case r.Encoding != c.want:
			t.Errorf("%s %s: %s %q, not %q", c.encoding, c.text, r.Status, r.Encoding, c.want)
		case c.want != "" && string(r.Text) != c.text:
			t.Errorf("%s: %s", c.encoding, r.Text)
		case c.want == "" && r.Status != extract.UnknownEncoding:
			t.Errorf("%s: %s", c.encoding, r.Status)
		}
	}
}
