package extract_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding/htmlindex"

	"stoa/internal/base/extract"
)

// TestForeignTextAnywhere puts foreign lines behind up to 900 kB of ASCII, and makes them a thousandth to a half of
// the file: the encoding is found, or said to be unknown, and never taken for another one.
func TestForeignTextAnywhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ encoding, line, want string }{
		{"windows-1251", "Склад подтвердил получение посылок до полудня.", "windows-1251"},
		{"koi8-r", "Склад подтвердил получение посылок до полудня.", "koi8-r"},
		{"shift_jis", "倉庫は正午までに荷物を受け取り、すべて登録しました。", "shift_jis"},
		{"euc-jp", "倉庫は正午までに荷物を受け取り、すべて登録しました。", "euc-jp"},
		{"gb18030", "仓库在中午之前收到了包裹，并且全部登记入库，大家都很高兴。", "gb18030"},
		{"euc-kr", "창고는 정오 전에 소포를 받았고 모두 등록되었습니다.", "euc-kr"},
		{"windows-1253", "Άρα η αποθήκη παρέλαβε τα δέματα πριν από το μεσημέρι.", "windows-1253"},
		{"windows-1252", "Das Lager hat die Pakete für München vor dem Mittag erhalten, und die Größe ist geprüft.", "windows-1252"},
		{"windows-1256", "استلم المستودع الطرود قبل الظهر وكان الجميع متعبين.", "windows-1256"},
		{"windows-1250", "Magazyn w Łodzi potwierdził odbiór paczek przed południem.", ""},
		{"macintosh", "Le café près de la forêt a été vendu à midi.", ""},
	} {
		e, err := htmlindex.Get(c.encoding)
		if err != nil {
			t.Fatal(err)
		}
		line, err := e.NewEncoder().String(c.line)
		if err != nil {
			t.Fatal(c.encoding, err)
		}
		for _, before := range []int{0, 300_000, 900_000} {
			for _, share := range []float64{0.001, 0.01, 0.5} {
				const total = 1_000_000
				foreign := max(3, int(share*total)/(len(line)+20))
				var b strings.Builder
				write := func(n int, line string) {
					for i := range n {
						fmt.Fprintf(&b, "2026-11-28 12:00:%02d;%06d;%s\n", i%60, i, line)
					}
				}
				const plain = "the plain line of a log"
				n := (total - foreign*(len(line)+28)) / (len(plain) + 28)
				first := min(n, before/(len(plain)+28))
				write(first, plain)
				write(foreign, line)
				write(n-first, plain)
				r := read(t, extract.Document{Name: "a.csv"}, b.String())
				name := fmt.Sprintf("%s, %g of the file after %d bytes", c.encoding, share, before)
				switch {
				case c.want == "" && r.Status != extract.UnknownEncoding:
					t.Errorf("%s: %s %q %s", name, r.Status, r.Encoding, r.Note)
				case c.want == "":
				case r.Encoding != c.want || r.Note != "" || strings.Count(string(r.Text), c.line) != foreign:
					t.Errorf("%s: %s %q %s", name, r.Status, r.Encoding, r.Note)
				}
			}
		}
	}
}

// TestShortTables reads what spreadsheets of Japan save, and texts that could be taken for it.
func TestShortTables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ encoding, text, want string }{
		{"shift_jis", "商品名,数量,単価\nりんご,3,120\n", "shift_jis"},
		{"shift_jis", "氏名,住所\n山田太郎,東京都千代田区\n", "shift_jis"},
		{"shift_jis", "日付,担当\n2026-11-28,田中\n", "shift_jis"},
		{"gb18030", "姓名,地址\n王小明,北京市海淀区\n", ""},
		{"windows-1251", "Имя;Город\nАнна;Москва\n", "windows-1251"},
		{"koi8-r", "Имя;Город\nАнна;Москва\n", "koi8-r"},
		{"ibm866", "Имя;Город\nАнна;Москва\n", "ibm866"},
		{"windows-1252", "Prénom;Ville\nÉloïse;Besançon\nThérèse;Orléans\n", ""},
		{"windows-1250", "Imię;Miasto\nŁucja;Łódź\n", ""},
		{"iso-8859-2", "Příjmení;Město\nŠťastný;Plzeň\n", ""},
		{"windows-1254", "Adı;Şehir\nAyşe;İstanbul\n", ""},
		{"windows-1256", "الاسم;المدينة\nأحمد;القاهرة\n", "windows-1256"},
		{"windows-1255", "שם;עיר\nדוד;חיפה\nרות;ירושלים\n", ""},
		{"windows-1253", "Όνομα;Πόλη\nΆννα;Αθήνα\n", ""},
		{"windows-874", "ชื่อ;เมือง\nสมชาย;กรุงเทพ\n", ""},
	} {
		e, err := htmlindex.Get(c.encoding)
		if err != nil {
			t.Fatal(err)
		}
		content, err := e.NewEncoder().String(c.text)
		if err != nil {
			t.Fatal(err)
		}
		r := read(t, extract.Document{Name: "a.csv"}, content)
		if c.want != "" && (r.Encoding != c.want || string(r.Text) != c.text) {
			t.Errorf("%s: %s %q %q", c.text, r.Status, r.Encoding, r.Text)
		}
		if c.want == "" && r.Status != extract.UnknownEncoding && string(r.Text) != c.text {
			t.Errorf("%s: taken for %q: %q", c.text, r.Encoding, r.Text)
		}
	}
}
