package drive_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/drive"
	"stoa/internal/storetest"
)

// alikeFiles are written in this order.
func alikeFiles() (files [][2]string) {
	add := func(path, text string) { files = append(files, [2]string{path, text}) }
	add("handbook/refunds.md", "# Refunds\n\nA customer gets a refund within 14 days. Refunds of gift cards are refused.\nAsk the manager for a refund above 500 euros.\n")
	add("handbook/shipping.md", "# Shipping\n\nParcels leave the warehouse every evening. Shipping to Norway takes 5 days.\nThe customer pays for express shipping.\n")
	add("handbook/holidays.md", "# Holidays\n\nThe warehouse is closed on holidays. Employees ask their manager for holidays in advance.\n")
	add("de/rechnung.md", "Die Rechnung enthält die Umsatzsteuer. Größere Aufträge müssen genehmigt werden.\nÜberweisungen dauern drei Tage. Straße und Hausnummer gehören in die Anschrift.\n")
	add("de/kündigung.md", "Die Kündigung ist schriftlich. Die Kündigungsfrist beträgt vier Wochen zum Monatsende.\n")
	add("fr/congés.md", "L’été, les congés sont pris à tour de rôle. L'entrepôt est fermé en août.\n")
	add("ja/返品.md", "商品の返品は十四日以内にお願いします。返品送料はお客様の負担です。\n東京の倉庫は日曜日に休みます。\n")
	add("zh/退款.md", "客户可以在十四天内申请退款。退款将退回原来的银行卡。\n")
	add("th/คืนเงิน.md", "ลูกค้าสามารถขอคืนเงินได้ภายในสิบสี่วัน\n")
	add("ru/возврат.md", "Возврат товара возможен в течение 14 дней. Ёлка стоит на складе.\n")
	add("code/parse_query.go", "package query\n\n// parseQuery splits a query.\nfunc parseQuery(text string) []term {\n\tmax_terms := 32\n\treturn nil // HTTPServer2 x86_64 utf-8\n}\n")
	add("code/server.py", "def handle_request(self, request_id):\n    # request_id is a uuid4\n    return self.http_server.reply(request_id, status=404)\n")
	add("data/numbers.csv", "order,total\n1001,19.99\n1002,250.00\n1003,19.99\n2026-11-22,7\n")
	add("notes/plural.txt", "boxes of matches; cities, classes and buses; one box, one match, one city, one class, one bus\n")
	add("notes/hyphens.txt", "The state-of-the-art e-mail system was re-opened. A well-known, long-term plan.\n")
	add("notes/stop.txt", "to be or not to be, that is the question\n")
	add("notes/don't.txt", "I don't know what they can't do. It's the customer's parcel.\n")
	for _, name := range []string{"b", "a", "c"} {
		add("same/"+name+".txt", "identical words stand here\n")
	}
	var long strings.Builder
	for i := range 400 {
		fmt.Fprintf(&long, "Entry %d of the journal tells how the lighthouse was kept on day %d.\n", i, i*7)
		if i%100 == 50 {
			long.WriteString("A storm broke the lantern and the keeper wrote to the harbour master.\n")
		}
	}
	add("long/journal.txt", long.String())
	add("long/harbour.txt", "The harbour master keeps the book of storms. The harbour is closed in a storm.\n")
	add("lantern/list.txt", "Oil, wicks and glass.\n")
	add("gadget/one.txt", "a thing with many parts\n")
	add("tools/two.txt", "a gadget with many parts\n")
	for i := range 60 {
		add(fmt.Sprintf("many/file%02d.txt", i), fmt.Sprintf("ballast number%d and nothing else\n", i))
	}
	return files
}

// alikeQueries are searches with the differences between the databases; see the guide to
// drives. "" means that the hits are the same passages in the same order. Where documents
// differ there are more hits than requested.
var alikeQueries = []struct{ query, differs string }{
	// Words, plurals, stop words.
	{query: "refund"},
	{query: "refunds"},
	{query: "Customer"},
	{query: "manager"},
	{query: "warehouse"},
	{query: "warehouse closed"},
	{query: "holiday manager"},
	{query: "to be or not to be"},
	{"the", "order of documents"},
	{query: "is the"},
	{query: "box"},
	{query: "boxes"},
	{query: "city"},
	{query: "cities"},
	{query: "class"},
	{query: "match"},
	{query: "bus"},
	// Some of the words, none of them together.
	{"refund shipping", "order of documents"},
	{query: "norway august"},
	{"customer lantern", "order of documents"},
	{query: "manager parcels zebra"},
	{query: "harbour warehouse"},
	// Phrases.
	{query: `"gift cards"`},
	{query: `"cards gift"`},
	{query: `"the question"`},
	{query: `"harbour master"`},
	{query: `"state of the art"`},
	{query: `"customer pays" express`},
	// German, French, Russian, and scripts without spaces.
	{query: "größere"},
	{query: "grossere"},
	{query: "GRÖSSERE"},
	{query: "strasse"},
	{query: "Straße"},
	{query: "kündigung"},
	{query: "kundigung"},
	{query: "überweisung"},
	{query: "été"},
	{query: "l’été"},
	{query: "congés"},
	{query: "возврат"},
	{query: "ёлка"},
	{query: "елка"},
	{query: "返品"},
	{query: "東京の倉庫"},
	{query: "品"},
	{query: "退款"},
	{query: "银行卡"},
	{query: "คืนเงิน"},
	{query: "返品 refund"},
	// Identifiers, numbers, hyphens, apostrophes.
	{query: "parseQuery"},
	{query: "parse_query"},
	{query: "request_id"},
	{query: "HTTPServer2"},
	{query: "http server"},
	{query: "x86_64"},
	{query: "utf-8"},
	{query: "404"},
	{query: "19.99"},
	{query: "1001"},
	{query: "2026-11-22"},
	{query: "14"},
	{query: "e-mail"},
	{query: "email"},
	{query: "well known"},
	{query: "long-term"},
	{query: "don't"},
	{query: "dont"},
	{query: "customer's"},
	// Prefixes, paths.
	{query: "ship"},
	{query: "ware"},
	{query: "question ware"},
	{query: "umsatz"},
	{"light", "passages"},
	{"journ", "passages"},
	{query: "handbook"},
	{query: "lantern"},
	{query: "gadget"},
	{query: "notes"},
	// Questions.
	{"how do I ask for a refund?", "documents"},
	{"when is the warehouse closed", "documents"},
	{"who keeps the book of storms", "documents"},
	{"what does shipping to Norway cost", "order of documents"},
	{query: "Wie lange dauern Überweisungen?"},
	// Files of many passages, equal scores, more hits than requested.
	{"lighthouse", "passages"},
	{query: "storm"},
	{query: "keeper storm harbour"},
	{query: "identical words"},
	{query: "ballast"},
	{query: "number7"},
	{query: "nowhere"},
}

// documents returns the paths of hits, each once, and their passages.
func documents(hits []drive.Hit) (paths, passages []string) {
	for _, h := range hits {
		if !slices.Contains(paths, h.Path) {
			paths = append(paths, h.Path)
		}
		passages = append(passages, fmt.Sprintf("%s:%d", h.Path, h.FirstLine))
	}
	return paths, passages
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// differs describes the differences between the hits of two databases.
func differs(a, b []drive.Hit) string {
	aPaths, aPassages := documents(a)
	bPaths, bPassages := documents(b)
	switch {
	case !sameSet(aPaths, bPaths):
		return "documents"
	case !slices.Equal(aPaths, bPaths):
		return "order of documents"
	case !sameSet(aPassages, bPassages):
		return "passages"
	case !slices.Equal(aPassages, bPassages):
		return "order of passages"
	}
	return ""
}

func TestBothDatabasesFindTheSame(t *testing.T) {
	t.Parallel()
	var drives []*drive.Drives
	for _, home := range []storetest.Database{storetest.New(t), storetest.Postgres(t)} {
		d := open(t, configOf(home), drive.Limits{})
		for _, f := range alikeFiles() {
			put(t, d, f[0], f[1])
		}
		drives = append(drives, d)
	}
	for _, q := range alikeQueries {
		var hits [2][]drive.Hit
		for i, d := range drives {
			var err error
			if hits[i], err = searchDrive(d, t.Context(), who, q.query, "", 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := differs(hits[0], hits[1]); got != q.differs {
			_, a := documents(hits[0])
			_, b := documents(hits[1])
			t.Errorf("%s: %q differs, not %q: SQLite has %q, PostgreSQL %q", q.query, got, q.differs, a, b)
		}
		for i, d := range drives {
			var err error
			if hits[i], err = searchDrive(d, t.Context(), who, q.query, "", 100); err != nil {
				t.Fatal(err)
			}
		}
		a, _ := documents(hits[0])
		b, _ := documents(hits[1])
		if !sameSet(a, b) {
			t.Errorf("%s: SQLite finds %q, PostgreSQL %q", q.query, a, b)
		}
	}
}
